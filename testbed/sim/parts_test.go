package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/timing"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
	"pgregory.net/rapid"
)

func TestAgendaKeepsTimeAndOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a agenda
		type entry struct{ at, n int }
		var want, got []entry
		for i, at := range rapid.SliceOf(rapid.IntRange(0, 9)).Draw(t, "times") {
			e := entry{at, i}
			want = append(want, e)
			a.add(time.Duration(at), func() { got = append(got, e) })
		}
		slices.SortStableFunc(want, func(a, b entry) int { return a.at - b.at })
		for a.next() != never {
			a.pop().do()
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func TestDeparturesAreAlwaysTheEarliest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d departures
		servers := make([]*server, 12)
		for i := range servers {
			servers[i] = &server{id: i, place: -1}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			s := rapid.SampledFrom(servers).Draw(t, "server")
			if s.place >= 0 && rapid.Bool().Draw(t, "remove") {
				d.remove(s)
			} else {
				s.due = time.Duration(rapid.IntRange(0, 20).Draw(t, "due"))
				d.fix(s)
			}
			first := (*server)(nil)
			for _, s := range servers {
				if s.place >= 0 && (first == nil || d.less(s, first)) {
					first = s
				}
				if s.place >= 0 && d[s.place] != s {
					t.Fatalf("server %d is not at its place", s.id)
				}
			}
			if first != nil && d[0] != first || first == nil && len(d) > 0 {
				t.Fatalf("the heap's first is not the earliest")
			}
		}
	})
}

func TestQuantilesAgreeWithSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.Float32Range(0.001, 100), 1, 1000).Draw(t, "values")
		q := rapid.SampledFrom([]float64{0.01, 0.5, 0.9, 0.99, 1}).Draw(t, "q")
		sorted := slices.Clone(v)
		slices.Sort(sorted)
		want := float64(sorted[max(0, int(math.Ceil(q*float64(len(v))-1e-9))-1)])
		var s Sketch
		for _, x := range v {
			s.Add(float64(x))
		}
		if got := s.Quantile(q); math.Abs(got-want) > 0.001*want {
			t.Fatalf("sketch: %v-quantile is %v, want %v to 0.1 %%", q, got, want)
		}
		if got := quantile(v, q); got != want {
			t.Fatalf("%v-quantile is %v, want %v", q, got, want)
		}
	})
}

func TestSketchHoldsAnyLatency(t *testing.T) {
	var s Sketch
	if !math.IsNaN(s.Quantile(0.5)) {
		t.Error("an empty sketch has a quantile")
	}
	for _, v := range []float64{0, 1e-9, 1e9} {
		s.Add(v)
	}
	if s.Count() != 3 {
		t.Errorf("counted %d of 3", s.Count())
	}
}

// The edges Istio ships have none between 250 and 500 ms: requests that all take 260 ms look
// as if the 0.9-quantile was at 475 ms. The good fraction under 250 ms is right.
func TestBucketEdgesDistortTheQuantile(t *testing.T) {
	ms := time.Millisecond
	h := newHistogram([]time.Duration{100 * ms, 250 * ms, 500 * ms, 1000 * ms}, 15*time.Second, time.Minute)
	h.scrape(0)
	for range 1000 {
		h.add(260 * ms)
	}
	if h.window(0, time.Minute) != nil {
		t.Error("one scrape makes a window")
	}
	h.scrape(15 * time.Second)
	grown := h.window(15*time.Second, time.Minute)
	if got, ok := bucketQuantile(0.9, h.edges, grown); !ok || math.Abs(got-0.475) > 1e-9 {
		t.Errorf("0.9-quantile %v, %v; want 0.475", got, ok)
	}
	if got, within, ok := goodFraction(300*ms, h.edges, grown); !ok || got != 0 || within != 250*ms {
		t.Errorf("good fraction %v within %v, %v; want 0 within 250ms", got, within, ok)
	}
	if got, within, ok := goodFraction(50*ms, h.edges, grown); ok {
		t.Errorf("good fraction %v within %v without an edge below the target, should be unknown", got, within)
	}
	h.add(5 * time.Second)
	h.scrape(30 * time.Second)
	if got, ok := bucketQuantile(0.5, h.edges, h.window(30*time.Second, 15*time.Second)); !ok || got != 1 {
		t.Errorf("beyond the last edge: %v, %v; want the edge, 1", got, ok)
	}
	if _, ok := bucketQuantile(0.9, h.edges, make([]uint64, 5)); ok {
		t.Error("no requests have a quantile")
	}
}

func TestCurveHasLinesAndSteps(t *testing.T) {
	c := Curve{{time.Minute, 10}, {2 * time.Minute, 20}, {2 * time.Minute, 5}, {3 * time.Minute, 5}}
	for at, want := range map[time.Duration]float64{
		0: 10, time.Minute: 10, 90 * time.Second: 15, 2 * time.Minute: 5, time.Hour: 5,
	} {
		if got := c.At(at); got != want {
			t.Errorf("at %s: %v, want %v", at, got, want)
		}
	}
	if c.flat() || !Flat(3).flat() || Curve(nil).At(0) != 0 || c.Max() != 20 {
		t.Error("flat, empty or highest level is wrong")
	}
}

func TestQueueKeepsItsOrderWhileItGrows(t *testing.T) {
	var q queue
	rng := rand.New(rand.NewPCG(1, 2))
	in, out := 0, 0
	for range 5000 {
		if q.n == 0 || rng.IntN(5) < 3 {
			q.push(wake{at: time.Duration(in)})
			in++
			continue
		}
		if got := q.pop(); got.at != time.Duration(out) {
			t.Fatalf("popped %d, want %d", got.at, out)
		}
		out++
	}
}

func TestStreamsAreTheirOwn(t *testing.T) {
	a, b := timing.Stream(7, "boot"), timing.Stream(7, "boot")
	if a.Uint64() != b.Uint64() {
		t.Error("one name and seed make two streams")
	}
	if timing.Stream(7, "boot").Uint64() == timing.Stream(7, "clone").Uint64() || timing.Stream(8, "boot").Uint64() == timing.Stream(7, "boot").Uint64() {
		t.Error("another name or seed makes the same stream")
	}
}
