package policy

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/nodescaler/sample/life"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// replaces has the first pool's machines replaced that drifted, and as many at once as a budget
// says.
func replaces(budgets ...nodescaler.NodeBudget) func(*sample.World) {
	return func(w *sample.World) {
		w.Pools[0].Disruption = nodescaler.Disruption{Drift: nodescaler.DriftReplace, Budgets: budgets}
	}
}

// drifted changes the machines of that name.
func drifted(names ...string) func(*sample.World) {
	return func(w *sample.World) {
		for i := range w.Machines {
			if slices.Contains(names, w.Machines[i].Name) {
				sample.Drifted(&w.Machines[i])
			}
		}
	}
}

// lately is a machine that was ordered a minute ago.
func lately(m *nodescaler.Machine) {
	m.Created, m.Since = sample.Noon.Add(-time.Minute), sample.Noon.Add(-time.Minute)
}

func nodes(n int) nodescaler.NodeBudget {
	return nodescaler.NodeBudget{Nodes: nodescaler.NodeCount{N: n}}
}

func onSchedule(t *testing.T, n int, cron string, d time.Duration) nodescaler.NodeBudget {
	c := must.Get(podscaler.ParseCron(cron))(t)
	b := nodes(n)
	b.Schedule, b.Duration = c, nodescaler.Duration(d)
	return b
}

// full is a world of n nodes each of which holds one pod that no other has room for.
func full(n int) *sample.World {
	w := sample.New()
	for i := range n {
		name := fmt.Sprintf("w-%d", i+1)
		w.Node(name, fmt.Sprintf("pve%d", i%3+1)).Pod(fmt.Sprintf("p-%d", i+1), name, 1500, 500)
	}
	return w
}

