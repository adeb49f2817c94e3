package loop

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// What a policy sees of its pods, of machines on their way and of its places.
func TestWhatAPodPolicySees(t *testing.T) {
	type sight struct {
		Replicas, Pods, Pending, Booting int
		Most                             int // places; -1 is not known
		Lost                             int
	}
	unchanged := sight{Replicas: 2, Pods: 2, Most: 6}
	machine := func(phase nodescaler.Phase, keep bool) func(*house, *Runner) {
		return func(h *house, _ *Runner) {
			h.machines.Machines = append(h.machines.Machines, nodescaler.Machine{
				Name: "worker-b", Order: "b", Pool: "worker", Shape: small, Host: "pve1", Phase: phase, Keep: keep, Created: t0, Since: t0,
			})
		}
	}
	with := func(change func(*sight)) sight { s := unchanged; change(&s); return s }
	for _, c := range []struct {
		name   string
		change func(*house, *Runner)
		want   sight
	}{
		{name: "all is well", want: unchanged},
		{name: "a pod is not ready", change: func(h *house, _ *Runner) { h.state.Pods[0].Ready = false }, want: with(func(s *sight) { s.Pending = 1 })},
		{name: "a pod that is ready ends", change: func(h *house, _ *Runner) { h.state.Pods[0].Terminating = true }, want: with(func(s *sight) { s.Pending, s.Most = 1, 5 })},
		{
			name: "more pods than replicas", change: func(h *house, _ *Runner) { h.state.Pods = append(h.state.Pods, h.pod("web-3", "worker-a")) },
			want: with(func(s *sight) { s.Pods = 3 }),
		},
		{name: "a pod of another workload", change: func(h *house, _ *Runner) { h.state.Pods[0].Workload = "shop/api" }, want: with(func(s *sight) { s.Pods, s.Pending, s.Most = 1, 1, 5 })},
		{name: "a bare pod", change: func(h *house, _ *Runner) { h.state.Pods[0].Workload = "" }, want: with(func(s *sight) { s.Pods, s.Pending, s.Most = 1, 1, 5 })},
		{name: "a machine is ordered", change: machine(nodescaler.Ordered, false), want: with(func(s *sight) { s.Booting = 1 })},
		{name: "a machine boots", change: machine(nodescaler.Booting, false), want: with(func(s *sight) { s.Booting = 1 })},
		{name: "a spare is made", change: machine(nodescaler.Booting, true), want: unchanged},
		{name: "a machine has joined", change: machine(nodescaler.Joined, false), want: unchanged},
		{name: "a machine has failed", change: machine(nodescaler.Failed, false), want: unchanged},
		{name: "its node is silent", change: func(h *house, _ *Runner) { h.state.Nodes[0].Ready = false }, want: with(func(s *sight) { s.Lost, s.Most = 2, 5 })},
		{name: "its host is away", change: func(h *house, _ *Runner) { h.machines.Hosts[0].Online = false }, want: with(func(s *sight) { s.Lost, s.Most = 2, 2 })},
		{name: "no pool is known", change: func(_ *house, r *Runner) { r.Pools = nil }, want: with(func(s *sight) { s.Most = 20 })},
		{name: "the pool is at its maximum", change: func(_ *house, r *Runner) { r.Pools[0].Max = 1 }, want: with(func(s *sight) { s.Most = 3 })},
		{name: "the machines are not known", change: func(h *house, _ *Runner) { h.broken["list"] = context.DeadlineExceeded }, want: with(func(s *sight) { s.Most = -1 })},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse()
			var got sight
			r := h.runner(bidder{want: 4}, nil)
			r.Workloads[0] = Scaled(r.Workloads[0].Workload, watching{bidder{want: 4}, func(v *podscaler.View) {
				got = sight{Replicas: v.Replicas, Pods: len(v.Pods), Pending: v.Room.PendingReplicas, Booting: v.Room.BootingMachines, Most: -1}
				if v.Room.Places != nil {
					got.Most = v.Room.Places.Most
				}
				for _, p := range v.Pods {
					if p.Lost {
						got.Lost++
					}
				}
			}})
			steps(t, r, 1)
			if c.change != nil {
				c.change(h, r)
			}
			must.Get(r.Once(t.Context(), t0.Add(time.Minute)))(t)
			expect(t, "sight", c.want, got)
		})
	}
}

