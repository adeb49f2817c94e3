package pve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestOrderBecomesANodeAndGoesAgain(t *testing.T) {
	w := newWorld(t, plan{hosts: 3, seed: 1}).begin()
	w.run(time.Second)
	name := w.mustOrder("pve2")
	if m := w.machine(name); m.Phase != nodescaler.Ordered || !m.Created.IsZero() || m.Host != "pve2" {
		t.Errorf("got %+v, want an order on pve2 that costs nothing yet", m)
	}
	w.until("it boots", time.Minute, func() bool { return w.phase(name) == nodescaler.Booting })
	if m := w.machine(name); m.Created.IsZero() {
		t.Error("a machine that is there costs something")
	}
	w.until("it has joined", 5*time.Minute, func() bool { return w.phase(name) == nodescaler.Joined })
	w.run(time.Minute)
	v := w.there(name)
	if got := v.Config["ide2"]; got != emptyDrive || len(w.discs()) != 0 {
		t.Errorf("the drive holds %q and discs %v are left, which hold the join token", got, w.discs())
	}
	if v.Config["smbios1"] != "uuid="+machineUUID("home", strings.TrimPrefix(name, "web-")) || !strings.Contains(v.Config["scsi0"], "size=20G") {
		t.Errorf("its UUID and disk are %s and %s", v.Config["smbios1"], v.Config["scsi0"])
	}
	w.giveBack(name)
	if w.phase(name) != nodescaler.Deleting {
		t.Errorf("it is %s", w.phase(name))
	}
	w.until("it is gone", 5*time.Minute, func() bool { return w.phase(name) == "" })
	w.run(time.Minute)
	if nodes, _ := w.nodes(t.Context()); len(nodes) != 0 || len(w.inRange()) != 0 {
		t.Errorf("left are nodes %v and machines %v", nodes, w.inRange())
	}
	if all, _ := w.intents.Load(); len(all) != 1 || all[0].Gone.IsZero() {
		t.Errorf("the intent is not kept for the cool-down: %v", all)
	}
	w.run(time.Hour)
	if all, _ := w.intents.Load(); len(all) != 0 {
		t.Errorf("after the cool-down there still is %v", all)
	}
}

// Guides put Proxmox VE's cloud-init drive on SCSI as often as on IDE. The guest reads one of the
// discs of that label, and must not have the choice.
func TestTheTemplatesCloudInitDriveIsNotBesideTheDisc(t *testing.T) {
	for _, key := range []string{"scsi1", "virtio1", "sata3", "ide0"} {
		p := plan{hosts: 1, seed: 1, vms: []pvesim.VM{{
			ID: 9050, Host: "pve1", Pool: "templates", Template: true, Storage: "local-lvm", Disk: 8 * gib,
			Config: map[string]string{"name": "guide", "agent": "1", "protection": "1", key: "local-lvm:cloudinit"},
		}}}
		w := newWorld(t, p)
		w.pool().Template = placement.Template{ByHost: map[string]int{"pve1": 9050}}
		w.begin().run(time.Second)
		name := w.mustOrder("pve1")
		w.until("it boots", time.Minute, func() bool { return w.phase(name) == nodescaler.Booting })
		for drive, value := range w.there(name).Config {
			if strings.Contains(value, "cloudinit") {
				t.Errorf("%s: the machine boots with %s: %s beside its disc", key, drive, value)
			}
		}
		w.until("it has joined", 5*time.Minute, func() bool { return w.phase(name) == nodescaler.Joined })
	}
}

func TestNothingIsKnownBeforeTheFirstLook(t *testing.T) {
	w := newWorld(t, plan{hosts: 1, seed: 1}).begin()
	if _, err := w.fleet.List(t.Context()); !errors.Is(err, loop.ErrUnread) {
		t.Errorf("before the first look: got %v, want %v", err, loop.ErrUnread)
	}
	if _, err := w.order(""); !errors.Is(err, loop.ErrRefused) || !strings.Contains(err.Error(), pvecode.NoInventory) {
		t.Errorf("got %v, want %s", err, pvecode.NoInventory)
	}
	w.run(time.Second)
	if _, err := w.fleet.List(t.Context()); err != nil {
		t.Error(err)
	}
	w.sim.Advance(maxAge + time.Second)
	if _, err := w.fleet.List(t.Context()); err == nil || errors.Is(err, loop.ErrUnread) {
		t.Errorf("a list that is too old: got %v", err)
	}
}

