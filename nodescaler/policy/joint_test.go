package policy

import (
	"slices"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/pricing"
)

// A clone that fails is tried again soon, and one that goes on failing less and less often.
func TestJointSoonTriesAgainWhatFailed(t *testing.T) {
	w := sample.New().Pod("a", "", 600, 100)
	p := build(t, Spec{Policy: "joint"})
	bought := func(at time.Duration) bool {
		for _, a := range sample.Decide(t, p, w.At(at)).Actions {
			if a.Kind == nodescaler.Buy {
				return true
			}
		}
		return false
	}
	if !bought(0) {
		t.Fatal("nothing is ordered for a pod that waits")
	}
	fails := func(name string, at time.Duration) {
		w.Machines = nil
		w.Machine(name, "pve1", nodescaler.Failed, func(m *nodescaler.Machine) { m.Since = sample.Noon.Add(at) })
		if bought(at) {
			t.Errorf("at %s another is ordered at once", at)
		}
		w.Machines = nil
	}
	fails("w-1", time.Minute)
	if bought(time.Minute+10*time.Second) || !bought(time.Minute+20*time.Second) {
		t.Error("after the first failure there is no order after 20 s, or one after 10 s")
	}
	fails("w-2", 2*time.Minute)
	if bought(2*time.Minute+20*time.Second) || !bought(2*time.Minute+35*time.Second) {
		t.Error("after the second failure there is no order after 35 s, or one after 20 s")
	}
}

// Where having a machine costs, one large machine wins over small ones that are a little cheaper
// for what they hold.
func TestJointBuysFewerWhereHavingAMachineCosts(t *testing.T) {
	w := sample.New().Several(8, "a", "", 900, 100)
	w.Pools[0].Shapes, w.Pools[0].Reserved = []pricing.Shape{sample.Small, sample.Large}, pricing.Resources{}
	w.Prices.Shapes = map[string]pricing.ShapePrices{sample.Large.Name: {Prices: pricing.Prices{PerVCPU: new(pricing.Unit * 11 / 10)}}}
	w.Hosts = w.Hosts[:1]
	sample.Expect(t, sample.Decide(t, build(t, Spec{Policy: "joint"}), w.At(0)), []string{"Buy w small pve1", "Buy w small pve1", "Buy w small pve1", "Buy w small pve1"})
	w.Prices.PerMachine = pricing.Unit
	sample.Expect(t, sample.Decide(t, build(t, Spec{Policy: "joint"}), w.At(0)), []string{"Buy w large pve1"})
}

// For how long machines are not needed is learnt of those that are needed again, and not of those
// that only cannot be seen.
func TestJointLearnsNothingOfMachinesThatItCannotSee(t *testing.T) {
	idle := func() *sample.World {
		return sample.New().Node("w-1", "pve1").Node("w-2", "pve2").Several(2, "a", "w-1", 600, 100).Several(1, "b", "w-2", 100, 100)
	}
	for _, c := range []struct {
		name  string
		world *sample.World
		want  int
	}{
		{"one is needed again", idle().Several(2, "c", "w-2", 700, 100), 1},
		{"the nodes are not ready, and nothing is trusted", idle().Change(func(w *sample.World) {
			for i := range 4 {
				w.Node(string(rune('m'+i)), "pve3")
			}
			for i := range w.Nodes {
				w.Nodes[i].Ready = false
			}
		}), 0},
		{"one was removed", idle().Change(func(w *sample.World) { w.Machines, w.Nodes, w.Pods = w.Machines[:1], w.Nodes[:1], w.Pods[:2] }), 0},
		{"its host is away", idle().Change(func(w *sample.World) { w.Hosts[0].Online, w.Hosts[1].Online = false, false }), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := build(t, Spec{Policy: "joint"}).(*joint)
			sample.Decide(t, p, idle().At(0))
			sample.Decide(t, p, idle().At(10*time.Second))
			if len(p.planner.Idle()) != 1 {
				t.Fatalf("%d machines are not needed, want 1", len(p.planner.Idle()))
			}
			sample.Decide(t, p, c.world.At(time.Minute))
			if len(p.idles) != c.want {
				t.Errorf("learnt %v, want %d of them", p.idles, c.want)
			}
		})
	}
}

// A machine that is emptied is not needed again: for how long it was not is known once another is
// ordered.
func TestJointLearnsNothingOfMachinesThatTheClockHasJumpedFor(t *testing.T) {
	for name, c := range map[string]struct {
		jump time.Duration // before the first look
		want int
	}{"ordered before the jump": {0, 0}, "ordered after it": {2 * time.Hour, 1}} {
		j := newJoint(DefaultJoint())
		w := sample.New().Machine("w-1", "pve1", nodescaler.Booting)
		w.Jumped = w.Now.Add(-c.jump)
		j.see(w.At(0))
		w.Machines[0].Phase, w.Machines[0].Since = nodescaler.Joined, w.Now
		if j.see(w.At(time.Minute)); len(j.leads) != c.want {
			t.Errorf("%s: learnt %v", name, j.leads)
		}
	}
}

func TestJointLearnsOfMachinesGivenBackWhenOthersAreOrdered(t *testing.T) {
	w := sample.New().Node("w-1", "pve1").Node("w-2", "pve2").Several(2, "a", "w-1", 600, 100).Several(1, "b", "w-2", 100, 100)
	p := build(t, Spec{Policy: "joint"}).(*joint)
	for at := time.Duration(0); at < 5*time.Minute; at += 10 * time.Second {
		plan := sample.Decide(t, p, w.At(at))
		obey(w, plan)
	}
	if len(p.gone) != 1 || len(p.idles) != 0 {
		t.Fatalf("of the machine that is emptied it is learnt %v, with %d that are gone, want nothing and 1", p.idles, len(p.gone))
	}
	w.Several(4, "c", "", 900, 100)
	sample.Decide(t, p, w.At(10*time.Minute))
	if len(p.idles) != 1 || p.idles[0] != 10*time.Minute {
		t.Errorf("learnt %v, want 10m0s", p.idles)
	}
}

