package policy_test

import (
	"fmt"
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

// water is a spec with marks at 400m and 1200m, in which one step may go as far as it likes.
func water(change func(*policy.Watermark)) policy.Spec {
	c := policy.Watermark{High: 1200, Low: 400, UpLimitPercent: new(100), DownLimitPercent: new(100)}
	if change != nil {
		change(&c)
	}
	return policy.Spec{Policy: "Watermark", Watermark: &c}
}

func seconds(n int) *podscaler.Duration {
	return new(podscaler.Duration(time.Duration(n) * time.Second))
}

// seasoned runs scalers that have looked around an hour ago, so that no pause is running.
func seasoned(t *testing.T, scenarios []scenario) {
	t.Helper()
	for _, c := range scenarios {
		t.Run(c.name, func(t *testing.T) {
			s := scalerOf(t, c.spec, c.workload)
			c.view.Now, c.view.Workload = now.Add(-time.Hour), s.Workload()
			s.Look(&c.view)
			c.view.Now = now
			d := s.Decide(&c.view)
			if d.To != c.to || d.Known == c.unknown {
				t.Errorf("went from %d to %d (known %v); should go to %d (known %v)", d.From, d.To, d.Known, c.to, !c.unknown)
			}
			expect(t, d, c.reasons...)
		})
	}
}

// expect wants each text in a reason; one that begins with ! in none.
func expect(t *testing.T, d podscaler.Decision, texts ...string) {
	t.Helper()
	for _, text := range texts {
		text, absent := strings.CutPrefix(text, "!")
		if absent == slices.ContainsFunc(d.Reasons, func(r podscaler.Reason) bool { return strings.Contains(r.String(), text) }) {
			t.Errorf("%q should be in a reason: %v", text, !absent)
		}
	}
	if t.Failed() {
		t.Logf("reasons: %q", d.Reasons)
	}
}

func at400And500(guard bool) policy.Spec {
	return water(func(c *policy.Watermark) {
		c.High, c.AntiOscillation, c.Cooldown = 500, &guard, policy.ByDirection{Up: seconds(0), Down: seconds(0)}
	})
}

func of(n int, cpu float64) podscaler.View { return podscaler.View{Replicas: n, Pods: running(n, cpu)} }

func TestScenarios10To13And15To18Watermark(t *testing.T) {
	limit := func(up, down int) policy.Spec {
		return water(func(c *policy.Watermark) { c.UpLimitPercent, c.DownLimitPercent = &up, &down })
	}
	maxSeven := func(w *podscaler.Workload) { w.Max = 7 }
	stopping := running(1, 1.5)[0]
	stopping.Name, stopping.Terminating = "web-stopping", true
	idle := append(running(2, 1.5), running(4, 0)[2:]...)
	seasoned(t, []scenario{
		{
			name: "scenario 10: 5 at 1500m, high 1200m: 7", spec: water(nil), view: of(5, 1.5),
			to: 7, reasons: []string{"AboveHighWatermark: cpu is 1.5 over 5 pods, above 1.212: 7 wanted to bring it to 1.2"},
		}, {
			name: "scenario 11: 7 at 300m, low 400m: 5", spec: water(nil), view: of(7, 0.3),
			to: 5, reasons: []string{"BelowLowWatermark: cpu is 300m over 7 pods, below 396m: 5 wanted to bring it to 400m", "!WouldOscillate"},
		}, {
			name: "scenario 12: 1205m is within 1 %", spec: water(nil), view: of(5, 1.205),
			to: 5, reasons: []string{"WithinWatermarks: cpu is 1.205 over 5 pods, within 396m and 1.212: 5 stay"},
		}, {
			name: "scenario 12: 1213m with 5 pods: 6", spec: water(nil), view: of(5, 1.213),
			to: 6, reasons: []string{"AboveHighWatermark: cpu is 1.213 over 5 pods"},
		}, {
			name: "scenario 12: 398m is within 1 %", spec: water(nil), view: of(7, 0.398),
			to: 7, reasons: []string{"WithinWatermarks: cpu is 398m over 7 pods"},
		}, {
			name: "scenario 12: 395m with 7 pods: 6", spec: water(nil), view: of(7, 0.395),
			to: 6, reasons: []string{"BelowLowWatermark: cpu is 395m over 7 pods"},
		}, {
			name: "on the marks with their tolerance nothing is done: 1212m", spec: water(nil), view: of(5, 1.212),
			to: 5, reasons: []string{"WithinWatermarks"},
		}, {
			name: "on the marks with their tolerance nothing is done: 396m", spec: water(nil), view: of(7, 0.396),
			to: 7, reasons: []string{"WithinWatermarks"},
		}, {
			// In floats 400 × 1.015 is below 406, and 1000 × 0.941 above 941.
			name: "on a mark in decimals, beyond it in floats: 406m", view: of(5, 0.406),
			spec: water(func(c *policy.Watermark) { c.High, c.Low, c.Tolerance = 400, 100, new(0.015) }), to: 5, reasons: []string{"WithinWatermarks"},
		}, {
			name: "on a mark in decimals, beyond it in floats: 941m", view: of(7, 0.941),
			spec: water(func(c *policy.Watermark) { c.High, c.Low, c.Tolerance = 9000, 1000, new(0.059) }), to: 7, reasons: []string{"WithinWatermarks"},
		}, {
			name: "scenario 13: 3 to 6 at 20 %, max 7: 4", spec: limit(20, 20), workload: maxSeven, view: of(3, 2.4),
			to: 4, reasons: []string{"6 wanted to bring it to 1.2", "ScaleUpLimit: 6 wanted, at most 4 in one step of 20% from 3"},
		}, {
			name: "scenario 13: max is tighter than the step", spec: limit(200, 20), workload: maxSeven, view: of(6, 2.4),
			to: 7, reasons: []string{"12 wanted to bring it to 1.2", "!ScaleUpLimit", "TooManyReplicas: 12 wanted, at most 7 allowed now"},
		}, {
			name: "scenario 13: 10 to 5 at 20 % down: 8", spec: limit(20, 20), view: of(10, 0.2),
			to: 8, reasons: []string{"5 wanted to bring it to 400m", "ScaleDownLimit: 5 wanted, at least 8 in one step of 20% from 10"},
		}, {
			name: "scenario 13: a limit of 0 % turns growing off", spec: limit(0, 20), view: of(3, 2.4),
			to: 3, reasons: []string{"ScaleUpLimit: 6 wanted, at most 3 in one step of 0% from 3"},
		}, {
			name: "scenario 13: a limit of 0 % turns shrinking off", spec: limit(20, 0), view: of(10, 0.2),
			to: 10, reasons: []string{"ScaleDownLimit: 5 wanted, at least 10 in one step of 0% from 10"},
		}, {
			name: "scenario 15: 5 asked for, 1 stops, 1 is pending, 3 run at 1500m: 4 would do, 5 stay", spec: water(nil),
			view: podscaler.View{Replicas: 5, Pods: append(running(3, 1.5), stopping, pending())},
			to:   5, reasons: []string{"cpu is 1.5 over 3 pods, above 1.212: 4 wanted", "AlreadyAskedFor: 4 wanted, and 5 asked for already: 5 stay"},
		}, {
			name: "scenario 16: 3 at 300m, 1 missing: 528m is above the low mark: 4 stay", spec: water(nil),
			view: podscaler.View{Replicas: 4, Pods: append(running(3, 0.3), silent())},
			to:   4, reasons: []string{"WithinWatermarks: cpu is 528m over 4 pods (300m before counting in 1 without a sample), within 396m and 1.212: 4 stay"},
		}, {
			name: "scenario 16: growing fills 0: 3 at 2000m, 1 missing: 5, not 7", spec: water(nil),
			view: podscaler.View{Replicas: 4, Pods: append(running(3, 2), silent())},
			to:   5, reasons: []string{"AboveHighWatermark: cpu is 1.5 over 4 pods (2 before counting in 1 without a sample), above 1.212: 5 wanted"},
		}, {
			name: "scenario 16: growing fills 0: 3 at 1500m, 1 missing: 1125m is no reason to grow", spec: water(nil),
			view: podscaler.View{Replicas: 4, Pods: append(running(3, 1.5), silent())},
			to:   4, reasons: []string{"WithinWatermarks: cpu is 1.125 over 4 pods (1.5 before counting in 1 without a sample)"},
		}, {
			name: "scenario 17: 4 ready, 2 registered: the load is that of 2", spec: water(nil),
			view: podscaler.View{Replicas: 4, Pods: idle, Window: podscaler.Window{Registered: podscaler.Known(2)}},
			to:   4, reasons: []string{
				"RegistrationMismatch: 4 pods are ready, and 2 instances are registered",
				"AboveHighWatermark: cpu is 1.5 over 2 pods, above 1.212: 3 wanted",
				"AlreadyAskedFor: 3 wanted, and 4 asked for already",
			},
		}, {
			name: "scenario 18: 3 at 395m, low 400m, high 500m, with the guard: 3", spec: at400And500(true), view: of(3, 0.395),
			to: 3, reasons: []string{"WouldOscillate: 2 wanted, with cpu at 593m then, above its high watermark of 500m: 3 stay"},
		},
	})
}

// Without the guard the shrink is taken back by the very next decision.
func TestScenario18WithoutTheGuardItFlaps(t *testing.T) {
	s := scalerOf(t, at400And500(false), nil)
	total, replicas, went := 3*0.395, 3, []int{}
	for i := range 4 {
		v := of(replicas, total/float64(replicas))
		v.Now, v.Workload = now.Add(time.Duration(i)*time.Minute), s.Workload()
		replicas = s.Decide(&v).To
		went = append(went, replicas)
	}
	if want := []int{2, 3, 2, 3}; !slices.Equal(went, want) {
		t.Errorf("went to %v, should %v", went, want)
	}
}

// Both windows count from the last action, whichever way it went.
func TestScenario14WatermarkCoolDown(t *testing.T) {
	low, high := of(7, 0.3), of(7, 1.5)
	for _, c := range []struct {
		after time.Duration
		view  podscaler.View
		to    int
		why   string
	}{
		{59 * time.Second, high, 7, "Cooldown: 9 wanted, but the last change of replicas was 59s ago: 1s left of 1m"},
		{60 * time.Second, high, 9, "!Cooldown"},
		{299 * time.Second, low, 7, "Cooldown: 5 wanted, but the last change of replicas was 4m59s ago: 1s left of 5m"},
		{300 * time.Second, low, 5, "!Cooldown"},
	} {
		t.Run(fmt.Sprint(c.after), func(t *testing.T) {
			s := scalerOf(t, water(nil), nil)
			v := of(5, 1.5)
			v.Now, v.Workload = now, s.Workload()
			if d := s.Decide(&v); d.To != 7 {
				t.Fatalf("went to %d, should to 7: %q", d.To, d.Reasons)
			}
			c.view.Now, c.view.Workload = now.Add(c.after), s.Workload()
			d := s.Decide(&c.view)
			if d.To != c.to {
				t.Errorf("went to %d, should to %d", d.To, c.to)
			}
			expect(t, d, c.why)
		})
	}
	t.Run("a shrink holds growth back, too", func(t *testing.T) {
		s := scalerOf(t, water(func(c *policy.Watermark) { c.Cooldown.Down = seconds(0) }), nil)
		for i, step := range []struct{ from, to int }{{7, 5}, {5, 5}, {5, 7}} {
			v := of(step.from, []float64{0.3, 1.5, 1.5}[i])
			v.Now, v.Workload = now.Add(time.Duration(i*30)*time.Second), s.Workload()
			if d := s.Decide(&v); d.To != step.to {
				t.Errorf("step %d: went to %d, should to %d: %q", i, d.To, step.to, d.Reasons)
			}
		}
	})
}

// What happened before a restart is not known: growth does not wait for it, shrinking does.
func TestAWatermarkThatForgotGrowsAtOnceAndShrinksLater(t *testing.T) {
	grow := scalerOf(t, water(nil), nil)
	v := of(5, 1.5)
	v.Now, v.Workload = now, grow.Workload()
	if d := grow.Decide(&v); d.To != 7 {
		t.Errorf("went to %d, should grow to 7: %q", d.To, d.Reasons)
	}
	shrink := scalerOf(t, water(nil), nil)
	for _, c := range []struct {
		after time.Duration
		to    int
		why   string
	}{{0, 7, "Cooldown: 5 wanted, but the first run was 0s ago: 300s left of 5m"}, {5 * time.Minute, 5, "!Cooldown"}} {
		v := of(7, 0.3)
		v.Now, v.Workload = now.Add(c.after), shrink.Workload()
		d := shrink.Decide(&v)
		if d.To != c.to {
			t.Errorf("after %s: went to %d, should to %d", c.after, d.To, c.to)
		}
		expect(t, d, c.why)
	}
}

func TestWatermarkDelays(t *testing.T) {
	const above, within, below, unknown, half, unregistered = 1.5, 0.8, 0.3, -1.0, -2.0, -3.0
	for _, c := range []struct {
		name  string
		loads []float64 // one a minute
		went  []int
		why   string // of the last
	}{
		{"above for 2m", []float64{above, above, above}, []int{7, 7, 9}, "!WatermarkDelay"},
		{"above for a minute", []float64{above, above}, []int{7, 7}, "WatermarkDelay: 9 wanted, but the load has been above the high watermark for 1m: 60s left of 2m"},
		{"a dip between begins anew", []float64{above, within, above, above, above}, []int{7, 7, 7, 7, 9}, "!WatermarkDelay"},
		{"a gap does not", []float64{above, unknown, above}, []int{7, 7, 9}, "!WatermarkDelay"},
		{"below for 3m", []float64{below, below, below, below}, []int{7, 7, 7, 5}, "!WatermarkDelay"},
		{"below for 2m", []float64{below, below, below}, []int{7, 7, 7}, "WatermarkDelay: 5 wanted, but the load has been below the low watermark for 2m: 60s left of 3m"},
		{"a gap begins anew on the way down", []float64{below, unknown, below, below, below, below}, []int{7, 7, 7, 7, 7, 5}, "!WatermarkDelay"},
		{"so does one of one metric", []float64{below, half, below, below, below, below}, []int{7, 7, 7, 7, 7, 5}, "!WatermarkDelay"},
		{"so does a time with nothing registered", []float64{below, unregistered, below, below, below, below}, []int{7, 7, 7, 7, 7, 5}, "!WatermarkDelay"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := scalerOf(t, water(func(w *policy.Watermark) {
				w.Metrics = []policy.WatermarkMetric{{Type: policy.Resource, Name: "cpu", High: w.High, Low: w.Low}, {Type: policy.External, Name: "queue", Low: 500_000}}
				w.High, w.Low = 0, 0
				w.Cooldown = policy.ByDirection{Up: seconds(0), Down: seconds(0)}
				w.Delay = policy.ByDirection{Up: seconds(120), Down: seconds(180)}
			}), nil)
			var went []int
			var last podscaler.Decision
			for i, cpu := range c.loads {
				v := of(7, cpu)
				v.Window = whole("queue", podscaler.Known(10))
				switch cpu {
				case unknown:
					v.Pods, v.Window = nil, podscaler.Window{}
				case half:
					v.Pods, v.Window = running(7, below), podscaler.Window{}
				case unregistered:
					v.Pods, v.Window.Registered = running(7, below), podscaler.Known(0)
				}
				v.Now, v.Workload = now.Add(time.Duration(i)*time.Minute), s.Workload()
				last = s.Decide(&v)
				went = append(went, last.To)
			}
			if !slices.Equal(went, c.went) {
				t.Errorf("went to %v, should %v", went, c.went)
			}
			expect(t, last, c.why)
		})
	}
}

