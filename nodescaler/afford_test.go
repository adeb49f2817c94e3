package nodescaler_test

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

// dearest is the most that all can cost, by trying every host for each machine that has none.
func dearest(s *nodescaler.Snapshot, placed []pricing.Placed, homeless []pricing.Placed) pricing.Rate {
	if len(homeless) == 0 {
		return s.Prices.Total(placed, s.Now)
	}
	var most pricing.Rate
	for _, host := range []string{"pve1", "pve2", "pve3"} {
		one := homeless[0]
		one.Host = host
		most = max(most, dearest(s, append(placed[:len(placed):len(placed)], one), homeless[1:]))
	}
	return most
}

// As many as are afforded cross the limit wherever they are put; where hosts cost alike, one more
// than those may.
func TestWhatIsAffordedCrossesTheLimitNowhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySite(t)
		s.Limit = max(1, s.Limit)
		var placed, homeless []pricing.Placed
		for i := range s.Machines {
			m := &s.Machines[i]
			if m.Phase == nodescaler.Ordered && len(homeless) < 2 {
				m.Host = ""
				homeless = append(homeless, pricing.Placed{Shape: m.Shape})
				continue
			}
			placed = append(placed, pricing.Placed{Shape: m.Shape, Host: m.Host, Stopped: m.Phase == nodescaler.Spare})
		}
		shape := anyShape(t)
		n := rapid.IntRange(0, 3).Draw(t, "n")
		fit, rate := nodescaler.NewIndex(s).Affords(&s.Pools[0], shape, n)
		if fit < 0 || fit > n {
			t.Fatalf("%d of %d", fit, n)
		}
		with := func(k int) pricing.Rate {
			more := homeless[:len(homeless):len(homeless)]
			for range k {
				more = append(more, pricing.Placed{Shape: shape})
			}
			return dearest(s, placed, more)
		}
		if got := with(fit); fit > 0 && got > s.Limit {
			t.Fatalf("%d cost %s of %s", fit, got, s.Limit)
		}
		if got := with(min(n, fit+1)); got != rate || fit < n && got <= s.Limit {
			t.Fatalf("with one more than %d of %d: %s, want %s of %s", fit, n, rate, got, s.Limit)
		}
	})
}

func TestAffordedByHand(t *testing.T) {
	// 6 units an hour by the default book.
	shape := pricing.Shape{Name: "small", CPU: 2000, Memory: 4 * pricing.GB}
	of := func(limit int64, machines ...nodescaler.Machine) *nodescaler.Index {
		return nodescaler.NewIndex(&nodescaler.Snapshot{Limit: pricing.RateOf(pricing.Micros(limit) * pricing.Unit), Machines: machines})
	}
	joined := nodescaler.Machine{Name: "a", Shape: shape, Host: "pve1", Phase: nodescaler.Joined}
	for _, c := range []struct {
		of   *nodescaler.Index
		n    int
		fit  int
		cost string
	}{
		{of(0), 5, 5, "0"}, {of(17), 5, 2, "18"}, {of(18), 5, 3, "24"}, {of(18), 3, 3, "18"}, {of(18), 0, 0, "0"}, {of(5), 1, 0, "6"},
		{of(17, joined), 5, 1, "18"}, {of(5, joined), 5, 0, "12"}, {of(1 << 30), math.MaxInt32, 178956970, "1073741826"},
	} {
		fit, rate := c.of.Affords(&nodescaler.Pool{}, shape, c.n)
		if got := fmt.Sprint(rate); fit != c.fit || got != c.cost {
			t.Errorf("%d of %d at %s: %d at %s, want %d at %s", c.n, c.fit, c.of.Limit, fit, got, c.fit, c.cost)
		}
	}
}
