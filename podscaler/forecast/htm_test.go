package forecast

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// A season in which no value predicts the next is learnt from its sequence. HTM takes its time for
// it.
func TestHTMLearnsASeasonWithinAHundredAndTwenty(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 0))
	season := make([]float64, 20)
	for i := range season {
		season[i] = float64(10 + r.IntN(130))
	}
	m := must.Get(New(Spec{Type: "HTM", HTM: &HTM{Columns: 256, Active: 10, History: 5, Horizons: []int{1, 3}}}))(t)
	pass := func() (one, three float64) {
		for i, v := range season {
			f, _ := m.Predict(1)
			one += math.Abs(f-v) / float64(len(season))
			f, _ = m.Predict(3)
			three += math.Abs(f-season[(i+2)%len(season)]) / float64(len(season))
			m.Observe(v)
		}
		return one, three
	}
	for range 120 {
		pass()
	}
	if one, three := pass(); one > 6.5 || three > 6.5 {
		t.Errorf("it is off by %.1f one period ahead and by %.1f three ahead, of a swing of 130", one, three)
	}
}

// What is between two horizons is on a line between them, and a gap brings all of them nearer.
func TestHTMSpeaksForTheHorizonsBetween(t *testing.T) {
	m := must.Get(New(Spec{Type: "HTM", HTM: &HTM{Columns: 64, Active: 4, Cells: 2, Horizons: []int{2, 4}}}))(t)
	r := rand.New(rand.NewPCG(5, 0))
	last := 0.0
	for range 300 {
		last = float64(50 + r.IntN(50))
		m.Observe(last)
	}
	at := func(h int) float64 {
		f, ok := m.Predict(h)
		if !ok {
			t.Fatalf("%d ahead nothing is known", h)
		}
		return f
	}
	one, two, three, four, five := at(1), at(2), at(3), at(4), at(5)
	if math.Abs(one-(last+two)/2) > 1e-9 || math.Abs(three-(two+four)/2) > 1e-9 || four != five || two == four {
		t.Errorf("after %v it expects %v, %v, %v, %v, %v", last, one, two, three, four, five)
	}
	m.Observe(math.NaN())
	if got := at(1); got != two {
		t.Errorf("after a gap it expects %v, should be %v, what it expected two ahead", got, two)
	}
	for range stale {
		m.Observe(math.NaN())
	}
	if _, ok := m.Predict(1); ok {
		t.Error("it knows what comes after a gap of ten")
	}
}

// A load that has become another one is read by another ruler, or all of it would be one step.
func TestHTMLearnsAnewWhereTheLoadIsAnotherOne(t *testing.T) {
	built := must.Get(New(Spec{Type: "HTM", HTM: &HTM{Columns: 64, Active: 4, Cells: 2}}))(t)
	m := built.(*htmModel)
	m.Observe(0)
	for i := range settling {
		if m.ruler.Unit != 0 {
			t.Fatalf("the unit is chosen after %d values", i)
		}
		m.Observe(1000)
	}
	m.Observe(57000)
	if m.ruler.Unit != 1000 {
		t.Errorf("the unit is %v, should be 1000", m.ruler.Unit)
	}
	for range 3000 {
		m.Observe(10)
	}
	if f, ok := m.Predict(1); m.ruler.Unit != 10 || !ok || math.Abs(f-10) > 0.1 {
		t.Errorf("the unit is %v and %v is expected (known: %t), should be 10", m.ruler.Unit, f, ok)
	}
}

func TestHTMOfNothingExpectsNothing(t *testing.T) {
	m := must.Get(New(Spec{Type: "HTM"}))(t)
	for range settling {
		if _, ok := m.Predict(1); ok {
			t.Fatal("it knows what comes before it can")
		}
		m.Observe(0)
	}
	if f, ok := m.Predict(7); f != 0 || !ok {
		t.Errorf("it expects %v (known: %t) where there never was anything", f, ok)
	}
}

// anything is a series of the worst kind: from nothing to the most that is believed, with gaps.
func anything(t *rapid.T, n int) (series []float64) {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "chance"), 0))
	size := rapid.SampledFrom([]float64{1e-300, 1e-25, 1, 1e6, Most}).Draw(t, "size")
	for range n {
		v := size * r.Float64()
		switch r.IntN(20) {
		case 0:
			v = math.NaN()
		case 1:
			v = []float64{0, -1, math.Inf(1), Most, math.SmallestNonzeroFloat64, 100}[r.IntN(6)]
		}
		series = append(series, v)
	}
	return series
}

func smallHTM(t rapid.TB) *htmModel {
	m := must.Get(New(Spec{Type: "HTM", HTM: &HTM{Columns: 64, Active: 5, Cells: 3, Horizons: []int{1, 4}, Season: 50}}))(t)
	return m.(*htmModel)
}

func TestHTMStandsWhateverComes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := smallHTM(t)
		if rapid.Bool().Draw(t, "trained") {
			m.Train(anything(t, 100))
		}
		for i, v := range anything(t, 120) {
			m.Observe(v)
			if f, ok := m.Predict(1 + i%9); !(f >= 0) || math.IsInf(f, 1) {
				t.Fatalf("after %d values it expects %v (known: %t)", i, f, ok)
			}
		}
	})
}

// By a power of four all arithmetic is the same.
func TestHTMDoesNotDependOnTheUnit(t *testing.T) {
	small, large := smallHTM(t), smallHTM(t)
	r := rand.New(rand.NewPCG(6, 0))
	for i := range 1000 {
		v := float64(20 + r.IntN(60))
		small.Observe(v)
		large.Observe(v * 4096)
		a, known := small.Predict(1 + i%5)
		if b, ok := large.Predict(1 + i%5); a*4096 != b || known != ok {
			t.Fatalf("after %d values it expects %v, and %v of 4096 times as much", i, a, b)
		}
	}
}

func TestHTMOfWhatStandsStillIsExact(t *testing.T) {
	m := smallHTM(t)
	for range 200 {
		m.Observe(7)
	}
	for h := 1; h < 10; h++ {
		if f, ok := m.Predict(h); f != 7 || !ok {
			t.Errorf("%d ahead it expects %v (known: %t) of what was always 7", h, f, ok)
		}
	}
}
