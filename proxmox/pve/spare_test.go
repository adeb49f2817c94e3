package pve

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// spare is a world with one machine that has joined and is stopped.
func spareWorld(t *testing.T) (*world, string) {
	t.Helper()
	w := newWorld(t, plan{hosts: 1, seed: 3}).begin()
	w.run(time.Second)
	name := w.mustOrder("pve1")
	w.until("it has joined", 5*time.Minute, func() bool { return w.phase(name) == nodescaler.Joined })
	must.Do(t, w.fleet.Stash(t.Context(), name))
	if got := w.phase(name); got != nodescaler.Spare {
		t.Fatalf("told to be kept it is %s", got)
	}
	w.until("it is stopped", 3*time.Minute, func() bool { return !w.runs(name) })
	w.run(2 * time.Minute)
	return w, name
}

func (w *world) wake(name string) {
	w.t.Helper()
	must.Do(w.t, w.fleet.Wake(context.Background(), name))
}

func TestASpareIsStoppedAndIsANodeAgainWithinHalfAMinute(t *testing.T) {
	w, name := spareWorld(t)
	if got := w.calls("POST", "/status/shutdown"); got != 1 {
		t.Errorf("%d shutdowns, want 1", got)
	}
	if w.calls("POST", "/status/stop")+w.calls("DELETE", "/qemu/") != 0 {
		t.Error("it was cut off, or deleted")
	}
	if m := w.machine(name); m.Problem != "" || m.Drifted != "" || w.fleet.Pause() != idleGap {
		t.Errorf("at rest it has a problem (%s), has drifted (%s) or is looked at every %s", m.Problem, m.Drifted, w.fleet.Pause())
	}
	before, woken := w.machine(name), w.sim.Now()
	w.wake(name)
	if m := w.machine(name); m.Phase == nodescaler.Spare || m.Phase == nodescaler.Joined || !m.Woken.Equal(woken) {
		t.Errorf("woken it is %s since %s", m.Phase, m.Woken)
	}
	w.until("it is a node again", time.Minute, func() bool { return w.phase(name) == nodescaler.Joined })
	m := w.machine(name)
	if took := m.Since.Sub(woken); took < 10*time.Second || took > 50*time.Second || m.ProviderID != before.ProviderID {
		t.Errorf("it came back in %s as %s, was %s", took, m.ProviderID, before.ProviderID)
	}
	if w.calls("POST", "/clone") != 1 {
		t.Error("a second machine was made")
	}
}

func TestNodeThatWasReadyBeforeSaysNothingOfAWokenMachine(t *testing.T) {
	w, name := spareWorld(t)
	w.deaf = true
	w.wake(name)
	w.until("it runs", time.Minute, func() bool { return w.runs(name) })
	w.run(40 * time.Second)
	if got := w.phase(name); got != nodescaler.Booting {
		t.Errorf("with a node that has not been ready since it is %s", got)
	}
}

// So does a kubelet whose certificate has expired meanwhile.
func TestASpareWhoseNodeStaysUnreadyIsGivenUp(t *testing.T) {
	w, name := spareWorld(t)
	w.deaf, w.joins[0].node.ReadySince = true, w.sim.Now().Add(24*time.Hour)
	w.wake(name)
	w.until("it has failed", 20*time.Minute, func() bool { return w.phase(name) == nodescaler.Failed })
	w.mustSay(w.machine(name).Problem, pvecode.JoinTimeout)
}

func TestSpareTakesNoRoomUntilItIsWoken(t *testing.T) {
	w, name := spareWorld(t)
	room := func() pricing.Resources {
		g := w.fleet.intake.ground()
		return g.Free(w.fleet.catalogue.pools["web"].Places(), g.Host("pve1"))
	}
	asleep := room()
	w.wake(name)
	if awake := room(); awake != asleep.Minus(w.pool().Shapes[0].Resources()) {
		t.Errorf("%v is left with it, %v without", awake, asleep)
	}
}

