package pricing_test

import (
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
	"pgregory.net/rapid"
)

func TestParts(t *testing.T) {
	shape := pricing.Shape{Name: "small", CPU: 2 * pricing.Core, Memory: 8 * pricing.GiB}
	own := func(m pricing.Micros) map[string]pricing.ShapePrices {
		return map[string]pricing.ShapePrices{"small": {PerHour: &m}}
	}
	at := time.Date(2026, 3, 1, 23, 0, 0, 0, time.UTC)
	half := 50 * pricing.Hundred / 100
	for name, c := range map[string]struct {
		book pricing.Book
		want pricing.Parts
	}{
		"each by its own price": {
			pricing.Book{PerVCPU: 30_000, PerGiB: 5_000},
			pricing.Parts{CPU: pricing.RateOf(60_000), Memory: pricing.RateOf(40_000)},
		},
		"a tariff's percentage is of both": {
			pricing.Book{PerVCPU: 30_000, PerGiB: 5_000, Tariffs: []pricing.Tariff{{From: 22 * 60, To: 6 * 60, Percent: &half}}},
			pricing.Parts{CPU: pricing.RateOf(30_000), Memory: pricing.RateOf(20_000)},
		},
		"a price for everything divides as the parts' prices would": {
			pricing.Book{PerVCPU: 30_000, PerGiB: 5_000, Shapes: own(50_000)},
			pricing.Parts{CPU: pricing.RateOf(30_000), Memory: pricing.RateOf(20_000)},
		},
		"and what having the machine costs does": {
			pricing.Book{PerVCPU: 30_000, PerGiB: 5_000, PerMachine: 10_000},
			pricing.Parts{CPU: pricing.RateOf(66_000), Memory: pricing.RateOf(44_000)},
		},
		"and in halves where these come to nothing": {
			pricing.Book{PerVCPU: 0, PerGiB: 0, Shapes: own(50_001)},
			pricing.Parts{CPU: 25_000_500, Memory: 25_000_500},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.book.Parts(shape, "", at); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestPartsAddUpToTheRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		book, host := drawBook(t), rapid.SampledFrom([]string{"", "pve1", "pve2"}).Draw(t, "host")
		shape, at := drawShape(t), drawMoment(t)
		parts := book.Parts(shape, host, at)
		if parts.CPU < 0 || parts.Memory < 0 || parts.Sum() != book.Rate(shape, host, at) {
			t.Fatalf("%v is not %v", parts, book.Rate(shape, host, at))
		}
	})
}
