package packing

import (
	"cmp"
	"math"
	"slices"
)

// buyer buys machines for what is left of a plan, always the one that holds the most worth
// for its price when it is filled from what is left.
type buyer struct {
	m      *model
	prices *prices
	price  []float64 // of each offer
	specs  []int     // those it buys
	ranked []int     // the same, those first that could hold the most worth for their price
	order  []int     // of kinds, for filling
	window int       // how many kinds it chooses among while filling

	live  []int     // order without the kinds of which nothing is left
	loads [][]lot   // by spec: what a new machine would hold
	worth []float64 // by spec: of that
	known []int     // by spec: the round in which that was what is left allows
	round int
	rank  []float64 // by spec: the worth for its price that it holds at most
	taken []int     // by kind; all 0 between two fills
	// clash marks the classes that share no machine with the taken items; all false between two
	// fills.
	clash []bool
	looks int // how often an item was looked for
}

// windows are the widths that are tried. A narrow one gets rid of what is hard to place, a
// wide one fills machines evenly; which is better depends on the population.
var windows = []int{1, 4, 16}

func newBuyer(m *model, pr *prices, order []int, window int) *buyer {
	b := &buyer{m: m, prices: pr, order: order, window: window}
	b.loads, b.taken, b.clash = make([][]lot, len(m.specs)), make([]int, len(m.kinds)), make([]bool, len(m.classes))
	b.worth, b.known = make([]float64, len(m.specs)), make([]int, len(m.specs))
	for i := range m.offers {
		b.price = append(b.price, pr.of(&m.offers[i]))
	}
	b.rank = m.ranks(pr)
	b.only(m.selling)
	return b
}

// ranks is, by spec, the worth for its price that no load exceeds: kinds are worth so many times
// the weight of what they need at most, and what a load needs is within the room.
func (m *model) ranks(pr *prices) []float64 {
	times := 0.0
	for k := range m.kinds {
		if value := pr.kind[k]; value > 0 {
			// Infinite without weights: then every spec is tried.
			times = max(times, value/pr.weights.of(m.kinds[k].need))
		}
	}
	ranks := make([]float64, len(m.specs))
	for _, s := range m.selling {
		_, least := m.cheapest(s, pr)
		ranks[s] = math.Inf(1)
		// It is not a number for 0/0.
		if most := times * pr.weights.of(m.specs[s].room) / least; most > 0 {
			ranks[s] = most
		}
	}
	return ranks
}

// only has the buyer buy no machines but of the specs.
func (b *buyer) only(specs []int) {
	b.specs, b.ranked = specs, slices.Clone(specs)
	slices.SortStableFunc(b.ranked, func(x, y int) int { return cmp.Compare(b.rank[y], b.rank[x]) })
}

// run buys until nothing more can be placed in a new machine.
func (b *buyer) run(p *plan) {
	b.live = append(b.live[:0], b.order...)
	for _, s := range b.specs {
		b.loads[s] = nil
	}
	for {
		b.refill(p)
		o := b.choose(p)
		if o < 0 {
			return
		}
		load := b.loads[b.m.offers[o].spec]
		for range b.repeats(p, o, load) {
			p.stock(o, load)
		}
	}
}

// fillBins fills the bins of an empty plan one by one, those with the least room first.
func (b *buyer) fillBins(p *plan) {
	order := make([]int, len(p.m.bins))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Compare(p.m.share(p.machines[i].free), p.m.share(p.machines[j].free))
	})
	b.live = append(b.live[:0], b.order...)
	for _, i := range order {
		s := p.machines[i].spec
		b.loads[s] = b.fill(s, p.left)
		for _, l := range b.loads[s] {
			p.put(i, l.kind, l.n)
		}
		b.live = slices.DeleteFunc(b.live, func(k int) bool { return p.left[k] == 0 })
	}
}

// refill works out the loads that what is left no longer allows, as long as one of them could hold
// more worth for its price than the best. The others stay as they are; working them out again would
// take most of the time and hardly ever come to anything else.
func (b *buyer) refill(p *plan) {
	b.live = slices.DeleteFunc(b.live, func(k int) bool { return p.left[k] == 0 })
	b.round++
	best := 0.0
	for _, s := range b.ranked {
		if b.rank[s] < best*(1-1e-6) {
			return
		}
		if b.loads[s] == nil || slices.ContainsFunc(b.loads[s], func(l lot) bool { return p.left[l.kind] < l.n }) {
			b.loads[s] = b.fill(s, p.left)
			b.worth[s] = b.prices.worth(b.loads[s])
		}
		b.known[s] = b.round
		for _, o := range b.m.bySpec[s] {
			if b.worth[s] > best*b.price[o] && p.canBuy(o, 1) > 0 {
				best = b.worth[s] / b.price[o]
			}
		}
	}
}

