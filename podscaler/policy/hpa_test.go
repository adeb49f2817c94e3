package policy_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestHPAFollowsTheRatio(t *testing.T) {
	tenth := 0.1 // a variable, for constants add up exactly
	cpu60 := hpaOn(policy.Metric{Type: policy.Resource, Name: "cpu", AverageUtilization: 60})
	run(t, []scenario{
		{
			name: "scenario 1: 2 pods at 50m of 25m: 4",
			spec: cpuValue(25), view: podscaler.View{Replicas: 2, Pods: running(2, 0.050)},
			to: 4, reasons: []string{"ValidMetricFound: cpu is 50m of 25m over 2 pods, ratio 2: 4 wanted", "DesiredWithinRange: 4 is within 1 and 1000"},
		}, {
			name: "scenario 2: 100 pods at a ratio of 1.07: 100",
			spec: cpuValue(100), view: podscaler.View{Replicas: 100, Pods: running(100, 0.107)},
			to: 100, reasons: []string{"cpu is 107m of 100m over 100 pods, ratio 1.07, within 0.9 and 1.1: 100 wanted"},
		}, {
			name: "scenario 2: 100 pods at a ratio of 1.07 with a scaleUp.tolerance of 0.05: 107",
			spec: cpuValue(100), view: podscaler.View{Replicas: 100, Pods: running(100, 0.107)},
			workload: func(w *podscaler.Workload) {
				w.Behavior = podscaler.DefaultBehavior()
				w.Behavior.Up.Tolerance = new(0.05)
			},
			to: 107, reasons: []string{"ratio 1.07: 107 wanted"},
		}, {
			name: "the tolerance of the other direction does not count",
			spec: cpuValue(100), view: podscaler.View{Replicas: 100, Pods: running(100, 0.107)},
			workload: func(w *podscaler.Workload) {
				w.Behavior = podscaler.DefaultBehavior()
				w.Behavior.Down.Tolerance = new(0.0)
			},
			to: 100, reasons: []string{"ratio 1.07, within 1 and 1.1: 100 wanted"},
		}, {
			name: "4 pods at 450m of a request of 500m, target 60 %: 6",
			spec: cpu60, view: podscaler.View{Replicas: 4, Pods: running(4, 0.450)},
			to: 6, reasons: []string{"cpu is 90% of 60% over 4 pods, ratio 1.5: 6 wanted"},
		}, {
			name: "66.8 % counts as 66 %, which is within the tolerance of 60 %",
			spec: cpu60, view: podscaler.View{Replicas: 10, Pods: running(10, 0.334)},
			to: 10, reasons: []string{"cpu is 66% of 60% over 10 pods, ratio 1.1, within 0.9 and 1.1: 10 wanted"},
		}, {
			name: "0.1 + 0.2 is 300m, not 301m, though it is above 0.3 in floats",
			spec: cpuValue(273), view: podscaler.View{Replicas: 10, Pods: running(10, tenth+0.2)},
			to: 10, reasons: []string{"cpu is 300m of 273m over 10 pods, ratio 1.099, within 0.9 and 1.1: 10 wanted"},
		}, {
			name: "the default is CPU at 80 %",
			spec: policy.Spec{Policy: "HPA"}, view: podscaler.View{Replicas: 2, Pods: running(2, 0.5)},
			to: 3, reasons: []string{"cpu is 100% of 80% over 2 pods, ratio 1.25: 3 wanted"},
		},
	})
}

