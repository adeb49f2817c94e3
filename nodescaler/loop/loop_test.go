package loop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

var (
	t0    = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	small = pricing.Shape{Name: "small", CPU: 2000, Memory: 8 * pricing.GB}
	why   = []nodescaler.Reason{{Code: "Test", Text: "the test says so"}}
)

// house is a cluster and its machines, kept in memory and changed by what is done to it.
type house struct {
	state    ClusterState
	machines MachineState
	lag      bool // List does not show new machines
	broken   map[string]error
	done     []string
}

func newHouse() *house {
	h := &house{broken: map[string]error{}}
	h.state = ClusterState{
		Nodes: []nodescaler.Node{{
			Name: "worker-a", Machine: "worker-a", Pool: "worker", Ready: true,
			Allocatable: pricing.Resources{CPU: 1800, Memory: 8 * pricing.GB},
		}},
		Pods:     []nodescaler.Pod{h.pod("web-1", "worker-a"), h.pod("web-2", "worker-a")},
		Replicas: map[string]int{"shop/web": 2},
	}
	h.machines = MachineState{
		Hosts: []nodescaler.Host{{Host: pricing.Host{Name: "pve1", Room: pricing.Resources{CPU: 16000, Memory: 64 * pricing.GB}}, Online: true}},
		Machines: []nodescaler.Machine{{
			Name: "worker-a", Order: "a", Pool: "worker", Shape: small, Host: "pve1",
			Phase: nodescaler.Joined, Created: t0.Add(-time.Hour), Since: t0,
		}},
	}
	return h
}

func (h *house) pod(name, node string) nodescaler.Pod {
	return nodescaler.Pod{
		Pod:      podscaler.Pod{Name: name, Phase: podscaler.Running, Ready: true},
		Workload: "shop/web", Node: node, Requests: pricing.Resources{CPU: 600, Memory: pricing.GB},
	}
}

func (h *house) do(what string) error {
	h.done = append(h.done, what)
	return h.broken[what]
}

func (h *house) Observe(context.Context) (ClusterState, error) {
	return h.state, h.broken["observe"]
}

func (h *house) SetReplicas(_ context.Context, w string, n int) error {
	h.state.Replicas[w] = n
	return h.do(fmt.Sprintf("scale %s to %d", w, n))
}

func (h *house) SetDraining(_ context.Context, node string, d bool) error {
	return h.do(fmt.Sprintf("draining %s %t", node, d))
}

func (h *house) Evict(_ context.Context, pod string) error { return h.do("evict " + pod) }

func (h *house) List(context.Context) (MachineState, error) { return h.machines, h.broken["list"] }

func (h *house) Create(_ context.Context, o Order) error {
	if !h.lag {
		h.machines.Machines = append(h.machines.Machines, nodescaler.Machine{
			Name: nodescaler.MachineName(o.Action.Pool, o.ID), Order: o.ID, Pool: o.Action.Pool,
			Shape: *o.Action.Shape, Host: o.Action.Host, Phase: nodescaler.Ordered, Created: o.At, Since: o.At,
		})
	}
	return h.do("create " + o.ID)
}

func (h *house) Delete(_ context.Context, m string) error { return h.do("delete " + m) }

func (h *house) Read(context.Context, *podscaler.Workload, time.Time) (podscaler.Window, error) {
	return podscaler.Window{Latency: podscaler.Known(0.5)}, h.broken["read"]
}

// The policies of these tests say what the test says.
type podsSay func(*podscaler.View) podscaler.Recommendation

func (f podsSay) Desired(v *podscaler.View) podscaler.Recommendation { return f(v) }

type nodesSay func(*nodescaler.Snapshot) nodescaler.Plan

func (f nodesSay) Decide(x *nodescaler.Index) nodescaler.Plan { return f(x.Snapshot) }

func replicas(n int) podsSay {
	return func(v *podscaler.View) podscaler.Recommendation {
		if !v.Window.Latency.Known {
			return podscaler.Recommendation{Reasons: []podscaler.Reason{{Code: "LatencyUnknown", Text: "nothing was measured"}}}
		}
		return podscaler.Recommendation{Known: true, Replicas: n, Reasons: why}
	}
}

func actions(as ...nodescaler.Action) nodesSay {
	return func(*nodescaler.Snapshot) nodescaler.Plan { return nodescaler.Plan{Actions: as} }
}

