package packing

import (
	"math"
	"slices"
)

// master is the packing problem with fractions of machines allowed: which filled machines to
// have, and how much of each, at the lowest rate. It has a row for each kind of item, one for
// each spec of empty bins, and one for each limit that could matter. Filled machines are
// thought of one by one, as the prices of the rows ask for them (column generation, after
// Gilmore and Gomory). Its solution is rounded to a plan, and its prices prove how cheap any
// plan can be at best.
type master struct {
	m     *model
	lp    *lp
	row   []int     // of each kind, or -1
	pools []int     // row of each pool's limit, or -1
	hosts [][2]int  // rows of each host's CPU and memory, or -1
	bins  []int     // row of each spec's empty bins, or -1
	fills []filled  // by column; without a load, it is not a machine
	unit  float64   // the rate that is 1 in the program
	right []float64 // of each row

	steady []float64 // row prices that prove the highest bound, proved
	proved float64
	prices *prices // the same as prices, once solved
	sack   knapsack
}

// filled is a machine with its load: one of an offer, or with offer -1 a bin of a spec.
type filled struct {
	offer, spec int
	load        []lot
}

// unplaced is what it costs in the program to leave an item out, where a machine costs 1 at
// most: so much that it never pays.
const unplaced = 100

// newMaster returns the program that holds so many of each kind within the limits that p has
// left, to be solved from the given prices on. Kinds with a demand of 0 have no row.
func newMaster(m *model, p *plan, demand []float64, pr *prices) *master {
	a := &master{m: m, unit: m.dearest(), prices: pr, sack: knapsack{m: m, count: m.count}}
	var cost []float64
	items := 0.0
	for k, n := range demand {
		a.row = append(a.row, -1)
		if n > 0 {
			// Slightly different right sides keep programs of many like rows from going
			// round in circles.
			a.row[k] = a.addRow(n*(1+1e-6*float64(k+1)/float64(len(demand))), pr.kind[k])
			cost = append(cost, unplaced*(1+float64(1e-7*float64(m.kinds[k].size))))
		}
		items += math.Ceil(n)
	}
	kinds := len(a.right)
	a.empty(p)
	a.limit(p, pr, items)
	a.lp = newLP(a.right, append(cost, make([]float64, len(a.right)-kinds)...), kinds+len(m.offers))
	for r := range kinds {
		a.lp.add(column{entries: []entry{{r, -1}}}) // more room than was asked for
	}
	a.fills = make([]filled, len(a.lp.columns))
	return a
}

// addRow adds a row with its right side and first price.
func (a *master) addRow(right, price float64) int {
	a.right = append(a.right, right)
	a.steady = append(a.steady, price/a.unit)
	return len(a.right) - 1
}

// empty adds a row for each spec of bins of which some are empty: how many. When there are
// many bins they are left as they are.
func (a *master) empty(p *plan) {
	a.bins = slices.Repeat([]int{-1}, len(a.m.specs))
	for i, b := range a.m.bins {
		if len(a.m.bins) > relaxBins || len(p.machines[i].load) > 0 {
			continue
		}
		if a.bins[b.spec] < 0 {
			a.bins[b.spec] = a.addRow(0, 0)
		}
		a.right[a.bins[b.spec]]++
	}
}

// limit adds a row for each limit that could bind. Never more machines than items are bought, so a
// larger limit cannot.
func (a *master) limit(p *plan, pr *prices, items float64) {
	for i, n := range p.pools {
		a.pools = append(a.pools, -1)
		if float64(n) < items {
			a.pools[i] = a.addRow(float64(n), -pr.pool[i])
		}
	}
	var most vector
	for i := range a.m.offers {
		for d, v := range a.m.offers[i].takes {
			most[d] = max(most[d], v)
		}
	}
	for i, room := range p.hosts {
		a.hosts = append(a.hosts, [2]int{-1, -1})
		for d := range a.hosts[i] {
			if float64(room[d]) < items*float64(most[d]) {
				a.hosts[i][d] = a.addRow(float64(room[d])/a.m.scale[d], -pr.host[i][d]*a.m.scale[d])
			}
		}
	}
}

// add adds a filled machine as a column, if it improves on the present solution.
func (a *master) add(f filled) bool {
	c := a.column(f)
	if a.lp.reduced(&c) > -1e-6 {
		return false
	}
	a.lp.add(c)
	a.fills = append(a.fills, f)
	return true
}

