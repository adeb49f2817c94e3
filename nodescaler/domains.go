package nodescaler

import (
	"slices"
	"strconv"
)

// Domains counts pods by domain while a policy moves them between nodes, so that the rules of
// topology can be checked. It is nil for a snapshot without such rules, and refuses nothing then.
type Domains struct {
	nodes            []*Node
	closed, cordoned map[string]bool
	// has maps each mark that a rule names to the pods with it and their nodes. apart counts the
	// pods of a domain that must be apart from a mark. keys are the topology keys of these rules,
	// by mark.
	has   map[string]map[*Pod]*Node
	apart map[domain]int
	keys  map[string][]string
	// tallies are by what they count, by the rule of a pod, and by mark.
	tallies map[tallied]*tally
	rules   map[*Topology]*tally
	of      map[string][]*tally
	// log is what changed since Record, or nil.
	log *[]moved
}

// moved is a change: a pod that was added, or a node that was opened or uncordoned, or the contrary
// with a sign of -1.
type moved struct {
	pod     *Pod
	node    *Node
	sign    int
	cordons bool
}

type domain struct{ key, mark, value string }

// tallied is what a tally goes by: pods that count the same nodes share one.
type tallied struct {
	Topology
	by string
}

// NewDomains counts the pods on the index's nodes. To the scheduler cordoned nodes and those of
// spares are domains as well, as long as there is a Node, while a rule does not read taints.
func NewDomains(x *Index) *Domains {
	future := func(f Future) bool { return len(f.Like.Topology) > 0 }
	room := func(h Headroom) bool { return len(h.Like.Topology) > 0 }
	if !x.ruled && !slices.ContainsFunc(x.Snapshot.Future, future) && !slices.ContainsFunc(x.Headroom, room) {
		return nil
	}
	d := &Domains{
		closed: map[string]bool{}, cordoned: map[string]bool{}, has: map[string]map[*Pod]*Node{}, apart: map[domain]int{},
		keys: map[string][]string{}, tallies: map[tallied]*tally{}, rules: map[*Topology]*tally{}, of: map[string][]*tally{},
	}
	for i := range x.Snapshot.Pods {
		d.name(&x.Snapshot.Pods[i])
	}
	for i := range x.Snapshot.Future {
		d.name(&x.Snapshot.Future[i].Like)
	}
	for i := range x.Headroom {
		d.name(&x.Headroom[i].Like)
	}
	for i := range x.loads {
		n := &x.loads[i]
		d.nodes = append(d.nodes, n.Node)
		for _, p := range n.Crowd {
			d.Put(p, n.Node, 1)
		}
	}
	return d
}

// name notes the marks of the pod's rules.
func (d *Domains) name(p *Pod) {
	for i := range p.Topology {
		t := &p.Topology[i]
		if d.has[t.Mark] == nil {
			d.has[t.Mark] = map[*Pod]*Node{}
		}
		if t.apart() && !slices.Contains(d.keys[t.Mark], t.Key) {
			d.keys[t.Mark] = append(d.keys[t.Mark], t.Key)
		}
	}
}

// Put adds the pod to the node, or takes it off with a sign of -1.
func (d *Domains) Put(p *Pod, n *Node, sign int) {
	if d == nil || !p.Marked() {
		return
	}
	d.note(moved{pod: p, node: n, sign: sign})
	for _, mark := range p.Has {
		pods, named := d.has[mark]
		if !named {
			continue
		}
		if sign > 0 {
			pods[p] = n
		} else {
			delete(pods, p)
		}
		for _, t := range d.of[mark] {
			if !d.skips(t, n) {
				t.put(p, n, sign)
			}
		}
	}
	for i := range p.Topology {
		if t := &p.Topology[i]; t.apart() {
			d.apart[domain{t.Key, t.Mark, n.domain(t.Key)}] += sign
		}
	}
}

// Cordon has a node be as it is once it takes no more pods: no domain, for rules that read taints.
// It returns a function that takes that back.
func (d *Domains) Cordon(n *Node) (uncordon func()) {
	if d == nil || n.Cordoned || d.cordoned[n.Name] {
		return func() {}
	}
	d.cordon(n, -1)
	return func() { d.cordon(n, 1) }
}

func (d *Domains) cordon(n *Node, sign int) {
	d.note(moved{node: n, sign: sign, cordons: true})
	d.cordoned[n.Name] = sign < 0
	for _, t := range d.tallies {
		if !t.readsTaints {
			continue
		}
		for p, at := range d.has[t.Mark] {
			if at == n {
				t.put(p, n, sign)
			}
		}
		if !d.closed[n.Name] {
			t.open(n, sign)
		}
	}
}

// skips reports whether the tally does not count the node because it is cordoned.
func (d *Domains) skips(t *tally, n *Node) bool { return t.readsTaints && d.cordoned[n.Name] }

// Close removes a node that is as good as gone from its domains. It returns a function that adds it
// again.
func (d *Domains) Close(n *Node) (reopen func()) {
	if d == nil || d.closed[n.Name] {
		return func() {}
	}
	d.open(n, -1)
	return func() { d.open(n, 1) }
}

func (d *Domains) open(n *Node, sign int) {
	d.note(moved{node: n, sign: sign})
	d.closed[n.Name] = sign < 0
	for _, t := range d.tallies {
		if !d.skips(t, n) {
			t.open(n, sign)
		}
	}
}