func TestOrdersAreRefusedWithReasons(t *testing.T) {
	for _, c := range []struct {
		name   string
		world  func(w *world)
		change func(*loop.Order)
		want   string
	}{
		{"no name", nil, func(o *loop.Order) { o.ID = "" }, pvecode.BadOrder},
		{"a name that is no host name", nil, func(o *loop.Order) { o.ID = "A_1" }, pvecode.BadOrder},
		{"a name that is too long", nil, func(o *loop.Order) { o.ID = strings.Repeat("x", 30) }, pvecode.BadOrder},
		{"no such pool", nil, func(o *loop.Order) { o.Action.Pool = "db" }, pvecode.PoolUnknown},
		{"no shape", nil, func(o *loop.Order) { o.Action.Shape = nil }, pvecode.ShapeUnknown},
		{"a shape of another size", nil, func(o *loop.Order) {
			s := *o.Action.Shape
			s.CPU *= 2
			o.Action.Shape = &s
		}, pvecode.ShapeUnknown},
		{"no such host", nil, func(o *loop.Order) { o.Action.Host = "pve9" }, placement.CodeHostUnknown},
		{"full", func(w *world) { w.mustOrder(""); w.mustOrder("") }, func(*loop.Order) {}, pvecode.PoolAtMax},
		{"no VMID", func(w *world) {
			for id := 1000; id < 1004; id++ {
				w.fleet.ownership.taken[id] = w.sim.Now()
			}
		}, func(*loop.Order) {}, pvecode.VMIDsExhausted},
		{"no quorum", func(w *world) { w.inject("no quorum"); w.sim.Advance(20 * time.Second); w.run(20 * time.Second) }, func(*loop.Order) {}, pvecode.Frozen},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, plan{hosts: 2, seed: 1})
			w.pool().Max, w.pool().VMIDs = 2, placement.VMIDs{First: 1000, Last: 1003}
			w.begin()
			w.run(time.Second)
			if c.world != nil {
				c.world(w)
			}
			o := loop.Order{ID: "x1", At: w.sim.Now(), Action: nodescaler.Action{Pool: "web", Shape: &w.pool().Shapes[0]}}
			c.change(&o)
			err := w.fleet.Create(t.Context(), o)
			var r *Refusal
			if !errors.As(err, &r) || !errors.Is(err, loop.ErrRefused) || r.Reasons[0].Code != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if unseen := errors.Is(err, loop.ErrUnseen); unseen != (c.want == pvecode.Frozen) {
				t.Errorf("unseen: %v, of %v", unseen, err)
			}
		})
	}
}

func TestNeverMoreThanMaxHoweverManyOrderAtOnce(t *testing.T) {
	w := newWorld(t, plan{hosts: 3, seed: 1})
	w.cfg.Parallel, w.cfg.Report = 4, nil
	w.pool().Max = 7
	w.begin()
	w.run(time.Second)
	var together sync.WaitGroup
	for i := range 40 {
		together.Go(func() {
			o := loop.Order{ID: fmt.Sprintf("x%d", i%20), Action: nodescaler.Action{Pool: "web", Shape: &w.pool().Shapes[0]}}
			for range 3 { // repeated orders are no more machines
				_ = w.fleet.Create(context.Background(), o)
			}
			_ = w.fleet.Tick(context.Background())
		})
	}
	together.Wait()
	w.run(5 * time.Minute)
	if n := len(w.inRange()); n != 7 {
		t.Errorf("there are %d machines, want 7", n)
	}
	if state, err := w.fleet.List(t.Context()); err != nil || len(state.Machines) != 7 {
		t.Errorf("%d are listed, %v", len(state.Machines), err)
	}
}

// Whoever scales a pool by how many of its machines stay counts none that goes. An order in the
// place of one is taken, and its clone waits: there are never more than may be.
func TestAnOrderTakesThePlaceOfAMachineThatGoes(t *testing.T) {
	w := newWorld(t, plan{hosts: 2, seed: 5})
	w.pool().Max = 2
	w.begin()
	w.run(time.Second)
	first, second := w.mustOrder("pve1"), w.mustOrder("pve2")
	w.until("both have joined", time.Hour, func() bool { return w.phase(first) == nodescaler.Joined && w.phase(second) == nodescaler.Joined })
	must.Do(t, w.fleet.Delete(t.Context(), first))
	third := w.mustOrder("pve2")
	if _, err := w.order("pve2"); !errors.Is(err, loop.ErrPoolRefused) || !strings.Contains(err.Error(), pvecode.PoolAtMax) {
		t.Errorf("one more than stay: %v", err)
	}
	w.until("it has joined", time.Hour, func() bool {
		if n := len(w.inRange()); n > 2 {
			t.Fatalf("there are %d machines, of at most 2\n%s", n, w.story())
		}
		return w.phase(third) == nodescaler.Joined
	})
	if state, err := w.fleet.List(t.Context()); err != nil || len(state.Machines) != 2 {
		t.Errorf("%d machines are listed, %v", len(state.Machines), err)
	}
}

