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
	r := h.runner(replicas(1), nodesByIndex(func(x *nodescaler.Index) { most = append(most, x.Pool("worker").Capacity(small)) }))
	said := r.Pools[0].Capacity(small)
	real := said.Minus(pricing.Resources{Memory: 100 * pricing.MiB})
	h.machines.Machines = []nodescaler.Machine{{Name: "worker-1", Pool: "worker", Shape: small, Host: "pve1", Phase: nodescaler.Joined}}
	h.state.Nodes = []nodescaler.Node{{Name: "worker-1", Machine: "worker-1", Pool: "worker", Ready: true, Allocatable: real}}
	steps(t, r, 2) // the first only looks
	h.machines.Machines, h.state.Nodes = nil, nil
	steps(t, r, 2)
	for i, got := range most {
		if got != real {
			t.Errorf("step %d: a machine is taken to leave %v to pods, its node left %v", i, got, real)
		}
	}
	if len(most) != 3 || r.Pools[0].Capacity(small) != said {
		t.Errorf("%d steps; the owner's pool is changed: %v", len(most), r.Pools[0])
	}
	kept := r.Memory.Jump(time.Time{})
	if len(kept.shown) != 0 {
		t.Error("it outlives a jump of the clock")
	}
}

// nodesByIndex looks at the index and does nothing.
type nodesByIndex func(*nodescaler.Index)

func (f nodesByIndex) Decide(x *nodescaler.Index) nodescaler.Plan { f(x); return nodescaler.Plan{} }
