package planner

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/draft"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/packing"
)

// Waking spares in place of orders, and what may be ordered beside them.

// waking is the machines that are kept, and what keeps them from being woken, or from going.
type waking struct {
	*market
	keep *keeper // nil where none are kept
}

// limits is how many machines of each pool may be wanted: those that may be bought, now or once a
// spare has made way, and those that can be woken. While one is making way it is waited for, and
// nothing is bought elsewhere.
func (t *waking) limits() map[string]int {
	if t.keep == nil || len(t.X.Spares) == 0 && len(t.keep.gave) == 0 {
		return t.Room
	}
	limits := maps.Clone(t.Room)
	for pool := range limits {
		if !t.makes(pool) {
			limits[pool] = 0
		}
	}
	for _, m := range t.X.Spares {
		if t.wakeable(m) || t.makes(m.Pool) && t.mayGo(m) {
			limits[m.Pool]++
		}
	}
	for _, m := range t.X.Machines {
		if _, gave := t.keep.gave[m.Name]; gave && t.goes(m) && t.makes(m.Pool) {
			limits[m.Pool]++
		}
	}
	return limits
}

// wakeableOn reports whether there is a spare to be woken, on the host or on any without a name, of
// a pool whose machines fail to be made: it has been.
func (t *waking) wakeableOn(pool string, s pricing.Shape, host string) bool {
	return t.keep != nil && slices.ContainsFunc(t.X.Spares, func(m *nodescaler.Machine) bool {
		return m.Pool == pool && m.Shape == s && (host == "" || m.Host == host) && t.wakeable(m)
	})
}

// wakeable reports whether a machine that is kept can be woken now.
func (t *waking) wakeable(m *nodescaler.Machine) bool {
	_, within := t.Paid.Waking(m)
	return within && t.stirs(m)
}

// stirs reports whether a machine that is kept could be woken if the hard limit were none.
func (t *waking) stirs(m *nodescaler.Machine) bool {
	h, p := t.X.Host(m.Host), t.X.Pool(m.Pool)
	switch {
	case p == nil || p.HeldUp != nil || h == nil || !h.Online || t.outdated(m) || t.Woken[m.Name] || t.Let[m.Name]:
		return false
	case m.Phase != nodescaler.Spare:
		return true
	case t.triedLately(m):
		return false // it did not stir
	}
	return m.Problem == "" && p.Wakes(h.Host) && m.Shape.Resources().Within(t.Free[m.Host])
}

// outdated reports whether a machine that is kept is to be replaced by what its pool would make
// now.
func (t *waking) outdated(m *nodescaler.Machine) bool {
	p := t.X.Pool(m.Pool)
	return m.Drifted != "" && p != nil && p.Renews(t.X)
}

// triedLately reports whether a machine that is kept was to be woken not long ago.
func (t *waking) triedLately(m *nodescaler.Machine) bool {
	at, was := t.keep.tried[m.Name]
	return was && t.X.Now.Sub(at) < spareRest
}

// mayGo reports whether a spare can be returned now. One that was to start may be about to.
func (t *waking) mayGo(m *nodescaler.Machine) bool {
	if t.Woken[m.Name] || t.Let[m.Name] || t.X.Away(m.Host) || t.Stays(m) != nil || m.Problem == "" && t.triedLately(m) {
		return false
	}
	return m.Phase == nodescaler.Spare || t.X.AnyNodeOf(m.Name) == nil
}

// goes reports whether a machine will be gone soon.
func (t *waking) goes(m *nodescaler.Machine) bool {
	return m.Phase == nodescaler.Deleting && !t.X.Away(m.Host)
}

