package planner

import (
	"slices"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/draft"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/pricing"
)

// One that is let be a machine while it is made was never stopped: when it joins, that says
// nothing of how long a spare takes, and those that there are stay.
func TestWhatWasNeverStoppedTellsNothingOfStarts(t *testing.T) {
	w := sample.New().Node("w-1", "pve1").Several(3, "a", "w-1", 600, 100).Spare("w-2", "pve2", func(m *nodescaler.Machine) { m.Shape = sample.Large })
	w.Pools[0].Shapes = append(w.Pools[0].Shapes, sample.Large)
	w.Machine("w-3", "pve3", nodescaler.Booting, func(m *nodescaler.Machine) { m.Keep = true })
	p := withSpares(1)
	w.Pod("b", "", 600, 100)
	if plan := sample.Decide(t, p, w.At(0)); !slices.Contains(sample.Lines(plan), "Wake w-3") {
		t.Fatalf("it is not woken: %v", sample.Lines(plan))
	}
	joined := &w.Machines[2]
	joined.Phase, joined.Keep, joined.Since = nodescaler.Joined, false, sample.Noon.Add(time.Minute)
	sample.Decide(t, p, w.At(2*time.Minute))
	if got := p.keep.start(); got != spareStart {
		t.Errorf("a spare is taken to need %s to start, want %s", got, spareStart)
	}
}

// A machine goes sooner for what it saves to have it back. One that will be no spare is not to be
// had back.
func TestOnlyWhatWillBeASpareGoesSooner(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*nodescaler.Machine, *nodescaler.Node)
		want   time.Duration
	}{
		{"a spare like any", func(*nodescaler.Machine, *nodescaler.Node) {}, 40 * time.Second},
		{"one of a shape of which none is kept", func(m *nodescaler.Machine, _ *nodescaler.Node) { m.Shape = sample.Large }, 190 * time.Second},
		{"one that drifted", func(m *nodescaler.Machine, _ *nodescaler.Node) { sample.Drifted(m) }, 190 * time.Second},
		{"one whose node is not ready", func(_ *nodescaler.Machine, n *nodescaler.Node) { n.Ready = false }, 20*time.Minute + 10*time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := sample.New().Node("w-1", "pve1").Node("w-2", "pve2").Several(2, "a", "w-1", 600, 100).Several(1, "b", "w-2", 100, 100)
			w.Pools[0].Shapes = append(w.Pools[0].Shapes, sample.Large)
			c.change(&w.Machines[1], &w.Nodes[1])
			p := withSpares(1)
			p.rules.ScaleDownDelayAfterFailure = 0 // which counts from the start, too
			var got time.Duration
			for at := time.Duration(0); got == 0 && at < 30*time.Minute; at += 10 * time.Second {
				if slices.Contains(sample.Lines(sample.Decide(t, p, w.At(at))), "Cordon w-2") {
					got = at
				}
			}
			if got != c.want {
				t.Errorf("it is emptied after %s, want %s", got, c.want)
			}
		})
	}
}

// What was waited for speaks for spares: the first order of a burst for one, the second for
// another.
func TestOrdersThatPodsWaitedForKeepSpares(t *testing.T) {
	w := sample.New().Dear(pricing.Unit / 100)
	p := withSpares(3)
	at := time.Duration(0)
	for range 3 { // a day apart from the start, so that nothing is assumed any more
		at += 30 * time.Hour
		s := w.At(at)
		s.Pods = (&sample.World{}).Several(2, "b", "", 1700, 100).Pods
		plan := sample.Decide(t, p, s)
		if len(plan.Actions) < 2 {
			t.Fatalf("two machines are not ordered: %v", sample.Lines(plan))
		}
		came := w.At(at + 10*time.Second)
		for _, a := range plan.Actions[:2] {
			came.Machines = append(came.Machines, nodescaler.Machine{
				Name: a.Order, Order: a.Order, Pool: "w", Shape: *a.Shape, Host: a.Host, Phase: nodescaler.Ordered, Created: s.Now, Since: s.Now,
			})
		}
		sample.Decide(t, p, came)
	}
	for n, want := range map[int]float64{1: 1, 2: 1, 3: 0} {
		if got := p.keep.saved("w", n, sample.Noon.Add(at+time.Minute)); got != want {
			t.Errorf("a %s spare would have been woken %g times in the last day, want %g", draft.Ordinal(n), got, want)
		}
	}
}

// A spare that was woken is replaced once the one that is missing would have been needed often
// enough: where the first of three always is, and there are two, the third is not missed.
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
			w := sample.New().Node("w-1", "pve1").Several(3, "a", "w-1", 600, 100).Node("w-2", "pve2").Several(3, "b", "w-2", 600, 100)
			w.Machines[1].Woken = sample.Noon.Add(-time.Hour)
			for i := range c.stock {
				w.Spare("w-s"+string(rune('1'+i)), "pve1")
			}
			p := withSpares(3)
			sample.LookedAt(t, p, w)
			p.keep.started = sample.Noon.Add(-72 * time.Hour) // nothing is assumed any more
			for range 20 {
				p.keep.uses = append(p.keep.uses, use{at: sample.Noon.Add(-time.Hour), pool: "w", shape: sample.Small, rank: 1}, use{at: sample.Noon.Add(-time.Hour), pool: "w", shape: sample.Small, rank: 2})
			}
			sample.Expect(t, sample.Decide(t, p, w.At(time.Minute)), c.want)
		})
	}
}

