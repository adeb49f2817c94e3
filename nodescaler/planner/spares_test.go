package planner

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/pricing"
)

// allowed against a twin that buys one machine after the other, once without spares, and with
// ever more of them.
func TestNoSpareTakesAMachineAway(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := sample.New()
		w.Prices.PerDiskGB = pricing.Micros(rapid.Int64Range(1, 400_000).Draw(t, "disk"))
		w.Prices.PerMachine = pricing.Micros(rapid.SampledFrom([]int64{0, 3e6}).Draw(t, "having one"))
		w.Pools[0].Shapes[0].Disk = 20 * pricing.GB
		w.Pools[0].Max = rapid.IntRange(1, 12).Draw(t, "max")
		shape := w.Pools[0].Shapes[0]
		w.Limit = pricing.Rate(rapid.Int64Range(1, 90e9).Draw(t, "limit"))
		for i := range rapid.IntRange(0, 5).Draw(t, "running") {
			w.Node(fmt.Sprintf("w-%d", i), "pve1")
		}
		w.Disked()
		running := len(w.Machines)
		// how many machines there may be, with so many spares that are woken first
		most := func(spares int) int {
			machines, stopped := running, spares
			for machines < w.Pools[0].Max {
				stopped = max(stopped-1, 0)
				if pricing.Rate(machines+1)*w.Prices.Rate(shape, "", sample.Noon)+pricing.Rate(stopped)*w.Prices.SpareRate(shape) > w.Limit {
					break
				}
				machines++
			}
			return machines
		}
		within := func(spares int) bool {
			left := max(spares-(most(0)-running), 0)
			return most(spares) == most(0) && pricing.Rate(max(most(0), running))*w.Prices.Rate(shape, "", sample.Noon)+pricing.Rate(left)*w.Prices.SpareRate(shape) <= w.Limit
		}
		want := 0
		for want < 20 && within(want+1) {
			want++
		}
		s := newScan(withSpares(0).Planner, nodescaler.NewIndex(&w.Snapshot))
		if got := min(s.spares.allowed(&s.X.Pools[0], ""), 20); got != want {
			t.Fatalf("%d spares are allowed beside %d machines, want %d", got, running, want)
		}
	})
}

