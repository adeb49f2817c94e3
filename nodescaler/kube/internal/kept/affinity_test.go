package kept

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/written"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

func TestTolerationOfTheEmptyValueIsExact(t *testing.T) {
	p := ShortPod(written.Object[corev1.Pod](t, `metadata: {namespace: shop, name: a}
spec: {tolerations: [{key: role, effect: NoSchedule}]}`))
	for _, taint := range []nodescaler.Taint{{Key: "role", Effect: "NoSchedule"}, {Key: "role", Value: "db", Effect: "NoSchedule"}} {
		if accepts := nodescaler.Tolerates(&p.Form, []nodescaler.Taint{taint}); accepts != (taint.Value == "") {
			t.Errorf("tolerates %v: %v", taint, accepts)
		}
	}
}

// Kubernetes' own library answers the same, for any requirement and any node.
func TestAffinityIsThatOfKubernetes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		labels := map[string]string{}
		for _, key := range []string{"a", "b", "c"} {
			if v := rapid.SampledFrom([]string{"", "1", "2", "3", "x"}).Draw(t, key); v != "" {
				labels[key] = v
			}
		}
		n := ShortNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n-1", Labels: labels}})
		required := anyRequirement(t)
		truth, err := nodeaffinity.NewLazyErrorNodeSelector(required).Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n-1", Labels: labels}})
		if got := affinity(required).Meets(&n.Said); got != truth {
			t.Fatalf("%v of %v: %v, and %v (%v) by Kubernetes", affinity(required), n.Labels, got, truth, err)
		}
	})
}

func anyRequirement(t *rapid.T) *corev1.NodeSelector {
	s := &corev1.NodeSelector{}
	for range rapid.IntRange(1, 3).Draw(t, "terms") {
		var term corev1.NodeSelectorTerm
		for range rapid.IntRange(1, 3).Draw(t, "expressions") {
			e := corev1.NodeSelectorRequirement{
				Key:      rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key"),
				Operator: rapid.SampledFrom([]corev1.NodeSelectorOperator{"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"}).Draw(t, "operator"),
			}
			switch {
			case strings.Contains(string(e.Operator), "Exist"):
			case e.Operator == "Gt", e.Operator == "Lt":
				e.Values = []string{"2"}
			default:
				e.Values = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"1", "2", "3"}), 1, 2, rapid.ID).Draw(t, "values")
			}
			term.MatchExpressions = append(term.MatchExpressions, e)
		}
		s.NodeSelectorTerms = append(s.NodeSelectorTerms, term)
	}
	return s
}

