package policy_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// swinging is a load with the time of day in it, and some noise.
func swinging(at time.Time) float64 { return ofDay(int(at.Sub(now) / time.Minute)) }

// through has a policy decide once a minute from one time to another, and returns its last
// forecast.
func through(p podscaler.Policy, from, to time.Time) (r podscaler.Recommendation) {
	w := usual()
	for at := from; !at.After(to); at = at.Add(time.Minute) {
		r = p.Desired(&podscaler.View{
			Now: at, Workload: &w, Replicas: 8, Pods: running(8, 0.3),
			Window: podscaler.Window{Arrivals: podscaler.Known(swinging(at)), Over: time.Minute},
		})
	}
	return r
}

// history is what a policy lacks, as it was until a time. Before the load began nothing came.
func history(t *testing.T, p podscaler.Policy, began, end time.Time) *podscaler.History {
	t.Helper()
	w := usual()
	lack := p.(podscaler.Learner).Lacks(&w)
	if lack.Count == 0 {
		t.Fatal("it lacks nothing")
	}
	h := &podscaler.History{End: end.Truncate(lack.Step), Step: lack.Step, Over: lack.Over}
	for i := lack.Count - 1; i >= 0; i-- {
		v := -1.0
		if at := h.End.Add(-time.Duration(i) * lack.Step); !at.Before(began) {
			v = swinging(at)
		}
		h.Arrivals = append(h.Arrivals, v)
	}
	return h
}

// One that begins in the middle of a week, with the history of it, foresees what one does that ran
// all the time, from its first decision on: to the last bit in the mean, and nearly so in
// quantiles.
func TestAForecastWithHistoryIsThatOfARunThroughAllTheTime(t *testing.T) {
	for name, c := range map[string]policy.Predictive{
		"usual":                {Horizon: 5, Profile: perPod(20)},
		"quantile":             {Horizon: 5, Quantile: new(0.9), Profile: perPod(20)},
		"race":                 {Forecaster: "Race", Horizon: 3, Profile: perPod(20)},
		"ten minutes a period": {Period: seconds(600), Horizon: 3, Profile: perPod(20)},
	} {
		t.Run(name, func(t *testing.T) {
			began := now.Add(-84 * time.Hour)
			whole, again := must.Get(policy.New(predicting(c)))(t), must.Get(policy.New(predicting(c)))(t)
			through(whole, began, now)
			learnt := must.Get(policy.New(predicting(c)))(t)
			h := history(t, again, began, now)
			learnt.(podscaler.Learner).Learn(h)
			h.Learnt = learnt
			again.(podscaler.Learner).Learn(h)
			w := usual()
			if lack := again.(podscaler.Learner).Lacks(&w); lack.Count != 0 {
				t.Errorf("it still lacks %+v", lack)
			}
			worst := 0.0
			for i := 1; i <= 30; i++ {
				at := now.Add(time.Duration(i) * time.Minute)
				want, got := through(whole, at, at), through(again, at, at)
				off := math.Abs(got.Forecast.Load - want.Forecast.Load)
				if !got.Forecast.Known() || off > 0 && c.Quantile == nil || off > 0.005*want.Forecast.Load {
					t.Fatalf("after %d minutes it foresees %+v, should %+v; %v", i, got.Forecast, want.Forecast, got.Reasons)
				}
				worst = max(worst, off/want.Forecast.Load)
			}
			t.Logf("off by %.2g at most", worst)
		})
	}
}

// With the days before, the time of day means something from the start.
func TestAHistoryKnowsTheTimeOfDay(t *testing.T) {
	c := policy.Predictive{Forecaster: "Seasonal", Period: seconds(600), Horizon: 6, Excess: new(1.0), Profile: perPod(10)}
	p := must.Get(policy.New(predicting(c)))(t)
	h := podscaler.History{End: now, Step: 10 * time.Minute, Over: 10 * time.Minute}
	for i := range 3 * 144 {
		h.Arrivals = append(h.Arrivals, 100+80*math.Sin(2*math.Pi*float64(i)/144))
	}
	p.(podscaler.Learner).Learn(&h)
	w := usual()
	r := p.Desired(&podscaler.View{Now: now, Workload: &w, Replicas: 20, Pods: running(20, 0.1), Window: podscaler.Window{Arrivals: podscaler.Known(100)}})
	if want := int(math.Ceil((100 + 80*math.Sin(2*math.Pi*5/144)) / 10)); r.Replicas != want {
		t.Errorf("proposes %d, should %d for what comes within the hour; %v", r.Replicas, want, r.Reasons)
	}
}

// A history with less in it than was seen since the start is of no use, and asked for no more.
func TestAnEmptyHistoryChangesNothing(t *testing.T) {
	spec := predicting(policy.Predictive{Horizon: 1, Profile: perPod(20)})
	p, q := must.Get(policy.New(spec))(t), must.Get(policy.New(spec))(t)
	began := now.Add(-time.Hour)
	through(p, began, now)
	through(q, began, now)
	p.(podscaler.Learner).Learn(&podscaler.History{End: now, Step: time.Minute, Over: time.Minute, Arrivals: slices.Repeat([]float64{-1}, 100)})
	next := now.Add(time.Minute)
	if got, want := through(p, next, next), through(q, next, next); got.Forecast != want.Forecast || !got.Forecast.Known() {
		t.Errorf("foresees %+v, should %+v", got.Forecast, want.Forecast)
	}
	w := usual()
	if lack := p.(podscaler.Learner).Lacks(&w); lack.Count != 0 {
		t.Errorf("it lacks %+v", lack)
	}
}

// Readings are a whole number to a period, and no further apart than what each is over.
func TestReadingsOfThePastFitPeriods(t *testing.T) {
	for _, c := range []struct{ period, over, want time.Duration }{
		{time.Minute, time.Minute, time.Minute}, {time.Minute, 5 * time.Minute, time.Minute}, {time.Minute, 30 * time.Second, 30 * time.Second},
		{time.Minute, 25 * time.Second, 20 * time.Second}, {time.Hour, time.Minute, time.Minute}, {61 * time.Second, time.Minute, 30500 * time.Millisecond},
		{10*time.Second + 7, 7 * time.Second, time.Second},
	} {
		w := usual()
		w.SLO.Window = c.over
		p := must.Get(policy.New(predicting(policy.Predictive{Period: new(podscaler.Duration(c.period)), Profile: perPod(1)})))(t)
		lack := p.(podscaler.Learner).Lacks(&w)
		if d := lack.Step - c.want; d > 0 || d < -time.Second/10 || lack.Over != c.over || lack.Step > c.over {
			t.Errorf("period %s over %s: a step of %s, want %s", c.period, c.over, lack.Step, c.want)
		}
	}
}
