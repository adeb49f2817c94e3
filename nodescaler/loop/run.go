package loop

import (
	"context"
	"time"
)

// Run makes a step at every interval, and at once when wake says so, until ctx ends. Failed
// steps are handed to report, and do not end the run: the next step sees the truth.
func (r *Runner) Run(ctx context.Context, every time.Duration, wake <-chan struct{}, report func(Step, error)) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for ctx.Err() == nil { // a tick that comes with the end makes no step
		report(r.Once(ctx, time.Now()))
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-wake:
		}
	}
}
