package policy

import (
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/planner"
)

// The unneeded policy does what cluster-autoscaler 1.36 does with its default flags. It scans;
// pods that cannot be scheduled are placed, in a simulation, on nodes that are there or on
// their way, and machines are ordered for those that are left. A node whose pods ask for less
// than half of it, and all fit elsewhere, is unneeded; after ten minutes of that it is emptied
// and reclaimed, empty nodes ten at a time and others one by one.
//
// It is slow by design: it orders only once pods wait, so they wait for a whole boot; and it
// keeps a node for ten minutes after the last order and ten after it was last needed. It knows
// no prices when it shrinks, does not replace two half-used machines by a smaller one, and
// what is used above the threshold stays however cheaply it could be moved.
//
// Where it is another thing than the original: replicas that are decided on count as pods that
// wait, some seconds before upstream would see them. Orders are the cheapest set over all pools,
// shapes and hosts that pricing/packing finds, where upstream picks one group by least waste (or at
// random before 1.33). Pod affinity and volumes are not simulated, so nothing is ordered for a pod
// that waits for one of those while its requests would fit. Nodes that another client cordoned are
// left to them. A node that takes in pods in the simulation is not reclaimed in the same scan,
// where upstream would try to move them on. Nodes whose host is known to be away count neither for
// nor against the cluster's health: upstream, which knows no hosts, orders nothing when one of two
// is lost. Pods below the priority cutoff are evicted and not just deleted with their node. A node
// that could not be reclaimed is looked at again in the next scan and not after five minutes, since
// forgetting those five minutes would make a restarted policy faster than one that was not.
// Readiness of less than the whole node (startup taints, GPUs) and group-specific settings do not
// exist.

// Unneeded is the settings of the unneeded policy, named as cluster-autoscaler's flags.
type Unneeded struct {
	ScanInterval nodescaler.Duration `json:"scanInterval"`
	// FrequentLoopsEnabled scans before the interval is over when something waits that the last
	// scan did nothing for.
	FrequentLoopsEnabled bool `json:"frequentLoopsEnabled"`

	planner.Growth
	planner.Shrinking
	planner.Health
}

// DefaultUnneeded is cluster-autoscaler's defaults.
func DefaultUnneeded() Unneeded {
	r := planner.DefaultRules()
	return Unneeded{ScanInterval: seconds(10), Growth: r.Growth, Shrinking: r.Shrinking, Health: r.Health}
}

// UnmarshalJSON reads settings over the defaults and refuses unknown ones.
func (c *Unneeded) UnmarshalJSON(data []byte) error {
	type fields Unneeded
	f := fields(DefaultUnneeded())
	err := decode("unneeded", data, &f)
	*c = Unneeded(f)
	return err
}

// Validate reports everything that is wrong with the settings.
func (c *Unneeded) Validate() error {
	f := &faults{block: "unneeded"}
	f.positive("scanInterval", c.ScanInterval)
	f.positive("maxNodeProvisionTime", c.MaxNodeProvisionTime)
	f.positive("initialNodeGroupBackoffDuration", c.InitialNodeGroupBackoffDuration)
	f.must(c.MaxNodeGroupBackoffDuration >= c.InitialNodeGroupBackoffDuration, "maxNodeGroupBackoffDuration",
		"at least initialNodeGroupBackoffDuration ("+c.InitialNodeGroupBackoffDuration.String()+")", c.MaxNodeGroupBackoffDuration)
	f.must(c.ScaleDownUtilizationThreshold >= 0 && c.ScaleDownUtilizationThreshold <= 1, "scaleDownUtilizationThreshold", "between 0 and 1", c.ScaleDownUtilizationThreshold)
	f.must(c.MaxScaleDownParallelism >= 1, "maxScaleDownParallelism", "at least 1", c.MaxScaleDownParallelism)
	f.must(c.MaxDrainParallelism >= 1, "maxDrainParallelism", "at least 1", c.MaxDrainParallelism)
	f.must(c.MaxEmptyBulkDelete >= 1, "maxEmptyBulkDelete", "at least 1", c.MaxEmptyBulkDelete)
	f.must(c.OKTotalUnreadyCount >= 0, "okTotalUnreadyCount", "0 or more", c.OKTotalUnreadyCount)
	f.must(c.MaxTotalUnreadyPercentage >= 0 && c.MaxTotalUnreadyPercentage <= 100, "maxTotalUnreadyPercentage", "between 0 and 100", c.MaxTotalUnreadyPercentage)
	for _, d := range []struct {
		key   string
		value nodescaler.Duration
	}{
		{"newPodScaleUpDelay", c.NewPodScaleUpDelay},
		{"maxNodeStartupTime", c.MaxNodeStartupTime},
		{"nodeGroupBackoffResetTimeout", c.NodeGroupBackoffResetTimeout},
		{"scaleDownUnneededTime", c.ScaleDownUnneededTime},
		{"scaleDownUnreadyTime", c.ScaleDownUnreadyTime},
		{"scaleDownDelayAfterAdd", c.ScaleDownDelayAfterAdd},
		{"scaleDownDelayAfterDelete", c.ScaleDownDelayAfterDelete},
		{"scaleDownDelayAfterFailure", c.ScaleDownDelayAfterFailure},
		{"maxPodEvictionTime", c.MaxPodEvictionTime},
		{"maxGracefulTermination", c.MaxGracefulTermination},
		{"nodeDeleteDelayAfterTaint", c.NodeDeleteDelayAfterTaint},
	} {
		f.notNegative(d.key, d.value)
	}
	return f.err()
}

