package planner

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/draft"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/packing"
)

// Pods that are to be spread over zones, or kept apart or together by zone, are given a zone each
// before they are packed: as if they selected it. Those that are to be spread over nodes are
// dealt into as many groups as a node may hold of them, and no node takes two of a group. What
// the packing then finds, the scheduler can place in some order.

// topology is how pods are spread over the domains of labels: those that run, and those that were
// given a domain.
type topology struct {
	*turn
	offers []packing.Offer
	limits map[string]int // machines of each pool that may be wanted
	had    func(*packing.Offer) bool
	due    []dueMachine
	given  map[given]int
	rules  map[string]*rule
	copies map[string]*nodescaler.Pod // of pods, with what they were given
	asked  map[nodescaler.Topology]int
	// levels are by rule how many pods may yet go into each group for nodes that have room.
	levels map[string][]int
	dealt  map[string]int                 // by rule, how many pods were dealt into groups by turns
	nodes  map[[3]string]*nodescaler.Node // that machines become, by pool, shape and host
}

// given is a mark of pods that were given a domain.
type given struct{ mark, key, domain string }

// rule is one topology rule of like pods.
type rule struct {
	nodescaler.Topology
	// has is how many pods with the mark each domain has that there is.
	has map[string]int
	// open are the domains that can take a pod: on a node that is there or on its way, or on a
	// machine that may be ordered, now or once there is room or money for it.
	open map[string]where
	// rates are the lowest of the machines that open a domain.
	rates map[string]pricing.Rate
	// unlabelled is whether a node without the label can take a pod, or a machine that may be
	// ordered.
	unlabelled bool
}

// where is where a domain has room.
type where int

const (
	onNode where = iota + 1
	onOffer
	onceFree
)

// narrow gives the wants that have topology rules their domains, and leaves out those that no
// domain may take.
func (t *grower) narrow(wants []want, offers []packing.Offer) []want {
	if !slices.ContainsFunc(wants, func(w want) bool { return len(w.pod.Topology) > 0 }) {
		return wants
	}
	y := &topology{
		turn: t.turn, offers: offers, limits: t.spares.limits(), had: t.had, due: t.arrivals.due(), given: map[given]int{}, rules: map[string]*rule{},
		copies: map[string]*nodescaler.Pod{}, asked: map[nodescaler.Topology]int{}, levels: map[string][]int{}, dealt: map[string]int{},
		nodes: map[[3]string]*nodescaler.Node{},
	}
	for _, w := range wants {
		for _, r := range w.pod.Topology {
			y.asked[r]++
		}
	}
	nowhere := draft.Findings{}
	placed, late := make([]want, 0, len(wants)), []want(nil)
	wants = y.join(wants, nowhere)
	for len(wants) > 0 {
		for _, w := range wants {
			if p, why := y.place(w.pod); p != nil {
				w.pod = p
				placed = append(placed, w)
			} else if y.follows(w.pod) {
				late = append(late, w)
			} else {
				y.noDomain(nowhere, &w, why)
			}
		}
		if len(late) == len(wants) { // none was placed that others follow
			for _, w := range late {
				_, why := y.place(w.pod)
				y.noDomain(nowhere, &w, why)
			}
			late = nil
		}
		wants, late = late, nil
	}
	t.Conclude(nowhere, "pod")
	slices.SortStableFunc(placed, func(a, b want) int { return strings.Compare(a.item, b.item) })
	return placed
}

// noDomain notes pods that no domain may take.
func (y *topology) noDomain(nowhere draft.Findings, w *want, why string) {
	nowhere.Add(nodescaler.NoDomain, "nowhere for %s: %s", w.item, why)
	if !w.expected {
		y.Strand(w.all(), "a pool in another zone, or a looser spread, affinity or anti-affinity in the pod", &nodescaler.Reason{Code: nodescaler.NoDomain, Text: why})
	}
}

// follows reports whether the pod is to be with others.
func (y *topology) follows(p *nodescaler.Pod) bool {
	return slices.ContainsFunc(p.Topology, func(t nodescaler.Topology) bool { return t.Together })
}

