package packing

import (
	"cmp"
	"slices"
)

// improve releases a few machines at a time, the most wasteful first, and packs what was in
// them again: into the gaps of the others, and into machines bought anew. What is better is
// kept and the search begins again; it ends when no set is left to try.
func (s *search) improve(w weights) {
	p, pr := s.best.clone(), s.guides[len(s.guides)-1]
	ways := s.ways(pr, w)
	for way := 0; way < len(ways) && !s.done(); {
		if s.pass(p, pr, ways[way]) {
			p, way = s.best.clone(), 0
		} else {
			way++
		}
	}
}

// way packs what is left of a plan and returns a better plan than top, or nil. It may change p.
type way func(p *plan, top score) *plan

// ways are the quick ways first, and then the thorough one for what is small enough.
func (s *search) ways(pr *prices, w weights) []way {
	var ways []way
	order := s.m.order
	if !s.best.complete() {
		order = s.m.small
	}
	for _, window := range windows {
		b := newBuyer(s.m, pr, order, window)
		ways = append(ways, func(p *plan, top score) *plan {
			looks := b.looks
			p.fillGaps(order, all)
			b.run(p)
			s.budget.use(2 + (len(p.machines)+len(s.m.kinds))/100 + (b.looks-looks)/looksPerMove)
			if !p.score.better(top) {
				return nil
			}
			return p.clone()
		})
	}
	return append(ways, func(p *plan, top score) *plan {
		if s.m.total-p.score.placed > 10 {
			return nil
		}
		e := newExact(p, top, w, 2000)
		e.run()
		s.budget.use(2 + (2000-e.nodes)/nodesPerMove)
		return e.best
	})
}

// pass tries one way on all groups of machines until something is better.
func (s *search) pass(p *plan, pr *prices, pack way) bool {
	for _, set := range groups(p.wasteful(pr), len(p.m.bins)) {
		if s.done() {
			return false
		}
		top := p.score
		p.keep()
		for _, i := range set {
			p.sell(i)
		}
		better := pack(p, top)
		p.undo(0)
		if better != nil {
			s.consider(better)
			return true
		}
	}
	return false
}

// wasteful lists the machines that hold something by what they cost beyond the worth of what
// they hold, the highest first; of many bins none.
func (p *plan) wasteful(pr *prices) []int {
	var order []int
	waste := make([]float64, len(p.machines))
	for i, mc := range p.machines {
		if len(mc.load) == 0 || mc.offer < 0 && len(p.m.bins) > relaxBins {
			continue
		}
		order = append(order, i)
		if mc.offer >= 0 {
			waste[i] = float64(p.m.offers[mc.offer].rate) - pr.worth(mc.load)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(waste[b], waste[a]) })
	return order
}

// groups are the sets of machines to release together: each alone, then pairs and triples of
// the first, then runs of the list.
func groups(order []int, bins int) [][]int {
	var sets [][]int
	for _, i := range order {
		sets = append(sets, []int{i})
	}
	for b := 1; b < min(len(order), 40); b++ {
		for a := range b {
			sets = append(sets, []int{order[a], order[b]})
		}
	}
	for c := 2; c < min(len(order), 12); c++ {
		for b := 1; b < c; b++ {
			for a := range b {
				sets = append(sets, []int{order[a], order[b], order[c]})
			}
		}
	}
	for n := 4; n <= 8; n += 2 {
		for a := 0; a+n <= len(order); a += n / 2 {
			sets = append(sets, order[a:a+n])
		}
	}
	return slices.DeleteFunc(sets, func(set []int) bool {
		return !slices.ContainsFunc(set, func(i int) bool { return i >= bins })
	})
}
