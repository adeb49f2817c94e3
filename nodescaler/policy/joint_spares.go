package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/packing"
)

// Spares are machines that have joined once and are stopped. They cost their disk, and are nodes again
// within half a minute: an insurance against what no forecast sees. The policy keeps the k-th spare of a
// pool as long as what it would have saved within a day is worth its disk for that day: each order that
// pods waited for, and that found k-1 others on their way, would have come sooner by what a machine takes
// to be made less what it takes to be started. The part of the day that was not seen is taken to have
// held one burst of as many orders as there may be spares, so a policy that starts, or starts again, keeps
// what there is.
//
// A spare is woken wherever a machine of its pool and shape would be ordered. One that was woken is
// expected back, and a machine that is not needed any more goes as soon as what it takes to have it back is
// saved: with spares less is held, and less is ordered.

// Spared is the settings of spares.
type Spared struct {
	// Most is how many spares each pool may have; 0 keeps none.
	Most int `json:"most" yaml:"most"`
	// Worth is what a minute is worth in which pods wait for a machine, in minutes of that machine's
	// price.
	Worth float64 `json:"worth" yaml:"worth"`
}

// DefaultSpared keeps none: they count against a pool's limit and take its storage, which is for its owner to
// grant.
func DefaultSpared() Spared { return Spared{Most: 0, Worth: 30} }

func (c *Spared) validate(f *faults) {
	f.must(c.Most >= 0, "spares.most", "0 or more", c.Most)
	f.must(c.Worth > 0 && c.Worth <= 1e6, "spares.worth", "above 0 and at most 1000000", c.Worth)
}

const (
	// spareMemory is how far back is looked for what spares would have saved.
	spareMemory = 24 * time.Hour
	// spareStart is how long a spare is taken to need until none was seen to.
	spareStart = 30 * time.Second
	// spareRest is how long one that was to be woken and did not stir is left alone.
	spareRest = 5 * time.Minute
	// sparesMaking is how many are made at once: whoever is ordered meanwhile waits for the same storage.
	sparesMaking = 2
)

// keeper remembers what spares would have been good for. All of it may be forgotten: then as many are
// kept as may be, for a day.
type keeper struct {
	cfg     Spared
	started time.Time
	lead    time.Duration
	starts  nodescaler.Recent
	uses    []use
	wanted  map[string]time.Time // orders and wakes that pods wait for, by order, not seen yet
	tried   since                // machines that were to be woken
	gave    since                // spares that made way, until they are gone
	// Of machines that are to become spares: since when their nodes are closed, and since when they are no
	// nodes that are ready.
	closed, dark since
}

// use is an order that pods waited for.
type use struct {
	at    time.Time
	pool  string
	shape pricing.Shape
	rank  int // 1 for the first of a burst
}

func newKeeper(c Spared) *keeper {
	return &keeper{cfg: c, wanted: map[string]time.Time{}, tried: since{}, gave: since{}, closed: since{}, dark: since{}}
}

// see takes note of what came of what was planned. What is planned and never seen, as where nothing is
// done but looking, counts for nothing.
func (k *keeper) see(s *nodescaler.Snapshot, lead time.Duration) {
	if k.started.IsZero() {
		k.started = s.Now
	}
	k.lead = lead
	k.uses = slices.DeleteFunc(k.uses, func(u use) bool { return s.Now.Sub(u.at) > spareMemory })
	for order, at := range k.wanted {
		if s.Now.Sub(at) > spareRest {
			delete(k.wanted, order)
		}
	}
	for name, at := range k.tried {
		if s.Now.Sub(at) > spareMemory {
			delete(k.tried, name)
		}
	}
	making, there := map[string]bool{}, map[string]bool{}
	for i := range s.Machines {
		m := &s.Machines[i]
		there[m.Name] = true
		making[m.Name] = m.Keep && m.Phase.Live()
		if at, tried := k.tried[m.Name]; tried && m.Phase == nodescaler.Joined && m.Since.After(at) {
			if !m.Woken.IsZero() { // else it was let be a machine while it was made, and started from nothing
				k.starts.Add(m.Since.Sub(m.Woken))
			}
			delete(k.tried, m.Name)
		}
		if at, asked := k.wanted[m.Order]; asked && m.Phase.Live() && !m.Kept() {
			delete(k.wanted, m.Order)
			k.uses = append(k.uses, use{at, m.Pool, m.Shape, k.rank(m.Pool, at)})
		}
	}
	gone := func(name string, _ time.Time) bool { return !making[name] }
	maps.DeleteFunc(k.closed, gone)
	maps.DeleteFunc(k.dark, gone)
	maps.DeleteFunc(k.gave, func(name string, at time.Time) bool { return !there[name] || s.Now.Sub(at) > spareRest })
}

