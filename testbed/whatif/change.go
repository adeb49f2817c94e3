package whatif

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
)

// Change is what is to be different. Its zero value changes nothing.
type Change struct {
	// Workload is whose objective and policy change, as namespace/name; empty is all.
	Workload  string     `json:"workload,omitempty"`
	Objective *Objective `json:"objective,omitempty"`
	// Policy and NodePolicy are names of policies, which have their defaults.
	Policy     string        `json:"policy,omitempty"`
	NodePolicy string        `json:"nodePolicy,omitempty"`
	Prices     *pricing.Book `json:"prices,omitempty"`
	// Limit is what all machines together may cost an hour; 0 is no limit.
	Limit *pricing.Rate   `json:"limit,omitempty"`
	Pools map[string]Pool `json:"pools,omitempty"`
	// Without are workloads that do not exist.
	Without []string `json:"without,omitempty"`
}

// Objective is a latency objective. What is zero stays as it was recorded.
type Objective struct {
	Percentile float64 `json:"percentile,omitempty"` // such as 90
	TargetMs   float64 `json:"targetMs,omitempty"`
}

// Pool is what is different about a pool. What is nil stays as it was recorded.
type Pool struct {
	Min    *int            `json:"min,omitempty"`
	Max    *int            `json:"max,omitempty"`
	Shapes []pricing.Shape `json:"shapes,omitempty"`
}

// to returns the case with the change made. The case itself stays as it is.
func (ch *Change) to(c *Case) (*Case, error) {
	out := *c
	out.Intent.Workloads, out.World.Workloads = slices.Clone(c.Intent.Workloads), slices.Clone(c.World.Workloads)
	out.Intent.Pools, out.World.Pools = slices.Clone(c.Intent.Pools), slices.Clone(c.World.Pools)
	for _, name := range ch.Without {
		if err := out.without(name); err != nil {
			return nil, err
		}
	}
	if err := ch.workloads(&out); err != nil {
		return nil, err
	}
	for _, name := range sorted(ch.Pools) {
		if err := out.pool(name, ch.Pools[name]); err != nil {
			return nil, err
		}
	}
	if ch.NodePolicy != "" {
		out.Nodes = &nodepolicy.Spec{Policy: ch.NodePolicy}
	}
	if ch.Prices != nil {
		if err := ch.Prices.Validate(); err != nil {
			return nil, fmt.Errorf("prices: %w", err)
		}
		out.Intent.Prices = ch.Prices
	}
	if ch.Limit != nil {
		if *ch.Limit < 0 {
			return nil, fmt.Errorf("limit: must be 0 or more, was %s", ch.Limit)
		}
		out.Intent.Limit = *ch.Limit
	}
	return &out, nil
}

func (c *Case) names() string {
	var all []string
	for i := range c.Intent.Workloads {
		all = append(all, c.Intent.Workloads[i].Name)
	}
	return strings.Join(all, ", ")
}

// without removes a workload and its pods.
func (c *Case) without(name string) error {
	n := len(c.Intent.Workloads)
	known := c.names()
	c.Intent.Workloads = slices.DeleteFunc(c.Intent.Workloads, func(w loop.Workload) bool { return w.Name == name })
	if len(c.Intent.Workloads) == n {
		return fmt.Errorf("without: must be a workload of the recording, one of %s, was %q", known, name)
	}
	for i := range c.World.Workloads {
		if c.World.Workloads[i].Name == name {
			c.World.Workloads = slices.Delete(c.World.Workloads, i, i+1)
			break
		}
	}
	return nil
}

// workloads changes objectives and policies.
func (ch *Change) workloads(c *Case) error {
	if ch.Objective == nil && ch.Policy == "" {
		return nil
	}
	if o := ch.Objective; o != nil {
		if p := o.Percentile; p < 0 || p >= 100 {
			return fmt.Errorf("objective.percentile: must be above 0 and below 100, was %g", p)
		}
		if t := o.TargetMs; t < 0 || t > 3.6e6 {
			return fmt.Errorf("objective.targetMs: must be above 0 and at most an hour, was %g", t)
		}
	}
	changed := false
	for i := range c.Intent.Workloads {
		w := &c.Intent.Workloads[i]
		if ch.Workload != "" && w.Name != ch.Workload || w.Policy == nil {
			continue
		}
		changed = true
		if ch.Policy != "" {
			w.Policy = podpolicy.Spec{Policy: ch.Policy}
		}
		if o := ch.Objective; o != nil && o.Percentile > 0 {
			w.SLO.Quantile = o.Percentile / 100
		}
		if o := ch.Objective; o != nil && o.TargetMs > 0 {
			w.SLO.Target = time.Duration(o.TargetMs * float64(time.Millisecond))
		}
	}
	if !changed {
		return fmt.Errorf("workload: must be one that the recording has with a policy, one of %s, was %q", c.names(), ch.Workload)
	}
	return nil
}

// pool changes a pool, where it is wanted and where machines are made by it.
func (c *Case) pool(name string, to Pool) error {
	changed := false
	for _, pools := range [][]nodescaler.Pool{c.Intent.Pools, c.World.Pools} {
		for i := range pools {
			p := &pools[i]
			if p.Name != name {
				continue
			}
			changed = true
			if to.Min != nil {
				p.Min = *to.Min
			}
			if to.Max != nil {
				p.Max = *to.Max
			}
			if len(to.Shapes) > 0 {
				p.Shapes = to.Shapes
			}
			if p.Min < 0 || p.Max < p.Min {
				return fmt.Errorf("pools.%s: max must be min or more, and min 0 or more, were %d and %d", name, p.Max, p.Min)
			}
		}
	}
	if !changed {
		var known []string
		for i := range c.Intent.Pools {
			known = append(known, c.Intent.Pools[i].Name)
		}
		return fmt.Errorf("pools: must be pools of the recording, of %s, was %q", strings.Join(known, ", "), name)
	}
	return nil
}
