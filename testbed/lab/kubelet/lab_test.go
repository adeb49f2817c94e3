//go:build lab

package kubelet

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/labtest"
)

// TestMain is also the program that runs in the tests' pods.
func TestMain(m *testing.M) {
	if os.Getenv("AS_A_POD") != "" {
		os.Exit(play())
	}
	os.Exit(m.Run())
}

// play serves its file at its address, prints a line each 100 ms, and says goodbye when it is asked
// to go; or it ends with a code.
func play() int {
	listen := flag.String("listen", "", "")
	file := flag.String("file", "", "")
	will := flag.String("will", "", "")
	exit := flag.Int("exit", -1, "")
	pods := flag.String("pods", "", "")
	stubborn := flag.Bool("stubborn", false, "")
	flag.Parse()
	if *pods != "" {
		return listPods(*pods)
	}
	if *exit >= 0 {
		fmt.Println("it ends with", *exit)
		_ = os.WriteFile(*will, []byte("its last will"), 0o600)
		return *exit
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		text, err := os.ReadFile(*file)
		if err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write(text)
	})
	go func() { fmt.Println(http.ListenAndServe(*listen, nil)) }()
	for i := 0; ; i++ {
		fmt.Println("line", i, os.Getenv("GREETING"))
		select {
		case <-asked:
			fmt.Println("goodbye")
			if !*stubborn {
				return 0
			}
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// listPods does what a pod may do, and what it may not.
func listPods(namespace string) int {
	cfg, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	list, err := kubernetes.NewForConfigOrDie(cfg).CoreV1().Pods(namespace).List(context.Background(), metav1.ListOptions{})
	fmt.Println(len(list.Items), err)
	if apierrors.IsForbidden(err) {
		return 3
	}
	return 0
}

type world struct {
	*testing.T
	lab    *lab.Lab
	client kubernetes.Interface
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOf(t, &Part{Programs: map[string]Program{"play": {Path: os.Args[0], Env: []string{"AS_A_POD=yes"}}}})
}

// newWorldOf is a lab with a node that is the part's.
func newWorldOf(t *testing.T, part *Part) *world {
	t.Helper()
	t.Parallel() // each has a lab of its own, and waits most of the time
	l := labtest.Up(t, lab.Config{Parts: []lab.Part{part}})
	w := &world{t, l, kubernetes.NewForConfigOrDie(l.REST())}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "here", Labels: map[string]string{Label: LabelValue}}}
	if _, err := w.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(l.Log(PartName))
			t.Logf("the kubelet says:\n%s", text)
			list, _ := w.client.CoreV1().Pods("default").List(context.Background(), metav1.ListOptions{})
			for _, p := range list.Items {
				t.Logf("%s: %+v", p.Name, p.Status)
			}
		}
	})
	return w
}

func (w *world) until(what string, ask func(ctx context.Context) error) {
	w.Helper()
	labtest.Until(w.T, what, 50*time.Millisecond, ask)
}

func must[T any](w *world) func(T, error) T {
	return func(v T, err error) T {
		w.Helper()
		if err != nil {
			w.Fatal(err)
		}
		return v
	}
}

// server is a pod of the program that serves a file of a Secret.
func server(greeting string) corev1.PodTemplateSpec {
	none := false
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "server"}},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: &none,
			Containers: []corev1.Container{{
				Name: "play", Image: "example.com/play:v1", Args: []string{"-listen=$(IP):8080", "-file", "/etc/it/text"},
				Env: []corev1.EnvVar{
					{Name: "IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
					{Name: "GREETING", Value: greeting},
				},
				Ports:          []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}},
				ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromString("web")}}, PeriodSeconds: 1},
				VolumeMounts:   []corev1.VolumeMount{{Name: "it", MountPath: "/etc/it"}},
			}},
			Volumes: []corev1.Volume{{Name: "it", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "it"}}}},
		},
	}
}

