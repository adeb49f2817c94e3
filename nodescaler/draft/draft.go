// Package draft is a plan in the making: what it takes from hosts, pools and budgets, and why pods
// wait that nothing in it helps.
package draft

import (
	"maps"
	"slices"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// Draft is a plan being written. It keeps count of what the plan takes from hosts, pools and
// budgets, so that every tactic sees what those before it have left.
type Draft struct {
	X     *nodescaler.Index
	Plan  nodescaler.Plan
	Free  map[string]pricing.Resources // room by host
	Room  map[string]int               // machines that a pool may still have
	Spare map[string]int               // live machines that a pool may still lose
	Paid  *nodescaler.Paid
	// Bought is how many machines the plan orders and wakes. Woken are those that it wakes, Let
	// those that it returns, and Stashed is how many it stashes, by pool.
	Bought     int
	Woken, Let map[string]bool
	Stashed    map[string]int
	Forced     map[string]bool     // pods that it deletes
	Tenants    *nodescaler.Tenants // nil without quotas
	At         map[string]bool     // namespaces that surely want more than their quotas
	// Repelled is by pods in the node's zone; nil where that does not count.
	Repelled func(*nodescaler.Pod, *nodescaler.Node) bool

	budget   map[string]int  // evictions left by workload, where there is a budget
	dear     map[string]bool // shapes that the limit was noted for
	orders   map[string]bool // order ids in use
	next     int
	holding  map[string]*nodescaler.Held // for quotas
	unplaced []unplaced                  // pods that wait and that it has no place for
}

// New is an empty plan for what the index shows.
func New(x *nodescaler.Index) *Draft {
	d := &Draft{
		X: x, Free: map[string]pricing.Resources{}, Room: map[string]int{}, Spare: map[string]int{},
		Paid: x.Paid(), Woken: map[string]bool{}, Let: map[string]bool{}, Stashed: map[string]int{}, Forced: map[string]bool{},
		budget: map[string]int{}, dear: map[string]bool{}, orders: map[string]bool{},
	}
	for _, h := range x.Hosts {
		d.Free[h.Name] = h.Free
	}
	for _, p := range x.Pools {
		d.Room[p.Name], d.Spare[p.Name] = p.Places(), max(p.Live-p.Min, 0)
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

// Note gives a reason for the plan as a whole, which mostly is one for doing nothing.
func (d *Draft) Note(code, format string, args ...any) {
	d.Plan.Reasons = append(d.Plan.Reasons, Because(code, format, args...))
}

// Act adds an action to the plan.
func (d *Draft) Act(a nodescaler.Action) { d.Plan.Actions = append(d.Plan.Actions, a) }

// order returns the next order id of this plan. Two plans of one millisecond would make the
// same ids, so those in use are skipped.
func (d *Draft) order() string {
	for {
		id := nodescaler.OrderID(d.X.Now, d.next)
		d.next++
		if !d.orders[id] {
			d.orders[id] = true
			return id
		}
	}
}

// Buy orders a machine.
func (d *Draft) Buy(pool string, shape pricing.Shape, host string, why ...nodescaler.Reason) {
	d.Free[host] = d.Free[host].Minus(shape.Resources())
	d.Room[pool]--
	d.Paid.Add(shape, host)
	d.Bought++
	d.Act(nodescaler.Action{
		Kind: nodescaler.Buy, Order: d.order(), Pool: pool, Shape: &shape, Host: host,
		Rate: d.X.Rate(shape, host), Reasons: why,
	})
}

// Stash stops a machine that was emptied and keeps it. The caller has reserved it from the pool's
// spare.
func (d *Draft) Stash(n *nodescaler.NodeLoad, why ...nodescaler.Reason) {
	m := n.VM
	d.Act(nodescaler.Action{
		Kind: nodescaler.Stash, Machine: m.Name, Node: n.Name, Pool: m.Pool, Host: m.Host,
		Rate: d.X.SpareRate(m.Shape) - d.X.Rate(m.Shape, m.Host), Reasons: why,
	})
}

// Wake makes a machine that is kept capacity. Only one that is stopped takes room and money by
// that.
func (d *Draft) Wake(m *nodescaler.Machine, why ...nodescaler.Reason) {
	a := nodescaler.Action{Kind: nodescaler.Wake, Machine: m.Name, Pool: m.Pool, Host: m.Host, Reasons: why}
	if n := d.X.AnyNodeOf(m.Name); n != nil {
		a.Node = n.Name
	}
	if m.Phase == nodescaler.Spare {
		d.Free[m.Host] = d.Free[m.Host].Minus(m.Shape.Resources())
		d.Paid.Wake(m)
		a.Rate = d.X.Rate(m.Shape, m.Host) - d.X.SpareRate(m.Shape)
	}
	d.Bought++
	d.Woken[m.Name] = true
	d.Act(a)
}

// Holds reports whether the host may carry another machine of the pool and shape.
func (d *Draft) Holds(p *nodescaler.Pool, s pricing.Shape, h *nodescaler.Host) bool {
	return p.Makes(s, h) && s.Resources().Within(d.Free[h.Name])
}

// Affords reports whether the hard limit on the cost allows the machine, and says so if it does
// not.
func (d *Draft) Affords(shape pricing.Shape, host string) bool {
	rate, within := d.Paid.With(shape, host)
	if !within && !d.dear[shape.Name] {
		d.dear[shape.Name] = true
		d.Note(nodescaler.LimitReached, "%s on %s is not ordered: all machines would cost %s/h of at most %s/h", shape.Name, host, rate, d.X.Limit)
	}
	return within
}

// Return deletes a machine. Of live ones, the caller has reserved it from the pool's spare.
func (d *Draft) Return(m *nodescaler.Machine, why ...nodescaler.Reason) {
	d.Let[m.Name] = true
	rate := d.X.Rate(m.Shape, m.Host)
	if m.Phase == nodescaler.Spare {
		rate = d.X.SpareRate(m.Shape)
	}
	a := nodescaler.Action{Kind: nodescaler.Return, Machine: m.Name, Pool: m.Pool, Host: m.Host, Rate: -rate, Reasons: why}
	if n := d.X.AnyNodeOf(m.Name); n != nil {
		a.Node = n.Name
	}
	d.Act(a)
}

// Held says why nothing of this kind is to be done for the pool now, or nil. Machines of a pool
// that is not known are left alone.
func (d *Draft) Held(pool string, k nodescaler.Kind) *nodescaler.Reason {
	p := d.X.Pool(pool)
	switch {
	case p != nil:
		return p.Held(k)
	case pool == "":
		r := Because(nodescaler.PoolUnknown, "it is of no pool, and left alone")
		return &r
	}
	r := Because(nodescaler.PoolUnknown, "there is no pool %s: its machines are left alone", pool)
	return &r
}

// Stays says why nothing may take the machine down now, or nil: its pool is held, or it is itself.
func (d *Draft) Stays(m *nodescaler.Machine) *nodescaler.Reason {
	if held := d.Held(m.Pool, nodescaler.Return); held != nil {
		return held
	}
	return MachineHeld(d.X, m)
}

// MachineHeld says why a machine is held, or nil.
func MachineHeld(x *nodescaler.Index, m *nodescaler.Machine) *nodescaler.Reason {
	why := x.Hold(m)
	if why == nil {
		return nil
	}
	return &nodescaler.Reason{Code: nodescaler.MachineHeld, Text: why.String()}
}

// DismissSpares undoes what a policy that keeps spares has left to one that keeps none: those
// that are stopped are returned, one a plan, and those in the making become machines like any
// other.
func (d *Draft) DismissSpares() {
	gone := false
	for _, m := range d.X.Spares {
		switch {
		case d.X.Pool(m.Pool) == nil || d.X.Away(m.Host) || m.Phase == nodescaler.Deleting:
		case d.Held(m.Pool, nodescaler.Return) != nil || d.Held(m.Pool, nodescaler.Wake) != nil:
		case m.Phase != nodescaler.Spare:
			d.Wake(m, Because(nodescaler.SpareUnneeded, "%s was to become a spare, and this policy keeps none", m.Name))
		case !gone && d.Stays(m) == nil:
			gone = true
			d.Return(m, Because(nodescaler.SpareUnneeded, "%s is a spare, and this policy keeps none", m.Name))
		}
	}
}

// NoteRefused says what pools are known to refuse.
func (d *Draft) NoteRefused() {
	refused := Findings{}
	for i := range d.X.Pools {
		for _, r := range d.X.Pools[i].Refused {
			refused.Add(r.Why.Code, "%s", r.Why.Text)
		}
	}
	d.Conclude(refused, "refusal")
}

// CalledOff says that another client opened a node that is being emptied, which is their way to
// say that they want to keep it.
func CalledOff(n *nodescaler.NodeLoad) nodescaler.Reason {
	return Because(nodescaler.DrainCalledOff, "%s was uncordoned by another client while it was being emptied", n.Name)
}

// Reserve takes one from what the pool may lose, and reports whether there was one.
func (d *Draft) Reserve(pool string) bool {
	if d.Spare[pool] < 1 {
		return false
	}
	d.Spare[pool]--
	return true
}

// Cordon closes a node. Its machine was reserved from the pool's spare before.
func (d *Draft) Cordon(n *nodescaler.NodeLoad, why ...nodescaler.Reason) {
	d.Act(nodescaler.Action{Kind: nodescaler.Cordon, Node: n.Name, Machine: n.Machine, Pool: n.VM.Pool, Reasons: why})
}

// Uncordon opens a node again, and reports whether that may be.
func (d *Draft) Uncordon(n *nodescaler.NodeLoad, why nodescaler.Reason) bool {
	if held := d.Held(n.VM.Pool, nodescaler.Uncordon); held != nil {
		d.Note(held.Code, "%s stays closed: %s (%s)", n.Name, held.Text, why.Text)
		return false
	}
	d.Act(nodescaler.Action{Kind: nodescaler.Uncordon, Node: n.Name, Machine: n.Machine, Pool: n.VM.Pool, Reasons: []nodescaler.Reason{why}})
	return true
}

// Allows reports whether the pod's budget allows one more eviction in this plan.
func (d *Draft) Allows(p *nodescaler.Pod) bool {
	left, ok := d.budget[p.Workload]
	return !ok || left > 0 || p.Unbudgeted
}

// critical is the lowest priority of Kubernetes' own classes, system-cluster-critical and
// system-node-critical.
const critical = 2_000_000_000

// Evict moves everything off the node that its budgets allow to be moved now, and says what
// is left and why. What is critical to the cluster leaves once the other pods are gone; daemons go
// with the node. The node is cordoned before.
func (d *Draft) Evict(n *nodescaler.NodeLoad) {
	var waiting, leaving, last, pinned []string
	held := n.Held()
	others := slices.ContainsFunc(held, func(p *nodescaler.Pod) bool { return p.Priority < critical })
	for _, p := range held {
		switch {
		case d.Forced[p.Name]:
		case p.Terminating:
			leaving = append(leaving, p.Name)
		case p.Pinned != "":
			pinned = append(pinned, p.Name)
		case others && p.Priority >= critical:
			last = append(last, p.Name)
		case !d.Allows(p):
			waiting = append(waiting, p.Name)
		default:
			if _, ok := d.budget[p.Workload]; ok && !p.Unbudgeted {
				d.budget[p.Workload]--
			}
			d.Act(nodescaler.Action{
				Kind: nodescaler.Evict, Pod: p.Name, Node: n.Name, Machine: n.Machine, Pool: n.VM.Pool,
				Reasons: []nodescaler.Reason{Because(nodescaler.NodeDraining, "%s is being emptied; the pod takes %s of it", n.Name, nodescaler.Amount(p.Requests))},
			})
		}
	}
	if len(waiting) > 0 {
		d.Note(nodescaler.BudgetExhausted, "%s holds %s that no disruption budget lets go now", n.Name, Some("pod", waiting))
	}
	if len(pinned) > 0 {
		d.Note(nodescaler.PodPinned, "%s keeps %s, which must not be evicted, until its drain ends", n.Name, Some("pod", pinned))
	}
	if len(last) > 0 {
		d.Note(nodescaler.PodLeaving, "%s keeps %s, critical to the cluster, until the others are gone", n.Name, Some("pod", last))
	}
	if len(leaving) > 0 {
		d.Note(nodescaler.PodLeaving, "%s waits for %s to be gone", n.Name, Some("pod", leaving))
	}
}

// unplaced are pods that wait for one reason.
type unplaced struct {
	pod *nodescaler.Pod
	// why is certain; without it the pools are looked through once all that is ordered is known,
	// and known is what is said if they would take the pod.
	why, known *nodescaler.Reason
	help       string
}

// Park notes a pod that waits for a reason that is known.
func (d *Draft) Park(p *nodescaler.Pod, help string, why nodescaler.Reason) {
	d.unplaced = append(d.unplaced, unplaced{pod: p, why: &why, help: help})
}

// ParkAll does so for all that wait, in a scan that serves none.
func (d *Draft) ParkAll(help string, why nodescaler.Reason) {
	for _, p := range d.X.Pending {
		d.Park(p, help, why)
	}
}

// Strand notes pods for which there is no machine. What is known of why counts where no pool says
// more.
func (d *Draft) Strand(pods []*nodescaler.Pod, help string, known *nodescaler.Reason) {
	for _, p := range pods {
		d.unplaced = append(d.unplaced, unplaced{pod: p, known: known, help: help})
	}
}

// Conclude gives the reasons that were found.
func (d *Draft) Conclude(f Findings, what string) {
	for _, code := range slices.Sorted(maps.Keys(f)) {
		d.Plan.Reasons = append(d.Plan.Reasons, f[code].named...)
		if more := f[code].more; more > 0 {
			d.Note(code, "and %s more", pricing.Count(more, what))
		}
	}
}