func TestHPACountsPodsItDoesNotKnowAgainstTheChange(t *testing.T) {
	asPods := func(q policy.Quantity) policy.Spec {
		return hpaOn(policy.Metric{Type: policy.Pods, Name: "load", AverageValue: q})
	}
	perPod := func(pods []podscaler.Pod, value float64) podscaler.Window {
		series := map[string]float64{}
		for _, p := range pods {
			series[p.Name] = value
		}
		return podscaler.Window{Metrics: map[string]podscaler.Metric{"load": {PerPod: series}}}
	}
	run(t, []scenario{
		{
			name: "scenario 4: missing, down: target 50m, 3 pods at 30m, 1 without a sample: 3, not 2",
			spec: cpuValue(50), view: podscaler.View{Replicas: 4, Pods: append(running(3, 0.030), silent())},
			to: 3, reasons: []string{"cpu is 35m of 50m over 4 pods, ratio 0.7 (0.6 before counting in 1 without a sample and 0 not ready): 3 wanted"},
		}, {
			name: "scenario 5: missing, up: target 50m, 3 pods at 80m, 1 without a sample: 5, not 7",
			spec: cpuValue(50), view: podscaler.View{Replicas: 4, Pods: append(running(3, 0.080), silent())},
			to: 5, reasons: []string{"cpu is 60m of 50m over 4 pods, ratio 1.2 (1.6 before counting in 1 without a sample and 0 not ready): 5 wanted"},
		}, {
			// 3 × 78m over 4 pods is 58.5m, a ratio of 0.975; the controller cuts it to 58m.
			name: "scenario 6: unready, up: target 60m, 3 ready at 78m, 1 Pending: 4 stay",
			spec: cpuValue(60), view: podscaler.View{Replicas: 4, Pods: append(running(3, 0.078), pending())},
			to: 4, reasons: []string{"cpu is 58m of 60m over 4 pods, ratio 0.9667 (1.3 before counting in 0 without a sample and 1 not ready), within 0.9 and 1.1: 4 wanted"},
		}, {
			name: "the same in whole units, where nothing is cut: the ratio is 0.975",
			spec: asPods(60_000), view: podscaler.View{Replicas: 4, Pods: append(running(3, 0), pending()), Window: perPod(running(3, 0), 78)},
			to: 4, reasons: []string{"load is 58.5 of 60 over 4 pods, ratio 0.975 (1.3 before counting in 0 without a sample and 1 not ready), within 0.9 and 1.1: 4 wanted"},
		}, {
			name: "missing, down, in percent: the missing pod counts with its whole request",
			spec: hpaOn(policy.Metric{Type: policy.Resource, Name: "cpu", AverageUtilization: 50}),
			view: podscaler.View{Replicas: 6, Pods: append(running(4, 0.100), silent(), pending())},
			to:   4, reasons: []string{"cpu is 36% of 50% over 5 pods, ratio 0.72 (0.4 before counting in 1 without a sample and 0 not ready): 4 wanted"},
		}, {
			name: "missing, down, target 150 %: the missing pod counts with that",
			spec: hpaOn(policy.Metric{Type: policy.Resource, Name: "cpu", AverageUtilization: 150}),
			view: podscaler.View{Replicas: 2, Pods: append(running(1, 0.100), silent())},
			to:   2, reasons: []string{"cpu is 85% of 150% over 2 pods, ratio 0.5667 (0.1333 before"},
		}, {
			name: "missing, down: no turning round, even without a tolerance",
			spec: hpaOn(policy.Metric{Type: policy.Resource, Name: "cpu", AverageUtilization: 50}),
			view: podscaler.View{Replicas: 5, Pods: append(running(2, 0.200), silent(), silent(), silent())},
			workload: func(w *podscaler.Workload) {
				w.Behavior = podscaler.DefaultBehavior()
				w.Behavior.Up.Tolerance, w.Behavior.Down.Tolerance = new(0.0), new(0.0)
			},
			to: 5, reasons: []string{"cpu is 76% of 50% over 5 pods, ratio 1.52 (0.8 before"},
		}, {
			name: "unready, down: pods that are not ready do not count",
			spec: cpuValue(60), view: podscaler.View{Replicas: 4, Pods: append(running(3, 0.030), pending())},
			to: 2, reasons: []string{"cpu is 30m of 60m over 3 pods, ratio 0.5: 2 wanted"},
		}, {
			name: "pods on their way out are not there",
			spec: cpuValue(60), view: podscaler.View{Replicas: 3, Pods: append(running(3, 0.120),
				podscaler.Pod{Name: "x", Phase: podscaler.Running, Terminating: true}, podscaler.Pod{Name: "y", Phase: podscaler.Failed})},
			to: 6, reasons: []string{"cpu is 120m of 60m over 3 pods, ratio 2: 6 wanted"},
		}, {
			name: "growth by pods that are already coming is no reason to shrink",
			spec: cpuValue(60), view: podscaler.View{Replicas: 9, Pods: append(running(3, 0.120), pending())},
			to: 9, reasons: []string{"cpu is 90m of 60m over 4 pods, ratio 1.5 (2 before counting in 0 without a sample and 1 not ready): 9 wanted"},
		}, {
			name: "a sample that is no number is none",
			spec: cpuValue(60), view: podscaler.View{Replicas: 2, Pods: running(2, math.NaN())},
			to: 2, unknown: true, reasons: []string{"FailedGetResourceMetric: cpu is unknown: no ready pod has a sample"},
		},
	})
}

