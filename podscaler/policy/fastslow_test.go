package policy_test

import (
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func fastslow(c policy.FastSlow) policy.Spec { return policy.Spec{Policy: "FastSlow", FastSlow: &c} }

// wholeCores makes pods of a core, so that a percent of their request is ten thousandths.
func wholeCores(most int) func(*podscaler.Workload) {
	return func(w *podscaler.Workload) { w.Pod.CPU, w.Max = 1000, most }
}

// using are pods that use so many percent of a core.
func using(percent ...float64) podscaler.View {
	v := podscaler.View{Replicas: len(percent), Pods: running(len(percent), 0)}
	for i, p := range percent {
		v.Pods[i].CPU.Value = p / 100
	}
	return v
}

func alike(n int, percent float64) podscaler.View {
	all := make([]float64, n)
	for i := range all {
		all[i] = percent
	}
	return using(all...)
}

// quietly decides twice about the same view, with the window in between, so that nothing but the
// load says how many replicas are needed.
func quietly(t *testing.T, spec policy.Spec, change func(*podscaler.Workload), v podscaler.View) podscaler.Decision {
	t.Helper()
	s := scalerOf(t, spec, change)
	v.Workload = s.Workload()
	for _, at := range []time.Duration{-9 * time.Minute, 0} {
		v.Now = now.Add(at)
		for i := range v.Pods {
			v.Pods[i].CPU.At = v.Now
		}
		if d := s.Decide(&v); at == 0 {
			return d
		}
	}
	panic("unreachable")
}

func has(d podscaler.Decision, text string) bool {
	for _, r := range d.Reasons {
		if strings.Contains(r.String(), text) {
			return true
		}
	}
	return false
}

// 486 / 60 is 8.1, for which nine pods are needed. The eight of the published example are its
// bound on replicas, which is not the policy's.
func TestScenario19FastSlowGrowsAtOnce(t *testing.T) {
	v := using(74, 78, 80, 82, 85, 87)
	run(t, []scenario{{
		name: "scenario 19: at most 8", spec: fastslow(policy.FastSlow{}), workload: wholeCores(8), view: v,
		to: 8, proposed: 9, reasons: []string{
			"ValidMetricFound: cpu is 81% of 60% over 6 pods: 9 wanted",
			"PredictedUse: cpu will be 60.75% with 8 pods", "TooManyReplicas: 9 wanted, at most 8",
		},
	}, {
		name: "scenario 19: without a bound", spec: fastslow(policy.FastSlow{}), workload: wholeCores(20), view: v,
		to: 9, reasons: []string{"PredictedUse: cpu will be 54% with 9 pods"},
	}})
}

func TestScenario20FastSlowShrinksAPodInNineMinutes(t *testing.T) {
	s := scalerOf(t, policy.Spec{Policy: "FastSlow"}, wholeCores(8))
	v := using(48, 46, 42, 50, 41, 43)
	for _, c := range []struct {
		at     time.Duration
		pods   podscaler.View
		to     int
		reason string
	}{
		{-9 * time.Minute, v, 6, "ScaleDownStabilized: 5 wanted, but all replicas may have been needed 0s ago: 540s left of 9m"},
		{-time.Second, v, 6, "1s left of 9m"},
		{0, v, 5, "PredictedUse: cpu will be 54% with 5 pods"},
		{30 * time.Second, alike(5, 54), 5, "WithinTolerance: 54% is from 48% to 72%: 5 replicas stay"},
		// With still less to do from here on, the next one goes nine minutes after the 30 s.
		{9 * time.Minute, alike(5, 20), 5, "ScaleDownStabilized: 2 wanted, but all replicas may have been needed 8m30s ago: 30s left of 9m"},
		{9*time.Minute + 30*time.Second, alike(5, 20), 4, "ScaleDownLimit: 2 wanted, at least 4 in one run from 5: 1 at a time"},
		{18*time.Minute + 29*time.Second, alike(4, 25), 4, "Cooldown: 2 wanted, but the last shrinking was 8m59s ago: 1s left of 9m"},
		{18*time.Minute + 30*time.Second, alike(4, 25), 3, "PredictedUse: cpu will be 33.33% with 3 pods"},
	} {
		c.pods.Now, c.pods.Workload = now.Add(c.at), s.Workload()
		for i := range c.pods.Pods {
			c.pods.Pods[i].CPU.At = c.pods.Now
		}
		d := s.Decide(&c.pods)
		if d.To != c.to || !has(d, c.reason) {
			t.Errorf("at %s to %d, should be to %d because %q; %v", c.at, d.To, c.to, c.reason, d.Reasons)
		}
	}
}

// The published trigger, a ratio below 0.48, is a use below 48 %: its example shrinks at a ratio
// of 0.75.
func TestScenario21FastSlowLeavesTheDeadBandAlone(t *testing.T) {
	for percent, to := range map[float64]int{72: 6, 48: 6, 72.1: 8, 47.9: 5, 60: 6} {
		if d := quietly(t, policy.Spec{Policy: "FastSlow"}, wholeCores(8), alike(6, percent)); d.To != to {
			t.Errorf("6 pods at %g %%: to %d, should be %d; %v", percent, d.To, to, d.Reasons)
		}
	}
}

func TestScenario22FastSlowGrowsTenfoldARun(t *testing.T) {
	run(t, []scenario{{
		name: "scenario 22: 1 pod, 15 wanted: 10", spec: policy.Spec{Policy: "FastSlow"}, workload: wholeCores(20), view: alike(1, 900),
		to: 10, reasons: []string{"ScaleUpLimit: 15 wanted, at most 10 in one run from 1: 9 for each", "PredictedUse: cpu will be 90% with 10 pods"},
	}, {
		name: "scenario 22: then 15", spec: policy.Spec{Policy: "FastSlow"}, workload: wholeCores(20), view: alike(10, 90),
		to: 15, reasons: []string{"cpu is 90% of 60% over 10 pods: 15 wanted"},
	}, {
		name: "half a replica for each is one for one", spec: fastslow(policy.FastSlow{ScaleUpFactor: new(0.5)}), workload: wholeCores(20), view: alike(1, 900),
		to: 2,
	}})
}

func TestFastSlowCountsPodsOfUnknownUseAgainstTheChange(t *testing.T) {
	plus := func(v podscaler.View, more ...podscaler.Pod) podscaler.View {
		v.Pods = append(v.Pods, more...)
		v.Replicas = len(v.Pods)
		return v
	}
	for _, c := range []struct {
		name string
		view podscaler.View
		to   int
		why  string
	}{
		{"down, one without a sample counts as full", plus(alike(3, 35), silent()), 4, "cpu is 51.25% of 60% over 4 pods (35% over the 3 whose use is known): 4 wanted"},
		{"down, and still too little", plus(alike(3, 15), silent()), 3, "cpu is 36.25% of 60% over 4 pods"},
		{"up, the new ones have not started yet", plus(alike(1, 90), pending(), pending()), 3, "cpu is 30% of 60% over 3 pods (90% over the 1 whose use is known): 3 wanted"},
		{"up, more than the new ones can take", plus(alike(3, 120), pending()), 6, "cpu is 90% of 60% over 4 pods"},
	} {
		if d := quietly(t, policy.Spec{Policy: "FastSlow"}, wholeCores(20), c.view); d.To != c.to || !has(d, c.why) {
			t.Errorf("%s: to %d, should be %d because %s; %v", c.name, d.To, c.to, c.why, d.Reasons)
		}
	}
}

// Pods that are asked for and not made yet do not make high use a reason to ask for fewer, nor does
// the surge of a rollout make low use one to ask for more.
func TestFastSlowNeverTurnsAChangeRound(t *testing.T) {
	high, low := alike(3, 90), alike(10, 40)
	high.Replicas, low.Replicas = 8, 5
	for name, c := range map[string]struct {
		view podscaler.View
		why  string
	}{
		"high": {high, "AlreadyAskedFor: 5 would do, and 8 are asked for already"},
		"low":  {low, "AlreadyAskedFor: 7 would do, and 5 are asked for already"},
	} {
		if d := quietly(t, policy.Spec{Policy: "FastSlow"}, wholeCores(20), c.view); d.To != c.view.Replicas || !has(d, c.why) {
			t.Errorf("%s: to %d, should stay because %s; %v", name, d.To, c.why, d.Reasons)
		}
	}
}

func TestFastSlowFollowsASeriesByName(t *testing.T) {
	spec := fastslow(policy.FastSlow{Metric: "rps", Target: new(policy.Quantity(50_000))})
	v := podscaler.View{Replicas: 2, Pods: append(running(1, 0), pending()), Window: whole("rps", podscaler.Known(400))}
	if d := quietly(t, spec, nil, v); d.To != 8 || !has(d, "rps is 200 of 50 over 2 pods (400 over the 1 whose use is known): 8 wanted") {
		t.Errorf("one value for all: to %d; %v", d.To, d.Reasons)
	}
	v = podscaler.View{Replicas: 2, Pods: running(2, 0), Window: podscaler.Window{Metrics: map[string]podscaler.Metric{
		"rps": {PerPod: map[string]float64{"web-00": 10, "web-01": 20}},
	}}}
	if d := quietly(t, spec, nil, v); d.To != 1 || !has(d, "PredictedUse: rps will be 30 with 1 pods") {
		t.Errorf("a value for each: to %d; %v", d.To, d.Reasons)
	}
	v.Window.Metrics["rps"] = podscaler.Metric{Why: "the query is empty"}
	if d := quietly(t, spec, nil, v); d.Known || !has(d, "FailedGetPodsMetric: rps is unknown: the query is empty") {
		t.Errorf("no value: %v", d.Reasons)
	}
}

// After a gap in the measurements, what was needed in it is not known.
func TestFastSlowWaitsAFullWindowAfterAGap(t *testing.T) {
	s := scalerOf(t, policy.Spec{Policy: "FastSlow"}, wholeCores(8))
	for at := time.Duration(0); at <= 20*time.Minute; at += 30 * time.Second {
		v := alike(6, 40)
		v.Now, v.Workload = now.Add(at), s.Workload()
		for i := range v.Pods {
			v.Pods[i].CPU.At = v.Now
			v.Pods[i].CPU.Known = at != 5*time.Minute
		}
		if d := s.Decide(&v); d.To < d.From != (at >= 14*time.Minute) {
			t.Fatalf("at %s to %d; %v", at, d.To, d.Reasons)
		}
	}
}

func TestFastSlowTellsEveryFaultOfItsSettings(t *testing.T) {
	_, err := policy.New(fastslow(policy.FastSlow{
		Metric: "rps", Target: new(policy.Quantity(0)), Tolerance: new(1.0), ScaleUpFactor: new(0.0), DownStep: new(0), DownWindow: new(podscaler.Duration(-time.Second)),
	}))
	want := `fastSlow.target: must be above 0, was 0
fastSlow.tolerance: must be at least 0 and below 1, was 1
fastSlow.scaleUpFactor: must be above 0, was 0
fastSlow.downStep: must be at least 1, was 0
fastSlow.downWindow: must be at least 0, was -1s`
	if err == nil || err.Error() != want {
		t.Errorf("faults are\n%v\nshould be\n%s", err, want)
	}
	if _, err := policy.New(fastslow(policy.FastSlow{Metric: "rps"})); err == nil || err.Error() != "fastSlow.target: must be set for a metric other than CPU, was rps" {
		t.Errorf("a series without a target: %v", err)
	}
	p := must.Get(policy.New(policy.Spec{Policy: "fastslow"}))(t)
	w := usual()
	w.Pod.CPU, w.Min = 0, 0
	want = `pod.cpu: must be above 0 for fastSlow.target, which is in percent of it, was 0
minReplicas: must be at least 1 for policy FastSlow, which multiplies what is there, was 0`
	if err := policy.Check(&w, p); err == nil || err.Error() != want {
		t.Errorf("a workload that it cannot work on: %v", err)
	}
}

// exactly is the published algorithm in fractions, for pods that are all ready and sampled:
// percentages, and the factor in tenths.
func exactly(milli []int64, request, target, tolerance, factor int64, step, replicas int, quiet bool) int {
	sum := int64(0)
	for _, m := range milli {
		sum += m
	}
	goal := big.NewRat(request*target, 100)
	ratio := new(big.Rat).Quo(big.NewRat(sum, int64(len(milli))), goal)
	atLeast := func(part *big.Rat) int { // the least whole number that is not below it
		n := 0
		for big.NewRat(int64(n), 1).Cmp(part) < 0 {
			n++
		}
		return n
	}
	want := atLeast(new(big.Rat).Quo(big.NewRat(sum, 1), goal))
	switch {
	case ratio.Cmp(big.NewRat(100+tolerance, 100)) > 0 && want > replicas:
		return min(want, atLeast(big.NewRat(int64(replicas)*(10+factor), 10)))
	case ratio.Cmp(big.NewRat(100-tolerance, 100)) < 0 && want < replicas && quiet:
		return max(want, replicas-step)
	}
	return replicas
}

func TestFastSlowIsThePublishedAlgorithmInFractions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		milli := rapid.SliceOfN(rapid.Int64Range(0, 3000), 1, 20).Draw(t, "millicores")
		request, target := rapid.Int64Range(1, 1000).Draw(t, "request"), rapid.Int64Range(1, 100).Draw(t, "target")
		tolerance, factor := rapid.Int64Range(0, 99).Draw(t, "tolerance"), rapid.Int64Range(1, 100).Draw(t, "factor")
		step, replicas := rapid.IntRange(1, 5).Draw(t, "step"), rapid.IntRange(1, 30).Draw(t, "replicas")
		p := must.Get(policy.New(fastslow(policy.FastSlow{
			Target: new(policy.Quantity(1000 * target)), Tolerance: new(float64(tolerance) / 100),
			ScaleUpFactor: new(float64(factor) / 10), DownStep: &step,
		})))(t)
		w := usual()
		w.Pod.CPU = pricing.MilliCPU(request)
		v := podscaler.View{Workload: &w, Replicas: replicas, Pods: running(len(milli), 0)}
		for i, m := range milli {
			v.Pods[i].CPU.Value = float64(m) / 1000
		}
		for i, quiet := range []bool{false, true} {
			v.Now = now.Add(time.Duration(i) * 9 * time.Minute)
			want := exactly(milli, request, target, tolerance, factor, step, replicas, quiet)
			if got := p.Desired(&v); !got.Known || got.Replicas != want {
				t.Fatalf("quiet %v: proposes %d (known %v), should %d; %v", quiet, got.Replicas, got.Known, want, got.Reasons)
			}
		}
	})
}
