package policy

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/nodescaler/sample/life"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/packing"
)

// As the pool grows its spares are woken, so machines and spares are together what the limit allows
// machines.
func TestSparesAndMachinesAreWhatTheLimitAllows(t *testing.T) {
	for _, c := range []struct {
		name                  string
		limit, running, stock int
		want                  []string
	}{
		{"one of two runs, one spare stays", 2, 1, 2, []string{"Return w-s2"}},
		{"both run, none stays", 2, 2, 1, []string{"Return w-s1"}},
		{"three of four run, one stays", 4, 3, 1, nil},
		{"two of four run, two stay", 4, 2, 2, nil},
		{"and a third one does not, once two more may run", 4, 2, 3, []string{"Return w-s3"}},
		{"one of four runs, as many stay as are wanted", 4, 1, 3, nil},
		{"one is missing, and is made", 4, 2, 1, []string{"Buy w small pve3 to keep"}},
		{"where all run none is made", 4, 4, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := sample.Limited(c.limit)
			for i := range c.running {
				node := fmt.Sprintf("w-%d", i+1)
				w.Node(node, fmt.Sprintf("pve%d", i%2+1)).Several(3, node, node, 600, 100)
			}
			for i := range c.stock {
				w.Spare(fmt.Sprintf("w-s%d", i+1), "pve1")
			}
			p := sample.LookedAt(t, withSpares(t, 3), w.Disked())
			sample.Expect(t, sample.Decide(t, p, w.At(time.Minute)), c.want, nodescaler.SparesPay)
		})
	}
}

// The cheapest machines for all pods may be beyond the limit. Smaller ones that are not are ordered
// then.
func TestAtTheLimitSmallerMachinesAreOrdered(t *testing.T) {
	world := func() *sample.World {
		return sample.New().Change(func(w *sample.World) {
			w.Pools[0].Shapes = []pricing.Shape{sample.Small, sample.Large}
			for i := range w.Hosts {
				w.Hosts[i].Room = sample.Large.Resources()
			}
			for i := range 8 {
				w.Pod(fmt.Sprint(i), "", 950, 100, belongs("ns/web"))
			}
		})
	}
	large := world()
	sample.Expect(t, sample.Decide(t, withUnneeded(t, nil), &large.Snapshot), []string{"Buy w large pve1"})
	limited := world()
	limited.Limit = rate * 5 / 2
	plan := sample.Decide(t, withUnneeded(t, nil), &limited.Snapshot)
	sample.Expect(t, plan, []string{"Buy w small pve3", "Buy w small pve3"}, nodescaler.LimitReached)
	if len(plan.Unplaced) != 1 || plan.Unplaced[0].Count != 6 {
		t.Errorf("without a place: %+v, want 6 pods", plan.Unplaced)
	}
}

// What leaves is no machine any more: it may become a spare where all others run.
func TestAtTheLimitAMachineThatIsNotNeededBecomesASpare(t *testing.T) {
	w := sample.Limited(2).Node("w-1", "pve1").Node("w-2", "pve2").Several(2, "a", "w-1", 600, 100).Disked()
	p := sample.LookedAt(t, withSpares(t, 2), w)
	var done []string
	for at := 10 * time.Second; at < 20*time.Minute; at += 10 * time.Second {
		plan := sample.Decide(t, p, w.At(at))
		done = append(done, sample.Lines(plan)...)
		obey(w, plan)
	}
	if want := []string{"Cordon w-2", "Stash w-2"}; !slices.Equal(done, want) {
		t.Errorf("in 20 minutes %v is done, want %v", done, want)
	}
}

