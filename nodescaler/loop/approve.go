package loop

import (
	"context"
	"errors"
	"fmt"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/approval"
)

// unclaimed is what is not done in a step because the approval of it could not be claimed.
type unclaimed struct {
	actions map[int]nodescaler.Reason
	scales  map[string]string // by workload
	resizes map[string]string
}

// claim claims the approvals that a step follows.
func (p *Ports) claim(ctx context.Context, step *Step) (u unclaimed) {
	u = unclaimed{map[int]nodescaler.Reason{}, map[string]string{}, map[string]string{}}
	if step.Asked == nil {
		return u
	}
	for i := range step.Asked.Claim {
		c := &step.Asked.Claim[i]
		err := errNotAsked
		if p.Approvals != nil {
			err = p.Approvals.Claim(ctx, &c.ProposalRef, step.ID)
		}
		if err == nil {
			continue
		}
		why := fmt.Sprintf("the approval %s could not be claimed: %v", c.Name, err)
		for _, action := range c.Actions {
			u.actions[action] = nodescaler.Reason{Code: approval.CodeAwaitingApproval, Text: why}
		}
		switch c.Does {
		case approval.GrowWorkload, approval.ShrinkTo:
			u.scales[c.Workload] = why
		case approval.ResizePod:
			u.resizes[c.Workload] = why
		case approval.OrderMachines, approval.WakeSpares, approval.EndMachine:
		}
	}
	return u
}

var errNotAsked = errors.New("people cannot be asked here")

// consult makes, closes and removes proposals.
func (p *Ports) consult(ctx context.Context, step *Step) {
	if step.Asked == nil {
		return
	}
	note := func(name string, err error) {
		if err != nil {
			step.Outcomes = append(step.Outcomes, Outcome{Action: -1, Proposal: name, Error: err.Error()})
		}
	}
	a := p.Approvals
	if a == nil {
		note("", errNotAsked)
		return
	}
	for i := range step.Asked.Propose {
		ch := &step.Asked.Propose[i]
		note(ch.ProposalName(), a.Propose(ctx, ch))
	}
	for i := range step.Asked.Close {
		c := &step.Asked.Close[i]
		note(c.Name, a.Close(ctx, c))
	}
	for i := range step.Asked.Remove {
		r := &step.Asked.Remove[i]
		note(r.Name, a.Remove(ctx, r))
	}
}
