package policy

import (
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
