package sight

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/written"
	"github.com/plimsoll/plimsoll/pricing"
)

// aDaemonSet is a DaemonSet whose pods ask for 100m CPU and 64 MiB, and have more in their spec.
func aDaemonSet(t *testing.T, name, spec string) *appsv1.DaemonSet {
	t.Helper()
	return written.Object[appsv1.DaemonSet](t, fmt.Sprintf(`metadata: {namespace: shop, name: %s, uid: %[1]s}
spec: {template: {spec: {containers: [{name: c, resources: {requests: {cpu: 100m, memory: 64Mi}}}], %s}}}`, name, spec))
}

// taken is what daemons take of a machine that has room for all.
func taken(d nodescaler.Daemons) nodescaler.Used {
	shape := pricing.Shape{CPU: 64000, Memory: 64 * pricing.GiB}
	r := (&nodescaler.Pool{Daemons: d}).Empty(shape)
	return nodescaler.Used{Requests: shape.Resources().Minus(r.Free), Pods: nodescaler.DefaultPodSlots - r.Slots}
}

func TestDaemonSetsTakeTheirShareOfNewNodes(t *testing.T) {
	pool := &nodescaler.Pool{
		Name: "workers", Labels: map[string]string{"disk": "ssd", "plimsoll.dev/pool": "workers"},
		Taints: []nodescaler.Taint{{Key: "team", Value: "data", Effect: "NoSchedule"}},
	}
	tolerates := `tolerations: [{key: team, value: data, effect: NoSchedule}]`
	for _, c := range []struct {
		name, spec string
		runs       bool
	}{
		{name: "tolerates the taint", spec: tolerates, runs: true},
		{name: "tolerates everything", spec: `tolerations: [{operator: Exists}]`, runs: true},
		{name: "does not tolerate it", spec: `tolerations: [{key: team, value: web, effect: NoSchedule}]`},
		{name: "selects the label", spec: tolerates + `, nodeSelector: {disk: ssd}`, runs: true},
		{name: "selects another", spec: tolerates + `, nodeSelector: {disk: hdd}`},
		{
			name: "has an affinity to one of two labels", runs: true,
			spec: tolerates + `, affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: gpu, operator: Exists}]}, {matchExpressions: [{key: disk, operator: NotIn, values: [hdd]}]}]}}}`,
		},
		{
			name: "is kept from virtual machines",
			spec: tolerates + `, affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: plimsoll.dev/pool, operator: DoesNotExist}]}]}}}`,
		},
		{
			name: "is meant for a node that is there",
			spec: tolerates + `, affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [w-1]}]}]}}}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			port := &shown{}
			port.holds(t, aDaemonSet(t, "agent", c.spec))
			var want nodescaler.Used
			if c.runs {
				want = nodescaler.Used{Requests: pricing.Resources{CPU: 100, Memory: 64 * pricing.MiB}, Pods: 1}
			}
			if d := cmp.Diff(want, taken(port.look().Daemons(pool))); d != "" {
				t.Error(d)
			}
		})
	}
}

// daemonPod is a pod of a DaemonSet as its controller makes it for a node.
func daemonPod(of, node, more string) string {
	return fmt.Sprintf(`metadata: {namespace: shop, name: %s-%s, ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: %[1]s, uid: %[1]s, controller: true}]}
spec:
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [%[2]s]}]}]}}}
  containers: [{name: c, resources: {requests: {cpu: 300m, memory: 64Mi}}}]
  %s`, of, node, more)
}

// A template without requests gets those of its namespace's LimitRange, which its pods have.
func TestDaemonSetsWithoutRequestsAskForWhatTheirPodsDo(t *testing.T) {
	port := &shown{}
	port.holds(t, written.Object[appsv1.DaemonSet](t, `metadata: {namespace: shop, name: agent, uid: agent}
spec: {template: {spec: {containers: [{name: c, resources: {requests: {memory: 32Mi}}}]}}}`))
	port.holds(t, written.Object[corev1.Pod](t, daemonPod("agent", "w-1", "nodeName: w-1")))
	want := nodescaler.Used{Requests: pricing.Resources{CPU: 300, Memory: 64 * pricing.MiB}, Pods: 1}
	if d := cmp.Diff(want, taken(port.look().Daemons(&nodescaler.Pool{Name: "workers"}))); d != "" {
		t.Error(d)
	}
}

// The API server fills in requests that are only limited, and ports of the node's network, in pods
// and not in templates. The first machine has them all the same.
func TestDaemonSetsTakeWhatTheAPIServerFillsIn(t *testing.T) {
	port := &shown{}
	port.holds(t, written.Object[appsv1.DaemonSet](t, `metadata: {namespace: shop, name: agent, uid: agent}