// One that cannot be destroyed keeps its place.
func TestAMachineThatGoesAndIsAwayKeepsItsPlace(t *testing.T) {
	w := newWorld(t, plan{hosts: 3, seed: 5})
	w.pool().Max = 1
	w.begin()
	w.run(time.Second)
	name := w.mustOrder("pve3")
	w.until("it has joined", time.Hour, func() bool { return w.phase(name) == nodescaler.Joined })
	w.inject("host pve3 down for=48h")
	w.run(5 * time.Minute)
	must.Do(t, w.fleet.Delete(t.Context(), name))
	if _, err := w.order("pve1"); !errors.Is(err, loop.ErrPoolRefused) || !strings.Contains(err.Error(), pvecode.PoolAtMax) {
		t.Errorf("an order in place of a machine on a host that is away: %v", err)
	}
}

func TestHostsAreToldAsTheyAre(t *testing.T) {
	w := newWorld(t, plan{hosts: 3, seed: 1})
	w.pool().Placement = placement.Rules{MemoryReserve: 8 << 30, MemoryRatio: 1.5, CPURatio: 2, Maintenance: []string{"pve2"}, MaxPerHost: 1}
	// Others' machines can only be counted by who may see them.
	w.sim.AddRole("PlimsollSight", "VM.Audit")
	w.sim.Grant("/vms", "PlimsollSight", "plimsoll@pve")
	w.begin()
	w.run(time.Second)
	must.Do(t, w.asRoot("POST", "/nodes/pve3/qemu", map[string]any{"vmid": 100, "memory": 16384, "cores": 4, "name": "db"}))
	w.sim.Advance(20 * time.Second)
	w.run(time.Minute)
	w.mustOrder("pve1")
	state := must.Get(w.fleet.List(t.Context()))(t)
	gib := func(n int) pricing.Bytes { return pricing.Bytes(n) * pricing.GiB }
	want := []nodescaler.Host{
		{Host: pricing.Host{Name: "pve1", Room: pricing.Resources{CPU: 64000, Memory: gib(180)}}, Online: true},
		// The pool says that it is in maintenance.
		{Host: pricing.Host{Name: "pve2", Room: pricing.Resources{CPU: 64000, Memory: gib(180)}}, Online: true},
		{Host: pricing.Host{Name: "pve3", Room: pricing.Resources{CPU: 60000, Memory: gib(164)}}, Online: true},
	}
	if diff := cmp.Diff(want, state.Hosts); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if r := state.Refused["web"]; len(r) != 1 || r[0].Host != "pve1" || r[0].Why.Code != placement.CodeHostAtLimit {
		t.Errorf("refused are %+v, want what pve1 has enough of", r)
	}
}

// What a policy reads from List, and orders by, is never refused for lack of room.
func TestRoomThatIsToldIsRoomThatIsGiven(t *testing.T) {
	w := newWorld(t, plan{hosts: 2, seed: 1})
	w.pool().Max, w.pool().Placement.MemoryReserve = 50, 100<<30
	other := *w.pool()
	other.Name, other.VMIDs, other.Placement.MemoryReserve = "db", placement.VMIDs{First: 2000, Last: 2099}, 90<<30
	w.cfg.Pools = append(w.cfg.Pools, other)
	w.begin()
	w.run(time.Second)
	for {
		state := must.Get(w.fleet.List(t.Context()))(t)
		s := nodescaler.Snapshot{Hosts: state.Hosts, Machines: state.Machines}
		x := nodescaler.NewIndex(&s)
		i := slices.IndexFunc(x.Hosts, func(h nodescaler.HostRoom) bool { return w.pool().Shapes[0].Resources().Within(h.Free) })
		if i < 0 {
			if len(state.Machines) != 14 {
				t.Errorf("%d machines were ordered, want 14 of 4 GiB on two hosts with 28", len(state.Machines))
			}
			return
		}
		w.mustOrder(x.Hosts[i].Name)
	}
}

func TestMachinesThatOthersRemoveAreReported(t *testing.T) {
	w := newWorld(t, plan{hosts: 2, seed: 1}).begin()
	w.run(time.Second)
	name := w.join("pve1")[0]
	v := w.there(name)
	c := w.root()
	must.Get(c.VM(v.Host, v.ID).Stop(t.Context(), false))(t)
	w.run(time.Minute)
	if m := w.machine(name); m.Phase != nodescaler.Joined || !strings.Contains(m.Problem, pvecode.Stopped) {
		t.Errorf("got %s (%s), want a machine that is stopped", m.Phase, m.Problem)
	}
	must.Get(c.VM(v.Host, v.ID).Destroy(t.Context(), true))(t)
	w.sim.Advance(10 * time.Second)
	w.until("it has failed", time.Minute, func() bool { return w.phase(name) == nodescaler.Failed })
	w.event(pvecode.Vanished)
	if len(w.fleet.Paused()) != 0 {
		t.Error("the pool is blamed for what somebody did")
	}
	w.giveBack(name)
	w.run(10 * time.Second)
	if w.phase(name) != "" || w.calls("DELETE", "/qemu/") != 0 {
		t.Errorf("it is %s", w.phase(name))
	}
}

