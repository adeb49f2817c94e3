package forecast

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// twin is the same fit by the normal equations, solved by elimination: short, slow, and good to
// half the digits.
type twin struct {
	a       [][]float64
	b       []float64
	penalty float64
	turn    int
}

func newTwin(n int, penalty float64) *twin {
	w := &twin{b: make([]float64, n), penalty: penalty}
	for i := range n {
		w.a = append(w.a, make([]float64, n))
		w.a[i][i] = penalty
	}
	return w
}

func (w *twin) add(x []float64, y, keep float64) {
	for i := range w.a {
		for j := range w.a {
			w.a[i][j] = keep*w.a[i][j] + x[i]*x[j]
		}
		w.b[i] = keep*w.b[i] + x[i]*y
	}
	if keep < 1 {
		w.a[w.turn][w.turn] += w.penalty * (1 - keep) * float64(len(w.a))
		w.turn = (w.turn + 1) % len(w.a)
	}
}

func (w *twin) coef() []float64 {
	n := len(w.a)
	rows := make([][]float64, n)
	for i := range rows {
		rows[i] = append(append([]float64{}, w.a[i]...), w.b[i])
	}
	for i := range n {
		for k := i + 1; k < n; k++ {
			f := rows[k][i] / rows[i][i]
			for j := i; j <= n; j++ {
				rows[k][j] -= f * rows[i][j]
			}
		}
	}
	coef := make([]float64, n)
	for i := n - 1; i >= 0; i-- {
		coef[i] = rows[i][n]
		for j := i + 1; j < n; j++ {
			coef[i] -= rows[i][j] * coef[j]
		}
		coef[i] /= rows[i][i]
	}
	return coef
}

func TestRotationsFitWhatTheNormalEquationsDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "n")
		keep := rapid.SampledFrom([]float64{1, 0.99, 0.7}).Draw(t, "keep")
		g, w := newRegression(n, 0.01), newTwin(n, 0.01)
		number := rapid.Float64Range(-3, 3)
		for range rapid.IntRange(1, 40).Draw(t, "rows") {
			x, y := rapid.SliceOfN(number, n, n).Draw(t, "x"), number.Draw(t, "y")
			g.add(x, y, keep)
			w.add(x, y, keep)
		}
		for i, want := range w.coef() {
			if math.Abs(g.coef[i]-want) > 1e-6*(1+math.Abs(want)) {
				t.Fatalf("weights are %v, should be %v", g.coef, w.coef())
			}
		}
	})
}

// A load that does not move for months says nothing new while what was known fades. The usual
// recursion on the inverse grows without end on that.
func TestAFitOutlivesALongStandstill(t *testing.T) {
	g := newRegression(3, 1e-6)
	for i := range 300 {
		g.add([]float64{1, math.Sin(float64(i)), math.Cos(float64(i))}, 2+math.Sin(float64(i)), 0.99)
	}
	for range 200_000 {
		g.add([]float64{1, 0, 0}, 2, 0.99)
	}
	for i, want := range []float64{2, 0, 0} {
		if math.Abs(g.coef[i]-want) > 1e-3 {
			t.Errorf("weights are %v, should be back at 2, 0, 0", g.coef)
		}
	}
	g.add([]float64{1, 1, 0}, 3, 0.99)
	if got := g.at([]float64{1, 1, 0}); math.Abs(got-3) > 0.1 {
		t.Errorf("what is new is expected to be %v, should be near 3", got)
	}
}