func order(id string) nodescaler.Action {
	return nodescaler.Action{Kind: nodescaler.Buy, Order: id, Pool: "worker", Shape: &small, Host: "pve1", Reasons: why}
}

// on is an order on a host.
func on(a nodescaler.Action, host string) nodescaler.Action { a.Host = host; return a }

// hosts adds hosts like the first until there are n.
func (h *house) hosts(n int) *house {
	for i := len(h.machines.Hosts); i < n; i++ {
		host := h.machines.Hosts[0]
		host.Name = fmt.Sprintf("pve%d", i+1)
		h.machines.Hosts = append(h.machines.Hosts, host)
	}
	return h
}

func (h *house) runner(pods podscaler.Policy, nodes nodescaler.Policy) *Runner {
	return &Runner{
		Ports: Ports{Cluster: h, Machines: h, Signals: h},
		Intent: Intent{Prices: pricing.DefaultBook(), Pools: []nodescaler.Pool{{Name: "worker", Shapes: []pricing.Shape{small}, Max: 8, Reserved: pricing.Resources{CPU: 200}}}, Workloads: []Workload{Scaled(podscaler.Workload{
			Name: "shop/web", Min: 1, Max: 20,
			Cost: podscaler.CostTarget{Target: 40 * pricing.Unit, Per: 30 * time.Minute},
		}, pods)}},
		Memory: Memory{Nodes: nodes},
	}
}

// holds are the workloads and pools that nothing is done to, and the pools that are held one way.
type holds struct{ Workloads, Pools, up, down map[string]nodescaler.Reason }

func (h holds) put(r *Runner) {
	get := func(name string, of ...map[string]nodescaler.Reason) *nodescaler.Reason {
		for _, by := range of {
			if why, held := by[name]; held {
				return &why
			}
		}
		return nil
	}
	for i := range r.Workloads {
		r.Workloads[i].Held = get(r.Workloads[i].Name, h.Workloads)
	}
	for i := range r.Pools {
		p := &r.Pools[i]
		p.HeldUp, p.HeldDown = get(p.Name, h.Pools, h.up), get(p.Name, h.Pools, h.down)
	}
}

// steps makes n steps, ten seconds apart, and returns the last.
func steps(t *testing.T, r *Runner, n int) Step {
	t.Helper()
	var s Step
	for i := range n {
		s = must.Get(r.Once(t.Context(), t0.Add(time.Duration(i)*10*time.Second)))(t)
	}
	return s
}

func codes(s Step) []string {
	var out []string
	for _, p := range s.Problems {
		out = append(out, p.Code)
	}
	return out
}

func expect(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestFirstStepOnlyLooks(t *testing.T) {
	h := newHouse()
	r := h.runner(replicas(5), actions(order("b")))
	s := steps(t, r, 1)
	expect(t, "done at the first step", []string(nil), h.done)
	expect(t, "problems", []string{CodeLooking}, codes(s))
	steps(t, r, 2)
	expect(t, "done at the second", []string{"scale shop/web to 5", "create b"}, h.done[:2])
}

func TestDryRunDecidesAndDoesNothing(t *testing.T) {
	h := newHouse()
	r := h.runner(replicas(5), actions(order("b")))
	r.DryRun = true
	s := steps(t, r, 3)
	expect(t, "done", []string(nil), h.done)
	if s.Workloads[0].Decision.To != 5 || len(s.Plan.Actions) != 1 || len(s.Outcomes) != 0 {
		t.Errorf("the record does not hold what would be done: %+v", s)
	}
}

func TestWhatIsHeldIsDecidedForAndLeftAsItIs(t *testing.T) {
	hold := func(names ...string) map[string]nodescaler.Reason {
		held := map[string]nodescaler.Reason{}
		for _, n := range names {
			held[n] = why[0]
		}
		return held
	}
	for _, c := range []struct {
		name   string
		holds  holds
		done   []string
		future int // replicas that machines are planned for and that are no pods yet
	}{
		{name: "nothing", done: []string{"scale shop/web to 5", "create b"}, future: 3},
		{name: "the workload: no machine is planned for replicas that are not created", holds: holds{Workloads: hold("shop/web")}, done: []string{"create b"}},
		{name: "the pool", holds: holds{Pools: hold("worker")}, done: []string{"scale shop/web to 5"}, future: 3},
		{name: "both: what the recommended replicas would need", holds: holds{Workloads: hold("shop/web"), Pools: hold("worker")}, future: 3},
		{name: "others", holds: holds{Workloads: hold("shop/api"), Pools: hold("spare")}, done: []string{"scale shop/web to 5", "create b"}, future: 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, future := newHouse(), 0
			plan := actions(order("b"))
			r := h.runner(replicas(5), nodesSay(func(s *nodescaler.Snapshot) nodescaler.Plan {
				for _, f := range s.Future {
					future += f.Count
				}
				return plan(s)
			}))
			c.holds.put(r)
			s := steps(t, r, 2)
			expect(t, "done", c.done, h.done)
			expect(t, "replicas planned for", c.future, future)
			if s.Workloads[0].Decision.To != 5 || len(s.Plan.Actions) != 1 {
				t.Errorf("the record does not hold what would be done: %+v", s)
			}
			expect(t, "the workload's hold is in the record", c.holds.Workloads["shop/web"] != nodescaler.Reason{}, s.Workloads[0].Held != nil)
			last := s.Outcomes[max(0, len(s.Outcomes)-1):]
			expect(t, "the pool's hold is in the record", c.holds.Pools["worker"] != nodescaler.Reason{}, len(last) == 1 && last[0].Held != nil)
		})
	}
}