// A spare whose disk is in the way of another machine is reclaimed.
func TestSparesMakeWay(t *testing.T) {
	const second = "v"
	full := func(limit int) *sample.World {
		w := sample.Limited(limit).Node("w-1", "pve1").Several(3, "a", "w-1", 600, 100)
		w.Pools = append(w.Pools, w.Pools[0])
		w.Pools[1].Name = second
		return w.Disked()
	}
	of := func(m *nodescaler.Machine) { m.Pool = second }
	// Nothing grows there.
	only := func(w *sample.World) { w.Pools[1].Taints = []nodescaler.Taint{{Key: "k", Effect: "NoSchedule"}} }
	made := func(m *nodescaler.Machine) { m.Keep, m.Phase = true, nodescaler.Booting }
	for _, c := range []struct {
		name  string
		world *sample.World
		want  []string
	}{
		{"of another pool", full(2).Spare("v-1", "pve2", of).Change(only), []string{"Return v-1"}},
		{"as many as it takes and no more", full(3).Node("w-2", "pve1").Several(3, "c", "w-2", 600, 100).Spare("v-1", "pve2", of).Spare("v-2", "pve2", of).Change(only), []string{"Return v-2", "Return v-1"}},
		{"not where there is money", full(3).Spare("v-1", "pve2", of).Change(only), []string{"Buy w small pve2"}},
		{"nor where that is not enough", full(2).Spare("v-1", "pve2", of).Change(only).Change(func(w *sample.World) { w.Limit -= w.Limit / 4 }), nil},
		{"nor while others go whose money is enough", full(3).Spare("v-1", "pve2", of).Machine("v-2", "pve2", nodescaler.Deleting, of).Change(only), nil},
		{"one in the making, too", full(2).Machine("v-1", "pve2", nodescaler.Booting, of, made).Change(only), []string{"Return v-1"}},
		{"so that another one may be woken", full(2).Spare("w-2", "pve2").Spare("w-3", "pve3").Change(only), []string{"Return w-3"}},
		{"not one on a host that is away", full(2).Spare("v-1", "pve3", of).Change(only).Change(func(w *sample.World) { w.Hosts[2].Online = false }), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := c.world.Disked()
			p := sample.LookedAt(t, withSpares(t, 2), w)
			w.Pod("b", "", 600, 100)
			sample.Expect(t, sample.Decide(t, p, w.At(10*time.Second)), c.want)
		})
	}
	w := full(2).Spare("v-1", "pve2", of).Change(only).Disked()
	w.Pod("b", "", 600, 100)
	if got := sample.Lines(sample.Decide(t, withSpares(t, 2), w.At(0))); len(got) > 0 {
		t.Errorf("at the first look: %v", got)
	}
}

// A spare takes a place of its pool, and gives it up for a machine of a shape that it is not.
func TestSparesMakeWayInTheirPool(t *testing.T) {
	full := func(most int) *sample.World {
		w := sample.New().Node("w-1", "pve1").Several(3, "a", "w-1", 600, 100)
		w.Pools[0].Max, w.Pools[0].Shapes = most, append(w.Pools[0].Shapes, sample.Large)
		return w
	}
	leaving := func(m *nodescaler.Machine) { m.Phase, m.Since = nodescaler.Deleting, sample.Noon }
	stuck := func(m *nodescaler.Machine) { m.Phase, m.Since = nodescaler.Deleting, sample.Noon.Add(-time.Hour) }
	made := func(m *nodescaler.Machine) { m.Keep, m.Phase = true, nodescaler.Booting }
	for _, c := range []struct {
		name  string
		world *sample.World
		want  []string
		codes []string
	}{
		{"the one that cannot be started where it is", full(3).Spare("w-2", "pve2").Spare("w-3", "pve3").Change(func(w *sample.World) { w.Hosts[1].Cordoned = true }), []string{"Return w-2"}, nil},
		{"one more where one is being given up on a host that is away", full(3).Spare("w-2", "pve2").Machine("w-3", "pve3", nodescaler.Deleting, leaving).Change(func(w *sample.World) { w.Hosts[2].Online = false }), []string{"Return w-2"}, nil},
		{"or for an hour", full(3).Spare("w-2", "pve2").Machine("w-3", "pve3", nodescaler.Deleting, stuck), []string{"Return w-2"}, nil},
		{"not where the pool has more than it may have any more", full(1).Spare("w-2", "pve2").Spare("w-3", "pve3"), nil, []string{string(packing.PoolFull)}},
		{"one of two", full(3).Spare("w-2", "pve2").Spare("w-3", "pve3"), []string{"Return w-3"}, nil},
		{"not where there is a place", full(4).Spare("w-2", "pve2").Spare("w-3", "pve3"), []string{"Buy w large pve2"}, nil},
		{"nor while one is being given up", full(3).Spare("w-2", "pve2").Spare("w-3", "pve3", leaving), nil, nil},
		{"one in the making, if there is no other", full(2).Machine("w-2", "pve2", nodescaler.Booting, made), []string{"Return w-2"}, nil},
		{"one that cannot be started where it is", full(2).Spare("w-2", "pve2", func(m *nodescaler.Machine) { m.Shape = sample.Large }).Change(func(w *sample.World) {
			w.Hosts[1].Room = sample.Small.Resources()
		}), []string{"Return w-2"}, nil},
		{"not where no host has room for it", full(3).Spare("w-2", "pve2").Spare("w-3", "pve3").Change(func(w *sample.World) {
			for i := range w.Hosts {
				w.Hosts[i].Room = sample.Small.Resources().Times(2)
			}
		}), nil, nil},
		{"not one on a host that is away", full(2).Spare("w-2", "pve3").Change(func(w *sample.World) { w.Hosts[2].Online = false }), nil, []string{string(packing.PoolFull)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := sample.LookedAt(t, withSpares(t, 2), c.world)
			c.world.Pod("b", "", 3000, 100)
			sample.Expect(t, sample.Decide(t, p, c.world.At(10*time.Second)), c.want, c.codes...)
		})
	}
}

