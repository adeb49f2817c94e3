package packing

import (
	"cmp"
	"slices"
)

// knapsack finds the most that a machine's contents can be worth: a load that is worth much,
// and an upper bound that holds for every load. It searches depth first, densest kinds first,
// and cuts what a single constraint, the three dimensions weighed together, rules out.
type knapsack struct {
	m     *model
	value []float64 // by kind
	count []int     // by kind
	nodes int       // branches that may still be looked at

	spec  int
	items []candidate
	now   []lot
	load  []lot // the best found
	worth float64
	upper float64
}

// candidate is a kind that may go into the machine.
type candidate struct {
	kind, n int
	part    float64 // how many the fractional solution takes
	fixed   int     // how many are in the machine before the search
	weight  float64 // of one, the dimensions weighed together
	density float64 // worth for weight, of this one and of all after it at most
}

// cut is how much too high an upper bound may be in return for speed.
const cut = 1e-4

// solve looks at an empty machine of spec s, and at about so many branches, and returns at how
// many it looked.
func (k *knapsack) solve(s, nodes int) int {
	room := k.m.specs[s].room
	k.spec = s
	k.now, k.load, k.worth, k.upper = k.now[:0], k.load[:0], 0, 0
	k.gather(s, room)
	if len(k.items) == 0 {
		return 0
	}
	weights := k.weigh(room)
	k.sort(weights)
	k.nodes = nodes / 2
	k.extend(room, weights)
	used := nodes/2 - max(0, k.nodes)
	k.now, k.nodes, k.upper = k.now[:0], nodes/2, 0
	k.search(0, room, weights.of(room), 0)
	k.upper = max(k.upper, k.worth)
	return used + nodes/2 - max(0, k.nodes)
}

// glance is an upper bound on what a machine of spec s can hold, found without a search. It is the
// weighed room at the best ratio of worth to weight among the items that fit, and at most the worth
// of all of them.
func (k *knapsack) glance(s int, w weights) float64 {
	room, best, all := k.m.specs[s].room, 0.0, 0.0
	for i := range k.m.kinds {
		kd := &k.m.kinds[i]
		if k.value[i] > 0 && k.count[i] > 0 && k.m.fits(s, kd) {
			best = max(best, k.value[i]/w.of(kd.need))
			all += float64(k.value[i] * float64(room.times(kd.need, k.count[i])))
		}
	}
	if bound := best * w.of(room); bound < all { // also false if some weights are 0
		return bound
	}
	return all
}

// extend searches from most of the fractional solution on. That fills all dimensions of a
// large machine alike, which a search from the empty machine would take too long to come to.
func (k *knapsack) extend(room vector, w weights) {
	worth := 0.0
	for i := range k.items {
		c := &k.items[i]
		c.fixed = k.m.joins(k.spec, k.now, c.kind, max(0, min(int(c.part)-1, c.n)))
		if c.fixed > 0 {
			k.now = append(k.now, lot{c.kind, c.fixed})
			room = room.plus(k.m.kinds[c.kind].need, -c.fixed)
			worth += float64(k.value[c.kind] * float64(c.fixed))
			c.n -= c.fixed
		}
	}
	k.search(0, room, w.of(room), worth)
	for i := range k.items {
		k.items[i].n += k.items[i].fixed
	}
}

// gather lists the kinds that are worth anything and fit.
func (k *knapsack) gather(s int, room vector) {
	k.items = k.items[:0]
	for i := range k.m.kinds {
		kd := &k.m.kinds[i]
		if k.value[i] > 0 && k.count[i] > 0 && k.m.fits(s, kd) {
			k.items = append(k.items, candidate{kind: i, n: k.m.joins(s, nil, i, room.times(kd.need, k.count[i]))})
		}
	}
}

// weigh returns the weights that bound the worth of the room most tightly: the prices of its
// three dimensions when kinds may be cut into pieces.
func (k *knapsack) weigh(room vector) weights {
	l := newLP([]float64{1, 1, 1}, []float64{0, 0, 0}, len(k.items))
	block := make([]entry, 0, dims*len(k.items)) // of all columns
	most := 0.0
	for _, c := range k.items {
		most = max(most, k.value[c.kind]*float64(c.n))
	}
	for _, c := range k.items {
		from := len(block)
		for d, need := range k.m.kinds[c.kind].need {
			if need > 0 {
				block = append(block, entry{d, float64(need) / float64(room[d])})
			}
		}
		l.add(column{cost: -k.value[c.kind] / most, most: float64(c.n), entries: block[from:]})
	}
	l.solve(&budget{100})
	for i := range k.items {
		if l.full[dims+i] {
			k.items[i].part = float64(k.items[i].n)
		}
	}
	for r, c := range l.basis {
		if c >= dims {
			k.items[c-dims].part = l.x[r]
		}
	}
	var w weights
	for d := range w {
		w[d] = max(0, -l.y[d]) / float64(max(1, room[d]))
	}
	w[slots] += 1e-6 / float64(room[slots]) // every item takes one, so that none weighs nothing
	return w
}

// sort orders the candidates by density.
func (k *knapsack) sort(w weights) {
	for i := range k.items {
		c := &k.items[i]
		c.weight = w.of(k.m.kinds[c.kind].need)
		c.density = k.value[c.kind] / c.weight
	}
	slices.SortFunc(k.items, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.density, a.density), cmp.Compare(a.kind, b.kind))
	})
}

// most is what candidates from i on can be worth at most in the room left: all there are of
// each that fits, the densest first, and of the last only the part that the weight allows.
func (k *knapsack) most(i int, room vector, weight float64) float64 {
	k.nodes -= (len(k.items) - i) / 64
	worth := 0.0
	for ; i < len(k.items) && weight > 0; i++ {
		c := &k.items[i]
		if !room.holds(k.m.kinds[c.kind].need) {
			continue
		}
		if w := float64(c.weight * float64(c.n)); w < weight {
			worth += float64(k.value[c.kind] * float64(c.n))
			weight -= w
			continue
		}
		return worth + float64(c.density*weight)
	}
	return worth
}

// search fills the room left from candidate i on, of which worth is in the machine already.
func (k *knapsack) search(i int, room vector, weight, worth float64) {
	if worth > k.worth {
		k.worth = worth
		k.load = append(k.load[:0], k.now...)
	}
	for ; i < len(k.items); i++ {
		c := &k.items[i]
		need := k.m.kinds[c.kind].need
		if !room.holds(need) {
			continue
		}
		fit := k.m.joins(k.spec, k.now, c.kind, room.times(need, c.n))
		if fit == 0 {
			continue
		}
		bound := worth + float64(c.density*weight)
		if bound > float64(k.worth*(1+cut)) {
			bound = worth + k.most(i, room, weight)
		}
		if k.nodes--; k.nodes < 0 || bound <= float64(k.worth*(1+cut)) {
			k.upper = max(k.upper, bound)
			return
		}
		k.now = append(k.now, lot{c.kind, 0})
		for n := fit; n > 0 && k.nodes >= 0; n-- {
			k.now[len(k.now)-1].n = n
			k.search(i+1, room.plus(need, -n), weight-float64(c.weight*float64(n)), worth+float64(k.value[c.kind]*float64(n)))
		}
		k.now = k.now[:len(k.now)-1]
		if k.nodes < 0 {
			k.upper = max(k.upper, bound)
			return
		}
	}
}
