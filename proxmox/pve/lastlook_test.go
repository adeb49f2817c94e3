package pve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/race"
)

func TestHowAMachineGoes(t *testing.T) {
	for _, c := range []struct {
		name string
		e    ending
		want end
	}{
		{"its node is ready and empty", ending{ready: true, was: true}, endDrained},
		{"its node is ready and holds a pod", ending{ready: true, pods: 1, was: true}, endFull},
		{"that cluster-autoscaler wants to go with it", ending{ready: true, pods: 1, was: true, forced: true}, endUndrained},
		{"cluster-autoscaler gives back an empty one", ending{ready: true, was: true, forced: true}, endDrained},
		{"its node is away", ending{was: true}, endUndrained},
		{"its node is not ready and holds pods", ending{pods: 3, was: true}, endUndrained},
		{"it was no node, and is none", ending{}, endNever},
		{"it was no node, and is one", ending{ready: true}, endDrained},
		{"it was no node, and is one with pods", ending{ready: true, pods: 1}, endFull},
		{"it was shut down already", ending{was: true, decided: true}, endDrained},
		{"with the pods that were there", ending{was: true, decided: true, pods: 3}, endDrained},
		{"and its node is ready with pods", ending{was: true, decided: true, ready: true, pods: 3}, endFull},
		{"it is a spare that is stopped", ending{was: true, rested: true}, endDrained},
		{"whose node is ready and holds pods", ending{was: true, rested: true, ready: true, pods: 1}, endFull},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.e.end(); got != c.want {
				t.Errorf("it goes %s, want %s", got, c.want)
			}
		})
	}
}

// seeing is a world in which the API server is asked before anything is stopped, with so many
// machines that have joined.
func seeing(t *testing.T, n int) (*world, []string) {
	t.Helper()
	w := newWorld(t, plan{hosts: 3, seed: 7, disk: 5000 * gib})
	w.pods, w.claims = map[string][]string{}, map[string][]string{}
	w.cfg.LastLook, w.cfg.ClonesPerStorage = w.lastLook, 10
	w.pool().Max, w.pool().Placement.MemoryReserve = 40, 0
	w.begin()
	w.run(time.Second)
	var hosts []string
	for i := range n {
		hosts = append(hosts, fmt.Sprintf("pve%d", 1+i%3))
	}
	return w, w.join(hosts...)
}

// destroyed are those of the machines that are no more.
func (w *world) destroyed(names []string) (n int) {
	for _, name := range names {
		if w.there(name) == nil {
			n++
		}
	}
	return n
}

// count is how many events of a code there were.
func (w *world) count(code string) (n int) {
	for _, e := range w.events {
		if e.Code == code {
			n++
		}
	}
	return n
}

func TestEmptiedMachinesGoAsFastAsTheyAreGivenBack(t *testing.T) {
	w, names := seeing(t, 20)
	for _, name := range names[:15] {
		w.giveBack(name)
		w.run(40 * time.Second)
		if b := w.fleet.Braked(); len(b) > 0 {
			t.Fatalf("the brake holds what was drained: %v\n%s", b, w.story())
		}
	}
	w.until("they are gone", 5*time.Minute, func() bool { return w.destroyed(names) == 15 })
	if w.count(pvecode.Undrained)+w.count(pvecode.Braked) > 0 || !w.all(nodescaler.Joined, names[15:]...) {
		t.Errorf("drained machines are said to go undrained\n%s", w.story())
	}
}

// giveUp does what everybody does who has a machine without a node: policies and sweeps give it
// back, and orders are made in its place.
func (w *world) giveUp(names []string) {
	w.t.Helper()
	must.Get(w.fleet.Collect(context.Background(), nil))(w.t)
	state := must.Get(w.fleet.List(context.Background()))(w.t)
	nodes, _ := w.nodes(context.Background())
	for _, m := range state.Machines {
		node := slices.ContainsFunc(nodes, func(n Node) bool { return n.Name == m.Name })
		old := w.now().Sub(m.Since) > 15*time.Minute
		if m.Phase == nodescaler.Failed || !node && old && m.Phase == nodescaler.Joined && slices.Contains(names, m.Name) {
			w.giveBack(m.Name)
		}
	}
	_, _ = w.order("")
}