// join makes one item of the pods that are to share a node which none of them is on yet, as many
// as a machine holds.
func (y *topology) join(wants []want, nowhere draft.Findings) []want {
	joined := make([]want, 0, len(wants))
	at := map[string]int{} // items that others join, by mark
	var alone []int        // that nothing holds, as the packing will say
	for _, w := range wants {
		mark := y.shares(w.pod)
		i, begun := at[mark]
		switch {
		case mark == "":
			joined = append(joined, w)
		case !y.held(w.pod, 1):
			alone, joined = append(alone, len(joined)), append(joined, w)
		case !begun:
			at[mark] = len(joined)
			joined = append(joined, w)
		default:
			both := *joined[i].pod
			both.Requests, both.Extra = both.Requests.Plus(w.pod.Requests), both.Extra.Plus(w.pod.Extra)
			if !y.held(&both, len(joined[i].with)+2) {
				y.noDomain(nowhere, &w, "no machine holds it beside the others that it shares a node with, by "+mark)
				continue
			}
			joined[i].pod, joined[i].expected, joined[i].with = &both, joined[i].expected && w.expected, append(joined[i].with, w.pod)
		}
	}
	for _, i := range slices.AppendSeq(alone, maps.Values(at)) {
		free := *joined[i].pod
		free.Topology = slices.DeleteFunc(slices.Clone(free.Topology), func(t nodescaler.Topology) bool { return t.Together && t.Key == nodescaler.HostLabel })
		joined[i].pod = &free
		if n := len(joined[i].with); n > 0 {
			joined[i].item += fmt.Sprintf(" and %d on its node", n)
		}
	}
	return joined
}

// shares is the mark of those that the pod shares a node with, if none of them has one yet and it
// is one itself.
func (y *topology) shares(p *nodescaler.Pod) string {
	for i := range p.Topology {
		if t := &p.Topology[i]; t.Together && t.Key == nodescaler.HostLabel && y.begins(p) {
			return t.Mark
		}
	}
	return ""
}

// held reports whether a node, or a machine that may be ordered, holds the pod, which takes as
// many slots as are given.
func (y *topology) held(p *nodescaler.Pod, slots int) bool {
	return slices.ContainsFunc(y.places.roomy(p), func(n *nodescaler.NodeLoad) bool {
		at := y.places.at[n.Name]
		return at.room.get(at.leaf).slots >= slots
	}) || slices.ContainsFunc(y.offers, func(o packing.Offer) bool {
		pool := y.X.Pool(o.Pool)
		return y.limits[pool.Name] > 0 && o.Slots >= slots && pool.HoldsAs(y.becomes(pool, o.Shape, o.Host), p, o.Shape)
	})
}

// place gives the pod a domain by each of its rules, or says why it has no domain.
func (y *topology) place(p *nodescaler.Pod) (*nodescaler.Pod, string) {
	var groups []*nodescaler.Topology
	of := p
	for i := range p.Topology {
		r := &p.Topology[i]
		if r.Key == nodescaler.HostLabel && !r.Together {
			groups = append(groups, r)
			continue
		}
		domain, why := y.domain(p, of, r)
		if domain == "" && r.Skew == 0 && !r.Together && y.rule(p, of, r).unlabelled {
			// Without the label there is no other that it would have to be apart from.
			of = y.copy(of, r.Key+" absent", func(c *nodescaler.Pod) {
				c.Affinity = c.Affinity.And(nodescaler.Requirement{Key: r.Key, Operator: nodescaler.DoesNotExist})
			})
			continue
		}
		if domain == "" {
			return nil, why
		}
		of = y.copy(of, r.Key+"="+domain, func(c *nodescaler.Pod) {
			c.Selector = maps.Clone(c.Selector)
			if c.Selector == nil {
				c.Selector = map[string]string{}
			}
			c.Selector[r.Key] = domain
		})
	}
	for i := range p.Topology {
		if key := p.Topology[i].Key; key != nodescaler.HostLabel {
			for _, mark := range p.Has {
				y.given[given{mark, key, of.Selector[key]}]++
			}
		}
	}
	for _, r := range groups {
		of = y.deal(p, of, r)
	}
	return of, ""
}

// copy returns the pod with a change, the same one for the same change.
func (y *topology) copy(p *nodescaler.Pod, what string, change func(*nodescaler.Pod)) *nodescaler.Pod {
	key := fmt.Sprintf("%p %s", p, what)
	if y.copies[key] == nil {
		c := *p
		change(&c)
		y.copies[key] = &c
	}
	return y.copies[key]
}

// domain is the one that the pod, with the domains that it was given, goes to: of those that the
// rule allows one with room on a node. Of equals it is that with the fewest of the pods, and of
// those the cheapest.
func (y *topology) domain(p, of *nodescaler.Pod, t *nodescaler.Topology) (best, why string) {
	r := y.rule(p, of, t)
	own := 0
	if slices.Contains(p.Has, t.Mark) {
		own = 1
	}
	least, begins := y.least(r), t.Together && y.begins(p)
	better := func(a, b string) int {
		return cmp.Or(cmp.Compare(r.open[a], r.open[b]), cmp.Compare(y.count(r, a), y.count(r, b)), cmp.Compare(r.rates[a], r.rates[b]), cmp.Compare(a, b))
	}
	for domain := range r.open {
		n := y.count(r, domain)
		_, there := r.has[domain]
		allowed := n == 0
		switch {
		case t.Together:
			allowed = n > 0 || begins
		case t.Skew > 0:
			allowed = n+own-least <= t.Skew || !there && n == 0
		}
		if allowed && (best == "" || better(domain, best) < 0) {
			best = domain
		}
	}
	switch {
	case best != "":
		return best, ""
	case t.Together:
		return "", fmt.Sprintf("no value of %s that can take it has a pod that it is to be with, by %s", t.Key, t.Mark)
	case len(r.open) == 0:
		return "", fmt.Sprintf("no node and no pool with the label %s can take it", t.Key)
	case t.Skew > 0:
		return "", fmt.Sprintf("each value of %s that can take it has too many pods with %s already, by a skew of %d from %d", t.Key, t.Mark, t.Skew, least)
	}
	return "", fmt.Sprintf("each value of %s that can take it has a pod that it is to be apart from, by %s", t.Key, t.Mark)
}

