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
