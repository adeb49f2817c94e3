package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// scenario is one decision of a fresh scaler with a real policy.
type scenario struct {
	name     string
	spec     policy.Spec
	workload func(*podscaler.Workload) // what differs from the usual one
	view     podscaler.View
	to       int
	proposed int      // where it is not to
	unknown  bool     // nothing is proposed
	reasons  []string // each is found in a reason
}

func run(t *testing.T, scenarios []scenario) {
	t.Helper()
	for _, c := range scenarios {
		t.Run(c.name, func(t *testing.T) {
			d := decide(t, c.spec, c.workload, c.view)
			proposed := c.to
			if c.proposed != 0 {
				proposed = c.proposed
			}
			if d.To != c.to || d.Proposed != proposed || d.Known == c.unknown {
				t.Errorf("proposed %d, went from %d to %d (known %v); should propose %d and go to %d (known %v)", d.Proposed, d.From, d.To, d.Known, proposed, c.to, !c.unknown)
			}
			for _, want := range c.reasons {
				if !slices.ContainsFunc(d.Reasons, func(r podscaler.Reason) bool { return strings.Contains(r.String(), want) }) {
					t.Errorf("no reason has %q", want)
				}
			}
			if t.Failed() {
				t.Logf("reasons: %q", d.Reasons)
			}
		})
	}
}

// decide runs a fresh scaler once.
func decide(t *testing.T, spec policy.Spec, change func(*podscaler.Workload), v podscaler.View) podscaler.Decision {
	t.Helper()
	s := scalerOf(t, spec, change)
	v.Now, v.Workload = now, s.Workload()
	return s.Decide(&v)
}

// scalerOf is a fresh scaler of the usual workload, but for what changes it.
func scalerOf(t *testing.T, spec policy.Spec, change func(*podscaler.Workload)) *podscaler.Scaler {
	t.Helper()
	w := usual()
	if change != nil {
		change(&w)
	}
	p := must.Get(policy.New(spec))(t)
	must.Do(t, policy.Check(&w, p))
	return podscaler.NewScaler(w, p)
}

// usual is a workload with a p90 of 300 ms over a minute, 40 units per hour, and pods of half a
// core.
func usual() podscaler.Workload {
	return podscaler.Workload{
		Name: "shop/web", Min: 1, Max: 1000,
		SLO:  podscaler.SLO{Quantile: 0.9, Target: 300 * time.Millisecond, Window: time.Minute},
		Cost: podscaler.CostTarget{Target: 40 * pricing.Unit, Per: time.Hour, Count: podscaler.CountOrdered, Measure: podscaler.MeasureRate},
		Pod:  pricing.Resources{CPU: 500, Memory: 250 * pricing.MB},
	}
}

// running returns n pods that have long been ready, each using so much CPU.
func running(n int, cpu float64) []podscaler.Pod {
	pods := make([]podscaler.Pod, n)
	for i := range pods {
		pods[i] = podscaler.Pod{
			Name: fmt.Sprintf("web-%02d", i), Phase: podscaler.Running, Ready: true,
			Started: now.Add(-time.Hour), ReadyChanged: now.Add(-time.Hour),
			CPU: podscaler.Sample{Known: true, Value: cpu, At: now, Span: 30 * time.Second},
		}
	}
	return pods
}

// silent is a running pod without a sample.
func silent() podscaler.Pod {
	p := running(1, 0)[0]
	p.Name, p.CPU = "web-silent", podscaler.Sample{}
	return p
}

// pending is a pod that no node holds.
func pending() podscaler.Pod { return podscaler.Pod{Name: "web-pending", Phase: podscaler.Pending} }

func cpuValue(q policy.Quantity) policy.Spec {
	return hpaOn(policy.Metric{Type: policy.Resource, Name: "cpu", AverageValue: q})
}

func hpaOn(metrics ...policy.Metric) policy.Spec {
	return policy.Spec{Policy: "hpa", HPA: &policy.HPA{Metrics: metrics}}
}

// whole is a window with one series of the whole.
func whole(name string, value podscaler.Reading) podscaler.Window {
	return podscaler.Window{Metrics: map[string]podscaler.Metric{name: {Total: value}}}
}
