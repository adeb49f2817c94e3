package policy

import (
	"maps"
	"slices"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// draft is a plan being written. It keeps count of what the plan takes from hosts, pools and
// budgets, so that every tactic sees what those before it have left.
type draft struct {
	x       *nodescaler.Index
	plan    nodescaler.Plan
	free    map[string]pricing.Resources // room by host
	room    map[string]int               // machines that a pool may still have
	spare   map[string]int               // live machines that a pool may still lose
	budget  map[string]int               // evictions left by workload, where there is a budget
	paid    *nodescaler.Paid
	dear    map[string]bool // shapes that the hard limit was told of
	orders  map[string]bool // order ids in use
	woken   map[string]bool // machines that the plan wakes
	stashed map[string]int  // that it stashes, by pool
	let     map[string]bool // that it gives back
	next    int
	bought  int
	tenants *nodescaler.Tenants         // nil without quotas
	holding map[string]*nodescaler.Held // for quotas
	at      map[string]bool             // namespaces that surely want more than their quotas

	unplaced []unplaced                                   // pods that wait and that it has no place for
	repelled func(*nodescaler.Pod, *nodescaler.Node) bool // by pods in the node's zone; nil where that does not count
}

func newDraft(x *nodescaler.Index) *draft {
	d := &draft{
		x: x, free: map[string]pricing.Resources{}, room: map[string]int{}, spare: map[string]int{},
		budget: map[string]int{}, paid: x.Paid(), dear: map[string]bool{}, orders: map[string]bool{}, woken: map[string]bool{}, stashed: map[string]int{}, let: map[string]bool{},
	}
	for _, h := range x.Hosts {
		d.free[h.Name] = h.Free
	}
	for _, p := range x.Pools {
		d.room[p.Name], d.spare[p.Name] = p.Places(), max(p.Live-p.Min, 0)
	}
	for _, b := range x.Budgets {
		if left, ok := d.budget[b.Workload]; !ok || b.Allowed < left {
			d.budget[b.Workload] = b.Allowed
		}
	}
	for i := range x.Snapshot.Machines {
		d.orders[x.Snapshot.Machines[i].Order] = true
	}
	return d
}

// note gives a reason for the plan as a whole, which mostly is one for doing nothing.
func (d *draft) note(code, format string, args ...any) {
	d.plan.Reasons = append(d.plan.Reasons, because(code, format, args...))
}

func (d *draft) act(a nodescaler.Action) { d.plan.Actions = append(d.plan.Actions, a) }

// order returns the next order id of this plan. Two plans of one millisecond would make the
// same ids, so those in use are left out.
func (d *draft) order() string {
	for {
		id := nodescaler.OrderID(d.x.Now, d.next)
		d.next++
		if !d.orders[id] {
			d.orders[id] = true
			return id
		}
	}
}

// buy orders a machine.
func (d *draft) buy(pool string, shape pricing.Shape, host string, why ...nodescaler.Reason) {
	d.free[host] = d.free[host].Minus(shape.Resources())
	d.room[pool]--
	d.paid.Add(shape, host)
	d.bought++
	d.act(nodescaler.Action{
		Kind: nodescaler.Buy, Order: d.order(), Pool: pool, Shape: &shape, Host: host,
		Rate: d.x.Rate(shape, host), Reasons: why,
	})
}

// stash stops a machine that was emptied and keeps it. The caller has reserved it from the pool's spare.
func (d *draft) stash(n *nodescaler.NodeLoad, why ...nodescaler.Reason) {
	m := n.VM
	d.act(nodescaler.Action{
		Kind: nodescaler.Stash, Machine: m.Name, Node: n.Name, Pool: m.Pool, Host: m.Host,
		Rate: d.x.SpareRate(m.Shape) - d.x.Rate(m.Shape, m.Host), Reasons: why,
	})
}

// wake makes a machine that is kept capacity. Only one that is stopped takes room and money by that.
func (d *draft) wake(m *nodescaler.Machine, why ...nodescaler.Reason) {
	a := nodescaler.Action{Kind: nodescaler.Wake, Machine: m.Name, Pool: m.Pool, Host: m.Host, Reasons: why}
	if n := d.x.AnyNodeOf(m.Name); n != nil {
		a.Node = n.Name
	}
	if m.Phase == nodescaler.Spare {
		d.free[m.Host] = d.free[m.Host].Minus(m.Shape.Resources())
		d.paid.Wake(m)
		a.Rate = d.x.Rate(m.Shape, m.Host) - d.x.SpareRate(m.Shape)
	}
	d.bought++
	d.woken[m.Name] = true
	d.act(a)
}

// holds reports whether the host may carry another machine of the pool and shape.
func (d *draft) holds(p *nodescaler.Pool, s pricing.Shape, h *nodescaler.Host) bool {
	return p.Makes(s, h) && s.Resources().Within(d.free[h.Name])
}

// affords reports whether the hard limit on the cost allows the machine, and says so if it does not.
func (d *draft) affords(shape pricing.Shape, host string) bool {
	rate, within := d.paid.With(shape, host)
	if !within && !d.dear[shape.Name] {
		d.dear[shape.Name] = true
		d.note(nodescaler.LimitReached, "%s on %s is not ordered: all machines would cost %s/h of at most %s/h", shape.Name, host, rate, d.x.Limit)
	}
	return within
}

// giveBack deletes a machine. Of live ones, the caller has reserved it from the pool's spare.
func (d *draft) giveBack(m *nodescaler.Machine, why ...nodescaler.Reason) {
	d.let[m.Name] = true
	rate := d.x.Rate(m.Shape, m.Host)
	if m.Phase == nodescaler.Spare {
		rate = d.x.SpareRate(m.Shape)
	}
	a := nodescaler.Action{Kind: nodescaler.Return, Machine: m.Name, Pool: m.Pool, Host: m.Host, Rate: -rate, Reasons: why}
	if n := d.x.AnyNodeOf(m.Name); n != nil {
		a.Node = n.Name
	}
	d.act(a)
}

// held says why nothing of this kind is to be done for the pool now, or nil. Machines of a pool that nobody knows are
// nobody's here.
func (d *draft) held(pool string, k nodescaler.Kind) *nodescaler.Reason {
	p := d.x.Pool(pool)
	switch {
	case p != nil:
		return p.Held(k)
	case pool == "":
		r := because(nodescaler.PoolUnknown, "it is of no pool, and left alone")
		return &r
	}
	r := because(nodescaler.PoolUnknown, "there is no pool %s: its machines are left alone", pool)
	return &r
}

// stays says why nothing may take the machine down now, or nil: its pool is held, or it is itself.
func (d *draft) stays(m *nodescaler.Machine) *nodescaler.Reason {
	if held := d.held(m.Pool, nodescaler.Return); held != nil {
		return held
	}
	return machineHeld(d.x, m)
}

// machineHeld says why a machine is held, or nil.
func machineHeld(x *nodescaler.Index, m *nodescaler.Machine) *nodescaler.Reason {
	why := x.Hold(m)
	if why == nil {
		return nil
	}
	return &nodescaler.Reason{Code: nodescaler.MachineHeld, Text: why.String()}
}

// dismissSpares undoes what a policy that keeps spares has left to one that keeps none: those that are stopped are given
// back, one a plan, and those in the making become machines like any other.
func (d *draft) dismissSpares() {
	gone := false
	for _, m := range d.x.Spares {
		switch {
		case d.x.Pool(m.Pool) == nil || d.x.Away(m.Host) || m.Phase == nodescaler.Deleting:
		case d.held(m.Pool, nodescaler.Return) != nil || d.held(m.Pool, nodescaler.Wake) != nil:
		case m.Phase != nodescaler.Spare:
			d.wake(m, because(nodescaler.SpareUnneeded, "%s was to become a spare, and this policy keeps none", m.Name))
		case !gone && d.stays(m) == nil:
			gone = true
			d.giveBack(m, because(nodescaler.SpareUnneeded, "%s is a spare, and this policy keeps none", m.Name))
		}
	}
}

// tellRefused says what pools are known to refuse.
func (d *draft) tellRefused() {
	refused := findings{}
	for i := range d.x.Pools {
		for _, r := range d.x.Pools[i].Refused {
			refused.add(r.Why.Code, "%s", r.Why.Text)
		}
	}
	d.conclude(refused, "refusal")
}

// calledOff says that somebody else opened a node that is being emptied, which is their way to
// say that they want to keep it.
func calledOff(n *nodescaler.NodeLoad) nodescaler.Reason {
	return because(nodescaler.DrainCalledOff, "%s was uncordoned by somebody else while it was being emptied", n.Name)
}

// reserve takes one from what the pool may lose, and reports whether there was one.
func (d *draft) reserve(pool string) bool {
	if d.spare[pool] < 1 {
		return false
	}
	d.spare[pool]--
	return true
}

func (d *draft) cordon(n *nodescaler.NodeLoad, why ...nodescaler.Reason) {
	d.act(nodescaler.Action{Kind: nodescaler.Cordon, Node: n.Name, Machine: n.Machine, Pool: n.VM.Pool, Reasons: why})
}

// uncordon opens a node again, and reports whether that may be.
func (d *draft) uncordon(n *nodescaler.NodeLoad, why nodescaler.Reason) bool {
	if held := d.held(n.VM.Pool, nodescaler.Uncordon); held != nil {
		d.note(held.Code, "%s stays closed: %s (%s)", n.Name, held.Text, why.Text)
		return false
	}
	d.act(nodescaler.Action{Kind: nodescaler.Uncordon, Node: n.Name, Machine: n.Machine, Pool: n.VM.Pool, Reasons: []nodescaler.Reason{why}})
	return true
}

// allows reports whether the pod's budget allows one more eviction in this plan.
func (d *draft) allows(p *nodescaler.Pod) bool {
	left, ok := d.budget[p.Workload]
	return !ok || left > 0
}

// evict moves everything off the node that its budgets allow to be moved now, and says what
// is left and why. The node is cordoned before.
func (d *draft) evict(n *nodescaler.NodeLoad) {
	var waiting, leaving []string
	for _, p := range n.Held() {
		switch {
		case p.Terminating:
			leaving = append(leaving, p.Name)
		case !d.allows(p):
			waiting = append(waiting, p.Name)
		default:
			if _, ok := d.budget[p.Workload]; ok {
				d.budget[p.Workload]--
			}
			d.act(nodescaler.Action{
				Kind: nodescaler.Evict, Pod: p.Name, Node: n.Name, Machine: n.Machine, Pool: n.VM.Pool,
				Reasons: []nodescaler.Reason{because(nodescaler.NodeDraining, "%s is being emptied; the pod takes %s of it", n.Name, nodescaler.Amount(p.Requests))},
			})
		}
	}
	if len(waiting) > 0 {
		d.note(nodescaler.BudgetExhausted, "%s holds %s that no disruption budget lets go now", n.Name, some("pod", waiting))
	}
	if len(leaving) > 0 {
		d.note(nodescaler.PodLeaving, "%s waits for %s to be gone", n.Name, some("pod", leaving))
	}
}

// unplaced are pods that wait for one reason.
type unplaced struct {
	pod *nodescaler.Pod
	// why is certain; without it the pools are looked through once all that is ordered is known, and known is what
	// is said if they would take the pod.
	why, known *nodescaler.Reason
	help       string
}

// park notes a pod that waits for a reason that is known.
func (d *draft) park(p *nodescaler.Pod, help string, why nodescaler.Reason) {
	d.unplaced = append(d.unplaced, unplaced{pod: p, why: &why, help: help})
}

// parkAll does so for all that wait, in a scan that serves none.
func (d *draft) parkAll(help string, why nodescaler.Reason) {
	for _, p := range d.x.Pending {
		d.park(p, help, why)
	}
}

// strand notes pods for which there is no machine. What is known of why counts where no pool says more.
func (d *draft) strand(pods []*nodescaler.Pod, help string, known *nodescaler.Reason) {
	for _, p := range pods {
		d.unplaced = append(d.unplaced, unplaced{pod: p, known: known, help: help})
	}
}

// conclude gives the reasons that were found.
func (d *draft) conclude(f findings, what string) {
	for _, code := range slices.Sorted(maps.Keys(f)) {
		d.plan.Reasons = append(d.plan.Reasons, f[code].told...)
		if more := f[code].more; more > 0 {
			d.note(code, "and %s more", plural(more, what))
		}
	}
}
