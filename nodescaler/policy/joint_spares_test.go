package policy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/planner"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// withSpares is joint with so many spares at most.
func withSpares(t *testing.T, most int) nodescaler.Policy {
	t.Helper()
	c := DefaultJoint()
	c.Spares.Most = most
	return build(t, Spec{Policy: "joint", Joint: &c})
}

// canaries has the first pool's rollout watch its canary, which is there.
func canaries(w *sample.World) {
	replaces()(w)
	w.Pools[0].Disruption.Rollout = &nodescaler.Rollout{Canary: nodescaler.Canary{Machines: 1, For: nodescaler.Duration(time.Hour)}}
	w.Pools[0].Rolling.Now = nodescaler.Rolled{Phase: nodescaler.PhaseCanary, Why: nodescaler.Reason{Code: nodescaler.RolloutCanary, Text: "1 must work for 1h"}}
}

func TestJointWakesASpareWhereItWouldBuy(t *testing.T) {
	full := func() *sample.World { return sample.New().Node("w-1", "pve1").Several(3, "a", "w-1", 600, 100) }
	ahead := func(w *sample.World) {
		w.Future = []nodescaler.Future{{Like: nodescaler.Pod{Workload: "ns/app", Requests: pricing.Resources{CPU: 600}}, Ahead: 2}}
	}
	crowd := func(w *sample.World) {
		for i := range w.Hosts {
			w.Hosts[i].Room = sample.Small.Resources()
		}
		w.Machine("x", "pve2", nodescaler.Joined)
		w.Machine("y", "pve3", nodescaler.Joined)
	}
	for _, c := range []struct {
		name  string
		world *sample.World
		want  []string
	}{
		{"a spare comes first", full().Spare("w-2", "pve1").Pod("b", "", 600, 100), []string{"Wake w-2"}},
		{"and an order for what it does not hold", full().Spare("w-2", "pve1").Several(4, "b", "", 600, 100), []string{"Wake w-2", "Buy w small pve2"}},
		{"for what is expected, too", full().Spare("w-2", "pve1").Change(ahead), []string{"Wake w-2"}},
		{"the one on the host with most memory left", full().Spare("w-2", "pve1").Spare("w-3", "pve3").Pod("b", "", 600, 100), []string{"Wake w-3"}},
		{"one that drifted is, too", full().Spare("w-2", "pve1", sample.Drifted).Pod("b", "", 600, 100), []string{"Wake w-2"}},
		{"but not one that is to be replaced", full().Spare("w-2", "pve1", sample.Drifted).Change(replaces()).Pod("b", "", 600, 100), []string{"Buy w small pve2"}},
		{"unless a canary is watched", full().Spare("w-2", "pve1", sample.Drifted).Change(canaries).Pod("b", "", 600, 100), []string{"Wake w-2"}},
		{"and then for pods alone that wait", full().Spare("w-2", "pve1", sample.Drifted).Change(canaries).Change(ahead), []string{"Buy w small pve2"}},
		{"nor one that could not be started", full().Spare("w-2", "pve1", func(m *nodescaler.Machine) { m.Problem = "NoMemory" }).Pod("b", "", 600, 100), []string{"Buy w small pve2"}},
		{"nor one of another shape", full().Spare("w-2", "pve1", func(m *nodescaler.Machine) { m.Shape = sample.Large }).Pod("b", "", 600, 100), []string{"Buy w small pve2"}},
		{"nor one whose host is away", full().Spare("w-2", "pve3").Pod("b", "", 600, 100).Change(func(w *sample.World) { w.Hosts[2].Online = false }), []string{"Buy w small pve2"}},
		{"nor one whose host is full", full().Spare("w-2", "pve2").Pod("b", "", 600, 100).Change(crowd), nil},
		{"one in the making is let be a machine", full().Machine("w-2", "pve1", nodescaler.Booting, func(m *nodescaler.Machine) { m.Keep = true }).Pod("b", "", 600, 100), []string{"Wake w-2"}},
		{"in a pool that is full of spares", full().Spare("w-2", "pve1").Pod("b", "", 600, 100).Change(func(w *sample.World) { w.Pools[0].Max = 2 }), []string{"Wake w-2"}},
		{
			"in the zone of a pool that is full of spares", sample.Zoned("a").Spare("w-2", "pve1").In("a").Waiting(1, sample.SpreadBy(sample.Zone, 0)).
				Change(func(w *sample.World) { w.Pools[0].Max = 1 }), []string{"Wake w-2"},
		},
		{
			"whose node counts as one without pods", full().Spare("w-2", "pve1").Change(func(w *sample.World) { w.Pods = w.Pods[:0] }).
				Pod("x", "w-1", 100, 100, sample.SpreadBy(nodescaler.HostLabel, 1)).Waiting(1, sample.SpreadBy(nodescaler.HostLabel, 1)), []string{"Wake w-2"},
		},
		{"to make up the pool's minimum", full().Spare("w-2", "pve1").Change(func(w *sample.World) { w.Pools[0].Min = 2 }), []string{"Wake w-2"}},
		{"but not while one is being woken that will do", full().Machine("w-2", "pve1", nodescaler.Booting, func(m *nodescaler.Machine) { m.Woken = sample.Noon }).Spare("w-3", "pve2").Pod("b", "", 600, 100), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := withSpares(t, 3)
			got := sample.Lines(sample.Decide(t, p, c.world.At(0)))
			got = slices.DeleteFunc(got, func(l string) bool { return strings.HasSuffix(l, "to keep") })
			if d := cmp.Diff(c.want, got); len(c.want)+len(got) > 0 && d != "" {
				t.Errorf("actions (-want +got):\n%s", d)
			}
		})
	}
}

