package nodescaler

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

var small = pricing.Shape{Name: "small", CPU: 2000, Memory: 4 * pricing.GiB}

// harbour is a snapshot in which every list is out of order and every case of the index
// occurs once.
func harbour() *Snapshot {
	named := func(name, node string) Pod {
		return Pod{Pod: podscaler.Pod{Name: name}, Node: node, Requests: pricing.Resources{CPU: 100, Memory: pricing.MiB}}
	}
	finished, leaving, daemon := named("ns/finished", "w-1"), named("ns/leaving", "w-1"), named("ns/daemon", "w-1")
	finished.Phase, leaving.Terminating, daemon.Daemon = podscaler.Succeeded, true, true
	pending, gone, hidden := named("ns/pending", ""), named("ns/gone", ""), named("ns/hidden", "")
	pending.Unschedulable, gone.Unschedulable, hidden.Unschedulable = true, true, true
	gone.Terminating, hidden.Daemon = true, true
	return &Snapshot{
		Pools: []Pool{{Name: "w", Min: 1, Max: 9, Shapes: []pricing.Shape{small}}, {Name: "a"}},
		Hosts: []Host{{Host: pricing.Host{Name: "pve2", Room: pricing.Resources{CPU: 8000, Memory: 16 * pricing.GiB}}, Online: true}, {Host: pricing.Host{Name: "pve1"}}},
		Machines: []Machine{
			{Name: "w-3", Pool: "w", Shape: small, Host: "pve2", Phase: Ordered},
			{Name: "w-1", Pool: "w", Shape: small, Host: "pve2", Phase: Joined},
			{Name: "w-2", Pool: "w", Shape: small, Host: "pve2", Phase: Failed},
			{Name: "w-4", Pool: "gone", Shape: small, Host: "gone", Phase: Deleting},
		},
		Nodes: []Node{
			{Name: "w-9", Machine: "w-9", Pool: "w", Ready: true}, // its machine is not listed
			{Name: "w-1", Machine: "w-1", Pool: "w", Ready: true},
			{Name: "control"},
		},
		Pods: []Pod{named("ns/b", "w-1"), named("ns/a", "w-1"), finished, leaving, daemon, pending, gone, hidden,
			named("ns/lost", "elsewhere"), named("ns/new", "")},
	}
}

func podNames(pods []*Pod) []string {
	var names []string
	for _, p := range pods {
		names = append(names, p.Name)
	}
	return names
}

func TestIndex(t *testing.T) {
	x := NewIndex(harbour())
	n := x.Node("w-1")
	if d := cmp.Diff([]string{"ns/a", "ns/b", "ns/daemon", "ns/leaving"}, podNames(n.Pods)); d != "" {
		t.Error("pods of w-1:", d)
	}
	if want := (Used{Requests: pricing.Resources{CPU: 400, Memory: 4 * pricing.MiB}, Pods: 4}); !cmp.Equal(n.Used, want) {
		t.Errorf("used %+v, want %+v", n.Used, want)
	}
	if d := cmp.Diff([]string{"ns/a", "ns/b", "ns/leaving"}, podNames(n.Held())); d != "" {
		t.Error("held by w-1:", d)
	}
	if d := cmp.Diff([]string{"ns/pending"}, podNames(x.Pending)); d != "" {
		t.Error("pending:", d)
	}
	if p := x.Pool("w"); p.Exist != 4 || p.Live != 2 {
		t.Errorf("pool w: %d exist, %d live; want 4 (one node's machine is not listed), 2", p.Exist, p.Live)
	}
	if got, want := x.Host("pve2").Free, (pricing.Resources{CPU: 2000, Memory: 4 * pricing.GiB}); got != want {
		t.Errorf("pve2 has %+v free, want %+v", got, want)
	}
	if x.NodeOf("w-1") != n || n.VM != x.Machine("w-1") || x.Node("w-9").VM != nil || x.Node("none") != nil || x.Machine("none") != nil {
		t.Error("nodes and machines do not find each other")
	}
	if !x.Away("pve1") || x.Away("pve2") || x.Away("unlisted") {
		t.Error("only a host known to be off line is away")
	}
	if got := x.Rate(small, "pve2"); got != pricing.DefaultBook().Rate(small, "pve2", time.Time{}) {
		t.Errorf("rate %v without a book", got)
	}
}

