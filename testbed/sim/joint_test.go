package sim

import (
	"bytes"
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/podscaler"
	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// log keeps the steps of a run.
type log struct{ steps []loop.Step }

func (l *log) Append(s *loop.Step) error {
	l.steps = append(l.steps, *s)
	return nil
}

// play lets policy joint have pods and machines of a world, unless other pods' policies are given.
func play(t *testing.T, cfg Config, limit pricing.Rate, journal loop.Journal, bounds podscaler.Workload, pods ...podscaler.Policy) *World {
	t.Helper()
	nodes := must.Get(nodepolicy.New(nodepolicy.Spec{Policy: "joint"}))(t)
	if len(pods) == 0 {
		p := must.Get(podpolicy.New(podpolicy.Spec{Policy: "Joint"}))(t)
		pods = []podscaler.Policy{p}
	}
	wl := bounds
	wl.Name, wl.RunPeriod, wl.Pod = "shop/web", 5*time.Second, cfg.Workloads[0].Requests
	wl.SLO = podscaler.SLO{Quantile: 0.9, Target: 300 * time.Millisecond, Window: time.Minute}
	r := &loop.Runner{
		Intent:  loop.Intent{Pools: cfg.Pools, Prices: cfg.Prices, Limit: limit, Workloads: []loop.Workload{loop.Scaled(wl, pods[0])}},
		Memory:  loop.Memory{Nodes: nodes},
		Journal: journal,
	}
	w := must.Get(New(cfg, func(ctx context.Context, now time.Time) error {
		_, err := r.Once(ctx, now)
		return err
	}))(t)
	r.Cluster, r.Machines, r.Signals = w, w, w
	return w
}

// fours is a world of machines at 10 an hour that take four pods each, of which one answers ten
// requests a second when it is full.
func fours(machines, replicas int, load Load) Config {
	cfg := small(0)
	cfg.Pools[0].Reserved = pricing.Resources{}
	cfg.Initial["worker"] = machines
	w := &cfg.Workloads[0]
	w.Replicas, w.Requests.CPU, w.Load = replicas, 500, load
	w.Demand = Demand{Mean: 50 * time.Millisecond, Spread: 0}
	return cfg
}

func count(p *nodescaler.Plan, kind nodescaler.Kind) int {
	n := 0
	for i := range p.Actions {
		if p.Actions[i].Kind == kind {
			n++
		}
	}
	return n
}

// scripted is a pod policy that asks for so many replicas at a time, and expects so many with the
// next machine.
type scripted func(at time.Duration) (replicas, ahead int)

func (f scripted) Desired(v *podscaler.View) podscaler.Recommendation {
	n, ahead := f(v.Now.Sub(start))
	return podscaler.Recommendation{Known: true, Replicas: n, Ahead: ahead}
}

// loads is how many pods run on each node, the fewest first.
func loads(w *World) []int {
	var out []int
	for _, n := range w.nodes {
		out = append(out, len(n.pods))
	}
	slices.Sort(out)
	return out
}

// Scenario 32: replicas on a new machine take 240 s. Three machines hold the twelve that are
// needed; once 22 are foretold for in 240 s three machines are ordered, all at once and none twice,
// and replicas come when they have room.
func TestScenario32MachinesAreOrderedAtTheirLeadTime(t *testing.T) {
	foretold := 2 * time.Minute
	ready := foretold + 210*time.Second
	cfg := fours(3, 12, Load{Kind: Open, Even: true, Level: Flat(100)})
	cfg.Delays.Machine = timing.Machine{Clone: between(210*time.Second, 210*time.Second)}
	cfg.Delays.PodStart = between(30*time.Second, 30*time.Second)
	var l log
	w := play(t, cfg, 0, &l, podscaler.Workload{Min: 1, Max: 48}, scripted(func(at time.Duration) (int, int) {
		switch {
		case at < foretold:
			return 12, 12
		case at < ready:
			return 12, 22
		}
		return 22, 22
	}))
	run(t, w, foretold)
	if got := count(&l.steps[len(l.steps)-1].Plan, nodescaler.Buy); got != 3 {
		t.Errorf("%d machines are ordered in the step that foresees 22 replicas, want 3", got)
	}
	run(t, w, ready-time.Second)
	if n := len(w.services[0].pods); n != 12 || len(w.nodes) != 3 {
		t.Errorf("before the machines are there are %d pods on %d nodes", n, len(w.nodes))
	}
	run(t, w, foretold+4*time.Minute+5*time.Second)
	if got := l.steps[len(l.steps)-1].Workloads[0]; got.Ready != 22 || len(w.nodes) != 6 {
		t.Errorf("four minutes after, %d of %d replicas are ready on %d nodes", got.Ready, got.Replicas, len(w.nodes))
	}
	run(t, w, 20*time.Minute)
	if w.Totals.Orders != 3 {
		t.Errorf("%d machines were ordered in all", w.Totals.Orders)
	}
}

// Scenario 34: of five full machines two are left empty when half of the replicas go, and nothing
// is moved.
func TestScenario34ShrinkingFreesWholeMachines(t *testing.T) {
	cfg := fours(5, 20, Load{Kind: Open, Even: true, Level: Flat(50)})
	var l log
	w := play(t, cfg, 0, &l, podscaler.Workload{Min: 1, Max: 48}, scripted(func(at time.Duration) (int, int) {
		if at < time.Minute {
			return 20, 20
		}
		return 10, 10
	}))
	run(t, w, 2*time.Minute)
	if got := loads(w); !slices.Equal(got, []int{0, 0, 2, 4, 4}) {
		t.Errorf("the nodes are left with %v pods", got)
	}
	run(t, w, 15*time.Minute)
	if got := loads(w); !slices.Equal(got, []int{2, 4, 4}) || w.Scores()[0].Moves != 0 || w.Totals.Returns != 2 {
		t.Errorf("in the end %v pods are on the nodes, %d were moved and %d machines reclaimed", got, w.Scores()[0].Moves, w.Totals.Returns)
	}
}

// Scenario 48: a step up is answered by replicas and machines in one step, whose record has the
// price; after a step down the machines' cost is back within 8 minutes, with at most three pods
// moved.
func TestScenario48PodsAndMachinesArePlannedInOneStep(t *testing.T) {
	up, down, end := 10*time.Minute, 25*time.Minute, 35*time.Minute
	cfg := small(0)
	cfg.Workloads[0].Load.Level = Curve{{0, 40}, {up, 40}, {up, 80}, {down, 80}, {down, 40}}
	var l log
	w := play(t, cfg, 0, &l, podscaler.Workload{Min: 1, Max: 48})
	at := func(when time.Duration) pricing.Rate {
		run(t, w, when)
		return l.steps[len(l.steps)-1].Observed.Cost.Ordered
	}
	before, peak, fallen, after := at(up), at(down), at(down+8*time.Minute), at(end)
	if before < 20e9 || peak < 2*before-10e9 || fallen != before || after != before {
		t.Errorf("the machines cost %s, with twice the users %s, 8 minutes after half of them went %s, and in the end %s an hour", before, peak, fallen, after)
	}
	if moves := w.Scores()[0].Moves; moves > 3 {
		t.Errorf("%d pods were moved", moves)
	}
	first := slices.IndexFunc(l.steps, func(s loop.Step) bool { return s.Time.Sub(start) > up && s.Decided() })
	s := &l.steps[first]
	d := s.Workloads[0].Decision
	if s.Time.Sub(start) > up+time.Minute || d.To <= d.From || count(&s.Plan, nodescaler.Buy) == 0 {
		t.Fatalf("the first that is done, at %s, is %d to %d and %+v", s.Time.Sub(start), d.From, d.To, s.Plan.Actions)
	}
	text := func(reasons []podscaler.Reason, code string) string {
		i := slices.IndexFunc(reasons, func(r podscaler.Reason) bool { return r.Code == code })
		return reasons[i].Text
	}
	if more := text(d.Reasons, podscaler.ReasonMarginalPrice); !regexp.MustCompile(`one replica more than \d+ (costs|needs)`).MatchString(more) {
		t.Errorf("the decision does not have the price: %s", more)
	}
	if offer := text(s.Plan.Actions[0].Reasons, nodescaler.CheapestOffer); !strings.Contains(offer, "at 10/h") {
		t.Errorf("the order does not have the price: %s", offer)
	}
}

// The same seed gives the same journal, byte for byte, through all faults; another seed gives
// another.
func TestSameSeedSameJournalOfJoint(t *testing.T) {
	cfg := small(0)
	cfg.Workloads[0].Load.Level = Curve{{0, 20}, {5 * time.Minute, 20}, {15 * time.Minute, 120}, {15 * time.Minute, 30}}
	cfg.Wake = true
	cfg.Hosts = append(cfg.Hosts, nodescaler.Host{Host: pricing.Host{Name: "pve2", Room: cfg.Hosts[0].Room}, Online: true})
	cfg.Faults = []Fault{
		{At: 6 * time.Minute, Kind: CloneFails, Count: 2}, {At: 12 * time.Minute, Kind: HostDies, Host: "pve1", For: 3 * time.Minute},
		{At: 18 * time.Minute, Kind: MetricsVanish, For: time.Minute},
	}
	written := func() []byte {
		var out bytes.Buffer
		w := play(t, cfg, 60e9, loop.NewNDJSON(&out), podscaler.Workload{Min: 1, Max: 48})
		run(t, w, 25*time.Minute)
		return out.Bytes()
	}
	one := written()
	if !bytes.Equal(one, written()) {
		t.Error("two runs with one seed wrote different journals")
	}
	if n := bytes.Count(one, []byte(`"kind":"`+string(nodescaler.Buy))); n < 5 {
		t.Errorf("%d machines were ordered: too few to mean anything", n)
	}
	cfg.Seed++
	if bytes.Equal(one, written()) {
		t.Error("another seed wrote the same journal")
	}
}
