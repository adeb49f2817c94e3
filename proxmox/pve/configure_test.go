package pve

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/race"
)

func TestMachinesOfAPoolThatIsTakenAwayAreKeptUntilItIsThereAgain(t *testing.T) {
	w := newWorld(t, plan{hosts: 1, seed: 1}).begin()
	w.run(time.Second)
	name := w.join("pve1")[0]
	must.Do(t, w.fleet.Configure(nil, nil))
	w.giveBack(name)
	w.run(10 * time.Minute)
	if m := w.machine(name); !strings.Contains(m.Problem, pvecode.PoolUnknown) || len(w.inRange()) != 1 {
		t.Errorf("without its pool: %s (%s), and %d machines", m.Phase, m.Problem, len(w.inRange()))
	}
	if _, err := w.order(""); err == nil || !strings.Contains(err.Error(), pvecode.PoolUnknown) {
		t.Errorf("an order for a pool that was taken away: %v", err)
	}
	must.Do(t, w.fleet.Configure(w.cfg.Pools, nil))
	w.until("it is gone", 5*time.Minute, func() bool { return w.phase(name) == "" })
	another := w.mustOrder("")
	w.until("another has joined", 5*time.Minute, func() bool { return w.phase(another) == nodescaler.Joined })
}

// A task may end, well or badly, before it is decided how its machine goes on.
func TestPoolMayBeTakenAwayAtEveryMoment(t *testing.T) {
	race.Skip(t)
	for _, fault := range []string{"", "fail clone times=1", "fail clone text=\"unable to create VM 1000: config file already exists\" times=1", "fail start times=1"} {
		for after := time.Duration(0); after < 20*time.Second; after += 2 * time.Second {
			w := newWorld(t, plan{hosts: 1, seed: 1, brief: true}).begin()
			w.run(time.Second)
			if fault != "" {
				w.inject(fault)
			}
			name := w.mustOrder("pve1")
			w.run(after)
			must.Do(t, w.fleet.Configure(nil, nil))
			w.run(time.Minute)
			must.Do(t, w.fleet.Configure(w.cfg.Pools, nil))
			w.until(fault+": it has joined or failed", 30*time.Minute, func() bool {
				p := w.phase(name)
				return p == nodescaler.Joined || p == nodescaler.Failed
			})
			w.giveBack(name)
			w.until(fault+": nothing is left", 10*time.Minute, func() bool { return w.phase(name) == "" && len(w.inRange()) == 0 })
			w.sim.Close()
		}
	}
}

// A pool that is new takes an order as soon as its template was looked for, which is at once and
// reported.
func TestNewPoolTakesOrdersAsSoonAsItsTemplateWasLookedFor(t *testing.T) {
	w := newWorld(t, plan{hosts: 1, seed: 1})
	pools := w.cfg.Pools
	w.cfg.Pools = nil
	w.begin()
	tick := func() {
		must.Do(t, w.fleet.Tick(t.Context()))
	}
	tick()
	if !w.news() {
		t.Error("that the cluster was seen for the first time is not told")
	}
	w.cfg.Pools = pools
	must.Do(t, w.fleet.Configure(pools, nil))
	if r := w.fleet.Unread()["web"]; r.Code != placement.CodeTemplateUnread {
		t.Errorf("before: %+v", w.fleet.Unread())
	}
	var r *Refusal
	if _, err := w.order("pve1"); !errors.As(err, &r) || r.Reasons[0].Code != placement.CodeTemplateUnread {
		t.Errorf("an order before: %v", err)
	}
	tick() // in the same moment: nothing else was due
	if len(w.fleet.Unread()) > 0 || !w.news() {
		t.Errorf("after: %+v", w.fleet.Unread())
	}
	w.mustOrder("pve1")
	tick()
	if w.news() {
		t.Error("it is told again")
	}
}

