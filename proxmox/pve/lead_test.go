package pve

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/timing"
)

// withLeads is a world whose leads are noted, and whose nodes are ready some time after they have
// joined.
func withLeads(t *testing.T, ready time.Duration) (*world, *[]Lead) {
	times := timing.Machine{Clone: timing.Range{Min: 40 * time.Second, Max: 40 * time.Second}, Boot: timing.Range{Min: 20 * time.Second, Max: 20 * time.Second}}
	w := newWorld(t, plan{hosts: 1, seed: 1, times: times})
	w.joinIn = timing.Range{Min: 10 * time.Second, Max: 10 * time.Second}
	nodes := w.cfg.Nodes
	w.cfg.Nodes = func(ctx context.Context) ([]Node, error) {
		all, err := nodes(ctx)
		for i := range all {
			all[i].ReadySince = all[i].JoinedAt.Add(ready)
			if all[i].Ready = !all[i].ReadySince.After(w.sim.Now()); !all[i].Ready {
				all[i].ReadySince = time.Time{}
			}
		}
		return all, err
	}
	var leads []Lead
	w.cfg.Timed = func(l Lead) { leads = append(leads, l) }
	return w.begin(), &leads
}

func TestEveryStageFromOrderToReadyNodeIsTimed(t *testing.T) {
	w, leads := withLeads(t, 25*time.Second)
	w.run(time.Second)
	began := w.sim.Now()
	name := w.mustOrder("pve1")
	w.until("it has joined", 5*time.Minute, func() bool { return w.phase(name) == nodescaler.Joined })
	w.run(2 * time.Minute)
	var stages []Stage
	sum, took := time.Duration(0), map[Stage]time.Duration{}
	for _, l := range *leads {
		stages = append(stages, l.Stage)
		took[l.Stage] = l.Took
		if l.Pool != "web" {
			t.Errorf("pool %s", l.Pool)
		}
		if l.Stage != StageAll {
			sum += l.Took
		}
	}
	if d := cmp.Diff(Stages[:len(Stages)-1], stages); d != "" {
		t.Fatalf("all stages but that of spares, in their order, each once (-want +got):\n%s", d)
	}
	if sum != took[StageAll] || took[StageAll] > w.sim.Now().Sub(began) {
		t.Errorf("the stages add up to %s, and all are %s", sum, took[StageAll])
	}
	for stage, least := range map[Stage]time.Duration{StageClone: 40 * time.Second, StageJoin: 28 * time.Second, StageReady: 20 * time.Second} {
		if took[stage] < least || took[stage] > least+15*time.Second {
			t.Errorf("%s took %s, want %s and a little", stage, took[stage], least)
		}
	}
}

// A process that was not there when a stage began does not know how long it took; and a node that
// was ready before it is not ready anew.
func TestStagesThatBeganUnderAnotherProcessAreNotTimed(t *testing.T) {
	w, leads := withLeads(t, 0)
	w.run(time.Second)
	name := w.mustOrder("pve1")
	w.until("it boots", 5*time.Minute, func() bool { return w.phase(name) == nodescaler.Booting })
	before := len(*leads)
	w.begin().run(time.Second)
	w.until("it has joined", 5*time.Minute, func() bool { return w.phase(name) == nodescaler.Joined })
	w.begin().run(time.Minute)
	for _, l := range (*leads)[before:] {
		if l.Stage == StageClone || l.Stage == StageWait || l.Took > 2*time.Minute {
			t.Errorf("timed again: %+v", l)
		}
	}
	n := 0
	for _, l := range *leads {
		if l.Stage == StageAll {
			n++
		}
	}
	if n != 1 {
		t.Errorf("it was ready %d times", n)
	}
}