func TestHPADoesNotMistakeStartingForLoad(t *testing.T) {
	pod := func(change func(*podscaler.Pod)) []podscaler.Pod {
		pods := running(2, 0.060)
		pods[1].CPU.Value = 0.600 // the JVM compiles
		change(&pods[1])
		return pods
	}
	minutes := func(n float64) time.Time { return now.Add(-time.Duration(n * float64(time.Minute))) }
	// Counted, the second pod makes 330m of 60m: 11. Omitted, the first is at its target; the
	// other counts as 0 only on the way up.
	counted, leftOut := 11, 2
	cases := []struct {
		name string
		pod  func(*podscaler.Pod)
		to   int
	}{
		{"in its first 5 min, sampled since before it was ready", func(p *podscaler.Pod) { p.Started, p.ReadyChanged = minutes(2), minutes(0.25) }, leftOut},
		{"in its first 5 min, ready throughout the sample", func(p *podscaler.Pod) { p.Started, p.ReadyChanged = minutes(2), minutes(0.5) }, counted},
		{"in its first 5 min, not ready", func(p *podscaler.Pod) { p.Started, p.ReadyChanged, p.Ready = minutes(2), minutes(1.5), false }, leftOut},
		{"at 5 min, sampled since before it was ready", func(p *podscaler.Pod) { p.Started, p.ReadyChanged = minutes(5), minutes(0.25) }, counted},
		{"after 5 min, never ready", func(p *podscaler.Pod) { p.Started, p.ReadyChanged, p.Ready = minutes(6), time.Time{}, false }, leftOut},
		{"after 5 min, unready since 20 s after its start", func(p *podscaler.Pod) {
			p.Started, p.ReadyChanged, p.Ready = minutes(6), minutes(6).Add(20*time.Second), false
		}, leftOut},
		{"after 5 min, unready since a minute", func(p *podscaler.Pod) { p.Started, p.ReadyChanged, p.Ready = minutes(6), minutes(1), false }, counted},
		{"not started", func(p *podscaler.Pod) { p.Started = time.Time{} }, leftOut},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := decide(t, cpuValue(60), nil, podscaler.View{Replicas: 2, Pods: pod(c.pod)})
			if d.To != c.to {
				t.Errorf("went to %d, should be %d; %v", d.To, c.to, d.Reasons)
			}
		})
	}
	t.Run("without settings of its own the workload's count", func(t *testing.T) {
		own := func(w *podscaler.Workload) { w.Readiness.CPUInitialization = new(time.Minute) }
		v := podscaler.View{Replicas: 2, Pods: pod(func(p *podscaler.Pod) { p.Started, p.ReadyChanged = minutes(2), minutes(0.25) })}
		if d := decide(t, cpuValue(60), own, v); d.To != counted {
			t.Errorf("went to %d, should be %d; %v", d.To, counted, d.Reasons)
		}
		spec := cpuValue(60)
		spec.HPA.CPUInitializationPeriod = new(podscaler.Duration(5 * time.Minute))
		if d := decide(t, spec, own, v); d.To != leftOut {
			t.Errorf("with settings: went to %d, should be %d; %v", d.To, leftOut, d.Reasons)
		}
	})
	t.Run("both times are settings", func(t *testing.T) {
		spec := cpuValue(60)
		spec.HPA.CPUInitializationPeriod = new(podscaler.Duration(time.Minute))
		spec.HPA.InitialReadinessDelay = new(podscaler.Duration(10 * time.Second))
		d := decide(t, spec, nil, podscaler.View{Replicas: 2, Pods: pod(func(p *podscaler.Pod) {
			p.Started, p.ReadyChanged, p.Ready = minutes(6), minutes(6).Add(20*time.Second), false
		})})
		if d.To != counted {
			t.Errorf("went to %d, should be %d; %v", d.To, counted, d.Reasons)
		}
	})
}