// Its template may be found by a look that was under way when it came.
func TestNewPoolThatComesWhileTheFleetLooksIsTold(t *testing.T) {
	w := newWorld(t, plan{hosts: 1, seed: 1})
	pools := w.cfg.Pools
	w.cfg.Pools = nil
	w.begin().run(time.Minute)
	w.news()
	w.sim.OnCall(func(c pvesim.Call) {
		if strings.HasSuffix(c.Path, "/cluster/resources") && w.cfg.Pools == nil {
			w.cfg.Pools = pools
			if err := w.fleet.Configure(pools, nil); err != nil {
				t.Error(err)
			}
		}
	})
	w.run(time.Minute)
	if len(w.fleet.Unread()) > 0 || !w.news() {
		t.Errorf("not told; unread are %v", w.fleet.Unread())
	}
}

func TestPausedPoolTakesOrdersAgainOnceItIsAnother(t *testing.T) {
	w := newWorld(t, plan{hosts: 1, seed: 1})
	w.pool().MaxFailures, w.pool().JoinTimeout = 1, nodescaler.Duration(time.Minute)
	w.deaf = true
	w.begin()
	w.run(time.Second)
	w.mustOrder("pve1")
	w.until("the pool is paused", 10*time.Minute, func() bool { return w.fleet.Paused()["web"].Code == pvecode.PoolPaused })
	same := slices.Clone(w.cfg.Pools)
	if err := w.fleet.Configure(same, nil); err != nil || len(w.fleet.Paused()) != 1 {
		t.Errorf("with the same pool: %v, paused are %v", err, w.fleet.Paused())
	}
	same[0].JoinTimeout = nodescaler.Duration(5 * time.Minute)
	if err := w.fleet.Configure(same, nil); err != nil || len(w.fleet.Paused()) != 0 {
		t.Errorf("with another one: %v, paused are %v", err, w.fleet.Paused())
	}
}

func TestPoolsThatConflictLeaveTheOthers(t *testing.T) {
	pool := func(name string, first, template int) settings.Pool {
		return settings.Pool{Name: name, VMIDs: placement.VMIDs{First: first, Last: first + 9}, Template: placement.Template{VMID: template}}
	}
	got := map[string]string{}
	at := func(p settings.Pool, first string) settings.Pool {
		p.Network.First = netip.MustParsePrefix(first)
		return p
	}
	for name, err := range settings.Conflicts([]settings.Pool{
		pool("web", 1000, 9000), pool("late", 1005, 9000), pool("tall", 1200, 1003), pool("db", 1010, 9000),
		at(pool("fixed", 1300, 9000), "10.0.0.50/24"), at(pool("twice", 1400, 9000), "10.0.0.59/24"), at(pool("near", 1500, 9000), "10.0.0.60/24"),
		at(pool("over", 1600, 9000), "10.0.0.5/24"),
	}, "https://pve1:8006", "https://10.0.0.9:6443") {
		got[name] = err.Error()
	}
	want := map[string]string{
		"late":  `vmids: must not overlap 1000-1009 of pool web, was "1005-1014"`,
		"tall":  `beside pool web: vmids: must not hold the template 1003 of pool tall, was "1000-1009"`,
		"twice": "network.first: must not overlap 10.0.0.50-10.0.0.59 of pool fixed: move network.first, or take fewer vmids, was 10.0.0.59-10.0.0.68",
		"over":  "network.first: must not hold 10.0.0.9, where https://10.0.0.9:6443 is: move network.first, or take fewer vmids, was 10.0.0.5-10.0.0.14",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("pools that conflict (-want +got)\n%s", d)
	}
}

