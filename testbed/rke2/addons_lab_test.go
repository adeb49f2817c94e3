//go:build lab

package rke2

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/labtest"
	"github.com/plimsoll/plimsoll/testbed/loader"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// A real API server takes every object of every add-on, and a real Prometheus of the same release
// finds by its configuration, with the rights of its account and no more, what it is to read.
func TestAddonsWorkOnARealControlPlane(t *testing.T) {
	l := labtest.Up(t, lab.Config{})
	for _, text := range []string{full, siteText + "addons: {plimsoll: {mode: Recommend}}\n", siteText + "addons: {plimsoll: {mode: Active}}\n"} {
		s := readSite(t, text)
		c := must.Get(newSecrets(someday))(t)
		files := controlFiles(t, s, c)
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if !strings.HasPrefix(name, addonsFolder+"plimsoll-bench") {
				continue
			}
			if err := l.Create(t.Context(), []byte(files[name].Content)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	client := kubernetes.NewForConfigOrDie(l.REST())
	p := &scraped{t: t, client: client, folder: t.TempDir()}
	p.nodes()
	port := application(t)
	annotated := map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": strconv.Itoa(port), "prometheus.io/path": "/metrics"}
	p.pod("loader", map[string]string{"app.kubernetes.io/name": "loader"}, annotated, "http", 8080)
	p.pod("named", nil, nil, "metrics", port)
	p.pod("silent", nil, nil, "http", port)
	p.pod("refuses", nil, map[string]string{"prometheus.io/scrape": "false"}, "metrics", port)
	p.pod("plimsoll", map[string]string{"app.kubernetes.io/name": "plimsoll"}, nil, "metrics", port)
	p.start(l)
	p.finds()
}

// application is where a loader listens that has answered a request.
func application(t *testing.T) int {
	t.Helper()
	work := must.Get(loader.New(loader.Config{Work: loader.Work{Digits: 50}, AtOnce: 1, CallTimeout: time.Second}))(t)
	at := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, end := context.WithCancel(t.Context())
	serves, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- work.Run(ctx, at, func(loader.Calibration) error { close(serves); return nil })
	}()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	<-serves
	url := "http://" + at.Addr().String()
	res := must.Get(http.Get(url + "/"))(t)
	if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
		t.Fatal(res.Status, err)
	}
	return portOf(t, url)
}

// scraped is what the Prometheus of the add-on reads.
type scraped struct {
	t       *testing.T
	client  kubernetes.Interface
	folder  string
	kubelet *httptest.Server
	url     string
}

const token = "a token of a service account"

// nodes puts a node there whose kubelet answers those whose token it knows.
func (p *scraped) nodes() {
	p.kubelet = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token || r.URL.Path != "/metrics/cadvisor" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, "container_cpu_usage_seconds_total{namespace=\"default\",pod=\"loader\",container=\"loader\"} 3\ncontainer_fs_reads_total{pod=\"loader\"} 4\n")
	}))
	p.t.Cleanup(p.kubelet.Close)
	node := must.Get(p.client.CoreV1().Nodes().Create(p.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}, metav1.CreateOptions{}))(p.t)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(portOf(p.t, p.kubelet.URL))
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}
	patch := must.Get(json.Marshal(map[string]any{"status": node.Status}))(p.t)
	must.Get(p.client.CoreV1().Nodes().Patch(p.t.Context(), "worker", "application/merge-patch+json", patch, metav1.PatchOptions{}, "status"))(p.t)
}

// pod puts a pod there that runs on this machine.
func (p *scraped) pod(name string, labels, annotations map[string]string, portName string, port int) {
	p.t.Helper()
	pods := p.client.CoreV1().Pods("default")
	pod := must.Get(pods.Create(p.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: annotations},
		Spec: corev1.PodSpec{
			NodeName: "worker",
			Containers: []corev1.Container{{
				Name: "main", Image: "none", Ports: []corev1.ContainerPort{{Name: portName, ContainerPort: int32(port)}},
			}},
		},
	}, metav1.CreateOptions{}))(p.t)
	pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, "127.0.0.1"
	pod.Status.PodIPs = []corev1.PodIP{{IP: "127.0.0.1"}}
	must.Get(pods.UpdateStatus(p.t.Context(), pod, metav1.UpdateOptions{}))(p.t)
}

