package pricing_test

import (
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
	"pgregory.net/rapid"
)

func TestSaving(t *testing.T) {
	shape := pricing.Shape{Name: "small", CPU: 4 * pricing.Core, Memory: 16 * pricing.GB}
	half := pricing.Hundred / 2
	// A host of 60 W at 0.30 a kWh draws 0.018 an hour; 876 over 48 months of 730 hours are 0.025.
	shared := func() *pricing.Derived {
		return &pricing.Derived{
			PerKWh: 300_000, AmortiseMonths: 48, VCPUShare: &half,
			Hardware: pricing.Hardware{
				WattsPerHost: new(60 * pricing.Watt), HardwarePrice: new(876 * pricing.Unit), HostVCPU: new(16 * pricing.Core), HostMemory: new(64 * pricing.GB),
			},
		}
	}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		book pricing.Book
		want pricing.Saving
	}{
		"a stated price is saved": {
			pricing.Book{PerVCPU: 10_000, PerGB: 1_000}, pricing.Saving{Alone: pricing.RateOf(56_000)},
		},
		"a share of a host's power is saved with the host, and one of its hardware never": {
			pricing.Book{Derived: shared()}, pricing.Saving{WithHost: pricing.RateOf(4_500)},
		},
		"power for each vCPU and GB is saved": {
			pricing.Book{Derived: &pricing.Derived{PerKWh: 300_000, WattsPerVCPU: new(5 * pricing.Watt), WattsPerGB: new(pricing.Watt / 2)}},
			pricing.Saving{Alone: pricing.RateOf(8_400)},
		},
		"beside hardware, too": {
			func() pricing.Book {
				d := shared()
				d.WattsPerHost, d.WattsPerVCPU = nil, new(5*pricing.Watt)
				return pricing.Book{Derived: d}
			}(),
			pricing.Saving{Alone: pricing.RateOf(6_000)},
		},
		"so is what having the machine costs": {
			pricing.Book{Derived: shared(), PerMachine: 2_000}, pricing.Saving{Alone: pricing.RateOf(2_000), WithHost: pricing.RateOf(4_500)},
		},
		"a shape's own price is stated": {
			pricing.Book{Derived: shared(), PerMachine: 2_000, Shapes: map[string]pricing.ShapePrices{"small": {PerHour: new(pricing.Micros(9_000))}}},
			pricing.Saving{Alone: pricing.RateOf(9_000)},
		},
		"and one for its vCPUs is, beside memory that is derived": {
			pricing.Book{Derived: shared(), Shapes: map[string]pricing.ShapePrices{"small": {Prices: pricing.Prices{PerVCPU: new(pricing.Micros(1_000))}}}},
			pricing.Saving{Alone: pricing.RateOf(4_000), WithHost: pricing.RateOf(2_250)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.book.Saving(shape, "", at); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestNoMoreIsSavedThanIsPaid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		book, host := drawBook(t), rapid.SampledFrom([]string{"", "pve1", "pve2"}).Draw(t, "host")
		shape, at := drawShape(t), drawMoment(t)
		saved := book.Saving(shape, host, at)
		if saved.Alone < 0 || saved.WithHost < 0 || saved.Alone+saved.WithHost > book.Rate(shape, host, at) {
			t.Fatalf("%v of %v", saved, book.Rate(shape, host, at))
		}
	})
}
