package pve

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func (w *world) reboot(names ...string) {
	w.t.Helper()
	for _, name := range names {
		must.Do(w.t, w.fleet.Reboot(context.Background(), name))
	}
}

// rebooted reports whether a machine was rebooted, and that is over.
func (w *world) rebooted(name string) bool {
	m := w.machine(name)
	return !m.Rebooted.IsZero() && !m.Rebooting
}

func TestRebootStopsAndStartsAMachineOnce(t *testing.T) {
	w, names := seeing(t, 1)
	name, starts := names[0], w.calls("POST", "/status/start")
	w.reboot(name, name)
	if m := w.machine(name); m.Phase != nodescaler.Joined || !m.Rebooting || !m.Rebooted.Equal(w.sim.Now()) {
		t.Errorf("it is %s, rebooting %t since %s", m.Phase, m.Rebooting, m.Rebooted)
	}
	w.until("it is stopped", 3*time.Minute, func() bool { return !w.runs(name) })
	if m := w.machine(name); m.Phase != nodescaler.Joined || m.Problem != "" {
		t.Errorf("stopped it is %s: %s", m.Phase, m.Problem)
	}
	w.until("it was rebooted", 3*time.Minute, func() bool { return w.rebooted(name) })
	w.run(time.Hour)
	if !w.runs(name) || w.calls("POST", "/status/shutdown") != 1 || w.calls("POST", "/status/start") != starts+1 || w.calls("DELETE", "/qemu/") != 0 {
		t.Errorf("it runs: %t; %d shutdowns, %d starts more", w.runs(name), w.calls("POST", "/status/shutdown"), w.calls("POST", "/status/start")-starts)
	}
	w.event(pvecode.RebootBegun)
	w.event(pvecode.Rebooted)
	if w.count(pvecode.Undrained) > 0 || w.fleet.Pause() != idleGap {
		t.Error("an empty node is said to go undrained, or the machine is not at rest")
	}
}

// Whenever the process dies, the next one goes on: the machine is rebooted once, and runs.
func TestRebootGoesOnAfterTheProcessDied(t *testing.T) {
	for after := time.Second; after < time.Minute; after += 7 * time.Second {
		w, names := seeing(t, 1)
		w.reboot(names[0])
		at := w.machine(names[0]).Rebooted
		w.run(after)
		w.begin()
		w.run(3 * time.Minute)
		if m := w.machine(names[0]); !w.runs(names[0]) || m.Rebooting || !m.Rebooted.Equal(at) || w.calls("POST", "/status/shutdown") != 1 {
			t.Errorf("dead after %s: it runs: %t, rebooting %t, of %s\n%s", after, w.runs(names[0]), m.Rebooting, m.Rebooted, w.story())
		}
	}
}

// A machine whose node is not ready is not drained before: few go that way in an hour, as of those
// that are destroyed, and none while the brake holds.
func TestRebootsWithoutADrainAreBraked(t *testing.T) {
	w, names := seeing(t, 20)
	silent := map[string]bool{}
	w.emptied = func(name string) bool { return silent[name] }
	for _, name := range names[:5] {
		silent[name] = true
	}
	w.run(time.Minute)
	w.reboot(names[:5]...)
	w.run(10 * time.Minute)
	n := 0
	for _, name := range names[:5] {
		if w.rebooted(name) {
			n++
		} else if m := w.machine(name); !w.runs(name) || m.Held == nil || !strings.Contains(m.Problem, pvecode.Braked) {
			t.Errorf("%s waits: it runs: %t, held for %v", name, w.runs(name), m.Held)
		}
	}
	if n != 2 || w.count(pvecode.Undrained) != 2 || len(w.fleet.Braked()) != 1 {
		t.Fatalf("%d of 20 were rebooted undrained, want 2; braked: %v\n%s", n, w.fleet.Braked(), w.story())
	}
	clear(silent)
	w.run(10 * time.Minute)
	if w.count(pvecode.Undrained) != 2 || w.count(pvecode.Revoked) != 3 || len(w.fleet.Braked()) != 0 {
		t.Errorf("the nodes are back, and what waited does so still: %v\n%s", w.fleet.Braked(), w.story())
	}
}

func TestRebootLeavesAReadyNodeWithPodsAlone(t *testing.T) {
	w, names := seeing(t, 1)
	w.pods[names[0]] = []string{"shop/web-0"}
	w.reboot(names[0])
	w.run(time.Hour)
	if m := w.machine(names[0]); !w.runs(names[0]) || m.Rebooting || w.calls("POST", "/status/shutdown") != 0 {
		t.Errorf("it runs: %t, rebooting %t", w.runs(names[0]), m.Rebooting)
	}
	w.event(pvecode.Revoked)
}

