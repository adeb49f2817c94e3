package policy

import (
	"testing"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample/life"
)

// A week costs less with consolidation, and hardly more than it must, and sick nodes and old
// templates are gone. With -v it prints the numbers.
func TestAWeekWithConsolidation(t *testing.T) {
	weeks := map[nodescaler.ConsolidationPolicy]*life.Week{}
	for _, policy := range []nodescaler.ConsolidationPolicy{"", nodescaler.WhenEmpty, nodescaler.WhenEmptyOrUnderutilized} {
		w := life.NewWeek(policy)
		w.Days(t, build(t, Spec{Policy: "joint"}), 7)
		weeks[policy] = w
		t.Logf("%-26s cost %.3f of the bound, %d pods moved, pods waited for %d minutes", policy, w.Paid/w.Bound, w.Moves, w.Waited)
		if left := w.Left(); len(left) > 0 {
			t.Errorf("%q: %v are still there", policy, left)
		}
	}
	none, all := weeks[""], weeks[nodescaler.WhenEmptyOrUnderutilized]
	if all.Paid > none.Paid {
		t.Errorf("with consolidation it costs %.3f of the bound, without %.3f", all.Paid/all.Bound, none.Paid/none.Bound)
	}
}
