package policy

import (
	"math"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
)

// pauses detects users who do not pause between an answer and the next request, as load generators
// do by default. Each of them has a request in flight at all times. So as many are in flight
// however long answers take, or as many more each time while such users come steadily; of users who
// pause, it is nearly as spread as arrivals by chance.
//
// More of them are no more load for CPU that is used up. All that shows is longer answers, and by
// then it is late.
type pauses struct {
	counts []flight // the last three, oldest first
	still  []bool   // of the last informative ones: as many in flight as before, or as many more
	seen   time.Time
	none   bool
}

// flight is what was counted at a time.
type flight struct {
	at             time.Time
	flying, coming float64 // requests in flight, and those that came within countsApart
}

const (
	// countsApart is how far apart counts are at least, for a series may not change between two
	// reads.
	countsApart = time.Minute
	// jitter is by how much runs that far apart may be early.
	jitter = 2 * time.Second
	// pausesKept is for how long the result is kept while no count is informative.
	pausesKept = 30 * time.Minute
	// fewFlying is how many have to be in flight: of fewer it is often as many by chance.
	fewFlying = 4
	// steady is how far a count may be from where the two before it lead, as a part of what chance
	// explains, and squared. By chance one in eight is. Regular is the same for arrivals that come
	// like clockwork, which make in-flight counts steady as well, of whichever users.
	steady, regular = 0.02, 0.0005
	// pausesSeen is how many counts are judged. From pausesNone steady ones on users are taken not
	// to pause, until no more than pausesSome are.
	pausesSeen, pausesNone, pausesSome = 10, 9, 5
)

// see takes in how many requests are in flight, how many a second come, and how long they take.
// Only a count at a moment is informative, which is a whole number: a mean over a while hardly
// changes. And only one of which at least half are requests that are answered (Little's law): a
// connection that stays open for an hour is no user.
func (p *pauses) see(now time.Time, w *podscaler.Window) {
	n, ok := w.InFlight.Number()
	mean := ok && n != math.Trunc(n)
	if since := now.Sub(p.seen); mean || since < 0 || since > pausesKept {
		p.still, p.none, p.seen = nil, false, now
	}
	if last := len(p.counts) - 1; last >= 0 {
		if passed := now.Sub(p.counts[last].at); 0 <= passed && passed < countsApart-jitter {
			return
		} else if passed < 0 || passed >= 3*countsApart {
			p.counts = nil
		}
	}
	if served, known := answering(w); !ok || mean || n < fewFlying || !known || served < n/2 {
		p.counts = nil
		return
	}
	rate, _ := w.Arrivals.Number()
	p.counts = append(p.counts, flight{now, n, rate * countsApart.Seconds()})
	if len(p.counts) < 3 {
		return
	}
	a, b, c := p.counts[0], p.counts[1], p.counts[2]
	p.counts = p.counts[1:]
	if !isSteady(a.coming, b.coming, c.coming, regular) {
		p.judge(isSteady(a.flying, b.flying, c.flying, steady))
		p.seen = now
	}
}

// isSteady reports whether the last of three counts is where those before it lead, next to what
// chance explains: the sum of the variances of what is added up.
func isSteady(a, b, c, part float64) bool {
	off := a - 2*b + c
	return off*off <= part*(a+4*b+c)
}

func (p *pauses) judge(still bool) {
	if p.still = append(p.still, still); len(p.still) > pausesSeen {
		p.still = p.still[1:]
	}
	n := 0
	for _, s := range p.still {
		if s {
			n++
		}
	}
	p.none = n >= pausesNone || p.none && n > pausesSome
}
