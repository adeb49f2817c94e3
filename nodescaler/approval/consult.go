package approval

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

const (
	// proposedFor is how long people have to answer.
	proposedFor = time.Hour
	// settleFor is how long a proposal is left as it is while more is wanted than it says.
	settleFor = 3 * time.Minute
	// outgrownAfter is how long nothing must have wanted a change until its proposal is closed.
	outgrownAfter = 10 * time.Minute
	// closedFor is how long a closed proposal is kept after its time.
	closedFor = time.Hour
	// seenWithin is how long it may take until something written is observed.
	seenWithin = 2 * time.Minute
)

// Memory is what is remembered of questions to people. It is safe to forget: what is claimed is
// claimed in the cluster, and asked once more at worst.
type Memory struct {
	made    map[string]proposed  // proposals that are not seen yet, by name
	claimed map[string]time.Time // approvals that were followed of late, by name
	wanted  map[question]time.Time
}

type proposed struct {
	change Change
	at     time.Time
}

// question is what a change is about, of which there is one open proposal at a time.
type question struct {
	kind, object string
	does         Does
	subject      string
}

func (c *Change) question() question { return question{c.Kind, c.Object, c.Does, c.Subject} }

// Seen is what is observed of proposals, and of what they are about.
type Seen struct {
	Time      time.Time
	Proposals []Proposal
	Machines  []nodescaler.Machine
	// MachinesKnown is whether the machines could be read.
	MachinesKnown bool
}

// Consult is what people have answered, and are asked in a step.
type Consult struct {
	*Memory
	in    *Consent
	now   time.Time
	out   *Asked
	known map[question]*answers
	live  []*Proposal // that are open, and may be approved
	// decided are the objects of which it is known in this step what is wanted.
	decided map[string]bool
}

// answers are what is known of a question.
type answers struct {
	approved *Proposal // not followed yet
	open     *Proposal // waits for an answer, or to be seen
	rejected *Proposal
	followed *Proposal // the last one
	claim    int       // its place in Asked.Claim, and -1
	// count is how many machines are made by it in this step, and price what they add.
	count int
	price pricing.Rate
}

// New reads what people have answered.
func New(o *Seen, in *Consent, m *Memory) *Consult {
	c := &Consult{Memory: m, in: in, now: o.Time, out: &Asked{}, known: map[question]*answers{}, decided: map[string]bool{}}
	if m.made == nil {
		*m = Memory{map[string]proposed{}, map[string]time.Time{}, map[question]time.Time{}}
	}
	maps.DeleteFunc(m.made, func(_ string, p proposed) bool { return c.now.Sub(p.at) > seenWithin })
	maps.DeleteFunc(m.claimed, func(_ string, at time.Time) bool { return c.now.Sub(at) > seenWithin })
	machines := map[string]bool{}
	for i := range o.Machines {
		machines[o.Machines[i].Name] = true
	}
	for i := range o.Proposals {
		p := &o.Proposals[i]
		if c.read(p); p.Phase != "" && p.Phase != ProposalOpen && p.Phase != ProposalIgnored && c.now.Sub(p.Until) > closedFor {
			// the end of a machine goes on by it
			if p.Does != EndMachine || o.MachinesKnown && !machines[p.Subject] {
				c.out.Remove = append(c.out.Remove, p.ProposalRef)
			}
		}
	}
	for _, p := range m.made {
		if a := c.about(p.change.question()); a.open == nil {
			a.open = &Proposal{ProposalRef: ProposalRef{Name: p.change.ProposalName()}, Change: p.change}
		}
	}
	return c
}

func (c *Consult) about(q question) *answers {
	if c.known[q] == nil {
		c.known[q] = &answers{claim: -1}
	}
	return c.known[q]
}

// read takes in a proposal.
func (c *Consult) read(p *Proposal) {
	_, awaited := c.made[p.Name]
	if !p.ours() {
		switch {
		case p.Phase == ProposalIgnored:
		case p.Digest == "" && awaited: // what we write of it is not seen yet
		case p.Digest == "":
			c.close(p, ProposalIgnored, "Plimsoll did not make this proposal")
		default:
			delete(c.made, p.Name)
			c.close(p, ProposalIgnored, "it is not what was proposed: its digest is another one")
		}
		return
	}
	delete(c.made, p.Name)
	a := c.about(p.question())
	switch {
	case p.Phase == ProposalFollowed:
		if a.followed == nil || p.Made.After(a.followed.Made) {
			a.followed = p
		}
	case !c.now.Before(p.Until):
		if p.Phase == "" || p.Phase == ProposalOpen {
			c.close(p, ProposalExpired, "it was not answered in time, or nothing was to be done by then")
		}
	case p.Phase == ProposalRejected:
		a.rejected = p
	case p.Phase != "" && p.Phase != ProposalOpen:
	case p.Answer == nil:
		a.open = p
		c.live = append(c.live, p)
	case !p.Answer.Approved:
		a.rejected = p
		c.close(p, ProposalRejected, "rejected by "+cmp.Or(p.Answer.By, "a person"))
	case !c.claimed[p.Name].IsZero():
		a.open = p // until it is seen what came of that
	default:
		a.approved = cmp.Or(a.approved, p)
		c.live = append(c.live, p)
	}
}

