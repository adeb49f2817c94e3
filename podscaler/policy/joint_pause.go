package policy

import (
	"math"
	"time"
)

// pause estimates for how long users pause between an answer and their next request. It decides how
// much load a queue is. Users who pause for a second and wait ask that much more as soon as
// they are answered, while requests that do not depend on each other are users who never come
// back. One number covers both, and all workloads between them.
//
// A closed workload of n users obeys n = inFlight + rate × pause (Little's law). So a pause is seen
// in two ways. While a queue builds up on the same pods, it grows the slower the fewer users are
// left to join it: the queue of users levels off within a pause, and that of others grows on. Once
// pods have worked a queue off, the requests in flight that are gone have become a higher rate.
type pause struct {
	queue []count // the present queue since its pods last changed, oldest first
	seen  float64 // the pause that this queue has shown, in seconds; 0 until then
	prior float64 // and that it had shown before its pods last changed
	grows float64 // a second, of late
	// What it would grow by on the present pods if none depended on others; NaN: unknown.
	open   float64
	learnt float64 // logarithm of the pause that earlier queues have shown
	weight float64
	peak   count     // the present or the last queue at its longest
	gone   time.Time // when the last queue was; zero while there is one
	// deduced is whether requests in flight are only known from response times.
	deduced bool
}

// count is what was counted at a time.
type count struct {
	at             time.Time
	inFlight, rate float64
	pods           int
}

const (
	// A pause lies between shortestPause and longestPause, in seconds, and is taken for usualPause
	// where a queue levels off at once. Requests that do not depend on each other are users who
	// pause for the longest: their queue is to be gone within that.
	shortestPause, usualPause, longestPause = 0.1, 1., 60.
	// pauseMemory is how many queues the estimate goes back, in the geometric mean.
	pauseMemory = 4
	// countsBelong is how far apart counts may be to be of one queue.
	countsBelong = 2 * time.Minute
	// mostCounts is how many counts of a queue are remembered: of more, every second one is.
	mostCounts = 512
	// chance is how many times as much as requests that come by chance a queue has to grow by.
	chance = 2
)

// see takes in a count of requests in flight, on pods that each get so many done a second, which is
// not a number where it is unknown. A count that repeats the last is no other: a series is read
// more often than it is written. What is deduced from response times is a mean over a window, which
// does not show how a queue grows.
func (p *pause) see(c count, each float64, counted bool) {
	if p.deduced = !counted; p.deduced {
		p.forget()
		p.drain(c)
		return
	}
	if last := len(p.queue) - 1; last >= 0 {
		was := &p.queue[last]
		switch {
		case !c.at.After(was.at) || c.inFlight == was.inFlight && c.pods == was.pods:
			return
		case c.at.Sub(was.at) > countsBelong:
			p.forget()
		case c.pods != was.pods && queues(was.inFlight, was.pods):
			p.open, p.prior, p.queue = p.grows-float64(c.pods-was.pods)*each, p.seen, nil
		}
	}
	p.drain(c)
	if !queues(c.inFlight, c.pods) {
		p.forget()
	}
	p.thin()
	if p.queue = append(p.queue, c); queues(c.inFlight, c.pods) && len(p.queue) > 1 {
		p.grow()
	}
}

// thin forgets every second count of a long queue, but for the first and the last.
func (p *pause) thin() {
	last := len(p.queue) - 1
	if last+1 < mostCounts {
		return
	}
	kept := p.queue[:1]
	for i := 2 - last%2; i <= last; i += 2 {
		kept = append(kept, p.queue[i])
	}
	p.queue = kept
}

// forget forgets the present queue.
func (p *pause) forget() {
	p.queue, p.seen, p.prior, p.grows, p.open = nil, 0, 0, math.NaN(), math.NaN()
}

// grow estimates the pause by how the queue has grown on the same pods.
func (p *pause) grow() {
	last := len(p.queue) - 1
	first, now := &p.queue[0], &p.queue[last]
	took, before := now.at.Sub(first.at), last-1
	for before > 0 && now.at.Sub(p.queue[before].at) < took/3 {
		before--
	}
	long, short := took.Seconds(), now.at.Sub(p.queue[before].at).Seconds()
	grown, recent := now.inFlight-first.inFlight, now.inFlight-p.queue[before].inFlight
	p.grows = recent / short
	switch levels := recent <= noise(now.rate, short); {
	case recent < -noise(now.rate, short): // it is being worked off, which either is
	case levels && p.prior == 0:
		p.seen = usualPause
	case levels:
		if open := p.open * short; math.Abs(open) > 2*noise(now.rate, short) {
			p.seen = usualPause // or it would have grown, or shrunk
		}
	case queues(first.inFlight, first.pods) && last == 1:
		p.seen = longestPause
	default:
		part := p.grows * long / grown
		p.seen = bounded(long * part / max(1-part, 0.01))
	}
}

// noise is how much a queue changes by chance, of so many requests a second.
func noise(rate, seconds float64) float64 { return chance * math.Sqrt(max(rate, 1)*seconds) }

func bounded(seconds float64) float64 {
	return min(max(seconds, shortestPause), longestPause)
}

// drain learns from a queue that was worked off, a longest pause after it was gone: what was
// measured over a window has none of it by then.
func (p *pause) drain(c count) {
	switch queued := queues(c.inFlight, c.pods); {
	case queued && (!p.gone.IsZero() || c.inFlight > p.peak.inFlight):
		p.peak, p.gone = c, time.Time{}
	case queued || p.peak.inFlight == 0:
	case p.gone.IsZero():
		p.gone = c.at
	case c.at.Sub(p.gone).Seconds() >= longestPause:
		fewer, more := p.peak.inFlight-c.inFlight, c.rate-p.peak.rate
		some := 2 * noise(c.rate, longestPause) / longestPause // of two rates
		if more > -some && fewer > chance*math.Sqrt(p.peak.inFlight) {
			seen := bounded(fewer / max(more, some))
			if more < some { // it is at least that
				seen = max(seen, p.estimate())
			}
			p.weight = min(p.weight+1, pauseMemory)
			p.learnt += (math.Log(seen) - p.learnt) / p.weight
		}
		p.peak, p.gone = count{}, time.Time{}
	}
}

// estimate is the pause in seconds by what is known: of the last queues, else of the present one. A
// queue that has only begun is taken for the longest, which orders least; the few that wait without
// a queue are taken for the usual. What only response times show is taken for the longest, for they
// rise as well where the same requests meet fewer pods.
func (p *pause) estimate() float64 {
	switch {
	case p.weight > 0:
		return math.Exp(p.learnt)
	case p.seen > 0:
		return p.seen
	case p.deduced:
		return longestPause
	}
	if last := len(p.queue) - 1; last >= 0 && queues(p.queue[last].inFlight, p.queue[last].pods) {
		return longestPause
	}
	return usualPause
}

// others reports whether requests are taken not to depend on each other.
func (p *pause) others() bool {
	return (p.weight > 0 || p.seen > 0) && p.long()
}

// long reports whether the pause is so long that what waits passes for requests that come once.
func (p *pause) long() bool { return p.estimate() >= longestPause/4 }
