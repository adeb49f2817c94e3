package packing

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestProgramIsSolvedToItsOptimum checks what proves an optimum: the columns in use meet every
// row, and by the rows' prices no column would gain and all together are worth what they cost.
func TestProgramIsSolvedToItsOptimum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		right, cost := make([]float64, 1+r.IntN(6)), []float64{}
		for i := range right {
			right[i] = float64(r.IntN(20))
			cost = append(cost, 100)
		}
		l := newLP(right, cost, 0)
		for range r.IntN(12) {
			c := column{cost: float64(r.IntN(10)), most: float64(r.IntN(2) * r.IntN(5))}
			for row := range right {
				if r.IntN(2) == 0 {
					c.entries = append(c.entries, entry{row, float64(1 + r.IntN(5))})
				}
			}
			l.add(c)
		}
		l.solve(&budget{10_000})
		met, spent, worth := make([]float64, len(right)), 0.0, 0.0
		use := func(j int, x float64) {
			c := &l.columns[j]
			spent += x * c.cost
			for _, e := range c.entries {
				met[e.row] += x * e.value
			}
			if x < 0 || c.most > 0 && x > c.most+1e-6 {
				t.Fatalf("column %d is %v, at most %v", j, x, c.most)
			}
		}
		for j, full := range l.full {
			if full {
				use(j, l.columns[j].most)
				worth += l.columns[j].most * l.reduced(&l.columns[j])
			}
		}
		for i, j := range l.basis {
			use(j, l.x[i])
		}
		for i := range right {
			worth += l.y[i] * right[i]
			if math.Abs(met[i]-right[i]) > 1e-6 {
				t.Fatalf("row %d: %v of %v with %v", i, met[i], right[i], l.x)
			}
		}
		if j, gain := l.entering(); j >= 0 && math.Abs(gain) > 1e-6 || math.Abs(spent-worth) > 1e-6*(1+spent) {
			t.Fatalf("costs %v, is worth %v, could gain %v", spent, worth, gain)
		}
	})
}

// TestKnapsackNeverUnderestimates holds the bound against the best load of all.
func TestKnapsackNeverUnderestimates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := arbitrary(t, bounds{8, 1, 2})
		m := newModel(p)
		values := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "values"), 0))
		k := knapsack{m: m, count: m.count}
		for range m.kinds {
			k.value = append(k.value, float64(values.IntN(50)))
		}
		for s := range m.specs {
			best := dearestLoad(&k, s, 0, m.specs[s].room, nil)
			for _, nodes := range []int{0, 3, 1000} {
				k.solve(s, nodes)
				if k.upper < best*(1-1e-9) || k.worth > best*(1+1e-9) {
					t.Fatalf("%d nodes: found %v, at most %v, best %v", nodes, k.worth, k.upper, best)
				}
			}
			if k.worth < best*(1-2*cut) {
				t.Fatalf("1000 nodes: found %v, best %v", k.worth, best)
			}
			if got := k.glance(s, weights{1, 1e-6, 1}); got < best*(1-1e-9) {
				t.Fatalf("at a glance at most %v, best %v", got, best)
			}
			for i := range k.now {
				t.Fatalf("left over after the search: %v", k.now[i])
			}
		}
	})
}

// dearestLoad tries every number of every kind from i on, beside the load.
func dearestLoad(k *knapsack, s, i int, room vector, in []lot) float64 {
	if i == len(k.m.kinds) {
		return 0
	}
	best := 0.0
	kd := &k.m.kinds[i]
	for n := 0; n <= k.count[i]; n++ {
		load := in
		if n > 0 {
			if !k.m.accepts(s, kd) || room.times(kd.need, n) < n || k.m.joins(s, in, i, n) < n {
				break
			}
			load = append(slices.Clip(in), lot{kind: i, n: n})
		}
		best = max(best, float64(n)*k.value[i]+dearestLoad(k, s, i+1, room.plus(kd.need, -n), load))
	}
	return best
}

