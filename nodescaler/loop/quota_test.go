package loop

import (
	"fmt"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

func TestOrdersAreCountedForAnHour(t *testing.T) {
	var o ordered
	o.note([]string{"shop", "team"}, t0)
	o.note([]string{"shop"}, t0.Add(10*time.Minute))
	o.note(nil, t0)
	for _, c := range []struct {
		at         time.Duration
		shop, team int
	}{{10 * time.Minute, 2, 1}, {time.Hour - time.Second, 2, 1}, {time.Hour, 1, 0}, {70 * time.Minute, 0, 0}} {
		by := o.count(t0.Add(c.at))
		expect(t, fmt.Sprintf("after %s", c.at), [2]int{c.shop, c.team}, [2]int{by["shop"], by["team"]})
	}
	o.note([]string{"shop"}, t0.Add(9*time.Hour))
	expect(t, "by a clock that was put back", 1, o.count(t0)["shop"])
	expect(t, "an hour later", 0, o.count(t0.Add(time.Hour))["shop"])
}

// An order counts for its namespaces, in the next snapshot; what is surely refused does not.
// After a restart a machine of the last hour counts for those who have pods on it.
func TestOrdersCountAgainstQuotas(t *testing.T) {
	h, step := newHouse(), 0
	var seen []int
	r := h.runner(keep{}, nodesSay(func(s *nodescaler.Snapshot) nodescaler.Plan {
		seen = append(seen, s.Ordered["shop"])
		if step++; step > 3 {
			return nodescaler.Plan{}
		}
		a := order(fmt.Sprintf("b%d", step))
		if a.For = []string{"shop"}; step == 3 {
			h.broken["create b3"] = fmt.Errorf("no room: %w", ErrRefused)
		}
		return nodescaler.Plan{Actions: []nodescaler.Action{a}}
	}))
	r.Quotas = []nodescaler.Quota{{Namespace: "*", Orders: 9}}
	steps(t, r, 5)
	expect(t, "orders that were seen", []int{0, 1, 2, 2}, seen)

	h.machines.Machines[0].Created, seen = t0, nil
	nodes := r.Nodes
	r.Memory = r.Jump(t0)
	r.Nodes = nodes
	last := steps(t, r, 3)
	expect(t, "orders after the clock has jumped", []int{2, 2}, seen)
	expect(t, "the id of the eighth step", "d-000008", last.ID)

	h.machines.Machines[0].Created = t0.Add(-59 * time.Minute)
	seen = nil
	r = h.runner(keep{}, nodesSay(func(s *nodescaler.Snapshot) nodescaler.Plan {
		seen = append(seen, s.Ordered["shop"])
		return nodescaler.Plan{}
	}))
	r.Quotas = []nodescaler.Quota{{Namespace: "*", Orders: 9}}
	steps(t, r, 8)
	expect(t, "orders after a restart", []int{1, 1, 1, 1, 1, 0, 0}, seen)
}

// After a start a machine of the last hour was ordered for those that have quotas and pods on it.
func TestWhatIsRecalledOfOrders(t *testing.T) {
	for _, c := range []struct {
		name   string
		ago    time.Duration
		change func(*house)
		want   []string
	}{
		{name: "less than an hour ago", ago: time.Hour - 1, want: []string{"shop"}},
		{name: "an hour ago", ago: time.Hour},
		{name: "it is no node", change: func(h *house) { h.state.Nodes = nil }},
		{name: "its pods are daemons", change: func(h *house) { h.state.Pods[0].Daemon, h.state.Pods[1].Daemon = true, true }},
		{name: "its pods are daemons by their own word", want: []string{"shop"}, change: func(h *house) {
			for i := range h.state.Pods {
				h.state.Pods[i].Daemon, h.state.Pods[i].Foreign = true, true
			}
		}},
		{name: "its pods have no quota", change: func(h *house) { h.state.Pods[0].Workload, h.state.Pods[1].Workload = "team/a", "team/b" }},
		{name: "one has", change: func(h *house) { h.state.Pods[0].Workload = "team/a" }, want: []string{"shop"}},
	} {
		h := newHouse()
		h.machines.Machines[0].Created = t0.Add(-c.ago)
		if c.change != nil {
			c.change(h)
		}
		var o ordered
		o.recall(nodescaler.NewIndex(&nodescaler.Snapshot{
			Now: t0, Machines: h.machines.Machines, Nodes: h.state.Nodes, Pods: h.state.Pods, Prices: pricing.DefaultBook(),
			Quotas: []nodescaler.Quota{{Namespace: "shop", Orders: 9}},
		}))
		var got []string
		for _, f := range o {
			got = append(got, f.namespace)
		}
		expect(t, c.name, c.want, got)
	}
}

func TestDecisionsKeepToQuotas(t *testing.T) {
	for _, c := range []struct {
		name     string
		want     int // by the policy
		quota    int
		others   int // pods of other workloads in the namespace
		are      func(*nodescaler.Pod)
		to       int
		reported bool
	}{
		{name: "room", want: 5, quota: 5, to: 5},
		{name: "less room", want: 5, quota: 4, to: 4, reported: true},
		{name: "others have pods", want: 5, quota: 5, others: 2, to: 3, reported: true},
		{name: "others end", want: 5, quota: 5, others: 2, are: func(p *nodescaler.Pod) { p.Terminating = true }, to: 5},
		{name: "others have ended", want: 5, quota: 5, others: 2, are: func(p *nodescaler.Pod) { p.Phase = podscaler.Failed }, to: 5},
		{name: "others are daemons", want: 5, quota: 5, others: 2, are: func(p *nodescaler.Pod) { p.Daemon = true }, to: 5},
		{name: "others are daemons by their own word", want: 5, quota: 5, others: 2, are: func(p *nodescaler.Pod) { p.Daemon, p.Foreign = true, true }, to: 3, reported: true},
		{name: "there are more already", want: 5, quota: 1, to: 2, reported: true},
		{name: "shrinking", want: 1, quota: 1, others: 7, to: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse()
			for i := range c.others {
				p := h.pod(fmt.Sprintf("shop/other-%d", i), "")
				p.Workload = "shop/Deployment/other"
				if c.are != nil {
					c.are(&p)
				}
				h.state.Pods = append(h.state.Pods, p)
			}
			r := h.runner(replicas(c.want), nil)
			r.Quotas = []nodescaler.Quota{{Namespace: "shop", Replicas: c.quota}}
			s := steps(t, r, 2)
			d := s.Workloads[0].Decision
			expect(t, "replicas", c.to, d.To)
			expect(t, "why", c.reported, d.Reasons[0].Code == nodescaler.NamespaceQuota)
		})
	}
}