// A fleet that only looks takes over where another one stopped, and changes nothing there.
func TestFleetThatWatchesOnlyReads(t *testing.T) {
	w := newWorld(t, plan{hosts: 1, seed: 1}).begin()
	w.run(time.Second)
	joined := w.join("pve1")[0]
	half := w.mustOrder("pve1")
	w.run(2 * time.Second)
	_ = w.removeNode(t.Context(), joined)
	w.cfg.Watch = true
	w.begin()
	before := len(w.sim.Calls())
	w.run(3 * time.Hour)
	if err := w.fleet.Delete(t.Context(), half); err == nil || !strings.Contains(err.Error(), watching.Text) {
		t.Errorf("a return: %v", err)
	}
	if _, err := w.order("pve1"); !errors.Is(err, loop.ErrRefused) || !strings.Contains(err.Error(), pvecode.Watching) {
		t.Errorf("an order: %v", err)
	}
	if r, err := w.fleet.Collect(t.Context(), nil); err != nil || len(r.Orphans) == 0 {
		t.Errorf("orphans are %v, %v", r.Orphans, err)
	}
	for _, c := range w.sim.Calls()[before:] {
		if c.Method != "GET" {
			t.Errorf("it has done %s %s", c.Method, c.Path)
		}
	}
	if w.phase(joined) != nodescaler.Joined || w.phase(half) == "" {
		t.Error("it does not tell what there is")
	}
}

// edit gives the fleet its pool as it would be after a change.
func (w *world) edit(change func(*settings.Pool)) {
	w.t.Helper()
	p := *w.pool()
	change(&p)
	must.Do(w.t, w.fleet.Configure([]settings.Pool{p}, nil))
}

// changedHomes are pools that put their machines elsewhere.
var changedHomes = map[string]func(*settings.Pool){
	"another range": func(p *settings.Pool) { p.VMIDs = placement.VMIDs{First: 2000, Last: 2099} },
	"another pool":  func(p *settings.Pool) { p.PVEPool = "others" },
	"both":          func(p *settings.Pool) { p.VMIDs, p.PVEPool = placement.VMIDs{First: 2000, Last: 2099}, "others" },
}

// homes is a world whose fleet may use two resource pools.
func homes(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, plan{hosts: 2, seed: 1})
	w.sim.Grant("/pool/others", "PlimsollMachine", "plimsoll@pve")
	w.begin()
	w.run(time.Second)
	return w
}

// What a machine was made in identifies it, not what the next one is made in.
func TestMachinesOutliveAChangeOfRangeAndPool(t *testing.T) {
	for name, change := range changedHomes {
		t.Run(name, func(t *testing.T) {
			w := homes(t)
			names := w.join("pve1", "pve2")
			making := w.mustOrder("pve1")
			w.until("it is cloned", time.Minute, func() bool { return w.calls("POST", "/clone") == 3 })
			waiting := w.mustOrder("pve2")
			w.edit(change)
			w.giveBack(names...)
			w.until("they are gone", 10*time.Minute, func() bool { return w.phase(names[0]) == "" && w.phase(names[1]) == "" })
			if w.there(names[0]) != nil || w.there(names[1]) != nil || w.told(pvecode.Quarantined) {
				t.Errorf("left are %v\n%s", w.inRange(), w.story())
			}
			w.until("the others have joined", 10*time.Minute, func() bool { return w.all(nodescaler.Joined, making, waiting) })
			p := *w.pool()
			change(&p)
			if v := w.there(waiting); !p.VMIDs.Holds(v.ID) || v.Pool != p.PVEPool {
				t.Errorf("what was not begun was made as VM %d in pool %s", v.ID, v.Pool)
			}
			w.giveBack(making, waiting)
			w.until("the others are gone", 10*time.Minute, func() bool { return w.there(making) == nil && w.there(waiting) == nil })
		})
	}
}

// Whoever changes a pool's resource pool may take its machines along; into any other they are
// somebody's.
func TestOnlyTheResourcePoolsOfItsConfigurationsMakeAMachineOurs(t *testing.T) {
	w := homes(t)
	must.Do(t, w.root().MakePool(t.Context(), "theirs", ""))
	w.sim.Grant("/pool/theirs", "PlimsollMachine", "plimsoll@pve")
	names := w.join("pve1", "pve2")
	w.edit(changedHomes["another pool"])
	for i, to := range []string{"others", "theirs"} {
		w.changePool(map[string]any{"poolid": to, "vms": itoa(w.there(names[i]).ID), "allow-move": 1})
	}
	w.giveBack(names...)
	w.run(10 * time.Minute)
	if w.phase(names[0]) != "" || w.there(names[0]) != nil {
		t.Errorf("what was taken along is %s", w.phase(names[0]))
	}
	if v := w.there(names[1]); v == nil || v.State != "running" {
		t.Fatalf("what was taken elsewhere is %v\n%s", v, w.story())
	}
	w.mustSay(w.machine(names[1]).Problem, pvecode.Quarantined, `it is in pool "theirs"`, "qm destroy")
}