func TestWatermarkLeavesOutPodsThatAreStarting(t *testing.T) {
	with := func(change func(*podscaler.Pod)) podscaler.View {
		v := of(3, 0.8)
		p := &v.Pods[2]
		p.CPU.Value = 6 // counted, the mean would be above the mark
		change(p)
		return v
	}
	ago := func(s int) time.Time { return now.Add(-time.Duration(s) * time.Second) }
	series := with(func(p *podscaler.Pod) { p.Started, p.ReadyChanged, p.Ready = ago(60), ago(50), false })
	series.Window.Metrics = map[string]podscaler.Metric{"load": {PerPod: map[string]float64{"web-00": 0.8, "web-01": 0.8, "web-02": 6}}}
	load := water(func(c *policy.Watermark) {
		c.Metrics = []policy.WatermarkMetric{{Type: policy.Pods, Name: "load", High: c.High, Low: c.Low}}
		c.High, c.Low = 0, 0
	})
	seasoned(t, []scenario{
		{
			name: "counted, it would", spec: water(nil), view: with(func(*podscaler.Pod) {}),
			to: 6, reasons: []string{"cpu is 2.533 over 3 pods"},
		}, {
			name: "ready since less than its sample spans", spec: water(nil), view: with(func(p *podscaler.Pod) { p.Started, p.ReadyChanged = ago(60), ago(10) }),
			to: 3, reasons: []string{"cpu is 800m over 2 pods"},
		}, {
			name: "never ready", spec: water(nil), view: with(func(p *podscaler.Pod) { p.Started, p.ReadyChanged, p.Ready = ago(600), ago(590), false }),
			to: 3, reasons: []string{"cpu is 800m over 2 pods"},
		}, {
			name: "failed", spec: water(nil), view: with(func(p *podscaler.Pod) { p.Phase = podscaler.Failed }),
			to: 3, reasons: []string{"cpu is 800m over 2 pods"},
		}, {
			name: "a series of each pod says nothing of when, and readiness counts all the same", spec: load, view: series,
			to: 3, reasons: []string{"load is 800m over 2 pods"},
		}, {
			name: "both times are settings", view: with(func(p *podscaler.Pod) { p.Started, p.ReadyChanged = ago(60), ago(10) }),
			spec: water(func(c *policy.Watermark) {
				c.CPUInitializationPeriod, c.InitialReadinessDelay = seconds(30), seconds(0)
			}),
			to: 6, reasons: []string{"cpu is 2.533 over 3 pods"},
		}, {
			name: "none left: nothing is known", spec: water(nil), view: podscaler.View{Replicas: 3, Pods: []podscaler.Pod{pending(), silent()}},
			to: 3, unknown: true, reasons: []string{"FailedGetResourceMetric: cpu is unknown: no ready pod has a sample"},
		},
	})
}

