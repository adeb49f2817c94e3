package loop

import (
	"context"
	"log/slog"
	"time"
)

// Run is the one place that waits.
func Run(ctx context.Context) {
	go func() {
		for now := range time.NewTicker(time.Second).C {
			Once(ctx, now, slog.Default())
		}
	}()
}
