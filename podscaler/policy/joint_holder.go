package policy

import (
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
)

// holder keeps replicas that are not needed for as long as they may be needed again.
type holder struct {
	keep    time.Duration
	learns  bool // how long to keep
	needs   needs
	regrets regrets
	off     *switches
}

// see takes in how many are needed now, and whether it is to work off a queue.
func (h *holder) see(v *podscaler.View, replicas int, queued bool) {
	if h.learns {
		h.regrets.see(v.Now, replicas, queued)
		h.keep = h.regrets.keep()
	}
	h.needs.add(v, replicas, max(h.keep, longKeep), queued)
}

// unknown notes that it is not known how many are needed.
func (h *holder) unknown(now time.Time) {
	h.needs.unknown(now)
	h.regrets.unknown()
}

// kept is how many replicas stay of those that there are, where n are needed now: the most that
// were needed for a while, and no more than the guard allows. All stay until that is known, and it
// is sure what is needed.
func (h *holder) kept(v *podscaler.View, n int, sure bool, allowed int) int {
	most, known := h.needs.most(v.Now, h.keep)
	if !known || !sure {
		return max(v.Replicas, n)
	}
	if h.learns && !h.off.start {
		most = max(most, h.needs.start(v.Now))
	}
	return min(max(most, n), max(v.Replicas, n), max(allowed, n))
}

// needs are how many replicas were needed of late.
type needs struct {
	since time.Time // the first, or the last that is not known
	all   []need
	// found is when the first were, and foundReplicas how many replicas there were then.
	found         time.Time
	foundReplicas int
}

type need struct {
	at       time.Time
	replicas int
	queued   bool // so many to work off a queue: no load that comes again
}

func (n *needs) add(v *podscaler.View, replicas int, memory time.Duration, queued bool) {
	if n.since.IsZero() {
		n.since = v.Now
	}
	if n.found.IsZero() {
		n.found, n.foundReplicas = v.Now, v.Replicas
	}
	old := 0 // the oldest come first
	for old < len(n.all) && v.Now.Sub(n.all[old].at) > memory {
		old++
	}
	n.all = append(slices.Delete(n.all, 0, old), need{v.Now, replicas, queued})
}

// start is how many there were at the start, for as long as what was learnt before may have kept
// them.
func (n *needs) start(now time.Time) int {
	if now.Sub(n.found) < longKeep {
		return n.foundReplicas
	}
	return 0
}

// unknown notes that it is not known how many are needed: it may have been all.
func (n *needs) unknown(at time.Time) { n.since, n.all = at, nil }

// most is the most that was needed for so long; not known if it is not known for so long.
func (n *needs) most(now time.Time, keep time.Duration) (most int, known bool) {
	for _, x := range n.all {
		if age := now.Sub(x.at); age <= keep && (age <= shortKeep || !x.queued) {
			most = max(most, x.replicas)
		}
	}
	return most, !n.since.IsZero() && now.Sub(n.since) >= keep
}

// lately is the least that was needed at this run and those before it, up to so many, of the last
// minute.
func (n *needs) lately(runs int) int {
	last := n.all[len(n.all)-1]
	least := last.replicas
	for i := len(n.all) - 1; i >= max(len(n.all)-runs, 0) && last.at.Sub(n.all[i].at) < time.Minute; i-- {
		least = min(least, n.all[i].replicas)
	}
	return least
}

// regrets are what it would have cost to keep replicas for longer, or shorter, after they were last
// needed, by what has become of those that were given up: for how long they were not needed, until
// they were again.
type regrets struct {
	needed []time.Time // when so many replicas were last needed, from one on
	gaps   []gap
	jam    time.Time // since when there is a queue; zero without one
	calm   int       // how many were needed before it
}

// gap is a time for which replicas were not needed, between two at which they were.
type gap struct {
	over     time.Duration
	replicas int
}

const (
	// shortKeep is how long replicas are kept until that has been seen to be too short, and what is
	// needed to work off a queue always; longKeep is the longest.
	shortKeep, longKeep = 90 * time.Second, 30 * time.Minute
	// missed is what it costs to be without a replica that is needed again, as time for which it
	// could have been kept: on recorded days it buys a minute within the objective for about an
	// hour of a machine.
	missed = time.Hour
	// doubt is how many replicas that are never needed again are held against what has been seen: a
	// load that jumps up once and comes down is no load that does so again.
	doubt = 36
	// remembered is how many gaps are.
	remembered = 64
	// counted is how many replicas are distinguished: what is lost above that comes back below as
	// well.
	counted = 2000
	// alike is how far apart gaps are at most that end together and count as one.
	alike = 30 * time.Second
	// longestJam is how much of a queue's time counts, about what machines take.
	longestJam = 3 * time.Minute
)

// see notes how many are needed now. Those that come back within shortKeep have not been given up.
func (r *regrets) see(now time.Time, replicas int, queued bool) {
	replicas, until := r.without(now, replicas, queued)
	replicas = min(replicas, counted)
	for len(r.needed) < replicas {
		r.needed = append(r.needed, time.Time{})
	}
	var g gap
	for i := range replicas {
		last := r.needed[i]
		r.needed[i] = now
		over := until.Sub(last)
		if last.IsZero() || over <= shortKeep {
			continue
		}
		if g.replicas > 0 && over-g.over > alike {
			r.add(g)
			g = gap{}
		}
		g = gap{max(g.over, over), g.replicas + 1}
	}
	r.add(g)
}

// without is how many are needed without those that work off a queue, which are not known to be
// needed again: of a queue what counts is how many are needed once it is gone. Until is how long
// those that come back were missed. Some of the time of the queue counts: gaps are of many lengths,
// and a keep that is as long as the last would end just before the next.
func (r *regrets) without(now time.Time, replicas int, queued bool) (calm int, until time.Time) {
	if queued {
		if r.jam.IsZero() {
			r.jam = now
		}
		return min(replicas, r.calm), now
	}
	until = now
	if late := r.jam.Add(longestJam); !r.jam.IsZero() && late.Before(now) {
		until = late
	}
	r.calm, r.jam = replicas, time.Time{}
	return replicas, until
}

// unknown notes that it is not known how many are needed: it may have been all, and no replica was
// given up.
func (r *regrets) unknown() { r.needed = nil }

func (r *regrets) add(g gap) {
	if g.replicas == 0 {
		return
	}
	if len(r.gaps) == remembered {
		r.gaps = r.gaps[1:]
	}
	r.gaps = append(r.gaps, g)
}

// keep is the time that would have cost least. It is a little more than what it bridges.
func (r *regrets) keep() time.Duration {
	best, least := shortKeep, r.cost(shortKeep)
	for _, g := range r.gaps {
		d := g.over + 10*time.Second
		if cost := r.cost(d); d <= longKeep && cost < least {
			best, least = d, cost
		}
	}
	return best
}

// cost is of keeping replicas for so long, in replicas × seconds.
func (r *regrets) cost(keep time.Duration) float64 {
	sum := doubt * keep.Seconds()
	for _, g := range r.gaps {
		each := min(g.over, keep)
		if g.over > keep {
			each += missed
		}
		sum += float64(g.replicas) * each.Seconds()
	}
	return sum
}