// What is done about machines that are to be replaced, named as Karpenter's suites name theirs
// where they have the same.
func TestMachinesAreReplaced(t *testing.T) {
	tests := []struct {
		name    string
		world   *sample.World
		change  []func(*sample.World)
		want    []string
		reasons []string
	}{
		{name: "drift is ignored unless it is asked for", world: full(1), change: []func(*sample.World){drifted("w-1")}},
		{name: "a drifted node is replaced", world: full(1), change: []func(*sample.World){replaces(), drifted("w-1")},
			want: []string{"Buy w small pve2"}, reasons: []string{nodescaler.ReplacementOrdered, nodescaler.MachineDrifted, nodescaler.ReplacementAwaited}},
		{name: "an empty drifted node goes without a replacement", world: sample.New().Node("w-1", "pve1"), change: []func(*sample.World){replaces(), drifted("w-1")},
			want: []string{"Cordon w-1"}, reasons: []string{nodescaler.MachineDrifted}},
		{name: "a node whose pods fit elsewhere goes without a replacement", world: full(1).Node("w-2", "pve2"), change: []func(*sample.World){replaces(), drifted("w-1")},
			want: []string{"Cordon w-1", "Evict p-1"}},
		{name: "pods do not move to another drifted node", world: full(1).Node("w-2", "pve2").Pod("q", "w-2", 100, 100), change: []func(*sample.World){replaces(nodes(1)), drifted("w-1", "w-2")},
			want: []string{"Buy w small pve3"}, reasons: []string{nodescaler.NodeBudgetSpent}},
		{name: "one machine replaces two", world: sample.New().Node("w-1", "pve1").Pod("p", "w-1", 800, 100).Node("w-2", "pve2").Pod("q", "w-2", 900, 100),
			change: []func(*sample.World){replaces(nodes(2)), drifted("w-1", "w-2")}, want: []string{"Buy w small pve3"}},
		{name: "a replacement that is coming is awaited", world: full(1).Machine("w-2", "pve2", nodescaler.Booting, lately), change: []func(*sample.World){replaces(), drifted("w-1")},
			reasons: []string{nodescaler.ReplacementAwaited}},
		{name: "the first budget is a tenth, rounded up", world: full(3), change: []func(*sample.World){replaces(), drifted("w-1", "w-2", "w-3")},
			want: []string{"Buy w small pve1"}, reasons: []string{nodescaler.NodeBudgetSpent}},
		{name: "a budget of two", world: full(3), change: []func(*sample.World){replaces(nodes(2)), drifted("w-1", "w-2", "w-3")},
			want: []string{"Buy w small pve1", "Buy w small pve2"}},
		{name: "a budget of none", world: full(1), change: []func(*sample.World){replaces(nodes(0)), drifted("w-1")}, reasons: []string{nodescaler.NodeBudgetSpent}},
		{name: "the lowest budget counts", world: full(3), change: []func(*sample.World){replaces(nodes(3), nodes(1)), drifted("w-1", "w-2")},
			want: []string{"Buy w small pve1"}},
		{name: "a budget for another reason", world: full(1), change: []func(*sample.World){
			replaces(nodescaler.NodeBudget{Reasons: []nodescaler.Cause{nodescaler.Empty}}), drifted("w-1")},
			want: []string{"Buy w small pve2"}},
		{name: "a closed window", world: full(1), change: []func(*sample.World){replaces(onSchedule(t, 0, "0 9 * * *", 4*time.Hour)), drifted("w-1")},
			reasons: []string{nodescaler.NodeBudgetSpent}},
		{name: "after the window", world: full(1), change: []func(*sample.World){replaces(onSchedule(t, 0, "0 9 * * *", 2*time.Hour)), drifted("w-1")},
			want: []string{"Buy w small pve2"}},
		{name: "a node that is not ready spends the budget", world: full(1).Node("w-2", "pve2", sample.NotReady), change: []func(*sample.World){replaces(nodes(1)), drifted("w-1")},
			reasons: []string{nodescaler.NodeBudgetSpent}},
		{name: "do-not-disrupt on a pod", world: sample.New().Node("w-1", "pve1").Pod("p", "w-1", 100, 100, pinned), change: []func(*sample.World){replaces(), drifted("w-1")},
			reasons: []string{nodescaler.PodPinned}},
		{name: "do-not-disrupt on a node", world: sample.New().Node("w-1", "pve1", func(n *nodescaler.Node) { n.Pinned = "annotated" }), change: []func(*sample.World){replaces(), drifted("w-1")},
			reasons: []string{nodescaler.NodePinned}},
		{name: "a disruption budget that lets no pod go", world: full(1), change: []func(*sample.World){replaces(), drifted("w-1"), func(w *sample.World) {
			w.Budgets = []nodescaler.Budget{{Workload: "ns/app"}}
		}}, reasons: []string{nodescaler.BudgetExhausted}},
		{name: "a node that another client cordoned", world: sample.New().Node("w-1", "pve1", cordoned), change: []func(*sample.World){replaces(), drifted("w-1")},
			reasons: []string{nodescaler.NodeCordoned}},
		{name: "the pool's minimum is kept meanwhile", world: sample.New().Node("w-1", "pve1"), change: []func(*sample.World){replaces(), drifted("w-1"), func(w *sample.World) { w.Pools[0].Min = 1 }},
			want: []string{"Buy w small pve2"}, reasons: []string{nodescaler.ReplacementOrdered}},
		{name: "and awaited", world: sample.New().Node("w-1", "pve1").Machine("w-2", "pve2", nodescaler.Ordered, lately), change: []func(*sample.World){replaces(), drifted("w-1"), func(w *sample.World) { w.Pools[0].Min = 1 }},
			reasons: []string{nodescaler.ReplacementAwaited}},
		{name: "a pool at its maximum", world: full(1), change: []func(*sample.World){replaces(), drifted("w-1"), func(w *sample.World) { w.Pools[0].Max = 1 }},
			reasons: []string{nodescaler.ReplacementBlocked}},
		{name: "a pool at its maximum whose other nodes have room", world: full(1).Node("w-2", "pve2"), change: []func(*sample.World){
			replaces(nodes(1)), drifted("w-1", "w-2"), func(w *sample.World) {
				w.Pools[0].Max = 2
				w.Pod("q", "w-2", 200, 100)
			}}, want: []string{"Cordon w-1", "Evict p-1"}},
		{name: "a paused pool", world: full(1), change: []func(*sample.World){replaces(), drifted("w-1"), sample.HeldDown}, reasons: []string{"Paused"}},
		{name: "pods that wait come first", world: full(1).Pod("q", "", 1500, 100), change: []func(*sample.World){replaces(), drifted("w-1")},
			want: []string{"Buy w small pve2"}, reasons: []string{nodescaler.PodsPending}},
		{name: "too old", world: full(1), change: []func(*sample.World){func(w *sample.World) {
			w.Pools[0].Disruption.ExpireAfter = nodescaler.Duration(time.Hour)
		}}, want: []string{"Buy w small pve2"}, reasons: []string{nodescaler.MachineExpired}},
		{name: "not too old", world: full(1), change: []func(*sample.World){func(w *sample.World) {
			w.Pools[0].Disruption.ExpireAfter = nodescaler.Duration(2 * time.Hour)
		}}},
	}
	broken := func(names ...string) func(*sample.World) {
		return func(w *sample.World) {
			w.Pools[0].Disruption.Repair.Conditions = []nodescaler.Ailment{{Type: "KernelDeadlock", Status: "True", For: nodescaler.Duration(15 * time.Minute)}}
			for i := range w.Nodes {
				if slices.Contains(names, w.Nodes[i].Name) {
					w.Nodes[i].Conditions = []nodescaler.NodeCondition{{Type: "KernelDeadlock", Status: "True", Since: w.Now.Add(-15 * time.Minute)}}
				}
			}
		}
	}
	tests = append(tests, []struct {
		name    string
		world   *sample.World
		change  []func(*sample.World)
		want    []string
		reasons []string
	}{
		{name: "a broken node is replaced", world: full(1), change: []func(*sample.World){broken("w-1")}, want: []string{"Buy w small pve2"},
			reasons: []string{nodescaler.MachineUnhealthy, nodescaler.ReplacementOrdered}},
		{name: "a condition that has not lasted", world: full(1), change: []func(*sample.World){broken("w-1"), func(w *sample.World) { w.Nodes[0].Conditions[0].Since = w.Now }}},
		{name: "a condition of another status", world: full(1), change: []func(*sample.World){broken("w-1"), func(w *sample.World) { w.Nodes[0].Conditions[0].Status = "Unknown" }}},
		{name: "broken nodes go before those that drifted", world: full(2), change: []func(*sample.World){replaces(nodes(1)), drifted("w-1"), broken("w-2")},
			want: []string{"Buy w small pve3"}, reasons: []string{nodescaler.MachineUnhealthy, nodescaler.NodeBudgetSpent}},
		{name: "too many are broken", world: full(3), change: []func(*sample.World){broken("w-1", "w-2")}, reasons: []string{nodescaler.RepairHalted}},
		{name: "so many may be", world: full(3), change: []func(*sample.World){broken("w-1", "w-2"), func(w *sample.World) {
			w.Pools[0].Disruption.Repair.MaxUnhealthy = nodescaler.NodeCount{N: 2}
		}}, want: []string{"Buy w small pve1"}, reasons: []string{nodescaler.MachineUnhealthy}},
		{name: "one is broken and one not ready", world: full(2).Node("w-3", "pve3", sample.NotReady), change: []func(*sample.World){broken("w-1")}, reasons: []string{nodescaler.RepairHalted}},
		{name: "while too many are broken, others drift", world: full(3), change: []func(*sample.World){replaces(), broken("w-1", "w-2"), drifted("w-3")},
			want: []string{"Buy w small pve1"}, reasons: []string{nodescaler.RepairHalted, nodescaler.MachineDrifted}},
	}...)
	silent := func(names ...string) func(*sample.World) {
		return func(w *sample.World) {
			w.Pools[0].Disruption.Repair.Conditions = []nodescaler.Ailment{{Type: nodescaler.Ready, Status: "Unknown", For: nodescaler.Duration(15 * time.Minute)}}
			for i := range w.Nodes {
				if n := &w.Nodes[i]; slices.Contains(names, n.Name) {
					n.Ready, n.Conditions = false, []nodescaler.NodeCondition{{Type: nodescaler.Ready, Status: "Unknown", Since: w.Now.Add(-15 * time.Minute)}}
				}
			}
		}
	}
	tests = append(tests, []struct {
		name    string
		world   *sample.World
		change  []func(*sample.World)
		want    []string
		reasons []string
	}{
		{name: "a silent node is lost with its pods", world: full(1), change: []func(*sample.World){silent("w-1")}, want: []string{"Cordon w-1"}, reasons: []string{nodescaler.MachineUnhealthy}},
		{name: "whatever keeps its pods", world: sample.New().Node("w-1", "pve1").Pod("p", "w-1", 100, 100, pinned), change: []func(*sample.World){silent("w-1"), func(w *sample.World) {
			w.Nodes[0].Pinned, w.Budgets = "annotated", []nodescaler.Budget{{Workload: "ns/app"}}
		}}, want: []string{"Cordon w-1"}},
		{name: "not if it has not lasted", world: full(1), change: []func(*sample.World){silent("w-1"), func(w *sample.World) { w.Nodes[0].Conditions[0].Since = w.Now }}},
		{name: "not if another client cordoned it", world: full(1), change: []func(*sample.World){silent("w-1"), func(w *sample.World) { w.Nodes[0].Cordoned = true }}, reasons: []string{nodescaler.NodeCordoned}},
		{name: "not if its host is away", world: full(1), change: []func(*sample.World){silent("w-1"), func(w *sample.World) { w.Hosts[0].Online = false }}, reasons: []string{nodescaler.HostOffline}},
		{name: "not if its machine is held", world: full(1), change: []func(*sample.World){silent("w-1"), func(w *sample.World) {
			w.Machines[0].Held = &nodescaler.Reason{Code: "Held", Text: "by ann"}
		}}, reasons: []string{nodescaler.MachineHeld}},
		{name: "not while it starts", world: full(1), change: []func(*sample.World){silent("w-1"), func(w *sample.World) { w.Nodes[0].Joined = w.Now.Add(-14 * time.Minute) }}},
		{name: "not if it never was ready", world: full(1), change: []func(*sample.World){silent("w-1"), func(w *sample.World) {
			w.Nodes[0].Conditions[0].Since = w.Nodes[0].Joined.Add(time.Minute)
		}}},
		{name: "not while its network is set up", world: full(1), change: []func(*sample.World){silent("w-1"), func(w *sample.World) {
			w.Pools[0].Disruption.Repair.Conditions[0].Type, w.Pools[0].Disruption.Repair.Conditions[0].Status = "NetworkUnavailable", "True"
			w.Nodes[0].Conditions = []nodescaler.NodeCondition{{Type: "NetworkUnavailable", Status: "True", Since: w.Nodes[0].Joined.Add(-time.Second)}}
		}}},
		{name: "though its network was set up once", world: full(1), change: []func(*sample.World){silent("w-1"), func(w *sample.World) {
			w.Pools[0].Disruption.Repair.Conditions[0].Type, w.Pools[0].Disruption.Repair.Conditions[0].Status = "NetworkUnavailable", "True"
			w.Nodes[0].Conditions = []nodescaler.NodeCondition{{Type: "NetworkUnavailable", Status: "True", Since: w.Now.Add(-15 * time.Minute)}}
		}}, want: []string{"Cordon w-1"}, reasons: []string{nodescaler.MachineUnhealthy}},
		{name: "though it never was ready, by another condition", world: full(1), change: []func(*sample.World){broken("w-1"), func(w *sample.World) {
			n := &w.Nodes[0]
			n.Ready, n.Conditions = false, append(n.Conditions, nodescaler.NodeCondition{Type: nodescaler.Ready, Status: "False", Since: n.Joined})
		}}, want: []string{"Cordon w-1"}, reasons: []string{nodescaler.MachineUnhealthy}},
		{name: "one that never was ready counts", world: full(2).Node("w-3", "pve3", sample.NotReady), change: []func(*sample.World){silent("w-1", "w-2", "w-3"), func(w *sample.World) {
			w.Nodes[1].Conditions[0].Since, w.Nodes[2].Conditions[0].Since = w.Nodes[1].Joined, w.Nodes[2].Joined
		}}, reasons: []string{nodescaler.RepairHalted}},
		{name: "not if too many are silent", world: full(3), change: []func(*sample.World){silent("w-1", "w-2")}, reasons: []string{nodescaler.RepairHalted}},
		{name: "a pool at its minimum is filled first", world: full(1), change: []func(*sample.World){silent("w-1"), func(w *sample.World) { w.Pools[0].Min = 1 }},
			want: []string{"Buy w small pve2"}, reasons: []string{nodescaler.ReplacementAwaited}},
	}...)
	for _, c := range tests {
		for _, policy := range []string{"unneeded", "joint"} {
			t.Run(c.name+"/"+policy, func(t *testing.T) {
				for _, change := range c.change {
					change(c.world)
				}
				p := sample.LookedAt(t, build(t, Spec{Policy: policy}), c.world)
				c.change = nil // for the next policy
				got := sample.Decide(t, p, c.world.At(15*time.Second))
				sample.Expect(t, got, c.want, c.reasons...)
			})
		}
	}
}

