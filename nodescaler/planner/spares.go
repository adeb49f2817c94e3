package planner

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/draft"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/packing"
)

// spares makes, stops and reclaims the machines that are kept.
type spares struct {
	*stocks
	// cleared is that some make way for a machine: its money is not to be spent on others.
	cleared bool
}

// hasten lets machines that will be stashed go as soon as what it takes to have them back is
// saved. One whose node is not ready will not be.
func (t *spares) hasten(unneeded []candidate) {
	if t.keep == nil || !t.keep.cfg.Keeps() {
		return
	}
	left := map[string]int{}
	for i := range t.X.Pools {
		p := &t.X.Pools[i]
		// a machine that becomes a spare leaves room for one
		if s := t.stockOf(p); s.have() <= s.allowed {
			left[p.Name] = s.pays - s.have()
		}
	}
	for i := range unneeded {
		c := &unneeded[i]
		if left[c.VM.Pool] > 0 && c.Ready && c.VM.Drifted == "" && c.VM.Shape == t.spareShape(t.X.Pool(c.VM.Pool)) {
			left[c.VM.Pool]--
			c.wait = min(c.wait, t.keep.start())
		}
	}
}

// stashes keeps a machine that was emptied, if it is as good a spare as any and one is wanting.
func (t *spares) stashes(n *nodescaler.NodeLoad) bool {
	p := t.X.Pool(n.VM.Pool)
	if t.keep == nil || !t.keep.cfg.Keeps() || p == nil || t.first || !n.Ready || n.VM.Phase != nodescaler.Joined || n.VM.Drifted != "" {
		return false
	}
	s := t.stockOf(p)
	if s.have()+t.Stashed[p.Name] >= s.want() || n.VM.Shape != t.spareShape(p) {
		return false
	}
	t.Stashed[p.Name]++
	t.Stash(n, draft.Because(nodescaler.SpareStashed, "%s was emptied, and is kept as a spare", n.Name), s.why)
	return true
}

// tend looks after the spares of all pools: those that were ordered as such are stopped once they
// have joined, those that are of no use go, and what is wanting is ordered unless there is
// something else to pay for.
func (t *spares) tend(spending bool) {
	if t.keep == nil {
		if !t.first {
			t.DismissSpares()
		}
		return
	}
	for i := range t.X.Pools {
		p := &t.X.Pools[i]
		s := t.stockOf(p)
		if t.keep.cfg.Keeps() {
			t.Plan.Reasons = append(t.Plan.Reasons, s.why)
		} else {
			t.advise(p)
		}
		if t.first || p.HeldDown != nil { // what was to become a spare could not be stopped
			continue
		}
		s.making = slices.DeleteFunc(s.making, func(m *nodescaler.Machine) bool { return t.finishSpare(m, &s) })
		t.dismiss(p, &s)
		if !spending {
			t.order(p, &s)
		}
	}
}

// finishSpare stops a machine that was ordered as a spare once it has joined, or gives it back if
// it is not wanted any more. One that pods have come to is a node like any other. It reports
// whether any of this was done: its node is closed first, and has to be seen empty some time
// after that.
func (t *spares) finishSpare(m *nodescaler.Machine, s *stock) bool {
	n := t.X.AnyNodeOf(m.Name)
	if held := draft.MachineHeld(t.X, m); held != nil {
		return t.release(m, *held)
	}
	if m.Phase != nodescaler.Joined || n == nil || n.VM == nil || !n.Ready || t.X.Away(m.Host) {
		return t.abandon(m, n)
	}
	delete(t.keep.dark, m.Name)
	if held := n.Held(); len(held) > 0 {
		if t.Held(m.Pool, nodescaler.Wake) != nil {
			return false
		}
		t.rouse(m, draft.Because(nodescaler.SpareTaken, "%s was to become a spare, and holds %s", m.Name, draft.Some("pod", draft.PodNames(held))))
		return true
	}
	closed, ours := t.keep.closed[m.Name]
	switch {
	case !ours || !n.Draining || !n.Cordoned:
		t.keep.closed[m.Name] = t.X.Now
		t.Cordon(n, draft.Because(nodescaler.SpareMade, "%s has joined and is to be a spare", m.Name))
		return false
	case t.X.Now.Sub(closed) < time.Duration(t.rules.NodeDeleteDelayAfterTaint):
		return false
	case len(s.good) >= s.want() || t.outdated(m):
		t.Return(m, draft.Because(nodescaler.SpareUnneeded, "%s is not wanted as a spare any more", m.Name), s.why)
		return true
	}
	s.good = append(s.good, m)
	t.Stash(n, draft.Because(nodescaler.SpareMade, "%s has joined once, and is stopped", m.Name), s.why)
	return true
}

