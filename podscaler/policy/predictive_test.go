package policy_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func predicting(c policy.Predictive) policy.Spec {
	return policy.Spec{Policy: "Predictive", Predictive: &c}
}

// perPod is a profile in which every pod serves so much.
func perPod(v float64) policy.PredictiveProfile {
	return policy.PredictiveProfile{Linear: &policy.LinearProfile{PerPod: v}}
}

// minutes has a fresh policy look once a minute, at arrivals that come then, and returns what it
// makes of the last; NaN is not measured. Pods each use so much CPU.
func minutes(t testing.TB, spec policy.Spec, replicas int, cpu float64, arrivals ...float64) podscaler.Recommendation {
	t.Helper()
	p := must.Get(policy.New(spec))(t)
	w := usual()
	must.Do(t, policy.Check(&w, p))
	var r podscaler.Recommendation
	for i, a := range arrivals {
		r = p.Desired(&podscaler.View{
			Now: now.Add(time.Duration(i+1) * time.Minute), Workload: &w, Replicas: replicas, Pods: running(replicas, cpu),
			Window: podscaler.Window{Arrivals: podscaler.Known(a)},
		})
	}
	return r
}

// level is a load that stays, with a little to and fro around it.
func level(n int, mean, swing float64) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = mean + swing*float64(i%5-2)/2
	}
	return values
}

func TestPredictiveSizes(t *testing.T) {
	last := func(change func(*policy.Predictive)) policy.Spec {
		c := policy.Predictive{Forecaster: "Last", Horizon: 1, Profile: perPod(100)}
		if change != nil {
			change(&c)
		}
		return predicting(c)
	}
	for _, c := range []struct {
		name     string
		spec     policy.Spec
		arrivals []float64
		cpu      float64
		want     int
		reason   string
	}{
		{"the mean over nine tenths", last(nil), level(20, 900, 0), 0.4, 10, "900 requests/s expected within 1m by Last: with 0.9 of the capacity 100·x+0, 10 wanted"},
		{"all of the capacity", last(func(c *policy.Predictive) { c.Excess = new(1.0) }), level(20, 900, 0), 0.4, 9, ""},
		{"more than one run before shrinks to", last(nil), level(20, 90, 0), 0.4, 1, ""},
		{"no load still has a pod", last(nil), level(20, 0, 0), 0.4, 1, ""},
		{"HPA+'s profile", last(func(c *policy.Predictive) {
			c.Profile = policy.PredictiveProfile{Linear: &policy.LinearProfile{PerPod: 125, Base: 209}}
		}), level(20, 1000, 0), 0.4, 8, "125·x+209"},
		{"a parabola", last(func(c *policy.Predictive) {
			c.Profile = policy.PredictiveProfile{Quadratic: &policy.QuadraticProfile{A: -1, B: 110}}
		}), level(20, 900, 0), 0.4, 10, "-1·x²+110·x+0"},
		{"more than a parabola's peak is the most there may be", last(func(c *policy.Predictive) {
			c.Profile = policy.PredictiveProfile{Quadratic: &policy.QuadraticProfile{A: -1, B: 20}}
		}), level(20, 900, 0), 0.4, 1000, ""},
		{"a table", last(func(c *policy.Predictive) {
			c.Profile = policy.PredictiveProfile{Table: []policy.ProfilePoint{{Pods: 1, Total: 100}, {Pods: 10, Total: 900}}}
		}), level(20, 810, 0), 0.4, 10, "a table of 2 rows"},
		{"a quantile makes its own room", last(func(c *policy.Predictive) { c.Quantile = new(0.95) }), level(60, 900, 60), 0.4, 11, "with a chance of 0.95 no more than"},
		{"a pod more for what it saves", last(func(c *policy.Predictive) { c.MarginalValue = new(0.01) }), level(60, 905, 2), 0.4, 10, "save less than 0.01"},
		{"and none for what is worth less", last(func(c *policy.Predictive) { c.MarginalValue = new(20.0) }), level(60, 905, 2), 0.4, 9, ""},
		{"learned from what requests take", predicting(policy.Predictive{Forecaster: "Last", Horizon: 1}), level(20, 40, 0), 0.4, 6, "10·x, learned from 50 ms of CPU a request"},
		{"learned of pods that may use more than they request", predicting(policy.Predictive{
			Forecaster: "Last", Horizon: 1, Profile: policy.PredictiveProfile{Learned: &policy.LearnedProfile{CPU: 1000}},
		}), level(20, 40, 0), 0.4, 3, "20·x, learned"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := minutes(t, c.spec, 5, c.cpu, c.arrivals...)
			if !r.Known || r.Replicas != c.want || !strings.Contains(fmt.Sprint(r.Reasons), c.reason) {
				t.Errorf("proposes %d (known %v), should %d with %q; %v", r.Replicas, r.Known, c.want, c.reason, r.Reasons)
			}
		})
	}
}

