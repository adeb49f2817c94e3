package nodescaler

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

var why = []Reason{{Code: "Because", Text: "because"}}

// yard is a pool of two to four machines, of which three exist, on a host with room for two
// more. w-1 is being drained and is empty but for a daemon, w-2 holds pods, w-3 failed.
func yard() *Snapshot {
	pod := func(name, node, workload string) Pod {
		return Pod{Pod: podscaler.Pod{Name: name, Phase: podscaler.Running}, Node: node, Workload: workload}
	}
	daemon, finished, pinned, leaving := pod("ns/daemon", "w-1", ""), pod("ns/done", "w-1", ""), pod("ns/pinned", "w-2", ""), pod("ns/leaving", "w-2", "")
	daemon.Daemon, finished.Phase, pinned.Pinned, leaving.Terminating = true, podscaler.Failed, "bare", true
	return &Snapshot{
		Pools: []Pool{{Name: "w", Min: 2, Max: 5, Hosts: []string{"pve1", "pve3", "pve4"}, Shapes: []pricing.Shape{small}}},
		Hosts: []Host{
			{Host: pricing.Host{Name: "pve1", Room: small.Resources().Times(5)}, Online: true},
			{Host: pricing.Host{Name: "pve2", Room: small.Resources().Times(5)}, Online: true},
			{Host: pricing.Host{Name: "pve3", Room: small.Resources().Times(5)}},
			{Host: pricing.Host{Name: "pve4", Room: small.Resources().Times(5)}, Online: true, Cordoned: true},
		},
		Machines: []Machine{
			{Name: "w-1", Order: "1", Pool: "w", Shape: small, Host: "pve1", Phase: Joined},
			{Name: "w-2", Order: "2", Pool: "w", Shape: small, Host: "pve1", Phase: Joined},
			{Name: "w-3", Order: "3", Pool: "w", Shape: small, Host: "pve1", Phase: Failed},
			{Name: "w-4", Order: "4", Pool: "w", Shape: small, Host: "pve3", Phase: Joined},
		},
		Nodes: []Node{
			{Name: "control", Ready: true},
			{Name: "w-1", Machine: "w-1", Pool: "w", Ready: true, Cordoned: true, Draining: true},
			{Name: "w-2", Machine: "w-2", Pool: "w", Ready: true},
			{Name: "w-4", Machine: "w-4", Pool: "w"},
		},
		Pods: []Pod{daemon, finished, pinned, leaving,
			pod("ns/a-1", "w-2", "ns/a"), pod("ns/a-2", "w-2", "ns/a"), pod("ns/b-1", "w-2", "ns/b"), pod("ns/c-1", "w-4", "ns/c")},
		Budgets: []Budget{{"ns/a", 1}},
	}
}

func buy(order, host string) Action {
	return Action{Kind: Buy, Order: order, Pool: "w", Shape: &small, Host: host, Reasons: why}
}
func on(kind Kind, node string) Action { return Action{Kind: kind, Node: node, Reasons: why} }
func evict(pod, node string) Action {
	return Action{Kind: Evict, Pod: pod, Node: node, Reasons: why}
}
func giveBack(machine string) Action { return Action{Kind: Return, Machine: machine, Reasons: why} }

// checked is a plan for a changed world, and the violations that it has.
type checked struct {
	name  string
	world func(*Snapshot)
	plan  []Action
	want  []string
}

