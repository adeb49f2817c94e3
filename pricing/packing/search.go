package packing

import (
	"cmp"
	"slices"

	"github.com/plimsoll/plimsoll/pricing"
)

// budget is what is left of an effort, in moves. A move is about what a pivot of a small
// program takes; larger pieces of work count for more.
type budget struct{ moves int }

func (b *budget) use(n int)   { b.moves -= n }
func (b *budget) spent() bool { return b.moves <= 0 }

// How much of other work is done in a move's time.
const (
	nodesPerMove = 30 // branches of a tree
	looksPerMove = 60 // looks for the next item to fill a machine with
)

// search looks for the best plan within a budget. It buys greedily in several ways (buy.go). It
// enumerates all plans when they are few (exact.go), and solves the problem in fractions and rounds
// otherwise (master.go). It repacks a few machines at a time (improve.go). Meanwhile it keeps a
// lower bound on the cost of any plan (bound.go), and stops at the bound.
type search struct {
	m      *model
	budget budget
	best   *plan
	guides []*prices    // what bounds were proved with
	bound  pricing.Rate // no plan that places what best places costs less
	small  int          // up to how many items all plans are gone through
}

func newSearch(m *model, effort int) *search {
	return &search{m: m, budget: budget{max(0, effort)}, small: exactItems}
}

// How large a problem may be for a method to be worth its time.
const (
	exactItems = 12   // items, to be gone through in full
	relaxKinds = 150  // kinds, to be solved in fractions
	relaxBins  = 40   // bins, for that to empty them too
	alikeSpecs = 20   // specs, to be tried alone
	alikeFills = 4000 // kinds times specs, for that
)

// run builds plans the quick way, and then improves on the best of them.
func (s *search) run() {
	base := newPlan(s.m)
	base.seat()
	base.fillGaps(s.m.order, bins)
	s.best = base.clone()
	if s.best.complete() {
		return
	}
	w := s.m.linear(base)
	s.construct(base, s.m.weighed(w))
	s.prove(s.m.weighed(w))
	if s.budget.spent() || !s.enumerate(w) {
		s.relax(base)
		s.improve(w)
	}
	s.settle()
	if s.bound == 0 {
		s.raise(s.guides...)
	}
}

// settle tidies up the best plan. That may make room for omitted items, and placing these may make
// a machine superfluous.
func (s *search) settle() {
	p := s.best.clone()
	tidy := func() {
		p.settle()
		newMerger(p).run()
	}
	tidy()
	for placed := -1; !p.complete() && p.score.placed > placed; tidy() {
		placed = p.score.placed
		p.fillGaps(s.m.small, all)
		newBuyer(s.m, s.guides[0], s.m.small, 1).run(p)
	}
	if !slices.Equal(p.left, s.best.left) {
		s.bound = 0 // it was for other items
	}
	s.best = p.clone()
}

// construct tries several ways to buy for what the bins do not hold. When limits keep these
// from placing everything, it tries with small items first, which places more.
func (s *search) construct(base *plan, pr *prices) {
	s.buy(base, s.m.order, pr)
	if len(s.m.kinds)*len(s.m.selling) <= alikeFills {
		s.buyAlike(base, pr)
	}
	if !s.best.complete() {
		s.buy(base, s.m.small, s.m.thrift())
	}
	s.buySingly(base)
}

// buy buys by the prices, beside the bins as they are and with these filled one by one.
func (s *search) buy(base *plan, order []int, pr *prices) {
	for _, window := range windows {
		b := newBuyer(s.m, pr, order, window)
		p := base.clone()
		b.run(p)
		s.consider(p)
		if len(s.m.bins) > 0 {
			p = newPlan(s.m)
			b.fillBins(p)
			b.run(p)
			s.consider(p)
		}
	}
}

// buyAlike buys machines of a single spec as long as these hold anything, for each of the
// most promising specs.
func (s *search) buyAlike(base *plan, pr *prices) {
	for _, window := range windows {
		b := newBuyer(s.m, pr, s.m.order, window)
		for _, sp := range s.m.promising(pr) {
			p := base.clone()
			b.only([]int{sp})
			b.run(p)
			b.only(s.m.selling)
			b.run(p)
			s.consider(p)
		}
	}
}

