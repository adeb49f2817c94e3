package planner

import (
	"slices"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/draft"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/packing"
)

// Where a machine is to be had from several pools for the same price, it comes from the pool that
// its pods prefer. A preference costs nothing, orders no machine more, and moves no pod: what
// would cost more is given up, and the order says what it was.

// preferring chooses the pool of a machine by what its pods prefer.
type preferring struct {
	*market
	// marked are pods that preferences are about, once there are preferences.
	marked map[string]map[*nodescaler.Node]int
}

// prefer changes an offer for one that the pods of the machine prefer, and gives the reasons.
// What the packing has yet to order keeps its room: on hosts, and by number of machines in pools.
func (t *preferring) prefer(o *packing.Offer, b *bundle, planned map[string]pricing.Resources, left map[string]int) (why []nodescaler.Reason) {
	if !slices.ContainsFunc(b.pods, func(p *nodescaler.Pod) bool { return len(p.Prefers)+len(p.Noted) > 0 }) {
		return nil
	}
	was, most := *o, t.liking(t.node(o), b)
	var dearer *packing.Offer
	from := t.X.Pool(was.Pool)
	// its minimum would have it order one all the same
	owed := t.rules.EnforceNodeGroupMinSize && t.live(from)+left[was.Pool] < from.Min
	for i := range t.X.Pools {
		p := &t.X.Pools[i]
		if t.Room[p.Name] <= left[p.Name] || !t.makes(p.Name) {
			continue
		}
		for _, alike := range t.X.Kinds(p.Pool) {
			likes := t.liking(p.NodeOn(alike.Shapes[0], alike.Host), b)
			if likes <= most {
				continue
			}
			switch other := t.cheapest(p, &alike, b, planned); {
			case other == nil:
			case other.Rate <= o.Rate && (!owed || p == from):
				*o, most = *other, likes
			case dearer == nil || other.Rate < dearer.Rate:
				dearer = other
			}
		}
	}
	if is := t.called(o); is != t.called(&was) {
		why = append(why, draft.Because(nodescaler.PreferencesMet, "pool %s rather than %s for no more: %s", is, t.called(&was), t.wish(o, &was, b)))
	}
	if dearer != nil && t.liking(t.node(dearer), b) > most {
		why = append(why, draft.Because(nodescaler.PreferenceGivenUp, "%s, and %s of pool %s would cost %s/h in place of %s/h",
			t.wish(dearer, o, b), dearer.Shape.Name, t.called(dearer), dearer.Rate, o.Rate))
	}
	return why
}

// node is what an offered machine becomes.
func (t *preferring) node(o *packing.Offer) *nodescaler.Node {
	return t.X.Pool(o.Pool).NodeOn(o.Shape, o.Host)
}

// called names the pool of an offer, and the shape and the host where pods choose by them.
func (t *preferring) called(o *packing.Offer) string {
	name, p := o.Pool, t.X.Pool(o.Pool)
	if p.ShapeIsType {
		name += "/" + o.Shape.Name
	}
	if host := p.Apart(o.Host); host != "" {
		name += " on " + host
	}
	return name
}

// suffices reports whether another host of the same pool is no worse to the pods of a machine.
func (t *preferring) suffices(o *packing.Offer, host string, b *bundle) bool {
	p := t.X.Pool(o.Pool)
	return t.takesAll(o, host, b.pods) && (!p.HostIsZone || t.liking(p.NodeOn(o.Shape, host), b) >= t.liking(t.node(o), b))
}

// cheapest is the pool's cheapest machine of a kind that holds the pods, on a host that runs
// already; or nil.
func (t *preferring) cheapest(p *nodescaler.PoolSize, of *nodescaler.MachineKind, b *bundle, planned map[string]pricing.Resources) (best *packing.Offer) {
	for _, s := range of.Shapes {
		if !t.suits(p, s, of.Host, b) {
			continue
		}
		for i := range t.X.Hosts {
			h := &t.X.Hosts[i]
			rate := t.X.Rate(s, h.Name)
			if (of.Host == "" || of.Host == h.Name) && (best == nil || rate < best.Rate) && p.Makes(s, h.Host) && !t.asleep(h) && s.Resources().Within(t.Free[h.Name].Minus(planned[h.Name])) {
				best = &packing.Offer{Pool: p.Name, Shape: s, Host: h.Name, Rate: rate}
			}
		}
	}
	return best
}

// suits reports whether a new machine holds all of the pods, which share a node as far as they
// are concerned.
func (t *preferring) suits(p *nodescaler.PoolSize, s pricing.Shape, host string, b *bundle) bool {
	room, n := p.Empty(s), p.NodeOn(s, host)
	if !b.used.Requests.Within(room.Free) || room.Extra.Lacks(b.used.Extra, nil) != "" || b.used.Pods > room.Slots {
		return false
	}
	for _, pod := range b.pods {
		if nodescaler.Accepts(pod, n) != "" || room.Crowd.Clash(pod) != nil || t.places.domains.Repelled(pod, n) {
			return false
		}
	}
	return true
}

// liking is how much the pods like a node.
func (t *preferring) liking(n *nodescaler.Node, b *bundle) (sum int) {
	for _, p := range b.pods {
		for i := range p.Prefers {
			sum += t.likes(&p.Prefers[i], n)
		}
	}
	return sum
}

// likes is what a preference makes of a node: of those that are spread, the fewer are there the
// better.
func (t *preferring) likes(w *nodescaler.Preference, n *nodescaler.Node) int {
	const unlabelled = 1000 // pods, for a node that is in no domain
	r := &w.Rule
	if r.Key == "" {
		if w.Affinity.Meets(n) {
			return w.Weight
		}
		return 0
	}
	there, labelled := 0, n.Labels[r.Key] != ""
	for other, count := range t.noticed()[r.Mark] {
		if labelled && other.Labels[r.Key] == n.Labels[r.Key] {
			there += count
		}
	}
	switch {
	case r.Together && there > 0:
		return w.Weight
	case r.Together:
		return 0
	case !labelled:
		there = unlabelled
	case r.Skew == 0:
		there = min(there, 1)
	}
	return -there * w.Weight
}

// wish names what speaks most for one offer against another.
func (t *preferring) wish(o, other *packing.Offer, b *bundle) (text string) {
	most, is, than := 0, t.node(o), t.node(other)
	for _, p := range b.pods {
		for i := range p.Prefers {
			if w := &p.Prefers[i]; t.likes(w, is)-t.likes(w, than) > most {
				most, text = t.likes(w, is)-t.likes(w, than), p.Name+" prefers "+w.String()
			}
		}
	}
	return text
}

// noticed is how many pods that preferences are about each node has, by mark: of those that stay,
// and of machines that this plan orders.
func (t *preferring) noticed() map[string]map[*nodescaler.Node]int {
	if t.marked == nil {
		t.marked = map[string]map[*nodescaler.Node]int{}
		for i := range t.X.Nodes {
			if n := &t.X.Nodes[i]; !n.Draining {
				t.notice(n.Node, n.Pods)
			}
		}
	}
	return t.marked
}

func (t *preferring) notice(n *nodescaler.Node, pods []*nodescaler.Pod) {
	for _, p := range pods {
		for _, mark := range p.Noted {
			if t.noticed()[mark] == nil {
				t.marked[mark] = map[*nodescaler.Node]int{}
			}
			t.marked[mark][n]++
		}
	}
}