// begins reports whether no pod is there yet that the pod is to be with, and it is one of those
// itself.
func (y *topology) begins(p *nodescaler.Pod) bool {
	for of, n := range y.given {
		if n > 0 && slices.ContainsFunc(p.Topology, func(t nodescaler.Topology) bool { return t.Together && t.Key == of.key && t.Mark == of.mark }) {
			return false
		}
	}
	return y.places.domains.Begins(p)
}

// count is how many pods of the rule a domain has, with those that were given it.
func (y *topology) count(r *rule, domain string) int {
	return r.has[domain] + y.given[given{r.Mark, r.Key, domain}]
}

// least is how many pods of the rule the domain has that has the fewest. Those that no node is in
// count once a pod was given one.
func (y *topology) least(r *rule) int {
	domains := maps.Clone(r.has)
	for domain := range r.open {
		if n := y.given[given{r.Mark, r.Key, domain}]; n > 0 {
			domains[domain] += n
		}
	}
	if len(domains) < r.MinDomains || len(domains) == 0 {
		return 0
	}
	return slices.Min(slices.Collect(maps.Values(domains)))
}

// rule is what a rule of like pods comes to now.
func (y *topology) rule(p, of *nodescaler.Pod, t *nodescaler.Topology) *rule {
	key := fmt.Sprintf("%+v %s %+v %s", *t, nodescaler.Class(of), p.Requests, p.Extra.Key())
	if r := y.rules[key]; r != nil {
		return r
	}
	r := &rule{Topology: *t, has: y.places.domains.Counts(p, t), open: map[string]where{}}
	y.rules[key] = r
	y.look(of, r)
	return r
}

// look finds the domains that can take the pod.
func (y *topology) look(p *nodescaler.Pod, r *rule) {
	r.rates = map[string]pricing.Rate{}
	note := func(n *nodescaler.Node, is where, rate pricing.Rate) {
		domain := n.Labels[r.Key]
		switch was := r.open[domain]; {
		case domain == "":
			r.unlabelled = true
		case was == 0 || is < was:
			r.open[domain], r.rates[domain] = is, rate
		case is == was:
			r.rates[domain] = min(r.rates[domain], rate)
		}
	}
	for _, n := range y.places.roomy(p) {
		note(n.Node, onNode, 0)
	}
	for _, m := range y.due {
		if n := y.takes(p, m.pool, m.shape, m.host); n != nil {
			note(n, onNode, 0)
		}
	}
	for i := range y.offers {
		o := &y.offers[i]
		if y.limits[o.Pool] <= 0 {
			continue
		}
		if n := y.takes(p, o.Pool, o.Shape, o.Host); n != nil {
			is := onOffer
			if !y.had(o) {
				is = onceFree
			}
			note(n, is, o.Rate)
		}
	}
}

// takes is the node that a new machine becomes if it can take the pod, or nil.
func (y *topology) takes(p *nodescaler.Pod, of string, s pricing.Shape, host string) *nodescaler.Node {
	pool := y.X.Pool(of)
	if pool == nil {
		return nil
	}
	n := y.becomes(pool, s, host)
	if !pool.HoldsAs(n, p, s) || y.places.domains.Repelled(p, n) {
		return nil
	}
	return n
}

// becomes is the node that a new machine of the pool on the host becomes, made once for all pods.
func (y *topology) becomes(pool *nodescaler.PoolSize, s pricing.Shape, host string) *nodescaler.Node {
	of := [3]string{pool.Name, s.Name, pool.Apart(host)}
	n := y.nodes[of]
	if n == nil {
		n = pool.NodeOn(s, host)
		y.nodes[of] = n
	}
	return n
}

// had reports whether a machine can be had now: the host has room for it, and the cost limit allows
// it, or a spare in its place.
func (t *grower) had(o *packing.Offer) bool {
	if !o.Shape.Resources().Within(t.Free[o.Host]) {
		return false
	}
	_, within := t.Paid.With(o.Shape, o.Host)
	return within || t.spares.wakeableOn(o.Pool, o.Shape, t.X.Pool(o.Pool).Apart(o.Host))
}

