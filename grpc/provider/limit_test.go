package provider

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// costs are what all machines of a port cost an hour.
func costs(p *port) pricing.Rate {
	var all []pricing.Placed
	for _, m := range p.machines {
		all = append(all, pricing.Placed{Shape: m.Shape, Host: m.Host})
	}
	return pricing.DefaultBook().Total(all, noon)
}

func TestIncreaseBeyondTheLimitIsRefused(t *testing.T) {
	one := pricing.DefaultBook().Rate(small, "", noon)
	s, p := made(t, func(c *Config) { c.Limit = 3*one + one/2 })
	// Of a pool that is not ours.
	p.machines = []nodescaler.Machine{{Name: "other-1", Order: "1", Pool: "other", Shape: small, Phase: nodescaler.Joined}}
	id := groupOf(t, s, "workers.small")
	if _, most := limits(t, s, "workers.small"); most != 2 {
		t.Errorf("%d are offered, want 2", most)
	}
	err := increase(t, s, id, 3)
	display := func(r pricing.Rate) string { return r.Display(pricing.DefaultBook().Unit) }
	if want := fmt.Sprintf("delta: all machines would cost %s with 3 more of %s, and must cost at most %s, which allows 2, was 3", display(4*one), id, display(3*one+one/2)); status.Code(err) != codes.ResourceExhausted || status.Convert(err).Message() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if len(p.machines) != 1 {
		t.Errorf("%d machines came of an increase that is refused", len(p.machines)-1)
	}
	if err := increase(t, s, id, 2); err != nil {
		t.Error(err)
	}
	if err := increase(t, s, groupOf(t, s, "edge.small"), 1); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the last of the limit: %v", err)
	}
	least, most := limits(t, s, "edge.small")
	if least != 0 || most != 0 {
		t.Errorf("from %d to %d are offered of a pool that cannot have one", least, most)
	}
	if target(t, s, id) != 2 || costs(p) > s.cfg.Limit {
		t.Errorf("target %d, at %s", target(t, s, id), costs(p))
	}
}

// A pool's own minimum is kept when machines go, even if it cannot be afforded.
func TestMinimumThatCannotBeAffordedIsKeptAllTheSame(t *testing.T) {
	one := pricing.DefaultBook().Rate(small, "", noon)
	s, p := made(t, func(c *Config) { c.Limit = 2 * one; c.Pools[0].Min = 2 })
	id := groupOf(t, s, "workers.small")
	must.Do(t, increase(t, s, id, 2))
	p.set(nodescaler.Joined, nil)
	s.memory.renew(t.Context())
	if least, most := limits(t, s, "workers.small"); least != 2 || most != 2 {
		t.Errorf("from %d to %d", least, most)
	}
	if err := remove(t, s, id, p.machines[0].ProviderID); status.Code(err) != codes.FailedPrecondition {
		t.Error(err)
	}
}

// For any requests in any order, the limit is never crossed; what is offered is what is taken.
func TestNoOrderCrossesTheLimit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		one := pricing.DefaultBook().Rate(small, "", noon)
		s, p := made(t, func(c *Config) { c.Limit = pricing.Rate(rapid.Int64Range(1, int64(12*one)).Draw(rt, "limit")) })
		for range rapid.IntRange(1, 6).Draw(rt, "calls") {
			prefix := rapid.SampledFrom([]string{"workers.small", "workers.large", "edge.small"}).Draw(rt, "group")
			id, n := groupOf(t, s, prefix), int32(rapid.IntRange(1, 5).Draw(rt, "delta"))
			_, most := limits(t, s, prefix)
			fits := target(t, s, id)+n <= most
			err := increase(t, s, id, n)
			if (err == nil) != fits {
				rt.Fatalf("%d more of %s, of which there may be %d: %v", n, prefix, most, err)
			}
			if err != nil && !strings.Contains(err.Error(), "delta: ") {
				rt.Fatal(err)
			}
			if got := costs(p); got > s.cfg.Limit {
				rt.Fatalf("%s of %s", got, s.cfg.Limit)
			}
		}
	})
}