// release lets a machine that was to become a spare and is held be capacity: it can neither be
// stopped nor go.
func (t *spares) release(m *nodescaler.Machine, why nodescaler.Reason) bool {
	if m.Phase != nodescaler.Joined || t.Held(m.Pool, nodescaler.Wake) != nil {
		t.Plan.Reasons = append(t.Plan.Reasons, why)
		return false
	}
	t.rouse(m, why)
	return true
}

// abandon gives back a machine that was to become a spare and has not been a node that is ready
// for as long as one may take to be one. Until then, and while its host is away, it may still
// come. It reports whether it did.
func (t *spares) abandon(m *nodescaler.Machine, n *nodescaler.NodeLoad) bool {
	since, seen := t.keep.dark[m.Name]
	if !seen || t.X.Away(m.Host) {
		t.keep.dark[m.Name] = t.X.Now
		return false
	}
	late := t.X.Now.Sub(since)
	switch {
	case late <= time.Duration(t.rules.MaxNodeProvisionTime) || n != nil && (n.VM == nil || len(n.Held()) > 0):
		return false
	case n != nil && !(n.Draining && n.Cordoned):
		t.Cordon(n, draft.Because(nodescaler.NodeNotReady, "%s was to become a spare and has not been ready for %s", m.Name, late))
		return false
	}
	t.backoffOf(m.Pool).fail(t.X.Now)
	t.Return(m, draft.Because(nodescaler.ProvisionTimedOut, "%s was to become a spare and has not been a node that is ready for %s, more than %s", m.Name, late, t.rules.MaxNodeProvisionTime))
	return true
}

// dismiss gives back a spare that is of no use, one a scan: what is seen to be so by mistake is
// not done to all. One that is outdated goes once another is stopped in its place; at the pool's
// maximum it leaves its place to that.
func (t *spares) dismiss(p *nodescaler.PoolSize, s *stock) {
	over := len(s.good)+len(s.outdated) > s.want()
	full := t.Room[p.Name] < 1 && len(s.making) == 0 && t.makes(p.Name) && t.spareOffer(p).Host != ""
	for _, m := range s.outdated {
		if (over || full) && t.mayGo(m) {
			t.Return(m, draft.Because(nodescaler.SpareDrifted, "%s is reclaimed and replaced: %s", m.Name, m.Drifted))
			return
		}
	}
	if len(s.good) <= s.want() {
		return
	}
	for _, m := range slices.Backward(s.good) {
		if t.mayGo(m) {
			t.Return(m, draft.Because(nodescaler.SpareUnneeded, "%s is one of %s, and %d are wanted", m.Name, pricing.Count(len(s.good), "spare"), s.want()), s.why)
			return
		}
	}
}

// order orders a machine that is to become a spare, when no pod waits for the storage that makes
// it, and nothing was woken: what is missing then is known to the next scan.
func (t *spares) order(p *nodescaler.PoolSize, s *stock) {
	have, atOnce := s.have()+s.lent+t.Stashed[p.Name], sparesMaking
	if len(s.outdated) > 0 {
		atOnce = 1
	}
	if have >= s.want() || len(s.making) >= atOnce || len(t.coming) > 0 || len(t.Woken) > 0 || !t.makes(p.Name) || t.Room[p.Name] < 1 {
		return
	}
	o := t.spareOffer(p)
	if o.Host == "" || t.allowed(p, o.Host) <= s.have() || !t.Affords(o.Shape, o.Host) {
		return
	}
	kept := "no spare is kept yet"
	if have > 0 {
		kept = pricing.Are(have, "spare") + " kept, coming or lately woken"
	}
	t.Buy(p.Name, o.Shape, o.Host, draft.Because(nodescaler.SpareOrdered, "%s; %s to be kept", kept, pricing.Are(s.want(), "spare")), s.why)
	t.Plan.Actions[len(t.Plan.Actions)-1].Keep = true
}

