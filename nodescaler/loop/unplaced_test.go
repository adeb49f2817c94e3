package loop

import (
	"testing"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// A pod for which others order machines is theirs to say something of; one that their pools do not
// take either is ours.
func TestPodsThatOthersHelpAreNotUnplaced(t *testing.T) {
	shapes := []pricing.Shape{{Name: "small", CPU: 2000, Memory: 4 * pricing.GiB}}
	ours := []nodescaler.Pool{{Name: "ours", Shapes: shapes}}
	theirs := []nodescaler.Pool{{Name: "theirs", Shapes: shapes, Labels: map[string]string{"disk": "ssd"}}}
	pod := func(name string, selector map[string]string) nodescaler.Pod {
		return nodescaler.Pod{Pod: podscaler.Pod{Name: name}, Selector: selector}
	}
	pods := []nodescaler.Pod{pod("ns/ssd", map[string]string{"disk": "ssd"}), pod("ns/tape", map[string]string{"disk": "tape"})}
	future := []nodescaler.Future{{Like: nodescaler.Pod{Workload: "ns/web", Selector: pods[0].Selector}, Count: 2}}
	all := []nodescaler.Unplaced{{Pods: []string{"ns/ssd"}, Count: 1}, {Pods: []string{"ns/tape"}, Count: 1}, {Workload: "ns/web", Coming: 2}}
	byHost := []nodescaler.Pool{{Name: "theirs", Shapes: shapes, HostIsZone: true}}
	pods = append(pods, pod("ns/pve2", map[string]string{nodescaler.ZoneLabel: "pve2"}))
	all = append(all, nodescaler.Unplaced{Pods: []string{"ns/pve2"}, Count: 1})
	for _, c := range []struct {
		name          string
		pools, others []nodescaler.Pool
		want          int
	}{
		{"ours alone", ours, nil, 4},
		{"both", ours, theirs, 2},
		{"theirs by host", ours, byHost, 3},
		{"theirs alone", nil, theirs, 0},
	} {
		d := &decider{snap: nodescaler.Snapshot{Pools: c.pools, Pods: pods, Future: future}, offered: c.others}
		d.snap.Hosts = []nodescaler.Host{{Host: pricing.Host{Name: "pve1"}}, {Host: pricing.Host{Name: "pve2"}}}
		d.x = nodescaler.NewIndex(&d.snap)
		if is := d.unoffered(all); len(is) != c.want {
			t.Errorf("%s: %+v, want %d", c.name, is, c.want)
		}
	}
	if len(all[0].Pods) == 0 {
		t.Error("the policy's own list was changed")
	}
}

// A workload says why no machine is ordered for its pods: what holds them, then what did not help
// them, then the first reason for which they have no place.
func TestWorkloadsSayWhyNoMachineIsOrdered(t *testing.T) {
	because := func(code string) nodescaler.Reason { return nodescaler.Reason{Code: code, Text: code} }
	said := because("Said")
	for _, c := range []struct {
		name     string
		unplaced []string
		unhelped bool
		held     bool
		before   *nodescaler.Reason
		want     string
	}{
		{name: "nothing is to say"},
		{name: "no place", unplaced: []string{"First", "Second"}, want: "First"},
		{name: "not helped", unplaced: []string{"First"}, unhelped: true, want: nodescaler.PodsNotHelped},
		{name: "held", unplaced: []string{"First"}, unhelped: true, held: true, want: "Quota"},
		{name: "it is said already", held: true, before: &said, want: "Said"},
	} {
		d := &decider{step: &Step{Workloads: []WorkloadStep{{Workload: "ns/web", Unplanned: c.before}, {Workload: "ns/other"}}}}
		for _, code := range c.unplaced {
			d.step.Plan.Unplaced = append(d.step.Plan.Unplaced, nodescaler.Unplaced{Workload: "ns/web", Count: 1, Why: because(code)})
		}
		d.snap.Pods = []nodescaler.Pod{{Workload: "ns/other"}, {Workload: "ns/web", Unschedulable: true}}
		if c.unhelped {
			d.snap.Unhelped = map[string]string{d.snap.Pods[1].Name: "it waits for a volume"}
		}
		if c.held {
			d.step.Plan.Held = []nodescaler.Held{{Workload: "ns/web", Pods: 1, Why: because("Quota")}}
		}
		d.unplanned()
		got := ""
		if why := d.step.Workloads[0].Unplanned; why != nil {
			got = why.Code
		}
		expect(t, c.name, c.want, got)
		expect(t, c.name+", another workload", (*nodescaler.Reason)(nil), d.step.Workloads[1].Unplanned)
	}
}