func TestAMachineThatDoesNotStartAgainHasFailed(t *testing.T) {
	w, names := honest(t, 1)
	w.inject(`fail start for=1h text="start failed: unable to read tail"`)
	w.reboot(names[0])
	w.until("it has failed", 30*time.Minute, func() bool { return w.phase(names[0]) == nodescaler.Failed })
	w.giveBack(names[0])
	w.until("it is gone", 10*time.Minute, func() bool { return w.phase(names[0]) == "" })
}

// A machine that is returned meanwhile is not started again, and one that is rebooted is no spare.
func TestAReturnEndsAReboot(t *testing.T) {
	w, names := seeing(t, 1)
	starts := w.calls("POST", "/status/start")
	w.reboot(names[0])
	if err := w.fleet.Stash(t.Context(), names[0]); err == nil {
		t.Error("it is kept as a spare while it is rebooted")
	}
	w.until("it is stopped", 3*time.Minute, func() bool { return !w.runs(names[0]) })
	w.giveBack(names[0])
	w.until("it is gone", 10*time.Minute, func() bool { return w.phase(names[0]) == "" })
	if w.calls("POST", "/status/start") != starts {
		t.Error("it was started again")
	}
}

func TestOnlyNodesAreRebooted(t *testing.T) {
	w, name := spareWorld(t)
	if err := w.fleet.Reboot(t.Context(), name); err == nil || !strings.Contains(err.Error(), "must be Joined") {
		t.Errorf("a spare is rebooted: %v", err)
	}
	if err := w.fleet.Reboot(t.Context(), "other"); err == nil {
		t.Error("what does not exist is rebooted")
	}
	w.cfg.Watch = true
	w.begin()
	if err := w.fleet.Reboot(t.Context(), name); err == nil || !strings.Contains(err.Error(), watching.Text) {
		t.Errorf("a fleet that only looks reboots: %v", err)
	}
}

// honest is a world of machines whose nodes are ready, and open, while they run.
func honest(t *testing.T, n int) (*world, []string) {
	t.Helper()
	w, names := seeing(t, n)
	w.honest, w.open = true, map[string]bool{}
	for _, name := range names {
		w.open[name] = true
	}
	return w, names
}

// sets writes a key of a machine's configuration, as a person does.
func (w *world) sets(v *pvesim.VMState, key, value string) {
	w.t.Helper()
	must.Do(w.t, w.root().VM(v.Host, v.ID).SetConfig(w.t.Context(), map[string]string{key: value}, nil, ""))
}

// halt stops a machine as a person does, or its guest.
func (w *world) halt(name string) {
	w.t.Helper()
	v := w.there(name)
	must.Get(w.root().VM(v.Host, v.ID).Stop(w.t.Context(), false))(w.t)
}

// After a power cut machines run again once their hosts do, also under a process that remembers
// nothing. Spares stay stopped.
func TestMachinesRunAgainAfterAPowerCut(t *testing.T) {
	for _, forgets := range []bool{false, true} {
		w, names := honest(t, 3)
		must.Do(t, w.fleet.Stash(t.Context(), names[2]))
		w.run(5 * time.Minute)
		starts := w.calls("POST", "/status/start")
		for i := range w.hosts {
			w.inject("host pve" + itoa(i+1) + " down for=20m")
		}
		w.run(15 * time.Minute)
		if forgets {
			w.begin()
		}
		w.run(15 * time.Minute)
		if !w.runs(names[0]) || !w.runs(names[1]) || w.runs(names[2]) {
			t.Errorf("they run: %t, %t, and the spare %t\n%s", w.runs(names[0]), w.runs(names[1]), w.runs(names[2]), w.story())
		}
		for _, name := range names[:2] {
			if m := w.machine(name); m.Phase != nodescaler.Joined || m.Problem != "" || m.Rebooting {
				t.Errorf("%s is %s: %s", name, m.Phase, m.Problem)
			}
		}
		if n := w.calls("POST", "/status/start") - starts; n != 2 || w.calls("POST", "/status/stop") != 0 {
			t.Errorf("%d starts, want 2", n)
		}
	}
}

