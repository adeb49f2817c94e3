package planner

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/packing"
)

// scan is a scan of the world by joint with spares, that is not its first.
func scanOf(w *sample.World) *scan {
	return newScan(withSpares(3).Planner, nodescaler.NewIndex(&w.Snapshot))
}

// moment is what differs from a plain scan, and what is so by that alone.
type moment struct {
	name  string
	world func(*sample.World)
	scan  func(*scan)
	stock func(*stock)
	want  bool
}

// of is the scan of a world at the moment.
func (m moment) of(w *sample.World) *scan {
	if m.world != nil {
		m.world(w)
	}
	s := scanOf(w)
	if m.scan != nil {
		m.scan(s)
	}
	return s
}

func offerOf(pool, host string) packing.Offer {
	return packing.Offer{Pool: pool, Shape: sample.Small, Host: host}
}

// outdated has the first machine drift in a pool that replaces what drifted.
func outdated(w *sample.World) {
	sample.Drifted(&w.Machines[0])
	w.Pools[0].Disruption.Drift = nodescaler.DriftReplace
}

// What keeps a spare from being woken, each by itself.
func TestWhichSparesStir(t *testing.T) {
	booting := func(w *sample.World) { w.Machines[0].Phase, w.Machines[0].Keep = nodescaler.Booting, true }
	for _, c := range []moment{
		{name: "one that is stopped", want: true},
		{name: "its pool is gone", world: func(w *sample.World) { w.Machines[0].Pool = "gone" }},
		{name: "its pool is held", world: sample.HeldUp},
		{name: "its pool is not to shrink", world: sample.HeldDown, want: true},
		{name: "its host is not known", world: func(w *sample.World) { w.Machines[0].Host = "gone" }},
		{name: "its host is away", world: func(w *sample.World) { w.Hosts[0].Online = false }},
		{name: "it drifted", world: func(w *sample.World) { sample.Drifted(&w.Machines[0]) }, want: true},
		{name: "it drifted and is to be replaced", world: outdated},
		{name: "it was woken by this plan", scan: func(s *scan) { s.Woken["w-1"] = true }},
		{name: "it is reclaimed by this plan", scan: func(s *scan) { s.Let["w-1"] = true }},
		{name: "it has a problem", world: func(w *sample.World) { w.Machines[0].Problem = "NoMemory" }},
		{name: "its host is full", world: func(w *sample.World) { w.Hosts[0].Room = sample.Small.Resources().Times(0) }},
		{name: "it was tried", scan: func(s *scan) { s.spares.keep.tried["w-1"] = sample.Noon.Add(-spareRest + 1) }},
		{name: "it was tried long ago", scan: func(s *scan) { s.spares.keep.tried["w-1"] = sample.Noon.Add(-spareRest) }, want: true},
		{name: "it is being made, and has a problem", world: func(w *sample.World) { booting(w); w.Machines[0].Problem = "slow" }, want: true},
		{name: "it is being made, and was tried", world: booting, scan: func(s *scan) { s.spares.keep.tried["w-1"] = sample.Noon }, want: true},
	} {
		w := sample.New().Machine("w-1", "pve1", nodescaler.Spare)
		s := c.of(w)
		if got := s.spares.stirs(&w.Machines[0]); got != c.want {
			t.Errorf("%s: stirs %t", c.name, got)
		}
		if got, of := s.spares.wakeable(&w.Machines[0]), s.spares.stirs(&w.Machines[0]); got != of {
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
		w := sample.New()
		if c.closed {
			sample.Shut(w)
		}
		s := scanOf(w)
		if c.fails {
			s.spares.backoffOf("w").fail(sample.Noon.Add(-time.Second))
		}
		got := ""
		if why := s.spares.shut(s.X.Pool("w")); why != nil {
			got = why.Code
		}
		if got != c.want || s.spares.makes("w") != (c.want == "") {
			t.Errorf("%s: %q, and it makes machines: %t", c.name, got, s.spares.makes("w"))
		}
	}
	if scanOf(sample.New()).spares.makes("gone") {
		t.Error("a pool that is not known makes machines")
	}
}

// An order for which no spare is to be had needs a place of the pool, a host and room on it.
func TestWhatMayBeBoughtInPlaceOfASpare(t *testing.T) {
	for _, c := range []struct {
		name            string
		change          func(*sample.World)
		carries, mayBuy bool
	}{
		{name: "there is room", carries: true, mayBuy: true},
		{name: "the pool is full", change: func(w *sample.World) { w.Pools[0].Max = 0 }, carries: true},
		{name: "the pool is closed", change: sample.Shut},
		{name: "the host is refused", change: sample.Refuse("pve1")},
		{name: "the host is full", change: func(w *sample.World) { w.Hosts[0].Room.Memory = sample.Small.Memory - 1 }},
		{name: "the host has just the room", change: func(w *sample.World) { w.Hosts[0].Room = sample.Small.Resources() }, carries: true, mayBuy: true},
	} {
		s, o := moment{world: c.change}.of(sample.New()), offerOf("w", "pve1")
		if s.spares.carries(o) != c.carries || s.spares.mayBuy(o) != c.mayBuy {
			t.Errorf("%s: carries %t, may be bought %t", c.name, s.spares.carries(o), s.spares.mayBuy(o))
		}
	}
}

// What keeps a spare from being reclaimed, each by itself.
func TestWhichSparesMayGo(t *testing.T) {
	tried := func(ago time.Duration) func(*scan) {
		return func(s *scan) { s.spares.keep.tried["w-1"] = sample.Noon.Add(-ago) }
	}
	making := func(w *sample.World) { w.Machines[0].Phase, w.Machines[0].Keep = nodescaler.Booting, true }
	for _, c := range []moment{
		{name: "one that is stopped", want: true},
		{name: "it is woken by this plan", scan: func(s *scan) { s.Woken["w-1"] = true }},
		{name: "it is reclaimed by this plan", scan: func(s *scan) { s.Let["w-1"] = true }},
		{name: "its host is away", world: func(w *sample.World) { w.Hosts[0].Online = false }},
		{name: "its pool is held", world: sample.HeldDown},
		{name: "its pool is not to grow", world: sample.HeldUp, want: true},
		{name: "its pool is gone", world: func(w *sample.World) { w.Machines[0].Pool = "gone" }},
		{name: "it was to start", scan: tried(time.Second)},
		{name: "it was to start long ago", scan: tried(spareRest), want: true},
		{name: "it was to start, and cannot", scan: tried(time.Second), world: func(w *sample.World) { w.Machines[0].Problem = "NoMemory" }, want: true},
		{name: "it is being made", world: making, want: true},
		{name: "it is being made, and is a node", world: func(w *sample.World) {
			making(w)
			w.Nodes = []nodescaler.Node{{Name: "w-1", Machine: "w-1", Pool: "w"}}
		}},
	} {
		w := sample.New().Machine("w-1", "pve1", nodescaler.Spare)
		s := c.of(w)
		if got := s.spares.mayGo(&w.Machines[0]); got != c.want {
			t.Errorf("%s: may go %t", c.name, got)
		}
	}
}

// In which order spares make way: first those that are of no use, then those of other pools, of
// the same pool, and those that are being made; of equals the last by name.
func TestTheOrderInWhichSparesMakeWay(t *testing.T) {
	w := sample.New().Change(sample.SecondPool())
	making := func(m *nodescaler.Machine) { m.Keep = true }
	of := func(pool string) func(*nodescaler.Machine) {
		return func(m *nodescaler.Machine) { m.Pool = pool }
	}
	second := w.Pools[1].Name
	w.Machine("making", "pve1", nodescaler.Booting, making).Machine("own-1", "pve1", nodescaler.Spare).Machine("own-2", "pve1", nodescaler.Spare).
		Machine("other", "pve1", nodescaler.Spare, of(second)).Machine("drifted", "pve1", nodescaler.Spare, sample.Drifted).
		Machine("still", "pve1", nodescaler.Spare, func(m *nodescaler.Machine) { m.Problem = "NoMemory" })
	var got []string
	for _, m := range scanOf(w).spares.expendables("w") {
		got = append(got, m.Name)
	}
	if want := []string{"still", "drifted", "other", "own-2", "own-1", "making"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// How many machines and spares of a pool a host carries, with what the plan wakes and reclaims.
func TestWhatAHostCarriesOfAPool(t *testing.T) {
	w := sample.New().Change(sample.SecondPool())
	other := func(m *nodescaler.Machine) { m.Pool = w.Pools[1].Name }
	w.Machine("a", "pve1", nodescaler.Joined).Machine("b", "pve2", nodescaler.Joined).Machine("c", "pve1", nodescaler.Joined, other).
		Machine("d", "pve1", nodescaler.Deleting).Machine("e", "pve1", nodescaler.Ordered)
	w.Machine("s", "pve1", nodescaler.Spare).Machine("t", "pve2", nodescaler.Spare).Machine("u", "pve1", nodescaler.Spare, other).
		Machine("woken", "pve1", nodescaler.Spare).Machine("let", "pve1", nodescaler.Spare)
	s := scanOf(w)
	s.Woken["woken"], s.Let["let"] = true, true
	if running, kept := s.spares.running("w", "pve1"), s.spares.kept("w", "pve1"); running != 3 || kept != 1 {
		t.Errorf("%d run and %d are kept, want 3 and 1", running, kept)
	}
	if n := s.spares.wokenOf("w"); n != 1 {
		t.Errorf("%d are woken", n)
	}
	if n := s.spares.wokenOf(w.Pools[1].Name); n != 0 {
		t.Errorf("%d of the other pool are woken", n)
	}
}

// What keeps a spare from being ordered, each by itself.
func TestWhenASpareIsOrdered(t *testing.T) {
	wants := stock{worth: worth{pays: 2, allowed: 2}}
	machine := &nodescaler.Machine{Name: "w-9", Pool: "w", Host: "pve1", Shape: sample.Small}
	for _, c := range []moment{
		{name: "one is wanting", want: true},
		{name: "another is there", stock: func(s *stock) { s.good = append(s.good, machine) }, want: true},
		{name: "as many as are wanted are there", stock: func(s *stock) { s.good = append(s.good, machine, machine) }},
		{name: "one is there and one was woken", stock: func(s *stock) { s.good, s.lent = append(s.good, machine), 1 }},
		{name: "one is there and one is stopped by this plan", stock: func(s *stock) { s.good = append(s.good, machine) }, scan: func(s *scan) { s.Stashed["w"] = 1 }},
		{name: "as many are made as may be at once", stock: func(s *stock) { s.pays, s.making = 9, append(s.making, machine, machine) }},
		{name: "fewer are made", stock: func(s *stock) { s.making = append(s.making, machine) }, want: true},
		{name: "another is being replaced", stock: func(s *stock) { s.outdated = append(s.outdated, machine) }, want: true},
		{name: "and one is made in its place", stock: func(s *stock) { s.outdated, s.making = append(s.outdated, machine), append(s.making, machine) }},
		{name: "a machine is on its way", scan: func(s *scan) { s.coming = append(s.coming, machine) }},
		{name: "a spare is woken", scan: func(s *scan) { s.Woken["w-8"] = true }},
		{name: "the pool makes no machines", world: sample.Shut},
		{name: "the pool has no place", world: func(w *sample.World) { w.Pools[0].Max = 0 }},
		{name: "the pool has one place", world: func(w *sample.World) { w.Pools[0].Max = 1 }, want: true},
		{name: "no host has room", world: func(w *sample.World) {
			for i := range w.Hosts {
				w.Hosts[i].Room = sample.Small.Resources().Times(0)
			}
		}},
		{name: "the limit is reached", world: func(w *sample.World) { w.Limit = 1 }},
	} {
		s, of := c.of(sample.New()), wants
		if c.stock != nil {
			c.stock(&of)
		}
		s.spares.order(s.X.Pool("w"), &of)
		if got := len(s.Plan.Actions) == 1 && s.Plan.Actions[0].Keep; got != c.want {
			t.Errorf("%s: ordered %t", c.name, got)
		}
	}
}

// What keeps a machine that was emptied from being kept as a spare, each by itself.
func TestWhichMachinesAreStashed(t *testing.T) {
	for _, c := range []moment{
		{name: "one is wanting", want: true},
		{name: "no spares are kept", scan: func(s *scan) { s.spares.keep.cfg.Most = 0 }},
		{name: "the policy knows no spares", scan: func(s *scan) { s.spares.keep = nil }},
		{name: "its pool is gone", world: func(w *sample.World) { w.Machines[0].Pool = "gone" }},
		{name: "it is the first look", scan: func(s *scan) { s.first = true }},
		{name: "its node is not ready", world: func(w *sample.World) { w.Nodes[0].Ready = false }},
		{name: "it starts again", world: func(w *sample.World) { w.Machines[0].Phase = nodescaler.Booting }},
		{name: "it drifted", world: func(w *sample.World) { sample.Drifted(&w.Machines[0]) }},
		{name: "it has another shape", world: func(w *sample.World) { w.Machines[0].Shape = sample.Large }},
		{name: "two are there", world: func(w *sample.World) { w.Spare("s-1", "pve1").Spare("s-2", "pve1") }, want: true},
		{name: "three are there", world: func(w *sample.World) { w.Spare("s-1", "pve1").Spare("s-2", "pve1").Spare("s-3", "pve1") }},
		{name: "three are stopped by this plan", scan: func(s *scan) { s.Stashed["w"] = 3 }},
	} {
		s := c.of(sample.New().Node("w-1", "pve1"))
		if k := s.spares.keep; k != nil { // a spare saves something
			k.started, k.lead = sample.Noon, 3*time.Minute
		}
		if got := s.spares.stashes(&s.X.Nodes[0]); got != c.want {
			t.Errorf("%s: stashed %t", c.name, got)
		}
	}
}

// What becomes of a machine that is to be a spare and is not a node that is ready.
func TestWhatBecomesOfSparesThatDoNotCome(t *testing.T) {
	late := DefaultRules().MaxNodeProvisionTime
	for _, c := range []struct {
		name    string
		dark    time.Duration // for so long; -1 was not seen
		world   func(*sample.World)
		want    []string
		forgets bool // since when it is dark
	}{
		{name: "it is seen for the first time", dark: -1, forgets: true},
		{name: "not for too long", dark: time.Duration(late)},
		{name: "its host is away", dark: time.Duration(late) + 1, world: func(w *sample.World) { w.Hosts[0].Online = false }, forgets: true},
		{name: "for too long, with a node that is open", dark: time.Duration(late) + 1, want: []string{"Cordon w-1"}},
		{name: "with a node that is cordoned", dark: time.Duration(late) + 1, world: func(w *sample.World) { w.Nodes[0].Cordoned = true }, want: []string{"Cordon w-1"}},
		{name: "with a node that is closed", dark: time.Duration(late) + 1, world: func(w *sample.World) { sample.Draining(&w.Nodes[0]) }, want: []string{"Return w-1"}},
		{name: "without a node", dark: time.Duration(late) + 1, world: func(w *sample.World) { w.Nodes = nil }, want: []string{"Return w-1"}},
		{name: "with a pod", dark: time.Duration(late) + 1, world: func(w *sample.World) { w.Pod("a", "w-1", 100, 100) }},
	} {
		w := sample.New().Node("w-1", "pve1", sample.NotReady)
		w.Machines[0].Keep = true
		if c.world != nil {
			c.world(w)
		}
		s := scanOf(w)
		if c.dark >= 0 {
			s.spares.keep.dark["w-1"] = sample.Noon.Add(-c.dark)
		}
		gone := s.spares.abandon(s.X.Spares[0], s.X.AnyNodeOf("w-1"))
		got := sample.Lines(s.Plan)
		if !slices.Equal(got, c.want) || gone != slices.Contains(got, "Return w-1") {
			t.Errorf("%s: %v and it is gone: %t; want %v", c.name, got, gone, c.want)
		}
		if forgot := s.spares.keep.dark["w-1"].Equal(sample.Noon); forgot != c.forgets {
			t.Errorf("%s: it is dark since %s", c.name, s.spares.keep.dark["w-1"])
		}
	}
}

// For how long a spare that was woken is expected back: as long as the nth has to wait to be
// worth an order.
func TestForHowLongAWokenSpareIsExpectedBack(t *testing.T) {
	w := sample.New().Node("w-1", "pve1")
	s := scanOf(w)
	s.spares.keep.started, s.spares.keep.lead = sample.Noon, time.Minute
	// the whole day is not seen, and takes one order
	saves := s.spares.keep.cfg.Worth * float64(s.spares.keep.sooner())
	last := time.Duration(float64(s.spares.keep.lead) * float64(spareMemory) / saves)
	m := &w.Machines[0]
	if s.spares.lent(m, 1) {
		t.Error("one that was no spare is expected back")
	}
	for ago, want := range map[time.Duration]bool{0: true, last - time.Second: true, last + time.Second: false} {
		if m.Woken = sample.Noon.Add(-ago); s.spares.lent(m, 1) != want {
			t.Errorf("one that was woken %s ago: %t", ago, !want)
		}
	}
}

// A drain that another process began is left as it is where its node may not be opened either.
func TestWhichDrainsAreLeftAlone(t *testing.T) {
	for _, c := range []struct {
		name string
		held func(*sample.World)
		ours bool
		want bool
	}{
		{name: "ours", held: func(*sample.World) {}, ours: true},
		{name: "another's", held: func(*sample.World) {}},
		{name: "ours, of a pool that is not to grow", held: sample.HeldUp, ours: true},
		{name: "another's, of a pool that is not to grow", held: sample.HeldUp, want: true},
		{name: "ours, of a pool that is not to shrink", held: sample.HeldDown, ours: true, want: true},
		{name: "another's, of a pool that is not to shrink", held: sample.HeldDown, want: true},
	} {
		s := scanOf(sample.New().Node("w-1", "pve1", sample.Draining).Change(c.held))
		if s.drains = (since{}); c.ours {
			s.drains["w-1"] = sample.Noon
		}
		if got := s.drainer.leftAlone(&s.X.Nodes[0]) != nil; got != c.want {
			t.Errorf("%s: left alone %t", c.name, got)
		}
		if got := s.drainer.open(&s.X.Nodes[0]); got != (!c.ours && !c.want) {
			t.Errorf("%s: it takes pods: %t", c.name, got)
		}
	}
}

// How much of a node is used: not by pods that leave or that anyone may displace, and by daemons
// as the settings say.
func TestHowMuchOfANodeIsUsed(t *testing.T) {
	for _, c := range []struct {
		name          string
		pod           func(*nodescaler.Pod)
		ignoreDaemons bool
		want          float64 // of 1800 thousandths of a CPU
	}{
		{name: "a pod", pod: func(*nodescaler.Pod) {}, want: 900. / 1800},
		{name: "one that leaves", pod: sample.Leaving},
		{name: "one that anyone may displace", pod: func(p *nodescaler.Pod) { p.Priority = -11 }},
		{name: "a daemon", pod: sample.Daemon, want: 900. / 1800},
		{name: "a daemon that is ignored", pod: sample.Daemon, ignoreDaemons: true},
		{name: "a pod where daemons are ignored", pod: func(*nodescaler.Pod) {}, ignoreDaemons: true, want: 900. / 1800},
	} {
		s := scanOf(sample.New().Node("w-1", "pve1").Pod("a", "w-1", 900, 0, c.pod))
		s.rules.IgnoreDaemonsetsUtilization = c.ignoreDaemons
		if got := s.drainer.utilisation(&s.X.Nodes[0]); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	s := scanOf(sample.New().Node("w-1", "pve1").Pod("a", "w-1", 600, 0).Pod("d", "w-1", 300, 0, sample.Daemon))
	s.rules.IgnoreDaemonsetsUtilization = true
	if got := s.drainer.utilisation(&s.X.Nodes[0]); got != 600./1500 {
		t.Errorf("beside a daemon that is ignored: %v", got)
	}
}

// A drain takes too long where pods are not evicted in time, or are there long after.
func TestWhenADrainIsLate(t *testing.T) {
	evicted := time.Duration(DefaultRules().MaxPodEvictionTime)
	for _, c := range []struct {
		name string
		pod  func(*nodescaler.Pod)
		most time.Duration
	}{
		{"one is not evicted", func(*nodescaler.Pod) {}, evicted},
		{"all are evicted", sample.Leaving, evicted + time.Duration(DefaultRules().MaxGracefulTermination)},
	} {
		s := scanOf(sample.New().Node("w-1", "pve1").Pod("a", "w-1", 100, 100, sample.Leaving).Pod("b", "w-1", 100, 100, c.pod))
		n := &s.X.Nodes[0]
		if s.drainer.late(n, sample.Noon.Add(-c.most)) || !s.drainer.late(n, sample.Noon.Add(-c.most-1)) {
			t.Errorf("%s: not just after %s", c.name, c.most)
		}
	}
}

// Nothing is done about a node that is being emptied while what is seen of it may not be true.
func TestWhenADrainWaits(t *testing.T) {
	most := time.Duration(DefaultRules().ScaleDownUnreadyTime)
	for _, c := range []struct {
		name  string
		ready bool
		dark  time.Duration
		away  bool
		want  bool
	}{
		{name: "it is ready", ready: true},
		{name: "its host is away", ready: true, away: true, want: true},
		{name: "it is not ready", dark: most, want: true},
		{name: "it has not been for long", dark: most + 1},
	} {
		w := sample.New().Node("w-1", "pve1")
		w.Nodes[0].Ready, w.Hosts[0].Online = c.ready, !c.away
		s := scanOf(w)
		s.unready = since{"w-1": sample.Noon.Add(-c.dark)}
		if got := s.drainer.wait(&s.X.Nodes[0]); got != c.want {
			t.Errorf("%s: it waits %t", c.name, got)
		}
	}
}

// Pods for which machines are ordered: old enough, and of a priority that is worth one.
func TestForWhichPodsMachinesAreOrdered(t *testing.T) {
	for _, c := range []struct {
		name     string
		delay    time.Duration
		priority int
		age      time.Duration
		want     bool
	}{
		{name: "any", want: true},
		{name: "one of the future, by another clock", age: -time.Second, want: true},
		{name: "a young one", delay: time.Minute, age: time.Minute - 1},
		{name: "one that is just old enough", delay: time.Minute, age: time.Minute, want: true},
		{name: "one of the least priority", priority: -10, want: true},
		{name: "one of less", priority: -11},
	} {
		s := scanOf(sample.New().Pod("a", "", 100, 100, func(p *nodescaler.Pod) { p.Created, p.Priority = sample.Noon.Add(-c.age), c.priority }))
		s.rules.NewPodScaleUpDelay = nodescaler.Duration(c.delay)
		if got := len((&demand{s.turn}).list()) == 1; got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// Of orders it is noted for the worth of spares that pods wait for them, and not that they were
// expected to.
func TestOrdersThatPodsWaitForAreNoted(t *testing.T) {
	like := nodescaler.Pod{Workload: "ns/app", Requests: pricing.Resources{CPU: 600}}
	for _, c := range []struct {
		name  string
		world *sample.World
		want  int
	}{
		{"a pod waits", sample.New().Pod("a", "", 600, 100), 1},
		{"a replica is decided on", sample.New().Change(func(w *sample.World) { w.Future = []nodescaler.Future{{Like: like, Count: 1}} }), 1},
		{"a replica is expected", sample.New().Change(func(w *sample.World) { w.Future = []nodescaler.Future{{Like: like, Ahead: 1}} }), 0},
	} {
		p := withSpares(1)
		if plan := sample.Decide(t, p, c.world.At(0)); len(plan.Actions) != 1 || len(p.keep.wanted) != c.want {
			t.Errorf("%s: %d noted, want %d; %s", c.name, len(p.keep.wanted), c.want, sample.Reasons(plan))
		}
	}
}

// What a machine is ordered for names each pod, those included that share a node with one of them.
func TestWhatAMachineIsOrderedForNamesEachPod(t *testing.T) {
	pod := func(name string) *nodescaler.Pod {
		return &nodescaler.Pod{Pod: podscaler.Pod{Name: name}, Workload: "ns/app"}
	}
	var b bundle
	b.add(&want{item: "ns/app+1", pod: &nodescaler.Pod{Workload: "ns/app"}, expected: true})
	b.add(&want{item: "a", pod: pod("a")})
	b.add(&want{item: "b and 1 on its node", pod: pod("b"), with: []*nodescaler.Pod{pod("c")}})
	if want := []string{"ns/app+1", "a", "b", "c"}; !slices.Equal(b.names, want) {
		t.Errorf("names %v, want %v", b.names, want)
	}
	if len(b.asked) != 3 || b.used.Pods != 4 || b.code() != nodescaler.PodsPending {
		t.Errorf("%d are asked for, %d pods, code %s", len(b.asked), b.used.Pods, b.code())
	}
}

// A spare is as the last order that pods waited for, of those shapes that the pool has.
func TestTheShapeOfSpares(t *testing.T) {
	gone := pricing.Shape{Name: "gone", CPU: 1000}
	for _, c := range []struct {
		name string
		uses []use
		want pricing.Shape
	}{
		{"the cheapest", nil, sample.Small},
		{"as the last one", []use{{pool: "w", shape: sample.Small}, {pool: "w", shape: sample.Large}}, sample.Large},
		{"not as one of another pool", []use{{pool: "w", shape: sample.Large}, {pool: "x", shape: sample.Small}}, sample.Large},
		{"not of a shape that is gone", []use{{pool: "w", shape: sample.Large}, {pool: "w", shape: gone}}, sample.Large},
		{"of another pool alone", []use{{pool: "x", shape: sample.Large}}, sample.Small},
	} {
		w := sample.New()
		w.Pools[0].Shapes = []pricing.Shape{sample.Large, sample.Small}
		s := scanOf(w)
		s.spares.keep.uses = c.uses
		if got := s.spares.spareShape(s.X.Pool("w")); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got.Name, c.want.Name)
		}
	}
}

// Which spares a pool has, is having made, and lent.
func TestTheStockOfAPool(t *testing.T) {
	other := func(m *nodescaler.Machine) { m.Pool = "x" }
	kept := func(m *nodescaler.Machine) { m.Keep = true }
	woken := func(ago time.Duration) func(*nodescaler.Machine) {
		return func(m *nodescaler.Machine) { m.Woken = sample.Noon.Add(-ago) }
	}
	w := sample.New().Change(sample.SecondPool())
	w.Pools[0].Disruption.Drift = nodescaler.DriftReplace
	w.Machine("good", "pve1", nodescaler.Spare).Machine("other", "pve1", nodescaler.Spare, other).Machine("drifted", "pve1", nodescaler.Spare, sample.Drifted).
		Machine("making", "pve1", nodescaler.Booting, kept).Machine("woken", "pve1", nodescaler.Spare).Machine("let", "pve1", nodescaler.Spare).
		Machine("lent", "pve1", nodescaler.Joined, woken(time.Second)).Machine("lent long ago", "pve1", nodescaler.Joined, woken(40*time.Hour)).
		Machine("lent and going", "pve1", nodescaler.Deleting, woken(time.Second)).Machine("other lent", "pve1", nodescaler.Joined, other, woken(time.Second))
	s := scanOf(w)
	s.spares.keep.started, s.spares.keep.lead = sample.Noon, 3*time.Minute
	s.Woken["woken"], s.Let["let"] = true, true
	is := s.spares.stockOf(s.X.Pool("w"))
	names := func(all []*nodescaler.Machine) (names []string) {
		for _, m := range all {
			names = append(names, m.Name)
		}
		return names
	}
	got := [][]string{names(is.good), names(is.outdated), names(is.making)}
	if d := cmp.Diff([][]string{{"good"}, {"drifted"}, {"making"}}, got); d != "" || is.lent != 1 || is.have() != 2 {
		t.Errorf("%d are lent and %d are had; %s", is.lent, is.have(), d)
	}
}

// So many spares pay as saved their disks within a day, the last that may be included.
func TestTheLastSpareThatMayBeHasToPayToo(t *testing.T) {
	for ranks, want := range map[int]int{0: 0, 1: 1, 2: 2, 3: 3} {
		s := scanOf(sample.New().Dear(pricing.Unit / 100))
		s.spares.keep.started, s.spares.keep.lead = sample.Noon.Add(-2*spareMemory), 3*time.Minute
		for rank := range ranks {
			for range 99 {
				s.spares.keep.uses = append(s.spares.keep.uses, use{at: sample.Noon, pool: "w", rank: rank + 1})
			}
		}
		if got := s.spares.sparesWorth(s.X.Pool("w")).pays; got != want {
			t.Errorf("%d pay, want %d", got, want)
		}
	}
}

// What is known of a machine that is to become a spare is forgotten once that is over, and
// that a spare made way once it is gone.
func TestWhatIsForgottenOfSpares(t *testing.T) {
	for _, c := range []struct {
		name            string
		phase           nodescaler.Phase
		keep, gone      bool
		gave            time.Duration // ago
		makes, makesWay bool
	}{
		{name: "it is being made", phase: nodescaler.Booting, keep: true, makes: true, makesWay: true},
		{name: "it is a machine", phase: nodescaler.Booting, makesWay: true},
		{name: "it failed", phase: nodescaler.Failed, keep: true, makesWay: true},
		{name: "it is gone", gone: true},
		{name: "it made way as long ago as counts", phase: nodescaler.Spare, gave: spareRest, makesWay: true},
		{name: "it made way long ago", phase: nodescaler.Spare, gave: spareRest + 1},
	} {
		w := sample.New()
		if !c.gone {
			w.Machine("w-1", "pve1", c.phase, func(m *nodescaler.Machine) { m.Keep = c.keep })
		}
		k := newKeeper(Spared{Most: 1})
		k.closed["w-1"], k.dark["w-1"], k.gave["w-1"] = sample.Noon, sample.Noon, sample.Noon.Add(-c.gave)
		k.see(&w.Snapshot, time.Minute)
		if got := [3]bool{len(k.closed) == 1, len(k.dark) == 1, len(k.gave) == 1}; got != [3]bool{c.makes, c.makes, c.makesWay} {
			t.Errorf("%s: remembered as closed, dark and making way: %v", c.name, got)
		}
	}
}

// What becomes of a machine that has joined and is to be a spare.
func TestHowASpareIsFinished(t *testing.T) {
	closed := time.Duration(DefaultRules().NodeDeleteDelayAfterTaint)
	for _, c := range []struct {
		moment

		stock stock
		want  []string
	}{
		{moment{name: "it is wanted"}, stock{worth: worth{pays: 1, allowed: 1}}, []string{"Stash w-1"}},
		{moment{name: "as many as pay are there"}, stock{worth: worth{allowed: 1}}, []string{"Return w-1"}},
		{moment{name: "it drifted", world: func(w *sample.World) { sample.Drifted(&w.Machines[0]) }}, stock{worth: worth{pays: 1, allowed: 1}}, []string{"Stash w-1"}},
		{moment{name: "it drifted and is to be replaced", world: outdated}, stock{worth: worth{pays: 1, allowed: 1}}, []string{"Return w-1"}},
		{moment{name: "it was closed just now", scan: func(s *scan) { s.spares.keep.closed["w-1"] = sample.Noon }}, stock{}, nil},
		{moment{name: "it was uncordoned", world: func(w *sample.World) { w.Nodes[0].Cordoned = false }}, stock{}, []string{"Cordon w-1"}},
		{moment{name: "it is cordoned alone", world: func(w *sample.World) { w.Nodes[0].Draining = false }}, stock{}, []string{"Cordon w-1"}},
		{moment{name: "it was closed by another", scan: func(s *scan) { clear(s.spares.keep.closed) }}, stock{}, []string{"Cordon w-1"}},
	} {
		w := sample.New().Node("w-1", "pve1", sample.Draining)
		w.Machines[0].Keep = true
		change := c.scan
		c.scan = func(s *scan) {
			s.spares.keep.closed["w-1"] = sample.Noon.Add(-closed)
			if change != nil {
				change(s)
			}
		}
		s := c.of(w)
		s.spares.finishSpare(s.X.Spares[0], &c.stock)
		if got := sample.Lines(s.Plan); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A drain whose cordon is not seen is remembered for a minute.
func TestForHowLongADrainThatIsNotSeenIsRemembered(t *testing.T) {
	for ago, want := range map[time.Duration]bool{0: true, time.Minute: true, time.Minute + 1: false} {
		s := scanOf(sample.New().Node("w-1", "pve1"))
		s.drains = since{"w-1": sample.Noon.Add(-ago)}
		s.drainer.carryOn()
		if _, got := s.drains["w-1"]; got != want {
			t.Errorf("after %s: remembered %t", ago, got)
		}
	}
}

// Why nothing is ordered is said only where something was to be, and only if it is so.
func TestReasonsNotToOrderAreSaidWhereTheyHold(t *testing.T) {
	for _, c := range []struct {
		name  string
		world *sample.World
		code  string
		want  bool
	}{
		{"a refused host, and a pod waits", sample.New().Change(sample.Refuse("pve1")).Pod("a", "", 600, 100), "StorageFull", true},
		{"a refused host, and none waits", sample.New().Change(sample.Refuse("pve1")), "StorageFull", false},
		{"two are paid for of three", sample.Limited(2).Several(3, "a", "", 1700, 100), "PoolFull", false},
		{"two may be of three", sample.New().Several(3, "a", "", 1700, 100).Change(func(w *sample.World) { w.Pools[0].Max = 2 }), "PoolFull", true},
	} {
		plan := sample.Decide(t, withSpares(1), c.world.At(0))
		if got := slices.Contains(sample.Codes(plan), c.code); got != c.want {
			t.Errorf("%s: %s is said: %t:%s", c.name, c.code, got, sample.Reasons(plan))
		}
	}
}

// A spare that makes way says whether money or the pool's maximum is short.
func TestWhatASpareMakesWayFor(t *testing.T) {
	for _, c := range []struct {
		name  string
		world *sample.World
		want  string
	}{
		{"money", sample.Limited(1).Spare("w-1", "pve1").Change(outdated), "the hard limit is"},
		{"the maximum", sample.New().Spare("w-1", "pve1").Change(outdated).Change(func(w *sample.World) { w.Pools[0].Max = 1 }), "it may have 1, spares included"},
	} {
		s := scanOf(c.world.Disked())
		o := packing.Offer{Pool: "w", Shape: c.world.Pools[0].Shapes[0], Host: "pve1"}
		if !s.spares.makeWay(o, nil) || !strings.Contains(sample.Reasons(s.Plan), c.want) {
			t.Errorf("%s: %s", c.name, sample.Reasons(s.Plan))
		}
	}
}
