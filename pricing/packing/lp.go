package packing

import (
	"math"
	"slices"
)

// lp is a linear program: minimise Σ cost·x over 0 ≤ x ≤ most where Σ a·x = b in every row. It
// is solved by the revised simplex method, so that columns can be added as they are thought of.
//
// Products are rounded (float64(a*b)) before they are summed, for otherwise some processors
// fuse the two and the same problem has another result there.
type lp struct {
	columns []column
	full    []bool    // of each column, whether it is not basic and at its most
	basis   []int     // of each row, its basic column
	x       []float64 // the basic columns' values
	// inverse of the basis, by column. Most columns remain unit vectors for long.
	inverse []float64
	y       []float64 // the rows' prices
	w       []float64 // how fast the basic columns come down in a pivot
}

// column is one variable: what it costs, what it adds to the rows, and how large it may be.
type column struct {
	cost    float64
	entries []entry
	most    float64 // 0 for no limit
}

type entry struct {
	row   int
	value float64
}

// tiny is below what counts as different from 0 in a program whose numbers are about 1.
const tiny = 1e-9

// newLP returns a program with right sides b ≥ 0 and, as the first basis, one column for each row
// that takes up what the others do not, at the given cost. About so many columns more are to come.
func newLP(b, cost []float64, more int) *lp {
	n := len(b)
	l := &lp{
		columns: make([]column, 0, n+more), full: make([]bool, 0, n+more), basis: make([]int, n),
		x: slices.Clone(b), y: slices.Clone(cost), inverse: make([]float64, n*n), w: make([]float64, n),
	}
	own := make([]entry, n)
	for i := range b {
		own[i] = entry{i, 1}
		l.basis[i] = l.add(column{cost: cost[i], entries: own[i : i+1 : i+1]})
		l.inverse[i*n+i] = 1
	}
	return l
}

func (l *lp) add(c column) int {
	l.columns, l.full = append(l.columns, c), append(l.full, false)
	return len(l.columns) - 1
}

// solve pivots until no column improves on the basis or the budget is spent.
func (l *lp) solve(b *budget) {
	for !b.spent() {
		c, reduced := l.entering()
		if c < 0 || !l.pivot(c, reduced) {
			return
		}
		b.use(1 + len(l.x)*len(l.x)/1000)
	}
}

// entering is the column that gains the most for each unit that it changes by, and its reduced
// cost; -1 when none gains.
func (l *lp) entering() (best int, reduced float64) {
	best, most := -1, tiny
	for j := range l.columns {
		r := l.reduced(&l.columns[j])
		if gain := -r; l.full[j] && r > most || !l.full[j] && gain > most {
			best, reduced, most = j, r, math.Abs(r)
		}
	}
	return best, reduced
}

// reduced is what one unit of c costs beyond what its rows are worth.
func (l *lp) reduced(c *column) float64 {
	r := c.cost
	for _, e := range c.entries {
		r -= float64(l.y[e.row] * e.value)
	}
	return r
}

// pivot changes column c until it or a basic column comes to one of its ends; false when
// nothing ends it.
func (l *lp) pivot(c int, reduced float64) bool {
	value, sign, most := 0.0, 1.0, l.columns[c].most
	if l.full[c] {
		value, sign = most, -1
	}
	l.direct(c)
	r, t := l.leaving(sign)
	switch {
	case most > 0 && (r < 0 || most <= t):
		l.move(sign * most)
		l.full[c] = !l.full[c]
	case r < 0:
		return false
	default:
		l.move(sign * t)
		l.full[l.basis[r]], l.full[c] = sign*l.w[r] < 0, false
		l.x[r] = value + float64(sign*t)
		l.exchange(r, c, reduced)
	}
	return true
}

// direct works out how fast each basic column comes down while column c goes up.
func (l *lp) direct(c int) {
	n := len(l.x)
	clear(l.w)
	for _, e := range l.columns[c].entries {
		for i, v := range l.inverse[e.row*n : e.row*n+n] {
			l.w[i] += float64(v * e.value)
		}
	}
}

// leaving is the row whose basic column is the first to come to an end of its own, and when;
// -1 when none does. Of equal ones it is the one that changes the fastest: dividing by a small
// number would blow up all errors.
func (l *lp) leaving(sign float64) (best int, when float64) {
	best = -1
	for i := range l.w {
		v, most := sign*l.w[i], l.columns[l.basis[i]].most
		var t float64
		switch {
		case v > 1e-7:
			t = l.x[i] / v
		case v < -1e-7 && most > 0:
			t = max(0, most-l.x[i]) / -v
		default:
			continue
		}
		if best < 0 || t < when-tiny || t <= when+tiny && math.Abs(v) > math.Abs(l.w[best]) {
			best, when = i, t
		}
	}
	return best, when
}

// move changes the basic columns.
func (l *lp) move(t float64) {
	for i, v := range l.w {
		l.x[i] = max(0, l.x[i]-float64(v*t))
	}
}

// exchange makes c the basic column of row r.
func (l *lp) exchange(r, c int, reduced float64) {
	n := len(l.x)
	for j := range l.y {
		column := l.inverse[j*n : j*n+n]
		if column[r] == 0 {
			continue
		}
		p := column[r] / l.w[r]
		l.y[j] += float64(reduced * p)
		for i, v := range l.w {
			column[i] -= float64(v * p)
		}
		column[r] = p
	}
	l.basis[r] = c
}
