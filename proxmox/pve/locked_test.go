package pve

import (
	"fmt"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// A snapshot locks a machine for a while. The lock of one that was killed stays for ever, and a
// person is asked to look.
func TestALockThatStaysIsReported(t *testing.T) {
	w := newWorld(t, plan{hosts: 1, seed: 1})
	w.begin()
	w.run(time.Second)
	name := w.mustOrder("pve1")
	w.until("it has joined", 5*time.Minute, func() bool { return w.phase(name) == nodescaler.Joined })
	id := w.inRange()[0].ID
	w.inject(fmt.Sprintf("lock vm=%d as=snapshot", id))
	must.Do(t, w.fleet.Delete(t.Context(), name))
	w.run(lockedFor - time.Minute)
	if w.told(pvecode.Locked) {
		t.Error("a lock that may end by itself is reported")
	}
	w.run(3 * time.Minute)
	if !w.told(pvecode.Locked) {
		t.Errorf("a lock that stays is not reported\n%s", w.story())
	}
	if got, want := w.machine(name).Problem, fmt.Sprintf("Locked: VM %d is locked (snapshot)", id); got != want {
		t.Errorf("the problem is %q, not %q", got, want)
	}
	must.Do(t, w.sim.Unlock(id))
	w.until("it is gone", 5*time.Minute, func() bool { return len(w.inRange()) == 0 })
}

// A VMID that is free is not asked about again in the same hour. A clone that was made meanwhile
// and cannot be seen is found in the next.
func TestFreeVMIDsAreAskedAboutOnceAnHour(t *testing.T) {
	w := newWorld(t, plan{hosts: 1, seed: 1})
	w.begin()
	w.run(time.Second)
	asked := func() int {
		before := w.calls("GET", "/cluster/nextid")
		must.Get(w.fleet.Orphans(t.Context()))(t)
		return w.calls("GET", "/cluster/nextid") - before
	}
	first := asked()
	if again := asked(); first == 0 || again != 0 {
		t.Errorf("%d VMIDs are asked about at first, and %d again", first, again)
	}
	w.run(freeFor)
	if later := asked(); later != first {
		t.Errorf("an hour later %d VMIDs are asked about, of %d", later, first)
	}
}
