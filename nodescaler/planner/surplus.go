package planner

import (
	"cmp"
	"maps"
	"slices"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/draft"
)

// Surplus is which nodes could be done without as things are, all of them together: those that are
// empty, and those whose pods fit on the nodes that stay. It says nothing of whether a policy
// would, or when: how long a node has been so, how many may go at once and what disruption budgets
// allow now do not count. The way that was found is a good one and not always the best: what is
// spare can be spared, and what is not might be, in another way.
type Surplus struct {
	x     *nodescaler.Index
	may   func(*nodescaler.NodeLoad) bool
	above map[string]int            // how many machines each pool has above its minimum
	loads map[string]*load          // by node
	at    map[*nodescaler.Pod]*load // where each pod is
	list  []Verdict
	// places are where pods may move to, and order is the nodes in the order they are tried in.
	places  *places
	order   []*load
	domains *nodescaler.Domains // of pods where they are
}

// Verdict is what can be said of one node.
type Verdict struct {
	Node string
	// Kept is why the node cannot be done without; nil if it can, and To is then where its pods
	// would go.
	Kept *nodescaler.Reason
	To   []string
}

// load is a node and the pods on it, once the pods of nodes that are gone have moved.
type load struct {
	*nodescaler.NodeLoad
	pods []*nodescaler.Pod
	used nodescaler.Used
	gone bool
	// largest are the pods that would move, the largest first; nil until they are asked for.
	largest []*nodescaler.Pod
}

// moving are the pods that would move from the node, the largest first.
func (l *load) moving() []*nodescaler.Pod {
	if l.largest != nil {
		return l.largest
	}
	l.largest = make([]*nodescaler.Pod, 0, len(l.pods))
	for _, p := range l.pods {
		if !p.Daemon && !p.Terminating {
			l.largest = append(l.largest, p)
		}
	}
	slices.SortFunc(l.largest, func(a, b *nodescaler.Pod) int {
		return cmp.Or(-cmp.Compare(draft.Dominant(a.Requests, l.Allocatable), draft.Dominant(b.Requests, l.Allocatable)), cmp.Compare(a.Name, b.Name))
	})
	return l.largest
}

// NewSurplus looks at the machines that have become nodes. Of those, may rules out the ones that
// must stay for reasons of their own.
func NewSurplus(x *nodescaler.Index, may func(*nodescaler.NodeLoad) bool) *Surplus {
	s := &Surplus{
		x: x, may: may, above: map[string]int{}, loads: map[string]*load{}, at: map[*nodescaler.Pod]*load{}, domains: nodescaler.NewDomains(x),
	}
	for i := range x.Pools {
		s.above[x.Pools[i].Name] = x.Pools[i].Live - x.Pools[i].Min
	}
	for i := range x.Nodes {
		n := &x.Nodes[i]
		l := &load{NodeLoad: n, pods: n.Pods, used: n.Used}
		s.loads[n.Name] = l
		for _, p := range n.Pods {
			s.at[p] = l
		}
	}
	s.arrange(map[string]nodescaler.Crowd{})
	t := s.trial(nil)
	t.seat(x.Pending)
	t.seat(headroomOf(x))
	s.list = t.run(s.candidates(nil))
	s.settle(t)
	slices.SortFunc(s.list, func(a, b Verdict) int { return cmp.Compare(a.Node, b.Node) })
	return s
}

// headroomOf is the pods that room is kept for.
func headroomOf(x *nodescaler.Index) (pods []*nodescaler.Pod) {
	for i := range x.Headroom {
		h := &x.Headroom[i]
		for range min(h.Count, x.Most(&h.Like)) {
			like := h.Like
			pods = append(pods, &like)
		}
	}
	return pods
}

// List returns what can be said of each node that may rules not out, by name.
func (s *Surplus) List() []Verdict { return s.list }

// Without returns the nodes that could be done without besides if these pods were gone, by name.
// Only the nodes that they are on come into question.
func (s *Surplus) Without(pods []*nodescaler.Pod) []string {
	if len(pods) == 0 {
		return nil
	}
	gone := make(map[*nodescaler.Pod]bool, len(pods))
	for _, p := range pods {
		gone[p] = true
	}
	defer s.domains.Record()()
	var freed []string
	for _, found := range s.trial(gone).run(s.candidates(pods)) {
		if found.Kept == nil {
			freed = append(freed, found.Node)
		}
	}
	slices.Sort(freed)
	return freed
}

// candidates are the nodes that might go: all of them, or those that some pods are on. The emptiest
// come first, and of equals the dearest.
func (s *Surplus) candidates(of []*nodescaler.Pod) []*load {
	if of == nil {
		return s.order
	}
	loads := make(map[*load]bool, len(of))
	for _, p := range of {
		loads[s.at[p]] = true
	}
	var list []*load
	for _, l := range s.order {
		if loads[l] {
			list = append(list, l)
		}
	}
	return list
}

