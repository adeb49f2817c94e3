package testbed

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

func TestStatsOfKnownSamples(t *testing.T) {
	for _, c := range []struct {
		values              []float64
		mean, sd, low, high float64
	}{
		{[]float64{4, 4, 4}, 4, 0, 4, 4},
		// Two values: the interval is 12.706 standard errors wide on each side.
		{[]float64{1, 3}, 2, 1.4142, 2 - 12.7062, 2 + 12.7062},
		// Student's data on sleep, second drug: mean 2.33, sd 2.0022, t(9) 2.2622.
		{[]float64{1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4}, 2.33, 2.0022, 0.8977, 3.7623},
	} {
		s := statOf(c.values)
		for _, v := range [][2]float64{{float64(s.Mean), c.mean}, {float64(s.SD), c.sd}, {float64(s.Low), c.low}, {float64(s.High), c.high}} {
			if math.Abs(v[0]-v[1]) > 1.01e-4 {
				t.Errorf("%v: got %+v, want mean %g, sd %g, %g to %g", c.values, s, c.mean, c.sd, c.low, c.high)
				break
			}
		}
	}
}

func TestOneTrialTellsNothingOfTheSpread(t *testing.T) {
	s := statOf([]float64{7})
	if s.Mean != 7 || !math.IsNaN(float64(s.SD)) || !math.IsNaN(float64(s.Low)) || !math.IsNaN(float64(s.High)) {
		t.Errorf("got %+v", s)
	}
}

func TestUnknownValuesMakeTheMeanUnknown(t *testing.T) {
	if s := statOf([]float64{1, math.NaN(), 3}); !math.IsNaN(float64(s.Mean)) {
		t.Errorf("got %+v", s)
	}
}

// The quantile falls with the degrees of freedom, without a step where the table ends.
func TestStudentsQuantileFallsTowardsTheNormalOne(t *testing.T) {
	for d := 2; d < 400; d++ {
		if a, b := student(d-1), student(d); b >= a || b < 1.95996 {
			t.Errorf("with %d degrees it is %g, with %d %g", d-1, a, d, b)
		}
	}
	for d, want := range map[int]float64{21: 2.0796, 30: 2.0423, 60: 2.0003, 120: 1.9799} {
		if got := student(d); math.Abs(got-want) > 1e-4 {
			t.Errorf("with %d degrees it is %.4f, want %.4f", d, got, want)
		}
	}
}

func TestStatsMoveAndStretchWithTheValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-100, 100), 2, 12).Draw(t, "values")
		by := rapid.Float64Range(0.5, 4).Draw(t, "by")
		moved := make([]float64, len(values))
		for i, v := range values {
			moved[i] = by*v + 10
		}
		a, b := statOf(values), statOf(moved)
		near := func(x, y float64) bool { return math.Abs(x-y) < 1e-3 }
		if !near(by*float64(a.Mean)+10, float64(b.Mean)) || !near(by*float64(a.SD), float64(b.SD)) || !near(by*float64(a.High)+10, float64(b.High)) {
			t.Fatalf("%+v times %g plus 10 is %+v", a, by, b)
		}
		if a.Low > a.Mean || a.High < a.Mean {
			t.Fatalf("the mean lies outside its interval: %+v", a)
		}
	})
}

func TestNumbersAreShownToWhatCanBeSeen(t *testing.T) {
	for _, c := range []struct {
		v      float64
		digits int
		want   string
	}{
		{120.4, 1, "120"}, {20.06, 1, "20.1"}, {0.3, 1, "0.3"}, {0.0213, 1, "0.021"}, {-0.004, 2, "-0.0040"},
		{0, 1, "0.0"}, {0.004, 0, "0"}, {math.NaN(), 1, "–"}, {math.Inf(1), 1, "–"},
	} {
		if got := Show(c.v, c.digits); got != c.want {
			t.Errorf("%v with %d digits is shown as %s, want %s", c.v, c.digits, got, c.want)
		}
	}
}