// What has been made before need not be made again: spares are in where machines fail to be made.
func TestJointWakesSparesOfAPoolThatIsLeftAlone(t *testing.T) {
	for _, c := range []struct {
		name  string
		world *sample.World
		want  []string
	}{
		{"for pods that wait", sample.New().Spare("w-2", "pve1").Several(4, "b", "", 600, 100), []string{"Return w-1", "Wake w-2"}},
		{"not one of another shape", sample.New().Spare("w-2", "pve1", func(m *nodescaler.Machine) { m.Shape = sample.Large }).Pod("b", "", 600, 100), []string{"Return w-1"}},
		{"for the pool's minimum, and orders none", sample.New().Spare("w-2", "pve1").Change(func(w *sample.World) { w.Pools[0].Min = 2 }), []string{"Return w-1", "Wake w-2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := sample.LookedAt(t, withSpares(t, 1), sample.New().Spare("w-2", "pve1"))
			w := c.world.Machine("w-1", "pve2", nodescaler.Failed)
			sample.Expect(t, sample.Decide(t, p, w.At(10*time.Second)), c.want, nodescaler.PoolBackingOff)
		})
	}
}

// Nor do spares go because their pool makes no machines: neither to make way for one, nor for want
// of another.
func TestJointWakesSparesOfAPoolThatMakesNone(t *testing.T) {
	busy := func() *sample.World {
		return sample.New().Node("w-1", "pve1").Several(3, "a", "w-1", 600, 100).Change(sample.Shut)
	}
	for _, c := range []struct {
		name  string
		world *sample.World
		want  []string
	}{
		{"for pods that wait", busy().Spare("w-2", "pve1").Pod("b", "", 600, 100), []string{"Wake w-2"}},
		{"as many as there are", busy().Spare("w-2", "pve1").Several(8, "b", "", 600, 100), []string{"Wake w-2"}},
		{"for the pool's minimum", busy().Spare("w-2", "pve1").Change(func(w *sample.World) { w.Pools[0].Min = 3 }), []string{"Wake w-2"}},
		{"where the pool has as many as it may", busy().Spare("w-2", "pve1").Pod("b", "", 600, 100).Change(func(w *sample.World) { w.Pools[0].Max = 2 }), []string{"Wake w-2"}},
		{"none makes way for a machine that is not made", busy().Spare("w-2", "pve1").Pod("b", "", 3000, 100).Change(func(w *sample.World) {
			w.Pools[0].Max, w.Pools[0].Shapes = 2, append(w.Pools[0].Shapes, sample.Large)
		}), nil},
		{"none is made", busy().Spare("w-2", "pve1"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := sample.LookedAt(t, withSpares(t, 2), busy().Spare("w-2", "pve1"))
			sample.Expect(t, sample.Decide(t, p, c.world.At(10*time.Second)), c.want, "PoolPaused")
		})
	}
}

