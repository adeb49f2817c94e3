package planner

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/draft"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/packing"
)

// Spares under the hard limit: none of them takes a machine away. Of the machines that a pool may
// still have the first are had by waking its spares, so only those beyond cost their disks beside
// them. A pool's machines and spares together are what there is room for: as it grows spares
// become machines, and as it shrinks machines become spares, and none is made or returned for
// that.
//
// Only machines of the spares' own pool and shape are looked ahead for. Where one of another kind
// is to be ordered and their disks are in its way, or the places that they take of the pool's,
// they are returned then.

// stocks is how many spares pools have, and how many they are to have.
type stocks struct {
	*waking
	worths map[string]worth // by pool
}

// worth is how many spares a pool is to have, and the sentence that says so.
type worth struct {
	pays    int // that save what they cost
	allowed int // that the hard limit leaves room for
	why     nodescaler.Reason
}

func (w *worth) want() int { return min(w.pays, w.allowed) }

// stock is a pool's spares as they are.
type stock struct {
	worth
	good     []*nodescaler.Machine // that are stopped
	outdated []*nodescaler.Machine // that are stopped, and to be replaced
	making   []*nodescaler.Machine // to become spares
	lent     int                   // that were woken not long ago, and are expected back
}

// have is how many are there, or being made.
func (s *stock) have() int { return len(s.good) + len(s.making) }

// spareShape is what the pool's spares are: as the last order that pods waited for, or its
// cheapest. It must have one.
func (t *stocks) spareShape(p *nodescaler.PoolSize) pricing.Shape {
	for i := len(t.keep.uses) - 1; i >= 0; i-- {
		if u := &t.keep.uses[i]; u.pool == p.Name && slices.Contains(p.Shapes, u.shape) {
			return u.shape
		}
	}
	return draft.Least(p.Shapes, func(s pricing.Shape) pricing.Rate { return t.X.Rate(s, "") })
}

// worthOf is worked out once a scan.
func (t *stocks) worthOf(p *nodescaler.PoolSize) worth {
	w, known := t.worths[p.Name]
	if !known {
		w = t.sparesWorth(p)
		t.worths[p.Name] = w
	}
	return w
}

func (t *stocks) sparesWorth(p *nodescaler.PoolSize) worth {
	if len(p.Shapes) == 0 {
		return worth{why: draft.Because(nodescaler.SparesPay, "pool %s has no shape, so no spares", p.Name)}
	}
	k, shape := t.keep, t.spareShape(p)
	disk, rate := t.X.SpareRate(shape), t.X.Rate(shape, "")
	cost, most := disk.For(spareMemory), k.most(p.Name, rate, disk)
	w := worth{pays: most}
	if w.pays > 0 {
		w.allowed = t.allowed(p, t.firstHost(p))
	}
	var last string
	there, used := t.sparesOf(p), t.mayBeUsed(p)
	for n := 1; n <= most; n++ {
		times := k.saved(p.Name, n, t.X.Now)
		if n > there && !used {
			times = float64(k.waits(p.Name, n))
		}
		value := rate.For(time.Duration(times * k.cfg.Worth * float64(k.sooner())))
		why := fmt.Sprintf("the %s would save %s of waiting %.2g times a day, which is worth %s (worth: %g); its disk costs %s a day",
			draft.Ordinal(n), k.sooner().Round(time.Second), times, value.Display(t.X.Book().Unit), k.cfg.Worth, cost.Display(t.X.Book().Unit))
		if value < cost || value == cost && n > there {
			w.pays, last = n-1, ": "+why
			break
		}
		last = ", the most that it may: " + why
	}
	if w.allowed < w.pays {
		w.why = draft.Because(nodescaler.SparesPay, "pool %[2]s may have %[1]s: with one more, the hard limit of %[3]s/h would allow one machine less", pricing.Count(w.allowed, "spare"), p.Name, t.X.Limit)
		return w
	}
	count := "no spare"
	if w.pays > 0 {
		count = pricing.Count(w.pays, "spare")
	}
	w.why = draft.Because(nodescaler.SparesPay, "pool %s is to keep %s%s", p.Name, count, last)
	return w
}

// sparesOf counts the pool's spares, those in the making included.
func (t *stocks) sparesOf(p *nodescaler.PoolSize) (n int) {
	for _, m := range t.X.Spares {
		if m.Pool == p.Name {
			n++
		}
	}
	return n
}