// deal puts the pod into a group of which no node takes two. A node that holds some already takes
// those of the first groups alone. As many go into each group as there are nodes with room that
// take them, and the rest by turns into those that a new node takes: as many as the skew, for it is
// the node with the fewest. Groups beyond are for nodes that are there.
func (y *topology) deal(p, of *nodescaler.Pod, t *nodescaler.Topology) *nodescaler.Pod {
	id := fmt.Sprintf("%+v %s", *t, nodescaler.Class(of))
	levels := y.levels[id]
	if levels == nil {
		levels = y.level(p, of, t)
		y.levels[id] = levels
	}
	group := slices.IndexFunc(levels, func(n int) bool { return n > 0 })
	if group >= 0 {
		levels[group]--
	} else {
		group = y.dealt[id] % min(t.Skew, len(levels))
		y.dealt[id]++
	}
	mark := groupMark(t, group)
	return y.copy(of, mark, func(c *nodescaler.Pod) {
		c.Has, c.Repels = withMark(c.Has, mark), withMark(c.Repels, mark)
		if group >= t.Skew {
			c.Affinity = c.Affinity.And(nodescaler.Requirement{Key: nodescaler.NameField, Operator: nodescaler.Exists})
		}
	})
}

// groupMark is what the pods of a group have and repel.
func groupMark(t *nodescaler.Topology, group int) string {
	return t.Mark + ", " + strconv.Itoa(group+1) + " of " + strconv.Itoa(t.Skew) + " on a node"
}

func withMark(marks []string, mark string) []string {
	marks = append(slices.Clip(marks), mark)
	slices.Sort(marks)
	return slices.Compact(marks)
}

// level says how many pods the nodes with room take of each group, and has nodes that hold some
// refuse the others. While machines come, nodes take as many as beside one that has none; else as
// many as once each has what it has room for, up to the fullest's share. Nodes count that the pod
// might go to by its own rules, and it goes to those alone that it was given.
func (y *topology) level(p, of *nodescaler.Pod, t *nodescaler.Topology) []int {
	holds := map[string]int{} // how many more a node has room for
	will := y.places.domains.Counts(p, t)
	for _, n := range y.places.roomy(p) {
		domain := cmp.Or(n.Labels[t.Key], n.Name)
		if has, counts := will[domain]; counts {
			will[domain] = has + y.places.holds(n.Name, p, y.asked[*t])
		}
	}
	for _, n := range y.places.roomy(of) {
		holds[n.Name] = y.places.holds(n.Name, of, y.asked[*t])
	}
	least := 0
	if len(will) >= max(t.MinDomains, 1) && len(y.coming) == 0 {
		least = slices.Min(slices.Collect(maps.Values(will)))
	}
	takes, most := make([]int, len(y.X.Nodes)), min(t.Skew, y.asked[*t])
	for i := range y.X.Nodes {
		n := &y.X.Nodes[i]
		takes[i] = min(max(t.Skew+least-marked(n.Crowd, t), 0), y.asked[*t])
		most = max(most, min(takes[i], holds[n.Name]))
	}
	levels := make([]int, most)
	for i := range y.X.Nodes {
		n := &y.X.Nodes[i]
		for group := range min(takes[i], holds[n.Name]) {
			levels[group]++
		}
		y.refuse(n, t, min(takes[i], most), most)
	}
	return levels
}

// refuse has the node take no pod of the groups from one to another.
func (y *topology) refuse(n *nodescaler.NodeLoad, t *nodescaler.Topology, from, to int) {
	if from == to {
		return
	}
	var marks []string
	for group := from; group < to; group++ {
		marks = append(marks, groupMark(t, group))
	}
	slices.Sort(marks)
	held := &nodescaler.Pod{Pod: first(n.Crowd, t.Mark).Pod, Has: marks}
	y.places.crowds[n.Name] = y.places.crowds[n.Name].With(held)
}

// marked is how many of the pods count for the rule. Those that are on their way out do where
// pods are kept apart.
func marked(crowd nodescaler.Crowd, t *nodescaler.Topology) (n int) {
	for _, p := range crowd {
		if _, has := slices.BinarySearch(p.Has, t.Mark); has && (!p.Terminating || t.Skew == 0) {
			n++
		}
	}
	return n
}

// first is a pod of the crowd with the mark.
func first(crowd nodescaler.Crowd, mark string) *nodescaler.Pod {
	for _, p := range crowd {
		if _, has := slices.BinarySearch(p.Has, mark); has {
			return p
		}
	}
	return &nodescaler.Pod{}
}