func (w *world) secret(text string) {
	w.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "it"}, StringData: map[string]string{"text": text}}
	secrets := w.client.CoreV1().Secrets("default")
	_, err := secrets.Create(w.Context(), s, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(w.Context(), s, metav1.UpdateOptions{})
	}
	if err != nil {
		w.Fatal(err)
	}
}

// pods are the application's that are not being deleted.
func (w *world) pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := w.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=server"})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil }), nil
}

// running is the one pod, when it is ready, others go, and it is not the one before.
func (w *world) running(before ...string) corev1.Pod {
	w.Helper()
	var one corev1.Pod
	w.until("one pod is ready", func(ctx context.Context) error {
		all, err := w.pods(ctx)
		if err != nil {
			return err
		}
		if len(all) != 1 || !labtest.PodReady(&all[0]) || slices.Contains(before, all[0].Name) {
			return fmt.Errorf("%d pods", len(all))
		}
		one = all[0]
		return nil
	})
	return one
}

func get(url string) string {
	r, err := http.Get(url)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = r.Body.Close() }()
	text, _ := io.ReadAll(r.Body)
	return string(text)
}

func pidOf(p *corev1.Pod) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(p.Status.ContainerStatuses[0].ContainerID, "process://"))
	return n
}

func alive(pid int) bool { return pid > 0 && syscall.Kill(pid, 0) == nil }

func (w *world) deploy(greeting string) {
	w.Helper()
	template := server(greeting)
	deployments := w.client.AppsV1().Deployments("default")
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "server"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template,
	}}
	_, err := deployments.Create(w.Context(), d, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = deployments.Update(w.Context(), d, metav1.UpdateOptions{})
	}
	if err != nil {
		w.Fatal(err)
	}
}

// TestADeploymentRunsAsProcesses follows a Deployment through its life: configured, read, killed,
// replaced, deleted.
func TestADeploymentRunsAsProcesses(t *testing.T) {
	w := newWorld(t)
	w.deploy("one")
	w.until("it waits for its Secret", func(ctx context.Context) error {
		all, err := w.pods(ctx)
		if err == nil && (len(all) != 1 || len(all[0].Status.ContainerStatuses) != 1 || !strings.Contains(all[0].Status.ContainerStatuses[0].State.Waiting.Message, "Secret it")) {
			err = fmt.Errorf("%+v", all)
		}
		return err
	})
	w.secret("first")
	p := w.running()
	url := "http://" + p.Status.PodIP + ":8080/"
	if got := get(url); got != "first" {
		t.Errorf("it serves %q", got)
	}
	w.secret("second")
	w.until("the Secret's change arrives", func(context.Context) error {
		if got := get(url); got != "second" {
			return errors.New(got)
		}
		return nil
	})

	const twoLines = "line 0 one\nline 1 one\n"
	w.until("it has logged two lines", func(ctx context.Context) error {
		log, err := w.client.CoreV1().Pods("default").GetLogs(p.Name, &corev1.PodLogOptions{}).DoRaw(ctx)
		if err == nil && !strings.HasPrefix(string(log), twoLines) {
			err = fmt.Errorf("the log is %q", log)
		}
		return err
	})
	if err := syscall.Kill(pidOf(&p), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.until("the killed process is started again", func(ctx context.Context) error {
		now, err := w.client.CoreV1().Pods("default").Get(ctx, p.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s := now.Status.ContainerStatuses[0]
		if last := s.LastTerminationState.Terminated; s.RestartCount != 1 || !s.Ready || last == nil || last.ExitCode != 137 || last.Signal != 9 {
			return fmt.Errorf("%+v", s)
		}
		p = *now
		return nil
	})
	before := must[[]byte](w)(w.client.CoreV1().Pods("default").GetLogs(p.Name, &corev1.PodLogOptions{Previous: true}).DoRaw(t.Context()))
	if !strings.HasPrefix(string(before), twoLines) {
		t.Errorf("the log of the run before is %q", before)
	}

	follow := must[io.ReadCloser](w)(w.client.CoreV1().Pods("default").GetLogs(p.Name, &corev1.PodLogOptions{Follow: true}).Stream(t.Context()))
	defer func() { _ = follow.Close() }()
	lines := bufio.NewScanner(follow)
	for i := range 5 {
		if want := fmt.Sprintf("line %d one", i); !lines.Scan() || lines.Text() != want {
			t.Fatalf("the log says %q, want %q", lines.Text(), want)
		}
	}
	w.deploy("two")
	successor := w.running(p.Name)
	if successor.Status.PodIP == p.Status.PodIP {
		t.Errorf("two pods have the address %s", p.Status.PodIP)
	}
	last := ""
	for lines.Scan() { // it ends with the process
		last = lines.Text()
	}
	if last != "goodbye" {
		t.Errorf("the log ends with %q", last)
	}
	w.until("the old pod has gone", func(ctx context.Context) error {
		_, err := w.client.CoreV1().Pods("default").Get(ctx, p.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there, %w", err)
	})
	if alive(pidOf(&p)) {
		t.Error("its process is there")
	}
	labtest.Down(t, w.lab)
	if alive(pidOf(&successor)) {
		t.Error("a process has outlived the lab")
	}
}

func bare(name string, policy corev1.RestartPolicy, args ...string) *corev1.Pod {
	none := false
	at := int64(2)
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		RestartPolicy: policy, TerminationGracePeriodSeconds: &at, AutomountServiceAccountToken: &none,
		Containers: []corev1.Container{{Name: "play", Image: "play", Args: args}},
	}}
}

func (w *world) create(p *corev1.Pod) {
	w.Helper()
	must[*corev1.Pod](w)(w.client.CoreV1().Pods("default").Create(w.Context(), p, metav1.CreateOptions{}))
}

// phase waits until a pod has come so far.
func (w *world) phase(name string, want corev1.PodPhase) *corev1.Pod {
	w.Helper()
	var p *corev1.Pod
	w.until(name+" is "+string(want), func(ctx context.Context) (err error) {
		if p, err = w.client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{}); err == nil && p.Status.Phase != want {
			err = fmt.Errorf("it is %s: %+v", p.Status.Phase, p.Status.ContainerStatuses)
		}
		return err
	})
	return p
}