// rank is the place that an order has in its burst: of those made within the time that one takes.
func (k *keeper) rank(pool string, at time.Time) int {
	rank := 1
	for i := range k.uses {
		if u := &k.uses[i]; u.pool == pool && at.Sub(u.at) < k.lead {
			rank++
		}
	}
	return rank
}

// start is how long a spare needs to be a node.
func (k *keeper) start() time.Duration {
	if seen := k.starts.Usual(); seen > 0 {
		return seen
	}
	return spareStart
}

// sooner is by how much a spare comes sooner than an order.
func (k *keeper) sooner() time.Duration { return max(k.lead-k.start(), 0) }

// saved is what the k-th spare would have saved within a day: how often it would have been woken, with
// what is assumed of the time that was not seen.
func (k *keeper) saved(pool string, nth int, now time.Time) (times float64) {
	unseen := spareMemory - min(now.Sub(k.started), spareMemory)
	times = float64(unseen) / float64(spareMemory)
	for i := range k.uses {
		if u := &k.uses[i]; u.pool == pool && u.rank == nth {
			times++
		}
	}
	return times
}

// spareShape is what the pool's spares are: as the last order that pods waited for, or its cheapest. It must have
// one.
func (t *scan) spareShape(p *nodescaler.PoolSize) pricing.Shape {
	for i := len(t.keep.uses) - 1; i >= 0; i-- {
		if u := &t.keep.uses[i]; u.pool == p.Name && slices.Contains(p.Shapes, u.shape) {
			return u.shape
		}
	}
	return least(p.Shapes, func(s pricing.Shape) pricing.Rate { return t.x.Rate(s, "") })
}

// worth is how many spares a pool is to have, and the sentence that says so.
type worth struct {
	pays    int // that save what they cost
	allowed int // that the hard limit leaves room for
	why     nodescaler.Reason
}

func (w *worth) want() int { return min(w.pays, w.allowed) }

// worthOf is worked out once a scan.
func (t *scan) worthOf(p *nodescaler.PoolSize) worth {
	w, known := t.worths[p.Name]
	if !known {
		w = t.sparesWorth(p)
		t.worths[p.Name] = w
	}
	return w
}

func (t *scan) sparesWorth(p *nodescaler.PoolSize) worth {
	if len(p.Shapes) == 0 {
		return worth{why: because(nodescaler.SparesPay, "no spares of pool %s pay: it has no shape", p.Name)}
	}
	k, shape := t.keep, t.spareShape(p)
	disk, rate := t.x.SpareRate(shape), t.x.Rate(shape, "")
	cost := disk.For(spareMemory)
	w := worth{pays: k.cfg.Most}
	if w.pays > 0 {
		w.allowed = t.allowed(p, t.firstHost(p))
	}
	var last string
	for n := 1; n <= k.cfg.Most; n++ {
		times := k.saved(p.Name, n, t.now)
		value := rate.For(time.Duration(times * k.cfg.Worth * float64(k.sooner())))
		why := fmt.Sprintf("a %s would have come %s sooner than an order %.2g times a day, worth %s at %g times its price, for %s of disk",
			ordinal(n), k.sooner().Round(time.Second), times, value.Display(t.x.Book().Unit), k.cfg.Worth, cost.Display(t.x.Book().Unit))
		if value < cost {
			w.pays, last = n-1, ": "+why
			break
		}
		last = ", as many as may be: " + why
	}
	if w.allowed < w.pays {
		w.why = because(nodescaler.SparesPay, "%s of pool %s may be: with one more, the hard limit of %s/h would allow a machine fewer", plural(w.allowed, "spare"), p.Name, t.x.Limit)
		return w
	}
	w.why = because(nodescaler.SparesPay, "%s of pool %s pay%s", plural(w.pays, "spare"), p.Name, last)
	return w
}

