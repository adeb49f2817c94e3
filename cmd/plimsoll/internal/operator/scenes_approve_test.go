package operator

import (
	"time"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/approval"
)

// answers has a person answer all that is open.
func answers(at time.Duration, yes bool) act {
	return act{at: at, do: func(l *setting) {
		for _, p := range l.inbox.all {
			l.inbox.change(p.Name, func(p *approval.Proposal) { p.Answer = &approval.Answer{Approved: yes, By: "ann"} })
			l.inbox.approved[p.Name] = p.Change
		}
	}}
}

func asksAll(l *setting) { l.pools["aa"].Spec.Mode = v1alpha1.ModePoolApprove }

// approveScenes are about pools that ask first.
var approveScenes = []scene{
	{
		name: "a person approves a machine", services: []*service{deployment("web", 1, 500, halfGiB)}, long: 4 * time.Minute, before: asksAll,
		acts: []act{answers(time.Minute, true)}, says: []string{approval.CodeAwaitingApproval, "WouldBuy", "MachineBuy"},
	},
	{
		name: "a person rejects a machine", services: []*service{deployment("web", 1, 500, halfGiB)}, long: 3 * time.Minute, before: asksAll,
		acts: []act{answers(time.Minute, false)}, says: []string{approval.CodeApprovalRejected},
	},
}
