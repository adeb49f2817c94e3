package oracle

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

func world(level sim.Curve) sim.Config {
	return sim.Config{
		Seed: 1, Start: time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC), Tick: 5 * time.Second, MetricsEvery: 15 * time.Second,
		Hosts: []nodescaler.Host{{Host: pricing.Host{Name: "pve1", Room: pricing.Resources{CPU: 64000, Memory: 256 * pricing.GB}}, Online: true}},
		Pools: []nodescaler.Pool{{
			Name: "worker", Min: 1, Max: 16, Reserved: pricing.Resources{CPU: 200},
			Shapes: []pricing.Shape{{Name: "small", CPU: 2000, Memory: 8 * pricing.GB}},
		}},
		Prices: pricing.DefaultBook(),
		Delays: sim.Delays{
			Machine:  timing.Machine{Boot: timing.Range{Min: 81 * time.Second, Max: 99 * time.Second}},
			PodStart: timing.Range{Min: 3 * time.Second, Max: 3 * time.Second},
		},
		Workloads: []sim.Workload{{
			Name: "shop/web", Requests: pricing.Resources{CPU: 600, Memory: 250 * pricing.MB},
			Quota: 500, Concurrency: 64, Demand: sim.Demand{Mean: 50 * time.Millisecond, Spread: 0.2}, Balance: sim.LeastOfTwo,
			Grace: 30 * time.Second, Window: time.Minute,
			Load:        sim.Load{Kind: sim.Sleep, Level: level, Think: time.Second, Spread: time.Second},
			LatencyGoal: 300 * time.Millisecond, GoalQuantile: 0.9,
		}},
	}
}

// The schedule, carried out by the loop, keeps the objective in every minute, and costs what
// the machines that are needed cost.
func TestScheduleKeepsTheObjective(t *testing.T) {
	m := time.Minute
	for name, c := range map[string]struct {
		level   sim.Curve
		length  time.Duration
		at, top float64 // units
		clones  int
	}{
		"constant":            {sim.Flat(60), 30 * m, 14, 15.1, 0},
		"one clone at a time": {sim.Curve{{At: 0, Level: 20}, {At: 12 * m, Level: 20}, {At: 12 * m, Level: 140}}, 30 * m, 22, 27, 1},
		"ramp":                {sim.Curve{{At: 0, Level: 10}, {At: 30 * m, Level: 150}}, 30 * m, 15, 22, 0},
		"flash":               {sim.Curve{{At: 10 * m, Level: 30}, {At: 10 * m, Level: 150}, {At: 20 * m, Level: 150}, {At: 20 * m, Level: 30}}, 30 * m, 15, 22, 0},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := world(c.level)
			cfg.Clones, cfg.Delays.Clone, cfg.Delays.Boot = c.clones, cfg.Delays.Boot, timing.Range{}
			s := must.Get(Plan(cfg, 48, c.length))(t)
			cfg.Initial = map[string]int{"worker": s.Machines()}
			cfg.Workloads[0].Replicas = s.Replicas()
			r := &loop.Runner{
				Intent: loop.Intent{Pools: cfg.Pools, Prices: cfg.Prices, Workloads: []loop.Workload{loop.Scaled(podscaler.Workload{Name: "shop/web", Min: 1, Max: 48}, s.Pods())}},
				Memory: loop.Memory{Nodes: s.Nodes()},
			}
			w := must.Get(sim.New(cfg, func(ctx context.Context, now time.Time) error {
				step, err := r.Once(ctx, now)
				for _, p := range step.Problems {
					if p.Code != loop.CodeLooking {
						t.Error(p)
					}
				}
				return err
			}))(t)
			r.Cluster, r.Machines, r.Signals = w, w, w
			must.Do(t, w.Run(t.Context(), c.length))
			for i, m := range w.Scores()[0].Minutes {
				if m.Violated {
					t.Errorf("minute %d: %.0f ms at %g users on %d machines", i, m.Latency*1e3, m.Level, m.Machines)
				}
			}
			if got := w.Cost().Units(); got < c.at || got > c.top {
				t.Errorf("cost %.2f units, want between %g and %g", got, c.at, c.top)
			}
		})
	}
}

func TestLullsShorterThanABootAreBridged(t *testing.T) {
	s := &Schedule{ahead: 2 * time.Minute, steps: []step{{0, 3}, {time.Minute, 1}, {2 * time.Minute, 2}, {3 * time.Minute, 5}, {4 * time.Minute, 1}, {9 * time.Minute, 2}}}
	s.bridge()
	want := []step{{0, 3}, {3 * time.Minute, 5}, {4 * time.Minute, 1}, {9 * time.Minute, 2}}
	if diff := cmp.Diff(want, s.steps, cmp.AllowUnexported(step{})); diff != "" {
		t.Errorf("bridged (-want +got):\n%s", diff)
	}
}

func TestPlansOnlyWhatItUnderstands(t *testing.T) {
	cfg := world(sim.Flat(1))
	cfg.Pools = append(cfg.Pools, cfg.Pools[0])
	if _, err := Plan(cfg, 48, time.Minute); err == nil {
		t.Error("two pools were planned for")
	}
	cfg = world(sim.Flat(1))
	cfg.Workloads[0].Requests.CPU = 5000
	if _, err := Plan(cfg, 48, time.Minute); err == nil {
		t.Error("a pod that fits no machine was planned for")
	}
}