func TestWhatIsHeldOneWayGoesTheOther(t *testing.T) {
	held, up, down := map[string]nodescaler.Reason{"worker": why[0]}, podscaler.Pause{Up: true}, podscaler.Pause{Down: true}
	back := nodescaler.Action{Kind: nodescaler.Return, Pool: "worker", Machine: "worker-z", Reasons: why}
	for _, c := range []struct {
		name     string
		up, down map[string]nodescaler.Reason
		pause    podscaler.Pause
		want, to int
		done     []string
		plan     int // actions in the record, done or not
	}{
		{name: "up, to more", up: held, pause: up, want: 5, to: 2, done: []string{"delete worker-z"}, plan: 1},
		{name: "up, to fewer", up: held, pause: up, want: 1, to: 1, done: []string{"scale shop/web to 1", "delete worker-z"}, plan: 1},
		{name: "down, to more", down: held, pause: down, want: 5, to: 5, done: []string{"scale shop/web to 5", "create b"}, plan: 1},
		{name: "down, to fewer", down: held, pause: down, want: 1, to: 2, done: []string{"create b"}, plan: 1},
		{name: "both, to fewer: what would be done", up: held, down: held, pause: podscaler.Pause{Up: true, Down: true}, want: 1, to: 2, plan: 2},
		{name: "fixed at 3", pause: podscaler.Pause{Replicas: new(3)}, want: 5, to: 3, done: []string{"scale shop/web to 3", "create b", "delete worker-z"}, plan: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse()
			h.machines.Machines = append(h.machines.Machines, nodescaler.Machine{Name: "worker-z", Order: "z", Pool: "worker", Shape: small, Host: "pve1", Phase: nodescaler.Failed})
			r := h.runner(replicas(c.want), actions(order("b"), back))
			holds{up: c.up, down: c.down}.put(r)
			r.Workloads[0].Pause = c.pause
			s := steps(t, r, 2)
			expect(t, "done", c.done, h.done)
			if s.Workloads[0].Decision.To != c.to || len(s.Plan.Actions) != c.plan {
				t.Errorf("the record does not hold what was decided: %+v", s)
			}
		})
	}
}

func TestPodsThatAreBeingReplacedAreNotShrunk(t *testing.T) {
	for _, rolling := range []bool{false, true} {
		h := newHouse()
		h.state.Rollouts = map[string]podscaler.Rollout{"shop/web": {InProgress: rolling}}
		s := steps(t, h.runner(replicas(1), actions()), 2)
		if want := map[bool]int{false: 1, true: 2}[rolling]; s.Workloads[0].Decision.To != want {
			t.Errorf("rolling %v: %+v", rolling, s.Workloads[0].Decision)
		}
	}
}

