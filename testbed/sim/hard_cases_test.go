package sim

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestEvenOpenLoadAtZeroSendsNothing(t *testing.T) {
	cfg := small(0)
	cfg.Workloads[0].Load = Load{Kind: Open, Even: true, Level: Curve{{0, 0}, {time.Hour, 0}, {time.Hour, 10}}}
	if n := live(t, cfg, 59*time.Minute).Scores()[0].Requests; n != 0 {
		t.Errorf("%d requests at a rate of 0", n)
	}
}

func TestEvenOpenLoadFollowsARamp(t *testing.T) {
	cfg := small(0)
	cfg.Workloads[0].Load = Load{Kind: Open, Even: true, Level: Curve{{0, 0}, {2 * time.Hour, 4}}}
	if n := live(t, cfg, time.Hour).Scores()[0].Requests; math.Abs(float64(n)-3600) > 40 {
		t.Errorf("%d requests, want 3600", n)
	}
	cfg.Workloads[0].Load.Level = Curve{{0, 0.01}, {time.Minute, 0.01}, {time.Minute, 5}}
	if n := live(t, cfg, 90*time.Second).Scores()[0].Requests; n < 140 {
		t.Errorf("step: %d requests, want about 150", n)
	}
}

func TestNodeIsNotReadyWhileItsHostReboots(t *testing.T) {
	w := live(t, two(5, 4), time.Minute)
	w.must(w.Inject(Fault{Kind: HostDies, Host: "pve1", For: 20 * time.Second}))
	run(t, w, 115*time.Second)
	if n := len(w.services[0].ready); n != 2 {
		t.Errorf("55 s after its host went down and with its machine still booting, %d endpoints, want 2", n)
	}
}

func TestGraceCountsFromTheLastDeath(t *testing.T) {
	cfg := two(5, 4)
	cfg.Delays.Boot = between(5*time.Second, 5*time.Second)
	w := live(t, cfg, time.Minute)
	w.must(w.Inject(Fault{Kind: HostDies, Host: "pve1", For: 5 * time.Second}))
	run(t, w, 90*time.Second) // back at 70
	w.must(w.Inject(Fault{Kind: HostDies, Host: "pve1"}))
	run(t, w, 105*time.Second)
	if n := len(w.services[0].ready); n != 4 {
		t.Errorf("15 s after death: %d endpoints", n)
	}
}

func TestPodBoundToADeadNode(t *testing.T) {
	cfg := two(5, 2)
	cfg.Delays.Boot = between(30*time.Second, 30*time.Second)
	w := live(t, cfg, time.Minute)
	w.must(w.Inject(Fault{Kind: HostDies, Host: "pve1", For: time.Minute}))
	_ = w.SetReplicas(context.Background(), "shop/web", 6)
	run(t, w, 75*time.Second)
	for _, p := range w.services[0].pods {
		if p.node.machine.dead && p.obs.Ready && p.made >= time.Minute {
			t.Errorf("%s became ready on a dead machine", p.obs.Name)
		}
	}
	run(t, w, 4*time.Minute)
	if n := len(w.services[0].ready); n != 6 {
		t.Errorf("90 s after the machine is back %d of 6 pods are ready", n)
	}
}

func TestRestartedPodTakesItsTime(t *testing.T) {
	cfg := two(0, 0)
	cfg.Delays.Boot = between(5*time.Second, 5*time.Second)
	cfg.Delays.PodStart = between(30*time.Second, 30*time.Second)
	w := live(t, cfg, time.Minute)
	_ = w.SetReplicas(context.Background(), "shop/web", 2)
	run(t, w, 70*time.Second)
	w.must(w.Inject(Fault{Kind: HostDies, Host: "pve1", For: 5 * time.Second})) // back at 80
	run(t, w, 105*time.Second)
	for _, p := range w.services[0].pods {
		if p.node.machine.obs.Host == "pve1" && p.obs.Ready {
			t.Errorf("ready at %v, want 110s", p.obs.ReadyChanged)
		}
	}
}

func TestCPUStaysWithinTheQuota(t *testing.T) {
	cfg := two(40, 2)
	cfg.Delays.Boot = between(84*time.Second, 84*time.Second) // ready again at 2m59.9
	cfg.Workloads[0].Replicas = 2
	cfg.Delays.PodStart = between(2*time.Second, 2*time.Second)
	w := live(t, cfg, 74*time.Second)
	w.must(w.Inject(Fault{Kind: HostDies, Host: "pve1", For: 19900 * time.Millisecond}))
	for at := 75 * time.Second; at < 5*time.Minute; at += time.Second {
		run(t, w, at)
		for _, p := range w.services[0].pods {
			if p.obs.CPU.Value > 0.5001 {
				t.Fatalf("%s uses %.1f cores of 0.5 at %s", p.obs.Name, p.obs.CPU.Value, at)
			}
		}
	}
}

