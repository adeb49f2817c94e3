package planner

import (
	"fmt"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
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
		if s.disrupt.vain != vainMost || len(p.vainly) != want {
			t.Errorf("turn %d: in vain for %d, and for %d so far, want %d", turn+1, s.disrupt.vain, len(p.vainly), want)
		}
	}
	w.Hosts[2].Room = w.Hosts[2].Room.Plus(sample.Small.Resources())
	if plan := p.Scan(nodescaler.NewIndex(w.At(time.Minute))); len(plan.Actions) != 1 || plan.Actions[0].Host != "pve3" {
		t.Errorf("with room for one it plans %v", plan.Actions)
	}
}