func TestPodsThatDoNotListenAreKilledAfterTheirGrace(t *testing.T) {
	w := newWorld(t)
	w.create(bare("deaf", corev1.RestartPolicyNever, "-stubborn"))
	p := w.phase("deaf", corev1.PodRunning)
	w.until("it takes signals", func(ctx context.Context) error {
		log, err := w.client.CoreV1().Pods("default").GetLogs(p.Name, &corev1.PodLogOptions{}).DoRaw(ctx)
		if err == nil && len(log) == 0 {
			err = errors.New("it says nothing")
		}
		return err
	})
	begun := time.Now()
	if err := w.client.CoreV1().Pods("default").Delete(t.Context(), p.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.until("it has gone", func(ctx context.Context) error {
		_, err := w.client.CoreV1().Pods("default").Get(ctx, p.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there, %w", err)
	})
	if took := time.Since(begun); took < 2*time.Second || alive(pidOf(p)) {
		t.Errorf("it went after %s, and its process lives: %v", took, alive(pidOf(p)))
	}
}

func TestImagesThatAreNotThereAreNotPulled(t *testing.T) {
	w := newWorld(t)
	p := bare("none", corev1.RestartPolicyAlways)
	p.Spec.Containers[0].Image = "example.com/nothing:v1"
	w.create(p)
	w.until("it waits", func(ctx context.Context) error {
		p, err := w.client.CoreV1().Pods("default").Get(ctx, "none", metav1.GetOptions{})
		if err == nil && (len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].State.Waiting == nil || p.Status.ContainerStatuses[0].State.Waiting.Reason != "ErrImagePull") {
			err = fmt.Errorf("%+v", p.Status)
		}
		return err
	})
}

// TestJobsSucceedAndAreTriedAgain runs Jobs by the real controller.
func TestJobsSucceedAndAreTriedAgain(t *testing.T) {
	w := newWorld(t)
	job := func(name string, code, tries int32) {
		p := bare("", corev1.RestartPolicyNever, "-exit", fmt.Sprint(code), "-will=/dev/termination-log")
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{BackoffLimit: &tries, Template: corev1.PodTemplateSpec{Spec: p.Spec}}}
		must[*batchv1.Job](w)(w.client.BatchV1().Jobs("default").Create(t.Context(), j, metav1.CreateOptions{}))
	}
	done := func(name string, kind batchv1.JobConditionType, succeeded, failed int32) {
		w.until(name+" ends", func(ctx context.Context) error {
			j, err := w.client.BatchV1().Jobs("default").Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			is := slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == kind && c.Status == corev1.ConditionTrue })
			if !is || j.Status.Succeeded != succeeded || j.Status.Failed != failed {
				return fmt.Errorf("%+v", j.Status)
			}
			return nil
		})
	}
	job("good", 0, 0)
	job("bad", 7, 1)
	done("good", batchv1.JobComplete, 1, 0)
	done("bad", batchv1.JobFailed, 0, 2)
	list := must[*corev1.PodList](w)(w.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "job-name=bad"}))
	for _, p := range list.Items {
		s := p.Status.ContainerStatuses[0].State.Terminated
		if s == nil || s.ExitCode != 7 || s.Message != "its last will" || s.Reason != "Error" {
			t.Errorf("%+v", p.Status)
		}
		log := must[[]byte](w)(w.client.CoreV1().Pods("default").GetLogs(p.Name, &corev1.PodLogOptions{}).DoRaw(t.Context()))
		if string(log) != "it ends with 7\n" {
			t.Errorf("its log is %q", log)
		}
	}
}