func TestWatermarkAlgorithms(t *testing.T) {
	on := func(kind policy.MetricType, a policy.Algorithm) policy.Spec {
		return water(func(c *policy.Watermark) {
			c.Algorithm = a
			c.Metrics = []policy.WatermarkMetric{{Type: kind, Name: "queue", High: 1000_000, Low: 400_000}}
			c.High, c.Low = 0, 0
		})
	}
	queue := func(n int, value podscaler.Reading) podscaler.View {
		return podscaler.View{Replicas: n, Pods: running(n, 0), Window: whole("queue", value)}
	}
	unready := queue(4, podscaler.Known(3900))
	unready.Pods[3].Ready = false
	seasoned(t, []scenario{
		{
			name: "the average divides by the ready pods", spec: on(policy.External, policy.Average), view: unready,
			to: 4, reasons: []string{"AboveHighWatermark: queue is 1300 over 3 pods, above 1010: 4 wanted to bring it to 1000"},
		}, {
			name: "the absolute value is the whole, and what carries it grows with it", spec: on(policy.External, policy.Absolute), view: queue(4, podscaler.Known(1500)),
			to: 6, reasons: []string{"AboveHighWatermark: queue is 1500 in all with 4 pods, above 1010: 6 wanted to bring it to 1000"},
		}, {
			name: "absolute, down", spec: on(policy.Object, policy.Absolute), view: queue(7, podscaler.Known(300)),
			to: 5, reasons: []string{"BelowLowWatermark: queue is 300 in all with 7 pods, below 396: 5 wanted to bring it to 400"},
		}, {
			name: "absolute, of each pod, is their sum", spec: water(func(c *policy.Watermark) { c.Algorithm = policy.Absolute }), view: of(3, 0.6),
			to: 5, reasons: []string{"AboveHighWatermark: cpu is 1.8 in all with 3 pods, above 1.212: 5 wanted"},
		}, {
			name: "down is never below 1", spec: water(func(c *policy.Watermark) { c.TolerateZero = true }), view: of(2, 0.1),
			to: 1, reasons: []string{"cpu is 100m over 2 pods, below 396m: 1 wanted"},
		}, {
			name: "0 is taken for a broken measurement", spec: water(nil), view: of(4, 0),
			to: 4, reasons: []string{"ZeroNotTolerated: cpu is 0 over 4 pods, which may be no measurement: 4 stay (tolerateZero)"},
		}, {
			name: "unless it is tolerated", spec: water(func(c *policy.Watermark) { c.TolerateZero = true }), view: of(4, 0),
			to: 1, reasons: []string{"BelowLowWatermark: cpu is 0 over 4 pods"},
		}, {
			name: "no load is below 0", spec: on(policy.External, policy.Average), view: queue(4, podscaler.Known(-3)),
			to: 4, unknown: true, reasons: []string{"FailedGetExternalMetric: queue is unknown: it is -3, which no load is"},
		}, {
			name: "nobody there to carry it", spec: on(policy.External, policy.Average), view: podscaler.View{Replicas: 4, Pods: []podscaler.Pod{pending()}, Window: whole("queue", podscaler.Known(5000))},
			to: 4, unknown: true, reasons: []string{"queue is unknown: no pod is ready to carry it"},
		}, {
			name: "one mark is enough: only growth", spec: water(func(c *policy.Watermark) { c.Low = 0 }), view: of(4, 0.001),
			to: 4, reasons: []string{"WithinWatermarks: cpu is 1m over 4 pods, not above 1.212: 4 stay"},
		}, {
			name: "one mark is enough: only shrinking", spec: water(func(c *policy.Watermark) { c.High = 0 }), view: of(4, 9),
			to: 4, reasons: []string{"cpu is 9 over 4 pods, not below 396m: 4 stay"},
		}, {
			name: "without a high mark a missing pod counts as at the low one", spec: water(func(c *policy.Watermark) { c.High = 0 }),
			view: podscaler.View{Replicas: 4, Pods: append(running(3, 0.1), silent())},
			to:   1, reasons: []string{"cpu is 175m over 4 pods (100m before counting in 1 without a sample), below 396m: 1 wanted"},
		}, {
			name: "without marks they are 80 and 40 % of the request", spec: policy.Spec{Policy: "watermark"}, view: of(10, 0.45),
			to: 12, reasons: []string{"cpu is 450m over 10 pods, above 404m: 12 wanted to bring it to 400m"},
		}, {
			name: "a tolerance of the workload's own counts in its direction", spec: water(nil), view: of(10, 1.3),
			workload: func(w *podscaler.Workload) {
				w.Behavior = podscaler.DefaultBehavior()
				w.Behavior.Up.Tolerance = new(0.1)
			},
			to: 10, reasons: []string{"cpu is 1.3 over 10 pods, within 396m and 1.32: 10 stay"},
		}, {
			name: "an overflow is cut, not wrapped", spec: on(policy.External, policy.Absolute), view: queue(4, podscaler.Known(1e300)),
			to: 8, reasons: []string{"2147483647 wanted", "ScaleUpLimit: 2147483647 wanted, at most 8 in one step of 100% from 4"},
		},
	})
}

