package podscaler

import (
	"cmp"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
)

// Decision is what came of one run of a scaler: what was asked for, what the policy proposed,
// what the guards made of it, and the reasons in the order they applied.
type Decision struct {
	Workload string `json:"workload"`
	From     int    `json:"from"`
	// Proposed is what the policy proposed, if Known; From otherwise. A policy that did not
	// know, or was not asked because the replicas were out of bounds, proposed nothing.
	Proposed int  `json:"proposed"`
	To       int  `json:"to"`
	Known    bool `json:"known"`
	// Ahead is how many replicas are expected to be wanted once a machine that is ordered now
	// carries some, within the bounds; 0 is no expectation.
	Ahead   int      `json:"ahead,omitempty"`
	Reasons []Reason `json:"reasons"`
	// Forecast is the load that the policy expects. A record has it in the policy's reasons.
	Forecast Forecast `json:"-"`
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
	budget   ErrorBudget
}

// NewScaler returns a scaler for w, which must be valid, that asks p.
func NewScaler(w Workload, p Policy) *Scaler { return &Scaler{workload: w, policy: p} }

// Workload is what the scaler decides for; it is not to be changed.
func (s *Scaler) Workload() *Workload { return &s.workload }

// Requests has its pods request this from now on; what the scaler remembers stays.
func (s *Scaler) Requests(pod pricing.Resources) { s.workload.Pod = pod }

// Due reports whether the run period has come round.
func (s *Scaler) Due(now time.Time) bool {
	last := s.memory.lastRun
	return last.IsZero() || now.Sub(last) >= s.workload.RunPeriod
}

// Budget is what is spent of the objective's error budget; nil without an
// objective, and until requests were counted.
func (s *Scaler) Budget(now time.Time) *Budget { return s.budget.Spent(s.workload.SLO, now) }

// New reports whether the scaler has neither looked nor decided yet.
func (s *Scaler) New() bool { return s.memory.started.IsZero() }

// Look takes in the replicas of v and decides nothing, as on the first step after a start; the
// first decision is due a run period later.
func (s *Scaler) Look(v *View) { s.memory.observe(v, s.workload.Behavior) }

// Lacks is what history the policy would learn from; most learn from none.
func (s *Scaler) Lacks() Lack {
	if p, learns := s.policy.(Learner); learns {
		return p.Lacks(&s.workload)
	}
	return Lack{}
}

// Learn hands the policy a history.
func (s *Scaler) Learn(h *History) {
	if p, learns := s.policy.(Learner); learns {
		p.Learn(h)
	}
}

// Bid asks the policy what replicas are worth to it, of those that may be decided on; one that
// makes no bids makes none that is known.
func (s *Scaler) Bid(v *View) Bid {
	p, ok := s.policy.(Bidder)
	if !ok {
		return Bid{}
	}
	seen := *v
	seen.Past, seen.Pods = s.memory.past(), v.withoutSurge()
	bid := p.Bid(&seen)
	if low, high := s.allowed(v); bid.Known {
		bid.Want, bid.Ahead = min(max(bid.Want, low), high), min(max(bid.Ahead, low), high)
		bid.Worth = bid.Worth[:min(len(bid.Worth), high)]
	}
	return bid
}

// Most is how many replicas may be decided on.
func (s *Scaler) Most(v *View) int {
	_, high := s.allowed(v)
	return high
}

// allowed is how few and how many replicas may be decided on, but for limits of a run's steps.
func (s *Scaler) allowed(v *View) (low, high int) {
	b := s.workload.boundsAt(v.Now)
	low, high = b.low, b.high
	switch fixed := v.Pause.fixed(v.Now); {
	case fixed != nil:
		return max(0, *fixed), max(0, *fixed)
	case v.Replicas == 0 && !s.memory.zeroed() && !(s.New() && v.ScaledToZero):
		return 0, 0
	case !s.mayGrow(v) && v.Replicas >= b.low:
		high = min(high, max(v.Replicas, low))
	case v.Pause.Up && !v.Pause.over(v.Now):
		return v.Replicas, v.Replicas
	}
	if v.Pause.Down && !v.Pause.over(v.Now) {
		low, high = max(low, v.Replicas), max(high, v.Replicas)
	}
	return low, high
}

// Decide runs the policy and the guards. Replicas out of bounds are put right at once, without
// asking the policy or anything else.
func (s *Scaler) Decide(v *View) Decision {
	s.memory.observe(v, s.workload.Behavior)
	s.budget.See(v)
	d := Decision{Workload: s.workload.Name, From: v.Replicas, Proposed: v.Replicas, To: v.Replicas}
	b := s.workload.boundsAt(v.Now)
	switch fixed := v.Pause.fixed(v.Now); {
	case fixed == nil && !s.memory.switchedOff && s.rest(v, b, &d):
	case s.unasked(v, b, fixed, &d):
		s.memory.heard(v.Now, true) // that it was silent before says nothing of meanwhile
	default:
		s.ask(v, b, &d)
	}
	if b.clash != "" {
		d.because(ReasonSchedulesClash, "%s", b.clash)
	}
	s.pause(v, &d)
	if !s.mayGrow(v) {
		d.Ahead = min(d.Ahead, d.To)
	}
	s.memory.decided(v.Now, d.From, d.To)
	s.memory.forget(v.Now, s.workload.Behavior)
	return d
}

