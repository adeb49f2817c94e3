package packing

import (
	"cmp"
	"slices"
	"sort"

	"github.com/plimsoll/plimsoll/pricing"
)

// merger puts what two purchases hold into one machine that costs no more than both. Methods that
// look at the rate alone fill machines of the same price for their room in no order of size.
type merger struct {
	p *plan
	// specs are those on offer, the cheapest first, rates what they cost at least, and most the
	// largest room of each dimension among them up to there.
	specs []int
	rates []pricing.Rate
	most  []vector
}

func newMerger(p *plan) *merger {
	g := &merger{p: p, specs: slices.Clone(p.m.selling)}
	slices.SortStableFunc(g.specs, func(a, b int) int { return cmp.Compare(g.least(a), g.least(b)) })
	var most vector
	for _, s := range g.specs {
		for d := range most {
			most[d] = max(most[d], p.m.specs[s].room[d])
		}
		g.rates, g.most = append(g.rates, g.least(s)), append(g.most, most)
	}
	return g
}

// least is the lowest rate of a machine of the spec.
func (g *merger) least(spec int) pricing.Rate {
	offers := g.p.m.offers
	return offers[slices.MinFunc(g.p.m.bySpec[spec], func(a, b int) int { return cmp.Compare(offers[a].rate, offers[b].rate) })].rate
}

// run merges until no two purchases can be. What it buys comes last, and is looked at in its turn.
func (g *merger) run() {
	first := len(g.p.m.bins)
	for i := first; i < len(g.p.machines); i++ {
		for j := first; j < i && !g.p.machines[i].gone; j++ {
			if !g.p.machines[j].gone {
				g.pair(i, j)
			}
		}
	}
}

// pair merges two purchases into the cheapest machine that holds what both do, if that costs no
// more.
func (g *merger) pair(i, j int) {
	m, a, b := g.p.m, &g.p.machines[i], &g.p.machines[j]
	need := used(m, a).plus(used(m, b), 1)
	rate := m.offers[a.offer].rate + m.offers[b.offer].rate
	from := sort.Search(len(g.most), func(n int) bool { return g.most[n].holds(need) })
	to := sort.Search(len(g.rates), func(n int) bool { return g.rates[n] > rate })
	var load []lot
	for _, s := range g.specs[min(from, to):to] {
		if !m.specs[s].room.holds(need) {
			continue
		}
		if load == nil {
			load = together(a.load, b.load)
		}
		if m.carries(s, load) && g.exchange(i, j, s, rate, load) {
			return
		}
	}
}

// exchange takes one machine of the spec for the two, if the limits allow it at no more than the
// rate.
func (g *merger) exchange(i, j, spec int, rate pricing.Rate, load []lot) bool {
	p, before := g.p, len(g.p.journal)
	p.sell(i)
	p.sell(j)
	best := -1
	for _, o := range p.m.bySpec[spec] {
		if of := &p.m.offers[o]; of.rate <= rate && (best < 0 || of.rate < p.m.offers[best].rate) && p.canBuy(o, 1) > 0 {
			best = o
		}
	}
	if best < 0 {
		p.undo(before)
		return false
	}
	p.stock(best, load)
	p.keep()
	return true
}

// used is the room that the machine's load takes.
func used(m *model, mc *machine) vector { return m.specs[mc.spec].room.plus(mc.free, -1) }

// together is two loads in one, each kind once.
func together(a, b []lot) []lot {
	all := slices.Clone(a)
	for _, l := range b {
		if i := slices.IndexFunc(all, func(o lot) bool { return o.kind == l.kind }); i >= 0 {
			all[i].n += l.n
		} else {
			all = append(all, l)
		}
	}
	return all
}
