package loop

import (
	"math"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// observed puts the snapshot into the few numbers that the record carries.
func (d *decider) observed() Observed {
	s := &d.snap
	o := Observed{Nodes: len(s.Nodes), Pods: len(s.Pods), Cost: Cost{Unit: s.Prices.Unit}}
	for i := range s.Pods {
		if s.Pods[i].Unschedulable {
			o.Pending++
		}
	}
	if !d.machinesKnown {
		return o
	}
	o.Machines = map[nodescaler.Phase]int{}
	for i := range s.Machines {
		o.Machines[s.Machines[i].Phase]++
	}
	o.Cost = Cost{
		Known: true, Unit: s.Prices.Unit, Joined: d.joined, Ordered: d.all,
		Spent: d.account.ledger.Between(d.account.started, s.Now),
	}
	return o
}

// loads says how far every host and machine is filled.
func loads(s *nodescaler.Snapshot) []HostLoad {
	type use struct {
		pods     int
		requests pricing.Resources
	}
	used := make(map[string]*use, len(s.Nodes))
	nodes := make(map[string]*nodescaler.Node, len(s.Nodes))
	for i := range s.Nodes {
		used[s.Nodes[i].Name], nodes[s.Nodes[i].Machine] = &use{}, &s.Nodes[i]
	}
	for i := range s.Pods {
		if u := used[s.Pods[i].Node]; u != nil {
			u.pods, u.requests = u.pods+1, u.requests.Plus(s.Pods[i].Requests)
		}
	}
	hosts := make([]HostLoad, len(s.Hosts))
	at := make(map[string]*HostLoad, len(s.Hosts))
	rates := make(map[pricing.Placed]pricing.Rate) // many machines are alike
	for i := range s.Hosts {
		h := &s.Hosts[i]
		hosts[i] = HostLoad{Name: h.Name, Online: h.Online, Room: h.Room}
		at[h.Name] = &hosts[i]
	}
	for i := range s.Machines {
		m := &s.Machines[i]
		h, ok := at[m.Host]
		if !ok {
			continue
		}
		l := MachineLoad{Name: m.Name, Pool: m.Pool, Phase: m.Phase, Shape: m.Shape, Rate: rateOf(s, m, rates), Created: m.Created}
		if n := nodes[m.Name]; n != nil {
			l.Pods, l.Requests, l.Draining = used[n.Name].pods, used[n.Name].requests, n.Draining
		}
		h.Machines = append(h.Machines, l)
	}
	return hosts
}

// rateOf is what a machine costs an hour. A spare costs its disk.
func rateOf(s *nodescaler.Snapshot, m *nodescaler.Machine, known map[pricing.Placed]pricing.Rate) pricing.Rate {
	p := pricing.Placed{Shape: m.Shape, Host: m.Host, Stopped: m.Phase == nodescaler.Spare}
	rate, ok := known[p]
	switch {
	case ok:
	case p.Stopped:
		rate = s.Prices.SpareRate(p.Shape)
	default:
		rate = s.Prices.Rate(p.Shape, p.Host, s.Now)
	}
	known[p] = rate
	return rate
}

// inputs are the readings that the record shows beside a decision.
func inputs(wl *podscaler.Workload, w *podscaler.Window, c podscaler.Cost) *Inputs {
	scaled := func(r podscaler.Reading, by float64) *float64 {
		v, ok := r.Number() // what is not a number is unknown, and would be no JSON
		if !ok {
			return nil
		}
		v *= by
		return &v
	}
	in := &Inputs{
		LatencyMs:  scaled(w.Latency, 1e3),
		TargetMs:   wl.SLO.Target.Seconds() * 1e3,
		Good:       scaled(w.Good, 1),
		Arrivals:   scaled(w.Arrivals, 1),
		InFlight:   scaled(w.InFlight, 1),
		Errors:     scaled(w.Errors, 1),
		Registered: scaled(w.Registered, 1),
	}
	if wl.Cost.Target > 0 {
		in.CostTarget = wl.Cost.Target
		if now, known := wl.Cost.Current(c); known {
			in.Cost = &now
		}
	}
	return in
}

// budgetOf is what the record has of an error budget, in numbers that are as fine as it matters.
func budgetOf(b *podscaler.Budget) *podscaler.Budget {
	if b == nil {
		return nil
	}
	for i := range b.Burn {
		b.Burn[i].Rate = rounded(b.Burn[i].Rate)
	}
	b.Left, b.Late = rounded(b.Left), rounded(b.Late)
	return b
}

// rounded is a number to six digits behind the point.
func rounded(v float64) float64 { return math.Round(v*1e6) / 1e6 }