// A resource pool that nothing is put into any more may be deleted, and its rights go with it. What
// was taken out of it before waits for a person; the others go on.
func TestAFormerResourcePoolThatIsDeletedFreezesNothing(t *testing.T) {
	for name, c := range map[string]struct{ sees, code string }{
		"and its rights with it":    {"", pvecode.Hidden},
		"and is seen to be no more": {"/pool", pvecode.Quarantined},
	} {
		t.Run(name, func(t *testing.T) {
			w := homes(t)
			if c.sees != "" {
				w.sim.AddRole("Pools", "Pool.Audit")
				w.sim.Grant(c.sees, "Pools", "plimsoll@pve")
				w.sim.Grant("/pool/others", "Pools", "plimsoll@pve")
			}
			names := w.join("pve1", "pve2")
			w.edit(changedHomes["another pool"])
			w.changePool(map[string]any{"poolid": "others", "vms": itoa(w.there(names[1]).ID), "allow-move": 1})
			w.dissolve("plimsoll")
			w.run(10 * time.Minute)
			if w.told(pvecode.PermissionsShrunk) {
				t.Fatalf("it froze\n%s", w.story())
			}
			w.mustSay(w.machine(names[0]).Problem, c.code, "plimsoll")
			another := w.mustOrder("")
			w.giveBack(names[1])
			w.until("the others go on", 10*time.Minute, func() bool { return w.phase(another) == nodescaler.Joined && w.phase(names[1]) == "" })
		})
	}
}

// While a former resource pool cannot be read, it is unknown whether a machine is still in it: it
// is not taken to be out.
func TestAMachineInAFormerResourcePoolIsWaitedForWhileThatCannotBeRead(t *testing.T) {
	w := homes(t)
	n := w.join("pve1")[0]
	w.edit(changedHomes["another pool"])
	w.sim.Revoke("/pool/plimsoll", "PlimsollMachine", "plimsoll@pve")
	w.giveBack(n)
	w.run(10 * time.Minute)
	if w.told(pvecode.Quarantined) || w.there(n) == nil {
		t.Fatalf("it is %v\n%s", w.there(n), w.story())
	}
	w.mustSay(w.machine(n).Problem, pvecode.Hidden, "pool plimsoll")
	w.sim.Grant("/pool/plimsoll", "PlimsollMachine", "plimsoll@pve")
	w.until("it is gone", 10*time.Minute, func() bool { return w.there(n) == nil })
}

// A machine may be hidden when its pool is taken away; then no setting says where it may be.
func TestAPoolMayBeTakenAwayWhileAMachineIsHidden(t *testing.T) {
	w := homes(t)
	n := w.join("pve1")[0]
	w.sim.Revoke("/pool/plimsoll", "PlimsollMachine", "plimsoll@pve")
	w.until("it is hidden", 10*time.Minute, func() bool { return strings.Contains(w.machine(n).Problem, pvecode.Hidden) })
	must.Do(t, w.fleet.Configure(nil, nil))
	w.run(10 * time.Minute)
	if w.phase(n) == "" {
		t.Error("it was forgotten")
	}
}

// changePool changes a resource pool as a person does.
func (w *world) changePool(params map[string]any) {
	w.t.Helper()
	must.Do(w.t, w.asRoot(http.MethodPut, "/pools", params))
}

// dissolve takes all that is in a resource pool out of it, and deletes it.
func (w *world) dissolve(name string) {
	w.t.Helper()
	pool := must.Get(w.root().Pool(w.t.Context(), name))(w.t)
	for _, m := range pool.Members {
		w.changePool(map[string]any{"poolid": name, "vms": itoa(m.VMID), "delete": 1})
	}
	must.Do(w.t, w.asRoot(http.MethodDelete, "/pools?poolid="+name, nil))
}

