package planner

import (
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// Rules are what a Planner goes by, named as cluster-autoscaler's flags as far as they are its.
type Rules struct {
	Growth
	Shrinking
	Health
	// Hold is how long a node has to be unneeded, in place of ScaleDownUnneededTime; nil for that.
	Hold func(*nodescaler.NodeLoad) time.Duration
	// Cancel is after how long an order that has not begun is taken back if nothing needs it; nil
	// is never.
	Cancel func() time.Duration
	// Spares is how many machines are kept stopped; nil if spares are nothing to the policy.
	Spares *Spared
}

// Growth is for which pods machines are ordered, and what becomes of those that do not come.
type Growth struct {
	// ExpendablePodsPriorityCutoff is the lowest priority for which a machine is ordered, or
	// kept. NewPodScaleUpDelay is how long a pod has to wait for one at least.
	ExpendablePodsPriorityCutoff int                 `json:"expendablePodsPriorityCutoff"`
	NewPodScaleUpDelay           nodescaler.Duration `json:"newPodScaleUpDelay"`
	// CapacityBufferPodInjectionEnabled counts replicas that are only expected among those that
	// wait, as cluster-autoscaler does once they are made known to it by CapacityBuffers or
	// placeholders.
	CapacityBufferPodInjectionEnabled bool `json:"capacityBufferPodInjectionEnabled"`
	// EnforceNodeGroupMinSize orders machines for pools below their minimum.
	EnforceNodeGroupMinSize bool `json:"enforceNodeGroupMinSize"`

	// MaxNodeProvisionTime is how long a machine may take to become a node before it is given
	// up, MaxNodeStartupTime how long a node that is not ready yet is expected to be.
	MaxNodeProvisionTime            nodescaler.Duration `json:"maxNodeProvisionTime"`
	MaxNodeStartupTime              nodescaler.Duration `json:"maxNodeStartupTime"`
	InitialNodeGroupBackoffDuration nodescaler.Duration `json:"initialNodeGroupBackoffDuration"`
	MaxNodeGroupBackoffDuration     nodescaler.Duration `json:"maxNodeGroupBackoffDuration"`
	NodeGroupBackoffResetTimeout    nodescaler.Duration `json:"nodeGroupBackoffResetTimeout"`
}

// Shrinking is which nodes are unneeded, and how they are emptied.
type Shrinking struct {
	// Below the threshold, a node is little used; of daemons, the original's default counts
	// what they ask for.
	ScaleDownUtilizationThreshold float64 `json:"scaleDownUtilizationThreshold"`
	IgnoreDaemonsetsUtilization   bool    `json:"ignoreDaemonsetsUtilization"`
	// The times for which a node has to be unneeded, if it is ready and if it is not.
	ScaleDownUnneededTime nodescaler.Duration `json:"scaleDownUnneededTime"`
	ScaleDownUnreadyTime  nodescaler.Duration `json:"scaleDownUnreadyTime"`
	// The times for which no node is taken after an order, a return and a failed drain.
	ScaleDownDelayAfterAdd     nodescaler.Duration `json:"scaleDownDelayAfterAdd"`
	ScaleDownDelayAfterDelete  nodescaler.Duration `json:"scaleDownDelayAfterDelete"`
	ScaleDownDelayAfterFailure nodescaler.Duration `json:"scaleDownDelayAfterFailure"`
	// How many nodes may be on their way out at once, how many of those with pods to move, and
	// how many empty ones are taken in one scan.
	MaxScaleDownParallelism int `json:"maxScaleDownParallelism"`
	MaxDrainParallelism     int `json:"maxDrainParallelism"`
	MaxEmptyBulkDelete      int `json:"maxEmptyBulkDelete"`
	// A drain fails when pods are not evicted within the first, or not gone within the second
	// after it. An empty node is reclaimed no sooner than the third after it was cordoned.
	MaxPodEvictionTime        nodescaler.Duration `json:"maxPodEvictionTime"`
	MaxGracefulTermination    nodescaler.Duration `json:"maxGracefulTermination"`
	NodeDeleteDelayAfterTaint nodescaler.Duration `json:"nodeDeleteDelayAfterTaint"`
}

// Health is how many nodes may be not ready. With more than the first, and a larger part of all
// than the second, in percent, nothing is done. Nodes whose host is known to be away do not count.
type Health struct {
	OKTotalUnreadyCount       int     `json:"okTotalUnreadyCount"`
	MaxTotalUnreadyPercentage float64 `json:"maxTotalUnreadyPercentage"`
}

// DefaultRules are cluster-autoscaler's defaults.
func DefaultRules() Rules {
	return Rules{
		Growth: Growth{
			ExpendablePodsPriorityCutoff:    -10,
			MaxNodeProvisionTime:            minutes(15),
			MaxNodeStartupTime:              nodescaler.Duration(nodescaler.NodeStartup),
			InitialNodeGroupBackoffDuration: minutes(5),
			MaxNodeGroupBackoffDuration:     minutes(30),
			NodeGroupBackoffResetTimeout:    minutes(180),
		},
		Shrinking: Shrinking{
			ScaleDownUtilizationThreshold: 0.5,
			ScaleDownUnneededTime:         minutes(10),
			ScaleDownUnreadyTime:          minutes(20),
			ScaleDownDelayAfterAdd:        minutes(10),
			ScaleDownDelayAfterFailure:    minutes(3),
			MaxScaleDownParallelism:       10,
			MaxDrainParallelism:           1,
			MaxEmptyBulkDelete:            10,
			MaxPodEvictionTime:            minutes(2),
			MaxGracefulTermination:        minutes(10),
			NodeDeleteDelayAfterTaint:     nodescaler.Duration(5 * time.Second),
		},
		Health: Health{OKTotalUnreadyCount: 3, MaxTotalUnreadyPercentage: 45},
	}
}

func minutes(n int) nodescaler.Duration {
	return nodescaler.Duration(n) * nodescaler.Duration(time.Minute)
}

// expendable reports whether any other pod would displace this one.
func (g *Growth) expendable(p *nodescaler.Pod) bool {
	return p.Priority < g.ExpendablePodsPriorityCutoff
}
