package pve

import (
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// A clock may leap: a host wakes from suspension, a virtual machine is restored, a time server
// corrects what was wrong for long. What was waited for only by the clock would then be over at
// once, and what was stamped by a clock that ran ahead would be waited for until that time comes.
// So a wait is over when the clock says so and when it was watched for as long.

// stride is how much of the time between two observations counts at most as watched: a few times
// the longest pause between two rounds of work.
const stride = 2 * longPause

// maxLeaps is how many leaps of the clock are remembered. What was before the oldest counts as
// watched since then only.
const maxLeaps = 64

// steady is a clock that was watched. The zero steady has watched nothing.
type steady struct {
	last    time.Time
	watched time.Duration
	leaps   []leap // the first is the beginning
}

// leap is a moment at which the clock said something else than was expected, and how much was
// watched until then.
type leap struct {
	at      time.Time
	watched time.Duration
}

// see observes the clock. It reports whether the clock went back: whoever keeps times corrects
// those that lie ahead.
func (s *steady) see(now time.Time) (back bool) {
	step := now.Sub(s.last)
	switch {
	case len(s.leaps) == 0:
	case step < 0 || now.Round(0).Before(s.last.Round(0)):
		// The second of a clock that has a monotonic reading, too.
		back = true
		for len(s.leaps) > 0 && !s.leaps[len(s.leaps)-1].at.Before(now) {
			s.leaps = s.leaps[:len(s.leaps)-1]
		}
		s.watched += min(max(step, 0), stride)
	case step > stride:
		s.watched += stride
	default:
		s.watched += step
		s.last = now
		return false
	}
	s.last = now
	s.leaps = append(s.leaps, leap{now, s.watched})
	if len(s.leaps) > maxLeaps {
		s.leaps = s.leaps[1:]
	}
	return back
}

// since is for how long it is certain, by the clock and by what was watched, that something is
// past.
func (s *steady) since(then, now time.Time) time.Duration {
	total := s.watched + min(max(now.Sub(s.last), 0), stride)
	from := total
	for i := len(s.leaps) - 1; i >= 0; i-- {
		l := s.leaps[i]
		if l.at.After(then) {
			from = l.watched // it was before this, at the latest
			continue
		}
		from = min(from, l.watched+then.Sub(l.at))
		break
	}
	return max(0, min(total-from, now.Sub(then)))
}

// watch is the process's clock, with how long it was watched.
type watch struct {
	cfg    *FleetConfig
	mu     *guard
	began  time.Time
	steady steady
}

// since is for how long something is past, by the clock and by what was watched since the process
// began.
func (wt *watch) since(then time.Time) time.Duration { return wt.steady.since(then, wt.cfg.Now()) }

// past reports whether a time is over that something is waited for.
func (wt *watch) past(then time.Time, wait nodescaler.Duration) bool {
	wt.mu.Lock()
	defer wt.mu.Unlock()
	return wt.since(then) >= time.Duration(wait)
}

func soonest(a, b time.Time) time.Time {
	if a.After(b) {
		return b
	}
	return a
}