// wakes wakes a spare in place of an order, if there is one of its kind: one that will be a node
// soonest.
func (t *waking) wakes(o packing.Offer, items []string, b *bundle) bool {
	if t.keep == nil {
		return false
	}
	// one that drifted does not replace another
	late := t.X.Pool(o.Pool).Disruption.Drift == nodescaler.DriftReplace && len(b.asked) == 0
	m := t.nextSpare(func(m *nodescaler.Machine) bool { return t.replaces(m, o, b.pods) && !(late && m.Drifted != "") })
	if m == nil {
		return false
	}
	later := ""
	if sooner := t.keep.sooner().Round(time.Second); sooner > 0 {
		later = fmt.Sprintf(", which would come %s later", sooner)
	}
	reasons := []nodescaler.Reason{draft.Because(nodescaler.SpareWoken, "%s is started in place of ordering a %s on %s for %s%s",
		m.Name, o.Shape.Name, o.Host, draft.Some("pod", items), later)}
	if b.code() != nodescaler.PodsPending {
		reasons = append(reasons, b.because(items))
	}
	t.rouse(m, reasons...)
	t.waitedFor(m.Order, len(b.asked) > 0)
	return true
}

// replaces reports whether a spare is as good to the pods as a machine that is on offer.
func (t *waking) replaces(m *nodescaler.Machine, o packing.Offer, pods []*nodescaler.Pod) bool {
	return m.Pool == o.Pool && m.Shape == o.Shape && t.takesAll(&o, m.Host, pods)
}

// wakesAny wakes a spare of the pool that lacks machines.
func (t *waking) wakesAny(p *nodescaler.PoolSize) bool {
	if t.keep == nil {
		return false
	}
	m := t.nextSpare(func(m *nodescaler.Machine) bool { return m.Pool == p.Name })
	if m != nil {
		t.rouse(m, draft.Because(nodescaler.PoolBelowMin, "%s is started, since pool %s has %d live machines of at least %d", m.Name, p.Name, p.Live, p.Min))
	}
	return m != nil
}

// nextSpare is the machine to wake next of those that will do, or nil.
func (t *waking) nextSpare(will func(*nodescaler.Machine) bool) *nodescaler.Machine {
	return t.foremost(func(m *nodescaler.Machine) bool { return will(m) && t.wakeable(m) })
}

// foremost is the machine to wake first of those that are kept and will do, or nil: one that will
// be a node soonest, of those the cheapest, and of those one on the host that would be missed
// least.
func (t *waking) foremost(will func(*nodescaler.Machine) bool) *nodescaler.Machine {
	list := slices.DeleteFunc(slices.Clone(t.X.Spares), func(m *nodescaler.Machine) bool { return !will(m) })
	if len(list) == 0 {
		return nil
	}
	far := []nodescaler.Phase{nodescaler.Joined, nodescaler.Spare, nodescaler.Booting, nodescaler.Ordered}
	return slices.MinFunc(list, func(a, b *nodescaler.Machine) int {
		return cmp.Or(
			cmp.Compare(slices.Index(far, a.Phase), slices.Index(far, b.Phase)),
			cmp.Compare(t.X.Rate(a.Shape, a.Host), t.X.Rate(b.Shape, b.Host)),
			cmp.Compare(t.running(a.Pool, a.Host), t.running(b.Pool, b.Host)),
			-cmp.Compare(t.Free[a.Host].Memory, t.Free[b.Host].Memory),
			cmp.Compare(a.Name, b.Name))
	})
}

// rouse wakes a machine, and forgets that its node was emptied.
func (t *waking) rouse(m *nodescaler.Machine, why ...nodescaler.Reason) {
	t.Wake(m, why...)
	t.keep.tried[m.Name] = t.X.Now
	if n := t.X.AnyNodeOf(m.Name); n != nil {
		delete(t.drains, n.Name)
	}
}

// waitedFor notes an order, or the one that a spare came from, if pods wait for it.
func (t *waking) waitedFor(order string, waited bool) {
	if t.keep != nil && waited {
		t.keep.wanted[order] = t.X.Now
	}
}

// kept is how many spares of the pool the host carries, those in the making included.
func (t *waking) kept(pool, host string) (n int) {
	for _, m := range t.X.Spares {
		if m.Pool == pool && m.Host == host && !t.Woken[m.Name] && !t.Let[m.Name] {
			n++
		}
	}
	return n
}