// start starts Prometheus with what the ConfigMap holds. In place of what a pod finds in its
// folder, it finds the control plane by a kubeconfig of the same account.
func (p *scraped) start(l *lab.Lab) {
	ctx := p.t.Context()
	held := must.Get(p.client.CoreV1().ConfigMaps("plimsoll-testbed").Get(ctx, "prometheus", metav1.GetOptions{}))(p.t)
	issued := must.Get(p.client.CoreV1().ServiceAccounts("plimsoll-testbed").CreateToken(ctx, "prometheus", &authenticationv1.TokenRequest{}, metav1.CreateOptions{}))(p.t)
	kubeconfig := p.put("kubeconfig", account(p.t, l.REST(), issued.Status.Token))
	p.put("token", []byte(token))
	p.put("ca.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.kubelet.Certificate().Raw}))
	config := strings.ReplaceAll(held.Data["prometheus.yaml"], "/var/run/secrets/kubernetes.io/serviceaccount", p.folder)
	for _, role := range []string{"pod", "node"} {
		config = strings.ReplaceAll(config, "      - role: "+role+"\n", "      - role: "+role+"\n        kubeconfig_file: "+kubeconfig+"\n")
	}
	port := must.Get(lab.FreePort())(p.t)
	config = strings.Replace(config, "localhost:9090", fmt.Sprintf("127.0.0.1:%d", port), 1)
	program := must.Get(l.Tool(ctx, lab.ToolPrometheus))(p.t)
	p.url = fmt.Sprintf("http://127.0.0.1:%d", port)
	process := &lab.Process{
		Path: program, Answers: lab.OK(p.url + "/-/ready"),
		Args: []string{
			"--config.file=" + p.put("prometheus.yaml", []byte(config)), "--storage.tsdb.path=" + filepath.Join(p.folder, "data"),
			"--storage.tsdb.retention.time=" + usualRetention, fmt.Sprintf("--web.listen-address=127.0.0.1:%d", port),
		},
	}
	running := must.Get(process.Start(ctx, l, "bench-prometheus"))(p.t)
	p.t.Cleanup(func() {
		if p.t.Failed() {
			text, _ := os.ReadFile(l.Log("bench-prometheus"))
			p.t.Logf("%s", text)
		}
		if err := running.Stop(context.Background()); err != nil {
			p.t.Error(err)
		}
	})
}

func (p *scraped) put(name string, data []byte) string {
	p.t.Helper()
	file := filepath.Join(p.folder, name)
	must.Do(p.t, os.WriteFile(file, data, 0o600))
	return file
}

// account is a kubeconfig with a token and nothing else.
func account(t *testing.T, cfg *rest.Config, token string) []byte {
	t.Helper()
	must.Do(t, rest.LoadTLSFiles(cfg))
	c := api.NewConfig()
	c.Clusters["lab"] = &api.Cluster{Server: cfg.Host, CertificateAuthorityData: cfg.CAData}
	c.AuthInfos["prometheus"] = &api.AuthInfo{Token: token}
	c.Contexts["lab"] = &api.Context{Cluster: "lab", AuthInfo: "prometheus"}
	c.CurrentContext = "lab"
	return must.Get(clientcmd.Write(*c))(t)
}

// finds waits until Prometheus has read all that it is to read, and nothing else.
func (p *scraped) finds() {
	p.t.Helper()
	want := []string{
		"cadvisor worker up", "plimsoll plimsoll up", "pods default/loader on worker, app loader up", "pods default/named on worker, app  up", "prometheus  up",
	}
	var got []string
	for range 60 {
		if got = p.targets(); cmp.Equal(want, got) {
			break
		}
		time.Sleep(500 * time.Millisecond)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		p.t.Fatal(diff)
	}
	for query, count := range map[string]int{
		`container_cpu_usage_seconds_total{job="cadvisor",node="worker",pod="loader"} == 3`: 1,
		`container_fs_reads_total`: 0,
		`http_server_request_duration_seconds_count{job="pods",pod="loader",http_response_status_code="200",namespace="default"}`: 1,
		`plimsoll_loader_digits{job="plimsoll",instance="plimsoll"}`:                                                              1,
	} {
		var answer struct{ Result []any }
		p.ask("/api/v1/query?query="+url.QueryEscape(query), &answer)
		if len(answer.Result) != count {
			p.t.Errorf("%s: %v, want %d", query, answer.Result, count)
		}
	}
}

// targets are what is read, and whether it answers.
func (p *scraped) targets() []string {
	p.t.Helper()
	var answer struct {
		ActiveTargets []struct {
			Labels map[string]string
			Health string
		}
	}
	p.ask("/api/v1/targets?state=active", &answer)
	var all []string
	for _, target := range answer.ActiveTargets {
		l := target.Labels
		what := map[string]string{
			"pods": fmt.Sprintf("%s/%s on %s, app %s", l["namespace"], l["pod"], l["node"], l["app"]), "plimsoll": l["instance"], "cadvisor": l["node"],
		}[l["job"]]
		all = append(all, fmt.Sprintf("%s %s %s", l["job"], what, target.Health))
	}
	slices.Sort(all)
	return all
}

func (p *scraped) ask(path string, into any) {
	p.t.Helper()
	res := must.Get(http.Get(p.url + path))(p.t)
	defer func() { _ = res.Body.Close() }()
	text := must.Get(io.ReadAll(res.Body))(p.t)
	if err := json.Unmarshal(text, &struct{ Data any }{into}); err != nil || res.StatusCode != http.StatusOK {
		p.t.Fatalf("%s: %s %v", path, text, err)
	}
}

// portOf is the port that a server of this machine listens at.
func portOf(t *testing.T, address string) int {
	t.Helper()
	u := must.Get(url.Parse(address))(t)
	_, digits, err := net.SplitHostPort(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	return must.Get(strconv.Atoi(digits))(t)
}
