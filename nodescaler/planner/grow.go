package planner

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/draft"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/packing"
)

// grower chooses which machines to order or to wake for the pods that wait.
type grower struct {
	*market
	spares   *spares
	arrivals *arrivals
	likings  *preferring
	awaited  map[string]bool // nodes and machines that pods were placed on
	all      []packing.Offer // that may be ordered in this scan
	wants    []want
}

// grow places the pods that wait, and orders the cheapest machines for those that no node can
// take. It reports whether it ordered any.
func (t *grower) grow() bool {
	wants := (&demand{t.turn}).list()
	t.posed, t.posing = t.posing, nil
	offers := t.offers()
	t.all = offers
	// Headroom, and pods that are packed anew since a limit refused their machine, have what others
	// leave of machines that are coming.
	t.fills = t.fills || len(t.X.Headroom) > 0 || t.X.Limit > 0
	if len(wants) > 0 {
		t.NoteRefused()
		wants = t.narrow(wants, offers)
		t.serve(wants, offers)
	}
	t.wants = wants
	t.NoteHeld()
	t.NoteUnplaced(t.X.Pools, t.shut)
	if t.rules.EnforceNodeGroupMinSize {
		for i := range t.X.Pools {
			t.fillToMin(&t.X.Pools[i], offers)
		}
	}
	return t.Bought > 0
}

// cancel takes back orders that have not begun and that no pod has needed for some time: a machine
// that does not exist yet costs nothing, and takes the place of others in the queue of clones.
func (t *grower) cancel() {
	unawaited := since{}
	for _, m := range t.coming {
		if m.Phase != nodescaler.Ordered || !m.Created.IsZero() || m.Kept() || t.awaited[m.Name] || t.waitedFor(m.Name) {
			continue
		}
		over := t.X.Now.Sub(unawaited.keep(t.unawaited, m.Name, t.X.Now))
		if t.first || over < t.rules.Cancel() || t.Stays(m) != nil || !t.Reserve(m.Pool) {
			continue
		}
		t.Return(m, draft.Because(nodescaler.OrderCancelled, "%s has not begun, and nothing has needed it for %s", m.Name, over))
	}
	t.unawaited = unawaited
}

// remind notes for the next scan which machines were ordered or woken for which pods.
func (t *grower) remind() {
	was := t.meant
	t.meant = map[string]string{}
	for i := range t.wants {
		if name := t.wants[i].name(); was[name] != "" {
			t.meant[name] = was[name]
		}
	}
	for i := range t.Plan.Actions {
		a := &t.Plan.Actions[i]
		for _, pod := range a.Pods {
			t.meant[pod] = cmp.Or(a.Machine, nodescaler.MachineName(a.Pool, a.Order))
		}
	}
}

// serve plans for what is wanted.
func (t *grower) serve(wants []want, offers []packing.Offer) {
	if t.Tenants == nil {
		t.settle(wants, t.solve(t.problem(wants, offers)), nil, offers)
		return
	}
	apart := maps.Clone(t.At)
	in := func(w want) bool { return apart[w.pod.Namespace()] }
	for {
		together := slices.DeleteFunc(slices.Clone(wants), in)
		if len(together) == 0 {
			break
		}
		r := t.solve(t.problem(together, offers))
		beyond := t.beyond(together, r)
		if len(beyond) == 0 {
			t.settle(together, r, nil, offers)
			break
		}
		maps.Copy(apart, beyond)
	}
	for _, namespace := range slices.Sorted(maps.Keys(apart)) {
		own := slices.DeleteFunc(slices.Clone(wants), func(w want) bool { return w.pod.Namespace() != namespace })
		if len(own) == 0 {
			continue
		}
		r := t.solve(t.problem(own, offers))
		b := &bill{tenant: t.Tenants.Of(namespace)}
		b.add(t.arrivals.charges(own, r)[namespace])
		t.settle(own, r, b, offers)
	}
}

