package oracle

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// What the schedule is carried out on must not break it: nothing is refused, and no minute is
// lost that need not be.
func TestScheduleKeepsToWhatItIsGiven(t *testing.T) {
	const m = time.Minute
	host := func(name string, cpu pricing.MilliCPU, memory pricing.Bytes) nodescaler.Host {
		return nodescaler.Host{Host: pricing.Host{Name: name, Room: pricing.Resources{CPU: cpu, Memory: memory}}, Online: true}
	}
	for name, change := range map[string]func(*sim.Config){
		"a budget":  func(c *sim.Config) { c.Workloads[0].Unavailable = 1 },
		"a minimum": func(c *sim.Config) { c.Pools[0].Min = 3 },
		"hosts of its own": func(c *sim.Config) {
			c.Hosts = append(c.Hosts, host("pve0", 64000, 512*pricing.GB))
			c.Pools[0].Hosts = []string{"pve1"}
		},
		"small hosts": func(c *sim.Config) {
			c.Hosts = nil
			for i := range 8 {
				c.Hosts = append(c.Hosts, host(fmt.Sprintf("pve%d", i), 2000, 8*pricing.GB))
			}
		},
		"being woken": func(c *sim.Config) { c.Wake = true },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := world(sim.Curve{{At: 10 * m, Level: 30}, {At: 10 * m, Level: 150}, {At: 20 * m, Level: 150}, {At: 20 * m, Level: 30}})
			change(&cfg)
			for i, minute := range carry(t, cfg, 48, 30*m).Minutes {
				if minute.Violated {
					t.Errorf("minute %d is violated", i)
				}
			}
		})
	}
}

func carry(t *testing.T, cfg sim.Config, most int, length time.Duration) sim.Score {
	t.Helper()
	s := must.Get(Plan(cfg, most, length))(t)
	cfg.Initial = map[string]int{"worker": s.Machines()}
	cfg.Workloads[0].Replicas = s.Replicas()
	r := &loop.Runner{
		Intent: loop.Intent{Pools: cfg.Pools, Prices: cfg.Prices, Workloads: []loop.Workload{loop.Scaled(podscaler.Workload{Name: "shop/web", Min: 1, Max: most}, s.Pods())}},
		Memory: loop.Memory{Nodes: s.Nodes()},
	}
	w := must.Get(sim.New(cfg, func(ctx context.Context, now time.Time) error {
		step, err := r.Once(ctx, now)
		for _, p := range step.Problems {
			if p.Code != loop.CodeLooking {
				t.Errorf("at %s: %s", now.Sub(cfg.Start), p)
			}
		}
		return err
	}))(t)
	r.Cluster, r.Machines, r.Signals = w, w, w
	must.Do(t, w.Run(t.Context(), length))
	return w.Scores()[0]
}

func TestNoMachineIsPlannedThatReplicasCannotFill(t *testing.T) {
	s, err := Plan(world(sim.Flat(150)), 4, time.Minute)
	if err != nil || s.Machines() != 2 {
		t.Errorf("%d machines for at most 4 pods, three to a machine, %v; want 2", s.Machines(), err)
	}
	cfg := world(sim.Flat(150))
	cfg.Pools[0].Max = 0
	if _, err := Plan(cfg, 4, time.Minute); err == nil {
		t.Error("a machine was planned for a pool that may have none")
	}
}

func TestSlotsAreThoseOfTheKubelet(t *testing.T) {
	p := &nodescaler.Pool{Shapes: []pricing.Shape{{CPU: 2000, Memory: 8 * pricing.GB}}}
	for _, pod := range []pricing.Resources{{CPU: 10}, {}} {
		if n := slots(p, &sim.Workload{Requests: pod}); n != 110 {
			t.Errorf("%d pods of %v on a machine, want the kubelet's 110", n, pod)
		}
	}
	p.Extra = pricing.Amounts{{Name: "nvidia.com/gpu", N: 5}}
	if n := slots(p, &sim.Workload{Extra: pricing.Amounts{{Name: "nvidia.com/gpu", N: 2}}}); n != 2 {
		t.Errorf("%d pods with 2 of 5 devices each on a machine, want 2", n)
	}
}
