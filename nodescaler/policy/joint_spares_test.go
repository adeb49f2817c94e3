package policy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// withSpares is joint with so many spares at most.
func withSpares(t *testing.T, most int) nodescaler.Policy {
	t.Helper()
	c := DefaultJoint()
	c.Spares.Most = most
	return build(t, Spec{Policy: "joint", Joint: &c})
}

// spare adds a machine that is stopped, with its node.
func (w *world) spare(name, host string, change ...func(*nodescaler.Machine)) *world {
	w.node(name, host, draining, notReady)
	m := &w.Machines[len(w.Machines)-1]
	m.Phase = nodescaler.Spare
	for _, c := range change {
		c(m)
	}
	return w
}

func drifted(m *nodescaler.Machine) { m.Drifted = "its template was changed" }

// dear makes disks cost something: 20 GB at so many millionths of a unit.
func (w *world) dear(perGB pricing.Micros) *world {
	w.Prices.PerDiskGB = perGB
	w.Pools[0].Shapes[0].Disk = 20 * pricing.GB
	for i := range w.Machines {
		w.Machines[i].Shape.Disk = 20 * pricing.GB
	}
	return w
}

// lookedAt is the policy after its first look, in which it only orders.
func lookedAt(t *testing.T, p nodescaler.Policy, w *world) nodescaler.Policy {
	t.Helper()
	quiet := &world{*copied(&w.Snapshot)}
	quiet.Pods, quiet.Future = nil, nil
	decide(t, p, quiet.at(0))
	return p
}

func TestJointWakesASpareWhereItWouldBuy(t *testing.T) {
	full := func() *world { return aWorld().node("w-1", "pve1").pods(3, "a", "w-1", 600, 100) }
	ahead := func(w *world) {
		w.Future = []nodescaler.Future{{Like: nodescaler.Pod{Workload: "ns/app", Requests: pricing.Resources{CPU: 600}}, Ahead: 2}}
	}
	crowd := func(w *world) {
		for i := range w.Hosts {
			w.Hosts[i].Room = small.Resources()
		}
		w.machine("x", "pve2", nodescaler.Joined)
		w.machine("y", "pve3", nodescaler.Joined)
	}
	for _, c := range []struct {
		name  string
		world *world
		want  []string
	}{
		{"a spare comes first", full().spare("w-2", "pve1").pod("b", "", 600, 100), []string{"Wake w-2"}},
		{"and an order for what it does not hold", full().spare("w-2", "pve1").pods(4, "b", "", 600, 100), []string{"Wake w-2", "Buy w small pve2"}},
		{"for what is expected, too", full().spare("w-2", "pve1").change(ahead), []string{"Wake w-2"}},
		{"the one on the host with most memory left", full().spare("w-2", "pve1").spare("w-3", "pve3").pod("b", "", 600, 100), []string{"Wake w-3"}},
		{"one that drifted is not", full().spare("w-2", "pve1", drifted).pod("b", "", 600, 100), []string{"Buy w small pve2"}},
		{"nor one that could not be started", full().spare("w-2", "pve1", func(m *nodescaler.Machine) { m.Problem = "NoMemory" }).pod("b", "", 600, 100), []string{"Buy w small pve2"}},
		{"nor one of another shape", full().spare("w-2", "pve1", func(m *nodescaler.Machine) { m.Shape = large }).pod("b", "", 600, 100), []string{"Buy w small pve2"}},
		{"nor one whose host is away", full().spare("w-2", "pve3").pod("b", "", 600, 100).change(func(w *world) { w.Hosts[2].Online = false }), []string{"Buy w small pve2"}},
		{"nor one whose host is full", full().spare("w-2", "pve2").pod("b", "", 600, 100).change(crowd), nil},
		{"one in the making is let be a machine", full().machine("w-2", "pve1", nodescaler.Booting, func(m *nodescaler.Machine) { m.Keep = true }).pod("b", "", 600, 100), []string{"Wake w-2"}},
		{"in a pool that is full of spares", full().spare("w-2", "pve1").pod("b", "", 600, 100).change(func(w *world) { w.Pools[0].Max = 2 }), []string{"Wake w-2"}},
		{"to make up the pool's minimum", full().spare("w-2", "pve1").change(func(w *world) { w.Pools[0].Min = 2 }), []string{"Wake w-2"}},
		{"but not while one is being woken that will do", full().machine("w-2", "pve1", nodescaler.Booting, func(m *nodescaler.Machine) { m.Woken = noon }).spare("w-3", "pve2").pod("b", "", 600, 100), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := withSpares(t, 3)
			got := lines(decide(t, p, c.world.at(0)))
			got = slices.DeleteFunc(got, func(l string) bool { return strings.HasSuffix(l, "to keep") })
			if d := cmp.Diff(c.want, got); len(c.want)+len(got) > 0 && d != "" {
				t.Errorf("actions (-want +got):\n%s", d)
			}
		})
	}
}