// Budgets limit what goes for other reasons, too.
func TestBudgetsLimitWhatIsNotNeeded(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*sample.World)
		want   int
	}{
		{"no budgets", func(*sample.World) {}, 3},
		{"one", replaces(nodes(1)), 1},
		{"none that are empty", replaces(nodescaler.NodeBudget{Reasons: []nodescaler.Cause{nodescaler.Empty}}), 0},
		{"none that are underutilized", replaces(nodescaler.NodeBudget{Reasons: []nodescaler.Cause{nodescaler.Underutilized}}, nodes(2)), 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := sample.New().Change(func(w *sample.World) { w.Node("w-1", "pve1").Node("w-2", "pve2").Node("w-3", "pve3") }).Change(c.change)
			p := sample.LookedAt(t, build(t, Spec{Policy: "unneeded"}), w)
			sample.Decide(t, p, w.At(15*time.Second))
			if got := sample.Lines(sample.Decide(t, p, w.At(30*time.Minute))); len(got) != c.want {
				t.Errorf("got %v, want %d", got, c.want)
			}
		})
	}
}

// In any fleet all machines that drifted are replaced in the end, no more nodes are on their
// way out than the budget allows, and then nothing is done any more. A pod that the scheduler puts
// elsewhere than was planned may have another wait for a machine, and for no longer than that.
func TestDriftedFleetsAreReplaced(t *testing.T) {
	for _, name := range []string{"unneeded", "joint"} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			l := &life.Life{World: *sample.New(), Wanted: map[string]int{}, Marks: drawMarks(t)}
			l.Pools[0].Max, l.Pools[0].Min = 40, rapid.IntRange(0, 3).Draw(t, "min")
			for i := range l.Hosts {
				l.Hosts[i].Room = sample.Small.Resources().Times(16)
			}
			for _, size := range []string{"300", "700", "1100"} {
				l.Wanted["ns/app"+size] = rapid.IntRange(0, 5).Draw(t, size)
			}
			p := build(t, Spec{Policy: name})
			l.Live(t, p, 90*time.Minute)
			old := map[string]bool{}
			for i := range l.Machines {
				if rapid.Bool().Draw(t, "drifted") {
					sample.Drifted(&l.Machines[i])
					old[l.Machines[i].Name] = true
				}
			}
			limit := rapid.IntRange(1, 3).Draw(t, "limit")
			replaces(nodes(limit))(&l.World)
			done := renew(t, l, p, old, limit)
			if rest := l.Live(t, p, 40*time.Minute); name == "unneeded" && len(rest) > 0 {
				t.Fatalf("once all are replaced by %v: %v", done, rest)
			}
		}))
	}
}