// A ramp is met before it is there: pods take three minutes, in which it rises on.
func TestPredictiveIsAheadOfARamp(t *testing.T) {
	ramp := make([]float64, 120)
	for i := range ramp {
		ramp[i] = 100 + 10*float64(i)
	}
	c := policy.Predictive{Horizon: 3, Excess: new(1.0), Profile: perPod(10)}
	r := minutes(t, predicting(c), 100, 0.4, ramp...)
	if r.Replicas < 130 || r.Replicas > 134 { // 1290 now, 1320 in three minutes
		t.Errorf("proposes %d, should 132; %v", r.Replicas, r.Reasons)
	}
}

// Each run is the paper's: a minute, a race over five of them with a threshold of 0.3, the mean
// over 0.9, and an HPA where no forecast is believed.
func TestPredictiveIsHPAPlusByItsSettings(t *testing.T) {
	spec := predicting(policy.Predictive{
		Forecaster: "Race", Members: []string{"AR", "Last"}, Horizon: 1, ReactiveFloor: new(false), Excess: new(0.9),
		Profile: policy.PredictiveProfile{Linear: &policy.LinearProfile{PerPod: 125, Base: 209}},
		CPU:     policy.PredictiveCPU{AverageUtilization: 90},
	})
	calm := minutes(t, spec, 4, 0.4, level(40, 2000, 0)...)
	if calm.Replicas != 17 || calm.Reasons[0].Code != podscaler.ReasonForecast || !strings.Contains(calm.Reasons[0].Text, "by Race (") {
		t.Errorf("a calm load: proposes %d, should ceil((2000/0.9-209)/125) = 17; %v", calm.Replicas, calm.Reasons)
	}
	wild := make([]float64, 40)
	for i := range wild {
		wild[i] = []float64{10, 5000}[i%2]
	}
	r := minutes(t, spec, 4, 0.25, wild...)
	if r.Replicas != 3 || r.Reasons[0].Code != podscaler.ReasonForecastUnknown || r.Reasons[1].Code != podscaler.ReasonValidMetricFound {
		t.Errorf("a load that nobody foretells: proposes %d, should ceil(4 x 50/90) = 3; %v", r.Replicas, r.Reasons)
	}
}

// Requests that have become three times as dear fill the pods, and what is learned follows.
func TestALearnedProfileFollowsWhatRequestsTake(t *testing.T) {
	p := must.Get(policy.New(predicting(policy.Predictive{Forecaster: "Last", Horizon: 1})))(t)
	w, replicas := usual(), 12
	for i := range 60 {
		demand := 0.05
		if i >= 20 {
			demand = 0.15
		}
		r := p.Desired(&podscaler.View{
			Now: now.Add(time.Duration(i) * time.Minute), Workload: &w, Replicas: replicas,
			Pods: running(replicas, min(80*demand/float64(replicas), 0.5)), Window: podscaler.Window{Arrivals: podscaler.Known(80)},
		})
		if i == 19 && r.Replicas != 12 {
			t.Errorf("at 50 ms proposes %d, should 12; %v", r.Replicas, r.Reasons)
		}
		if r.Known {
			replicas = r.Replicas
		}
	}
	if replicas < 32 || replicas > 36 {
		t.Errorf("at 150 ms comes to %d, should near 80 x 0.15/0.5/0.7 = 35", replicas)
	}
}