spec: {template: {spec: {hostNetwork: true, containers: [
  {name: a, ports: [{containerPort: 9100}], resources: {limits: {cpu: 300m, memory: 64Mi}, requests: {memory: 32Mi}}}]}}}`))
	pool := &nodescaler.Pool{Daemons: port.look().Daemons(&nodescaler.Pool{Name: "workers"})}
	want := nodescaler.Used{Requests: pricing.Resources{CPU: 300, Memory: 32 * pricing.MiB}, Pods: 1}
	if d := cmp.Diff(want, taken(pool.Daemons)); d != "" {
		t.Error(d)
	}
	port.holds(t, written.Object[corev1.Pod](t, `metadata: {namespace: shop, name: exporter}
spec: {containers: [{name: c, ports: [{containerPort: 80, hostPort: 9100}]}]}`))
	if pod := port.look().Pods[0]; pool.Holds(&pod, pricing.Shape{CPU: 4000, Memory: pricing.GiB}, "") {
		t.Error("a machine is ordered for a pod whose port the DaemonSet has")
	}
}

// A new pod asks for what the last one did, as it was admitted. Where that is of an older template,
// or of one that is not known, the larger of the two counts.
func TestDaemonsTakeWhatTheirPodsAskFor(t *testing.T) {
	for _, c := range []struct {
		template, pod string // their generations
		memory        pricing.Bytes
	}{
		{"3", "3", 32 * pricing.MiB},
		{"3", "2", pricing.GiB},
		{"3", "", pricing.GiB},
		{"", "", pricing.GiB},
	} {
		port := &shown{}
		port.holds(t, written.Object[corev1.Node](t, `{metadata: {name: w-1, uid: n}}`))
		d := written.Object[appsv1.DaemonSet](t, `metadata: {namespace: shop, name: agent, uid: agent}
spec: {template: {spec: {containers: [{name: c, resources: {requests: {cpu: 100m, memory: 1Gi}}}]}}}`)
		p := written.Object[corev1.Pod](t, daemonPod("agent", "w-1", "nodeName: w-1"))
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("600m"), corev1.ResourceMemory: resource.MustParse("32Mi"),
		}
		if c.template != "" {
			d.Annotations = map[string]string{"deprecated.daemonset.template.generation": c.template}
		}
		if c.pod != "" {
			p.Labels = map[string]string{"pod-template-generation": c.pod}
		}
		port.holds(t, d)
		port.holds(t, p)
		want := nodescaler.Used{Requests: pricing.Resources{CPU: 600, Memory: c.memory}, Pods: 1}
		if d := cmp.Diff(want, taken(port.look().Daemons(&nodescaler.Pool{Name: "workers"}))); d != "" {
			t.Errorf("template %q, pod %q: %s", c.template, c.pod, d)
		}
	}
}

// What the kubelet runs by itself on all ready nodes of a pool, it runs on the next one; and so
// does a controller whose DaemonSets are not seen.
func TestStaticPodsTakeTheirShareOfNewNodes(t *testing.T) {
	for _, owner := range []string{"apiVersion: v1, kind: Node, name: %[2]s, uid: n", "apiVersion: apps.kruise.io/v1alpha1, kind: DaemonSet, name: agent%[1]d, uid: a"} {
		staticPodsTakeTheirShare(t, owner)
	}
}

func staticPodsTakeTheirShare(t *testing.T, owner string) {
	t.Helper()
	port := &shown{}
	port.machine = func(n *corev1.Node) (string, string) { return n.Name, "workers" }
	for _, n := range []struct {
		name, ready string
		static      int
	}{{"w-1", "True", 2}, {"w-2", "True", 1}, {"w-3", "False", 0}} {
		port.holds(t, written.Object[corev1.Node](t, fmt.Sprintf(`{metadata: {name: %s, uid: n}, status: {conditions: [{type: Ready, status: %q}]}}`, n.name, n.ready)))
		for i := range n.static {
			port.holds(t, written.Object[corev1.Pod](t, fmt.Sprintf(`metadata: {namespace: kube-system, name: proxy%[1]d-%[2]s, ownerReferences: [{`+owner+`, controller: true}]}
