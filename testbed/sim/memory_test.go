package sim

import (
	"context"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// still is a node policy that does nothing.
type still struct{}

func (still) Decide(*nodescaler.Index) nodescaler.Plan { return nodescaler.Plan{} }

// Pods take memory for the requests in them, and an HPA by memory follows.
func TestAnHPAFollowsThePodsMemory(t *testing.T) {
	for _, c := range []struct {
		memory Memory
		want   int
	}{
		{Memory{Base: 50 * pricing.MB}, 1},                              // a fifth
		{Memory{Base: 50 * pricing.MB, PerRequest: 20 * pricing.MB}, 2}, // and ten requests
		{Memory{}, 1}, // not measured
	} {
		cfg := small(30)
		cfg.Workloads[0].Memory = c.memory
		hpa := must.Get(policy.New(policy.Spec{Policy: "HPA", HPA: &policy.HPA{Metrics: []policy.Metric{{Type: policy.Resource, Name: "memory", AverageUtilization: 80}}}}))(t)
		r := &loop.Runner{
			Intent: loop.Intent{Pools: cfg.Pools, Prices: cfg.Prices, Workloads: []loop.Workload{
				loop.Scaled(podscaler.Workload{Name: "shop/web", Min: 1, Max: 3, Pod: cfg.Workloads[0].Requests}, hpa),
			}},
			Memory: loop.Memory{Nodes: still{}},
		}
		w := must.Get(New(cfg, func(ctx context.Context, now time.Time) error {
			_, err := r.Once(ctx, now)
			return err
		}))(t)
		r.Cluster, r.Machines, r.Signals = w, w, w
		must.Do(t, w.Run(t.Context(), 3*time.Minute))
		if got := w.service("shop/web").replicas; got < c.want || c.want == 1 && got != 1 {
			t.Errorf("%+v: %d replicas, should be %d", c.memory, got, c.want)
		}
	}
}