// Machines are planned for the replicas that are no pods yet, or whose pods end.
func TestWhichReplicasAreToCome(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*house)
		want   int
	}{
		{name: "each is a pod", want: 0},
		{name: "a pod ends", change: func(h *house) { h.state.Pods[0].Terminating = true }, want: 1},
		{name: "a pod has ended", change: func(h *house) { h.state.Pods[0].Phase = podscaler.Failed }, want: 1},
		{name: "a pod waits", change: func(h *house) { h.state.Pods[0].Node, h.state.Pods[0].Phase = "", podscaler.Pending }, want: 0},
		{name: "a pod is missing", change: func(h *house) { h.state.Pods = h.state.Pods[:1] }, want: 1},
		{name: "a pod too many", change: func(h *house) { h.state.Pods = append(h.state.Pods, h.pod("web-3", "worker-a")) }, want: 0},
	} {
		h, got, kinds := newHouse(), 0, 0
		r := h.runner(keep{}, nodesSay(func(s *nodescaler.Snapshot) nodescaler.Plan {
			got, kinds = 0, len(s.Future)
			for _, f := range s.Future {
				got += f.Count + f.Ahead
			}
			return nodescaler.Plan{}
		}))
		steps(t, r, 1)
		if c.change != nil {
			c.change(h)
		}
		if _, err := r.Once(t.Context(), t0.Add(time.Minute)); err != nil || got != c.want || kinds != min(c.want, 1) {
			t.Errorf("%s: %d of %d kinds are to come, want %d; %v", c.name, got, kinds, c.want, err)
		}
	}
}

// watching is a policy that shows what it sees.
type watching struct {
	bidder
	sees func(*podscaler.View)
}

func (w watching) Desired(v *podscaler.View) podscaler.Recommendation {
	w.sees(v)
	return podscaler.Recommendation{Known: true, Replicas: v.Replicas, Reasons: why}
}

// From the step on in which the price book is another, machines cost what it says.
func TestAnotherPriceBookCountsFromItsStepOn(t *testing.T) {
	h := newHouse()
	r := h.runner(keep{}, nil)
	rate := func(at time.Duration) pricing.Rate {
		s := must.Get(r.Once(t.Context(), t0.Add(at)))(t)
		return s.Observed.Cost.Joined
	}
	cheap := rate(0)
	same := *r.Prices
	r.Prices = &same
	if got := rate(time.Minute); got != cheap {
		t.Errorf("an equal book makes %s of %s", got, cheap)
	}
	if r.prices == &same {
		t.Error("the ledger got an equal book: each time the configuration is read it would become longer")
	}
	dear := *r.Prices
	dear.PerVCPU *= 3
	r.Prices = &dear
	if got := rate(2 * time.Minute); got <= cheap {
		t.Errorf("a dearer book makes %s of %s", got, cheap)
	}
	r.Prices = nil // the default book
	if got := rate(3 * time.Minute); got != cheap {
		t.Errorf("no book makes %s of %s", got, cheap)
	}
}

// A process that starts before there is a PriceBook counts in units of its own until there is one.
func TestPricesInAnotherUnitBeginANewAccount(t *testing.T) {
	h := newHouse()
	r := h.runner(keep{}, nil)
	r.Prices = nil
	must.Get(r.Once(t.Context(), t0))(t)
	must.Get(r.Once(t.Context(), t0.Add(time.Hour)))(t)
	r.Prices = &pricing.Book{Unit: "EUR", PerVCPU: 6000}
	for _, minutes := range []time.Duration{90, 120} {
		s := must.Get(r.Once(t.Context(), t0.Add(minutes*time.Minute)))(t)
		cost := s.Observed.Cost
		want := pricing.Rate(0)
		for _, m := range h.machines.Machines {
			want += r.Prices.Rate(m.Shape, m.Host, s.Time)
		}
		if cost.Unit != "EUR" || cost.Joined != want || len(s.Problems) > 0 {
			t.Errorf("after %d minutes machines cost %s in %s, want %s in EUR; %v", minutes, cost.Joined, cost.Unit, want, s.Problems)
		}
		if spent := want.For((minutes - 90) * time.Minute); cost.Spent != spent {
			t.Errorf("after %d minutes %s are spent, want %s", minutes, cost.Spent, spent)
		}
	}
}

// resizing is a cluster whose pods can be resized.
type resizing struct {
	*house
	sizes map[string]rightsize.Pod
	fails error
}

func (r *resizing) Size(pod string) (rightsize.Pod, bool) {
	size, known := r.sizes[pod]
	return size, known
}

