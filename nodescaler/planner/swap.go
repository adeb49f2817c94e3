package planner

import (
	"cmp"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/draft"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/packing"
)

// Machines that work and are replaced by cheaper ones. Sets of machines are tried: each of those
// that waste most, the first few of them together, and those that would not be bought from scratch.
// Of each set the packing says what its pods would cost beside the machines that stay. The set goes
// that saves most, if that pays for the move. One set is replaced at a time.

const (
	// swapPays is within which time the saving must pay for the move: load, and with it the fleet,
	// changes in about that time.
	swapPays = 8 * time.Hour
	// swapTwice is for how long a machine and its replacement are both paid for.
	swapTwice = 15 * time.Minute
	// swapMove is what moving a pod costs: so long of its machine's price.
	swapMove = 6 * time.Minute
	// swapWithin is how long a set may take until all of it is being emptied.
	swapWithin = time.Hour
	// swapSoon is how soon after a set went pods that wait for a machine say that it was a mistake.
	swapSoon = 30 * time.Minute
	// seekEvery is how often sets are looked for while machines and pods change, and seekAgain
	// while they do not.
	seekEvery, seekAgain = time.Minute, 30 * time.Minute
	// So many machines are tried each by itself, and so many together.
	swapSingles, swapMost = 8, 24
)

// swapper replaces machines by cheaper ones.
type swapper struct{ *disrupter }

func (t *swapper) run() {
	t.judgeLast()
	t.lookAtCalm()
	if t.swap != nil {
		t.carry()
		return
	}
	list := t.eligible()
	if len(list) == 0 || !t.seeks(list) {
		return
	}
	if best := t.best(list); best != nil {
		t.begin(best)
	}
}

// judgeLast finds out whether the machines of the last set could be done without: no machine was
// ordered for pods that wait within some time.
func (t *swapper) judgeLast() {
	s := &t.sought
	switch {
	case s.swapped.IsZero():
	case t.grew.After(s.swapped):
		for _, e := range s.of {
			t.fail(e)
		}
	case t.X.Now.Sub(s.swapped) < swapSoon:
		return
	default:
		for _, e := range s.of {
			delete(t.circuits, e)
		}
	}
	s.swapped, s.of = time.Time{}, nil
}

// lookAtCalm notes since when nodes hold the same pods, of the pools for which that counts.
func (t *swapper) lookAtCalm() {
	was := t.calm
	t.calm = map[string]calm{}
	for i := range t.X.Nodes {
		n := &t.X.Nodes[i]
		if n.VM == nil || t.consolidation(n.VM.Pool).Policy != nodescaler.WhenEmptyOrUnderutilized {
			continue
		}
		h := fnv.New64a()
		for _, p := range n.Held() {
			h.Write([]byte(p.Name))
			h.Write([]byte{0})
		}
		c := calm{h.Sum64(), t.X.Now}
		if before, ok := was[n.Name]; ok && before.pods == c.pods {
			c.since = before.since
		}
		t.calm[n.Name] = c
	}
}

// costly is a machine that may be replaced by cheaper ones.
type costly struct {
	*nodescaler.NodeLoad
	rate  pricing.Rate
	waste pricing.Rate // what it costs above the cheapest price of what its pods ask for
	moves pricing.Micros
}

