package capacity

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// must takes a profile that cannot be wrong.
func must(p Profile, err error) Profile {
	if err != nil {
		panic(err)
	}
	return p
}

// nodejs is the profile of a web server that was measured and published: 125x + 209.
var nodejs = must(Linear(125, 209))

func near(t testing.TB, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestScenario30ExcessAndProfile(t *testing.T) {
	for _, c := range []struct {
		load, excess float64
		want         int
	}{
		{1000, 0.85, 8},
		{1000, 0.90, 8},
		{1000, 0.95, 7},
		{1027.65, 0.85, 8}, // exactly, though the float is above it
		{0, 0.90, 2},       // minReplicas
	} {
		s := Sizing{Profile: nodejs, Excess: c.excess, Min: 2, Max: 40}
		if got, ok := s.Pods(c.load); !ok || got != c.want {
			t.Errorf("%v at excess %v: %d pods, ok %t, want %d", c.load, c.excess, got, ok, c.want)
		}
	}
}

func TestSizingStaysWithinBoundsAndKnowsWhatItDoesNotKnow(t *testing.T) {
	peaked := must(Quadratic(-10, 200, 0)) // 1000 at most, by 10 pods
	for _, c := range []struct {
		profile Profile
		load    float64
		want    int
		ok      bool
	}{
		{nodejs, 1, 1, true},
		{nodejs, 334, 1, true}, // all of one pod
		{nodejs, 334.001, 2, true},
		{nodejs, 1e300, 40, true},
		{nodejs, math.Inf(1), 40, true},
		{nodejs, -1, 0, true},
		{nodejs, math.NaN(), 0, false},
		{peaked, 1000, 10, true},
		{peaked, 1001, 40, true}, // no number of pods is enough: the most there may be
	} {
		s := Sizing{Profile: c.profile, Excess: 1, Min: 0, Max: 40}
		if got, ok := s.Pods(c.load); got != c.want || ok != c.ok {
			t.Errorf("%v: %d pods, ok %t, want %d, %t", c.load, got, ok, c.want, c.ok)
		}
	}
}

// The published loop inverts AP, the capacity per pod, which falls with the pods. For one load it
// asks for more the more there are, and for one count of pods it asks for fewer the more load there
// is.
func TestPrintedInverseIsTheWrongWayRound(t *testing.T) {
	perPod := func(rate float64) float64 { return 209 / (rate - 125) } // AP⁻¹ of 125 + 209/x
	printed := func(load float64, pods int) float64 { return perPod(load/float64(pods)) / 0.9 }

	near(t, "AP of AP⁻¹", nodejs.PerPod(3), 125+209/3.0, 1e-9)
	right := Sizing{Profile: nodejs, Excess: 0.9, Min: 1, Max: 40}
	for pods, want := range map[int]float64{5: 3.1, 6: 5.6, 7: 13.0} {
		near(t, "printed, 1000 requests", printed(1000, pods), want, 0.05)
		if got, _ := right.Pods(1000); got != 8 {
			t.Errorf("total inverted: %d pods, want 8 whatever there is now", got)
		}
	}
	if !(printed(1200, 6) < printed(1000, 6)) {
		t.Error("the printed inverse asks for more pods for more load after all")
	}
	less, _ := right.Pods(1000)
	if more, _ := right.Pods(1200); more <= less {
		t.Errorf("1200 requests: %d pods, 1000 requests: %d", more, less)
	}
}

func TestProfilesServeWhatTheySay(t *testing.T) {
	measured := must(Table(Point{2, 100}, Point{4, 180}, Point{8, 300}))
	peaked := must(Quadratic(-10, 200, 0))
	convex := must(Quadratic(5, -3, 10))
	for _, c := range []struct {
		name    string
		profile Profile
		pods    float64
		want    float64
	}{
		{"linear", nodejs, 1, 334},
		{"linear", nodejs, 5, 834},
		{"no pods", nodejs, 0, 0},
		{"half a pod", nodejs, 0.5, 167},
		{"table before its first row", measured, 1, 50},
		{"table on a row", measured, 4, 180},
		{"table between rows", measured, 6, 240},
		{"table past its last row", measured, 10, 360},
		{"one row", must(Table(Point{3, 30})), 9, 90},
		{"quadratic", peaked, 4, 640},
		{"quadratic at its peak", peaked, 10, 1000},
		{"quadratic past its peak", peaked, 15, 1000},
		{"quadratic that only rises", convex, 4, 78},
		{"quadratic without a square", must(Quadratic(0, 125, 209)), 5, 834},
	} {
		near(t, c.name, c.profile.Total(c.pods), c.want, 1e-9)
		if c.pods == math.Trunc(c.pods) && c.pods > 0 {
			near(t, c.name+" per pod", c.profile.PerPod(int(c.pods)), c.want/c.pods, 1e-9)
		}
	}
	if got := nodejs.PerPod(0); got != 0 {
		t.Errorf("no pods serve %v each", got)
	}
	if got := peaked.Inverse(1000.1); !math.IsInf(got, 1) {
		t.Errorf("above the peak: %v pods, want no number to be enough", got)
	}
}

func TestProfilesThatCannotBeInvertedAreRefused(t *testing.T) {
	of := func(_ Profile, err error) error { return err }
	for _, c := range []struct {
		err  error
		want string
	}{
		{of(Linear(0, 1)), "linear profile: perPod: must be above 0, was 0"},
		{of(Linear(math.NaN(), 1)), "linear profile: perPod: must be above 0, was NaN"},
		{of(Linear(1, math.Inf(1))), "linear profile: base: must be a number, was +Inf"},
		{of(Linear(10, -10)), "linear profile: must have a single pod serve more than 0, was 0"},
		{of(Quadratic(math.NaN(), 1, 1)), "quadratic profile: a: must be a number, was NaN"},
		{of(Quadratic(-1, 2, 9)), "quadratic profile: must rise at one pod, 2a+b above 0, was 0"},
		{of(Quadratic(-1, 5, -4)), "quadratic profile: must have a single pod serve more than 0, was 0"},
		{of(Table()), "table profile: must have a row at least, was empty"},
		{of(Table(Point{0, 5})), "table profile: row 1: pods: must be above 0, was 0"},
		{of(Table(Point{1, 5}, Point{2, 5})), "table profile: row 2: total: must be above 5, was 5"},
		{of(Table(Point{2, 5}, Point{2, 6})), "table profile: row 2: pods: must be above 2, was 2"},
		{of(Table(Point{2, math.NaN()})), "table profile: row 1: total: must be above 0, was NaN"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%v, want %s", c.err, c.want)
		}
	}
}

// profiles draws one of any kind.
var profiles = rapid.Custom(func(t *rapid.T) Profile {
	positive := rapid.Float64Range(0.1, 1000)
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		return must(Linear(positive.Draw(t, "perPod"), positive.Draw(t, "base")))
	case 1: // a peak at 60 pods at least
		b := positive.Draw(t, "b")
		return must(Quadratic(-b/rapid.Float64Range(120, 1e6).Draw(t, "narrow"), b, positive.Draw(t, "c")))
	case 2:
		return must(Quadratic(positive.Draw(t, "a"), positive.Draw(t, "b"), positive.Draw(t, "c")))
	}
	var rows []Point
	last := Point{}
	for range rapid.IntRange(1, 6).Draw(t, "rows") {
		last.Pods += rapid.IntRange(1, 9).Draw(t, "pods")
		last.Total += positive.Draw(t, "total")
		rows = append(rows, last)
	}
	return must(Table(rows...))
})

