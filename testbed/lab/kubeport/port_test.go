//go:build lab

package kubeport

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// One control plane and one leader serve the tests that do not mind one another. Each uses names of
// its own.
func TestPort(t *testing.T) {
	w := newWorld(t, lab.ControlPlane{})
	w.make(keda)
	w.kind("keda.sh", "v1alpha1", "ScaledObject")
	w.make(vpa)
	w.kind("autoscaling.k8s.io", "v1", "VerticalPodAutoscaler")
	w.node("n-1", "workers")
	w.node("n-2", "")
	c := w.leader()
	for name, test := range map[string]func(*world, *kube.Cluster){
		"what runs is observed":                       testObserve,
		"evictions keep to the budget":                testEvict,
		"pods are resized by their subresource":       testResize,
		"whatever has a scale is scaled":              testScale,
		"chosen pods go first":                        testChoose,
		"no foreign write is overwritten":             testForeignWrite,
		"a fight over replicas is left":               testFight,
		"findings forbid to write":                    testFindings,
		"draining takes back what is ours":            testDraining,
		"only the very node is removed":               testRemoveNode,
		"a status is written when it changes":         testStatus,
		"pools and books have a status":               testStatusOfOthers,
		"a standing condition is one event":           testEvents,
		"an unschedulable pod wakes":                  testWake,
		"edits of ours are told, statuses are not":    testChanged,
		"a mode allows what it says and nothing more": testModes,
		"pods stay with a volume on their node":       testConstraints,
		"people are asked, and answer once":           testAsks,
	} {
		t.Run(name, func(t *testing.T) { test(w.in(t), c) })
	}
	t.Run("every right is used, and none was missing", func(t *testing.T) { w.in(t).rights() })
}

