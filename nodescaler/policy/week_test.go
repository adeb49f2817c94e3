package policy

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/packing"
)

// week is a week of a small site: load follows the hour, an app is deployed anew each working day,
// the template is changed once, and three nodes become sick.
type week struct {
	*life
	paid, bound    float64 // rate times hours
	moves, pending int     // evictions, and minutes that pods waited
	start          time.Time
	drifts         map[string]bool
	sick           []string
}

func newWeek(policy nodescaler.ConsolidationPolicy) *week {
	w := &week{life: &life{World: *sample.New(), wanted: map[string]int{}, marks: map[string]marks{}}, start: sample.Noon, drifts: map[string]bool{}}
	huge := sample.Large
	huge.Name, huge.CPU, huge.Memory = "huge", 2*huge.CPU, 2*huge.Memory
	p := &w.Pools[0]
	p.Max, p.Shapes, p.Reserved = 60, []pricing.Shape{sample.Small, sample.Large, huge}, pricing.Resources{CPU: 100, Memory: 256 * pricing.MiB}
	p.Daemons.Sets = []*nodescaler.Pod{{Requests: pricing.Resources{CPU: 100, Memory: 256 * pricing.MiB}, Daemon: true}}
	for i := range w.Hosts {
		w.Hosts[i].Room = huge.Resources().Times(20)
	}
	p.Disruption = nodescaler.Disruption{
		Drift: nodescaler.DriftReplace, Budgets: []nodescaler.NodeBudget{{Nodes: nodescaler.NodeCount{N: 20, Percent: true}}},
		Consolidation: nodescaler.Consolidation{Policy: policy},
		Repair: nodescaler.Repair{Conditions: []nodescaler.Ailment{
			{Type: "KernelDeadlock", Status: "True", For: minutes(10)}, {Type: nodescaler.Ready, Status: "Unknown", For: minutes(10)},
		}},
	}
	return w
}

// load is how many replicas are wanted at a time: least at four in the morning, and less at
// weekends.
func (w *week) load() {
	hour, day := w.Now.Sub(w.start).Hours()+12, int(w.Now.Sub(w.start).Hours()+12)/24
	most := 1.0
	if day%7 >= 5 {
		most = 0.6
	}
	day01 := (1 - math.Cos(2*math.Pi*(hour-4)/24)) / 2
	for i, size := range []string{"300", "700", "1100"} {
		w.wanted["ns/app"+size] = 3 + i + int(math.Round(most*day01*float64(24-4*i)))
	}
}

// events are what happens at a time.
func (w *week) events(minute int) {
	day, at := (minute+12*60)/(24*60), (minute+12*60)%(24*60)
	if day%7 < 5 && at >= 14*60 && at < 14*60+20 { // a deploy replaces the pods one by one
		app := fmt.Sprintf("ns/app%d", []int{300, 700, 1100}[day%3])
		i := slices.IndexFunc(w.Pods, func(p nodescaler.Pod) bool {
			return p.Workload == app && p.Node != "" && !p.Terminating && w.Now.Sub(p.Created) > time.Hour
		})
		if i >= 0 {
			w.Pods[i].Terminating = true
		}
	}
	if day == 2 && at == 12*60 { // another template
		for i := range w.Machines {
			w.drifts[w.Machines[i].Name] = true
		}
	}
	for i := range w.Machines {
		if w.drifts[w.Machines[i].Name] {
			sample.Drifted(&w.Machines[i])
		}
	}
	sick := map[int]string{1*24*60 + 3*60: "KernelDeadlock", 3*24*60 + 15*60: nodescaler.Ready, 5*24*60 + 9*60: "KernelDeadlock"}
	if kind := sick[day*24*60+at]; kind != "" && len(w.Nodes) > 0 {
		n := &w.Nodes[0]
		w.sick = append(w.sick, n.Name)
		n.Conditions = []nodescaler.NodeCondition{{Type: kind, Status: "True", Since: w.Now}}
		if kind == nodescaler.Ready {
			n.Ready, n.Conditions[0].Status = false, "Unknown"
		}
	}
}

// least is a rate below which no set of machines holds the pods that are there.
func (w *week) least() float64 {
	p := &w.Pools[0]
	b := packing.Problem{Hosts: map[string]pricing.Resources{}, Limits: map[string]int{p.Name: p.Max}}
	for _, h := range w.Hosts {
		b.Hosts[h.Name] = h.Room
	}
	for _, s := range p.Shapes {
		free := s.Resources().Minus(pricing.Resources{CPU: 200, Memory: 512 * pricing.MiB})
		b.Offers = append(b.Offers, packing.Offer{Pool: p.Name, Shape: s, Host: w.Hosts[0].Name, Rate: w.Prices.Rate(s, "", w.Now), Free: free, Slots: 100})
	}
	b.Hosts[w.Hosts[0].Name] = w.Hosts[0].Room.Times(3)
	for i := range w.Pods {
		if q := &w.Pods[i]; !q.Daemon && !q.Terminating {
			b.Items = append(b.Items, packing.Item{Name: q.Name, Class: "any", Requests: q.Requests})
		}
	}
	return float64(packing.SolveWithin(b, 0).LowerBound)
}

// days lets days pass, minute by minute.
func (w *week) days(t *testing.T, days int) {
	p, least := build(t, Spec{Policy: "joint"}), 0.0
	for minute := range days * 24 * 60 {
		w.load()
		w.events(minute)
		w.arrive()
		w.control()
		w.schedule()
		x := nodescaler.NewIndex(&w.Snapshot)
		plan := p.Decide(x)
		if v := nodescaler.Check(x, plan); len(v) > 0 {
			t.Fatalf("after %d minutes the plan breaks the rules: %v", minute, v)
		}
		for _, a := range plan.Actions {
			if w.do(a); a.Kind == nodescaler.Evict {
				w.moves++
			}
		}
		if minute%20 == 0 {
			least = w.least()
		}
		if minute > 60 {
			w.paid += float64(w.rate()) / 60
			w.bound += least / 60
			w.pending += len(w.waiting())
		}
		w.Now = w.Now.Add(time.Minute)
	}
}

// A week costs less with consolidation, and hardly more than it must, and sick nodes and old
// templates are gone. With -v it prints the numbers.
func TestAWeekWithConsolidation(t *testing.T) {
	weeks := map[nodescaler.ConsolidationPolicy]*week{}
	for _, policy := range []nodescaler.ConsolidationPolicy{"", nodescaler.WhenEmpty, nodescaler.WhenEmptyOrUnderutilized} {
		w := newWeek(policy)
		w.days(t, 7)
		weeks[policy] = w
		t.Logf("%-26s cost %.3f of the bound, %d pods moved, pods waited for %d minutes", policy, w.paid/w.bound, w.moves, w.pending)
		for _, n := range w.Nodes {
			if slices.Contains(w.sick, n.Name) || w.drifts[n.Name] {
				t.Errorf("%q: %s is still there", policy, n.Name)
			}
		}
	}
	none, all := weeks[""], weeks[nodescaler.WhenEmptyOrUnderutilized]
	if all.paid > none.paid {
		t.Errorf("with consolidation it costs %.3f of the bound, without %.3f", all.paid/all.bound, none.paid/none.bound)
	}
}
