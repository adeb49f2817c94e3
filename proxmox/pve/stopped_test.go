package pve

import (
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/race"
)

// stopAll stops machines as a power cut or a person does, and has the fleet begin without what it
// kept.
func (w *world) stopAll(t *testing.T, names []string) {
	t.Helper()
	for _, n := range names {
		v := w.there(n)
		must.Get(w.root().VM(v.Host, v.ID).Stop(t.Context(), false))(t)
	}
	w.sim.Advance(time.Minute)
	w.intents = &intents.Memory{}
	w.begin()
}

// deleteFor has policies give machines back, again and again.
func (w *world) deleteFor(t *testing.T, names []string, long time.Duration) {
	t.Helper()
	for end := w.sim.Now().Add(long); w.sim.Now().Before(end); {
		w.run(5 * time.Minute)
		for _, n := range names {
			if w.there(n) != nil {
				_ = w.fleet.Delete(t.Context(), n) // it may be refused
			}
		}
	}
}

// Of a machine that is found stopped, and of which nothing is kept, it is not known whether it ever
// ran. It is looked at before it goes as if it had, also where its node is not listed when it is
// adopted.
func TestStoppedMachinesThatAreAdoptedAreLookedAt(t *testing.T) {
	race.Skip(t)
	for _, c := range []struct {
		name string
		node func(w *world, name string) // what becomes of it
	}{
		{"the node is not ready", func(w *world, _ string) { w.joins[0].node.Ready = false }},
		{"the node was deleted", func(w *world, name string) { _ = w.removeNode(t.Context(), name) }},
		{"the API server is away", func(w *world, _ string) { w.blind = true }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, names := seeing(t, 1)
			v := w.there(names[0])
			must.Do(t, w.root().VM(v.Host, v.ID).SetConfig(t.Context(), map[string]string{"scsi1": "local-lvm:5"}, nil, ""))
			c.node(w, names[0])
			w.stopAll(t, names)
			w.run(70 * time.Minute)
			w.blind = false
			w.deleteFor(t, names, 2*time.Hour)
			if w.there(names[0]) == nil {
				t.Errorf("it is destroyed with a disk that its order did not make\n%s", w.story())
			}
		})
	}
}

// Many of them are braked, as if they had run.
func TestStoppedMachinesThatAreAdoptedAreBraked(t *testing.T) {
	race.Skip(t)
	w, names := seeing(t, 10)
	w.emptied = func(string) bool { return true }
	w.stopAll(t, names)
	w.deleteFor(t, names, 3*time.Hour)
	if n := w.destroyed(names); n > 1 {
		t.Errorf("%d of 10 are destroyed, want one at most; braked %v", n, w.fleet.Braked())
	}
}

// While a machine is cloned it is listed as VM and its id, with its tags. It may be one of the
// pool's.
func TestMaximumHoldsWhileClonesHaveNoName(t *testing.T) {
	for _, seed := range []uint64{7, 9, 13} {
		w := twoWorld(t, seed, 3)
		a, b := w.beside("first", homeCluster, nil), w.beside("second", homeCluster, nil)
		together(4*time.Second, a, b)
		for range 3 {
			_, _ = a.order() // refused once there are enough
			_, _ = b.order()
		}
		for range 60 {
			together(2*time.Second, a, b)
			if running, _ := w.made(); len(running) > 3 {
				t.Fatalf("seed %d: %d machines run, want 3 at most", seed, len(running))
			}
		}
	}
}

// A host that is online and reports nothing lists its machines without a state: they may run.
func TestMachinesOfAHostThatReportsNothingAreNotStopped(t *testing.T) {
	w := newWorld(t, plan{hosts: 2, seed: 1}).begin()
	w.run(time.Second)
	name := w.join("pve2")[0]
	w.inject("freeze resources on=pve2 for=20m")
	w.run(10 * time.Minute)
	m, v := w.machine(name), w.there(name)
	if g := w.fleet.view.guest(v.ID); g.Running || g.Stopped || m.Problem != "" {
		t.Errorf("it is listed as %+v, with the problem %q", g, m.Problem)
	}
	if !w.fleet.view.weight(v.ID, w.sim.Now()).runs {
		t.Error("it weighs as if it were stopped")
	}
	must.Do(t, w.fleet.Stash(t.Context(), name))
	w.run(5 * time.Minute)
	if w.fleet.roster.named(name).off || !w.runs(name) {
		t.Error("it is taken for a spare that is stopped")
	}
}

// What a host says is believed as long as the host is online.
func TestGuestsRunAreStoppedOrUnknown(t *testing.T) {
	for status, want := range map[string][2]bool{"running": {true, false}, "stopped": {false, true}, "unknown": {}, "": {}} {
		if g := SeenGuest(&pveapi.Resource{Status: status}); g.Running != want[0] || g.Stopped != want[1] {
			t.Errorf("%q: runs %v, stopped %v", status, g.Running, g.Stopped)
		}
	}
	w := newWorld(t, plan{hosts: 3, seed: 1}).begin()
	w.run(time.Second)
	name := w.join("pve3")[0]
	v := w.there(name)
	must.Get(w.root().VM(v.Host, v.ID).Stop(t.Context(), false))(t)
	w.run(time.Minute)
	if !w.fleet.view.guest(v.ID).Stopped {
		t.Error("it is not known to be stopped")
	}
	w.inject("host pve3 down")
	w.run(time.Minute)
	if g := w.fleet.view.guest(v.ID); g.Stopped {
		t.Errorf("its host is offline, and it is known to be stopped: %+v", g)
	}
}
