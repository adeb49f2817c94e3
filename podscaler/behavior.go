package podscaler

import (
	"math"
	"slices"
	"time"
)

// Behavior limits and steadies changes of replicas, in the shape and with the meaning of an
// autoscaling/v2 HPA's behavior.
type Behavior struct {
	// Legacy is an HPA without a behavior: growth to at most max(2×replicas, 4) a run, and
	// the controller's own window (Down.Window) on the way down. Nothing else of the rules
	// counts, but for their cool-downs and tolerances.
	Legacy   bool
	Up, Down Rules
}

// Rules are the limits in one direction.
type Rules struct {
	// Window is how far back recommendations are looked at: the lowest of them counts on the
	// way up, the highest on the way down.
	Window time.Duration
	// Cooldown is how long after a change of replicas, in either direction, none is made in this
	// one. HPAs up to Kubernetes 1.11 had it in place of a window.
	Cooldown time.Duration
	Policies []StepLimit
	Select   Select
	// Tolerance overrides the policy's tolerance in this direction, if it is set.
	Tolerance *float64
}

// Select says which of several step limits counts; an empty one is SelectMax.
type Select string

// Which step limit counts.
const (
	SelectMax      Select = "Max"      // the one that allows the largest change
	SelectMin      Select = "Min"      // the one that allows the smallest change
	SelectDisabled Select = "Disabled" // no change in this direction at all
)

// StepLimit allows a change of so many pods, or so many percent, in each period.
type StepLimit struct {
	Pods    int // one of Pods and Percent is set
	Percent int
	Period  time.Duration
}

// downWindow is Kubernetes' default of --horizontal-pod-autoscaler-downscale-stabilization.
const downWindow = 300 * time.Second

// LegacyBehavior is what an HPA does that says nothing of its behavior.
func LegacyBehavior() *Behavior {
	return &Behavior{Legacy: true, Down: Rules{Window: downWindow}}
}

// CooldownBehavior is what an HPA did up to Kubernetes 1.11: it looked at no earlier
// recommendation, and made no growth within 3 minutes and no shrinking within 5 minutes of its last
// change.
func CooldownBehavior() *Behavior {
	return &Behavior{Legacy: true, Up: Rules{Cooldown: 3 * time.Minute}, Down: Rules{Cooldown: 5 * time.Minute}}
}

// DefaultBehavior is what an HPA with an empty behavior gets. It is not quite LegacyBehavior:
// from one replica it may go to five in one run, and the other only to four.
func DefaultBehavior() *Behavior {
	const period = 15 * time.Second
	return &Behavior{
		Up:   Rules{Select: SelectMax, Policies: []StepLimit{{Pods: 4, Period: period}, {Percent: 100, Period: period}}},
		Down: Rules{Select: SelectMax, Policies: []StepLimit{{Percent: 100, Period: period}}, Window: downWindow},
	}
}

// stabilized returns what is wanted in the light of what was wanted before: on the way up the
// lowest of the window counts, on the way down the highest.
func (b *Behavior) stabilized(m *memory, now time.Time, current, want int) int {
	low, high := want, want
	if b.inDownWindow(now.Sub(m.started)) {
		high = max(high, current)
	}
	for _, r := range m.wanted {
		age := now.Sub(r.at)
		if age < b.Up.Window {
			low = min(low, r.replicas)
		}
		if b.inDownWindow(age) {
			high = max(high, r.replicas)
		}
	}
	if b.Legacy {
		return high
	}
	return min(max(current, low), high)
}

// inDownWindow reports whether something of that age still counts on the way down. The HPA's
// two paths differ by the instant in which the window ends.
func (b *Behavior) inDownWindow(age time.Duration) bool {
	return age < b.Down.Window || b.Legacy && age == b.Down.Window
}

// cooldown is how long after a change none is made, upwards or downwards.
func (b *Behavior) cooldown(up bool) time.Duration {
	switch {
	case b == nil:
		return 0
	case up:
		return b.Up.Cooldown
	}
	return b.Down.Cooldown
}

// lookback is how far back the behavior looks at recommendations.
func (b *Behavior) lookback() time.Duration {
	if b == nil {
		return 0
	}
	return max(b.Up.Window, b.Down.Window)
}

// limits returns how few and how many replicas one run may leave behind.
func (b *Behavior) limits(m *memory, now time.Time, current int) (low, high int) {
	if b.Legacy {
		return 0, max(2*current, 4)
	}
	return min(current, b.Down.lowest(m, now, current)), max(current, b.Up.highest(m, now, current))
}

// grows reports whether it lets anything grow.
func (b *Behavior) grows() bool { return b == nil || b.Legacy || b.Up.moves() }

// moves reports whether the rules allow any change.
func (r *Rules) moves() bool { return r.Select != SelectDisabled && len(r.Policies) > 0 }

// highest returns how many replicas the step limits allow. Percentages are of the replicas at
// the start of each limit's period, and rounded up: a single replica could never grow by 10 %
// otherwise. The arithmetic is the controller's, by which 100 grow by 10 % to 111.
func (r *Rules) highest(m *memory, now time.Time, current int) int {
	if !r.moves() {
		return current
	}
	allowed := make([]int, 0, 4)
	for _, p := range r.Policies {
		start := current - m.moved(now, p.Period)
		if p.Percent > 0 {
			allowed = append(allowed, int(math.Ceil(float64(start)*(1+float64(p.Percent)/100))))
		} else {
			allowed = append(allowed, start+p.Pods)
		}
	}
	if r.Select == SelectMin {
		return slices.Min(allowed)
	}
	return slices.Max(allowed)
}

// lowest returns how few replicas the step limits allow. What a percentage leaves is cut to a
// whole number, so it may take one replica more than its share.
//
// A limit whose period reaches back to before the first run allows nothing: the changes made
// in it are forgotten, and a restart must not be a way around the limit.
func (r *Rules) lowest(m *memory, now time.Time, current int) int {
	if !r.moves() {
		return current
	}
	allowed := make([]int, 0, 4)
	for _, p := range r.Policies {
		start := current - m.moved(now, p.Period)
		switch {
		case now.Sub(m.started) < p.Period:
			allowed = append(allowed, current)
		case p.Percent > 0:
			allowed = append(allowed, int(float64(start)*(1-float64(p.Percent)/100)))
		default:
			allowed = append(allowed, start-p.Pods)
		}
	}
	if r.Select == SelectMin {
		return slices.Max(allowed)
	}
	return slices.Min(allowed)
}