// The last of them alone is enough, as it costs all that a machine does: the others, which would go
// first, stay.
func TestNoMoreSparesMakeWayThanItTakes(t *testing.T) {
	w := sample.Limited(2).Node("w-1", "pve1").Several(3, "a", "w-1", 600, 100)
	w.Pools = append(w.Pools, w.Pools[0])
	w.Pools[1].Name, w.Pools[1].Taints = "v", []nodescaler.Taint{{Key: "k", Effect: "NoSchedule"}}
	of := func(m *nodescaler.Machine) { m.Pool = "v" }
	made := func(m *nodescaler.Machine) { m.Keep, m.Phase = true, nodescaler.Booting }
	w.Spare("v-1", "pve2", of).Spare("v-2", "pve2", of).Machine("v-3", "pve2", nodescaler.Booting, of, made).Disked()
	w.Limit += 2 * w.Prices.SpareRate(w.Pools[0].Shapes[0])
	p := sample.LookedAt(t, withSpares(t, 3), w)
	w.Pod("b", "", 600, 100)
	sample.Expect(t, sample.Decide(t, p, w.At(10*time.Second)), []string{"Return v-3"})
}

// What a spare is reclaimed for, the money of its disk or its place in the pool, is not spent on
// another spare before the machine is ordered.
func TestWhatMadeWayIsNotMadeAnew(t *testing.T) {
	big := sample.Large
	big.Disk = 20 * pricing.GB
	limited := func(w *sample.World, little pricing.Shape) {
		w.Limit = w.Prices.Rate(big, "", sample.Noon) + w.Prices.SpareRate(little)/2
	}
	for name, set := range map[string]func(w *sample.World, little pricing.Shape){
		"of another pool": func(w *sample.World, little pricing.Shape) {
			w.Pools = append(w.Pools, w.Pools[0])
			w.Pools[1].Name, w.Pools[1].Shapes, w.Pools[0].Shapes = "v", []pricing.Shape{little}, []pricing.Shape{big}
			limited(w, little)
		},
		"of another shape": limited,
		"in its place":     func(w *sample.World, _ pricing.Shape) { w.Pools[0].Max = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			w := sample.New().Dear(pricing.Unit / 100)
			little := w.Pools[0].Shapes[0]
			w.Pools[0].Shapes = []pricing.Shape{little, big}
			for i := range w.Hosts {
				w.Hosts[i].Room = big.Resources().Times(4)
			}
			set(w, little)
			l := &life.Life{World: *w, Wanted: map[string]int{}}
			p := withSpares(t, 1)
			l.Live(t, p, 10*time.Minute)
			l.Pod("big", "", 6000, 1000)
			l.Live(t, p, 15*time.Minute)
			if waiting := l.Waiting(); len(waiting) > 0 {
				t.Errorf("%v waits while there are %+v", waiting, l.Machines)
			}
		})
	}
}