// Nor because every host refuses them. Where a host makes some, they are ordered once there is no
// spare left.
func TestJointWakesSparesOfAPoolWhoseOrdersAreRefused(t *testing.T) {
	busy := func() *sample.World {
		return sample.New().Node("w-1", "pve1").Several(3, "a", "w-1", 600, 100).Spare("w-2", "pve1").Several(3, "b", "", 1700, 100)
	}
	for _, c := range []struct {
		name  string
		world *sample.World
		want  []string
	}{
		{"all refuse", busy().Change(sample.Refuse("pve1", "pve2", "pve3")), []string{"Wake w-2"}},
		{"one does not", busy().Change(sample.Refuse("pve1", "pve2")), []string{"Wake w-2", "Buy w small pve3", "Buy w small pve3"}},
		{"and the spare's is in maintenance", busy().Change(sample.Refuse("pve2")).Change(func(w *sample.World) { w.Pools[0].Maintenance = []string{"pve1"} }),
			[]string{"Buy w small pve3", "Buy w small pve3", "Buy w small pve3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := sample.LookedAt(t, withSpares(t, 2), sample.New().Node("w-1", "pve1").Several(3, "a", "w-1", 600, 100).Spare("w-2", "pve1"))
			sample.Expect(t, sample.Decide(t, p, c.world.At(10*time.Second)), c.want)
		})
	}
}

// One that was to be woken and does not stir must not keep an order from being made.
func TestJointOrdersWhereASpareDoesNotStir(t *testing.T) {
	w := sample.New().Node("w-1", "pve1").Several(3, "a", "w-1", 600, 100).Spare("w-2", "pve1").Pod("b", "", 600, 100)
	p := withSpares(t, 1)
	sample.Expect(t, sample.Decide(t, p, w.At(0)), []string{"Wake w-2"}, nodescaler.SpareWoken)
	sample.Expect(t, sample.Decide(t, p, w.At(10*time.Second)), []string{"Buy w small pve2"})
	w.Machines[1].Phase, w.Machines[1].Woken = nodescaler.Booting, sample.Noon
	if got := sample.Lines(sample.Decide(t, p, w.At(time.Minute))); len(got) > 0 {
		t.Errorf("while it boots: %v", got)
	}
	sample.Expect(t, sample.Decide(t, p, w.At(2*time.Minute+time.Second)), []string{"Buy w small pve2"})
}

func TestJointStashesWhatItWouldGiveBack(t *testing.T) {
	for _, c := range []struct {
		name  string
		most  int
		world *sample.World
		want  string
	}{
		{"where a spare is wanting", 1, sample.New(), "Stash w-2"},
		{"but not beyond what may be", 1, sample.New().Spare("w-9", "pve1"), "Return w-2"},
		{"nor without any", 0, sample.New(), "Return w-2"},
		{"nor one that drifted", 1, sample.New().Change(func(w *sample.World) {}), "Return w-2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := c.world.Node("w-1", "pve1").Node("w-2", "pve2").Several(2, "a", "w-1", 600, 100)
			if strings.Contains(c.name, "drifted") {
				sample.Drifted(&w.Machines[len(w.Machines)-1])
			}
			p := sample.LookedAt(t, withSpares(t, c.most), w)
			at, done := time.Duration(0), ""
			for done == "" && at < 20*time.Minute {
				at += 10 * time.Second
				plan := sample.Decide(t, p, w.At(at))
				for _, l := range sample.Lines(plan) {
					if strings.HasSuffix(l, " w-2") && !strings.HasPrefix(l, "Cordon") {
						done = l
					}
				}
				obey(w, plan)
			}
			if done != c.want {
				t.Errorf("w-2 came to %q, want %q", done, c.want)
			}
		})
	}
}