func TestPodIsOnTheNodeThatTheSchedulerMakesRoomOn(t *testing.T) {
	for _, c := range []struct {
		name string
		node string
		with func(*Node)
		want bool
	}{
		{"a node", "w-1", func(*Node) {}, true},
		{"one that is not there", "w-99", func(*Node) {}, false},
		{"one that is not ready", "w-1", func(n *Node) { n.Ready = false }, false},
		{"one that is cordoned", "w-1", func(n *Node) { n.Cordoned = true }, false},
		{"one that is emptied", "w-1", func(n *Node) { n.Draining = true }, false},
	} {
		s := harbour()
		for i := range s.Nodes {
			if s.Nodes[i].Ready, s.Nodes[i].Cordoned = true, false; s.Nodes[i].Name == "w-1" {
				c.with(&s.Nodes[i])
			}
		}
		before := NewIndex(s).Node("w-1").Used
		for i := range s.Pods {
			if s.Pods[i].Name == "ns/pending" {
				s.Pods[i].Nominated = c.node
			}
		}
		x := NewIndex(s)
		if n := x.Node("w-1"); (len(x.Pending) == 0) != c.want || (n.Used.Pods > before.Pods) != c.want || slices.Contains(podNames(n.Held()), "ns/pending") != c.want {
			t.Errorf("%s: %v wait, w-1 holds %v", c.name, podNames(x.Pending), podNames(n.Held()))
		}
	}
}

func TestANodeOfAMachinesNameIsTakenForIts(t *testing.T) {
	s := harbour()
	s.Nodes[1].Machine = ""
	n := NewIndex(s).NodeOf("w-1")
	if n == nil || n.VM != nil {
		t.Fatalf("node of w-1 is %+v", n)
	}
	plan := Plan{Actions: []Action{{Kind: Return, Machine: "w-1", Reasons: why}}}
	if v := Check(NewIndex(s), plan); len(v) == 0 {
		t.Error("its machine may be deleted under it")
	}
}

func TestPodLeavingADeadNodeHoldsNothingBack(t *testing.T) {
	s := harbour()
	s.Nodes[1].Ready = false
	if d := cmp.Diff([]string{"ns/a", "ns/b"}, podNames(NewIndex(s).Node("w-1").Held())); d != "" {
		t.Error(d)
	}
}

// manyNodes is 1,000 nodes with 30 pods each, on 40 hosts, and 500 pods that wait.
func manyNodes() *Snapshot {
	s := &Snapshot{
		Now:    time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC),
		Pools:  []Pool{{Name: "w", Max: 2000, Shapes: []pricing.Shape{{Name: "big", CPU: 4000, Memory: 16 * pricing.GiB}}}},
		Prices: pricing.DefaultBook(),
	}
	for h := range 40 {
		s.Hosts = append(s.Hosts, Host{Host: pricing.Host{Name: fmt.Sprintf("pve%02d", h), Room: pricing.Resources{CPU: 200_000, Memory: 1000 * pricing.GiB}}, Online: true})
	}
	pod := func(name, node string) Pod {
		return Pod{Pod: podscaler.Pod{Name: name}, Node: node, Workload: name[:8], Requests: pricing.Resources{CPU: 100, Memory: 256 * pricing.MiB}, Unschedulable: node == ""}
	}
	for n := range 1000 {
		name := fmt.Sprintf("w-%04d", n)
		s.Machines = append(s.Machines, Machine{Name: name, Order: name, Pool: "w", Shape: s.Pools[0].Shapes[0], Host: s.Hosts[n%40].Name, Phase: Joined})
		s.Nodes = append(s.Nodes, Node{Name: name, Machine: name, Pool: "w", Ready: true, Allocatable: s.Pools[0].Shapes[0].Resources()})
		for p := range 30 {
			s.Pods = append(s.Pods, pod(fmt.Sprintf("app%04d/%02d", n, p), name))
		}
	}
	for p := range 500 {
		s.Pods = append(s.Pods, pod(fmt.Sprintf("wait%04d/0", p), ""))
	}
	return s
}

func BenchmarkIndex1000Nodes(b *testing.B) {
	s := manyNodes()
	// Pods come sorted by name, not by node.
	rand.New(rand.NewSource(1)).Shuffle(len(s.Nodes), func(i, j int) { s.Nodes[i], s.Nodes[j] = s.Nodes[j], s.Nodes[i] })
	for b.Loop() {
		NewIndex(s)
	}
}

func BenchmarkCheck1000Nodes(b *testing.B) {
	x := NewIndex(manyNodes())
	plan := Plan{Actions: []Action{{Kind: Cordon, Node: "w-0001", Reasons: []Reason{{}}}, {Kind: Evict, Node: "w-0001", Pod: "app0001/00", Reasons: []Reason{{}}}}}
	for b.Loop() {
		if v := Check(x, plan); len(v) > 0 {
			b.Fatal(v)
		}
	}
}