func init() {
	register("unneeded", func(s Spec) (nodescaler.Policy, error) {
		c := DefaultUnneeded()
		if s.Unneeded != nil {
			c = *s.Unneeded
		}
		if err := c.Validate(); err != nil {
			return nil, err
		}
		return &unneeded{cfg: c, planner: planner.New(planner.Rules{Growth: c.Growth, Shrinking: c.Shrinking, Health: c.Health})}, nil
	})
}

// unneeded remembers when it last scanned, and what it knew of and did then.
type unneeded struct {
	cfg     Unneeded
	planner *planner.Planner
	last    time.Time

	waited   map[string]bool // pods that waited at the last scan
	decided  map[string]int  // replicas that were decided on and did not exist then, by workload
	ordered  []string        // the orders that it made
	unplaced []nodescaler.Unplaced
	headroom []nodescaler.HeadroomState
}

// Decide scans when the interval is over, or when something waits that cannot wait so long.
func (u *unneeded) Decide(x *nodescaler.Index) nodescaler.Plan {
	interval := time.Duration(u.cfg.ScanInterval)
	passed := x.Now.Sub(u.last)
	due := passed < 0 || passed >= interval // the first is long after no time at all
	if !due && !u.cfg.FrequentLoopsEnabled {
		return u.between(interval)
	}
	if !due && !u.early(x) {
		return u.between(interval)
	}
	u.last = x.Now
	plan := u.planner.Scan(x)
	u.remember(x, plan)
	plan.LookAgain = x.Now.Add(interval)
	u.unplaced, u.headroom = plan.Unplaced, plan.Headroom
	return plan
}

// between is the plan between two scans: what waits does so for the reasons that the last one
// found.
func (u *unneeded) between(interval time.Duration) nodescaler.Plan {
	return nodescaler.Plan{LookAgain: u.last.Add(interval), Unplaced: u.unplaced, Headroom: u.headroom}
}

// early reports whether something waits that the last scan did nothing for: pods and replicas that
// are new since, or those for which nothing has come of what it ordered.
func (u *unneeded) early(x *nodescaler.Index) bool {
	for _, p := range x.Pending {
		if !u.waited[p.Name] {
			return true
		}
	}
	for i := range x.Future {
		if f := &x.Future[i]; f.Count > u.decided[f.Like.Workload] {
			return true
		}
	}
	if len(x.Pending) == 0 && len(x.Future) == 0 {
		return false
	}
	return slices.ContainsFunc(u.ordered, func(order string) bool {
		return !slices.ContainsFunc(x.Machines, func(m *nodescaler.Machine) bool { return m.Order == order })
	})
}

// remember notes what a scan knew of and what it ordered.
func (u *unneeded) remember(x *nodescaler.Index, p nodescaler.Plan) {
	u.waited, u.decided, u.ordered = map[string]bool{}, map[string]int{}, nil
	for _, p := range x.Pending {
		u.waited[p.Name] = true
	}
	for i := range x.Future {
		u.decided[x.Future[i].Like.Workload] += x.Future[i].Count
	}
	for i := range p.Actions {
		if p.Actions[i].Kind == nodescaler.Buy {
			u.ordered = append(u.ordered, p.Actions[i].Order)
		}
	}
}