// yardPlans are plans for the yard.
func yardPlans() []checked {
	large := pricing.Shape{Name: "large", CPU: 8000, Memory: pricing.GiB}
	with := func(a Action, change func(*Action)) Action { change(&a); return a }
	return []checked{
		{name: "nothing"},
		{name: "a clean plan", plan: []Action{
			buy("5", "pve1"), on(Cordon, "w-2"), evict("ns/a-1", "w-2"), evict("ns/b-1", "w-2"), giveBack("w-1"), giveBack("w-3")}},
		{name: "a drain taken back", plan: []Action{on(Uncordon, "w-1")}},
		{name: "no reason", plan: []Action{with(giveBack("w-1"), func(a *Action) { a.Reasons = nil })}, want: []string{ReasonMissing}},
		{name: "no kind", plan: []Action{on("", "w-1")}, want: []string{UnknownKind}},

		{name: "pool beyond max", plan: []Action{buy("5", "pve1"), buy("6", "pve1")}, want: []string{OrderBeyondMax}},
		{name: "a machine that is not listed counts", plan: []Action{buy("5", "pve1")}, want: []string{OrderBeyondMax},
			world: func(s *Snapshot) { s.Nodes = append(s.Nodes, Node{Name: "w-5", Machine: "w-5", Pool: "w"}) }},
		{name: "a returned machine still counts", plan: []Action{giveBack("w-3"), buy("5", "pve1"), buy("6", "pve1")}, want: []string{OrderBeyondMax}},
		{name: "pool that makes none", plan: []Action{buy("5", "pve1")}, want: []string{OrderInClosed},
			world: func(s *Snapshot) { s.Pools[0].Closed = &Reason{Code: "PoolPaused", Text: "its machines failed"} }},
		{name: "pool that is held up", plan: []Action{buy("5", "pve1"), with(on(Uncordon, "w-1"), func(a *Action) { a.Pool = "w" })}, want: []string{PoolHeld, PoolHeld},
			world: func(s *Snapshot) { s.Pools[0].HeldUp = &why[0] }},
		{name: "pool that is held down", plan: []Action{buy("5", "pve1"), with(giveBack("w-3"), func(a *Action) { a.Pool = "w" })}, want: []string{PoolHeld},
			world: func(s *Snapshot) { s.Pools[0].HeldDown = &why[0] }},
		{name: "what the pool refuses", plan: []Action{buy("5", "pve1")}, want: []string{OrderRefused},
			world: func(s *Snapshot) { s.Pools[0].Refused = []RefusedOrder{{Shape: small, Host: "pve1", Why: why[0]}} }},
		{name: "what it refuses on any host", plan: []Action{buy("5", "pve1")}, want: []string{OrderRefused},
			world: func(s *Snapshot) { s.Pools[0].Refused = []RefusedOrder{{Shape: small, Why: why[0]}} }},
		{name: "what it refuses otherwise", plan: []Action{buy("5", "pve1")},
			world: func(s *Snapshot) {
				s.Pools[0].Refused = []RefusedOrder{{Shape: large, Why: why[0]}, {Host: "pve2", Why: why[0]}}
			}},
		{name: "host in the pool's maintenance", plan: []Action{buy("5", "pve1")}, want: []string{HostNotUsable},
			world: func(s *Snapshot) { s.Pools[0].Maintenance = []string{"pve1"} }},
		{name: "shape of another pool", plan: []Action{with(buy("5", "pve1"), func(a *Action) { a.Shape = &large })}, want: []string{ShapeNotOffered, HostOvercommitted}},
		{name: "host of another pool", plan: []Action{buy("5", "pve2")}, want: []string{HostNotUsable}},
		{name: "host off line", plan: []Action{buy("5", "pve3")}, want: []string{HostNotUsable}},
		{name: "host cordoned", plan: []Action{buy("5", "pve4")}, want: []string{HostNotUsable}},
		{name: "host full", plan: []Action{buy("5", "pve1"), buy("6", "pve1"), buy("7", "pve1")}, want: []string{HostOvercommitted},
			world: func(s *Snapshot) { s.Pools[0].Max = 9 }},
		{name: "order of another machine", plan: []Action{buy("3", "pve1")}, want: []string{OrderUsed}},
		{name: "order twice", plan: []Action{buy("5", "pve1"), buy("5", "pve1")}, want: []string{OrderUsed, OrderBeyondMax}},
		{name: "no order", plan: []Action{buy("", "pve1")}, want: []string{OrderUsed}},
		{name: "no such pool", plan: []Action{with(buy("5", "pve1"), func(a *Action) { a.Pool = "x" })}, want: []string{NotThere}},
		{name: "no such host", plan: []Action{buy("5", "x")}, want: []string{NotThere}},
		{name: "no shape", plan: []Action{with(buy("5", "pve1"), func(a *Action) { a.Shape = nil })}, want: []string{NotThere}},

		{name: "no such node", plan: []Action{on(Cordon, "x")}, want: []string{NotThere}},
		{name: "cordon of a node that is not ours", plan: []Action{on(Cordon, "control")}, want: []string{NotOurs}},
		{name: "cordon twice", plan: []Action{on(Cordon, "w-2"), on(Cordon, "w-2")}, want: []string{Repeated}},
		{name: "another client's cordon", plan: []Action{on(Uncordon, "w-2")}, want: []string{NotOurCordon},
			world: func(s *Snapshot) { s.Nodes[2].Cordoned = true }},

		{name: "eviction before the cordon", plan: []Action{evict("ns/b-1", "w-2"), on(Cordon, "w-2")}, want: []string{NodeNotCordoned}},
		{name: "eviction behind another client's cordon", plan: []Action{evict("ns/b-1", "w-2")}, want: []string{NodeNotCordoned},
			world: func(s *Snapshot) { s.Nodes[2].Cordoned = true }},
		{name: "eviction of a pod elsewhere", plan: []Action{evict("ns/b-1", "w-1")}, want: []string{NotThere}},
		{name: "eviction of no pod", plan: []Action{evict("ns/x", "w-1")}, want: []string{NotThere}},
		{name: "eviction twice", plan: []Action{on(Cordon, "w-2"), evict("ns/b-1", "w-2"), evict("ns/b-1", "w-2")}, want: []string{Repeated}},
		{name: "eviction of a pinned pod", plan: []Action{on(Cordon, "w-2"), evict("ns/pinned", "w-2")}, want: []string{PodNotMovable}},
		{name: "eviction of a leaving pod", plan: []Action{on(Cordon, "w-2"), evict("ns/leaving", "w-2")}, want: []string{PodNotMovable}},
		{name: "eviction of a daemon", plan: []Action{evict("ns/daemon", "w-1")}, want: []string{PodNotMovable}},
		{name: "eviction of a finished pod", plan: []Action{evict("ns/done", "w-1")}, want: []string{PodNotMovable}},
		{name: "evictions beyond the budget", plan: []Action{on(Cordon, "w-2"), evict("ns/a-1", "w-2"), evict("ns/a-2", "w-2")}, want: []string{BudgetOverdrawn}},
		{name: "eviction of a pod that its budget does not hold", plan: []Action{on(Cordon, "w-2"), evict("ns/a-1", "w-2"), evict("ns/a-2", "w-2")},
			world: func(s *Snapshot) {
				for i := range s.Pods {
					s.Pods[i].Unbudgeted = s.Pods[i].Name == "ns/a-1"
				}
			}},
		{name: "the tighter of two budgets", plan: []Action{on(Cordon, "w-2"), evict("ns/a-1", "w-2")}, want: []string{BudgetOverdrawn},
			world: func(s *Snapshot) { s.Budgets = append(s.Budgets, Budget{"ns/a", 0}, Budget{"ns/a", 7}) }},

		{name: "return of no machine", plan: []Action{giveBack("x")}, want: []string{NotThere}},
		{name: "return twice", plan: []Action{giveBack("w-3"), giveBack("w-3")}, want: []string{Repeated}},
		{name: "return of a machine that is going", plan: []Action{giveBack("w-1")}, want: []string{Repeated},
			world: func(s *Snapshot) { s.Machines[0].Phase = Deleting }},
		{name: "return of a machine that a second node claims", plan: []Action{giveBack("w-1")}, want: []string{HeldMachine},
			world: func(s *Snapshot) {
				s.Nodes = append(s.Nodes, Node{Name: "zz-dup", Machine: "w-1", Pool: "w", Ready: true})
			}},
		{name: "return of a machine whose node has another's UUID", plan: []Action{giveBack("w-1")}, want: []string{HeldMachine},
			world: func(s *Snapshot) { s.Machines[0].SystemUUID, s.Nodes[1].SystemUUID = "a", "b" }},
		{name: "return of a machine that its adapter holds", plan: []Action{giveBack("w-3")}, want: []string{HeldMachine},
			world: func(s *Snapshot) { s.Machines[2].Held = &why[0] }},
		{name: "return of a machine with a claim's volume", plan: []Action{giveBack("w-1")}, want: []string{HeldMachine},
			world: func(s *Snapshot) { s.Nodes[1].LocalClaims = []string{"shop/data-0"} }},
		{name: "stash of a machine with a claim's volume", plan: []Action{{Kind: Stash, Machine: "w-1", Reasons: why}}, want: []string{HeldMachine},
			world: func(s *Snapshot) { s.Nodes[1].LocalClaims = []string{"shop/data-0"} }},
		{name: "eviction from a machine with a claim's volume", plan: []Action{on(Cordon, "w-2"), evict("ns/b-1", "w-2")}, want: []string{HeldMachine, HeldMachine},
			world: func(s *Snapshot) { s.Nodes[2].LocalClaims = []string{"shop/data-0"} }},
		{name: "reboot that no pool asks for", plan: []Action{{Kind: Reboot, Machine: "w-1", Reasons: why}}, want: []string{RebootNotAsked}},
		{name: "return below min", plan: []Action{giveBack("w-1")}, want: []string{ReturnBelowMin}, world: func(s *Snapshot) { s.Pools[0].Min = 3 }},
		{name: "a failed machine is below no min", plan: []Action{giveBack("w-3")}, world: func(s *Snapshot) { s.Pools[0].Min = 4 }},
		{name: "return of an order", plan: []Action{giveBack("w-2")}, world: func(s *Snapshot) {
			s.Machines[1].Phase, s.Nodes = Booting, s.Nodes[:2]
		}},
		{name: "return with pods", plan: []Action{on(Cordon, "w-2"), giveBack("w-2")}, want: []string{NodeHoldsPods}},
		{name: "return with pods that are being evicted", plan: []Action{evict("ns/b-1", "w-1"), giveBack("w-1")}, want: []string{NodeHoldsPods},
			world: func(s *Snapshot) { s.Pods[6].Node = "w-1" }},
		{name: "return without cordon", plan: []Action{giveBack("w-1")}, want: []string{NodeNotCordoned},
			world: func(s *Snapshot) { s.Nodes[1].Draining = false }},
		{name: "return behind a cordon that was taken away", plan: []Action{giveBack("w-1")}, want: []string{NodeNotCordoned},
			world: func(s *Snapshot) { s.Nodes[1].Cordoned = false }},
		{name: "return of a failed machine with pods", plan: []Action{giveBack("w-2")}, world: func(s *Snapshot) { s.Machines[1].Phase, s.Nodes[2].Ready = Failed, false }},
		{name: "return of a failed machine whose node is ready", plan: []Action{giveBack("w-2")}, want: []string{HeldMachine},
			world: func(s *Snapshot) { s.Machines[1].Phase = Failed }},
		{name: "return of a machine whose node's volumes were not read", plan: []Action{giveBack("w-1")}, want: []string{HeldMachine},
			world: func(s *Snapshot) { s.Nodes[1].ClaimsUnknown = true }},
		{name: "return of a machine whose host is away", plan: []Action{giveBack("w-4")}},
	}
}