spec: {nodeName: %[2]s, containers: [{name: c, resources: {requests: {cpu: 100m, memory: 64Mi}}}]}`, i, n.name)))
		}
	}
	daemons := port.look().Daemons
	want := nodescaler.Used{Requests: pricing.Resources{CPU: 100, Memory: 64 * pricing.MiB}, Pods: 1}
	if d := cmp.Diff(want, taken(daemons(&nodescaler.Pool{Name: "workers"}))); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(nodescaler.Used{}, taken(daemons(&nodescaler.Pool{Name: "others"}))); d != "" {
		t.Error(d)
	}
}

// On a pool's only node, nothing says that a foreign daemon is for every node; and one whose pods
// have not come to a new node yet is.
func TestWhereForeignDaemonsCount(t *testing.T) {
	for _, c := range []struct {
		name   string
		joined []string
		pods   int // on the first nodes
		want   int
	}{
		{"one node", []string{"11:00:00"}, 1, 0},
		{"two", []string{"11:00:00", "11:00:00"}, 2, 1},
		{"one of two", []string{"11:00:00", "11:00:00"}, 1, 0},
		{"two of three, and one is new", []string{"11:00:00", "11:00:00", "11:59:00"}, 2, 1},
	} {
		port := &shown{now: time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC), machine: func(n *corev1.Node) (string, string) { return n.Name, "workers" }}
		for i, at := range c.joined {
			port.holds(t, written.Object[corev1.Node](t, fmt.Sprintf(`{metadata: {name: w-%d, uid: n, creationTimestamp: "2026-09-01T%sZ"}, status: {conditions: [{type: Ready, status: "True"}]}}`, i, at)))
			if i < c.pods {
				port.holds(t, written.Object[corev1.Pod](t, fmt.Sprintf(`metadata: {namespace: shop, name: agent-%d, ownerReferences: [{apiVersion: apps.kruise.io/v1alpha1, kind: DaemonSet, name: agent, uid: a, controller: true}]}
spec: {nodeName: w-%[1]d, containers: [{name: c}]}`, i)))
			}
		}
		if got := port.look().Daemons(&nodescaler.Pool{Name: "workers"}).Static.Pods; got != c.want {
			t.Errorf("%s: %d pods count, want %d", c.name, got, c.want)
		}
	}
}

// A label that each node gets once it has joined, the next one will get, too.
func TestDaemonSetsThatRunOnEveryNodeRunOnTheNext(t *testing.T) {
	const later, ready = `feature.node.kubernetes.io/gpu: "true"`, `status: {conditions: [{type: Ready, status: "True"}]}`
	const zone, large, huge = "topology.kubernetes.io/zone: pve1", "node.kubernetes.io/instance-type: large", "node.kubernetes.io/instance-type: huge"
	joined := func(name, labels, at string) string {
		return `{metadata: {name: ` + name + `, uid: n, creationTimestamp: "2026-09-01T` + at + `Z", labels: {kubernetes.io/hostname: ` + name + `, ` + labels + `}}, `
	}
	node := func(name, labels string) string { return joined(name, labels, "11:00:00") }
	selects := func(label string) string { return `nodeSelector: {` + label + `}` }
	for _, c := range []struct {
		name, spec string
		nodes      []string
		runs       bool
		zones      bool // hosts are zones
		types      bool // shapes are types
	}{
		{name: "no node yet", spec: selects(later)},
		{name: "one that has it", spec: selects(later), nodes: []string{node("w-1", later) + ready + "}"}, runs: true},
		{name: "one that is not ready has it not", spec: selects(later), nodes: []string{node("w-1", later) + ready + "}", node("w-2", "") + "}"}, runs: true},
		{name: "one of two has it", spec: selects(later), nodes: []string{node("w-1", later) + ready + "}", node("w-2", "") + ready + "}"}},
		{name: "one of another pool has it not", spec: selects(later), nodes: []string{node("w-1", later) + ready + "}", node("x-1", "") + ready + "}"}, runs: true},
		{name: "one of two has it yet", spec: selects(later), nodes: []string{node("w-1", later) + ready + "}", joined("w-2", "", "11:55:01") + ready + "}"}, runs: true},
		{name: "one of two has it after a while", spec: selects(later), nodes: []string{node("w-1", later) + ready + "}", joined("w-2", "", "11:55:00") + ready + "}"}},
		{name: "one joined just now", spec: selects(later), nodes: []string{joined("w-1", later, "11:59:00") + ready + "}"}, runs: true},
		{name: "a zone", spec: selects(zone), nodes: []string{node("w-1", zone) + ready + "}"}, runs: true},
		{name: "a zone that is the host", spec: selects(zone), nodes: []string{node("w-1", zone) + ready + "}"}, zones: true},
		{name: "a type", spec: selects(large), nodes: []string{node("w-1", large) + ready + "}"}, runs: true},
		{name: "a type that is a shape", spec: selects(large), types: true, runs: true},
		{name: "a type that is no shape", spec: selects(huge), nodes: []string{node("w-1", huge) + ready + "}"}, types: true},
		{name: "a node's own name", spec: selects("kubernetes.io/hostname: w-1"), nodes: []string{node("w-1", later) + ready + "}"}},
		{
			name: "a node by its name", nodes: []string{node("w-1", later) + ready + "}"},
			spec: `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [w-1]}]}]}}}`,
		},
	} {
		port := &shown{now: time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC), machine: func(n *corev1.Node) (string, string) {
			return n.Name, map[byte]string{'w': "workers", 'x': "others"}[n.Name[0]]
		}}
		port.holds(t, aDaemonSet(t, "agent", c.spec))
		for _, n := range c.nodes {
			port.holds(t, written.Object[corev1.Node](t, n))
		}
		pool := &nodescaler.Pool{Name: "workers", HostIsZone: c.zones, ShapeIsType: c.types, Shapes: []pricing.Shape{{Name: "small"}, {Name: "large"}}}
		if got := taken(port.look().Daemons(pool)).Pods == 1; got != c.runs {
			t.Errorf("%s: runs on the next one: %t", c.name, got)
		}
	}
}

// The place of a daemon's pod that waits for its node is taken, and is no place for other pods.
func TestDaemonsThatWaitForTheirNodeTakeTheirPlace(t *testing.T) {
	waits := `