// What has been made before need not be made again: spares stand in where machines fail to be made.
func TestJointWakesSparesOfAPoolThatIsLeftAlone(t *testing.T) {
	for _, c := range []struct {
		name  string
		world *world
		want  []string
	}{
		{"for pods that wait", aWorld().spare("w-2", "pve1").pods(4, "b", "", 600, 100), []string{"Return w-1", "Wake w-2"}},
		{"not one of another shape", aWorld().spare("w-2", "pve1", func(m *nodescaler.Machine) { m.Shape = large }).pod("b", "", 600, 100), []string{"Return w-1"}},
		{"for the pool's minimum, and orders none", aWorld().spare("w-2", "pve1").change(func(w *world) { w.Pools[0].Min = 2 }), []string{"Return w-1", "Wake w-2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := lookedAt(t, withSpares(t, 1), aWorld().spare("w-2", "pve1"))
			w := c.world.machine("w-1", "pve2", nodescaler.Failed)
			expect(t, decide(t, p, w.at(10*time.Second)), c.want, nodescaler.PoolBackingOff)
		})
	}
}

// Nor do spares go because their pool makes no machines: neither to make way for one, nor for want of another.
func TestJointWakesSparesOfAPoolThatMakesNone(t *testing.T) {
	busy := func() *world { return aWorld().node("w-1", "pve1").pods(3, "a", "w-1", 600, 100).change(shut) }
	for _, c := range []struct {
		name  string
		world *world
		want  []string
	}{
		{"for pods that wait", busy().spare("w-2", "pve1").pod("b", "", 600, 100), []string{"Wake w-2"}},
		{"as many as there are", busy().spare("w-2", "pve1").pods(8, "b", "", 600, 100), []string{"Wake w-2"}},
		{"for the pool's minimum", busy().spare("w-2", "pve1").change(func(w *world) { w.Pools[0].Min = 3 }), []string{"Wake w-2"}},
		{"where the pool has as many as it may", busy().spare("w-2", "pve1").pod("b", "", 600, 100).change(func(w *world) { w.Pools[0].Max = 2 }), []string{"Wake w-2"}},
		{"none makes way for a machine that is not made", busy().spare("w-2", "pve1").pod("b", "", 3000, 100).change(func(w *world) {
			w.Pools[0].Max, w.Pools[0].Shapes = 2, append(w.Pools[0].Shapes, large)
		}), nil},
		{"none is made", busy().spare("w-2", "pve1"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := lookedAt(t, withSpares(t, 2), busy().spare("w-2", "pve1"))
			expect(t, decide(t, p, c.world.at(10*time.Second)), c.want, "PoolPaused")
		})
	}
}

// Nor because every host refuses them. Where a host makes some, they are ordered once there is no spare left.
func TestJointWakesSparesOfAPoolWhoseOrdersAreRefused(t *testing.T) {
	busy := func() *world {
		return aWorld().node("w-1", "pve1").pods(3, "a", "w-1", 600, 100).spare("w-2", "pve1").pods(3, "b", "", 1700, 100)
	}
	for _, c := range []struct {
		name  string
		world *world
		want  []string
	}{
		{"all refuse", busy().change(refuse("pve1", "pve2", "pve3")), []string{"Wake w-2"}},
		{"one does not", busy().change(refuse("pve1", "pve2")), []string{"Wake w-2", "Buy w small pve3", "Buy w small pve3"}},
		{"and the spare's is in maintenance", busy().change(refuse("pve2")).change(func(w *world) { w.Pools[0].Maintenance = []string{"pve1"} }),
			[]string{"Buy w small pve3", "Buy w small pve3", "Buy w small pve3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := lookedAt(t, withSpares(t, 2), aWorld().node("w-1", "pve1").pods(3, "a", "w-1", 600, 100).spare("w-2", "pve1"))
			expect(t, decide(t, p, c.world.at(10*time.Second)), c.want)
		})
	}
}

