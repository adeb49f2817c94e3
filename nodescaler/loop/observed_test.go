package loop

import (
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// A machine shows what the pods of its node request, and one of no host that is known is not shown.
func TestHowHostsAreLoaded(t *testing.T) {
	room := pricing.Resources{CPU: 16000, Memory: 64 * pricing.GB}
	pod := func(node string, cpu pricing.MilliCPU) nodescaler.Pod {
		return nodescaler.Pod{Pod: podscaler.Pod{Name: "p"}, Node: node, Requests: pricing.Resources{CPU: cpu}}
	}
	machine := func(name, host string) nodescaler.Machine {
		return nodescaler.Machine{Name: name, Host: host, Phase: nodescaler.Joined, Shape: small, Created: t0}
	}
	s := nodescaler.Snapshot{
		Prices:   &pricing.Book{PerVCPU: pricing.Unit},
		Hosts:    []nodescaler.Host{{Host: pricing.Host{Name: "pve1", Room: room}, Online: true}, {Host: pricing.Host{Name: "pve2"}}},
		Machines: []nodescaler.Machine{machine("a", "pve1"), machine("b", "pve1"), machine("c", "pve9")},
		Nodes:    []nodescaler.Node{{Name: "node-a", Machine: "a", Draining: true}, {Name: "alone"}},
		Pods:     []nodescaler.Pod{pod("node-a", 100), pod("node-a", 200), pod("", 400), pod("elsewhere", 800)},
	}
	shown := func(name string) MachineLoad {
		return MachineLoad{Name: name, Phase: nodescaler.Joined, Shape: small, Rate: pricing.Rate(2e9), Created: t0}
	}
	a := shown("a")
	a.Pods, a.Requests, a.Draining = 2, pricing.Resources{CPU: 300}, true
	want := []HostLoad{{Name: "pve1", Online: true, Room: room, Machines: []MachineLoad{a, shown("b")}}, {Name: "pve2"}}
	expect(t, "hosts", want, loads(&s))
}

// What the record shows of the cost beside a decision: nothing without a target, and no cost that
// is not known.
func TestWhatTheRecordShowsOfTheCost(t *testing.T) {
	for _, c := range []struct {
		name   string
		target pricing.Micros
		known  bool
		cost   bool
	}{
		{name: "no target", known: true},
		{name: "a target", target: 1, known: true, cost: true},
		{name: "the cost is not known", target: 1},
	} {
		wl := &podscaler.Workload{Cost: podscaler.CostTarget{Target: c.target, Per: time.Hour}}
		in := inputs(wl, &podscaler.Window{}, podscaler.Cost{Known: c.known, Predicted: pricing.Rate(pricing.Unit)})
		expect(t, c.name+": target", c.target, in.CostTarget)
		expect(t, c.name+": cost is shown", c.cost, in.Cost != nil)
	}
}

// Pods that wait for a machine are counted.
func TestPodsThatWaitAreCounted(t *testing.T) {
	h := newHouse()
	h.state.Pods[0].Unschedulable = true
	h.state.Pods = append(h.state.Pods, h.pod("web-3", "worker-a"))
	s := steps(t, h.runner(keep{}, nil), 1)
	expect(t, "pods and those that wait", [2]int{3, 1}, [2]int{s.Observed.Pods, s.Observed.Pending})
}
