package planner

import (
	"slices"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/draft"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/packing"
)

// roller holds machines back that drifted, as the rollout of their pool says. Drift replaces them:
// this limits which go, and how many machines are ordered for it.
type roller struct {
	*turn
	ordered map[string]int // machines that this scan orders in place of drifted ones, by pool
	begins  map[string]int // machines that go in this scan and need no order, by pool
}

// holds is why a candidate does not go because it drifted, or nil. One that waits for its
// replacement goes on: its place in the canary is taken.
func (t *roller) holds(c *ending, waiting bool) *nodescaler.Reason {
	p := t.X.Pool(c.VM.Pool)
	more, canary := p.RollsFirst(t.X)
	if c.cause != nodescaler.Drifted || !canary || waiting || more > t.ordered[p.Name]+t.begins[p.Name] {
		return nil
	}
	r := draft.Because(nodescaler.RolloutHeld, "%s", p.Rolling.Now.Why.Text)
	return &r
}

// goes ends a candidate, and notes whether it began to go without an order.
func (t *roller) goes(c *ending, waiting bool, end func(*ending)) {
	pool := c.VM.Pool
	before := t.ordered[pool]
	end(c)
	if c.cause == nodescaler.Drifted && !waiting && t.ordered[pool] == before && (t.begun(c.Name) || t.waitedFor(c.Name)) {
		t.begins[pool]++
	}
}

// offers are the machines that may be ordered for a candidate: those of its own pool where they are
// to show that its new revision works.
func (t *roller) offers(c *ending, all []packing.Offer) []packing.Offer {
	if _, canary := t.X.Pool(c.VM.Pool).RollsFirst(t.X); !canary || c.cause != nodescaler.Drifted {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(o packing.Offer) bool { return o.Pool != c.VM.Pool })
}

// full is why no more machines are ordered in place of drifted ones of a pool, or nil. Those that
// are not ready yet count, and those that their replacements have not rid of yet.
func (t *roller) full(c *ending, more int) *nodescaler.Reason {
	pool, p := c.VM.Pool, t.X.Pool(c.VM.Pool)
	if c.cause != nodescaler.Drifted {
		return nil
	}
	if first, canary := p.RollsFirst(t.X); canary && t.ordered[pool]+more > first {
		r := draft.Because(nodescaler.RolloutHeld, "%s", p.Rolling.Now.Why.Text)
		return &r
	}
	surge, limited := p.RollsBeside(t.outgoing()[pool].all)
	if !limited {
		return nil
	}
	beside := t.ordered[pool]
	for _, m := range t.coming {
		if e, is := t.replacing[m.Name]; !m.Kept() && (m.Pool == pool || is && e == c.end()) {
			beside++
		}
	}
	for _, m := range t.X.Machines {
		if m.Pool == pool && m.Drifted != "" && t.leaves(m) {
			beside++
		}
	}
	if beside+more <= surge {
		return nil
	}
	r := draft.Because(nodescaler.RolloutSurge, "%d machines of pool %s are beside those that they replace, %s more would be needed, and its surge is %d", beside, pool, pricing.Count(more, "machine"), surge)
	return &r
}

// leaves reports whether a machine is on its way out.
func (t *roller) leaves(m *nodescaler.Machine) bool {
	n := t.X.AnyNodeOf(m.Name)
	return m.Phase == nodescaler.Deleting || n != nil && (n.Draining || t.begun(n.Name))
}

func (t *turn) begun(node string) bool { _, is := t.drains[node]; return is }