// Workloads of one namespace share its quota in one step.
func TestWorkloadsOfANamespaceShareItsQuota(t *testing.T) {
	h := newHouse()
	h.state.Replicas["shop/api"] = 1
	r := h.runner(replicas(5), nil)
	r.Workloads = append(r.Workloads, Scaled(podscaler.Workload{Name: "shop/api", Min: 1, Max: 20, Pod: pricing.Resources{CPU: 600}}, replicas(5)))
	r.Quotas = []nodescaler.Quota{{Namespace: "shop", Replicas: 7}}
	s := steps(t, r, 2)
	expect(t, "replicas", [2]int{5, 2}, [2]int{s.Workloads[0].Decision.To, s.Workloads[1].Decision.To})
}

// A pod that is being replaced leaves no place in the quota to another workload.
func TestReplicasThatAreToComeCountAgainstQuotas(t *testing.T) {
	h := newHouse()
	h.state.Replicas["shop/api"] = 1
	h.state.Pods = append(h.state.Pods, nodescaler.Pod{
		Pod: podscaler.Pod{Name: "api-1", Phase: podscaler.Running, Ready: true}, Workload: "shop/api", Node: "worker-a",
	})
	r := h.runner(keep{}, nil)
	r.Workloads = append(r.Workloads, Scaled(podscaler.Workload{Name: "shop/api", Min: 1, Max: 20, Pod: pricing.Resources{CPU: 600}}, replicas(5)))
	r.Quotas = []nodescaler.Quota{{Namespace: "shop", Replicas: 4}}
	h.state.Replicas["shop/web"] = 3 // of which the third is there in all steps but the second
	third := h.pod("web-3", "worker-a")
	h.state.Pods = append(h.state.Pods, third)
	steps(t, r, 1)
	h.state.Pods[len(h.state.Pods)-1].Terminating = true
	s := steps(t, r, 1)
	for _, w := range s.Workloads {
		if w.Workload == "shop/api" && (w.Decision == nil || w.Decision.To != 1) {
			t.Errorf("api is to have one replica beside web's three, of four: %+v", w.Decision)
		}
	}
}
