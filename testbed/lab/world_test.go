//go:build lab

package lab_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/kubelet"
	"github.com/plimsoll/plimsoll/testbed/lab/labtest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// node is one whose kubelet KWOK plays.
func node(name string) *corev1.Node {
	size := corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("110")}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{lab.KubeletLabel: lab.KubeletLabelValue}},
		Status:     corev1.NodeStatus{Capacity: size, Allocatable: size},
	}
}

// deployment runs pods of a tenth of a core.
func deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "app", Image: "example.com/app",
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}},
				}}},
			},
		},
	}
}

// nodesReady fails unless so many nodes are.
func nodesReady(ctx context.Context, c kubernetes.Interface, want int) error {
	list, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	ready := 0
	for _, n := range list.Items {
		if kubelet.Ready(&n) {
			ready++
		}
	}
	if ready != want {
		return fmt.Errorf("%d of %d nodes are ready", ready, len(list.Items))
	}
	return nil
}

// podsReady fails unless so many pods are, and no others are there.
func podsReady(ctx context.Context, c kubernetes.Interface, want int) error {
	list, err := c.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	ready := 0
	for _, p := range list.Items {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && p.Status.Phase == corev1.PodRunning && p.Status.PodIP != "" {
				ready++
			}
		}
	}
	if ready != want || len(list.Items) != want {
		return fmt.Errorf("%d of %d pods run", ready, len(list.Items))
	}
	return nil
}

func TestKWOKPlaysKubelet(t *testing.T) {
	t.Parallel() // each has a lab of its own, and waits most of the time
	l := labtest.Up(t, lab.Config{
		ControlPlane: lab.ControlPlane{ControllerManagerArgs: []string{"--node-monitor-period=1s", "--node-monitor-grace-period=6s"}},
		Parts: []lab.Part{&lab.KWOK{
			PodStart:  timing.Range{Min: time.Second, Max: 2 * time.Second},
			Heartbeat: timing.Range{Min: time.Second, Max: 2 * time.Second},
		}},
	})
	c := client(t, l)
	const nodes, pods = 20, 100
	for i := range nodes {
		if _, err := c.CoreV1().Nodes().Create(t.Context(), node(fmt.Sprintf("node-%02d", i)), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "nodes are ready", func(ctx context.Context) error { return nodesReady(ctx, c, nodes) })
	if _, err := c.AppsV1().Deployments("default").Create(t.Context(), deployment("app", pods), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "pods run", func(ctx context.Context) error { return podsReady(ctx, c, pods) })
	checkStarts(t, c)

	scale := `{"spec":{"replicas":30}}`
	if _, err := c.AppsV1().Deployments("default").Patch(t.Context(), "app", types.MergePatchType, []byte(scale), metav1.PatchOptions{}, "scale"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "deleted pods are gone", func(ctx context.Context) error { return podsReady(ctx, c, 30) })

	silence := func(label string) {
		t.Helper()
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, lab.KubeletLabel, label)
		if _, err := c.CoreV1().Nodes().Patch(t.Context(), "node-07", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	silence("null")
	eventually(t, "a node that fell silent is taken for dead", func(ctx context.Context) error { return nodesReady(ctx, c, nodes-1) })
	silence(`"` + lab.KubeletLabelValue + `"`)
	eventually(t, "a node that speaks again is ready", func(ctx context.Context) error { return nodesReady(ctx, c, nodes) })
}

// TestSilenceIsKept lets a cluster fall silent while heartbeats are under way: none of them brings
// the next one after it.
func TestSilenceIsKept(t *testing.T) {
	t.Parallel() // each has a lab of its own, and waits most of the time
	l := labtest.Up(t, lab.Config{
		ControlPlane: lab.ControlPlane{ControllerManagerArgs: []string{"--node-monitor-period=1s", "--node-monitor-grace-period=6s"}},
		Parts:        []lab.Part{&lab.KWOK{Heartbeat: timing.Range{Min: time.Second, Max: 1100 * time.Millisecond}}},
	})
	c := client(t, l)
	const nodes = 600
	each := func(do func(name string) error) {
		var all errgroup.Group
		all.SetLimit(20)
		for i := range nodes {
			all.Go(func() error { return do(fmt.Sprintf("node-%03d", i)) })
		}
		if err := all.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	each(func(name string) error {
		_, err := c.CoreV1().Nodes().Create(t.Context(), node(name), metav1.CreateOptions{})
		return err
	})
	eventually(t, "nodes are ready", func(ctx context.Context) error { return nodesReady(ctx, c, nodes) })
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, lab.KubeletLabel)
	each(func(name string) error {
		_, err := c.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	eventually(t, "nodes that fell silent are taken for dead", func(ctx context.Context) error { return nodesReady(ctx, c, 0) })
}

// checkStarts wants pods to have started before they were ready, as under a real kubelet.
func checkStarts(t *testing.T, c kubernetes.Interface) {
	t.Helper()
	list, err := c.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && !c.LastTransitionTime.After(p.Status.StartTime.Time) {
				t.Errorf("pod %s started at %s and was ready at %s, want it later", p.Name, p.Status.StartTime, c.LastTransitionTime)
			}
		}
	}
}

func TestPrometheusReadsWhatItIsTold(t *testing.T) {
	t.Parallel() // each has a lab of its own, and waits most of the time
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ship_draught_meters 7.5\n")
	}))
	defer target.Close()
	l := labtest.Up(t, lab.Config{Parts: []lab.Part{&lab.Prometheus{}}})
	host := strings.TrimPrefix(target.URL, "http://")
	if err := l.Scrape(lab.ScrapeJob{Name: "ships", Targets: []string{host}, Labels: map[string]string{"flag": "blue"}}); err != nil {
		t.Fatal(err)
	}
	ask := func(query, want string) func(context.Context) error {
		return func(ctx context.Context) error {
			got, err := query1(ctx, l.Endpoint(lab.PrometheusPart, "api"), query)
			if err == nil && got != want {
				err = fmt.Errorf("%s is %q, want %q", query, got, want)
			}
			return err
		}
	}
	eventually(t, "a target is read", ask(`ship_draught_meters{job="ships",flag="blue"}`, "7.5"))
	eventually(t, "the control plane is read", ask(`up{job="controlplane"}`, "1"))

	if err := l.Scrape(lab.ScrapeJob{Name: "ships"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a job that ended is not read", ask(`count(up{job="ships"}) or vector(0)`, "0"))

	if err := l.Stop(t.Context(), lab.PrometheusPart); err != nil {
		t.Fatal(err)
	}
	if got := l.Endpoint(lab.PrometheusPart, "api"); got != "" {
		t.Errorf("a part that is down has the endpoint %s", got)
	}
	if err := l.Start(t.Context(), lab.PrometheusPart); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what was read before an outage is kept", ask(`max_over_time(ship_draught_meters{job="ships"}[1h])`, "7.5"))
}

// query1 asks Prometheus for one number.
func query1(ctx context.Context, api, query string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, api+"/api/v1/query?query="+url.QueryEscape(query), nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return "", err
	}
	if len(answer.Data.Result) != 1 {
		return "", fmt.Errorf("%s: %d series, want one", query, len(answer.Data.Result))
	}
	return fmt.Sprint(answer.Data.Result[0].Value[1]), nil
}

