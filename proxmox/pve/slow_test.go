package pve

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// A proof that is longer on its way than it lasts is still one when it comes: dated by its question
// it would be asked for again and again.
func TestHostThatAnswersSlowlyMakesMachines(t *testing.T) {
	for _, by := range []string{"1s", "3s", "10s"} {
		t.Run(by, func(t *testing.T) {
			w := newWorld(t, plan{hosts: 2, seed: 5}).begin()
			w.run(time.Minute)
			w.inject("slow GET /nodes/pve2/qemu/*/config by="+by, "slow PUT /nodes/pve2/qemu/*/config by="+by)
			before := w.calls("GET", "/config")
			name := w.mustOrder("pve2")
			w.until("the machine has joined", 10*time.Minute, func() bool { return w.phase(name) == nodescaler.Joined })
			if n := w.calls("GET", "/config") - before; n > 10 {
				t.Errorf("its configuration was read %d times", n)
			}
		})
	}
}

// A host that does not list its tasks is asked for the one that a machine waits for.
func TestTaskThatNobodyTellsOfIsAskedFor(t *testing.T) {
	for _, status := range []string{"500", "596"} {
		t.Run(status, func(t *testing.T) {
			w := newWorld(t, plan{hosts: 2, seed: 5}).begin()
			w.run(time.Minute)
			w.inject("answer " + status + " GET /nodes/pve2/tasks")
			name := w.mustOrder("pve2")
			w.until("the machine has joined", 10*time.Minute, func() bool { return w.phase(name) == nodescaler.Joined })
			must.Do(t, w.fleet.Delete(context.Background(), name))
			w.until("it is gone", 10*time.Minute, func() bool { return w.phase(name) == "" })
		})
	}
}

// endless is a world whose clones never end: two are under way on the one storage, and a third
// waits for its turn.
func endless(t *testing.T) (w *world, names []string) {
	p := plan{hosts: 2, seed: 5, shared: true}
	p.times.Clone.Min, p.times.Clone.Max = 1000*time.Hour, 1001*time.Hour
	p.times.Boot.Min, p.times.Boot.Max = 10*time.Second, 20*time.Second
	w = newWorld(t, p)
	w.pool().MaxFailures = 9
	w.begin()
	w.run(time.Second)
	for range 3 {
		names = append(names, w.mustOrder(""))
	}
	w.run(15 * time.Minute)
	return w, names
}

func (w *world) clones() (n int) {
	for _, v := range w.sim.Inventory().VMs {
		if v.Config["lock"] == "clone" {
			n++
		}
	}
	return n
}

// What takes too long is reported, and keeps no other client waiting.
func TestTaskThatNeverEndsIsToldOf(t *testing.T) {
	w, names := endless(t)
	if n := w.calls("POST", "/clone"); n != 2 {
		t.Errorf("%d clones were begun at once, want 2", n)
	}
	if w.told(pvecode.TaskHangs) {
		t.Errorf("after a quarter of an hour a clone is told to hang\n%s", w.story())
	}
	w.run(time.Hour)
	for _, name := range names[:2] {
		m := w.machine(name)
		if m.Phase != nodescaler.Failed || !strings.HasPrefix(m.Problem, "TaskHangs: its task clone on pve1 has not ended since 2026-01-01T00:00:01Z; look at the host") {
			t.Errorf("%s is %s: %s", name, m.Phase, m.Problem)
		}
	}
	if n := w.calls("POST", "/clone"); n != 3 {
		t.Errorf("%d clones were begun after an hour, want a third\n%s", n, w.story())
	}
	if n := w.calls("DELETE", "/tasks/"); n != 0 {
		t.Errorf("%d tasks of machines that nobody gave back were ended", n)
	}
}

// A machine that was reclaimed goes, though its task would never end.
func TestMachineWhoseTaskNeverEndsIsGivenBack(t *testing.T) {
	w, names := endless(t)
	for _, name := range names[:2] {
		must.Do(t, w.fleet.Delete(context.Background(), name))
	}
	w.run(30 * time.Minute)
	if n := w.calls("DELETE", "/tasks/"); n != 0 {
		t.Errorf("%d clones were ended before their hour was over", n)
	}
	w.run(30 * time.Minute)
	for _, name := range names[:2] {
		if m := w.machine(name); m.Phase != "" {
			t.Errorf("%s is %s: %s\n%s", name, m.Phase, m.Problem, w.story())
		}
	}
	if n, clones := w.calls("DELETE", "/tasks/"), w.clones(); n != 2 || clones != 1 {
		t.Errorf("%d tasks were ended, want 2; %d clones are there, want the third's\n%s", n, clones, w.story())
	}
}

