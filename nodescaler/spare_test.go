package nodescaler

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// berth is a pool with a node that works, a spare, one that is woken and one that is to become a
// spare.
func berth() *Snapshot {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	node := func(name string, change func(*Node)) Node {
		n := Node{Name: name, Machine: name, Pool: "w", Ready: true, Allocatable: small.Resources()}
		change(&n)
		return n
	}
	asleep := func(n *Node) { n.Ready, n.Cordoned, n.Draining = false, true, true }
	return &Snapshot{
		Now:   now,
		Pools: []Pool{{Name: "w", Max: 6, Min: 1, Shapes: []pricing.Shape{small}}},
		Hosts: []Host{{Host: pricing.Host{Name: "pve1", Room: small.Resources().Times(4)}, Online: true}},
		Machines: []Machine{
			{Name: "w-1", Order: "1", Pool: "w", Shape: small, Host: "pve1", Phase: Joined},
			{Name: "w-2", Order: "2", Pool: "w", Shape: small, Host: "pve1", Phase: Spare},
			{Name: "w-3", Order: "3", Pool: "w", Shape: small, Host: "pve1", Phase: Booting, Woken: now},
			{Name: "w-4", Order: "4", Pool: "w", Shape: small, Host: "pve1", Phase: Joined, Keep: true},
			{Name: "w-5", Order: "5", Pool: "w", Shape: small, Host: "pve1", Phase: Spare, Drifted: "its template was changed"},
		},
		Nodes: []Node{
			node("w-1", func(n *Node) { n.Cordoned, n.Draining = true, true }), node("w-2", asleep), node("w-3", func(*Node) {}), node("w-4", func(*Node) {}),
			node("w-5", asleep),
		},
		Pods: []Pod{{Pod: podscaler.Pod{Name: "ns/daemon", Phase: podscaler.Running}, Node: "w-2", Daemon: true}},
	}
}

func TestSparesAreNoNodesAndNoCapacity(t *testing.T) {
	s := berth()
	x := NewIndex(s)
	var nodes, machines, spares []string
	for _, n := range x.Nodes {
		nodes = append(nodes, n.Name)
	}
	for _, m := range x.Machines {
		machines = append(machines, m.Name)
	}
	for _, m := range x.Spares {
		spares = append(spares, m.Name)
	}
	if d := cmp.Diff([][]string{{"w-1"}, {"w-1", "w-3"}, {"w-2", "w-4", "w-5"}}, [][]string{nodes, machines, spares}); d != "" {
		t.Error("nodes, machines and spares:", d)
	}
	if p := x.Pool("w"); p.Exist != 5 || p.Live != 2 {
		t.Errorf("%d machines exist and %d live, want 5 and 2", p.Exist, p.Live)
	}
	if free := x.Host("pve1").Free; free != small.Resources() {
		t.Errorf("%v is free, want the room of one machine: those that are stopped take none", free)
	}
	if x.Node("w-2") != nil || x.NodeOf("w-3") != nil || x.AnyNodeOf("w-2") == nil || x.Machine("w-2") == nil {
		t.Error("a spare's node is found among those that carry pods, or not at all")
	}
	if n := x.AnyNodeOf("w-2"); len(n.Pods) != 1 {
		t.Errorf("its daemon is not on it: %v", n.Pods)
	}
	places := Share(x, []Ask{{Workload: "ns/a", Like: Pod{Workload: "ns/a", Requests: pricing.Resources{CPU: 2000}}, Replicas: 5, Most: 9}})
	if places[0].Ready != 0 || places[0].Coming != 1 {
		t.Errorf("there is room for %d replicas now and %d soon, want none and one", places[0].Ready, places[0].Coming)
	}
}