// TestPodsHaveTheRightsOfTheirAccount lets a pod list pods, which the administrator may and its
// account may not.
func TestPodsHaveTheRightsOfTheirAccount(t *testing.T) {
	w := newWorld(t)
	p := bare("asker", corev1.RestartPolicyNever, "-pods=default")
	p.Spec.AutomountServiceAccountToken = nil
	w.until("there is an account", func(ctx context.Context) error {
		_, err := w.client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	w.create(p)
	ended := w.phase("asker", corev1.PodFailed)
	log := must[[]byte](w)(w.client.CoreV1().Pods("default").GetLogs("asker", &corev1.PodLogOptions{}).DoRaw(t.Context()))
	if code := ended.Status.ContainerStatuses[0].State.Terminated.ExitCode; code != 3 || !strings.Contains(string(log), "system:serviceaccount:default:default") {
		t.Errorf("it ended with %d and said %s", code, log)
	}
}

// TestPodsOutliveTheAPIServer takes the control plane away, kills a process meanwhile, and stops
// the part.
func TestPodsOutliveTheAPIServer(t *testing.T) {
	w := newWorld(t)
	w.secret("here")
	w.deploy("on")
	p := w.running()
	if err := w.lab.Kill(lab.ControlPlanePart); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pidOf(&p), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	url := "http://" + p.Status.PodIP + ":8080/"
	serves := func(context.Context) error {
		if got := get(url); got != "here" {
			return errors.New(got)
		}
		return nil
	}
	w.until("it is gone", func(ctx context.Context) error {
		if serves(ctx) == nil {
			return errors.New("it serves")
		}
		return nil
	})
	w.until("it serves without an API server", serves)
	if err := w.lab.Start(t.Context(), lab.ControlPlanePart); err != nil {
		t.Fatal(err)
	}
	restarts := func(want int32) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			now, err := w.client.CoreV1().Pods("default").Get(ctx, p.Name, metav1.GetOptions{})
			if err == nil && (now.Status.ContainerStatuses[0].RestartCount != want || !labtest.PodReady(now)) {
				err = fmt.Errorf("%+v", now.Status)
			}
			return err
		}
	}
	w.until("its restart is told", restarts(1))
	if err := w.lab.Stop(t.Context(), PartName); err != nil {
		t.Fatal(err)
	}
	if err := w.lab.Start(t.Context(), PartName); err != nil {
		t.Fatal(err)
	}
	w.until("it runs again after the kubelet was away", restarts(2))
}

