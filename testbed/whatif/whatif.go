package whatif

import (
	"context"
	"fmt"
	"math"
	"time"
)

// Answer is a load by the recorded settings and by others, beside what was recorded of it.
type Answer struct {
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Unit     string    `json:"unit"`
	Recorded *Outcome  `json:"recorded"`
	Baseline *Outcome  `json:"baseline"`
	Changed  *Outcome  `json:"changed"`
	// Notes are what the answer holds back.
	Notes []string `json:"notes"`
}

// AllThink has the users of a workload, or without a name of all, wait for each answer and then for
// a time; 0 leaves them as they are.
func (r *Recorded) AllThink(workload string, think time.Duration) {
	if think == 0 {
		return
	}
	r.Think = map[string]time.Duration{}
	for name := range r.services {
		if workload == "" || workload == name {
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
