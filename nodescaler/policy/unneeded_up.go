package policy

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/packing"
)

// grow places the pods that wait, and orders the cheapest machines for those that no node can
// take. It reports whether it ordered any.
func (t *scan) grow() bool {
	wants := t.wanted()
	offers := t.offers()
	if len(wants) > 0 {
		t.tellRefused()
		wants = t.narrow(wants, offers)
		t.serve(wants, offers)
	}
	t.remind(wants)
	t.noteHeld()
	t.noteUnplaced(t.x.Pools, t.shut)
	if t.cfg.EnforceNodeGroupMinSize {
		for i := range t.x.Pools {
			t.fillToMin(&t.x.Pools[i], offers)
		}
	}
	return t.bought > 0
}

// remind notes for the next scan which machines were ordered or woken for which pods.
func (t *scan) remind(wants []want) {
	was := t.meant
	t.meant = map[string]string{}
	for i := range wants {
		if name := wants[i].name(); was[name] != "" {
			t.meant[name] = was[name]
		}
	}
	for i := range t.plan.Actions {
		a := &t.plan.Actions[i]
		for _, pod := range a.Pods {
			t.meant[pod] = cmp.Or(a.Machine, nodescaler.MachineName(a.Pool, a.Order))
		}
	}
}

// want is a pod to be placed, and the name of its item in the packing.
type want struct {
	item     string
	pod      *nodescaler.Pod
	expected bool // and no more than that
	// with are pods that share a node with it, and its item.
	with []*nodescaler.Pod
}

// name is that of the pod, or of the item where there is no pod yet.
func (w *want) name() string { return cmp.Or(w.pod.Name, w.item) }

// all are its pods, each as the item is placed.
func (w *want) all() []*nodescaler.Pod {
	all := []*nodescaler.Pod{w.pod}
	for _, p := range w.with {
		like := *w.pod
		like.Name, like.Workload = p.Name, p.Workload
		all = append(all, &like)
	}
	return all
}

// wanted is the pods to be placed, those that are decided on and do not exist yet included, by the name
// of their item.
func (t *scan) wanted() []want {
	admitted := t.admit()
	wants := make([]want, 0, len(admitted.Pending))
	var cheap, young []string
	delay := time.Duration(t.cfg.NewPodScaleUpDelay)
	for _, p := range admitted.Pending {
		switch {
		case t.expendable(p):
			cheap = append(cheap, p.Name)
			t.park(p, "a higher priority of the pod, or a lower expendablePodsPriorityCutoff of the node policy", because(nodescaler.PodExpendable,
				"its priority of %d is below %d, and no machine is ordered for such pods", p.Priority, t.cfg.ExpendablePodsPriorityCutoff))
		case delay > 0 && t.now.Sub(p.Created) < delay: // without one, a clock that is behind the API server's delays nothing
			young = append(young, p.Name)
		default:
			wants = append(wants, want{item: p.Name, pod: p})
		}
	}
	wants, cheap = t.future(admitted.Future, wants, cheap)
	byItem := func(a, b want) int { return strings.Compare(a.item, b.item) }
	if !slices.IsSortedFunc(wants, byItem) { // they are, if workloads come in the order of their names and no pod waits
		slices.SortFunc(wants, byItem)
	}
	if len(cheap) > 0 {
		t.note(nodescaler.PodExpendable, "no machine is ordered for %s of a priority below %d", some("pod", cheap), t.cfg.ExpendablePodsPriorityCutoff)
	}
	if len(young) > 0 {
		t.note(nodescaler.PodTooYoung, "no machine is ordered yet for %s that wait for less than %s", some("pod", young), t.cfg.NewPodScaleUpDelay)
	}
	return wants
}

