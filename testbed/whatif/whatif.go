package whatif

import (
	"context"
	"fmt"
	"math"
	"time"

	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
)

// Answer is a load by the recorded settings and by others, beside what was recorded of it.
type Answer struct {
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Unit     string    `json:"unit"`
	Recorded *Outcome  `json:"recorded"`
	Baseline *Outcome  `json:"baseline"`
	Changed  *Outcome  `json:"changed"`
	// Rows are the same side by side.
	Rows []Row `json:"rows"`
	// Notes are the limits of the answer.
	Notes []string `json:"notes"`
}

// AllThink has the users of a workload, or without a name of all, wait for each answer and then for
// a time; 0 has all requests arrive as they were recorded.
func (r *Recorded) AllThink(workload string, think time.Duration) {
	r.Think = map[string]time.Duration{}
	for name := range r.services {
		if think > 0 && (workload == "" || workload == name) {
			r.Think[name] = think
		}
	}
}

// Ask plays the recording by its own settings and by changed ones.
func (r *Recorded) Ask(ctx context.Context, change *Change) (*Answer, error) {
	was, notes, err := r.Case(ctx)
	if err != nil {
		return nil, err
	}
	is, err := change.to(was)
	if err != nil {
		return nil, err
	}
	a := &Answer{From: r.from, To: r.to, Unit: unit(was), Recorded: r.outcome(), Notes: notes}
	if to := unit(is); to != a.Unit {
		return nil, fmt.Errorf("prices.currency: must be %s, that of the recording, was %s", a.Unit, to)
	}
	if a.Baseline, err = was.Run(ctx, nil); err != nil {
		return nil, fmt.Errorf("the recorded settings: %w", err)
	}
	if a.Changed, err = is.Run(ctx, nil); err != nil {
		return nil, fmt.Errorf("the changed settings: %w", err)
	}
	a.Rows = a.rows()
	if change.Objective != nil {
		a.Notes = append(a.Notes, "late shares and minutes over are by the objective of each column")
	}
	if off := a.Baseline.Cost/a.Recorded.Cost - 1; a.Recorded.Cost > 0 && math.Abs(off) > .1 {
		a.Notes = append(a.Notes, fmt.Sprintf("the baseline costs %.0f %% of what was recorded: the difference is no surer than that", 100*(1+off)))
	}
	return a, nil
}

func unit(c *Case) string {
	if c.Intent.Prices == nil {
		return "units"
	}
	return c.Intent.Prices.Unit
}

// Choices are what can be asked of a recording.
type Choices struct {
	From         time.Time `json:"from"`
	To           time.Time `json:"to"`
	Unit         string    `json:"unit"`
	Workloads    []string  `json:"workloads"`
	Policies     []string  `json:"policies"`
	NodePolicies []string  `json:"nodePolicies"`
	Pools        []Limits  `json:"pools"`
}

// Limits are those of a pool.
type Limits struct {
	Name string `json:"name"`
	Min  int    `json:"min"`
	Max  int    `json:"max"`
}

// Choices are what can be asked of the recording.
func (r *Recorded) Choices() Choices {
	c := Choices{
		From: r.from, To: r.to, Unit: unit(&Case{Intent: r.intent}),
		Workloads: []string{}, Policies: podpolicy.Names(), NodePolicies: nodepolicy.Names(), Pools: []Limits{},
	}
	for i := range r.intent.Workloads {
		c.Workloads = append(c.Workloads, r.intent.Workloads[i].Name)
	}
	for i := range r.intent.Pools {
		p := &r.intent.Pools[i]
		c.Pools = append(c.Pools, Limits{p.Name, p.Min, p.Max})
	}
	return c
}
