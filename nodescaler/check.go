package nodescaler

import (
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
)

// Codes of violations: what no plan may do.
const (
	UnknownKind       = "UnknownKind"       // an action of no known kind
	ReasonMissing     = "ReasonMissing"     // an action that does not say why
	NotThere          = "NotThere"          // an action on an object that is not in the snapshot
	NotOurs           = "NotOurs"           // an action on a node without a machine of ours
	Repeated          = "Repeated"          // the same thing done twice in one plan
	OrderUsed         = "OrderUsed"         // an order without an id, or with a used one
	OrderBeyondMax    = "OrderBeyondMax"    // more machines than the pool may have
	OrderInClosed     = "OrderInClosed"     // an order for a closed pool
	PoolHeld          = "PoolHeld"          // an action on a pool that is held in this direction
	OrderRefused      = "OrderRefused"      // an order that its pool refuses for now
	OrderOverLimit    = "OrderOverLimit"    // an order beyond the cost limit
	ShapeNotOffered   = "ShapeNotOffered"   // an order for a shape that the pool does not have
	HostNotUsable     = "HostNotUsable"     // an offline or cordoned host, or not one of the pool
	HostOvercommitted = "HostOvercommitted" // an order on a host without room for it
	ReturnBelowMin    = "ReturnBelowMin"    // fewer live machines than the pool's minimum
	NodeHoldsPods     = "NodeHoldsPods"     // a machine returned while pods are on its node
	NodeNotCordoned   = "NodeNotCordoned"   // a node drained or returned without a cordon
	NotOurCordon      = "NotOurCordon"      // an uncordon of a node that another client cordoned
	PodNotMovable     = "PodNotMovable"     // an eviction of a pinned, daemon or terminating pod
	BudgetOverdrawn   = "BudgetOverdrawn"   // more evictions than a disruption budget allows
	HeldMachine       = "HeldMachine"       // a held machine drained, stopped or deleted
	NotJoined         = "NotJoined"         // a machine stashed that is not a node
	RebootNotAsked    = "RebootNotAsked"    // a machine rebooted that its pool has not rebooted now
	NotSpare          = "NotSpare"          // a machine woken that is no spare, or has drifted
)

// Violation is something in a plan that must not be. Action is its place in the plan.
type Violation struct {
	Action int    `json:"action"`
	Code   string `json:"code"`
	Text   string `json:"text"`
}

// String prints the violation as a line.
func (v Violation) String() string {
	return fmt.Sprintf("action %d: %s: %s", v.Action, v.Code, v.Text)
}

// Check returns the actions of the plan that break an invariant. The invariants hold for every
// policy: no limit is exceeded, only our own and existing objects are touched, and no pod is
// harmed. A plan with violations must not be executed. Actions are checked in order, each against
// the state that the earlier ones leave.
func Check(x *Index, p Plan) []Violation {
	if len(p.Actions) == 0 { // as most plans are
		return nil
	}
	c := newChecker(x)
	for i := range p.Actions {
		c.at = i
		c.action(&p.Actions[i])
	}
	return c.found
}

// checker is a snapshot, and what the actions judged so far make of it.
type checker struct {
	x     *Index
	at    int
	found []Violation

	done     map[[2]string]bool           // what was done, and to what
	orders   map[string]bool              // ids in use
	exist    map[string]int               // machines by pool
	live     map[string]int               // live machines by pool
	free     map[string]pricing.Resources // room by host
	cordoned map[string]bool              // nodes cordoned by the plan
	budgets  map[string]int               // evictions left by workload
	paid     *Paid
	pods     map[string]*Pod
}

func newChecker(x *Index) *checker {
	c := &checker{
		x:    x,
		done: map[[2]string]bool{}, orders: map[string]bool{}, exist: map[string]int{}, live: map[string]int{},
		free: map[string]pricing.Resources{}, cordoned: map[string]bool{}, budgets: map[string]int{},
	}
	for i := range x.Snapshot.Machines {
		c.orders[x.Snapshot.Machines[i].Order] = true
	}
	c.paid = c.x.Paid()
	for _, p := range c.x.Pools {
		c.exist[p.Name], c.live[p.Name] = p.Exist, p.Live
	}
	for _, h := range c.x.Hosts {
		c.free[h.Name] = h.Free
	}
	for _, b := range x.Budgets {
		if left, ok := c.budgets[b.Workload]; !ok || b.Allowed < left {
			c.budgets[b.Workload] = b.Allowed
		}
	}
	return c
}

