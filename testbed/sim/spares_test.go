package sim

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// spared is small with disks, and spares that take 20 seconds to start.
func spared() Config {
	cfg := small(0)
	cfg.Pools[0].Shapes[0].Disk = 40 * pricing.GB
	cfg.Prices = &pricing.Book{Unit: "units", PerVCPU: pricing.Unit, PerGB: pricing.Unit, PerDiskGB: pricing.Unit / 100}
	cfg.Delays.Wake = between(20*time.Second, 20*time.Second)
	return cfg
}

func phaseOf(w *World, name string) nodescaler.Phase {
	m, err := w.find(name)
	if err != nil {
		return ""
	}
	return m.obs.Phase
}

func TestSpareCostsItsDiskAndIsANodeAgainSoon(t *testing.T) {
	cfg := spared()
	cfg.Initial["worker"] = 2
	w := live(t, cfg, time.Hour)
	const name = "worker-start-002"
	ctx := context.Background()
	must.Do(t, errors.Join(w.SetDraining(ctx, name, true), w.Stash(ctx, name), w.Stash(ctx, name)))
	run(t, w, 3*time.Hour)
	m, _ := w.find(name)
	if m.obs.Phase != nodescaler.Spare || m.node == nil || m.node.obs.Ready || !m.node.obs.Cordoned {
		t.Fatalf("it is %s, and its node %+v", m.obs.Phase, m.node.obs)
	}
	// One machine for three hours and one for one at 10 units, and a disk of 0.4 units for two.
	if want := 40*pricing.Unit + 8*pricing.Unit/10; w.Cost() != want || w.SpareCost() != 8*pricing.Unit/10 {
		t.Errorf("it cost %s, %s of it for the spare; want %s", w.Cost(), w.SpareCost(), want)
	}
	if w.MachineTime() != 4*time.Hour {
		t.Errorf("machines ran for %s", w.MachineTime())
	}
	must.Do(t, errors.Join(w.Wake(ctx, name), w.Wake(ctx, name), w.SetDraining(ctx, name, false)))
	run(t, w, 3*time.Hour+19*time.Second)
	if got := phaseOf(w, name); got != nodescaler.Booting {
		t.Errorf("after 19 s it is %s", got)
	}
	run(t, w, 3*time.Hour+20*time.Second)
	if got := phaseOf(w, name); got != nodescaler.Joined || !m.node.obs.Ready || m.node.obs.Cordoned {
		t.Errorf("after 20 s it is %s, and its node %+v", got, m.node.obs)
	}
	if w.Totals.Wakes != 1 || w.Totals.Stashes != 1 || w.Totals.Orders != 0 {
		t.Errorf("totals %+v", w.Totals)
	}
}

func TestSpareOnAHostThatIsFullOrAwayIsNotWoken(t *testing.T) {
	cfg := spared()
	cfg.Spares = map[string]int{"worker": 1}
	cfg.Hosts[0].Room = cfg.Pools[0].Shapes[0].Resources().Times(2)
	w := live(t, cfg, time.Minute)
	buy(t, w, "a")
	if err := w.Wake(context.Background(), "worker-start-002"); !errors.Is(err, loop.ErrRefused) {
		t.Errorf("on a host that is full: %v", err)
	}
	cfg.Hosts[0].Room = small(0).Hosts[0].Room
	cfg.Faults = []Fault{{At: 30 * time.Second, Kind: HostDies, Host: "pve1"}}
	w = live(t, cfg, time.Minute)
	if err := w.Wake(context.Background(), "worker-start-002"); !errors.Is(err, loop.ErrRefused) {
		t.Errorf("on a host that is away: %v", err)
	}
}

// A spare takes no room on its host, but could not have been made on one that is too small for it.
func TestSpareStartsOnAHostThatIsFullOfOthers(t *testing.T) {
	cfg := spared()
	cfg.Initial["worker"], cfg.Spares = 1, map[string]int{"worker": 2}
	shape := cfg.Pools[0].Shapes[0].Resources()
	cfg.Hosts[0].Room = shape
	tiny := nodescaler.Host{Host: pricing.Host{Name: "pve0", Room: shape.Minus(pricing.Resources{CPU: 1})}, Online: true}
	cfg.Hosts = append(cfg.Hosts, tiny)
	w := live(t, cfg, time.Minute)
	if n := len(w.machines); n != 3 {
		t.Fatalf("there are %d machines", n)
	}
	for _, m := range w.machines {
		if m.obs.Host != "pve1" {
			t.Errorf("%s is on %s", m.obs.Name, m.obs.Host)
		}
	}
	cfg.Initial["worker"] = 2
	if _, err := New(cfg, nil); !errors.Is(err, ErrNoRoom) {
		t.Errorf("two machines on a host for one: %v", err)
	}
}