// What may not be in a plan is no reason of any decision, and policies plan none of it. So each
// code is found in a broken plan here, and in no simulated life.
func TestEachCodeOfCheckIsFoundInABrokenPlan(t *testing.T) {
	f := must.Get(parser.ParseFile(token.NewFileSet(), "check.go", nil, 0))(t)
	found := map[string]bool{}
	for _, c := range slices.Concat(yardPlans(), berthPlans()) {
		for _, code := range c.want {
			found[code] = true
		}
	}
	codes := 0
	ast.Inspect(f, func(n ast.Node) bool {
		if s, is := n.(*ast.ValueSpec); is && len(s.Values) == 1 {
			if lit, is := s.Values[0].(*ast.BasicLit); is && lit.Kind == token.STRING {
				if codes++; !found[strings.Trim(lit.Value, `"`)] {
					t.Errorf("%s is in no broken plan", lit.Value)
				}
			}
		}
		return true
	})
	if codes < 20 {
		t.Errorf("check.go declares %d codes", codes)
	}
}

func TestCheck(t *testing.T) {
	for _, tt := range yardPlans() {
		t.Run(tt.name, func(t *testing.T) {
			s := yard()
			if tt.world != nil {
				tt.world(s)
			}
			var got []string
			for _, v := range Check(NewIndex(s), Plan{Actions: tt.plan}) {
				got = append(got, v.Code)
				if v.Text == "" || v.Action < 0 || v.Action >= len(tt.plan) {
					t.Errorf("violation says too little: %+v", v)
				}
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("violations (-want +got):\n%s%v", d, Check(NewIndex(s), Plan{Actions: tt.plan}))
			}
		})
	}
}

func TestCheckLooksAtContentsAndNotAtOrder(t *testing.T) {
	s, plan := yard(), Plan{Actions: []Action{buy("5", "pve1"), buy("6", "pve1"), on(Cordon, "w-2"), evict("ns/a-1", "w-2"), giveBack("w-2")}}
	want := Check(NewIndex(s), plan)
	slices.Reverse(s.Machines)
	slices.Reverse(s.Nodes)
	slices.Reverse(s.Pods)
	slices.Reverse(s.Hosts)
	if d := cmp.Diff(want, Check(NewIndex(s), plan)); d != "" || len(want) == 0 {
		t.Errorf("%v: %s", want, d)
	}
}
