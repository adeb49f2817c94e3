//go:build lab

package machines_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/metrics/pkg/client/clientset/versioned"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/k6"
	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/kubelet"
	"github.com/plimsoll/plimsoll/testbed/lab/labtest"
	"github.com/plimsoll/plimsoll/testbed/lab/machines"
	"github.com/plimsoll/plimsoll/testbed/lab/plane"
)

func seconds(least, most float64) timing.Range {
	return timing.Range{Min: time.Duration(least * 1e9), Max: time.Duration(most * 1e9)}
}

// world is a lab with everything that machines, pods and requests need, in which time that only
// passes is short.
type world struct {
	testing.TB
	*lab.Lab
	kube kubernetes.Interface
	pve  *machines.Part
}

func newWorld(t *testing.T, more ...lab.Part) *world {
	t.Parallel() // each has a lab of its own, and waits most of the time
	pve := &machines.Part{Times: timing.Machine{Clone: seconds(0.5, 1), Boot: seconds(1, 2), Delete: seconds(0.2, 0.5)}}
	l := labtest.Up(t, lab.Config{
		ControlPlane: lab.ControlPlane{ControllerManagerArgs: []string{
			"--node-monitor-period=1s", "--node-monitor-grace-period=6s",
			"--horizontal-pod-autoscaler-sync-period=2s", "--horizontal-pod-autoscaler-downscale-stabilization=10s",
			"--horizontal-pod-autoscaler-cpu-initialization-period=5s", "--horizontal-pod-autoscaler-initial-readiness-delay=1s",
		}},
		Parts: append([]lab.Part{
			&lab.KWOK{PodStart: seconds(0.5, 1), Heartbeat: seconds(1, 2)}, pve, &plane.Part{Seed: 1, Every: 3 * time.Second},
		}, more...),
	})
	return &world{TB: t, Lab: l, kube: kubernetes.NewForConfigOrDie(l.REST()), pve: pve}
}

// patience is for a machine that is busy with other things.
const patience = 5 * time.Minute

// until asks again and again whether something holds.
func (w *world) until(what string, holds func(ctx context.Context) error) {
	w.Helper()
	begun := time.Now()
	for {
		err := holds(w.Context())
		if err == nil {
			w.Logf("%s: after %.1f s", what, time.Since(begun).Seconds())
			return
		}
		if time.Since(begun) > patience {
			w.Fatalf("%s: not after %s: %v", what, patience, err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// web is a Deployment that serves as the experiments' do.
func web(replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	amount := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{plane.AnnotationDemand: "50ms", plane.AnnotationSpread: "20%"}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{
					{Name: "web", Image: "example.com/web", Resources: corev1.ResourceRequirements{Requests: amount("500m", "250M"), Limits: amount("500m", "250M")}},
					{Name: "istio-proxy", Image: "example.com/proxy", Resources: corev1.ResourceRequirements{Requests: amount("100m", "128M")}},
				}},
			},
		},
	}
}

func (w *world) deploy(replicas int32) {
	w.Helper()
	if _, err := w.kube.AppsV1().Deployments("default").Create(w.Context(), web(replicas), metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
}

// serving wants so many pods of the application to be endpoints.
func (w *world) serving(want int) func(context.Context) error {
	return func(context.Context) error {
		text, err := w.ask("")
		if err == nil && !strings.Contains(text, fmt.Sprintf(`"ready":%d,`, want)) {
			err = fmt.Errorf("want %d ready: %s", want, text)
		}
		return err
	}
}

// ask asks the plane, and returns what it answers.
func (w *world) ask(path string) (string, error) {
	r, err := http.Get(w.Endpoint("plane", "apps") + path)
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Body.Close() }() // read to its end
	text, err := io.ReadAll(r.Body)
	return fmt.Sprintf("%d %s", r.StatusCode, text), err
}

// fleet makes machines as plimsoll run does, by the site file that the lab has written.
func (w *world) fleet() (*pve.Fleet, *settings.Site) {
	w.Helper()
	text, err := os.ReadFile(w.pve.SiteFile())
	if err != nil {
		w.Fatal(err)
	}
	var site settings.Site
	if err := yaml.Unmarshal(text, &site); err != nil {
		w.Fatal(err)
	}
	if err := site.Read(os.ReadFile); err != nil {
		w.Fatal(err)
	}
	if err := site.Validate(); err != nil {
		w.Fatal(err)
	}
	site = site.Complete()
	client, err := pveapi.Connect(pveapi.Connection{
		Endpoints: site.Endpoints, Fingerprint: strings.Join(site.Fingerprints, ","),
		Token: func() (string, error) {
			text, err := os.ReadFile(site.TokenFile)
			return strings.TrimSpace(string(text)), err
		},
	})
	if err != nil {
		w.Fatal(err)
	}
	f, err := pve.NewFleet(pve.FleetConfig{
		Client: client, Owner: site.Owner, Cluster: "lab", Pools: site.Pools, Intents: &intents.Memory{}, Nodes: w.nodes,
		Now: time.Now, Rand: rand.New(rand.NewPCG(1, 2)), Parallel: 2,
	})
	if err != nil {
		w.Fatal(err)
	}
	return f, &site
}

