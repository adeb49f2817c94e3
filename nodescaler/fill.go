package nodescaler

import (
	"cmp"
	"math"
	"slices"

	"github.com/plimsoll/plimsoll/pricing"
)

// stay is a bin without the replicas of the asks, and whether it remains even if they need none of
// it.
type stay struct {
	bin
	stays bool
}

// fill computes for each lot how many replicas cost nothing extra. It packs the needed replicas of
// all lots onto as few machines as possible. The room left on these goes to the highest bids,
// running replicas first. If each workload did this alone, each would see less than a machine of
// free room and fill it. Together they would then hold machines that none of them needs.
func (s *sharing) fill() {
	bins := s.stays()
	for _, p := range s.waiting() { // they are placed in any case
		hold(bins, p, 1)
	}
	twin := &sharing{asks: s.asks, lots: make([]lot, len(s.lots))}
	order := make([]*lot, len(s.lots))
	for i := range s.lots {
		twin.lots[i].ask = &s.asks[i]
		order[i] = &twin.lots[i]
	}
	twin.endow(s.x.Tenants(), true)
	slices.SortFunc(order, func(a, b *lot) int { // the largest first, which packs best
		return cmp.Or(cmp.Compare(b.ask.Like.Requests.CPU, a.ask.Like.Requests.CPU), cmp.Compare(a.ask.Workload, b.ask.Workload))
	})
	for _, l := range order {
		l.held = hold(bins, &l.ask.Like, l.needs())
		l.purse.take(l.held, l.each)
	}
	s.keepLeast(bins)
	var left []*bin
	for _, b := range bins {
		if b.stays {
			left = append(left, &b.bin)
		}
	}
	twin.auction(left)
	for i := range s.lots {
		s.lots[i].places.Filled = twin.lots[i].held
	}
}

// needs is how many replicas the lot cannot do without.
func (l *lot) needs() int {
	if !l.ask.Bid.Known {
		return l.ask.Replicas
	}
	return min(l.ask.Bid.Want, l.ask.Most)
}

// hold places up to n such pods, one by one, on the first machine that takes them, machines that
// remain first. It returns how many found room. A machine that refused one pod refuses the next, so
// each machine is tried once: many pods on many machines would otherwise take most of a decision's
// time.
func hold(bins []*stay, p *Pod, n int) (held int) {
	for _, staying := range []bool{true, false} {
		for _, b := range bins {
			if b.stays != staying {
				continue
			}
			for ; held < n && b.fits(p); held++ {
				b.take(p)
				b.stays = true
			}
		}
	}
	return held
}

// keepLeast lets as many machines stay as pools must have.
func (s *sharing) keepLeast(bins []*stay) {
	for i := range s.x.Pools {
		p := &s.x.Pools[i]
		staying := 0
		for _, b := range bins {
			if b.pool == p.Name && b.stays {
				staying++
			}
		}
		for _, b := range bins {
			if b.pool == p.Name && !b.stays && staying < p.Min {
				b.stays, staying = true, staying+1
			}
		}
	}
}

// stays returns the bins without the replicas of the asks. A node remains if it carries other pods,
// or if its machine is not ours.
func (s *sharing) stays() []*stay {
	byNode := make(map[string]*stay, len(s.bins))
	bins := make([]*stay, 0, len(s.bins))
	for _, b := range s.bins {
		at := &stay{bin: *b, stays: b.pool == ""}
		bins = append(bins, at)
		if at.node != "" {
			byNode[at.node] = at
		}
	}
	for i, of := range s.of {
		p := &s.x.Snapshot.Pods[i]
		b := byNode[p.Node]
		switch {
		case b == nil || p.Finished() || p.Daemon:
		case of >= 0:
			b.room, b.extra, b.slots, b.crowd = b.room.Plus(p.Requests), b.extra.Plus(p.Extra), b.slots+1, b.crowd.Without(p)
		default:
			b.stays = true
		}
	}
	return bins
}

// purse is what a namespace with a quota may still take, shared by its workloads.
type purse struct {
	rate     pricing.Rate
	replicas int
}

// endow gives the lots of namespaces with quotas what those leave them: beside what is there, or
// anew.
func (s *sharing) endow(t *Tenants, anew bool) {
	purses := map[string]*purse{}
	for i := range s.lots {
		l := &s.lots[i]
		tenant := t.Of(NamespaceOf(l.ask.Workload))
		if tenant == nil {
			continue
		}
		if purses[tenant.Namespace] == nil {
			purses[tenant.Namespace] = tenant.purse(anew)
		}
		l.purse, l.each = purses[tenant.Namespace], t.Least(l.ask.Like.Requests)
	}
}

func (t *Tenant) purse(anew bool) *purse {
	p := &purse{rate: math.MaxInt64, replicas: math.MaxInt}
	taken := t.Takes
	if anew {
		taken = Take{}
	}
	if t.Rate > 0 {
		p.rate = t.Rate - taken.Rate
	}
	if t.Replicas > 0 {
		p.replicas = t.Replicas - taken.Replicas
	}
	return p
}

// take takes so many replicas that come to so much each.
func (p *purse) take(n int, each pricing.Rate) {
	if p != nil {
		p.rate, p.replicas = p.rate-each*pricing.Rate(n), p.replicas-n
	}
}

// may reports whether the lot may have another replica.
func (l *lot) may() bool {
	return l.held < l.ask.Most && (l.purse == nil || l.purse.replicas > 0 && l.purse.rate >= l.each)
}