// P⁻¹ takes P back, P never falls, and as many pods as are asked for serve the load while one fewer
// do not.
func TestInverseTakesTotalBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := profiles.Draw(t, "profile")
		x := rapid.Float64Range(0, 50).Draw(t, "pods")
		if got := p.Inverse(p.Total(x)); !(math.Abs(got-x) <= 1e-6*(1+x)) {
			t.Fatalf("P⁻¹(P(%v)) = %v", x, got)
		}
		if y := rapid.Float64Range(0, 1e6).Draw(t, "other"); p.Total(max(x, y)) < p.Total(min(x, y)) {
			t.Fatalf("%v pods serve less than %v", max(x, y), min(x, y))
		}
		load := rapid.Float64Range(0, 1e5).Draw(t, "load")
		pods, ok := Sizing{Profile: p, Excess: 1, Max: 1 << 30}.Pods(load)
		if !ok || pods < 0 {
			t.Fatalf("%v: %d pods, ok %t", load, pods, ok)
		}
		peak := p.Total(1e9)
		if have := p.Total(float64(pods)); have < load-1e-6*(1+load) && load <= peak*(1-1e-6) {
			t.Fatalf("%d pods serve %v of %v", pods, have, load)
		}
		if pods > 0 && p.Total(float64(pods-1)) > load*(1+1e-6) {
			t.Fatalf("%d pods for %v, which one fewer serve", pods, load)
		}
	})
}