// A spare on a host that is away is paid for once, and not counted against those of other pools as
// well.
func TestAHostThatIsAwayTakesNoOthersSpares(t *testing.T) {
	w := sample.New().Dear(pricing.Unit / 100)
	w.Pools = append(w.Pools, w.Pools[0])
	w.Pools[1].Name = "a"
	w.Spare("a-1", "pve3", func(m *nodescaler.Machine) { m.Pool = "a" }).Spare("w-1", "pve1").Node("w-2", "pve1").Several(3, "b", "w-2", 600, 100).Disked()
	shape := w.Pools[0].Shapes[0]
	w.Limit = w.Prices.Rate(shape, "", sample.Noon) + 2*w.Prices.SpareRate(shape)
	w.Hosts[2].Online = false
	p := sample.LookedAt(t, withSpares(t, 1), w)
	sample.Expect(t, sample.Decide(t, p, w.At(time.Minute)), nil)
}

// Under a limit, too, a steady load is left alone in the end, and spares never keep a pod waiting
// that has room without them.
func TestJointWithSparesComesToRestUnderALimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &life.Life{World: *sample.Limited(1), Wanted: map[string]int{}}
		l.Limit = l.Limit*pricing.Rate(rapid.IntRange(2, 6).Draw(t, "machines")) + pricing.Rate(rapid.Int64Range(0, 6e9).Draw(t, "and more"))
		l.Pools[0].Max, l.Pools[0].Min = 30, rapid.IntRange(0, 1).Draw(t, "min")
		for i := range l.Hosts {
			l.Hosts[i].Room = sample.Small.Resources().Times(12)
		}
		j := DefaultJoint()
		j.Spares.Most, j.Spares.Worth = rapid.IntRange(1, 4).Draw(t, "most"), 1e6
		p, none := build(t, Spec{Policy: "joint", Joint: &j}), build(t, Spec{Policy: "joint"})
		twin := &life.Life{World: sample.World{Snapshot: *sample.Copy(&l.Snapshot)}, Wanted: l.Wanted}
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			l.Wanted["ns/app"] = rapid.IntRange(0, 20).Draw(t, "wanted")
			d := time.Duration(rapid.IntRange(1, 15).Draw(t, "minutes")) * time.Minute
			l.Live(t, p, d)
			twin.Live(t, none, d)
		}
		l.Live(t, p, 150*time.Minute)
		twin.Live(t, none, 150*time.Minute)
		if done := l.Live(t, p, 30*time.Minute); len(done) > 0 {
			t.Fatalf("under a steady load: %v", done)
		}
		if ours, theirs := len(l.Waiting()), len(twin.Waiting()); ours > theirs {
			t.Fatalf("%d pods wait, and without spares %d", ours, theirs)
		}
	})
}

// So it is with two pools of machines of two sizes, on hosts with prices of their own.
func TestJointWithSparesOfTwoPoolsComesToRestUnderALimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := sample.New().Dear(pricing.Micros(rapid.Int64Range(1, 40_000).Draw(t, "disk")))
		big, little := sample.Large, w.Pools[0].Shapes[0]
		big.Disk, big.CPU, big.Memory = 20*pricing.GB, 4000, 8*pricing.GiB
		w.Pools = append(w.Pools, w.Pools[0])
		w.Pools[1].Name = "v"
		for i := range w.Pools {
			p := &w.Pools[i]
			p.Shapes = rapid.SampledFrom([][]pricing.Shape{{little}, {big}, {little, big}}).Draw(t, "shapes")
			p.Max, p.Min = rapid.IntRange(1, 20).Draw(t, "max"), rapid.IntRange(0, 1).Draw(t, "min")
		}
		w.Prices.Hosts = map[string]pricing.HostPrices{}
		for i := range w.Hosts {
			w.Hosts[i].Room = sample.Small.Resources().Times(12)
			fixed := pricing.Unit * pricing.Micros(rapid.IntRange(0, 2).Draw(t, "fixed"))
			w.Prices.Hosts[w.Hosts[i].Name] = pricing.HostPrices{PerHost: &fixed}
		}
		w.Limit = w.Prices.Rate(little, "", sample.Noon)*pricing.Rate(rapid.IntRange(2, 6).Draw(t, "machines")) + pricing.Rate(rapid.Int64Range(0, 6e9).Draw(t, "and more"))
		l := &life.Life{World: *w, Wanted: map[string]int{}}
		j := DefaultJoint()
		j.Spares.Most, j.Spares.Worth = rapid.IntRange(1, 4).Draw(t, "most"), 1e6
		p := build(t, Spec{Policy: "joint", Joint: &j})
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			l.Wanted["ns/app300"], l.Wanted["ns/app1100"] = rapid.IntRange(0, 10).Draw(t, "300"), rapid.IntRange(0, 5).Draw(t, "1100")
			l.Live(t, p, time.Duration(rapid.IntRange(1, 15).Draw(t, "minutes"))*time.Minute)
		}
		l.Live(t, p, 150*time.Minute)
		if done := l.Live(t, p, 30*time.Minute); len(done) > 0 {
			t.Fatalf("under a steady load: %v", done)
		}
	})
}

