package policy

import (
	"math"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
)

// pauses finds out that users do not pause between an answer and the next request, as load generators do not that were
// not told to. Each of them has a request in flight at all times. So of users who do not come and go as many
// are in flight whatever they are answered, and of those who come steadily more by as many each time; while of users who
// pause it is as many as it happens, nearly as spread about as what comes by chance.
//
// It matters since more of them are no more load for CPU that is used up, however little of it that may be: what
// is left to see is that answers take longer, and then it is late.
type pauses struct {
	counts []count // the last three, oldest first
	still  []bool  // of the last that tell, whether as many were in flight as before, or as many more
	told   time.Time
	none   bool
}

// count is what was counted at a time.
type count struct {
	at             time.Time
	flying, coming float64 // requests in flight, and those that came within countsApart
}

const (
	// countsApart is how far apart requests in flight are counted at least, for a series may stand between the times
	// at which it is read.
	countsApart = time.Minute
	// jitter is by how much runs that far apart may be early.
	jitter = 2 * time.Second
	// pausesKept is for how long it is remembered while nothing tells of it.
	pausesKept = 30 * time.Minute
	// fewFlying is how many have to be in flight for it to tell anything: of fewer it is often as many by chance.
	fewFlying = 4
	// standing is how far a count may be from where two before it lead, as a part of where chance would have it, and squared;
	// by chance one in eight is. regular is the same for arrivals that come like clockwork. What they come to in flight stands
	// as well, whoever sends them, and tells nothing.
	standing, regular = 0.02, 0.0005
	// pausesSeen is how many counts are looked at. From pausesNone on that stand, users are taken not to pause, until no
	// more than pausesSome do.
	pausesSeen, pausesNone, pausesSome = 10, 9, 5
)

// see takes in how many requests are in flight, how many a second come, and how long they take. Only a count at a
// moment tells anything, which is a whole number: a mean over a while is always about the same. And only one of
// which at least half comes of requests that are answered (Little's law): what is left open for an hour is no user.
func (p *pauses) see(now time.Time, w *podscaler.Window) {
	n, ok := w.InFlight.Number()
	mean := ok && n != math.Trunc(n)
	if since := now.Sub(p.told); mean || since < 0 || since > pausesKept {
		p.still, p.none, p.told = nil, false, now
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
	p.counts = append(p.counts, count{now, n, rate * countsApart.Seconds()})
	if len(p.counts) < 3 {
		return
	}
	a, b, c := p.counts[0], p.counts[1], p.counts[2]
	p.counts = p.counts[1:]
	if !stands(a.coming, b.coming, c.coming, regular) {
		p.judge(stands(a.flying, b.flying, c.flying, standing))
		p.told = now
	}
}

// stands reports whether the last of three counts is where those before it lead, next to where chance would have it:
// the sum of the variances of what is added up.
func stands(a, b, c, part float64) bool {
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
