package policy

import (
	"time"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
)

// drain tells a queue that is being worked off from users who have come. More pods answer more of what
// has waited, and those who get an answer may ask again at once: for a while there are both a queue and a
// high rate, which together look like more users than there are. So what the load was taken to be before
// the pods came is the most that it is taken to be until the queue is gone, or grows again.
type drain struct {
	pods             int
	inFlight, before float64 // at the last run, and what the load was taken to be
	most             float64 // requests a second; 0 is no limit
	lowest           float64 // that were in flight since
	until            time.Time
}

const (
	// drained is how long a queue is taken to be one that is worked off after the last pods came: by
	// then others that were ordered have.
	drained = 2 * time.Minute
	// regrown is how far above its lowest a queue is one that grows.
	regrown = 1.25
)

// see takes in how many pods serve, how many requests are in flight, and what the load seems to be.
func (d *drain) see(now time.Time, pods int, inFlight, load float64) {
	queued := queues(d.inFlight, d.pods)
	d.lowest = min(d.lowest, inFlight)
	over := !now.Before(d.until) || !queues(inFlight, pods) || inFlight > regrown*d.lowest+capacity.Queue
	switch more := pods > d.pods && queued; {
	case d.most > 0 && over && !more:
		d.most = 0
	case d.most == 0 && more:
		d.most, d.lowest, d.until = d.before, inFlight, now.Add(drained)
	case more:
		d.until = now.Add(drained)
	}
	d.pods, d.inFlight, d.before = pods, inFlight, d.limit(load)
}

// limit is the load at most.
func (d *drain) limit(load float64) float64 {
	if d.most > 0 {
		return min(load, d.most)
	}
	return load
}