// Who shows the nodes may be wrong for a day: a database restored from before they joined, rights
// that are gone.
func TestAnEmptiedListOfNodesDestroysAtMostTwoMachinesOfTwenty(t *testing.T) {
	race.Skip(t)
	for name, keeps := range map[string]bool{"the control plane is there": true, "nothing is there": false} {
		for _, again := range []bool{keeps} {
			t.Run(fmt.Sprintf("%s, begun anew %t", name, again), func(t *testing.T) {
				w, names := seeing(t, 20)
				// That lists are true is seen elsewhere.
				w.wrap = func(http.RoundTripper) http.RoundTripper { return w.sim.Transport() }
				w.begin()
				if keeps {
					w.joins = append(w.joins, joining{node: Node{Name: "control-plane", Ready: true}, at: w.sim.Now()})
				}
				w.emptied = func(name string) bool { return name != "control-plane" }
				for round := range 24 * 4 {
					w.giveUp(names)
					for range 15 {
						_ = w.fleet.Tick(t.Context())
						w.sim.Advance(time.Minute)
					}
					if again && round%3 == 1 {
						w.begin()
						w.run(time.Second)
					}
				}
				gone := w.destroyed(names)
				if gone > 2 {
					t.Fatalf("%d of 20 machines were destroyed\n%s", gone, w.story())
				}
				if n := w.calls("DELETE", "/qemu/"); n != gone {
					t.Errorf("%d more were destroyed that had been ordered meanwhile", n-gone)
				}
				if r, is := w.fleet.Braked()["web"]; !is || r.Code != pvecode.Braked {
					t.Errorf("it is not said that nothing goes: %v", w.fleet.Braked())
				}
				w.event(pvecode.Braked)
				for _, name := range names {
					if m := w.machine(name); w.there(name) != nil && (m.Phase != nodescaler.Joined || m.Held == nil || !strings.Contains(m.Problem, pvecode.Braked)) {
						t.Errorf("%s is %s, held for %v: %s", name, m.Phase, m.Held, m.Problem)
					}
				}
				w.emptied = nil
				w.run(2 * time.Minute)
				if len(w.fleet.Braked()) > 0 {
					t.Errorf("the nodes are back, and the brake holds still: %v", w.fleet.Braked())
				}
				w.event(pvecode.Revoked)
				w.run(3 * time.Hour)
				for _, name := range names {
					if m := w.machine(name); w.there(name) != nil && (m.Phase != nodescaler.Joined || m.Held != nil || m.Problem != "") {
						t.Errorf("the nodes are back, and %s is %s, held for %v: %s", name, m.Phase, m.Held, m.Problem)
					}
				}
				if w.destroyed(names) != gone {
					t.Error("the nodes were back, and more were destroyed")
				}
			})
		}
	}
}

// A fleet of many small pools is braked as one of a large pool is.
func TestAnEmptiedListOfNodesDestroysAtMostTwoMachinesOfTenPools(t *testing.T) {
	w := newWorld(t, plan{hosts: 3, seed: 7, disk: 5000 * gib})
	w.cfg.ClonesPerStorage = 10
	w.pool().Max, w.pool().Placement.MemoryReserve = 2, 0
	first := w.cfg.Pools[0]
	w.cfg.Pools = nil
	for i := range 10 {
		p := first
		p.Name, p.VMIDs = fmt.Sprintf("web%d", i), placement.VMIDs{First: 1000 + 10*i, Last: 1009 + 10*i}
		w.cfg.Pools = append(w.cfg.Pools, p)
	}
	w.begin()
	w.run(time.Second)
	var names []string
	for _, p := range w.cfg.Pools {
		id := nodescaler.OrderID(w.sim.Now(), len(names))
		names = append(names, nodescaler.MachineName(p.Name, id))
		must.Do(t, w.fleet.Create(t.Context(), loop.Order{ID: id, At: w.sim.Now(), Action: nodescaler.Action{Kind: nodescaler.Buy, Pool: p.Name, Shape: &p.Shapes[0]}}))
	}
	w.until("all have joined", 10*time.Minute, func() bool { return w.all(nodescaler.Joined, names...) })
	w.emptied = func(string) bool { return true }
	w.run(time.Minute)
	w.giveBack(names...)
	w.run(3 * time.Hour)
	if n := w.destroyed(names); n != 2 || len(w.fleet.Braked()) != 8 {
		t.Errorf("%d of 10 machines were destroyed, want 2, and %d pools are braked\n%s", n, len(w.fleet.Braked()), w.story())
	}
}

