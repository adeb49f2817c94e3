package planner

import (
	"testing"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// How much a preference likes a node, by what is there already.
func TestHowMuchANodeIsLiked(t *testing.T) {
	in := func(zone string) *nodescaler.Node {
		return &nodescaler.Node{Labels: map[string]string{zoneLabel: zone}}
	}
	w := zoned("a", "b", "c")
	w.node("n1", "pve1").in("a").pod("x", "n1", 100, 100, prefers()).pod("y", "n1", 100, 100, prefers())
	w.node("n2", "pve1").in("b").pod("z", "n2", 100, 100, prefers())
	s := w.scan()
	spread := wantsZone(func(r *nodescaler.Topology) { r.Skew = 1 })
	apart := wantsZone(func(*nodescaler.Topology) {})
	together := wantsZone(func(r *nodescaler.Topology) { r.Together = true })
	label := wantsLabel(7, zoneLabel, "a")
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

// prefers are pods that would rather have something, and are noted where others would by them.
func prefers(all ...nodescaler.Preference) func(*nodescaler.Pod) {
	return func(p *nodescaler.Pod) { p.Prefers, p.Noted = all, []string{"app=web"} }
}

func wantsLabel(weight int, key, value string) nodescaler.Preference {
	return nodescaler.Preference{Weight: weight, Affinity: nodescaler.Affinity{{{Key: key, Operator: nodescaler.In, Values: []string{value}}}}}
}

func wantsZone(change func(*nodescaler.Topology)) nodescaler.Preference {
	w := nodescaler.Preference{Weight: 100, Rule: nodescaler.Topology{Key: zoneLabel, Mark: "app=web"}}
	change(&w.Rule)
	return w
}