// For any load, limits and faults: no plan breaks a rule, no pod runs on a spare, a pool has no
// more machines than it may, spares counted, and all of them cost no more than the limit.
func TestSparesKeepTheLawsInAWorldOfFaults(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := spared()
		cfg.Hosts = append(cfg.Hosts, nodescaler.Host{Host: pricing.Host{Name: "pve2", Room: cfg.Pools[0].Shapes[0].Resources().Times(rapid.IntRange(1, 6).Draw(t, "room"))}, Online: true})
		cfg.Pools[0].Max = rapid.IntRange(2, 10).Draw(t, "max")
		cfg.Spares = map[string]int{"worker": rapid.IntRange(0, cfg.Pools[0].Max-1).Draw(t, "stock")}
		cfg.Seed, cfg.Clones, cfg.Wake = rapid.Uint64().Draw(t, "seed"), rapid.IntRange(0, 3).Draw(t, "clones"), true
		cfg.Delays.Wake, cfg.Delays.Clone = between(10*time.Second, 40*time.Second), between(20*time.Second, 60*time.Second)
		level := Curve{{At: 0, Level: 5}}
		for at := time.Duration(0); at < 40*time.Minute; at += 5 * time.Minute {
			level = append(level, Point{At: at, Level: rapid.Float64Range(1, 120).Draw(t, "level")})
		}
		for range rapid.IntRange(0, 3).Draw(t, "faults") {
			cfg.Faults = append(cfg.Faults, Fault{
				At: time.Duration(rapid.IntRange(0, 30).Draw(t, "at")) * time.Minute, Kind: rapid.SampledFrom([]FaultKind{CloneFails, HostDies}).Draw(t, "kind"),
				Host: rapid.SampledFrom([]string{"pve1", "pve2"}).Draw(t, "host"), For: time.Duration(rapid.IntRange(10, 600).Draw(t, "for")) * time.Second, Count: 2,
			})
		}
		limit := pricing.Rate(0)
		if rapid.Bool().Draw(t, "limited") {
			limit = pricing.Per(pricing.Micros(rapid.Int64Range(21, 90).Draw(t, "limit"))*pricing.Unit, time.Hour)
		}
		j := nodepolicy.DefaultJoint()
		j.Spares.Most = rapid.IntRange(0, 6).Draw(t, "most")
		held(t, cfg, level, limit, &j)
	})
}

// held lives through a world step by step, and holds it to what must be so.
func held(t *rapid.T, cfg Config, level Curve, limit pricing.Rate, j *nodepolicy.Joint) {
	nodes, err := nodepolicy.New(nodepolicy.Spec{Policy: "joint", Joint: j})
	if err != nil {
		t.Fatal(err)
	}
	r := &loop.Runner{
		Intent: loop.Intent{Pools: cfg.Pools, Prices: cfg.Prices, Limit: limit},
		Memory: loop.Memory{Nodes: nodes},
	}
	r.Workloads = []loop.Workload{loop.Scaled(podscaler.Workload{Name: "shop/web", Min: 1, Max: 60, Pod: cfg.Workloads[0].Requests}, follower{level})}
	var w *World
	w, err = New(cfg, func(ctx context.Context, now time.Time) error {
		step, err := r.Once(ctx, now)
		for _, p := range step.Problems {
			if p.Code == loop.CodePlanRefused || p.Code == loop.CodeCostUnknown {
				err = errors.Join(err, fmt.Errorf("%s", p))
			}
		}
		if n := len(w.machines); n > max(cfg.Pools[0].Max, cfg.Initial["worker"]+cfg.Spares["worker"]) {
			err = errors.Join(err, fmt.Errorf("there are %d machines of at most %d", n, cfg.Pools[0].Max))
		}
		for _, m := range w.machines {
			if m.obs.Phase == nodescaler.Spare && m.node != nil && len(m.node.pods) > 0 {
				err = errors.Join(err, fmt.Errorf("%s is a spare and carries %d pods", m.obs.Name, len(m.node.pods)))
			}
		}
		if err != nil {
			return fmt.Errorf("at %s: %w", w.now, err)
		}
		return nil
	})
	if err != nil {
		t.Skip(err) // no room for what it starts with
	}
	r.Cluster, r.Machines, r.Signals = w, w, w
	must.Do(t, w.Run(context.Background(), 45*time.Minute))
	if limit > 0 && w.PeakRate() > max(limit, w.cfg.Prices.Total(startsWith(cfg), start)) {
		t.Fatalf("all cost %s/h of at most %s/h", w.PeakRate(), limit)
	}
}

// startsWith is what a world begins with.
func startsWith(cfg Config) (all []pricing.Placed) {
	for range cfg.Initial["worker"] {
		all = append(all, pricing.Placed{Shape: cfg.Pools[0].Shapes[0]})
	}
	for range cfg.Spares["worker"] {
		all = append(all, pricing.Placed{Shape: cfg.Pools[0].Shapes[0], Stopped: true})
	}
	return all
}
