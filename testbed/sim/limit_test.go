package sim

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// purse is a world's machines whose cost is looked at whenever there is one more.
type purse struct {
	*World
	t     testing.TB
	limit pricing.Rate
	most  pricing.Rate
}

// Create orders a machine. By it and by Wake there are more that run and by nothing else, so that
// the cost of an hour rises there only.
func (p *purse) Create(ctx context.Context, o loop.Order) error {
	err := p.World.Create(ctx, o)
	p.look()
	return err
}

func (p *purse) Wake(ctx context.Context, machine string) error {
	err := p.World.Wake(ctx, machine)
	p.look()
	return err
}

func (p *purse) look() {
	var all []pricing.Placed
	for _, m := range p.machines {
		all = append(all, pricing.Placed{Shape: m.obs.Shape, Host: m.obs.Host, Stopped: m.obs.Phase == nodescaler.Spare || m.off})
	}
	rate := p.cfg.Prices.Total(all, p.clock())
	if p.most = max(p.most, rate); rate > p.limit {
		p.t.Errorf("at %s %d machines cost %s/h, of at most %s/h", p.now, len(p.machines), rate, p.limit)
	}
}

// follower has as many replicas as the users at the moment need, and as they will need.
type follower struct{ level Curve }

func (f follower) Desired(v *podscaler.View) podscaler.Recommendation {
	if !v.Window.Arrivals.Known {
		return podscaler.Recommendation{Replicas: v.Replicas} // nothing is known
	}
	need := func(at time.Duration) int { return 1 + int(f.level.At(v.Now.Sub(start)+at)/6) }
	return podscaler.Recommendation{Known: true, Replicas: need(0), Ahead: need(3 * time.Minute)}
}

// Machines cost 10 an hour each, or, on the dear host, more.
func pursed(users float64, faults []Fault) Config {
	cfg := small(0)
	cfg.Hosts = append(cfg.Hosts, nodescaler.Host{Host: pricing.Host{Name: "pve2", Room: cfg.Hosts[0].Room}, Online: true})
	price := 3 * pricing.Unit
	cfg.Prices = pricing.DefaultBook()
	cfg.Prices.Hosts = map[string]pricing.HostPrices{"pve2": {PerHost: &price}}
	cfg.Wake, cfg.Faults = true, faults
	cfg.Delays.Clone, cfg.Delays.Delete = between(20*time.Second, 60*time.Second), between(10*time.Second, 90*time.Second)
	half := 10 * time.Minute
	cfg.Workloads[0].Load.Level = Curve{{At: 0, Level: 5}, {At: half / 2, Level: users}, {At: half, Level: 5}, {At: half + half/2, Level: users}}
	return cfg
}

func TestMachinesNeverCostMoreThanTheLimit(t *testing.T) {
	minute := func(n float64) time.Duration { return time.Duration(n * float64(time.Minute)) }
	for name, faults := range map[string][]Fault{
		"nothing goes wrong": nil,
		"clones fail":        {{At: minute(2), Kind: CloneFails, Count: 3}, {At: minute(11), Kind: CloneFails, Count: 5}},
		"a host is lost":     {{At: minute(4), Kind: HostDies, Host: "pve1", For: minute(6)}},
		"for good":           {{At: minute(4), Kind: HostDies, Host: "pve1"}},
		"nothing is known":   {{At: minute(3), Kind: MetricsVanish, For: minute(8)}},
	} {
		for _, policy := range nodepolicy.Names() {
			for _, users := range []float64{10, 60, 200} {
				t.Run(fmt.Sprintf("%s/%s/%.0f users", name, policy, users), func(t *testing.T) {
					cfg := pursed(users, faults)
					most := peakCost(t, cfg, nodepolicy.Spec{Policy: policy}, 40e9)
					if users == 200 && most < 30e9 {
						t.Errorf("it never came near the limit: %s/h", most)
					}
				})
			}
		}
		for _, users := range []float64{10, 60, 200} {
			t.Run(fmt.Sprintf("%s/joint with spares/%.0f users", name, users), func(t *testing.T) {
				cfg := pursed(users, faults)
				cfg.Pools[0].Shapes[0].Disk, cfg.Prices.PerDiskGB = 40*pricing.GB, pricing.Unit/100
				cfg.Spares = map[string]int{"worker": 2}
				j := nodepolicy.DefaultJoint()
				j.Spares.Most = 3
				most := peakCost(t, cfg, nodepolicy.Spec{Policy: "joint", Joint: &j}, 40e9)
				if users == 200 && most < 30e9 {
					t.Errorf("it never came near the limit: %s/h", most)
				}
			})
		}
	}
}

// peakCost lets a policy live in the world for 20 minutes, and returns the most that the machines
// cost.
func peakCost(t *testing.T, cfg Config, spec nodepolicy.Spec, limit pricing.Rate) pricing.Rate {
	t.Helper()
	unneeded := nodepolicy.DefaultUnneeded()
	unneeded.ScaleDownUnneededTime, unneeded.ScaleDownDelayAfterAdd = nodescaler.Duration(time.Minute), 0
	spec.Unneeded = &unneeded
	nodes := must.Get(nodepolicy.New(spec))(t)
	r := &loop.Runner{
		Intent: loop.Intent{Pools: cfg.Pools, Prices: cfg.Prices, Limit: limit, Workloads: []loop.Workload{loop.Scaled(podscaler.Workload{
			Name: "shop/web", Min: 1, Max: 60, RunPeriod: 10 * time.Second, Pod: cfg.Workloads[0].Requests,
			SLO: podscaler.SLO{Quantile: 0.9, Target: 300 * time.Millisecond, Window: time.Minute},
		}, follower{cfg.Workloads[0].Load.Level})}},
		Memory:  loop.Memory{Nodes: nodes},
		Journal: nothing{},
	}
	w := must.Get(New(cfg, func(ctx context.Context, now time.Time) error {
		_, err := r.Once(ctx, now)
		return err
	}))(t)
	p := &purse{World: w, t: t, limit: limit}
	r.Cluster, r.Machines, r.Signals = w, p, w
	must.Do(t, w.Run(t.Context(), 20*time.Minute))
	return p.most
}

type nothing struct{}

func (nothing) Append(*loop.Step) error { return nil }
