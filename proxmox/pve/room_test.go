package pve

import (
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestFailuresForLackOfRoomAreToldFromOthers(t *testing.T) {
	for fault, want := range map[string]bool{
		`fail clone text="clone failed: no space left on device"`:                           true,
		`fail start log="kvm: cannot set up guest memory 'pc.ram': Cannot allocate memory"`: true,
		`fail start log="kvm: CPU model 'host' requires KVM or HVF"`:                        false,
		"fail clone": false,
		"fail start": false,
	} {
		w := newWorld(t, plan{hosts: 1, seed: 1}).begin()
		w.inject(fault)
		w.run(time.Second)
		name := w.mustOrder("")
		w.until("it has failed", 10*time.Minute, func() bool { return w.phase(name) == nodescaler.Failed })
		if m := w.machine(name); m.NoRoom != want {
			t.Errorf("%s: no room %t, want %t: %s", fault, m.NoRoom, want, m.Problem)
		}
	}
}

// A storage that was full for a while is no reason to wait for a person: three machines that were
// ordered at once would pause their pool for good.
func TestLackOfRoomBacksAPoolOffAndDoesNotPauseIt(t *testing.T) {
	w := newWorld(t, plan{hosts: 3, seed: 1}).begin()
	w.inject(`fail clone text="clone failed: no space left on device"`)
	w.run(time.Second)
	var names []string
	for range 4 { // one more than pauses a pool whose machines fail for other reasons
		names = append(names, w.mustOrder(""))
	}
	for _, name := range names {
		w.until("it has failed", 10*time.Minute, func() bool { return w.phase(name) == nodescaler.Failed })
		must.Do(t, w.fleet.Delete(t.Context(), name))
	}
	if r := w.fleet.Paused()["web"]; r.Code != pvecode.PoolBackingOff {
		t.Errorf("after %d failures the pool is closed for %q: %s", len(names), r.Code, r.Text)
	}
	w.sim.Heal()
	w.run(maxPause)
	name := w.mustOrder("")
	w.until("it has joined", 5*time.Minute, func() bool { return w.phase(name) == nodescaler.Joined })
}