func TestResumedPoolLetsThoseGoThatWaitedAndNoMore(t *testing.T) {
	w, names := seeing(t, 20)
	w.emptied = func(string) bool { return true }
	w.giveBack(names[:6]...)
	w.run(20 * time.Minute)
	if n := w.destroyed(names); n != 2 {
		t.Fatalf("%d were destroyed, want 2\n%s", n, w.story())
	}
	must.Do(t, w.fleet.Resume("web"))
	w.begin() // it is kept
	w.until("they are gone", 10*time.Minute, func() bool { return w.destroyed(names[:6]) == 6 })
	if len(w.fleet.Braked()) > 0 {
		t.Errorf("nothing waits, and the brake holds: %v", w.fleet.Braked())
	}
	w.giveBack(names[6:9]...)
	w.run(20 * time.Minute)
	if n := w.destroyed(names); n != 6 || len(w.fleet.Braked()) != 1 {
		t.Errorf("%d were destroyed, and %v; want 6, and all others to wait", n, w.fleet.Braked())
	}
}

// Those that wait are there: none is made in their place beyond the maximum.
func TestMachinesThatTheBrakeHoldsCount(t *testing.T) {
	w, names := seeing(t, 20)
	p := *w.pool()
	p.Max = 20
	must.Do(t, w.fleet.Configure([]settings.Pool{p}, nil))
	w.emptied = func(string) bool { return true }
	w.giveBack(names[:10]...)
	w.run(10 * time.Minute)
	for range 10 {
		_, _ = w.order("")
	}
	if n := w.fleet.intake.count(w.fleet.catalogue.pools["web"]); n != 20 {
		t.Errorf("%d machines are counted, want 18 that wait and 2 in the place of those that went", n)
	}
}

func TestMachinesThatWereNoNodesAreNotCounted(t *testing.T) {
	w, names := seeing(t, 3)
	w.deaf = true
	for range 3 {
		names = append(names, w.mustOrder(""))
	}
	w.until("they have failed", time.Hour, func() bool { return w.all(nodescaler.Failed, names[3:]...) })
	w.giveBack(names[3:]...)
	w.until("they are gone", 10*time.Minute, func() bool { return w.destroyed(names[3:]) == 3 })
	if w.count(pvecode.Undrained)+w.count(pvecode.Braked) > 0 {
		t.Errorf("what was no node is said to go undrained\n%s", w.story())
	}
}

// A host name may be the full one, and a node may be registered anew under another.
func TestANodeIsItsMachinesWhateverItIsCalled(t *testing.T) {
	race.Skip(t)
	for name, to := range map[string]func(*Node){
		"both":                 func(*Node) {},
		"its system UUID":      func(n *Node) { n.ProviderID = "" },
		"its provider ID":      func(n *Node) { n.SystemUUID = "" },
		"the UUID in capitals": func(n *Node) { n.SystemUUID = strings.ToUpper(n.SystemUUID) },
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := seeing(t, 0)
			w.named = func(machine string) string { return machine + ".example.org" }
			name := w.mustOrder("pve1")
			w.until("its node is there", time.Hour, func() bool { return len(w.joins) > 0 })
			to(&w.joins[0].node)
			w.run(time.Minute)
			for range 12 {
				must.Get(w.fleet.Collect(t.Context(), nil))(t)
				w.run(10 * time.Minute)
			}
			if m := w.machine(name); m.Phase != nodescaler.Joined || m.Problem != "" || m.Held != nil {
				t.Fatalf("it is %s, held for %v: %s", m.Phase, m.Held, m.Problem)
			}
			w.joins[0].node.Name = "renamed"
			for range 12 {
				must.Get(w.fleet.Collect(t.Context(), nil))(t)
				w.run(10 * time.Minute)
			}
			if w.phase(name) != nodescaler.Joined || !w.runs(name) {
				t.Fatalf("renamed it is %s", w.phase(name))
			}
			w.giveBack(name)
			w.until("it is gone", 5*time.Minute, func() bool { return w.phase(name) == "" })
			w.run(time.Minute)
			if len(w.joins) != 0 {
				t.Errorf("its node is left: %v", w.joins)
			}
		})
	}
}