// future adds the pods that do not exist yet to those that are wanted, or to those for which nothing is ordered.
func (t *scan) future(future []nodescaler.Future, wants []want, cheap []string) ([]want, []string) {
	named := map[string]int{} // items by workload
	counts := t.few(future)
	for i := range future {
		f, count := &future[i], counts[i]
		if t.expendable(&f.Like) {
			cheap = append(cheap, slices.Repeat([]string{f.Like.Workload}, count)...)
			continue
		}
		before := named[f.Like.Workload]
		named[f.Like.Workload] += count
		for n := range numbers(before + count) {
			if n > before {
				wants = append(wants, want{item: f.Like.Workload + "+" + strconv.Itoa(n), pod: &f.Like, expected: n-before > f.Count})
			}
		}
	}
	return wants, cheap
}

// few is how many replicas of each workload that is to have more are looked at: no more of each, and of all
// together, than all machines that may be could carry. Each is placed by itself, and a million may be asked for.
func (t *scan) few(future []nodescaler.Future) []int {
	const always = 1000 // so many are looked at without asking how many there is room for
	counts, all := make([]int, len(future)), 0
	for i := range future {
		counts[i] = max(future[i].Count, 0)
		if t.cfg.CapacityBufferPodInjectionEnabled {
			counts[i] += max(future[i].Ahead, 0)
		}
		all = min(all+counts[i], math.MaxInt32)
	}
	if all <= always {
		return counts
	}
	type kind struct {
		class, extra string
		requests     pricing.Resources
	}
	rooms, most := map[kind]int{}, 0
	few := make([]int, len(future))
	for i := range future {
		like := &future[i].Like
		k := kind{nodescaler.Class(like), like.Extra.Key(), like.Requests}
		if _, known := rooms[k]; !known {
			rooms[k] = t.x.Most(like)
		}
		few[i], most = min(counts[i], rooms[k]+1), max(most, rooms[k]) // one more says why there are no more
	}
	few = nodescaler.Few(few, most)
	cut := findings{}
	for i, n := range few {
		if n < counts[i] {
			t.tooMany(&future[i].Like)
			cut.add(nodescaler.BeyondAllPools, "%d replicas of %s are to come; machines are planned for %d, for all that may be carry no more", counts[i], future[i].Like.Workload, n)
		}
	}
	cut.tell(t.draft, "workload")
	return few
}

// numbers is 1 to n in the order that they have as text: 1, 10, 11, 12, 2, 3. To sort thousands of names takes as
// long as many a packing.
func numbers(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, k := 0, 1; i < n && yield(k); i++ {
			if k*10 <= n {
				k *= 10
				continue
			}
			for k == n || k%10 == 9 {
				k /= 10
			}
			k++
		}
	}
}

// offers is every machine that may be ordered now, or be had by waking a spare, without what it refuses. Whether there is
// room for it is left to the packing, which says so if there is not.
func (t *scan) offers() []packing.Offer {
	var offers []packing.Offer
	for i := range t.x.Pools {
		p := &t.x.Pools[i]
		if b := t.backoffs[p.Name]; p.Shut() != nil {
			t.plan.Reasons = append(t.plan.Reasons, *p.Shut())
		} else if b.on(t.now) {
			t.note(nodescaler.PoolBackingOff, "no machine is ordered from pool %s until %s, since one failed at %s", p.Name, b.until.UTC().Format(time.TimeOnly), b.failed.UTC().Format(time.TimeOnly))
		}
		for _, s := range p.Shapes {
			room := p.Empty(s)
			for _, h := range t.offering(p, s) {
				offers = append(offers, packing.Offer{Pool: p.Name, Shape: s, Host: h, Rate: t.x.Rate(s, h), Free: room.Free, Extra: room.Extra, Slots: room.Slots})
			}
		}
	}
	return offers
}

// offering are the hosts that machines of a shape are on offer on: those that would be made there. Where none would
// be but a spare stands by, they are all that take the pool's: it is looked for wherever it is.
func (t *scan) offering(p *nodescaler.PoolSize, s pricing.Shape) []string {
	var made, taken []string
	for i := range t.x.Hosts {
		h := t.x.Hosts[i].Host
		if p.Takes(h) {
			taken = append(taken, h.Name)
		}
		if t.makes(p.Name) && p.Makes(s, h) {
			made = append(made, h.Name)
		}
	}
	if len(made) == 0 && t.standsBy(p.Name, s) {
		return taken
	}
	return made
}