// column is a filled machine as the program sees it.
func (a *master) column(f filled) column {
	c := column{entries: make([]entry, 0, len(f.load)+3)}
	for _, l := range f.load {
		if r := a.row[l.kind]; r >= 0 && l.n > 0 {
			c.entries = append(c.entries, entry{r, float64(l.n)})
		}
	}
	if f.offer < 0 {
		c.entries = append(c.entries, entry{a.bins[f.spec], 1})
	} else {
		a.charge(&c, &a.m.offers[f.offer])
	}
	return c
}

// charge adds to a column what buying a machine of the offer costs and takes.
func (a *master) charge(c *column, of *offer) {
	c.cost = float64(of.rate) / a.unit
	if r := a.pools[of.pool]; r >= 0 {
		c.entries = append(c.entries, entry{r, 1})
	}
	for d, r := range a.hosts[of.host] {
		if r >= 0 && of.takes[d] > 0 {
			c.entries = append(c.entries, entry{r, float64(of.takes[d]) / a.m.scale[d]})
		}
	}
}

// solve alternates between solving the program and adding the machines that are worth more
// than their price, until that would gain next to nothing or the budget is spent.
//
// The rows' prices jump about from one solution to the next. Machines are therefore thought of
// half-way between them and the steadiest prices yet, those that prove the highest bound.
func (a *master) solve(b *budget) {
	a.generate(b, a.steady, 200)
	for {
		a.lp.solve(b)
		if b.spent() || a.proved >= a.value()*(1-near) {
			break
		}
		if !a.generate(b, a.between(), 200) && !a.generate(b, a.lp.y, 200) && !a.generate(b, a.lp.y, 5000) {
			break
		}
	}
	a.prices = a.read(a.steady)
}

// near is how close the bound has to come to the program's value, in parts of it.
const near = 1e-3

// value is what the program's present solution costs.
func (a *master) value() float64 {
	sum := 0.0
	for r, c := range a.lp.basis {
		sum += float64(a.lp.x[r] * a.lp.columns[c].cost)
	}
	return sum
}

// between is half-way between the steady row prices and the present ones.
func (a *master) between() []float64 {
	y := make([]float64, len(a.lp.y))
	for r := range y {
		y[r] = (a.steady[r] + a.lp.y[r]) / 2
	}
	return y
}

// read turns row prices into prices of items and limits.
func (a *master) read(y []float64) *prices {
	pr := a.m.newPrices()
	pr.weights = a.prices.weights
	for k, r := range a.row {
		if r >= 0 {
			pr.kind[k] = max(0, y[r]) * a.unit
		}
	}
	for i, r := range a.pools {
		if r >= 0 {
			pr.pool[i] = max(0, -y[r]) * a.unit
		}
	}
	for i, rows := range a.hosts {
		for d, r := range rows {
			if r >= 0 {
				pr.host[i][d] = max(0, -y[r]) * a.unit / a.m.scale[d]
			}
		}
	}
	return pr
}

// generate looks for the machines that are worth the most by row prices y, adds those that
// improve on the present solution, and reports whether there were any. On the way it learns
// what bound y proves (see lowerBound).
func (a *master) generate(b *budget, y []float64, nodes int) bool {
	columns := len(a.fills)
	pr := a.read(y)
	inBins, over := 0.0, 0.0
	for s, r := range a.bins {
		if r >= 0 {
			inBins += float64(a.fill(filled{-1, s, nil}, pr.kind, b, nodes) / a.unit * a.right[r])
		}
	}
	for _, s := range a.m.selling {
		o, price := a.m.cheapest(s, pr)
		if upper := a.fill(filled{o, s, nil}, pr.kind, b, nodes); upper > 0 {
			over = max(over, upper/price)
		}
	}
	a.learn(y, inBins, over)
	return len(a.fills) > columns
}

// fill fills f with the most worth and adds it, if it improves on the present solution; then
// again without what it uses up, so that items of which there are few get their turn as well.
// It returns the most that f can hold.
func (a *master) fill(f filled, value []float64, b *budget, nodes int) float64 {
	upper := 0.0
	a.sack.value = slices.Clone(value)
	for turn := range 4 {
		b.use(1 + a.sack.solve(f.spec, nodes)/nodesPerMove)
		if turn == 0 {
			upper = a.sack.upper
		}
		f.load = slices.Clone(a.sack.load)
		if len(f.load) == 0 || !a.add(f) || !a.useUp(f.load) {
			break
		}
	}
	return upper
}