// Of machines whose intents are from before that was kept, it is taken over while it is so.
func TestWhereMachinesWereMadeIsTakenOver(t *testing.T) {
	forget := func(w *world) {
		all, err := w.intents.Load()
		for _, i := range all {
			i.VMIDs, i.PVEPool = placement.VMIDs{}, ""
			err = errors.Join(err, w.intents.Put(i))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, change := range changedHomes {
		t.Run(name, func(t *testing.T) {
			w := homes(t)
			n := w.join("pve1")[0]
			forget(w)
			w.begin().run(time.Minute)
			w.edit(change)
			w.giveBack(n)
			w.until("it is gone", 10*time.Minute, func() bool { return w.there(n) == nil })
		})
	}
	t.Run("too late", func(t *testing.T) {
		w := homes(t)
		n := w.join("pve1")[0]
		forget(w)
		was := slices.Clone(w.cfg.Pools)
		w.pool().VMIDs = placement.VMIDs{First: 2000, Last: 2099}
		w.begin()
		w.giveBack(n)
		w.run(10 * time.Minute)
		if v := w.there(n); v == nil || v.State != "running" || w.told(pvecode.Quarantined) {
			t.Errorf("it is %v\n%s", v, w.story())
		}
		w.mustSay(w.machine(n).Problem, "not in 2000-2099 any more", "vmids")
		must.Do(t, w.fleet.Configure(was, nil))
		w.until("it is gone", 10*time.Minute, func() bool { return w.there(n) == nil })
	})
}

// A machine that is being made when the range is changed keeps its address, and does not get the
// first one.
func TestTheAddressOfAMachineOutlivesAChangeOfRange(t *testing.T) {
	p := settings.Pool{VMIDs: placement.VMIDs{First: 1000, Last: 1099}, Network: settings.Addressing{First: netip.MustParsePrefix("10.0.0.50/24")}}
	m := settings.MachineOf{VMID: 1005, VMIDs: p.VMIDs}
	for _, p.VMIDs = range []placement.VMIDs{{First: 1000, Last: 1099}, {First: 2000, Last: 2099}, {First: 900, Last: 949}, {First: 900, Last: 1099}} {
		if got := p.FirstBoot(m).NICs[0].IPv4; got != "10.0.0.55/24" {
			t.Errorf("with %s it is %s", p.VMIDs, got)
		}
	}
}

// A process that takes over has no pools until it has read them. A pool that cannot be read for a
// moment, or is deleted and made again, is another name for the same: what its machines left to
// remember outlives that.
func TestWhatIsRememberedOfAPoolOutlivesItsAbsence(t *testing.T) {
	race.Skip(t)
	for name, absent := range map[string]func(*world){
		"a new process": func(w *world) {
			w.cfg.Pools = nil
			w.begin()
		},
		"a pool that cannot be read": func(w *world) {
			must.Do(w.t, w.fleet.Configure(nil, nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, plan{hosts: 1, seed: 1})
			w.pool().MaxFailures, w.pool().JoinTimeout = 1, nodescaler.Duration(time.Minute)
			w.begin()
			w.run(time.Second)
			w.giveBack(w.join("pve1")...)
			w.deaf = true
			n := w.mustOrder("pve1")
			w.until("it has failed", 10*time.Minute, func() bool { return w.phase(n) == nodescaler.Failed })
			w.giveBack(n)
			w.run(5 * time.Minute)
			if kept := w.kept(); len(kept) != 2 || w.fleet.Paused()["web"].Code != pvecode.PoolPaused {
				t.Fatalf("before, kept are %+v and paused %v", kept, w.fleet.Paused())
			}
			pools := w.cfg.Pools
			absent(w)
			w.run(30 * time.Second)
			if kept := w.kept(); len(kept) != 2 {
				t.Errorf("without the pool, kept are %+v", kept)
			}
			w.sim.Advance(2 * 24 * time.Hour) // a pause is as old as it is
			must.Do(t, w.fleet.Configure(pools, nil))
			w.run(time.Minute)
			if kept := w.kept(); len(kept) != 1 || w.fleet.Paused()["web"].Code != pvecode.PoolPaused {
				t.Fatalf("with the pool again, kept are %+v and paused %v", kept, w.fleet.Paused())
			}
			absent(w)
			w.run(unknownFor - time.Minute)
			if kept := w.kept(); len(kept) != 1 {
				t.Errorf("without the pool again, kept are %+v", kept)
			}
			if w.run(2 * time.Minute); len(w.kept()) > 0 {
				t.Errorf("a day without the pool, kept are %+v", w.kept())
			}
		})
	}
}

// The VMIDs that a pool leaves to another one, a new name of it for one, may be used after a day.
// What it left to remember is forgotten in the end, however often the process is started anew.
func TestWhatARemovedPoolLeftIsForgottenThoughTheProcessIsStartedAnew(t *testing.T) {
	race.Skip(t)
	w := newWorld(t, plan{hosts: 2, seed: 1}).begin()
	w.run(time.Second)
	names := w.join("pve1", "pve2")
	w.giveBack(names...)
	w.until("they are gone", 10*time.Minute, func() bool { return w.there(names[0]) == nil && w.there(names[1]) == nil })
	w.run(time.Minute)
	p, kept := *w.pool(), w.kept()
	p.Name, p.VMIDs = "shop", placement.VMIDs{First: min(kept[0].VMID, kept[1].VMID), Last: max(kept[0].VMID, kept[1].VMID)}
	p.VMIDs.First = min(p.VMIDs.First, p.VMIDs.Last-1)
	w.cfg.Pools = []settings.Pool{p}
	w.restart(unknownFor - time.Hour)
	if free := w.fleet.intake.freeID(&p, nil); free != 0 && (free == kept[0].VMID || free == kept[1].VMID) {
		t.Errorf("VM %d is taken again at once", free)
	}
	w.restart(13 * time.Hour)
	for _, i := range kept {
		if !w.fleet.intake.vacated(w.fleet.roster.machines[i.Order]) {
			t.Errorf("VM %d is not used again", i.VMID)
		}
	}
	if w.restart(longGone - 2*unknownFor); len(w.kept()) != 2 {
		t.Errorf("before it was long ago, kept are %+v", w.kept())
	}
	if w.restart(unknownFor); len(w.kept()) > 0 {
		t.Errorf("long after, kept are %+v", w.kept())
	}
}

// A pause is remembered however old it is, by a process that takes over as well.
func TestAPauseThatIsLongAgoOutlivesTheProcess(t *testing.T) {
	w := newWorld(t, plan{hosts: 1, seed: 1})
	w.pool().MaxFailures, w.pool().JoinTimeout, w.deaf = 1, nodescaler.Duration(time.Minute), true
	w.begin()
	w.run(time.Second)
	n := w.mustOrder("pve1")
	w.until("it has failed", 10*time.Minute, func() bool { return w.phase(n) == nodescaler.Failed })
	w.giveBack(n)
	w.run(5 * time.Minute)
	w.sim.Advance(longGone)
	pools := w.cfg.Pools
	w.cfg.Pools = nil
	w.begin().run(5 * time.Minute)
	must.Do(t, w.fleet.Configure(pools, nil))
	w.run(time.Minute)
	if w.fleet.Paused()["web"].Code != pvecode.PoolPaused {
		t.Errorf("paused are %v, kept %+v", w.fleet.Paused(), w.kept())
	}
}

// restart lets a time pass in which the process is started anew every 12 hours.
func (w *world) restart(within time.Duration) {
	for ; within > 0; within -= 12 * time.Hour {
		w.begin().run(unknownAgain + time.Minute)
		w.sim.Advance(max(0, min(within, 12*time.Hour)-unknownAgain-time.Minute))
	}
	w.begin().run(time.Second)
}

// kept are the intents that are kept.
func (w *world) kept() []intents.Intent {
	w.t.Helper()
	all := must.Get(w.intents.Load())(w.t)
	return all
}

// A pool may be removed while it is asked how a task has ended. That is taken over when there is a
// pool to make the machine in again.
func TestATaskThatIsAskedForWhileItsPoolIsRemovedIsAskedForAgain(t *testing.T) {
	w := newWorld(t, plan{hosts: 1, seed: 1})
	asked := func() {}
	w.wrap = func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if !strings.Contains(r.URL.Path, "/tasks/") || !strings.HasSuffix(r.URL.Path, "/status") {
				return next.RoundTrip(r)
			}
			asked()
			text := `{"data":{"status":"stopped","exitstatus":"unable to create VM 1000: config file already exists"}}`
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
		})
	}
	w.begin()
	w.run(time.Second)
	w.mustOrder("pve1")
	w.until("it is cloned", time.Minute, func() bool { return w.calls("POST", "/clone") == 1 })
	m := w.fleet.roster.sorted()[0]
	recall := func() { clearing{w.fleet.crew.workFor(m)}.doRecall(t.Context()) }
	asked = func() { must.Do(t, w.fleet.Configure(nil, nil)) }
	if recall(); m.Task == nil || m.Step != intents.StepClaimed {
		t.Errorf("without its pool its task is %+v, and it is %s", m.Task, m.Step)
	}
	must.Do(t, w.fleet.Configure(w.cfg.Pools, nil))
	asked = func() {}
	if recall(); m.Task != nil || m.Step != intents.StepOrdered {
		t.Errorf("with its pool again its task is %+v, and it is %s", m.Task, m.Step)
	}
}