func ordinal(n int) string {
	switch {
	case n%10 == 1 && n%100 != 11:
		return fmt.Sprintf("%dst", n)
	case n%10 == 2 && n%100 != 12:
		return fmt.Sprintf("%dnd", n)
	case n%10 == 3 && n%100 != 13:
		return fmt.Sprintf("%drd", n)
	}
	return fmt.Sprintf("%dth", n)
}

// stock is a pool's spares as they are.
type stock struct {
	worth
	good, drifted []*nodescaler.Machine // that are stopped
	making        []*nodescaler.Machine // to become spares
	lent          int                   // that were woken not long ago, and are expected back
}

// have is how many are there, or being made.
func (s *stock) have() int { return len(s.good) + len(s.making) }

func (t *scan) stockOf(p *nodescaler.PoolSize) stock {
	s := stock{worth: t.worthOf(p)}
	for _, m := range t.x.Spares {
		switch {
		case m.Pool != p.Name || t.woken[m.Name] || t.let[m.Name]:
		case m.Phase != nodescaler.Spare:
			s.making = append(s.making, m)
		case m.Drifted != "":
			s.drifted = append(s.drifted, m)
		default:
			s.good = append(s.good, m)
		}
	}
	for _, m := range t.x.Machines {
		if m.Pool == p.Name && m.Phase.Live() && t.lent(m, s.have()+s.lent+1) {
			s.lent++
		}
	}
	return s
}

// lent reports whether a machine that was a spare is expected to be one again, the nth that would be there. It is
// given up when it has been away for as long as that one has to stand by to be worth what an order in its place
// costs: that is when whoever does not know the future should stop waiting.
func (t *scan) lent(m *nodescaler.Machine, nth int) bool {
	times := t.keep.saved(m.Pool, nth, t.now)
	saves := times * t.keep.cfg.Worth * float64(t.keep.sooner()) // a day, in time of a machine's price
	return !m.Woken.IsZero() && float64(t.now.Sub(m.Woken))*saves < float64(t.keep.lead)*float64(spareMemory)
}

// hasten lets machines that will be stashed go as soon as what it takes to have them back is saved. One whose node is
// not ready will not be.
func (t *scan) hasten(unneeded []candidate) {
	if t.keep == nil || t.keep.cfg.Most == 0 {
		return
	}
	left := map[string]int{}
	for i := range t.x.Pools {
		p := &t.x.Pools[i]
		if s := t.stockOf(p); s.have() <= s.allowed { // a machine that becomes a spare leaves room for one
			left[p.Name] = s.pays - s.have()
		}
	}
	for i := range unneeded {
		c := &unneeded[i]
		if left[c.VM.Pool] > 0 && c.Ready && c.VM.Drifted == "" && c.VM.Shape == t.spareShape(t.x.Pool(c.VM.Pool)) {
			left[c.VM.Pool]--
			c.wait = min(c.wait, t.keep.start())
		}
	}
}

// stashes keeps a machine that was emptied, if it is as good a spare as any and one is wanting.
func (t *scan) stashes(n *nodescaler.NodeLoad) bool {
	p := t.x.Pool(n.VM.Pool)
	if t.keep == nil || t.keep.cfg.Most == 0 || p == nil || t.first || !n.Ready || n.VM.Phase != nodescaler.Joined || n.VM.Drifted != "" {
		return false
	}
	s := t.stockOf(p)
	if s.have()+t.stashed[p.Name] >= s.want() || n.VM.Shape != t.spareShape(p) {
		return false
	}
	t.stashed[p.Name]++
	t.stash(n, because(nodescaler.SpareStashed, "%s was emptied, and is kept as a spare", n.Name), s.why)
	return true
}

