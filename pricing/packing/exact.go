package packing

import (
	"slices"

	"github.com/plimsoll/plimsoll/pricing"
)

// exact goes through all ways to place what is left of a plan, but for those that cannot be
// better than the best plan known, and those that differ only in which of two like things is
// which.
type exact struct {
	p     *plan
	items []int // the kind of each item, like ones beside each other
	left  []rest
	at    []int // the machines that have room for any of them, and those bought since
	best  *plan // better than top was at first, or nil
	top   score
	nodes int // branches that may still be looked at

	weights weights // worth by dimension, such that no offer holds more than its rate
}

// rest is what the items from one on amount to.
type rest struct {
	size  int64
	worth float64
}

// newExact returns a search for what is better than top, starting from p.
func newExact(p *plan, top score, w weights, nodes int) *exact {
	m := p.m
	e := &exact{p: p, top: top, nodes: nodes, weights: m.fair(w)}
	for _, k := range m.order {
		e.items = append(e.items, slices.Repeat([]int{k}, p.left[k])...)
	}
	e.left = make([]rest, len(e.items)+1)
	for i := len(e.items) - 1; i >= 0; i-- {
		k := &m.kinds[e.items[i]]
		e.left[i] = rest{e.left[i+1].size + k.size, e.left[i+1].worth + e.weights.of(k.need)}
	}
	return e
}

// run reports whether all was gone through within the nodes. With very many machines there is
// no hope of that.
func (e *exact) run() bool {
	open := 0.0
	for i := range e.p.machines {
		if slices.ContainsFunc(e.items, func(k int) bool { return e.p.fits(i, k, 1) > 0 }) {
			e.at = append(e.at, i)
			open += e.weights.of(e.p.machines[i].free)
		}
	}
	if len(e.at) > 64 {
		return false
	}
	e.search(0, 0, open)
	return e.nodes > 0
}

// search places item i and those after it. Items like the one before go no further to the
// front than that one, from on; open is what the free room of all machines could be worth.
func (e *exact) search(i, from int, open float64) {
	if !e.hopeful(i, open) {
		return
	}
	if i == len(e.items) {
		e.best, e.top = e.p.clone(), e.p.score
		return
	}
	e.share(i, from, open)
	e.extend(i, open)
	next := i + 1 // without this item, and all that equal it
	for next < len(e.items) && e.items[next] == e.items[i] {
		next++
	}
	e.search(next, 0, open)
}

// hopeful reports whether a plan better than the best may yet come of this one.
func (e *exact) hopeful(i int, open float64) bool {
	if e.nodes--; e.nodes <= 0 {
		return false
	}
	s := e.p.score
	s.placed += len(e.items) - i
	s.size += e.left[i].size
	if more := e.left[i].worth - open; more > 0 {
		s.rate += pricing.Rate(more * (1 - 1e-9))
	}
	return s.better(e.top)
}

// share tries item i in each machine that is there, and of equal ones in the first alone.
func (e *exact) share(i, from int, open float64) {
	k, worth := e.items[i], e.weights.of(e.p.m.kinds[e.items[i]].need)
	for a := from; a < len(e.at); a++ {
		if e.p.fits(e.at[a], k, 1) == 0 || e.seen(e.at[from:a], e.at[a]) {
			continue
		}
		e.p.put(e.at[a], k, 1)
		e.search(i+1, e.from(i, a), open-worth)
		e.p.undo(len(e.p.journal) - 1)
	}
}

// alike reports whether the same kinds may join both loads.
func (m *model) alike(a, b []lot) bool {
	return !slices.ContainsFunc(m.order, func(k int) bool { return m.beside(a, k, 1) != m.beside(b, k, 1) })
}

// seen reports whether one of the machines has the same room for the same classes as j.
func (e *exact) seen(machines []int, j int) bool {
	mj := &e.p.machines[j]
	return slices.ContainsFunc(machines, func(i int) bool {
		mi := &e.p.machines[i]
		return mi.free == mj.free && e.p.m.specs[mi.spec].mask == e.p.m.specs[mj.spec].mask && e.p.m.evenExtras(mi, mj) && e.p.m.alike(mi.load, mj.load)
	})
}

// extend tries item i in a new machine of each offer.
func (e *exact) extend(i int, open float64) {
	m, k := e.p.m, e.items[i]
	worth := e.weights.of(m.kinds[k].need)
	for o := range m.offers {
		s := m.offers[o].spec
		if !m.fits(s, &m.kinds[k]) || e.p.canBuy(o, 1) == 0 {
			continue
		}
		mark := len(e.p.journal)
		j := e.p.buy(o)
		e.at = append(e.at, j)
		e.p.put(j, k, 1)
		e.search(i+1, e.from(i, len(e.at)-1), open+e.weights.of(m.specs[s].room)-worth)
		e.p.undo(mark)
		e.at = e.at[:len(e.at)-1]
	}
}

// from is where in e.at the item after i may go at the foremost when i is at a.
func (e *exact) from(i, a int) int {
	if i+1 < len(e.items) && e.items[i+1] == e.items[i] {
		return a
	}
	return 0
}
