package planner

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/draft"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/packing"
)

// Machines that work and are to go all the same: too old, not what their pool would make now, or
// with a node that is ready and broken. Each is a candidate, and all candidates are ranked
// together. A candidate whose pods have places elsewhere is drained. For one whose pods have none
// the cheapest machines are ordered, and it is drained once they are ready. Nothing of that is
// remembered: which machines were ordered for it shows in where its pods would go.

// disrupter ends machines that work.
type disrupter struct {
	*turn
	grower  *grower
	drainer *drainer
	roller  *roller
	kept    draft.Findings
	closed  map[string]func()             // reopens a candidate's node
	repairs map[string]*nodescaler.Reason // why none is repaired, by pool
	vain    map[end]int                   // candidates that this scan found no replacement for
}

// vainMost is for how many candidates of a pool and cause a scan looks for a replacement in vain.
// On full hosts each of a fleet that drifted would have its pods packed at every scan. The others
// have their turn at the next scans.
const vainMost = 16

// run drains candidates, or orders what replaces them, and reports whether it ordered anything.
func (t *disrupter) run() bool {
	list := t.candidates()
	t.fills = t.fills || len(list) > 0
	was := t.replacing
	t.replacing = map[string]end{}
	t.lookAtReplacements(was)
	t.noteBroken()
	many := len(list) > vainMost
	slices.SortStableFunc(list, func(a, b ending) int {
		tried := func(e ending) time.Time {
			if many {
				return t.vainly[e.Name]
			}
			return time.Time{}
		}
		begun := func(e ending) int {
			_, is := was[e.Name]
			return slices.Index([]bool{true, false}, is)
		}
		return cmp.Or(
			begun(a)-begun(b),
			slices.Index(nodescaler.Causes, a.cause)-slices.Index(nodescaler.Causes, b.cause),
			tried(a).Compare(tried(b)),
			cmp.Compare(a.cost, b.cost), a.VM.Created.Compare(b.VM.Created))
	})
	vainly := since{}
	for _, c := range list {
		if at, was := t.vainly[c.Name]; was {
			vainly[c.Name] = at
		}
	}
	t.vainly = vainly
	for _, c := range list { // their pods are to go where they can stay
		t.closed[c.Name] = t.places.shut(c.Node)
	}
	before := t.Bought
	for i := range list {
		c := &list[i]
		_, waiting := was[c.Name]
		if why := t.roller.holds(c, waiting); why != nil {
			t.kept.Add(why.Code, "%s, but stays: %s", c.why.Text, why.Text)
			continue
		}
		t.roller.goes(c, waiting, t.end)
	}
	(&swapper{t}).run()
	for _, name := range slices.Sorted(maps.Keys(t.closed)) {
		t.closed[name]()
	}
	t.Conclude(t.kept, "machine")
	return t.Bought > before
}

// candidates are the machines that are to go and may.
func (t *disrupter) candidates() (list []ending) {
	for i := range t.X.Nodes {
		n := &t.X.Nodes[i]
		if n.VM == nil || n.VM.Phase != nodescaler.Joined || n.VM.Kept() || n.Draining || t.begun(n.Name) {
			continue
		}
		p := t.X.Pool(n.VM.Pool)
		if p == nil {
			continue
		}
		node := n.Node
		if r := t.halted(p); r != nil {
			node = nil
		}
		cause, why := p.Disruption.Ends(n.VM, node, t.X.Now)
		if why == nil {
			continue
		}
		keeps := t.keeps(n, cause == nodescaler.Unhealthy && !n.Ready)
		if keeps == nil {
			keeps = t.broken(end{n.VM.Pool, cause})
		}
		if keeps == nil && cause == nodescaler.Unhealthy {
			keeps = t.rebooted(n)
		}
		if keeps == nil && cause == nodescaler.Drifted {
			keeps = p.RollsNone()
		}
		if keeps != nil {
			t.kept.Add(keeps.Code, "%s, but stays: %s", why.Text, keeps.Text)
			continue
		}
		t.ending[n.Name] = *why
		list = append(list, ending{NodeLoad: n, cause: cause, why: *why, cost: cost(n)})
	}
	return list
}

// halted says, once, why none of the pool's nodes is replaced for being broken, or nil.
func (t *disrupter) halted(p *nodescaler.PoolSize) *nodescaler.Reason {
	why, known := t.repairs[p.Name]
	if !known {
		if why = p.Halted(t.X.Snapshot.Nodes, t.X.Now); why != nil {
			t.Plan.Reasons = append(t.Plan.Reasons, *why)
		}
		t.repairs[p.Name] = why
	}
	return why
}