func TestMigratedMachinesAreFollowed(t *testing.T) {
	w := newWorld(t, plan{hosts: 2, seed: 1, shared: true}).begin()
	w.run(time.Second)
	name := w.join("pve2")[0]
	v := w.there(name)
	must.Do(t, w.asRoot("POST", fmt.Sprintf("/nodes/%s/qemu/%d/migrate", v.Host, v.ID), map[string]any{"target": "pve1", "online": 1}))
	w.until("it is on pve1", 5*time.Minute, func() bool { return w.machine(name).Host == "pve1" })
	w.event(pvecode.Moved)
	w.giveBack(name)
	w.until("it is gone", 5*time.Minute, func() bool { return w.phase(name) == "" })
}

func TestNodesOfOtherIDsAreReported(t *testing.T) {
	w := newWorld(t, plan{hosts: 1, seed: 1})
	w.pool().Join.ProviderID = firstboot.ProviderID{Scheme: firstboot.SchemeTemplate, Template: "mine://{name}"}
	w.begin()
	w.run(time.Second)
	w.join("pve1")
	w.run(time.Minute)
	w.mustSay(w.event(pvecode.IDMismatch).Text, "mine://web-", "proxmox://home/")
	if n := w.fleet.Counts()[pvecode.IDMismatch]; n != 1 {
		t.Errorf("it was told %d times", n)
	}
}

func TestNodeOfTheSameNameOnAnotherMachineIsNotTaken(t *testing.T) {
	w := newWorld(t, plan{hosts: 1, seed: 1})
	w.pool().JoinTimeout = nodescaler.Duration(2 * time.Minute)
	w.begin()
	w.run(time.Second)
	w.deaf = true
	name := w.mustOrder("pve1")
	w.joins = append(w.joins, joining{node: Node{Name: name, SystemUUID: "7d9a0d7c-3b7d-4f55-8f0a-1a2b3c4d5e6f"}, at: w.sim.Now()})
	w.until("it has failed", 10*time.Minute, func() bool { return w.phase(name) == nodescaler.Failed })
	w.event(nodescaler.NodeContradicts)
}

func TestWithoutNodesNothingFailsForNotHavingJoined(t *testing.T) {
	w := newWorld(t, plan{hosts: 1, seed: 1})
	w.cfg.Nodes = nil
	w.begin()
	w.run(time.Second)
	name := w.mustOrder("pve1")
	w.run(2 * time.Hour)
	if m := w.machine(name); m.Phase != nodescaler.Booting || !strings.Contains(m.Problem, pvecode.NodesUnknown) {
		t.Errorf("got %s (%s), want a machine of which it is not known whether it has joined", m.Phase, m.Problem)
	}
}