// Record logs the changes from now on, and returns a function that reverts them.
func (d *Domains) Record() (undo func()) {
	if d == nil {
		return func() {}
	}
	var log []moved
	d.log = &log
	return func() {
		d.log = nil
		for _, m := range slices.Backward(log) {
			switch {
			case m.pod != nil:
				d.Put(m.pod, m.node, -m.sign)
			case m.cordons:
				d.cordon(m.node, -m.sign)
			default:
				d.open(m.node, -m.sign)
			}
		}
	}
}

func (d *Domains) note(m moved) {
	if d.log != nil {
		*d.log = append(*d.log, m)
	}
}

// Refuses reports whether a rule of the pod, or of a pod in the domain, keeps it off the node.
func (d *Domains) Refuses(p *Pod, n *Node) bool {
	if d == nil || !p.Marked() {
		return false
	}
	if d.Repelled(p, n) {
		return true
	}
	for i := range p.Topology {
		if t := &p.Topology[i]; !d.allows(p, n, t) {
			return true
		}
	}
	return false
}

// Repelled reports whether a pod in one of the node's domains has an anti-affinity to this one.
func (d *Domains) Repelled(p *Pod, n *Node) bool {
	if d == nil || len(d.keys) == 0 {
		return false
	}
	for _, mark := range p.Has {
		for _, key := range d.keys[mark] {
			if value := n.domain(key); value != "" && d.apart[domain{key, mark, value}] > 0 {
				return true
			}
		}
	}
	return false
}

// allows reports whether the rule of the pod lets it onto the node.
func (d *Domains) allows(p *Pod, n *Node, t *Topology) bool {
	value, counts := n.domain(t.Key), d.tally(p, t)
	switch {
	case t.apart():
		return value == "" || counts.pods[value] == 0
	case value == "":
		return false
	case t.Together:
		return counts.pods[value] > 0 || d.Begins(p)
	}
	own := 0
	if slices.Contains(p.Has, t.Mark) {
		own = 1
	}
	return counts.pods[value]+own-counts.fewest() <= t.Skew
}

// Begins reports whether the pod is the first of those that are to be together, itself among them.
func (d *Domains) Begins(p *Pod) bool {
	for i := range p.Topology {
		if t := &p.Topology[i]; t.Together && (!slices.Contains(p.Has, t.Mark) || d.tally(p, t).all > 0) {
			return false
		}
	}
	return true
}

// Counts are how many pods with the mark of the pod's rule each domain has that counts for it.
func (d *Domains) Counts(p *Pod, t *Topology) map[string]int {
	counts, of := map[string]int{}, d.tally(p, t)
	for value, n := range of.nodes {
		if n > 0 {
			counts[value] = of.pods[value]
		}
	}
	return counts
}

// tally returns the tally of the pod's rule. Copies of a pod share its rules.
func (d *Domains) tally(p *Pod, t *Topology) *tally {
	if known := d.rules[t]; known != nil {
		return known
	}
	by := tallied{Topology: *t}
	if t.Skew > 0 {
		by.by = Class(&Pod{Selector: p.Selector, Affinity: p.Affinity, Tolerations: p.Tolerations})
		for i := range p.Topology {
			by.by += strconv.Quote(p.Topology[i].Key)
		}
	}
	if d.tallies[by] == nil {
		d.tallies[by] = d.count(p, t)
		d.of[t.Mark] = append(d.of[t.Mark], d.tallies[by])
	}
	d.rules[t] = d.tallies[by]
	return d.rules[t]
}

// count counts the pods of a rule.
func (d *Domains) count(p *Pod, t *Topology) *tally {
	made := &tally{Topology: *t, like: p, nodes: map[string]int{}, pods: map[string]int{}, levels: map[int]int{}}
	made.readsTaints = t.Tolerated && t.Skew > 0 && !tolerates(p, unschedulable)
	for _, n := range d.nodes {
		if !d.closed[n.Name] && !d.skips(made, n) {
			made.open(n, 1)
		}
	}
	for pod, n := range d.has[t.Mark] {
		if !d.skips(made, n) {
			made.put(pod, n, 1)
		}
	}
	return made
}

// tally is how many pods with a mark each domain has.
type tally struct {
	Topology
	like        *Pod           // of the pods that have the rule
	readsTaints bool           // so that cordoned nodes do not count
	nodes       map[string]int // that count, by domain; pods those with the mark
	pods        map[string]int
	all         int
	// levels is how many domains have so many pods, and least the lowest level that any has.
	levels map[int]int
	least  int
}

func (t *tally) put(p *Pod, n *Node, sign int) {
	value := n.domain(t.Key)
	if value == "" || p.Terminating && t.Skew > 0 || !t.Counts(t.like, n) {
		return
	}
	t.level(value, -1)
	t.pods[value] += sign
	t.all += sign
	t.level(value, 1)
}

// open adds the node to its domain, or takes it out of it.
func (t *tally) open(n *Node, sign int) {
	if !t.Counts(t.like, n) {
		return
	}
	value := n.domain(t.Key)
	t.level(value, -1)
	t.nodes[value] += sign
	t.level(value, 1)
}

// level counts the domain among those with as many pods, if it has nodes.
func (t *tally) level(value string, sign int) {
	if t.nodes[value] < 1 {
		return
	}
	is := t.pods[value]
	if t.levels[is] += sign; sign > 0 {
		t.least = min(t.least, is)
	}
}

// fewest is how many pods the domain with the fewest has.
func (t *tally) fewest() int {
	domains := 0
	for _, n := range t.levels {
		domains += n
	}
	if domains < max(t.MinDomains, 1) {
		return 0
	}
	for t.levels[t.least] < 1 {
		t.least++
	}
	return t.least
}
