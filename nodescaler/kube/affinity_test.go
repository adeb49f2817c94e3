package kube

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

func aNodeWith(name string, labels map[string]string, taints ...nodescaler.Taint) *node {
	all := maps.Clone(labels)
	if all == nil {
		all = map[string]string{}
	}
	all["kubernetes.io/hostname"] = name
	return &node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: all}, said: nodescaler.Node{Name: name, Labels: all, Taints: taints}}
}

func TestPodsGoWhereTheirConstraintsLetThem(t *testing.T) {
	control := aNodeWith("control", map[string]string{"node-role.kubernetes.io/control-plane": ""})
	small := aNodeWith("small-1", map[string]string{"pool": "small", "zone": "a", "disk": "hdd"})
	large := aNodeWith("large-1", map[string]string{"pool": "large", "zone": "a", "disk": "ssd", "gen": "7"})
	places := map[string]*nodescaler.Node{
		"control": &control.said, "small-1": &small.said, "large-1": &large.said,
		"new small": (&nodescaler.Pool{Labels: map[string]string{"pool": "small", "disk": "hdd"}}).Node(),
		"new large": (&nodescaler.Pool{Labels: map[string]string{"pool": "large", "disk": "ssd", "gen": "7"}}).Node(),
	}
	requires := func(terms string) string {
		return `spec: {nodeName: small-1, affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [` + terms + `]}}}}`
	}
	var volumes []*volume
	for _, v := range []string{
		`{metadata: {name: v1}, spec: {claimRef: {namespace: shop, name: here}, local: {path: /d}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [small-1]}]}]}}}}`,
		`{metadata: {name: v2}, spec: {claimRef: {namespace: shop, name: zoned}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]}}}}`,
	} {
		volumes = append(volumes, shortVolume(object[corev1.PersistentVolume](t, v)))
	}
	rests := newStorage(volumes, nil, nil, nil, newDevices(nil, nil, nil, nil), nil)
	const all, nowhere = "control, large-1, new large, new small, small-1", ""
	for _, c := range []struct{ name, spec, want, pinned string }{
		{name: "nothing", spec: `spec: {nodeName: small-1}`, want: all},
		{name: "a value that none has", spec: requires(`{matchExpressions: [{key: disk, operator: In, values: [nvme]}]}`), want: nowhere},
		{name: "what all have", spec: requires(`{matchExpressions: [{key: kubernetes.io/os, operator: NotIn, values: [windows]}]}`), want: all},
		{name: "not on the control plane", spec: requires(`{matchExpressions: [{key: node-role.kubernetes.io/control-plane, operator: DoesNotExist}]}`), want: "large-1, new large, new small, small-1"},
		{name: "several values", spec: requires(`{matchExpressions: [{key: disk, operator: In, values: [ssd, nvme]}]}`), want: "large-1, new large"},
		{name: "greater", spec: requires(`{matchExpressions: [{key: gen, operator: Gt, values: ["6"]}]}`), want: "large-1, new large"},
		{name: "either of two", spec: requires(`{matchExpressions: [{key: gen, operator: Exists}]}, {matchExpressions: [{key: disk, operator: In, values: [hdd]}]}`), want: "large-1, new large, new small, small-1"},
		{name: "a node by name", spec: requires(`{matchFields: [{key: metadata.name, operator: In, values: [large-1]}]}`), want: "large-1"},
		{name: "any but a node", spec: requires(`{matchFields: [{key: metadata.name, operator: NotIn, values: [large-1]}]}`), want: "control, new large, new small, small-1"},
		{name: "a term that means nothing", spec: requires(`{matchExpressions: [{key: gen, operator: Gt, values: [seven]}]}, {matchExpressions: []}`), want: nowhere},
		{name: "a volume of one node", spec: `spec: {volumes: [{name: d, persistentVolumeClaim: {claimName: here}}]}`, want: "small-1", pinned: "local storage: persistent volume v1 is on the node's own disk"},
		{name: "a volume of a zone", spec: `spec: {nodeSelector: {disk: ssd}, volumes: [{name: d, persistentVolumeClaim: {claimName: zoned}}]}`, want: "large-1"},
		{name: "a claim of which nothing is known", spec: `spec: {volumes: [{name: d, persistentVolumeClaim: {claimName: later}}]}`, want: all},
		{name: "two zones at once", spec: `spec: {nodeSelector: {zone: b}, volumes: [{name: d, persistentVolumeClaim: {claimName: zoned}}]}`, want: nowhere},
		{name: "a claim of a device", spec: `spec: {resourceClaims: [{name: gpu, resourceClaimName: gpu}]}`, want: nowhere},
		{name: "no neighbour, running", spec: `spec: {nodeName: small-1, affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {}}]}}}`, want: all},
		{name: "spread, running", spec: `spec: {nodeName: small-1, topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]}`, want: all},
		{name: "spread if it can be", spec: `spec: {nodeName: small-1, topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}`, want: all},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := keptPod(t, "metadata: {namespace: shop, name: a, "+owned+"}\n"+c.spec)
			said := p.said
			rests.place(&said, p)
			var goes []string
			for _, name := range slices.Sorted(maps.Keys(places)) {
				if nodescaler.Accepts(&said, places[name]) == "" {
					goes = append(goes, name)
				}
			}
			if got := strings.Join(goes, ", "); got != c.want || said.Pinned != c.pinned {
				t.Errorf("pinned %q, want %q; goes to %q, want %q", said.Pinned, c.pinned, got, c.want)
			}
		})
	}
}

func TestTolerationOfTheEmptyValueIsExact(t *testing.T) {
	p := keptPod(t, `metadata: {namespace: shop, name: a}
spec: {tolerations: [{key: role, effect: NoSchedule}]}`)
	for _, taint := range []nodescaler.Taint{{Key: "role", Effect: "NoSchedule"}, {Key: "role", Value: "db", Effect: "NoSchedule"}} {
		if accepts := nodescaler.Tolerates(&p.said, []nodescaler.Taint{taint}); accepts != (taint.Value == "") {
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
		n := aNodeWith("n-1", labels)
		required := anyRequirement(t)
		truth, err := nodeaffinity.NewLazyErrorNodeSelector(required).Match(&corev1.Node{ObjectMeta: n.ObjectMeta})
		if got := affinity(required).Meets(&n.said); got != truth {
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
			o, err := keepNode(object[corev1.Node](t, c.node))
			if err != nil {
				t.Fatal(err)
			}
			got := o.(*node).said
			c.want.Name, c.want.Allocatable.CPU, c.want.Allocatable.Memory = "node", 3900, 7<<30
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