// New machines of a pool whose range was changed do not get the addresses of those that were made
// in the old one.
func TestAChangeOfRangeGivesNoAddressTwice(t *testing.T) {
	for _, to := range []placement.VMIDs{{First: 1003, Last: 1008}, {First: 995, Last: 1009}, {First: 2000, Last: 2004}} {
		w := newWorld(t, plan{hosts: 1, seed: 1}).begin()
		p := w.pool().Complete()
		p.VMIDs = placement.VMIDs{First: 1000, Last: 1005}
		p.Network.First = netip.MustParsePrefix("10.0.0.50/24")
		has := map[string]int{}
		for id := 1001; id <= 1003; id++ {
			m := &tracked{Intent: intents.Intent{Order: itoa(id), Pool: p.Name, VMID: id, Step: intents.StepJoined, Making: intents.Making{VMIDs: p.VMIDs}}}
			w.fleet.roster.machines[m.Order] = m
			has[w.fleet.catalogue.planned(&p, &m.Intent).NICs[0].IPv4] = id
		}
		w.run(time.Second)
		p.VMIDs = to
		used := w.fleet.intake.usedIDs()
		maps.Copy(used, w.fleet.intake.addressed(&p))
		for id := to.First; id <= to.Last; id++ {
			i := intents.Intent{Pool: p.Name, VMID: id, Making: intents.Making{VMIDs: to}}
			if old := has[w.fleet.catalogue.planned(&p, &i).NICs[0].IPv4]; old != 0 && !used[id] {
				t.Errorf("in %s VM %d has the address of VM %d", to, id, old)
			}
		}
		if len(used) == 0 || used[to.Last] {
			t.Errorf("in %s used are %v", to, used)
		}
	}
}

