package pve

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// unproved returns what is reported of a VMID as not proved to be ours.
func (w *world) unproved(id int) *Orphan {
	w.t.Helper()
	r := must.Get(w.fleet.Orphans(w.t.Context()))(w.t)
	if i := slices.IndexFunc(r.Orphans, func(o Orphan) bool { return o.Kind == UnprovedMachine && o.VMID == id }); i >= 0 {
		return &r.Orphans[i]
	}
	return nil
}

// killedClone is what is left of a clone that was killed while the process that had asked for it
// was replaced.
func killedClone(w *world) int {
	w.inject("kill task clone times=1")
	w.mustOrder("pve1")
	w.until("a clone begins", time.Minute, func() bool { return len(w.inRange()) == 1 })
	w.intents = &intents.Memory{}
	w.begin()
	return w.inRange()[0].ID
}

// namelessClone is one of which not even the name was written.
func namelessClone(w *world) int {
	must.Do(w.t, w.asRoot(http.MethodPost, "/nodes/pve1/qemu", map[string]any{"vmid": 1005}))
	w.inject("lock vm=1005 as=clone")
	return 1005
}

// What is left of a clone that no intent knows of is locked for ever. Once no process can be making
// it any more, it is reported with what to do about it, and takes no place of its pool's.
func TestAKilledCloneWithoutAnIntentIsReported(t *testing.T) {
	for name, leave := range map[string]func(*world) int{"killed": killedClone, "nameless": namelessClone} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, plan{hosts: 2, seed: 3})
			w.pool().Max = 1
			w.sim.Grant("/", "Administrator", "plimsoll@pve") // it sees all
			w.begin()
			w.run(time.Second)
			id := leave(w)
			w.run(stuckAfter - time.Minute)
			if p := w.fleet.catalogue.pools["web"]; w.fleet.ownership.unsettled(p) == nil {
				t.Error("a clone may show another cluster's mark soon, and orders do not wait for that")
			}
			w.run(2 * time.Minute)
			if p := w.fleet.catalogue.pools["web"]; w.fleet.ownership.unsettled(p) != nil {
				t.Error("orders wait for the mark of a clone that makes no progress")
			}
			w.run(makeWithin - 20*time.Minute)
			if o := w.unproved(id); o != nil {
				t.Fatalf("another process may be making it, and it is reported: %s", o.Text)
			}
			if _, err := w.order(""); err == nil || !strings.Contains(err.Error(), pvecode.PoolAtMax) {
				t.Errorf("it may be the pool's only machine, and an order gets %v", err)
			}
			w.run(20 * time.Minute)
			o := w.unproved(id)
			if o == nil || !o.Due.IsZero() {
				t.Fatalf("got %+v, want a report of what is never removed\n%s", o, w.story())
			}
			w.mustSay(o.Text, "left of a clone", "qm unlock", "qm destroy")
			if w.calls("DELETE", "/qemu/") != 0 {
				t.Error("it is destroyed without a proof that it is ours")
			}
			order := w.mustOrder("")
			w.until("the order has its place", 5*time.Minute, func() bool { return w.phase(order) == "Joined" })
			w.sim.Heal()
			w.destroyByHand(w.inRange()[slices.IndexFunc(w.inRange(), func(v pvesim.VMState) bool { return v.ID == id })])
			w.run(time.Minute)
			if o := w.unproved(id); o != nil {
				t.Errorf("a person has removed it, and it is reported: %+v", o)
			}
		})
	}
}