// A mean over a minute of which only the end was measured does not count: what comes looks like
// less.
func TestWhatWasNotMeasuredThroughoutTeachesNothing(t *testing.T) {
	p := must.Get(policy.New(predicting(policy.Predictive{Forecaster: "Last", Horizon: 1, Profile: perPod(10)})))(t)
	w := usual()
	for i := range 8 {
		at := now.Add(time.Duration(i) * time.Minute)
		window := podscaler.Window{Arrivals: podscaler.Known(100), Since: at.Add(-10 * time.Second)}
		if i >= 5 {
			window.Since = at.Add(-time.Hour)
		}
		r := p.Desired(&podscaler.View{Now: at, Workload: &w, Replicas: 12, Pods: running(12, 0.3), Window: window})
		want := podscaler.ReasonForecastUnknown
		if i >= 5 {
			want = podscaler.ReasonForecast
		}
		if r.Reasons[0].Code != want {
			t.Errorf("at %d minutes: %v, should be %s", i, r.Reasons, want)
		}
	}
}

// anyForecaster draws settings with the floor on and a profile that is given.
func anyForecaster(t *rapid.T) policy.Predictive {
	c := policy.Predictive{
		Forecaster: rapid.SampledFrom([]string{"", "Race", "Last", "AR", "Theta"}).Draw(t, "forecaster"),
		Horizon:    rapid.IntRange(0, 3).Draw(t, "horizon"), Profile: perPod(10),
	}
	switch rapid.IntRange(0, 2).Draw(t, "by") {
	case 0:
		c.Quantile = new(rapid.Float64Range(0.01, 0.99).Draw(t, "quantile"))
	case 1:
		c.MarginalValue = new(rapid.Float64Range(0.01, 10).Draw(t, "value"))
	}
	return c
}

// Over any forecast and any CPU: what comes now is served. Nothing shrinks for the first ten
// periods, nor while the arrivals are unknown.
func TestPredictiveNeverGoesBelowWhatComesNow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyForecaster(t)
		excess := 0.9
		if c.Quantile != nil || c.MarginalValue != nil {
			excess = 1
		}
		p := must.Get(policy.New(predicting(c)))(t)
		w, at, known := usual(), now, 0
		for range rapid.IntRange(1, 40).Draw(t, "runs") {
			at = at.Add(time.Duration(rapid.IntRange(1, 75).Draw(t, "seconds")) * time.Second)
			arrivals := float64(rapid.IntRange(0, 900).Draw(t, "arrivals"))
			if rapid.IntRange(0, 5).Draw(t, "unknown") == 0 {
				arrivals = math.NaN()
			}
			replicas := rapid.IntRange(1, 100).Draw(t, "replicas")
			r := p.Desired(&podscaler.View{
				Now: at, Workload: &w, Replicas: replicas, Pods: running(replicas, rapid.Float64Range(0, 0.5).Draw(t, "cpu")),
				Window: podscaler.Window{Arrivals: podscaler.Known(arrivals)},
			})
			if math.IsNaN(arrivals) {
				if r.Known && r.Replicas < replicas {
					t.Fatalf("nobody knows what comes, and %d go to %d; %v", replicas, r.Replicas, r.Reasons)
				}
				continue
			}
			known++
			floor := math.Ceil(arrivals/excess/10 - 1e-9)
			for c.MarginalValue != nil && floor > 1 && arrivals-10*(floor-1) < *c.MarginalValue {
				floor--
			}
			if !r.Known && float64(replicas) < floor || r.Known && float64(r.Replicas) < floor {
				t.Fatalf("%v come, and of %d it goes to %d (known %v); %v", arrivals, replicas, r.Replicas, r.Known, r.Reasons)
			}
			if known < 10 && r.Known && r.Replicas < replicas {
				t.Fatalf("%d go to %d after %d looks; %v", replicas, r.Replicas, known, r.Reasons)
			}
		}
	})
}

// One that has been restarted shrinks later, and grows by what it sees at once.
func TestARestartedPredictiveWaitsBeforeItShrinks(t *testing.T) {
	spec := predicting(policy.Predictive{Profile: perPod(10)})
	quiet := level(60, 50, 0)
	if r := minutes(t, spec, 60, 0.1, quiet...); r.Replicas != 6 {
		t.Fatalf("after an hour proposes %d, should 6; %v", r.Replicas, r.Reasons)
	}
	for n := 1; n < 10; n++ {
		r := minutes(t, spec, 60, 0.1, quiet[:n]...)
		if r.Known && r.Replicas != 60 || !slices.ContainsFunc(r.Reasons, func(r podscaler.Reason) bool { return r.Code == podscaler.ReasonTooLittleHistory }) {
			t.Fatalf("after %d minutes proposes %d; %v", n, r.Replicas, r.Reasons)
		}
	}
	if r := minutes(t, spec, 3, 0.1, quiet[:1]...); r.Replicas != 6 {
		t.Fatalf("of 3 proposes %d at once, should 6; %v", r.Replicas, r.Reasons)
	}
}

