package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/packing"
)

// Spares under the hard limit: none of them takes a machine away. Of the machines that a pool may still have
// the first are had by waking its spares, so only those beyond cost their disks beside them. A pool's machines
// and spares together are what there is room for: as it grows spares become machines, and as it shrinks
// machines become spares, and none is made or given back for that.
//
// Only machines of the spares' own pool and shape are looked ahead for. Where one of another kind is to be
// ordered and their disks are in its way, or the places that they take of the pool's, they are given back then.

// allowed is how many spares of the pool leave the limit every machine of theirs that it allows without them, if
// the next one is on the host given, or on any that carries some already. Of pools that want spares the first by
// name come first.
func (t *scan) allowed(p *nodescaler.PoolSize, next string) int {
	shape := t.spareShape(p)
	rate, disk := t.leastRate(p, shape), t.x.SpareRate(shape)
	if t.x.Limit <= 0 || rate <= 0 {
		return math.MaxInt
	}
	away, machines := t.keptAway(p), 0
	bare := t.x.PaidFor(func(m *nodescaler.Machine) bool { return !m.Kept() && !t.leaves(m) || m.Kept() && t.x.Away(m.Host) })
	for i := range t.x.Snapshot.Machines {
		m := &t.x.Snapshot.Machines[i]
		if m.Pool == p.Name && !m.Kept() && !t.leaves(m) {
			machines++
		}
	}
	left := t.x.Limit - bare.Rate() - t.othersDisks(p)
	still := max(min(left/rate, pricing.Rate(p.Max-machines)), 0)
	left -= t.hostParts(bare, next)
	switch {
	case left < still*rate:
		return away
	case disk == 0:
		return math.MaxInt
	}
	// Beside n machines there is room for so many spares; it is least with all of them, or with the first where
	// a disk costs more than its machine.
	spares := func(n pricing.Rate) pricing.Rate { return n + (left-n*rate)/disk }
	return away + int(min(spares(still), spares(min(still, 1))))
}

// keptAway is how many of the pool's spares are on hosts that are away: they can be neither woken nor given back.
func (t *scan) keptAway(p *nodescaler.PoolSize) (n int) {
	for _, m := range t.x.Spares {
		if m.Pool == p.Name && t.x.Away(m.Host) {
			n++
		}
	}
	return n
}

// leastRate is what a machine of the shape costs on the cheapest of the hosts that take the pool's.
func (t *scan) leastRate(p *nodescaler.PoolSize, s pricing.Shape) pricing.Rate {
	rate := pricing.Rate(math.MaxInt64)
	for i := range t.x.Hosts {
		if h := t.x.Hosts[i].Host; p.Takes(h) {
			rate = min(rate, t.x.Rate(s, h.Name))
		}
	}
	if rate == math.MaxInt64 {
		return t.x.Rate(s, "")
	}
	return rate
}

// leaves reports whether a machine is on its way out: a spare may come of it, or nothing.
func (t *scan) leaves(m *nodescaler.Machine) bool {
	n := t.x.NodeOf(m.Name)
	return !m.Phase.Live() || n != nil && n.Draining
}

// othersDisks is what the spares cost that pools before this one are to have, beside those that are paid for however
// it is decided.
func (t *scan) othersDisks(p *nodescaler.PoolSize) (sum pricing.Rate) {
	for i := range t.x.Pools {
		o := &t.x.Pools[i]
		if o.Name >= p.Name {
			break
		}
		if w := t.worthOf(o); len(o.Shapes) > 0 {
			sum += pricing.Rate(max(w.want()-t.keptAway(o), 0)) * t.x.SpareRate(t.spareShape(o))
		}
	}
	return sum
}

// hostParts is what hosts cost that carry nothing but spares.
func (t *scan) hostParts(bare *nodescaler.Paid, next string) (sum pricing.Rate) {
	hosts := map[string]bool{next: next != ""}
	for _, m := range t.x.Spares {
		hosts[m.Host] = true
	}
	for host, carries := range hosts {
		if carries && !bare.Carries(host) {
			sum += t.x.Book().HostRate(host, t.now)
		}
	}
	return sum
}

// makeWay gives spares back whose money a machine needs that is to be ordered, or woken of them, or whose place in
// its pool: as few as it takes, those that drifted or could not be started first, then those of other pools, its
// own, and those that are being made. If all of them are not enough, none goes. What is given back must not be
// ordered anew meanwhile, so it is noted that something is wanted. They make way for one machine a scan: what that
// one takes is not known to the next. It reports whether any goes.
func (t *scan) makeWay(o packing.Offer) bool {
	if t.keep == nil || t.first || t.cleared {
		return false
	}
	woken := t.foremost(func(m *nodescaler.Machine) bool { return m.Pool == o.Pool && m.Shape == o.Shape && t.stirs(m) })
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
	full := woken == nil && t.room[o.Pool] < 1
	for _, m := range way {
		bar := fmt.Sprintf("the hard limit is %s/h", t.x.Limit)
		if full && m.Pool == o.Pool {
			bar = fmt.Sprintf("it may have %d, spares included", t.x.Pool(o.Pool).Max)
		}
		t.keep.gave[m.Name] = t.now
		t.giveBack(m, because(nodescaler.SpareUnneeded, "%s is in the way of a %s of pool %s: %s", m.Name, o.Shape.Name, o.Pool, bar))
	}
	return len(way) > 0
}

// placesWithout is how many machines the pool may still have without these spares, once what is on its way out is gone.
func (t *scan) placesWithout(spares []*nodescaler.Machine, pool string) int {
	p := t.x.Pool(pool)
	n := t.room[pool] - max(p.Exist-p.Max, 0)
	for _, m := range t.x.Machines {
		if m.Pool == pool && t.goes(m) && t.now.Sub(m.Since) < spareRest {
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
func (t *scan) paidWithout(spares []*nodescaler.Machine) *nodescaler.Paid {
	paid := t.paid
	for _, m := range t.x.Machines {
		if t.goes(m) || t.let[m.Name] {
			paid = paid.Without(m)
		}
	}
	for _, m := range spares {
		paid = paid.Without(m)
	}
	return paid
}

// goes reports whether a machine will be gone soon.
func (t *scan) goes(m *nodescaler.Machine) bool {
	return m.Phase == nodescaler.Deleting && !t.x.Away(m.Host)
}

// mayGo reports whether a spare can be given back now. One that was told to start may be about to.
func (t *scan) mayGo(m *nodescaler.Machine) bool {
	if t.woken[m.Name] || t.let[m.Name] || t.x.Away(m.Host) || t.stays(m) != nil || m.Problem == "" && t.triedLately(m) {
		return false
	}
	return m.Phase == nodescaler.Spare || t.x.AnyNodeOf(m.Name) == nil
}

// expendables are the spares that can be given back now, in the order in which they are.
func (t *scan) expendables(pool string) []*nodescaler.Machine {
	list := slices.DeleteFunc(slices.Clone(t.x.Spares), func(m *nodescaler.Machine) bool { return !t.mayGo(m) })
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
