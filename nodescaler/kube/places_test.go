package kube

import (
	"fmt"
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
)

func aNodeWith(name string, labels map[string]string, taints ...nodescaler.Taint) *node {
	all := maps.Clone(labels)
	if all == nil {
		all = map[string]string{}
	}
	all["kubernetes.io/hostname"] = name
	return &node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: all}, said: nodescaler.Node{Name: name, Taints: taints}}
}

func TestConstraintsBecomeLabelsThatSayAsMuch(t *testing.T) {
	control := aNodeWith("control", map[string]string{"node-role.kubernetes.io/control-plane": ""})
	small := aNodeWith("small-1", map[string]string{"pool": "small", "zone": "a", "disk": "hdd"})
	large := aNodeWith("large-1", map[string]string{"pool": "large", "zone": "a", "disk": "ssd", "gen": "7"})
	all := []*node{control, small, large}
	pools := []nodescaler.Pool{
		{Name: "small", Labels: map[string]string{"pool": "small", "disk": "hdd"}},
		{Name: "large", Labels: map[string]string{"pool": "large", "disk": "ssd", "gen": "7"}},
	}
	requires := func(terms string) string {
		return `spec: {nodeName: small-1, affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [` + terms + `]}}}}`
	}
	volumes := map[string]*volume{}
	for _, v := range []string{
		`{metadata: {name: v1}, spec: {claimRef: {namespace: shop, name: here}, local: {path: /d}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [small-1]}]}]}}}}`,
		`{metadata: {name: v2}, spec: {claimRef: {namespace: shop, name: zoned}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]}}}}`,
	} {
		o, err := keepVolume(object[corev1.PersistentVolume](t, v))
		if err != nil {
			t.Fatal(err)
		}
		volumes[o.(*volume).claim] = o.(*volume)
	}
	for _, c := range []struct {
		name, spec string
		want       map[string]string
		pinned     string
	}{
		{name: "nothing", spec: `spec: {nodeName: small-1}`},
		{name: "one value", spec: requires(`{matchExpressions: [{key: disk, operator: In, values: [nvme]}]}`), want: map[string]string{"disk": "nvme"}},
		{name: "what all have", spec: requires(`{matchExpressions: [{key: kubernetes.io/os, operator: NotIn, values: [windows]}]}`)},
		{name: "not on the control plane", spec: requires(`{matchExpressions: [{key: node-role.kubernetes.io/control-plane, operator: DoesNotExist}]}`), want: map[string]string{"disk": "hdd"}},
		{name: "several values", spec: requires(`{matchExpressions: [{key: disk, operator: In, values: [ssd, nvme]}]}`), want: map[string]string{"disk": "ssd"}},
		{name: "greater", spec: requires(`{matchExpressions: [{key: gen, operator: Gt, values: ["6"]}]}`), want: map[string]string{"disk": "ssd"}},
		{name: "either of two", spec: requires(`{matchExpressions: [{key: gen, operator: Exists}]}, {matchExpressions: [{key: disk, operator: In, values: [nvme]}]}`), want: map[string]string{"disk": "ssd"}},
		{name: "a node by name", spec: requires(`{matchFields: [{key: metadata.name, operator: In, values: [large-1]}]}`), want: map[string]string{"kubernetes.io/hostname": "large-1"}},
		{name: "where there is nothing", spec: requires(`{matchExpressions: [{key: disk, operator: In, values: [tape, drum]}]}`), want: nowhere("a node by rules that no label stands for")},
		{name: "a volume of one node", spec: `spec: {volumes: [{name: d, persistentVolumeClaim: {claimName: here}}]}`, want: map[string]string{"kubernetes.io/hostname": "small-1"}, pinned: "local storage: persistent volume v1 is on the node's own disk"},
		{name: "a volume of a zone", spec: `spec: {nodeSelector: {disk: ssd}, volumes: [{name: d, persistentVolumeClaim: {claimName: zoned}}]}`, want: map[string]string{"disk": "ssd", "zone": "a"}},
		{name: "a volume that is not there yet", spec: `spec: {volumes: [{name: d, persistentVolumeClaim: {claimName: later}}]}`},
		{name: "two zones at once", spec: `spec: {nodeSelector: {zone: b}, volumes: [{name: d, persistentVolumeClaim: {claimName: zoned}}]}`, want: nowhere("a node with label zone both b and a")},
		{name: "a device", spec: `spec: {containers: [{name: a, resources: {requests: {nvidia.com/gpu: 1}}}]}`, want: nowhere("a node with nvidia.com/gpu")},
		{name: "none of a device", spec: `spec: {containers: [{name: a, resources: {requests: {nvidia.com/gpu: 0, ephemeral-storage: 1Gi}}}]}`},
		{name: "a neighbour", spec: `spec: {affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone}]}}}`, want: nowhere("a node beside pods it has an affinity to")},
		{name: "no neighbour, running", spec: `spec: {nodeName: small-1, affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {}}]}}}`, want: nowhere("a zone without pods it has an anti-affinity to")},
		{name: "no neighbour, waiting", spec: `spec: {nodeSelector: {disk: ssd}, affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone}]}}}`, want: map[string]string{"disk": "ssd"}},
		{name: "spread, running", spec: `spec: {nodeName: small-1, topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]}`, want: nowhere("a node that keeps its pods evenly spread")},
		{name: "spread if it can be", spec: `spec: {nodeName: small-1, topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}`},
		{name: "a port of the node", spec: `spec: {nodeName: small-1, containers: [{name: a, ports: [{containerPort: 80, hostPort: 8080}]}]}`},
		{name: "no neighbour on the node, running", spec: `spec: {nodeName: small-1, affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := keptPod(t, "metadata: {namespace: shop, name: a, "+owned+"}\n"+c.spec)
			said := p.said
			newPlaces(all, pools).fill(&said, p, volumes)
			if len(said.Selector) == 0 {
				said.Selector = nil
			}
			if diff := cmp.Diff(c.want, said.Selector); diff != "" || said.Pinned != c.pinned {
				t.Errorf("pinned %q, want %q; selector -want +got:\n%s", said.Pinned, c.pinned, diff)
			}
		})
	}
}

func TestTolerationOfTheEmptyValueIsExact(t *testing.T) {
	p := keptPod(t, `metadata: {namespace: shop, name: a}
spec: {tolerations: [{key: role, effect: NoSchedule}]}`)
	for _, c := range []struct {
		taint nodescaler.Taint
		want  []nodescaler.Toleration
	}{
		{nodescaler.Taint{Key: "role", Effect: "NoSchedule"}, []nodescaler.Toleration{{Key: "role", Effect: "NoSchedule"}}},
		{nodescaler.Taint{Key: "role", Value: "db", Effect: "NoSchedule"}, nil},
	} {
		said := p.said
		newPlaces([]*node{aNodeWith("n", nil, c.taint)}, nil).fill(&said, p, nil)
		if diff := cmp.Diff(c.want, said.Tolerations); diff != "" {
			t.Errorf("beside taint %v: -want +got:\n%s", c.taint, diff)
		}
		if accepts := nodescaler.Tolerates(&said, []nodescaler.Taint{c.taint}); accepts != (c.taint.Value == "") {
			t.Errorf("tolerates %v: %v", c.taint, accepts)
		}
	}
}

// Whatever is required, and whatever places there are: a place that the labels select meets it. If not, a
// machine would be bought, or a node emptied, for a pod that cannot run there.
func TestLabelsNeverSelectAPlaceThatDoesNotDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		labels := rapid.Custom(func(t *rapid.T) map[string]string {
			m := map[string]string{}
			for _, key := range []string{"a", "b", "c"} {
				if v := rapid.SampledFrom([]string{"", "1", "2", "3"}).Draw(t, key); v != "" {
					m[key] = v
				}
			}
			return m
		})
		var all []*node
		for i := range rapid.IntRange(0, 6).Draw(t, "nodes") {
			all = append(all, aNodeWith(fmt.Sprintf("n-%d", i), labels.Draw(t, "labels")))
		}
		var pools []nodescaler.Pool
		for i := range rapid.IntRange(0, 3).Draw(t, "pools") {
			pools = append(pools, nodescaler.Pool{Name: fmt.Sprint(i), Labels: labels.Draw(t, "labels")})
		}
		required := anyRequirement(t)
		selector := labels.Draw(t, "selector")
		before := maps.Clone(selector)
		places := newPlaces(all, pools)
		got := places.narrowed(selector, []*corev1.NodeSelector{required}, required.String())
		if !maps.Equal(before, selector) {
			t.Fatalf("the pod's own selector was changed to %v", selector)
		}
		truth, err := nodeaffinity.NewNodeSelector(required)
		if err != nil {
			t.Skip("means nothing")
		}
		for i := range places.all {
			place := &places.all[i]
			if selects(got, place.Labels) && !(selects(selector, place.Labels) && truth.Match(place)) {
				t.Fatalf("%v selects %s with %v, which does not meet %v", got, place.Name, place.Labels, required)
			}
		}
		if _, none := got[nodescaler.SelectNowhere]; none && slices.ContainsFunc(places.all, func(n corev1.Node) bool {
			return n.Name != unborn && selects(selector, n.Labels) && truth.Match(&n)
		}) {
			t.Fatalf("taken to fit nowhere, and a node with a name of its own does: %v", required)
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
			nodescaler.Node{PodSlots: 50, Cordoned: true, Draining: true}},
		{"of one that runs again, before the cloud provider has seen it", `{metadata: {name: node}, spec: {taints: [
  {key: node.cloudprovider.kubernetes.io/shutdown, effect: NoSchedule}]}, ` + healthy + `}`, nodescaler.Node{PodSlots: 50}},
		{"starting by its own taint", `{metadata: {name: node}, spec: {taints: [{key: startup-taint.cluster-autoscaler.kubernetes.io/csi, effect: NoSchedule}]}, ` + healthy + `}`,
			nodescaler.Node{PodSlots: 50}},
		{"not heard of", `{metadata: {name: node}, status: {allocatable: {cpu: 3900m, memory: 7Gi, pods: "50"}, conditions: [{type: Ready, status: Unknown}]}}`, nodescaler.Node{PodSlots: 50}},
		{"on its way out", `{metadata: {name: node, deletionTimestamp: "2026-03-01T12:00:00Z"}, ` + healthy + `}`, nodescaler.Node{PodSlots: 50}},
		{"that takes no pods", `{metadata: {name: node}, status: {allocatable: {cpu: 3900m, memory: 7Gi, pods: "0"}, conditions: [{type: Ready, status: "True"}]}}`, nodescaler.Node{Ready: true, PodSlots: -1}},
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
