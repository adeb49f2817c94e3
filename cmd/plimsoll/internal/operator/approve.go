package operator

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/approval"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
)

// asks reports whether people are asked about the pool.
func (p *pool) asks() bool { return p.object.Spec.Mode == v1alpha1.ModePoolApprove }

func (w *workload) asks() bool { return w.object.Spec.Mode == v1alpha1.ModeApprove }

// rules are what is done to the pool without asking.
func (p *pool) rules() (r approval.PoolRules, err error) {
	if p.object.Spec.Approval == nil {
		return r, nil
	}
	by := &p.object.Spec.Approval.Proceed
	r.Repairs, r.Ends = by.Repairs, by.Ends
	if by.BuysUpToPerHour == "" {
		return r, nil
	}
	most, err := pricing.ParseMicros(string(by.BuysUpToPerHour))
	if err != nil || most < 0 {
		return r, fmt.Errorf("spec.approval.proceed.buysUpToPerHour: must be an amount of money of at least 0, was %q", by.BuysUpToPerHour)
	}
	r.BuysUpTo = pricing.RateOf(most)
	return r, nil
}

// tidies reports whether what is left over of the pool may be removed without asking.
func (p *pool) tidies() bool {
	r, err := p.rules()
	return !p.asks() || err == nil && (r.Repairs || r.Ends)
}

// consent is what people are asked about, of the objects that nothing else holds.
func (d *desk) consent() approval.Consent {
	in := approval.Consent{Pools: map[string]approval.PoolRules{}, Workloads: map[string]approval.WorkloadRules{}}
	for _, p := range d.pools {
		if p.asks() && p.ours() && p.held == nil {
			in.Pools[p.object.Name], _ = p.rules() // what is wrong with them makes the pool invalid
		}
	}
	for _, w := range d.workloads {
		if !w.asks() || w.held != nil {
			continue
		}
		var r approval.WorkloadRules
		if a := w.object.Spec.Approval; a != nil {
			r = approval.WorkloadRules{GrowthUpTo: int(a.Proceed.GrowthUpToReplicas), Shrinks: a.Proceed.Shrinks, Resizes: a.Proceed.Resizes}
		}
		in.Workloads[w.name] = r
	}
	return in
}

// awaits says in the condition Ready that something waits for an answer.
func (c conditions) awaits(why *nodescaler.Reason) {
	if is := meta.FindStatusCondition(*c.list, v1alpha1.ConditionReady); is == nil || is.Status != metav1.ConditionTrue || is.Reason != v1alpha1.ReasonActive {
		return
	}
	if why == nil {
		c.set(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonActive, "what is decided is done once it is approved")
		return
	}
	c.set(v1alpha1.ConditionReady, metav1.ConditionTrue, why.Code, "%s", why.Text)
}

// waits reports whether a reason is that people are asked, or said no.
func waits(r *nodescaler.Reason) bool {
	return r != nil && (r.Code == approval.CodeAwaitingApproval || r.Code == approval.CodeApprovalRejected)
}

func (p *pool) awaits(c conditions, s *loop.Step) {
	if !p.asks() || p.held != nil {
		return
	}
	for i := range s.Plan.Actions {
		if why := s.Deferred[i]; s.Plan.Actions[i].Pool == p.object.Name && waits(&why) {
			c.awaits(&why)
			return
		}
	}
	c.awaits(nil)
}

func (w *workload) awaits(c conditions, ws *loop.WorkloadStep) {
	if !w.asks() || w.held != nil || ws == nil {
		return
	}
	var why *nodescaler.Reason
	switch {
	case waits(ws.Held):
		why = ws.Held
	case ws.Decision != nil && len(ws.Decision.Reasons) > 0 && waits(&ws.Decision.Reasons[0]):
		why = &ws.Decision.Reasons[0]
	case ws.Decision == nil: // it was not its turn
		if was := meta.FindStatusCondition(w.object.Status.Conditions, v1alpha1.ConditionReady); was != nil {
			if r := (nodescaler.Reason{Code: was.Reason, Text: was.Message}); waits(&r) {
				why = &r
			}
		}
	}
	c.awaits(why)
}
