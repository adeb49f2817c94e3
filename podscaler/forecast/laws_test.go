package forecast_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/podscaler/forecast"
	"github.com/plimsoll/plimsoll/testbed/must"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

// model makes a model, or ends the test.
func model(t rapid.TB, s forecast.Spec) forecast.Model {
	return must.Get(forecast.New(s))(t)
}

// of is a forecaster by name, for a season of so many periods and with as many lags.
func of(name string, season int) forecast.Spec {
	s := forecast.Spec{
		Type:        name,
		Seasonal:    &forecast.Seasonal{Season: season},
		AR:          &forecast.AR{Lags: season},
		HoltWinters: &forecast.HoltWinters{Season: season},
		Theta:       &forecast.Theta{Season: season},
		Ridge:       &forecast.Ridge{Season: season, Lags: max(season/4, 1), Harmonics: 2},
		QLearning:   &forecast.QLearning{Warmup: 2 * season, Episodes: 5, Seed: uint64(season)},
		SARSA:       &forecast.SARSA{Warmup: 2 * season, Episodes: 5, Seed: uint64(season)},
		HTM:         &forecast.HTM{Columns: 64, Cells: 4, Active: 4, History: season, Season: season, Horizons: []int{1, 5}},
		LSTM:        &forecast.LSTM{Units: 3, Lookback: 4, Rounds: 2, History: 64, Retrain: 32},
		DailyLSTM:   &forecast.LSTM{Units: 3, Lookback: 4, Rounds: 2, History: 64, Retrain: 32, Season: season},
	}
	switch strings.ToLower(name) {
	case "ensemble":
		s.Ensemble = &forecast.EnsembleSettings{Members: many(season, "AR", "Ridge", "HoltWinters", "Theta", "Seasonal", "Last")}
	case "race":
		s.Race = &forecast.RaceSettings{Entrants: many(season, "AR", "HoltWinters", "Last")}
	}
	return s
}

func many(season int, names ...string) (specs []forecast.Spec) {
	for _, name := range names {
		specs = append(specs, of(name, season))
	}
	return specs
}

// anySpec draws one of all registered forecasters.
func anySpec(t *rapid.T) forecast.Spec {
	return of(rapid.SampledFrom(forecast.Names()).Draw(t, "forecaster"), rapid.IntRange(2, 24).Draw(t, "season"))
}

// exact are the forecasters whose arithmetic is plain enough to be exact.
var exact = []string{"AR", "Ensemble", "HoltWinters", "Last", "Race", "Ridge", "Seasonal", "Theta"}

// anyExact draws one of those.
func anyExact(t *rapid.T) forecast.Spec {
	return of(rapid.SampledFrom(exact).Draw(t, "forecaster"), rapid.IntRange(2, 24).Draw(t, "season"))
}

// anyValue draws what may come: counts small and large, nothing, gaps and nonsense.
func anyValue() *rapid.Generator[float64] {
	return rapid.OneOf(
		rapid.Float64Range(0, 100), rapid.Float64Range(0, 1e12), rapid.Just(0.),
		rapid.SampledFrom([]float64{math.NaN(), -1, math.Inf(1), math.Inf(-1), math.MaxFloat64, forecast.Most, math.SmallestNonzeroFloat64}),
	)
}

func TestNoForecastIsNegativeOrNoNumber(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := model(t, anySpec(t))
		values := rapid.SliceOfN(anyValue(), 1, 120)
		if rapid.Bool().Draw(t, "trained") {
			forecast.Train(m, values.Draw(t, "history"))
		}
		c := mustCalibrate(t, m, 1, 7)
		for _, v := range values.Draw(t, "series") {
			c.Observe(v)
			h := rapid.IntRange(1, 40).Draw(t, "h")
			if f, ok := c.Predict(h); !(f >= 0) || math.IsInf(f, 1) {
				t.Fatalf("forecast %d ahead is %v (known: %t)", h, f, ok)
			}
			checkQuantiles(t, c.Forecast(rapid.IntRange(1, 7).Draw(t, "h of quantiles")))
		}
	})
}

func checkQuantiles(t *rapid.T, d forecast.Distribution) {
	if !d.Known {
		if !math.IsNaN(d.Quantile(0.5)) {
			t.Fatalf("the median of what is not known is %v", d.Quantile(0.5))
		}
		if !math.IsNaN(d.Above(1)) {
			t.Fatalf("%v of what is not known is above 1", d.Above(1))
		}
		return
	}
	before := 0.0
	for _, p := range []float64{0, 0.001, 0.03, 0.2, 0.5, 0.6, 0.93, 0.95, 0.96, 0.9999, 1} {
		q := d.Quantile(p)
		if !(q >= before) {
			t.Fatalf("quantile %v is %v, and a lower one %v", p, q, before)
		}
		before = q
	}
}

func TestForecastsOfWhatStandsStillAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyExact(t)
		level := rapid.OneOf(rapid.Float64Range(0, 1e9), rapid.Just(0.)).Draw(t, "level")
		c := mustCalibrate(t, model(t, s), 1)
		for range 60 + rapid.IntRange(0, 60).Draw(t, "n") {
			c.Observe(level)
		}
		h := rapid.IntRange(1, 100).Draw(t, "h")
		if f, ok := c.Predict(h); !ok || math.Abs(f-level) > 1e-9*level {
			t.Fatalf("%s expects %v (known: %t) %d periods after it was always %v", s.Type, f, ok, h, level)
		}
		if q := c.Forecast(1).Quantile(0.99); math.Abs(q-level) > 1e-9*level {
			t.Fatalf("%s: the 99 %% quantile is %v where it was always %v", s.Type, q, level)
		}
	})
}

