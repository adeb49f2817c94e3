package podscaler

import (
	"fmt"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
)

// Idle is how few replicas a workload has while nothing calls for it, below its minimum.
type Idle struct {
	Replicas int
	// After is how long nothing must have called for it. With it known for less, as after a
	// restart, the workload keeps its minimum.
	After time.Duration
}

// Waker is a Policy that can say of a workload without pods whether something calls for it.
type Waker interface {
	Policy
	// Calls reports what calls for the workload, or that nothing does. What it does not know is not
	// Known, and puts no workload to rest. It neither depends on nor changes anything else.
	Calls(v *View) Call
}

// Call is whether something calls for a workload, and what that rests on.
type Call struct {
	Active, Known bool
	Why           string
}

// rest decides on a workload that may be idle, and reports whether that is all there is to decide:
// it is idle and stays so, is woken, or has not been called for long enough. An open schedule's
// floor calls for it, too. Replicas of 0 of which it is not known who set them may be KEDA's: they
// are woken like our own. A person's are not.
func (s *Scaler) rest(v *View, b bounds, d *Decision) bool {
	idle, waker := s.workload.Idle, s.waker()
	if idle == nil || waker == nil {
		return false
	}
	call := waker.Calls(v)
	known := call.Known
	if b.least == ReasonScheduleFloor {
		call = Call{Active: true, Known: true, Why: "a floor" + b.floored}
	}
	s.memory.called(v.Now, call.Active || !call.Known)
	quiet := v.Now.Sub(s.memory.quietSince)
	asleep := v.Replicas <= idle.Replicas
	if asleep { // the policy is asked no more than this
		s.memory.heard(v.Now, known)
	}
	switch {
	case asleep && call.Active:
		d.To = max(b.low, 1)
		d.because(ReasonActivated, "%s: %d replicas, from %d that it has while nothing calls for it", call.Why, d.To, v.Replicas)
	case asleep && !known && s.wakeBlind(v, b, d):
	case asleep:
		d.To = idle.Replicas
		d.because(ReasonIdle, "%s: %d replicas while nothing calls for it", call.Why, idle.Replicas)
	case s.memory.quietSince.IsZero() || quiet < idle.After:
		return false
	default:
		s.memory.heard(v.Now, true)
		d.To, d.Proposed, d.Known = idle.Replicas, idle.Replicas, true
		d.because(ReasonIdle, "%s for %s, which is at least %s: %d replicas while nothing calls for it",
			call.Why, pricing.Short(quiet), pricing.Short(idle.After), idle.Replicas)
		s.hold(v, d)
	}
	return true
}

// wakeBlind takes the fallback of a workload of which it is not known whether something calls for
// it, if that is more replicas than there are. No step limit holds it: one in percent of 0 replicas
// would for ever.
func (s *Scaler) wakeBlind(v *View, b bounds, d *Decision) bool {
	want, ok := s.fallBack(v, d)
	if !ok || want <= v.Replicas {
		return false
	}
	d.To = min(max(want, b.low), b.high)
	return true
}

func (s *Scaler) waker() Waker {
	w, _ := s.policy.(Waker)
	return w
}

func (i *Idle) validate(f *Faults, w *Workload) {
	f.Unless(i.Replicas >= 0 && i.Replicas < w.Min, "idle.replicas", fmt.Sprintf("must be at least 0 and below minReplicas, which is %d", w.Min), i.Replicas)
	f.Unless(i.After >= 0, "idle.after", "must be at least 0", i.After)
}