// solve returns the result of a problem. Pods that may have no machine, as at a limit, pose the
// same one at every scan, and a search is most of what a scan costs.
func (t *grower) solve(p packing.Problem) packing.Result {
	i := slices.IndexFunc(t.posed, func(s solved) bool { return reflect.DeepEqual(&s.problem, &p) })
	if i >= 0 {
		t.posing = append(t.posing, t.posed[i])
		return t.posed[i].result
	}
	r := packing.Solve(p)
	// Orders change what these are made from.
	p.Hosts, p.Limits, p.Offers = maps.Clone(p.Hosts), maps.Clone(p.Limits), slices.Clone(p.Offers)
	t.posing = append(t.posing, solved{p, r})
	return r
}

// beyond are the namespaces whose quotas the packing exceeds.
func (t *grower) beyond(wants []want, r packing.Result) map[string]bool {
	all := t.arrivals.charges(wants, r)
	bundles := make([]bundle, len(r.Purchases))
	for i := range r.Placements {
		if p := &r.Placements[i]; p.Purchase >= 0 {
			bundles[p.Purchase].add(&wants[i])
		}
	}
	for i := range bundles {
		for namespace, take := range charge(t.Draft, &r.Purchases[i].Offer, &bundles[i]) {
			all[namespace] = plus(all[namespace], take)
		}
	}
	beyond := map[string]bool{}
	for namespace, take := range all {
		if t.Tenants.Of(namespace).Beyond(take) != nil {
			beyond[namespace] = true
		}
	}
	return beyond
}

// offers is every machine that may be ordered now, or be had by waking a spare, without what it
// refuses. Whether there is room for it is left to the packing, which says so if there is not.
func (t *grower) offers() []packing.Offer {
	var offers []packing.Offer
	for i := range t.X.Pools {
		p := &t.X.Pools[i]
		if b := t.backoffs[p.Name]; p.Shut() != nil {
			t.Plan.Reasons = append(t.Plan.Reasons, *p.Shut())
		} else if b.on(t.X.Now) {
			t.Note(nodescaler.PoolBackingOff, "no machine is ordered from pool %s until %s, since one failed at %s", p.Name, b.until.UTC().Format(time.TimeOnly), b.failed.UTC().Format(time.TimeOnly))
		}
		for _, s := range p.Shapes {
			room := p.Empty(s)
			for _, h := range t.offering(p, s) {
				offers = append(offers, packing.Offer{Pool: p.Name, Shape: s, Host: h, Rate: t.X.Rate(s, h), Free: room.Free, Extra: room.Extra, Slots: room.Slots})
			}
		}
	}
	return offers
}

// offering are the hosts that machines of a shape are on offer on: those that would be made
// there. Where none would be but a spare waits, they are all that take the pool's: it is
// looked for wherever it is. Where pods choose by the host, it is offered where it is.
func (t *grower) offering(p *nodescaler.PoolSize, s pricing.Shape) []string {
	var made, taken []string
	for i := range t.X.Hosts {
		h := t.X.Hosts[i].Host
		if p.Takes(h) {
			taken = append(taken, h.Name)
		}
		if t.makes(p.Name) && p.Makes(s, h) || p.HostIsZone && t.spares.wakeableOn(p.Name, s, h.Name) {
			made = append(made, h.Name)
		}
	}
	if len(made) == 0 && t.spares.wakeableOn(p.Name, s, "") {
		return taken
	}
	return made
}