func TestWatermarkTakesTheMostOfAllMetrics(t *testing.T) {
	both := water(func(c *policy.Watermark) {
		c.Metrics = []policy.WatermarkMetric{
			{Type: policy.Resource, Name: "cpu", High: 1200, Low: 400},
			{Type: policy.External, Name: "queue", High: 100_000, Low: 40_000},
		}
		c.High, c.Low = 0, 0
	})
	with := func(cpu float64, queue podscaler.Reading) podscaler.View {
		v := of(10, cpu)
		v.Window = whole("queue", queue)
		return v
	}
	seasoned(t, []scenario{
		{
			name: "one wants 13, the other is content: 13", spec: both, view: with(1.5, podscaler.Known(600)),
			to: 13, reasons: []string{"13 wanted to bring it to 1.2", "queue is 60 over 10 pods, within 39.6 and 101: 10 stay"},
		}, {
			name: "one wants 7, the other is content: 10", spec: both, view: with(0.3, podscaler.Known(600)),
			to: 10, reasons: []string{"7 wanted to bring it to 400m"},
		}, {
			name: "one wants 7, the other 5: 7", spec: both, view: with(0.3, podscaler.Known(200)),
			to: 7, reasons: []string{"7 wanted to bring it to 400m", "5 wanted to bring it to 40"},
		}, {
			name: "one wants 13, the other is unknown: 13", spec: both, view: with(1.5, podscaler.Reading{}),
			to: 13, reasons: []string{"FailedGetExternalMetric: queue is unknown: it has no value"},
		}, {
			name: "one wants 7, the other is unknown: 10", spec: both, view: with(0.3, podscaler.Reading{}),
			to: 10, unknown: true, reasons: []string{"MetricsIncomplete: 1 of 2 metrics are unknown, so 10 replicas are not reduced to 7"},
		},
	})
}