func TestHPATakesTheMostOfAllMetrics(t *testing.T) {
	metrics := hpaOn(
		policy.Metric{Type: policy.Resource, Name: "cpu", AverageValue: 60},
		policy.Metric{Type: policy.External, Name: "rps", AverageValue: 10_000},
		policy.Metric{Type: policy.Object, Name: "queue", Value: 100_000},
	)
	window := whole("rps", podscaler.Known(60))
	broken := podscaler.Window{Metrics: map[string]podscaler.Metric{
		"rps":   {Total: podscaler.Known(60)},
		"queue": {Total: podscaler.Known(math.NaN()), Why: "Prometheus answered 503"},
	}}
	run(t, []scenario{
		{
			name: "scenario 3: CPU wants 4, RPS 6, the third errors, current 3: 6",
			spec: metrics, view: podscaler.View{Replicas: 3, Pods: running(3, 0.080), Window: broken},
			to: 6, reasons: []string{
				"ValidMetricFound: rps is 60, 10 a pod with 3 pods there, ratio 2: 6 wanted",
				"ValidMetricFound: cpu is 80m of 60m over 3 pods, ratio 1.333: 4 wanted",
				"FailedGetObjectMetric: queue is unknown: Prometheus answered 503",
			},
		}, {
			name: "scenario 3: CPU wants 4, RPS 6, the third errors, current 8: stays 8",
			spec: metrics, view: podscaler.View{Replicas: 8, Pods: running(8, 0.030), Window: broken},
			to: 8, unknown: true, reasons: []string{
				"FailedGetObjectMetric: queue is unknown",
				"cpu is 30m of 60m over 8 pods, ratio 0.5: 4 wanted",
				"rps is 60, 10 a pod with 8 pods there, ratio 0.75: 6 wanted",
				"MetricsIncomplete: 1 of 3 metrics are unknown, so 8 replicas are not reduced to 6",
			},
		}, {
			name: "scenario 35: Prometheus answers 503, CPU wants 4: 8 stay",
			spec: metrics, view: podscaler.View{Replicas: 8, Pods: running(8, 0.030), Window: podscaler.Window{Metrics: map[string]podscaler.Metric{
				"rps": {Why: "Prometheus answered 503"}, "queue": {Why: "Prometheus answered 503"},
			}}},
			to: 8, unknown: true, reasons: []string{
				"FailedGetExternalMetric: rps is unknown: Prometheus answered 503", "MetricsIncomplete: 2 of 3 metrics are unknown, so 8 replicas are not reduced to 4",
			},
		}, {
			name: "scenario 35: an empty vector is no 0: 8 stay",
			spec: hpaOn(policy.Metric{Type: policy.External, Name: "rps", AverageValue: 10_000}), view: podscaler.View{Replicas: 8, Pods: running(8, 0), Window: podscaler.Window{
				Metrics: map[string]podscaler.Metric{"rps": {Why: "the query returned no series"}},
			}},
			to: 8, unknown: true, reasons: []string{"FailedGetExternalMetric: rps is unknown: the query returned no series"},
		}, {
			name: "scenario 35: Prometheus answers 503, CPU wants more: it grows",
			spec: metrics, view: podscaler.View{Replicas: 8, Pods: running(8, 0.120), Window: podscaler.Window{}},
			to: 16, reasons: []string{"cpu is 120m of 60m over 8 pods, ratio 2: 16 wanted", "FailedGetExternalMetric: rps is unknown", "FailedGetObjectMetric"},
		}, {
			name: "all error: nothing is done",
			spec: metrics, view: podscaler.View{Replicas: 8},
			to: 8, unknown: true, reasons: []string{
				"FailedGetResourceMetric: cpu is unknown: the workload has no pods",
				"FailedGetExternalMetric: rps is unknown: it was not measured",
				"FailedGetObjectMetric: queue is unknown",
			},
		}, {
			name: "a series of the whole is none of each pod",
			spec: hpaOn(policy.Metric{Type: policy.Pods, Name: "rps", AverageValue: 10_000}), view: podscaler.View{Replicas: 3, Pods: running(3, 0), Window: window},
			to: 3, unknown: true, reasons: []string{"FailedGetPodsMetric: rps is unknown: it has no value for each pod"},
		},
	})
}

