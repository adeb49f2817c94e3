package testbed

import (
	"strconv"
	"time"

	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/podscaler"
	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/sim"
	"github.com/plimsoll/plimsoll/testbed/strict"
)

// Experiment is what an experiment's file says.
type Experiment struct {
	Name  string `json:"name" strict:"required"`
	Title string `json:"title" strict:"required"`
	// Shows is what the experiment is to show, in a paragraph; Notes are the readings that were
	// taken where its source can be read in several ways.
	Shows string `json:"shows" strict:"required"`
	Notes []Note `json:"notes,omitempty"`

	Trials   int           `json:"trials" strict:"required"`
	Duration time.Duration `json:"duration,omitempty"` // of a trial, unless a scenario has its own
	Seed     uint64        `json:"seed" strict:"required"`
	// Span is a part of a trial in which the replicas are counted apart, such as a dip in the load.
	Span *Range `json:"span,omitempty"`
	// Path keeps in the results of every run how many replicas were asked for when, and draws that
	// first.
	Path bool `json:"path,omitempty"`

	// Tick is the time between two steps of the loop. With Wake, a pod that turns
	// unschedulable calls for a step at once.
	Tick    time.Duration `json:"tick" strict:"required"`
	Wake    bool          `json:"wake,omitempty"`
	Hosts   []Host        `json:"hosts" strict:"required"`
	Pools   []Pool        `json:"pools" strict:"required"`
	Prices  pricing.Book  `json:"prices" strict:"required"`
	Delays  Delays        `json:"delays" strict:"required"`
	Signals Signals       `json:"signals" strict:"required"`

	Workloads  []Workload  `json:"workloads" strict:"required"`
	Load       Load        `json:"load" strict:"required"`
	Policies   []Policy    `json:"policies" strict:"required"`
	Faults     []Fault     `json:"faults,omitempty"`
	Assertions []Assertion `json:"assertions,omitempty"`
	Claims     []Claim     `json:"claims,omitempty"`
	Reference  *Reference  `json:"reference,omitempty"`
}

// Note is a point that can be read in several ways, and how it is read here.
type Note struct {
	Point   string `json:"point" strict:"required"`
	Reading string `json:"reading" strict:"required"`
}

// Host is a physical machine.
type Host struct {
	Name   string           `json:"name" strict:"required"`
	CPU    pricing.MilliCPU `json:"cpu" strict:"required"`
	Memory pricing.Bytes    `json:"memory" strict:"required"`
}

// Pool is a kind of machine that may be bought.
type Pool struct {
	Name     string            `json:"name" strict:"required"`
	Shapes   []pricing.Shape   `json:"shapes" strict:"required"`
	Reserved pricing.Resources `json:"reserved,omitzero"`
	PodSlots int               `json:"podSlots,omitempty"`
	// Resources is what each machine has besides CPU and memory: devices, huge pages.
	Resources map[string]pricing.Quantity `json:"resources,omitempty"`
	Min       int                         `json:"min" strict:"required"`
	Max       int                         `json:"max" strict:"required"`
	// Start is how many machines are joined when a trial begins.
	Start  int               `json:"start" strict:"required"`
	Hosts  []string          `json:"hosts,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Taints []Taint           `json:"taints,omitempty"`
}

// Taint keeps pods away that do not tolerate it.
type Taint struct {
	Key    string `json:"key" strict:"required"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect" strict:"required"`
}

// Toleration lets a workload's pods onto machines with a taint.
type Toleration struct {
	Key    string `json:"key,omitempty"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect,omitempty"`
}

// Delays are how long machines and pods take, each drawn evenly from a range.
type Delays struct {
	Clone  Range `json:"clone,omitzero"`
	Boot   Range `json:"boot" strict:"required"`
	Delete Range `json:"delete,omitzero"`
	// Wake is from the start of a spare until it is a node again; 10s..30s if omitted.
	Wake     Range `json:"wake,omitzero"`
	PodStart Range `json:"podStart" strict:"required"`
	// Clones is how many machines are cloned at a time; 0 for no limit.
	Clones int `json:"clones,omitempty"`
}