func TestWatermarkRegistration(t *testing.T) {
	with := func(v podscaler.View, r podscaler.Reading) podscaler.View {
		v.Window.Registered = r
		return v
	}
	silentRegistry := podscaler.Reading{Why: "no answer in time"}
	versions := func(rolling bool) podscaler.View {
		v := with(of(4, 0.8), podscaler.Known(4))
		v.Window.RegisteredVersions = map[string]int{"1.4": 3, "1.5": 1}
		v.Rollout.InProgress = rolling
		return v
	}
	half := of(4, 0.6)
	half.Pods[2].CPU.Value, half.Pods[3].CPU.Value = 0.05, 0.05
	absolute := water(func(c *policy.Watermark) { c.Algorithm = policy.Absolute })
	seasoned(t, []scenario{
		{
			name: "all ready pods are registered: nothing is reported", spec: water(nil), view: with(of(4, 0.8), podscaler.Known(4)),
			to: 4, reasons: []string{"!Registration", "cpu is 800m over 4 pods"},
		}, {
			name: "none asked: nothing is reported", spec: water(nil), view: of(7, 0.3),
			to: 5, reasons: []string{"!Registration"},
		}, {
			name: "325m over all would shrink, 650m over those registered does not", spec: water(nil), view: with(half, podscaler.Known(2)),
			to: 4, reasons: []string{"RegistrationMismatch: 4 pods are ready, and 2 instances are registered", "WithinWatermarks: cpu is 650m over 2 pods"},
		}, {
			name: "more registered than ready: the ready ones count, and it is reported", spec: water(nil), view: with(of(5, 1.5), podscaler.Known(9)),
			to: 7, reasons: []string{"RegistrationMismatch: 5 pods are ready, and 9 instances are registered", "cpu is 1.5 over 5 pods"},
		}, {
			name: "none registered: nobody carries the load", spec: water(nil), view: with(of(5, 1.5), podscaler.Known(0)),
			to: 5, unknown: true, reasons: []string{"RegistrationMismatch: 5 pods are ready, and 0 instances are registered", "NothingRegistered: "},
		}, {
			name: "the absolute value is not shared out", spec: absolute, view: with(of(3, 0.6), podscaler.Known(1)),
			to: 5, reasons: []string{"RegistrationMismatch", "cpu is 1.8 in all with 3 pods"},
		}, {
			name: "an unknown registry does not keep from growing", spec: water(nil), view: with(of(5, 1.5), silentRegistry),
			to: 7, reasons: []string{"!Registration"},
		}, {
			name: "it keeps from shrinking", spec: water(nil), view: with(of(7, 0.3), silentRegistry),
			to: 7, unknown: true, reasons: []string{"RegistrationUnknown: the registry could not be asked, so 7 replicas are not reduced to 5: no answer in time"},
		}, {
			name: "what is no number is unknown", spec: water(nil), view: with(of(7, 0.3), podscaler.Reading{Known: true, Value: math.NaN()}),
			to: 7, unknown: true, reasons: []string{"RegistrationUnknown: the registry could not be asked, so 7 replicas are not reduced to 5: it answers with no number"},
		}, {
			name: "several versions at once", spec: water(nil), view: versions(false),
			to: 4, reasons: []string{"RegistrationMismatch: instances of 2 versions are registered, and no rollout is under way: 3 of 1.4, 1 of 1.5"},
		}, {
			name: "several versions in a rollout", spec: water(nil), view: versions(true),
			to: 4, reasons: []string{"!Registration"},
		},
	})
}