// An API server of the test's own is behind the control plane, which must pass on who asks.
func TestControlPlanePassesRequestsOn(t *testing.T) {
	t.Parallel() // each has a lab of its own, and waits most of the time
	heard := make(chan http.Header, 100)
	behind := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/apis/ships.example.com/v1/fleet" {
			_, _ = io.WriteString(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"ships.example.com/v1","resources":[]}`)
			return
		}
		heard <- r.Header
		_, _ = io.WriteString(w, `{"ships":3}`)
	}))
	defer behind.Close()
	u, err := url.Parse(behind.URL)
	if err != nil {
		t.Fatal(err)
	}
	l := labtest.Up(t, lab.Config{})
	var port int
	if _, err := fmt.Sscan(u.Port(), &port); err != nil {
		t.Fatal(err)
	}
	if err := l.Serve(t.Context(), lab.AggregatedAPI{Group: "ships.example.com", Version: "v1", Port: port}); err != nil {
		t.Fatal(err)
	}
	body, err := client(t, l).Discovery().RESTClient().Get().AbsPath("/apis/ships.example.com/v1/fleet").DoRaw(t.Context())
	if err != nil || string(body) != `{"ships":3}` {
		t.Fatalf("asked through the control plane: %q, %v", body, err)
	}
	if who := (<-heard).Get("X-Remote-User"); who != "admin" {
		t.Errorf("the server behind was told that %q asks, want admin", who)
	}
}

func TestAuditLogTellsWhoDidWhat(t *testing.T) {
	t.Parallel() // each has a lab of its own, and waits most of the time
	l := labtest.Up(t, lab.Config{})
	c := client(t, l)
	if _, err := c.CoreV1().ConfigMaps("default").Get(t.Context(), "not-there", metav1.GetOptions{}); err == nil {
		t.Fatal("it is there")
	}
	if _, err := c.CoreV1().Nodes().Create(t.Context(), node("a-node"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct{ verb, resource, name string }{{"get", "configmaps", "not-there"}, {"create", "nodes", "a-node"}} {
		eventually(t, "it is in the log that admin did "+want.verb+" "+want.name, func(context.Context) error {
			return inAuditLog(l.AuditLog(), func(e auditEvent) bool {
				return e.User.Username == "admin" && e.Verb == want.verb && e.ObjectRef.Resource == want.resource && e.ObjectRef.Name == want.name
			})
		})
	}
}

type auditEvent struct {
	Verb      string
	User      struct{ Username string }
	ObjectRef struct{ Resource, Name string }
}

func inAuditLog(file string, ours func(auditEvent) bool) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for d := json.NewDecoder(f); ; {
		var e auditEvent
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			return errors.New("it is not there")
		} else if err != nil {
			return err
		}
		if ours(e) {
			return nil
		}
	}
}
