package packing

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/pricing"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

func TestResultsBreakNoLimitAndSayWhy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := arbitrary(t, bounds{40, 6, 8})
		for _, effort := range []int{0, 300, DefaultEffort} {
			verify(t, p, SolveWithin(p, effort))
		}
	})
}

// TestResultsForManyNodesBreakNoLimit takes the ways that are for more nodes than can be
// emptied and more kinds than can be solved in fractions.
func TestResultsForManyNodesBreakNoLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := arbitrary(t, bounds{240, 90, 20})
		verify(t, p, SolveWithin(p, 1000))
	})
}

func TestOrderOfInputDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := arbitrary(t, bounds{30, 5, 8})
		want := Solve(p)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "rng"), 0))
		q := p
		q.Items, q.Bins, q.Offers = slices.Clone(p.Items), slices.Clone(p.Bins), slices.Clone(p.Offers)
		r.Shuffle(len(q.Items), func(i, j int) { q.Items[i], q.Items[j] = q.Items[j], q.Items[i] })
		r.Shuffle(len(q.Bins), func(i, j int) { q.Bins[i], q.Bins[j] = q.Bins[j], q.Bins[i] })
		r.Shuffle(len(q.Offers), func(i, j int) { q.Offers[i], q.Offers[j] = q.Offers[j], q.Offers[i] })
		q.Apart = slices.Clone(p.Apart)
		r.Shuffle(len(q.Apart), func(i, j int) { q.Apart[i], q.Apart[j] = [2]string{q.Apart[j][1], q.Apart[j][0]}, q.Apart[i] })
		if diff := cmp.Diff(want, Solve(q)); diff != "" {
			t.Fatalf("another order, another result:\n%s", diff)
		}
	})
}

func TestDoubledPricesChangeNothingButRates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := arbitrary(t, bounds{30, 4, 6})
		q := p
		q.Offers = slices.Clone(p.Offers)
		for i := range q.Offers {
			q.Offers[i].Rate *= 2
		}
		r, s := Solve(p), Solve(q)
		if s.Rate != 2*r.Rate || s.LowerBound != 2*r.LowerBound {
			t.Fatalf("rate %s and bound %s, for doubled prices %s and %s", r.Rate, r.LowerBound, s.Rate, s.LowerBound)
		}
		for i, pl := range r.Placements {
			if pl.Text = s.Placements[i].Text; pl != s.Placements[i] {
				t.Fatalf("%v became %v", r.Placements[i], s.Placements[i])
			}
		}
	})
}

func TestUnitsOfResourcesChangeNothing(t *testing.T) {
	scale := func(r pricing.Resources) pricing.Resources {
		return pricing.Resources{CPU: 4 * r.CPU, Memory: 2 * r.Memory}
	}
	rapid.Check(t, func(t *rapid.T) {
		p := arbitrary(t, bounds{30, 4, 6})
		q := Problem{Limits: p.Limits, Hosts: map[string]pricing.Resources{}, Apart: p.Apart}
		for name, room := range p.Hosts {
			q.Hosts[name] = scale(room)
		}
		for _, it := range p.Items {
			it.Requests = scale(it.Requests)
			q.Items = append(q.Items, it)
		}
		for _, b := range p.Bins {
			b.Free = scale(b.Free)
			q.Bins = append(q.Bins, b)
		}
		for _, o := range p.Offers {
			o.Free = scale(o.Free)
			o.Shape.CPU, o.Shape.Memory = 4*o.Shape.CPU, 2*o.Shape.Memory
			q.Offers = append(q.Offers, o)
		}
		r, s := Solve(p), Solve(q)
		if r.Rate != s.Rate || r.LowerBound != s.LowerBound {
			t.Fatalf("rate %s and bound %s, in other units %s and %s", r.Rate, r.LowerBound, s.Rate, s.LowerBound)
		}
	})
}

func TestSharingIsNeverDearerThanOneMachineForEachItem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := arbitrary(t, bounds{40, 4, 6})
		for name := range p.Hosts {
			p.Hosts[name] = pricing.Resources{CPU: 1e9, Memory: 1e15}
		}
		p.Limits = map[string]int{"blue": 1000, "red": 1000}
		alone := pricing.Rate(0)
		for _, it := range p.Items {
			one := Problem{Items: []Item{it}, Offers: p.Offers, Hosts: p.Hosts, Limits: p.Limits}
			r := SolveWithin(one, 0)
			if r.Placements[0].Purchase < 0 {
				t.Skip("an item that nothing on offer holds")
			}
			alone += r.Rate
		}
		for _, effort := range []int{0, DefaultEffort} {
			if r := SolveWithin(p, effort); r.Rate > alone {
				t.Fatalf("%s together, %s apart", r.Rate, alone)
			}
		}
	})
}

// The third goal: no two machines could be replaced by one that costs no more.
func TestNoTwoMachinesCouldBeOneForTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := arbitrary(t, bounds{60, 0, 6})
		for name := range p.Hosts {
			p.Hosts[name] = pricing.Resources{CPU: 1e9, Memory: 1e15}
		}
		p.Limits = map[string]int{"blue": 1000, "red": 1000}
		r := Solve(p)
		by := map[string]Item{}
		for _, it := range p.Items {
			by[it.Name] = it
		}
		for i, a := range r.Purchases {
			for _, b := range r.Purchases[:i] {
				both := Problem{Hosts: p.Hosts, Limits: map[string]int{"blue": 1, "red": 1}, Apart: p.Apart}
				for _, name := range append(slices.Clone(a.Items), b.Items...) {
					both.Items = append(both.Items, by[name])
				}
				for _, o := range p.Offers {
					if both.Offers = []Offer{o}; o.Rate <= a.Offer.Rate+b.Offer.Rate && scoreOf(both, SolveWithin(both, 0)).placed == len(both.Items) {
						t.Fatalf("%s at %s holds what %s at %s and %s at %s do", named(o), o.Rate, named(a.Offer), a.Offer.Rate, named(b.Offer), b.Offer.Rate)
					}
				}
			}
		}
	})
}

// What the search finds for larger problems keeps to the next two laws nearly always, but not
// by construction; problems of a few items are solved exactly.

func TestAnotherNodeIsNeverDearerForAFewItems(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := arbitrary(t, bounds{5, 2, 3})
		q := p
		q.Bins = append(slices.Clone(p.Bins), Bin{Name: "node-9", Slots: 3, Free: pricing.Resources{CPU: 1500, Memory: 2 * pricing.GiB}})
		neverWorse(t, p, q)
	})
}

func TestAnotherOfferIsNeverDearerForAFewItems(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := arbitrary(t, bounds{5, 2, 3})
		q := p
		q.Offers = append(slices.Clone(p.Offers), arbitraryOffer(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "offer"), 0)), 9))
		neverWorse(t, p, q)
	})
}

// neverWorse fails if the result for q is worse than that for p. The sizes of items are not
// compared: they are shares of the largest machine, which may not be the same.
func neverWorse(t *rapid.T, p, q Problem) {
	a, b := scoreOf(p, Solve(p)), scoreOf(q, Solve(q))
	if b.placed < a.placed || b.placed == len(p.Items) && a.placed == len(p.Items) && b.rate > a.rate {
		t.Fatalf("%+v became %+v", a, b)
	}
}
