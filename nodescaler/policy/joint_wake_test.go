package policy

import (
	"slices"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing/packing"
)

// scan is a scan of the world by joint with spares, that is not its first.
func (w *world) scan() *scan {
	c := DefaultJoint()
	c.Spares.Most = 3
	return newScan(newJoint(c).unneeded, nodescaler.NewIndex(&w.Snapshot), false)
}

func offerOf(pool, host string) packing.Offer {
	return packing.Offer{Pool: pool, Shape: small, Host: host}
}

// What keeps a spare from being woken, each by itself.
func TestWhichSparesStir(t *testing.T) {
	booting := func(w *world) { w.Machines[0].Phase, w.Machines[0].Keep = nodescaler.Booting, true }
	for _, c := range []struct {
		name  string
		world func(*world)
		scan  func(*scan)
		want  bool
	}{
		{name: "one that is stopped", want: true},
		{name: "its pool is gone", world: func(w *world) { w.Machines[0].Pool = "gone" }},
		{name: "its pool is held", world: heldUp},
		{name: "its pool is not to shrink", world: heldDown, want: true},
		{name: "its host is not known", world: func(w *world) { w.Machines[0].Host = "gone" }},
		{name: "its host is away", world: func(w *world) { w.Hosts[0].Online = false }},
		{name: "it drifted", world: func(w *world) { w.Machines[0].Drifted = "its template was changed" }},
		{name: "it was woken by this plan", scan: func(s *scan) { s.woken["w-1"] = true }},
		{name: "it is given back by this plan", scan: func(s *scan) { s.let["w-1"] = true }},
		{name: "it has a problem", world: func(w *world) { w.Machines[0].Problem = "NoMemory" }},
		{name: "its host is full", world: func(w *world) { w.Hosts[0].Room = small.Resources().Times(0) }},
		{name: "it was tried", scan: func(s *scan) { s.keep.tried["w-1"] = noon.Add(-spareRest + 1) }},
		{name: "it was tried long ago", scan: func(s *scan) { s.keep.tried["w-1"] = noon.Add(-spareRest) }, want: true},
		{name: "it is being made, and has a problem", world: func(w *world) { booting(w); w.Machines[0].Problem = "slow" }, want: true},
		{name: "it is being made, and was tried", world: booting, scan: func(s *scan) { s.keep.tried["w-1"] = noon }, want: true},
	} {
		w := aWorld().machine("w-1", "pve1", nodescaler.Spare)
		if c.world != nil {
			c.world(w)
		}
		s := w.scan()
		if c.scan != nil {
			c.scan(s)
		}
		if got := s.stirs(&w.Machines[0]); got != c.want {
			t.Errorf("%s: stirs %t", c.name, got)
		}
		if got, of := s.wakeable(&w.Machines[0]), s.stirs(&w.Machines[0]); got != of {
			t.Errorf("%s: without a limit it stirs %t and can be woken %t", c.name, of, got)
		}
	}
}

// Why a pool makes no machines now: it is closed, or one failed of late.
func TestWhyAPoolMakesNoMachines(t *testing.T) {
	for _, c := range []struct {
		name          string
		closed, fails bool
		want          string
	}{
		{name: "it does"},
		{name: "it is closed", closed: true, want: "PoolPaused"},
		{name: "one failed", fails: true, want: nodescaler.PoolBackingOff},
		{name: "it is closed and one failed", closed: true, fails: true, want: "PoolPaused"},
	} {
		w := aWorld()
		if c.closed {
			shut(w)
		}
		s := w.scan()
		if c.fails {
			s.backoffOf("w").fail(noon.Add(-time.Second))
		}
		got := ""
		if why := s.shut(s.x.Pool("w")); why != nil {
			got = why.Code
		}
		if got != c.want || s.makes("w") != (c.want == "") {
			t.Errorf("%s: %q, and it makes machines: %t", c.name, got, s.makes("w"))
		}
	}
	if aWorld().scan().makes("gone") {
		t.Error("a pool that is not known makes machines")
	}
}

// An order for which no spare is to be had needs a place of the pool, a host and room on it.
func TestWhatMayBeBoughtInPlaceOfASpare(t *testing.T) {
	for _, c := range []struct {
		name            string
		change          func(*world)
		carries, mayBuy bool
	}{
		{name: "there is room", carries: true, mayBuy: true},
		{name: "the pool is full", change: func(w *world) { w.Pools[0].Max = 0 }, carries: true},
		{name: "the pool is closed", change: shut},
		{name: "the host is refused", change: refuse("pve1")},
		{name: "the host is full", change: func(w *world) { w.Hosts[0].Room.Memory = small.Memory - 1 }},
		{name: "the host has just the room", change: func(w *world) { w.Hosts[0].Room = small.Resources() }, carries: true, mayBuy: true},
	} {
		w := aWorld()
		if c.change != nil {
			c.change(w)
		}
		s, o := w.scan(), offerOf("w", "pve1")
		if s.carries(o) != c.carries || s.mayBuy(o) != c.mayBuy {
			t.Errorf("%s: carries %t, may be bought %t", c.name, s.carries(o), s.mayBuy(o))
		}
	}
}

