package signals

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/podscaler"
)

var inf = math.Inf(1)

// The quantile is the one that Prometheus answers; testbed/peers/prometheus compares them at
// random.
func TestQuantilesAndGoodFractions(t *testing.T) {
	istio := map[float64]float64{100: 0, 250: 5, 500: 100, 1000: 100, inf: 100}
	for _, c := range []struct {
		name           string
		below          map[float64]float64
		q, target      float64
		quantile, good float64
	}{
		{"between two edges, on a straight line", map[float64]float64{1: 50, 2: 100, inf: 100}, 0.75, 1, 1.5, 0.5},
		{"the first bucket begins at 0", map[float64]float64{1: 100, 2: 100, inf: 100}, 0.5, 1, 0.5, 1},
		{"an edge of 0 is all there is to say", map[float64]float64{0: 100, 2: 100, inf: 100}, 0.5, 1, 0, 1},
		{"beyond the highest edge, that is what is known", map[float64]float64{1: 10, 2: 20, inf: 100}, 0.9, 2, 2, 0.2},
		{"95 % at 260 of 300 look like 473, and good counts only what is surely good", istio, 0.9, 300, 250 + 250*85.0/95, 0.05},
		{"an edge that was rounded is still the target", map[float64]float64{0.1 + 0.2: 9, 1: 10, inf: 10}, 0.5, 0.3, 0.3 * 5 / 9, 0.9},
		{"counts that fall were taken a moment apart", map[float64]float64{1: 50, 2: 49, inf: 100}, 0.4, 2, 0.8, 0.5},
		{"no request", map[float64]float64{1: 0, inf: 0}, 0.9, 1, math.NaN(), math.NaN()},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHistogram(c.below)
			if got := h.quantile(c.q); !near(got, c.quantile) {
				t.Errorf("quantile %v, want %v", got, c.quantile)
			}
			if got := h.good(c.target); !near(got, c.good) {
				t.Errorf("good %v, want %v", got, c.good)
			}
		})
	}
}

func near(a, b float64) bool {
	return math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b))
}

func TestBucketsWithoutAnEndMakeNoHistogram(t *testing.T) {
	for _, below := range []map[float64]float64{nil, {inf: 3}, {1: 3, 2: 4}, {math.NaN(): 1, inf: 2}} {
		if h := newHistogram(below); h != nil {
			t.Errorf("%v made %v", below, h)
		}
	}
}

func TestATargetWithoutAnEdgeIsToldWithTheDoubt(t *testing.T) {
	for _, c := range []struct {
		name   string
		below  map[float64]float64
		target float64
		unit   time.Duration
		want   string
	}{
		{"an edge at the target", map[float64]float64{100: 1, 300: 1, inf: 2}, 300, time.Millisecond, ""},
		{"an edge at the target, in seconds", map[float64]float64{0.1 + 0.2: 1, inf: 2}, 0.3, time.Second, ""},
		{
			"the quantile beside the target", map[float64]float64{100: 0, 250: 5, 500: 100, inf: 100}, 300, time.Millisecond,
			"no bucket edge is at the target 300ms (the next are 250ms and 500ms): good and the error budget count what took up to 250ms only; " +
				"the p90 lies between 250ms and 500ms, and what is read may be up to 250ms off",
		},
		{
			"the quantile above all edges", map[float64]float64{1: 0, inf: 7}, 2, time.Second,
			"no bucket edge is at the target 2s (the next are 1s and +Inf): good and the error budget count what took up to 1s only; " +
				"the p90 lies above the highest edge, is read as 1s, and may be any longer",
		},
		{
			"no request yet", map[float64]float64{1: 0, inf: 0}, 0.5, time.Second,
			"no bucket edge is at or below the target 500ms (the first is 1s), so good is unknown: add an edge there, or move the target to one",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, newHistogram(c.below).noEdge(0.9, c.target, c.unit)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// Law: what is read is never further from the truth than the finding says, and good never
// claims more than is true.
func TestTheDoubtHoldsForAllRequests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		edges := rapid.SliceOfNDistinct(rapid.IntRange(1, 1000), 1, 12, rapid.ID).Draw(t, "edges")
		slices.Sort(edges)
		took := rapid.SliceOfN(rapid.IntRange(1, 1200), 1, 200).Draw(t, "took")
		slices.Sort(took)
		q := rapid.Float64Range(0.01, 0.99).Draw(t, "q")
		target := rapid.IntRange(1, 1000).Draw(t, "target")

		below := map[float64]float64{inf: float64(len(took))}
		for _, e := range edges {
			n, _ := slices.BinarySearch(took, e+1)
			below[float64(e)] = float64(n)
		}
		h := newHistogram(below)
		n, _ := slices.BinarySearch(took, target+1)
		if truth := float64(n) / float64(len(took)); h.good(float64(target)) > truth+1e-9 {
			t.Fatalf("good %v claims more than the truth %v", h.good(float64(target)), truth)
		}
		truth := float64(took[int(math.Ceil(q*float64(len(took))-1e-9))-1])
		i := h.bucket(q * h.total())
		read := h.quantile(q)
		if math.IsInf(h.edges[i], 1) {
			if truth <= h.edges[i-1] {
				t.Fatalf("the quantile is %v, not above the highest edge %v", truth, h.edges[i-1])
			}
			return
		}
		lower := 0.0
		if i > 0 {
			lower = h.edges[i-1]
		}
		if truth <= lower || truth > h.edges[i] || math.Abs(read-truth) > h.edges[i]-lower+1e-9 {
			t.Fatalf("the quantile is %v, read as %v between %v and %v", truth, read, lower, h.edges[i])
		}
	})
}

