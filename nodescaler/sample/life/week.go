package life

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/packing"
)

// Week is a week of a small site: load follows the hour, an app is deployed anew each working day,
// the template is changed once, and three nodes become sick.
type Week struct {
	*Life
	Paid, Bound float64 // rate times hours, and below what no set of machines holds the pods
	Moves       int     // pods that an action took off their node
	Waited      int     // minutes that pods waited for a node

	start  time.Time
	drifts map[string]bool
	sick   []string
}

// daemon is what each node carries, and reserved what it keeps for itself.
var (
	daemon   = pricing.Resources{CPU: 100, Memory: 256 * pricing.MiB}
	reserved = pricing.Resources{CPU: 100, Memory: 256 * pricing.MiB}
)

// NewWeek is a week at its start, with a policy of consolidation or none.
func NewWeek(policy nodescaler.ConsolidationPolicy) *Week {
	w := &Week{Life: &Life{World: *sample.New(), Wanted: map[string]int{}}, start: sample.Noon, drifts: map[string]bool{}}
	huge := sample.Large
	huge.Name, huge.CPU, huge.Memory = "huge", 2*huge.CPU, 2*huge.Memory
	p := &w.Pools[0]
	p.Max, p.Shapes, p.Reserved = 60, []pricing.Shape{sample.Small, sample.Large, huge}, reserved
	p.Daemons.Sets = []*nodescaler.Pod{{Requests: daemon, Daemon: true}}
	for i := range w.Hosts {
		w.Hosts[i].Room = huge.Resources().Times(20)
	}
	sickFor := nodescaler.Duration(10 * time.Minute)
	p.Disruption = nodescaler.Disruption{
		Drift: nodescaler.DriftReplace, Budgets: []nodescaler.NodeBudget{{Nodes: nodescaler.NodeCount{N: 20, Percent: true}}},
		Consolidation: nodescaler.Consolidation{Policy: policy},
		Repair: nodescaler.Repair{Conditions: []nodescaler.Ailment{
			{Type: "KernelDeadlock", Status: "True", For: sickFor}, {Type: nodescaler.Ready, Status: "Unknown", For: sickFor},
		}},
	}
	return w
}

// load is how many replicas are wanted at a time: least at four in the morning, and less at
// weekends.
func (w *Week) load() {
	hour, day := w.Now.Sub(w.start).Hours()+12, int(w.Now.Sub(w.start).Hours()+12)/24
	most := 1.0
	if day%7 >= 5 {
		most = 0.6
	}
	day01 := (1 - math.Cos(2*math.Pi*(hour-4)/24)) / 2
	for i, size := range []string{"300", "700", "1100"} {
		w.Wanted["ns/app"+size] = 3 + i + int(math.Round(most*day01*float64(24-4*i)))
	}
}

// events are what happens at a time.
func (w *Week) events(minute int) {
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
func (w *Week) least() float64 {
	p := &w.Pools[0]
	b := packing.Problem{Hosts: map[string]pricing.Resources{}, Limits: map[string]int{p.Name: p.Max}}
	for _, h := range w.Hosts {
		b.Hosts[h.Name] = h.Room
	}
	for _, s := range p.Shapes {
		free := s.Resources().Minus(reserved).Minus(daemon)
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

// Days lets days pass under a policy, minute by minute. The first hour does not count.
func (w *Week) Days(t sample.Fatal, p nodescaler.Policy, days int) {
	t.Helper()
	least := 0.0
	for minute := range days * 24 * 60 {
		w.load()
		w.events(minute)
		w.Arrive()
		w.Control()
		w.Schedule()
		x := nodescaler.NewIndex(&w.Snapshot)
		plan := p.Decide(x)
		if v := nodescaler.Check(x, plan); len(v) > 0 {
			t.Fatalf("after %d minutes the plan breaks the rules: %v", minute, v)
		}
		for _, a := range plan.Actions {
			w.Moves += w.moves(&a)
			w.Do(a)
		}
		if minute%20 == 0 {
			least = w.least()
		}
		if minute > 60 {
			w.Paid += float64(w.Rate()) / 60
			w.Bound += least / 60
			w.Waited += len(w.Waiting())
		}
		w.Now = w.Now.Add(time.Minute)
	}
}

// moves is how many pods an action takes off their node, or loses with it.
func (w *Week) moves(a *nodescaler.Action) (n int) {
	if a.Kind == nodescaler.Evict || a.Kind == nodescaler.DeletePod {
		return 1
	}
	for i := range w.Pods {
		p := &w.Pods[i]
		if a.Kind == nodescaler.Return && a.Node != "" && p.Node == a.Node && !p.Daemon && !p.Terminating {
			n++
		}
	}
	return n
}

// Left are the nodes that should have gone: sick ones, and those of the old template.
func (w *Week) Left() (names []string) {
	for _, n := range w.Nodes {
		if slices.Contains(w.sick, n.Name) || w.drifts[n.Name] {
			names = append(names, n.Name)
		}
	}
	return names
}
