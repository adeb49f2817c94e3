package nodescaler

import (
	"fmt"
	"strings"
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
	// Held is what no machine is ordered for since it exceeds its namespace's quota, sorted by
	// namespace and workload.
	Held []Held `json:"held,omitempty"`
	// Unplaced is what waits and has no place on any node, on a machine on its way or on one that
	// the plan orders, sorted by workload and reason.
	Unplaced []Unplaced `json:"unplaced,omitempty"`
	// LookAgain is when the policy wants to be asked again, at the latest; zero for the
	// next step.
	LookAgain time.Time `json:"lookAgain,omitzero"`
}

// Unplaced are pods of one workload that wait for one reason and that nothing in a plan helps.
type Unplaced struct {
	// Workload is as pods have it; empty are bare pods.
	Workload string `json:"workload,omitempty"`
	// Pods names the first UnplacedNamed of those that there are, Count is how many there are, and
	// Coming how many replicas that are decided on wait beside them and do not exist yet.
	Pods   []string `json:"pods,omitempty"`
	Count  int      `json:"count,omitempty"`
	Coming int      `json:"coming,omitempty"`
	Why    Reason   `json:"why"`
	// Help is the change that would help them, in words; empty where none is known.
	Help string `json:"help,omitempty"`
}

// UnplacedNamed is how many pods are named at most of those that have no place for one reason.
const UnplacedNamed = 20

// Text says why there is no place, and what would help.
func (u *Unplaced) Text() string {
	if u.Help == "" {
		return u.Why.Text
	}
	return u.Why.Text + "; what would help: " + u.Help
}

// Who names the pods: shop/web-1, or 5 pods of shop/web, the first shop/web-1, and 3 to come.
func (u *Unplaced) Who() string {
	var parts []string
	switch {
	case u.Count == 1:
		parts = append(parts, u.Pods[0])
	case u.Count > 1 && u.Workload == "":
		parts = append(parts, fmt.Sprintf("%d pods, the first %s", u.Count, u.Pods[0]))
	case u.Count > 1:
		parts = append(parts, fmt.Sprintf("%d pods of %s, the first %s", u.Count, u.Workload, u.Pods[0]))
	}
	if u.Coming > 0 {
		of := ""
		if u.Count == 0 {
			of = " of " + u.Workload
		}
		parts = append(parts, fmt.Sprintf("%d to come%s", u.Coming, of))
	}
	return strings.Join(parts, ", and ")
}

// Reason is why something was decided or not.
type Reason = podscaler.Reason

// Duration is a duration in a policy's settings.
type Duration = podscaler.Duration

// Kind is what an action does.
type Kind string

// The kinds of action.
const (
	// Order a machine: Order, Pool, Shape, Host; with Keep to become a spare.
	Buy      Kind = "Buy"
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
	// Pods are those that a machine is ordered for, as the packing puts them. The scheduler may put
	// them otherwise, and a plan of thousands would fill the journal: they are not written.
	Pods []string `json:"-"`
	// Rate is what the action adds to or takes off the hourly cost.
	Rate    pricing.Rate `json:"rate,omitempty"`
	Reasons []Reason     `json:"reasons"`
}
