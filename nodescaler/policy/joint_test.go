package policy

import (
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// A clone that fails is tried again soon, and one that goes on failing less and less often.
func TestJointSoonTriesAgainWhatFailed(t *testing.T) {
	w := aWorld().pod("a", "", 600, 100)
	p := build(t, Spec{Policy: "joint"})
	bought := func(at time.Duration) bool {
		for _, a := range decide(t, p, w.at(at)).Actions {
			if a.Kind == nodescaler.Buy {
				return true
			}
		}
		return false
	}
	if !bought(0) {
		t.Fatal("nothing is ordered for a pod that waits")
	}
	fails := func(name string, at time.Duration) {
		w.Machines = nil
		w.machine(name, "pve1", nodescaler.Failed, func(m *nodescaler.Machine) { m.Since = noon.Add(at) })
		if bought(at) {
			t.Errorf("at %s another is ordered at once", at)
		}
		w.Machines = nil
	}
	fails("w-1", time.Minute)
	if bought(time.Minute+10*time.Second) || !bought(time.Minute+20*time.Second) {
		t.Error("after the first failure there is no order after 20 s, or one after 10 s")
	}
	fails("w-2", 2*time.Minute)
	if bought(2*time.Minute+20*time.Second) || !bought(2*time.Minute+35*time.Second) {
		t.Error("after the second failure there is no order after 35 s, or one after 20 s")
	}
}
