package pve

import (
	"testing"
	"time"
)

// Several machines are moved at a time. Whoever is picked last must see what those before it are
// about to do, or a clone that ends would let as many begin as there are workers.
func TestNoMoreClonesArePickedThanMayBeMadeAtATime(t *testing.T) {
	w := newWorld(t, plan{hosts: 1, seed: 1})
	w.cfg.ClonesPerStorage = 2
	w.begin().run(time.Second)
	for range 5 {
		w.mustOrder("")
	}
	var picked []*work
	for {
		next, mv := w.fleet.pick()
		if next == nil {
			break
		}
		if mv == moveClaim {
			picked = append(picked, next)
		}
	}
	if len(picked) != 2 {
		t.Fatalf("%d clones are begun at once, want 2", len(picked))
	}
	picked[0].m.busy = false // it was refused, and is the next one's turn again
	if next, mv := w.fleet.pick(); next == nil || mv != moveClaim || next.m != picked[0].m {
		t.Errorf("then %v is picked", mv)
	}
}