// cost is what moving the pods of a node costs: one for each pod, more for those of a high
// priority or deletion cost, and less for those of a low one.
func cost(n *nodescaler.NodeLoad) (sum float64) {
	const most, priority, deletion = 10, 1 << 25, 1 << 27 // of a pod, as Karpenter weighs them
	for _, p := range n.Held() {
		sum += min(max(1+float64(p.DeletionCost)/deletion+float64(p.Priority)/priority, -most), most)
	}
	return sum
}

// end drains a candidate if its pods have places, or orders these. Its node is taken for gone
// already, for it goes in any case: pods that are let in once it is gone wait that long, or a
// machine would be ordered for each pod that is spread over nodes.
func (t *disrupter) end(c *ending) {
	reopen := t.places.domains.Close(c.Node)
	defer func() {
		if !t.begun(c.Name) {
			reopen()
		}
	}()
	if !c.Ready {
		t.lose(c)
		return
	}
	if p := t.drainer.unbudgeted(c.NodeLoad); p != nil && t.grace(c.NodeLoad) == 0 {
		t.kept.Add(nodescaler.BudgetExhausted, "%s, but stays: it holds %s, whose PodDisruptionBudget allows no eviction now", c.why.Text, p.Name)
		return
	}
	if spent := t.spend(c.VM.Pool, c.cause); spent != nil {
		t.kept.Add(spent.Code, "%s, but stays for now: %s", c.why.Text, spent.Text)
		return
	}
	to, blocked := t.drainer.leave(c.NodeLoad)
	switch {
	case blocked != nil && blocked.Code != nodescaler.NoPlaceElsewhere:
		t.block(c, blocked.Code, blocked.Text)
	case blocked == nil && (c.cause == nodescaler.Unhealthy && t.reboots(c.NodeLoad) || t.spared(c.VM.Pool)):
		t.drain(c, to)
	case blocked == nil:
		t.refill(c)
	default:
		t.replace(c, blocked)
	}
}

// lose begins to end a machine whose node is not ready. Its pods cannot be moved: they end with it,
// and their node is deleted once the machine is stopped, so that none of them ever runs twice.
func (t *disrupter) lose(c *ending) {
	if t.reboots(c.NodeLoad) {
		t.reboot(c.NodeLoad, c.why)
		return
	}
	if !t.Reserve(c.VM.Pool) {
		t.refill(c)
		return
	}
	delete(t.closed, c.Name)
	t.drains[c.Name], t.ends[c.Name] = t.X.Now, c.why
	t.drainer.leaving(c.NodeLoad, 1)
	t.Cordon(c.NodeLoad, c.why, draft.Because(nodescaler.NodeNotReady, "%s is not ready: its machine is stopped, and then its node is deleted with its %s", c.Name, pricing.Count(len(c.Held()), "pod")))
}

// spared reports whether the pool has its minimum of nodes that are ready without one, and takes
// that one.
func (t *disrupter) spared(pool string) bool {
	ready := 0
	for i := range t.X.Nodes {
		if n := &t.X.Nodes[i]; n.VM != nil && n.VM.Pool == pool && n.Ready && !n.Draining && !t.begun(n.Name) {
			ready++
		}
	}
	return ready > t.X.Pool(pool).Min && t.Reserve(pool)
}

// drain closes a candidate's node and begins to empty it.
func (t *disrupter) drain(c *ending, to []string) {
	delete(t.closed, c.Name) // it stays closed
	where := "nothing on it has to move"
	if len(to) > 0 {
		where = "its pods have places on " + draft.Some("node", to)
	}
	t.drains[c.Name], t.ends[c.Name] = t.X.Now, c.why
	t.drainer.leaving(c.NodeLoad, 1)
	t.Cordon(c.NodeLoad, c.why, draft.Because(nodescaler.NodeDraining, "%s is to be emptied: %s", c.Name, where))
	t.drainer.evict(c.NodeLoad, t.X.Now)
}

// await keeps a candidate until what replaces it is ready, and that for it.
func (t *disrupter) await(c *ending, what string) {
	t.replacing[c.Name] = c.end()
	t.Reserve(c.VM.Pool)
	t.kept.Add(nodescaler.ReplacementAwaited, "%s; it stays until %s", c.why.Text, what)
}

// refill orders a machine for a pool that would have fewer than its minimum without the candidate.
func (t *disrupter) refill(c *ending) {
	pool := c.VM.Pool
	for _, m := range t.coming {
		if m.Pool == pool && !m.Kept() && !t.waitedFor(m.Name) {
			t.replacing[m.Name] = c.end()
			t.await(c, m.Name+" is ready")
			return
		}
	}
	may := slices.DeleteFunc(slices.Clone(t.grower.all), func(o packing.Offer) bool { return o.Pool != pool || !t.grower.mayBuy(o) })
	if why := t.roller.full(c, 1); why != nil {
		t.block(c, why.Code, why.Text)
		return
	}
	if len(may) > 0 {
		o := draft.Least(may, func(o packing.Offer) int64 { return int64(o.Rate) })
		if o.Host = t.grower.spread(o, nil, nil); t.grower.mayBuy(o) && t.Affords(o.Shape, o.Host) {
			t.roller.ordered[pool]++
			t.Buy(pool, o.Shape, o.Host, draft.Because(nodescaler.ReplacementOrdered, "it replaces %s, without which pool %s has fewer than its minimum", c.Name, pool), c.why)
			t.await(c, "a machine that is ordered for it is ready")
			return
		}
	}
	t.block(c, nodescaler.ReplacementBlocked, "pool "+pool+" would have fewer than its minimum, and no more machines can be made")
}