func TestOrphansAreFoundInBothDirections(t *testing.T) {
	w := newWorld(t, plan{hosts: 2, seed: 1})
	w.cfg.OrphanGrace = nodescaler.Duration(5 * time.Minute)
	w.begin()
	w.run(time.Second)
	names := w.join("pve1", "pve2")
	_ = w.removeNode(t.Context(), names[0]) // a machine without its node
	w.joins = append(w.joins, joining{node: Node{Name: "web-old-0", ProviderID: "proxmox://home/1050"}, at: w.sim.Now()})
	w.joins = append(w.joins, joining{node: Node{Name: "control-plane", ProviderID: "proxmox://home/1051"}, at: w.sim.Now()})
	for _, disc := range []string{"plimsoll-home--web-old-0.iso", "plimsoll-away--web-old-0.iso", "debian.iso"} {
		upid := must.Get(w.root().Upload(t.Context(), "pve1", "local", disc, []byte("x")))(t)
		must.Get(w.root().WaitTask(t.Context(), upid))(t)
	}
	r := must.Get(w.fleet.Orphans(t.Context()))(t)
	var got []string
	for _, o := range r.Orphans {
		got = append(got, fmt.Sprintf("%s %s", o.Kind, o.Name))
	}
	want := []string{"DiscWithoutMachine local:iso/plimsoll-home--web-old-0.iso", "MachineWithoutNode " + names[0], "NodeWithoutMachine web-old-0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	must.Get(w.fleet.Collect(t.Context(), nil))(t)
	if len(w.inRange()) != 2 || len(w.joins) != 3 {
		t.Error("something was removed before its time")
	}
	w.run(6 * time.Minute)
	must.Get(w.fleet.Collect(t.Context(), func(o Orphan) bool { return o.Pool == "web" }))(t)
	w.run(2 * time.Minute)
	if len(w.inRange()) != 2 || len(w.joins) != 3 {
		t.Error("something was removed that was to be spared")
	}
	must.Get(w.fleet.Collect(t.Context(), nil))(t)
	w.run(2 * time.Minute)
	if w.phase(names[0]) != "" || w.phase(names[1]) != nodescaler.Joined || len(w.joins) != 2 {
		t.Errorf("left are %v and %v\n%s", w.inRange(), w.joins, w.story())
	}
	if discs := w.discs(); len(discs) != 1 || !strings.Contains(discs[0], "away") {
		t.Errorf("left are the discs %v", discs)
	}
}

// The disc of a machine that was removed by hand holds the join token. It is of no use, and goes
// even if the pool or the process has changed since it was uploaded.
func TestDiscOfAPoolThatIsNoMoreIsFound(t *testing.T) {
	for name, change := range map[string]func(w *world) []settings.Pool{
		"deleted": func(*world) []settings.Pool { return nil },
		"renamed": func(w *world) []settings.Pool { p := *w.pool(); p.Name = "db"; return []settings.Pool{p} },
		"renamed, with another storage": func(w *world) []settings.Pool {
			p := *w.pool()
			p.Name, p.ISO, p.Join.UserDataFile, p.Join.UserDataTemplate, p.Join.User = "db", settings.ISO{}, "", "", "ops"
			return []settings.Pool{p}
		},
	} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarted %v", name, restarted), func(t *testing.T) {
				w := newWorld(t, plan{hosts: 1, seed: 1}).begin()
				w.run(time.Second)
				w.deaf = true
				machine := w.mustOrder("pve1")
				w.until("it boots", time.Minute, func() bool { return len(w.discs()) == 1 && len(w.inRange()) == 1 && w.runs(machine) })
				w.cfg.Pools = change(w)
				must.Do(t, w.fleet.Configure(w.cfg.Pools, nil))
				if restarted {
					w.begin()
				}
				w.run(time.Minute)
				if found := w.discsLeft(); len(found) != 0 {
					t.Fatalf("while its machine runs: %+v", found)
				}
				w.remove(machine)
				w.run(time.Minute)
				found := w.discsLeft()
				if len(found) != 1 || !strings.Contains(found[0].Name, machine) || !strings.Contains(found[0].Text, "pool web is not configured") {
					t.Fatalf("found is %+v", found)
				}
				w.run(time.Duration(w.cfg.OrphanGrace) + time.Hour)
				must.Get(w.fleet.Collect(t.Context(), nil))(t)
				w.run(time.Minute)
				if left := w.discs(); len(left) != 0 {
					t.Errorf("left are %v", left)
				}
			})
		}
	}
}

// Without the record of its machine, a disc of a pool that is not known may be another
// installation's: it is reported, and never removed.
func TestDiscOfNoKnownPoolIsReportedOnly(t *testing.T) {
	w := newWorld(t, plan{hosts: 1, seed: 1}).begin()
	w.run(time.Second)
	for _, disc := range []string{"plimsoll-home--db-1.iso", "plimsoll-home--x--web-1.iso"} {
		upid := must.Get(w.root().Upload(t.Context(), "pve1", "local", disc, []byte("x")))(t)
		must.Get(w.root().WaitTask(t.Context(), upid))(t)
	}
	for range 3 {
		if found := w.discsLeft(); len(found) != 1 || !strings.Contains(found[0].Name, "db-1") || !found[0].Due.IsZero() {
			t.Fatalf("found is %+v", found)
		}
		must.Get(w.fleet.Collect(t.Context(), nil))(t)
		w.run(2 * time.Hour)
	}
	if left := w.discs(); len(left) != 2 {
		t.Errorf("left are %v", left)
	}
}

// remove stops and destroys a machine by hand.
func (w *world) remove(name string) {
	w.t.Helper()
	v, root := w.there(name), w.root()
	for _, ask := range []func() (pveapi.UPID, error){
		func() (pveapi.UPID, error) { return root.VM(v.Host, v.ID).Stop(w.t.Context(), false) },
		func() (pveapi.UPID, error) { return root.VM(v.Host, v.ID).Destroy(w.t.Context(), true) },
	} {
		upid := must.Get(ask())(w.t)
		must.Get(root.WaitTask(w.t.Context(), upid))(w.t)
	}
}

