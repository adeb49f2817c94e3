package planner

import (
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/draft"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/packing"
)

// turn is what the parts of a scan share.
type turn struct {
	*draft.Draft
	*memory
	rules  *Rules
	places *places
	coming []*nodescaler.Machine // expected to become nodes
	busy   int                   // nodes and machines on their way out
	// fills has the places on machines that are coming kept for those that were planned onto them.
	fills bool
	// headroom is what is kept free on nodes.
	headroom map[string][]*nodescaler.Pod
	// ending is why machines are to go whose drains have not begun, by node.
	ending map[string]nodescaler.Reason
	going  map[string]*going // by pool; nil until it is asked for
}

// going counts the machines of a pool that have joined, and those of them on their way out.
type going struct{ all, out int }

// memory is what is known of the scans before. All of it may be forgotten: every clock then starts
// again, which only makes it later to reclaim something.
type memory struct {
	first                     bool // the present scan is the first, and only looks and orders
	started                   time.Time
	added, deleted, undrained time.Time // the last order, return and failed drain

	clocks
	orders
	departures
}

// clocks say since when nodes and machines are as they are.
type clocks struct {
	idle      since // nodes: unneeded
	unready   since // nodes: not ready
	drains    since // nodes: being emptied
	emptied   since // nodes: without pods, and with volumes attached
	lost      since // machines: joined, and without a node
	unawaited since // machines: ordered, and needed by no pod
	failed    since // machines: failed or given up, and counted in their pool's backoff
	// unasked are nodes whose machines were held at the last look: whether those are needed is
	// not asked.
	unasked map[string]bool
}

// orders are what is known of machines that were ordered, and of pods that wait.
type orders struct {
	grew time.Time // the last order for pods that wait
	// meant are the machines that pods which wait were planned for when those were ordered. The
	// packing may find no places on them for the same pods once more.
	meant map[string]string
	// posed and posing are the problems of the last scan and of this one, solved.
	posed, posing []solved
	backoffs      map[string]*backoff
	// compared are the revisions by which pools' machines were last found to have drifted, or not.
	compared map[string]string
}

// solved is a problem and its result.
type solved struct {
	problem packing.Problem
	result  packing.Result
}

// departures are what is known of machines that work and are to go.
type departures struct {
	// ends is why nodes are emptied that are needed; of the others it is that they are not.
	ends map[string]nodescaler.Reason
	// unended is when the drains of such nodes failed.
	unended map[string]time.Time
	// replacing are the nodes that wait for what replaces them, and the machines that they wait
	// for.
	replacing map[string]end
	swap      *swap // machines that are being replaced by cheaper ones; nil if none are
	calm      map[string]calm
	sought    seek
	circuits  map[end]*circuit
	lately    map[string]*emptied // nodes emptied now or of late, for they are little used
	// vainly is when no replacement was found for nodes that are to go.
	vainly since
}

// end is why machines of a pool go.
type end struct {
	pool  string
	cause nodescaler.Cause
}

// circuit stops machines of a pool from going for a cause once what was to replace them has failed
// some times in a row, or their pods waited for another: so would the next. Each further failure
// stops them for twice as long.
type circuit struct {
	failures int
	failed   time.Time // the last one
	until    time.Time
	asked    pricing.Resources // by all pods, when one waited that had been moved
}

// open reports whether the machines stay.
func (c *circuit) open(now time.Time) bool { return c != nil && now.Before(c.until) }

// swap is a set of machines that cheaper ones replace.
type swap struct {
	ends  map[string]end // by node; those whose drain has begun are no longer in it
	made  []string       // the machines that were ordered for it
	why   nodescaler.Reason
	begun time.Time
}

// calm is since when a node has held the same pods.
type calm struct {
	pods  uint64
	since time.Time
}

// seek is when a set was looked for last, and in what. Swapped is when the last one went, and of
// which pools.
type seek struct {
	at      time.Time
	in      uint64
	swapped time.Time
	of      []end
}

// since is when something was first seen to be so, by name; what is so no more is dropped.
type since map[string]time.Time

// keep carries a name over from the last scan's record into this one's, or starts it now.
func (s since) keep(old since, name string, now time.Time) time.Time {
	if t, ok := old[name]; ok {
		now = t
	}
	s[name] = now
	return now
}

// backoff keeps a pool from being ordered from while its machines keep failing: each time for
// twice as long, up to a limit, until it has not failed for long.
type backoff struct {
	first, longest, forget time.Duration
	length                 time.Duration
	until, failed          time.Time
}

// fail notes a failure. Several machines of one order that fail together make it no longer.
func (b *backoff) fail(now time.Time) {
	switch {
	case b.length == 0 || now.Sub(b.failed) > b.forget:
		b.length = b.first
	case !now.Before(b.until):
		b.length = min(2*b.length, b.longest)
	}
	b.failed, b.until = now, now.Add(b.length)
}

// on reports whether the pool is still left alone.
func (b *backoff) on(now time.Time) bool { return b != nil && now.Before(b.until) }
