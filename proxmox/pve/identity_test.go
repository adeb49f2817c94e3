package pve

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestProviderIDIsKnownFromTheOrderOn(t *testing.T) {
	w := newWorld(t, plan{hosts: 2, seed: 1}).begin()
	w.run(time.Second)
	name := w.mustOrder("")
	planned := w.machine(name).ProviderID
	if planned == "" {
		t.Fatal("no id before the clone")
	}
	w.until("it has joined", 5*time.Minute, func() bool { return w.phase(name) == nodescaler.Joined })
	nodes, err := w.nodes(t.Context())
	if err != nil || len(nodes) != 1 || nodes[0].ProviderID != planned || w.machine(name).ProviderID != planned {
		t.Errorf("planned %s, listed %s, the nodes are %v, %v", planned, w.machine(name).ProviderID, nodes, err)
	}
}

func TestProviderIDOutlivesAChangeOfConfiguration(t *testing.T) {
	w := newWorld(t, plan{hosts: 2, seed: 1}).begin()
	w.run(time.Second)
	name := w.mustOrder("")
	planned := w.machine(name).ProviderID
	w.pool().Region = "moved"
	w.begin()
	w.run(time.Second)
	if got := w.machine(name).ProviderID; got != planned {
		t.Errorf("the id was %s and is %s", planned, got)
	}
}

// A client that has an id must not wait for it when its VMID has become a stranger's.
func TestLostIDIsToldUntilTheMachineHasJoined(t *testing.T) {
	w := newWorld(t, plan{hosts: 2, seed: 1}).begin()
	w.inject("steal id nth=1")
	w.run(time.Second)
	name := w.mustOrder("")
	planned := w.machine(name).ProviderID
	w.until("the VMID is lost", time.Minute, func() bool { return w.told(pvecode.VMIDTaken) })
	m := w.machine(name)
	if m.ProviderID == planned || m.ProviderID == "" {
		t.Errorf("its id is %q, of a VMID that is another's", m.ProviderID)
	}
	if diff := cmp.Diff([]string{planned}, m.LostIDs); diff != "" {
		t.Errorf("lost ids: -want +got:\n%s", diff)
	}
	w.begin() // what was listed once is listed after a restart
	w.run(time.Second)
	if diff := cmp.Diff([]string{planned}, w.machine(name).LostIDs); diff != "" {
		t.Errorf("lost ids after a restart: -want +got:\n%s", diff)
	}
	w.until("it has joined", 5*time.Minute, func() bool { return w.phase(name) == nodescaler.Joined })
	if lost := w.machine(name).LostIDs; lost != nil {
		t.Errorf("%v is told of a machine that has joined", lost)
	}
}

func TestIDsOfNamesAreNotLostWithAVMID(t *testing.T) {
	w := newWorld(t, plan{hosts: 2, seed: 1})
	w.pool().Join.ProviderID = firstboot.ProviderID{Scheme: firstboot.SchemeRKE2}
	w.begin()
	w.inject("steal id nth=1")
	w.run(time.Second)
	name := w.mustOrder("")
	w.until("the VMID is lost", time.Minute, func() bool { return w.told(pvecode.VMIDTaken) })
	if m := w.machine(name); m.ProviderID != "rke2://"+name || m.LostIDs != nil {
		t.Errorf("its id is %s, lost are %v", m.ProviderID, m.LostIDs)
	}
}

// The node's own id never changes, so it counts once it is there: whoever looks for the node by the
// planned one would take the machine for one that never joined, and delete it.
func TestNodesOwnIDTakesThePlaceOfThePlanned(t *testing.T) {
	w := newWorld(t, plan{hosts: 2, seed: 1})
	w.pool().Join.ProviderID = firstboot.ProviderID{Scheme: firstboot.SchemeK3s}
	w.begin()
	w.run(time.Second)
	name := w.mustOrder("")
	w.until("it has joined", 5*time.Minute, func() bool { return w.phase(name) == nodescaler.Joined })
	nodes := must.Get(w.nodes(t.Context()))(t)
	if got := w.machine(name).ProviderID; got != nodes[0].ProviderID {
		t.Errorf("its id is %s, its node's is %s", got, nodes[0].ProviderID)
	}
	told := w.fleet.Counts()[pvecode.IDMismatch]
	w.begin()
	w.run(time.Minute)
	if got := w.machine(name).ProviderID; got != nodes[0].ProviderID || told != 1 || w.fleet.Counts()[pvecode.IDMismatch] != 0 {
		t.Errorf("after a restart its id is %s; the mismatch was told %d times, and %d times again", got, told, w.fleet.Counts()[pvecode.IDMismatch])
	}
}
