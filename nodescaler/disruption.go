package nodescaler

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// Disruption is what may end or replace a pool's machines although nothing forces it to. The zero
// value replaces none, and limits nothing.
type Disruption struct {
	// Drift is whether machines are replaced that differ from what the pool would make now.
	Drift Drift `json:"drift,omitempty"`
	// ExpireAfter is how old machines become; 0 is no limit.
	ExpireAfter Duration `json:"expireAfter,omitempty"`
	// TerminationGracePeriod is how long the drain of a machine may take that is unhealthy, expired
	// or drifted: all its pods end by then. 0 is no end, and pods that must not be evicted keep it.
	TerminationGracePeriod Duration `json:"terminationGracePeriod,omitempty"`
	// Consolidation is which machines go because less would do.
	Consolidation Consolidation `json:"consolidation,omitzero"`
	// Repair is which nodes are broken.
	Repair Repair `json:"repair,omitzero"`
	// Rollout is how machines are replaced that drifted; nil leaves that to the budgets.
	Rollout *Rollout `json:"rollout,omitempty"`
	// Budgets limit how many machines go at once. Of those that apply the lowest counts; without
	// any it is defaultNodeBudget.
	Budgets []NodeBudget `json:"budgets,omitempty"`
}

// Drift is what becomes of machines that drifted.
type Drift string

// What becomes of machines that drifted; empty is DriftKeep.
const (
	DriftKeep    Drift = "Keep"
	DriftReplace Drift = "Replace"
)

// Consolidation is which machines go because less would do. The zero value leaves that to the node
// policy, which replaces none.
type Consolidation struct {
	Policy ConsolidationPolicy `json:"policy,omitempty"`
	// After is for how long a machine's pods must have been the same; 0 is ConsolidateAfter for a
	// machine that is replaced, and the node policy's time for one that is not needed.
	After Duration `json:"after,omitempty"`
}

// ConsolidationPolicy is how far consolidation goes, as Karpenter names it.
type ConsolidationPolicy string

// How far consolidation goes. Of a pool without a policy, machines go that are not needed.
const (
	// WhenEmpty lets those go that have no pods to move.
	WhenEmpty ConsolidationPolicy = "WhenEmpty"
	// WhenEmptyOrUnderutilized lets those go, too, whose pods have places elsewhere, and replaces
	// those whose pods would cost less on others.
	WhenEmptyOrUnderutilized ConsolidationPolicy = "WhenEmptyOrUnderutilized"
)

// ConsolidateAfter is for how long the pods of a machine must have been the same before it is
// replaced.
const ConsolidateAfter = 10 * time.Minute

// Cause is why a machine that works is to go.
type Cause string

// The causes, in the order in which machines go. The first three replace the machine.
const (
	Unhealthy     Cause = "Unhealthy"
	Expired       Cause = "Expired"
	Drifted       Cause = "Drifted"
	Empty         Cause = "Empty"
	Underutilized Cause = "Underutilized"
)

// Causes are all there are.
var Causes = []Cause{Unhealthy, Expired, Drifted, Empty, Underutilized}

// NodeBudget is how many of a pool's machines may be on their way out at once, for some causes and
// at some times.
type NodeBudget struct {
	Nodes NodeCount `json:"nodes" strict:"required"`
	// Reasons are the causes that it applies to; all if empty.
	Reasons []Cause `json:"reasons,omitempty"`
	// Schedule is when it begins to apply, and Duration for how long it does; without it always.
	Schedule podscaler.Cron `json:"schedule,omitzero"`
	Duration Duration       `json:"duration,omitempty"`
	// TimeZone is that of Schedule; unset is UTC.
	TimeZone pricing.Zone `json:"timeZone,omitzero"`
}

// defaultNodeBudget applies to pools with a Disruption and no budgets.
var defaultNodeBudget = NodeBudget{Nodes: NodeCount{N: 10, Percent: true}}