// A machine's node is the one that names it, under any name; of several it is the one that seems to
// run.
func TestNodeOfIsFoundByIdentity(t *testing.T) {
	on := func(node string) []Pod { return []Pod{{Pod: podscaler.Pod{Name: "ns/a"}, Node: node}} }
	for _, c := range []struct {
		name  string
		nodes []Node
		pods  []Pod
		want  string
		held  bool
	}{
		{"none", nil, nil, "", false},
		{"by its label", []Node{{Name: "other", Machine: "w-1"}}, nil, "other", false},
		{"by its name", []Node{{Name: "w-1"}}, nil, "w-1", false},
		{"by provider ID", []Node{{Name: "w-1.example.org", ProviderID: "proxmox://r/1"}}, nil, "w-1.example.org", false},
		{"by UUID", []Node{{Name: "w-1.example.org", SystemUUID: "AAAA-1"}}, nil, "w-1.example.org", false},
		{"by its name alone, against its UUID", []Node{{Name: "w-1", SystemUUID: "bbbb"}}, nil, "w-1", true},
		{"the ready one", []Node{{Name: "w-1"}, {Name: "zz", ProviderID: "proxmox://r/1", Ready: true}}, on("w-1"), "zz", true},
		{"the one with pods", []Node{{Name: "aa", ProviderID: "proxmox://r/1"}, {Name: "w-1"}}, on("w-1"), "w-1", true},
		{"the one with pods, if both are ready", []Node{{Name: "w-1", Ready: true}, {Name: "zz", SystemUUID: "aaaa-1", Ready: true}}, on("zz"), "zz", true},
		{"the first", []Node{{Name: "zz", SystemUUID: "aaaa-1"}, {Name: "w-1"}}, nil, "w-1", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := NewIndex(&Snapshot{Machines: fleet(), Nodes: c.nodes, Pods: c.pods})
			got := ""
			if n := x.NodeOf("w-1"); n != nil {
				got = n.Name
			}
			if held := x.Hold(x.Machine("w-1")) != nil; got != c.want || held != c.held {
				t.Errorf("node %q, held %v; want %q, %v", got, held, c.want, c.held)
			}
			if held := x.podsOf("w-1"); len(held) != len(c.pods) {
				t.Errorf("its nodes hold %d pods of %d", len(held), len(c.pods))
			}
		})
	}
}

func TestHoldsSayWhatIsTheMatter(t *testing.T) {
	machines := fleet()
	machines[2].Held = &Reason{Code: "ForeignDisk", Text: "scsi1"}
	got := Holds(machines, []Node{
		{Name: "w-1", LocalClaims: []string{"ns/a", "ns/b", "ns/c", "ns/d", "ns/e"}},
		{Name: "w-2", ClaimsUnknown: true},
		{Name: "w-3", LocalClaims: []string{"ns/a"}},
	})
	want := map[string]Reason{
		"w-1": {Code: LocalVolume, Text: "node w-1 has volumes on its own disk, of ns/a, ns/b, ns/c and 2 more: they would go with it"},
		"w-2": {Code: LocalVolume, Text: "it is not known which claims have their volumes on the disk of node w-2"},
		"w-3": {Code: "ForeignDisk", Text: "scsi1"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestHoldsNameThreeClaims(t *testing.T) {
	got := Holds(fleet(), []Node{{Name: "w-1", LocalClaims: []string{"ns/a", "ns/b", "ns/c"}}})["w-1"].Text
	if want := "node w-1 has volumes on its own disk, of ns/a, ns/b, ns/c: they would go with it"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A DaemonSet that no machine has room for takes nothing of any.
func TestDaemonsTakeWhatIsThere(t *testing.T) {
	daemon := func(name string, cpu pricing.MilliCPU, ports ...string) *Pod {
		return &Pod{Pod: podscaler.Pod{Name: name}, Requests: pricing.Resources{CPU: cpu}, Has: ports, Repels: ports}
	}
	for _, c := range []struct {
		name  string
		sets  []*Pod
		cpu   pricing.MilliCPU // that is left of 1800m
		slots int
		crowd int
	}{
		{name: "none", cpu: 1700, slots: 109},
		{name: "all", sets: []*Pod{daemon("a", 300), daemon("b", 200)}, cpu: 1200, slots: 107},
		{name: "one too many", sets: []*Pod{daemon("a", 300), daemon("b", 1500), daemon("c", 100)}, cpu: 1300, slots: 107},
		{name: "as much as there is", sets: []*Pod{daemon("a", 1700)}, slots: 108},
		{name: "more than there is anywhere", sets: []*Pod{daemon("a", 1000000)}, cpu: 1700, slots: 109},
		{name: "two on one port", sets: []*Pod{daemon("a", 100, "port 80"), daemon("b", 100, "port 80")}, cpu: 1600, slots: 108, crowd: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &Pool{
				Reserved: pricing.Resources{CPU: 200},
				Daemons:  Daemons{Static: Used{Requests: pricing.Resources{CPU: 100}, Pods: 1}, Sets: c.sets},
			}
			r := p.Empty(pricing.Shape{CPU: 2000, Memory: pricing.GiB})
			if r.Free.CPU != c.cpu || r.Slots != c.slots || len(r.Crowd) != c.crowd {
				t.Errorf("%d CPU, %d slots and %d marked", r.Free.CPU, r.Slots, len(r.Crowd))
			}
		})
	}
}