func (c *checker) fault(code, format string, args ...any) {
	c.found = append(c.found, Violation{c.at, code, fmt.Sprintf(format, args...)})
}

// once reports the second time that the same is done to the same thing.
func (c *checker) once(what, name string) {
	key := [2]string{what, name}
	if c.done[key] {
		c.fault(Repeated, "%s of %s is in the plan already", what, name)
	}
	c.done[key] = true
}

func (c *checker) action(a *Action) {
	if len(a.Reasons) == 0 {
		c.fault(ReasonMissing, "%s has no reason", a.Kind)
	}
	if p := c.x.Pool(a.Pool); p != nil && p.Held(a.Kind) != nil {
		c.fault(PoolHeld, "%s, pool %s: %s", a.Kind, a.Pool, *p.Held(a.Kind))
	}
	switch a.Kind {
	case Buy:
		c.buy(a)
	case Cordon, Uncordon:
		c.mark(a)
	case Evict:
		c.evict(a)
	case DeletePod:
		c.deletePod(a)
	case Return:
		c.giveBack(a)
	case Stash:
		c.stash(a)
	case Wake:
		c.wake(a)
	case Reboot:
		c.reboot(a)
	default:
		c.fault(UnknownKind, "%q is not one of Buy, Cordon, Uncordon, Evict, DeletePod, Return, Stash, Wake, Reboot", a.Kind)
	}
}

func (c *checker) buy(a *Action) {
	if a.Order == "" || c.orders[a.Order] {
		c.fault(OrderUsed, "order %q is empty or belongs to another machine", a.Order)
	}
	c.orders[a.Order] = true
	pool, host := c.x.Pool(a.Pool), c.x.Host(a.Host)
	if pool == nil || host == nil || a.Shape == nil {
		c.fault(NotThere, "pool %q, host %q or the shape is not there", a.Pool, a.Host)
		return
	}
	if c.exist[a.Pool]++; c.exist[a.Pool] > pool.Max {
		c.fault(OrderBeyondMax, "pool %s would have %d machines of at most %d", a.Pool, c.exist[a.Pool], pool.Max)
	}
	if pool.Closed != nil {
		c.fault(OrderInClosed, "pool %s makes no machines now: %s", a.Pool, *pool.Closed)
	}
	if rate, within := c.paid.With(*a.Shape, a.Host); !within {
		c.fault(OrderOverLimit, "all machines would cost %s/h of at most %s/h", rate, c.x.Limit)
	}
	c.paid.Add(*a.Shape, a.Host)
	if !slices.Contains(pool.Shapes, *a.Shape) {
		c.fault(ShapeNotOffered, "pool %s has no shape %+v", a.Pool, *a.Shape)
	}
	if !pool.Takes(host.Host) {
		c.fault(HostNotUsable, "host %s is off line, cordoned or not one of pool %s's", a.Host, a.Pool)
	}
	if why := pool.refuses(*a.Shape, a.Host); why != nil {
		c.fault(OrderRefused, "pool %s makes no %s on %s now: %s", a.Pool, a.Shape.Name, a.Host, *why)
	}
	c.take(a.Host, *a.Shape)
}

// take takes the room of a machine on a host.
func (c *checker) take(host string, s pricing.Shape) {
	c.free[host] = c.free[host].Minus(s.Resources())
	if free := c.free[host]; free.CPU < 0 || free.Memory < 0 {
		c.fault(HostOvercommitted, "host %s would have %s left", host, Amount(free))
	}
}

