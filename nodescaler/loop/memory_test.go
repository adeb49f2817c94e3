package loop

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// Signals are read of the workloads whose turn it is, and of no others.
func TestWhoseTurnItIs(t *testing.T) {
	for _, c := range []struct {
		name   string
		looked int // steps before
		change func(o *Observation, in *Intent)
		want   []string
	}{
		{name: "at the first step", want: nil},
		{name: "at the second", looked: 1, want: []string{"shop/web"}},
		{name: "the cluster is unknown", looked: 1, change: func(o *Observation, _ *Intent) { o.ClusterErr = errors.New("silent") }},
		{name: "it is not in the cluster", looked: 1, change: func(o *Observation, _ *Intent) { o.Cluster.Replicas = nil }},
		{name: "its period is not over", looked: 2, change: func(_ *Observation, in *Intent) { in.Workloads[0].RunPeriod = time.Hour }},
		{name: "another one is new", looked: 1, want: []string{"shop/web"}, change: func(o *Observation, in *Intent) {
			in.Workloads = append(in.Workloads, Scaled(podscaler.Workload{Name: "shop/api", Max: 3}, keep{}))
			o.Cluster.Replicas = map[string]int{"shop/web": 2, "shop/api": 1}
		}},
		{name: "its bounds have changed, so that it looks anew", looked: 2, change: func(_ *Observation, in *Intent) { in.Workloads[0].Max = 7 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newHouse().runner(keep{}, nil)
			for i := range c.looked {
				must.Get(r.Once(t.Context(), t0.Add(time.Duration(i)*10*time.Second)))(t)
			}
			o := r.Observe(t.Context(), t0.Add(time.Minute))
			if c.change != nil {
				c.change(&o, &r.Intent)
			}
			var due []string
			for _, w := range r.Due(&o, &r.Intent) {
				due = append(due, w.Name)
			}
			expect(t, "due", c.want, due)
		})
	}
}

// A scaler remembers what it did as long as its workload is as it was, but for what its pods
// request: that is what the newest do. Where there is no pod, it is what they did.
func TestAScalerStaysWithItsWorkload(t *testing.T) {
	request := func(cpu pricing.MilliCPU) func(*Workload) {
		return func(w *Workload) { w.Pod.CPU = cpu }
	}
	for _, c := range []struct {
		name   string
		change func(*Workload)
		stays  bool
		asks   pricing.Resources // 600m, unless it is said
	}{
		{name: "nothing changes", change: func(*Workload) {}, stays: true},
		{name: "its pods request more", change: request(900), stays: true, asks: pricing.Resources{CPU: 900}},
		{
			name: "its pods request memory alone", change: func(w *Workload) { w.Pod = pricing.Resources{Memory: pricing.GiB} }, stays: true,
			asks: pricing.Resources{Memory: pricing.GiB},
		},
		{name: "there is no pod", change: request(0), stays: true},
		{name: "its bounds change", change: func(w *Workload) { w.Max = 7 }},
		{name: "there is no pod and its bounds change", change: func(w *Workload) { w.Max, w.Pod.CPU = 7, 0 }},
	} {
		var m Memory
		w := Scaled(podscaler.Workload{Name: "shop/web", Max: 3, Pod: pricing.Resources{CPU: 600}}, keep{})
		m.keep([]Workload{w})
		was := m.scalers[w.Name]
		c.change(&w)
		m.keep([]Workload{w})
		expect(t, c.name+": it stays", c.stays, m.scalers[w.Name] == was)
		if c.asks == (pricing.Resources{}) {
			c.asks.CPU = 600
		}
		expect(t, c.name+": its policy sees", c.asks, m.scalers[w.Name].Workload().Pod)
	}
}

// choosy is a cluster that marks the pods that go first.
type choosy struct {
	*house
	chosen []string
}

func (c *choosy) Choose(_ context.Context, workload string, pods []string) error {
	c.chosen = append(c.chosen, workload)
	c.chosen = append(c.chosen, pods...)
	return c.broken["choose"]
}