func TestContradictionsHoldAMachine(t *testing.T) {
	for name, c := range map[string]struct {
		node func(ours Node) Node
		want string
	}{
		"a second node with its provider ID": {func(n Node) Node { return Node{Name: "zz-dup", ProviderID: n.ProviderID, Ready: true} }, nodescaler.DuplicateNode},
		"a second node with its UUID":        {func(n Node) Node { return Node{Name: "aa-dup", SystemUUID: n.SystemUUID} }, nodescaler.DuplicateNode},
		"a node elsewhere with its provider ID": {func(n Node) Node {
			return Node{Name: "zz-thief", ProviderID: n.ProviderID, SystemUUID: "7d9a0d7c-3b7d-4f55-8f0a-1a2b3c4d5e6f", Ready: true}
		}, nodescaler.DuplicateNode},
	} {
		t.Run(name, func(t *testing.T) {
			w, names := seeing(t, 2)
			other := c.node(w.joins[0].node)
			machine := w.joins[0].node.Name
			w.joins = append(w.joins, joining{node: other, at: w.sim.Now()})
			w.run(time.Minute)
			if m := w.machine(machine); m.Held == nil || m.Held.Code != c.want || !strings.HasPrefix(m.Problem, c.want) {
				t.Errorf("it is held for %v: %s", m.Held, m.Problem)
			}
			w.giveBack(machine)
			w.run(2 * time.Hour)
			if !w.runs(machine) || w.count(c.want) != 1 {
				t.Fatalf("it runs: %t, and it was said %d times\n%s", w.runs(machine), w.count(c.want), w.story())
			}
			if err := w.fleet.Stash(t.Context(), names[0]); names[0] != machine && err != nil {
				t.Errorf("the other machine is held, too: %v", err)
			}
			_ = w.removeNode(t.Context(), other.Name)
			w.until("it is gone", 5*time.Minute, func() bool { return w.phase(machine) == "" })
		})
	}
}

// What the list of nodes does not show yet the API server does.
func TestALastLookSeesWhatTheListDoesNot(t *testing.T) {
	w, names := seeing(t, 1)
	w.cfg.LastLook = func(ctx context.Context, id nodescaler.Identity) (nodescaler.Sight, error) {
		s, err := w.lastLook(ctx, id)
		s.Nodes = append(s.Nodes, nodescaler.SeenNode{Identity: nodescaler.Identity{Name: "new", ProviderID: id.ProviderID}})
		return s, err
	}
	w.begin()
	w.run(time.Second)
	w.giveBack(names...)
	w.run(time.Hour)
	if m := w.machine(names[0]); !w.runs(names[0]) || m.Held == nil || m.Held.Code != nodescaler.DuplicateNode {
		t.Errorf("it is %s, held for %v", m.Phase, m.Held)
	}
}

func TestAReadyNodeWithPodsIsNotStopped(t *testing.T) {
	w, names := seeing(t, 1)
	name := names[0]
	w.pods[name] = []string{"shop/web-0"}
	w.giveBack(name)
	w.run(podsPatience / 2)
	if m := w.machine(name); m.Phase != nodescaler.Deleting || m.Held == nil || !strings.Contains(m.Problem, "shop/web-0") {
		t.Errorf("it is %s, held for %v: %s", m.Phase, m.Held, m.Problem)
	}
	w.until("it is a machine as before", 5*time.Minute, func() bool { return w.phase(name) == nodescaler.Joined })
	w.event(pvecode.Revoked)
	w.run(time.Hour)
	if !w.runs(name) || w.machine(name).Held != nil {
		t.Fatal("it was stopped, or is held")
	}
	must.Do(t, w.fleet.Stash(t.Context(), name))
	w.until("it is no spare", 10*time.Minute, func() bool { return w.phase(name) == nodescaler.Joined })
	w.giveBack(name)
	w.run(10 * time.Second)
	delete(w.pods, name)
	w.until("it is gone", 5*time.Minute, func() bool { return w.phase(name) == "" })
	if w.count(pvecode.Undrained) > 0 {
		t.Error("it was emptied, and is said to have gone undrained")
	}
}

// cluster-autoscaler evicts for so long as it likes and then wants the machine gone; that many at
// once hold pods is nothing that it does.
func TestWhatClusterAutoscalerGivesBackWithPodsIsCounted(t *testing.T) {
	w, names := seeing(t, 20)
	for _, name := range names[:5] {
		w.pods[name] = []string{"shop/" + name}
		must.Do(t, w.fleet.ForAutoscaler().Delete(t.Context(), name))
	}
	w.run(10 * time.Minute)
	if n := w.destroyed(names); n != 2 || len(w.fleet.Braked()) != 1 {
		t.Fatalf("%d were destroyed, and %v, want 2 and the others to wait\n%s", n, w.fleet.Braked(), w.story())
	}
	clear(w.pods)
	w.until("they are empty and go", 10*time.Minute, func() bool { return w.destroyed(names) == 5 })
	if len(w.fleet.Braked()) > 0 {
		t.Errorf("nothing waits, and the brake holds: %v", w.fleet.Braked())
	}
}