// A mismatch that lasts is one condition: every cycle has its code once and in the same words, so
// that it is reported once.
func TestScenario17AMismatchIsOneCondition(t *testing.T) {
	s := scalerOf(t, water(nil), nil)
	texts := map[string]int{}
	for i := range 5 {
		v := of(4, 0.8)
		v.Window.Registered = podscaler.Known(2)
		v.Now, v.Workload = now.Add(time.Duration(i)*15*time.Second), s.Workload()
		for _, r := range s.Decide(&v).Reasons {
			if r.Code == podscaler.ReasonRegistrationMismatch {
				texts[r.Text]++
			}
		}
	}
	if len(texts) != 1 || texts["4 pods are ready, and 2 instances are registered"] != 5 {
		t.Errorf("reported %v", texts)
	}
}

func TestWatermarkMultiplesAndConvergence(t *testing.T) {
	by := func(multiple int, to policy.Converge, up, down int) policy.Spec {
		return water(func(c *policy.Watermark) {
			c.Multiple, c.ConvergeTo, c.UpLimitPercent, c.DownLimitPercent = multiple, to, &up, &down
		})
	}
	threes := func(w *podscaler.Workload) { w.Min, w.Max = 3, 999 }
	none, high, low := policy.ConvergeNone, policy.ConvergeHigh, policy.ConvergeLow
	absent := of(6, 0.6)
	absent.Pods[0].CPU.Known = false
	seasoned(t, []scenario{
		{name: "growing rounds up: 6 at 1500m are 8, and 9", spec: by(3, none, 100, 100), workload: threes, view: of(6, 1.5), to: 9, reasons: []string{"9 wanted"}},
		{name: "shrinking rounds down: 15 at 330m are 12", spec: by(3, none, 100, 100), workload: threes, view: of(15, 0.35), to: 12, reasons: []string{"12 wanted"}},
		{name: "never below one multiple", spec: by(3, none, 100, 100), workload: threes, view: of(6, 0.1), to: 3, reasons: []string{"3 wanted"}},
		{name: "a step of less than a multiple is one", spec: by(3, none, 20, 20), workload: threes, view: of(6, 5), to: 9, reasons: []string{"ScaleUpLimit: 27 wanted, at most 9 in one step of 20% from 6"}},
		{name: "a step of more is cut to one: 9 + 5 are 12", spec: by(3, none, 60, 20), workload: threes, view: of(9, 5), to: 12, reasons: []string{"ScaleUpLimit: 39 wanted, at most 12"}},
		{name: "the same down: 30 − 8 are 24", spec: by(3, none, 20, 29), workload: threes, view: of(30, 0.1), to: 24, reasons: []string{"ScaleDownLimit: 6 wanted, at least 24"}},
		{name: "a step down of less than a multiple is one", spec: by(3, none, 20, 20), workload: threes, view: of(6, 0.1), to: 3, reasons: []string{"3 wanted", "!ScaleDownLimit"}},
		{name: "replicas that are no multiple become one", spec: by(3, none, 20, 20), workload: threes, view: of(7, 0.3), to: 6, reasons: []string{"at least 6 in one step of 20% from 7"}},
		{name: "converge to high: 4 at 600m are 3 at 800m", spec: by(1, high, 100, 100), view: of(4, 0.6), to: 3, reasons: []string{"WithinWatermarks: ", "ConvergeToWatermark: cpu would be 800m with 3 replicas, nearer to the watermark of 1.2"}},
		{name: "converge to high: 2 at 650m would be 1 at 1300m", spec: by(1, high, 100, 100), view: of(2, 0.65), to: 2, reasons: []string{"!ConvergeToWatermark"}},
		{name: "converge to high: 2 at 600m are 1 at 1200m, which is on the mark", spec: by(1, high, 100, 100), view: of(2, 0.6), to: 1, reasons: []string{"cpu would be 1.2 with 1 replicas"}},
		{name: "converge to low: 4 at 600m are 5 at 480m", spec: by(1, low, 100, 100), view: of(4, 0.6), to: 5, reasons: []string{"ConvergeToWatermark: cpu would be 480m with 5 replicas, nearer to the watermark of 400m"}},
		{name: "converge to low: 4 at 450m would be 5 at 360m", spec: by(1, low, 100, 100), view: of(4, 0.45), to: 4, reasons: []string{"!ConvergeToWatermark"}},
		{name: "converge by a multiple", spec: by(3, high, 100, 100), workload: threes, view: of(6, 0.5), to: 3, reasons: []string{"cpu would be 1 with 3 replicas"}},
		{name: "converge to high counts a missing pod as full: 6 would be 5 at 842m", spec: by(1, high, 100, 100), view: absent, to: 5, reasons: []string{"cpu would be 842m with 5 replicas"}},
		{name: "converge to low counts it as idle: 5 of 600m over 7", spec: by(1, low, 100, 100), view: absent, to: 7, reasons: []string{"cpu would be 429m with 7 replicas"}},
		{name: "a direction that is off is off for convergence", spec: by(1, low, 0, 100), view: of(4, 0.6), to: 4, reasons: []string{"ScaleUpLimit: 5 wanted, at most 4 in one step of 0% from 4"}},
	})
}

