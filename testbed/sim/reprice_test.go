package sim

import (
	"context"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
)

func TestPricesThatChangeCountFromThatMomentOn(t *testing.T) {
	var last loop.Step
	cfg := small(1) // one machine of 10 units an hour
	r := &loop.Runner{
		Intent: loop.Intent{Pools: cfg.Pools, Prices: cfg.Prices},
	}
	w, err := New(cfg, func(ctx context.Context, now time.Time) (err error) {
		last, err = r.Once(ctx, now)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Cluster, r.Machines, r.Signals = w, w, w
	price := func(times pricing.Micros) {
		t.Helper()
		book := &pricing.Book{Unit: "units", PerVCPU: times * pricing.Unit, PerGB: times * pricing.Unit}
		if err := w.Reprice(book); err != nil {
			t.Fatal(err)
		}
		if err := r.Reprice(book, start.Add(w.Now())); err != nil {
			t.Fatal(err)
		}
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
		if err := w.Run(context.Background(), c.until); err != nil {
			t.Fatal(err)
		}
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
