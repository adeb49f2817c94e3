package sim

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// newSender returns the sender of a load.
func newSender(s *service, l Load, rng *rand.Rand) sender {
	switch l.Kind {
	case Open:
		return &open{svc: s, load: l, rng: rng, top: l.Level.Max(), due: never}
	case Pace:
		return &closed{svc: s, load: l, pace: true}
	default:
		return &closed{svc: s, load: l}
	}
}

// apportion makes whole numbers of parts, which come to what the parts come to together: each has
// its whole, and what is left over goes to the largest remainders, of equal ones to the first.
func apportion(parts []float64) []int {
	out, order := make([]int, len(parts)), make([]int, len(parts))
	sum, left := 0.0, 0
	for i, p := range parts {
		out[i], order[i] = int(p), i
		sum, left = sum+p, left-int(p)
	}
	left += int(math.Round(sum))
	// Less than that is noise.
	remainder := func(i int) float64 { return math.Round(1e6 * (parts[i] - float64(out[i]))) }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(remainder(b), remainder(a)) })
	for _, i := range order[:left] {
		out[i]++
	}
	return out
}

// closed is a number of users who each wait for their answer. As all pause for the same
// time, whoever starts to wait first is first to go on: a queue serves for a heap.
type closed struct {
	svc    *service
	load   Load
	pace   bool
	target int
	active int
	wakes  queue
	users  []userState // of paced users
	free   []int32
}

// userState is where a paced user is between two requests.
type userState uint8

const (
	waiting  userState = iota // for the answer, before the next request is due
	answered                  // has it, and waits for the next request to be due
	overdue                   // has no answer yet, and the next request is due
)

// wake is a user's next action.
type wake struct {
	at   time.Duration
	user int32
}

func (c *closed) next() time.Duration { return c.wakes.next() }

func (c *closed) level(_ time.Duration, l float64) {
	c.target = int(math.Round(l))
	n := c.target - c.active
	for i := range n {
		user := c.enter()
		after := c.spread(user, i, n)
		c.svc.world.later(after, func() { c.request(c.svc.world.now, user) })
	}
	c.active += max(0, n)
}

// spread is when the i-th of n new users comes. A paced user keeps its place in the second for
// good, so it has one by its number, and those of numbers in a row are far apart. Users that come
// one by one at the full second, as a climbing level has them, would else make one burst a second.
func (c *closed) spread(user int32, i, n int) time.Duration {
	if !c.pace {
		return time.Duration(int64(c.load.Spread) * int64(i) / int64(n))
	}
	const golden = 0.6180339887498949
	_, place := math.Modf(golden * float64(user))
	return time.Duration(place * float64(c.load.Spread))
}

// leaves reports whether the user is one too many. Of paced users it is those with the highest
// numbers who go: were it the next one to come, all who stay would be late in the second after a
// while.
func (c *closed) leaves(user int32) bool {
	return c.active > c.target && (!c.pace || int(user) >= c.target)
}

// enter gives a new user a number. Only paced users have a state to be kept.
func (c *closed) enter() int32 {
	if !c.pace {
		return 0
	}
	if n := len(c.free); n > 0 {
		user := c.free[n-1]
		c.free = c.free[:n-1]
		return user
	}
	c.users = append(c.users, waiting)
	return int32(len(c.users) - 1)
}

func (c *closed) act(now time.Duration) {
	w := c.wakes.pop()
	if c.pace && c.users[w.user] == waiting {
		c.users[w.user] = overdue
		return
	}
	c.request(now, w.user)
}

// request sends a user's next request, or lets the user go if there are too many.
func (c *closed) request(now time.Duration, user int32) {
	if c.leaves(user) {
		c.active--
		if c.pace {
			c.free = append(c.free, user)
		}
		return
	}
	if c.pace {
		c.users[user] = waiting
		c.wakes.push(wake{now + c.load.Think, user})
	}
	c.svc.send(now, user)
}

func (c *closed) answered(now time.Duration, user int32) {
	switch {
	case !c.pace:
		c.wakes.push(wake{now + c.load.Think, user})
	case c.users[user] == overdue:
		c.request(now, user)
	default:
		c.users[user] = answered
	}
}

// open sends requests at a rate, regardless of them.
type open struct {
	svc  *service
	load Load
	rng  *rand.Rand
	top  float64 // the highest rate there will be
	due  time.Duration

	// Evenly, the rate is added up until it makes a request. It is looked at every second at
	// least, so that a slow time never sleeps through a fast one.
	owed float64 // the part of the next request that has come up
	rate float64 // since
	from time.Duration
}

func (o *open) next() time.Duration { return o.due }

func (o *open) level(now time.Duration, _ float64) {
	if o.due == never {
		o.plan(now)
	}
}

func (o *open) act(now time.Duration) {
	if o.arrives(now) {
		o.svc.send(now, 0)
	}
	o.plan(now)
}

// arrives reports whether a request is due now. At random, gaps are drawn for the highest rate
// and thinned out to the present one.
func (o *open) arrives(now time.Duration) bool {
	if !o.load.Even {
		return o.rng.Float64()*o.top < o.load.Level.At(now)
	}
	o.owed += o.rate * (now - o.from).Seconds()
	if o.owed < 1-1e-9 {
		return false
	}
	o.owed = max(0, o.owed-1)
	return true
}

func (o *open) plan(now time.Duration) {
	o.rate, o.from = o.load.Level.At(now), now
	wait := 1.0
	switch {
	case o.top <= 0:
		wait = math.Inf(1)
	case !o.load.Even:
		wait = o.rng.ExpFloat64() / o.top
	case o.rate > 0:
		wait = min(wait, (1-o.owed)/o.rate)
	}
	if o.due = never; wait < 1e9 {
		o.due = now + max(1, time.Duration(math.Ceil(wait*1e9)))
	}
}

func (o *open) answered(time.Duration, int32) {}

// queue is a ring of wakes that are pushed in order of time.
type queue struct {
	ring []wake
	head int
	n    int
}

func (q *queue) next() time.Duration {
	if q.n == 0 {
		return never
	}
	return q.ring[q.head].at
}

func (q *queue) push(w wake) {
	if q.n == len(q.ring) {
		grown := make([]wake, max(64, 2*len(q.ring)))
		for i := range q.n {
			grown[i] = q.ring[(q.head+i)&(len(q.ring)-1)]
		}
		q.ring, q.head = grown, 0
	}
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = w
	q.n++
}

func (q *queue) pop() wake {
	w := q.ring[q.head]
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return w
}
