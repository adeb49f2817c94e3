// Package loop logs and hands the time on.
package loop

import (
	"context"
	"log/slog"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// Step is a record.
type Step struct{ At time.Time }

// Once makes a step.
func Once(ctx context.Context, now time.Time, log *slog.Logger) Step {
	log.InfoContext(ctx, "bought", "what", nodescaler.Buy)
	return Step{now}
}
