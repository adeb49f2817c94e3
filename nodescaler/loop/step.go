package loop

import (
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
)

// Step is the record of one step: what was seen, what was decided and why, and what came of
// it. It is the journal's line, and what explain, events, the dashboard and a replay read.
type Step struct {
	ID        string          `json:"id"` // d-000042
	Time      time.Time       `json:"time"`
	Observed  Observed        `json:"observed"`
	Workloads []WorkloadStep  `json:"workloads,omitempty"`
	Plan      nodescaler.Plan `json:"plan"`
	// how far the rollouts of pools are, by pool
	Rollouts map[string]nodescaler.Rolled `json:"rollouts,omitempty"`
	// what was made known to whoever orders machines
	Expected []Expectation       `json:"expected,omitempty"`
	Outcomes []Outcome           `json:"outcomes,omitempty"`
	Problems []nodescaler.Reason `json:"problems,omitempty"`
	// Snapshot is what was decided on. It is only to be read, and no part of the record.
	Snapshot *nodescaler.Snapshot `json:"-"`
	// Deferred says which actions of the plan are not done now, by their place, and why.
	Deferred map[int]nodescaler.Reason `json:"-"`
}

// Rescaled is what came of the change of a workload's replicas, or nil if none was tried.
func (s *Step) Rescaled(workload string) *Outcome {
	for i := range s.Outcomes {
		if o := &s.Outcomes[i]; o.Action < 0 && o.Pod == "" && o.Workload == workload {
			return o
		}
	}
	return nil
}

// Decided reports whether the step changed anything, or meant to: most steps only look.
func (s *Step) Decided() bool {
	return len(s.Plan.Actions) > 0 || slices.ContainsFunc(s.Workloads, func(w WorkloadStep) bool {
		return w.Resize != nil || w.Decision != nil && w.Decision.To != w.Decision.From
	})
}

// Record puts the record into the journal, if there is one.
func (s *Step) Record(j Journal) error {
	seen := s.Snapshot
	if s.Snapshot = nil; j == nil {
		return nil
	}
	if seen != nil && s.Observed.Cost.Known {
		s.Observed.Hosts = loads(seen)
	}
	if err := j.Append(s); err != nil {
		return fmt.Errorf("journal %s: %w", s.ID, err)
	}
	return nil
}

// Observed is the step's view of the world in short.
type Observed struct {
	Hosts []HostLoad `json:"hosts,omitempty"`
	// Machines counts ours by phase.
	Machines map[nodescaler.Phase]int `json:"machines,omitempty"`
	Nodes    int                      `json:"nodes"`
	Pods     int                      `json:"pods"`
	Pending  int                      `json:"pending"`
	Cost     Cost                     `json:"cost"`
}

// HostLoad is how far a host is loaded.
type HostLoad struct {
	Name     string            `json:"name"`
	Online   bool              `json:"online"`
	Room     pricing.Resources `json:"room"`
	Machines []MachineLoad     `json:"machines,omitempty"`
}

// MachineLoad is a machine and what its pods ask of it.
type MachineLoad struct {
	Name     string            `json:"name"`
	Pool     string            `json:"pool,omitempty"`
	Phase    nodescaler.Phase  `json:"phase"`
	Shape    pricing.Shape     `json:"shape"`
	Rate     pricing.Rate      `json:"rate,omitempty"` // without its share of the host's price
	Pods     int               `json:"pods"`
	Requests pricing.Resources `json:"requests"`
	Draining bool              `json:"draining,omitempty"`
	// it is paid for since; zero if it was only ordered
	Created time.Time `json:"created,omitzero"`
}

// Cost is what our machines cost, in the price book's unit; nothing is known of it while the
// machines cannot be read.
type Cost struct {
	Known   bool           `json:"known"`
	Unit    string         `json:"unit"`
	Joined  pricing.Rate   `json:"joined"`
	Ordered pricing.Rate   `json:"ordered"`
	Spent   pricing.Micros `json:"spent"` // since the runner's first step
}

// WorkloadStep is one workload in one step: its inputs, and the decision if its run was due.
type WorkloadStep struct {
	Workload string              `json:"workload"`
	Replicas int                 `json:"replicas"`
	Ready    int                 `json:"ready"`
	Pending  int                 `json:"pending"`
	Inputs   *Inputs             `json:"inputs,omitempty"`
	Decision *podscaler.Decision `json:"decision,omitempty"`
	// Held says why the decision was left at that.
	Held *nodescaler.Reason `json:"held,omitempty"`
	// Leaving are the pods that are to go first where replicas go.
	Leaving []string `json:"leaving,omitempty"`
	// Resize is the pod that is to get other requests, and Sizing what is known of them all.
	Resize *rightsize.Order  `json:"resize,omitempty"`
	Sizing *rightsize.Sizing `json:"-"`
	// Unplanned says why no machine is planned for some of the replicas.
	Unplanned *nodescaler.Reason `json:"unplanned,omitempty"`
}

// Inputs are the measurements a decision rested on; nil where unknown.
type Inputs struct {
	LatencyMs *float64 `json:"latencyMs,omitempty"`
	TargetMs  float64  `json:"targetMs,omitempty"`
	Good      *float64 `json:"good,omitempty"`
	// Budget is what is spent of the objective's error budget; nil until
	// requests were counted.
	Budget   *podscaler.Budget `json:"budget,omitempty"`
	Arrivals *float64          `json:"arrivals,omitempty"`
	InFlight *float64          `json:"inFlight,omitempty"`
	// Errors is the fraction of requests that failed, Registered how many instances a service
	// registry sends requests to. Most policies do without either.
	Errors     *float64 `json:"errors,omitempty"`
	Registered *float64 `json:"registered,omitempty"`
	// Cost is what the machines cost over the period of the cost target, counted and measured as
	// that says, and CostTarget the target; 0 means no target.
	Cost       *pricing.Micros `json:"cost,omitempty"`
	CostTarget pricing.Micros  `json:"costTarget,omitempty"`
}

// Outcome is what came of one action, by its place in the plan. For a change of replicas the
// place is -1 and Workload is set; so is Pod for a resize.
type Outcome struct {
	Action   int    `json:"action"`
	Workload string `json:"workload,omitempty"`
	Pod      string `json:"pod,omitempty"`
	Error    string `json:"error,omitempty"`
	// Refused says of an order that it was surely not taken.
	Refused Refusal `json:"refused,omitempty"`
	// Held says why the action was not tried.
	Held *nodescaler.Reason `json:"held,omitempty"`
}

// Refusal is what was refused with an order.
type Refusal string

// An order is refused as it is, or of any shape on any host.
const (
	OrderRefused Refusal = "Order"
	PoolRefused  Refusal = "Pool"
)