// makeWay returns spares whose money a machine needs that is to be ordered, or woken of them, or
// whose place in its pool. As few go as it takes, those that drifted or could not be started
// first, then those of other pools, its own, and those that are being made. If all of them are
// not enough, none goes. What is returned must not be ordered anew meanwhile, so it is noted
// that something is wanted. They make way for one machine a scan: what that one takes is not
// known to the next. It reports whether any goes.
func (t *spares) makeWay(o packing.Offer, pods []*nodescaler.Pod) bool {
	if t.keep == nil || t.first || t.cleared {
		return false
	}
	woken := t.foremost(func(m *nodescaler.Machine) bool { return t.replaces(m, o, pods) && t.stirs(m) })
	if woken == nil && !t.carries(o) {
		return false
	}
	within := func(way []*nodescaler.Machine) (ok bool) {
		if paid := t.paidWithout(way); woken != nil {
			_, ok = paid.Waking(woken)
		} else if _, ok = paid.With(o.Shape, o.Host); ok {
			ok = t.placesWithout(way, o.Pool) > 0
		}
		return ok
	}
	without := func(list []*nodescaler.Machine, one *nodescaler.Machine) []*nodescaler.Machine {
		return slices.DeleteFunc(slices.Clone(list), func(m *nodescaler.Machine) bool { return m == one })
	}
	way := without(t.expendables(o.Pool), woken)
	if !within(way) {
		return false
	}
	t.cleared = true
	for _, m := range slices.Backward(way) {
		if rest := without(way, m); within(rest) {
			way = rest
		}
	}
	full := woken == nil && t.Room[o.Pool] < 1
	for _, m := range way {
		bar := fmt.Sprintf("the hard limit is %s/h", t.X.Limit)
		if full && m.Pool == o.Pool {
			bar = fmt.Sprintf("it may have %d, spares included", t.X.Pool(o.Pool).Max)
		}
		t.keep.gave[m.Name] = t.X.Now
		t.Return(m, draft.Because(nodescaler.SpareUnneeded, "%s is in the way of a %s of pool %s: %s", m.Name, o.Shape.Name, o.Pool, bar))
	}
	return len(way) > 0
}

// placesWithout is how many machines the pool may still have without these spares, once what is
// on its way out is gone.
func (t *spares) placesWithout(spares []*nodescaler.Machine, pool string) int {
	p := t.X.Pool(pool)
	n := t.Room[pool] - max(p.Exist-p.Max, 0)
	for _, m := range t.X.Machines {
		if m.Pool == pool && t.goes(m) && t.X.Now.Sub(m.Since) < spareRest {
			n++
		}
	}
	for _, m := range spares {
		if m.Pool == pool {
			n++
		}
	}
	return n
}

// paidWithout is what will be paid for without these spares, once what is on its way out is gone.
func (t *spares) paidWithout(spares []*nodescaler.Machine) *nodescaler.Paid {
	paid := t.Paid
	for _, m := range t.X.Machines {
		if t.goes(m) || t.Let[m.Name] {
			paid = paid.Without(m)
		}
	}
	for _, m := range spares {
		paid = paid.Without(m)
	}
	return paid
}

// expendables are the spares that can be returned now, in the order in which they are.
func (t *spares) expendables(pool string) []*nodescaler.Machine {
	list := slices.DeleteFunc(slices.Clone(t.X.Spares), func(m *nodescaler.Machine) bool { return !t.mayGo(m) })
	rank := func(m *nodescaler.Machine) int {
		switch {
		case m.Phase != nodescaler.Spare:
			return 3
		case m.Drifted != "" || !t.stirs(m):
			return 0
		case m.Pool != pool:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(list, func(a, b *nodescaler.Machine) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), -cmp.Compare(a.Name, b.Name))
	})
	return list
}
