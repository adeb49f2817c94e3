package operator

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
)

// floor is what the machine side has to say besides what a step records.
type floor struct {
	known    bool                 // the machines were listed
	why      string               // why not
	untried  bool                 // nor was it tried, as in the first step after a start
	machines []nodescaler.Machine // as they were
	nodes    []nodescaler.Node
	paused   map[string]nodescaler.Reason // pools that take no orders
	braked   map[string]nodescaler.Reason // pools of which nothing goes undrained
	prices   *pricing.Book
}

// status is what a VMPool's status is after a step.
func (p *pool) status(s *loop.Step, f *floor, held []heldMachine) v1alpha1.VMPoolStatus {
	st := *p.object.Status.DeepCopy()
	st.ObservedGeneration = p.object.Generation
	st.Machines, st.CostPerHour, st.Currency = nil, "", ""
	if f.known {
		st.Machines = new(v1alpha1.MachineCounts)
		st.CostPerHour, st.Currency = p.countMachines(st.Machines, s, f).String(), f.prices.Unit
	}
	if plan := p.plan(s); plan != nil {
		st.LastPlan = plan
	}
	c := conditions{&st.Conditions, p.object.Generation, s.Time}
	c.paused(p.pause, false)
	if p.conflict != nil {
		c.set(v1alpha1.ConditionConflicted, metav1.ConditionTrue, v1alpha1.ReasonPoolsConflict, "%s", oneLine(p.conflict))
	} else {
		c.set(v1alpha1.ConditionConflicted, metav1.ConditionFalse, reasonNoConflict, "no other pool has its VMIDs or templates")
	}
	if f.known {
		coming := int(st.Machines.Ordered+st.Machines.Booting) + ordered(s, func(a *nodescaler.Action) bool { return a.Pool == p.object.Name })
		c.capacity(coming, s.Observed.Pending, "pod", "unschedulable")
		c.machinesHeld(held)
		p.outdated(c, s, f)
		p.repairs(c, f)
		if p.ours() {
			c.unplaced(s)
			c.spares(s, p.object.Name)
			p.disrupts(c, s)
			p.rollout(c, &st, s)
		}
	}
	if r, is := f.braked[p.object.Name]; is {
		c.set(v1alpha1.ConditionBraked, metav1.ConditionTrue, r.Code, "%s%s", r.Text, notResumed(p.object, v1alpha1.AnnotationResumed, s.Time))
	} else if f.known {
		c.set(v1alpha1.ConditionBraked, metav1.ConditionFalse, reasonNotBraked, "no machine waits that is to go without a drain")
	}
	p.ready(c, f)
	p.awaits(c, s)
	return st
}

// spares states whether spares would pay that the configuration does not allow.
func (c conditions) spares(s *loop.Step, pool string) {
	if advice, is := s.Plan.Advice[pool]; is {
		c.set(v1alpha1.ConditionSparesAdvised, metav1.ConditionTrue, advice.Code, "%s", advice.Text)
	} else if planned(s) {
		c.set(v1alpha1.ConditionSparesAdvised, metav1.ConditionFalse, reasonNoneAdvised, "no more spares than may be kept would have paid for themselves")
	}
}

// outdated states which of the pool's machines drifted or expired.
func (p *pool) outdated(c conditions, s *loop.Step, f *floor) {
	kind, all := v1alpha1.ConditionMachinesOutdated, p.words.Disruption
	all.Drift = nodescaler.DriftReplace
	var why []nodescaler.Reason
	for i := range f.machines {
		m := &f.machines[i]
		if _, r := all.Ends(m, nil, s.Time); r != nil && m.Pool == p.object.Name && m.Phase == nodescaler.Joined {
			why = append(why, *r)
		}
	}
	if len(why) == 0 {
		c.set(kind, metav1.ConditionFalse, reasonUpToDate, "each of its machines is what it would make now")
		return
	}
	slices.SortStableFunc(why, func(a, b nodescaler.Reason) int { return cmp.Compare(a.Code, b.Code) })
	texts := make([]string, len(why))
	for i := range why {
		texts[i] = why[i].Text
	}
	done := "they are replaced as budgets allow"
	if p.words.Disruption.Drift != nodescaler.DriftReplace && why[0].Code == nodescaler.MachineDrifted {
		done = "they stay: disruption.drift is " + string(nodescaler.DriftKeep)
	}
	c.set(kind, metav1.ConditionTrue, why[0].Code, "%s; %s", firstFew(texts), done)
}

// disrupts states whether machines are replaced, in pools that ask for it, and that none goes.
func (p *pool) disrupts(c conditions, s *loop.Step) {
	kind := v1alpha1.ConditionDisruptionHalted
	why, is := s.Plan.Halted[p.object.Name]
	switch {
	case is:
		c.set(kind, metav1.ConditionTrue, why.Code, "%s", why.Text)
	case !planned(s):
	case !p.words.Disruption.IsZero():
		c.set(kind, metav1.ConditionFalse, reasonDisrupting, "what replaced its machines of late did not fail")
	case meta.FindStatusCondition(*c.list, kind) != nil: // to remove is to copy
		meta.RemoveStatusCondition(c.list, kind)
	}
}

