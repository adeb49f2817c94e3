package capacity

import (
	"errors"
	"fmt"
)

// The loss model goes from period to period. What comes waits in line, the pods serve as much of it
// as they can, and what has waited too long is lost. The idea is to know a scaler's price in lost
// requests in microseconds, for a day or a year of counts.
//
// It needs a profile and arrivals by period. It loses what happens within a period: a burst of
// seconds is spread over the minute, pods are there at once and all at the same time, and no
// refused request is retried.

// Period is what happened in one period, in the unit of the profile.
type Period struct {
	Pods     int
	Arrived  float64
	InSystem float64 // what arrived and what was left, without what expired
	Served   float64
	Expired  float64 // what had waited too long as the period began, and is lost
	Use      float64 // part of the pods' capacity that was taken
	Left     float64 // what waits as it ends, and will not have expired as the next begins
}

// Loss is a line of requests of which each waits for so many periods and is then lost. The
// longest waiting are served first.
type Loss struct {
	profile Profile
	timeout int
	expired func(past []Period, timeout int) float64
	past    []Period // the last first, as many as the time-out
}

// NewLoss returns an empty line. A time-out of one period is for requests that time out in
// seconds: what cannot be served in its own period is lost in the next.
func NewLoss(p Profile, timeout int) (*Loss, error) { return newLoss(p, timeout, expired) }

func newLoss(p Profile, timeout int, rule func([]Period, int) float64) (*Loss, error) {
	var errs []error
	if p.curve == nil {
		errs = append(errs, errors.New("profile: must be set"))
	}
	if timeout < 1 {
		errs = append(errs, fmt.Errorf("timeout: must be 1 period at least, was %d", timeout))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return &Loss{profile: p, timeout: timeout, expired: rule}, nil
}

// Step plays one period with that many pods. On an error the line is as it was.
func (l *Loss) Step(pods int, arrived float64) (Period, error) {
	if pods < 0 {
		return Period{}, fmt.Errorf("pods: must be 0 or more, was %d", pods)
	}
	if !finite(arrived) || arrived < 0 {
		return Period{}, fmt.Errorf("arrived: must be 0 or more, was %v", arrived)
	}
	left, expired := l.waiting()
	now := Period{Pods: pods, Arrived: arrived, InSystem: left + arrived, Expired: expired}
	now.Served = min(l.profile.Total(float64(pods)), now.InSystem)
	now.Use = use(l.profile, pods, now.Served)
	l.remember(now)
	l.past[0].Left, _ = l.waiting()
	return l.past[0], nil
}

// waiting is what waited as the last period ended: who is left, and who expires as the next begins.
func (l *Loss) waiting() (left, expired float64) {
	if len(l.past) == 0 {
		return 0, 0
	}
	all := l.past[0].InSystem - l.past[0].Served
	// No more requests expire than are there. The printed rule needs this bound; the other rule
	// only for rounding.
	expired = min(l.expired(l.past, l.timeout), all)
	return all - expired, expired
}

// remember puts a period before the others and drops the one that has no more say.
func (l *Loss) remember(now Period) {
	if len(l.past) < l.timeout {
		l.past = append(l.past, Period{})
	}
	copy(l.past[1:], l.past)
	l.past[0] = now
}

// expired is what has waited for all of the time-out: of all that was there that long ago, what
// has neither been served nor been lost since.
func expired(past []Period, timeout int) float64 {
	if len(past) < timeout {
		return 0
	}
	left := past[timeout-1].InSystem
	for j, p := range past[:timeout] {
		left -= p.Served
		if j < timeout-1 {
			left -= p.Expired
		}
	}
	return max(left, 0)
}

// Discrete is the HPA in charge of pods with a line of requests before them.
type Discrete struct {
	Profile Profile
	HPA     HPA
	Timeout int // periods
}

// Run plays arrivals, one value a period. It starts with the least of replicas and an empty queue.
func (d Discrete) Run(arrivals []float64) ([]Period, error) {
	line, err := NewLoss(d.Profile, d.Timeout)
	if err := errors.Join(err, d.HPA.Validate()); err != nil {
		return nil, err
	}
	scaler, pods := d.HPA.Start(), d.HPA.Min
	run := make([]Period, 0, len(arrivals))
	for i, arrived := range arrivals {
		now, err := line.Step(pods, arrived)
		if err != nil {
			return nil, fmt.Errorf("period %d: %w", i, err)
		}
		run = append(run, now)
		pods = scaler.Next(d.Profile, pods, now.Served)
	}
	return run, nil
}
