package demo

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// seen is a record of a world with one host, on which machines are in these phases.
func seen(minute int, online bool, machines map[string]nodescaler.Phase) *loop.Step {
	s := &loop.Step{ID: "d-1", Time: start.Add(time.Duration(minute) * time.Minute)}
	s.Observed.Machines = map[nodescaler.Phase]int{}
	h := loop.HostLoad{Name: "pve1", Online: online}
	for _, name := range []string{"a", "b"} {
		if p, ok := machines[name]; ok {
			h.Machines = append(h.Machines, loop.MachineLoad{Name: name, Phase: p})
		}
	}
	s.Observed.Hosts, s.Observed.Cost.Unit = []loop.HostLoad{h}, "EUR"
	return s
}

func TestEventsAreWhatIsNewInARecord(t *testing.T) {
	type phases = map[string]nodescaler.Phase
	first := seen(0, true, phases{"a": nodescaler.Joined})
	blind := seen(1, true, nil)
	blind.Observed = loop.Observed{}
	blind.Problems = []nodescaler.Reason{{Code: loop.CodeMachinesUnknown, Text: "no answer"}}
	refused := seen(2, true, phases{"a": nodescaler.Joined})
	refused.Workloads = []loop.WorkloadStep{{Decision: &podscaler.Decision{Workload: "w", From: 1, To: 2}}}
	refused.Plan.Actions = []nodescaler.Action{
		{Kind: nodescaler.Buy, Pool: "p", Order: "o", Shape: &pricing.Shape{Name: "small"}, Host: "pve1", Rate: 1e9},
		{Kind: nodescaler.Evict, Node: "a", Pod: "x"}, {Kind: nodescaler.Cordon, Node: "a"},
		{Kind: nodescaler.Evict, Node: "a", Pod: "y"}, {Kind: nodescaler.Uncordon, Node: "a"},
	}
	refused.Outcomes = []loop.Outcome{{Action: -1, Workload: "w", Error: "conflict"}, {Action: 0}, {Action: 1}, {Action: 2, Error: "gone"}, {Action: 3}}
	var w watch
	for _, c := range []struct {
		step *loop.Step
		want []string
	}{
		{first, nil},
		{blind, []string{"Trouble: MachinesUnknown: no answer"}},
		{blind, nil},
		{refused, []string{
			"Trouble: w 1 → 2 replicas: conflict", "Ordered: p-o ordered: small on pve1, +€1.000/h", "Moved: 2 pods moved off a", "Trouble: Cordon: gone",
		}},
		{seen(3, false, phases{"a": nodescaler.Joined, "p-o": nodescaler.Ordered}), []string{"Trouble: pve1 is down"}},
		{seen(4, true, phases{"a": nodescaler.Booting}), []string{"Relief: pve1 is back"}},
		{seen(5, true, phases{"a": nodescaler.Joined, "b": nodescaler.Failed}), []string{"Joined: a joined again", "Trouble: b failed, and will never join"}},
		{seen(6, true, phases{"a": nodescaler.Joined, "b": nodescaler.Failed}), nil},
	} {
		var got []string
		for _, e := range w.step(c.step) {
			got = append(got, string(e.Kind)+": "+e.Text)
			if !e.At.Equal(c.step.Time) {
				t.Errorf("%s is dated %s", e.Text, e.At)
			}
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("at %s (-want +got)\n%s", c.step.Time.Format("15:04"), d)
		}
	}
}

func TestChangesOfReplicasAreToldWithTheReasonThatMadeThem(t *testing.T) {
	s := seen(0, true, nil)
	s.Workloads = []loop.WorkloadStep{{Decision: &podscaler.Decision{Workload: "w", From: 43, To: 50, Reasons: []podscaler.Reason{
		{Code: podscaler.ReasonPaidPlacesFilled, Text: "50 of 43"}, {Code: podscaler.ReasonSizedForLoad, Text: "36 replicas carry it"},
		{Code: podscaler.ReasonMarginalPrice, Text: "one more costs a machine"}, {Code: podscaler.ReasonDesiredWithinRange, Text: "50 is within 3 and 60"},
	}}}}
	if got := scaled(s)[0].Why; got != "50 of 43" {
		t.Errorf("it tells that %s", got)
	}
}