func (r *resizing) Resize(_ context.Context, workload, pod string, changes []rightsize.Change) error {
	if r.fails == nil {
		r.sizes[pod] = rightsize.Pod{Running: true, Started: t0, Containers: []rightsize.Container{{Name: "app", Requests: changes[0].Requests}}}
	}
	r.done = append(r.done, "resize "+workload+" "+pod)
	return r.fails
}

func (r *resizing) Recreate(_ context.Context, workload, pod string) error {
	r.done = append(r.done, "recreate "+workload+" "+pod)
	return r.fails
}

// measured has both pods request little, and their containers use more.
func measured() (*resizing, *Runner) {
	h := &resizing{house: newHouse(), sizes: map[string]rightsize.Pod{}}
	size := rightsize.Pod{Running: true, Started: t0, Containers: []rightsize.Container{{Name: "app", Requests: pricing.Resources{CPU: 100, Memory: pricing.GiB}}}}
	h.sizes["web-1"], h.sizes["web-2"] = size, size
	r := h.runner(keep{}, nil)
	r.Cluster = h
	r.Workloads[0].Sizes = &rightsize.Wants{Mode: rightsize.InPlace}
	at := t0
	r.Uses = func() map[string][]podscaler.ContainerUse {
		at = at.Add(time.Minute)
		one := []podscaler.ContainerUse{{
			Name: "app", CPU: podscaler.Sample{Known: true, Value: 1, At: at, Span: time.Second}, Memory: podscaler.Sample{Known: true, Value: 1e9, At: at},
		}}
		return map[string][]podscaler.ContainerUse{"web-1": one, "web-2": one}
	}
	return h, r
}

// One pod a round is resized of a workload, unless something holds it; steps between look again
// only if what is wanted has changed.
func TestPodsAreResizedInRounds(t *testing.T) {
	why := nodescaler.Reason{Code: "Test", Text: "the test says so"}
	for _, c := range []struct {
		name   string
		change func(*resizing, *Runner)
		every  time.Duration // of steps, four minutes long
		want   []string
	}{
		{name: "one by one", every: time.Minute, want: []string{"web-1", "web-2"}},
		{name: "steps come often", every: 10 * time.Second, want: []string{"web-1", "web-2"}},
		{name: "nothing is wanted", every: time.Minute, change: func(_ *resizing, r *Runner) { r.Workloads[0].Sizes = nil }},
		{name: "sizes are held", every: time.Minute, change: func(_ *resizing, r *Runner) { r.Workloads[0].Sizes.Held = &why }},
		{name: "the workload is held", every: time.Minute, change: func(_ *resizing, r *Runner) { r.Workloads[0].Held = &why }},
		{name: "its pods are being replaced", every: time.Minute, change: func(c *resizing, _ *Runner) {
			c.state.Rollouts = map[string]podscaler.Rollout{"shop/web": {InProgress: true}}
		}},
		{name: "a pod ends", every: time.Minute, change: func(c *resizing, _ *Runner) { c.state.Pods[0].Terminating = true }, want: []string{"web-2"}},
		{name: "a pod's size is not known", every: time.Minute, change: func(c *resizing, _ *Runner) { delete(c.sizes, "web-1") }, want: []string{"web-2"}},
		{name: "nothing was measured", every: time.Minute, change: func(_ *resizing, r *Runner) { r.Uses = nil }},
		{name: "a dry run", every: time.Minute, change: func(_ *resizing, r *Runner) { r.DryRun = true }},
		{name: "each is refused", every: time.Minute, change: func(c *resizing, _ *Runner) { c.fails = context.DeadlineExceeded }, want: []string{"web-1", "web-2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, r := measured()
			if c.change != nil {
				c.change(h, r)
			}
			var want []string
			for _, pod := range c.want {
				want = append(want, "resize shop/web "+pod)
			}
			asked := 0
			for now := t0; now.Before(t0.Add(4 * time.Minute)); now = now.Add(c.every) {
				s := must.Get(r.Once(t.Context(), now))(t)
				for i := range s.Workloads {
					ws := &s.Workloads[i]
					if done := s.Resized(ws); done != nil {
						asked++
						expect(t, "applied", h.fails == nil, done.Applied)
						expect(t, "the next step's last", done.Pod, r.sizers["shop/web"].Says().Last.Pod)
					}
					if (ws.Sizing != nil) != (r.Workloads[0].Sizes != nil) {
						t.Errorf("%s: sizing is %v", now, ws.Sizing)
					}
				}
			}
			expect(t, "resized", want, h.done)
			expect(t, "on record", len(want), asked)
		})
	}
}

