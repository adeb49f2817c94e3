package nodescaler_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// anySite draws hosts, machines in every phase and prices of every kind, under a limit that may be
// crossed already.
func anySite(t *rapid.T) *nodescaler.Snapshot {
	s := &nodescaler.Snapshot{Now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), Limit: pricing.Rate(rapid.Int64Range(0, 60e9).Draw(t, "limit"))}
	s.Prices = pricing.DefaultBook()
	s.Prices.PerMachine = pricing.Micros(rapid.Int64Range(0, 3e6).Draw(t, "having one"))
	for i := range 3 {
		host := nodescaler.Host{Host: pricing.Host{Name: fmt.Sprintf("pve%d", i+1), Room: anyShape(t).Resources().Times(20)}, Online: true}
		s.Hosts = append(s.Hosts, host)
		if fixed := rapid.Int64Range(0, 5e6).Draw(t, "fixed"); fixed > 0 {
			if s.Prices.Hosts == nil {
				s.Prices.Hosts = map[string]pricing.HostPrices{}
			}
			price := pricing.Micros(fixed)
			s.Prices.Hosts[host.Name] = pricing.HostPrices{PerHost: &price}
		}
	}
	must.Do(t, s.Prices.Validate())
	s.Pools = []nodescaler.Pool{{Name: "workers", Max: 40, Shapes: shapes}}
	for i := range rapid.IntRange(0, 6).Draw(t, "machines") {
		name := fmt.Sprintf("m-%d", i)
		s.Machines = append(s.Machines, nodescaler.Machine{
			Name: name, Order: name, Pool: "workers", Shape: anyShape(t), Host: anyHost(t),
			Phase: rapid.SampledFrom([]nodescaler.Phase{nodescaler.Ordered, nodescaler.Booting, nodescaler.Joined, nodescaler.Spare, nodescaler.Deleting, nodescaler.Failed}).Draw(t, "phase"),
		})
	}
	return s
}

var shapes = []pricing.Shape{{Name: "small", CPU: 2000, Memory: 4 * pricing.GB, Disk: 20 * pricing.GB}, {Name: "large", CPU: 7000, Memory: 9 * pricing.GB, Disk: 35 * pricing.GB}}

func anyShape(t *rapid.T) pricing.Shape { return rapid.SampledFrom(shapes).Draw(t, "shape") }

func anyHost(t *rapid.T) string {
	return rapid.SampledFrom([]string{"pve1", "pve2", "pve3"}).Draw(t, "host")
}

// For any purchases in any order, a purchase exceeds the limit exactly if the book's sum of all
// existing machines and all earlier purchases exceeds it.
func TestOrdersAreHeldAgainstTheLimitOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySite(t)
		var all []pricing.Placed
		for _, m := range s.Machines {
			all = append(all, pricing.Placed{Shape: m.Shape, Host: m.Host, Stopped: m.Phase == nodescaler.Spare})
		}
		var plan nodescaler.Plan
		over := map[int]bool{}
		for i := range rapid.IntRange(1, 8).Draw(t, "orders") {
			shape, host := anyShape(t), anyHost(t)
			plan.Actions = append(plan.Actions, nodescaler.Action{
				Kind: nodescaler.Buy, Order: fmt.Sprintf("o-%d", i), Pool: "workers", Shape: &shape, Host: host,
				Reasons: []nodescaler.Reason{{Code: "Any", Text: "any"}},
			})
			all = append(all, pricing.Placed{Shape: shape, Host: host})
			over[i] = s.Limit > 0 && s.Prices.Total(all, s.Now) > s.Limit
		}
		faults := nodescaler.Check(nodescaler.NewIndex(s), plan)
		for i := range plan.Actions {
			reported := slices.ContainsFunc(faults, func(v nodescaler.Violation) bool {
				return v.Action == i && v.Code == nodescaler.OrderOverLimit
			})
			if reported != over[i] {
				t.Fatalf("order %d: reported %v, over the limit %v", i, reported, over[i])
			}
		}
	})
}

// The running sum is the book's own.
func TestWhatIsPaidIsTheBooksTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySite(t)
		s.Limit = max(s.Limit, 1)
		paid := nodescaler.NewIndex(s).Paid()
		var all []pricing.Placed
		for _, m := range s.Machines {
			all = append(all, pricing.Placed{Shape: m.Shape, Host: m.Host, Stopped: m.Phase == nodescaler.Spare})
		}
		for range rapid.IntRange(1, 8).Draw(t, "more") {
			shape, host := anyShape(t), anyHost(t)
			want := s.Prices.Total(append(slices.Clone(all), pricing.Placed{Shape: shape, Host: host}), s.Now)
			if got, within := paid.With(shape, host); got != want || within != (want <= s.Limit) {
				t.Fatalf("%s within %v, want %s of %s", got, within, want, s.Limit)
			}
			if rapid.Bool().Draw(t, "add") {
				paid.Add(shape, host)
				all = append(all, pricing.Placed{Shape: shape, Host: host})
			}
		}
	})
}

// Waking a spare costs what the machine costs, and saves its disk.
func TestWakingIsHeldAgainstTheLimitAsTheBookHasIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySite(t)
		x := nodescaler.NewIndex(s)
		paid := x.Paid()
		for _, m := range x.Spares {
			var all []pricing.Placed
			for i := range s.Machines {
				o := &s.Machines[i]
				all = append(all, pricing.Placed{Shape: o.Shape, Host: o.Host, Stopped: o.Phase == nodescaler.Spare && o != m})
			}
			want := s.Prices.Total(all, s.Now)
			rate, within := paid.Waking(m)
			if s.Limit > 0 && (rate != want || within != (want <= s.Limit)) {
				t.Fatalf("with %s woken %s/h of at most %s/h is %v; the book says %s/h", m.Name, rate, s.Limit, within, want)
			}
			paid.Wake(m)
			m.Phase = nodescaler.Booting
		}
	})
}

// Without a spare, all costs what the book says of the others.
func TestWhatIsPaidWithoutASpareIsTheBooksTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySite(t)
		s.Limit = max(s.Limit, 1)
		x := nodescaler.NewIndex(s)
		paid, gone := x.Paid(), map[string]bool{}
		for _, m := range x.Spares {
			if rapid.Bool().Draw(t, "goes") {
				paid, gone[m.Name] = paid.Without(m), true
			}
		}
		var all []pricing.Placed
		hosts := map[string]bool{}
		for _, m := range s.Machines {
			if !gone[m.Name] {
				all, hosts[m.Host] = append(all, pricing.Placed{Shape: m.Shape, Host: m.Host, Stopped: m.Phase == nodescaler.Spare}), true
			}
		}
		if want := s.Prices.Total(all, s.Now); paid.Rate() != want {
			t.Fatalf("without %v: %s, want %s", gone, paid.Rate(), want)
		}
		for _, h := range s.Hosts {
			if paid.Carries(h.Name) != hosts[h.Name] {
				t.Fatalf("%s carries any: %v", h.Name, paid.Carries(h.Name))
			}
		}
	})
}