func TestSilenceIsNoFaultWhereNobodyAsks(t *testing.T) {
	s := &Source{SLO: podscaler.SLO{Quantile: 0.9, Target: time.Second, Window: time.Minute}}
	empty := newHistogram(map[float64]float64{1: 0, inf: 0})
	for _, c := range []struct {
		name     string
		arrivals podscaler.Reading
		gap      bool
		why      string
	}{
		{"nobody asks", podscaler.Known(0), false, "there was no request in 1m0s"},
		{"somebody asks, and no answer is measured", podscaler.Known(3), true, "the histogram counts no request"},
		{"nobody knows", podscaler.Reading{}, true, "the histogram counts no request"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &measurement{window: podscaler.Window{Arrivals: c.arrivals}}
			m.histogram(empty, s, time.Second)
			m.settle(s)
			if want := (podscaler.Reading{Why: c.why}); m.gap != c.gap || m.window.Latency != want || m.window.Good != want {
				t.Errorf("got gap %t and %+v, want %t and %+v", m.gap, m.window, c.gap, want)
			}
		})
	}
}

// Where no edge is at the target, good is of the edge that the finding names, and exact for that.
func TestGoodTellsWhatItIsWithin(t *testing.T) {
	own := Spec{Queries: Queries{Good: "mine"}}
	for _, c := range []struct {
		name   string
		spec   Spec
		target time.Duration
		within time.Duration // 0 is the target
		good   podscaler.Reading
	}{
		{"an edge at the target", Spec{}, 250 * time.Millisecond, 0, podscaler.Known(0.9)},
		{"an edge below it", Spec{}, 300 * time.Millisecond, 250 * time.Millisecond, podscaler.Known(0.9)},
		{"no edge below it", Spec{}, 50 * time.Millisecond, 0, podscaler.Reading{Why: "no bucket edge is at or below the target 50ms " +
			"(the first is 100ms), so good is unknown: add an edge there, or move the target to one; " +
			"the p50 lies between 0s and 100ms, and what is read may be up to 100ms off"}},
		{"a query of the owner's", own, 300 * time.Millisecond, 0, podscaler.Reading{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &Source{SLO: podscaler.SLO{Quantile: 0.5, Target: c.target, Window: time.Minute}, Spec: c.spec}
			var m measurement
			m.histogram(newHistogram(map[float64]float64{100: 50, 250: 90, 500: 100, inf: 100}), s, time.Millisecond)
			if m.window.Good != c.good || m.window.GoodWithin != c.within || m.gap {
				t.Errorf("good is %+v within %s, should be %+v within %s", m.window.Good, m.window.GoodWithin, c.good, c.within)
			}
		})
	}
}