// A machine that stops itself again and again is started a few times, ever later, and has failed
// then. Once a start has held, the next ones count anew.
func TestMachinesThatStopThemselvesAreStartedAFewTimes(t *testing.T) {
	w, names := honest(t, 1)
	name := names[0]
	var waited []time.Duration
	for n := range maxMisses {
		w.halt(name)
		at := w.sim.Now()
		w.until("it runs again", time.Hour, func() bool { return w.count(pvecode.Rebooted) > n })
		waited = append(waited, w.sim.Now().Sub(at).Truncate(time.Minute))
	}
	if !slices.Equal(waited, []time.Duration{time.Minute, 4 * time.Minute, 16 * time.Minute}) {
		t.Errorf("it was started after %s", waited)
	}
	w.halt(name)
	w.until("it has failed", 5*time.Minute, func() bool { return w.phase(name) == nodescaler.Failed })
	w.mustSay(w.machine(name).Problem, "Stopped: VM 1", "started 3 times in a row")

	w, names = honest(t, 1)
	for range 4 {
		w.halt(names[0])
		w.run(3 * time.Minute)
		w.sim.Advance(startHolds)
		w.run(time.Minute)
	}
	if m := w.machine(names[0]); m.Phase != nodescaler.Joined || !w.runs(names[0]) {
		t.Errorf("once in an hour it stops, and is %s: %s", m.Phase, m.Problem)
	}
}

// A person who wants a machine to stay stopped cordons its node, or protects or locks the machine.
// High availability starts itself what it manages. A ready node says that it runs somewhere.
func TestMachinesThatAreKeptStopped(t *testing.T) {
	for name, c := range map[string]struct {
		keep, free func(*world, *pvesim.VMState)
		says       string
	}{
		"cordoned": {
			func(w *world, v *pvesim.VMState) { w.open[v.Config["name"]] = false },
			func(w *world, v *pvesim.VMState) { w.open[v.Config["name"]] = true }, "is cordoned",
		},
		"protected": {
			func(w *world, v *pvesim.VMState) { w.sets(v, "protection", "1") },
			func(w *world, v *pvesim.VMState) { w.sets(v, "protection", "0") }, "it is protected",
		},
		"locked": {
			func(w *world, v *pvesim.VMState) { w.inject("lock vm=" + itoa(v.ID) + " as=backup for=20m") },
			func(*world, *pvesim.VMState) {}, "it is locked (backup)",
		},
		"managed": {
			func(w *world, v *pvesim.VMState) {
				must.Do(t, w.asRoot(http.MethodPost, "/cluster/ha/resources", map[string]any{"sid": "vm:" + itoa(v.ID), "state": "stopped"}))
			},
			func(w *world, v *pvesim.VMState) {
				must.Do(t, w.asRoot(http.MethodDelete, "/cluster/ha/resources/vm:"+itoa(v.ID), nil))
			}, "under high availability",
		},
		"deleted": {
			func(w *world, _ *pvesim.VMState) { w.bare = true },
			func(w *world, _ *pvesim.VMState) { w.bare = false }, "its node was deleted",
		},
		"paused": {
			func(w *world, _ *pvesim.VMState) { w.fleet.Rest(map[string]bool{"web": true}) },
			func(w *world, _ *pvesim.VMState) { w.fleet.Rest(nil) }, "does not run",
		},
		"a ready node": {
			func(w *world, _ *pvesim.VMState) { w.honest = false },
			func(w *world, _ *pvesim.VMState) { w.honest = true }, "is ready",
		},
		"maintenance": {
			func(w *world, v *pvesim.VMState) { w.inject("host " + v.Host + " maintenance for=20m") },
			func(*world, *pvesim.VMState) {}, "does not run",
		},
		"an API server that is away": {
			func(w *world, _ *pvesim.VMState) { w.blind = true },
			func(w *world, _ *pvesim.VMState) { w.blind = false }, "cannot be read",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, names := honest(t, 1)
			v := w.there(names[0])
			w.halt(names[0])
			w.sim.Advance(10 * time.Second)
			c.keep(w, v)
			w.run(15 * time.Minute)
			if m := w.machine(names[0]); w.runs(names[0]) || m.Phase != nodescaler.Joined {
				t.Errorf("it runs: %t, and is %s", w.runs(names[0]), m.Phase)
			} else {
				w.mustSay(m.Problem, "Stopped: ", c.says)
			}
			c.free(w, v)
			w.until("it runs", 15*time.Minute, func() bool { return w.runs(names[0]) })
			w.run(time.Minute)
			if m := w.machine(names[0]); m.Problem != "" {
				t.Errorf("it runs, and says %q", m.Problem)
			}
		})
	}
}
