package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

var start = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

func between(lo, hi time.Duration) timing.Range { return timing.Range{Min: lo, Max: hi} }

// small is a world of one host, one pool of 2 vCPU machines with three pods' room each, and
// one service.
func small(users float64) Config {
	return Config{
		Seed: 1, Start: start, Tick: 5 * time.Second, MetricsEvery: 15 * time.Second,
		Hosts: []nodescaler.Host{{Host: pricing.Host{Name: "pve1", Room: pricing.Resources{CPU: 64000, Memory: 256 * pricing.GB}}, Online: true}},
		Pools: []nodescaler.Pool{{
			Name: "worker", Min: 1, Max: 16, Reserved: pricing.Resources{CPU: 200},
			Shapes: []pricing.Shape{{Name: "small", CPU: 2000, Memory: 8 * pricing.GB}},
		}},
		Initial: map[string]int{"worker": 1},
		Prices:  pricing.DefaultBook(),
		Delays: Delays{
			Machine:  timing.Machine{Boot: between(81*time.Second, 99*time.Second)},
			PodStart: between(3*time.Second, 3*time.Second),
		},
		Workloads: []Workload{{
			Name: "shop/web", Replicas: 1, Requests: pricing.Resources{CPU: 600, Memory: 250 * pricing.MB},
			Quota: 500, Concurrency: 64, Demand: Demand{Mean: 50 * time.Millisecond, Spread: 0.2}, Balance: LeastOfTwo,
			Grace: 30 * time.Second, Window: time.Minute,
			Load:        Load{Kind: Sleep, Level: Flat(users), Think: time.Second, Spread: time.Second},
			LatencyGoal: 300 * time.Millisecond, GoalQuantile: 0.9,
		}},
	}
}

func live(t testing.TB, cfg Config, until time.Duration) *World {
	t.Helper()
	w := must.Get(New(cfg, nil))(t)
	if err := w.Run(context.Background(), until); err != nil {
		t.Fatal(err)
	}
	return w
}