// discsLeft are the discs that are found to be without a machine.
func (w *world) discsLeft() []Orphan {
	w.t.Helper()
	r := must.Get(w.fleet.Orphans(w.t.Context()))(w.t)
	return slices.DeleteFunc(r.Orphans, func(o Orphan) bool { return o.Kind != DiscWithoutMachine })
}

// A node is ours by more than a name that begins like our machines', and one whose kubelet reports
// has a machine.
func TestNodesThatAreNotOursAreNeverCollected(t *testing.T) {
	for name, n := range map[string]Node{
		"of another Proxmox VE cluster": {Name: "web-1", ProviderID: "proxmox://dc2/1055"},
		"with a VMID outside the range": {Name: "web-1", ProviderID: "proxmox://home/555"},
		"that is ready":                 {Name: "web-1", ProviderID: "proxmox://home/1055", Ready: true},
		"that is all of these":          {Name: "web-1", ProviderID: "proxmox://dc2/555", Ready: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, plan{hosts: 1, seed: 1}).begin()
			w.run(time.Second)
			w.joins = append(w.joins, joining{node: n, at: w.sim.Now()})
			w.join("pve1")
			for range 2 {
				if r, err := w.fleet.Collect(t.Context(), nil); err != nil || len(r.Orphans) > 0 {
					t.Errorf("orphans are %+v, %v", r.Orphans, err)
				}
				w.run(61 * time.Minute)
			}
			if len(w.joins) != 2 {
				t.Errorf("left are the nodes %v", w.joins)
			}
		})
	}
}

func TestEmptyInventoryFreezes(t *testing.T) {
	w := newWorld(t, plan{hosts: 1, seed: 1}).begin()
	w.run(time.Second)
	name := w.join("pve1")[0]
	w.sim.Advance(10 * time.Second)
	for _, r := range roles { // everything is taken from the token, but that it may ask
		if r.path != "/" {
			w.sim.Revoke(r.path, r.role, "plimsoll@pve")
		}
	}
	w.run(5 * time.Minute)
	if _, err := w.order(""); !errors.Is(err, loop.ErrRefused) {
		t.Errorf("got %v, want a refusal", err)
	}
	w.event(pvecode.PermissionsShrunk)
	if w.phase(name) == "" || w.told(pvecode.Gone) || w.told(pvecode.Vanished) {
		t.Fatalf("a machine that cannot be seen was declared gone\n%s", w.story())
	}
	for _, r := range roles {
		w.sim.Grant(r.path, r.role, "plimsoll@pve")
	}
	w.until("it thaws", 5*time.Minute, func() bool { return w.told(pvecode.Thawed) })
	if w.phase(name) != nodescaler.Joined {
		t.Errorf("it is %s", w.phase(name))
	}
}

func TestIntentsThatCannotBeKeptStopTheWork(t *testing.T) {
	w := newWorld(t, plan{hosts: 1, seed: 1})
	d := &dying{Store: w.intents}
	w.intents = d
	w.begin()
	w.run(time.Second)
	name := w.mustOrder("")
	d.dead = true
	w.run(time.Minute)
	if w.calls("POST", "/clone") != 0 {
		t.Error("a clone was asked for that no intent tells of")
	}
	w.event(pvecode.IntentNotKept)
	if _, err := w.order(""); err == nil || errors.Is(err, loop.ErrRefused) {
		t.Errorf("got %v: whether the order is kept is not known, and must not be called refused", err)
	}
	if err := w.fleet.Delete(t.Context(), name); err == nil {
		t.Error("a return was taken that nobody will remember")
	}
	d.dead = false
	w.until("it has joined", 5*time.Minute, func() bool { return w.phase(name) == nodescaler.Joined })
}

func TestRunBeginsAnOrderAtOnce(t *testing.T) {
	w := newWorld(t, plan{hosts: 1, seed: 1, speed: 1})
	w.cfg.Parallel = 2
	w.begin()
	must.Do(t, w.fleet.Tick(t.Context()))
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.fleet.Run(ctx) })
	time.Sleep(50 * time.Millisecond) // it rests now, for a quarter of a minute
	w.mustOrder("")
	for began := time.Now(); w.calls("POST", "/clone") == 0; time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > idleGap/2 {
			t.Fatal("it was still resting")
		}
	}
	stop()
	running.Wait()
}