// Signals say how the policies see the world.
type Signals struct {
	// Latency is exact, or scraped: read from a histogram with the bucket edges, taken every
	// so often.
	Latency      string          `json:"latency" strict:"required"`
	Edges        []time.Duration `json:"edges,omitempty"`
	Every        time.Duration   `json:"every,omitempty"`
	MetricsEvery time.Duration   `json:"metricsEvery" strict:"required"`
	// Late is how old everything that is measured is when the policies get to see it.
	Late time.Duration `json:"late,omitempty"`
}

// How latencies are read.
const (
	Exact   = "exact"
	Scraped = "scraped"
)

// Workload is a service.
type Workload struct {
	Name string `json:"name" strict:"required"` // namespace/name
	// Requests is what a pod asks for, sidecars included; Quota is the CPU limit that its
	// requests share.
	Requests pricing.Resources `json:"requests" strict:"required"`
	// Resources is what a pod requests besides CPU and memory.
	Resources   map[string]pricing.Quantity `json:"resources,omitempty"`
	Quota       pricing.MilliCPU            `json:"quota" strict:"required"`
	Concurrency int                         `json:"concurrency" strict:"required"`
	Demand      Demand                      `json:"demand" strict:"required"`
	Memory      *PodMemory                  `json:"memory,omitempty"`
	Balance     sim.Balance                 `json:"balance" strict:"required"`
	Replicas    Replicas                    `json:"replicas" strict:"required"`
	// Unavailable is how many pods may be evicted at a time; 0 for any number.
	Unavailable int               `json:"unavailable,omitempty"`
	Grace       time.Duration     `json:"grace,omitempty"`
	Priority    int               `json:"priority,omitempty"`
	Selector    map[string]string `json:"selector,omitempty"`
	Tolerations []Toleration      `json:"tolerations,omitempty"`
	SLO         SLO               `json:"slo" strict:"required"`
	Cost        *CostTarget       `json:"cost,omitempty"`
	// Share is the part of the load that this workload gets; all of it if omitted.
	Share *Share `json:"share,omitempty"`
	// Load is the workload's own at every level, in place of a part of the experiment's.
	Load *OwnLoad `json:"load,omitempty"`
}

// OwnLoad is who sends requests to one workload beside the others.
type OwnLoad struct {
	Curve Curve    `json:"curve" strict:"required"`
	Kind  sim.Kind `json:"kind,omitempty"` // the experiment's where it is not set, as is
	// Think is a user's pause.
	Think time.Duration `json:"think,omitempty"`
}

// Demand is the CPU time of one request: even between mean − spread and mean + spread, or, with a
// tail, by the law of Pareto with that exponent. Wait is the mean of an exponential time for which
// the request waits besides for something else than its pod's CPU.
type Demand struct {
	Mean   time.Duration `json:"mean" strict:"required"`
	Spread Share         `json:"spread" strict:"required"`
	Tail   float64       `json:"tail,omitempty"`
	Wait   time.Duration `json:"wait,omitempty"`
}

// PodMemory is what a pod has in use: at rest, and for each request that is in it. Policies that go
// by memory need it.
type PodMemory struct {
	Base       pricing.Bytes `json:"base" strict:"required"`
	PerRequest pricing.Bytes `json:"perRequest,omitempty"`
}

// Replicas bound a workload, and say how many it starts with.
type Replicas struct {
	Min   int `json:"min" strict:"required"`
	Max   int `json:"max" strict:"required"`
	Start int `json:"start" strict:"required"`
}

// SLO is a latency objective.
type SLO struct {
	P      Quantile      `json:"p" strict:"required"`
	Target time.Duration `json:"target" strict:"required"`
	Window time.Duration `json:"window" strict:"required"`
}

// CostTarget is a wish for what the machines cost, always with its period.
type CostTarget struct {
	Target  pricing.Micros        `json:"target" strict:"required"`
	Per     time.Duration         `json:"per" strict:"required"`
	Count   podscaler.CostCount   `json:"count" strict:"required"`
	Measure podscaler.CostMeasure `json:"measure" strict:"required"`
}