// ours finds the node of an action, which must have a machine of ours behind it.
func (c *checker) ours(a *Action) *NodeLoad {
	n := c.x.among(len(c.x.loads), a.Node)
	switch {
	case n == nil:
		c.fault(NotThere, "node %q is not there", a.Node)
		return nil
	case n.Machine == "":
		c.fault(NotOurs, "node %s has no machine of ours", a.Node)
		return nil
	}
	return n
}

func (c *checker) mark(a *Action) {
	n := c.ours(a)
	if n == nil {
		return
	}
	c.once("cordon or uncordon", a.Node)
	if a.Kind == Cordon {
		c.notHeld(n.VM)
		c.cordoned[a.Node] = true
	} else if !n.Draining {
		c.fault(NotOurCordon, "node %s is not being drained by us", a.Node)
	}
}

// emptied complains unless the node was closed to new pods before, by us: otherwise the
// scheduler refills what is being emptied.
func (c *checker) emptied(n *NodeLoad) {
	if !(n.Draining && n.Cordoned) && !c.cordoned[n.Name] {
		c.fault(NodeNotCordoned, "node %s is not cordoned by us", n.Name)
	}
}

// leaves is the pod that an action has leave, and its node, with what must hold for any; nil if the
// pod is not there.
func (c *checker) leaves(a *Action) (*NodeLoad, *Pod) {
	n := c.ours(a)
	if n == nil {
		return nil, nil
	}
	p := c.pod(a.Pod)
	if p == nil || p.Node != n.Name {
		c.fault(NotThere, "pod %q is not on node %s", a.Pod, a.Node)
		return nil, nil
	}
	c.once("eviction", a.Pod)
	c.emptied(n)
	c.notHeld(n.VM)
	return n, p
}

func (c *checker) evict(a *Action) {
	_, p := c.leaves(a)
	if p == nil {
		return
	}
	if p.Pinned != "" || p.Daemon || p.Terminating || p.Finished() {
		c.fault(PodNotMovable, "pod %s is pinned (%s), a daemon, leaving or finished", a.Pod, p.Pinned)
	}
	left, ok := c.budgets[p.Workload]
	if !ok || p.Unbudgeted {
		return // no budget, no limit
	}
	if c.budgets[p.Workload]--; left < 1 {
		c.fault(BudgetOverdrawn, "no more pods of %s may be evicted now", p.Workload)
	}
}

// deletePod complains of a pod that its pool does not say may be deleted.
func (c *checker) deletePod(a *Action) {
	n, p := c.leaves(a)
	if p == nil {
		return
	}
	pool := c.x.Pool(n.Pool)
	if p.Daemon || p.Finished() || !n.Ready || pool == nil || pool.Disruption.TerminationGracePeriod == 0 || a.Grace < Duration(time.Second) {
		c.fault(PodNotMovable, "pod %s is a daemon, finished, on a node that is not ready or of a pool without terminationGracePeriod, or has no time to end", a.Pod)
	}
}

// notHeld complains of a machine that nothing may take down.
func (c *checker) notHeld(m *Machine) {
	if m == nil {
		return
	}
	if why := c.x.Hold(m); why != nil {
		c.fault(HeldMachine, "machine %s: %s", m.Name, *why)
	}
}

// pod finds a pod by name; most plans evict none, so the names are only read then.
func (c *checker) pod(name string) *Pod {
	if c.pods == nil {
		c.pods = make(map[string]*Pod, len(c.x.Pods))
		for i := range c.x.Pods {
			c.pods[c.x.Pods[i].Name] = &c.x.Pods[i]
		}
	}
	return c.pods[name]
}

// machine finds the machine of an action that starts, stops or deletes it.
func (c *checker) machine(a *Action) *Machine {
	m := c.x.Machine(a.Machine)
	if m == nil {
		c.fault(NotThere, "machine %q is not there", a.Machine)
		return nil
	}
	c.once("return, stash, wake or reboot", a.Machine)
	return m
}

