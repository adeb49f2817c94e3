package packing

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/pricing"
)

// twin goes through every packing of a problem, one item after the other.
type twin struct {
	p     Problem
	sizes map[string]int64
	ledger
	machines []Offer  // bought; Free and Slots are what is left
	holds    [][]Item // what is in each of these
	now      score
	best     score
}

// optimum is the best score that any packing of p has.
func optimum(p Problem) score {
	tw := &twin{p: p, sizes: sizesOf(p), ledger: *open(p), best: score{placed: -1}}
	tw.search(0)
	return tw.best
}

func (tw *twin) search(i int) {
	if i == len(tw.p.Items) {
		if tw.now.better(tw.best) {
			tw.best = tw.now
		}
		return
	}
	it := tw.p.Items[i]
	tw.search(i + 1)
	tw.now.placed++
	tw.now.size += tw.sizes[it.Name]
	tw.inBins(i, it)
	tw.inMachines(i, it)
	tw.inNew(i, it)
	tw.now.placed--
	tw.now.size -= tw.sizes[it.Name]
}

func (tw *twin) inBins(i int, it Item) {
	for _, b := range tw.p.Bins {
		if _, no := b.Refuses[it.Class]; no || !tw.roomIn(b.Name, it) {
			continue
		}
		tw.free[b.Name] = tw.free[b.Name].Minus(it.Requests)
		tw.slots[b.Name]--
		tw.extra[b.Name] = tw.extra[b.Name].Minus(it.Extra)
		tw.on[b.Name] = append(tw.on[b.Name], it)
		tw.search(i + 1)
		tw.on[b.Name] = tw.on[b.Name][:len(tw.on[b.Name])-1]
		tw.free[b.Name] = tw.free[b.Name].Plus(it.Requests)
		tw.slots[b.Name]++
		tw.extra[b.Name] = tw.extra[b.Name].Plus(it.Extra)
	}
}

func (tw *twin) inMachines(i int, it Item) {
	for j := range tw.machines {
		o := &tw.machines[j]
		if _, no := o.Refuses[it.Class]; no || o.Slots == 0 || !it.Requests.Within(o.Free) || o.Extra.Lacks(it.Extra, nil) != "" || tw.p.keepsOff(it, tw.holds[j]) {
			continue
		}
		o.Free, o.Extra, o.Slots = o.Free.Minus(it.Requests), o.Extra.Minus(it.Extra), o.Slots-1
		tw.holds[j] = append(tw.holds[j], it)
		tw.search(i + 1)
		tw.holds[j] = tw.holds[j][:len(tw.holds[j])-1]
		o = &tw.machines[j]
		o.Free, o.Extra, o.Slots = o.Free.Plus(it.Requests), o.Extra.Plus(it.Extra), o.Slots+1
	}
}

func (tw *twin) inNew(i int, it Item) {
	for _, o := range tw.p.Offers {
		room, known := tw.hosts[o.Host]
		takes := o.Shape.Resources()
		if _, no := o.Refuses[it.Class]; no || o.Slots == 0 || !it.Requests.Within(o.Free) || o.Extra.Lacks(it.Extra, nil) != "" || !known || !takes.Within(room) || tw.pools[o.Pool] <= 0 {
			continue
		}
		tw.pools[o.Pool]--
		tw.hosts[o.Host] = room.Minus(takes)
		tw.now.rate += o.Rate
		tw.now.bought++
		o.Free, o.Extra, o.Slots = o.Free.Minus(it.Requests), o.Extra.Minus(it.Extra), o.Slots-1
		tw.machines, tw.holds = append(tw.machines, o), append(tw.holds, []Item{it})
		tw.search(i + 1)
		tw.machines, tw.holds = tw.machines[:len(tw.machines)-1], tw.holds[:len(tw.holds)-1]
		tw.now.bought--
		tw.now.rate -= o.Rate
		tw.hosts[o.Host] = room
		tw.pools[o.Pool]++
	}
}

func TestAFewItemsArePackedOptimally(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range 10 {
			p := arbitrary(t, bounds{6, 2, 3})
			r := Solve(p)
			if got, want := scoreOf(p, r), optimum(p); got != want {
				t.Fatalf("got %+v, want %+v", got, want)
			}
			if r.LowerBound != r.Rate {
				t.Fatalf("optimal at %s, but the lower bound is %s", r.Rate, r.LowerBound)
			}
		}
	})
}

func TestNothingIsCheaperThanTheLowerBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for i := range 20 {
			p := arbitrary(t, bounds{6, 2, 3})
			s := newSearch(newModel(p), i%2*DefaultEffort)
			s.small = 0 // what proves larger problems' bounds
			s.run()
			r := s.m.result(s.best, s.bound)
			verify(t, p, r)
			if least := optimum(placedOf(p, r)).rate; r.LowerBound > least {
				t.Fatalf("lower bound %s with effort %d, but %s will do", r.LowerBound, i%2*DefaultEffort, least)
			}
		}
	})
}

// placedOf is the problem of the items that a result places.
func placedOf(p Problem, r Result) Problem {
	nowhere := map[string]bool{}
	for _, pl := range r.Placements {
		nowhere[pl.Item] = pl.Bin == "" && pl.Purchase < 0
	}
	q := p
	q.Items = nil
	for _, it := range p.Items {
		if !nowhere[it.Name] {
			q.Items = append(q.Items, it)
		}
	}
	return q
}

// TestTheSearchComesNearTheOptimum holds the search alone, as it is used for larger problems,
// against the optimum of problems of up to 12 items.
func TestTheSearchComesNearTheOptimum(t *testing.T) {
	var cases, same int
	var sum, worst float64
	for _, pods := range []int{4, 6, 8, 10, 12} {
		for _, mx := range mixes {
			for seed := range uint64(10) {
				m := newModel(modest(mx, seed, pods))
				s := newSearch(m, DefaultEffort)
				s.small = 0
				s.run()
				e := newExact(newPlan(m), s.best.score, m.linear(newPlan(m)), 3_000_000)
				if s.best.score.bought == 0 || !e.run() {
					continue // nothing to be gained, or too many packings to go through
				}
				if s.bound > e.top.rate {
					t.Fatalf("%s %d with seed %d: bound %s, but %s will do", mx.name, pods, seed, s.bound, e.top.rate)
				}
				ratio := float64(s.best.score.rate) / float64(e.top.rate)
				cases, sum, worst = cases+1, sum+ratio, max(worst, ratio)
				if s.best.score.rate == e.top.rate {
					same++
				}
			}
		}
	}
	t.Logf("%d of %d cases optimal, %.4f of the optimal rate on average, %.3f at worst", same, cases, sum/float64(cases), worst)
	if cases < 200 || float64(same) < 0.96*float64(cases) || sum/float64(cases) > 1.01 || worst > 1.8 {
		t.Errorf("%d of %d cases optimal, %.4f of the optimal rate on average, %.3f at worst", same, cases, sum/float64(cases), worst)
	}
}

// TestRatesAreNearTheBoundForManyItems holds rates against lower bounds where there is no
// optimum to be had: both the packing and the bound have to be good.
func TestRatesAreNearTheBoundForManyItems(t *testing.T) {
	for _, mx := range mixes {
		p := benchmarkProblem(mx, 10_000, 6, pricing.Resources{CPU: 1e9, Memory: 1e15})
		r := Solve(p)
		verify(t, p, r)
		if gap := float64(r.Rate)/float64(r.LowerBound) - 1; gap > 0.02 {
			t.Errorf("%s: rate %s is %.2f %% above the bound %s", mx.name, r.Rate, 100*gap, r.LowerBound)
		}
	}
}

// TestLimitsThatBindAreUsedWell counts the smallest items that the room allowed would hold if
// it were one, by CPU, by memory and by mixtures of both: no packing places more.
func TestLimitsThatBindAreUsedWell(t *testing.T) {
	for _, limit := range []int{1, 2, 100} {
		p := benchmarkProblem(mixes[1], 300, 2, pricing.Resources{CPU: 32e3, Memory: 64 * pricing.GiB})
		p.Limits["workers"] = limit
		hosts := float64(min(2, limit))
		most := 110 * limit
		for _, part := range []float64{0, 0.25, 0.5, 0.75, 1} {
			var sizes []float64
			for _, it := range p.Items {
				sizes = append(sizes, part*float64(it.Requests.CPU)/32e3+(1-part)*float64(it.Requests.Memory)/float64(64*pricing.GiB))
			}
			most = min(most, smallest(sizes, hosts))
		}
		r := Solve(p)
		verify(t, p, r)
		got := scoreOf(p, r).placed
		t.Logf("limit %d: %d items placed on %d machines, %d at most", limit, got, len(r.Purchases), most)
		if float64(got) < 0.93*float64(most) {
			t.Errorf("limit %d: %d items placed, at most %d could be", limit, got, most)
		}
	}
}

// smallest is how many of the smallest sizes come to no more than room.
func smallest(sizes []float64, room float64) int {
	slices.Sort(sizes)
	for i, v := range sizes {
		if room -= v; room < 0 {
			return i
		}
	}
	return len(sizes)
}