// replace orders the cheapest machines for the pods that have no place, unless such are on their
// way. While none can be made, other candidates take the pods in, so that one machine goes and
// leaves its place to another.
func (t *disrupter) replace(c *ending, blocked *nodescaler.Reason) {
	if vain := t.vain[c.end()]; vain >= vainMost {
		t.block(c, nodescaler.ReplacementBlocked, fmt.Sprintf("this step found no replacement for %d others, and it has its turn later", vain))
		return
	}
	moving := t.drainer.toMove(c.NodeLoad)
	wants := make([]want, len(moving))
	for i, p := range moving {
		wants[i] = want{item: p.Name, pod: p, expected: true}
		t.places.domains.Put(p, c.Node, -1)
	}
	offers := t.roller.offers(c, t.grower.all)
	narrowed := t.grower.narrow(wants, offers)
	r := t.grower.solve(t.grower.problem(narrowed, offers))
	for _, p := range moving {
		t.places.domains.Put(p, c.Node, 1)
	}
	nowhere := slices.IndexFunc(r.Placements, func(p packing.Placement) bool { return p.Bin == "" && p.Purchase < 0 })
	switch {
	case len(narrowed) < len(wants):
		t.crowdOut(c, blocked.Text)
	case nowhere >= 0:
		t.crowdOut(c, r.Placements[nowhere].Text)
	case len(r.Purchases) == 0:
		t.hold(r, c.end())
		t.grower.place(narrowed, r)
		t.await(c, "its pods have places on machines that are coming")
	default:
		t.order(c, narrowed, r)
	}
}

// hold keeps the machines that are coming and that the packing puts pods on.
func (t *disrupter) hold(r packing.Result, e end) {
	for i := range r.Placements {
		if bin := r.Placements[i].Bin; bin != "" {
			t.replacing[bin] = e
		}
	}
}

// order orders what the packing has.
func (t *disrupter) order(c *ending, wants []want, r packing.Result) {
	if why := t.roller.full(c, len(r.Purchases)); why != nil {
		t.inVain(c)
		t.block(c, why.Code, why.Text)
		return
	}
	before, bought := len(t.Plan.Actions), t.Bought
	t.hold(r, c.end())
	t.grower.settle(wants, r, nil, nil)
	if t.Bought == bought {
		t.inVain(c)
		t.block(c, nodescaler.ReplacementBlocked, "no machine can be ordered for its pods now")
		return
	}
	t.roller.ordered[c.VM.Pool] += t.Bought - bought
	for i := before; i < len(t.Plan.Actions); i++ {
		if a := &t.Plan.Actions[i]; a.Kind.Grows() {
			a.For = nil // no namespace asked for it, and no quota counts it
			a.Reasons = append([]nodescaler.Reason{draft.Because(nodescaler.ReplacementOrdered, "it takes in pods of %s, which is to go", c.Name), c.why}, a.Reasons...)
		}
	}
	t.await(c, "what is ordered for its pods is ready")
}

// crowdOut moves the pods onto other candidates and into headroom, where nothing can be made for
// them.
func (t *disrupter) crowdOut(c *ending, why string) {
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(t.closed)), func(name string) bool { return name == c.Name })
	for _, name := range others {
		t.closed[name]()
	}
	var to []string
	var blocked *nodescaler.Reason
	t.yielding(c.Name, func() { to, blocked = t.drainer.leave(c.NodeLoad) })
	for _, name := range others {
		t.closed[name] = t.places.shut(t.X.Node(name).Node)
	}
	if blocked == nil && t.spared(c.VM.Pool) {
		t.drain(c, to)
		return
	}
	t.inVain(c)
	t.block(c, nodescaler.ReplacementBlocked, why)
}

// inVain notes that no replacement was found for a candidate.
func (t *disrupter) inVain(c *ending) {
	t.vain[c.end()]++
	t.vainly[c.Name] = t.X.Now
}

// block says what keeps a candidate, whose pool's budgets may be spent on others.
func (t *disrupter) block(c *ending, code, why string) {
	t.outgoing()[c.VM.Pool].out--
	t.kept.Add(code, "%s, but stays: %s", c.why.Text, why)
}