// promising is up to alikeSpecs specs, those whose room is worth the most for its price first.
func (m *model) promising(pr *prices) []int {
	room := func(s int) (worth, price float64) {
		_, price = m.cheapest(s, pr)
		return pr.weights.of(m.specs[s].room), price
	}
	specs := slices.Clone(m.selling)
	slices.SortStableFunc(specs, func(a, b int) int {
		worth, price := room(a)
		worth2, price2 := room(b)
		return cmp.Compare(worth2*price, worth*price2)
	})
	return specs[:min(len(specs), alikeSpecs)]
}

// buySingly buys for each item the cheapest machine that holds it, if that could be better
// than the best plan: however odd the offers, sharing machines shall not be dearer.
func (s *search) buySingly(base *plan) {
	rate := pricing.Rate(0)
	for _, k := range s.m.order {
		if o := base.cheapestFor(k); o >= 0 {
			rate += pricing.Rate(base.left[k]) * s.m.offers[o].rate
		}
	}
	if s.best.complete() && s.best.score.rate <= rate {
		return
	}
	p := base.clone()
	for _, k := range s.m.order {
		for p.left[k] > 0 {
			o := p.cheapestFor(k)
			if o < 0 {
				break
			}
			p.put(p.buy(o), k, 1)
		}
	}
	s.consider(p)
}

// consider keeps p if it is better than what there is.
func (s *search) consider(p *plan) {
	if !p.score.better(s.best.score) {
		return
	}
	changed := !slices.Equal(p.left, s.best.left)
	s.best = p
	if changed {
		s.bound = 0 // it was for other items
		if p.complete() {
			s.raise(s.guides...)
		}
	}
}

// prove raises the bound by what the prices prove. While the plan omits items, it is not known
// which items the bound is for, and a bound is of no use.
func (s *search) prove(pr *prices) {
	s.guides = append(s.guides, pr)
	if s.best.complete() {
		s.raise(pr)
	}
}

func (s *search) raise(guides ...*prices) {
	placed := make([]int, len(s.m.kinds))
	for k, n := range s.m.count {
		placed[k] = n - s.best.left[k]
	}
	for _, pr := range guides {
		s.bound = max(s.bound, s.m.lowerBound(pr, placed, 10000))
	}
}

// done reports whether nothing is to be gained any more, or the budget is spent.
func (s *search) done() bool {
	return s.budget.spent() || s.best.complete() && s.best.score.rate <= s.bound
}

// enumerate goes through all plans of a small problem, and reports whether it got through.
func (s *search) enumerate(w weights) bool {
	if s.m.total > s.small {
		return false
	}
	nodes := min(100_000, nodesPerMove*s.budget.moves)
	e := newExact(newPlan(s.m), s.best.score, w, nodes)
	proved := e.run()
	s.budget.use((nodes - e.nodes) / nodesPerMove)
	if e.best != nil {
		s.consider(e.best)
	}
	if proved {
		s.bound = s.best.score.rate
	}
	return proved
}

// relax solves the problem in fractions and rounds. When there are many bins they keep what
// base has in them; the kinds that they hold count a little, so that they have a price too.
func (s *search) relax(base *plan) {
	if s.done() || len(s.m.kinds) > relaxKinds {
		return
	}
	if len(s.m.bins) <= relaxBins {
		base = newPlan(s.m)
	}
	demand := make([]float64, len(s.m.kinds))
	for _, k := range s.m.order {
		demand[k] = float64(base.left[k]) + float64(1e-3*float64(s.m.count[k]-base.left[k]))
	}
	a := newMaster(s.m, base, demand, s.guides[0])
	for _, mc := range s.best.machines {
		if mc.offer >= 0 || a.bins[mc.spec] >= 0 {
			a.add(filled{mc.offer, mc.spec, mc.load})
		}
	}
	s.part(2, a.solve)
	s.prove(a.prices)
	if !s.done() {
		s.part(2, func(b *budget) { s.consider(a.dive(base, b)) })
	}
}

// part does something with the n-th part of the budget.
func (s *search) part(n int, do func(*budget)) {
	b := budget{s.budget.moves / n}
	s.budget.use(b.moves)
	do(&b)
	s.budget.use(-b.moves)
}
