package pve

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/testbed/race"
)

// mute is the way to a cluster of which some hosts are silent: who passes a question on to one
// answers 596 after half a minute. Those who wait are in a bubble of time, which the world's
// follows, so that they wait at the same time.
type mute struct {
	w   *world
	way http.RoundTripper

	mu     sync.Mutex
	began  time.Time // in the bubble
	at     time.Time // in the world
	silent map[string]bool
	asked  int           // questions to hosts that are silent
	dark   time.Duration // for which the machines were unknown
	last   time.Time
}

func (m *mute) RoundTrip(r *http.Request) (*http.Response, error) {
	m.follow()
	m.mu.Lock()
	silent := m.silent[(&pveapi.Error{Path: strings.TrimPrefix(r.URL.Path, "/api2/json")}).Host()]
	if silent {
		m.asked++
	}
	m.mu.Unlock()
	if !silent {
		return m.way.RoundTrip(r)
	}
	defer m.follow()
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-time.After(30 * time.Second):
		return &http.Response{StatusCode: 596, Status: "596 ", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
	}
}

// follow lets the world's time be the bubble's, and sees whether the machines are known.
func (m *mute) follow() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.w.sim.Advance(max(0, time.Since(m.began)-m.w.sim.Now().Sub(m.at)))
	if _, err := m.w.fleet.List(context.Background()); err != nil {
		m.dark += m.w.sim.Now().Sub(m.last)
	}
	m.last = m.w.sim.Now()
}

func (m *mute) run(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		_ = m.w.fleet.Tick(context.Background())
		time.Sleep(m.w.fleet.Pause())
		m.follow()
	}
}

func (m *mute) hush(hosts ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.silent, m.asked, m.dark = map[string]bool{}, 0, 0
	for _, host := range hosts {
		m.silent[host] = true
	}
}

// muted is a world of four hosts that has been seen, and the way to it.
func muted(t *testing.T) (*world, *mute) {
	w := newWorld(t, plan{hosts: 4, seed: 5})
	w.cfg.Parallel = 4
	m := &mute{w: w}
	w.wrap = func(way http.RoundTripper) http.RoundTripper { m.way = way; return m }
	w.begin()
	m.began, m.at, m.last = time.Now(), w.sim.Now(), w.sim.Now()
	m.run(time.Minute)
	return w, m
}

// Hosts that are online and do not answer keep no process from seeing and making machines on the
// others. What they were asked for is made when they answer again.
func TestSilentHostsCostTheOthersNothing(t *testing.T) {
	race.Skip(t)
	for n := range 4 {
		t.Run(fmt.Sprint(n, " of 4 silent"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, m := muted(t)
				hosts := []string{"pve2", "pve3", "pve4"}[:n]
				var names []string
				order := func() {
					for i := range 4 {
						names = append(names, w.mustOrder(fmt.Sprintf("pve%d", i+1)))
					}
				}
				order()
				m.run(5 * time.Second) // their clones have begun
				m.hush(hosts...)
				order()
				m.run(5 * time.Minute)
				joined := func() (n int) {
					for _, name := range names {
						if w.phase(name) == nodescaler.Joined {
							n++
						}
					}
					return n
				}
				if got := joined(); got != 2*(4-n) {
					t.Errorf("%d machines have joined, want two on each of %d hosts\n%s", got, 4-n, w.story())
				}
				m.run(30 * time.Minute)
				if m.dark > 0 {
					t.Errorf("for %s the machines were not known", m.dark)
				}
				if m.asked > n*80 {
					t.Errorf("silent hosts were asked %d times in 35 minutes, want about once a minute each", m.asked)
				}
				for _, name := range names {
					if p := w.machine(name); p.Phase != nodescaler.Joined && !strings.HasPrefix(p.Problem, "HostSilent: host "+p.Host+" is online and does not answer") {
						t.Errorf("%s is %s: %q", name, p.Phase, p.Problem)
					}
				}
				m.hush()
				m.run(15 * time.Minute)
				if got := joined(); got != 8 {
					t.Errorf("%d machines have joined after all answer again, want 8\n%s", got, w.story())
				}
			})
		})
	}
}

// What a fleet that begins does not learn of a silent host it learns later: clones without an
// intent count towards their pool's limit.
func TestSilentHostIsAskedForItsClonesUntilItTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := muted(t)
		times := w.cfg.Now()
		w.inject("slow clone by=30m")
		w.mustOrder("pve2")
		m.run(5 * time.Second)
		w.intents = &intents.Memory{} // they are lost
		m.hush("pve2")
		w.begin()
		m.run(2 * time.Minute)
		if got := w.fleet.view.clones["web"]; got != 0 || w.fleet.view.known["pve2"] {
			t.Errorf("%d clones are known of a host that is silent", got)
		}
		m.hush()
		m.run(2 * time.Minute)
		if got := w.fleet.view.clones["web"]; got != 1 {
			t.Errorf("%d clones are known %s after one was begun, want it", got, w.cfg.Now().Sub(times))
		}
		m.hush("pve2")
		m.run(2 * time.Minute)
		if got := w.fleet.view.clones["web"]; got != 1 {
			t.Errorf("%d clones are known when their host is silent again, want the one still", got)
		}
		m.hush()
		m.run(40 * time.Minute)
		if got := w.fleet.view.clones["web"]; got != 0 {
			t.Errorf("%d clones are known after it has ended\n%s", got, w.story())
		}
	})
}

// Where QEMU does not run a machine on, its console shows nothing: what QEMU says is reported.
func TestWhatQEMUSaysOfAMachineThatNeverJoinsIsReported(t *testing.T) {
	w := newWorld(t, plan{hosts: 2, seed: 5})
	w.pool().JoinTimeout = nodescaler.Duration(5 * time.Minute)
	w.begin()
	w.run(time.Second)
	w.deaf = true
	name := w.mustOrder("pve1")
	w.until("it is started", 5*time.Minute, func() bool { return w.phase(name) == nodescaler.Booting && w.there(name).State == "running" })
	if err := w.asRoot("POST", fmt.Sprintf("/nodes/pve1/qemu/%d/status/suspend", w.there(name).ID), nil); err != nil {
		t.Fatal(err)
	}
	w.until("it has failed", 10*time.Minute, func() bool { return w.phase(name) == nodescaler.Failed })
	w.run(10 * time.Second)
	w.mustSay(w.machine(name).Problem, pvecode.JoinTimeout, "QEMU: paused", "QEMU guest agent is not running")
	w.giveBack(name)
	w.until("it is removed", 5*time.Minute, func() bool { return w.phase(name) == "" })
}
