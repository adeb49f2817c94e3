package planner

import (
	"testing"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/pricing"
)

// How much a preference likes a node, by what is there already.
func TestHowMuchANodeIsLiked(t *testing.T) {
	in := func(zone string) *nodescaler.Node {
		return &nodescaler.Node{Labels: map[string]string{sample.Zone: zone}}
	}
	w := sample.Zoned("a", "b", "c")
	w.Node("n1", "pve1").In("a").Pod("x", "n1", 100, 100, sample.Prefers()).Pod("y", "n1", 100, 100, sample.Prefers())
	w.Node("n2", "pve1").In("b").Pod("z", "n2", 100, 100, sample.Prefers())
	s := scanOf(w)
	spread := sample.WantsZone(func(r *nodescaler.Topology) { r.Skew = 1 })
	apart := sample.WantsZone(func(*nodescaler.Topology) {})
	together := sample.WantsZone(func(r *nodescaler.Topology) { r.Together = true })
	label := sample.WantsLabel(7, sample.Zone, "a")
	for _, c := range []struct {
		name string
		pref nodescaler.Preference
		zone string
		want int
	}{
		{"its label", label, "a", 7}, {"another label", label, "b", 0},
		{"spread where two are", spread, "a", -200}, {"spread where one is", spread, "b", -100}, {"spread where none is", spread, "c", 0}, {"spread where no zone is", spread, "", -100000},
		{"apart where two are", apart, "a", -100}, {"apart where one is", apart, "b", -100}, {"apart where none is", apart, "c", 0}, {"apart where no zone is", apart, "", -100000},
		{"together where two are", together, "a", 100}, {"together where none is", together, "c", 0}, {"together where no zone is", together, "", 0},
	} {
		if got := s.grower.likings.likes(&c.pref, in(c.zone)); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// What keeps a machine of a preferred pool from being ordered for pods, each by itself.
func TestWhichMachinesSuitPods(t *testing.T) {
	gpus := func(n int64) pricing.Amounts { return pricing.Amounts{{Name: "gpu", N: n}} }
	for _, c := range []struct {
		name string
		used nodescaler.Used
		want bool
	}{
		{"nothing", nodescaler.Used{}, true},
		{"all of its CPU", nodescaler.Used{Requests: pricing.Resources{CPU: 1800}}, true},
		{"more", nodescaler.Used{Requests: pricing.Resources{CPU: 1801}}, false},
		{"all of its devices", nodescaler.Used{Extra: gpus(2)}, true},
		{"more devices", nodescaler.Used{Extra: gpus(3)}, false},
		{"all of its slots", nodescaler.Used{Pods: 3}, true},
		{"more slots", nodescaler.Used{Pods: 4}, false},
	} {
		w := sample.New()
		w.Pools[0].Extra, w.Pools[0].PodSlots = gpus(2), 3
		s := scanOf(w)
		if got := s.grower.likings.suits(s.X.Pool("w"), sample.Small, "pve1", &bundle{used: c.used}); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}