func TestWhenAReturnIsWithdrawn(t *testing.T) {
	for name, c := range map[string]struct {
		e    ending
		want bool
	}{
		"cluster-autoscaler opened its node again": {ending{forced: true, open: true}, true},
		"and its guest did not shut down":          {ending{forced: true, open: true, decided: true}, true},
		"it was stopped":                           {ending{forced: true, open: true, decided: true, halted: true}, false},
		"its node is closed":                       {ending{forced: true, ready: true, pods: 1}, false},
		"it goes without its pods":                 {ending{open: true}, false},
	} {
		if got := c.e.withdrawn(); got != c.want {
			t.Errorf("%s: withdrawn is %t, want %t", name, got, c.want)
		}
	}
}

// While the API server does not answer, cluster-autoscaler takes its deletion for failed and opens
// the node again. Pods come, and must not go with the machine when it is looked at again.
func TestAReturnIsWithdrawnWithItsNodeOpenAgain(t *testing.T) {
	w, names := seeing(t, 20)
	name := names[0]
	silent := true
	w.cfg.LastLook = func(ctx context.Context, id nodescaler.Identity) (nodescaler.Sight, error) {
		if silent {
			return nodescaler.Sight{}, errors.New("the API server does not answer")
		}
		return w.lastLook(ctx, id)
	}
	w.begin()
	w.run(time.Second)
	giveBack := func() {
		must.Do(t, w.fleet.ForAutoscaler().Delete(t.Context(), name))
	}
	giveBack()
	w.run(5 * time.Minute)
	w.open, w.pods[name] = map[string]bool{name: true}, []string{"shop/web-1"}
	w.run(4 * time.Minute)
	silent = false
	w.run(time.Hour)
	if m := w.machine(name); m.Phase != nodescaler.Joined || !w.runs(name) || m.Held != nil || w.count(pvecode.Undrained) > 0 {
		t.Fatalf("it is %s, runs: %t, held for %v\n%s", m.Phase, w.runs(name), m.Held, w.story())
	}
	w.event(pvecode.Revoked)
	w.open[name] = false // it is marked once more, and goes with what would not leave
	giveBack()
	w.until("it is gone", 10*time.Minute, func() bool { return w.phase(name) == "" })
	if n := w.count(pvecode.Undrained); n != 1 {
		t.Errorf("%d went undrained, want 1", n)
	}
}

// An open node without pods goes: nothing says that it is wanted.
func TestAnOpenNodeWithoutPodsGoes(t *testing.T) {
	w, names := seeing(t, 1)
	w.open = map[string]bool{names[0]: true}
	must.Do(t, w.fleet.ForAutoscaler().Delete(t.Context(), names[0]))
	w.until("it is gone", 10*time.Minute, func() bool { return w.phase(names[0]) == "" })
}

func TestNothingIsStoppedUnseen(t *testing.T) {
	w, names := seeing(t, 1)
	failing := true
	w.cfg.LastLook = func(ctx context.Context, id nodescaler.Identity) (nodescaler.Sight, error) {
		if failing {
			return nodescaler.Sight{}, errors.New("the API server does not answer")
		}
		return w.lastLook(ctx, id)
	}
	w.begin()
	w.run(time.Second)
	w.giveBack(names...)
	w.run(time.Hour)
	if m := w.machine(names[0]); !w.runs(names[0]) || !strings.Contains(m.Problem, pvecode.LastLookFailed) || w.count(pvecode.LastLookFailed) != 1 {
		t.Errorf("it runs: %t, and %s was said %d times", w.runs(names[0]), m.Problem, w.count(pvecode.LastLookFailed))
	}
	failing = false
	w.until("it is gone", 5*time.Minute, func() bool { return w.phase(names[0]) == "" })
}

