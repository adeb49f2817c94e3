package policy

import (
	"math"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
)

// callers tells by how a queue grows who is in it. Users wait for their answers before they ask again: their queue grows by
// those who come and no further, and all that is in it would come each time it is answered. Others do not know of each other,
// as visitors of a web site: of them as many requests come a second whatever becomes of those before, and their queue grows
// for as long as pods are too few, however little they are. How long it is then says nothing of how many pods are needed, and
// how fast it grows does.
//
// Users are taken for granted until a queue has told, and what it told is remembered.
type callers struct {
	at       time.Time // of the last count
	inFlight float64   // that were counted; NaN where they were not
	pods     float64
	full     float64 // requests a second that those pods can do
	done     float64 // and that they did, which CPU tells a little late
	grows    float64 // by how many requests a second the queue grows; NaN where it is not known
	with     float64 // how many pods there were when it grew so
	evidence float64 // in powers of e: above 0 for others, below for users
	lately   float64 // that of this queue
	first    bool    // the last count is the first by which it is known how the queue grows
}

const (
	// telling is how much evidence it takes to go by, toldAtOnce how much of it one count can be, and surest how much is kept.
	telling, toldAtOnce, surest = 1, 1, 3
	// chance is by how much what comes and is answered may be off by chance, squared, of each request.
	chance = 4
	// begun is how many times what a queue that has just begun grows by there may be: of users, all of whom come at once, by
	// about as much.
	begun = 1.5
	// countsBelong is how far apart counts may be to be of one queue.
	countsBelong = time.Minute
)

// see takes in how many requests are in flight on so many pods, each of which gets so many done a second at most, and how
// many all of them do. A count that is the last once more is no other: a series is read more often than it is written.
func (c *callers) see(now time.Time, inFlight float64, pods int, each, done float64) {
	passed, n := now.Sub(c.at), float64(pods)
	queued, follows := queues(inFlight, pods), 0 < passed && passed <= countsBelong && !math.IsNaN(c.inFlight)
	switch {
	case passed == 0 || queued && follows && inFlight == c.inFlight:
		return
	case queued && follows:
		c.grow(passed.Seconds(), inFlight-c.inFlight, n, each)
	default:
		c.grows, c.lately = math.NaN(), 0
	}
	c.at, c.inFlight, c.pods, c.full, c.done = now, inFlight, n, n*each, min(done, n*each)
}

// grow holds by how much a queue grew against what was to be expected: of others as much as before, less what pods that came
// since get done; of users nothing, or as much as before where pods came, for they ask again as soon as they are answered.
// While pods come nothing can be told.
func (c *callers) grow(seconds, grown, pods, each float64) {
	was, now := c.grows, grown/seconds
	switch noise := chance * pods * each * seconds; {
	case math.IsNaN(was):
		c.grows, c.with, c.first = now, pods, true
		return
	case pods != c.pods:
		return
	case pods != c.with:
		c.lately = 0 // whose queue grows less by as much as more pods get done is told for good
		c.weigh((was-(pods-c.with)*each-now)*seconds, (was-now)*seconds, noise)
		c.grows, c.with = now, pods
	default:
		c.weigh((was-now)*seconds, grown, noise)
		c.grows += (now - was) / 2
	}
	c.first = false
}

// weigh takes in how far off what was expected of others has been, and of users.
func (c *callers) weigh(others, users, noise float64) {
	if told := math.Log((users*users + noise) / (others*others + noise)); !math.IsNaN(told) {
		told = min(max(told, -toldAtOnce), toldAtOnce)
		c.lately += told
		c.evidence = min(max(c.evidence+told, -surest), surest)
	}
}

// wait reports whether they are taken for users who wait for their answers.
func (c *callers) wait() bool { return c.evidence < telling }

// doubt is by how many times what comes of others is to be reckoned with while nobody knows who they are: of a queue that
// has begun, as users who come at once ask as much more within a moment, and of one that goes on as others'. It is 0
// where there is none.
func (c *callers) doubt() float64 {
	switch {
	case math.Abs(c.evidence) >= telling || math.IsNaN(c.grows):
		return 0
	case c.first:
		return begun
	case c.lately > 0:
		return 1
	}
	return 0
}

// coming is how many requests come a second of those who do not wait: by a queue, where there is one, for what is measured
// over a window is late. Else it is as many as were measured. Pods that wait for somebody else hold many requests
// and do few, so what they did counts; in doubt what they can do, for a queue that has begun is ahead of their CPU.
func (c *callers) coming(measured float64) float64 {
	switch {
	case math.IsNaN(c.grows):
		return measured
	case c.wait():
		return max(c.full+c.grows, 0)
	}
	return max(c.done+c.grows, 0)
}

// listen lets callers know of a queue. What is not counted but reckoned from response times tells of the last minutes.
func (p *joint) listen(v *podscaler.View) {
	inFlight, counted := v.Window.InFlight.Number()
	demand, known := p.service.Demand()
	done, used := used(v.Pods)
	if !counted || !known || !used {
		p.callers.inFlight, p.callers.grows = math.NaN(), math.NaN()
		return
	}
	each := p.service.Quota()
	if p.waiting { // for another service, and pods get done what that lets them
		each = done / float64(max(serving(v.Pods), 1))
	}
	p.callers.see(v.Now, inFlight, serving(v.Pods), each/demand, done/demand)
}
