package podscaler

import (
	"math"
	"strconv"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
)

// Workload is a scalable thing and what its owner wants of it. It does not change between
// two runs of its Scaler.
type Workload struct {
	Name     string // namespace/name
	Min, Max int
	SLO      SLO
	Cost     CostTarget
	// RunPeriod is the time between two runs of the policy; 0 runs it at every step.
	RunPeriod time.Duration
	// Cooldown is the time after a change of replicas in which no further one is made (the
	// papers' "stabilization window").
	Cooldown time.Duration
	// Behavior limits and steadies the changes as an HPA's behavior does; nil for none.
	Behavior *Behavior
	// Schedules move the bounds by the calendar. Of those that are open at once the highest floor
	// and the lowest ceiling count, and of the two the floor.
	Schedules []Schedule
	// Fallback is for when the policy has no answer for long; nil leaves the replicas as they are.
	Fallback *Fallback
	// Idle is for when nothing calls for the workload; nil keeps its minimum.
	Idle      *Idle
	Readiness Readiness
	Upstream  Upstream
	// Pod is what one replica asks for.
	Pod pricing.Resources
}

// SLO is a latency objective: the Quantile of response times over Window stays at Target or
// below. A zero Target means no objective.
type SLO struct {
	Quantile float64
	Target   time.Duration
	Window   time.Duration
}

// CostTarget is a wish for what the machines cost: Target for each Per, always with its
// period (40 per 30m). A zero Target means no target. An empty Count is CountPredicted, an empty
// Measure MeasureRate.
type CostTarget struct {
	Target  pricing.Micros
	Per     time.Duration
	Count   CostCount
	Measure CostMeasure
}

// CostCount says which machines the current cost counts.
type CostCount string

// What the current cost counts.
const (
	CountJoined    CostCount = "joined"    // machines that are nodes: what OpenCost sees
	CountOrdered   CostCount = "ordered"   // those, and every machine ordered or booting
	CountPredicted CostCount = "predicted" // those, and what pending replicas will still need
)

// CostMeasure says how the current cost is read against the target's period.
type CostMeasure string

// How the current cost is measured.
const (
	MeasureRate CostMeasure = "rate" // the present rate, applied to the whole period
	// Spent so far in this period, and the present rate for the rest.
	MeasureProjected CostMeasure = "projected"
)

// View is everything a policy may look at. It is built once per step and never written to.
type View struct {
	Now      time.Time
	Workload *Workload
	// Replicas is what the workload's owner or the last decision asked for, not what runs.
	Replicas int
	// ScaledToZero says that the workload's status records that replicas are 0 because a
	// Scaler made them so, not because a person paused the workload. Only a Scaler's first run
	// looks at it; after that it knows.
	ScaledToZero bool
	// SwitchedOff says that it records that another client made them so while a Scaler watched.
	// Only a first run looks at it, too.
	SwitchedOff bool
	// Held says that nothing is written here, so that what changes is another client's doing, as
	// KEDA's that carries out what is recommended.
	Held bool
	// Pods are those of this step: their place is used again in the next, and who wants them then
	// copies them.
	Pods   []Pod
	Window Window
	// Past is what became of earlier decisions. A Scaler fills it in before it asks its policy.
	Past Past
	// Rollout is the change of the workload's pods that is under way, if one is.
	Rollout Rollout
	// Pause is what is to be left alone. It comes and goes without the Scaler forgetting anything.
	Pause Pause
	Cost  Cost
	Room  Room
}

// Past is what a Scaler remembers of its own changes of replicas that were carried out. A policy
// with a cool-down of its own counts from here; Since says how far back it is known.
type Past struct {
	Since    time.Time // the first run; what was before is not known
	Up, Down time.Time // the last growth and the last shrinking; zero if there was none since
}

// Rollout is a change from one form of a workload's pods to another. Pods beyond the replicas are
// its surge and no demand.
type Rollout struct {
	InProgress bool
	// Failed is whether it has made no progress for so long that it is not expected to come to an
	// end by itself.
	Failed bool
	Why    string // what is still to come, for people
}

// Phase is a pod's phase in Kubernetes' words.
type Phase string

// The phases of a pod.
const (
	Pending   Phase = "Pending"
	Running   Phase = "Running"
	Failed    Phase = "Failed"
	Succeeded Phase = "Succeeded"
)

// Pod is one replica as its workload sees it.
type Pod struct {
	Name        string
	Phase       Phase
	Ready       bool
	Terminating bool
	// Lost is whether the pod's host is away, or its node has gone silent. It answers no request,
	// whether or not the cluster has noticed, and stays a replica until the cluster gives it up
	// or it is back.
	Lost bool
	// Started is when the pod's containers were started, ReadyChanged when Ready last
	// changed; zero when that has not happened.
	Started, ReadyChanged time.Time
	// CPU is the pod's CPU use in cores, Memory what it has in use, in bytes.
	CPU, Memory Sample
	// Asks is what the pod requests, container by container; nil where that is not known, and each
	// requests what its workload's Pod says.
	Asks *Asks `json:"-"`
	// Uses is what each of its containers uses; nil where that was not looked at.
	Uses []ContainerUse `json:"-"`
}

