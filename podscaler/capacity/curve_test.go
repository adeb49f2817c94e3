package capacity_test

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
	"github.com/plimsoll/plimsoll/testbed/must"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

func TestACurveIsFoundAgainFromItsPoints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := capacity.Fitted{
			A: rapid.Float64Range(-2, 2).Draw(t, "a"), B: rapid.Float64Range(1, 300).Draw(t, "b"), C: rapid.Float64Range(-100, 300).Draw(t, "c"),
		}
		from := rapid.IntRange(1, 200).Draw(t, "from")
		var bent, straight []capacity.Point
		for x := from; x < from+rapid.IntRange(3, 12).Draw(t, "points"); x++ {
			v := float64(x)
			bent = append(bent, capacity.Point{Pods: x, Total: 1e6 + (want.A*v+want.B)*v + want.C})
			straight = append(straight, capacity.Point{Pods: x, Total: 1e6 + want.B*v + want.C})
		}
		q := must.Get(capacity.FitQuadratic(bent))(t)
		l := must.Get(capacity.FitLinear(straight))(t)
		for _, p := range bent {
			if got := q.At(float64(p.Pods)); math.Abs(got-p.Total) > 1e-3 {
				t.Fatalf("parabola at %d is %v, should be %v; fitted %+v", p.Pods, got, p.Total, q)
			}
		}
		for _, p := range straight {
			if got := l.At(float64(p.Pods)); math.Abs(got-p.Total) > 1e-3 {
				t.Fatalf("line at %d is %v, should be %v; fitted %+v", p.Pods, got, p.Total, l)
			}
		}
		if math.Abs(q.A-want.A) > 1e-4 || q.Residual > 1e-3 || l.Residual > 1e-3 || !(l.R2 > 0.9999 && l.R2 <= 1) {
			t.Fatalf("fitted %+v and %+v of %+v", q, l, want)
		}
	})
}

// No other curve of its kind comes nearer.
func TestAFitLeavesTheLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var points []capacity.Point
		for x := 1; x <= 8; x++ {
			points = append(points, capacity.Point{Pods: x, Total: 50*float64(x) + rapid.Float64Range(0, 40).Draw(t, "noise")})
		}
		best := must.Get(capacity.FitQuadratic(points))(t)
		line := must.Get(capacity.FitLinear(points))(t)
		other := best
		other.A += rapid.Float64Range(-1, 1).Draw(t, "da")
		other.B += rapid.Float64Range(-1, 1).Draw(t, "db")
		other.C += rapid.Float64Range(-1, 1).Draw(t, "dc")
		sum := 0.0
		for _, p := range points {
			sum += math.Pow(p.Total-other.At(float64(p.Pods)), 2)
		}
		if rest := math.Sqrt(sum / 8); rest < best.Residual-1e-9 || line.Residual < best.Residual-1e-9 {
			t.Fatalf("%+v leaves %v, the fit %+v, the line %+v", other, rest, best, line)
		}
		if !(line.R2 >= -1e-9 && line.R2 <= best.R2+1e-9 && best.R2 <= 1) {
			t.Fatalf("the line explains %v, the parabola, which may be straight, %v", line.R2, best.R2)
		}
	})
}

func TestRSquaredIsThePartThatTheLineExplains(t *testing.T) {
	for _, c := range []struct {
		points []capacity.Point
		want   float64
	}{
		{[]capacity.Point{{1, 10}, {2, 20}, {4, 40}}, 1},
		// The line is 5·x + 10/3: it leaves 50/3 of 200/3.
		{[]capacity.Point{{1, 10}, {2, 10}, {3, 20}}, 0.75},
		{[]capacity.Point{{1, 10}, {2, 20}, {3, 10}}, 0},
		{[]capacity.Point{{1, 10}, {2, 10}, {3, 10}}, math.NaN()},
	} {
		got := must.Get(capacity.FitLinear(c.points))(t).R2
		if !(math.Abs(got-c.want) < 1e-12) && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("of %v it is %v, want %v", c.points, got, c.want)
		}
	}
}

func TestTooFewPointsAreNotFitted(t *testing.T) {
	for _, c := range []struct {
		name   string
		fit    func([]capacity.Point) (capacity.Fitted, error)
		points []capacity.Point
		want   string
	}{
		{"none", capacity.FitLinear, nil, "linear fit: must have points of 2 different numbers of pods at least, had 0"},
		{"one number of pods", capacity.FitLinear, []capacity.Point{{3, 10}, {3, 11}, {3, 12}}, "linear fit: must have points of 2 different numbers of pods at least, had 1"},
		{"two for a parabola", capacity.FitQuadratic, []capacity.Point{{1, 10}, {2, 20}, {2, 21}}, "quadratic fit: must have points of 3 different numbers of pods at least, had 2"},
		{"no pods", capacity.FitLinear, []capacity.Point{{0, 0}, {1, 10}}, "linear fit: point 1: pods: must be 1 at least, was 0"},
		{"no number", capacity.FitLinear, []capacity.Point{{1, math.NaN()}, {2, 10}}, "linear fit: point 1: total: must be 0 or more, was NaN"},
	} {
		if _, err := c.fit(c.points); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: fault is %v, should be %s", c.name, err, c.want)
		}
	}
}

func TestDemandIsWhatRequestsTake(t *testing.T) {
	var d capacity.Demand
	for i := range 100 {
		if each, ok := d.PerRequest(); ok != (i >= 3) || ok && math.Abs(each-0.05) > 1e-12 {
			t.Fatalf("after %d periods a request takes %v (known %v)", i, each, ok)
		}
		rate := float64(10 + i%7)
		d.Observe(0.05*rate, rate, false)
		d.Observe(math.NaN(), rate, false)
		d.Observe(1, 0, false)
	}
	p, ok := d.Profile(0.5)
	if got := p.Total(4); !ok || math.Abs(got-40) > 1e-9 {
		t.Errorf("four pods of half a core serve %v (known %v), should 40", got, ok)
	}
}

// Pods that are saturated serve less than comes: requests look cheaper than they are.
func TestSaturatedPodsTeachNoLessThanIsKnown(t *testing.T) {
	var d capacity.Demand
	d.Observe(2, 400, true)
	for range 5 {
		d.Observe(2, 40, false)
	}
	d.Observe(2, 400, true)
	if each, ok := d.PerRequest(); !ok || math.Abs(each-0.05) > 1e-12 {
		t.Fatalf("a request takes %v (known %v), should 0.05", each, ok)
	}
	// Requests have become three times as dear: pods sized for 0.05 are full, and more of them are,
	// too, until there are enough.
	for range 40 {
		each, _ := d.PerRequest()
		pods := math.Ceil(100 * each / 0.5 / 0.9)
		use := min(pods*0.5, 100*0.15)
		d.Observe(use, 100, use >= 0.95*pods*0.5)
	}
	if each, _ := d.PerRequest(); each < 0.14 || each > 0.16 {
		t.Fatalf("a request takes %v after a while, should come near 0.15", each)
	}
}
