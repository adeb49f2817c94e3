//go:build lab

package upstream_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/labtest"
	"github.com/plimsoll/plimsoll/testbed/lab/machines"
	"github.com/plimsoll/plimsoll/testbed/lab/product"
	"github.com/plimsoll/plimsoll/testbed/lab/upstream"
)

// world is a lab in which Plimsoll serves cluster-autoscaler, and the client plays that.
type world struct {
	*testing.T
	l        *lab.Lab
	pve      *machines.Part
	plimsoll *product.Part
	scaler   *upstream.Part
	kube     kubernetes.Interface
	objects  client.Client
	journal  string
}

func newWorld(t *testing.T) *world {
	t.Parallel() // each has a lab of its own, and waits most of the time
	quick := timing.Range{Min: time.Second, Max: 2 * time.Second}
	w := &world{T: t, pve: &machines.Part{Times: timing.Machine{Clone: quick, Boot: quick, Delete: quick}}, journal: filepath.Join(t.TempDir(), "journal.ndjson")}
	w.l = labtest.Up(t, lab.Config{Parts: []lab.Part{&lab.KWOK{}, w.pve}})
	w.kube = kubernetes.NewForConfigOrDie(w.l.REST())
	var err error
	w.objects, err = client.New(w.l.REST(), client.Options{})
	w.must(err)
	w.must(w.l.Create(t.Context(), upstream.BufferKind))
	w.plimsoll = &product.Part{Program: labtest.Program(t), PVE: w.pve, Provider: true, Settings: map[string]any{
		"mode": "Active", "interval": "1s", "journal": map[string]any{"file": w.journal},
	}}
	w.must(w.l.Add(t.Context(), w.plimsoll))
	pools, err := product.Pools(w.pve)
	w.must(err)
	for _, p := range pools {
		p["spec"].(map[string]any)["scaledBy"] = "ClusterAutoscaler"
		w.must(w.objects.Create(t.Context(), &unstructured.Unstructured{Object: p}))
	}
	flags := upstream.DefaultFlags()
	seconds := func(n int) podscaler.Duration { return podscaler.Duration(time.Duration(n) * time.Second) }
	flags.ScanInterval, flags.ScaleDownUnneededTime = seconds(1), seconds(10)
	flags.ScaleDownDelayAfterAdd, flags.ScaleDownDelayAfterFailure = seconds(5), seconds(5)
	flags.CapacityBufferPodInjectionEnabled = true
	w.scaler = &upstream.Part{
		Address: w.l.Endpoint(w.plimsoll.Name(), "provider"), Certificates: w.plimsoll.Certificates(), Unneeded: flags, Expander: upstream.Price,
	}
	w.must(w.l.Add(t.Context(), w.scaler))
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// until waits until something is so.
func (w *world) until(what string, so func(ctx context.Context) error) {
	w.Helper()
	labtest.Until(w.T, what, 250*time.Millisecond, so)
}

// machines wants so many VMs, all of which are Ready nodes.
func (w *world) machines(n int) func(context.Context) error {
	return func(ctx context.Context) error {
		nodes, err := w.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		ready := 0
		for i := range nodes.Items {
			for _, c := range nodes.Items[i].Status.Conditions {
				if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
					ready++
				}
			}
		}
		vms := 0
		for _, v := range w.pve.Cluster().Inventory().VMs {
			if v.Config["template"] != "1" {
				vms++
			}
		}
		if vms != n || ready != n || len(nodes.Items) != n {
			return fmt.Errorf("%d VMs and %d nodes, of which %d are ready, want %d", vms, len(nodes.Items), ready, n)
		}
		return nil
	}
}

// running wants so many pods to run.
func (w *world) running(n int) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := w.kube.CoreV1().Pods("default").List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Running"})
		if err == nil && len(pods.Items) != n {
			err = fmt.Errorf("%d run", len(pods.Items))
		}
		return err
	}
}

const web = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: default}, spec: {replicas: 5, selector: {matchLabels: {app: web}},
  template: {metadata: {labels: {app: web}}, spec: {terminationGracePeriodSeconds: 1, containers: [{name: web, image: lab/web, resources: {requests: {cpu: 600m, memory: 100Mi}}}]}}}}`

const ahead = `{apiVersion: autoscaling.x-k8s.io/v1beta1, kind: CapacityBuffer, metadata: {name: ahead, namespace: default},
  spec: {scalableRef: {apiGroup: apps, kind: Deployment, name: web}, replicas: 3}}`

// Machines come for pods that wait, and for those of a CapacityBuffer; they go again when they are
// not needed. All of it goes through the provider's calls, and Plimsoll itself decides on no
// machine.
func TestMachinesComeAndGoOverGRPC(t *testing.T) {
	w := newWorld(t)
	w.must(w.l.Create(t.Context(), []byte(web)))
	w.until("five pods run", w.running(5))
	w.until("on two machines", w.machines(2))
	w.must(w.l.Create(t.Context(), []byte(ahead)))
	w.until("there is room for three more", w.machines(3))
	w.must(w.kube.CoreV1().RESTClient().Delete().AbsPath("/apis/autoscaling.x-k8s.io/v1beta1/namespaces/default/capacitybuffers/ahead").Do(t.Context()).Error())
	w.scale(2)
	w.until("one machine is left for two pods", w.machines(1))
	w.until("and they run", w.running(2))
	calls := w.calls()
	for _, method := range []string{"NodeGroupIncreaseSize", "NodeGroupDeleteNodes", "PricingNodePrice"} {
		if calls[method] == 0 {
			t.Errorf("no call of %s was answered with OK: %v", method, calls)
		}
	}
	w.must(w.l.Stop(t.Context(), w.scaler.Name()))
	w.must(w.l.Stop(t.Context(), w.plimsoll.Name()))
	file, err := os.Open(w.journal)
	w.must(err)
	defer func() { _ = file.Close() }()
	steps := 0
	w.must(loop.Read(file, func(s *loop.Step) error {
		if steps++; len(s.Plan.Actions) > 0 {
			t.Errorf("%s: Plimsoll itself decided %v", s.ID, s.Plan.Actions)
		}
		return nil
	}))
	if steps == 0 {
		t.Error("the journal is empty")
	}
}

func (w *world) scale(n int32) {
	w.Helper()
	s, err := w.kube.AppsV1().Deployments("default").GetScale(w.Context(), "web", metav1.GetOptions{})
	w.must(err)
	s.Spec.Replicas = n
	_, err = w.kube.AppsV1().Deployments("default").UpdateScale(w.Context(), "web", s, metav1.UpdateOptions{})
	w.must(err)
}

// calls are how many calls the provider answered with OK, by method.
func (w *world) calls() map[string]int {
	w.Helper()
	answer, err := http.Get(w.l.Endpoint(w.plimsoll.Name(), "metrics"))
	w.must(err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	w.must(err)
	all := map[string]int{}
	for line := range strings.Lines(string(text)) {
		var method string
		var n int
		if _, err := fmt.Sscanf(line, `plimsoll_provider_calls_total{code="OK",method=%q} %d`, &method, &n); err == nil {
			all[method] = n
		}
	}
	return all
}