// problem states the packing: the pods, the room that is paid for, and what is on offer.
func (t *grower) problem(wants []want, offers []packing.Offer) packing.Problem {
	b := packing.Problem{Items: make([]packing.Item, len(wants)), Offers: offers, Hosts: t.Free, Limits: t.spares.limits()}
	classes := map[string]*nodescaler.Pod{} // one pod for each class
	smallest := pricing.Resources{CPU: 1 << 62, Memory: 1 << 62}
	for i, w := range wants {
		p := w.pod
		if i > 0 && p == wants[i-1].pod { // replicas of one workload are looked at once
			b.Items[i] = b.Items[i-1]
			b.Items[i].Name, b.Items[i].Bin = w.item, t.meant[w.name()]
			continue
		}
		class := nodescaler.Class(p)
		classes[class] = p
		smallest.CPU, smallest.Memory = min(smallest.CPU, p.Requests.CPU), min(smallest.Memory, p.Requests.Memory)
		b.Items[i] = packing.Item{Name: w.item, Class: class, Requests: p.Requests, Extra: p.Extra, More: len(w.with), Bin: t.meant[w.name()]}
	}
	for _, g := range t.places.groups {
		for i, n := range g.nodes {
			// Most nodes are too full for any of the pods, and are not even mentioned.
			if r := g.room.get(i); r.takes(smallest) {
				refuses := t.places.refusals(classes, n.Node, n.Crowd, t.places.crowds[n.Name])
				b.Bins = append(b.Bins, packing.Bin{Name: n.Name, Free: r.free, Extra: g.extra[i], Slots: r.slots, Refuses: refuses})
			}
		}
	}
	for _, m := range t.arrivals.due() {
		if p := t.X.Pool(m.pool); p != nil {
			room := p.Empty(m.shape)
			b.Bins = append(b.Bins, packing.Bin{
				Name: m.name, Free: room.Free.Minus(m.used.Requests), Extra: room.Extra.Minus(m.used.Extra), Slots: room.Slots - m.used.Pods,
				Refuses: t.places.refusals(classes, p.NodeOn(m.shape, m.host), room.Crowd, m.crowd, t.places.crowds[m.name]),
			})
		}
	}
	// of machines without daemons that others clash with: all shapes of a pool are alike, but where
	// they are a label
	type kind struct{ pool, host, shape string }
	refused := map[kind]packing.Refusals{}
	for i := range offers {
		p := t.X.Pool(offers[i].Pool)
		crowd := p.Empty(offers[i].Shape).Crowd
		of := kind{pool: p.Name, host: p.Apart(offers[i].Host)}
		if p.ShapeIsType {
			of.shape = offers[i].Shape.Name
		}
		known, is := refused[of]
		if !is || len(crowd) > 0 {
			known = t.places.refusals(classes, p.NodeOn(offers[i].Shape, offers[i].Host), crowd)
		}
		if len(crowd) == 0 {
			refused[of] = known
		}
		offers[i].Refuses = known
	}
	b.Apart = apart(classes)
	return b
}

// settle turns the packing into orders, and takes what it puts on nodes out of their room. Those
// for one namespace alone end where its quota does. Pods whose machine is refused are packed anew
// with the other offers, where what machines carry is counted: under a limit, quotas or headroom.
func (t *grower) settle(wants []want, r packing.Result, alone *bill, offers []packing.Offer) {
	bundles, waiting := t.place(wants, r)
	planned, left, full := map[string]pricing.Resources{}, map[string]int{}, draft.Findings{}
	var refused []refusal
	for _, p := range r.Purchases {
		left[p.Offer.Pool]++
		planned[p.Offer.Host] = planned[p.Offer.Host].Plus(p.Offer.Shape.Resources())
	}
	for i, at := range alone.order(bundles) {
		p := &r.Purchases[at]
		o, b := p.Offer, &bundles[at]
		planned[o.Host] = planned[o.Host].Minus(o.Shape.Resources())
		left[o.Pool]--
		take, why := alone.allows(t.Draft, &o, b)
		if why != nil {
			refused = append(refused, refusal{at, o, why})
			continue
		}
		alone.add(take)
		capacity := t.X.Pool(o.Pool).Capacity(o.Shape)
		if t.spares.wakes(o, p.Items, b) {
			b.ordered(o.Rate, capacity)
			t.arrivals.boughtFor(&o, b)
			continue
		}
		rather := t.likings.prefer(&o, b, planned, left)
		o.Host = t.spread(o, planned, func(host string) bool { return t.likings.suffices(&o, host, b) })
		t.likings.notice(t.X.Pool(o.Pool).NodeOn(o.Shape, o.Host), b.pods)
		if !t.mayBuy(o) || !t.Affords(o.Shape, o.Host) {
			if t.spares.makeWay(o, b.pods) {
				continue
			}
			alone.forgo(take)
			refused = append(refused, refusal{at, o, nil})
			if t.makes(o.Pool) && t.Room[o.Pool] < 1 {
				pool := t.X.Pool(o.Pool)
				full.Add(string(packing.PoolFull), "no %s is ordered for %s: pool %s may have %d machines and has %d, those included that are kept or are being deleted",
					o.Shape.Name, draft.Some("pod", p.Items), pool.Name, pool.Max, pool.Exist)
			}
			continue
		}
		t.Buy(o.Pool, o.Shape, o.Host,
			b.because(p.Items),
			draft.Because(nodescaler.CheapestOffer, "%s on %s at %s/h is machine %d of %d for %s, which cost %s/h in all; no choice costs less than %s/h",
				o.Shape.Name, o.Host, o.Rate, i+1, len(r.Purchases), pricing.Count(waiting, "pod"), r.Rate, r.LowerBound),
			draft.Because(nodescaler.RoomiestHost, "of the hosts with the same price, %s has the most free memory: %s; hosts in use come first", o.Host, nodescaler.Amount(t.Free[o.Host])))
		last := &t.Plan.Actions[len(t.Plan.Actions)-1]
		last.Reasons = append(last.Reasons, rather...)
		t.spares.waitedFor(last.Order, len(b.asked) > 0)
		t.arrivals.boughtFor(&o, b)
		b.ordered(o.Rate, capacity)
	}
	t.Conclude(full, "machine")
	t.retry(wants, r, refused, alone, offers)
}