// That a task cannot be ended is reported, and a person can end it.
func TestTaskThatMayNotBeEndedIsLeftToAPerson(t *testing.T) {
	w, names := endless(t)
	w.inject("answer 403 DELETE /nodes/pve1/tasks/*")
	must.Do(t, w.fleet.Delete(context.Background(), names[0]))
	w.run(2 * time.Hour)
	m := w.machine(names[0])
	if m.Phase != nodescaler.Deleting || !strings.HasPrefix(m.Problem, "TaskHangs: ") || !strings.Contains(m.Problem, "pvesh delete '/nodes/pve1/tasks/UPID:pve1:") {
		t.Errorf("it is %s: %s\n%s", m.Phase, m.Problem, w.story())
	}
	if n := strings.Count(w.story(), "could not be stopped"); n < 5 || n > 15 {
		t.Errorf("that it could not be ended is told %d times in 75 minutes, want every five\n%s", n, w.story())
	}
	w.sim.Heal()
	must.Do(t, w.root().StopTask(context.Background(), pveapi.UPID(w.fleet.roster.named(names[0]).Task.UPID)))
	w.until("it is gone", time.Minute, func() bool { return w.phase(names[0]) == "" })
}

// A disc that is not removed keeps no machine: it is rebooted, kept as a spare, or goes, and says
// that the disc is there.
func TestDiscThatIsNeverRemovedKeepsNoMachine(t *testing.T) {
	for name, c := range map[string]struct {
		do  func(w *world, name string) error
		end func(w *world, name string) bool
	}{
		"returned": {
			func(w *world, name string) error { return w.fleet.Delete(t.Context(), name) },
			func(w *world, name string) bool { return w.there(name) == nil },
		},
		"a spare": {
			func(w *world, name string) error { return w.fleet.Stash(t.Context(), name) },
			func(w *world, name string) bool { return !w.runs(name) && w.fleet.roster.named(name).off },
		},
		"rebooted": {
			func(w *world, name string) error { return w.fleet.Reboot(t.Context(), name) },
			func(w *world, name string) bool { return w.rebooted(name) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, plan{hosts: 2, seed: 5}).begin()
			w.run(time.Second)
			w.inject("slow remove by=1000h")
			name := w.mustOrder("pve2")
			w.until("the machine has joined", 10*time.Minute, func() bool { return w.phase(name) == nodescaler.Joined })
			w.run(time.Minute)
			must.Do(t, c.do(w, name))
			w.until("it is done", 25*time.Minute, func() bool { return c.end(w, name) })
			w.mustSay(w.event(pvecode.TaskHangs).String(), "its task erase on pve2 has not ended", "pvesh delete")
			w.mustSay(w.event(pvecode.DiscKept).String(), "local:iso/plimsoll-", "remove local:iso/plimsoll-", "it holds the join token")
		})
	}
}

// A machine is used, and rests, while its disc is there. Once the storage works, the disc goes with
// the machine.
func TestDiscThatIsNeverRemovedGoesWithItsMachine(t *testing.T) {
	w := newWorld(t, plan{hosts: 2, seed: 5}).begin()
	w.run(time.Second)
	w.inject("slow remove by=1000h times=1")
	name := w.mustOrder("pve2")
	w.run(30 * time.Minute)
	if m := w.machine(name); m.Phase != nodescaler.Joined || !strings.HasPrefix(m.Problem, pvecode.DiscKept) || w.fleet.Pause() != idleGap {
		t.Errorf("it is %s (%s), and looked at again in %s", m.Phase, m.Problem, w.fleet.Pause())
	}
	must.Do(t, w.fleet.Delete(t.Context(), name))
	w.until("it is gone", 10*time.Minute, func() bool { return w.phase(name) == "" })
	w.run(5 * time.Minute)
	if discs := w.discs(); len(discs) != 0 {
		t.Errorf("left is %v", discs)
	}
}

// among makes a round of work while a question is asked.
type among struct {
	w    *world
	way  http.RoundTripper
	path string
	busy bool
	n    int
}

func (a *among) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, a.path) && a.path != "" && !a.busy {
		a.busy, a.n = true, a.n+1
		if a.w.fleet.ticking.TryLock() {
			a.w.fleet.ticking.Unlock()
			_ = a.w.fleet.Tick(r.Context())
		} else {
			a.w.t.Errorf("%s is asked while no round of work can be made", r.URL.Path)
		}
		a.busy = false
	}
	return a.way.RoundTrip(r)
}

// What is left over is looked for beside the work, which takes long where each question does; a
// machine that is made meanwhile does not count.
func TestWorkGoesOnWhileOrphansAreLookedFor(t *testing.T) {
	w := newWorld(t, plan{hosts: 2, seed: 5})
	w.pool().VMIDs = placement.VMIDs{First: 1000, Last: 1999}
	var a *among
	w.wrap = func(way http.RoundTripper) http.RoundTripper { a = &among{w: w, way: way}; return a }
	w.begin()
	w.run(time.Minute)
	w.inject("slow GET /cluster/nextid by=600ms", "slow GET /nodes/*/storage/*/content by=600ms")
	for _, path := range []string{"/cluster/nextid", "/content"} {
		a.path, a.n = path, 0
		name := w.mustOrder("")
		r, err := w.fleet.Collect(context.Background(), nil)
		if err != nil || len(r.Orphans) != 0 || a.n == 0 {
			t.Errorf("%s: %d rounds of work, %+v, %v", path, a.n, r, err)
		}
		a.path = ""
		w.run(time.Second)
		w.until("the machine has joined", 10*time.Minute, func() bool { return w.phase(name) == nodescaler.Joined })
	}
}