func TestPoolHealth(t *testing.T) {
	then := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p := plainPool().Complete()
	fleet := func(all ...intents.Intent) *Fleet {
		f := assemble(FleetConfig{})
		f.catalogue.recipe = map[string]string{"web": "r"}
		for i, n := range all {
			n.Order, n.Pool = fmt.Sprint(i), "web"
			if n.Recipe == "" {
				n.Recipe = "r"
			}
			f.roster.machines[n.Order] = &tracked{Intent: n}
		}
		return f
	}
	failed := func(after time.Duration) intents.Intent {
		return intents.Intent{Failing: intents.Failing{Failed: &nodescaler.Reason{Code: pvecode.JoinTimeout}, FailedAt: then.Add(after)}}
	}
	full := func(after time.Duration) intents.Intent {
		return intents.Intent{Failing: intents.Failing{Failed: &nodescaler.Reason{Code: placement.CodeStorageFull}, FailedAt: then.Add(after)}}
	}
	pardoned, other, vanished := failed(0), failed(0), failed(0)
	pardoned.Pardoned, other.Recipe, vanished.Failed = true, "another", &nodescaler.Reason{Code: pvecode.Vanished}
	for _, c := range []struct {
		name  string
		f     *Fleet
		after time.Duration
		want  string
	}{
		{"nothing has happened", fleet(), 0, ""},
		{"one failure", fleet(failed(0)), 59 * time.Second, pvecode.PoolBackingOff},
		{"a minute later", fleet(failed(0)), time.Minute, ""},
		{"two failures", fleet(failed(0), failed(time.Minute)), 179 * time.Second, pvecode.PoolBackingOff},
		{"two minutes later", fleet(failed(0), failed(time.Minute)), 3 * time.Minute, ""},
		{"three failures", fleet(failed(0), failed(1), failed(2)), 100 * time.Hour, pvecode.PoolPaused},
		{"a success after them", fleet(failed(0), failed(1), failed(2), intents.Intent{Joined: then.Add(time.Second)}), time.Minute, ""},
		{"a success before them", fleet(intents.Intent{Joined: then.Add(-1)}, failed(0), failed(1), failed(2)), time.Hour, pvecode.PoolPaused},
		{"for lack of room", fleet(full(0), full(1), full(2)), time.Minute, pvecode.PoolBackingOff},
		{"which is nothing to go by a day later", fleet(full(0), full(1), full(2), full(24*time.Hour)), 24*time.Hour + 61*time.Second, ""},
		{"pardoned", fleet(pardoned), 0, ""},
		{"of another configuration", fleet(other), 0, ""},
		{"by another client", fleet(vanished), 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := c.f.intake.health(&p, then.Add(c.after)).closed(&p, then.Add(c.after))
			if r == nil && c.want != "" || r != nil && r.Code != c.want {
				t.Errorf("got %v, want %q", r, c.want)
			}
		})
	}
}

// For any configuration of a pool, the server takes every request that is made for it.
func TestEveryRequestIsOneThatTheServerTakes(t *testing.T) {
	schema := published(t)
	for name, change := range map[string]func(*settings.Pool){
		"linked with a disc": func(*settings.Pool) {},
		"full, without a disc, with everything": func(p *settings.Pool) {
			p.Clone, p.Storage, p.Format = placement.Full, "local-lvm", "raw"
			p.VLAN, p.Firewall, p.Tags = 42, true, []string{"k8s"}
			p.ISO, p.Join.UserDataFile, p.Join.UserDataTemplate, p.Join.User = settings.ISO{}, "", "", "ops"
			p.Join.SSHKeys = []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJhzQyGvEJY6yPxFTqmkE4fF1pnVKGJkfDSPdlVoCVC ops@home"}
			p.Network = settings.Addressing{
				First: netip.MustParsePrefix("10.0.0.50/24"), Gateway: netip.MustParseAddr("10.0.0.1"),
				Nameservers: []netip.Addr{netip.MustParseAddr("10.0.0.2")}, Search: "example.org",
			}
			p.Guest = settings.Guest{CPUType: "host", Machine: "q35", NUMA: true, Agent: true, NoBalloon: true, Options: map[string]string{"rng0": "source=/dev/urandom"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, plan{hosts: 2, seed: 1})
			change(w.pool())
			w.wrap = func(next http.RoundTripper) http.RoundTripper { return asPublished(t, schema, next) }
			w.begin()
			w.run(time.Second)
			id := w.mustOrder("pve1")
			w.until("it boots", 5*time.Minute, func() bool { return w.phase(id) == nodescaler.Booting })
			w.joins = append(w.joins, joining{node: Node{Name: id}, at: w.sim.Now()})
			w.run(time.Minute)
			if w.phase(id) != nodescaler.Joined {
				t.Fatalf("it is %s\n%s", w.phase(id), w.story())
			}
			if _, err := w.fleet.Collect(t.Context(), nil); err != nil {
				t.Error(err)
			}
			w.giveBack(id)
			w.until("it is gone", 5*time.Minute, func() bool { return w.phase(id) == "" })
		})
	}
}