func TestOverlappingFaults(t *testing.T) {
	w := live(t, two(0, 1), time.Minute)
	w.must(w.Inject(Fault{Kind: MetricsVanish, For: time.Minute}))
	run(t, w, 90*time.Second)
	w.must(w.Inject(Fault{Kind: MetricsVanish, For: 10 * time.Minute}))
	run(t, w, 3*time.Minute)
	if w.blind == 0 {
		t.Error("metrics are back while a fault takes them away")
	}
	w.must(w.Inject(Fault{Kind: HostDies, Host: "pve1", For: time.Minute}))
	w.must(w.Inject(Fault{Kind: HostDies, Host: "pve1"}))
	run(t, w, 10*time.Minute)
	if w.hosts[0].Online {
		t.Error("host that died for good is back")
	}
}

func TestVanishedMetricsHideCPU(t *testing.T) {
	w := live(t, two(5, 2), time.Minute)
	w.must(w.Inject(Fault{Kind: MetricsVanish, For: 10 * time.Minute}))
	run(t, w, 5*time.Minute)
	s, _ := w.Observe(context.Background())
	if c := s.Pods[0].CPU; c.Known && c.At.After(start.Add(time.Minute)) {
		t.Errorf("CPU sample of %s while no signal can be read", c.At.Sub(start))
	}
}

func TestMergeKeepsTheMean(t *testing.T) {
	var a, b Sketch
	a.Add(1)
	b.Add(3)
	a.Merge(&b)
	if a.Mean() != 2 {
		t.Errorf("mean %v of 1 and 3", a.Mean())
	}
}

func TestAnswerExactlyAtTheGoalIsGood(t *testing.T) {
	cfg := small(1)
	cfg.Workloads[0].Quota = 1000
	cfg.Workloads[0].Demand = Demand{Mean: 300 * time.Millisecond}
	w := live(t, cfg, 10*time.Minute)
	s := w.Scores()[0]
	bad := 0
	for _, m := range s.Minutes {
		if m.Violated {
			bad++
		}
	}
	win, _ := w.Read(context.Background(), &podscaler.Workload{Name: "shop/web", SLO: podscaler.SLO{Quantile: .9, Target: 300 * time.Millisecond, Window: time.Minute}}, time.Time{})
	if bad > 0 || win.Good.Value < 1 {
		t.Errorf("%d of %d good, %d of %d minutes violated, good fraction read %v", s.Good, s.Requests, bad, len(s.Minutes), win.Good.Value)
	}
}

func TestArrivalsOverLongWindow(t *testing.T) {
	cfg := small(0)
	cfg.Workloads[0].Window = 2 * time.Hour
	cfg.Workloads[0].Load = Load{Kind: Open, Even: true, Level: Flat(5)}
	w := live(t, cfg, 2*time.Hour+time.Minute)
	win, _ := w.Read(context.Background(), &podscaler.Workload{Name: "shop/web", SLO: podscaler.SLO{Quantile: .9, Target: 300 * time.Millisecond, Window: 2 * time.Hour}}, time.Time{})
	if math.Abs(win.Arrivals.Value-5) > .1 {
		t.Errorf("arrivals %v/s, want 5", win.Arrivals.Value)
	}
}

func TestPodWithoutMemoryGoesOntoANodeWithout(t *testing.T) {
	cfg := small(1)
	cfg.Pools[0].Reserved.Memory = 8 * pricing.GB
	cfg.Workloads[0].Requests.Memory = 0
	w := live(t, cfg, time.Minute)
	if w.services[0].pods[0].node == nil {
		t.Errorf("pod is not bound; refusal %q", nodescaler.Refusal(&w.services[0].pods[0].obs, &w.nodes[0].obs, w.nodes[0].used))
	}
}

