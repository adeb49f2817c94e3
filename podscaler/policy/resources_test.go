package policy_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// asking is what a pod of an app and a proxy requests, in thousandths.
func asking(app, proxy map[string]int64) *podscaler.Asks {
	return &podscaler.Asks{Containers: []podscaler.ContainerAsks{{Name: "app", Requests: app}, {Name: "proxy", Requests: proxy}}}
}

// measured are n pods of an app and a proxy that use so many MiB each.
func measured(n int, asks *podscaler.Asks, app, proxy float64) []podscaler.Pod {
	pods := running(n, 0)
	for i := range pods {
		pods[i].Asks = asks
		pods[i].Uses = []podscaler.ContainerUse{{Name: "app", Memory: mebibytes(app)}, {Name: "proxy", Memory: mebibytes(proxy)}}
	}
	return pods
}

func mebibytes(n float64) podscaler.Sample {
	return podscaler.Sample{Known: true, Value: n * float64(pricing.MiB), At: now, Span: 30 * time.Second}
}

const milliMiB = int64(pricing.MiB) * 1000

func TestHPAGoesByAnyResource(t *testing.T) {
	both := asking(map[string]int64{"memory": 400 * milliMiB}, map[string]int64{"memory": 100 * milliMiB})
	memory80 := policy.Metric{Type: policy.Resource, Name: "memory", AverageUtilization: 80}
	app80 := policy.Metric{Type: policy.ContainerResource, Name: "memory", Container: "app", AverageUtilization: 80}
	app200 := policy.Metric{Type: policy.ContainerResource, Name: "memory", Container: "app", AverageValue: policy.Quantity(200 * milliMiB)}
	starting := measured(4, both, 500, 100)
	for i := range starting {
		starting[i].Started, starting[i].ReadyChanged = now.Add(-time.Minute), now
	}
	half := measured(4, both, 200, 50)
	half[3].Uses[1].Memory = podscaler.Sample{}
	gpus := running(2, 0)
	for i := range gpus {
		gpus[i].Uses = []podscaler.ContainerUse{{Name: "app", Others: map[string]podscaler.Sample{"nvidia.com/gpu": {Known: true, Value: 3, At: now}}}}
	}
	misspelt := measured(2, both, 1, 1)
	run(t, []scenario{
		{
			name: "memory in percent of what all containers request", spec: hpaOn(memory80),
			view: podscaler.View{Replicas: 4, Pods: measured(4, both, 400, 100)},
			to:   5, reasons: []string{"ValidMetricFound: memory is 100% of 80% over 4 pods, ratio 1.25: 5 wanted"},
		}, {
			name: "memory of one container in percent of what that requests", spec: hpaOn(app80),
			view: podscaler.View{Replicas: 4, Pods: measured(4, both, 400, 0)},
			to:   5, reasons: []string{"memory of container app is 100% of 80% over 4 pods, ratio 1.25: 5 wanted"},
		}, {
			name: "memory of one container as a value", spec: hpaOn(app200),
			view: podscaler.View{Replicas: 4, Pods: measured(4, nil, 400, 900)},
			to:   8, reasons: []string{"memory of container app is 400 MiB of 200 MiB over 4 pods, ratio 2: 8 wanted"},
		}, {
			name: "a pod that starts counts: its memory is not that of its start", spec: hpaOn(memory80),
			view: podscaler.View{Replicas: 4, Pods: starting},
			to:   6, reasons: []string{"memory is 120% of 80% over 4 pods"},
		}, {
			name: "a pod of which one container is not measured has no sample", spec: hpaOn(memory80),
			view: podscaler.View{Replicas: 4, Pods: half},
			to:   4, proposed: 4, reasons: []string{"memory is 62% of 80% over 4 pods, ratio 0.775 (0.625 before counting in 1 without a sample and 0 not ready): 4 wanted"},
		}, {
			name: "any resource that is served", spec: hpaOn(policy.Metric{Type: policy.Resource, Name: "nvidia.com/gpu", AverageValue: 2000}),
			view: podscaler.View{Replicas: 2, Pods: gpus}, to: 3, reasons: []string{"nvidia.com/gpu is 3 of 2 over 2 pods, ratio 1.5: 3 wanted"},
		}, {
			name: "a resource that is not served is unknown", spec: hpaOn(policy.Metric{Type: policy.Resource, Name: "storage", AverageValue: 1000}),
			view: podscaler.View{Replicas: 2, Pods: gpus}, to: 2, unknown: true, reasons: []string{"FailedGetResourceMetric: storage is unknown: no ready pod has a sample"},
		}, {
			name: "a container that requests none makes it unknown, by its name", spec: hpaOn(memory80),
			view: podscaler.View{Replicas: 2, Pods: measured(2, asking(map[string]int64{"memory": milliMiB}, map[string]int64{"cpu": 100}), 400, 100)},
			to:   2, unknown: true, reasons: []string{"FailedGetResourceMetric: memory is unknown: container proxy of pod web-00 requests no memory"},
		}, {
			name: "a container that there is not makes it unknown, by its name",
			spec: hpaOn(policy.Metric{Type: policy.ContainerResource, Name: "memory", Container: "apps", AverageValue: 1000}),
			view: podscaler.View{Replicas: 2, Pods: misspelt},
			to:   2, unknown: true, reasons: []string{"FailedGetContainerResourceMetric: memory of container apps is unknown: no pod has a container apps"},
		}, {
			name: "of several the one counts that wants most", spec: hpaOn(memory80, app200),
			view: podscaler.View{Replicas: 4, Pods: measured(4, both, 400, 100)},
			to:   8, reasons: []string{"memory is 100% of 80%", "memory of container app is 400 MiB of 200 MiB"},
		}, {
			name: "with one unknown nothing is shrunk", spec: hpaOn(memory80, policy.Metric{Type: policy.Pods, Name: "rps", AverageValue: 1000}),
			view: podscaler.View{Replicas: 4, Pods: measured(4, both, 40, 10)},
			to:   4, unknown: true, reasons: []string{"MetricsIncomplete: 1 of 2 metrics are unknown, so 4 replicas are not reduced to 1"},
		}, {
			name: "without containers it is what the workload's pods request", spec: hpaOn(memory80),
			view: podscaler.View{Replicas: 2, Pods: func() []podscaler.Pod {
				pods := running(2, 0)
				for i := range pods {
					pods[i].Memory = mebibytes(256)
				}
				return pods
			}()},
			workload: func(w *podscaler.Workload) { w.Pod.Memory = 256 * pricing.MiB },
			to:       3, reasons: []string{"memory is 100% of 80% over 2 pods, ratio 1.25: 3 wanted"},
		},
	})
}

