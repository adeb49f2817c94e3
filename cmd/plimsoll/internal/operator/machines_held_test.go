package operator

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
)

// saying is a house with one machine, workers-a, whose node says who it is, and what pods there are
// run on it.
func saying(t *testing.T, policy string) *house {
	t.Helper()
	h := newHouse(t)
	h.cfg.Nodes.Policy = policy
	h.web(active)
	h.pool("workers", active)
	h.node("workers", "a")
	h.machines[0].ProviderID, h.machines[0].SystemUUID = "proxmox://r/1", "uuid-1"
	n := &h.nodes[0]
	n.ProviderID, n.SystemUUID, n.Machine, n.Pool = "proxmox://r/1", "uuid-1", "", "" // for the links to say
	return h
}

// twin adds a node that says what the first one does, but for its name.
func twin(name string, ready bool) func(*house) {
	return func(h *house) {
		n := h.nodes[0]
		n.Name, n.Ready = name, ready
		h.nodes = append(h.nodes, n)
		h.sort()
	}
}

// Of a machine whose pods run there is a second Node object, or its node has another name, or its
// volume is wanted. For an hour no policy takes it down, and its pool says why.
func TestMachinesWhosePodsRunAreNotTakenDown(t *testing.T) {
	for _, policy := range nodepolicy.Names() {
		for _, c := range []struct {
			name   string
			change func(*house)
			reason string
			text   string
			events int // that warn
		}{
			{"a second node, ready and empty", twin("zz-dup", true), nodescaler.DuplicateNode, "nodes workers-a and zz-dup both claim machine workers-a: delete the Node object", 1},
			{"a second node that comes first", twin("aa-dup", false), nodescaler.DuplicateNode, "nodes aa-dup and workers-a both claim machine workers-a", 1},
			{"what a rename left over", twin("zz-old", false), nodescaler.DuplicateNode, "zz-old", 1},
			{"renamed", func(h *house) { h.nodes[0].Name = "workers-a.example.org" }, reasonNoneHeld, "nothing speaks against", 0},
			{"another's UUID", func(h *house) { h.nodes[0].SystemUUID = "uuid-9" }, nodescaler.NodeContradicts, "of system UUID uuid-9; delete the Node object", 1},
			{"a claim, and no pod", func(h *house) {
				h.nodes[0].LocalClaims = []string{"shop/data-0"}
				delete(h.autoscalers, "shop/web")
				delete(h.replicas, "shop/web")
			}, nodescaler.LocalVolume, "of shop/data-0: they would go with it; delete the claim, or annotate it plimsoll.dev/safe-to-lose=true", 0},
		} {
			t.Run(policy+" "+c.name, func(t *testing.T) {
				h := saying(t, policy)
				c.change(h)
				h.begin().steps(360)
				for _, what := range h.done {
					if strings.HasPrefix(what, "delete workers-a") || strings.HasPrefix(what, "evict") || strings.HasPrefix(what, "stash") || strings.HasPrefix(what, "drain") {
						t.Fatalf("done: %s", what)
					}
				}
				held := meta.FindStatusCondition(h.pools["workers"].Status.Conditions, v1alpha1.ConditionMachinesHeld)
				if held == nil || held.Reason != c.reason || !strings.Contains(held.Message, c.text) || (held.Status == metav1.ConditionTrue) == (c.reason == reasonNoneHeld) {
					t.Errorf("its pool says %+v", held)
				}
				warned := map[string]bool{}
				for _, e := range h.told {
					if strings.Contains(e, " "+c.reason+": workers-a") {
						warned[e] = true
					}
				}
				if len(warned) != c.events {
					t.Errorf("told: %v", warned)
				}
			})
		}
	}
}

// A drain that is under way when the machine turns out to be held is taken back.
func TestDrainsOfMachinesThatAreHeldAreTakenBack(t *testing.T) {
	h := saying(t, "joint")
	delete(h.autoscalers, "shop/web")
	delete(h.replicas, "shop/web")
	h.begin()
	for !slices.Contains(h.done, "drain workers-a true") {
		if h.now.Sub(t0).Hours() > 2 {
			t.Fatalf("it is never drained: %v", h.done)
		}
		h.steps(1)
	}
	twin("zz-dup", true)(h)
	h.nodes[len(h.nodes)-1].Draining, h.nodes[len(h.nodes)-1].Cordoned = false, false
	h.steps(1)
	h.expect("done", []string{"drain workers-a true", "drain workers-a false"}, h.done)
}

func TestHeldMachinesAreCountedByReason(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	h := saying(t, "joint")
	h.cfg.Metrics = metrics
	h.pool("db", active).Spec.VMIDs = v1alpha1.VMIDs{First: 2000, Last: 2099}
	twin("zz-dup", true)(h)
	h.node("workers", "b")
	h.machines[1].Held = &nodescaler.Reason{Code: "StrangeDevice", Text: "scsi1 is not of its order"}
	h.begin().steps(1)
	want := map[string]float64{
		"workers DuplicateNode": 1, "workers NodeContradicts": 0, "workers LocalVolume": 0, "workers StrangeDevice": 1,
		"db DuplicateNode": 0, "db NodeContradicts": 0, "db LocalVolume": 0,
	}
	if d := cmp.Diff(want, series(t, registry, "plimsoll_machines_held")); d != "" {
		t.Error(d)
	}
	metrics.Leading(false)
	if got := series(t, registry, "plimsoll_machines_held"); len(got) > 0 {
		t.Errorf("who does not lead says %v", got)
	}
}

func TestLinksGoByProviderIDThenUUIDThenName(t *testing.T) {
	var links Links
	node := func(name, id, uuid string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: id}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{SystemUUID: uuid}}}
	}
	if machine, _ := links.Machine(node("w-1", "", "")); machine != "" {
		t.Errorf("before anything was listed there is %s", machine)
	}
	links.learn([]nodescaler.Machine{{Name: "w-1", Pool: "w", ProviderID: "proxmox://r/1", SystemUUID: "uuid-1"}, {Name: "w-2", Pool: "w", ProviderID: "proxmox://r/2", SystemUUID: "uuid-2"}})
	for _, c := range []struct {
		name string
		node *corev1.Node
		want string
	}{
		{"by name", node("w-1", "", ""), "w-1"},
		{"by UUID", node("renamed", "", "UUID-1"), "w-1"},
		{"by provider ID", node("renamed", "proxmox://r/1", ""), "w-1"},
		{"by provider ID, whatever its name", node("w-2", "proxmox://r/1", ""), "w-1"},
		{"by provider ID, whatever its UUID", node("w-2", "proxmox://r/1", "uuid-2"), "w-1"},
		{"by UUID, whatever its name", node("w-1", "", "uuid-2"), "w-2"},
		{"another computer of its name", node("w-1", "", "uuid-9"), ""},
		{"a stranger", node("other", "aws://x", "uuid-9"), ""},
	} {
		if machine, _ := links.Machine(c.node); machine != c.want {
			t.Errorf("%s: %q, want %q", c.name, machine, c.want)
		}
	}
}