// One that was to be woken and does not stir must not keep an order from being made.
func TestJointOrdersWhereASpareDoesNotStir(t *testing.T) {
	w := aWorld().node("w-1", "pve1").pods(3, "a", "w-1", 600, 100).spare("w-2", "pve1").pod("b", "", 600, 100)
	p := withSpares(t, 1)
	expect(t, decide(t, p, w.at(0)), []string{"Wake w-2"}, nodescaler.SpareWoken)
	expect(t, decide(t, p, w.at(10*time.Second)), []string{"Buy w small pve2"})
	w.Machines[1].Phase, w.Machines[1].Woken = nodescaler.Booting, noon
	if got := lines(decide(t, p, w.at(time.Minute))); len(got) > 0 {
		t.Errorf("while it boots: %v", got)
	}
	expect(t, decide(t, p, w.at(wakeWithin+time.Second)), []string{"Buy w small pve2"})
}

func TestJointStashesWhatItWouldGiveBack(t *testing.T) {
	for _, c := range []struct {
		name  string
		most  int
		world *world
		want  string
	}{
		{"where a spare is wanting", 1, aWorld(), "Stash w-2"},
		{"but not beyond what may be", 1, aWorld().spare("w-9", "pve1"), "Return w-2"},
		{"nor without any", 0, aWorld(), "Return w-2"},
		{"nor one that drifted", 1, aWorld().change(func(w *world) {}), "Return w-2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := c.world.node("w-1", "pve1").node("w-2", "pve2").pods(2, "a", "w-1", 600, 100)
			if strings.Contains(c.name, "drifted") {
				drifted(&w.Machines[len(w.Machines)-1])
			}
			p := lookedAt(t, withSpares(t, c.most), w)
			at, done := time.Duration(0), ""
			for done == "" && at < 20*time.Minute {
				at += 10 * time.Second
				plan := decide(t, p, w.at(at))
				for _, l := range lines(plan) {
					if strings.HasSuffix(l, " w-2") && !strings.HasPrefix(l, "Cordon") {
						done = l
					}
				}
				w.obey(plan)
			}
			if done != c.want {
				t.Errorf("w-2 came to %q, want %q", done, c.want)
			}
		})
	}
}

// One that is let be a machine while it is made was never stopped: when it joins, that tells nothing of how long
// a spare takes, and those that there are stay.
func TestWhatWasNeverStoppedTellsNothingOfStarts(t *testing.T) {
	w := aWorld().node("w-1", "pve1").pods(3, "a", "w-1", 600, 100).spare("w-2", "pve2", func(m *nodescaler.Machine) { m.Shape = large })
	w.Pools[0].Shapes = append(w.Pools[0].Shapes, large)
	w.machine("w-3", "pve3", nodescaler.Booting, func(m *nodescaler.Machine) { m.Keep = true })
	p := withSpares(t, 1).(*joint)
	w.pod("b", "", 600, 100)
	if plan := decide(t, p, w.at(0)); !slices.Contains(lines(plan), "Wake w-3") {
		t.Fatalf("it is not woken: %v", lines(plan))
	}
	joined := &w.Machines[2]
	joined.Phase, joined.Keep, joined.Since = nodescaler.Joined, false, noon.Add(time.Minute)
	decide(t, p, w.at(2*time.Minute))
	if got := p.planner.keep.start(); got != spareStart {
		t.Errorf("a spare is taken to need %s to start, want %s", got, spareStart)
	}
}