// arrange works out places and order by what is on the nodes: hundreds of trials begin with them.
func (s *Surplus) arrange(crowds map[string]nodescaler.Crowd) {
	s.places = newPlaces(s.x, s.domains, s.open, func(n *nodescaler.NodeLoad) nodescaler.Used { return s.loads[n.Name].used })
	s.places.crowds = crowds
	s.order = nil
	for i := range s.x.Nodes {
		l := s.loads[s.x.Nodes[i].Name]
		if !l.gone && l.VM != nil && l.VM.Phase == nodescaler.Joined && s.may(l.NodeLoad) {
			s.order = append(s.order, l)
		}
	}
	// those that are equal are by name already
	slices.SortStableFunc(s.order, func(a, b *load) int {
		return cmp.Or(
			cmp.Compare(draft.Dominant(a.used.Requests, a.Allocatable), draft.Dominant(b.used.Requests, b.Allocatable)),
			-cmp.Compare(s.x.Rate(a.VM.Shape, a.VM.Host), s.x.Rate(b.VM.Shape, b.VM.Host)))
	})
}

// settle makes the outcome of a trial what further ones begin with.
func (s *Surplus) settle(t *trial) {
	for _, found := range s.list {
		s.loads[found.Node].gone = found.Kept == nil
	}
	for p, node := range t.moves { // each by itself: pods are sorted where they are moved
		l := s.loads[node]
		l.pods, l.used, l.largest = append(slices.Clip(l.pods), p), l.used.With(p), nil
		s.at[p] = l
	}
	s.above = t.above
	s.arrange(t.places.crowds)
}

// trial is an attempt to do without nodes.
type trial struct {
	s      *Surplus
	gone   map[*nodescaler.Pod]bool // pods that are taken not to be there
	places *places
	above  map[string]int
	moves  map[*nodescaler.Pod]string // to which node
}

// trial begins with the room on the nodes that pods may move to, where some pods are taken to be
// gone.
func (s *Surplus) trial(gone map[*nodescaler.Pod]bool) *trial {
	room := s.places.fork()
	for p := range gone {
		l := s.at[p]
		if l == nil {
			continue
		}
		if at, open := room.at[l.Name]; open {
			room.add(at, p, -1)
			continue
		}
		room.domains.Put(p, l.Node, -1)
		room.crowds[l.Name] = room.crowds[l.Name].Without(p)
	}
	return &trial{s, gone, room, maps.Clone(s.above), map[*nodescaler.Pod]string{}}
}

// open reports whether pods may be expected to find room on the node.
func (s *Surplus) open(n *nodescaler.NodeLoad) bool {
	if n.VM != nil && (s.x.Away(n.VM.Host) || !n.VM.Phase.Live()) {
		return false
	}
	return n.Ready && !n.Cordoned && !n.Draining && !s.loads[n.Name].gone
}

// seat gives waiting pods the room that they will have.
func (t *trial) seat(pods []*nodescaler.Pod) {
	for _, p := range pods {
		if at, ok := t.places.find(p); ok {
			t.places.put(at, p, 1)
			t.moves[p] = at.node()
		}
	}
}

// run tries one node after the other; what one leaves or takes is no longer there for the next.
func (t *trial) run(candidates []*load) []Verdict {
	list := make([]Verdict, 0, len(candidates))
	for _, l := range candidates {
		found := Verdict{Node: l.Name}
		if found.Kept = t.stays(l); found.Kept == nil {
			found.To, found.Kept = t.empty(l)
		}
		if _, known := t.above[l.VM.Pool]; known && found.Kept == nil {
			t.above[l.VM.Pool]--
		}
		list = append(list, found)
	}
	return list
}

// stays says why a node stays wherever its pods might go.
func (t *trial) stays(l *load) *nodescaler.Reason {
	var r nodescaler.Reason
	above, known := t.above[l.VM.Pool]
	held := draft.MachineHeld(t.s.x, l.VM)
	switch {
	case held != nil:
		r = draft.Because(held.Code, "%s stays: %s", l.Name, held.Text)
	case t.s.x.Away(l.VM.Host):
		r = draft.Because(nodescaler.HostOffline, "%s stays until its host %s is back", l.Name, l.VM.Host)
	case l.Pinned != "":
		r = draft.Because(nodescaler.NodePinned, "%s stays: it is %s", l.Name, l.Pinned)
	case known && above < 1:
		r = draft.Because(nodescaler.PoolAtMin, "%s stays, since pool %s has no more machines than its minimum", l.Name, l.VM.Pool)
	case l.Starting(t.s.x.Now, nodescaler.NodeStartup):
		r = draft.Because(nodescaler.NodeNotReady, "%s is starting, and pods that wait may be meant for it", l.Name)
	case t.places.taken[l.Name] > 0:
		r = draft.Because(nodescaler.NodeTakesPods, "%s has room that pending or moved pods need", l.Name)
	default:
		return nil
	}
	return &r
}

// empty moves a node's pods to others, the largest first, and closes it.
func (t *trial) empty(l *load) (to []string, kept *nodescaler.Reason) {
	moving := l.moving()
	if len(t.gone) > 0 {
		moving = slices.DeleteFunc(slices.Clone(moving), func(p *nodescaler.Pod) bool { return t.gone[p] })
	}
	reopen := t.places.close(l.Node)
	seats, kept := t.places.leave(l.Node, moving, moving)
	if kept != nil {
		reopen()
		return nil, kept
	}
	for i, at := range seats {
		t.moves[moving[i]] = at.node()
	}
	return nodesOf(seats), nil
}
