package operator

import (
	"log/slog"
	"regexp"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler/recording"
)

// onTime is the time of a step that the ticker calls for: the tick's own, if the clock is near it,
// or the tick is not long ago, for signals are measured between the two.
// Periods are whole numbers of ticks. By the clock every other one of them would not be over yet at
// the tick that it ends at, for want of a fraction of a millisecond, and last a tick longer. After
// a step that is nowhere near a tick, the first or a late one, or when the clock was set, ticks are
// reckoned from there.
func (t *term) onTime(now time.Time) time.Time {
	tick := t.ticks.Add(now.Sub(t.ticks).Round(t.Interval))
	late := now.Sub(tick)
	switch {
	case t.ticks.IsZero() || late > t.Interval/4 || late < -min(t.Interval/10, nearTick):
		t.ticks = now
	case tick.After(t.last):
		return tick
	}
	return now
}

// nearTick is how far ahead of its tick a step may be and still go by it.
const nearTick = 500 * time.Millisecond

// jumped reports whether the clock was put forward or back since the last step, which it is if it
// differs from the monotonic one: a step may take minutes. By windows and cool-downs that such a
// clock measures, a workload's replicas would be taken too soon, or none added for long.
func (t *term) jumped(now time.Time) bool {
	gap := now.Sub(t.last)
	return !t.last.IsZero() && (gap < -nearTick || (gap-time.Since(t.began)).Abs() > max(10*t.Interval, 2*time.Minute))
}

// follow is the time of the step that follows the last: not before it, though that may have gone by
// a tick that the clock had not quite come to. What is remembered does not outlive a clock that
// jumps.
func (t *term) follow(now time.Time) (time.Time, error) {
	switch {
	case t.jumped(now):
		t.Log.Warn("the clock has jumped: what was remembered is forgotten", "from", t.last, "to", now)
		kept := t.memory.Jump(now)
		err := t.begin()
		kept.Nodes = t.memory.Nodes
		t.memory = kept
		t.forget(recording.Jumped)
		return now, err
	case now.Before(t.last):
		return t.last, nil
	}
	return now, nil
}

// trouble is what went wrong with steps. What goes on for long is logged now and then, not at every
// step.
type trouble struct {
	what string
	at   time.Time
}

// tellEvery is how often the same trouble is logged.
const tellEvery = time.Minute

var digits = regexp.MustCompile(`[0-9]+`)

func (t *trouble) tell(log *slog.Logger, err error, now time.Time) {
	what := ""
	if err != nil {
		what = digits.ReplaceAllString(err.Error(), "")
	}
	switch {
	case err == nil && t.what != "":
		log.Info("steps are made again")
	case err != nil && (what != t.what || now.Sub(t.at) >= tellEvery):
		log.Warn("step", "error", err)
		t.at = now
	}
	t.what = what
}
