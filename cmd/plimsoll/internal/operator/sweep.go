package operator

import (
	"context"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pve"
)

// sweepEvery is how often orphans are looked for, which takes many calls.
const sweepEvery = 10 * time.Minute

// sweep looks for what is left over, and removes what has been so for long. What belongs to a pool
// that is held is spared. Of pools that cluster-autoscaler scales, which decides on their machines
// and nodes, discs go. It takes its time beside the loop.
func (t *term) sweep(ctx context.Context, d *desk, now time.Time) {
	if t.fleet == nil || now.Sub(t.swept).Abs() < sweepEvery {
		return
	}
	t.swept = now
	free, offered := map[string]bool{}, map[string]bool{}
	for _, p := range d.pools {
		free[p.object.Name] = t.NodeScaler && p.held == nil && !p.pause.on && p.tidies()
		offered[p.object.Name] = p.offered
	}
	t.beside.Go(func() {
		report, err := t.fleet.Collect(ctx, func(o pve.Orphan) bool {
			return !free[o.Pool] && !(offered[o.Pool] && o.Kind == pve.DiscWithoutMachine)
		})
		if err != nil {
			t.Log.Warn("orphans", "error", err)
			return
		}
		t.Metrics.left(&report)
		for _, o := range report.Orphans {
			t.Log.Info("left over", "kind", o.Kind, "name", o.Name, "host", o.Host, "why", o.Text, "since", o.Noticed, "due", o.Due)
		}
	})
}
