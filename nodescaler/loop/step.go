package loop

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/approval"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
)

// Codes of what a step itself has to say.
const (
	CodeClusterUnknown = "ClusterUnknown" // the cluster could not be read: nothing is decided
	// the machines could not be read: pods are scaled, machines are not
	CodeMachinesUnknown = "MachinesUnknown"
	CodeSignalsUnknown  = "SignalsUnknown" // a workload's signals could not be read
	CodeLooking         = "Looking"        // the first step after a start only looks
	CodeNoSuchWorkload  = "NoSuchWorkload" // a workload has no scale subresource to be found
	// an action would have broken an invariant and is not done
	CodePlanRefused   = "PlanRefused"
	CodeOrderLost     = "OrderLost"     // an accepted order never showed up among the machines
	CodeCostUnknown   = "CostUnknown"   // the ledger could not be kept
	CodePolicyInvalid = "PolicyInvalid" // a workload's policy cannot be made
	CodePodsNotMarked = "PodsNotMarked" // the pods that are to go first could not be marked
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
	// what people are asked, and what follows from what they answered
	Asked *approval.Asked `json:"asked,omitempty"`
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

// Tried is what came of an action of the plan, or nil if it was not tried.
func (s *Step) Tried(action int) *Outcome {
	i := slices.IndexFunc(s.Outcomes, func(o Outcome) bool { return o.Action == action })
	if i < 0 {
		return nil
	}
	return &s.Outcomes[i]
}

// Says reports whether a problem of the step has the code.
func (s *Step) Says(code string) bool {
	return slices.ContainsFunc(s.Problems, func(r nodescaler.Reason) bool { return r.Code == code })
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
		s.Observed.Hosts, s.Observed.Namespaces = loads(seen), namespaces(seen)
	}
	if err := j.Append(s); err != nil {
		return fmt.Errorf("journal %s: %w", s.ID, err)
	}
	return nil
}

// Observed is the step's view of the world in short.
type Observed struct {
	Hosts []HostLoad `json:"hosts,omitempty"`
	// Namespaces are what the machines under their pods cost.
	Namespaces []NamespaceLoad `json:"namespaces,omitempty"`
	// Machines counts ours by phase.
	Machines map[nodescaler.Phase]int `json:"machines,omitempty"`
	Nodes    int                      `json:"nodes"`
	Pods     int                      `json:"pods"`
	Pending  int                      `json:"pending"`
	Cost     Cost                     `json:"cost"`
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
	Proposal string `json:"proposal,omitempty"` // that could not be written, with the place -1
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

func (s *Step) problem(code, text string) {
	s.Problems = append(s.Problems, nodescaler.Reason{Code: code, Text: text})
}

// Expectation is what is made known of a workload. While it is held, nothing is asked for.
type Expectation struct {
	Workload string             `json:"workload"`
	More     int                `json:"more"`
	To       int                `json:"to"` // replicas that it is to have
	Held     *nodescaler.Reason `json:"held,omitempty"`
	Error    string             `json:"error,omitempty"`
	Err      error              `json:"-"`
}

// inputs are the readings that the record shows beside a decision.
func inputs(wl *podscaler.Workload, w *podscaler.Window, c podscaler.Cost) *Inputs {
	scaled := func(r podscaler.Reading, by float64) *float64 {
		v, ok := r.Number() // what is not a number is unknown, and would be no JSON
		if !ok {
			return nil
		}
		v *= by
		return &v
	}
	in := &Inputs{
		LatencyMs:  scaled(w.Latency, 1e3),
		TargetMs:   wl.SLO.Target.Seconds() * 1e3,
		Good:       scaled(w.Good, 1),
		Arrivals:   scaled(w.Arrivals, 1),
		InFlight:   scaled(w.InFlight, 1),
		Errors:     scaled(w.Errors, 1),
		Registered: scaled(w.Registered, 1),
	}
	if wl.Cost.Target > 0 {
		in.CostTarget = wl.Cost.Target
		if now, known := wl.Cost.Current(c); known {
			in.Cost = &now
		}
	}
	return in
}

// budgetOf is what the record has of an error budget, in numbers that are as fine as it matters.
func budgetOf(b *podscaler.Budget) *podscaler.Budget {
	if b == nil {
		return nil
	}
	for i := range b.Burn {
		b.Burn[i].Rate = rounded(b.Burn[i].Rate)
	}
	b.Left, b.Late = rounded(b.Left), rounded(b.Late)
	return b
}

// rounded is a number to six digits behind the point.
func rounded(v float64) float64 { return math.Round(v*1e6) / 1e6 }
