package planner

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/draft"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/packing"
)

// Headroom is planned for after all pods that wait and all that leave nodes which are being
// emptied, so that these have the room first. What it takes of nodes is free for nothing else: no
// pod of a node that is to go is planned into it, and a node goes only if its headroom has a place
// elsewhere, as pods have. Only machines that are to go for another reason than their price, and
// whose pods have no other place, have it yield. Nothing of it is remembered: each scan places it
// anew.

// keepRoom keeps headroom free, and orders machines for what has no place. It reports whether it
// ordered any.
func (t *grower) keepRoom() bool {
	if len(t.X.Headroom) == 0 {
		return false
	}
	bought := t.Bought
	asks := map[string]bool{} // namespaces that wait for machines themselves
	for i := range t.wants {
		asks[t.wants[i].pod.Namespace()] = true
	}
	t.Plan.Headroom = make([]nodescaler.HeadroomState, len(t.X.Headroom))
	together, alone := t.roomFor()
	if len(together) > 0 {
		t.keepFor(together, nil, t.all)
	}
	for _, namespace := range slices.Sorted(maps.Keys(alone)) {
		offers := t.all
		if asks[namespace] || t.At[namespace] {
			offers = nil // its quota is for what it waits for
		}
		t.keepFor(alone[namespace], &bill{tenant: t.Tenants.Of(namespace)}, offers)
	}
	for i := range t.Plan.Headroom {
		s := &t.Plan.Headroom[i]
		if s.Missing() > 0 && s.Why == nil {
			s.Why = new(draft.Because(nodescaler.HeadroomShort, "no machine can be ordered for it now"))
		}
		if s.Missing() > 0 {
			t.Note(nodescaler.HeadroomShort, "headroom %s has no room for %s: %s", s.Name, pricing.Count(s.Missing(), "pod"), s.Why.Text)
		}
	}
	return t.Bought > bought
}

// roomFor are the pods for which room is kept: those of namespaces with quotas apart.
func (t *grower) roomFor() (together []want, alone map[string][]want) {
	counts, why := t.Tenants.Room(t.X.Headroom)
	alone = map[string][]want{}
	for i := range t.X.Headroom {
		h, s := &t.X.Headroom[i], &t.Plan.Headroom[i]
		s.Name, s.Wanted, s.Why = h.Name, max(h.Count, 0), why[i]
		n := min(counts[i], t.X.Most(&h.Like)+1) // one more says why there are no more
		wants := make([]want, n)
		for k := range wants {
			like := h.Like
			like.Name = h.Name + "+" + strconv.Itoa(k+1)
			wants[k] = want{item: like.Name, pod: &like, expected: true, room: s}
		}
		if namespace := h.Like.Namespace(); t.Tenants.Of(namespace) != nil {
			alone[namespace] = append(alone[namespace], wants...)
		} else {
			together = append(together, wants...)
		}
	}
	return together, alone
}

// keepFor places headroom, and orders machines for the rest.
func (t *grower) keepFor(wants []want, alone *bill, offers []packing.Offer) {
	slices.SortFunc(wants, func(a, b want) int { return strings.Compare(a.item, b.item) })
	wants = t.narrow(wants, offers)
	r := t.solve(t.problem(wants, offers))
	if alone != nil { // what is kept already counts before anything more is ordered
		for i := range r.Placements {
			if bin := r.Placements[i].Bin; bin != "" {
				alone.add(nodescaler.Take{Rate: t.roomRate(bin, wants[i].pod), Replicas: 1})
			}
		}
	}
	t.settle(wants, r, alone, offers)
	t.wants = append(t.wants, wants...)
}

// hasRoom notes that there is room for a pod of headroom on a node, or on a machine that is coming.
func (t *grower) hasRoom(w *want, bin string) {
	if w.room == nil {
		return
	}
	pods := 1 + len(w.with)
	w.room.Rate += t.roomRate(bin, w.pod)
	if _, there := t.places.at[bin]; !there {
		w.room.Coming += pods
		return
	}
	w.room.Ready += pods
	t.headroom[bin] = append(t.headroom[bin], w.pod)
}

// roomRate is a pod's part of what a machine costs, by its requests; 0 where that is not ours.
func (t *grower) roomRate(bin string, p *nodescaler.Pod) pricing.Rate {
	if n := t.X.Node(bin); n != nil {
		if n.VM == nil {
			return 0
		}
		return partOf(t.X.Rate(n.VM.Shape, n.VM.Host), p, n.Allocatable)
	}
	for _, m := range t.arrivals.due() {
		if pool := t.X.Pool(m.pool); m.name == bin && pool != nil {
			return partOf(m.rate, p, pool.Capacity(m.shape))
		}
	}
	return 0
}

func partOf(rate pricing.Rate, p *nodescaler.Pod, capacity pricing.Resources) pricing.Rate {
	return pricing.Rate(float64(rate) * min(draft.Dominant(p.Requests, capacity), 1))
}

// ordered notes that a machine is ordered for headroom.
func (b *bundle) ordered(rate pricing.Rate, capacity pricing.Resources) {
	for _, w := range b.rooms {
		w.room.Coming += 1 + len(w.with)
		w.room.Rate += partOf(rate, w.pod, capacity)
	}
}

// short notes why no machine is ordered for headroom.
func (b *bundle) short(code, format string, args ...any) {
	for _, w := range b.rooms {
		w.room.Why = new(draft.Because(code, format, args...))
	}
}

// takesPods reports whether the node takes in pods that wait or leave other nodes. Headroom that is
// kept there does not count.
func (t *turn) takesPods(node string) bool { return t.places.taken[node] > len(t.headroom[node]) }

// yielding does something as if no headroom were kept, for a node that is closed. What has a place
// after that is kept on.
func (t *turn) yielding(closed string, do func()) {
	was := t.headroom
	if len(was) == 0 {
		do()
		return
	}
	t.headroom = map[string][]*nodescaler.Pod{}
	nodes := slices.Sorted(maps.Keys(was))
	for _, node := range nodes {
		for _, p := range was[node] {
			if node == closed { // its room is not on offer
				t.places.domains.Put(p, t.places.at[node].nodes[t.places.at[node].leaf].Node, -1)
				t.places.taken[node]--
			} else {
				t.places.put(t.places.at[node], p, -1)
			}
		}
	}
	do()
	for _, node := range nodes {
		for _, p := range was[node] {
			if at, has := t.places.find(p); has {
				t.places.put(at, p, 1)
				t.headroom[at.node()] = append(t.headroom[at.node()], p)
			}
		}
	}
}
