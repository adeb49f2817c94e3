package approval

import (
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
)

func TestResizesAreAskedAbout(t *testing.T) {
	t0 := time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC)
	order := &rightsize.Order{Pod: "web-1", Reasons: []nodescaler.Reason{{Code: "Larger", Text: "it uses more"}}, Changes: []rightsize.Change{{Container: "app", Requests: pricing.Resources{CPU: 500}}}}
	ask := func(in *Consent, o *Seen, m *Memory) (*rightsize.Order, *Asked) {
		c := New(o, in, m)
		got := c.Resize("shop/web", order)
		return got, c.End()
	}
	in := &Consent{Workloads: map[string]WorkloadRules{"shop/web": {}}}
	o, m := &Seen{Time: t0}, &Memory{}
	got, asked := ask(in, o, m)
	if got != nil || asked == nil || len(asked.Propose) != 1 {
		t.Fatalf("resized by %+v, asked %+v", got, asked)
	}
	ch := asked.Propose[0]
	o.Proposals = []Proposal{{ProposalRef: ProposalRef{Name: ch.ProposalName()}, Change: ch, Digest: ch.Digest(), Phase: ProposalOpen, Answer: &Answer{Approved: true}}}
	if got, asked = ask(in, o, m); got != order || asked == nil || len(asked.Claim) != 1 {
		t.Errorf("after the approval: resized by %+v, asked %+v", got, asked)
	}
	in.Workloads["shop/web"] = WorkloadRules{Resizes: true}
	if got, _ = ask(in, &Seen{Time: t0}, &Memory{}); got != order {
		t.Error("the rule does not cover it")
	}
}

func TestProposalsHoldTextThatSteersNoTerminal(t *testing.T) {
	if got := plain("a\x1b[31mb\nc"); strings.ContainsAny(got, "\x1b\n") || len(plain(strings.Repeat("x", 5000))) > 1100 {
		t.Errorf("got %q", got)
	}
}

// sick is a pool that reboots before it replaces, with a machine whose node has not been ready
// since then.
func sick(now, since, rebooted time.Time) *nodescaler.Index {
	s := &nodescaler.Snapshot{
		Now:      now,
		Pools:    []nodescaler.Pool{{Name: "web", Shapes: []pricing.Shape{{Name: "small", CPU: 2 * pricing.Core, Memory: 4 * pricing.GiB}}, Max: 3}},
		Machines: []nodescaler.Machine{{Name: "web-1", Pool: "web", Phase: nodescaler.Joined, Rebooted: rebooted}},
		Nodes: []nodescaler.Node{{
			Name: "web-1", Pool: "web", Machine: "web-1", Joined: now.Add(-48 * time.Hour),
			Conditions: []nodescaler.NodeCondition{{Type: nodescaler.Ready, Status: "Unknown", Since: since}},
		}},
	}
	s.Pools[0].Disruption.Repair = nodescaler.Repair{
		Conditions: []nodescaler.Ailment{{Type: nodescaler.Ready, Status: "Unknown", For: nodescaler.Duration(3 * time.Minute)}},
		Reboot:     &nodescaler.RebootRule{Within: nodescaler.Duration(6 * time.Minute)},
	}
	return nodescaler.NewIndex(s)
}

// A person who approves a reboot, and the end if that does not help, is not asked about that end.
// What else ends the machine is another question.
func TestApprovedRebootCoversTheEndThatFollows(t *testing.T) {
	t0 := time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC)
	in := &Consent{Pools: map[string]PoolRules{"web": {}}}
	act := func(kind nodescaler.Kind, why string) *nodescaler.Plan {
		return &nodescaler.Plan{Actions: []nodescaler.Action{{
			Kind: kind, Machine: "web-1", Node: "web-1", Pool: "web", Reasons: []nodescaler.Reason{{Code: why, Text: "it is so"}},
		}}}
	}
	for name, c := range map[string]struct {
		first           string        // what the approved end was for
		since, rebooted time.Duration // after the approval
		then            nodescaler.Kind
		why             string
		covered         bool
	}{
		"the reboot did not help":            {nodescaler.MachineUnhealthy, -time.Hour, time.Minute, nodescaler.Cordon, nodescaler.MachineUnhealthy, true},
		"it broke again before its time":     {nodescaler.MachineUnhealthy, 5 * time.Minute, time.Minute, nodescaler.Cordon, nodescaler.MachineUnhealthy, true},
		"it worked, and broke again":         {nodescaler.MachineUnhealthy, 8 * time.Minute, time.Minute, nodescaler.Cordon, nodescaler.MachineUnhealthy, false},
		"it was not rebooted":                {nodescaler.MachineUnhealthy, -time.Hour, -48 * time.Hour, nodescaler.Reboot, nodescaler.MachineUnhealthy, false},
		"the reboot was before the approval": {nodescaler.MachineUnhealthy, -time.Hour, -time.Hour, nodescaler.Cordon, nodescaler.MachineUnhealthy, false},
		"the end was for another reason":     {nodescaler.MachineDrifted, -time.Hour, time.Minute, nodescaler.Cordon, nodescaler.MachineUnhealthy, false},
	} {
		t.Run(name, func(t *testing.T) {
			o, m := &Seen{Time: t0}, &Memory{}
			was := sick(t0, t0.Add(-time.Hour), t0.Add(-48*time.Hour))
			asks := New(o, in, m)
			if held := asks.Plan(was, act(nodescaler.Reboot, c.first), nil); len(held) != 1 {
				t.Fatal("it was not asked first")
			}
			ch := asks.End().Propose[0]
			if does := strings.Contains(ch.What, "reboot machine web-1 of pool web, and end it if that does not help"); does != (c.first == nodescaler.MachineUnhealthy) {
				t.Errorf("asked was %s", ch.What)
			}
			o.Time = t0.Add(15 * time.Minute)
			o.Proposals = []Proposal{{
				ProposalRef: ProposalRef{Name: ch.ProposalName()}, Change: ch, Digest: ch.Digest(), Phase: ProposalFollowed, Answer: &Answer{Approved: true},
			}}
			x := sick(o.Time, t0.Add(c.since), t0.Add(c.rebooted))
			if held := New(o, in, m).Plan(x, act(c.then, c.why), nil); (len(held) == 0) != c.covered {
				t.Errorf("covered: %v, want %v: %v", len(held) == 0, c.covered, held)
			}
		})
	}
}