// A machine goes sooner for what it saves to have it back. One that will be no spare is not to be had back.
func TestOnlyWhatWillBeASpareGoesSooner(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*nodescaler.Machine, *nodescaler.Node)
		want   time.Duration
	}{
		{"a spare like any", func(*nodescaler.Machine, *nodescaler.Node) {}, 40 * time.Second},
		{"one of a shape of which none is kept", func(m *nodescaler.Machine, _ *nodescaler.Node) { m.Shape = large }, 190 * time.Second},
		{"one that drifted", func(m *nodescaler.Machine, _ *nodescaler.Node) { drifted(m) }, 190 * time.Second},
		{"one whose node is not ready", func(_ *nodescaler.Machine, n *nodescaler.Node) { n.Ready = false }, 20*time.Minute + 10*time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := aWorld().node("w-1", "pve1").node("w-2", "pve2").pods(2, "a", "w-1", 600, 100).pods(1, "b", "w-2", 100, 100)
			w.Pools[0].Shapes = append(w.Pools[0].Shapes, large)
			c.change(&w.Machines[1], &w.Nodes[1])
			p := withSpares(t, 1).(*joint)
			p.planner.rules.ScaleDownDelayAfterFailure = 0 // which counts from the start, too
			var got time.Duration
			for at := time.Duration(0); got == 0 && at < 30*time.Minute; at += 10 * time.Second {
				if slices.Contains(lines(decide(t, p, w.at(at))), "Cordon w-2") {
					got = at
				}
			}
			if got != c.want {
				t.Errorf("it is emptied after %s, want %s", got, c.want)
			}
		})
	}
}

func TestJointMakesSparesWhenNobodyWaits(t *testing.T) {
	w := aWorld().node("w-1", "pve1").pods(3, "a", "w-1", 600, 100)
	p := lookedAt(t, withSpares(t, 2), w)
	expect(t, decide(t, p, w.at(time.Minute)), []string{"Buy w small pve2 to keep"}, nodescaler.SpareOrdered, nodescaler.SparesPay)
	w.node("w-2", "pve2").Machines[1].Keep = true
	plan := decide(t, p, w.at(2*time.Minute))
	expect(t, plan, []string{"Cordon w-2", "Buy w small pve3 to keep"}, nodescaler.SpareMade)
	w.obey(plan)
	if got := lines(decide(t, p, w.at(2*time.Minute+time.Second))); slices.Contains(got, "Stash w-2") {
		t.Errorf("it is stopped a second after its node was closed: %v", got)
	}
	expect(t, decide(t, p, w.at(5*time.Minute)), []string{"Stash w-2", "Buy w small pve3 to keep"}, nodescaler.SpareMade)
}

// A machine that was to become a spare and never is a node that is ready is not paid for for ever.
func TestJointGivesUpSparesThatDoNotCome(t *testing.T) {
	for _, c := range []struct {
		name  string
		world *world
		want  [][]string // at the first look too late, and at the next
	}{
		{"it boots and boots", aWorld().machine("w-2", "pve2", nodescaler.Booting), [][]string{{"Return w-2"}, nil}},
		{"its node was removed", aWorld().machine("w-2", "pve2", nodescaler.Joined), [][]string{{"Return w-2"}, nil}},
		{"its node is never ready", aWorld().node("w-2", "pve2", notReady), [][]string{{"Cordon w-2"}, {"Return w-2"}}},
		{"its host is away", aWorld().machine("w-2", "pve2", nodescaler.Booting).change(func(w *world) { w.Hosts[1].Online = false }), [][]string{nil, nil}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := c.world
			w.Machines[0].Keep = true
			w.node("w-1", "pve1").pods(3, "a", "w-1", 600, 100)
			p := lookedAt(t, withSpares(t, 1), w)
			expect(t, decide(t, p, w.at(time.Minute)), nil)
			expect(t, decide(t, p, w.at(16*time.Minute)), nil)
			for i, want := range c.want {
				plan := decide(t, p, w.at(17*time.Minute+time.Duration(i)*time.Second))
				got := slices.DeleteFunc(lines(plan), func(l string) bool { return strings.HasSuffix(l, "to keep") })
				if i == 0 || len(want) > 0 {
					if d := cmp.Diff(want, got); len(want)+len(got) > 0 && d != "" {
						t.Errorf("at look %d (-want +got):\n%s%s", i, d, tell(plan))
					}
				}
				w.obey(plan)
			}
		})
	}
}