func TestWatermarkGoesByMemory(t *testing.T) {
	spec := policy.Spec{Policy: "Watermark", Watermark: &policy.Watermark{Metrics: []policy.WatermarkMetric{
		{Type: policy.ContainerResource, Name: "memory", Container: "app", High: policy.Quantity(200 * milliMiB), Low: policy.Quantity(100 * milliMiB)},
	}}}
	run(t, []scenario{{
		name: "above its high mark", spec: spec, view: podscaler.View{Replicas: 4, Pods: measured(4, nil, 300, 900)},
		to: 6, reasons: []string{"AboveHighWatermark: memory of container app is 300 MiB over 4 pods, above 202 MiB: 6 wanted to bring it to 200 MiB"},
	}})
}

// A workload is idle once nothing has called for it for long enough, is woken by a value above its
// activation, and is left alone where that is not known.
func TestAWorkloadIsIdleWhileNothingCallsForIt(t *testing.T) {
	spec := hpaOn(
		policy.Metric{Type: policy.External, Name: "orders", AverageValue: 10_000, Activation: 5_000},
		policy.Metric{Type: policy.Resource, Name: "cpu", AverageUtilization: 80},
	)
	s := scalerOf(t, spec, func(w *podscaler.Workload) {
		w.Min, w.Behavior, w.Idle = 2, nil, &podscaler.Idle{After: 5 * time.Minute}
	})
	replicas := 3
	for _, step := range []struct {
		at     time.Duration
		orders podscaler.Reading
		to     int
		reason string
	}{
		{0, podscaler.Known(25), 3, "orders is 25"},
		{time.Minute, podscaler.Known(5), 2, ""},
		{3 * time.Minute, podscaler.Known(6), 2, ""}, // begins anew
		{4 * time.Minute, podscaler.Known(0), 2, ""},
		{8 * time.Minute, podscaler.Reading{Why: "no answer"}, 2, "orders is unknown"}, // and again
		{9 * time.Minute, podscaler.Known(0), 2, ""},
		{14*time.Minute - time.Second, podscaler.Known(4), 2, ""},
		{14 * time.Minute, podscaler.Known(5), 0, "Idle: orders is 5, not above its activation of 5 for 5m, which is at least 5m: 0 replicas while nothing calls for it"},
		{15 * time.Minute, podscaler.Known(5), 0, "Idle: orders is 5, not above its activation of 5: 0 replicas while nothing calls for it"},
		{16 * time.Minute, podscaler.Reading{Why: "no answer"}, 0, "Idle: orders is unknown: it has no value: 0 replicas while nothing calls for it"},
		{17 * time.Minute, podscaler.Known(5.001), 2, "Activated: orders is 5.001, above its activation of 5: 2 replicas, from 0"},
	} {
		v := podscaler.View{
			Now: now.Add(step.at), Workload: s.Workload(), Replicas: replicas, Pods: running(replicas, 0.01), Window: whole("orders", step.orders),
		}
		for i := range v.Pods {
			v.Pods[i].CPU.At = v.Now
		}
		d := s.Decide(&v)
		if d.To != step.to || !has(d, step.reason) {
			t.Errorf("at %s, %d replicas: went to %d, should be %d by %q; %v", step.at, replicas, d.To, step.to, step.reason, d.Reasons)
		}
		replicas = d.To
	}
}