// useUp takes the worth from what the load uses up, and reports whether that is anything.
func (a *master) useUp(load []lot) bool {
	some := false
	for _, l := range load {
		if r := a.row[l.kind]; r >= 0 && float64(l.n) > a.right[r]/2 {
			a.sack.value[l.kind], some = 0, true
		}
	}
	return some
}

// learn keeps y as the steady prices if it proves more than these. Prices of items count only
// in so far as no machine is overpriced by them.
func (a *master) learn(y []float64, inBins, over float64) {
	if over == 0 || math.IsInf(over, 1) {
		return
	}
	scaled := slices.Clone(y)
	proved := -inBins / over
	for _, r := range a.row {
		if r >= 0 {
			scaled[r] = max(0, y[r]) / over
			proved += float64(scaled[r] * a.right[r])
		}
	}
	for _, r := range a.scarce() {
		proved += float64(min(0, y[r]) * a.right[r])
	}
	if proved > a.proved {
		a.proved, a.steady = proved, scaled
	}
}

// scarce lists the rows of limits.
func (a *master) scarce() []int {
	rows := slices.Clone(a.pools)
	for _, h := range a.hosts {
		rows = append(rows, h[:]...)
	}
	return slices.DeleteFunc(rows, func(r int) bool { return r < 0 })
}

// round adds to p the whole machines of the solution, or, when there are none, the machine of
// which the solution has the greatest part; false when it has no machine to add.
func (a *master) round(p *plan) bool {
	some, most, part := false, -1, tiny
	for r, c := range a.lp.basis {
		if a.fills[c].load == nil {
			continue
		}
		x := a.lp.x[r]
		for range int(x + tiny) {
			some = a.take(p, a.fills[c]) || some
		}
		if x > part {
			most, part = c, x
		}
	}
	return some || most >= 0 && a.take(p, a.fills[most])
}

// take buys one filled machine, or finds an empty bin, and puts into it what is still left of
// its load; false when that is nothing or there is no such machine.
func (a *master) take(p *plan, f filled) bool {
	if !slices.ContainsFunc(f.load, func(l lot) bool { return p.left[l.kind] > 0 }) {
		return false
	}
	var i int
	switch {
	case f.offer < 0:
		i = slices.IndexFunc(p.machines, func(mc machine) bool { return mc.offer < 0 && mc.spec == f.spec && len(mc.load) == 0 })
	case p.canBuy(f.offer, 1) == 0:
		i = -1
	default:
		i = p.buy(f.offer)
	}
	if i < 0 {
		return false
	}
	for _, l := range f.load {
		if n := min(l.n, p.left[l.kind]); n > 0 {
			p.put(i, l.kind, n)
		}
	}
	return true
}

// dive returns p with purchases for what is left of it: the program's solution rounded to
// whole machines, solved again for what these do not hold, and so on.
func (a *master) dive(p *plan, b *budget) *plan {
	p = p.clone()
	order := p.m.order
	if a.short() {
		order = p.m.small
	}
	for a.round(p) {
		p.fillGaps(order, opened)
		if p.complete() || b.spent() {
			break
		}
		a = a.rest(p)
		a.solve(b)
	}
	p.fillGaps(order, all)
	newBuyer(p.m, a.prices, order, 4).run(p)
	return p
}

// short reports whether the limits leave the program's solution without room for everything.
func (a *master) short() bool {
	return slices.ContainsFunc(a.row, func(r int) bool {
		i := slices.Index(a.lp.basis, r) // the first columns are what their rows leave out
		return r >= 0 && i >= 0 && a.lp.x[i] > 0.5
	})
}

// rest is the program for what is left of p, with the same machines to start from.
func (a *master) rest(p *plan) *master {
	demand := make([]float64, len(p.left))
	for k, n := range p.left {
		demand[k] = float64(n)
	}
	next := newMaster(a.m, p, demand, a.prices)
	for _, f := range a.fills {
		if f.load != nil && (f.offer >= 0 || next.bins[f.spec] >= 0) {
			next.add(f)
		}
	}
	return next
}