func TestFaultsOfPredictiveSettings(t *testing.T) {
	for _, c := range []struct {
		settings policy.Predictive
		want     string
	}{
		{policy.Predictive{Forecaster: "Oracle"}, `predictive.forecaster: must be one of ar, `},
		{policy.Predictive{Members: []string{"AR", "Prophet", "race"}}, "predictive.members[1]: must be one of ar, "},
		{policy.Predictive{Members: []string{"AR", "race"}}, `predictive.members[1]: must be a forecaster that has no members itself, was "race"`},
		{policy.Predictive{Members: []string{"AR", "AR"}}, "predictive.ensemble.members[1]: must have a name of its own"},
		{policy.Predictive{Forecaster: "AR", Members: []string{"Last"}}, "predictive.members: may be there only with forecaster Ensemble or Race, was AR"},
		{policy.Predictive{Period: seconds(5)}, "predictive.period: must be from 10s to 1h, was 5s"},
		{policy.Predictive{Horizon: 61}, "predictive.horizon: must be from 1 to 60, was 61"},
		{policy.Predictive{Lead: seconds(0)}, "predictive.lead: must be above 0s and at most 24h, was 0s"},
		{policy.Predictive{Lead: seconds(60), Horizon: 1}, "predictive.lead: must be omitted with predictive.horizon, which counts instead, was 1m0s"},
		{policy.Predictive{Excess: new(1.1)}, "predictive.excess: must be above 0 and at most 1, was 1.1"},
		{policy.Predictive{Quantile: new(1.0)}, "predictive.quantile: must be above 0 and below 1, was 1"},
		{policy.Predictive{Quantile: new(0.5), MarginalValue: new(1.0)}, "predictive.quantile: must be omitted with predictive.marginalValue, was 0.5"},
		{policy.Predictive{MarginalValue: new(0.0)}, "predictive.marginalValue: must be above 0, was 0"},
		{policy.Predictive{Profile: perPod(0)}, "predictive.profile.linear: perPod: must be above 0, was 0"},
		{policy.Predictive{Profile: policy.PredictiveProfile{Table: []policy.ProfilePoint{}}}, "predictive.profile.table: must have a row at least, was empty"},
		{policy.Predictive{Profile: policy.PredictiveProfile{
			Linear: &policy.LinearProfile{PerPod: 1}, Learned: &policy.LearnedProfile{},
		}}, "predictive.profile: must be given in one way, was linear and learned"},
		{policy.Predictive{CPU: policy.PredictiveCPU{AverageUtilization: 80, AverageValue: 1}}, "predictive.cpu: must have one target, was averageUtilization and averageValue"},
	} {
		if _, err := policy.New(predicting(c.settings)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("fault is %v, should be %s", err, c.want)
		}
	}
}

func TestWorkloadsThatPredictiveCannotWorkOn(t *testing.T) {
	for _, c := range []struct {
		settings policy.Predictive
		change   func(*podscaler.Workload)
		want     string
	}{
		{policy.Predictive{}, func(w *podscaler.Workload) { w.Min = 0 }, "minReplicas: must be at least 1 for policy Predictive"},
		{policy.Predictive{}, func(w *podscaler.Workload) { w.Pod.CPU = 0 }, "pod.cpu: must be above 0 without predictive.cpu.averageValue"},
		{policy.Predictive{CPU: policy.PredictiveCPU{AverageValue: 300}}, func(w *podscaler.Workload) { w.Pod.CPU = 0 }, "pod.cpu: must be above 0 for a profile that is learned"},
		{policy.Predictive{Period: seconds(30)}, func(w *podscaler.Workload) { w.RunPeriod = time.Minute }, "predictive.period: must be at least the run period, which is 1m0s, was 30s"},
	} {
		p := must.Get(policy.New(predicting(c.settings)))(t)
		w := usual()
		c.change(&w)
		if err := policy.Check(&w, p); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("fault is %v, should be %s", err, c.want)
		}
	}
}