// tend looks after the spares of all pools: those that were ordered as such are stopped once they have
// joined, those that are of no use go, and what is wanting is ordered unless there is something else to pay for.
func (t *scan) tend(spending bool) {
	if t.keep == nil {
		if !t.first {
			t.dismissSpares()
		}
		return
	}
	for i := range t.x.Pools {
		p := &t.x.Pools[i]
		s := t.stockOf(p)
		if t.keep.cfg.Most > 0 {
			t.plan.Reasons = append(t.plan.Reasons, s.why)
		}
		if t.first || p.HeldDown != nil { // what was to become a spare could not be stopped
			continue
		}
		s.making = slices.DeleteFunc(s.making, func(m *nodescaler.Machine) bool { return t.finishSpare(m, &s) })
		t.dismiss(&s)
		if !spending {
			t.order(p, &s)
		}
	}
}

// finishSpare stops a machine that was ordered as a spare once it has joined, or gives it back if it is not
// wanted any more. One that pods have come to is a node like any other. It reports whether any of this
// was done: its node is closed first, and has to be seen empty some time after that.
func (t *scan) finishSpare(m *nodescaler.Machine, s *stock) bool {
	n := t.x.AnyNodeOf(m.Name)
	if held := machineHeld(t.x, m); held != nil {
		return t.release(m, *held)
	}
	if m.Phase != nodescaler.Joined || n == nil || n.VM == nil || !n.Ready || t.x.Away(m.Host) {
		return t.abandon(m, n)
	}
	delete(t.keep.dark, m.Name)
	if held := n.Held(); len(held) > 0 {
		if t.held(m.Pool, nodescaler.Wake) != nil {
			return false
		}
		t.rouse(m, because(nodescaler.SpareTaken, "%s was to become a spare, and holds %s", m.Name, some("pod", podNames(held))))
		return true
	}
	closed, ours := t.keep.closed[m.Name]
	switch {
	case !ours || !n.Draining || !n.Cordoned:
		t.keep.closed[m.Name] = t.now
		t.cordon(n, because(nodescaler.SpareMade, "%s has joined and is to be a spare", m.Name))
		return false
	case t.now.Sub(closed) < time.Duration(t.cfg.NodeDeleteDelayAfterTaint):
		return false
	case len(s.good) >= s.want() || m.Drifted != "":
		t.giveBack(m, because(nodescaler.SpareUnneeded, "%s is not wanted as a spare any more", m.Name), s.why)
		return true
	}
	s.good = append(s.good, m)
	t.stash(n, because(nodescaler.SpareMade, "%s has joined once, and is stopped", m.Name), s.why)
	return true
}

// release lets a machine that was to become a spare and is held be capacity: it can neither be stopped nor go.
func (t *scan) release(m *nodescaler.Machine, why nodescaler.Reason) bool {
	if m.Phase != nodescaler.Joined || t.held(m.Pool, nodescaler.Wake) != nil {
		t.plan.Reasons = append(t.plan.Reasons, why)
		return false
	}
	t.rouse(m, why)
	return true
}

// abandon gives back a machine that was to become a spare and has not been a node that is ready for as long as
// one may take to be one. Until then, and while its host is away, it may still come. It reports whether it did.
func (t *scan) abandon(m *nodescaler.Machine, n *nodescaler.NodeLoad) bool {
	since, seen := t.keep.dark[m.Name]
	if !seen || t.x.Away(m.Host) {
		t.keep.dark[m.Name] = t.now
		return false
	}
	late := t.now.Sub(since)
	switch {
	case late <= time.Duration(t.cfg.MaxNodeProvisionTime) || n != nil && (n.VM == nil || len(n.Held()) > 0):
		return false
	case n != nil && !(n.Draining && n.Cordoned):
		t.cordon(n, because(nodescaler.NodeNotReady, "%s was to become a spare and has not been ready for %s", m.Name, late))
		return false
	}
	t.backoffOf(m.Pool).fail(t.now)
	t.giveBack(m, because(nodescaler.ProvisionTimedOut, "%s was to become a spare and has not been a node that is ready for %s, more than %s", m.Name, late, t.cfg.MaxNodeProvisionTime))
	return true
}

