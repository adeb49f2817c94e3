package podscaler

import "time"

// Behavior limits and steadies changes of replicas, in the shape and with the meaning of an
// autoscaling/v2 HPA's behavior.
type Behavior struct {
	// Legacy is an HPA without a behavior: growth to at most max(2×replicas, 4) a run, and
	// the controller's own window (Down.Window) on the way down.
	Legacy   bool
	Up, Down Rules
}

// Rules are the limits in one direction.
type Rules struct {
	// Window is how far back recommendations are looked at: the lowest of them counts on the
	// way up, the highest on the way down.
	Window   time.Duration
	Policies []StepLimit
	Select   Select
	// Tolerance overrides the policy's tolerance in this direction, if it is set.
	Tolerance *float64
}

// Select says which of several step limits counts.
type Select string

// Which step limit counts.
const (
	SelectMax      Select = "Max"
	SelectMin      Select = "Min"
	SelectDisabled Select = "Disabled" // no change in this direction at all
)

// StepLimit allows a change of so many pods, or so many percent, in each period.
type StepLimit struct {
	Pods    int // one of Pods and Percent is set
	Percent int
	Period  time.Duration
}