// buy orders n machines of the first pool.
func buy(t testing.TB, w *World, order string) {
	t.Helper()
	err := w.Create(context.Background(), loop.Order{ID: order, Action: nodescaler.Action{
		Kind: nodescaler.Buy, Order: order, Pool: "worker", Shape: &w.cfg.Pools[0].Shapes[0], Host: "pve1",
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// grower is a pod policy that asks for ever more, and a node policy that buys one machine for
// every three pods without a node: enough to set everything in motion.
type grower struct{ orders int }

func (g *grower) Desired(v *podscaler.View) podscaler.Recommendation {
	return podscaler.Recommendation{Known: true, Replicas: v.Replicas + 1 - 2*(v.Now.Minute()/10%2)}
}

func (g *grower) Decide(x *nodescaler.Index) nodescaler.Plan {
	s := x.Snapshot
	waiting, coming := 0, 0
	for i := range s.Pods {
		if s.Pods[i].Unschedulable {
			waiting++
		}
	}
	for i := range s.Machines {
		if s.Machines[i].Phase != nodescaler.Joined {
			coming++
		}
	}
	if waiting <= 3*coming || len(s.Machines) >= 16 {
		return nodescaler.Plan{}
	}
	g.orders++
	return nodescaler.Plan{Actions: []nodescaler.Action{{
		Kind: nodescaler.Buy, Order: fmt.Sprintf("o%d", g.orders), Pool: "worker", Shape: &s.Pools[0].Shapes[0],
		Host: "pve1", Reasons: []nodescaler.Reason{{Code: "Waiting", Text: "pods wait"}},
	}}}
}

// journal runs the real loop on the world and returns its journal.
func journal(t *testing.T, cfg Config, until time.Duration) []byte {
	t.Helper()
	var out bytes.Buffer
	g := &grower{}
	r := &loop.Runner{
		Intent: loop.Intent{Pools: cfg.Pools, Prices: cfg.Prices, Workloads: []loop.Workload{loop.Scaled(podscaler.Workload{
			Name: "shop/web", Min: 1, Max: 40, RunPeriod: 30 * time.Second,
			SLO: podscaler.SLO{Quantile: 0.9, Target: 300 * time.Millisecond, Window: time.Minute},
		}, g)}},
		Memory:  loop.Memory{Nodes: g},
		Journal: loop.NewNDJSON(&out),
	}
	w, err := New(cfg, func(ctx context.Context, now time.Time) error {
		_, err := r.Once(ctx, now)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Cluster, r.Machines, r.Signals = w, w, w
	if err := w.Run(context.Background(), until); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestSameSeedSameJournal(t *testing.T) {
	cfg := small(60)
	cfg.Wake = true
	cfg.Faults = []Fault{{At: 5 * time.Minute, Kind: HostDies, Host: "pve1", For: time.Minute}, {At: 2 * time.Minute, Kind: CloneFails}}
	one, two := journal(t, cfg, 20*time.Minute), journal(t, cfg, 20*time.Minute)
	if !bytes.Equal(one, two) {
		t.Fatal("two runs with one seed wrote different journals")
	}
	cfg.Seed++
	if bytes.Equal(one, journal(t, cfg, 20*time.Minute)) {
		t.Fatal("another seed wrote the same journal")
	}
	if n := bytes.Count(one, []byte{'\n'}); n < 240 {
		t.Fatalf("journal has %d records, want one for each of 240 ticks at least", n)
	}
}

// Under processor sharing the mean time of a request is its demand over 1-ρ, for any distribution
// of the demand: the simulated service must come out at the formula.
func TestOpenLoadMeetsTheFormulaOfProcessorSharing(t *testing.T) {
	for _, rho := range []float64{0.3, 0.6, 0.8} {
		cfg := small(0)
		wl := &cfg.Workloads[0]
		wl.Concurrency = 1 << 20
		wl.Load = Load{Kind: Open, Level: Flat(rho * 10)} // one pod answers 10 requests a second
		w := live(t, cfg, 20*time.Hour)
		s := w.Scores()[0]
		want := 0.1 / (1 - rho)
		if got := s.Latencies.Mean(); math.Abs(got-want) > 0.04*want {
			t.Errorf("ρ=%.1f: mean %.1f ms over %d requests, want %.1f ms", rho, got*1e3, s.Requests, want*1e3)
		}
	}
}

// Little's law for users who think for a second: users = throughput × (think + mean time).
func TestClosedLoadObeysLittlesLaw(t *testing.T) {
	for _, users := range []float64{1, 8, 40} {
		w := live(t, small(users), time.Hour)
		s := w.Scores()[0]
		mean := s.Latencies.Mean()
		want := users / (1 + mean)
		if got := float64(s.Requests) / 3600; math.Abs(got-want) > 0.01*want {
			t.Errorf("%g users: %.2f requests/s, want %.2f at a mean of %.0f ms", users, got, want, mean*1e3)
		}
	}
}

func TestPacedUsersSendOneRequestAPeriodUntilThePodIsFull(t *testing.T) {
	for _, c := range []struct{ users, want float64 }{{5, 5}, {9, 9}, {30, 10}} {
		cfg := small(c.users)
		cfg.Workloads[0].Load.Kind = Pace
		s := live(t, cfg, time.Hour).Scores()[0]
		if got := float64(s.Requests) / 3600; math.Abs(got-c.want) > 0.02*c.want {
			t.Errorf("%g users: %.2f requests/s, want %.0f", c.users, got, c.want)
		}
	}
}

func TestUsersComeAndGoWithTheCurve(t *testing.T) {
	cfg := small(0)
	cfg.Workloads[0].Load.Level = Curve{{0, 2}, {time.Minute, 2}, {time.Minute, 9}, {2 * time.Minute, 9}, {2 * time.Minute, 1}}
	for _, kind := range []Kind{Sleep, Pace} {
		cfg.Workloads[0].Load.Kind = kind
		w := must.Get(New(cfg, nil))(t)
		for _, c := range []struct {
			at   time.Duration
			want int
		}{{30 * time.Second, 2}, {90 * time.Second, 9}, {150 * time.Second, 1}} {
			if err := w.Run(context.Background(), c.at); err != nil {
				t.Fatal(err)
			}
			if got := w.services[0].users.(*closed).active; got != c.want {
				t.Errorf("%s at %s: %d users, want %d", kind, c.at, got, c.want)
			}
		}
	}
}

func TestOrderedMachineIsPaidFromItsCloneUntilItIsGone(t *testing.T) {
	cfg := small(1)
	cfg.Clones = 1
	minute := between(time.Minute, time.Minute)
	cfg.Delays = Delays{Machine: timing.Machine{Clone: minute, Boot: minute, Delete: minute}}
	w := live(t, cfg, 0)
	buy(t, w, "a")
	buy(t, w, "a") // the same order again is no second machine
	buy(t, w, "b")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	phases := func() string {
		s, err := w.List(context.Background())
		must(err)
		var b strings.Builder
		for _, m := range s.Machines {
			fmt.Fprintf(&b, "%s:%s:%t ", m.Order, m.Phase, m.Created.IsZero())
		}
		return strings.TrimSpace(b.String())
	}
	for _, c := range []struct {
		at   time.Duration
		want string
	}{
		{30 * time.Second, "a:Ordered:false b:Ordered:true start-001:Joined:false"},
		{90 * time.Second, "a:Booting:false b:Ordered:false start-001:Joined:false"},
		{150 * time.Second, "a:Joined:false b:Booting:false start-001:Joined:false"},
	} {
		must(w.Run(context.Background(), c.at))
		if diff := cmp.Diff(c.want, phases()); diff != "" {
			t.Errorf("at %s (-want +got):\n%s", c.at, diff)
		}
	}
	must(w.Run(context.Background(), 10*time.Minute))
	must(w.Delete(context.Background(), "worker-a"))
	must(w.Delete(context.Background(), "worker-b"))
	must(w.Run(context.Background(), time.Hour))
	// start: 60 min; a: 0..11; b: 1..11, at 10 units an hour.
	if got, want := w.Cost(), (10 * pricing.Unit * (60 + 11 + 10) / 60); got != want {
		t.Errorf("cost %s, want %s", got, want)
	}
	if got, want := w.MachineTime(), 81*time.Minute; got != want {
		t.Errorf("machine time %s, want %s", got, want)
	}
}

func TestFailedCloneNeverJoins(t *testing.T) {
	cfg := small(1)
	cfg.Faults = []Fault{{Kind: CloneFails, At: time.Second}}
	w := live(t, cfg, 2*time.Second)
	buy(t, w, "a")
	buy(t, w, "b")
	if err := w.Run(context.Background(), 5*time.Minute); err != nil {
		t.Fatal(err)
	}
	s, _ := w.List(context.Background())
	if s.Machines[0].Phase != nodescaler.Failed || s.Machines[0].Problem == "" || s.Machines[1].Phase != nodescaler.Joined {
		t.Errorf("got %+v, want the first failed with its problem and the second joined", s.Machines)
	}
}

func TestOrdersThatNoHostCanHoldAreRefused(t *testing.T) {
	cfg := small(1)
	cfg.Hosts[0].Room = pricing.Resources{CPU: 4000, Memory: 16 * pricing.GB}
	w := live(t, cfg, 0)
	buy(t, w, "a")
	a := nodescaler.Action{Pool: "worker", Shape: &cfg.Pools[0].Shapes[0], Host: "pve1"}
	if err := w.Create(context.Background(), loop.Order{ID: "b", Action: a}); !errors.Is(err, ErrNoRoom) {
		t.Errorf("third machine on a host for two: %v, want %v", err, ErrNoRoom)
	}
	a.Host = "pve9"
	if err := w.Create(context.Background(), loop.Order{ID: "c", Action: a}); err == nil {
		t.Error("an order on a host that does not exist was taken")
	}
}

func TestDeadHostLosesItsPodsAndComesBack(t *testing.T) {
	cfg := small(5)
	cfg.Hosts = append(cfg.Hosts, nodescaler.Host{Host: pricing.Host{Name: "pve2", Room: cfg.Hosts[0].Room}, Online: true})
	cfg.Initial["worker"] = 2
	cfg.Workloads[0].Replicas = 4
	w := live(t, cfg, time.Minute)
	onOne := 0
	for _, p := range w.services[0].pods {
		if p.node.machine.obs.Host == "pve1" {
			onOne++
		}
	}
	if onOne != 2 {
		t.Fatalf("%d of 4 pods on pve1, want them spread", onOne)
	}
	if err := w.Inject(Fault{Kind: HostDies, Host: "pve1", For: 10 * time.Minute}); err != nil {
		t.Fatal(err)
	}
	check := func(at time.Duration, ready, made int) {
		t.Helper()
		if err := w.Run(context.Background(), at); err != nil {
			t.Fatal(err)
		}
		if s := w.services[0]; len(s.ready) != ready || s.made != made {
			t.Errorf("at %s: %d endpoints, %d pods made; want %d and %d", at, len(s.ready), s.made, ready, made)
		}
	}
	check(90*time.Second, 4, 4)  // the cluster has not noticed yet
	check(110*time.Second, 2, 4) // the node is not ready
	check(7*time.Minute, 3, 6)   // its pods were given up; one more fits on the other node
	check(15*time.Minute, 4, 6)  // the host is back, and the last pod finds room
	s := w.Scores()[0]
	if s.Failed == 0 || s.Failed > 200 {
		t.Errorf("%d requests failed, want those of the seconds until the cluster noticed", s.Failed)
	}
}

func TestEvictionKeepsTheBudget(t *testing.T) {
	cfg := small(1)
	cfg.Workloads[0].Replicas, cfg.Workloads[0].Unavailable = 3, 1
	w := live(t, cfg, time.Minute)
	first, second := w.services[0].pods[0].obs.Name, w.services[0].pods[1].obs.Name
	if err := w.Evict(context.Background(), first); err != nil {
		t.Fatal(err)
	}
	if err := w.Evict(context.Background(), second); !errors.Is(err, loop.ErrBudget) {
		t.Errorf("second eviction at once: %v, want %v", err, loop.ErrBudget)
	}
	if err := w.Run(context.Background(), 2*time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := w.Evict(context.Background(), second); err != nil {
		t.Errorf("eviction after the replacement is ready: %v", err)
	}
	if s := w.Scores()[0]; s.Moves != 2 || s.Failed != 0 {
		t.Errorf("%d moves and %d failed requests, want 2 and 0: a pod ends what it has begun", s.Moves, s.Failed)
	}
}

// After any change to the world, no node and no host carries more than it has, and what is used is
// the sum of what runs.
func TestNothingIsEverOvercommitted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := small(float64(rapid.IntRange(0, 30).Draw(t, "users")))
		cfg.Seed = rapid.Uint64().Draw(t, "seed")
		cfg.Hosts[0].Room = pricing.Resources{CPU: 8000, Memory: 40 * pricing.GB}
		cfg.Hosts = append(cfg.Hosts, nodescaler.Host{Host: pricing.Host{Name: "pve2", Room: cfg.Hosts[0].Room}, Online: true})
		w := must.Get(New(cfg, nil))(t)
		ctx := context.Background()
		for i := range rapid.IntRange(1, 25).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				_ = w.SetReplicas(ctx, "shop/web", rapid.IntRange(0, 20).Draw(t, "replicas"))
			case 1:
				host := rapid.SampledFrom([]string{"pve1", "pve2"}).Draw(t, "host")
				_ = w.Create(ctx, loop.Order{ID: fmt.Sprint(i), Action: nodescaler.Action{Pool: "worker", Shape: &cfg.Pools[0].Shapes[0], Host: host}})
			case 2:
				if len(w.machines) > 0 {
					_ = w.Delete(ctx, rapid.SampledFrom(w.machines).Draw(t, "machine").obs.Name)
				}
			case 3:
				if len(w.services[0].pods) > 0 {
					_ = w.Evict(ctx, rapid.SampledFrom(w.services[0].pods).Draw(t, "pod").obs.Name)
				}
			case 4:
				_ = w.Inject(Fault{Kind: HostDies, Host: "pve1", For: time.Duration(rapid.IntRange(0, 600).Draw(t, "for")) * time.Second})
			case 5:
				if len(w.nodes) > 0 {
					_ = w.SetDraining(ctx, rapid.SampledFrom(w.nodes).Draw(t, "node").obs.Name, rapid.Bool().Draw(t, "draining"))
				}
			}
			if err := w.Run(ctx, w.now+time.Duration(rapid.IntRange(0, 200).Draw(t, "seconds"))*time.Second); err != nil {
				t.Fatal(err)
			}
			sound(t, w)
		}
	})
}

// sound checks what must hold of a world at any moment.
func sound(t *rapid.T, w *World) {
	hosts := map[string]pricing.Resources{}
	for _, m := range w.machines {
		hosts[m.obs.Host] = hosts[m.obs.Host].Plus(m.obs.Shape.Resources())
	}
	for _, h := range w.hosts {
		if !hosts[h.Name].Within(h.Room) {
			t.Fatalf("host %s carries %v of %v", h.Name, hosts[h.Name], h.Room)
		}
	}
	for _, n := range w.nodes {
		var used nodescaler.Used
		for _, p := range n.pods {
			used = used.With(&p.obs)
			if p.gone || p.node != n {
				t.Fatalf("pod %s is on the books of node %s and not there", p.obs.Name, n.obs.Name)
			}
		}
		if !cmp.Equal(used, n.used) || n.obs.Extra.Lacks(used.Extra, nil) != "" || !used.Requests.Within(n.obs.Allocatable) {
			t.Fatalf("node %s: %v used by its pods, %v on its books, of %v", n.obs.Name, used, n.used, n.obs.Allocatable)
		}
	}
	for _, s := range w.services {
		alive, busy := 0, 0
		for _, p := range s.pods {
			if !p.obs.Terminating {
				alive++
			}
			busy += p.srv.Load()
		}
		if alive != s.replicas {
			t.Fatalf("%d pods alive of %d wanted", alive, s.replicas)
		}
		if busy != s.stats.inFlight {
			t.Fatalf("%d requests in the pods, %d in flight", busy, s.stats.inFlight)
		}
	}
}

func BenchmarkRequests(b *testing.B) {
	cfg := small(120)
	cfg.Initial["worker"] = 8
	cfg.Workloads[0].Replicas = 22
	n := 0
	for b.Loop() {
		n += live(b, cfg, 10*time.Minute).Scores()[0].Requests
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "requests/s")
}

// Every request that is sent is answered, fails, or waits at the end, and counts in one figure.
func TestRequestsThatWaitAtTheEndAreCounted(t *testing.T) {
	cfg := small(0)
	// Of ten that a pod can answer.
	cfg.Workloads[0].Load = Load{Kind: Open, Even: true, Level: Flat(100)}
	s := live(t, cfg, time.Minute).Scores()[0]
	if sent := s.Requests + s.Unfinished; sent < 5999 || sent > 6000 || s.Unfinished < 5000 {
		t.Errorf("of 6000 requests %d were answered or failed, and %d wait", s.Requests, s.Unfinished)
	}
}