func TestJointMakesSparesWhenNobodyWaits(t *testing.T) {
	w := sample.New().Node("w-1", "pve1").Several(3, "a", "w-1", 600, 100)
	p := sample.LookedAt(t, withSpares(t, 2), w)
	sample.Expect(t, sample.Decide(t, p, w.At(time.Minute)), []string{"Buy w small pve2 to keep"}, nodescaler.SpareOrdered, nodescaler.SparesPay)
	w.Node("w-2", "pve2").Machines[1].Keep = true
	plan := sample.Decide(t, p, w.At(2*time.Minute))
	sample.Expect(t, plan, []string{"Cordon w-2", "Buy w small pve3 to keep"}, nodescaler.SpareMade)
	obey(w, plan)
	if got := sample.Lines(sample.Decide(t, p, w.At(2*time.Minute+time.Second))); slices.Contains(got, "Stash w-2") {
		t.Errorf("it is stopped a second after its node was closed: %v", got)
	}
	sample.Expect(t, sample.Decide(t, p, w.At(5*time.Minute)), []string{"Stash w-2", "Buy w small pve3 to keep"}, nodescaler.SpareMade)
}

// A machine that was to become a spare and never is a node that is ready is not paid for for ever.
func TestJointGivesUpSparesThatDoNotCome(t *testing.T) {
	for _, c := range []struct {
		name  string
		world *sample.World
		want  [][]string // at the first look too late, and at the next
	}{
		{"it boots and boots", sample.New().Machine("w-2", "pve2", nodescaler.Booting), [][]string{{"Return w-2"}, nil}},
		{"its node was removed", sample.New().Machine("w-2", "pve2", nodescaler.Joined), [][]string{{"Return w-2"}, nil}},
		{"its node is never ready", sample.New().Node("w-2", "pve2", sample.NotReady), [][]string{{"Cordon w-2"}, {"Return w-2"}}},
		{"its host is away", sample.New().Machine("w-2", "pve2", nodescaler.Booting).Change(func(w *sample.World) { w.Hosts[1].Online = false }), [][]string{nil, nil}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := c.world
			w.Machines[0].Keep = true
			w.Node("w-1", "pve1").Several(3, "a", "w-1", 600, 100)
			p := sample.LookedAt(t, withSpares(t, 1), w)
			sample.Expect(t, sample.Decide(t, p, w.At(time.Minute)), nil)
			sample.Expect(t, sample.Decide(t, p, w.At(16*time.Minute)), nil)
			for i, want := range c.want {
				plan := sample.Decide(t, p, w.At(17*time.Minute+time.Duration(i)*time.Second))
				got := slices.DeleteFunc(sample.Lines(plan), func(l string) bool { return strings.HasSuffix(l, "to keep") })
				if i == 0 || len(want) > 0 {
					if d := cmp.Diff(want, got); len(want)+len(got) > 0 && d != "" {
						t.Errorf("at look %d (-want +got):\n%s%s", i, d, sample.Reasons(plan))
					}
				}
				obey(w, plan)
			}
		})
	}
}

// A pod may be on its way to a node while that is being closed: it is there at the next look, and
// is not stopped with the machine.
func TestJointStopsNoSpareThatAPodHasComeTo(t *testing.T) {
	w := sample.New().Node("w-1", "pve1").Several(3, "a", "w-1", 600, 100).Node("w-2", "pve2")
	w.Machines[1].Keep = true
	p := sample.LookedAt(t, withSpares(t, 1), w)
	plan := sample.Decide(t, p, w.At(time.Minute))
	sample.Expect(t, plan, []string{"Cordon w-2"})
	obey(w, plan)
	w.Pods[0].Node = "w-2"
	plan = sample.Decide(t, p, w.At(2*time.Minute))
	sample.Expect(t, plan, []string{"Wake w-2"}, nodescaler.SpareTaken)
	obey(w, plan)
	w.Nodes[1].Cordoned, w.Nodes[1].Draining = false, false
	sample.Expect(t, sample.Decide(t, p, w.At(3*time.Minute)), []string{"Buy w small pve3 to keep"})
}