// nodes are the cluster's, in the fleet's words.
func (w *world) nodes(ctx context.Context) ([]pve.Node, error) {
	list, err := w.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var all []pve.Node
	for i := range list.Items {
		n := &list.Items[i]
		all = append(all, pve.Node{Name: n.Name, ProviderID: n.Spec.ProviderID, SystemUUID: n.Status.NodeInfo.SystemUUID, Ready: kubelet.Ready(n), JoinedAt: n.CreationTimestamp.Time})
	}
	return all, nil
}

// nodeIs wants a node to be Ready, or not to be.
func (w *world) nodeIs(name string, want bool) func(context.Context) error {
	return func(ctx context.Context) error {
		n, err := w.kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err == nil && kubelet.Ready(n) != want {
			err = fmt.Errorf("node %s: %+v", name, n.Status.Conditions)
		}
		return err
	}
}

// TestMachinesBecomeNodesThatCarryPods follows one machine: ordered by the client that Plimsoll
// uses, joined as its disc says, serving, stopped by a person, started again, returned.
func TestMachinesBecomeNodesThatCarryPods(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.deploy(2)
	w.until("the pods are pending", func(ctx context.Context) error {
		list, err := w.kube.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) != 2 {
			err = fmt.Errorf("%d pods", len(list.Items))
		}
		return err
	})
	if text, err := w.ask("/apps/default/web/"); err != nil || !strings.HasPrefix(text, "503 no pod of default/web is ready") {
		t.Errorf("%s, %v", text, err)
	}

	fleet, site := w.fleet()
	shape := site.Pools[0].Shapes[0]
	order := loop.Order{ID: "1", At: time.Now(), Action: nodescaler.Action{Kind: nodescaler.Buy, Order: "1", Pool: "workers", Shape: &shape}}
	if err := fleet.Tick(ctx); err != nil {
		t.Fatal(err)
	}
	if err := fleet.Create(ctx, order); err != nil {
		t.Fatal(err)
	}
	const name = "workers-1"
	w.until("the machine has joined", func(ctx context.Context) error { return w.joined(ctx, fleet, name) })
	w.until("its node is ready", w.nodeIs(name, true))
	w.checkNode(name)
	w.until("the pods serve", w.serving(2))
	if text, err := w.ask("/apps/default/web/"); err != nil || !strings.HasPrefix(text, "200 web-") {
		t.Errorf("%s, %v", text, err)
	}

	shell := w.pve.Cluster().Console()
	vm := w.vm(name)
	w.run(shell, fmt.Sprintf("pvesh create /nodes/%s/qemu/%d/status/stop", vm.Host, vm.ID))
	w.until("requests fail, for the machine is off", func(context.Context) error {
		text, err := w.ask("/apps/default/web/")
		if err == nil && !strings.Contains(text, "on a node that does not run") {
			err = fmt.Errorf("%s", text)
		}
		return err
	})
	w.until("the node is not ready", w.nodeIs(name, false))
	w.until("its pods are no endpoints", w.serving(0))
	w.run(shell, fmt.Sprintf("pvesh create /nodes/%s/qemu/%d/status/start", vm.Host, vm.ID))
	w.until("the node is ready again", w.nodeIs(name, true))
	w.until("its pods serve again", w.serving(2))

	w.outages(fleet, name)
	if err := fleet.Delete(ctx, name); err != nil {
		t.Fatal(err)
	}
	w.until("the machine is gone", func(ctx context.Context) error {
		if err := fleet.Tick(ctx); err != nil {
			return err
		}
		state, err := fleet.List(ctx)
		if err == nil && len(state.Machines) > 0 {
			err = fmt.Errorf("%+v", state.Machines)
		}
		return err
	})
	w.until("its node is not ready", w.nodeIs(name, false))
}

