package podscaler

import (
	"fmt"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
)

// Schedule is a window in which a workload has a higher floor, or a lower ceiling. One that comes
// again and again opens at Start and closes at End; one that comes once lasts from From to To.
type Schedule struct {
	Name       string
	Start, End Cron
	From, To   time.Time
	// Zone is where the clock hangs that Start and End go by; unset is UTC.
	Zone pricing.Zone
	// Min and Max are the least and the most replicas while the window is open; at least one of
	// them is set, and they lie within the workload's own.
	Min, Max *int
	// Ramp is how long before the window opens the bounds begin to move there, in ten steps, and
	// how long after it closes they are back; 0 moves them at once.
	Ramp time.Duration
}

// rampSteps is in how many steps a schedule's bounds move.
const rampSteps = 10

// share is how many of its steps the bounds have moved: all of them while the window is open.
func (s *Schedule) share(now time.Time) int {
	opens, closed, open := s.around(now)
	if open {
		return rampSteps
	}
	share := 0
	if left := opens.Sub(now); !opens.IsZero() && left < s.Ramp {
		share = int(rampSteps * (s.Ramp - left) / s.Ramp)
	}
	if gone := now.Sub(closed); !closed.IsZero() && gone < s.Ramp {
		share = max(share, int(rampSteps*(s.Ramp-gone)/s.Ramp))
	}
	return share
}

// around reports whether the window is open, and when it opens next and has closed last, as far as
// the ramp reaches; zero if not.
func (s *Schedule) around(now time.Time) (opens, closed time.Time, open bool) {
	if s.Start.IsZero() {
		open = !now.Before(s.From) && now.Before(s.To)
		if now.Before(s.From) {
			return s.From, closed, open
		}
		return opens, s.To, open
	}
	zone := s.Zone.Location
	if zone == nil {
		zone = time.UTC
	}
	start, started := s.Start.last(now, zone)
	end, ended := s.End.last(now, zone)
	open = started && (!ended || !start.before(end))
	if started && ended {
		closed = end.at
	}
	if next, comes := s.Start.next(now, zone, s.Ramp); comes {
		opens = next.at
	}
	return opens, closed, open
}

// bounds are how few and how many replicas there may be at a time.
type bounds struct {
	low, high       int
	least, most     string // why: a code
	floored, capped string // the schedules that say so; empty is the workload itself
	clash           string // of a floor with a ceiling below it; empty if none does
}

// boundsAt moves the workload's bounds as its schedules say.
func (w *Workload) boundsAt(now time.Time) bounds {
	b := bounds{low: w.Min, high: w.Max, least: ReasonTooFewReplicas, most: ReasonTooManyReplicas}
	for i := range w.Schedules {
		s := &w.Schedules[i]
		share := s.share(now)
		if s.Min != nil {
			// A floor as low as the minimum calls for a workload that would be idle.
			low := w.Min + ceilDiv((*s.Min-w.Min)*share, rampSteps)
			if low > b.low || low == b.low && share > 0 && b.floored == "" {
				b.low, b.least, b.floored = low, ReasonScheduleFloor, " by schedule "+s.Name
			}
		}
		if s.Max != nil {
			if high := w.Max - (w.Max-*s.Max)*share/rampSteps; high < b.high {
				b.high, b.most, b.capped = high, ReasonScheduleCeiling, " by schedule "+s.Name
			}
		}
	}
	if b.low > b.high {
		b.clash = fmt.Sprintf("at least %d%s and at most %d%s: at least %d counts", b.low, b.floored, b.high, b.capped, b.low)
		b.high = b.low
	}
	return b
}

// behaves names the bounds that behavior sets: others are in the specification for all to see.
func (b *bounds) behaves() string {
	var parts []string
	if b.least == ReasonScaleDownLimit {
		parts = append(parts, fmt.Sprintf("at least %d", b.low))
	}
	if b.most == ReasonScaleUpLimit {
		parts = append(parts, fmt.Sprintf("at most %d", b.high))
	}
	if len(parts) == 0 {
		return ""
	}
	return ": behavior allows " + strings.Join(parts, " and ") + " now"
}

func (s *Schedule) validate(f *Faults, key string, w *Workload) {
	f.Unless(s.Name != "", key+".name", "must not be empty", `""`)
	again, once := !s.Start.IsZero() || !s.End.IsZero(), !s.From.IsZero() || !s.To.IsZero()
	switch {
	case again == once:
		f.Unless(false, key, "must have start and end, or from and to", map[bool]string{true: "both", false: "neither"}[again])
	case again:
		f.Unless(!s.Start.IsZero(), key+".start", "must be set where end is", `""`)
		f.Unless(!s.End.IsZero(), key+".end", "must be set where start is", `""`)
		f.Unless(!s.Start.Equal(s.End), key+".end", "must differ from start, which leaves open when the window is", s.End)
	default:
		f.Unless(!s.From.IsZero(), key+".from", "must be set where to is", `""`)
		f.Unless(s.To.After(s.From), key+".to", "must be after from, which is "+s.From.Format(time.RFC3339), s.To.Format(time.RFC3339))
	}
	f.Unless(s.Ramp >= 0 && s.Ramp <= maxRamp, key+".ramp", "must be between 0 and 24h", s.Ramp)
	f.Unless(s.Min != nil || s.Max != nil, key, "must have minReplicas, maxReplicas or both", "neither")
	within := fmt.Sprintf("must be between minReplicas and maxReplicas, which are %d and %d", w.Min, w.Max)
	if s.Min != nil {
		f.Unless(w.Min <= *s.Min && *s.Min <= w.Max, key+".minReplicas", within, *s.Min)
	}
	if s.Max != nil {
		f.Unless(w.Min <= *s.Max && *s.Max <= w.Max, key+".maxReplicas", within, *s.Max)
	}
	if s.Min != nil && s.Max != nil {
		f.Unless(*s.Min <= *s.Max, key+".maxReplicas", fmt.Sprintf("must be at least its minReplicas, which is %d", *s.Min), *s.Max)
	}
}

// maxRamp keeps ramps shorter than the day that most windows come again after.
const maxRamp = 24 * time.Hour

// ceilDiv divides, rounding up; b must be positive.
func ceilDiv(a, b int) int {
	if a > 0 {
		return (a + b - 1) / b
	}
	return a / b
}