func TestCoverIsNeverBelowWhatCovers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		worth := 1 + r.IntN(60)
		var choices []choice
		for range 1 + r.IntN(4) {
			choices = append(choices, choice{float64(r.IntN(30)), float64(r.IntN(15))})
		}
		// least[w] is the lowest price of machines that hold w.
		least := make([]float64, worth+1)
		for w := 1; w <= worth; w++ {
			least[w] = math.Inf(1)
			for _, c := range choices {
				if c.holds > 0 {
					least[w] = min(least[w], c.price+least[max(0, w-int(c.holds))])
				}
			}
		}
		for _, nodes := range []int{0, 2, 1000} {
			c := cover{choices: append([]choice(nil), choices...), nodes: nodes}
			got := c.run(float64(worth))
			if got > least[worth]*(1+1e-9) {
				t.Fatalf("%d nodes: %v, but %v covers %d", nodes, got, least[worth], worth)
			}
			if nodes == 1000 && !math.IsInf(least[worth], 1) && got < least[worth]*(1-2*cut) {
				t.Fatalf("%v, but nothing below %v covers %d", got, least[worth], worth)
			}
		}
	})
}

func TestCoverEndsThoughAMachineHoldsNextToNothing(t *testing.T) {
	c := cover{choices: []choice{{3, 2}, {5, 1e-12}}, nodes: 1000}
	if got := c.run(7); got != 12 {
		t.Errorf("got %v, want 4 machines at 3", got)
	}
}

// TestUndoneStepsLeaveNoTrace does and undoes at random.
func TestUndoneStepsLeaveNoTrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPlan(newModel(arbitrary(t, bounds{12, 3, 4})))
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "steps"), 0))
		stumble(p, r, 10)
		p.keep()
		before := p.clone()
		stumble(p, r, 30)
		p.undo(0)
		after := p.clone()
		if before.score != after.score || !equalPlans(before, after) {
			t.Fatalf("before %+v\nafter  %+v", before, after)
		}
	})
}

// stumble buys, sells, puts and takes out at random, within what is allowed.
func stumble(p *plan, r *rand.Rand, steps int) {
	for range steps {
		if len(p.m.offers) > 0 && r.IntN(3) == 0 {
			if o := r.IntN(len(p.m.offers)); p.canBuy(o, 1) > 0 {
				if k := r.IntN(len(p.m.kinds)); p.left[k] > 0 && p.m.fits(p.m.offers[o].spec, &p.m.kinds[k]) {
					p.stock(o, []lot{{k, 1}})
				} else {
					p.buy(o)
				}
			}
		}
		if len(p.machines) == 0 || len(p.m.kinds) == 0 {
			continue
		}
		i, k := r.IntN(len(p.machines)), r.IntN(len(p.m.kinds))
		switch n := p.fits(i, k, p.left[k]); {
		case p.machines[i].gone:
		case r.IntN(6) == 0:
			p.sell(i)
		case n > 0 && p.left[k] > 0:
			p.put(i, k, 1+r.IntN(n))
		}
	}
}

func equalPlans(a, b *plan) bool {
	if len(a.machines) != len(b.machines) {
		return false
	}
	for i := range a.machines {
		x, y := a.machines[i], b.machines[i]
		if x.free != y.free || x.offer != y.offer || len(x.load) != len(y.load) {
			return false
		}
		for _, l := range x.load {
			found := false
			for _, o := range y.load {
				found = found || o == l
			}
			if !found {
				return false
			}
		}
	}
	for k := range a.left {
		if a.left[k] != b.left[k] {
			return false
		}
	}
	for i := range a.hosts {
		if a.hosts[i] != b.hosts[i] {
			return false
		}
	}
	for i := range a.pools {
		if a.pools[i] != b.pools[i] {
			return false
		}
	}
	return true
}

// What is not looked at would not have been bought: no load is worth more for its price than its
// spec's rank.
func TestTheBuyerLooksWhereverTheBestMayBe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(arbitrary(t, bounds{40, 4, 12}))
		p := newPlan(m)
		pr := rapid.SampledFrom([]*prices{m.weighed(m.linear(p)), m.thrift()}).Draw(t, "prices")
		for k := range pr.kind {
			pr.kind[k] *= float64(rapid.IntRange(0, 3).Draw(t, "worth"))
		}
		window := rapid.SampledFrom(windows).Draw(t, "window")
		some, all := newBuyer(m, pr, m.order, window), newBuyer(m, pr, m.order, window)
		for s := range all.rank {
			all.rank[s] = math.Inf(1)
		}
		some.live, all.live = slices.Clone(m.order), slices.Clone(m.order)
		some.refill(p)
		all.refill(p)
		if a, b := some.choose(p), all.choose(p); a != b {
			t.Fatalf("offer %d, where %d is the best of all", a, b)
		}
		for _, s := range m.selling {
			if _, least := m.cheapest(s, pr); all.worth[s] > some.rank[s]*least*(1+1e-9) {
				t.Fatalf("a load is worth %g at %g, and the rank is %g", all.worth[s], least, some.rank[s])
			}
		}
	})
}