// Load is who sends requests, and how: a sweep over numbers of users, or named scenarios.
type Load struct {
	// Kind is sleep, pace or open; for open loads, users are requests per second.
	Kind sim.Kind `json:"kind" strict:"required"`
	// Think is a user's pause: after the answer (sleep), or from request to request (pace).
	Think time.Duration `json:"think,omitempty"`
	// Spread starts the users over this time instead of all at once.
	Spread time.Duration `json:"spread,omitempty"`
	// Even spaces an open load's requests evenly instead of at random.
	Even      bool       `json:"even,omitempty"`
	Users     []int      `json:"users,omitempty"`
	Scenarios []Scenario `json:"scenarios,omitempty"`
}

// Scenario is a load that changes over time.
type Scenario struct {
	Name     string        `json:"name" strict:"required"`
	Curve    Curve         `json:"curve" strict:"required"`
	Duration time.Duration `json:"duration,omitempty"` // the experiment's if omitted
	Kind     sim.Kind      `json:"kind,omitempty"`     // the load's if omitted
	// Otherwise is what of the world is another than the experiment's.
	Otherwise *Otherwise `json:"otherwise,omitempty"`
}

// Otherwise is what of the world is another in a scenario; what is omitted stays. The policies do
// not get it: they know of the world only what they see.
type Otherwise struct {
	Think   time.Duration    `json:"think,omitempty"`
	Demand  *Demand          `json:"demand,omitempty"`  // of every workload, as are
	Quota   pricing.MilliCPU `json:"quota,omitempty"`   // this
	Balance sim.Balance      `json:"balance,omitempty"` // and this
	Delays  *Delays          `json:"delays,omitempty"`
	Signals *Signals         `json:"signals,omitempty"`
	Faults  []Fault          `json:"faults,omitempty"` // beside the experiment's
}

// Policy is a row of the experiment: a pod policy with a node policy, under a name.
type Policy struct {
	Name  string `json:"name" strict:"required"`
	Title string `json:"title,omitempty"`
	// Clairvoyant rows know the load to come. They are yardsticks and have no policies.
	Clairvoyant bool        `json:"clairvoyant,omitempty"`
	Pods        *PodPolicy  `json:"pods,omitempty"`
	Nodes       *NodePolicy `json:"nodes,omitempty"`
	// Cost takes the place of the workloads' cost targets.
	Cost *CostTarget `json:"cost,omitempty"`
	// MaxReplicas and MaxMachines lower the workloads' and the pools' limits.
	MaxReplicas int `json:"maxReplicas,omitempty"`
	MaxMachines int `json:"maxMachines,omitempty"`
	// Spares is how many machines of each pool are stopped when a trial begins, and have joined
	// before.
	Spares int `json:"spares,omitempty"`
	// Limit is what all machines together may cost, even if the policies want more.
	Limit *pricing.Limit `json:"limit,omitempty"`
}

// PodPolicy is a pod policy with the guards around it.
type PodPolicy struct {
	podpolicy.Spec
	RunPeriod time.Duration `json:"runPeriod" strict:"required"`
	Cooldown  time.Duration `json:"cooldown,omitempty"`
	Behavior  *Behavior     `json:"behavior,omitempty"`
}

// NodePolicy is a node policy. Only the block of settings that bears its name may be there; what
// that leaves out is the policy's default.
type NodePolicy struct {
	Policy string `json:"policy" strict:"required"`
	// ScaledBy is who decides on machines: Plimsoll, if omitted, or ClusterAutoscaler, which orders
	// them from Plimsoll over gRPC. In the simulated world the policy unneeded plays it.
	ScaledBy ScaledBy     `json:"scaledBy,omitempty"`
	Pending  strict.Block `json:"pending,omitzero"`
	Unneeded strict.Block `json:"unneeded,omitzero"`
	Joint    strict.Block `json:"joint,omitzero"`

	spec nodepolicy.Spec // with the defaults in
}

// ScaledBy is who decides on machines, in the words of a VMPool.
type ScaledBy string

// Who decides on machines.
const (
	ScaledByPlimsoll          ScaledBy = "Plimsoll"
	ScaledByClusterAutoscaler ScaledBy = "ClusterAutoscaler"
)

// Upstream reports whether upstream's cluster-autoscaler decides on the row's machines, or what
// plays it.
func (p *Policy) Upstream() bool {
	return p.Nodes != nil && p.Nodes.ScaledBy == ScaledByClusterAutoscaler
}

// Spec is the policy with its settings, the defaults in.
func (n *NodePolicy) Spec() nodepolicy.Spec { return n.spec }