// A pod may be on its way to a node while that is being closed: it is there at the next look, and is not stopped
// with the machine.
func TestJointStopsNoSpareThatAPodHasComeTo(t *testing.T) {
	w := aWorld().node("w-1", "pve1").pods(3, "a", "w-1", 600, 100).node("w-2", "pve2")
	w.Machines[1].Keep = true
	p := lookedAt(t, withSpares(t, 1), w)
	plan := decide(t, p, w.at(time.Minute))
	expect(t, plan, []string{"Cordon w-2"})
	w.obey(plan)
	w.Pods[0].Node = "w-2"
	plan = decide(t, p, w.at(2*time.Minute))
	expect(t, plan, []string{"Wake w-2"}, nodescaler.SpareTaken)
	w.obey(plan)
	w.Nodes[1].Cordoned, w.Nodes[1].Draining = false, false
	expect(t, decide(t, p, w.at(3*time.Minute)), []string{"Buy w small pve3 to keep"})
}

func TestJointReplacesASpareThatDrifted(t *testing.T) {
	w := aWorld().node("w-1", "pve1").pods(3, "a", "w-1", 600, 100).spare("w-2", "pve2", drifted)
	p := lookedAt(t, withSpares(t, 1), w)
	expect(t, decide(t, p, w.at(time.Minute)), []string{"Return w-2", "Buy w small pve2 to keep"}, nodescaler.SpareDrifted)
}

// The k-th spare is kept for as long as what it would have saved is worth its disk, and what is not known of
// the day is taken for a burst.
func TestAsManySparesAsPay(t *testing.T) {
	small20 := func() *world {
		return aWorld().node("w-1", "pve1").pods(3, "a", "w-1", 600, 100).spare("w-2", "pve2").spare("w-3", "pve3")
	}
	// A machine costs 6.3/h. Of 3 minutes a spare saves 2.5, worth 75 minutes at 30 times its price: 7.9 a day;
	// a disk of 20 GB costs 9.6 a day at .02 per GB and 4.8 at .01.
	for _, c := range []struct {
		name  string
		world *world
		after time.Duration
		want  string
	}{
		{"at first a burst is expected", small20().dear(pricing.Unit / 100), time.Minute, "2 spares of pool w pay, as many as may be"},
		{"that is worth a disk for half a day", small20().dear(pricing.Unit / 100), 10 * time.Hour, "0 spares of pool w pay"},
		{"and not one that is dearer", small20().dear(pricing.Unit / 50), time.Minute, "0 spares of pool w pay"},
		{"disks that cost nothing always are", small20().dear(0), 48 * time.Hour, "2 spares of pool w pay, as many as may be"},
		{"a limit is left to machines", small20().dear(pricing.Unit / 100).change(func(w *world) { w.Limit = 2 * w.Prices.Rate(w.Pools[0].Shapes[0], "", noon) }), time.Minute, "1 spare of pool w may be: with one more, the hard limit of"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := lookedAt(t, withSpares(t, 2), c.world)
			plan := decide(t, p, c.world.at(c.after))
			i := slices.IndexFunc(plan.Reasons, func(r nodescaler.Reason) bool { return r.Code == nodescaler.SparesPay })
			if i < 0 || !strings.HasPrefix(plan.Reasons[i].Text, c.want) {
				t.Errorf("want %q in:%s", c.want, tell(plan))
			}
			if strings.HasPrefix(c.want, "2") == slices.Contains(lines(plan), "Return w-3") {
				t.Errorf("one is given back or not: %v", lines(plan))
			}
		})
	}
}

// What was waited for speaks for spares: the first order of a burst for one, the second for another.
func TestOrdersThatPodsWaitedForKeepSpares(t *testing.T) {
	w := aWorld().dear(pricing.Unit / 100)
	p := withSpares(t, 3).(*joint)
	at := time.Duration(0)
	for range 3 { // a day apart from the start, so that nothing is assumed any more
		at += 30 * time.Hour
		s := w.at(at)
		s.Pods = (&world{}).pods(2, "b", "", 1700, 100).Pods
		plan := decide(t, p, s)
		if len(plan.Actions) < 2 {
			t.Fatalf("two machines are not ordered: %v", lines(plan))
		}
		came := w.at(at + 10*time.Second)
		for _, a := range plan.Actions[:2] {
			came.Machines = append(came.Machines, nodescaler.Machine{
				Name: a.Order, Order: a.Order, Pool: "w", Shape: *a.Shape, Host: a.Host, Phase: nodescaler.Ordered, Created: s.Now, Since: s.Now,
			})
		}
		decide(t, p, came)
	}
	for n, want := range map[int]float64{1: 1, 2: 1, 3: 0} {
		if got := p.planner.keep.saved("w", n, noon.Add(at+time.Minute)); got != want {
			t.Errorf("a %s spare would have been woken %g times in the last day, want %g", ordinal(n), got, want)
		}
	}
}