// TestSilentNodesLoseTheirProcesses takes a node's label away, which is the death of its machine,
// and gives it back.
func TestSilentNodesLoseTheirProcesses(t *testing.T) {
	w := newWorld(t)
	w.secret("here")
	w.deploy("on")
	p := w.running()
	label := func(value string) {
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, Label, value)
		must[*corev1.Node](w)(w.client.CoreV1().Nodes().Patch(t.Context(), "here", types.MergePatchType, patch, metav1.PatchOptions{}))
	}
	label("null")
	w.until("its process is killed", func(context.Context) error {
		if alive(pidOf(&p)) {
			return errors.New("it lives")
		}
		return nil
	})
	label(strconv.Quote(LabelValue))
	w.until("it runs again", func(ctx context.Context) error {
		now, err := w.client.CoreV1().Pods("default").Get(ctx, p.Name, metav1.GetOptions{})
		if err == nil && (now.Status.ContainerStatuses[0].RestartCount != 1 || !labtest.PodReady(now) || get("http://"+now.Status.PodIP+":8080/") != "here") {
			err = fmt.Errorf("%+v", now.Status)
		}
		return err
	})
}

// TestOnlyTheAPIServerReadsLogs asks the kubelet with nobody's certificate, and with the
// administrator's.
func TestOnlyTheAPIServerReadsLogs(t *testing.T) {
	w := newWorld(t)
	cfg := w.lab.REST()
	own, err := tls.X509KeyPair(cfg.CertData, cfg.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	for name, certificates := range map[string][]tls.Certificate{"nobody": nil, "the administrator": {own}} {
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certificates}}}
		if r, err := c.Get(w.lab.Endpoint(PartName, "api") + "/healthz"); err == nil {
			t.Errorf("%s is let in: %s", name, r.Status)
			_ = r.Body.Close()
		}
	}
}

// TestK6RunsAsAJob runs the lab's k6 with scripts of a ConfigMap, one of which reads the other,
// through a proxy in place of a cluster's Services, and reads its summary from its log.
func TestK6RunsAsAJob(t *testing.T) {
	var asked atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Host == "shop.default.svc" {
			asked.Add(1)
		}
	}))
	defer proxy.Close()
	part := &Part{Programs: map[string]Program{}}
	w := newWorldOf(t, part)
	program := must[string](w)(w.lab.Tool(t.Context(), lab.ToolK6))
	part.Programs["k6"] = Program{Path: program, Env: []string{"HTTP_PROXY=" + proxy.URL}}
	must[*corev1.ConfigMap](w)(w.client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "scripts"},
		Data: map[string]string{
			"lib.js": `export const url = "http://shop.default.svc/";`,
			"main.js": `import http from "k6/http"; import { url } from "./lib.js";
export const options = { vus: 1, iterations: 5 };
export default function () { http.get(url); }
export function handleSummary(data) { return { stdout: "SUMMARY " + data.metrics.http_reqs.values.count + "\n" }; }`,
		},
	}, metav1.CreateOptions{}))
	p := bare("load", corev1.RestartPolicyNever, "run", "--quiet", "/scripts/main.js")
	c := &p.Spec.Containers[0]
	c.Image, c.Command, c.Env = "grafana/k6:1.8.1", []string{"k6"}, []corev1.EnvVar{{Name: "K6_NO_USAGE_REPORT", Value: "true"}}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "scripts", MountPath: "/scripts"}}
	p.Spec.Volumes = []corev1.Volume{{Name: "scripts", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "scripts"}}}}}
	w.create(p)
	w.phase("load", corev1.PodSucceeded)
	log := must[[]byte](w)(w.client.CoreV1().Pods("default").GetLogs("load", &corev1.PodLogOptions{}).DoRaw(t.Context()))
	if !strings.Contains(string(log), "SUMMARY 5\n") || asked.Load() != 5 {
		t.Errorf("%d requests came, and it says %s", asked.Load(), log)
	}
}