// Six pods are spread over three nodes with room for all. Where one of the machines is replaced its
// pods wait until its node is gone, for no more than minutes, and no machine is ordered for them.
func TestPodsThatAreSpreadWaitUntilAReplacedMachineIsGone(t *testing.T) {
	for _, policy := range []string{"joint", "unneeded"} {
		rule := spreadOverNodes("a", 1)
		l := &life.Life{World: *sample.New(), Wanted: map[string]int{"ns/app300": 6}, Marks: map[string]life.Marks{"ns/app300": {Has: []string{"a"}, Topology: rule}}}
		for i := range 3 {
			name := fmt.Sprint("w-", i)
			l.Node(name, fmt.Sprint("pve", i+1), func(n *nodescaler.Node) { n.Labels = map[string]string{nodescaler.HostLabel: name} })
			for range 2 {
				l.Pod(fmt.Sprint("p-", len(l.Pods)), name, 300, 200, func(p *nodescaler.Pod) { p.Workload, p.Has, p.Topology = "ns/app300", []string{"a"}, rule })
			}
		}
		p := build(t, Spec{Policy: policy})
		l.Live(t, p, life.Step)
		l.World.Change(replaces(nodes(1))).Change(drifted("w-0"))
		done := renew(t, l, p, map[string]bool{"w-0": true}, 1)
		done = append(done, l.Live(t, p, time.Hour)...)
		if boughtIn(done) > 0 || len(l.Waiting()) > 0 || len(l.Machines) != 2 {
			t.Errorf("%s: %d machines, %v wait: %v", policy, len(l.Machines), l.Waiting(), done)
		}
	}
}

