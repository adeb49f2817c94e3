package approval

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
)

// Scale leaves of a decision what a rule or an approval covers, and asks about the rest. It returns
// why all of the decision is held, or nil. Another pod of the workload is like the given one.
func (c *Consult) Scale(x *nodescaler.Index, d *podscaler.Decision, like *nodescaler.Pod) (held *nodescaler.Reason) {
	rules, asks := c.in.Workloads[d.Workload]
	if !asks {
		return nil
	}
	c.decided[aboutWorkload+" "+d.Workload] = d.Known
	ch := &Change{Kind: aboutWorkload, Object: d.Workload, Does: GrowWorkload, From: d.From, To: d.To, Why: d.Reasons}
	reach := max(d.From, rules.GrowthUpTo)
	further := func(a, b int) bool { return a > b }
	if d.To < d.From {
		ch.Does, reach = ShrinkTo, d.From
		further = func(a, b int) bool { return a < b }
		if rules.Shrinks {
			reach = d.To
		}
	}
	ch.What = fmt.Sprintf("%s %s from %d to %d replicas", strings.ToLower(string(ch.Does)), d.Workload, d.From, d.To)
	ch.Price = x.Book().RoomRate(like.Requests, x.Now) * pricing.Rate(d.To-d.From)
	ch.Unit = x.Book().Unit
	if a := c.about(ch.question()); a.approved != nil && further(d.To, reach) && further(a.approved.To, reach) {
		reach = a.approved.To
		c.claim(a, -1)
	}
	if further(d.To, reach) {
		why := c.ask(ch)
		if reach == d.From {
			held = why
		} else {
			d.To, d.Reasons = reach, slices.Concat([]nodescaler.Reason{*why}, d.Reasons)
		}
	}
	d.Ahead = min(d.Ahead, max(d.From, rules.GrowthUpTo, reach))
	return held
}

// Resize returns the resize if a rule or an approval covers it, and asks about it otherwise.
func (c *Consult) Resize(workload string, o *rightsize.Order) *rightsize.Order {
	rules, asks := c.in.Workloads[workload]
	if !asks || o == nil || rules.Resizes {
		return o
	}
	ch := &Change{
		Kind: aboutWorkload, Object: workload, Does: ResizePod, Subject: o.Pod, Why: o.Reasons,
		What: plain(o.String()),
	}
	if a := c.about(ch.question()); a.approved != nil && a.approved.covers(ch) {
		c.claim(a, -1)
		return o
	}
	c.ask(ch)
	return nil
}

// Plan asks about the actions of a plan that neither a rule nor an approval covers, and returns
// those that are deferred, by their place, with the reasons: some are deferred already.
func (c *Consult) Plan(x *nodescaler.Index, p *nodescaler.Plan, deferred map[int]nodescaler.Reason) map[int]nodescaler.Reason {
	if len(c.in.Pools) == 0 || len(p.Actions) == 0 {
		return deferred
	}
	costs := newMoney(x)
	asked := map[question]*Change{}
	var order []question
	at := map[question][]int{}
	with := map[question]*money{} // once what is asked in the same question is done
	for i := range p.Actions {
		a := &p.Actions[i]
		rules, asks := c.in.Pools[a.Pool]
		_, held := deferred[i]
		if !asks || held || a.Kind == nodescaler.Uncordon { // which takes back what was begun
			continue
		}
		ch := costs.change(a)
		if rules.cover(x, a, ch, costs) || c.goesOn(x, a, ch) || c.allows(ch, i) {
			costs.spend(a)
			continue
		}
		q := ch.question()
		at[q] = append(at[q], i)
		if all := asked[q]; all == nil {
			asked[q], order, with[q] = ch, append(order, q), &money{x: x, all: costs.with(a)}
		} else if ch.Does != EndMachine {
			all.Count, all.Price = all.Count+1, all.Price+with[q].marginal(a)
			with[q].all = with[q].with(a)
		}
	}
	for _, q := range order {
		ch := asked[q]
		ch.What = ch.words()
		if rebootsFirst(x, ch) {
			ch.What = fmt.Sprintf("reboot machine %s of pool %s, and end it if that does not help", ch.Subject, ch.Object)
		}
		why := c.ask(ch)
		if deferred == nil {
			deferred = map[int]nodescaler.Reason{}
		}
		for _, i := range at[q] {
			deferred[i] = *why
		}
	}
	return deferred
}

