package podscaler

import "time"

// Policy is the pod half of an autoscaling policy. Desired depends on nothing but the view and
// the policy's own memory and does not modify the view. Memory must be safe to forget: a
// policy restarted between two calls may be slower to shrink, never faster.
type Policy interface {
	Desired(v *View) Recommendation
}

// Bidder is a Policy that says beforehand what replicas are worth to it, so that room that several
// workloads want goes where it is worth most. Bid is asked with the same view as Desired, before
// it, and without Places; it neither depends on nor changes anything else.
type Bidder interface {
	Policy
	Bid(v *View) Bid
}

// Learner is a Policy that learns from the load of the days before it was made.
type Learner interface {
	Policy
	// Lacks says what history of the workload's arrivals it would learn from, until it has one.
	Lacks(w *Workload) Lack
	// Learn takes a history in.
	Learn(h *History)
}

// Lack is a history that a policy would learn from: so many readings, a step apart, each a mean
// over the time Over before it. With a Count of 0 nothing is lacked.
type Lack struct {
	Step, Over time.Duration
	Count      int
}

// History is what came in the past: readings a step apart, each a mean over the time Over before
// it.
type History struct {
	End        time.Time // of the last reading
	Step, Over time.Duration
	// Arrivals are requests a second, the oldest first; below 0 where nothing was measured.
	Arrivals []float64
	// Learnt is a policy that has learnt from it beforehand, which takes long, or nil. Another one
	// of the same settings comes to the same by Arrivals.
	Learnt Policy `json:"-"`
}

// Recommendation is what a policy proposes. One that is not Known proposes nothing: the
// replicas stay as they are, and Reasons says why.
type Recommendation struct {
	Replicas int
	Known    bool
	Reasons  []Reason
	// Ahead is how many replicas are expected to be wanted once a machine that is ordered now
	// carries some; 0, or anything below what is decided on, is no expectation.
	Ahead int
	// Forecast is the load that is expected by when a new replica is ready, if one is.
	Forecast Forecast
}

// Forecast is a load that is expected.
type Forecast struct {
	Load   float64
	Unit   LoadUnit // empty is no forecast
	Within time.Duration
}

// Known reports whether there is one.
func (f *Forecast) Known() bool { return f.Unit != "" && finite(f.Load) }

// LoadUnit is what a load is counted in.
type LoadUnit string

// The units of loads.
const (
	RequestsPerSecond LoadUnit = "requests_per_second"
	Cores             LoadUnit = "cores" // of CPU that the requests need
)

// Reason is why something was decided: a stable code to match on, and a sentence with the
// numbers that led to it.
type Reason struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// String prints the reason as a line.
func (r Reason) String() string { return r.Code + ": " + r.Text }