// renew lives until the old machines are gone.
func renew(t sample.Fatal, l *life.Life, p nodescaler.Policy, old map[string]bool, limit int) (done []string) {
	waits, end := map[string]int{}, l.Now.Add(12*time.Hour)
	there := func(m nodescaler.Machine) bool { return old[m.Name] }
	for slices.ContainsFunc(l.Machines, there) {
		done = append(done, l.Live(t, p, life.Step)...)
		out, names := 0, l.Waiting()
		for i := range l.Nodes {
			if l.Nodes[i].Draining {
				out++
			}
		}
		for _, pod := range names {
			waits[pod]++
			if waits[pod] > 9 {
				t.Fatalf("%s waits for more than 3 minutes: %v", pod, done)
			}
		}
		if out > limit {
			t.Fatalf("%d nodes are on their way out, want %d at most: %v", out, limit, done)
		}
		if l.Now.After(end) {
			t.Fatalf("after half a day %v are not replaced: %v", old, done)
		}
	}
	return done
}

// A drain that fails is given up, and the next machine has its turn.
func TestAnEndThatFailsIsNotTriedAtOnce(t *testing.T) {
	w := full(2).Node("w-3", "pve3").Change(replaces(nodes(1))).Change(drifted("w-1", "w-2"))
	p := sample.LookedAt(t, build(t, Spec{Policy: "unneeded"}), w)
	sample.Expect(t, sample.Decide(t, p, w.At(15*time.Second)), []string{"Cordon w-1", "Evict p-1"})
	sample.Draining(&w.Nodes[0])
	w.Pods[0].Terminating = true
	sample.Expect(t, sample.Decide(t, p, w.At(20*time.Minute)), nil)
	sample.Expect(t, sample.Decide(t, p, w.At(26*time.Minute)), []string{"Uncordon w-1"}, nodescaler.DrainTimedOut)
	w.Nodes[0].Draining, w.Nodes[0].Cordoned, w.Pods[0].Terminating = false, false, false
	sample.Expect(t, sample.Decide(t, p, w.At(27*time.Minute)), []string{"Cordon w-2", "Evict p-2"}, nodescaler.CoolingDown)
}