// repairs states whether nodes that are broken are replaced, in pools that ask for it.
func (p *pool) repairs(c conditions, f *floor) {
	kind := v1alpha1.ConditionRepairHalted
	if len(p.words.Disruption.Repair.Conditions) == 0 {
		if meta.FindStatusCondition(*c.list, kind) != nil { // to remove is to copy
			meta.RemoveStatusCondition(c.list, kind)
		}
		return
	}
	if why := p.words.Halted(f.nodes, c.now); why != nil {
		c.set(kind, metav1.ConditionTrue, why.Code, "%s", why.Text)
		return
	}
	c.set(kind, metav1.ConditionFalse, reasonRepairing, "machines whose nodes are unhealthy are replaced as budgets allow")
}

// countMachines counts the pool's machines, and adds up what they cost.
func (p *pool) countMachines(into *v1alpha1.MachineCounts, s *loop.Step, f *floor) (cost pricing.Rate) {
	by := map[nodescaler.Phase]*int32{
		nodescaler.Ordered: &into.Ordered, nodescaler.Booting: &into.Booting, nodescaler.Joined: &into.Joined,
		nodescaler.Deleting: &into.Deleting, nodescaler.Failed: &into.Failed, nodescaler.Spare: &into.Spare,
	}
	for i := range f.machines {
		m := &f.machines[i]
		if m.Pool != p.object.Name {
			continue
		}
		into.Total++
		*by[m.Phase]++
		if m.Phase == nodescaler.Spare {
			cost += f.prices.SpareRate(m.Shape)
			continue
		}
		cost += f.prices.Rate(m.Shape, m.Host, s.Time)
	}
	return cost
}

// maxActions is how many actions of a plan a status holds.
const maxActions = 16

// plan is what the step's plan has to do for the pool, or nil.
func (p *pool) plan(s *loop.Step) *v1alpha1.PlanStatus {
	plan := &v1alpha1.PlanStatus{ID: s.ID, Time: metav1.NewTime(s.Time)}
	for i := range s.Plan.Actions {
		a := &s.Plan.Actions[i]
		if a.Pool != p.object.Name {
			continue
		}
		o := s.Tried(i)
		plan.Applied = plan.Applied || o != nil && o.Held == nil && o.Error == ""
		if len(plan.Actions) == maxActions {
			continue
		}
		act := v1alpha1.PlanAction{Kind: string(a.Kind), Subject: subject(a), Reasons: reasonsOf(a.Reasons)}
		if a.Rate != 0 {
			act.CostPerHour = a.Rate.String()
		}
		plan.Actions = append(plan.Actions, act)
	}
	if plan.Actions == nil {
		return nil
	}
	return plan
}

// ready states the most important of all.
func (p *pool) ready(c conditions, f *floor) {
	kind := v1alpha1.ConditionReady
	obeyed := p.held == nil
	if p.held != nil {
		switch p.held.Code {
		case v1alpha1.ReasonRecommending, v1alpha1.ReasonPaused, v1alpha1.ReasonScaledByClusterAutoscaler:
			obeyed = true
		}
	}
	closed, isClosed := f.paused[p.object.Name]
	switch {
	case !obeyed:
		c.set(kind, metav1.ConditionFalse, p.held.Code, "%s", p.held.Text)
	case f.untried && meta.FindStatusCondition(*c.list, kind) != nil: // it stays
	case f.untried:
		c.set(kind, metav1.ConditionUnknown, reasonStarting, "%s", f.why)
	case !f.known:
		c.set(kind, metav1.ConditionFalse, v1alpha1.ReasonMachinesUnknown, "%s", f.why)
	case isClosed:
		c.set(kind, metav1.ConditionFalse, closed.Code, "%s", closed.Text)
	case p.held != nil:
		c.set(kind, metav1.ConditionTrue, p.held.Code, "%s", p.held.Text)
	default:
		c.set(kind, metav1.ConditionTrue, v1alpha1.ReasonActive, "what is decided is done")
	}
}

// status is what a PriceBook's status is at a time.
func (b *book) status(d *desk) v1alpha1.PriceBookStatus {
	st := *b.object.Status.DeepCopy()
	st.ObservedGeneration, st.Active, st.Prices = b.object.Generation, b.chosen && b.invalid == nil, nil
	c := conditions{&st.Conditions, b.object.Generation, d.now}
	switch {
	case b.invalid != nil:
		c.set(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInvalidSpec, "%s", oneLine(b.invalid))
	case !b.chosen:
		c.set(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonNotChosen, "machines are priced by another book")
	default:
		c.set(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonPricesInForce, "machines are priced by this book")
	}
	if b.invalid == nil {
		st.Prices = resolved(b.prices, d)
	}
	return st
}

// resolved are the prices that are in force now, where neither host nor shape has its own.
func resolved(b *pricing.Book, d *desk) *v1alpha1.ResolvedPrices {
	p := &v1alpha1.ResolvedPrices{
		PricePerVCPUHour: b.RoomRate(pricing.Resources{CPU: pricing.Core}, d.now).String(),
		PricePerGBHour:   b.RoomRate(pricing.Resources{Memory: pricing.GB}, d.now).String(),
		PricePerGiBHour:  b.RoomRate(pricing.Resources{Memory: pricing.GiB}, d.now).String(),
	}
	q := b.Quote(pricing.Shape{CPU: pricing.Core, Memory: pricing.GB}, "", d.now)
	p.Tariff = q.Tariff
	if at, changes := b.NextChange(d.now); changes {
		until := metav1.NewTime(at)
		p.Until = &until
	}
	if b.Derived != nil {
		for _, line := range q.Derivation {
			p.Working = append(p.Working, line.String())
		}
	}
	return p
}
