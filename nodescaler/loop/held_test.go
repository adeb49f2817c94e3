package loop

import (
	"testing"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// seen are the pools as the policy is shown them in the second step.
func seen(t *testing.T, r *Runner) (pools []nodescaler.Pool) {
	t.Helper()
	r.Nodes = nodesSay(func(s *nodescaler.Snapshot) nodescaler.Plan {
		pools = s.Pools
		return nodescaler.Plan{}
	})
	steps(t, r, 2)
	return pools
}

func TestPoliciesAreToldOfHoldsUnlessAllPoolsAreHeld(t *testing.T) {
	aa, both := map[string]nodescaler.Reason{"aa": why[0]}, map[string]nodescaler.Reason{"aa": why[0], "bb": why[0]}
	for _, c := range []struct {
		name           string
		all, up, down  map[string]nodescaler.Reason
		heldUp, heldDn []bool
	}{
		{name: "none", heldUp: []bool{false, false}, heldDn: []bool{false, false}},
		{name: "one", all: aa, heldUp: []bool{true, false}, heldDn: []bool{true, false}},
		{name: "one up", up: aa, heldUp: []bool{true, false}, heldDn: []bool{false, false}},
		{name: "one down", down: aa, heldUp: []bool{false, false}, heldDn: []bool{true, false}},
		{name: "all up: machines are reclaimed all the same", up: both, heldUp: []bool{true, true}, heldDn: []bool{false, false}},
		{name: "all: what would be done is decided", all: both, heldUp: []bool{false, false}, heldDn: []bool{false, false}},
		{name: "all, in two ways", all: aa, up: both, down: both, heldUp: []bool{false, false}, heldDn: []bool{false, false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newHouse().runner(replicas(2), nil)
			r.Pools = []nodescaler.Pool{{Name: "aa", Shapes: []pricing.Shape{small}, Max: 4}, {Name: "bb", Shapes: []pricing.Shape{small}, Max: 4}}
			holds{Pools: c.all, up: c.up, down: c.down}.put(r)
			for i, p := range seen(t, r) {
				expect(t, p.Name+" is held up", c.heldUp[i], p.HeldUp != nil)
				expect(t, p.Name+" is held down", c.heldDn[i], p.HeldDown != nil)
			}
		})
	}
}

// A dearer pool is not ordered from because the templates of another have not been looked for.
func TestOrdersOfAPoolThatIsNearlyReadyAreLeftToALaterStep(t *testing.T) {
	h := newHouse()
	r := h.runner(replicas(2), actions(order("b")))
	h.machines.Soon = map[string]nodescaler.Reason{"worker": why[0]}
	s := steps(t, r, 2)
	expect(t, "done", []string(nil), h.done)
	if len(s.Plan.Actions) != 1 || s.Plan.Actions[0].Kind != nodescaler.Buy || s.Outcomes[0].Held == nil {
		t.Errorf("the record does not hold what waits: %+v", s)
	}
}