// A pod that its node has no room for is evicted, while budgets allow that and nothing pins it.
func TestPodsAreEvictedForTheirSizes(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*resizing)
		want   []string
	}{
		{name: "nothing holds it", change: func(*resizing) {}, want: []string{"recreate shop/web web-1"}},
		{name: "the API server refuses", change: func(c *resizing) { c.fails = ErrBudget }, want: []string{"recreate shop/web web-1"}},
		{name: "a budget of the workload is used up", change: func(c *resizing) { c.state.Budgets = []nodescaler.Budget{{Workload: "shop/web"}} }},
		{name: "one of another is", change: func(c *resizing) {
			c.state.Budgets = []nodescaler.Budget{{Workload: "shop/mail"}, {Workload: "shop/web", Allowed: 1}}
		}, want: []string{"recreate shop/web web-1"}},
		{name: "it is pinned", change: func(c *resizing) { c.state.Pods[0].Pinned = "bare" }, want: []string{"recreate shop/web web-2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, r := measured()
			for name, size := range h.sizes {
				size.Started, size.Resize = t0.Add(-24*time.Hour), rightsize.ResizeInfeasible
				h.sizes[name] = size
			}
			r.Workloads[0].Sizes = &rightsize.Wants{Mode: rightsize.Auto}
			c.change(h)
			for i := range 2 {
				s := must.Get(r.Once(t.Context(), t0.Add(time.Duration(i)*time.Minute)))(t)
				if done := s.Resized(&s.Workloads[0]); done != nil {
					expect(t, "evicted", true, done.Evicted)
					expect(t, "applied", h.fails == nil, done.Applied)
				}
			}
			expect(t, "done", c.want, h.done)
		})
	}
}

// Sizes are read where they are looked at: once a minute, and when something else is wanted.
func TestSizesAreReadWhenTheyAreLookedAt(t *testing.T) {
	for _, c := range []struct {
		name   string
		after  time.Duration // the second look
		change func(*resizing, *Runner)
		want   []string
	}{
		{name: "in the next round", after: time.Minute, want: []string{"web-1", "web-2"}},
		{name: "in the same", after: 59 * time.Second},
		{name: "nothing is wanted", after: time.Minute, change: func(_ *resizing, r *Runner) { r.Workloads[0].Sizes = nil }},
		{
			name: "something else is wanted", after: time.Second, want: []string{"web-1", "web-2"},
			change: func(_ *resizing, r *Runner) { r.Workloads[0].Sizes = &rightsize.Wants{Mode: rightsize.Off} },
		},
		{
			name: "another object wants the same", after: time.Second, want: []string{"web-1", "web-2"},
			change: func(_ *resizing, r *Runner) {
				r.Workloads[0].Sizes = &rightsize.Wants{Of: "another", Mode: rightsize.InPlace}
			},
		},
		{
			name: "a hold is no other wish", after: time.Second,
			change: func(_ *resizing, r *Runner) {
				r.Workloads[0].Sizes = &rightsize.Wants{Mode: rightsize.InPlace, Held: &why[0]}
			},
		},
		{name: "a pod ends", after: time.Minute, want: []string{"web-2"}, change: func(h *resizing, _ *Runner) { h.state.Pods[0].Terminating = true }},
		{name: "a pod of another workload", after: time.Minute, want: []string{"web-2"}, change: func(h *resizing, _ *Runner) { h.state.Pods[0].Workload = "shop/api" }},
		{name: "a pod that is not known", after: time.Minute, want: []string{"web-2"}, change: func(h *resizing, _ *Runner) { delete(h.sizes, "web-1") }},
		{name: "pods cannot be resized", after: time.Minute, change: func(h *resizing, r *Runner) { r.Cluster = h.house }},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, r := measured()
			steps(t, r, 1)
			if c.change != nil {
				c.change(h, r)
			}
			o := r.Observe(t.Context(), t0.Add(c.after))
			r.Measure(t.Context(), &o, &r.Intent, &r.Memory)
			var got []string
			for _, p := range h.state.Pods {
				if _, read := o.Sizes[p.Name]; read {
					got = append(got, p.Name)
				}
			}
			expect(t, "read", c.want, got)
			expect(t, "uses are read", len(c.want) > 0, o.Uses != nil)
			s := Decide(&o, &r.Intent, &r.Memory)
			known := len(c.want) > 0 && r.Workloads[0].Sizes.Of == ""
			if known && len(s.Workloads[0].Sizing.Recommended) == 0 {
				t.Error("nothing is recommended")
			}
		})
	}
}