// refusal is a purchase that is not made: for a quota, or for what else there is no room.
type refusal struct {
	at    int
	offer packing.Offer
	quota *nodescaler.Reason
}

// retry packs pods anew whose machines were refused, without what was refused and what is too dear
// by now. Where pods choose by the host, the same is still had on others, but for a quota. It notes
// those that are left.
func (t *grower) retry(wants []want, r packing.Result, refused []refusal, alone *bill, offers []packing.Offer) {
	if len(refused) == 0 {
		return
	}
	var again []want
	var why []*refusal
	for i := range r.Placements {
		at := func(f refusal) bool { return f.at == r.Placements[i].Purchase }
		if k := slices.IndexFunc(refused, at); k >= 0 {
			again, why = append(again, wants[i]), append(why, &refused[k])
		}
	}
	others := slices.DeleteFunc(slices.Clone(offers), func(o packing.Offer) bool {
		is := func(f refusal) bool {
			p, pool := &r.Purchases[f.at].Offer, t.X.Pool(o.Pool) // as packed, and not as spread
			return p.Pool == o.Pool && p.Shape == o.Shape && (f.quota != nil || pool.Apart(p.Host) == pool.Apart(o.Host))
		}
		return slices.ContainsFunc(refused, is) || !t.had(&o)
	})
	var served []want
	var second packing.Result
	fewer := len(others) < len(offers) // so that it ends
	if fewer && len(others) > 0 && t.counts() && !t.spares.cleared {
		second = t.solve(t.problem(again, others))
	}
	placements := second.Placements
	second.Placements = nil
	for i := range again {
		if len(placements) > 0 && (placements[i].Bin != "" || placements[i].Purchase >= 0) {
			served, second.Placements = append(served, again[i]), append(second.Placements, placements[i])
			continue
		}
		t.forgo(&again[i], why[i], alone)
	}
	if len(served) > 0 {
		t.settle(served, second, alone, others)
	}
}

// forgo notes that no machine is ordered for a want.
func (t *grower) forgo(w *want, why *refusal, alone *bill) {
	var b bundle
	b.add(w)
	if why.quota != nil {
		alone.hold(t.Draft, &b, why.quota)
		return
	}
	b.short(nodescaler.HeadroomShort, "no %s is ordered on %s now: its pool, the host or the cost limit has no room for it", why.offer.Shape.Name, why.offer.Host)
	for _, pod := range b.asked {
		t.Strand([]*nodescaler.Pod{pod}, "", nil)
	}
}