// A spare that drifted goes where its pool replaces what drifted, and not before another is stopped
// in its place.
func TestJointReplacesASpareThatDrifted(t *testing.T) {
	paused := func(w *sample.World) {
		canaries(w)
		w.Pools[0].Rolling.Now.Phase = nodescaler.PhasePaused
	}
	most := func(n int) func(*sample.World) { return func(w *sample.World) { w.Pools[0].Max = n } }
	two := func() *sample.World {
		w := sample.New().Node("w-1", "pve1").Several(3, "a", "w-1", 600, 100)
		return w.Spare("w-2", "pve2", sample.Drifted).Spare("w-3", "pve3", sample.Drifted)
	}
	making := func(m *nodescaler.Machine) { m.Keep = true }
	for _, c := range []struct {
		name  string
		world *sample.World
		want  []string
	}{
		{"drift is Keep", two(), nil},
		{"another is made first", two().Change(replaces()), []string{"Buy w small pve2 to keep"}},
		{"it is waited for, and one is made at a time", two().Change(replaces()).Machine("w-4", "pve3", nodescaler.Booting, making), nil},
		{"one goes once it is stopped", two().Change(replaces()).Spare("w-4", "pve3"), []string{"Return w-2", "Buy w small pve2 to keep"}},
		{"all new ones are", sample.New().Node("w-1", "pve1").Several(3, "a", "w-1", 600, 100).Spare("w-3", "pve3", sample.Drifted).Change(replaces()).Spare("w-4", "pve3").Spare("w-5", "pve3"), []string{"Return w-3"}},
		{"at the maximum one leaves its place", two().Change(replaces()).Change(most(3)), []string{"Return w-2"}},
		{"which the new one has", two().Change(replaces()).Change(most(3)).Machine("w-4", "pve3", nodescaler.Booting, making), nil},
		{"a canary is watched", two().Change(canaries), nil},
		{"the rollout is paused", two().Change(paused), nil},
		{"the pool makes no machines", two().Change(replaces()).Change(sample.Shut), nil},
		{"none is made on any host", two().Change(replaces()).Change(sample.Refuse("pve1", "pve2", "pve3")), nil},
		{"nor at the maximum", two().Change(replaces()).Change(most(3)).Change(sample.Refuse("pve1", "pve2", "pve3")), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := sample.LookedAt(t, withSpares(t, 2), c.world)
			sample.Expect(t, sample.Decide(t, p, c.world.At(time.Minute)), c.want)
		})
	}
}

// The k-th spare is kept for as long as what it would have saved is worth its disk, and what is not
// known of the day is taken for a burst.
func TestAsManySparesAsPay(t *testing.T) {
	small20 := func() *sample.World {
		return sample.New().Node("w-1", "pve1").Several(3, "a", "w-1", 600, 100).Spare("w-2", "pve2").Spare("w-3", "pve3")
	}
	// A machine costs 6.3/h. Of 3 minutes a spare saves 2.5, worth 75 minutes at 30 times its
	// price: 7.9 a day; a disk of 20 GB costs 9.6 a day at .02 per GB and 4.8 at .01.
	for _, c := range []struct {
		name  string
		world *sample.World
		after time.Duration
		want  string
	}{
		{"at first a burst is expected", small20().Dear(pricing.Unit / 100), time.Minute, "pool w is to keep 2 spares, the most that it may: the 2nd would save"},
		{"that is worth a disk for half a day", small20().Dear(pricing.Unit / 100), 10 * time.Hour, "pool w is to keep no spare: the 1st would save"},
		{"and not one that is dearer", small20().Dear(pricing.Unit / 50), time.Minute, "pool w is to keep no spare: the 1st would save"},
		{"disks that cost nothing always are", small20().Dear(0), 48 * time.Hour, "pool w is to keep 2 spares, the most that it may"},
		{"a limit is left to machines", small20().Dear(pricing.Unit / 100).Change(func(w *sample.World) { w.Limit = 2 * w.Prices.Rate(w.Pools[0].Shapes[0], "", sample.Noon) }), time.Minute, "pool w may have 1 spare: with one more, the hard limit of"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := sample.LookedAt(t, withSpares(t, 2), c.world)
			plan := sample.Decide(t, p, c.world.At(c.after))
			i := slices.IndexFunc(plan.Reasons, func(r nodescaler.Reason) bool { return r.Code == nodescaler.SparesPay })
			if i < 0 || !strings.HasPrefix(plan.Reasons[i].Text, c.want) {
				t.Errorf("want %q in:%s", c.want, sample.Reasons(plan))
			}
			if strings.Contains(c.want, " 2 spares") == slices.Contains(sample.Lines(plan), "Return w-3") {
				t.Errorf("one is reclaimed or not: %v", sample.Lines(plan))
			}
		})
	}
}