// A host has a price of its own for as long as it carries spares and nothing else that is paid for.
func TestWhatHostsOfSparesCost(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*sample.World)
		next   string
		want   pricing.Micros
	}{
		{name: "no spares", change: func(*sample.World) {}},
		{name: "no spares, and the next one", change: func(*sample.World) {}, next: "pve2", want: 20},
		{name: "spares on one", change: func(w *sample.World) { w.Spare("w-1", "pve1").Spare("w-2", "pve1") }, want: 10},
		{name: "beside a machine", change: func(w *sample.World) { w.Spare("w-1", "pve1").Node("w-2", "pve1") }},
		{name: "the next one beside a machine", change: func(w *sample.World) { w.Node("w-2", "pve2") }, next: "pve2"},
		{name: "spares on two, and the next one there", change: func(w *sample.World) { w.Spare("w-1", "pve1").Spare("w-2", "pve2") }, next: "pve2", want: 30},
	} {
		w := sample.New()
		w.Limit = pricing.Rate(math.MaxInt64)
		w.Prices.Hosts = map[string]pricing.HostPrices{"pve1": {PerHost: new(pricing.Micros(10))}, "pve2": {PerHost: new(pricing.Micros(20))}}
		c.change(w)
		s := scanOf(w)
		bare := s.X.PaidFor(func(m *nodescaler.Machine) bool { return !m.Kept() })
		if got := s.spares.hostParts(bare, c.next).For(time.Hour); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// The places of a pool, and the money, without spares that make way and without what will soon be
// gone.
func TestWhatThereIsOnceSparesAreGone(t *testing.T) {
	since := func(ago time.Duration) func(*nodescaler.Machine) {
		return func(m *nodescaler.Machine) { m.Since = sample.Noon.Add(-ago) }
	}
	for _, c := range []struct {
		name   string
		change func(*sample.World)
		scan   func(*scan)
		places int // of the three that the pool may have
		paid   int // machines
	}{
		{name: "a spare alone", change: func(*sample.World) {}, places: 3},
		{name: "beside one that runs", change: func(w *sample.World) { w.Node("w-2", "pve1") }, places: 2, paid: 1},
		{name: "beside one that goes", change: func(w *sample.World) { w.Machine("w-2", "pve1", nodescaler.Deleting, since(spareRest-1)) }, places: 3},
		{name: "beside one that is long in going", change: func(w *sample.World) { w.Machine("w-2", "pve1", nodescaler.Deleting, since(spareRest)) }, places: 2},
		{name: "beside one that goes where its host is away", change: func(w *sample.World) { w.Machine("w-2", "pve3", nodescaler.Deleting, since(0)) }, places: 2, paid: 1},
		{name: "beside one that the plan reclaims", change: func(w *sample.World) { w.Node("w-2", "pve1") }, scan: func(s *scan) { s.Let["w-2"] = true }, places: 2},
		{name: "beside one of another pool", change: func(w *sample.World) {
			w.Machine("x-1", "pve1", nodescaler.Deleting, since(0), func(m *nodescaler.Machine) { m.Pool = "x" })
		}, places: 3},
	} {
		w := sample.Limited(9).Spare("w-1", "pve1")
		w.Pools[0].Max = 3
		w.Pools = append(w.Pools, w.Pools[0])
		w.Pools[1].Name = "x"
		w.Hosts[2].Online = false
		c.change(w)
		w.Disked()
		s := scanOf(w)
		if c.scan != nil {
			c.scan(s)
		}
		rate := w.Prices.Rate(w.Pools[0].Shapes[0], "", sample.Noon)
		if places, paid := s.spares.placesWithout(s.X.Spares, "w"), s.spares.paidWithout(s.X.Spares).Rate(); places != c.places || paid != pricing.Rate(c.paid)*rate {
			t.Errorf("%s: %d places and %s/h, want %d and %s/h", c.name, places, paid, c.places, pricing.Rate(c.paid)*rate)
		}
	}
}

// Which machines are paid for beside the spares that are allowed, and which count against the
// pool's maximum.
func TestWhichMachinesTheLimitCountsBesideSpares(t *testing.T) {
	second := func(m *nodescaler.Machine) { m.Pool = "x" }
	for _, c := range []struct {
		name          string
		change        func(*sample.World)
		paid, counted int // machines beside the one that runs
		disks, away   int // spares that are paid for, and that stay in any case
	}{
		{name: "none", change: func(*sample.World) {}},
		{name: "another that runs", change: func(w *sample.World) { w.Node("w-2", "pve1") }, paid: 1, counted: 1},
		{name: "one of another pool", change: func(w *sample.World) { w.Machine("x-1", "pve1", nodescaler.Joined, second) }, paid: 1},
		{name: "one that is being emptied", change: func(w *sample.World) { w.Node("w-2", "pve1", sample.Draining) }},
		{name: "one that is being deleted", change: func(w *sample.World) { w.Machine("w-2", "pve1", nodescaler.Deleting) }},
		{name: "a spare", change: func(w *sample.World) { w.Spare("w-2", "pve1") }},
		{name: "one that is to be a spare", change: func(w *sample.World) {
			w.Machine("w-2", "pve1", nodescaler.Booting, func(m *nodescaler.Machine) { m.Keep = true })
		}},
		{name: "a spare on a host that is away", change: func(w *sample.World) { w.Spare("w-2", "pve3") }, disks: 1, away: 1},
	} {
		w := sample.Limited(8).Node("w-1", "pve1")
		w.Pools[0].Max = 4
		w.Pools = append(w.Pools, w.Pools[0])
		w.Pools[1].Name = "x"
		w.Hosts[2].Online = false
		c.change(w)
		w.Disked()
		shape := w.Pools[0].Shapes[0]
		rate, disk := w.Prices.Rate(shape, "", sample.Noon), w.Prices.SpareRate(shape)
		still := pricing.Rate(3 - c.counted)
		left := w.Limit - pricing.Rate(1+c.paid)*rate - pricing.Rate(c.disks)*disk
		want := c.away + int(min(still+(left-still*rate)/disk, 1+(left-rate)/disk))
		s := scanOf(w)
		if got := s.spares.allowed(s.X.Pool("w"), ""); got != want {
			t.Errorf("%s: %d spares are allowed, want %d", c.name, got, want)
		}
	}
}

// A spare that pods wait for and that did not start, as where its wake is held, is no spare too
// many meanwhile: it is woken again. Without such pods it goes.
func TestASpareThatPodsWaitForIsNotReturned(t *testing.T) {
	w := sample.New().Node("w-1", "pve1").Several(2, "a", "w-1", 900, 100).Spare("w-2", "pve2").Pod("b", "", 600, 100)
	idle := sample.New().Node("w-1", "pve1").Several(2, "a", "w-1", 900, 100).Spare("w-2", "pve2")
	for _, c := range []struct {
		name  string
		world *sample.World // after the wake
		after time.Duration
		want  string // of the spare
	}{
		{name: "it did not start", world: w, after: 10 * time.Second},
		{name: "it may be about to", world: idle, after: spareRest - 1},
		{name: "it did not start for long", world: w, after: spareRest, want: "Wake w-2"},
		{name: "no pod waits any more", world: idle, after: spareRest, want: "Return w-2"},
	} {
		p := withSpares(0)
		if got := sample.Lines(sample.Decide(t, p, w.At(0))); !slices.Contains(got, "Wake w-2") {
			t.Fatalf("it is not woken: %v", got)
		}
		got := sample.Lines(sample.Decide(t, p, c.world.At(c.after)))
		got = slices.DeleteFunc(got, func(line string) bool { return !strings.Contains(line, " w-2") })
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: %v, want %q", c.name, got, c.want)
		}
	}
}