// Behavior limits and steadies a pod policy in the shape of autoscaling/v2.
type Behavior struct {
	// Preset is v2, what an HPA with an empty behavior gets, legacy, what one without any does, or
	// v1.11, what all did up to Kubernetes 1.11. ScaleUp and ScaleDown take the place of v2's rules
	// in their direction.
	Preset    string `json:"preset" strict:"required"`
	ScaleUp   *Rules `json:"scaleUp,omitempty"`
	ScaleDown *Rules `json:"scaleDown,omitempty"`
}

// The presets of a behavior.
const (
	V2     = "v2"
	Legacy = "legacy"
	V111   = "v1.11"
)

// Rules are the limits in one direction.
type Rules struct {
	StabilizationWindow time.Duration    `json:"stabilizationWindow" strict:"required"`
	SelectPolicy        podscaler.Select `json:"selectPolicy,omitempty"`
	Policies            []StepLimit      `json:"policies,omitempty"`
	Tolerance           *float64         `json:"tolerance,omitempty"`
}

// StepLimit allows a change of so many pods, or so many percent, in each period.
type StepLimit struct {
	Pods    int           `json:"pods,omitempty"`
	Percent int           `json:"percent,omitempty"`
	Period  time.Duration `json:"period" strict:"required"`
}

// Fault is something that goes wrong at a time.
type Fault struct {
	At    time.Duration `json:"at" strict:"required"`
	Kind  sim.FaultKind `json:"kind" strict:"required"`
	Host  string        `json:"host,omitempty"`
	For   time.Duration `json:"for,omitempty"`
	Count int           `json:"count,omitempty"`
	// Left is the part of their CPU that a noisy neighbour leaves to the pods.
	Left Share `json:"left,omitempty"`
}

// Claim is what a publication says of its policies. One rule says what of which measures is
// claimed. Whether it comes out is reported, and fails nothing.
type Claim struct {
	Name     string   `json:"name" strict:"required"`
	Text     string   `json:"text" strict:"required"`
	Policies []string `json:"policies" strict:"required"`
	// Against are those that they are compared with, unless there are bounds.
	Against []string `json:"against,omitempty"`
	// Where is which levels it is about, as in an assertion; all if omitted.
	Where Where `json:"where,omitzero"`

	// Lower are measures that are to be lower than the others', all at once.
	Lower []string `json:"lower,omitempty" strict:"oneof=rule"`
	// Alike are measures that are to be no further from the others' than such a part of them.
	Alike map[string]Share `json:"alike,omitempty" strict:"oneof=rule"`
	// Flatter are measures that are to rise less with the number of users than the others' do.
	Flatter []string `json:"flatter,omitempty" strict:"oneof=rule"`
	// Gaining are measures that are to be the lower, in parts of the others', the more users there
	// are.
	Gaining []string `json:"gaining,omitempty" strict:"oneof=rule"`
	// Most are what measures are to be at most.
	Most map[string]float64 `json:"most,omitempty" strict:"oneof=rule"`
}

// Reference is what another client has measured, to be compared with.
type Reference struct {
	Source string `json:"source" strict:"required"`
	// Tolerance is how far each measure may be off before it is flagged.
	Tolerance map[string]Share `json:"tolerance" strict:"required"`
	Cells     []Cell           `json:"cells" strict:"required"`
}

// Cell is the reference's values of a policy at a level.
type Cell struct {
	Policy   string             `json:"policy" strict:"required"`
	Users    int                `json:"users,omitempty"`
	Scenario string             `json:"scenario,omitempty"`
	Values   map[string]float64 `json:"values" strict:"required"`
}

// PolicyNames are the names of the rows.
func (e *Experiment) PolicyNames() []string {
	out := make([]string, len(e.Policies))
	for i := range e.Policies {
		out[i] = e.Policies[i].Name
	}
	return out
}

// LevelNames are the levels of load: numbers of users, or scenarios by name.
func (e *Experiment) LevelNames() []string {
	var out []string
	for _, n := range e.Load.Users {
		out = append(out, strconv.Itoa(n))
	}
	for i := range e.Load.Scenarios {
		out = append(out, e.Load.Scenarios[i].Name)
	}
	return out
}