// Pods are marked where replicas go and the node policy wants whole machines emptied.
func TestPodsAreMarkedBeforeTheyGo(t *testing.T) {
	for _, c := range []struct {
		name   string
		want   int
		nodes  nodescaler.Policy
		broken error
		blind  bool // the machines are not known
		chosen int  // names
	}{
		{name: "fewer", want: 1, nodes: emptying{Policy: actions()}, chosen: 2},
		{name: "more", want: 3, nodes: emptying{Policy: actions()}},
		{name: "as many", want: 2, nodes: emptying{Policy: actions()}},
		{name: "machines are not emptied", want: 1, nodes: actions()},
		{name: "machines are emptied at no time", want: 1, nodes: emptying{Policy: actions(), never: true}},
		{name: "the machines are not known", want: 1, nodes: emptying{Policy: actions()}, blind: true},
		{name: "it fails", want: 1, nodes: emptying{Policy: actions()}, broken: errors.New("forbidden"), chosen: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &choosy{house: newHouse()}
			if h.broken["choose"] = c.broken; c.blind {
				h.broken["list"] = errors.New("silent")
			}
			r := h.runner(replicas(c.want), c.nodes)
			r.Cluster = h
			s := steps(t, r, 2)
			expect(t, "names", c.chosen, len(h.chosen))
			expect(t, "replicas", c.want, h.state.Replicas["shop/web"])
			expect(t, "the failure is in the record", c.broken != nil, slices.ContainsFunc(s.Problems, func(r nodescaler.Reason) bool { return r.Code == CodePodsNotMarked }))
			expect(t, "rescales that failed", false, len(s.Outcomes) > 0 && s.Outcomes[0].Error != "")
			expect(t, "the record names them", c.chosen > 0, s.Workloads[0].Leaving != nil)
		})
	}
}

// What a restart has not learnt is learnt from outcomes alone, so that a record says all of it.
func TestWhatIsLearntFollowsFromTheRecord(t *testing.T) {
	a := order("b")
	a.For = []string{"shop"}
	stashed := nodescaler.Action{Kind: nodescaler.Wake, Machine: "worker-b", For: []string{"shop"}, Reasons: why}
	for _, c := range []struct {
		name                       string
		action                     nodescaler.Action
		outcome                    Outcome
		orders, counted, leftAlone int
		before                     bool // such an order was refused a while before, and is no more
	}{
		{name: "taken", action: a, orders: 1, counted: 1},
		{name: "perhaps taken", action: a, outcome: Outcome{Error: "timeout"}, orders: 1, counted: 1},
		{name: "taken at last", action: a, orders: 1, counted: 1, before: true},
		{name: "perhaps taken at last", action: a, outcome: Outcome{Error: "timeout"}, orders: 1, counted: 1, leftAlone: 1, before: true},
		{name: "refused", action: a, outcome: Outcome{Error: "no room", Refused: OrderRefused}, leftAlone: 1},
		{name: "refused by its pool", action: a, outcome: Outcome{Error: "paused", Refused: PoolRefused}, leftAlone: 1},
		{name: "deferred", action: a, outcome: Outcome{Held: &why[0]}},
		{name: "woken", action: stashed, counted: 1},
		{name: "not woken", action: stashed, outcome: Outcome{Error: "timeout"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m Memory
			if c.before {
				m.refused.note(&c.action, &Outcome{Error: "no room", Refused: OrderRefused}, t0)
			}
			m.Learn(&Step{Time: t0, Plan: nodescaler.Plan{Actions: []nodescaler.Action{c.action}}, Outcomes: []Outcome{{Action: -1}, c.outcome}})
			got := []int{len(m.orders), m.ordered.count(t0)["shop"], len(m.refused.now(t0)["worker"])}
			if want := []int{c.orders, c.counted, c.leftAlone}; !slices.Equal(got, want) {
				t.Errorf("orders, orders of the namespace and refusals %v, want %v", got, want)
			}
		})
	}
}

// Machines of pools that are not this loop's are left alone, each with its reason.
func TestPoolsThatAreLeftAlone(t *testing.T) {
	in := Intent{
		Pools:  []nodescaler.Pool{{Name: "ours"}, {Name: "up", HeldUp: &why[0]}, {Name: "down", HeldDown: &why[0]}},
		Others: map[string]nodescaler.Reason{"theirs": why[0]},
	}
	for _, c := range []struct{ pool, buy, reclaim string }{
		{"ours", "", ""}, {"up", why[0].Code, ""}, {"down", "", why[0].Code}, {"theirs", why[0].Code, why[0].Code},
		{"unknown", nodescaler.PoolUnknown, nodescaler.PoolUnknown}, {"", "", ""},
	} {
		code := func(r *nodescaler.Reason) string {
			if r == nil {
				return ""
			}
			return r.Code
		}
		expect(t, c.pool+", to buy", c.buy, code(in.held(c.pool, nodescaler.Buy)))
		expect(t, c.pool+", to reclaim", c.reclaim, code(in.held(c.pool, nodescaler.Return)))
	}
}
