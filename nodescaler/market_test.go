package nodescaler_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// fair draws hosts with and without prices of their own, pools of several shapes, and machines that
// are there.
func fair(t *rapid.T) *nodescaler.Snapshot {
	upTo := func(n int, what string) int { return rapid.IntRange(0, n).Draw(t, what) }
	s := &nodescaler.Snapshot{Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Prices: pricing.DefaultBook()}
	s.Limit = pricing.Rate(upTo(60, "limit")) * 1e9
	s.Prices.PerMachine = pricing.Micros(upTo(2, "having one")) * pricing.Unit
	s.Prices.Hosts = map[string]pricing.HostPrices{}
	for h := range 1 + upTo(3, "hosts") {
		name := fmt.Sprintf("pve%d", h)
		own := pricing.HostPrices{PerHost: new(pricing.Micros(upTo(3, "fixed")) * pricing.Unit)}
		if rapid.Bool().Draw(t, "own price") {
			own.PerVCPU = new(pricing.Micros(upTo(3, "vCPU")) * pricing.Unit)
		}
		s.Prices.Hosts[name] = own
		s.Hosts = append(s.Hosts, nodescaler.Host{
			Host:   pricing.Host{Name: name, Room: pricing.Resources{CPU: 4000, Memory: 8 * pricing.GB}.Times(upTo(4, "room"))},
			Online: rapid.Bool().Draw(t, "online"),
		})
	}
	for p := range 1 + upTo(1, "pools") {
		pool := nodescaler.Pool{Name: fmt.Sprintf("pool%d", p), Max: upTo(4, "max"), HostIsZone: rapid.Bool().Draw(t, "its hosts are zones")}
		for i := range 1 + upTo(2, "shapes") {
			size := 1 + upTo(3, "size")
			pool.Shapes = append(pool.Shapes, pricing.Shape{Name: fmt.Sprintf("shape%d", i), CPU: pricing.MilliCPU(1000 * size), Memory: 2 * pricing.GB})
		}
		s.Pools = append(s.Pools, pool)
	}
	if rapid.Bool().Draw(t, "refused") {
		p := &s.Pools[upTo(len(s.Pools)-1, "pool that refuses")]
		p.Refused = []nodescaler.RefusedOrder{{Shape: p.Shapes[upTo(len(p.Shapes)-1, "its shape")], Host: s.Hosts[upTo(len(s.Hosts)-1, "its host")].Name}}
	}
	for m := range upTo(3, "machines") {
		name := fmt.Sprintf("machine%d", m)
		s.Machines = append(s.Machines, nodescaler.Machine{
			Name: name, Order: name, Pool: "pool0", Shape: s.Pools[0].Shapes[0], Host: s.Hosts[upTo(len(s.Hosts)-1, "host")].Name, Phase: nodescaler.Ordered,
		})
	}
	return s
}

// cheapest looks at every machine that may be bought, and works out what all would cost with it.
func cheapest(s *nodescaler.Snapshot, p pricing.Resources, zone string) (rate pricing.Rate, holds int) {
	x := nodescaler.NewIndex(s)
	for _, pool := range x.Pools {
		for _, shape := range pool.Shapes {
			fit := min(int(shape.CPU/p.CPU), int(shape.Memory/p.Memory))
			for _, h := range x.Hosts {
				if slices.Contains(pool.Refused, nodescaler.RefusedOrder{Shape: shape, Host: h.Name}) || zone != "" && (h.Name != zone || !pool.HostIsZone) {
					continue
				}
				var all []pricing.Placed
				for _, m := range s.Machines {
					all = append(all, pricing.Placed{Shape: m.Shape, Host: m.Host})
				}
				total := s.Prices.Total(append(all, pricing.Placed{Shape: shape, Host: h.Name}), s.Now)
				if fit < 1 || pool.Exist >= pool.Max || !h.Online || !shape.Resources().Within(h.Free) || s.Limit > 0 && total > s.Limit {
					continue
				}
				r := s.Prices.Rate(shape, h.Name, s.Now)
				if holds == 0 || float64(r)/float64(fit) < float64(rate)/float64(holds) {
					rate, holds = r, fit
				}
			}
		}
	}
	return rate, holds
}

func TestTheNextMachineIsTheCheapestOfAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := fair(t)
		a := web(0, 0)
		a.Like.Requests.CPU = pricing.MilliCPU(rapid.SampledFrom([]int{500, 1500, 3500}).Draw(t, "cpu"))
		zone := rapid.SampledFrom([]string{"", "pve0", "pve1"}).Draw(t, "zone")
		if zone != "" {
			a.Like.Selector = map[string]string{nodescaler.ZoneLabel: zone}
		}
		got := nodescaler.Share(nodescaler.NewIndex(s), []nodescaler.Ask{a})[0]
		if rate, holds := cheapest(s, a.Like.Requests, zone); got.Next != rate || got.PerMachine != holds {
			t.Fatalf("the next machine is at %s for %d, want %s for %d (%s)", got.Next, got.PerMachine, rate, holds, got.Why.Text)
		}
	})
}