// problem states the packing: the pods, the room that is paid for, and what is on offer.
func (t *scan) problem(wants []want, offers []packing.Offer) packing.Problem {
	b := packing.Problem{Items: make([]packing.Item, len(wants)), Offers: offers, Hosts: t.free, Limits: t.limits()}
	classes := map[string]*nodescaler.Pod{} // one pod stands for its class
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
				refuses := t.refusals(classes, n.Node, n.Crowd, t.places.crowds[n.Name])
				b.Bins = append(b.Bins, packing.Bin{Name: n.Name, Free: r.free, Extra: g.extra[i], Slots: r.slots, Refuses: refuses})
			}
		}
	}
	for _, m := range t.due() {
		if p := t.x.Pool(m.pool); p != nil {
			room := p.Empty(m.shape)
			b.Bins = append(b.Bins, packing.Bin{
				Name: m.name, Free: room.Free.Minus(m.used.Requests), Extra: room.Extra.Minus(m.used.Extra), Slots: room.Slots - m.used.Pods,
				Refuses: t.refusals(classes, p.Node(), room.Crowd, m.crowd, t.places.crowds[m.name]),
			})
		}
	}
	refused := map[string]packing.Refusals{} // by pool, of machines without daemons that others clash with: all its shapes are alike
	for i := range offers {
		p := t.x.Pool(offers[i].Pool)
		crowd := p.Empty(offers[i].Shape).Crowd
		known, is := refused[p.Name]
		if !is || len(crowd) > 0 {
			known = t.refusals(classes, p.Node(), crowd)
		}
		if len(crowd) == 0 {
			refused[p.Name] = known
		}
		offers[i].Refuses = known
	}
	b.Apart = apart(classes)
	return b
}