// unasked decides what takes no policy, and reports whether that is all there is to decide.
func (s *Scaler) unasked(v *View, b bounds, fixed *int, d *Decision) bool {
	switch {
	case fixed != nil:
		d.To = max(0, *fixed)
		s.memory.called(v.Now, true) // what calls is not asked meanwhile
		d.because(ReasonPaused, "replicas are fixed at %d: %s", d.To, &v.Pause)
	case v.Replicas == 0 && !s.memory.scaledToZero:
		d.because(ReasonScalingDisabled, "replicas are 0 and were not set to 0 here: scaling is off until they are set to something else")
	case v.Replicas < b.low:
		d.To = b.low
		d.because(b.least, "there are %d replicas, at least %d are allowed%s", v.Replicas, b.low, b.floored)
	case v.Replicas > b.high:
		d.To = b.high
		d.because(b.most, "there are %d replicas, at most %d are allowed%s", v.Replicas, b.high, b.capped)
	default:
		return false
	}
	return true
}

// ask has the policy propose, and passes the proposal from guard to guard.
func (s *Scaler) ask(v *View, b bounds, d *Decision) {
	seen := *v
	seen.Past, seen.Pods = s.memory.past(), v.withoutSurge()
	r := s.policy.Desired(&seen)
	d.Reasons = append(make([]Reason, 0, len(r.Reasons)+3), r.Reasons...)
	s.watch(v)
	s.memory.heard(v.Now, r.Known)
	want, ok := r.Replicas, r.Known
	d.Forecast = r.Forecast
	if d.Known = ok; ok {
		d.Proposed, d.Ahead = want, min(r.Ahead, b.high)
	} else if want, ok = s.fallBack(v, d); !ok {
		return
	}
	d.To = s.limit(v.Now, b, d, s.stabilize(v.Now, d, want))
	s.hold(v, d)
}

// holds take a change back, each for a reason of its own. All of them are asked, and all that
// object are reported, so that no administrator waits for one to end and then finds another.
var holds = []func(*Scaler, *View, *Decision) (Reason, bool){
	(*Scaler).available, (*Scaler).settled, (*Scaler).called, (*Scaler).trust, (*Scaler).coolDown,
}

func (s *Scaler) hold(v *View, d *Decision) {
	if d.To == d.From {
		return
	}
	held := false
	for _, objects := range holds {
		if why, objected := objects(s, v, d); objected {
			d.Reasons, held = append(d.Reasons, why), true
		}
	}
	if held {
		d.To = d.From
	}
}

// stabilize applies the behavior's windows to what is wanted.
func (s *Scaler) stabilize(now time.Time, d *Decision, want int) int {
	b := s.workload.Behavior
	if b == nil {
		return want
	}
	steady := b.stabilized(&s.memory, now, d.From, want)
	s.memory.want(now, want)
	if steady < want {
		d.because(ReasonScaleUpStabilized, "%d wanted; %d counts, the lowest of the last %s", want, steady, pricing.Short(b.Up.Window))
	}
	if steady > want {
		d.because(ReasonScaleDownStabilized, "%d wanted; %d counts, the highest of the last %s", want, steady, pricing.Short(b.Down.Window))
	}
	return steady
}

// limit applies the bounds, and the behavior's step limits where they are tighter.
func (s *Scaler) limit(now time.Time, b bounds, d *Decision, want int) int {
	if steps := s.workload.Behavior; steps != nil {
		least, most := steps.limits(&s.memory, now, d.From)
		if least > b.low {
			b.low, b.least, b.floored = least, ReasonScaleDownLimit, ""
		}
		if most < b.high {
			b.high, b.most, b.capped = most, ReasonScaleUpLimit, ""
		}
	}
	switch {
	case want < b.low:
		d.because(b.least, "%d wanted, at least %d allowed now%s", want, b.low, b.floored)
		return b.low
	case want > b.high:
		d.because(b.most, "%d wanted, at most %d allowed now%s", want, b.high, b.capped)
		return b.high
	}
	d.because(ReasonDesiredWithinRange, "%d is within %d and %d%s", want, b.low, b.high, b.behaves())
	return want
}

// coolDown holds a change that comes too soon after the last one. A scaler that knows of no last
// one may grow, but shrinks only when one made just before its first run would have cooled down.
func (s *Scaler) coolDown(v *View, d *Decision) (Reason, bool) {
	last, what := s.memory.lastMove, "the last change of replicas"
	if last.IsZero() && d.To < d.From {
		last, what = s.memory.started, "the first run"
	}
	cooldown := max(s.workload.Cooldown, s.workload.Behavior.cooldown(d.To > d.From))
	left := cooldown - v.Now.Sub(last)
	if last.IsZero() || left <= 0 {
		return Reason{}, false
	}
	return Because(ReasonCooldown, "%d wanted, but %s was %s ago: %gs left of %s",
		d.To, what, pricing.Short(v.Now.Sub(last)), left.Seconds(), pricing.Short(cooldown)), true
}

// trust holds a shrinking while the signals have been measured for less than a full window since
// their last gap: what came in meanwhile may not have been counted, and little demand is what a gap
// looks like. A fallback shrinks nothing by its signals.
func (s *Scaler) trust(v *View, d *Decision) (Reason, bool) {
	healthy, window := v.Now.Sub(v.Window.Since), s.measuredOver(v)
	if d.To >= d.From || !d.Known || v.Window.Since.IsZero() || healthy >= window {
		return Reason{}, false
	}
	return Because(ReasonSignalsRecovering, "%d wanted, but the signals have been measured without a gap for %s of the window of %s: %gs left",
		d.To, pricing.Short(healthy), pricing.Short(window), (window - healthy).Seconds()), true
}

// measuredOver is how long the window is that the view's signals were measured over.
func (s *Scaler) measuredOver(v *View) time.Duration {
	return cmp.Or(v.Window.Over, s.workload.SLO.Window)
}
