package forecast

import "math"

// regression fits y = coef·x by least squares to rows that come one by one, the older the
// lighter, with a penalty on coefficients away from 0.
//
// It keeps the triangular factor of the rows and turns each new row into it by rotations. That
// is as exact as a fit of all rows at once. The usual recursion on the inverse loses its symmetry
// by rounding, and blows up when a series does not move and the old rows fade. Here a part of the
// penalty is put back with every row, so that the fit stays bounded.
type regression struct {
	n       int
	factor  []float64 // n rows of n, upper triangle
	z       []float64 // right-hand side of the factor
	coef    []float64
	row     []float64 // room for the row that is turned in
	penalty float64
	turn    int // which coefficient's penalty is put back next
}

func newRegression(n int, penalty float64) regression {
	g := regression{
		n: n, factor: make([]float64, n*n), z: make([]float64, n), coef: make([]float64, n),
		row: make([]float64, n), penalty: penalty,
	}
	for i := range n {
		g.factor[i*n+i] = math.Sqrt(penalty)
	}
	return g
}

// add takes a row into account, after all rows so far have lost all but a share of keep of
// their weight.
func (g *regression) add(x []float64, y, keep float64) {
	if keep < 1 {
		fade := math.Sqrt(keep)
		for i := range g.factor {
			g.factor[i] *= fade
		}
		for i := range g.z {
			g.z[i] *= fade
		}
		clear(g.row)
		g.row[g.turn] = math.Sqrt(g.penalty * (1 - keep) * float64(g.n))
		g.rotate(g.turn, 0)
		g.turn = (g.turn + 1) % g.n
	}
	copy(g.row, x)
	g.rotate(0, y)
	g.solve()
}

// rotate turns the row, which is 0 before from, into the factor.
func (g *regression) rotate(from int, y float64) {
	for i := from; i < g.n; i++ {
		row, r := g.row[i:], g.factor[i*g.n+i:(i+1)*g.n]
		norm := math.Sqrt(r[0]*r[0] + row[0]*row[0])
		if row[0] == 0 || norm == 0 {
			continue
		}
		c, s := r[0]/norm, row[0]/norm
		for j, v := range row {
			row[j], r[j] = c*v-s*r[j], c*r[j]+s*v
		}
		g.z[i], y = c*g.z[i]+s*y, c*y-s*g.z[i]
	}
}

func (g *regression) solve() {
	for i := g.n - 1; i >= 0; i-- {
		r := g.factor[i*g.n : (i+1)*g.n]
		left := g.z[i]
		for j := i + 1; j < g.n; j++ {
			left -= r[j] * g.coef[j]
		}
		g.coef[i] = left / r[i]
	}
}

func (g *regression) at(x []float64) float64 {
	sum := 0.0
	for i, c := range g.coef {
		sum += c * x[i]
	}
	return sum
}

func (g *regression) size() int { return (len(g.factor) + 3*g.n + 15) * wordBytes }