// outages stops the Proxmox VE and the plane, and starts them again: machines, nodes and addresses
// are as before.
func (w *world) outages(fleet *pve.Fleet, name string) {
	w.Helper()
	ctx := w.Context()
	for _, part := range []string{machines.PartName, plane.PartName} {
		if err := w.Stop(ctx, part); err != nil {
			w.Fatal(err)
		}
	}
	if err := fleet.Tick(ctx); err == nil {
		w.Error("the Proxmox VE answers though it was stopped")
	}
	for _, part := range []string{machines.PartName, plane.PartName} {
		if err := w.Lab.Start(ctx, part); err != nil {
			w.Fatal(err)
		}
	}
	w.until("the machine is there after an outage", func(ctx context.Context) error { return w.joined(ctx, fleet, name) })
	w.until("its node is ready after an outage", w.nodeIs(name, true))
	w.until("its pods serve after an outage", w.serving(2))
}

func (w *world) joined(ctx context.Context, fleet *pve.Fleet, name string) error {
	if err := fleet.Tick(ctx); err != nil {
		return err
	}
	state, err := fleet.List(ctx)
	if err != nil {
		return err
	}
	for _, m := range state.Machines {
		if m.Name == name && m.Phase == nodescaler.Joined {
			return nil
		}
	}
	return fmt.Errorf("%+v", state.Machines)
}

// checkNode holds a node against the order that its machine was made by.
func (w *world) checkNode(name string) {
	w.Helper()
	n, err := w.kube.CoreV1().Nodes().Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	vm := w.vm(name)
	if want := "proxmox://" + n.Status.NodeInfo.SystemUUID; n.Spec.ProviderID != want || !strings.Contains(vm.Config["smbios1"], n.Status.NodeInfo.SystemUUID) {
		w.Errorf("the provider id is %s, want %s; the machine has %s", n.Spec.ProviderID, want, vm.Config["smbios1"])
	}
	got := fmt.Sprint(n.Status.Allocatable.Cpu(), n.Status.Allocatable.Memory(), n.Status.Capacity.Cpu(), n.Status.Capacity.Memory())
	if want := "1800m 8092Mi 2 8Gi"; got != want {
		w.Errorf("it has %s, want %s", got, want)
	}
	for key, want := range map[string]string{"topology.kubernetes.io/zone": vm.Host, "topology.kubernetes.io/region": "lab", "kubernetes.io/hostname": name} {
		if n.Labels[key] != want {
			w.Errorf("label %s is %q, want %q", key, n.Labels[key], want)
		}
	}
}

func (w *world) vm(name string) pvesim.VMState {
	w.Helper()
	for _, vm := range w.pve.Cluster().Inventory().VMs {
		if vm.Config["name"] == name {
			return vm
		}
	}
	w.Fatalf("there is no VM %s", name)
	return pvesim.VMState{}
}

func (w *world) run(shell *pvesim.Console, line string) {
	w.Helper()
	if err := shell.Run(line); err != nil {
		w.Fatal(err)
	}
}

// TestTheRealAutoscalerScalesOnCPU puts users on one pod of half a core: the controller manager's
// own HorizontalPodAutoscaler reads what the plane says of it, grows the Deployment, and shrinks it
// when they have gone.
func TestTheRealAutoscalerScalesOnCPU(t *testing.T) {
	w := newWorld(t)
	w.bigNode()
	w.deploy(1)
	w.until("one pod serves", w.serving(1))
	w.autoscale()

	stop := w.users(30) // 30/s × 50 ms are 1.5 cores: 6 pods at 250m
	w.until("there are 5 pods or more", w.replicas(5, 8))
	w.checkMetrics()
	stop()
	w.until("there is one again", w.replicas(1, 1))
}

// bigNode is a node without a machine.
func (w *world) bigNode() {
	w.Helper()
	size := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("110")}
	if _, err := w.kube.CoreV1().Nodes().Create(w.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "big", Labels: map[string]string{lab.KubeletLabel: lab.KubeletLabelValue}},
		Status:     corev1.NodeStatus{Capacity: size, Allocatable: size},
	}, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
}

// autoscale makes a HorizontalPodAutoscaler that holds the pods at 250m.
func (w *world) autoscale() {
	w.Helper()
	one := int32(1)
	window := int32(5)
	half := resource.MustParse("250m")
	_, err := w.kube.AutoscalingV2().HorizontalPodAutoscalers("default").Create(w.Context(), &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			MinReplicas:    &one, MaxReplicas: 8,
			Metrics: []autoscalingv2.MetricSpec{{
				Type:     autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: &half}},
			}},
			Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: &window}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) replicas(least, most int32) func(context.Context) error {
	return func(ctx context.Context) error {
		d, err := w.kube.AppsV1().Deployments("default").Get(ctx, "web", metav1.GetOptions{})
		if err == nil && (d.Status.ReadyReplicas < least || d.Status.ReadyReplicas > most) {
			h, _ := w.kube.AutoscalingV2().HorizontalPodAutoscalers("default").Get(ctx, "web", metav1.GetOptions{})
			err = fmt.Errorf("%d pods are ready; the autoscaler says %+v", d.Status.ReadyReplicas, h.Status)
		}
		return err
	}
}