// Whether a node is needed can be seen where it is ready, and of a host that is there and a pool
// that may shrink.
func TestWhichNodesCanBeSeenToBeNeeded(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*sample.World)
		want   bool
	}{
		{name: "one that is ready", change: func(*sample.World) {}, want: true},
		{name: "not ready", change: func(w *sample.World) { w.Nodes[0].Ready = false }},
		{name: "being emptied", change: func(w *sample.World) { w.Nodes[0].Draining = true }},
		{name: "its host is away", change: func(w *sample.World) { w.Hosts[0].Online = false }},
		{name: "another host is away", change: func(w *sample.World) { w.Hosts[1].Online = false }, want: true},
		{name: "its pool is held", change: sample.HeldDown},
		{name: "its pool is not to grow", change: sample.HeldUp, want: true},
	} {
		w := sample.New().Node("w-1", "pve1").Change(c.change)
		if got := working(nodescaler.NewIndex(&w.Snapshot))["w-1"]; got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// For how long a machine is held that is not needed.
func TestHowLongMachinesAreHeld(t *testing.T) {
	const m = time.Minute
	idles := func(n int, d time.Duration) nodescaler.Recent { return slices.Repeat(nodescaler.Recent{d}, n) }
	for _, c := range []struct {
		name  string
		idles nodescaler.Recent
		want  time.Duration
	}{
		{"nothing is known", nil, 3 * m},
		{"too little is known", idles(few-1, m), 3 * m},
		{"all come back soon", idles(few, m), 3 * m},
		{"none comes back soon", idles(few, 10*m), 1},
		{"each comes back just when another would be there", idles(few, 3*m), 3 * m},
		{"half come back a moment sooner", append(idles(few, 3*m-1), idles(few, 10*m)...), 1},
		{"half come back soon", append(idles(few, m), idles(few, 10*m)...), m + 1},
	} {
		if got := cheapest(c.idles, 3*m); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// One that carries nothing is held once enough is known.
func TestMachinesThatCarryNothingAreNotHeldUntilMoreIsKnown(t *testing.T) {
	w := sample.New().Node("w-1", "pve1").Node("w-2", "pve2").Pod("a", "w-2", 100, 100)
	x := nodescaler.NewIndex(&w.Snapshot)
	for _, c := range []struct {
		node  string
		known int
		want  time.Duration
	}{{"w-1", few - 1, 0}, {"w-1", few, 1}, {"w-2", few - 1, 3 * time.Minute}, {"w-2", few, 1}} {
		j := newJoint(DefaultJoint())
		j.idles = slices.Repeat(nodescaler.Recent{time.Hour}, c.known)
		if got := j.hold(x.NodeOf(c.node)); got != c.want {
			t.Errorf("%s with %d known: %s, want %s", c.node, c.known, got, c.want)
		}
	}
}

// From orders, and from nothing else, it is learnt how long machines take.
func TestJointLearnsHowLongOrdersTake(t *testing.T) {
	type machine func(*nodescaler.Machine)
	as := func(phase nodescaler.Phase, since time.Duration, change ...machine) machine {
		return func(m *nodescaler.Machine) {
			m.Phase, m.Created, m.Since = phase, sample.Noon, sample.Noon.Add(since)
			for _, c := range change {
				c(m)
			}
		}
	}
	kept := func(m *nodescaler.Machine) { m.Keep = true }
	woken := func(m *nodescaler.Machine) { m.Woken = sample.Noon }
	for _, c := range []struct {
		name  string
		looks []machine
		jump  time.Duration
		want  nodescaler.Recent
	}{
		{name: "it was ordered and has joined", looks: []machine{as(nodescaler.Ordered, 0), as(nodescaler.Joined, time.Minute)}, want: nodescaler.Recent{time.Minute}},
		{name: "it booted", looks: []machine{as(nodescaler.Booting, 0), as(nodescaler.Joined, time.Minute)}, want: nodescaler.Recent{time.Minute}},
		{name: "it was not seen to come", looks: []machine{as(nodescaler.Joined, 0), as(nodescaler.Joined, time.Minute)}},
		{name: "it is to be a spare", looks: []machine{as(nodescaler.Ordered, 0, kept), as(nodescaler.Joined, time.Minute, kept)}},
		{name: "it was a spare", looks: []machine{as(nodescaler.Booting, 0, woken), as(nodescaler.Joined, time.Minute, woken)}},
		{name: "it failed", looks: []machine{as(nodescaler.Failed, 0), as(nodescaler.Joined, time.Minute)}},
		{name: "the clock jumped after it was ordered", looks: []machine{as(nodescaler.Ordered, 0), as(nodescaler.Joined, time.Minute)}, jump: 1},
		{name: "the clock jumped as it was ordered", looks: []machine{as(nodescaler.Ordered, 0), as(nodescaler.Joined, time.Minute)}, jump: 0, want: nodescaler.Recent{time.Minute}},
	} {
		j := newJoint(DefaultJoint())
		for _, look := range c.looks {
			w := sample.New().Machine("w-1", "pve1", nodescaler.Ordered, look)
			w.Jumped = sample.Noon.Add(c.jump)
			j.see(&w.Snapshot)
		}
		if !slices.Equal(c.want, j.leads) {
			t.Errorf("%s: %v, want %v", c.name, j.leads, c.want)
		}
	}
}
