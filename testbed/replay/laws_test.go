package replay

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
	"github.com/plimsoll/plimsoll/testbed/must"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

// world is any setting that can be, with a load that is nothing, little, or more than there can be.
func world(t *rapid.T) (*Trace, int, Setting) {
	s := Default()
	if rapid.Bool().Draw(t, "flattening profile") {
		s.Profile = must.Get(capacity.Quadratic(-2, 130, 20))(t)
	}
	s.Excess = rapid.Float64Range(0.3, 1).Draw(t, "excess")
	s.Tolerance = rapid.SampledFrom([]float64{0, 0.1}).Draw(t, "tolerance")
	s.Min = rapid.IntRange(1, 4).Draw(t, "min")
	s.Max = s.Min + rapid.IntRange(0, 30).Draw(t, "more")
	s.Timeout = rapid.IntRange(1, 4).Draw(t, "timeout")
	s.Stabilization = rapid.IntRange(1, 3).Draw(t, "stabilization")
	s.Price = rapid.Float64Range(0.001, 0.9).Draw(t, "price")
	s.Quantile = rapid.Float64Range(0.01, 0.99).Draw(t, "quantile")
	s.Season = 20
	count := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 2e5))
	counts := rapid.SliceOfN(count, 2, 120).Draw(t, "counts")
	return &Trace{Name: "any", Counts: counts}, rapid.IntRange(0, len(counts)-1).Draw(t, "train"), s
}

// quick are the kinds that laws are tried on: each way to set pods, and none that trains for long.
var quick = []string{"hpa", "hpa-v2", "predictive", "hpa-plus", "naive", "ar", "ensemble-quantile", "ensemble-marginal", "oracle"}

func anyKind(t *rapid.T) Kind {
	return must.Get(Find(rapid.SampledFrom(quick).Draw(t, "kind")))(t)
}

// What arrives is served, lost or waiting, and pods are within their bounds.
func TestNothingIsLostFromTheBooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trace, train, s := world(t)
		podMinutes := 0
		r := must.Get(Play(trace, train, anyKind(t), s, func(i int, p capacity.Period, _, _ string) {
			if p.Pods < s.Min || p.Pods > s.Max {
				t.Fatalf("minute %d: %d pods, not from %d to %d", i, p.Pods, s.Min, s.Max)
			}
			podMinutes += p.Pods
		}))(t)
		sum := 0.0
		for _, n := range trace.Counts[train:] {
			sum += n
		}
		slack := 1e-9 * (1 + sum)
		if math.Abs(r.Arrived-sum) > slack || math.Abs(r.Served+r.Lost+r.Waiting-sum) > slack {
			t.Fatalf("%v requests: %+v", sum, r)
		}
		if r.PodMinutes != podMinutes || r.Minutes != len(trace.Counts)-train || r.Turns > r.Moves || r.Moves > r.Minutes {
			t.Fatalf("%d pod-minutes: %+v", podMinutes, r)
		}
	})
}

// Who knows what comes loses nothing, even with no headroom.
func TestTheOracleLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trace, train, s := world(t)
		s = s.With(Excess, 1)
		s.Profile, s.Max = Default().Profile, 1e6
		k := must.Get(Find("oracle"))(t)
		r, err := Play(trace, train, k, s, nil)
		if err != nil || r.Lost > 1e-6 || r.Waiting > 1e-6 {
			t.Fatalf("%+v, %v", r, err)
		}
	})
}

// Where requests can wait a minute, and there may be as many pods as it takes, no forecast is so
// wrong that any are lost.
func TestWhoeverWaitsIsServedInTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trace, train, s := world(t)
		s.Timeout++
		s.Profile, s.Max = Default().Profile, 1e6
		k := must.Get(Find(rapid.SampledFrom([]string{"naive", "ar", "ensemble", "ensemble-quantile", "ensemble-marginal"}).Draw(t, "kind")))(t)
		r, err := Play(trace, train, k, s, nil)
		if err != nil || r.Lost > 1e-6 {
			t.Fatalf("%+v, %v", r, err)
		}
	})
}