// What replaces a machine may be cheaper, and may be a spare.
func TestReplacementsAreTheCheapest(t *testing.T) {
	w := sample.New()
	w.Pools[0].Shapes = []pricing.Shape{sample.Large, sample.Small}
	for i := range w.Hosts {
		w.Hosts[i].Room = sample.Large.Resources().Times(4)
	}
	w.Node("w-1", "pve1").Pod("p", "w-1", 500, 100)
	w.Machines[0].Shape = sample.Large
	w.Change(replaces()).Change(drifted("w-1"))
	p := sample.LookedAt(t, build(t, Spec{Policy: "joint"}), w)
	sample.Expect(t, sample.Decide(t, p, w.At(15*time.Second)), []string{"Buy w small pve2"})

	j := DefaultJoint()
	j.Spares.Most = 1
	w = full(1).Spare("w-9", "pve2").Change(replaces()).Change(drifted("w-1"))
	p = sample.LookedAt(t, build(t, Spec{Policy: "joint", Joint: &j}), w)
	sample.Expect(t, sample.Decide(t, p, w.At(15*time.Second)), []string{"Wake w-9"}, nodescaler.ReplacementOrdered)
}

// What replaces a machine is ordered for no namespace: its quota of orders is for what it asks for.
func TestReplacementsCountForNoQuota(t *testing.T) {
	w := full(1).Change(replaces()).Change(drifted("w-1"))
	w.Pods[0].Name, w.Pods[0].Workload = "ns/p-1", "ns/app"
	w.Quotas, w.Ordered = []nodescaler.Quota{{Namespace: "ns", Orders: 1}}, map[string]int{"ns": 1}
	p := sample.LookedAt(t, build(t, Spec{Policy: "joint"}), w)
	plan := sample.Decide(t, p, w.At(15*time.Second))
	sample.Expect(t, plan, []string{"Buy w small pve2"})
	if got := plan.Actions[0].For; got != nil {
		t.Errorf("it is ordered for %v", got)
	}
}

// consolidates gives the first pool's machines a consolidation.
func consolidates(policy nodescaler.ConsolidationPolicy, budgets ...nodescaler.NodeBudget) func(*sample.World) {
	return func(w *sample.World) {
		w.Pools[0].Disruption = nodescaler.Disruption{Consolidation: nodescaler.Consolidation{Policy: policy}, Budgets: budgets}
	}
}

// Random fleets of odd shapes are consolidated. They cost no more in the end, and no pod waits that
// did not wait before. What is changed later costs less again, and in the end nothing is done for a
// week.
func TestConsolidatedFleetsAreLeftAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, name := odd(t), sample.OneOf(t, "policy", "unneeded", "joint")
		p, disruption := build(t, Spec{Policy: name}), l.Pools[0].Disruption
		l.Pools[0].Disruption = nodescaler.Disruption{}
		l.Live(t, p, 30*time.Minute)
		l.Pools[0].Disruption = disruption
		before, waited := l.Rate(), len(l.Waiting())
		round := l.Live(t, p, 4*time.Hour)
		after := l.Rate()
		if after > before {
			t.Fatalf("it cost %s, and after hours %s: %v", before, after, round)
		}
		if w := l.Waiting(); len(w) > waited {
			t.Fatalf("after hours %v wait: %v", w, round)
		}
		for at := 0; at < 7*12; at++ { // a week, a minute of each two hours
			l.Now = l.Now.Add(119 * time.Minute)
			if done := l.Live(t, p, time.Minute); len(done) > 0 {
				done = append(done, l.Live(t, p, 4*time.Hour)...)
				if now := l.Rate(); now >= after {
					t.Fatalf("%s after it began it cost %s, and after %v %s; before: %v", l.Now.Sub(sample.Noon), after, done, now, round)
				}
				after, at = l.Rate(), -1
			}
		}
	})
}