// Between two rounds another wish is decided for at once, and the same one is not decided for
// again.
func TestAnotherWishForSizesWaitsForNoRound(t *testing.T) {
	for _, c := range []struct {
		name    string
		keepCPU *nodescaler.Reason // at first
		want    []string
	}{
		{name: "the same", want: []string{"", "web-1", ""}},
		{name: "another", keepCPU: &why[0], want: []string{"", "", "web-1"}},
	} {
		_, r := measured()
		r.Workloads[0].Sizes.KeepCPU = c.keepCPU
		for i, at := range []time.Duration{0, time.Minute, 80 * time.Second} {
			if i == 2 {
				r.Workloads[0].Sizes = &rightsize.Wants{Mode: rightsize.InPlace}
			}
			s := must.Get(r.Once(t.Context(), t0.Add(at)))(t)
			resized := ""
			if o := s.Workloads[0].Resize; o != nil {
				resized = o.Pod
			}
			expect(t, fmt.Sprintf("%s: step %d resizes", c.name, i), c.want[i], resized)
		}
	}
}

// Replicas that are no pods count for others while they are expected to become some.
func TestWhichReplicasCountForOthers(t *testing.T) {
	ours := []nodescaler.Pool{{Name: "worker"}}
	for _, c := range []struct {
		name            string
		replicas, alive int
		held            bool
		pools           []nodescaler.Pool
		failing         string
		want            int
	}{
		{name: "all are pods", replicas: 3, alive: 3, pools: ours, want: 3},
		{name: "some are to come", replicas: 5, alive: 3, pools: ours, want: 5},
		{name: "some are to come of what is held", replicas: 5, alive: 3, held: true, pools: ours, want: 3},
		{name: "some are to come where all is held", replicas: 5, alive: 3, held: true, want: 5},
		{name: "some cannot come", replicas: 5, alive: 3, pools: ours, failing: "quota", want: 3},
		{name: "some are to go", replicas: 2, alive: 3, pools: ours, want: 2},
		{name: "some are to go of what is held", replicas: 2, alive: 3, held: true, pools: ours, want: 2},
	} {
		a := asked{WorkloadStep: WorkloadStep{Workload: "shop/web", Replicas: c.replicas}}
		if c.held {
			a.Held = &why[0]
		}
		o := &Observation{}
		if c.failing != "" {
			o.Cluster.Failing = map[string]string{"shop/web": c.failing}
		}
		d := decider{Memory: &Memory{}, o: o, in: &Intent{Pools: c.pools}, alive: map[string]int{"shop/web": c.alive}}
		if got := d.counted(&a); got != c.want {
			t.Errorf("%s: %d count, want %d", c.name, got, c.want)
		}
	}
}

// What came of a step is found by its workload and pod.
func TestOutcomesAreFound(t *testing.T) {
	resize := &rightsize.Order{Pod: "web-1", Reasons: why}
	s := Step{Time: t0, Outcomes: []Outcome{
		{Action: 0}, {Action: -1, Workload: "shop/api"}, {Action: -1, Workload: "shop/api", Pod: "api-1"},
		{Action: -1, Workload: "shop/web", Error: "conflict"}, {Action: -1, Workload: "shop/web", Pod: "web-1", Error: "no room"},
	}}
	if o := s.Rescaled("shop/web"); o == nil || o.Error != "conflict" {
		t.Errorf("rescaled %+v", o)
	}
	if o := s.Rescaled("shop/mail"); o != nil {
		t.Errorf("another workload's: %+v", o)
	}
	if done := s.Resized(&WorkloadStep{Workload: "shop/web", Resize: resize}); done == nil || done.Applied || done.Pod != "web-1" {
		t.Errorf("resized %+v", done)
	}
	if done := s.Resized(&WorkloadStep{Workload: "shop/web"}); done != nil {
		t.Errorf("no resize was decided on: %+v", done)
	}
	if done := s.Resized(&WorkloadStep{Workload: "shop/mail", Resize: resize}); done != nil {
		t.Errorf("another workload's: %+v", done)
	}
}