func TestAPureSeasonIsLearntWithinTwo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		season := rapid.SliceOfN(rapid.Float64Range(0, 1000), 12, 36).Draw(t, "season")
		name := rapid.SampledFrom([]string{"Seasonal", "AR", "Ridge", "HoltWinters", "Theta", "Ensemble"}).Draw(t, "forecaster")
		m := model(t, of(name, len(season)))
		for i := range 2 * len(season) {
			m.Observe(season[i%len(season)])
		}
		swing := slices.Max(season) - slices.Min(season)
		for h := 1; h <= len(season); h++ {
			want := season[(h-1)%len(season)]
			if f, ok := m.Predict(h); !ok || math.Abs(f-want) > 0.02*swing+1e-6 {
				t.Fatalf("%s expects %v (known: %t) %d ahead, where the season has %v", name, f, ok, h, want)
			}
		}
	})
}

// Units must not matter: what counts by the minute must expect what counts by the second does.
// By a power of four all arithmetic is the same, roots and all.
func TestForecastsDoNotDependOnTheUnit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyExact(t)
		series := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(1, 1000), rapid.Just(math.NaN())), 30, 150).Draw(t, "series")
		small, large := mustCalibrate(t, model(t, s), 1, 3, 9), mustCalibrate(t, model(t, s), 1, 3, 9)
		for _, v := range series {
			small.Observe(v)
			large.Observe(v * 4096)
		}
		h := rapid.IntRange(1, 9).Draw(t, "h")
		a, b := small.Forecast(h), large.Forecast(h)
		if a.Known != b.Known || a.Mean*4096 != b.Mean || a.Known && a.Quantile(0.9)*4096 != b.Quantile(0.9) {
			t.Fatalf("%s expects %v, and %v of 4096 times as much", s.Type, a, b)
		}
	})
}

func mustCalibrate(t rapid.TB, m forecast.Model, horizons ...int) *forecast.Calibrated {
	return must.Get(forecast.NewCalibrated(m, forecast.Calibration{Horizons: horizons}))(t)
}

func TestTheSameSeriesGivesTheSameForecastsWhoeverAsks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySpec(t)
		once, often := model(t, s), model(t, s)
		series := rapid.SliceOfN(anyValue(), 1, 100).Draw(t, "series")
		for i, v := range series {
			once.Observe(v)
			often.Observe(v)
			often.Predict(1 + i%9)
		}
		for h := 1; h < 5; h++ {
			a, known := once.Predict(h)
			if b, ok := often.Predict(h); a != b || known != ok {
				t.Fatalf("%s expects %v, and %v where it was asked before", s.Type, a, b)
			}
		}
	})
}

// A load that comes after next to nothing widens what may come to a few times itself, and not to
// what it is in roots of nothing.
func TestALoadOutOfNothingIsNoReasonToExpectAnything(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	c := mustCalibrate(t, model(t, forecast.Spec{Type: "Last"}), 1)
	for range 10 {
		c.Observe(1e-9)
	}
	for range 30 {
		c.Observe(100 + 10*r.NormFloat64())
	}
	if q := c.Forecast(1).Quantile(0.99); q < 110 || q > 1000 {
		t.Errorf("the 99 %% quantile is %v, should be a few times 100", q)
	}
}

// What is above a capacity is the area between it and the quantiles, summed here step by step.
func TestWhatIsAboveACapacityIsTheAreaOverIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := mustCalibrate(t, model(t, forecast.Spec{Type: "Last"}), 1)
		for _, v := range rapid.SliceOfN(rapid.Float64Range(0, 100), 30, 60).Draw(t, "series") {
			c.Observe(v)
		}
		d := c.Forecast(1)
		capacity := rapid.Float64Range(0, 200).Draw(t, "capacity")
		want, steps := 0.0, 2000
		for i := range steps {
			want += max(d.Quantile((float64(i)+0.5)/float64(steps))-capacity, 0) / float64(steps)
		}
		if got := d.Above(capacity); math.Abs(got-want) > 0.001*(1+d.Quantile(1)) {
			t.Fatalf("%v above %v, should be %v", got, capacity, want)
		}
		if more := d.Above(capacity + 1); more > d.Above(capacity) {
			t.Fatalf("more is above %v than above %v", capacity+1, capacity)
		}
	})
}

// Adaptive conformal inference promises the coverage in the long run, for any errors.
func TestQuantilesCoverWhatTheySayThroughChanges(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	c := must.Get(forecast.NewCalibrated(model(t, forecast.Spec{Type: "Last"}), forecast.Calibration{Window: 500}))(t)
	over, n := map[float64]float64{}, 6000
	for i := range n {
		spread := []float64{5, 60, 1}[3*i/n]
		v := 500 + spread*r.NormFloat64()
		if d := c.Forecast(1); d.Known {
			for _, p := range []float64{0.05, 0.5, 0.95, 0.99} {
				if v > d.Quantile(p) {
					over[p]++
				}
			}
		}
		c.Observe(v)
	}
	for p, exceeded := range over {
		if got := 1 - exceeded/float64(n); math.Abs(got-p) > 0.01 {
			t.Errorf("the %v quantile covers %.3f", p, got)
		}
	}
}