func TestSpareWithoutMemoryForItStaysOne(t *testing.T) {
	w, name := spareWorld(t)
	w.inject(`fail start for=3m log="kvm: cannot set up guest memory 'pc.ram': Cannot allocate memory"`)
	w.wake(name)
	w.until("it is a spare again", time.Minute, func() bool { return w.phase(name) == nodescaler.Spare })
	if m := w.machine(name); !m.NoRoom || !strings.Contains(m.Problem, placement.CodeNoMemory) {
		t.Errorf("it does not say that memory was lacking: %+v", m)
	}
	w.run(spareRest + time.Minute)
	if m := w.machine(name); m.Problem != "" {
		t.Errorf("it may not be tried again: %s", m.Problem)
	}
	w.wake(name)
	w.until("it is a node again", 2*time.Minute, func() bool { return w.phase(name) == nodescaler.Joined })
}

func TestSpareThatCannotBeStartedTimeAndAgainHasFailed(t *testing.T) {
	w, name := spareWorld(t)
	w.inject(`fail start for=1h text="start failed: unable to read tail"`)
	for range maxMisses {
		w.wake(name)
		w.until("it was tried", time.Minute, func() bool { p := w.phase(name); return p == nodescaler.Spare || p == nodescaler.Failed })
	}
	if got := w.phase(name); got != nodescaler.Failed {
		t.Errorf("it is %s", got)
	}
}

func TestSpareIsNotWokenOnAHostThatIsAwayOrFull(t *testing.T) {
	w, name := spareWorld(t)
	w.inject("host pve1 maintenance for=2m")
	w.run(30 * time.Second)
	if err := w.fleet.Wake(t.Context(), name); !errors.Is(err, loop.ErrRefused) || w.phase(name) != nodescaler.Spare {
		t.Errorf("in maintenance: %v", err)
	}
	w.run(4 * time.Minute)
	big := *w.pool()
	big.Placement.MemoryReserve = 125 * pricing.GiB
	must.Do(t, w.fleet.Configure([]settings.Pool{big}, nil))
	w.run(time.Second)
	if err := w.fleet.Wake(t.Context(), name); !errors.Is(err, loop.ErrRefused) || !strings.Contains(err.Error(), placement.CodeNoMemory) {
		t.Errorf("without memory: %v", err)
	}
	if m := w.machine(name); m.Drifted != "" {
		t.Errorf("where machines may be placed makes no other machine of it: %s", m.Drifted)
	}
}

func TestSpareDriftsWithItsPoolAndItsTemplate(t *testing.T) {
	for what, change := range map[string]func(*world, *settings.Pool){
		"labels": func(_ *world, p *settings.Pool) { p.Labels = map[string]string{"disk": "ssd"} },
		"join":   func(_ *world, p *settings.Pool) { p.Join.UserDataTemplate += "# newer\n" },
		"shape": func(_ *world, p *settings.Pool) {
			p.Shapes = []pricing.Shape{{Name: "small", CPU: 4000, Memory: 4 * pricing.GiB, Disk: 20 * pricing.GiB}}
		},
		"template": func(w *world, _ *settings.Pool) {
			must.Do(w.t, w.root().VM("pve1", 9001).SetConfig(context.Background(), map[string]string{"description": "a newer image"}, nil, ""))
		},
	} {
		t.Run(what, func(t *testing.T) {
			w, name := spareWorld(t)
			p := *w.pool()
			change(w, &p)
			must.Do(t, w.fleet.Configure([]settings.Pool{p}, nil))
			w.run(surveyEvery + time.Minute)
			if m := w.machine(name); m.Drifted == "" || m.Phase != nodescaler.Spare {
				t.Errorf("it does not say that it has drifted: %+v", m)
			}
		})
	}
}

// A node that its owner upgraded to what the pool installs has not drifted, nor has one of which it
// is not known how it was made.
func TestUpgradesInPlaceAreNoDrift(t *testing.T) {
	for _, c := range []struct {
		name, made, pool, node string
		settings               string
		want                   bool
	}{
		{name: "the pool installs another version", made: "v1", pool: "v2", node: "v1", want: true},
		{name: "its owner has upgraded the node", made: "v1", pool: "v2", node: "v2"},
		{name: "its owner is ahead of the pool", made: "v1", pool: "v1", node: "v2"},
		{name: "what the node runs is not known", made: "v1", pool: "v2"},
		{name: "what was installed is not known", pool: "v2", node: "v1"},
		{name: "another version of the program made it", settings: "1:0123456789ab"},
		{name: "how it was made is not known", settings: "unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, name := spareWorld(t)
			m := w.fleet.roster.named(name)
			w.fleet.catalogue.pools[m.Pool].Join.Install.Version = c.pool
			m.Version = c.made
			if c.settings != "" {
				m.Settings = strings.TrimPrefix(c.settings, "unknown")
			}
			n := w.fleet.members.match.node[name]
			n.Version = c.node
			w.fleet.members.match.node[name] = n
			if got := w.fleet.listing.drift(m); (got != "") != c.want {
				t.Errorf("got %q, want any: %v", got, c.want)
			}
		})
	}
}