// With a budget a pool may have as many spares as it had machines, and as the budget pays.
func TestABudgetSaysHowManySparesThereMayBe(t *testing.T) {
	for _, c := range []struct {
		name     string
		spared   Spared
		machines []int // an hour apart
		disk     pricing.Rate
		want     int
	}{
		{"no budget and none", Spared{}, []int{4}, 10, 0},
		{"no budget", Spared{Most: 3}, []int{1}, 100, 3},
		{"one is allowed to a pool that had none", Spared{BudgetPercent: 5}, nil, 50, 1},
		{"but not beyond the budget", Spared{BudgetPercent: 5}, nil, 51, 0},
		{"as many as there are", Spared{BudgetPercent: 5}, []int{3}, 16, 3},
		{"as many as there were", Spared{BudgetPercent: 5}, []int{2, 5, 1}, 16, 5},
		{"as the budget pays", Spared{BudgetPercent: 2}, []int{2, 5, 1}, 25, 4},
		{"as may be", Spared{Most: 2, BudgetPercent: 5}, []int{4}, 16, 2},
		{"what was more than a day ago is past", Spared{BudgetPercent: 5}, append([]int{9}, make([]int, 25)...), 16, 1},
		{"disks that cost nothing", Spared{BudgetPercent: 5}, []int{2}, 0, 2},
	} {
		k := newKeeper(c.spared)
		for i, n := range c.machines {
			w := sample.New()
			for j := range n {
				w.Machine("w-"+string(rune('1'+j)), "pve1", nodescaler.Joined)
			}
			k.see(w.Spare("w-s", "pve2").At(time.Duration(i)*time.Hour), time.Minute)
		}
		if got := k.most("w", 1000, c.disk); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// Where no spares may be kept, it is said what they would have saved.
func TestSparesAreAdvised(t *testing.T) {
	for _, c := range []struct {
		name  string
		uses  map[int]int // by rank
		after time.Duration
		want  string
	}{
		{"pods waited", map[int]int{1: 3, 2: 1}, 2 * time.Hour, "in 2h0m0s pods waited for 4 new machines: 2 spares, for 0.0040 units/h of disk, would have had each machine ready 2m30s sooner (spares: auto)"},
		{"pods waited for more machines than the pool has had", map[int]int{1: 2, 2: 2, 3: 2}, 2 * time.Hour, "in 2h0m0s pods waited for 4 new machines: 2 spares, for 0.0040 units/h of disk, would have had each machine ready 2m30s sooner (spares: auto)"},
		{"disk has no price", map[int]int{1: 3}, 2 * time.Hour, "in 2h0m0s pods waited for 3 new machines: 1 spare, at no cost, since disk has no price, would have had each machine ready 2m30s sooner (spares: auto)"},
		{"too little is known", map[int]int{1: 9}, 59 * time.Minute, ""},
		{"no pod waited", nil, 2 * time.Hour, ""},
		{"they waited too seldom", map[int]int{1: 1}, 24 * time.Hour, ""},
	} {
		w := sample.New().Node("w-1", "pve1").Node("w-2", "pve2").Several(1, "a", "w-1", 600, 100).Several(1, "b", "w-2", 600, 100)
		switch c.name {
		case "disk has no price":
		case "they waited too seldom":
			w.Dear(pricing.Unit)
		default:
			w.Dear(pricing.Unit / 10000)
		}
		p := withSpares(0)
		sample.LookedAt(t, p, w)
		for rank, n := range c.uses {
			for range n {
				p.keep.uses = append(p.keep.uses, use{at: sample.Noon, pool: "w", shape: sample.Small, rank: rank})
			}
		}
		if got := sample.Decide(t, p, w.At(c.after)).Advice["w"].Text; got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
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
		k.uses = []use{{at: sample.Noon.Add(-c.use), pool: "w"}}
		k.wanted["a"], k.tried["w-1"] = sample.Noon.Add(-c.wanted), sample.Noon.Add(-c.tried)
		k.see(&sample.New().Snapshot, time.Minute)
		if len(k.uses) != c.uses || len(k.wanted) != c.wants || len(k.tried) != c.tries {
			t.Errorf("%s: %d uses, %d orders, %d wakes", c.name, len(k.uses), len(k.wanted), len(k.tried))
		}
		if !k.started.Equal(sample.Noon) {
			t.Errorf("%s: it started at %s", c.name, k.started)
		}
		if k.see(sample.New().At(time.Hour), time.Minute); !k.started.Equal(sample.Noon) {
			t.Errorf("%s: an hour later it started at %s", c.name, k.started)
		}
	}
}

// What came of an order that pods waited for, and of a spare that was to be woken.
func TestWhatComesOfOrdersThatPodsWaitFor(t *testing.T) {
	ago := func(d time.Duration) time.Time { return sample.Noon.Add(-d) }
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
		k.see(&sample.New().Machine("w-1", "pve1", c.phase, func(m *nodescaler.Machine) {
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
		k.lead, k.uses = time.Minute, []use{{at: sample.Noon.Add(-c.ago), pool: c.pool}}
		if got := k.rank("w", sample.Noon); got != c.want {
			t.Errorf("after one of %s %s ago: %d, want %d", c.pool, c.ago, got, c.want)
		}
	}
}

func TestNumbersOfSparesInWords(t *testing.T) {
	for n, want := range map[int]string{1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 12: "12th", 13: "13th", 21: "21st", 22: "22nd", 23: "23rd", 111: "111th"} {
		if got := draft.Ordinal(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}
