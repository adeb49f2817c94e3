package nodescaler

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/plimsoll/plimsoll/pricing"
)

// Most is how many pods like this one could find room at most, alone: on the nodes that are there,
// the machines that are kept or on their way, and all that may still be made. Replicas beyond that
// need not be looked at one by one, however many are asked for.
func (x *Index) Most(p *Pod) int {
	n := 0
	for i := range x.Nodes {
		l := &x.Nodes[i]
		b := bin{like: l.Node, room: l.Allocatable.Minus(l.Used.Requests), extra: l.Extra.Minus(l.Used.Extra), slots: Slots(l.PodSlots) - l.Used.Pods, crowd: l.Crowd}
		n += b.most(p)
	}
	for _, list := range [][]*Machine{x.Machines, x.Spares} {
		for _, m := range list {
			if pool := x.Pool(m.Pool); pool != nil && (m.Kept() || x.arrives(m)) {
				n += pool.bin(m.Shape, m.Host).most(p)
			}
		}
	}
	for i := range x.Pools {
		n += x.mostNew(&x.Pools[i], p)
	}
	return n
}

// mostNew is how many such pods the machines hold at most that the pool may still make.
func (x *Index) mostNew(pool *PoolSize, p *Pod) (most int) {
	for _, s := range pool.Shapes {
		each, machines := 0, 0
		for h := range x.Hosts {
			if !pool.Makes(s, x.Hosts[h].Host) || machines >= pool.Places() {
				continue
			}
			if holds := pool.bin(s, x.Hosts[h].Name).most(p); holds > 0 {
				each = holds
				machines += (&bin{room: x.Hosts[h].Free, slots: pool.Places()}).count(&Pod{Requests: s.Resources()})
			}
		}
		most = max(most, each*min(machines, pool.Places()))
	}
	return most
}

// most is how many such pods the bin takes, if it takes any.
func (b *bin) most(p *Pod) int {
	if Accepts(p, b.like) != "" || b.crowd.Clash(p) != nil {
		return 0
	}
	return b.count(p)
}

// Few lowers counts so that together they are no more than most, or one each: the largest first,
// down to a level that all keep to.
func Few(counts []int, most int) []int {
	low, high := 1, 1 // the level: low is allowed
	for _, n := range counts {
		high = max(high, n)
	}
	under := func(level int) bool {
		sum := 0
		for _, n := range counts {
			if sum += min(max(n, 0), level); sum > most {
				return false
			}
		}
		return true
	}
	for low < high {
		if mid := low + (high-low+1)/2; under(mid) {
			low = mid
		} else {
			high = mid - 1
		}
	}
	few := make([]int, len(counts))
	for i, n := range counts {
		few[i] = min(max(n, 0), low)
	}
	return few
}

// Affords returns how many more machines of a pool's shape the cost limit allows, at most n. It
// also returns what all machines would cost with one more than that, or with n. The hosts of these
// machines, and of other orders, are not known yet. So each counts at its dearest host, and as the
// first machine on the dearest host without one of ours. Without a limit it returns n and 0.
func (x *Index) Affords(p *Pool, s pricing.Shape, n int) (int, pricing.Rate) {
	if x.Limit <= 0 {
		return n, 0
	}
	b := &bill{x: x, paid: x.PaidFor(func(m *Machine) bool { return m.Host != "" })}
	b.rate = b.paid.Rate()
	for _, all := range [][]*Machine{x.Machines, x.Spares} {
		for _, m := range all {
			if m.Host == "" {
				b.unplaced(m)
			}
		}
	}
	each := b.most(p, s)
	slices.SortFunc(b.openings, func(a, c pricing.Rate) int { return cmp.Compare(c, a) })
	fit := sort.Search(n, func(k int) bool { return b.with(each, k+1) > x.Limit })
	return fit, b.with(each, min(n, fit+1))
}

// bill is the most that all machines can cost, for any choice of the missing hosts.
type bill struct {
	x        *Index
	paid     *Paid          // of those that have a host
	rate     pricing.Rate   // of all, but for the hosts that are opened
	homeless int            // machines without a host
	openings []pricing.Rate // of hosts that carry nothing and may, the dearest first
	opened   []string
}

// unplaced adds a machine without a host.
func (b *bill) unplaced(m *Machine) {
	of := &Pool{}
	if known := b.x.Pool(m.Pool); known != nil {
		of = known.Pool
	}
	rate := b.most(of, m.Shape)
	if m.Phase == Spare {
		rate = b.x.SpareRate(m.Shape)
	}
	b.rate = sum(b.rate, rate)
	b.homeless++
}

// most is the cost of a machine on its dearest host. It notes the hosts that it could be first on.
func (b *bill) most(of *Pool, s pricing.Shape) pricing.Rate {
	rate := b.x.Rate(s, "")
	for i := range b.x.Hosts {
		h := b.x.Hosts[i].Host
		if !of.Takes(h) {
			continue
		}
		rate = max(rate, b.x.Rate(s, h.Name))
		if !slices.Contains(b.opened, h.Name) {
			b.opened = append(b.opened, h.Name)
			b.openings = append(b.openings, b.paid.opening(h.Name))
		}
	}
	return rate
}

// with is the cost of all machines with so many more at a rate.
func (b *bill) with(each pricing.Rate, more int) pricing.Rate {
	all := pricing.Rate(math.MaxInt64)
	if each == 0 || int64(more) <= math.MaxInt64/int64(each) {
		all = sum(b.rate, each*pricing.Rate(more))
	}
	for _, opening := range b.openings[:min(len(b.openings), b.homeless+more)] {
		all = sum(all, opening)
	}
	return all
}