// A workload is idle by what was read in the last five minutes and nothing else: a slow twin looks
// through all of it anew.
func TestAWorkloadIsIdleAsASlowTwinHasIt(t *testing.T) {
	type look struct {
		at    time.Duration
		value podscaler.Reading
	}
	const after = 5 * time.Minute
	slept, woke := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := usual()
		w.Min, w.Behavior, w.Idle = rapid.IntRange(2, 4).Draw(t, "min"), nil, &podscaler.Idle{Replicas: rapid.IntRange(0, 1).Draw(t, "idle"), After: after}
		spec := hpaOn(policy.Metric{Type: policy.External, Name: "orders", AverageValue: 10_000, Activation: 5_000})
		s := podscaler.NewScaler(w, must.Get(policy.New(spec))(t))
		var looks []look
		at, replicas := time.Duration(0), w.Min
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			at += time.Duration(rapid.IntRange(1, 200).Draw(t, "pause")) * time.Second
			l := look{at, podscaler.Known(float64(rapid.IntRange(0, 7).Draw(t, "orders")))}
			if rapid.IntRange(0, 9).Draw(t, "unknown") == 0 {
				l.value = podscaler.Reading{}
			}
			looks = append(looks, l)
			d := s.Decide(&podscaler.View{Now: now.Add(at), Workload: s.Workload(), Replicas: replicas, Pods: running(replicas, 0), Window: whole("orders", l.value)})
			calls := func(l look) bool { return l.value.Known && l.value.Value > 5 }
			idle := replicas == w.Idle.Replicas && !calls(l)
			if replicas != w.Idle.Replicas {
				since := at + time.Second // the first look with no call since
				for i := len(looks) - 1; i >= 0 && looks[i].value.Known && !calls(looks[i]); i-- {
					since = looks[i].at
				}
				if idle = at-since >= after; idle {
					slept++
				}
			} else if !idle {
				woke++
			}
			if got := d.To == w.Idle.Replicas; got != idle || !idle && d.To < w.Min {
				t.Fatalf("at %s, %d replicas, %+v: %d, should be idle: %t; %v", at, replicas, l.value, d.To, idle, d.Reasons)
			}
			replicas = d.To
		}
	})
	if slept == 0 || woke == 0 {
		t.Errorf("%d were put to rest and %d woken: the law has said nothing", slept, woke)
	}
}