// Looked notes that a plan was made: what it does not want of a pool is not wanted.
func (c *Consult) Looked() {
	for pool := range c.in.Pools {
		c.decided[aboutPool+" "+pool] = true
	}
}

// words say what the change does to a pool.
func (c *Change) words() string {
	switch c.Does {
	case OrderMachines:
		return fmt.Sprintf("order up to %d of shape %s of pool %s", c.Count, c.Subject, c.Object)
	case WakeSpares:
		return fmt.Sprintf("start up to %d spares of shape %s of pool %s", c.Count, c.Subject, c.Object)
	case EndMachine:
		return fmt.Sprintf("drain and end machine %s of pool %s", c.Subject, c.Object)
	case GrowWorkload, ShrinkTo, ResizePod:
	}
	return c.What
}

// cover reports whether a rule covers an action.
func (r *PoolRules) cover(x *nodescaler.Index, a *nodescaler.Action, ch *Change, money *money) bool {
	if ch.Does != EndMachine {
		return r.BuysUpTo > 0 && money.pool(a.Pool)+ch.Price <= r.BuysUpTo
	}
	return r.Ends || r.Repairs && repairs(x, a, ch.Subject)
}

// repairs reports whether an action is part of the end of a machine that failed or is broken.
func repairs(x *nodescaler.Index, a *nodescaler.Action, machine string) bool {
	for i := range a.Reasons {
		switch a.Reasons[i].Code {
		case nodescaler.MachineFailed, nodescaler.ProvisionTimedOut, nodescaler.MachineUnhealthy:
			return true
		}
	}
	m, p := x.Machine(machine), x.Pool(a.Pool)
	if m == nil || p == nil {
		return false
	}
	n := x.AnyNodeOf(machine)
	if m.Phase == nodescaler.Failed || n == nil {
		return m.Phase == nodescaler.Failed
	}
	cause, _ := p.Disruption.Ends(m, n.Node, x.Now)
	return cause == nodescaler.Unhealthy
}

// rebootsFirst reports whether the end of a machine begins with a reboot, which may save it.
func rebootsFirst(x *nodescaler.Index, ch *Change) bool {
	m, p := x.Machine(ch.Subject), x.Pool(ch.Object)
	return ch.Does == EndMachine && m != nil && p != nil && p.Disruption.Repair.Reboots(m, x.Now) &&
		has(ch.Why, nodescaler.MachineUnhealthy)
}

func has(why []nodescaler.Reason, code string) bool {
	return slices.ContainsFunc(why, func(r nodescaler.Reason) bool { return r.Code == code })
}

// goesOn reports whether an action goes on with the drain of a machine, the end of which was
// approved in an earlier step. A spare was drained before it became one.
func (c *Consult) goesOn(x *nodescaler.Index, a *nodescaler.Action, ch *Change) bool {
	answers := c.about(ch.question())
	p := answers.followed
	if ch.Does != EndMachine || p == nil {
		return false
	}
	m, n := x.Machine(ch.Subject), x.AnyNodeOf(ch.Subject)
	if m == nil || m.Phase == nodescaler.Spare || n == nil {
		return false
	}
	return n.Draining && a.Kind != nodescaler.Cordon || answers.rejected == nil && p.unhelped(x, m, n.Node)
}

// unhelped reports whether the machine was rebooted by this approval, and that did not help. The
// end was approved with the reboot; a node that is not ready is not drained before one.
func (p *Proposal) unhelped(x *nodescaler.Index, m *nodescaler.Machine, n *nodescaler.Node) bool {
	pool := x.Pool(p.Object)
	return pool != nil && has(p.Why, nodescaler.MachineUnhealthy) && !m.Rebooted.Before(p.Made) && m.Rebooted.Before(p.Until) &&
		pool.Disruption.Repair.Unhelped(m, n, x.Now)
}

// allows reports whether an approval covers an action, and claims it then.
func (c *Consult) allows(ch *Change, action int) bool {
	a := c.about(ch.question())
	p := a.approved
	if p == nil {
		return false
	}
	if ch.Does != EndMachine && (a.count+1 > p.Count || a.price+ch.Price > p.Price) {
		return false
	}
	c.wanted[ch.question()] = c.now
	a.count, a.price = a.count+1, a.price+ch.Price
	c.claim(a, action)
	return true
}
