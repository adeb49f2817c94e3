package policy

import (
	"fmt"
	"time"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
)

// reach finds out that no number of pods holds the objective: requests that take longer than that
// on a pod of their own, or that wait for something that pods do not have, as for a database. More
// pods are then paid for and shorten nothing.
//
// What is all but held is worth its pods to those who are answered, and is no such case.
type reach struct {
	missed float64   // windows in which pods that are far from full missed it by far, less those in which they did not
	times  float64   // how many times the objective response times would come to at best
	alone  float64   // how long a request took on a pod of its own when the objective was given up, in seconds
	since  time.Time // when it was
	beyond bool      // it is given up
}

const (
	// byFar is how many times the objective response times would come to at best, for it to be
	// given up.
	byFar = 1.25
	// reachSeen is how many windows have to have shown it: of machines that boot, or a neighbour
	// that leaves, more pods do help.
	reachSeen = 10
	// shorter is what requests may take of what they did when the objective was given up, for it to
	// be tried again.
	shorter = 0.9
	// triedAgain is how long after it was given up it is tried again if nothing has changed.
	triedAgain = 24 * time.Hour
)

// see takes in what response times were, against what is known of the service, for the part of a
// window that has passed since the last time.
func (r *reach) see(now time.Time, s *capacity.Service, seen *capacity.Seen, part float64) {
	if r.beyond && (s.Alone() < shorter*r.alone || now.Sub(r.since) >= triedAgain || now.Before(r.since)) {
		*r = reach{}
	}
	times, known := s.AtBest(seen)
	switch alone, sure := s.AtBestAlone(seen); {
	case sure && alone >= byFar:
		r.missed, times = reachSeen, alone
	case known && times < 1:
		*r = reach{}
	case known && times < byFar:
		r.missed = max(r.missed-part, 0)
	case known:
		r.missed += part
	}
	if !r.beyond && r.missed >= reachSeen {
		r.beyond, r.times, r.alone, r.since = true, times, s.Alone(), now
	}
}

// why says what makes response times too long.
func (r *reach) why(s *capacity.Service) string {
	if demand, _ := s.Demand(); byFar*r.alone >= s.Objective() {
		return fmt.Sprintf("a request takes %.3g ms of cpu, which is %.3g ms on a pod of %.3g cores that has no other", 1000*demand, 1000*r.alone, s.Quota())
	}
	return fmt.Sprintf("a request takes %.3g ms on a pod that has no other by the cpu that it takes, so the rest is spent elsewhere", 1000*r.alone)
}