// dismiss gives back a spare that is of no use, one a scan: what is seen to be so by mistake is not done to all.
func (t *scan) dismiss(s *stock) {
	here := func(m *nodescaler.Machine) bool {
		return m.Phase == nodescaler.Spare && !t.x.Away(m.Host) && t.stays(m) == nil
	}
	for _, m := range s.drifted {
		if here(m) {
			t.giveBack(m, because(nodescaler.SpareDrifted, "%s is given back and replaced: %s", m.Name, m.Drifted))
			return
		}
	}
	if len(s.good) <= s.want() {
		return
	}
	for _, m := range slices.Backward(s.good) {
		if here(m) {
			t.giveBack(m, because(nodescaler.SpareUnneeded, "%s is one of %s, and %d are wanted", m.Name, plural(len(s.good), "spare"), s.want()), s.why)
			return
		}
	}
}

// firstHost is where the pool's first spare would be made; empty if there is one, or none can be.
func (t *scan) firstHost(p *nodescaler.PoolSize) string {
	if slices.ContainsFunc(t.x.Spares, func(m *nodescaler.Machine) bool { return m.Pool == p.Name }) {
		return ""
	}
	return t.spareOffer(p).Host
}

// spareOffer is the machine that the pool's next spare would be made of; on no host if there is none.
func (t *scan) spareOffer(p *nodescaler.PoolSize) packing.Offer {
	o := packing.Offer{Pool: p.Name, Shape: t.spareShape(p)}
	for i := range t.x.Hosts {
		h := t.x.Hosts[i].Host
		if rate := t.x.Rate(o.Shape, h.Name); t.draft.holds(p.Pool, o.Shape, h) && (o.Host == "" || rate < o.Rate) {
			o.Host, o.Rate = h.Name, rate
		}
	}
	if o.Host != "" {
		o.Host = t.hostFor(o, t.free, t.apart(p.Name))
	}
	return o
}

// order orders a machine that is to become a spare, when nobody waits for the storage that makes it, and nothing was
// woken: what is missing then is told by the next scan.
func (t *scan) order(p *nodescaler.PoolSize, s *stock) {
	have := s.have() + s.lent + t.stashed[p.Name]
	if have >= s.want() || len(s.making) >= sparesMaking || len(t.coming) > 0 || len(t.woken) > 0 || !t.makes(p.Name) || t.room[p.Name] < 1 {
		return
	}
	o := t.spareOffer(p)
	if o.Host == "" || t.allowed(p, o.Host) <= s.have() || !t.affords(o.Shape, o.Host) {
		return
	}
	t.buy(p.Name, o.Shape, o.Host, because(nodescaler.SpareOrdered, "%d of %s are there or on their way, or were woken not long ago", have, plural(s.want(), "spare")), s.why)
	t.plan.Actions[len(t.plan.Actions)-1].Keep = true
}

// apart is the order in which hosts come into question for a spare: it is of use when another host is lost, so
// it goes where the pool has fewest machines, spares included, and of those where fewest run.
func (t *scan) apart(pool string) func(a, b string) int {
	all := func(host string) int { return t.running(pool, host) + t.kept(pool, host) }
	return func(a, b string) int {
		return cmp.Or(cmp.Compare(all(a), all(b)), cmp.Compare(t.running(pool, a), t.running(pool, b)), -cmp.Compare(t.free[a].Memory, t.free[b].Memory))
	}
}

// running is how many machines of the pool run on the host or will, those included that the plan wakes.
func (t *scan) running(pool, host string) (n int) {
	for _, m := range t.x.Machines {
		if m.Pool == pool && m.Host == host && m.Phase.Live() {
			n++
		}
	}
	for _, m := range t.x.Spares {
		if m.Pool == pool && m.Host == host && t.woken[m.Name] {
			n++
		}
	}
	return n
}

// kept is how many spares of the pool the host carries, those in the making included.
func (t *scan) kept(pool, host string) (n int) {
	for _, m := range t.x.Spares {
		if m.Pool == pool && m.Host == host && !t.woken[m.Name] && !t.let[m.Name] {
			n++
		}
	}
	return n
}