func TestAPoolWithoutShapesHasNoSpares(t *testing.T) {
	w := aWorld().node("w-1", "pve1").spare("w-2", "pve2")
	w.Pools[0].Shapes = nil
	p := lookedAt(t, withSpares(t, 2), w)
	plan := decide(t, p, w.at(time.Minute))
	if !slices.Contains(lines(plan), "Return w-2") {
		t.Errorf("its spare is kept: %v%s", lines(plan), tell(plan))
	}
}

func TestSparesAreValidated(t *testing.T) {
	for _, c := range []struct{ most, worth, want string }{
		{"-1", "30", "joint.spares.most: must be 0 or more, was -1"},
		{"1", "0", "joint.spares.worth: must be above 0 and at most 1000000, was 0"},
	} {
		var j Joint
		if err := j.UnmarshalJSON([]byte(`{"spares": {"most": ` + c.most + `, "worth": ` + c.worth + `}}`)); err != nil {
			t.Fatal(err)
		}
		if _, err := New(Spec{Policy: "joint", Joint: &j}); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	var j Joint
	if err := j.UnmarshalJSON([]byte(`{"spares": {"most": 2}}`)); err != nil || j.Spares != (Spared{2, 30}) {
		t.Errorf("%+v, %v", j.Spares, err)
	}
	if err := j.UnmarshalJSON([]byte(`{"spares": {"least": 2}}`)); err == nil {
		t.Error("a key that is none is accepted")
	}
}

func TestPoliciesThatKeepNoSparesLetThemGo(t *testing.T) {
	for _, name := range []string{"unneeded", "pending"} {
		w := aWorld().node("w-1", "pve1").pods(1, "a", "w-1", 600, 100).
			spare("w-2", "pve2").spare("w-3", "pve1").spare("w-4", "pve3").
			machine("w-5", "pve1", nodescaler.Booting, func(m *nodescaler.Machine) { m.Keep = true })
		w.Pools[0].Min = 1
		w.Hosts[2].Online = false // what is there cannot be told to go
		p := lookedAt(t, build(t, Spec{Policy: name}), w)
		expect(t, decide(t, p, w.at(time.Minute)), []string{"Return w-2", "Wake w-5"}, nodescaler.SpareUnneeded)
	}
}

// A spare that was woken is replaced once the one that is missing would have been needed often enough: where
// the first of three always is, and there are two, the third is not missed.
func TestWhatIsMissedIsTheLastSpare(t *testing.T) {
	for _, c := range []struct {
		name  string
		stock int
		want  []string
	}{
		{"two of three are there", 2, nil},
		{"one of three is, and a second is needed as often", 1, []string{"Buy w small pve3 to keep"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := aWorld().node("w-1", "pve1").pods(3, "a", "w-1", 600, 100).node("w-2", "pve2").pods(3, "b", "w-2", 600, 100)
			w.Machines[1].Woken = noon.Add(-time.Hour)
			for i := range c.stock {
				w.spare("w-s"+string(rune('1'+i)), "pve1")
			}
			p := withSpares(t, 3).(*joint)
			lookedAt(t, p, w)
			p.planner.keep.started = noon.Add(-72 * time.Hour) // nothing is assumed any more
			for range 20 {
				p.planner.keep.uses = append(p.planner.keep.uses, use{at: noon.Add(-time.Hour), pool: "w", shape: small, rank: 1}, use{at: noon.Add(-time.Hour), pool: "w", shape: small, rank: 2})
			}
			expect(t, decide(t, p, w.at(time.Minute)), c.want)
		})
	}
}

// What would have saved something is remembered for a day, and what came of nothing for some
// minutes.
func TestWhatIsRememberedOfSpares(t *testing.T) {
	for _, c := range []struct {
		name               string
		use, wanted, tried time.Duration // before now
		uses, wants, tries int
	}{
		{name: "just now", uses: 1, wants: 1, tries: 1},
		{name: "at the end of their times", use: spareMemory, wanted: spareRest, tried: spareMemory, uses: 1, wants: 1, tries: 1},
		{name: "after a use's", use: spareMemory + 1, wants: 1, tries: 1},
		{name: "after an order's", wanted: spareRest + 1, uses: 1, tries: 1},
		{name: "after a wake's", tried: spareMemory + 1, uses: 1, wants: 1},
	} {
		k := newKeeper(Spared{Most: 1})
		k.uses = []use{{at: noon.Add(-c.use), pool: "w"}}
		k.wanted["a"], k.tried["w-1"] = noon.Add(-c.wanted), noon.Add(-c.tried)
		k.see(&aWorld().Snapshot, time.Minute)
		if len(k.uses) != c.uses || len(k.wanted) != c.wants || len(k.tried) != c.tries {
			t.Errorf("%s: %d uses, %d orders, %d wakes", c.name, len(k.uses), len(k.wanted), len(k.tried))
		}
		if !k.started.Equal(noon) {
			t.Errorf("%s: it started at %s", c.name, k.started)
		}
		if k.see(aWorld().at(time.Hour), time.Minute); !k.started.Equal(noon) {
			t.Errorf("%s: an hour later it started at %s", c.name, k.started)
		}
	}
}

// What came of an order that pods waited for, and of a spare that was to be woken.
func TestWhatComesOfOrdersThatPodsWaitFor(t *testing.T) {
	ago := func(d time.Duration) time.Time { return noon.Add(-d) }
	for _, c := range []struct {
		name          string
		phase         nodescaler.Phase
		keep          bool
		since, woken  time.Time
		uses          int
		wanted, tried bool // still
		starts        nodescaler.Recent
	}{
		{name: "it is ordered", phase: nodescaler.Ordered, since: ago(0), uses: 1, tried: true},
		{name: "it is to be a spare", phase: nodescaler.Ordered, keep: true, since: ago(0), wanted: true, tried: true},
		{name: "it has failed", phase: nodescaler.Failed, since: ago(0), wanted: true, tried: true},
		{name: "it is stopped still", phase: nodescaler.Spare, since: ago(0), wanted: true, tried: true},
		{name: "it was woken and is there", phase: nodescaler.Joined, since: ago(time.Second), woken: ago(21 * time.Second), uses: 1, starts: nodescaler.Recent{20 * time.Second}},
		{name: "it had joined before", phase: nodescaler.Joined, since: ago(time.Minute), woken: ago(2 * time.Minute), uses: 1, tried: true},
		{name: "it was let be a machine", phase: nodescaler.Joined, since: ago(time.Second), uses: 1},
	} {
		k := newKeeper(Spared{Most: 1})
		k.wanted["w-1"], k.tried["w-1"] = ago(time.Minute), ago(time.Minute)
		k.see(&aWorld().machine("w-1", "pve1", c.phase, func(m *nodescaler.Machine) {
			m.Keep, m.Since, m.Woken = c.keep, c.since, c.woken
		}).Snapshot, time.Minute)
		_, wanted := k.wanted["w-1"]
		_, tried := k.tried["w-1"]
		if len(k.uses) != c.uses || wanted != c.wanted || tried != c.tried || !slices.Equal(k.starts, c.starts) {
			t.Errorf("%s: %d uses, wanted %t, tried %t, starts %v", c.name, len(k.uses), wanted, tried, k.starts)
		}
	}
}

// An order comes after those of its pool that were made within the time that one takes.
func TestTheRankOfAnOrderInItsBurst(t *testing.T) {
	for _, c := range []struct {
		pool string
		ago  time.Duration
		want int
	}{{"w", 0, 2}, {"w", time.Minute - 1, 2}, {"w", time.Minute, 1}, {"x", 0, 1}} {
		k := newKeeper(Spared{Most: 1})
		k.lead, k.uses = time.Minute, []use{{at: noon.Add(-c.ago), pool: c.pool}}
		if got := k.rank("w", noon); got != c.want {
			t.Errorf("after one of %s %s ago: %d, want %d", c.pool, c.ago, got, c.want)
		}
	}
}

func TestNumbersOfSparesInWords(t *testing.T) {
	for n, want := range map[int]string{1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 12: "12th", 13: "13th", 21: "21st", 22: "22nd", 23: "23rd", 111: "111th"} {
		if got := ordinal(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}