func (c *Consult) close(p *Proposal, phase ProposalPhase, why string) {
	c.out.Close = append(c.out.Close, Closed{p.ProposalRef, phase, plain(why)})
	c.live = slices.DeleteFunc(c.live, func(o *Proposal) bool { return o == p })
}

// claim follows an approval, for an action of the plan or with -1 for a workload.
func (c *Consult) claim(a *answers, action int) {
	p := a.approved
	if a.claim < 0 {
		a.claim = len(c.out.Claim)
		claim := Claim{ProposalRef: p.ProposalRef, Does: p.Does}
		if action < 0 {
			claim.Workload = p.Object
		}
		c.out.Claim = append(c.out.Claim, claim)
		c.claimed[p.Name] = c.now
		c.live = slices.DeleteFunc(c.live, func(o *Proposal) bool { return o == p })
	}
	if action >= 0 {
		c.out.Claim[a.claim].Actions = append(c.out.Claim[a.claim].Actions, action)
	}
}

// ask asks people about a change, or goes on doing so, and returns why it is not done.
func (c *Consult) ask(ch *Change) *nodescaler.Reason {
	q := ch.question()
	a := c.about(q)
	c.wanted[q] = c.now
	if r := a.rejected; r != nil {
		return because(CodeApprovalRejected, "%s: rejected by %s, which holds until %s", ch.What, cmp.Or(r.Answer.said(), "a person"), clock(r.Until))
	}
	if p := a.approved; p != nil && a.claim < 0 {
		c.close(p, ProposalOutgrown, "approved, but by now something else would be done: "+ch.What)
	}
	if p := a.open; p != nil {
		if p.covers(ch) || c.now.Sub(p.Made) < settleFor {
			return c.awaits(p)
		}
		c.close(p, ProposalOutgrown, "by now something else would be done: "+ch.What)
	}
	ch.Made = c.now.UTC().Truncate(time.Second)
	ch.Until = ch.Made.Add(proposedFor)
	ch.What = plain(ch.What)
	ch.Why = slices.Clone(ch.Why[:min(len(ch.Why), 8)])
	for i := range ch.Why {
		ch.Why[i].Text = plain(ch.Why[i].Text)
	}
	c.made[ch.ProposalName()] = proposed{*ch, c.now}
	c.out.Propose = append(c.out.Propose, *ch)
	a.open = &Proposal{ProposalRef: ProposalRef{Name: ch.ProposalName()}, Change: *ch}
	return c.awaits(a.open)
}

// said is who said it; empty if that is not known.
func (a *Answer) said() string {
	if a == nil {
		return ""
	}
	return plain(a.By)
}

func (c *Consult) awaits(p *Proposal) *nodescaler.Reason {
	return because(CodeAwaitingApproval, "%s: proposal %s waits for an answer until %s", p.What, p.Name, clock(p.Until))
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func because(code, format string, args ...any) *nodescaler.Reason {
	return &nodescaler.Reason{Code: code, Text: fmt.Sprintf(format, args...)}
}

// covers reports whether approving the one allows all of the other.
func (c *Change) covers(o *Change) bool {
	switch c.Does {
	case OrderMachines, WakeSpares:
		return o.Count <= c.Count && o.Price <= c.Price
	case GrowWorkload:
		return o.To <= c.To
	case ShrinkTo:
		return o.To >= c.To
	case ResizePod:
		return o.What == c.What
	case EndMachine:
	}
	return true
}

// End closes the proposals that nothing has wanted for a while, and returns what is asked; nil is
// nothing. What is not known to be unwanted is not.
func (c *Consult) End() *Asked {
	wanted := map[question]time.Time{}
	for _, p := range slices.Clone(c.live) {
		q := p.question()
		at, known := c.wanted[q]
		if !known || at.After(c.now) || !c.decided[q.kind+" "+q.object] && c.asks(q) {
			at = c.now
		}
		if wanted[q] = at; c.now.Sub(at) >= outgrownAfter {
			c.close(p, ProposalOutgrown, "nothing has wanted it for a while")
		}
	}
	for _, p := range c.made {
		wanted[p.change.question()] = c.wanted[p.change.question()]
	}
	if c.wanted = wanted; len(c.out.Claim)+len(c.out.Propose)+len(c.out.Close)+len(c.out.Remove) == 0 {
		return nil
	}
	return c.out
}

// asks reports whether people are asked about the object.
func (c *Consult) asks(q question) (asks bool) {
	if q.kind == aboutPool {
		_, asks = c.in.Pools[q.object]
		return asks
	}
	_, asks = c.in.Workloads[q.object]
	return asks
}