// checkMetrics reads the same numbers as kubectl top does.
func (w *world) checkMetrics() {
	w.Helper()
	api := versioned.NewForConfigOrDie(w.REST()).MetricsV1beta1()
	pods, err := api.PodMetricses("default").List(w.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil || len(pods.Items) == 0 {
		w.Fatalf("%v, %v", pods, err)
	}
	for _, p := range pods.Items {
		if len(p.Containers) != 2 || time.Since(p.Timestamp.Time) > time.Minute || p.Window.Duration <= 0 {
			w.Errorf("%+v", p)
		}
	}
	nodes, err := api.NodeMetricses().List(w.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 1 || nodes.Items[0].Usage.Cpu().MilliValue() < 500 {
		w.Errorf("%+v, %v", nodes, err)
	}
}

// users send a request, wait for its answer and sleep for a second, until they are stopped.
func (w *world) users(n int) (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	for range n {
		go func() {
			for ctx.Err() == nil {
				_, _ = w.ask("/apps/default/web/") // a failure is an answer as well
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		}()
	}
	return cancel
}

// TestPrometheusSeesWhatUsersSee lets k6 put the published load on pods that Prometheus reads
// Istio's metrics of, and holds the two against each other.
func TestPrometheusSeesWhatUsersSee(t *testing.T) {
	w := newWorld(t, &lab.Prometheus{})
	w.bigNode()
	const users, pods, during = 60, 12, 20 * time.Second
	w.deploy(pods)
	w.until("the pods serve", w.serving(pods))
	program, err := w.Tool(t.Context(), lab.ToolK6)
	if err != nil {
		t.Fatal(err)
	}
	seen, err := k6.Run(t.Context(), program, t.TempDir(), k6.Load{
		URL: w.Endpoint("plane", "apps") + "/apps/default/web/", Kind: k6.Sleep, Users: users, Think: time.Second, Spread: time.Second,
		Duration: during, Target: 300 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("users saw %+v", seen)
	if seen.Failed > 0 || seen.Requests < users || seen.P50 < 100 {
		t.Errorf("%+v", seen)
	}
	for reporter, query := range map[string]string{
		"pods":    `sum(istio_requests_total{reporter="destination",destination_workload="web",destination_workload_namespace="default",response_code="200"})`,
		"gateway": `sum(istio_requests_total{reporter="source",destination_workload="web",destination_workload_namespace="default",response_code="200"})`,
		"buckets": `sum(istio_request_duration_milliseconds_bucket{reporter="destination",destination_workload="web",le="+Inf"})`,
	} {
		w.until("Prometheus has counted them: "+reporter, func(context.Context) error {
			got, err := w.query(query)
			if err == nil && got != float64(seen.Requests) {
				err = fmt.Errorf("%v of %d", got, seen.Requests)
			}
			return err
		})
	}
	used, err := w.query(`sum(container_cpu_usage_seconds_total{namespace="default",container="web"})`)
	if want := float64(seen.Requests) * 0.05; err != nil || used < 0.95*want || used > 1.05*want {
		t.Errorf("%.2f s of CPU used, want %.2f, %v", used, want, err)
	}
	slow, err := w.query(`histogram_quantile(0.9, sum by (le) (istio_request_duration_milliseconds_bucket{reporter="destination",destination_workload="web"}))`)
	t.Logf("p90: users %.1f ms, Istio's buckets %.1f ms, %v", seen.P90, slow, err)
	if err != nil || slow < 100 {
		t.Errorf("%v, %v", slow, err)
	}
}

// query asks Prometheus for one number.
func (w *world) query(promql string) (float64, error) {
	r, err := http.Get(w.Endpoint(lab.PrometheusPart, "api") + "/api/v1/query?query=" + url.QueryEscape(promql))
	if err != nil {
		return 0, err
	}
	defer func() { _ = r.Body.Close() }() // what matters is read
	var answer struct {
		Data struct{ Result []struct{ Value [2]any } }
	}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
		return 0, err
	}
	if len(answer.Data.Result) != 1 {
		return 0, fmt.Errorf("%d series", len(answer.Data.Result))
	}
	return strconv.ParseFloat(fmt.Sprint(answer.Data.Result[0].Value[1]), 64)
}
