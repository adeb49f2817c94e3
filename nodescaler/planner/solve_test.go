package planner

import (
	"slices"
	"testing"

	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/packing"
)

// A problem that the last scan had is not solved anew. One that differs in anything is, also where
// the scan has changed what the problem was made from.
func TestAProblemIsSolvedOnce(t *testing.T) {
	g := &grower{market: &market{&turn{memory: &memory{}}}}
	hosts, limits := map[string]pricing.Resources{"a": {CPU: 8000, Memory: 16 * pricing.GiB}}, map[string]int{"p": 2}
	problem := func() packing.Problem {
		return packing.Problem{
			Items: []packing.Item{{Name: "x", Class: "c", Requests: pricing.Resources{CPU: 500, Memory: pricing.GiB}}},
			Offers: []packing.Offer{{
				Pool: "p", Host: "a", Rate: 7, Shape: pricing.Shape{Name: "s", CPU: 2000, Memory: 4 * pricing.GiB},
				Free: pricing.Resources{CPU: 2000, Memory: 4 * pricing.GiB}, Slots: 10,
			}},
			Hosts: hosts, Limits: limits,
		}
	}
	scan := func() packing.Result {
		g.posed, g.posing = g.posing, nil
		return g.solve(problem())
	}
	if r := scan(); len(r.Purchases) != 1 || r.Rate != 7 {
		t.Fatalf("the problem is solved by %+v", r)
	}
	g.posing[0].result.Rate = 42 // by which it is known again
	if r := scan(); r.Rate != 42 {
		t.Error("the same problem is solved twice")
	}
	limits["p"] = 0
	if r := scan(); r.Rate == 42 || len(r.Purchases) != 0 {
		t.Errorf("with a limit of 0 the result is %+v", r)
	}
	limits["p"] = 2
	if r := scan(); r.Rate != 7 {
		t.Errorf("the result of the scan before the last is remembered: %+v", r)
	}
}

// Pods whose machine is refused have one of the same shape on another host, where hosts are zones.
func TestAShapeRefusedOnAHostIsHadOnAnother(t *testing.T) {
	for _, c := range []struct {
		name  string
		zones bool
		want  []string
	}{
		{name: "hosts are zones", zones: true, want: []string{"Buy w small pve2"}},
		{name: "hosts are alike"},
	} {
		w := sample.New().Pod("p", "", 100, 100)
		w.Pools[0].HostIsZone = c.zones
		for i := range w.Hosts {
			w.Hosts[i].Room = sample.Small.Resources().Times(3 - i)
		}
		s := scanOf(w)
		s.fills = true // what machines carry is counted
		offers := s.grower.offers()
		s.grower.all = offers
		wants := (&demand{s.turn}).list()
		r := packing.Result{Purchases: []packing.Purchase{{Offer: offers[0]}}, Placements: []packing.Placement{{Item: "p", Purchase: 0}}}
		s.Free["pve1"] = sample.Small.Resources().Times(0)
		s.grower.retry(wants, r, []refusal{{at: 0, offer: offers[0]}}, nil, offers)
		if got := sample.Lines(s.Plan); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