// What is replaced by cheaper machines, and what stays.
func TestMachinesAreConsolidated(t *testing.T) {
	on := consolidates(nodescaler.WhenEmptyOrUnderutilized)
	all := consolidates(nodescaler.WhenEmptyOrUnderutilized, nodes(9))
	large := func(name, host string) func(*sample.World) {
		return func(w *sample.World) {
			w.Node(name, host)
			w.Machines[len(w.Machines)-1].Shape = sample.Large
			w.Nodes[len(w.Nodes)-1].Allocatable = sample.Large.Resources().Minus(w.Pools[0].Reserved)
		}
	}
	pod := func(name, node string, cpu pricing.MilliCPU, change ...func(*nodescaler.Pod)) func(*sample.World) {
		return func(w *sample.World) { w.Pod(name, node, cpu, 100, change...) }
	}
	type changes = []func(*sample.World)
	for _, c := range []struct {
		name    string
		change  changes
		want    []string
		reasons []string
	}{
		{"a large machine is replaced by a small one", changes{on, large("w-1", "pve1"), pod("p", "w-1", 1500)}, []string{"Buy w small pve2"},
			[]string{nodescaler.MachineCostly, nodescaler.ReplacementOrdered, nodescaler.ReplacementAwaited}},
		{"not unless it is asked for", changes{large("w-1", "pve1"), pod("p", "w-1", 1500)}, nil, nil},
		{"not with WhenEmpty", changes{consolidates(nodescaler.WhenEmpty), large("w-1", "pve1"), pod("p", "w-1", 1500)}, nil, nil},
		{"not if it saves nothing", changes{on, large("w-1", "pve1"), pod("p", "w-1", 7000)}, nil, nil},
		{"not if the move does not pay", changes{on, large("w-1", "pve1"), pod("p", "w-1", 1500, func(p *nodescaler.Pod) { p.Priority = 2000000000 }),
			pod("q", "w-1", 1500, func(p *nodescaler.Pod) { p.DeletionCost = 2147483647 }), pod("r", "w-1", 1500, func(p *nodescaler.Pod) { p.Priority = 2000000000 })}, nil, nil},
		{"two small ones are replaced by none", changes{all, func(w *sample.World) { w.Node("w-1", "pve1").Node("w-2", "pve2") }, pod("p", "w-1", 900), pod("q", "w-2", 800)},
			[]string{"Cordon w-2", "Evict q"}, nil},
		{"two large ones are replaced by a small one", changes{all, large("w-1", "pve1"), large("w-2", "pve2"), pod("p", "w-1", 800), pod("q", "w-2", 900)}, []string{"Buy w small pve3"},
			[]string{nodescaler.MachineCostly}},
		{"a budget of none", changes{consolidates(nodescaler.WhenEmptyOrUnderutilized, nodes(0)), large("w-1", "pve1"), pod("p", "w-1", 1500)}, nil, nil},
		{"a budget for empty machines", changes{consolidates(nodescaler.WhenEmptyOrUnderutilized, nodescaler.NodeBudget{Reasons: []nodescaler.Cause{nodescaler.Empty}}), large("w-1", "pve1"), pod("p", "w-1", 1500)},
			[]string{"Buy w small pve2"}, nil},
		{"do-not-disrupt on a pod", changes{on, large("w-1", "pve1"), pod("p", "w-1", 1500, pinned)}, nil, nil},
		{"do-not-disrupt on a node", changes{on, large("w-1", "pve1"), pod("p", "w-1", 1500), func(w *sample.World) { w.Nodes[0].Pinned = "annotated" }}, nil, nil},
		{"a disruption budget that lets no pod go", changes{on, large("w-1", "pve1"), pod("p", "w-1", 1500), func(w *sample.World) { w.Budgets = []nodescaler.Budget{{Workload: "ns/app"}} }}, nil, nil},
		{"a pool at its maximum", changes{on, large("w-1", "pve1"), pod("p", "w-1", 1500), func(w *sample.World) { w.Pools[0].Max = 1 }}, nil, nil},
		{"a paused pool", changes{on, large("w-1", "pve1"), pod("p", "w-1", 1500), sample.HeldDown}, nil, nil},
		{"machines that drifted are replaced first", changes{on, large("w-1", "pve1"), pod("p", "w-1", 1500), drifted("w-1"), func(w *sample.World) { w.Pools[0].Disruption.Drift = nodescaler.DriftReplace }},
			[]string{"Buy w small pve2"}, []string{nodescaler.MachineDrifted}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := sample.New()
			w.Pools[0].Shapes = []pricing.Shape{sample.Large, sample.Small}
			for i := range w.Hosts {
				w.Hosts[i].Room = sample.Large.Resources().Times(4)
			}
			for _, change := range c.change {
				change(w)
			}
			p := build(t, Spec{Policy: "joint"})
			sample.Decide(t, p, w.At(0))
			sample.Decide(t, p, w.At(15*time.Second))
			sample.Expect(t, sample.Decide(t, p, w.At(11*time.Minute)), c.want, c.reasons...)
		})
	}
}

// odd is a fleet of machines of several shapes, each with some pods.
func odd(t *rapid.T) *life.Life {
	l := &life.Life{World: *sample.New(), Wanted: map[string]int{}, Marks: drawMarks(t)}
	big := sample.Large
	big.Name, big.CPU, big.Memory = "huge", 2*big.CPU, 2*big.Memory
	l.Pools[0].Max, l.Pools[0].Shapes = 40, []pricing.Shape{sample.Small, sample.Large, big}
	for i := range l.Hosts {
		l.Hosts[i].Room = big.Resources().Times(16)
	}
	l.Pools[0].Disruption = nodescaler.Disruption{
		Consolidation: nodescaler.Consolidation{Policy: nodescaler.WhenEmptyOrUnderutilized},
		Budgets:       []nodescaler.NodeBudget{nodes(rapid.IntRange(1, 8).Draw(t, "budget"))},
	}
	for i := range rapid.IntRange(1, 10).Draw(t, "machines") {
		shape := sample.OneOf(t, "shape", l.Pools[0].Shapes...)
		name := fmt.Sprintf("w-%02d", i+1)
		l.Node(name, fmt.Sprintf("pve%d", i%3+1))
		m, n := &l.Machines[len(l.Machines)-1], &l.Nodes[len(l.Nodes)-1]
		m.Shape, n.Allocatable = shape, shape.Resources().Minus(pricing.Resources{CPU: 100, Memory: 256 * pricing.MiB})
		n.Labels = l.LabelsOf(m)
		l.Pod("daemon/"+name, name, 100, 256, sample.Daemon)
	}
	for _, size := range []string{"300", "700", "1100"} {
		l.Wanted["ns/app"+size] = rapid.IntRange(0, 6).Draw(t, size)
	}
	l.Control()
	l.Schedule()
	return l
}

