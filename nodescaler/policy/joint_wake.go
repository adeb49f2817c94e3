package policy

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/packing"
)

// Waking spares in place of orders, and what may be ordered beside them.

// limits is how many machines of each pool may be wanted: those that may be bought, now or once a spare has made way,
// and those that can be woken. While one is making way it is waited for, and nothing is bought elsewhere.
func (t *scan) limits() map[string]int {
	if t.keep == nil || len(t.x.Spares) == 0 && len(t.keep.gave) == 0 {
		return t.room
	}
	limits := maps.Clone(t.room)
	for pool := range limits {
		if !t.makes(pool) {
			limits[pool] = 0
		}
	}
	for _, m := range t.x.Spares {
		if t.wakeable(m) || t.makes(m.Pool) && t.mayGo(m) {
			limits[m.Pool]++
		}
	}
	for _, m := range t.x.Machines {
		if _, gave := t.keep.gave[m.Name]; gave && t.goes(m) && t.makes(m.Pool) {
			limits[m.Pool]++
		}
	}
	return limits
}

// makes reports whether the pool's machines are made now, as far as is known: none failed of late.
func (t *scan) makes(pool string) bool {
	p := t.x.Pool(pool)
	return p != nil && p.Shut() == nil && !t.backoffs[pool].on(t.now)
}

// shut says why the pool's machines are not made now, or nil.
func (t *scan) shut(p *nodescaler.PoolSize) *nodescaler.Reason {
	if b := t.backoffs[p.Name]; p.Shut() == nil && b.on(t.now) {
		r := because(nodescaler.PoolBackingOff, "one failed at %s, and none is ordered until %s", b.failed.UTC().Format(time.TimeOnly), b.until.UTC().Format(time.TimeOnly))
		return &r
	}
	return p.Shut()
}

// standsBy reports whether there is a spare to be woken of a pool whose machines fail to be made: it has been.
func (t *scan) standsBy(pool string, s pricing.Shape) bool {
	return t.keep != nil && slices.ContainsFunc(t.x.Spares, func(m *nodescaler.Machine) bool {
		return m.Pool == pool && m.Shape == s && t.wakeable(m)
	})
}

// mayBuy reports whether the machine may be ordered, now that no spare was to be had in its place: the packing had
// it as one that could be woken, and spares take places of the pool.
func (t *scan) mayBuy(o packing.Offer) bool { return t.room[o.Pool] > 0 && t.carries(o) }

// carries reports whether the machine would be made: its pool was perhaps only looked at for spares, and there may be
// no room for it beside those that were woken, which the packing knew nothing of.
func (t *scan) carries(o packing.Offer) bool {
	p, h := t.x.Pool(o.Pool), t.x.Host(o.Host)
	return t.makes(o.Pool) && p.Makes(o.Shape, h.Host) && o.Shape.Resources().Within(t.free[o.Host])
}

// wakeable reports whether a machine that is kept can be woken now.
func (t *scan) wakeable(m *nodescaler.Machine) bool {
	_, within := t.paid.Waking(m)
	return within && t.stirs(m)
}

// stirs reports whether a machine that is kept could be woken if the hard limit were none.
func (t *scan) stirs(m *nodescaler.Machine) bool {
	h, p := t.x.Host(m.Host), t.x.Pool(m.Pool)
	switch {
	case p == nil || p.HeldUp != nil || h == nil || !h.Online || m.Drifted != "" || t.woken[m.Name] || t.let[m.Name]:
		return false
	case m.Phase != nodescaler.Spare:
		return true
	case t.triedLately(m):
		return false // it did not stir
	}
	return m.Problem == "" && p.Wakes(h.Host) && m.Shape.Resources().Within(t.free[m.Host])
}

// triedLately reports whether a machine that is kept was to be woken not long ago.
func (t *scan) triedLately(m *nodescaler.Machine) bool {
	at, was := t.keep.tried[m.Name]
	return was && t.now.Sub(at) < spareRest
}

// wakes wakes a spare in place of an order, if there is one of its kind: one that will be a node soonest.
func (t *scan) wakes(o packing.Offer, items []string, waited bool) bool {
	if t.keep == nil {
		return false
	}
	m := t.nextSpare(func(m *nodescaler.Machine) bool { return m.Pool == o.Pool && m.Shape == o.Shape })
	if m == nil {
		return false
	}
	t.rouse(m, because(nodescaler.SpareWoken, "%s is started in place of ordering a %s on %s for %s, which would come %s later",
		m.Name, o.Shape.Name, o.Host, some("pod", items), t.keep.sooner().Round(time.Second)))
	t.waitedFor(m.Order, waited)
	return true
}

// wakesAny wakes a spare of the pool that lacks machines.
func (t *scan) wakesAny(p *nodescaler.PoolSize) bool {
	if t.keep == nil {
		return false
	}
	m := t.nextSpare(func(m *nodescaler.Machine) bool { return m.Pool == p.Name })
	if m != nil {
		t.rouse(m, because(nodescaler.PoolBelowMin, "%s is started, since pool %s has %d live machines of at least %d", m.Name, p.Name, p.Live, p.Min))
	}
	return m != nil
}

// nextSpare is the machine to wake next of those that will do, or nil.
func (t *scan) nextSpare(will func(*nodescaler.Machine) bool) *nodescaler.Machine {
	return t.foremost(func(m *nodescaler.Machine) bool { return will(m) && t.wakeable(m) })
}

// foremost is the machine to wake first of those that are kept and will do, or nil: one that will be a node
// soonest, of those the cheapest, and of those one on the host that would be missed least.
func (t *scan) foremost(will func(*nodescaler.Machine) bool) *nodescaler.Machine {
	list := slices.DeleteFunc(slices.Clone(t.x.Spares), func(m *nodescaler.Machine) bool { return !will(m) })
	if len(list) == 0 {
		return nil
	}
	far := []nodescaler.Phase{nodescaler.Joined, nodescaler.Spare, nodescaler.Booting, nodescaler.Ordered}
	return slices.MinFunc(list, func(a, b *nodescaler.Machine) int {
		return cmp.Or(
			cmp.Compare(slices.Index(far, a.Phase), slices.Index(far, b.Phase)),
			cmp.Compare(t.x.Rate(a.Shape, a.Host), t.x.Rate(b.Shape, b.Host)),
			cmp.Compare(t.running(a.Pool, a.Host), t.running(b.Pool, b.Host)),
			-cmp.Compare(t.free[a.Host].Memory, t.free[b.Host].Memory),
			cmp.Compare(a.Name, b.Name))
	})
}

// rouse wakes a machine, and forgets that its node was emptied.
func (t *scan) rouse(m *nodescaler.Machine, why nodescaler.Reason) {
	t.wake(m, why)
	t.keep.tried[m.Name] = t.now
	if n := t.x.AnyNodeOf(m.Name); n != nil {
		delete(t.drains, n.Name)
	}
}

// wokenOf counts the pool's machines that the plan wakes.
func (t *scan) wokenOf(pool string) int {
	n := 0
	for _, m := range t.x.Spares {
		if m.Pool == pool && t.woken[m.Name] {
			n++
		}
	}
	return n
}

// waitedFor notes an order, or the one that a spare came from, if pods wait for it.
func (t *scan) waitedFor(order string, waited bool) {
	if t.keep != nil && waited {
		t.keep.wanted[order] = t.now
	}
}