func TestAMachineWithAClaimsVolumeIsNotStopped(t *testing.T) {
	w, names := seeing(t, 1)
	w.claims[names[0]] = []string{"shop/data-db-0"}
	w.giveBack(names...)
	w.run(time.Hour)
	if m := w.machine(names[0]); !w.runs(names[0]) || m.Held == nil || !strings.Contains(m.Problem, "shop/data-db-0") {
		t.Errorf("it runs: %t; %s", w.runs(names[0]), m.Problem)
	}
	must.Do(t, w.fleet.ForAutoscaler().Delete(t.Context(), names[0]))
	w.run(10 * time.Minute)
	if !w.runs(names[0]) {
		t.Error("it was stopped for cluster-autoscaler")
	}
	clear(w.claims)
	w.until("it is gone", 5*time.Minute, func() bool { return w.phase(names[0]) == "" })
}

// Leaps of the clock end no wait, and what was stamped by a clock that ran ahead is not waited for.
func TestClockThatLeapsKillsNothingAndFreezesNothing(t *testing.T) {
	w, names := seeing(t, 1)
	slow := w.mustOrder("pve1")
	w.joinIn.Min, w.joinIn.Max = 8*time.Minute, 8*time.Minute
	w.until("it boots", 5*time.Minute, func() bool { return w.phase(slow) == nodescaler.Booting })
	w.run(time.Minute)
	w.ahead = 6 * time.Hour
	w.run(time.Minute)
	next := w.mustOrder("pve2")
	w.run(time.Minute)
	if w.phase(slow) != nodescaler.Booting {
		t.Fatalf("the clock went ahead, and it is %s", w.phase(slow))
	}
	w.ahead = 0
	w.until("both have joined", 15*time.Minute, func() bool { return w.all(nodescaler.Joined, slow, next) })
	w.giveBack(append(names, slow, next)...)
	w.until("all are gone", 5*time.Minute, func() bool { return w.destroyed([]string{names[0], slow, next}) == 3 })
	if w.told(pvecode.MachineFailed) || w.count(pvecode.Braked) > 0 {
		t.Errorf("something failed\n%s", w.story())
	}
}

// The brake does not forget in an hour that the clock leapt over.
func TestLeapOfTheClockDoesNotReleaseTheBrake(t *testing.T) {
	w, names := seeing(t, 10)
	w.emptied = func(string) bool { return true }
	w.giveBack(names[0])
	w.until("it is gone", 10*time.Minute, func() bool { return w.destroyed(names) == 1 })
	w.ahead = 2 * time.Hour
	w.giveBack(names[1])
	w.run(30 * time.Minute)
	if n := w.destroyed(names); n != 1 {
		t.Errorf("%d were destroyed within an hour", n)
	}
}

// A person may say so in the pool's configuration, which holds for what waited then, and for
// nothing that waits later.
func TestAPoolIsResumedByItsConfiguration(t *testing.T) {
	w, names := seeing(t, 10)
	w.emptied = func(string) bool { return true }
	w.giveBack(names[:3]...)
	w.run(10 * time.Minute)
	p := *w.pool()
	p.Resumed = w.now().Add(-time.Hour)
	configure := func() {
		t.Helper()
		must.Do(t, w.fleet.Configure([]settings.Pool{p}, nil))
		w.run(10 * time.Minute)
	}
	configure()
	if n := w.destroyed(names); n != 1 {
		t.Fatalf("%d were destroyed, resumed before they waited", n)
	}
	p.Resumed = w.now()
	configure()
	w.giveBack(names[3])
	configure()
	if n := w.destroyed(names); n != 3 || len(w.fleet.Braked()) != 1 {
		t.Errorf("%d were destroyed, and %v; want 3, and one to wait", n, w.fleet.Braked())
	}
	if m := w.machine(names[5]); m.Drifted != "" {
		t.Errorf("that a pool was resumed makes other machines of it: %s", m.Drifted)
	}
}

// A machine that was just found has its node at once: that it is reclaimed then is no reason to
// keep it.
func TestAMachineThatWasJustAdoptedIsNotSilent(t *testing.T) {
	w, names := seeing(t, 1)
	w.intents = &intents.Memory{}
	w.begin()
	must.Do(t, w.fleet.Tick(t.Context()))
	w.giveBack(names...)
	w.until("it is gone", 5*time.Minute, func() bool { return w.phase(names[0]) == "" })
	if w.told(pvecode.Revoked) || w.told(pvecode.Undrained) {
		t.Errorf("its node was there all the time\n%s", w.story())
	}
}
