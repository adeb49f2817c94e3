package nodescaler

import (
	"cmp"
	"maps"
	"slices"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// Index is a snapshot with its lookups computed once. Its lists are sorted by name, so that no
// choice depends on the snapshot's order. It is read-only, like the snapshot that it points into,
// and for one goroutine only: it caches prices.
type Index struct {
	*Snapshot
	Pools []PoolSize
	Hosts []HostRoom
	// Machines are those that are capacity, or will be, or were; Spares those that are kept (see
	// Machine.Kept), which are none.
	Machines, Spares []*Machine
	// Nodes are those that may carry pods. The Node of a spare is not among them. Neither is that
	// of a waking spare until it is Ready again: its status is from before the stop.
	Nodes []NodeLoad
	// Pending are the pods that need a machine: unschedulable, not terminating and no daemons. Pods
	// that no machine would help, and pods nominated to a node, are not among them.
	Pending []*Pod

	ruled               bool // some pod has rules of topology
	pools, hosts, nodes map[string]int
	loads               []NodeLoad // Nodes, and those that are not among them
	ids                 *Identities
	behind              map[string]int   // the first node that names a machine, by machine name
	rivals              map[string][]int // all of them, where there are several
	holds               map[string]Reason
	rates               map[pricing.Placed]pricing.Rate
	fixed               map[string]pricing.Rate // by host
}

// PoolSize is a pool and how many machines it has.
type PoolSize struct {
	*Pool
	// Exist counts every machine that is not gone, in any phase, and every node that claims to be
	// one of the pool's machines: not listed is not gone.
	Exist int
	// Live counts the machines that are, or will be, nodes; spares are not.
	Live int
}

// Places is how many machines more the pool can be asked for now.
func (p *PoolSize) Places() int {
	if p.Shut() != nil {
		return 0
	}
	return max(p.Max-p.Exist, 0)
}

// HostRoom is a host, and what its room is less everything on it, ordered machines included. Spares
// take no room while they are stopped.
type HostRoom struct {
	*Host
	Free pricing.Resources
}

// NodeLoad is a node and what is on it.
type NodeLoad struct {
	*Node
	// VM is the machine behind the node; nil if the node is not ours or its machine is not
	// listed.
	VM *Machine
	// Pods are the node's pods that have not finished, and those that the scheduler makes room for
	// there.
	Pods []*Pod
	Used Used
	// Crowd are those of them that are marked.
	Crowd Crowd
}

// NewIndex indexes the snapshot. There is one for each observation, which is handed on.
func NewIndex(s *Snapshot) *Index {
	x := &Index{Snapshot: s, rates: map[pricing.Placed]pricing.Rate{}, fixed: map[string]pricing.Rate{}}
	x.indexMachines()
	x.indexNodes()
	x.indexPools()
	seeExtras(x)
	seeAllocatable(x)
	x.indexHosts()
	seeZones(x)
	seeTypes(x)
	x.indexPods()
	return x
}

// sorted returns pointers into list in the order of their names.
func sorted[T any](list []T, name func(*T) string) []*T {
	p := make([]*T, len(list))
	for i := range list {
		p[i] = &list[i]
	}
	sortByName(p, name)
	return p
}

func sortByName[T any](p []*T, name func(*T) string) {
	order := func(a, b *T) int { return cmp.Compare(name(a), name(b)) }
	if !slices.IsSortedFunc(p, order) { // as it should be, and then this costs next to nothing
		slices.SortStableFunc(p, order)
	}
}

func (x *Index) indexMachines() {
	all := sorted(x.Snapshot.Machines, func(m *Machine) string { return m.Name })
	x.ids = NewIdentities(x.Snapshot.Machines)
	for _, m := range all {
		if m.Kept() {
			x.Spares = append(x.Spares, m)
		}
	}
	if x.Machines = all; len(x.Spares) > 0 {
		x.Machines = slices.DeleteFunc(all, (*Machine).Kept)
	}
}

func (x *Index) indexNodes() {
	nodes := sorted(x.Snapshot.Nodes, func(n *Node) string { return n.Name })
	x.loads = make([]NodeLoad, 0, len(nodes))
	claims := make([]Claim, 0, len(nodes))
	x.nodes = make(map[string]int, len(nodes))
	x.behind = make(map[string]int, len(nodes))
	x.rivals = map[string][]int{}
	var aside []NodeLoad
	var asideClaims []Claim
	for _, n := range nodes {
		n = awaited(n, x.Snapshot.Pools, x.Now)
		l, c := NodeLoad{Node: n, VM: x.Machine(n.Machine)}, x.ids.Of(n.Identity())
		if m := x.behindNode(n, &c); m != nil && (m.Kept() || m.Waking()) {
			aside, asideClaims = append(aside, l), append(asideClaims, c)
			continue
		}
		x.loads, claims = append(x.loads, l), append(claims, c)
	}
	x.Nodes = x.loads
	if len(aside) > 0 {
		x.loads, claims = append(x.loads, aside...), append(claims, asideClaims...)
		x.Nodes = x.loads[:len(nodes)-len(aside)]
	}
	for i, n := range x.loads {
		x.nodes[n.Name] = i
		for _, m := range claims[i].Named {
			x.names(m.Name, i)
		}
		if n.Machine != "" && n.VM == nil { // not listed
			x.names(n.Machine, i)
		}
	}
	x.holds = holds(x.Snapshot.Machines, func(i int) *Node { return x.loads[i].Node }, claims)
}

// names notes that a node says it is a machine's.
func (x *Index) names(machine string, node int) {
	first, another := x.behind[machine]
	if !another {
		x.behind[machine] = node
		return
	}
	if x.rivals[machine] == nil {
		x.rivals[machine] = []int{first}
	}
	x.rivals[machine] = append(x.rivals[machine], node)
}

// behindNode is the machine behind a node: that of its label, of what it says, or of its name.
func (x *Index) behindNode(n *Node, c *Claim) *Machine {
	return cmp.Or(x.Machine(n.Machine), c.Machine, x.Machine(n.Name))
}

// indexPods deals the pods out to their nodes: counted first, so that all lists share one
// block of memory.
func (x *Index) indexPods() {
	at := make([]int, len(x.Snapshot.Pods))
	counts := make([]int, len(x.loads))
	bound := 0
	for i := range x.Snapshot.Pods {
		p := &x.Snapshot.Pods[i]
		at[i], x.ruled = -1, x.ruled || len(p.Topology) > 0
		switch {
		case p.Finished():
		case p.Node != "":
			if n, ok := x.nodes[p.Node]; ok {
				at[i], counts[n], bound = n, counts[n]+1, bound+1
			}
		case !p.Unschedulable || p.Terminating || p.Daemon:
		case x.nominated(p) >= 0:
			at[i] = x.nominated(p)
			counts[at[i]], bound = counts[at[i]]+1, bound+1
		case x.NotHelped(p) == "":
			x.Pending = append(x.Pending, p)
		}
	}
	block := make([]*Pod, bound)
	for i, n := range counts {
		x.loads[i].Pods, block = block[:0:n], block[n:]
	}
	for i, n := range at {
		if n >= 0 {
			x.loads[n].Pods = append(x.loads[n].Pods, &x.Snapshot.Pods[i])
			x.loads[n].Used = x.loads[n].Used.With(&x.Snapshot.Pods[i])
			if p := &x.Snapshot.Pods[i]; p.Marked() {
				x.loads[n].Crowd = append(x.loads[n].Crowd, p)
			}
		}
	}
	name := func(p *Pod) string { return p.Name }
	for i := range x.loads {
		sortByName(x.loads[i].Pods, name)
	}
	sortByName(x.Pending, name)
}

// nominated is the node that the scheduler makes room on for the pod, or -1. One that takes no pods
// now does not count.
func (x *Index) nominated(p *Pod) int {
	i, is := x.nodes[p.Nominated]
	if p.Nominated == "" || !is || i >= len(x.Nodes) || !x.loads[i].Ready || x.loads[i].Cordoned || x.loads[i].Draining {
		return -1
	}
	return i
}

func (x *Index) indexPools() {
	pools := sorted(x.Snapshot.Pools, func(p *Pool) string { return p.Name })
	x.Pools = make([]PoolSize, len(pools))
	x.pools = make(map[string]int, len(pools))
	for i, p := range pools {
		own := *p // the snapshot's is only to be read
		own.Seen, own.Allocatable = maps.Clone(p.Seen), maps.Clone(p.Allocatable)
		x.Pools[i].Pool = &own
		x.pools[p.Name] = i
	}
	for _, m := range x.Machines {
		if p := x.Pool(m.Pool); p != nil {
			p.Exist++
			if m.Phase.Live() {
				p.Live++
			}
		}
	}
	for _, m := range x.Spares {
		if p := x.Pool(m.Pool); p != nil {
			p.Exist++
		}
	}
	for i := range x.Nodes {
		n := &x.Nodes[i]
		if p := x.Pool(n.Node.Pool); p != nil && n.Machine != "" && n.VM == nil {
			p.Exist++
		}
	}
}

func (x *Index) indexHosts() {
	hosts := sorted(x.Snapshot.Hosts, func(h *Host) string { return h.Name })
	x.Hosts = make([]HostRoom, len(hosts))
	x.hosts = make(map[string]int, len(hosts))
	for i, h := range hosts {
		x.Hosts[i] = HostRoom{Host: h, Free: h.Room}
		x.hosts[h.Name] = i
	}
	for _, m := range x.Machines {
		if h := x.Host(m.Host); h != nil {
			h.Free = h.Free.Minus(m.Shape.Resources())
		}
	}
	for _, m := range x.Spares {
		if h := x.Host(m.Host); h != nil && m.Phase != Spare {
			h.Free = h.Free.Minus(m.Shape.Resources())
		}
	}
}

// Pool returns the pool of that name, or nil.
func (x *Index) Pool(name string) *PoolSize { return find(x.Pools, x.pools, name) }

// Host returns the host of that name, or nil.
func (x *Index) Host(name string) *HostRoom { return find(x.Hosts, x.hosts, name) }

// Node returns the node of that name, or nil.
func (x *Index) Node(name string) *NodeLoad { return x.among(len(x.Nodes), name) }

// among finds one of the first loads by name.
func (x *Index) among(first int, name string) *NodeLoad {
	if i, ok := x.nodes[name]; ok && i < first {
		return &x.loads[i]
	}
	return nil
}

// AllNodes are Nodes, and behind them those of spares and of machines that wake.
func (x *Index) AllNodes() []NodeLoad { return x.loads }

// NodeOf returns the node that the machine of that name became, or nil: one that names it by
// provider ID, system UUID or name. A node that only has the name is taken for it as well: to
// delete the machine under it because a label is missing would be the worse mistake. Of several, it
// is one that is ready, and of those one with pods.
func (x *Index) NodeOf(machine string) *NodeLoad { return x.nodeOf(len(x.Nodes), machine) }

// AnyNodeOf is NodeOf, for machines too whose nodes are not among Nodes.
func (x *Index) AnyNodeOf(machine string) *NodeLoad { return x.nodeOf(len(x.loads), machine) }

func (x *Index) nodeOf(first int, machine string) *NodeLoad {
	var best *NodeLoad
	for _, n := range x.nodesOf(machine) {
		if n < first && (best == nil || x.loads[n].likelier(best)) {
			best = &x.loads[n]
		}
	}
	if best == nil {
		return x.among(first, machine)
	}
	return best
}

// likelier reports whether of two nodes of a machine this one is rather what runs on it.
func (n *NodeLoad) likelier(than *NodeLoad) bool {
	if n.Ready != than.Ready {
		return n.Ready
	}
	return len(n.Held()) > 0 && len(than.Held()) == 0
}

// nodesOf are all nodes that name the machine.
func (x *Index) nodesOf(machine string) []int {
	if all := x.rivals[machine]; all != nil {
		return all
	}
	if i, ok := x.behind[machine]; ok {
		return []int{i}
	}
	return nil
}

// podsOf are the pods that have to be gone from all nodes of the machine before it can go.
func (x *Index) podsOf(machine string) (held []*Pod) {
	for _, n := range x.nodesOf(machine) {
		held = append(held, x.loads[n].Held()...)
	}
	return held
}

// Machine returns the machine of that name, a spare too, or nil.
func (x *Index) Machine(name string) *Machine { return x.ids.Machine(name) }

func find[T any](list []T, at map[string]int, name string) *T {
	if i, ok := at[name]; ok {
		return &list[i]
	}
	return nil
}

// Rate is what a machine of the shape costs on the host now.
func (x *Index) Rate(s pricing.Shape, host string) pricing.Rate {
	of := pricing.Placed{Shape: s, Host: host}
	rate, known := x.rates[of]
	if !known {
		rate = x.Book().Rate(s, host, x.Now)
		x.rates[of] = rate
	}
	return rate
}

// SpareRate is what a machine of the shape costs while it is stopped.
func (x *Index) SpareRate(s pricing.Shape) pricing.Rate { return x.Book().SpareRate(s) }

// hostRate is the fixed part of what the host costs now.
func (x *Index) hostRate(host string) pricing.Rate {
	rate, known := x.fixed[host]
	if !known {
		rate = x.Book().HostRate(host, x.Now)
		x.fixed[host] = rate
	}
	return rate
}

// Book is the snapshot's prices, or the default ones where it has none.
func (x *Index) Book() *pricing.Book {
	if x.Prices == nil {
		return pricing.DefaultBook()
	}
	return x.Prices
}

// Away reports whether the host is known to be off line. A host that is not listed is unknown,
// which is not the same.
func (x *Index) Away(host string) bool {
	h := x.Host(host)
	return h != nil && !h.Online
}

// Dark reports whether the node's machine is on a host that is known to be off line.
func (x *Index) Dark(n *Node) bool {
	m := x.Machine(n.Machine)
	return m != nil && x.Away(m.Host)
}

// Live reports whether a machine in this phase is, or will be, a node without being woken.
func (p Phase) Live() bool { return p == Ordered || p == Booting || p == Joined }

// Finished reports whether the pod has run to its end and takes nothing any more.
func (p *Pod) Finished() bool {
	return p.Phase == podscaler.Failed || p.Phase == podscaler.Succeeded
}

// Capacity is what the pods of a machine of the shape may use, daemons aside.
func (p *Pool) Capacity(s pricing.Shape) pricing.Resources {
	return p.Empty(s).Free
}

// Empty is the room of a new machine of the shape with its daemons, and the daemons that are
// marked. Those of the highest priority come first, and one that asks for more than is left runs
// there no more than on a machine that is there: else one DaemonSet would leave no machine any
// room.
func (p *Pool) Empty(s pricing.Shape) Room {
	r := Room{
		Free:  p.allocatable(s).Minus(p.Daemons.Static.Requests),
		Extra: p.Extras(s).Minus(p.Daemons.Static.Extra),
		Slots: Slots(p.PodSlots) - p.Daemons.Static.Pods,
	}
	for _, d := range p.Daemons.Sets {
		if p.runs(d, s) && r.holds(d) {
			r.Free, r.Extra, r.Slots, r.Crowd = r.Free.Minus(d.Requests), r.Extra.Minus(d.Extra), r.Slots-1, r.Crowd.With(d)
		}
	}
	return r
}

// runs reports whether the daemon runs on machines of the shape: one that selects nodes of other
// shapes does not.
func (p *Pool) runs(d *Pod, s pricing.Shape) bool {
	if !p.ShapeIsType || !d.asksType() {
		return true
	}
	on := func(s pricing.Shape) bool { return selects(d, p.NodeOn(s, "")) }
	return on(s) || !slices.ContainsFunc(p.Shapes, on)
}

// asksType reports whether the pod chooses nodes by their type.
func (p *Pod) asksType() bool {
	_, is := p.Selector[TypeLabel]
	return is || slices.ContainsFunc(p.Affinity, func(all Term) bool {
		return slices.ContainsFunc(all, func(r Requirement) bool { return r.Key == TypeLabel })
	})
}

// holds reports whether there is room for the pod.
func (r *Room) holds(p *Pod) bool {
	return lacks(p, r.Free, r.Extra, nil, r.Slots) == "" && r.Crowd.Clash(p) == nil
}

// NodeOn is the node that the pool's next machine of the shape on the host becomes, as far as pods
// choose by it: it has no name yet. Of an unknown host it has no label.
func (p *Pool) NodeOn(s pricing.Shape, host string) *Node {
	n, host := &Node{Labels: p.Labels, Taints: p.Taints}, p.Apart(host)
	if host == "" && !p.ShapeIsType {
		return n
	}
	n.Labels = map[string]string{}
	if host != "" {
		n.Labels[ZoneLabel] = host
	}
	if p.ShapeIsType {
		n.Labels[TypeLabel] = s.Name
	}
	maps.Copy(n.Labels, p.Labels)
	return n
}

// Apart is the host where pods distinguish the pool's nodes by it, and else empty, for any host.
func (p *Pool) Apart(host string) string {
	if p.HostIsZone {
		return host
	}
	return ""
}

// Holds reports whether a new machine of the shape on the host holds the pod.
func (p *Pool) Holds(pod *Pod, s pricing.Shape, host string) bool {
	return p.HoldsAs(p.NodeOn(s, host), pod, s)
}

// HoldsAs is Holds for a machine that becomes the node.
func (p *Pool) HoldsAs(n *Node, pod *Pod, s pricing.Shape) bool {
	room := p.Empty(s)
	return Accepts(pod, n) == "" && room.holds(pod)
}

// HostsApart are the hosts between which the pool's pods may have to choose: those that may carry
// its machines, where these are labelled by their host. Otherwise it is the empty name, for any
// host.
func (x *Index) HostsApart(p *Pool) []string {
	var hosts []string
	for i := range x.Hosts {
		if p.HostIsZone && p.allows(x.Hosts[i].Name) {
			hosts = append(hosts, x.Hosts[i].Name)
		}
	}
	if len(hosts) == 0 {
		return []string{""}
	}
	return hosts
}

// MachineKind is machines of a pool that become nodes with the same labels: of these shapes, on the
// host, or with an empty name on any.
type MachineKind struct {
	Host   string
	Shapes []pricing.Shape
}

// Kinds are the machines of the pool between which pods may have to choose.
func (x *Index) Kinds(p *Pool) (kinds []MachineKind) {
	shapes := max(len(p.Shapes), 1) // in each kind
	if p.ShapeIsType {
		shapes = 1
	}
	for _, host := range x.HostsApart(p) {
		for alike := range slices.Chunk(p.Shapes, shapes) {
			kinds = append(kinds, MachineKind{host, alike})
		}
	}
	return kinds
}

// Shut says why the pool makes no machines now; nil if it does.
func (p *Pool) Shut() *Reason { return cmp.Or(p.HeldUp, p.Closed) }

// Held says why no action of this kind is done for the pool now; nil if it may be.
func (p *Pool) Held(k Kind) *Reason {
	if k.Grows() {
		return p.HeldUp
	}
	return p.HeldDown
}

// Takes reports whether the host may carry new machines of the pool, regardless of room.
func (p *Pool) Takes(h *Host) bool {
	return p.Wakes(h) && p.allows(h.Name)
}

func (p *Pool) allows(host string) bool { return len(p.Hosts) == 0 || slices.Contains(p.Hosts, host) }

// Makes reports whether a machine of the shape may be made on the host, regardless of room.
func (p *Pool) Makes(s pricing.Shape, h *Host) bool { return p.Takes(h) && p.refuses(s, h.Name) == nil }

// refuses says why no machine of the shape is made on the host for now, or nil.
func (p *Pool) refuses(s pricing.Shape, host string) *Reason {
	for i := range p.Refused {
		r := &p.Refused[i]
		if (r.Shape == pricing.Shape{} || r.Shape == s) && (r.Host == "" || r.Host == host) {
			return &r.Why
		}
	}
	return nil
}

// Wakes reports whether spares of the pool may be woken on the host, regardless of room.
func (p *Pool) Wakes(h *Host) bool {
	return h.Online && !h.Cordoned && !slices.Contains(p.Maintenance, h.Name)
}

// Held returns the pods that must leave the node before its machine can be reclaimed: all but
// daemons. A terminating pod on a node that is not ready does not count. Its end will never be
// observed, and its replacement runs elsewhere.
func (n *NodeLoad) Held() []*Pod {
	var held []*Pod
	for _, p := range n.Pods {
		if !p.Daemon && (n.Ready || !p.Terminating) {
			held = append(held, p)
		}
	}
	return held
}
