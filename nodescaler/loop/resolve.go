package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
)

// scale leaves of a decision what a rule or an approval covers, and asks about the rest.
func (c *consult) scale(x *nodescaler.Index, ws *WorkloadStep, like *nodescaler.Pod) {
	rules, asks := c.in.Workloads[ws.Workload]
	d := ws.Decision
	if !asks || d == nil || ws.Held != nil {
		return
	}
	c.decided[aboutWorkload+" "+ws.Workload] = d.Known
	ch := &Change{Kind: aboutWorkload, Object: ws.Workload, Does: GrowWorkload, From: d.From, To: d.To, Why: d.Reasons}
	reach := max(d.From, rules.GrowthUpTo)
	further := func(a, b int) bool { return a > b }
	if d.To < d.From {
		ch.Does, reach = ShrinkTo, d.From
		further = func(a, b int) bool { return a < b }
		if rules.Shrinks {
			reach = d.To
		}
	}
	ch.What = fmt.Sprintf("%s %s from %d to %d replicas", strings.ToLower(string(ch.Does)), ws.Workload, d.From, d.To)
	ch.Price = x.Book().RoomRate(like.Requests, x.Now) * pricing.Rate(d.To-d.From)
	ch.Unit = x.Book().Unit
	if a := c.about(ch.question()); a.approved != nil && further(d.To, reach) && further(a.approved.To, reach) {
		reach = a.approved.To
		c.claim(a, -1)
	}
	if further(d.To, reach) {
		why := c.ask(ch)
		if reach == d.From {
			ws.Held = why
		} else {
			d.To, d.Reasons = reach, slices.Concat([]nodescaler.Reason{*why}, d.Reasons)
		}
	}
	d.Ahead = min(d.Ahead, max(d.From, rules.GrowthUpTo, reach))
}