func TestQuarantineEndsWhenAPersonRemovesTheMachine(t *testing.T) {
	w := newWorld(t, plan{hosts: 1, seed: 1}).begin()
	w.run(time.Second)
	name := w.join("pve1")[0]
	v, c := w.there(name), w.root()
	for _, as := range []string{"mine", name} {
		must.Do(t, c.VM(v.Host, v.ID).SetConfig(t.Context(), map[string]string{"name": as}, nil, ""))
		if as != name {
			w.giveBack(name)
		}
		w.run(10 * time.Minute)
		if len(w.inRange()) != 1 {
			t.Fatalf("named %s, what is in quarantine was touched", as)
		}
	}
	must.Get(c.VM(v.Host, v.ID).Stop(t.Context(), false))(t)
	w.run(10 * time.Second)
	must.Get(c.VM(v.Host, v.ID).Destroy(t.Context(), true))(t)
	w.until("it is gone", 5*time.Minute, func() bool { return w.phase(name) == "" })
}

func TestMachinesOfAPoolThatIsNotConfiguredAreLeftAlone(t *testing.T) {
	w := newWorld(t, plan{hosts: 1, seed: 1}).begin()
	w.run(time.Second)
	name := w.join("pve1")[0]
	w.giveBack(name)
	w.pool().Name = "db"
	w.begin()
	w.run(5 * time.Minute)
	if m := w.machine(name); !strings.Contains(m.Problem, pvecode.PoolUnknown) || len(w.inRange()) != 1 {
		t.Errorf("got %s (%s), and %d machines", m.Phase, m.Problem, len(w.inRange()))
	}
}

// A token that could do more than it needs, and is cut down to that, works as before. What is lost
// that a pool uses freezes the fleet.
func TestOnlyRightsThatAreUsedFreeze(t *testing.T) {
	const storing = "Datastore.AllocateSpace Datastore.AllocateTemplate Datastore.Allocate Datastore.Audit "
	full := func(p *settings.Pool) { p.Clone, p.Storage = placement.Full, "local-lvm" }
	for name, c := range map[string]struct {
		path, wide string // what the token may besides, until it is revoked
		lacks      string // of its other roles
		change     func(p *settings.Pool)
		lost       string
	}{
		"rights on machines, at a storage": {path: "/storage/local", wide: storing + "VM.Audit VM.Allocate SDN.Use"},
		"disks, where discs are":           {path: "/storage/local", wide: storing, lacks: "Datastore.AllocateSpace"},
		"disks, where no pool makes any":   {path: "/storage/local-lvm", wide: storing, lacks: "Datastore.AllocateSpace"},
		"disks, where a pool makes them":   {path: "/storage/local-lvm", wide: storing, lacks: "Datastore.AllocateSpace", change: full, lost: "Datastore.AllocateSpace on /storage/local-lvm"},
		"clones of what is in no template": {path: poolDir, wide: "VM.Clone"},
		"clones of a template":             {path: "/vms/9001", wide: "VM.Clone VM.Audit", lacks: "VM.Clone", lost: "VM.Clone on /vms/9001"},
		"clones of what is in a pool":      {path: "/pool/templates", wide: "VM.Clone VM.Audit", lacks: "VM.Clone", lost: "VM.Clone on /vms/9001"},
		"networks, at a resource pool":     {path: poolDir, wide: "SDN.Use"},
		"disks that grow":                  {path: poolDir, wide: "VM.Config.Disk", lacks: "VM.Config.Disk", lost: "VM.Config.Disk on /pool/plimsoll"},
		"disks that do not grow":           {path: poolDir, wide: "VM.Config.Disk", lacks: "VM.Config.Disk", change: func(p *settings.Pool) { p.Shapes[0].Disk = 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, plan{hosts: 1, seed: 1})
			if c.change != nil {
				c.change(&w.cfg.Pools[0])
			}
			for _, r := range roles {
				w.sim.AddRole(r.role, slices.DeleteFunc(strings.Fields(r.privileges), func(p string) bool { return p == c.lacks })...)
			}
			w.sim.AddRole("Wide", strings.Fields(c.wide)...)
			w.sim.Grant(c.path, "Wide", "plimsoll@pve")
			w.begin()
			w.run(time.Minute)
			w.sim.Revoke(c.path, "Wide", "plimsoll@pve")
			w.run(10 * time.Minute)
			if c.lost != "" {
				w.mustSay(w.event(pvecode.PermissionsShrunk).Text, c.lost)
			} else if w.told(pvecode.PermissionsShrunk) {
				t.Errorf("it froze\n%s", w.story())
			}
		})
	}
}