// stash is giving back without deleting; what cannot be seen to be empty is not stopped.
func (c *checker) stash(a *Action) {
	m := c.machine(a)
	if m == nil {
		return
	}
	n := c.x.AnyNodeOf(m.Name)
	if m.Phase != Joined || n == nil || !n.Ready || c.x.Away(m.Host) {
		c.fault(NotJoined, "machine %s is %s, and no node that is ready on a host that is there", m.Name, m.Phase)
		return
	}
	c.leave(m, n)
}

// reboot ends what runs on the node: nothing that could be moved, if the node is ready.
func (c *checker) reboot(a *Action) {
	m := c.machine(a)
	if m == nil {
		return
	}
	n, pool := c.x.AnyNodeOf(m.Name), c.x.Pool(m.Pool)
	switch {
	case m.Phase != Joined || m.Kept() || n == nil || c.x.Away(m.Host):
		c.fault(NotJoined, "machine %s is %s, and no node on a host that is there", m.Name, m.Phase)
		return
	case pool == nil || !pool.Disruption.Repair.Reboots(m, c.x.Now):
		c.fault(RebootNotAsked, "pool %s has machine %s not rebooted now", m.Pool, m.Name)
	}
	c.notHeld(m)
	if n.Ready {
		c.empty(n, m)
	}
}

// wake is an order that need not be made.
func (c *checker) wake(a *Action) {
	m := c.machine(a)
	if m == nil {
		return
	}
	pool, host := c.x.Pool(m.Pool), c.x.Host(m.Host)
	switch {
	case pool == nil || host == nil:
		c.fault(NotThere, "pool %q or host %q is not there", m.Pool, m.Host)
		return
	case !m.Kept() || m.Phase == Spare && m.Drifted != "" && pool.Renews(c.x):
		c.fault(NotSpare, "machine %s is %s and no spare, or it drifted and is to be replaced: %q", m.Name, m.Phase, m.Drifted)
		return
	}
	c.live[m.Pool]++
	if m.Phase != Spare {
		return // it runs already, or will, and is paid for
	}
	if !pool.Wakes(host.Host) {
		c.fault(HostNotUsable, "host %s is off line, cordoned or in maintenance", m.Host)
	}
	if rate, within := c.paid.Waking(m); !within {
		c.fault(OrderOverLimit, "all machines would cost %s/h of at most %s/h", rate, c.x.Limit)
	}
	c.paid.Wake(m)
	c.take(m.Host, m.Shape)
}

func (c *checker) giveBack(a *Action) {
	m := c.machine(a)
	if m == nil {
		return
	}
	if m.Phase == Deleting {
		c.fault(Repeated, "machine %s is being deleted already", m.Name)
	}
	if m.Phase == Failed || m.Phase == Spare || c.x.Away(m.Host) {
		c.leave(m, nil) // all that it held is lost already
		return
	}
	n := c.x.NodeOf(m.Name) // none of one that is being woken: it is as if it were made
	if m.Kept() {
		n = c.x.AnyNodeOf(m.Name)
	}
	if n != nil && !n.Ready && slices.ContainsFunc(a.Reasons, func(r Reason) bool { return r.Code == MachineUnhealthy }) {
		c.emptied(n)
		n = nil // what it ran is lost, and ends for good once the machine is stopped
	}
	c.leave(m, n)
}

// leave holds what is stopped or deleted to the pool's minimum, and its node, if there is one, to
// be empty.
func (c *checker) leave(m *Machine, n *NodeLoad) {
	c.notHeld(m)
	if pool := c.x.Pool(m.Pool); pool != nil && m.Phase.Live() && !m.Kept() {
		if c.live[m.Pool]--; c.live[m.Pool] < pool.Min {
			c.fault(ReturnBelowMin, "pool %s would have %d machines of at least %d", m.Pool, c.live[m.Pool], pool.Min)
		}
	}
	if n != nil {
		c.empty(n, m)
	}
}

// empty holds a node to be closed by us, and without pods.
func (c *checker) empty(n *NodeLoad, m *Machine) {
	c.emptied(n)
	if held := c.x.podsOf(m.Name); len(held) > 0 {
		c.fault(NodeHoldsPods, "node %s still holds %d pods, %s first", n.Name, len(held), held[0].Name)
	}
}
