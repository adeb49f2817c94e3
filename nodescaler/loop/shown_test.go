package loop

import (
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// What the last node of a pool left to pods is known when it has gone: no machine is ordered again
// for a pod that fits on none.
func TestWhatNodesShowedIsRememberedWhenTheyAreGone(t *testing.T) {
	h := newHouse()
	var most []pricing.Resources
	hostIsZone := false
	r := h.runner(replicas(1), nodesByIndex(func(x *nodescaler.Index) {
		most = append(most, x.Pool("worker").Capacity(small))
		hostIsZone = x.Pool("worker").HostIsZone
	}))
	said := r.Pools[0].Capacity(small)
	real := said.Minus(pricing.Resources{Memory: 100 * pricing.MiB})
	h.machines.Machines = []nodescaler.Machine{{Name: "worker-1", Pool: "worker", Shape: small, Host: "pve1", Phase: nodescaler.Joined}}
	h.state.Nodes = []nodescaler.Node{{Name: "worker-1", Machine: "worker-1", Pool: "worker", Ready: true, Allocatable: real, Labels: map[string]string{nodescaler.ZoneLabel: "pve1"}}}
	steps(t, r, 2) // the first only looks
	h.machines.Machines, h.state.Nodes = nil, nil
	steps(t, r, 2)
	for i, got := range most {
		if got != real {
			t.Errorf("step %d: a machine is taken to leave %v to pods, its node left %v", i, got, real)
		}
	}
	if !hostIsZone || r.Pools[0].HostIsZone {
		t.Error("that its zone was its host is not remembered, or changes the owner's pool")
	}
	if len(most) != 3 || r.Pools[0].Capacity(small) != said {
		t.Errorf("%d steps; the owner's pool is changed: %v", len(most), r.Pools[0])
	}
	h.machines.Revisions = map[string]string{"worker": "r2"}
	steps(t, r, 1)
	if got := most[len(most)-1]; got != said || hostIsZone {
		t.Errorf("a machine of another revision is taken to leave %v to pods", got)
	}
	kept := r.Memory.Jump(time.Time{})
	if len(kept.shown) != 0 {
		t.Error("it outlives a jump of the clock")
	}
}

// Nodes that went without the zones that their owner promised are remembered when they are gone.
func TestThatHostsAreNoZonesIsRemembered(t *testing.T) {
	h := newHouse()
	var seen []bool
	r := h.runner(replicas(1), nodesByIndex(func(x *nodescaler.Index) { seen = append(seen, x.Pool("worker").HostIsZone) }))
	r.Pools[0].HostIsZone = true
	h.machines.Machines = []nodescaler.Machine{{Name: "worker-1", Pool: "worker", Shape: small, Host: "pve1", Phase: nodescaler.Joined}}
	h.state.Nodes = []nodescaler.Node{{Name: "worker-1", Machine: "worker-1", Pool: "worker", Ready: true, Allocatable: small.Resources(), Joined: t0.Add(-time.Hour)}}
	steps(t, r, 2) // the first only looks
	h.machines.Machines, h.state.Nodes = nil, nil
	steps(t, r, 1)
	h.machines.Revisions = map[string]string{"worker": "r2"}
	steps(t, r, 1)
	expect(t, "hosts are zones", []bool{false, false, true}, seen)
}

// Nodes whose types are not the shapes that their owner promised are remembered when they are gone.
func TestThatShapesAreNoTypesIsRemembered(t *testing.T) {
	h := newHouse()
	var seen []bool
	r := h.runner(replicas(1), nodesByIndex(func(x *nodescaler.Index) { seen = append(seen, x.Pool("worker").ShapeIsType) }))
	r.Pools[0].ShapeIsType = true
	h.machines.Machines = []nodescaler.Machine{{Name: "worker-1", Pool: "worker", Shape: small, Host: "pve1", Phase: nodescaler.Joined}}
	h.state.Nodes = []nodescaler.Node{{
		Name: "worker-1", Machine: "worker-1", Pool: "worker", Ready: true, Allocatable: small.Resources(), Labels: map[string]string{nodescaler.TypeLabel: "4c-8g"},
	}}
	steps(t, r, 2) // the first only looks
	h.machines.Machines, h.state.Nodes = nil, nil
	steps(t, r, 1)
	h.machines.Revisions = map[string]string{"worker": "r2"}
	steps(t, r, 1)
	expect(t, "shapes are types", []bool{false, false, true}, seen)
}

// A pool whose nodes show what they have is a copy in the index: policies see its rollout there.
func TestPoliciesSeeTheRolloutOfAPoolWhoseNodesShowWhatTheyHave(t *testing.T) {
	h := newHouse()
	h.state.Nodes[0].Extra = pricing.Amounts{{Name: pricing.EphemeralStorage, N: 1 << 30}}
	h.state.Nodes[0].Allocatable.Memory = pricing.GB
	h.machines.Revisions = map[string]string{"worker": "r1"}
	var seen []nodescaler.RolloutPhase
	r := h.runner(replicas(2), nodesByIndex(func(x *nodescaler.Index) { seen = append(seen, x.Pool("worker").Rolling.Now.Phase) }))
	r.Pools[0].Disruption.Drift, r.Pools[0].Rolling.Revision = nodescaler.DriftReplace, "r1"
	last := steps(t, r, 3)
	if want := last.Rollouts["worker"].Phase; len(seen) != 2 || want == "" || seen[1] != want {
		t.Errorf("policies saw %v, decided was %q", seen, want)
	}
}

// nodesByIndex looks at the index and does nothing.
type nodesByIndex func(*nodescaler.Index)

func (f nodesByIndex) Decide(x *nodescaler.Index) nodescaler.Plan { f(x); return nodescaler.Plan{} }
