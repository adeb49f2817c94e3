package loop

import (
	"context"
	"errors"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
)

// Runner makes steps: it observes and acts through its ports, and decides by its intent and its
// memory.
type Runner struct {
	Ports
	Intent
	Memory
	Journal Journal // nil keeps none
}

// Once makes one step: observe, decide, act. It returns the record of it, and an error when
// the cluster could not be observed or the record not be kept; what went wrong with single
// workloads and actions is in the record.
func (r *Runner) Once(ctx context.Context, now time.Time) (Step, error) {
	o := r.Observe(ctx, now)
	r.Measure(ctx, &o, &r.Intent, &r.Memory)
	step := Decide(&o, &r.Intent, &r.Memory)
	if !r.DryRun && o.ClusterErr == nil {
		r.Act(ctx, &step)
		r.Learn(&step)
	}
	return step, errors.Join(o.ClusterErr, step.Record(r.Journal))
}

// Reprice lets machines cost what b says from a moment on, which must not be before the last
// step. What was spent until then stays spent.
func (r *Runner) Reprice(b *pricing.Book, at time.Time) error {
	if err := r.reprice(b, at); err != nil {
		return err
	}
	r.Prices = b
	return nil
}