// What keeps a spare from being given back, each by itself.
func TestWhichSparesMayGo(t *testing.T) {
	tried := func(ago time.Duration) func(*scan) {
		return func(s *scan) { s.keep.tried["w-1"] = noon.Add(-ago) }
	}
	making := func(w *world) { w.Machines[0].Phase, w.Machines[0].Keep = nodescaler.Booting, true }
	for _, c := range []struct {
		name  string
		world func(*world)
		scan  func(*scan)
		want  bool
	}{
		{name: "one that is stopped", want: true},
		{name: "it is woken by this plan", scan: func(s *scan) { s.woken["w-1"] = true }},
		{name: "it is given back by this plan", scan: func(s *scan) { s.let["w-1"] = true }},
		{name: "its host is away", world: func(w *world) { w.Hosts[0].Online = false }},
		{name: "its pool is held", world: heldDown},
		{name: "its pool is not to grow", world: heldUp, want: true},
		{name: "its pool is gone", world: func(w *world) { w.Machines[0].Pool = "gone" }},
		{name: "it was told to start", scan: tried(time.Second)},
		{name: "it was told to start long ago", scan: tried(spareRest), want: true},
		{name: "it was told to start, and cannot", scan: tried(time.Second), world: func(w *world) { w.Machines[0].Problem = "NoMemory" }, want: true},
		{name: "it is being made", world: making, want: true},
		{name: "it is being made, and is a node", world: func(w *world) {
			making(w)
			w.Nodes = []nodescaler.Node{{Name: "w-1", Machine: "w-1", Pool: "w"}}
		}},
	} {
		w := aWorld().machine("w-1", "pve1", nodescaler.Spare)
		if c.world != nil {
			c.world(w)
		}
		s := w.scan()
		if c.scan != nil {
			c.scan(s)
		}
		if got := s.mayGo(&w.Machines[0]); got != c.want {
			t.Errorf("%s: may go %t", c.name, got)
		}
	}
}

// In which order spares make way: first those that are of no use, then those of other pools, of the same pool, and
// those that are being made; of equals the last by name.
func TestTheOrderInWhichSparesMakeWay(t *testing.T) {
	w := aWorld().change(secondPool())
	making := func(m *nodescaler.Machine) { m.Keep = true }
	of := func(pool string) func(*nodescaler.Machine) {
		return func(m *nodescaler.Machine) { m.Pool = pool }
	}
	second := w.Pools[1].Name
	w.machine("making", "pve1", nodescaler.Booting, making).machine("own-1", "pve1", nodescaler.Spare).machine("own-2", "pve1", nodescaler.Spare).
		machine("other", "pve1", nodescaler.Spare, of(second)).machine("drifted", "pve1", nodescaler.Spare, drifted).
		machine("still", "pve1", nodescaler.Spare, func(m *nodescaler.Machine) { m.Problem = "NoMemory" })
	var got []string
	for _, m := range w.scan().expendables("w") {
		got = append(got, m.Name)
	}
	if want := []string{"still", "drifted", "other", "own-2", "own-1", "making"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// How many machines and spares of a pool a host carries, with what the plan wakes and gives back.
func TestWhatAHostCarriesOfAPool(t *testing.T) {
	w := aWorld().change(secondPool())
	other := func(m *nodescaler.Machine) { m.Pool = w.Pools[1].Name }
	w.machine("a", "pve1", nodescaler.Joined).machine("b", "pve2", nodescaler.Joined).machine("c", "pve1", nodescaler.Joined, other).
		machine("d", "pve1", nodescaler.Deleting).machine("e", "pve1", nodescaler.Ordered)
	w.machine("s", "pve1", nodescaler.Spare).machine("t", "pve2", nodescaler.Spare).machine("u", "pve1", nodescaler.Spare, other).
		machine("woken", "pve1", nodescaler.Spare).machine("let", "pve1", nodescaler.Spare)
	s := w.scan()
	s.woken["woken"], s.let["let"] = true, true
	if running, kept := s.running("w", "pve1"), s.kept("w", "pve1"); running != 3 || kept != 1 {
		t.Errorf("%d run and %d are kept, want 3 and 1", running, kept)
	}
	if n := s.wokenOf("w"); n != 1 {
		t.Errorf("%d are woken", n)
	}
	if n := s.wokenOf(w.Pools[1].Name); n != 0 {
		t.Errorf("%d of the other pool are woken", n)
	}
}