// mayBeUsed reports whether any pod that is there or is decided on tolerates the pool's taints. Of
// a pool that no pod could use nothing is assumed.
func (t *stocks) mayBeUsed(p *nodescaler.PoolSize) bool {
	if len(p.Taints) == 0 {
		return true
	}
	for i := range t.X.Snapshot.Pods {
		if pod := &t.X.Snapshot.Pods[i]; !pod.Daemon && nodescaler.Tolerates(pod, p.Taints) {
			return true
		}
	}
	for i := range t.X.Snapshot.Future {
		if nodescaler.Tolerates(&t.X.Snapshot.Future[i].Like, p.Taints) {
			return true
		}
	}
	return false
}

// advise says what spares would have saved where none may be kept, if they would have paid. Nothing
// is assumed of the time that was not seen.
func (t *stocks) advise(p *nodescaler.PoolSize) {
	k, seen := t.keep, t.keep.seen(t.X.Now)
	if len(p.Shapes) == 0 || seen < time.Hour {
		return
	}
	shape := t.spareShape(p)
	disk, rate := t.X.SpareRate(shape), t.X.Rate(shape, "")
	spares, waits := 0, 0
	for n := 1; n <= k.peak(p.Name); n++ {
		times := k.waits(p.Name, n)
		if value := rate.For(time.Duration(float64(times) * k.cfg.Worth * float64(k.sooner()))); times == 0 || value <= disk.For(seen) {
			break
		}
		spares, waits = n, waits+times
	}
	if spares == 0 {
		return
	}
	if t.Plan.Advice == nil {
		t.Plan.Advice = map[string]nodescaler.Reason{}
	}
	price := fmt.Sprintf("for %s of disk", (pricing.Rate(spares) * disk).Display(t.X.Book().Unit))
	if disk == 0 {
		price = "at no cost, since disk has no price"
	}
	t.Plan.Advice[p.Name] = draft.Because(nodescaler.SparesAdvised, "in %s pods waited for %s: %s, %s, would have had each machine ready %s sooner (spares: auto)",
		seen.Round(time.Minute), pricing.Count(waits, "new machine"), pricing.Count(spares, "spare"), price, k.sooner().Round(time.Second))
}

func (t *stocks) stockOf(p *nodescaler.PoolSize) stock {
	s := stock{worth: t.worthOf(p)}
	for _, m := range t.X.Spares {
		switch {
		case m.Pool != p.Name || t.Woken[m.Name] || t.Let[m.Name]:
		case m.Phase != nodescaler.Spare:
			s.making = append(s.making, m)
		case t.outdated(m):
			s.outdated = append(s.outdated, m)
		default:
			s.good = append(s.good, m)
		}
	}
	for _, m := range t.X.Machines {
		if m.Pool == p.Name && m.Phase.Live() && t.lent(m, s.have()+s.lent+1) {
			s.lent++
		}
	}
	return s
}

// lent reports whether a machine that was a spare is expected to be one again, the nth that would
// be there. It is given up when it has been away for as long as that one has to wait to be worth
// what an order in its place costs. That is when who does not know the future should stop
// waiting.
func (t *stocks) lent(m *nodescaler.Machine, nth int) bool {
	times := t.keep.saved(m.Pool, nth, t.X.Now)
	// a day, in time of a machine's price
	saves := times * t.keep.cfg.Worth * float64(t.keep.sooner())
	return !m.Woken.IsZero() && float64(t.X.Now.Sub(m.Woken))*saves < float64(t.keep.lead)*float64(spareMemory)
}

// allowed is how many spares of the pool leave the limit every machine of theirs that it allows
// without them, if the next one is on the host given, or on any that carries some already. Of
// pools that want spares the first by name come first.
func (t *stocks) allowed(p *nodescaler.PoolSize, next string) int {
	shape := t.spareShape(p)
	rate, disk := t.leastRate(p, shape), t.X.SpareRate(shape)
	if t.X.Limit <= 0 || rate <= 0 {
		return math.MaxInt
	}
	away, machines := t.keptAway(p), 0
	bare := t.X.PaidFor(func(m *nodescaler.Machine) bool { return !m.Kept() && !t.leaves(m) || m.Kept() && t.X.Away(m.Host) })
	for i := range t.X.Snapshot.Machines {
		m := &t.X.Snapshot.Machines[i]
		if m.Pool == p.Name && !m.Kept() && !t.leaves(m) {
			machines++
		}
	}
	left := t.X.Limit - bare.Rate() - t.othersDisks(p)
	still := max(min(left/rate, pricing.Rate(p.Max-machines)), 0)
	left -= t.hostParts(bare, next)
	switch {
	case left < still*rate:
		return away
	case disk == 0:
		return math.MaxInt
	}
	// Beside n machines there is room for so many spares; it is least with all of them, or with
	// the first where a disk costs more than its machine.
	spares := func(n pricing.Rate) pricing.Rate { return n + (left-n*rate)/disk }
	return away + int(min(spares(still), spares(min(still, 1))))
}