// moves gives the pool a range that begins a few VMIDs later, so that each of them has the address
// that another had.
func (w *world) moves(first, last int) {
	w.t.Helper()
	p := *w.pool()
	p.VMIDs = placement.VMIDs{First: first, Last: last}
	w.cfg.Pools[0] = p
	must.Do(w.t, w.fleet.Configure(w.cfg.Pools, nil))
}

// addresses are those of the machines that there are, by name.
func (w *world) addresses() map[string]string {
	all := map[string]string{}
	for _, v := range w.sim.Inventory().VMs {
		if strings.HasPrefix(v.Config["name"], "web-") {
			all[v.Config["name"]] = v.Config["ipconfig0"]
		}
	}
	return all
}

// twice are addresses that two machines have.
func twice(all map[string]string) (double []string) {
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if seen[all[name]] {
			double = append(double, all[name])
		}
		seen[all[name]] = true
	}
	return double
}

// static is a world whose machines have addresses by their VMIDs, in a narrow range.
func static(t *testing.T) *world {
	w := newWorld(t, plan{hosts: 1, seed: 1})
	p := w.pool()
	p.ISO, p.Join.UserDataFile, p.Join.UserDataTemplate, p.Join.User = settings.ISO{}, "", "", "ops"
	p.Join.SSHKeys = []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJhzQyGvEJY6yPxFTqmkE4fF1pnVKGJkfDSPdlVoCVC ops@home"}
	p.Network = settings.Addressing{First: netip.MustParsePrefix("10.0.0.50/24"), Gateway: netip.MustParseAddr("10.0.0.1")}
	p.VMIDs, p.Max = placement.VMIDs{First: 1000, Last: 1003}, 4
	w.begin()
	w.run(time.Second)
	return w
}