// Conditions show the first reason: the metric that decides, or the one for which nothing is.
func TestTheMetricThatDecidesLeadsTheReasons(t *testing.T) {
	p := must.Get(policy.New(policy.Spec{Policy: "HPA", HPA: &policy.HPA{Metrics: []policy.Metric{
		{Type: policy.Resource, Name: "cpu", AverageValue: 60}, {Type: policy.External, Name: "rps", AverageValue: 10_000},
	}}}))(t)
	for _, c := range []struct {
		use  float64
		rps  podscaler.Reading
		lead string
	}{
		{0.120, podscaler.Known(60), "ValidMetricFound: cpu is 120m of 60m over 4 pods, ratio 2: 8 wanted"},
		{0.060, podscaler.Known(60), "ValidMetricFound: rps is 60"},
		{0.030, podscaler.Reading{}, "FailedGetExternalMetric: rps is unknown"},
		{0.120, podscaler.Reading{}, "ValidMetricFound: cpu"},
	} {
		w := usual()
		r := p.Desired(&podscaler.View{Now: now, Workload: &w, Replicas: 4, Pods: running(4, c.use), Window: whole("rps", c.rps)})
		if lead := r.Reasons[0].String(); len(r.Reasons) < 2 || !strings.HasPrefix(lead, c.lead) {
			t.Errorf("%q leads %q, should be %q", lead, r.Reasons, c.lead)
		}
	}
}

func TestHPAReadsSeriesOfTheWhole(t *testing.T) {
	value := hpaOn(policy.Metric{Type: policy.External, Name: "queue", Value: 5_000})
	average := hpaOn(policy.Metric{Type: policy.External, Name: "queue", AverageValue: 5_000})
	minZero := func(w *podscaler.Workload) { w.Min = 0 }
	atZero := podscaler.View{ScaledToZero: true, Window: whole("queue", podscaler.Known(1))}
	unready := running(4, 0)
	unready[0].Ready = false
	run(t, []scenario{
		{
			name: "Value: 10 of 5 with 3 of 4 pods ready: 6",
			spec: value, view: podscaler.View{Replicas: 4, Pods: unready, Window: whole("queue", podscaler.Known(10))},
			to: 6, reasons: []string{"queue is 10 of 5 with 3 pods ready, ratio 2: 6 wanted"},
		}, {
			name: "Value: within the tolerance the replicas stay, whoever is ready",
			spec: value, view: podscaler.View{Replicas: 4, Pods: unready, Window: whole("queue", podscaler.Known(5.5))},
			to: 4, reasons: []string{"queue is 5.5 of 5 with 3 pods ready, ratio 1.1, within 0.9 and 1.1: 4 wanted"},
		}, {
			name: "AverageValue: 23 shared by 5 each: 5",
			spec: average, view: podscaler.View{Replicas: 4, Pods: unready, Window: whole("queue", podscaler.Known(23))},
			to: 5, reasons: []string{"queue is 23, 5 a pod with 4 pods there, ratio 1.15: 5 wanted"},
		}, {
			name: "AverageValue: within the tolerance",
			spec: average, view: podscaler.View{Replicas: 4, Pods: unready, Window: whole("queue", podscaler.Known(22))},
			to: 4, reasons: []string{"queue is 22, 5 a pod with 4 pods there, ratio 1.1, within 0.9 and 1.1: 4 wanted"},
		}, {
			name: "AverageValue: within it the pods there count, not those asked for",
			spec: average, view: podscaler.View{Replicas: 6, Pods: unready, Window: whole("queue", podscaler.Known(22))},
			to: 4, reasons: []string{"within 0.9 and 1.1: 4 wanted"},
		}, {
			name: "scenario 9: a user's 0 stays 0",
			spec: value, workload: minZero, view: podscaler.View{Window: atZero.Window},
			to: 0, unknown: true, reasons: []string{"ScalingDisabled: replicas are 0 and were not set to 0 here"},
		}, {
			name: "scenario 9: our own 0, metric 1, target 5: 1",
			spec: value, workload: minZero, view: atZero,
			to: 1, reasons: []string{"queue is 1 of 5: 1 wanted, from 0"},
		}, {
			name: "the same as an average",
			spec: average, workload: minZero, view: atZero,
			to: 1, reasons: []string{"queue is 1, 5 a pod with none there: 1 wanted"},
		}, {
			name: "our own 0 stays while the metric is 0",
			spec: value, workload: minZero, view: podscaler.View{ScaledToZero: true, Window: whole("queue", podscaler.Known(0))},
			to: 0, reasons: []string{"queue is 0 of 5: 0 wanted, from 0"},
		}, {
			name: "an overflow is cut, not wrapped",
			spec: value, view: podscaler.View{Replicas: 4, Pods: running(4, 0), Window: whole("queue", podscaler.Known(1e300))},
			to: 1000, proposed: math.MaxInt32, reasons: []string{"TooManyReplicas: 2147483647 wanted, at most 1000 allowed now"},
		},
	})
}