// A node that is not ready any more, and whose pods cannot leave, goes once and is not taken back.
func TestLostNodesGo(t *testing.T) {
	for _, policy := range []string{"unneeded", "joint"} {
		w := sample.New().Node("w-1", "pve1").Node("w-2", "pve2").Pod("p", "w-1", 100, 100, pinned).Pod("q", "w-2", 1500, 100)
		w.Pools[0].Disruption.Repair.Conditions = []nodescaler.Ailment{{Type: nodescaler.Ready, Status: "Unknown", For: nodescaler.Duration(15 * time.Minute)}}
		w.Nodes[0].Ready, w.Nodes[0].Conditions = false, []nodescaler.NodeCondition{{Type: nodescaler.Ready, Status: "Unknown", Since: w.Now.Add(-15 * time.Minute)}}
		p := sample.LookedAt(t, build(t, Spec{Policy: policy}), w)
		sample.Expect(t, sample.Decide(t, p, w.At(15*time.Second)), []string{"Cordon w-1"})
		sample.Draining(&w.Nodes[0])
		plan := sample.Decide(t, p, w.At(30*time.Second))
		sample.Expect(t, plan, []string{"Return w-1"}, nodescaler.MachineUnhealthy)
		if found := nodescaler.Check(nodescaler.NewIndex(w.At(30*time.Second)), plan); len(found) > 0 {
			t.Error(found)
		}
	}
}

// What is critical to the cluster leaves a node once the others are gone.
func TestCriticalPodsLeaveLast(t *testing.T) {
	first := func(p *nodescaler.Pod) { p.Priority = 2000000000 }
	w := sample.New().Node("w-1", "pve1").Node("w-2", "pve2").Pod("dns", "w-1", 100, 100, first).Pod("p", "w-1", 100, 100)
	w.Change(replaces()).Change(drifted("w-1"))
	p := sample.LookedAt(t, build(t, Spec{Policy: "joint"}), w)
	sample.Expect(t, sample.Decide(t, p, w.At(15*time.Second)), []string{"Cordon w-1", "Evict p"}, nodescaler.PodLeaving)
	sample.Draining(&w.Nodes[0])
	w.Pods[1].Terminating = true
	sample.Expect(t, sample.Decide(t, p, w.At(30*time.Second)), nil, nodescaler.PodLeaving)
	w.Pods = w.Pods[:1]
	sample.Expect(t, sample.Decide(t, p, w.At(45*time.Second)), []string{"Evict dns"})
}

// What is to replace machines fails three times in a row: none goes for that reason for an hour.
func TestFailingReplacementsStopDisruption(t *testing.T) {
	w := full(1).Change(replaces()).Change(drifted("w-1"))
	p := sample.LookedAt(t, build(t, Spec{Policy: "joint"}), w)
	at := time.Duration(0)
	for i := range 3 {
		at += 45 * time.Minute
		sample.Expect(t, sample.Decide(t, p, w.At(at)), []string{"Buy w small pve2"}, nodescaler.ReplacementOrdered)
		w.Machine(fmt.Sprintf("w-%d", i+2), "pve2", nodescaler.Ordered, func(m *nodescaler.Machine) { m.Created, m.Since = w.Now.Add(at), w.Now.Add(at) })
		sample.Expect(t, sample.Decide(t, p, w.At(at+time.Minute)), nil, nodescaler.ReplacementAwaited)
		w.Machines[1].Phase = nodescaler.Failed
		sample.Decide(t, p, w.At(at+2*time.Minute))
		w.Machines = w.Machines[:1]
	}
	plan := sample.Decide(t, p, w.At(at+50*time.Minute))
	sample.Expect(t, plan, nil, nodescaler.DisruptionHalted)
	if why, is := plan.Halted["w"]; !is || why.Code != nodescaler.DisruptionHalted {
		t.Errorf("halted: %v", plan.Halted)
	}
	sample.Expect(t, sample.Decide(t, p, w.At(at+70*time.Minute)), []string{"Buy w small pve2"}, nodescaler.ReplacementOrdered)
}