func TestSpareThatSomebodyStartsIsShutDownAgain(t *testing.T) {
	w, name := spareWorld(t)
	must.Get(w.root().VM("pve1", w.fleet.roster.named(name).VMID).Start(t.Context()))(t)
	w.until("it runs", time.Minute, func() bool { return w.runs(name) })
	w.until("it is stopped", 3*time.Minute, func() bool { return !w.runs(name) })
	// A guest that boots may not hear it, and is stopped then.
	if got := w.calls("POST", "/status/shutdown"); got != 2 {
		t.Errorf("it was asked to shut down %d times\n%s", got, w.story())
	}
}

func TestSpareThatIsWokenBeforeItIsShutDownIsLetRun(t *testing.T) {
	w := newWorld(t, plan{hosts: 1, seed: 3})
	var name string
	stashed := false
	w.wrap = func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			// The last look before the order.
			if stashed && strings.HasSuffix(r.URL.Path, "/status/current") {
				stashed = false
				w.wake(name)
			}
			return next.RoundTrip(r)
		})
	}
	w.begin()
	w.run(time.Second)
	name = w.mustOrder("pve1")
	w.until("it has joined", 5*time.Minute, func() bool { return w.phase(name) == nodescaler.Joined })
	must.Do(t, w.fleet.Stash(t.Context(), name))
	stashed = true
	w.until("it is a node as it was", 2*time.Minute, func() bool { return w.phase(name) == nodescaler.Joined })
	if stashed || w.calls("POST", "/status/shutdown") != 0 || w.fleet.roster.named(name).Exit != intents.ExitNone {
		t.Errorf("not woken: %t, shut down %d times, its exit is %q", stashed, w.calls("POST", "/status/shutdown"), w.fleet.roster.named(name).Exit)
	}
}

func TestMachineOrderedAsASpareSaysSoUntilItIsStashedOrWoken(t *testing.T) {
	w := newWorld(t, plan{hosts: 1, seed: 4}).begin()
	w.run(time.Second)
	p := w.pool()
	order := loop.Order{ID: nodescaler.OrderID(w.sim.Now(), 0), At: w.sim.Now(), Action: nodescaler.Action{Kind: nodescaler.Buy, Pool: p.Name, Shape: &p.Shapes[0], Keep: true}}
	must.Do(t, w.fleet.Create(t.Context(), order))
	name := nodescaler.MachineName(p.Name, order.ID)
	w.begin() // it is kept with the order
	w.run(time.Second)
	m := w.machine(name)
	if !m.Keep || !m.Kept() {
		t.Errorf("it is no spare in the making: %+v", m)
	}
	w.wake(name)
	m = w.machine(name)
	if m.Keep || m.Kept() || m.Phase != nodescaler.Ordered || !m.Woken.IsZero() {
		t.Errorf("woken before it was made it is not as any other: %+v", m)
	}
	w.until("it has joined", 5*time.Minute, func() bool { return w.phase(name) == nodescaler.Joined })
}

func TestOnlyAMachineThatHasJoinedIsStashed(t *testing.T) {
	w := newWorld(t, plan{hosts: 1, seed: 5}).begin()
	w.run(time.Second)
	name := w.mustOrder("pve1")
	if err := w.fleet.Stash(t.Context(), name); err == nil || w.phase(name) != nodescaler.Ordered {
		t.Errorf("stashed while it is ordered: %v", err)
	}
	if err := w.fleet.Stash(t.Context(), "web-none"); err == nil {
		t.Error("stashed what is not there")
	}
}

// A backup writes its lock into the template's configuration, and takes it out again.
func TestABackupOfTheTemplateIsNoDrift(t *testing.T) {
	w, name := spareWorld(t)
	w.inject("lock vm=9001 as=backup")
	w.run(surveyEvery + time.Minute)
	if m := w.machine(name); m.Drifted != "" {
		t.Error(m.Drifted)
	}
}
