package pve

import (
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
)

// ender is a fleet of twenty machines that joined an hour ago, of which none has a node any more,
// and of which one is to go.
func ender(change func(*tracked)) *work {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	f := assemble(FleetConfig{Now: func() time.Time { return now }, Cluster: homeCluster})
	f.watch.steady.see(now.Add(-time.Second))
	for i := range 20 {
		m := &tracked{Intent: intents.Intent{
			Order: itoa(i), Pool: "web", Name: "web-" + itoa(i), Step: intents.StepJoined, Cluster: homeCluster,
			Joined: now.Add(-time.Hour), Leaving: intents.Leaving{Returned: now.Add(-time.Minute)},
		}}
		f.roster.machines[m.Order] = m
	}
	m := f.roster.machines["0"]
	change(m)
	f.members.match.ids = nodescaler.NewIdentities([]nodescaler.Machine{f.members.self(m)})
	return &work{crew: f.crew, m: m, i: m.Intent, now: now}
}

// What was emptied before it was stopped goes as it is, and is no charge on the brake; what may run
// still is.
func TestWhatRestsGoesUncharged(t *testing.T) {
	spare := func(m *tracked) { m.Returned, m.Stashed = time.Time{}, m.Returned }
	for _, c := range []struct {
		name    string
		change  func(*tracked)
		status  string
		node    *nodescaler.SeenNode
		charged bool
	}{
		{"a spare that is stopped", spare, "stopped", nil, false},
		{"a spare that runs", spare, "running", nil, true},
		{"one that was woken and has not started", func(m *tracked) { m.Woken, m.Step = m.Joined, intents.StepConfigured }, "stopped", nil, false},
		{"one that was woken and has", func(m *tracked) { m.Woken, m.Step = m.Joined, intents.StepStarted }, "stopped", nil, true},
		{"one that was never a spare", func(*tracked) {}, "stopped", nil, true},
		{"one that is in the making", func(m *tracked) { m.Step = intents.StepConfigured }, "stopped", nil, true},
		{"one that was shut down already", func(m *tracked) { m.Exit = intents.ExitShutdown }, "running", nil, false},
		{"one whose node is ready and empty", func(*tracked) {}, "running", &nodescaler.SeenNode{Ready: true}, false},
		{"one whose node is not ready", func(*tracked) {}, "running", &nodescaler.SeenNode{}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := ender(c.change)
			s := &nodescaler.Sight{}
			if c.node != nil {
				c.node.Identity = nodescaler.Identity{Name: w.m.Name, ProviderID: w.m.ProviderID}
				s.Nodes = append(s.Nodes, *c.node)
			}
			if may := (leaving{w}).mayEnd(s, pveapi.VMStatus{Status: c.status}); !may || w.m.Undrained.IsZero() == c.charged {
				t.Errorf("it may go: %t, charged at %s; want charged %t", may, w.m.Undrained, c.charged)
			}
		})
	}
}

// A machine is charged once, though the process dies before it is shut down; and again when it is
// to go another time.
func TestBrakeChargesAMachineOnce(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(m *tracked, returned time.Time)
		charged bool
	}{
		{"never", func(*tracked, time.Time) {}, true},
		{"when it was returned", func(m *tracked, at time.Time) { m.Undrained = at }, false},
		{"since it was returned", func(m *tracked, at time.Time) { m.Undrained = at.Add(time.Second) }, false},
		{"before it was returned", func(m *tracked, at time.Time) { m.Undrained = at.Add(-time.Second) }, true},
		{"since it was to be kept", func(m *tracked, at time.Time) {
			m.Returned, m.Stashed, m.Undrained = time.Time{}, at, at.Add(time.Second)
		}, false},
		{"before it was to be kept", func(m *tracked, at time.Time) {
			m.Returned, m.Stashed, m.Undrained = time.Time{}, at, at.Add(-time.Second)
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := ender(func(m *tracked) { c.change(m, m.Returned) })
			may := leaving{w}.brakes(false)
			if charged := w.m.Undrained.Equal(w.now); !may || charged != c.charged {
				t.Errorf("it may go: %t, charged now: %t, want %t", may, charged, c.charged)
			}
		})
	}
}

// A pool that is held is reported once, with any number that wait in it; each that waits is kept
// from then on.
func TestBrakeSpeaksOnce(t *testing.T) {
	w := ender(func(*tracked) {})
	for _, name := range []string{"18", "19"} {
		w.roster.machines[name].Undrained = w.now.Add(-time.Minute)
	}
	for _, name := range []string{"0", "1", "0"} {
		w.m = w.roster.machines[name]
		if (leaving{w}).brakes(false) || w.m.Frozen.IsZero() || !w.m.Silent {
			t.Errorf("%s is let go, or not held: %+v", name, w.m.Intent)
		}
	}
	if (leaving{w}).brakes(true); w.m.Silent {
		t.Error("a machine whose node is ready is said to be silent")
	}
	if n := w.records.counts[pvecode.Braked]; n != 1 {
		t.Errorf("it is said %d times that nothing goes, want once", n)
	}
	w.roster.machines["0"].Resumed = w.now
	if !(leaving{w}).brakes(false) {
		t.Error("one that a person resumed is held")
	}
}

// What went undrained counts for an hour, and no longer.
func TestBrakeCountsForAnHour(t *testing.T) {
	w := ender(func(*tracked) {})
	w.watch.steady = steady{last: w.now, watched: 2 * brakeWindow, leaps: []leap{{at: w.now.Add(-2 * brakeWindow)}}}
	for ago, want := range map[time.Duration]bool{0: true, brakeWindow - time.Second: true, brakeWindow: false} {
		if w.m.Undrained = w.now.Add(-ago); w.holds.undrained(w.m) != want {
			t.Errorf("%s ago counts: %t, want %t", ago, !want, want)
		}
	}
}