// A disc names the interface by its address, which a clone of a template without one does not have
// when the disc is made.
func TestAddressesNeedNoInterfaceInTheTemplate(t *testing.T) {
	w := newWorld(t, plan{hosts: 1, seed: 1})
	w.pool().Network = settings.Addressing{First: netip.MustParsePrefix("10.0.0.50/24"), Gateway: netip.MustParseAddr("10.0.0.1")}
	must.Do(t, w.root().VM("pve1", 9001).SetConfig(t.Context(), nil, []string{"net0"}, ""))
	w.begin()
	w.run(time.Second)
	name := w.mustOrder("")
	w.until("it has joined", 5*time.Minute, func() bool { return w.phase(name) == nodescaler.Joined })
	mac := w.fleet.roster.named(name).MAC
	if net := w.there(name).Config["net0"]; mac == "" || !strings.Contains(net, mac) {
		t.Errorf("its disc names %q, and it has %q", mac, net)
	}
}

// An order whose clone was not asked for yet when the range moved gets no address that a machine
// has, though its VMID is in both ranges.
func TestAnOrderThatWaitsGetsNoAddressTwice(t *testing.T) {
	for first := 999; first <= 1002; first++ {
		w := static(t)
		for range 4 {
			w.mustOrder("pve1") // two clones at a time
		}
		w.run(2 * time.Second)
		w.moves(first, first+7)
		w.run(5 * time.Minute)
		if all := w.addresses(); len(all) != 4 || len(twice(all)) > 0 {
			t.Errorf("from %d on: %v", first, all)
		}
	}
}

// A machine that is found again has the address of the range that it was made in.
func TestAdoptedMachinesKeepTheRangeThatTheyWereMadeIn(t *testing.T) {
	w := static(t)
	w.mustOrder("pve1")
	w.mustOrder("pve1")
	w.run(2 * time.Minute)
	w.intents = &intents.Memory{}
	w.pool().VMIDs, w.pool().Max = placement.VMIDs{First: 999, Last: 1006}, 8
	w.begin()
	w.run(2 * time.Minute)
	for range 4 {
		w.mustOrder("pve1")
	}
	w.run(5 * time.Minute)
	if all := w.addresses(); len(all) != 6 || len(twice(all)) > 0 {
		t.Errorf("%v\n%s", all, w.story())
	}
}

// That addresses keep VMIDs from being used is said.
func TestExhaustedVMIDsSayWhy(t *testing.T) {
	w := static(t)
	for range 4 {
		w.mustOrder("pve1")
	}
	w.run(5 * time.Minute)
	if r := w.fleet.intake.exhausted(w.pool()); r.Text != "all of 1000-1003 are taken or cooling down" {
		t.Error(r.Text)
	}
	w.moves(998, 1001)
	want := "all of 998-1001 are taken or cooling down, but for 2 whose addresses are those of machines that were made in another range"
	if r := w.fleet.intake.exhausted(w.pool()); r.Text != want {
		t.Error(r.Text)
	}
}
