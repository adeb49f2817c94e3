package planner

import (
	"fmt"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/pricing"
)

// A scan looks for replacements in vain for some of a fleet that drifted, and the next ones for the
// others.
func TestAFleetThatDriftedOnFullHostsIsLookedAtByTurns(t *testing.T) {
	const machines = 2*vainMost + 4
	w := sample.New()
	w.Pools[0].Max, w.Pools[0].Disruption = 2*machines, nodescaler.Disruption{
		Drift: nodescaler.DriftReplace, Budgets: []nodescaler.NodeBudget{{Nodes: nodescaler.NodeCount{N: machines}}},
	}
	for i := range w.Hosts {
		w.Hosts[i].Room = sample.Small.Resources().Times(machines / 3)
	}
	for i := range machines {
		name := fmt.Sprintf("w-%02d", i)
		w.Node(name, fmt.Sprintf("pve%d", i%3+1)).Pod("p-"+name, name, 1500, 500)
		sample.Drifted(&w.Machines[i])
	}
	p := New(DefaultRules())
	p.Scan(nodescaler.NewIndex(&w.Snapshot)) // the first only looks
	p.first = false
	for turn, want := range []int{vainMost, 2 * vainMost, machines, machines} {
		s := newScan(p, nodescaler.NewIndex(w.At(time.Duration(turn+1)*10*time.Second)))
		s.run()
		vain := s.disrupt.vain[end{"w", nodescaler.Drifted}]
		if vain != vainMost || len(p.vainly) != want {
			t.Errorf("turn %d: in vain for %d, and for %d so far, want %d", turn+1, vain, len(p.vainly), want)
		}
	}
	w.Hosts[2].Room = w.Hosts[2].Room.Plus(sample.Small.Resources())
	if plan := p.Scan(nodescaler.NewIndex(w.At(time.Minute))); len(plan.Actions) != 1 || plan.Actions[0].Host != "pve3" {
		t.Errorf("with room for one it plans %v", plan.Actions)
	}
}

// Machines that are too old on a full host leave those their turn that drifted on another.
func TestMachinesOfAnotherCauseHaveTheirTurn(t *testing.T) {
	const machines = vainMost + 4
	w := sample.New().Change(sample.SecondPool())
	budgets := []nodescaler.NodeBudget{{Nodes: nodescaler.NodeCount{N: machines}}}
	for i := range w.Pools {
		p := &w.Pools[i]
		p.Shapes, p.Labels, p.Max = []pricing.Shape{sample.Small}, map[string]string{"pool": p.Name}, 2*machines
		p.Disruption = nodescaler.Disruption{Drift: nodescaler.DriftReplace, ExpireAfter: nodescaler.Duration(30 * time.Minute), Budgets: budgets}
	}
	w.Pools[0].Hosts, w.Pools[1].Hosts, w.Pools[1].Disruption.ExpireAfter = []string{"pve1"}, []string{"pve2"}, 0
	w.Hosts[0].Room = sample.Small.Resources().Times(machines)
	node := func(name, pool, host string) {
		w.Node(name, host, func(n *nodescaler.Node) { n.Pool, n.Labels = pool, map[string]string{"pool": pool} })
		w.Machines[len(w.Machines)-1].Pool = pool
		w.Pod("p-"+name, name, 1500, 500, func(p *nodescaler.Pod) { p.Selector = map[string]string{"pool": pool} })
	}
	for i := range machines {
		node(fmt.Sprintf("w-%02d", i), "w", "pve1")
	}
	node("x-1", "x", "pve2")
	sample.Drifted(&w.Machines[machines])
	p := New(DefaultRules())
	p.Scan(nodescaler.NewIndex(&w.Snapshot)) // the first only looks
	if plan := p.Scan(nodescaler.NewIndex(w.At(10 * time.Second))); len(plan.Actions) != 1 || plan.Actions[0].Pool != "x" {
		t.Errorf("it plans %v, want a machine of pool x", sample.Lines(plan))
	}
}

// A machine that the surge keeps back was looked at in vain: of a fleet, each scan looks at some.
func TestAFullSurgeCountsAsInVain(t *testing.T) {
	const machines = vainMost + 4
	w := sample.New()
	w.Pools[0].Max, w.Pools[0].Disruption = 2*machines, nodescaler.Disruption{
		Drift: nodescaler.DriftReplace, Budgets: []nodescaler.NodeBudget{{Nodes: nodescaler.NodeCount{N: machines}}},
		Rollout: &nodescaler.Rollout{Surge: &nodescaler.NodeCount{N: 1}},
	}
	w.Hosts[0].Room = sample.Small.Resources().Times(2 * machines)
	for i := range machines {
		name := fmt.Sprintf("w-%02d", i)
		w.Node(name, "pve1").Pod("p-"+name, name, 1500, 500)
		sample.Drifted(&w.Machines[i])
	}
	p := New(DefaultRules())
	p.Scan(nodescaler.NewIndex(&w.Snapshot)) // the first only looks
	p.first = false
	s := newScan(p, nodescaler.NewIndex(w.At(10*time.Second)))
	s.run()
	if vain := s.disrupt.vain[end{"w", nodescaler.Drifted}]; s.Bought != 1 || vain != vainMost {
		t.Errorf("%d are ordered, and the others looked at in vain are %d, want %d", s.Bought, vain, vainMost)
	}
	// What is coming is still waited for.
	w.Machine("w-new", "pve1", nodescaler.Booting, func(m *nodescaler.Machine) { m.Created, m.Since = w.Now, w.Now })
	p = New(DefaultRules())
	p.Scan(nodescaler.NewIndex(&w.Snapshot))
	p.first = false
	s = newScan(p, nodescaler.NewIndex(w.At(10*time.Second)))
	s.run()
	if s.Bought != 0 || len(p.replacing) != 2 {
		t.Errorf("%d are ordered and %v awaited, want one that waits for w-new", s.Bought, p.replacing)
	}
}
