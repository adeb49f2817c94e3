package packing

import (
	"cmp"
	"math"
	"slices"

	"github.com/plimsoll/plimsoll/pricing"
)

// lowerBound is a rate below which no purchases beside the bins hold the given number of each
// kind. It holds for any prices, for this reason:
//
// The worth of all items, less what the bins can hold, has to be in bought machines, and each of
// these holds at most what the knapsack allows. Consider the cheapest machines that could hold that
// much in total, with scarcity added and the scarcity of all existing room subtracted. They cost no
// more than any set of purchases.
func (m *model) lowerBound(pr *prices, count []int, nodes int) pricing.Rate {
	gross, scarcity := 0.0, 0.0
	for k, n := range count {
		gross += float64(pr.kind[k] * float64(n))
	}
	for i, n := range m.pools {
		scarcity += float64(pr.pool[i] * float64(n))
	}
	for i, room := range m.hosts {
		scarcity += float64(pr.host[i][cpu]*float64(room[cpu])) + float64(pr.host[i][memory]*float64(room[memory]))
	}
	// What the floats may be off by must not lift the bound above the truth.
	worth := gross - m.inBins(pr, count, nodes) - float64(slack*gross)
	c := cover{choices: m.holding(pr, count, nodes), nodes: nodes}
	cost := c.run(worth)
	return m.atLeast(cost - scarcity - float64(slack*(cost+scarcity)))
}

// slack is the part of a sum that its rounding errors stay well below.
const slack = 1e-9

// choice is a machine that may be bought: its price, and what it holds at most.
type choice struct{ price, holds float64 }

// holding lists, for each spec, its lowest price and the worth that it can hold. The choice
// that holds the most for its price decides, so that is looked at ever more closely.
func (m *model) holding(pr *prices, count []int, nodes int) []choice {
	sack := knapsack{m: m, value: pr.kind, count: count}
	choices, looked := make([]choice, len(m.selling)), make([]int, len(m.selling))
	look := func(i, n int) {
		sack.solve(m.selling[i], n)
		choices[i].holds, looked[i] = sack.upper, n
	}
	for i, s := range m.selling {
		_, choices[i].price = m.cheapest(s, pr)
		look(i, min(200, nodes))
	}
	for len(choices) > 0 {
		best := 0
		for i, c := range choices {
			if c.holds*choices[best].price > choices[best].holds*c.price {
				best = i
			}
		}
		if looked[best] >= nodes {
			break
		}
		look(best, 4*looked[best])
	}
	return choices
}

// cover finds the lowest price of whole machines that hold a given worth in all, or something
// below it when that takes too many nodes.
type cover struct {
	choices []choice // those that hold the most for their price first
	nothing float64  // how much of the worth is rounding error
	nodes   int
	least   float64 // price of the best cover found
	open    float64 // what covers not looked at cost at least
}

func (c *cover) run(worth float64) float64 {
	c.choices = slices.DeleteFunc(c.choices, func(ch choice) bool { return ch.holds <= 0 })
	slices.SortFunc(c.choices, func(a, b choice) int { return cmp.Compare(a.price*b.holds, b.price*a.holds) })
	c.least, c.open = math.Inf(1), math.Inf(1)
	if worth <= 0 || len(c.choices) == 0 {
		return 0
	}
	c.nothing = slack * worth
	c.search(0, worth, 0)
	return min(c.least, c.open)
}

// search covers the worth with choices from i on, having spent so much.
func (c *cover) search(i int, worth, spent float64) {
	if c.nodes--; worth <= c.nothing {
		c.least = min(c.least, spent)
		return
	}
	for ; i < len(c.choices); i++ {
		ch := c.choices[i]
		bound := spent + float64(worth/ch.holds*ch.price)
		for n := math.Ceil(worth / ch.holds); n > 0 && c.hopeful(bound); n-- {
			c.search(i+1, worth-float64(n*ch.holds), spent+float64(n*ch.price))
		}
		if !c.hopeful(bound) {
			c.open = min(c.open, bound)
			return
		}
	}
}

// hopeful reports whether to look at covers that cost no less than bound. It is asked after
// each number of machines: of those that hold next to nothing it would take very many.
func (c *cover) hopeful(bound float64) bool {
	return c.nodes >= 0 && bound < c.least*(1-cut)
}

// inBins is the worth that the bins can hold, or more: what the room of each holds, and no more
// than what there is of each kind that fits into bins at all.
func (m *model) inBins(pr *prices, count []int, nodes int) float64 {
	sack := knapsack{m: m, value: pr.kind, count: count}
	upper := map[int]float64{}
	fit := make([]int, len(m.kinds))
	sum, alone := 0.0, 0.0
	for _, b := range m.bins {
		if _, known := upper[b.spec]; !known {
			upper[b.spec] = m.inBin(&sack, b.spec, pr, nodes)
		}
		sum += upper[b.spec]
		for k := range m.kinds {
			if fit[k] < count[k] && m.accepts(b.spec, &m.kinds[k]) {
				fit[k] += m.specs[b.spec].room.times(m.kinds[k].need, count[k]-fit[k])
			}
		}
	}
	for k, n := range fit {
		alone += float64(pr.kind[k] * float64(n))
	}
	return min(sum, alone)
}

// inBin is the worth that a bin can hold, or more. Of many bins each gets but a glance.
func (m *model) inBin(sack *knapsack, s int, pr *prices, nodes int) float64 {
	if len(m.bins) > relaxBins {
		return sack.glance(s, pr.weights)
	}
	sack.solve(s, nodes/10)
	return sack.upper
}

// atLeast is the lowest rate that purchases can come to, given that it is not below x: rates
// add up to multiples of what divides every offer's rate.
func (m *model) atLeast(x float64) pricing.Rate {
	step := int64(0)
	for i := range m.offers {
		step = gcd(int64(m.offers[i].rate), step)
	}
	if step == 0 || !(x > 0) {
		return 0
	}
	return pricing.Rate(int64(math.Ceil(x/float64(step)-slack)) * step)
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