// Sample is a measured mean of a pod's metric over [At-Span, At].
type Sample struct {
	Known bool
	Value float64
	At    time.Time
	Span  time.Duration
}

// Reading is a measurement that may not exist. NaN, empty and stale answers are unknown.
type Reading struct {
	Known bool
	Value float64
	Why   string // why it is unknown, where that is known
}

// Known returns a reading of v, or an unknown one if v is not a finite number.
func Known(v float64) Reading {
	if !finite(v) {
		return Reading{}
	}
	return Reading{Known: true, Value: v}
}

// Rounded is v with six significant digits. No measurement is known better.
func Rounded(v float64) float64 {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64) // which wrote a number
	return v
}

// Number returns the reading's value, and whether there is one that can be reckoned with.
func (r Reading) Number() (v float64, ok bool) { return r.Value, r.Known && finite(r.Value) }

// Number returns the sample's value, and whether there is one that can be reckoned with.
func (s Sample) Number() (v float64, ok bool) { return s.Value, s.Known && finite(s.Value) }

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Window is what was measured of a workload over its objective's window.
type Window struct {
	Latency  Reading // the SLO's quantile of response times, in seconds
	Good     Reading // fraction of requests that answered within the SLO's target, or GoodWithin
	Arrivals Reading // requests offered per second
	InFlight Reading // requests being served or queued
	// GoodWithin is the time that Good is of where it is not the target: the nearest below it at
	// which requests are counted. Zero is the target.
	GoodWithin time.Duration
	// Errors is the fraction of requests that a server error answered, or that were refused or not
	// answered at all. It is a bonus: it may be unknown where all else is known, and is no part of
	// what Since speaks of.
	Errors Reading
	// Registered is the number of instances that a service registry sends requests to. Where no
	// registry is asked it is unknown without a Why.
	Registered Reading
	// RegisteredVersions are the registered instances by version, where the registry has it.
	RegisteredVersions map[string]int
	// Since is since when all of it has been measured without a gap; zero where that is not
	// kept account of. A workload is not shrunk before that is a full window ago.
	Since time.Time
	// Over is how long the window is; zero is the objective's.
	Over time.Duration
	// Metrics are the further series that a policy asks for by name.
	Metrics map[string]Metric
}

// Quiet reports whether it is known that no request came. Then there are no response times.
func (w *Window) Quiet() bool {
	arrivals, known := w.Arrivals.Number()
	flying, _ := w.InFlight.Number()
	return known && arrivals <= 0 && flying <= 0
}

// Metric is a named series: a value of the whole, or one a pod.
type Metric struct {
	Total  Reading
	PerPod map[string]float64 // by pod name; nil when the series is not one a pod
	Why    string             // why it is unknown
}

// Cost is what the machines cost at the moment of the view.
type Cost struct {
	Known                      bool
	Joined, Ordered, Predicted pricing.Rate
	// Spent is what the joined and ordered machines have cost since the start of the
	// workload's present cost period, and PeriodLeft how long that period still runs.
	Spent      pricing.Micros
	PeriodLeft time.Duration
	Why        string // why it is unknown
}

// Room says what is already on its way, and what there is to be filled.
type Room struct {
	PendingReplicas int // replicas that no node holds, or that are not ready yet
	BootingMachines int // machines ordered and not yet nodes
	// Places is where further replicas would go; without one nothing is known of it.
	Places *Places
	// PodLead is how long a new replica of the workload, or of any before one was seen, has lately
	// taken to be ready on a node that was there, and MachineLead a machine from its order to such
	// a replica. Both are what nine in ten stayed within; 0 is not known.
	PodLead, MachineLead time.Duration
}

// Places is the workload's share of the room for replicas. Where several workloads want the same
// room, it has been shared out by what they bid, or else evenly.
type Places struct {
	// Ready is how many replicas the nodes have room for now, those that run included; Coming
	// counts the machines that are on their way as well. Both are paid for, whoever fills them.
	Ready, Coming int
	// Filled is how many replicas there may be at no further cost: those that are needed, and what
	// fits beside them on machines that stay, as the workloads together need them. 0 if it is not
	// known.
	Filled int
	// Most is how many there may be with the machines bought that limits, hosts and the hard limit
	// on the cost allow: up to what was bid, or what fits into the last of them. It is not below
	// Coming.
	Most int
	// PerMachine is how many replicas the cheapest further machine takes, and Next what it costs an
	// hour; 0 if no further machine can be had.
	PerMachine int
	Next       pricing.Rate
	// Why says what Most ends at, if that is less than was bid, or why there is no further machine:
	// a stable code and a sentence.
	Why Reason
}

// Bid is what a policy would have if room were there for the asking, and what it is worth to it.
type Bid struct {
	Known bool
	// Want is the replicas for the time that a replica takes to come, Ahead those for the time that
	// a machine takes.
	Want, Ahead int
	// Worth is what each replica is worth, the first one first: by how much it is expected to raise
	// the requests that are answered well, per second. Replicas beyond it are worth nothing.
	Worth []float64
}
