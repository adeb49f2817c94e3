package podscaler

import (
	"fmt"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
)

// Fallback is what is done when the policy has not been able to say anything for After.
type Fallback struct {
	After    time.Duration
	Behavior FallbackBehavior // empty is CurrentIfHigher
	Replicas int
}

// FallbackBehavior says how many replicas a fallback leaves.
type FallbackBehavior string

// How many replicas a fallback leaves. Static and CurrentIfLower may shrink a workload of which
// nothing is known: whoever sets them wants that.
const (
	FallbackStatic  FallbackBehavior = "Static"  // Replicas
	FallbackCurrent FallbackBehavior = "Current" // those that there are
	// Those that there are, or Replicas if that is more.
	FallbackCurrentIfHigher FallbackBehavior = "CurrentIfHigher"
	// Those that there are, or Replicas if that is less.
	FallbackCurrentIfLower FallbackBehavior = "CurrentIfLower"
)

// replicas returns how many there are to be.
func (f *Fallback) replicas(current int) int {
	switch f.Behavior {
	case FallbackStatic:
		return f.Replicas
	case FallbackCurrent:
		return current
	case FallbackCurrentIfLower:
		return min(current, f.Replicas)
	case "", FallbackCurrentIfHigher:
	}
	return max(current, f.Replicas)
}

// fallBack takes the fallback for what the policy could not say, if it could not for long enough.
func (s *Scaler) fallBack(v *View, d *Decision) (want int, ok bool) {
	f, silent := s.workload.Fallback, v.Now.Sub(s.memory.unknownSince)
	if f == nil || silent < f.After {
		return 0, false
	}
	want = f.replicas(d.From)
	how := f.Behavior
	if how == "" {
		how = FallbackCurrentIfHigher
	}
	d.because(ReasonFallback, "the policy had no answer for %s, which is at least %s: %s of %d replicas and a fallback of %d is %d",
		pricing.Short(silent), pricing.Short(f.After), how, d.From, f.Replicas, want)
	return want, true
}

func (f *Fallback) validate(faults *Faults, w *Workload) {
	faults.Unless(f.After >= 0, "fallback.after", "must be at least 0", f.After)
	switch f.Behavior {
	case "", FallbackStatic, FallbackCurrentIfHigher, FallbackCurrentIfLower:
		faults.Unless(w.Min <= f.Replicas && f.Replicas <= w.Max && f.Replicas > 0, "fallback.replicas",
			fmt.Sprintf("must be above 0 and between minReplicas and maxReplicas, which are %d and %d", w.Min, w.Max), f.Replicas)
	case FallbackCurrent:
		faults.Unless(f.Replicas == 0, "fallback.replicas", "must be unset with behavior Current, which does not look at it", f.Replicas)
	default:
		faults.Unless(false, "fallback.behavior", "must be Static, Current, CurrentIfHigher or CurrentIfLower", f.Behavior)
	}
}