status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}`
	for _, c := range []struct {
		name, pod, node string
		unschedulable   bool
	}{
		{name: "waits", pod: daemonPod("agent", "w-1", "") + waits, node: "w-1"},
		{name: "its node is gone", pod: daemonPod("agent", "w-9", "") + waits, unschedulable: true},
		{name: "runs", pod: daemonPod("agent", "w-1", "nodeName: w-1"), node: "w-1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			port := &shown{}
			port.holds(t, written.Object[corev1.Node](t, `{metadata: {name: w-1, uid: n}}`))
			port.holds(t, aDaemonSet(t, "agent", ""))
			port.holds(t, written.Object[corev1.Pod](t, c.pod))
			p := port.look().Pods[0]
			if p.Node != c.node || p.Unschedulable != c.unschedulable || !p.Daemon {
				t.Errorf("node %q, unschedulable %t, daemon %t", p.Node, p.Unschedulable, p.Daemon)
			}
		})
	}
}

// Any client may write an owner reference to a DaemonSet or a node into a pod. A pod that does not
// really belong to it counts for its namespace, gets no machine, and keeps its node.
func TestPodsOfNoDaemonSetAreNotDaemons(t *testing.T) {
	owned := func(by, more string) string {
		return "metadata: {namespace: shop, name: x, ownerReferences: [{" + by + "}]}\nspec: {containers: [{name: c}]" + more + "}"
	}
	const agent, onNode = "apiVersion: apps/v1, kind: DaemonSet, name: agent, uid: agent, controller: true", ", nodeName: w-1"
	for _, c := range []struct {
		name, pod, why string
	}{
		{"a DaemonSet's", owned(agent, onNode), ""},
		{"one that waits for its node", daemonPod("agent", "w-1", ""), ""},
		{"a static one", owned("apiVersion: v1, kind: Node, name: w-1, uid: n1, controller: true", onNode), ""},
		{"of another group's DaemonSet", owned("apiVersion: apps.kruise.io/v1alpha1, kind: DaemonSet, name: agent, uid: a1, controller: true", onNode), ""},
		{"one that waits for its node", strings.Replace(daemonPod("agent", "w-1", ""), "apps/v1", "apps.kruise.io/v1alpha1", 1), ""},
		{"for no node, of another group's", owned("apiVersion: apps.kruise.io/v1alpha1, kind: DaemonSet, name: agent, uid: a1, controller: true", ""), "DaemonSet agent with UID a1, has it for no node"},
		{"of the core group", owned("apiVersion: v1, kind: DaemonSet, name: agent, uid: a1, controller: true", onNode), ""},
		{"by an annotation", "metadata: {namespace: shop, name: x, annotations: {cluster-autoscaler.kubernetes.io/daemonset-pod: 'true'}}\nspec: {containers: [{name: c}], nodeName: w-1}", ""},
		{"by an annotation, of a StatefulSet", "metadata: {namespace: shop, name: x, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: s, uid: s, controller: true}], annotations: {cluster-autoscaler.kubernetes.io/daemonset-pod: 'true'}}\nspec: {containers: [{name: c}], nodeName: w-1}", ""},
		{"by an annotation, without a node", "metadata: {namespace: shop, name: x, annotations: {cluster-autoscaler.kubernetes.io/daemonset-pod: 'true'}}", "bare"},
		{"of no such DaemonSet", owned("apiVersion: apps/v1, kind: DaemonSet, name: other, uid: other, controller: true", onNode), "DaemonSet other with UID other, is not there or does not have it"},
		{"of one that had the name", owned("apiVersion: apps/v1, kind: DaemonSet, name: agent, uid: before, controller: true", onNode), "DaemonSet agent with UID before"},
		{"of another name", owned("apiVersion: apps/v1, kind: DaemonSet, name: other, uid: agent, controller: true", onNode), "DaemonSet other with UID agent"},
		{"of another namespace's", strings.Replace(owned(agent, onNode), "shop", "bank", 1), "DaemonSet agent with UID agent"},
		{"for no node", owned(agent, ""), "DaemonSet agent with UID agent"},
		{"of a node that is not there", owned("apiVersion: v1, kind: Node, name: w-9, uid: n1, controller: true", onNode), "Node w-9 with UID n1"},
		{"of another node", owned("apiVersion: v1, kind: Node, name: w-1, uid: n1, controller: true", ", nodeName: w-2"), "Node w-1 with UID n1"},
		{"of a node that had the name", owned("apiVersion: v1, kind: Node, name: w-1, uid: before, controller: true", onNode), "Node w-1 with UID before"},
		{"not controlled by it", owned(strings.Replace(agent, "controller: true", "controller: false", 1), onNode), "bare"},
		{"a mirror by an annotation", "metadata: {namespace: shop, name: x, annotations: {kubernetes.io/config.mirror: x}}", "bare"},
	} {
		t.Run(c.name, func(t *testing.T) {
			port := &shown{}
			port.holds(t, written.Object[corev1.Node](t, `{metadata: {name: w-1, uid: n1}}`), written.Object[corev1.Node](t, `{metadata: {name: w-2, uid: n2}}`))
			port.holds(t, aDaemonSet(t, "agent", ""))
			port.holds(t, written.Object[corev1.Pod](t, c.pod))
			p := port.look().Pods[0]
			if p.Daemon != (c.why == "") || !strings.Contains(p.Pinned, c.why) {
				t.Errorf("daemon %t, pinned %q", p.Daemon, p.Pinned)
			}
			if _, kept := p.Selector[nodescaler.SelectNowhere]; kept != strings.Contains(c.why, "UID") {
				t.Errorf("it selects %v", p.Selector)
			}
		})
	}
}

// A pod of another namespace that says it is of a DaemonSet has no say in what the next one asks
// for.
func TestOnlyADaemonSetsOwnPodsSayWhatItAsksFor(t *testing.T) {
	port := &shown{}
	port.holds(t, written.Object[corev1.Node](t, `{metadata: {name: w-1, uid: n1}}`))
	port.holds(t, written.Object[appsv1.DaemonSet](t, `metadata: {namespace: shop, name: agent, uid: agent}
spec: {template: {spec: {containers: [{name: c}]}}}`))
	port.holds(t, written.Object[corev1.Pod](t, strings.Replace(daemonPod("agent", "w-1", "priority: 2000000000"), "namespace: shop", "namespace: bank", 1)))
	of := port.look().Daemons(&nodescaler.Pool{Name: "workers"}).Sets[0]
	if of.Requests.CPU != 0 || of.Priority != 0 {
		t.Errorf("%+v", of)
	}
}