func TestHPASettingsAreRefusedWithKeyRuleAndValue(t *testing.T) {
	cases := []struct {
		hpa   policy.HPA
		fault string
	}{
		{policy.HPA{Tolerance: new(-0.1)}, "hpa.tolerance: must be at least 0, was -0.1"},
		{policy.HPA{Tolerance: new(math.NaN())}, "hpa.tolerance: must be at least 0, was NaN"},
		{policy.HPA{CPUInitializationPeriod: new(podscaler.Duration(-1))}, "hpa.cpuInitializationPeriod: must be at least 0, was -1ns"},
		{policy.HPA{InitialReadinessDelay: new(podscaler.Duration(-1))}, "hpa.initialReadinessDelay: must be at least 0, was -1ns"},
		{policy.HPA{Metrics: []policy.Metric{{Type: "Cpu"}}}, `hpa.metrics[0].type: must be Resource, ContainerResource, Pods, Object or External, was "Cpu"`},
		{policy.HPA{Metrics: []policy.Metric{{Type: policy.ContainerResource, Name: "memory", AverageValue: 1}}}, `hpa.metrics[0].container: must name the container with type ContainerResource, was ""`},
		{policy.HPA{Metrics: []policy.Metric{{Type: policy.Resource, Name: "memory", Container: "app", AverageValue: 1}}}, `hpa.metrics[0].container: must be empty but with type ContainerResource, was "app"`},
		{policy.HPA{Metrics: []policy.Metric{{Type: policy.Resource, Name: "cpu", AverageValue: 1, Activation: 5000}}}, "hpa.metrics[0].activation: may be set only with type Object or External, which there are without pods, was 5"},
		{policy.HPA{Metrics: []policy.Metric{{Type: policy.External, Name: "rps", Value: 5, Activation: -5000}}}, "hpa.metrics[0].activation: must be at least 0, was -5"},
		{policy.HPA{Metrics: []policy.Metric{{Type: policy.Pods, AverageValue: 1}}}, `hpa.metrics[0].name: must not be empty, was ""`},
		{policy.HPA{Metrics: []policy.Metric{{Type: policy.Pods, Name: "rps"}}}, "hpa.metrics[0]: must have one target, which for Pods is averageValue, was none"},
		{policy.HPA{Metrics: []policy.Metric{{Type: policy.Pods, Name: "rps", Value: 5}}}, "hpa.metrics[0]: must have one target, which for Pods is averageValue, was value"},
		{policy.HPA{Metrics: []policy.Metric{{Type: policy.External, Name: "rps", Value: 5, AverageValue: 5}}}, "hpa.metrics[0]: must have one target, which for External is averageValue or value, was averageValue and value"},
		{policy.HPA{Metrics: []policy.Metric{{Type: policy.Resource, Name: "cpu", AverageUtilization: -5}}}, "hpa.metrics[0].averageUtilization: must be above 0, was -5"},
		{policy.HPA{Metrics: []policy.Metric{{Type: policy.Object, Name: "rps", Value: -25}}}, "hpa.metrics[0].value: must be above 0, was -25m"},
	}
	for _, c := range cases {
		_, err := policy.New(policy.Spec{Policy: "hpa", HPA: &c.hpa})
		if err == nil || !slices.Contains(strings.Split(err.Error(), "\n"), c.fault) {
			t.Errorf("faults are %v, should have %q", err, c.fault)
		}
	}
}

func TestHPANeedsOfItsWorkload(t *testing.T) {
	cpu, err := policy.New(policy.Spec{Policy: "hpa"})
	if err != nil {
		t.Fatal(err)
	}
	w := usual()
	w.Min, w.Pod, w.Idle = 0, pricing.Resources{}, &podscaler.Idle{}
	err = policy.Check(&w, cpu)
	for _, fault := range []string{
		"pod.cpu: must be above 0 for hpa.metrics[0], which is in percent of it, was 0",
		"minReplicas: must be at least 1 without an Object or External metric",
		"idle: must be omitted without an Object or External metric, which alone can call for a workload, was there",
	} {
		if err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("faults are %v, should have %q", err, fault)
		}
	}
	w.Idle = nil
	s := podscaler.NewScaler(w, cpu)
	d := s.Decide(&podscaler.View{Now: now, Workload: s.Workload(), Replicas: 3, Pods: running(3, 0.1)})
	if d.Known || d.To != 3 || d.Reasons[0].Code != podscaler.ReasonFailedGetResourceMetric {
		t.Errorf("percent of no request: went to %d, should hold; %v", d.To, d.Reasons)
	}
}