// place puts the pods where the packing has them. It returns what each purchase is for, and for how
// many pods there are any.
func (t *grower) place(wants []want, r packing.Result) (bundles []bundle, waiting int) {
	var fit []string
	nowhere := draft.Findings{}
	bundles = make([]bundle, len(r.Purchases))
	for i := range r.Placements { // in the order of the items, as what is wanted is
		switch p, w := &r.Placements[i], &wants[i]; {
		case p.Bin != "":
			fit = append(fit, p.Item)
			t.awaited[p.Bin] = true
			t.hasRoom(w, p.Bin)
			t.places.take(p.Bin, w.pod)
			t.arrivals.fill(p.Bin, w.pod)
			for range w.with { // each takes a slot more
				t.places.take(p.Bin, &nodescaler.Pod{})
				t.arrivals.fill(p.Bin, &nodescaler.Pod{})
			}
		case p.Purchase < 0:
			if !w.expected {
				t.Strand(w.all(), "", draft.Packed(p))
			}
			if w.room != nil {
				w.room.Why = new(draft.Because(string(p.Why), "%s", p.Text))
			}
			nowhere.Add(string(p.Why), "nowhere for %s: %s%s%s", p.Item, p.Text, t.DaemonsShare(w.pod, p.Why), t.unpromised(w.pod, p.Why))
		default:
			waiting++
			bundles[p.Purchase].add(w)
		}
	}
	if len(fit) > 0 {
		t.Note(nodescaler.PodsFitExisting, "there is room, on nodes that are there or on their way, for %s", draft.Some("pod", fit))
	}
	t.Conclude(nowhere, "pod")
	return bundles, waiting
}

// unpromised names what a pod asks for that no pool's machines have, and how a pool says that
// they do.
func (t *grower) unpromised(p *nodescaler.Pod, why packing.Why) string {
	if why != packing.NoResource {
		return ""
	}
	var none []string
	for _, x := range p.Extra {
		name, _ := pricing.Sharing(x.Name)
		if !slices.ContainsFunc(t.X.Pools, func(pool nodescaler.PoolSize) bool { return pool.Has(name) }) {
			none = append(none, name)
		}
	}
	if len(none) == 0 {
		return ""
	}
	return fmt.Sprintf("; it asks for %s, which no pool's machines have: a pool says by resources what its machines have", strings.Join(none, " and "))
}

// fillToMin orders the pool's cheapest machines until it has its minimum.
func (t *grower) fillToMin(p *nodescaler.PoolSize, offers []packing.Offer) {
	for live := t.live(p); live < p.Min; live++ {
		if t.spares.wakesAny(p) {
			continue
		}
		may := slices.DeleteFunc(slices.Clone(offers), func(o packing.Offer) bool {
			return o.Pool != p.Name || !t.carries(o)
		})
		if len(may) == 0 {
			none := "no host for more"
			if !t.makes(p.Name) {
				none = "no more are made now"
			}
			t.Note(nodescaler.PoolBelowMin, "pool %s has %d live machines of at least %d, and %s", p.Name, live, p.Min, none)
			return
		}
		o := draft.Least(may, func(o packing.Offer) pricing.Rate { return o.Rate })
		if o.Host = t.spread(o, nil, nil); !t.mayBuy(o) || !t.Affords(o.Shape, o.Host) {
			if !t.spares.makeWay(o, nil) && t.Room[p.Name] < 1 {
				t.Note(nodescaler.PoolBelowMin, "pool %s has %d live machines of at least %d, and no place for more", p.Name, live, p.Min)
			}
			return
		}
		t.Buy(o.Pool, o.Shape, o.Host, draft.Because(nodescaler.PoolBelowMin, "pool %s has %d live machines of at least %d; %s on %s is its cheapest, at %s/h", p.Name, live, p.Min, o.Shape.Name, o.Host, o.Rate))
	}
}

// apart are the classes whose pods share no node.
func apart(classes map[string]*nodescaler.Pod) (pairs [][2]string) {
	var marked []string
	for class, p := range classes {
		if p.Marked() {
			marked = append(marked, class)
		}
	}
	slices.Sort(marked)
	for i, a := range marked {
		for _, b := range marked[i:] {
			if nodescaler.Clash(classes[a], classes[b]) {
				pairs = append(pairs, [2]string{a, b})
			}
		}
	}
	return pairs
}