// A shrink that goes too far goes as far as it may.
func TestWatermarkShrinksToWhatCarriesTheLoad(t *testing.T) {
	seasoned(t, []scenario{{
		name: "790m shared by 10 fit in 2 pods, not in 1", spec: at400And500(true), view: of(10, 0.079),
		to: 2, reasons: []string{"1 wanted to bring it to 400m", "WouldOscillate: 1 wanted, with cpu at 790m then, above its high watermark of 500m: 2 stay"},
	}})
}

func TestWatermarkWarnsOfNarrowBands(t *testing.T) {
	for _, c := range []struct {
		least int
		spec  policy.Spec
		want  []podscaler.Reason
	}{
		{1, water(nil), nil},
		{4, at400And500(true), []podscaler.Reason{{
			Code: podscaler.ReasonNarrowBand,
			Text: "the high watermark of cpu is 1.25 times the low one, and 4 replicas in place of 5 carry 1.25 times the load each: that shrink will not be made (antiOscillation)",
		}}},
		{2, at400And500(false), []podscaler.Reason{{
			Code: podscaler.ReasonNarrowBand,
			Text: "the high watermark of cpu is 1.25 times the low one, and 2 replicas in place of 3 carry 1.5 times the load each: that shrink will be taken back",
		}}},
		{5, at400And500(true), nil},
	} {
		p := must.Get(policy.New(c.spec))(t)
		w := usual()
		w.Min = c.least
		if got := policy.Warnings(&w, p); !slices.Equal(got, c.want) {
			t.Errorf("at least %d: warns of %q, should of %q", c.least, got, c.want)
		}
	}
}

