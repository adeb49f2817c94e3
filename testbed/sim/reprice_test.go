package sim

import (
	"context"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestPricesThatChangeCountFromThatMomentOn(t *testing.T) {
	var last loop.Step
	cfg := small(1) // one machine of 10 units an hour
	r := &loop.Runner{
		Intent: loop.Intent{Pools: cfg.Pools, Prices: cfg.Prices},
	}
	w := must.Get(New(cfg, func(ctx context.Context, now time.Time) (err error) {
		last, err = r.Once(ctx, now)
		return err
	}))(t)
	r.Cluster, r.Machines, r.Signals = w, w, w
	price := func(times pricing.Micros) {
		t.Helper()
		book := &pricing.Book{Unit: "units", PerVCPU: times * pricing.Unit, PerGB: times * pricing.Unit}
		must.Do(t, w.Reprice(book))
		must.Do(t, r.Reprice(book, start.Add(w.Now())))
	}
	for _, c := range []struct {
		times pricing.Micros
		until time.Duration
		spent string
		rate  string
	}{
		{1, 30 * time.Minute, "5", "10"},
		{2, 60 * time.Minute, "15", "20"},
		{3, 60 * time.Minute, "15", "20"}, // changed twice at one moment: the last one counts
		{1, 90*time.Minute + 5*time.Second, "20.013889", "10"},
	} {
		price(c.times)
		must.Do(t, w.Run(context.Background(), c.until))
		if got := w.Cost().String(); got != c.spent {
			t.Errorf("after %s the world has cost %s, want %s", c.until, got, c.spent)
		}
		if got := last.Observed.Cost.Spent.String(); got != c.spent {
			t.Errorf("after %s the loop has counted %s, want %s", c.until, got, c.spent)
		}
		if got := last.Observed.Cost.Joined.String(); got != c.rate {
			t.Errorf("after %s the rate is %s, want %s", c.until, got, c.rate)
		}
	}
}
