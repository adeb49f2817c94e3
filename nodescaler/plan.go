package nodescaler

import (
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// Policy is the node half of an autoscaling policy. Decide depends on nothing but s and the
// policy's own memory, must not modify s, and must be safe to forget: a policy restarted
// between two calls may be slower to give capacity back, never faster.
type Policy interface {
	Decide(s *Snapshot) Plan
}

// Plan is what should be done now, in order, and why; Reasons also say why nothing is.
type Plan struct {
	Actions []Action `json:"actions,omitempty"`
	Reasons []Reason `json:"reasons,omitempty"`
	// Held is what no machine is ordered for since it exceeds its namespace's quota, sorted by namespace and workload.
	Held []Held `json:"held,omitempty"`
	// LookAgain is when the policy wants to be asked again, at the latest; zero for the
	// next step.
	LookAgain time.Time `json:"lookAgain,omitzero"`
}

// Reason is why something was decided or not.
type Reason = podscaler.Reason

// Duration is a duration in a policy's settings.
type Duration = podscaler.Duration

// Kind is what an action does.
type Kind string

// The kinds of action.
const (
	Buy      Kind = "Buy"      // order a machine: Order, Pool, Shape, Host; with Keep to become a spare
	Cordon   Kind = "Cordon"   // keep new pods off Node and mark it as draining
	Uncordon Kind = "Uncordon" // take that mark back
	Evict    Kind = "Evict"    // move Pod off Node, within its budget
	Return   Kind = "Return"   // delete Machine, and its Node if it has one
	Stash    Kind = "Stash"    // shut down Machine and keep it, and its Node, as a spare
	Wake     Kind = "Wake"     // make the spare Machine capacity: start it, and open its node
)

// Grows reports whether it gives its pool capacity; all others take some, or make ready to.
func (k Kind) Grows() bool { return k == Buy || k == Wake || k == Uncordon }

// Action is one thing to do to the world, with its reasons.
type Action struct {
	Kind    Kind           `json:"kind"`
	Order   string         `json:"order,omitempty"`
	Pool    string         `json:"pool,omitempty"`
	Shape   *pricing.Shape `json:"shape,omitempty"`
	Host    string         `json:"host,omitempty"`
	Machine string         `json:"machine,omitempty"`
	Node    string         `json:"node,omitempty"`
	Pod     string         `json:"pod,omitempty"`
	// Keep orders a machine that becomes a spare.
	Keep bool `json:"keep,omitempty"`
	// For names the namespaces that a machine is ordered or woken for, of those that have a quota.
	For []string `json:"for,omitempty"`
	// Rate is what the action adds to or takes off the hourly cost.
	Rate    pricing.Rate `json:"rate,omitempty"`
	Reasons []Reason     `json:"reasons"`
}