const keda = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: scaledobjects.keda.sh},
  spec: {group: keda.sh, scope: Namespaced, names: {kind: ScaledObject, listKind: ScaledObjectList, plural: scaledobjects, singular: scaledobject},
    versions: [{name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`

const vpa = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition,
  metadata: {name: verticalpodautoscalers.autoscaling.k8s.io, annotations: {api-approved.kubernetes.io: "unapproved, a stand-in for a test"}},
  spec: {group: autoscaling.k8s.io, scope: Namespaced, names: {kind: VerticalPodAutoscaler, listKind: VerticalPodAutoscalerList, plural: verticalpodautoscalers, singular: verticalpodautoscaler},
    versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`

// in is the world for a part of a test.
func (w *world) in(t *testing.T) *world {
	other := *w
	other.T = t
	return &other
}

func podsOf(s *loop.ClusterState, workload string) []nodescaler.Pod {
	return slices.DeleteFunc(slices.Clone(s.Pods), func(p nodescaler.Pod) bool { return p.Workload != workload })
}

func ready(s *loop.ClusterState, workload string) int {
	return len(slices.DeleteFunc(podsOf(s, workload), func(p nodescaler.Pod) bool { return !p.Ready }))
}

func testObserve(w *world, c *kube.Cluster) {
	w.deployment("web", 3)
	w.autoscaler("web", "apps/v1", "Deployment", "web", "Active")
	for _, p := range w.bound("web", 3) {
		w.ready(&p)
	}
	state := w.sees(c, "three pods are ready", func(s *loop.ClusterState) bool { return ready(s, "shop/web") == 3 })
	if state.Replicas["shop/web"] != 3 {
		w.Errorf("replicas %v", state.Replicas)
	}
	node := func(name string) nodescaler.Node { // other tests have nodes, too
		i := slices.IndexFunc(state.Nodes, func(n nodescaler.Node) bool { return n.Name == name })
		if i < 0 {
			w.Fatalf("there is no node %s", name)
		}
		return state.Nodes[i]
	}
	if n := node("n-1"); n.Machine != "n-1" || n.Pool != "workers" || !n.Ready || n.Allocatable.CPU != 4000 || n.PodSlots != 110 {
		w.Errorf("n-1 is %+v", n)
	}
	if n := node("n-2"); n.Machine != "" || n.Pool != "" {
		w.Errorf("n-2 is ours: %+v", n)
	}
	for _, p := range podsOf(&state, "shop/web") {
		if p.Requests.CPU != 100 || p.Node == "" || p.Pinned != "" || p.Phase != "Running" || p.Started.IsZero() || p.ReadyChanged.IsZero() {
			w.Errorf("pod %+v", p)
		}
	}
}

func testEvict(w *world, c *kube.Cluster) {
	w.deployment("guarded", 2)
	w.make(`{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: guarded}, spec: {maxUnavailable: 1, selector: {matchLabels: {app: guarded}}}}`)
	for _, p := range w.bound("guarded", 2) {
		w.ready(&p)
	}
	const workload = "shop/Deployment/guarded"
	allows := func(s *loop.ClusterState) int {
		for _, b := range s.Budgets {
			if b.Workload == workload {
				return b.Allowed
			}
		}
		return -1
	}
	state := w.sees(c, "the budget allows one", func(s *loop.ClusterState) bool { return ready(s, workload) == 2 && allows(s) == 1 })
	all := podsOf(&state, workload)
	if err := c.Evict(w.Context(), all[0].Name); err != nil {
		w.Fatalf("the first: %v", err)
	}
	if err := c.Evict(w.Context(), all[1].Name); !errors.Is(err, loop.ErrBudget) {
		w.Errorf("the second: %v, want %v", err, loop.ErrBudget)
	}
	w.gone(all[0].Name)
	if err := c.Evict(w.Context(), all[0].Name); err != nil {
		w.Errorf("one that is gone: %v", err)
	}
	if err := c.Evict(w.Context(), "shop/nobody"); err == nil {
		w.Error("evicted a pod that was never seen")
	}
	w.sees(c, "the budget is used up", func(s *loop.ClusterState) bool { return allows(s) == 0 })
	// At the end of a drain that has one a pod goes although its budget does not allow it.
	if err := c.DeletePod(w.Context(), all[1].Name, time.Second); err != nil {
		w.Errorf("deleted: %v", err)
	}
	w.gone(all[1].Name)
}

func testResize(w *world, c *kube.Cluster) {
	w.deployment("sized", 1)
	w.make(`{apiVersion: plimsoll.dev/v1alpha1, kind: WorkloadAutoscaler, metadata: {name: sized}, spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: sized},
  policy: HPA, mode: Active, maxReplicas: 50, rightsize: {mode: InPlace}}}`)
	pod := w.bound("sized", 1)[0]
	w.ready(&pod)
	w.sees(c, "the pod is ready", func(s *loop.ClusterState) bool { return ready(s, "shop/sized") == 1 })
	name := "shop/" + pod.Name
	size, ok := c.Size(name)
	if !ok || !size.Running || len(size.Containers) != 1 || size.Containers[0].Requests.CPU != 100 {
		w.Fatalf("it is %+v", size)
	}
	more := []rightsize.Change{{Container: "main", Requests: pricing.Resources{CPU: 250, Memory: 96 * pricing.MiB}}}
	if err := c.Resize(w.Context(), "shop/sized", name, more); err != nil {
		w.Fatal(err)
	}
	w.sees(c, "it asks for more", func(*loop.ClusterState) bool {
		size, _ := c.Size(name)
		return len(size.Containers) == 1 && size.Containers[0].Requests == more[0].Requests
	})
	// To become another class of pod is refused by the API server.
	if err := c.Resize(w.Context(), "shop/sized", name, []rightsize.Change{{Container: "main", Requests: more[0].Requests, Limits: more[0].Requests}}); !apierrors.IsInvalid(err) {
		w.Errorf("of another class: %v", err)
	}
	w.make(`{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {name: theirs}, spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: sized}}}`)
	w.sees(c, "another client sizes it", func(*loop.ClusterState) bool {
		all, err := c.Targets(w.Context())
		return err == nil && slices.ContainsFunc(all, func(t kube.Target) bool { return t.Workload == "shop/sized" && t.Sized != nil })
	})
	if err := c.Resize(w.Context(), "shop/sized", name, more); !errors.Is(err, kube.ErrConflicted) {
		w.Errorf("beside another client: %v", err)
	}
}

// gone plays the kubelet that ends a pod.
func (w *world) gone(pod string) {
	w.Helper()
	namespace, name, _ := strings.Cut(pod, "/")
	now := int64(0)
	err := w.client.CoreV1().Pods(namespace).Delete(w.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	if err != nil && !apierrors.IsNotFound(err) {
		w.Fatal(err)
	}
}

func (w *world) scale(kind, name string) int {
	w.Helper()
	apiVersion := map[string]string{"Website": "example.com/v1"}[kind]
	if apiVersion == "" {
		apiVersion = "apps/v1"
	}
	where, _ := w.resource(fmt.Sprintf(`{apiVersion: %s, kind: %s, metadata: {name: %s}}`, apiVersion, kind, name))
	o := must.Get(where.Get(w.Context(), name, metav1.GetOptions{}, "scale"))(w)
	spec, _ := o.Object["spec"].(map[string]any)
	replicas, _ := spec["replicas"].(int64)
	return int(replicas)
}

const website = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: websites.example.com},
  spec: {group: example.com, scope: Namespaced, names: {kind: Website, listKind: WebsiteList, plural: websites, singular: website},
    versions: [{name: v1, served: true, storage: true,
      schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}},
        status: {type: object, properties: {size: {type: integer}, selector: {type: string}}}}}},
      subresources: {status: {}, scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size, labelSelectorPath: .status.selector}}}]}}`

func testScale(w *world, c *kube.Cluster) {
	w.make(website)
	w.kind("example.com", "v1", "Website")
	w.deployment("d", 1)
	w.make(`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s}, spec: {replicas: 1, serviceName: s,
  selector: {matchLabels: {app: s}}, template: {metadata: {labels: {app: s}}, spec: ` + podSpec("10m") + `}}}`)
	w.make(`{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: r}, spec: {replicas: 1,
  selector: {matchLabels: {app: r}}, template: {metadata: {labels: {app: r}}, spec: ` + podSpec("10m") + `}}}`)
	w.make(`{apiVersion: example.com/v1, kind: Website, metadata: {name: w}, spec: {size: 1}, status: {size: 1, selector: app=w}}`)
	w.make(`{apiVersion: v1, kind: Pod, metadata: {name: w-0, labels: {app: w}}, spec: ` + podSpec("10m") + `}`)
	kinds := []struct{ name, apiVersion, kind string }{
		{"d", "apps/v1", "Deployment"}, {"s", "apps/v1", "StatefulSet"}, {"r", "apps/v1", "ReplicaSet"}, {"w", "example.com/v1", "Website"},
	}
	for _, k := range kinds {
		w.autoscaler(k.name, k.apiVersion, k.kind, k.name, "Active")
	}
	w.sees(c, "each has one replica and one pod", func(s *loop.ClusterState) bool {
		return !slices.ContainsFunc(kinds, func(k struct{ name, apiVersion, kind string }) bool {
			return s.Replicas["shop/"+k.name] != 1 || len(podsOf(s, "shop/"+k.name)) != 1
		})
	})
	for _, k := range kinds {
		if err := c.SetReplicas(w.Context(), "shop/"+k.name, 3); err != nil {
			w.Errorf("%s: %v", k.kind, err)
		} else if n := w.scale(k.kind, k.name); n != 3 {
			w.Errorf("%s has %d replicas, want 3", k.kind, n)
		}
	}
	w.sees(c, "each has three", func(s *loop.ClusterState) bool {
		return !slices.ContainsFunc(kinds, func(k struct{ name, apiVersion, kind string }) bool { return s.Replicas["shop/"+k.name] != 3 })
	})
	// Down to nothing and up again, as a scale of 0 is omitted of what is sent.
	for _, n := range []int{0, 2} {
		if err := c.SetReplicas(w.Context(), "shop/d", n); err != nil {
			w.Error(err)
		}
		w.sees(c, "and so many", func(s *loop.ClusterState) bool { return s.Replicas["shop/d"] == n })
	}
	for _, t := range w.targets(c) {
		if slices.ContainsFunc(kinds, func(k struct{ name, apiVersion, kind string }) bool { return t.Workload == "shop/"+k.name }) && len(t.Findings) > 0 {
			w.Errorf("our own writes are held against us: %+v", t)
		}
	}
}

func testChoose(w *world, c *kube.Cluster) {
	w.deployment("chosen", 3)
	w.autoscaler("chosen", "apps/v1", "Deployment", "chosen", "Active")
	for _, p := range w.bound("chosen", 3) {
		w.ready(&p)
	}
	const workload = "shop/chosen"
	state := w.sees(c, "three pods are ready", func(s *loop.ClusterState) bool { return ready(s, workload) == 3 })
	all := podsOf(&state, workload)
	marked := func() (names []string) {
		for i := range all {
			if w.pod(all[i].Name).Annotations[corev1.PodDeletionCost] != "" {
				names = append(names, all[i].Name)
			}
		}
		return names
	}
	for i := range all { // each of them in turn, so that the one before is let go
		one := []string{all[i].Name}
		w.until("the choice is written", func(ctx context.Context) error {
			if _, err := c.Observe(ctx); err != nil {
				return err
			}
			return c.Choose(ctx, workload, one)
		})
		w.until("it is the only one", func(ctx context.Context) error {
			if _, err := c.Observe(ctx); err != nil {
				return err
			}
			if got := marked(); !slices.Equal(got, one) {
				return errors.Join(fmt.Errorf("marked are %v, want %v", got, one), c.Choose(ctx, workload, one))
			}
			return nil
		})
	}
	if err := c.SetReplicas(w.Context(), workload, 2); err != nil {
		w.Fatal(err)
	}
	last := all[len(all)-1].Name
	w.until("it goes", func(context.Context) error {
		for i := range all {
			if goes := w.pod(all[i].Name).DeletionTimestamp != nil; goes != (all[i].Name == last) {
				return fmt.Errorf("%s goes: %t", all[i].Name, goes)
			}
		}
		return nil
	})
}

func (w *world) pod(name string) *corev1.Pod {
	w.Helper()
	namespace, name, _ := strings.Cut(name, "/")
	return must.Get(w.client.CoreV1().Pods(namespace).Get(w.Context(), name, metav1.GetOptions{}))(w)
}

func (w *world) targets(c *kube.Cluster) []kube.Target {
	w.Helper()
	return must.Get(c.Targets(w.Context()))(w)
}

// rescale is another client who scales a Deployment.
func (w *world) rescale(name string, replicas int) {
	w.Helper()
	body := fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
	_, err := w.client.AppsV1().Deployments("shop").Patch(w.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: "somebody"})
	if err != nil {
		w.Fatal(err)
	}
}

func testForeignWrite(w *world, c *kube.Cluster) {
	w.deployment("crossed", 2)
	w.autoscaler("crossed", "apps/v1", "Deployment", "crossed", "Active")
	w.sees(c, "two", func(s *loop.ClusterState) bool { return s.Replicas["shop/crossed"] == 2 })
	w.rescale("crossed", 7)
	if err := c.SetReplicas(w.Context(), "shop/crossed", 3); !errors.Is(err, kube.ErrChanged) {
		w.Errorf("%v, want %v", err, kube.ErrChanged)
	}
	if n := w.scale("Deployment", "crossed"); n != 7 {
		w.Errorf("%d replicas, want the 7 of another client", n)
	}
}

func testFight(w *world, c *kube.Cluster) {
	w.deployment("fought", 2)
	w.autoscaler("fought", "apps/v1", "Deployment", "fought", "Active")
	for _, n := range []int{3, 4, 5} {
		w.rescale("fought", n)
		w.sees(c, "the foreign write", func(s *loop.ClusterState) bool { return s.Replicas["shop/fought"] == n })
	}
	w.until("the fight is seen", func(context.Context) error {
		for _, t := range w.targets(c) {
			if t.Workload == "shop/fought" && len(t.Findings) == 1 && t.Findings[0].Code == v1alpha1.ReasonForeignWrites &&
				strings.Contains(t.Findings[0].Text, "somebody") {
				return nil
			}
		}
		return errors.New("no finding")
	})
	if err := c.SetReplicas(w.Context(), "shop/fought", 2); !errors.Is(err, kube.ErrConflicted) {
		w.Errorf("%v, want %v", err, kube.ErrConflicted)
	}
}

func testFindings(w *world, c *kube.Cluster) {
	for _, name := range []string{"twice", "hpa"} {
		w.deployment(name, 1)
	}
	w.make(`{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: other}, spec: {maxReplicas: 3,
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: hpa}}}`)
	w.deployment("keda", 1)
	w.make(`{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: other}, spec: {scaleTargetRef: {name: keda}}}`)
	for name, ref := range map[string][3]string{
		"f-keda":   {"apps/v1", "Deployment", "keda"},
		"f-none":   {"apps/v1", "Deployment", "nobody"},
		"f-kind":   {"example.org/v1", "Nothing", "nobody"},
		"f-config": {"v1", "ConfigMap", "kube-root-ca.crt"},
		"f-a":      {"apps/v1", "Deployment", "twice"},
		"f-b":      {"apps/v1", "Deployment", "twice"},
		"f-hpa":    {"apps/v1", "Deployment", "hpa"},
	} {
		w.autoscaler(name, ref[0], ref[1], ref[2], "Active")
	}
	want := map[string]string{
		"shop/f-none": v1alpha1.ReasonTargetNotFound, "shop/f-kind": v1alpha1.ReasonTargetNotFound, "shop/f-config": v1alpha1.ReasonTargetNotScalable,
		"shop/f-a": v1alpha1.ReasonForeignAutoscaler, "shop/f-b": v1alpha1.ReasonForeignAutoscaler, "shop/f-hpa": v1alpha1.ReasonForeignAutoscaler,
		"shop/f-keda": v1alpha1.ReasonForeignAutoscaler,
	}
	w.until("all findings are there", func(context.Context) error {
		got := map[string]string{}
		for _, t := range w.targets(c) {
			if len(t.Findings) > 0 {
				got[t.Workload] = t.Findings[0].Code
			}
		}
		for workload, code := range want {
			if got[workload] != code {
				return fmt.Errorf("%s has %q, want %q", workload, got[workload], code)
			}
		}
		return nil
	})
	if _, err := c.Observe(w.Context()); err != nil {
		w.Fatal(err)
	}
	for workload := range want {
		if err := c.SetReplicas(w.Context(), workload, 2); !errors.Is(err, kube.ErrConflicted) {
			w.Errorf("%s: %v, want %v", workload, err, kube.ErrConflicted)
		}
	}
	for _, name := range []string{"twice", "hpa", "keda"} {
		if n := w.scale("Deployment", name); n != 1 {
			w.Errorf("%s was scaled to %d", name, n)
		}
	}
}

func (w *world) getNode(name string) *corev1.Node {
	w.Helper()
	return must.Get(w.client.CoreV1().Nodes().Get(w.Context(), name, metav1.GetOptions{}))(w)
}

func testDraining(w *world, c *kube.Cluster) {
	w.node("drained", "workers")
	w.node("theirs", "")
	w.node("cordoned", "workers")
	_, err := w.client.CoreV1().Nodes().Patch(w.Context(), "cordoned", types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
	if err != nil {
		w.Fatal(err)
	}
	if err := c.SetDraining(w.Context(), "theirs", true); err == nil || w.getNode("theirs").Spec.Unschedulable {
		w.Errorf("a node that is not ours: %v", err)
	}
	for _, name := range []string{"drained", "cordoned"} {
		if err := c.SetDraining(w.Context(), name, true); err != nil {
			w.Error(err)
		}
	}
	w.sees(c, "both are marked", func(s *loop.ClusterState) bool {
		n := 0
		for i := range s.Nodes {
			if s.Nodes[i].Draining && s.Nodes[i].Cordoned {
				n++
			}
		}
		return n == 2
	})
	for _, name := range []string{"drained", "cordoned", "theirs"} {
		if err := c.SetDraining(w.Context(), name, false); err != nil {
			w.Error(err)
		}
		n := w.getNode(name)
		if _, marked := n.Annotations["plimsoll.dev/draining"]; marked || n.Spec.Unschedulable != (name == "cordoned") {
			w.Errorf("%s is left with %v, unschedulable %v", name, n.Annotations, n.Spec.Unschedulable)
		}
	}
}

func testRemoveNode(w *world, c *kube.Cluster) {
	w.node("removed", "workers")
	w.sees(c, "the node", func(s *loop.ClusterState) bool {
		return slices.ContainsFunc(s.Nodes, func(n nodescaler.Node) bool { return n.Name == "removed" })
	})
	for range 2 {
		if err := c.RemoveNode(w.Context(), "removed"); err != nil {
			w.Error(err)
		}
	}
	if _, err := w.client.CoreV1().Nodes().Get(w.Context(), "removed", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		w.Errorf("the node is still there: %v", err)
	}
}

func (w *world) ours(c *kube.Cluster, name string) *v1alpha1.WorkloadAutoscaler {
	w.Helper()
	var found *v1alpha1.WorkloadAutoscaler
	w.until("the autoscaler is seen", func(context.Context) error {
		all, err := c.Autoscalers()
		for _, a := range all {
			if a.Name == name {
				found = a
				return nil
			}
		}
		return errors.Join(err, errors.New("not there"))
	})
	return found
}

func testStatus(w *world, c *kube.Cluster) {
	w.autoscaler("told", "apps/v1", "Deployment", "nobody", "Recommend")
	o := w.ours(c, "told").DeepCopy()
	first := o.ResourceVersion
	write := func(current int32, reason string, wantWritten bool) {
		w.Helper()
		before := w.stored(o).ResourceVersion
		o.Status.CurrentReplicas = &current
		o.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.Unix(1000, 0)}}
		if err := c.SetStatus(w.Context(), o); err != nil {
			w.Fatal(err)
		}
		if written := w.stored(o).ResourceVersion != before; written != wantWritten {
			w.Errorf("%d replicas, %s: written is %v, want %v", current, reason, written, wantWritten)
		}
	}
	write(1, "Recommending", true)
	write(1, "Recommending", false)
	write(2, "Recommending", false) // a mere number, too soon
	write(3, "Active", true)
	if is := w.stored(o); is.Status.CurrentReplicas == nil || *is.Status.CurrentReplicas != 3 || is.ResourceVersion == first || is.Spec.MaxReplicas != 50 {
		w.Errorf("stored %+v", is)
	}
	o.UID = "another"
	if err := c.SetStatus(w.Context(), o); err != nil {
		w.Errorf("the status of one that is gone: %v", err)
	}
}

// The other kinds have a status, too.
func testStatusOfOthers(w *world, c *kube.Cluster) {
	w.make(`{apiVersion: plimsoll.dev/v1alpha1, kind: PriceBook, metadata: {name: default}, spec: {currency: EUR, pricePerVCPUHour: 1, pricePerGiBHour: 1}}`)
	text := must.Get(os.ReadFile("../../../api/v1alpha1/testdata/accepted/vmp-minimal.yaml"))(w)
	w.make(string(text))
	condition := []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Active", LastTransitionTime: metav1.Unix(1000, 0)}}
	w.until("both are written", func(ctx context.Context) error {
		books, err := c.PriceBooks()
		if err != nil || len(books) != 1 {
			return fmt.Errorf("%d books, %w", len(books), err)
		}
		pools, err := c.Pools()
		if err != nil || len(pools) != 1 {
			return fmt.Errorf("%d pools, %w", len(pools), err)
		}
		if len(books[0].Status.Conditions) == 1 && len(pools[0].Status.Conditions) == 1 {
			return nil
		}
		book, pool := books[0].DeepCopy(), pools[0].DeepCopy()
		book.Status.Conditions, pool.Status.Conditions = condition, condition
		return errors.Join(c.SetStatus(ctx, book), c.SetStatus(ctx, pool), errors.New("not seen yet"))
	})
}

// stored reads an autoscaler past the port.
func (w *world) stored(o *v1alpha1.WorkloadAutoscaler) *v1alpha1.WorkloadAutoscaler {
	w.Helper()
	raw, err := w.any.Resource(v1alpha1.GroupVersion.WithResource("workloadautoscalers")).Namespace(o.Namespace).Get(w.Context(), o.Name, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	var is v1alpha1.WorkloadAutoscaler
	decode(w.T, raw.Object, &is)
	return &is
}

func testEvents(w *world, c *kube.Cluster) {
	w.autoscaler("loud", "apps/v1", "Deployment", "nobody", "Recommend")
	o := w.ours(c, "loud")
	for i := range 10 {
		c.About(o, kube.Event{About: "Ready", Key: "TargetNotFound", Warning: true, Reason: "TargetNotFound", Note: fmt.Sprintf("step %d", i)})
	}
	c.About(o, kube.Event{About: "Ready", Key: "Active", Reason: "Active", Note: "all is well"})
	var notes []string
	w.until("two events are told", func(ctx context.Context) error {
		list, err := w.client.EventsV1().Events("shop").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		notes = nil
		for _, e := range list.Items {
			if e.Regarding.Name == "loud" {
				notes = append(notes, e.Type+" "+e.Reason+" "+e.Note+" "+e.ReportingController)
			}
		}
		if len(notes) < 2 {
			return fmt.Errorf("%q", notes)
		}
		return nil
	})
	slices.Sort(notes)
	if want := []string{"Normal Active all is well plimsoll.dev/plimsoll", "Warning TargetNotFound step 0 plimsoll.dev/plimsoll"}; !slices.Equal(notes, want) {
		w.Errorf("told %q, want %q", notes, want)
	}
}

func testChanged(w *world, c *kube.Cluster) {
	rang := func(within time.Duration) bool {
		select {
		case <-c.Changed():
			return true
		case <-time.After(within):
			return false
		}
	}
	w.autoscaler("edited", "apps/v1", "Deployment", "nobody", "Recommend")
	o := w.ours(c, "edited").DeepCopy()
	// Until all is quiet, also on a machine that is busy with other things.
	for rang(5 * time.Second) {
	}
	nine := int32(9)
	o.Status.CurrentReplicas = &nine
	if err := c.SetStatus(w.Context(), o); err != nil {
		w.Fatal(err)
	}
	if rang(2 * time.Second) {
		w.Error("a status of ours was told")
	}
	where, _ := w.resource(`{apiVersion: plimsoll.dev/v1alpha1, kind: WorkloadAutoscaler, metadata: {name: edited}}`)
	if _, err := where.Patch(w.Context(), "edited", types.MergePatchType, []byte(`{"spec":{"mode":"Paused"}}`), metav1.PatchOptions{}); err != nil {
		w.Fatal(err)
	}
	if !rang(time.Minute) {
		w.Error("an edit was not told")
	}
}

func testModes(w *world, c *kube.Cluster) {
	w.deployment("still", 1)
	w.autoscaler("still", "apps/v1", "Deployment", "still", "Recommend")
	w.sees(c, "it", func(s *loop.ClusterState) bool { return s.Replicas["shop/still"] == 1 })
	if err := c.SetReplicas(w.Context(), "shop/still", 2); !errors.Is(err, kube.ErrConflicted) {
		w.Errorf("an autoscaler that only recommends: %v", err)
	}
	other := w.cluster(kube.Config{Mode: kube.Active})
	w.sees(other, "it", func(s *loop.ClusterState) bool { return s.Replicas["shop/still"] == 1 })
	if err := other.SetDraining(w.Context(), "n-1", true); !errors.Is(err, kube.ErrNotLeader) {
		w.Errorf("one that does not lead: %v", err)
	}
}

func testConstraints(w *world, c *kube.Cluster) {
	w.make(`{apiVersion: v1, kind: PersistentVolume, metadata: {name: disk}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce],
  storageClassName: local, local: {path: /data}, claimRef: {apiVersion: v1, kind: PersistentVolumeClaim, namespace: shop, name: data},
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: plimsoll.dev/pool, operator: In, values: [workers]}]}]}}}}`)
	w.make(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], storageClassName: local,
  volumeName: disk, resources: {requests: {storage: 1Gi}}}}`)
	w.make(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: stuck}, spec: {selector: {matchLabels: {app: stuck}},
  template: {metadata: {labels: {app: stuck}}, spec: {volumes: [{name: d, persistentVolumeClaim: {claimName: data}}],
    containers: [{name: main, image: none}]}}}}`)
	state := w.sees(c, "its pod", func(s *loop.ClusterState) bool { return len(podsOf(s, "shop/Deployment/stuck")) == 1 })
	p := podsOf(&state, "shop/Deployment/stuck")[0]
	if !strings.Contains(p.Pinned, "disk is on the node's own disk") || len(p.Volumes) != 1 || p.Volumes[0].String() != "plimsoll.dev/pool=workers" {
		w.Errorf("pinned %q, volumes %v", p.Pinned, p.Volumes)
	}
}

// The latencies are printed and not judged: how fast this machine is, is not what is tested.
func testWake(w *world, c *kube.Cluster) {
	heard := func() {
		for {
			select {
			case <-c.Wake():
			case <-time.After(500 * time.Millisecond):
				return
			}
		}
	}
	heard()
	const rounds = 20
	var took []time.Duration
	for i := range rounds {
		began := time.Now()
		w.make(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: large-%d}, spec: %s}`, i, podSpec("64")))
		select {
		case <-c.Wake():
			took = append(took, time.Since(began))
		case <-time.After(time.Minute):
			w.Fatal("nothing woke")
		}
		time.Sleep(300 * time.Millisecond)
		heard()
	}
	slices.Sort(took)
	w.Logf("from creating a pod that fits nowhere to the wake: median %s, p95 %s, worst %s of %d", took[rounds/2], took[rounds*95/100-1], took[rounds-1], rounds)
	state := w.sees(c, "the pods wait", func(s *loop.ClusterState) bool {
		n := 0
		for i := range s.Pods {
			if s.Pods[i].Unschedulable {
				n++
			}
		}
		return n >= rounds
	})
	if len(state.Pods) < rounds {
		w.Errorf("%d pods", len(state.Pods))
	}
	for i := range rounds {
		w.gone(fmt.Sprintf("shop/large-%d", i))
	}
}