func TestAPoolWithoutShapesHasNoSpares(t *testing.T) {
	w := sample.New().Node("w-1", "pve1").Spare("w-2", "pve2")
	w.Pools[0].Shapes = nil
	p := sample.LookedAt(t, withSpares(t, 2), w)
	plan := sample.Decide(t, p, w.At(time.Minute))
	if !slices.Contains(sample.Lines(plan), "Return w-2") {
		t.Errorf("its spare is kept: %v%s", sample.Lines(plan), sample.Reasons(plan))
	}
}

func TestSparesAreValidated(t *testing.T) {
	for _, c := range []struct{ most, worth, want string }{
		{`0, "budgetPercent": 101`, "30", "joint.spares.budgetPercent: must be 0 to 100, was 101"},
		{"-1", "30", "joint.spares.most: must be 0 or more, was -1"},
		{"1", "0", "joint.spares.worth: must be above 0 and at most 1000000, was 0"},
	} {
		var j Joint
		must.Do(t, j.UnmarshalJSON([]byte(`{"spares": {"most": `+c.most+`, "worth": `+c.worth+`}}`)))
		if _, err := New(Spec{Policy: "joint", Joint: &j}); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	var j Joint
	if err := j.UnmarshalJSON([]byte(`{"spares": {"most": 2}}`)); err != nil || j.Spares != (planner.Spared{Most: 2, Worth: 30}) {
		t.Errorf("%+v, %v", j.Spares, err)
	}
	for _, bad := range []string{`{"spares": {"least": 2}}`, `{"spares": "many"}`} {
		if err := j.UnmarshalJSON([]byte(bad)); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
	if err := j.UnmarshalJSON([]byte(`{"spares": "auto"}`)); err != nil || j.Spares != (planner.Spared{BudgetPercent: 5, Worth: 30}) {
		t.Errorf("%+v, %v", j.Spares, err)
	}
}

func TestPoliciesThatKeepNoSparesLetThemGo(t *testing.T) {
	for _, name := range []string{"unneeded", "pending"} {
		w := sample.New().Node("w-1", "pve1").Several(1, "a", "w-1", 600, 100).
			Spare("w-2", "pve2").Spare("w-3", "pve1").Spare("w-4", "pve3").
			Machine("w-5", "pve1", nodescaler.Booting, func(m *nodescaler.Machine) { m.Keep = true })
		w.Pools[0].Min = 1
		w.Hosts[2].Online = false // its host takes no calls, so its machines cannot go
		p := sample.LookedAt(t, build(t, Spec{Policy: name}), w)
		sample.Expect(t, sample.Decide(t, p, w.At(time.Minute)), []string{"Return w-2", "Wake w-5"}, nodescaler.SpareUnneeded)
	}
}

// A spare is ordered only if it would save more than it costs, even where disks cost nothing.
func TestSparesThatWouldSaveNothingAreNotOrdered(t *testing.T) {
	busy := func() *sample.World { return sample.New().Node("w-1", "pve1").Several(3, "a", "w-1", 600, 100) }
	tainted := func(w *sample.World) { w.Pools[0].Taints = []nodescaler.Taint{{Key: "gpu", Effect: "NoSchedule"}} }
	tolerates := func(p *nodescaler.Pod) { p.Tolerations = []nodescaler.Toleration{{Key: "gpu"}} }
	for _, c := range []struct {
		name  string
		world *sample.World
		after time.Duration
		want  []string
	}{
		{"a wait is assumed", busy(), time.Minute, []string{"Buy w small pve2 to keep"}},
		{"a day passed without one", busy(), 48 * time.Hour, nil},
		{"those that are there stay", busy().Spare("w-2", "pve2"), 48 * time.Hour, nil},
		{"no pod could use the pool", busy().Change(tainted), time.Minute, nil},
		{"what is there of it stays", busy().Change(tainted).Spare("w-2", "pve2"), time.Minute, nil},
		{"a daemon is no such pod", busy().Change(tainted).Pod("d", "w-1", 10, 10, tolerates, sample.Daemon), time.Minute, nil},
		{"a pod could", busy().Change(tainted).Pod("b", "w-1", 10, 10, tolerates), time.Minute, []string{"Buy w small pve2 to keep"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := sample.LookedAt(t, withSpares(t, 2), c.world)
			sample.Expect(t, sample.Decide(t, p, c.world.At(c.after)), c.want)
		})
	}
}