// Replicas of 0 are an administrator's wish to pause the workload, unless its status says that we
// made them so.
func TestStatusSaysWhoScaledToZero(t *testing.T) {
	for ours, want := range map[bool][]string{false: nil, true: {"scale shop/web to 5"}} {
		h := newHouse()
		h.state.Replicas["shop/web"], h.state.Pods = 0, nil
		r := h.runner(replicas(5), nil)
		r.Workloads[0].Min = 0
		r.Workloads[0].ScaledToZero = ours
		steps(t, r, 2)
		expect(t, "done", want, h.done)
	}
}

func TestANewScalerOnlyLooks(t *testing.T) {
	h := newHouse()
	r := h.runner(replicas(5), actions())
	steps(t, r, 2)
	h.done, h.state.Replicas["shop/api"] = nil, 4
	r.Workloads = append(r.Workloads, Scaled(podscaler.Workload{Name: "shop/api", Min: 1, Max: 20}, replicas(2)))
	steps(t, r, 1)
	expect(t, "done at its first step", []string(nil), h.done)
	steps(t, r, 1)
	expect(t, "done at its second", []string{"scale shop/api to 2"}, h.done)
}

func TestPodsAreScaledWhileMachinesAreUnknown(t *testing.T) {
	h := newHouse()
	h.broken["list"] = errors.New("proxmox is down")
	s := steps(t, h.runner(replicas(5), actions(order("b"))), 2)
	expect(t, "done", []string{"scale shop/web to 5"}, h.done)
	expect(t, "problems", []string{CodeMachinesUnknown}, codes(s))
}

func TestNothingIsDecidedWithoutTheCluster(t *testing.T) {
	h := newHouse()
	h.broken["observe"] = errors.New("no API server")
	var out bytes.Buffer
	r := h.runner(replicas(5), actions(order("b")))
	r.Journal = NewNDJSON(&out)
	for range 2 {
		if s, err := r.Once(t.Context(), t0); err == nil || !slices.Contains(codes(s), CodeClusterUnknown) {
			t.Errorf("error %v, problems %v; want both to say it", err, codes(s))
		}
	}
	expect(t, "done", []string(nil), h.done)
	if n := strings.Count(out.String(), "\n"); n != 2 {
		t.Errorf("%d records of 2 blind steps", n)
	}
}

func TestUnreadableSignalsReachThePolicyAsUnknown(t *testing.T) {
	h := newHouse()
	h.broken["read"] = errors.New("prometheus is down")
	s := steps(t, h.runner(replicas(1), nil), 2)
	expect(t, "done", []string(nil), h.done)
	expect(t, "problems", []string{CodeSignalsUnknown}, codes(s))
	if d := s.Workloads[0].Decision; d.Known || d.To != 2 || s.Workloads[0].Inputs.LatencyMs != nil {
		t.Errorf("decision %+v on inputs %+v, want unknown and no change", d, s.Workloads[0].Inputs)
	}
}

// What is unknown is omitted, and nothing is not: a workload without errors differs from one that
// is unknown.
func TestRecordShowsWhatIsKnownOfTheInputs(t *testing.T) {
	wl := &podscaler.Workload{SLO: podscaler.SLO{Target: 300 * time.Millisecond}}
	for _, c := range []struct {
		window podscaler.Window
		want   string
	}{
		{podscaler.Window{}, `{"targetMs":300}`},
		{podscaler.Window{Errors: podscaler.Known(0), Registered: podscaler.Known(0)}, `{"targetMs":300,"errors":0,"registered":0}`},
		{podscaler.Window{
			Latency: podscaler.Known(.25), Good: podscaler.Known(.9), Arrivals: podscaler.Known(12), InFlight: podscaler.Known(3),
			Errors: podscaler.Known(.03), Registered: podscaler.Known(7),
		}, `{"latencyMs":250,"targetMs":300,"good":0.9,"arrivals":12,"inFlight":3,"errors":0.03,"registered":7}`},
		{podscaler.Window{Errors: podscaler.Reading{Known: true, Value: math.NaN()}, Registered: podscaler.Reading{Value: 7, Why: "old"}}, `{"targetMs":300}`},
	} {
		got := must.Get(json.Marshal(inputs(wl, &c.window, podscaler.Cost{})))(t)
		expect(t, "inputs", c.want, string(got))
	}
}