// refusals is the classes that a node like this one with such marked pods does not take.
func (t *scan) refusals(classes map[string]*nodescaler.Pod, n *nodescaler.Node, crowds ...nodescaler.Crowd) packing.Refusals {
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
		if t.places.domains.Repelled(p, n) {
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

// settle turns the packing into orders, and takes what it puts on nodes out of their room. Those for one namespace
// alone end where its quota does.
func (t *scan) settle(wants []want, r packing.Result, alone *bill) {
	bundles, waiting := t.place(wants, r)
	planned, left, full := map[string]pricing.Resources{}, map[string]int{}, findings{}
	for _, p := range r.Purchases {
		left[p.Offer.Pool]++
		planned[p.Offer.Host] = planned[p.Offer.Host].Plus(p.Offer.Shape.Resources())
	}
	for i, at := range alone.order(bundles) {
		p := &r.Purchases[at]
		o, b := p.Offer, &bundles[at]
		planned[o.Host] = planned[o.Host].Minus(o.Shape.Resources())
		left[o.Pool]--
		if !alone.allows(t, &o, b) {
			continue
		}
		if t.wakes(o, p.Items, len(b.asked) > 0) {
			t.boughtFor(&o, b)
			continue
		}
		rather := t.prefer(&o, b, planned, left)
		o.Host = t.spread(o, planned)
		if !t.mayBuy(o) || !t.affords(o.Shape, o.Host) {
			if t.makeWay(o) {
				continue
			}
			for _, pod := range b.asked {
				t.strand(&want{pod: pod}, "", nil)
			}
			if t.makes(o.Pool) && t.room[o.Pool] < 1 {
				pool := t.x.Pool(o.Pool)
				full.add(string(packing.PoolFull), "no %s is ordered for %s: pool %s may have %d machines and has %d, those included that are kept or are being deleted",
					o.Shape.Name, some("pod", p.Items), pool.Name, pool.Max, pool.Exist)
			}
			continue // a smaller one may still be
		}
		t.buy(o.Pool, o.Shape, o.Host,
			because(b.code(), "%s asked for by %s that no node can take", nodescaler.Amount(b.used.Requests), some("pod", p.Items)),
			because(nodescaler.CheapestOffer, "%s on %s at %s/h is machine %d of %d; all of them, for %s, cost %s/h, and none cost less than %s/h",
				o.Shape.Name, o.Host, o.Rate, i+1, len(r.Purchases), plural(waiting, "pod"), r.Rate, r.LowerBound),
			because(nodescaler.RoomiestHost, "of the hosts on which it costs the same and that run already, if any do, %s has the most memory that is not planned for: %s", o.Host, nodescaler.Amount(t.free[o.Host])))
		last := &t.plan.Actions[len(t.plan.Actions)-1]
		last.Reasons = append(last.Reasons, rather...)
		t.waitedFor(last.Order, len(b.asked) > 0)
		t.boughtFor(&o, b)
	}
	full.tell(t.draft, "machine")
}

// place puts the pods where the packing has them. It tells what each purchase is for, and for how many pods there
// are any.
func (t *scan) place(wants []want, r packing.Result) (bundles []bundle, waiting int) {
	var fit []string
	nowhere := findings{}
	bundles = make([]bundle, len(r.Purchases))
	for i := range r.Placements { // in the order of the items, as what is wanted is
		switch p, w := &r.Placements[i], &wants[i]; {
		case p.Bin != "":
			fit = append(fit, p.Item)
			t.places.take(p.Bin, w.pod)
			t.fill(p.Bin, w.pod)
			for range w.with { // each takes a slot more
				t.places.take(p.Bin, &nodescaler.Pod{})
				t.fill(p.Bin, &nodescaler.Pod{})
			}
		case p.Purchase < 0:
			if !w.expected {
				t.strand(w, "", packed(p))
			}
			nowhere.add(string(p.Why), "nowhere for %s: %s%s%s", p.Item, p.Text, t.daemonsShare(w.pod, p.Why), t.unpromised(w.pod, p.Why))
		default:
			waiting++
			bundles[p.Purchase].add(w)
		}
	}
	if len(fit) > 0 {
		t.note(nodescaler.PodsFitExisting, "there is room, on nodes that are there or on their way, for %s", some("pod", fit))
	}
	nowhere.tell(t.draft, "pod")
	return bundles, waiting
}

// daemonsShare names what DaemonSets take of the machines that a pod is too big for, if it fits without them.
func (d *draft) daemonsShare(p *nodescaler.Pod, why packing.Why) string {
	if why != packing.TooBig {
		return ""
	}
	for i := range d.x.Pools {
		pool := &d.x.Pools[i]
		without := *pool.Pool
		without.Daemons = nodescaler.Daemons{}
		for _, s := range pool.Shapes {
			if without.Holds(p, s) {
				takes := without.Capacity(s).Minus(pool.Capacity(s))
				return fmt.Sprintf("; DaemonSets and static pods take %s of each %s of pool %s, which would hold it without them%s",
					nodescaler.Amount(takes), s.Name, pool.Name, largest(pool.Daemons.Sets))
			}
		}
	}
	return ""
}

// unpromised names what a pod asks for that no pool's machines have, and how a pool says that they do.
func (t *scan) unpromised(p *nodescaler.Pod, why packing.Why) string {
	if why != packing.NoResource {
		return ""
	}
	var none []string
	for _, x := range p.Extra {
		if !slices.ContainsFunc(t.x.Pools, func(pool nodescaler.PoolSize) bool { return pool.Has(x.Name) }) {
			none = append(none, x.Name)
		}
	}
	if len(none) == 0 {
		return ""
	}
	return fmt.Sprintf("; it asks for %s, which no pool's machines have: a pool says by resources what its machines have", strings.Join(none, " and "))
}

// largest names the DaemonSet that asks for the most CPU.
func largest(sets []*nodescaler.Pod) string {
	if len(sets) == 0 {
		return ""
	}
	d := slices.MaxFunc(sets, func(a, b *nodescaler.Pod) int { return cmp.Compare(a.Requests.CPU, b.Requests.CPU) })
	return fmt.Sprintf("; the largest is %s, with %s", d.Name, nodescaler.Amount(d.Requests))
}

// bundle is what a machine is bought for.
type bundle struct {
	pods  []*nodescaler.Pod
	names []string          // of all pods, those included that share a node with one of them
	asked []*nodescaler.Pod // those of them that are more than expected
	used  nodescaler.Used
}

func (b *bundle) add(w *want) {
	b.pods, b.used = append(b.pods, w.pod), b.used.With(w.pod)
	b.used.Pods += len(w.with)
	if len(w.with) == 0 {
		b.names = append(b.names, w.item)
	} else {
		b.names = append(b.names, podNames(w.all())...)
	}
	if !w.expected {
		b.asked = append(b.asked, w.all()...)
	}
}

// code says whether anything of it waits or is decided on, or all is only expected.
func (b *bundle) code() string {
	if len(b.asked) > 0 {
		return nodescaler.PodsPending
	}
	return nodescaler.PodsExpected
}

// spread is the host with the most memory left of those on which the offer costs the same, so
// that losing one host loses as little as may be: to the packing all are alike, and it would
// fill them by name. Room that later purchases are planned for is left to them. A host that has
// a price of its own and carries nothing is woken only if all the others are full.
func (t *scan) spread(o packing.Offer, planned map[string]pricing.Resources) string {
	left := maps.Clone(t.free)
	for host, r := range planned {
		left[host] = left[host].Minus(r)
	}
	return t.hostFor(o, left, func(a, b string) int { return -cmp.Compare(left[a].Memory, left[b].Memory) })
}

// hostFor is the host that comes first of those with room on which the offer costs the same. A host that has a
// price of its own and carries nothing comes after all others.
func (t *scan) hostFor(o packing.Offer, left map[string]pricing.Resources, order func(a, b string) int) string {
	best, p := o.Host, t.x.Pool(o.Pool)
	wakes := t.asleep(t.x.Host(best))
	for i := range t.x.Hosts {
		h := &t.x.Hosts[i]
		if !wakes && order(h.Name, best) >= 0 || !o.Shape.Resources().Within(left[h.Name]) {
			continue
		}
		if p.Makes(o.Shape, h.Host) && t.x.Rate(o.Shape, h.Name) == o.Rate && !t.asleep(h) {
			best, wakes = h.Name, false
		}
	}
	return best
}

// asleep reports whether a host has a price of its own and carries nothing.
func (t *scan) asleep(h *nodescaler.HostRoom) bool {
	return h != nil && t.free[h.Name] == h.Room && t.x.Book().HostRate(h.Name, t.now) > 0
}

// live is how many machines the pool will have, with those that the plan has ordered and woken so far.
func (t *scan) live(p *nodescaler.PoolSize) int {
	return p.Live + p.Places() - t.room[p.Name] + t.wokenOf(p.Name)
}

// fillToMin orders the pool's cheapest machines until it has its minimum.
func (t *scan) fillToMin(p *nodescaler.PoolSize, offers []packing.Offer) {
	for live := t.live(p); live < p.Min; live++ {
		if t.wakesAny(p) {
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
			t.note(nodescaler.PoolBelowMin, "pool %s has %d live machines of at least %d, and %s", p.Name, live, p.Min, none)
			return
		}
		o := least(may, func(o packing.Offer) pricing.Rate { return o.Rate })
		if o.Host = t.spread(o, nil); !t.mayBuy(o) || !t.affords(o.Shape, o.Host) {
			if !t.makeWay(o) && t.room[p.Name] < 1 {
				t.note(nodescaler.PoolBelowMin, "pool %s has %d live machines of at least %d, and no place for more", p.Name, live, p.Min)
			}
			return
		}
		t.buy(o.Pool, o.Shape, o.Host, because(nodescaler.PoolBelowMin, "pool %s has %d live machines of at least %d; %s on %s is its cheapest, at %s/h", p.Name, live, p.Min, o.Shape.Name, o.Host, o.Rate))
	}
}