// However a load is cut into pieces, the run is the same.
func TestPiecesMakeTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trace, train, s := world(t)
		k := anyKind(t)
		whole := must.Get(Play(trace, train, k, s, nil))(t)
		p := must.Get(NewPlayer(k, s, nil))(t)
		must.Do(t, p.Warm(trace.Counts[:train]))
		for rest := trace.Counts[train:]; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			must.Do(t, p.Feed(rest[:n]...))
			rest = rest[n:]
		}
		whole.Trace = ""
		if diff := cmp.Diff(whole, p.Result()); diff != "" {
			t.Fatalf("(-whole +in pieces):\n%s", diff)
		}
	})
}

// The same trace, setting and seed give the same numbers, whoever scales.
func TestTheSameRunGivesTheSameNumbers(t *testing.T) {
	trace, s := MMPP(1, 4), Default()
	s.Season = 60
	trace.Counts = trace.Counts[:400]
	for _, k := range Kinds() {
		a := must.Get(Play(trace, 300, k, s, nil))(t)
		b, err := Play(trace, 300, k, s, nil)
		if diff := cmp.Diff(a, b); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", k.Name, err, diff)
		}
	}
}

// What is paid more for is not had in smaller amounts: on a profile where each pod adds the same, a
// lower price never sets fewer pods, nor a higher quantile.
func TestCheaperPodsAreNeverFewer(t *testing.T) {
	trace, s := MMPP(2, 5), Default()
	scaled := must.Get(Scale(trace, MinutesADay, 5, s))(t)
	for name, values := range map[string][]float64{
		"ensemble-marginal": {0.9, 0.5, 0.2, 0.1, 0.05, 0.01, 0.001},
		"ensemble-quantile": {0.1, 0.5, 0.8, 0.95, 0.99},
		"ensemble":          {1.5, 1, 0.9, 0.7, 0.5},
	} {
		results := must.Get(Sweep(scaled, MinutesADay, kind(t, name), s, values))(t)
		for i := 1; i < len(results); i++ {
			if a, b := results[i-1], results[i]; b.PodMinutes < a.PodMinutes || b.Lost > a.Lost {
				t.Errorf("%s: %d pod-minutes and %.0f lost at %v, %d and %.0f at %v",
					name, a.PodMinutes, a.Lost, a.Value, b.PodMinutes, b.Lost, b.Value)
			}
		}
	}
}

// Pods that are full serve what they can, however much comes, so that who goes by what they served
// grows by a little at a time. Whoever forecasts goes by what comes: what became of it changes
// nothing.
func TestSizingIsByWhatComesAndNotByWhatIsServed(t *testing.T) {
	forecasting := []string{"naive", "seasonal", "ar", "holtwinters", "theta", "ridge", "ensemble", "ensemble-quantile", "ensemble-marginal", "oracle"}
	rapid.Check(t, func(t *rapid.T) {
		trace, train, s := world(t)
		k := must.Get(Find(rapid.SampledFrom(forecasting).Draw(t, "kind")))(t)
		idle, full := scalerOf(t, k, s), scalerOf(t, k, s)
		for _, both := range []Scaler{idle, full} {
			if w, ok := both.(Warmed); ok {
				w.Warm(rates(trace.Counts[:train]))
			}
		}
		for i, load := range rates(trace.Counts[train:]) {
			a := idle.Next(capacity.Period{Pods: s.Max, Arrived: load, InSystem: load, Served: load, Use: 0.1})
			b := full.Next(capacity.Period{Pods: s.Min, Arrived: load, InSystem: load, Served: load / 9, Use: 1})
			if a != b {
				t.Fatalf("minute %d: %s sets %d pods where all was served, and %d where a ninth was", i, k.Name, a, b)
			}
		}
	})
}

func scalerOf(t *rapid.T, k Kind, s Setting) Scaler {
	return must.Get(k.New(s))(t)
}