// keptAway is how many of the pool's spares are on hosts that are away: they can be neither woken
// nor returned.
func (t *stocks) keptAway(p *nodescaler.PoolSize) (n int) {
	for _, m := range t.X.Spares {
		if m.Pool == p.Name && t.X.Away(m.Host) {
			n++
		}
	}
	return n
}

// leastRate is what a machine of the shape costs on the cheapest of the hosts that take the pool's.
func (t *stocks) leastRate(p *nodescaler.PoolSize, s pricing.Shape) pricing.Rate {
	rate := pricing.Rate(math.MaxInt64)
	for i := range t.X.Hosts {
		if h := t.X.Hosts[i].Host; p.Takes(h) {
			rate = min(rate, t.X.Rate(s, h.Name))
		}
	}
	if rate == math.MaxInt64 {
		return t.X.Rate(s, "")
	}
	return rate
}

// leaves reports whether a machine is on its way out: a spare may come of it, or nothing.
func (t *stocks) leaves(m *nodescaler.Machine) bool {
	n := t.X.NodeOf(m.Name)
	return !m.Phase.Live() || n != nil && n.Draining
}

// othersDisks is what the spares cost that pools before this one are to have, beside those that
// are paid for however it is decided.
func (t *stocks) othersDisks(p *nodescaler.PoolSize) (sum pricing.Rate) {
	for i := range t.X.Pools {
		o := &t.X.Pools[i]
		if o.Name >= p.Name {
			break
		}
		if w := t.worthOf(o); len(o.Shapes) > 0 {
			sum += pricing.Rate(max(w.want()-t.keptAway(o), 0)) * t.X.SpareRate(t.spareShape(o))
		}
	}
	return sum
}

// hostParts is what hosts cost that carry nothing but spares.
func (t *stocks) hostParts(bare *nodescaler.Paid, next string) (sum pricing.Rate) {
	hosts := map[string]bool{next: next != ""}
	for _, m := range t.X.Spares {
		hosts[m.Host] = true
	}
	for host, carries := range hosts {
		if carries && !bare.Carries(host) {
			sum += t.X.Book().HostRate(host, t.X.Now)
		}
	}
	return sum
}

// firstHost is where the pool's first spare would be made; empty if there is one, or none can be.
func (t *stocks) firstHost(p *nodescaler.PoolSize) string {
	if slices.ContainsFunc(t.X.Spares, func(m *nodescaler.Machine) bool { return m.Pool == p.Name }) {
		return ""
	}
	return t.spareOffer(p).Host
}

// spareOffer is the machine that the pool's next spare would be made of; on no host if no host
// takes it.
func (t *stocks) spareOffer(p *nodescaler.PoolSize) packing.Offer {
	o := packing.Offer{Pool: p.Name, Shape: t.spareShape(p)}
	for i := range t.X.Hosts {
		h := t.X.Hosts[i].Host
		if rate := t.X.Rate(o.Shape, h.Name); t.Holds(p.Pool, o.Shape, h) && (o.Host == "" || rate < o.Rate) {
			o.Host, o.Rate = h.Name, rate
		}
	}
	if o.Host != "" {
		o.Host = t.hostFor(o, t.Free, nil, t.apart(p.Name))
	}
	return o
}

// apart is the order in which hosts come into question for a spare: it is of use when another
// host is lost, so it goes where the pool has fewest machines, spares included, and of those
// where fewest run.
func (t *stocks) apart(pool string) func(a, b string) int {
	all := func(host string) int { return t.running(pool, host) + t.kept(pool, host) }
	return func(a, b string) int {
		return cmp.Or(cmp.Compare(all(a), all(b)), cmp.Compare(t.running(pool, a), t.running(pool, b)), -cmp.Compare(t.Free[a].Memory, t.Free[b].Memory))
	}
}