// NodeCount is a number of machines, or a part of a pool's in percent.
type NodeCount struct {
	N       int
	Percent bool
}

// Of is how many machines of so many that is. A part of one is one.
func (c NodeCount) Of(total int) int {
	if c.Percent {
		return (total*c.N + 99) / 100
	}
	return c.N
}

// String prints the count as it is written.
func (c NodeCount) String() string {
	if c.Percent {
		return strconv.Itoa(c.N) + "%"
	}
	return strconv.Itoa(c.N)
}

// MarshalText writes the count.
func (c NodeCount) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads 2 or 10%.
func (c *NodeCount) UnmarshalText(text []byte) error {
	number, percent := strings.CutSuffix(string(text), "%")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || percent && n > 100 || number[0] == '+' {
		return fmt.Errorf("must be a number of machines such as 2, or a part of the pool's from 0%% to 100%%, was %q", text)
	}
	c.N, c.Percent = n, percent
	return nil
}

// IsZero reports whether nothing was asked for: machines come and go by need alone.
func (d *Disruption) IsZero() bool {
	return d.Drift == "" && d.ExpireAfter == 0 && d.TerminationGracePeriod == 0 && d.Consolidation == (Consolidation{}) && len(d.Repair.Conditions) == 0 && len(d.Budgets) == 0
}

// Limit is how many of a pool's machines may be on their way out at once for a cause, and by which
// budget; nil is no limit.
func (d *Disruption) Limit(cause Cause, now time.Time, total int) (limit int, by *NodeBudget) {
	if d.IsZero() {
		return 0, nil
	}
	budgets := d.Budgets
	if len(budgets) == 0 {
		budgets = []NodeBudget{defaultNodeBudget}
	}
	for i := range budgets {
		b := &budgets[i]
		if !b.applies(cause, now) {
			continue
		}
		if n := b.Nodes.Of(total); by == nil || n < limit {
			limit, by = n, b
		}
	}
	return limit, by
}

// applies reports whether the budget limits a cause at a time.
func (b *NodeBudget) applies(cause Cause, now time.Time) bool {
	if len(b.Reasons) > 0 && !slices.Contains(b.Reasons, cause) {
		return false
	}
	if b.Schedule.IsZero() {
		return true
	}
	zone := b.TimeZone.Location
	if zone == nil {
		zone = time.UTC
	}
	last, came := b.Schedule.Last(now, zone)
	return came && now.Sub(last) < time.Duration(b.Duration)
}

// Ends is why a machine of the pool is to be replaced, or nil. Its node is nil if it does not
// count.
func (d *Disruption) Ends(m *Machine, n *Node, now time.Time) (Cause, *Reason) {
	if n != nil {
		if why := d.Repair.Ails(n, now); why != nil {
			return Unhealthy, why
		}
	}
	if at := d.Expires(m); !at.IsZero() && !now.Before(at) {
		return Expired, reason(MachineExpired, "%s is of %s, and its pool's expireAfter is %s", m.Name, m.Created.UTC().Format(time.RFC3339), pricing.Short(time.Duration(d.ExpireAfter)))
	}
	if d.Drift == DriftReplace && m.Drifted != "" {
		return Drifted, reason(MachineDrifted, "%s is not what its pool would make now: %s", m.Name, m.Drifted)
	}
	return "", nil
}

// Expires is when the machine is too old; zero is never. Machines that were made together expire
// at different times, up to a tenth earlier, by their names.
func (d *Disruption) Expires(m *Machine) time.Time {
	if d.ExpireAfter == 0 || m.Created.IsZero() {
		return time.Time{}
	}
	h := fnv.New32a()
	h.Write([]byte(m.Name))
	const parts = 1000
	early := time.Duration(d.ExpireAfter) / 10 / parts * time.Duration(h.Sum32()%parts)
	return m.Created.Add(time.Duration(d.ExpireAfter) - early)
}