func TestWatermarkSettingsAreRefusedWithKeyRuleAndValue(t *testing.T) {
	metric := func(m policy.WatermarkMetric) policy.Watermark {
		return policy.Watermark{Metrics: []policy.WatermarkMetric{m}}
	}
	for fault, c := range map[string]policy.Watermark{
		`watermark.algorithm: must be Average or Absolute, was "average"`:                                          {Algorithm: "average"},
		"watermark.high: must be above 0, was -1":                                                                  {High: -1000},
		"watermark.low: must be above 0, was -5m":                                                                  {Low: -5},
		"watermark.high: must be above low, which is 400m, was 400m":                                               {High: 400, Low: 400},
		"watermark.tolerance: must be at least 0 and below 1, was 1":                                               {Tolerance: new(1.0)},
		"watermark.tolerance: must be at least 0 and below 1, was NaN":                                             {Tolerance: new(math.NaN())},
		"watermark.upLimitPercent: must be between 0 and 2147483647, was -1":                                       {UpLimitPercent: new(-1)},
		"watermark.downLimitPercent: must be between 0 and 100, was 101":                                           {DownLimitPercent: new(101)},
		"watermark.cooldown.up: must be at least 0, was -1s":                                                       {Cooldown: policy.ByDirection{Up: seconds(-1)}},
		"watermark.delay.down: must be at least 0, was -1s":                                                        {Delay: policy.ByDirection{Down: seconds(-1)}},
		"watermark.multiple: must be between 1 and 2147483647, was -2":                                             {Multiple: -2},
		`watermark.convergeTo: must be None, High or Low, was "Middle"`:                                            {ConvergeTo: "Middle"},
		"watermark.high: must be set to converge to it, was 0":                                                     {Low: 400, ConvergeTo: policy.ConvergeHigh},
		"watermark.cpuInitializationPeriod: must be at least 0, was -1s":                                           {CPUInitializationPeriod: seconds(-1)},
		"watermark.metrics: must be empty with watermark.high or watermark.low, which are marks of the cpu, was 1": {High: 5, Metrics: []policy.WatermarkMetric{{Type: policy.Pods, Name: "x", High: 5}}},
		`watermark.metrics[0].type: must be Resource, ContainerResource, Pods, Object or External, was "Cpu"`:      metric(policy.WatermarkMetric{Type: "Cpu", Name: "x", High: 5}),
		`watermark.metrics[0].container: must name the container with type ContainerResource, was ""`:              metric(policy.WatermarkMetric{Type: policy.ContainerResource, Name: "memory", High: 5}),
		`watermark.metrics[0].name: must not be empty, was ""`:                                                     metric(policy.WatermarkMetric{Type: policy.Pods, High: 5}),
		"watermark.metrics[0]: must have a high or a low watermark, was none":                                      metric(policy.WatermarkMetric{Type: policy.Pods, Name: "x"}),
	} {
		_, err := policy.New(policy.Spec{Policy: "watermark", Watermark: &c})
		if err == nil || !slices.Contains(strings.Split(err.Error(), "\n"), fault) {
			t.Errorf("faults are %v, should have %q", err, fault)
		}
	}
}

func TestWatermarkNeedsOfItsWorkload(t *testing.T) {
	p := must.Get(policy.New(policy.Spec{Policy: "watermark", Watermark: &policy.Watermark{Multiple: 4}}))(t)
	w := usual()
	w.Min, w.Max, w.Pod = 0, 10, pricing.Resources{}
	want := []string{
		"pod.cpu: must be above 0 without watermark.high and watermark.low, which are then in percent of it, was 0",
		"minReplicas: must be at least 1 for policy Watermark, which multiplies what is there, was 0",
		"maxReplicas: must be a multiple of watermark.multiple, which is 4, was 10",
	}
	if err := policy.Check(&w, p); err == nil || !slices.Equal(strings.Split(err.Error(), "\n"), want) {
		t.Errorf("faults are %v, should be %q", err, want)
	}
	v := of(3, 0.1)
	v.Now, v.Workload = now, &w
	if r := p.Desired(&v); r.Known || r.Reasons[0].Code != podscaler.ReasonFailedGetResourceMetric {
		t.Errorf("percent of no request: proposes %+v", r)
	}
}