func TestNodeIsToldInOurWords(t *testing.T) {
	const healthy = `status: {allocatable: {cpu: 3900m, memory: 7Gi, pods: "50"}, conditions: [{type: Ready, status: "True"}]}`
	for _, c := range []struct {
		name, node string
		want       nodescaler.Node
	}{
		{"one like others", `{metadata: {name: node}, ` + healthy + `}`, nodescaler.Node{Ready: true, PodSlots: 50}},
		{"cordoned", `{metadata: {name: node}, spec: {unschedulable: true, taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]}, ` + healthy + `}`,
			nodescaler.Node{Ready: true, PodSlots: 50, Cordoned: true}},
		{"being emptied", `{metadata: {name: node, annotations: {plimsoll.dev/draining: cordoned}}, spec: {unschedulable: true}, ` + healthy + `}`,
			nodescaler.Node{Ready: true, PodSlots: 50, Cordoned: true, Draining: true}},
		{"with taints", `{metadata: {name: node}, spec: {taints: [{key: a, value: x, effect: NoSchedule}, {key: b, effect: PreferNoSchedule}, {key: c, effect: NoExecute}]}, ` + healthy + `}`,
			nodescaler.Node{Ready: true, PodSlots: 50, Taints: []nodescaler.Taint{{Key: "a", Value: "x", Effect: "NoSchedule"}, {Key: "c", Effect: "NoExecute"}}}},
		{"not initialised yet", `{metadata: {name: node}, spec: {taints: [{key: node.cloudprovider.kubernetes.io/uninitialized, value: "true", effect: NoSchedule}]}, ` + healthy + `}`,
			nodescaler.Node{PodSlots: 50}},
		{"of a spare that is stopped", `{metadata: {name: node, annotations: {plimsoll.dev/draining: cordoned}}, spec: {unschedulable: true, taints: [
  {key: node.kubernetes.io/unschedulable, effect: NoSchedule}, {key: node.kubernetes.io/unreachable, effect: NoExecute},
  {key: node.cloudprovider.kubernetes.io/shutdown, effect: NoSchedule}]}, status: {allocatable: {cpu: 3900m, memory: 7Gi, pods: "50"}, conditions: [{type: Ready, status: Unknown}]}}`,
			nodescaler.Node{PodSlots: 50, Cordoned: true, Draining: true, Conditions: []nodescaler.NodeCondition{{Type: "Ready", Status: "Unknown"}}}},
		{"of one that runs again, before the cloud provider has seen it", `{metadata: {name: node}, spec: {taints: [
  {key: node.cloudprovider.kubernetes.io/shutdown, effect: NoSchedule}]}, ` + healthy + `}`, nodescaler.Node{PodSlots: 50}},
		{"starting by its own taint", `{metadata: {name: node}, spec: {taints: [{key: startup-taint.cluster-autoscaler.kubernetes.io/csi, effect: NoSchedule}]}, ` + healthy + `}`,
			nodescaler.Node{PodSlots: 50}},
		{"starting by its own taint, as older ones are called", `{metadata: {name: node}, spec: {taints: [{key: ignore-taint.cluster-autoscaler.kubernetes.io/csi, effect: NoSchedule}]}, ` + healthy + `}`,
			nodescaler.Node{PodSlots: 50}},
		{"starting until its network and storage work", `{metadata: {name: node}, spec: {taints: [{key: cni.istio.io/not-ready, effect: NoSchedule},
  {key: efs.csi.aws.com/agent-not-ready, effect: NoExecute}, {key: readiness.k8s.io/StorageReady, value: pending, effect: NoSchedule}]}, ` + healthy + `}`,
			nodescaler.Node{PodSlots: 50}},
		{"short of memory", `{metadata: {name: node}, spec: {taints: [{key: node.kubernetes.io/memory-pressure, effect: NoSchedule}, {key: ready, effect: NoSchedule}]}, ` + healthy + `}`,
			nodescaler.Node{Ready: true, PodSlots: 50, Taints: []nodescaler.Taint{{Key: "node.kubernetes.io/memory-pressure", Effect: "NoSchedule"}, {Key: "ready", Effect: "NoSchedule"}}}},
		{"not heard of", `{metadata: {name: node}, status: {allocatable: {cpu: 3900m, memory: 7Gi, pods: "50"}, conditions: [{type: Ready, status: Unknown}]}}`,
			nodescaler.Node{PodSlots: 50, Conditions: []nodescaler.NodeCondition{{Type: "Ready", Status: "Unknown"}}}},
		{"on its way out", `{metadata: {name: node, deletionTimestamp: "2026-03-01T12:00:00Z"}, ` + healthy + `}`, nodescaler.Node{PodSlots: 50}},
		{"that takes no pods", `{metadata: {name: node}, status: {allocatable: {cpu: 3900m, memory: 7Gi, pods: "0"}, conditions: [{type: Ready, status: "True"}]}}`, nodescaler.Node{Ready: true, PodSlots: -1}},
		{"with devices", `{metadata: {name: node}, status: {allocatable: {cpu: 3900m, memory: 7Gi, pods: "50", nvidia.com/gpu: "2", hugepages-1Gi: "0", hugepages-2Mi: 4Mi, ephemeral-storage: "18242267924"}, conditions: [{type: Ready, status: "True"}]}}`,
			nodescaler.Node{Ready: true, PodSlots: 50, Extra: pricing.Amounts{{Name: "ephemeral-storage", N: 18242267924}, {Name: "hugepages-2Mi", N: 4 << 20}, {Name: "nvidia.com/gpu", N: 2}}}},
		{"that does not say", `{metadata: {name: node}, status: {allocatable: {cpu: 3900m, memory: 7Gi}, conditions: [{type: Ready, status: "True"}]}}`, nodescaler.Node{Ready: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := must.Get(Keep(written.Object[corev1.Node](t, c.node)))(t)
			got := o.(*Node).Said
			c.want.Name, c.want.Allocatable.CPU, c.want.Allocatable.Memory = "node", 3900, 7<<30
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Owners keep nodes by the annotations that they know.
func TestOwnersKeepNodes(t *testing.T) {
	for annotation, want := range map[string]bool{
		`plimsoll.dev/do-not-disrupt: "true"`:                           true,
		`karpenter.sh/do-not-disrupt: "true"`:                           true,
		`cluster-autoscaler.kubernetes.io/scale-down-disabled: "true"`:  true,
		`cluster-autoscaler.kubernetes.io/scale-down-disabled: "false"`: false,
		`cluster-autoscaler.kubernetes.io/safe-to-evict: "false"`:       false,
	} {
		key, value, _ := strings.Cut(annotation, ": ")
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: strings.Trim(value, `"`)}}}
		if got := ShortNode(n).Said.Pinned; (got != "") != want || want && got != "annotated "+annotation {
			t.Errorf("%s: got %q", annotation, got)
		}
	}
}

// Conditions that every healthy node has are not kept.
func TestConditionsOfNodesAreKept(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	n := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)},
		{Type: "KernelDeadlock", Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(at)},
	}}}
	want := []nodescaler.NodeCondition{{Type: "DiskPressure", Status: "True", Since: at}, {Type: "KernelDeadlock", Status: "False", Since: at}}
	if d := cmp.Diff(want, ShortNode(n).Said.Conditions); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}