func TestValidateRefuses(t *testing.T) {
	nan := math.NaN()
	for name, change := range map[string]func(*Config){
		"start zero":           func(c *Config) { c.Start = time.Time{} },
		"clones negative":      func(c *Config) { c.Clones = -1 },
		"initial unknown pool": func(c *Config) { c.Initial = map[string]int{"wroker": 1} },
		"initial negative":     func(c *Config) { c.Initial["worker"] = -1 },
		"duplicate pool":       func(c *Config) { c.Initial = nil; c.Pools = append(c.Pools, c.Pools[0]) },
		"duplicate host":       func(c *Config) { c.Hosts = append(c.Hosts, c.Hosts[0]) },
		"duplicate workload":   func(c *Config) { c.Workloads = append(c.Workloads, c.Workloads[0]) },
		"prices negative":      func(c *Config) { c.Prices = &pricing.Book{Unit: "x", PerVCPU: -1} },
		"fault host":           func(c *Config) { c.Faults = []Fault{{Kind: HostDies, Host: "nope"}} },
		"fault kind":           func(c *Config) { c.Faults = []Fault{{Kind: "nope"}} },
		"fault at":             func(c *Config) { c.Faults = []Fault{{Kind: CloneFails, At: -time.Hour}} },
		"fault for":            func(c *Config) { c.Faults = []Fault{{Kind: MetricsVanish, For: -time.Hour}} },
		"fault for 0":          func(c *Config) { c.Faults = []Fault{{Kind: MetricsVanish}} },
		"fault count":          func(c *Config) { c.Faults = []Fault{{Kind: CloneFails, Count: -3}} },
		"replicas":             func(c *Config) { c.Workloads[0].Replicas = -1 },
		"requests":             func(c *Config) { c.Workloads[0].Requests.CPU = -1 },
		"kind":                 func(c *Config) { c.Workloads[0].Load.Kind = "burst" },
		"balance":              func(c *Config) { c.Workloads[0].Balance = "round-robin" },
		"level NaN":            func(c *Config) { c.Workloads[0].Load.Level = Flat(nan) },
		"level negative":       func(c *Config) { c.Workloads[0].Load.Level = Flat(-1) },
		"level inf":            func(c *Config) { c.Workloads[0].Load = Load{Kind: Open, Level: Flat(math.Inf(1))} },
		"level unordered":      func(c *Config) { c.Workloads[0].Load.Level = Curve{{time.Hour, 1}, {0, 2}} },
		"level empty":          func(c *Config) { c.Workloads[0].Load.Level = nil },
		"load spread":          func(c *Config) { c.Workloads[0].Load.Spread = -time.Second },
		"demand spread NaN":    func(c *Config) { c.Workloads[0].Demand.Spread = nan },
		"quantile NaN":         func(c *Config) { c.Workloads[0].GoalQuantile = nan },
		"goal":                 func(c *Config) { c.Workloads[0].LatencyGoal = -1 },
		"window":               func(c *Config) { c.Workloads[0].Window = 0 },
		"grace":                func(c *Config) { c.Workloads[0].Grace = -time.Second },
		"unavailable":          func(c *Config) { c.Workloads[0].Unavailable = -1 },
		"scrape":               func(c *Config) { c.Workloads[0].ScrapeEvery = -1 },
		"buckets missing":      func(c *Config) { c.Workloads[0].ScrapeEvery = time.Second },
		"buckets unordered": func(c *Config) {
			c.Workloads[0].ScrapeEvery = time.Second
			c.Workloads[0].Buckets = []time.Duration{2, 1}
		},
		"name empty": func(c *Config) { c.Workloads[0].Name = "" },
		"podslots":   func(c *Config) { c.Pools[0].PodSlots = -1 },
	} {
		cfg := small(1)
		change(&cfg)
		if err := cfg.Validate(); err == nil {
			t.Errorf("accepted: %s", name)
		}
	}
}

func TestValidateMessageIsStable(t *testing.T) {
	cfg := small(1)
	bad := between(-1, 0)
	cfg.Delays = Delays{timing.Machine{Clone: bad, Boot: bad, Delete: bad}, bad, bad}
	first := cfg.Validate().Error()
	for range 50 {
		if cfg.Validate().Error() != first {
			t.Fatal("two messages for one configuration")
		}
	}
}

func TestDeletedNodeFailsEachRequestOnce(t *testing.T) {
	cfg := two(200, 6)
	cfg.Workloads[0].Load.Kind = Pace
	w := live(t, cfg, 10*time.Minute)
	before, in := w.services[0].stats.score.Failed, 0
	for _, p := range w.nodes[0].pods {
		in += p.srv.Load()
	}
	_ = w.Delete(context.Background(), w.nodes[0].obs.Name)
	if got := w.services[0].stats.score.Failed - before; got != in {
		t.Errorf("%d requests in the pods, %d failed", in, got)
	}
}

func TestScoresAreOfTheirMoment(t *testing.T) {
	w := live(t, small(9), 10*time.Minute)
	s := w.Scores()[0]
	q := s.Latencies.Quantile(.9)
	w.services[0].quota = 5
	run(t, w, 40*time.Minute)
	if got := s.Latencies.Quantile(.9); got != q {
		t.Errorf("p90 of the past changed from %v to %v", q, got)
	}
}

type podsFunc func(*podscaler.View) podscaler.Recommendation

func (f podsFunc) Desired(v *podscaler.View) podscaler.Recommendation { return f(v) }

func TestWokenStepsTakeTime(t *testing.T) {
	cfg := small(0)
	cfg.Wake = true
	more := podsFunc(func(v *podscaler.View) podscaler.Recommendation {
		return podscaler.Recommendation{Known: true, Replicas: v.Replicas + 1}
	})
	r := &loop.Runner{
		Intent: loop.Intent{Pools: cfg.Pools, Prices: cfg.Prices, Workloads: []loop.Workload{
			loop.Scaled(podscaler.Workload{Name: "shop/web", Min: 1, Max: 40}, more),
		}},
	}
	at := map[time.Time]int{}
	w := must.Get(New(cfg, func(ctx context.Context, now time.Time) error {
		at[now]++
		_, err := r.Once(ctx, now)
		return err
	}))(t)
	r.Cluster, r.Machines, r.Signals = w, w, w
	run(t, w, time.Minute)
	for when, n := range at {
		if n > 2 { // a tick, and a step that was called for a second ago
			t.Errorf("%d steps at %s", n, when.Sub(start))
		}
	}
	if len(at) < 20 {
		t.Errorf("steps at %d moments of a minute, want the waiting pods to call for more than the 13 ticks", len(at))
	}
}