func TestOrderCountsAsAMachineBeforeItIsListed(t *testing.T) {
	h := newHouse()
	h.lag = true
	var seen []int
	n := 0
	r := h.runner(replicas(2), nodesSay(func(s *nodescaler.Snapshot) nodescaler.Plan {
		seen = append(seen, len(s.Machines))
		if len(s.Machines) >= 2 {
			return nodescaler.Plan{}
		}
		n++
		return nodescaler.Plan{Actions: []nodescaler.Action{order(fmt.Sprintf("b%d", n))}}
	}))
	steps(t, r, 14)
	if slices.Max(seen) != 2 || n != 1 {
		t.Errorf("%d orders, machines seen %v; want one order, counted until it is listed", n, seen)
	}
	// Two minutes and more without a sign of it: it is made again.
	if _, err := r.Once(t.Context(), t0.Add(140*time.Second)); err != nil || n != 2 {
		t.Errorf("%d orders after the first was lost (%v), want a second", n, err)
	}
}

func TestOrderOfUnknownOutcomeCountsAsAMachine(t *testing.T) {
	for what, c := range map[string]struct {
		err  error
		want []string
	}{
		"no answer": {errors.New("timeout"), []string{"create b1"}},
		"refused":   {fmt.Errorf("%w: no room", ErrRefused), []string{"create b1", "create b2", "create b3"}},
	} {
		t.Run(what, func(t *testing.T) {
			h := newHouse().hosts(3)
			h.lag = true
			for _, o := range []string{"create b1", "create b2", "create b3"} {
				h.broken[o] = c.err
			}
			n := 0
			steps(t, h.runner(replicas(2), nodesSay(func(s *nodescaler.Snapshot) nodescaler.Plan {
				if len(s.Machines) > 1 {
					return nodescaler.Plan{}
				}
				n++
				return nodescaler.Plan{Actions: []nodescaler.Action{on(order(fmt.Sprintf("b%d", n)), fmt.Sprintf("pve%d", n))}}
			})), 4)
			expect(t, "done", c.want, h.done)
		})
	}
}

func TestPlanThatBreaksAnInvariantIsLeftOut(t *testing.T) {
	h := newHouse()
	huge := order("b")
	huge.Host = "pve9"
	s := steps(t, h.runner(replicas(2), actions(huge, order("c"))), 2)
	expect(t, "done", []string{"create c"}, h.done)
	expect(t, "problems", []string{CodePlanRefused}, codes(s))
	if len(s.Plan.Actions) != 1 || s.Plan.Actions[0].Order != "c" {
		t.Errorf("the record holds %+v, want only what was allowed", s.Plan.Actions)
	}
}

func TestRestOfANodesPlanWaitsAfterAFailure(t *testing.T) {
	for what, c := range map[string]struct {
		breaks string
		err    error
		done   []string
	}{
		"a failed cordon": {"draining worker-a true", errors.New("conflict"), []string{"draining worker-a true"}},
		"a full budget":   {"evict web-1", ErrBudget, []string{"draining worker-a true", "evict web-1", "evict web-2"}},
		// As by a webhook: the next step asks for the same pod first, and no other would ever go.
		"a refused eviction": {"evict web-1", errors.New("denied"), []string{"draining worker-a true", "evict web-1", "evict web-2"}},
	} {
		t.Run(what, func(t *testing.T) {
			h := newHouse()
			h.broken[c.breaks] = c.err
			plan := actions(
				nodescaler.Action{Kind: nodescaler.Cordon, Node: "worker-a", Reasons: why},
				nodescaler.Action{Kind: nodescaler.Evict, Node: "worker-a", Pod: "web-1", Reasons: why},
				nodescaler.Action{Kind: nodescaler.Evict, Node: "worker-a", Pod: "web-2", Reasons: why},
			)
			s := steps(t, h.runner(replicas(2), plan), 2)
			expect(t, "done", c.done, h.done)
			if !slices.ContainsFunc(s.Outcomes, func(o Outcome) bool { return o.Error != "" }) {
				t.Error("the failure is not in the record")
			}
		})
	}
}

func TestMachinesArePlannedForReplicasJustDecidedOn(t *testing.T) {
	h := newHouse()
	var future []nodescaler.Future
	steps(t, h.runner(replicas(7), nodesSay(func(s *nodescaler.Snapshot) nodescaler.Plan {
		future = s.Future
		return nodescaler.Plan{}
	})), 2)
	if len(future) != 1 || future[0].Count != 5 || future[0].Like.Requests.CPU != 600 {
		t.Errorf("future pods %+v, want five like those that run", future)
	}
}