// A spare is of use when another host is lost.
func TestSparesAreMadeWhereFewestMachinesAre(t *testing.T) {
	for _, c := range []struct {
		name  string
		world *sample.World
		want  string
	}{
		{"not where machines run", sample.New().Node("w-1", "pve1").Node("w-2", "pve2"), "Buy w small pve3 to keep"},
		{"nor where spares are", sample.New().Node("w-1", "pve1").Spare("w-2", "pve2"), "Buy w small pve3 to keep"},
		{"of those that carry as many where fewest run", sample.New().Node("w-1", "pve1").Spare("w-2", "pve2").Node("w-3", "pve3"), "Buy w small pve2 to keep"},
		{"but not where they are dearer", sample.New().Node("w-1", "pve1").Node("w-2", "pve2").Change(func(w *sample.World) {
			price := w.Prices.PerVCPU * 2
			w.Prices.Hosts = map[string]pricing.HostPrices{"pve3": {Prices: pricing.Prices{PerVCPU: &price}}}
		}), "Buy w small pve1 to keep"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := sample.LookedAt(t, withSpares(t, 2), c.world)
			sample.Expect(t, sample.Decide(t, p, c.world.At(time.Minute)), []string{c.want})
		})
	}
}

func TestSparesAreWokenWhereFewestRun(t *testing.T) {
	roomy := func(w *sample.World) { w.Hosts[0].Room = sample.Small.Resources().Times(40) }
	dear := func(w *sample.World) {
		price := w.Prices.PerVCPU * 2
		w.Prices.Hosts = map[string]pricing.HostPrices{"pve3": {Prices: pricing.Prices{PerVCPU: &price}}}
	}
	two := func() *sample.World {
		return sample.New().Node("w-1", "pve1").Several(3, "a", "w-1", 600, 100).Spare("w-2", "pve1").Spare("w-3", "pve3").Pod("b", "", 600, 100)
	}
	for _, c := range []struct {
		name  string
		world *sample.World
		want  string
	}{
		{"whatever room there is", two().Change(roomy), "Wake w-3"},
		{"but the cheaper one first", two().Change(dear), "Wake w-2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sample.Expect(t, sample.Decide(t, withSpares(t, 2), c.world.At(0)), []string{c.want})
		})
	}
}

// A machine that was a spare long ago and boots again, as when its host is back, is as new.
func TestAMachineThatBootsAgainIsWaitedForFromThen(t *testing.T) {
	w := sample.New().Node("w-1", "pve1").Several(3, "a", "w-1", 600, 100).Node("w-2", "pve2", sample.NotReady)
	w.Machines[1].Phase, w.Machines[1].Woken, w.Machines[1].Since = nodescaler.Booting, sample.Noon.Add(-time.Hour), sample.Noon
	p := sample.LookedAt(t, withSpares(t, 0), w)
	w.Pod("b", "", 600, 100)
	sample.Expect(t, sample.Decide(t, p, w.At(time.Minute)), nil, nodescaler.PodsFitExisting)
	sample.Expect(t, sample.Decide(t, p, w.At(2*time.Minute+time.Second)), []string{"Buy w small pve3"})
	w.Pods = w.Pods[:3]
	sample.Expect(t, sample.Decide(t, p, w.At(16*time.Minute)), []string{"Return w-2"}, nodescaler.ProvisionTimedOut)
}

