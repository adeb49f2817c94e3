package podscaler

import (
	"time"

	"github.com/plimsoll/plimsoll/pricing"
)

// Decision is what came of one run of a scaler: what was asked for, what the policy proposed,
// what the guards made of it, and the reasons in the order they applied.
type Decision struct {
	Workload string `json:"workload"`
	From     int    `json:"from"`
	// Proposed is what the policy proposed, if Known; From otherwise. A policy that could not
	// tell, or was not asked because the replicas were out of bounds, proposed nothing.
	Proposed int      `json:"proposed"`
	To       int      `json:"to"`
	Known    bool     `json:"known"`
	Reasons  []Reason `json:"reasons"`
}

func (d *Decision) because(code, format string, args ...any) {
	d.Reasons = append(d.Reasons, Because(code, format, args...))
}

// Scaler decides for one workload: it runs the policy when its period has come, and applies
// the guards. Its memory is safe to forget.
type Scaler struct {
	workload Workload
	policy   Policy
	memory   memory
}

// NewScaler returns a scaler for w, which must be valid, that asks p.
func NewScaler(w Workload, p Policy) *Scaler { return &Scaler{workload: w, policy: p} }

// Workload is what the scaler decides for; it is not to be changed.
func (s *Scaler) Workload() *Workload { return &s.workload }

// Due reports whether the run period has come round.
func (s *Scaler) Due(now time.Time) bool {
	last := s.memory.lastRun
	return last.IsZero() || now.Sub(last) >= s.workload.RunPeriod
}

// New reports whether the scaler has neither looked nor decided yet.
func (s *Scaler) New() bool { return s.memory.started.IsZero() }

// Look takes in the replicas of v and decides nothing, as on the first step after a start; the
// first decision is due a run period later.
func (s *Scaler) Look(v *View) { s.memory.observe(v) }

// Decide runs the policy and the guards. Replicas out of bounds are put right at once, without
// asking the policy or anything else.
func (s *Scaler) Decide(v *View) Decision {
	w := &s.workload
	s.memory.observe(v)
	d := Decision{Workload: w.Name, From: v.Replicas, Proposed: v.Replicas, To: v.Replicas}
	switch {
	case v.Replicas == 0 && !s.memory.scaledToZero:
		d.because(ReasonScalingDisabled, "replicas are 0 and were not set to 0 here: scaling is off until they are set to something else")
	case v.Replicas < w.Min:
		d.To = w.Min
		d.because(ReasonTooFewReplicas, "there are %d replicas, at least %d are allowed", v.Replicas, w.Min)
	case v.Replicas > w.Max:
		d.To = w.Max
		d.because(ReasonTooManyReplicas, "there are %d replicas, at most %d are allowed", v.Replicas, w.Max)
	default:
		s.ask(v, &d)
	}
	s.memory.decided(v.Now, d.From, d.To)
	s.memory.forget(v.Now, w.Behavior)
	return d
}

// ask has the policy propose, and passes the proposal from guard to guard.
func (s *Scaler) ask(v *View, d *Decision) {
	seen := *v
	seen.Past = s.memory.past()
	r := s.policy.Desired(&seen)
	d.Reasons = append(make([]Reason, 0, len(r.Reasons)+3), r.Reasons...)
	if d.Known = r.Known; !r.Known {
		return
	}
	d.Proposed = r.Replicas
	d.To = s.limit(v.Now, d, s.stabilize(v.Now, d))
	s.coolDown(v.Now, d)
	s.trust(v, d)
}

// stabilize applies the behavior's windows to the proposal.
func (s *Scaler) stabilize(now time.Time, d *Decision) int {
	b := s.workload.Behavior
	if b == nil {
		return d.Proposed
	}
	steady := b.stabilized(&s.memory, now, d.From, d.Proposed)
	s.memory.want(now, d.Proposed)
	if steady < d.Proposed {
		d.because(ReasonScaleUpStabilized, "%d wanted; %d counts, the lowest of the last %s", d.Proposed, steady, pricing.Short(b.Up.Window))
	}
	if steady > d.Proposed {
		d.because(ReasonScaleDownStabilized, "%d wanted; %d counts, the highest of the last %s", d.Proposed, steady, pricing.Short(b.Down.Window))
	}
	return steady
}

// limit applies the bounds, and the behavior's step limits where they are tighter.
func (s *Scaler) limit(now time.Time, d *Decision, want int) int {
	low, high := s.workload.Min, s.workload.Max
	tooLow, tooHigh := ReasonTooFewReplicas, ReasonTooManyReplicas
	if b := s.workload.Behavior; b != nil {
		least, most := b.limits(&s.memory, now, d.From)
		if least > low {
			low, tooLow = least, ReasonScaleDownLimit
		}
		if most < high {
			high, tooHigh = most, ReasonScaleUpLimit
		}
	}
	switch {
	case want < low:
		d.because(tooLow, "%d wanted, at least %d allowed now", want, low)
		return low
	case want > high:
		d.because(tooHigh, "%d wanted, at most %d allowed now", want, high)
		return high
	}
	d.because(ReasonDesiredWithinRange, "%d is within %d and %d", want, low, high)
	return want
}

// coolDown takes a change back that comes too soon after the last one. A scaler that knows of
// no last one may grow, but shrinks only when one made just before its first run would have
// cooled down.
func (s *Scaler) coolDown(now time.Time, d *Decision) {
	last, what := s.memory.lastMove, "the last change of replicas"
	if last.IsZero() && d.To < d.From {
		last, what = s.memory.started, "the first run"
	}
	left := s.workload.Cooldown - now.Sub(last)
	if d.To == d.From || last.IsZero() || left <= 0 {
		return
	}
	d.because(ReasonCooldown, "%d wanted, but %s was %s ago: %gs left of %s", d.To, what, pricing.Short(now.Sub(last)), left.Seconds(), pricing.Short(s.workload.Cooldown))
	d.To = d.From
}

// trust takes a shrinking back while the signals have been measured for less than a full window
// since their last gap: what came in meanwhile may not have been counted, and little demand is
// what a gap looks like.
func (s *Scaler) trust(v *View, d *Decision) {
	healthy, window := v.Now.Sub(v.Window.Since), s.workload.SLO.Window
	if d.To >= d.From || v.Window.Since.IsZero() || healthy >= window {
		return
	}
	d.because(ReasonSignalsRecovering, "%d wanted, but the signals have been measured without a gap for %s of the window of %s: %gs left",
		d.To, pricing.Short(healthy), pricing.Short(window), (window - healthy).Seconds())
	d.To = d.From
}