// resize returns the resize if a rule or an approval covers it, and asks about it otherwise.
func (c *consult) resize(workload string, o *rightsize.Order) *rightsize.Order {
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

// plan defers the actions of a plan that neither a rule nor an approval covers, and asks about
// them.
func (c *consult) plan(x *nodescaler.Index, step *Step) {
	if len(c.in.Pools) == 0 || len(step.Plan.Actions) == 0 {
		return
	}
	money := newMoney(x)
	asked := map[question]*Change{}
	var order []question
	at := map[question][]int{}
	for i := range step.Plan.Actions {
		a := &step.Plan.Actions[i]
		rules, asks := c.in.Pools[a.Pool]
		_, held := step.Deferred[i]
		if !asks || held || a.Kind == nodescaler.Uncordon { // which takes back what was begun
			continue
		}
		ch := money.change(a)
		if rules.cover(x, a, ch, money) || c.goesOn(x, a, ch) || c.allows(ch, i) {
			money.spend(a)
			continue
		}
		q := ch.question()
		at[q] = append(at[q], i)
		if all := asked[q]; all == nil {
			asked[q], order = ch, append(order, q)
		} else if ch.Does != EndMachine {
			all.Count, all.Price = all.Count+1, all.Price+ch.Price
		}
	}
	for _, q := range order {
		ch := asked[q]
		ch.What = ch.words()
		if rebootsFirst(x, ch) {
			ch.What = fmt.Sprintf("reboot machine %s of pool %s, and end it if that does not help", ch.Subject, ch.Object)
		}
		why := c.ask(ch)
		if step.Deferred == nil {
			step.Deferred = map[int]nodescaler.Reason{}
		}
		for _, i := range at[q] {
			step.Deferred[i] = *why
		}
	}
}

// looked notes that a plan was made: what it does not want of a pool is not wanted.
func (c *consult) looked() {
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
		slices.ContainsFunc(ch.Why, func(r nodescaler.Reason) bool { return r.Code == nodescaler.MachineUnhealthy })
}

// goesOn reports whether an action goes on with the drain of a machine, the end of which was
// approved in an earlier step. A spare was drained before it became one.
func (c *consult) goesOn(x *nodescaler.Index, a *nodescaler.Action, ch *Change) bool {
	if ch.Does != EndMachine || a.Kind == nodescaler.Cordon || !c.about(ch.question()).followed {
		return false
	}
	m, n := x.Machine(ch.Subject), x.AnyNodeOf(ch.Subject)
	return m != nil && m.Phase != nodescaler.Spare && n != nil && n.Draining
}

// allows reports whether an approval covers an action, and claims it then.
func (c *consult) allows(ch *Change, action int) bool {
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

// money is what machines cost: those that there are, and those that a step adds.
type money struct {
	x     *nodescaler.Index
	all   []pricing.Placed
	pools map[string][]pricing.Placed
	more  map[string]pricing.Rate // what pools' machines add in this step
}

func newMoney(x *nodescaler.Index) *money {
	m := &money{x: x, pools: map[string][]pricing.Placed{}, more: map[string]pricing.Rate{}}
	for i := range x.Snapshot.Machines {
		p := placed(&x.Snapshot.Machines[i])
		m.all = append(m.all, p)
		pool := x.Snapshot.Machines[i].Pool
		m.pools[pool] = append(m.pools[pool], p)
	}
	return m
}

func placed(m *nodescaler.Machine) pricing.Placed {
	return pricing.Placed{Shape: m.Shape, Host: m.Host, Stopped: m.Phase == nodescaler.Spare}
}

// pool is what a pool's machines cost an hour, with the hosts that carry them.
func (m *money) pool(name string) pricing.Rate {
	return m.x.Book().Total(m.pools[name], m.x.Now) + m.more[name]
}

// with are all machines once an action is done.
func (m *money) with(a *nodescaler.Action) []pricing.Placed {
	all := slices.Clone(m.all)
	if a.Kind == nodescaler.Buy {
		return append(all, pricing.Placed{Shape: *a.Shape, Host: a.Host})
	}
	machine := m.x.Machine(a.Machine)
	if machine == nil {
		return all
	}
	i := slices.Index(all, placed(machine))
	switch {
	case i < 0:
	case a.Kind == nodescaler.Wake:
		all[i].Stopped = false
	default:
		all = slices.Delete(all, i, i+1)
	}
	return all
}

// marginal is what an action adds to the cost of all machines, with the fixed part of a host that
// begins or ends to carry some.
func (m *money) marginal(a *nodescaler.Action) pricing.Rate {
	return m.x.Book().Total(m.with(a), m.x.Now) - m.x.Book().Total(m.all, m.x.Now)
}

// spend counts what an action adds that is done.
func (m *money) spend(a *nodescaler.Action) {
	if a.Kind == nodescaler.Buy || a.Kind == nodescaler.Wake {
		m.more[a.Pool] += m.marginal(a)
		m.all = m.with(a)
	}
}

// change is what an action is part of.
func (m *money) change(a *nodescaler.Action) *Change {
	ch := &Change{Kind: aboutPool, Object: a.Pool, Does: EndMachine, Why: a.Reasons, Unit: m.x.Book().Unit}
	switch a.Kind {
	case nodescaler.Buy:
		ch.Does, ch.Subject, ch.Count = OrderMachines, a.Shape.Name, 1
		if a.Keep {
			ch.Subject += " spare"
		}
	case nodescaler.Wake:
		ch.Does, ch.Count = WakeSpares, 1
		if machine := m.x.Machine(a.Machine); machine != nil {
			ch.Subject = machine.Shape.Name
		}
	case nodescaler.Cordon, nodescaler.Uncordon, nodescaler.Evict, nodescaler.DeletePod, nodescaler.Return, nodescaler.Stash, nodescaler.Reboot:
		ch.Subject = a.Machine
	}
	of := *a
	of.Machine = cmp.Or(a.Machine, ch.Subject)
	ch.Price = m.marginal(&of)
	return ch
}

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
			u.actions[action] = nodescaler.Reason{Code: CodeAwaitingApproval, Text: why}
		}
		switch c.Does {
		case GrowWorkload, ShrinkTo:
			u.scales[c.Workload] = why
		case ResizePod:
			u.resizes[c.Workload] = why
		case OrderMachines, WakeSpares, EndMachine:
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