// berthPlans are plans for the berth.
func berthPlans() []checked {
	do := func(k Kind, machine string) Action { return Action{Kind: k, Machine: machine, Reasons: why} }
	return []checked{
		{name: "an emptied machine is stashed and a spare woken", plan: []Action{do(Stash, "w-1"), do(Wake, "w-2")}},
		{name: "one that was ordered as a spare is stashed", plan: []Action{on(Cordon, "w-4"), do(Stash, "w-4")}},
		{name: "or let be a machine like any other", plan: []Action{do(Wake, "w-4")}},
		{name: "a spare that drifted is returned", plan: []Action{do(Return, "w-5")}},
		{name: "a spare is returned regardless of the minimum", plan: []Action{do(Return, "w-2")}, world: func(s *Snapshot) { s.Pools[0].Min = 4 }},

		{name: "nothing there", plan: []Action{do(Stash, "w-9"), do(Wake, "w-9")}, want: []string{NotThere, NotThere}},
		{name: "woken twice", plan: []Action{do(Wake, "w-2"), do(Wake, "w-2")}, want: []string{Repeated, HostOvercommitted}},
		{name: "woken and returned", plan: []Action{do(Wake, "w-2"), do(Return, "w-2")}, want: []string{Repeated}},
		{name: "woken without having been a spare", plan: []Action{do(Wake, "w-1")}, want: []string{NotSpare}},
		{name: "woken while it is being woken", plan: []Action{do(Wake, "w-3")}, want: []string{NotSpare}},
		{name: "woken where what drifted is kept", plan: []Action{do(Wake, "w-5")}},
		{name: "woken though it is to be replaced", plan: []Action{do(Wake, "w-5")}, want: []string{NotSpare},
			world: func(s *Snapshot) { s.Pools[0].Disruption.Drift = DriftReplace }},
		{name: "woken on a host that is away", plan: []Action{do(Wake, "w-2")}, want: []string{HostNotUsable}, world: func(s *Snapshot) { s.Hosts[0].Online = false }},
		{name: "woken on a host in the pool's maintenance", plan: []Action{do(Wake, "w-2")}, want: []string{HostNotUsable},
			world: func(s *Snapshot) { s.Pools[0].Maintenance = []string{"pve1"} }},
		{name: "woken though its pool makes none like it", plan: []Action{do(Wake, "w-2")},
			world: func(s *Snapshot) { s.Pools[0].Refused = []RefusedOrder{{Host: "pve1", Why: why[0]}} }},
		{name: "woken on a host without room", plan: []Action{buy("6", "pve1"), do(Wake, "w-2")}, want: []string{HostOvercommitted}},
		{name: "woken beyond the limit", plan: []Action{do(Wake, "w-2")}, want: []string{OrderOverLimit},
			world: func(s *Snapshot) { s.Limit = 4*pricing.DefaultBook().Rate(small, "pve1", s.Now) - 1 }},
		{name: "bought though spares fill the pool", plan: []Action{buy("6", "pve1")}, want: []string{OrderBeyondMax}, world: func(s *Snapshot) { s.Pools[0].Max = 5 }},

		{name: "stashed before it has joined", plan: []Action{do(Stash, "w-3")}, want: []string{NotJoined}},
		{name: "stashed though it is one", plan: []Action{do(Stash, "w-2")}, want: []string{NotJoined}},
		{name: "stashed while new pods may come to it", plan: []Action{do(Stash, "w-4")}, want: []string{NodeNotCordoned}},
		{name: "stashed with pods on it", plan: []Action{do(Stash, "w-1")}, want: []string{NodeHoldsPods},
			world: func(s *Snapshot) {
				s.Pods = append(s.Pods, Pod{Pod: podscaler.Pod{Name: "ns/a", Phase: podscaler.Running}, Node: "w-1"})
			}},
		{name: "stashed below the minimum", plan: []Action{do(Stash, "w-1")}, want: []string{ReturnBelowMin}, world: func(s *Snapshot) { s.Pools[0].Min = 2 }},
		{name: "stashed while its node is not ready", plan: []Action{do(Stash, "w-1")}, want: []string{NotJoined}, world: func(s *Snapshot) { s.Nodes[0].Ready = false }},
		{name: "stashed and returned", plan: []Action{do(Stash, "w-1"), do(Return, "w-1")}, want: []string{Repeated, ReturnBelowMin}},
	}
}

func TestCheckOfSpares(t *testing.T) {
	for _, c := range berthPlans() {
		t.Run(c.name, func(t *testing.T) {
			s := berth()
			if c.world != nil {
				c.world(s)
			}
			var got []string
			for _, v := range Check(NewIndex(s), Plan{Actions: c.plan}) {
				got = append(got, v.Code)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("violations (-want +got):\n%s", d)
			}
		})
	}
}