func TestCostCountsWhatItSays(t *testing.T) {
	h := newHouse()
	h.machines.Machines = append(h.machines.Machines, nodescaler.Machine{
		Name: "worker-b", Order: "b", Pool: "worker", Shape: small, Host: "pve1",
		Phase: nodescaler.Booting, Created: t0, Since: t0,
	}, nodescaler.Machine{Name: "worker-c", Order: "c", Pool: "worker", Shape: small, Host: "pve1", Phase: nodescaler.Ordered, Since: t0})
	waits := h.pod("web-3", "")
	waits.Requests.CPU, waits.Phase, waits.Ready, waits.Unschedulable = 1500, podscaler.Pending, false, true
	h.state.Pods = append(h.state.Pods, waits) // the machines on their way carry it
	var got podscaler.Cost
	pods := podsSay(func(v *podscaler.View) podscaler.Recommendation {
		got = v.Cost
		return podscaler.Recommendation{}
	})
	r := h.runner(pods, nil)
	r.Workloads[0].Cost.Count = podscaler.CountPredicted
	for _, at := range []time.Duration{0, 6 * time.Minute, 36 * time.Minute} {
		must.Get(r.Once(t.Context(), t0.Add(at)))(t)
	}
	unit := pricing.RateOf(10 * pricing.Unit)
	// Two machines exist; the period began 6 minutes ago, at half past: 2 × 10/h × 0.1 h.
	expect(t, "cost", podscaler.Cost{
		Known: true, Joined: unit, Ordered: 3 * unit, Predicted: 3 * unit,
		Spent: 2 * pricing.Unit, PeriodLeft: 24 * time.Minute,
	}, got)
}

// What one workload is to have more is in what the next one's cost is predicted to be.
func TestPredictionCountsWhatWasJustDecided(t *testing.T) {
	h := newHouse()
	var got []pricing.Rate
	r := h.runner(nil, nil)
	first := r.Workloads[0].Workload
	r.Workloads = nil
	for i, more := range []int{0, 20, 0} {
		w := first
		w.Name, w.Max, w.Cost.Count, w.Pod = fmt.Sprint(first.Name, i), 100, podscaler.CountPredicted, pricing.Resources{CPU: 600, Memory: pricing.GB}
		h.state.Replicas[w.Name] = 0
		w.Min = 0
		r.Workloads = append(r.Workloads, Scaled(w, podsSay(func(v *podscaler.View) podscaler.Recommendation {
			got = append(got, v.Cost.Predicted-v.Cost.Ordered)
			return podscaler.Recommendation{Replicas: v.Replicas + more, Known: true}
		})))
		r.Workloads[i].ScaledToZero = true
	}
	steps(t, r, 2)
	if len(got) != 3 || got[0] != 0 || got[1] != 0 || got[2] <= 0 {
		t.Errorf("predicted beyond what is ordered: %v, want more for the last alone", got)
	}
}

func TestJournalReadsBack(t *testing.T) {
	h := newHouse()
	var out bytes.Buffer
	r := h.runner(replicas(3), actions(order("b")))
	r.Journal = NewNDJSON(&out)
	want := steps(t, r, 2)
	var got []Step
	cut := out.String() + `{"id":"d-0000`
	must.Do(t, Read(strings.NewReader(cut), func(s *Step) error { got = append(got, *s); return nil }))
	if len(got) != 2 {
		t.Fatalf("%d records read of 2", len(got))
	}
	again := NewNDJSON(&bytes.Buffer{})
	must.Do(t, again.Append(&got[1]))
	if got[1].ID != want.ID || got[1].Plan.Actions[0].Order != "b" {
		t.Errorf("read %+v", got[1])
	}
	for _, line := range []string{"no json", "{}", "[1]", `{"id":"d-000001"}`} {
		if err := Read(strings.NewReader(line+"\n"), func(*Step) error { return nil }); err == nil || !strings.Contains(err.Error(), "line 1 is not a record") {
			t.Errorf("%s: %v, want an error that names the line", line, err)
		}
	}
}