// fill puts items into an empty machine of spec s until nothing fits: in order, but always of
// the next few kinds that fit the one that leaves CPU and memory the most alike. Filled in
// order alone, a machine runs out of one of them and the rest of the other is wasted.
func (b *buyer) fill(s int, left []int) []lot {
	load := slices.Grow(b.loads[s][:0], 1)
	room := b.m.specs[s].room
	free, from := room, 0
	for {
		var k int
		if k, from = b.next(s, free, from, left, load); k < 0 {
			break
		}
		n := 1
		if b.window == 1 {
			n = b.m.joins(s, load, k, free.times(b.m.kinds[k].need, left[k]-b.taken[k]))
		}
		free = free.plus(b.m.kinds[k].need, -n)
		if b.taken[k] == 0 {
			load = append(load, lot{kind: k, n: 1})
			b.bar(k, true)
		}
		b.taken[k] += n
		if b.m.kinds[k].extra != nil { // what is left of these is worked out from the load
			i := slices.IndexFunc(load, func(l lot) bool { return l.kind == k })
			load[i].n = b.taken[k]
		}
	}
	for i, l := range load {
		load[i].n, b.taken[l.kind] = b.taken[l.kind], 0
		b.bar(l.kind, false)
	}
	return load
}

// bar notes that the classes that share no machine with kind k clash, or takes all such notes of it
// back.
func (b *buyer) bar(k int, clash bool) {
	for class, apart := range b.m.apart[b.m.kinds[k].class] {
		if apart {
			b.clash[class] = clash
		}
	}
}

// next is the kind to put into the free room next, or -1, and the place in the order before
// which nothing fits any more.
func (b *buyer) next(s int, free vector, from int, left []int, load []lot) (best, first int) {
	best, first = -1, len(b.live)
	b.looks++
	if free[slots] == 0 {
		return best, first
	}
	room, refused := b.m.specs[s].room, b.m.masks[b.m.specs[s].mask]
	perCPU, perByte := 1/float64(max(1, room[cpu])), 1/float64(max(1, room[memory]))
	tilt := float64(float64(free[cpu])*perCPU) - float64(float64(free[memory])*perByte)
	least, seen := math.Inf(1), 0
	for i := from; i < len(b.live) && seen < b.window; i++ {
		k := b.live[i]
		kd := &b.m.kinds[k]
		if kd.need[cpu] > free[cpu] || kd.need[memory] > free[memory] || kd.need[slots] > free[slots] || left[k] == b.taken[k] || refused[kd.class] || b.clash[kd.class] || kd.extra != nil && b.m.spare(s, load, k, 1) == 0 {
			continue
		}
		if seen++; seen == 1 {
			first = i
		}
		after := math.Abs(tilt - float64(float64(kd.need[cpu])*perCPU) + float64(float64(kd.need[memory])*perByte))
		if after < least {
			best, least = k, after
		}
	}
	return best, first
}

// choose is the offer whose machine would hold the most worth for its price, and of equal ones
// the larger, so that there are fewer; -1 when nothing can be bought that holds anything.
func (b *buyer) choose(p *plan) int {
	best, value := -1, 0.0
	for _, s := range b.specs {
		if b.known[s] != b.round || len(b.loads[s]) == 0 {
			continue
		}
		worth := b.worth[s]
		for _, o := range b.m.bySpec[s] {
			if (best < 0 || beats(worth, b.price[o], value, b.price[best])) && p.canBuy(o, 1) > 0 {
				best, value = o, worth
			}
		}
	}
	return best
}

// beats compares worth for price without dividing, since a price may be 0.
func beats(worth, price, worth2, price2 float64) bool {
	x, y := float64(worth*price2), float64(worth2*price)
	if math.Abs(x-y) <= 1e-9*max(x, y) {
		return worth > worth2*(1+1e-9) || worth > worth2*(1-1e-9) && price < price2*(1-1e-9)
	}
	return x > y
}

// repeats is how many machines of offer o can be bought and filled alike.
func (b *buyer) repeats(p *plan, o int, load []lot) int {
	n := p.m.total
	for _, l := range load {
		n = min(n, p.left[l.kind]/l.n)
	}
	return p.canBuy(o, n)
}