// eligible are the machines that may go, those first that waste most.
func (t *swapper) eligible() (list []costly) {
	if t.X.Now.Sub(t.added) < nodescaler.ConsolidateAfter {
		return nil // load grows
	}
	for i := range t.X.Nodes {
		n := &t.X.Nodes[i]
		if c, is := t.calm[n.Name]; !is || t.X.Now.Sub(c.since) < t.calmFor(n.VM.Pool) || t.X.Now.Sub(n.Joined) < t.calmFor(n.VM.Pool) {
			continue
		}
		moving := t.drainer.toMove(n)
		e := end{n.VM.Pool, nodescaler.Underutilized}
		switch {
		case n.VM.Phase != nodescaler.Joined || n.VM.Kept() || n.Draining || t.begun(n.Name) || t.closed[n.Name] != nil:
		case t.takesPods(n.Name): // by pods that wait
		case len(moving) == 0 || t.keeps(n, false) != nil || t.broken(e) != nil || t.drainer.unbudgeted(n) != nil || pinnedOn(n):
		default:
			c := costly{NodeLoad: n, rate: t.X.Rate(n.VM.Shape, n.VM.Host)}
			c.waste = c.rate - t.cheapest(moving)
			c.moves = pricing.Micros(float64(c.rate.For(swapMove)) * max(cost(n), 0))
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(a, b costly) int { return -cmp.Compare(a.waste, b.waste) })
	return list
}

// calmFor is for how long a pool's machines must have held the same pods.
func (t *swapper) calmFor(pool string) time.Duration {
	return cmp.Or(time.Duration(t.consolidation(pool).After), nodescaler.ConsolidateAfter)
}

func pinnedOn(n *nodescaler.NodeLoad) bool {
	return slices.ContainsFunc(n.Held(), func(p *nodescaler.Pod) bool { return p.Pinned != "" && !p.Terminating })
}

// cheapest is what the pods would cost at the lowest price of what they ask for.
func (t *swapper) cheapest(pods []*nodescaler.Pod) pricing.Rate {
	var sum pricing.Resources
	for _, p := range pods {
		sum = sum.Plus(p.Requests)
	}
	least := math.Inf(1)
	for i := range t.grower.all {
		o := &t.grower.all[i]
		least = min(least, float64(o.Rate)*draft.Dominant(sum, o.Free))
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return pricing.Rate(least)
}

// seeks reports whether it is time to look for a set.
func (t *swapper) seeks(list []costly) bool {
	h := fnv.New64a()
	write := func(v uint64) {
		for range 8 {
			h.Write([]byte{byte(v)})
			v >>= 8
		}
	}
	for _, c := range list {
		h.Write([]byte(c.Name))
		write(t.calm[c.Name].pods)
		write(uint64(c.rate))
	}
	for i := range t.grower.all {
		o := &t.grower.all[i]
		h.Write([]byte(o.Pool + "/" + o.Shape.Name + "/" + o.Host))
		write(uint64(o.Rate))
	}
	in, passed := h.Sum64(), t.X.Now.Sub(t.sought.at)
	if passed < seekEvery || in == t.sought.in && passed < seekAgain {
		return false
	}
	t.sought.at, t.sought.in = t.X.Now, in
	return true
}

// offered is a set of machines and what would replace it.
type offered struct {
	set   []costly
	wants []want
	r     packing.Result
	saved pricing.Rate
	price pricing.Micros // of the move
}

// worth is what the set saves within the time that counts, less what the move costs.
func (o *offered) worth() pricing.Micros { return o.saved.For(swapPays) - o.price }

// best is the set that saves most, or nil if none pays.
func (t *swapper) best(list []costly) (best *offered) {
	said := len(t.Plan.Reasons)
	tried := map[string]bool{}
	try := func(set []costly) {
		key := ""
		for _, c := range set {
			key += c.Name + " "
		}
		if len(set) == 0 || tried[key] {
			return
		}
		tried[key] = true
		if o := t.try(set); o != nil && (best == nil || o.worth() > best.worth()) {
			best = o
		}
	}
	within := t.within(list)
	for i := range min(len(within), swapSingles) {
		try(within[i : i+1])
	}
	for _, n := range []int{2, 3, 4, 6, 8, 12, 16, swapMost} {
		try(within[:min(n, len(within))])
	}
	try(t.within(t.fromScratch(list[:min(len(list), swapMost)])))
	t.Plan.Reasons = t.Plan.Reasons[:said] // of attempts
	return best
}

// within are the first machines of the list that budgets and minimums allow to go now.
func (t *swapper) within(list []costly) (may []costly) {
	out := map[string]int{}
	for _, c := range list {
		p, g := t.X.Pool(c.VM.Pool), t.outgoing()[c.VM.Pool]
		limit, by := p.Disruption.Limit(nodescaler.Underutilized, t.X.Now, g.all)
		if by == nil || g.out+out[p.Name] < limit {
			out[p.Name]++
			may = append(may, c)
		}
	}
	return may
}

// solve packs the pods of a set as if its machines were gone.
func (t *swapper) solve(set []costly, offers []packing.Offer) ([]want, packing.Result, bool) {
	var wants []want
	for _, c := range set {
		defer t.places.close(c.Node)()
		for _, p := range t.drainer.toMove(c.NodeLoad) {
			wants = append(wants, want{item: p.Name, pod: p, expected: true})
			t.places.domains.Put(p, c.Node, -1)
			defer t.places.domains.Put(p, c.Node, 1)
		}
	}
	slices.SortFunc(wants, func(a, b want) int { return cmp.Compare(a.item, b.item) })
	narrowed := t.grower.narrow(wants, offers)
	r := t.grower.solve(t.grower.problem(narrowed, offers))
	placed := len(narrowed) == len(wants) && !slices.ContainsFunc(r.Placements, func(p packing.Placement) bool { return p.Bin == "" && p.Purchase < 0 })
	return narrowed, r, placed
}

// fromScratch are the machines of the list that are not among those that would be bought for the
// pods of all of them. Of equal ones those stay whose pods cost most to move.
func (t *swapper) fromScratch(list []costly) (gone []costly) {
	_, r, placed := t.solve(list, t.grower.all)
	if !placed {
		return nil
	}
	bought := map[string]int{}
	for i := range r.Purchases {
		o := &r.Purchases[i].Offer
		bought[o.Pool+"/"+o.Shape.Name]++
	}
	byCost := slices.Clone(list)
	slices.SortStableFunc(byCost, func(a, b costly) int { return -cmp.Compare(a.moves, b.moves) })
	for _, c := range byCost {
		if key := c.VM.Pool + "/" + c.VM.Shape.Name; bought[key] > 0 {
			bought[key]--
		} else {
			gone = append(gone, c)
		}
	}
	return gone
}

// try returns what would replace a set, or nil if it would not pay or cannot be had.
func (t *swapper) try(set []costly) *offered {
	o := &offered{set: set}
	for _, c := range set {
		o.saved += c.rate
		o.price += c.moves
	}
	wants, r, placed := t.solve(set, t.grower.all)
	if !placed || !t.canBuy(set, r) {
		return nil
	}
	for i := range r.Purchases {
		at := &r.Purchases[i].Offer
		o.saved -= at.Rate
		if h := t.X.Host(at.Host); t.grower.asleep(h) {
			o.saved -= t.X.Book().HostRate(at.Host, t.X.Now)
		}
		o.price += at.Rate.For(swapTwice)
	}
	o.wants, o.r = wants, r
	if o.saved <= 0 || o.worth() <= 0 {
		return nil
	}
	return o
}

// canBuy reports whether all that the packing buys could be had together, and whether pools keep
// their minimums without the set.
func (t *swapper) canBuy(set []costly, r packing.Result) bool {
	more, rate := map[string]int{}, t.Paid.Rate()
	for i := range r.Purchases {
		o := &r.Purchases[i].Offer
		more[o.Pool]++
		rate += o.Rate
		if t.Room[o.Pool] < more[o.Pool] || !t.grower.mayBuy(*o) {
			return false
		}
	}
	for _, c := range set {
		more[c.VM.Pool]--
	}
	for pool, n := range more {
		if t.Spare[pool]+n < 0 {
			return false
		}
	}
	return t.X.Limit <= 0 || rate <= t.X.Limit
}

// begin orders what replaces a set, or begins to empty it if nothing has to be ordered.
func (t *swapper) begin(o *offered) {
	names, pods := make([]string, len(o.set)), 0
	s := &swap{ends: map[string]end{}, begun: t.X.Now}
	var rate pricing.Rate
	for i, c := range o.set {
		names[i], rate = c.Name, rate+c.rate
		pods += len(t.drainer.toMove(c.NodeLoad))
		s.ends[c.Name] = end{c.VM.Pool, nodescaler.Underutilized}
	}
	s.why = draft.Because(nodescaler.MachineCostly, "%s at %s/h: there are places for %s that cost %s/h less, which pays for the move within %s",
		draft.Some("node", names), rate, pricing.Count(pods, "pod"), o.saved, (time.Duration(float64(o.price) / float64(o.saved.For(time.Hour)+1) * float64(time.Hour))).Round(time.Minute))
	t.swap = s
	if len(o.r.Purchases) > 0 {
		if t.order(o); len(s.made) < len(o.r.Purchases) {
			t.drop("not all of what replaces them can be ordered")
			return
		}
	}
	t.carry()
}

// order orders what replaces a set.
func (t *swapper) order(o *offered) {
	names := make([]string, len(o.set))
	for i, c := range o.set { // their pods are to go where they can stay
		names[i] = c.Name
		defer t.places.close(c.Node)()
	}
	before := len(t.Plan.Actions)
	t.fills = true
	t.grower.settle(o.wants, o.r, nil, nil)
	for i := before; i < len(t.Plan.Actions); i++ {
		if a := &t.Plan.Actions[i]; a.Kind.Grows() {
			a.For = nil // no namespace asked for it, and no quota counts it
			a.Reasons = append([]nodescaler.Reason{draft.Because(nodescaler.ReplacementOrdered, "it takes in pods of %s", draft.Some("node", names)), t.swap.why}, a.Reasons...)
			t.swap.made = append(t.swap.made, cmp.Or(a.Machine, nodescaler.MachineName(a.Pool, a.Order)))
		}
	}
}

// drop gives a set up. What was ordered for it goes as other machines do that are not needed.
func (t *swapper) drop(why string) {
	t.Note(nodescaler.ReplacementBlocked, "%s; they stay: %s", t.swap.why.Text, why)
	for _, e := range slices.Compact(slices.SortedFunc(maps.Values(t.swap.ends), compareEnds)) {
		t.fail(e)
	}
	t.swap = nil
}

func compareEnds(a, b end) int {
	return cmp.Or(cmp.Compare(a.pool, b.pool), cmp.Compare(a.cause, b.cause))
}

// carry goes on with a set: it waits for what was ordered, and then empties the machines of the set
// as budgets allow.
func (t *swapper) carry() {
	s := t.swap
	var left []*nodescaler.NodeLoad
	for _, name := range slices.Sorted(maps.Keys(s.ends)) {
		n := t.X.Node(name)
		if n == nil || n.VM == nil || t.begun(name) || n.VM.Phase != nodescaler.Joined || t.closed[name] != nil {
			t.sought.of = append(t.sought.of, s.ends[name])
			delete(s.ends, name)
			continue
		}
		left = append(left, n)
	}
	ready := true
	for _, name := range s.made {
		m, n := t.X.Machine(name), t.X.NodeOf(name)
		seen := t.X.Now.Sub(s.begun) > time.Minute // an order may take so long to be seen
		switch _, failed := t.failed[name]; {
		case failed || m == nil && seen:
			t.drop(name + ", which was to replace them, failed")
			return
		case n == nil || !n.Ready:
			ready = false
		}
		t.replacing[name] = end{}
	}
	switch {
	case len(left) == 0:
		t.sought.swapped, t.swap = t.X.Now, nil
		t.sought.of = slices.Compact(slices.SortedFunc(slices.Values(t.sought.of), compareEnds))
		return
	case t.X.Now.Sub(s.begun) > swapWithin:
		t.drop("they could not be emptied within " + pricing.Short(swapWithin))
		return
	}
	for _, n := range left {
		if keeps := t.keeps(n, false); keeps != nil {
			t.drop(keeps.Text)
			return
		}
	}
	t.empty(left, ready)
}

// empty begins to empty the nodes of a set, as budgets allow, once what replaces them is ready.
func (t *swapper) empty(left []*nodescaler.NodeLoad, ready bool) {
	s := t.swap
	if !ready && t.X.Now.After(s.begun) {
		t.keepPlaces(left)
	}
	for _, n := range left {
		t.closed[n.Name] = t.places.close(n.Node)
	}
	for _, n := range left {
		t.replacing[n.Name] = s.ends[n.Name]
		c := &ending{NodeLoad: n, cause: nodescaler.Underutilized, why: s.why}
		if !ready {
			t.await(c, "what is ordered for their pods is ready")
			continue
		}
		if t.leave(c); t.begun(n.Name) {
			delete(t.replacing, n.Name)
			t.sought.of = append(t.sought.of, s.ends[n.Name])
			delete(s.ends, n.Name)
		}
	}
}

// keepPlaces takes the room that the pods of a set will have.
func (t *swapper) keepPlaces(left []*nodescaler.NodeLoad) {
	t.fills = true
	set := make([]costly, len(left))
	for i, n := range left {
		set[i] = costly{NodeLoad: n}
	}
	said := len(t.Plan.Reasons)
	wants, r, _ := t.solve(set, nil)
	t.hold(r, end{})
	t.grower.place(wants, r)
	t.Plan.Reasons = t.Plan.Reasons[:said] // they are as when it began
}

// leave begins to empty a node of a set if its pods have places.
func (t *swapper) leave(c *ending) {
	if p := t.drainer.unbudgeted(c.NodeLoad); p != nil {
		t.kept.Add(nodescaler.BudgetExhausted, "%s, but %s stays for now: it holds %s, whose PodDisruptionBudget allows no eviction", c.why.Text, c.Name, p.Name)
		return
	}
	if spent := t.spend(c.VM.Pool, c.cause); spent != nil {
		t.kept.Add(spent.Code, "%s, but %s stays for now: %s", c.why.Text, c.Name, spent.Text)
		return
	}
	to, blocked := t.drainer.leave(c.NodeLoad)
	switch {
	case blocked != nil:
		t.block(c, blocked.Code, blocked.Text)
	case !t.spared(c.VM.Pool):
		t.block(c, nodescaler.PoolAtMin, "pool "+c.VM.Pool+" has no more machines than its minimum")
	default:
		t.drain(c, to)
	}
}
