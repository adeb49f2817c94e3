package nodescaler

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// Policy is the node half of an autoscaling policy. Decide depends on nothing but what x indexes
// and the policy's own memory, must not modify either x or its snapshot, and must be safe to
// forget: a policy restarted between two calls may be slower to give capacity back, never faster.
type Policy interface {
	Decide(x *Index) Plan
}

// Plan is what should be done now, in order, and why; Reasons also say why nothing is.
type Plan struct {
	Actions []Action `json:"actions,omitempty"`
	Reasons []Reason `json:"reasons,omitempty"`
	// Held are the pods beyond the quota of their namespace, sorted by namespace and workload.
	Held []Held `json:"held,omitempty"`
	// Unplaced are the pods without a place on any node, machine in flight or new order, sorted by
	// workload and reason.
	Unplaced []Unplaced `json:"unplaced,omitempty"`
	// Advice is what would pay for itself and its settings do not allow, by pool.
	Advice map[string]Reason `json:"advice,omitempty"`
	// Halted is for which reasons no machine of a pool is replaced for now, by pool.
	Halted map[string]Reason `json:"halted,omitempty"`
	// Headroom is how much of each headroom there is, in the order of the snapshot.
	Headroom []HeadroomState `json:"headroom,omitempty"`
	// LookAgain is the latest time of the next decision; zero for the next step.
	LookAgain time.Time `json:"lookAgain,omitzero"`
}

// Unplaced are pods of one workload that are pending for one reason and that no plan helps.
type Unplaced struct {
	// Workload is as pods have it; empty are bare pods.
	Workload string `json:"workload,omitempty"`
	// Pods names the first UnplacedNamed of the pods. Count is the number of all of them, and
	// Coming that of replicas without a pod yet.
	Pods   []string `json:"pods,omitempty"`
	Count  int      `json:"count,omitempty"`
	Coming int      `json:"coming,omitempty"`
	Why    Reason   `json:"why"`
	// Help is the change that would help them, in words; empty if unknown.
	Help string `json:"help,omitempty"`
}

// UnplacedNamed is how many pods without a place are named for each reason.
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
	// Buy orders a machine: Order, Pool, Shape, Host; with Keep to become a spare.
	Buy      Kind = "Buy"
	Cordon   Kind = "Cordon"   // keep new pods off Node and mark it as draining
	Uncordon Kind = "Uncordon" // take that mark back
	Evict    Kind = "Evict"    // move Pod off Node, within its budget
	// DeletePod deletes Pod with Grace, past budgets and annotations: the drain of its node ends.
	DeletePod Kind = "DeletePod"
	Return    Kind = "Return" // delete Machine, and its Node if it has one
	Stash     Kind = "Stash"  // shut down Machine and keep it, and its Node, as a spare
	Wake      Kind = "Wake"   // make the spare Machine capacity: start it, and open its node
	Reboot    Kind = "Reboot" // stop and start Machine, whose Node is unhealthy
)

// Grows reports whether the action adds capacity to its pool; all others remove some, or prepare
// it.
func (k Kind) Grows() bool { return k == Buy || k == Wake || k == Uncordon }

// Action is one change, with its reasons.
type Action struct {
	Kind    Kind           `json:"kind"`
	Order   string         `json:"order,omitempty"`
	Pool    string         `json:"pool,omitempty"`
	Shape   *pricing.Shape `json:"shape,omitempty"`
	Host    string         `json:"host,omitempty"`
	Machine string         `json:"machine,omitempty"`
	Node    string         `json:"node,omitempty"`
	Pod     string         `json:"pod,omitempty"`
	// Grace is how long the processes of a pod that is deleted have to end.
	Grace Duration `json:"grace,omitempty"`
	// Keep orders a machine that becomes a spare.
	Keep bool `json:"keep,omitempty"`
	// For names the namespaces that a machine is ordered or woken for, of those that have a quota.
	For []string `json:"for,omitempty"`
	// Pods are those that the packing puts onto an ordered machine. The journal omits them, because
	// the scheduler may bind them elsewhere, and a plan may have thousands.
	Pods []string `json:"-"`
	// Rate is what the action adds to the hourly cost, or subtracts from it.
	Rate    pricing.Rate `json:"rate,omitempty"`
	Reasons []Reason     `json:"reasons"`
}

// OrderID names the i-th order of the step at now. Two steps that are a millisecond apart
// never share one, and it is short and plain enough to end a machine's name: mtim7pc0-0.
// A name that was used once is refused by RKE2 and k3s for ever after, so ids are made from
// the time and never from a count that starts again.
func OrderID(now time.Time, i int) string {
	// Unsigned, so that a world whose clock starts before 1970 has no sign in its names.
	return strconv.FormatUint(uint64(now.UnixMilli()), 36) + "-" + strconv.FormatInt(int64(i), 36)
}

// MachineName is the name of the machine, and of the node, that an order makes.
func MachineName(pool, order string) string { return pool + "-" + order }

// Headroom is room that is kept free for a number of like pods that do not exist. It buys machines
// and holds them; a pod that exists takes the room at once.
type Headroom struct {
	// Name is the namespace and the name of what asks for it.
	Name string `json:"name"`
	// Like is one of the pods. It has no name of its own.
	Like  Pod `json:"like"`
	Count int `json:"count"`
}

// HeadroomState is how much of a headroom there is.
type HeadroomState struct {
	Name string `json:"name"`
	// For so many pods there is to be room. For Ready there is, on nodes, and for Coming there will
	// be, on machines that are ordered or in flight.
	Wanted int `json:"wanted"`
	Ready  int `json:"ready,omitempty"`
	Coming int `json:"coming,omitempty"`
	// Rate is the headroom's part of what our machines cost, by requests.
	Rate pricing.Rate `json:"rate,omitempty"`
	// Why says why there is less room than wanted; nil if there is not.
	Why *Reason `json:"why,omitempty"`
}

// Missing is for how many pods there is no room and none to come.
func (h *HeadroomState) Missing() int { return max(h.Wanted-h.Ready-h.Coming, 0) }
