package planner

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/draft"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/packing"
)

// places is the room on nodes that pods could move to, and a simulation of moving them there.
// Each pod goes to the first node that takes it, the fullest nodes first, so that the emptiest
// ones stay free to be reclaimed.
type places struct {
	groups []*group
	at     map[string]slot
	taken  map[string]int // pods that the simulation put on a node, by node
	// crowds are the marked ones of those, and of machines that are not there yet.
	crowds map[string]nodescaler.Crowd
	// domains count pods for rules of topology, as they are moved.
	domains *nodescaler.Domains
}

// group is the nodes with the same taints. A pod that does not tolerate them skips the group
// at once, instead of being refused by every node of it.
type group struct {
	key   string
	nodes []*nodescaler.NodeLoad
	room  firstFit
	extra []pricing.Amounts // what is free besides
}

// slot is where a node is.
type slot struct {
	*group
	leaf int
}

func (s slot) node() string { return s.nodes[s.leaf].Name }

// nodesOf names the nodes of slots.
func nodesOf(slots []slot) []string {
	var names []string
	for _, s := range slots {
		names = append(names, s.node())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// newPlaces is the nodes that are open for moves, with what is used of each.
func newPlaces(x *nodescaler.Index, domains *nodescaler.Domains, open func(*nodescaler.NodeLoad) bool, used func(*nodescaler.NodeLoad) nodescaler.Used) *places {
	s := &places{at: make(map[string]slot, len(x.Nodes)), taken: map[string]int{}, crowds: map[string]nodescaler.Crowd{}, domains: domains}
	groups := map[string]*group{}
	for i := range x.Nodes {
		n := &x.Nodes[i]
		if !open(n) {
			continue
		}
		key := taintKey(n.Taints)
		if groups[key] == nil {
			groups[key] = &group{key: key}
			s.groups = append(s.groups, groups[key])
		}
		groups[key].nodes = append(groups[key].nodes, n)
	}
	slices.SortFunc(s.groups, func(a, b *group) int { return cmp.Compare(a.key, b.key) })
	for _, g := range s.groups {
		slices.SortStableFunc(g.nodes, func(a, b *nodescaler.NodeLoad) int {
			full := func(n *nodescaler.NodeLoad) float64 { return draft.Dominant(n.Used.Requests, n.Allocatable) }
			return cmp.Or(-cmp.Compare(full(a), full(b)), cmp.Compare(a.Name, b.Name))
		})
		g.room, g.extra = newFirstFit(len(g.nodes)), make([]pricing.Amounts, len(g.nodes))
		for i, n := range g.nodes {
			u := used(n)
			g.room.set(i, room{n.Allocatable.Minus(u.Requests), nodescaler.Slots(n.PodSlots) - u.Pods})
			g.extra[i] = n.Extra.Minus(u.Extra)
			s.at[n.Name] = slot{g, i}
		}
	}
	return s
}

// fork are the same places with moves of their own. Domains are shared.
func (s *places) fork() *places {
	f := &places{groups: make([]*group, len(s.groups)), at: make(map[string]slot, len(s.at)), taken: map[string]int{}, crowds: maps.Clone(s.crowds), domains: s.domains}
	for i, g := range s.groups {
		own := *g
		own.room.tree, own.extra = slices.Clone(g.room.tree), slices.Clone(g.extra)
		f.groups[i] = &own
		for leaf, n := range own.nodes {
			f.at[n.Name] = slot{&own, leaf}
		}
	}
	return f
}

// taintKey is the same for the same set of taints; untainted nodes come first.
func taintKey(taints []nodescaler.Taint) string {
	if len(taints) == 0 {
		return ""
	}
	keys := make([]string, len(taints))
	for i, t := range taints {
		keys[i] = t.Key + "=" + t.Value + ":" + t.Effect
	}
	slices.Sort(keys)
	return strings.Join(keys, ",")
}

// find returns the first place that takes the pod.
func (s *places) find(p *nodescaler.Pod) (slot, bool) {
	for _, g := range s.groups {
		if !nodescaler.Tolerates(p, g.nodes[0].Taints) {
			continue
		}
		for i := g.room.next(0, p.Requests); i >= 0; i = g.room.next(i+1, p.Requests) {
			n := g.nodes[i]
			if g.extra[i].Lacks(p.Extra, nil) == "" && nodescaler.Accepts(p, n.Node) == "" && s.clash(n, p) == nil && !s.domains.Refuses(p, n.Node) {
				return slot{g, i}, true
			}
		}
	}
	return slot{}, false
}

// clash is a pod on the node that this one cannot share it with, or nil.
func (s *places) clash(n *nodescaler.NodeLoad, p *nodescaler.Pod) *nodescaler.Pod {
	return cmp.Or(n.Crowd.Clash(p), s.crowds[n.Name].Clash(p))
}

// move puts all the pods of a node somewhere and returns where each goes; or it moves none and
// returns the first pod that fits nowhere.
func (s *places) move(from *nodescaler.Node, pods []*nodescaler.Pod) (moves []slot, stuck *nodescaler.Pod) {
	moves = make([]slot, 0, len(pods))
	// all at once, for so they leave: with some there, others would be let to where they are not
	for _, p := range pods {
		s.domains.Put(p, from, -1)
	}
	for _, p := range pods {
		at, ok := s.find(p)
		if !ok {
			for i, m := range moves {
				s.put(m, pods[i], -1)
			}
			for _, p := range pods {
				s.domains.Put(p, from, 1)
			}
			return nil, p
		}
		s.put(at, p, 1)
		moves = append(moves, at)
	}
	return moves, nil
}

// leave moves pods from the node that holds them, and perhaps others that need no place, and
// returns where each goes; or the reason for which one of them must stay or has no place.
func (s *places) leave(n *nodescaler.Node, held, moving []*nodescaler.Pod) ([]slot, *nodescaler.Reason) {
	for _, p := range held {
		if p.Pinned != "" && !p.Terminating {
			r := draft.Because(nodescaler.PodPinned, "%s holds %s, which must not be evicted: %s", n.Name, p.Name, p.Pinned)
			return nil, &r
		}
	}
	to, stuck := s.move(n, moving)
	if stuck != nil {
		r := draft.Because(nodescaler.NoPlaceElsewhere, "%s holds %s, which asks for %s and fits on no other node", n.Name, stuck.Name, nodescaler.Asks(stuck))
		return nil, &r
	}
	return to, nil
}

// put moves the pod to a place, or takes it off again with a sign of -1.
func (s *places) put(at slot, p *nodescaler.Pod, sign int) {
	s.taken[at.node()] += sign
	s.add(at, p, sign)
}

// add counts the pod at a place, or no more with a sign of -1.
func (s *places) add(at slot, p *nodescaler.Pod, sign int) {
	r := at.room.get(at.leaf)
	at.room.set(at.leaf, room{r.free.Minus(p.Requests.Times(sign)), r.slots - sign})
	if sign > 0 {
		at.extra[at.leaf] = at.extra[at.leaf].Minus(p.Extra)
	} else {
		at.extra[at.leaf] = at.extra[at.leaf].Plus(p.Extra)
	}
	s.domains.Put(p, at.nodes[at.leaf].Node, sign)
	if crowd := s.crowds[at.node()]; sign > 0 {
		s.crowds[at.node()] = crowd.With(p)
	} else {
		s.crowds[at.node()] = crowd.Without(p)
	}
}

// take puts the pod on the node of that name, if that is a place, whether or not it fits.
func (s *places) take(node string, p *nodescaler.Pod) {
	if at, ok := s.at[node]; ok {
		s.put(at, p, 1)
	}
}

// close takes a node that is to be emptied out of the places, and returns what reopens it. As long
// as there is a Node the scheduler has it for a domain: a pod that fits once it is gone waits until
// then, and a machine is ordered for it.
func (s *places) close(n *nodescaler.Node) (reopen func()) {
	open, uncordon := s.shut(n), s.domains.Cordon(n)
	return func() {
		open()
		uncordon()
	}
}

// shut has a node take no pods, and returns what reopens it.
func (s *places) shut(n *nodescaler.Node) (reopen func()) {
	at, ok := s.at[n.Name]
	if !ok {
		return func() {}
	}
	was := at.room.get(at.leaf)
	at.room.set(at.leaf, none)
	return func() { at.room.set(at.leaf, was) }
}

// roomy are the nodes that have room for the pod.
func (s *places) roomy(p *nodescaler.Pod) (nodes []*nodescaler.NodeLoad) {
	for _, g := range s.groups {
		for i, n := range g.nodes {
			fits := g.room.get(i).takes(p.Requests) && g.extra[i].Lacks(p.Extra, nil) == "" && nodescaler.Accepts(p, n.Node) == ""
			if fits && s.clash(n, p) == nil && !s.domains.Repelled(p, n.Node) {
				nodes = append(nodes, n)
			}
		}
	}
	return nodes
}

// holds is how many pods like this one the place has room for, at most so many.
func (s *places) holds(node string, p *nodescaler.Pod, most int) int {
	at, ok := s.at[node]
	if !ok {
		return 0
	}
	r := at.room.get(at.leaf)
	n := at.extra[at.leaf].Times(p.Extra, min(most, max(r.slots, 0)))
	if p.Requests.CPU > 0 {
		n = min(n, int(max(r.free.CPU, 0)/p.Requests.CPU))
	}
	if p.Requests.Memory > 0 {
		n = min(n, int(max(r.free.Memory, 0)/p.Requests.Memory))
	}
	return n
}

// refusals is the classes that a node like this one with such marked pods does not take.
func (s *places) refusals(classes map[string]*nodescaler.Pod, n *nodescaler.Node, crowds ...nodescaler.Crowd) packing.Refusals {
	var r packing.Refusals
	refuse := func(class, why string) {
		if r == nil {
			r = packing.Refusals{}
		}
		r[class] = why
	}
	for class, p := range classes {
		if code := nodescaler.Accepts(p, n); code != "" {
			refuse(class, code+": "+nodescaler.Mismatch(p, n))
			continue
		}
		if s.domains.Repelled(p, n) {
			refuse(class, nodescaler.PodsApart+": a pod of its zone, or another domain, is to be apart from it")
			continue
		}
		for _, crowd := range crowds {
			if other := crowd.Clash(p); other != nil {
				refuse(class, nodescaler.PodsApart+": "+nodescaler.Clashing(p, other))
			}
		}
	}
	return r
}

// room is what is free at a place, or the most that is free at any place of a range.
type room struct {
	free  pricing.Resources
	slots int
}

// none is room for nothing.
var none = room{slots: -1}

// takes reports whether there is room for a pod. One that asks for nothing of a resource goes
// even where too much of it is promised already.
func (r room) takes(p pricing.Resources) bool {
	return r.slots > 0 && (p.CPU <= 0 || p.CPU <= r.free.CPU) && (p.Memory <= 0 || p.Memory <= r.free.Memory)
}

// firstFit is a row of rooms in which the first with room for a pod is found in the logarithm
// of their number: a binary tree that holds, for each range, the most that is free in it.
// With 1,000 nodes to move 30,000 pods among, looking at every node takes a tenth of a second.
type firstFit struct {
	leaves int // a power of two
	tree   []room
}

func newFirstFit(n int) firstFit {
	leaves := 1 << bits.Len(uint(max(n-1, 0)))
	f := firstFit{leaves, make([]room, 2*leaves)}
	for i := range f.tree {
		f.tree[i] = none
	}
	return f
}

func (f *firstFit) get(i int) room { return f.tree[f.leaves+i] }

func (f *firstFit) set(i int, r room) {
	i += f.leaves
	for f.tree[i] = r; i > 1; {
		i /= 2
		a, b := &f.tree[2*i], &f.tree[2*i+1]
		f.tree[i] = room{pricing.Resources{CPU: max(a.free.CPU, b.free.CPU), Memory: max(a.free.Memory, b.free.Memory)}, max(a.slots, b.slots)}
	}
}

// next returns the first place from on that has room for the pod, or -1.
func (f *firstFit) next(from int, p pricing.Resources) int {
	return f.search(1, 0, f.leaves, from, p)
}

func (f *firstFit) search(node, low, high, from int, p pricing.Resources) int {
	if high <= from || !f.tree[node].takes(p) {
		return -1
	}
	if high-low == 1 {
		return low
	}
	middle := (low + high) / 2
	if i := f.search(2*node, low, middle, from, p); i >= 0 {
		return i
	}
	return f.search(2*node+1, middle, high, from, p)
}