// A spare that makes way is waited for: nothing dearer is bought meanwhile, and no spare is made.
func TestNothingIsBoughtElsewhereWhileASpareMakesWay(t *testing.T) {
	w := sample.New().Node("w-1", "pve1").Several(3, "a", "w-1", 600, 100).Spare("w-2", "pve2")
	w.Pools[0].Max, w.Pools[0].Shapes = 2, append(w.Pools[0].Shapes, sample.Large)
	dear := sample.Large
	dear.Name, dear.CPU, dear.Memory = "dear", 2*sample.Large.CPU, 2*sample.Large.Memory
	w.Pools = append(w.Pools, nodescaler.Pool{Name: "v", Shapes: []pricing.Shape{dear}, Max: 4})
	for i := range w.Hosts {
		w.Hosts[i].Room = dear.Resources().Times(4)
	}
	p := sample.LookedAt(t, withSpares(t, 1), w.Spare("v-1", "pve3", func(m *nodescaler.Machine) { m.Pool, m.Shape, m.Drifted = "v", dear, "its template was changed" }))
	w.Nodes, w.Machines = w.Nodes[:2], w.Machines[:2]
	w.Pools[1].Taints = []nodescaler.Taint{{Key: "k", Effect: "PreferNoSchedule"}}
	w.Pod("b", "", 3000, 100)
	sample.Expect(t, sample.Decide(t, p, w.At(10*time.Second)), []string{"Return w-2"})
	w.Machines[1].Phase, w.Machines[1].Since, w.Nodes = nodescaler.Deleting, sample.Noon, w.Nodes[:1]
	sample.Expect(t, sample.Decide(t, p, w.At(20*time.Second)), nil)
	w.Machines = w.Machines[:1]
	if got := sample.Lines(sample.Decide(t, p, w.At(30*time.Second))); len(got) != 1 || got[0] != "Buy w large pve2" {
		t.Errorf("once it is gone: %v", got)
	}
}

// A spare that was started is not destroyed before it had the time to become a node.
func TestASpareThatIsStartingMakesNoWay(t *testing.T) {
	w := sample.New().Node("w-1", "pve1").Several(3, "a", "w-1", 600, 100).Spare("w-2", "pve2")
	w.Pools[0].Max = 2
	p := sample.LookedAt(t, withSpares(t, 1), w)
	w.Pod("b", "", 600, 100)
	sample.Expect(t, sample.Decide(t, p, w.At(10*time.Second)), []string{"Wake w-2"})
	sample.Expect(t, sample.Decide(t, p, w.At(20*time.Second)), nil)
	w.Machines[1].Problem = "NoMemory: the host has none"
	sample.Expect(t, sample.Decide(t, p, w.At(30*time.Second)), []string{"Return w-2"})
}

// For one machine at a time, for what is reclaimed for the first is not there for the second.
func TestSparesMakeWayForOneMachineAtATime(t *testing.T) {
	w := sample.New().Node("w-1", "pve1").Several(3, "a", "w-1", 600, 100).Spare("w-2", "pve2").Spare("w-3", "pve3")
	w.Pools[0].Max, w.Pools[0].Shapes = 3, append(w.Pools[0].Shapes, sample.Large)
	for i := range w.Hosts {
		w.Hosts[i].Room = sample.Large.Resources().Times(4)
	}
	p := sample.LookedAt(t, withSpares(t, 2), w)
	w.Pod("b", "", 7000, 100)
	w.Pod("c", "", 7000, 100)
	sample.Expect(t, sample.Decide(t, p, w.At(10*time.Second)), []string{"Return w-3"})
}

func TestSparesMakeWayForTheMinimum(t *testing.T) {
	w := sample.New().Node("w-1", "pve1").Several(3, "a", "w-1", 600, 100).Spare("w-2", "pve2").Change(func(w *sample.World) { w.Hosts[1].Cordoned = true })
	w.Pools[0].Min, w.Pools[0].Max = 2, 2
	p := withSpares(t, 1).(*joint)
	sample.LookedAt(t, p, w)
	sample.Expect(t, sample.Decide(t, p, w.At(10*time.Second)), []string{"Return w-2"})
	w.Machines, w.Nodes = w.Machines[:1], w.Nodes[:1]
	sample.Expect(t, sample.Decide(t, p, w.At(20*time.Second)), []string{"Buy w small pve3"})
}
