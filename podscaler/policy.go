package podscaler

// Policy is the pod half of an autoscaling policy. Desired depends on nothing but the view and
// the policy's own memory and does not modify the view. Memory must be safe to forget: a
// policy restarted between two calls may be slower to shrink, never faster.
type Policy interface {
	Desired(v *View) Recommendation
}

// Recommendation is what a policy proposes. One that is not Known proposes nothing: the
// replicas stay as they are, and Reasons says why.
type Recommendation struct {
	Replicas int
	Known    bool
	Reasons  []Reason
}

// Reason is why something was decided: a stable code to match on, and a sentence with the
// numbers that led to it.
type Reason struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// String prints the reason as a line.
func (r Reason) String() string { return r.Code + ": " + r.Text }
