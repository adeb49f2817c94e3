package policy

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

func booting(name, host string) func(*world) {
	return func(w *world) { w.machine(name, host, nodescaler.Booting) }
}

// withPending builds the policy with changed settings and lets it have its first look.
func withPending(t *testing.T, w *world, change func(*Pending)) nodescaler.Policy {
	t.Helper()
	c := DefaultPending()
	if change != nil {
		change(&c)
	}
	p := build(t, Spec{Policy: "pending", Pending: &c})
	quiet := aWorld()
	quiet.Now = w.Now.Add(-time.Minute)
	decide(t, p, &quiet.Snapshot)
	return p
}

func TestPendingOrders(t *testing.T) {
	tests := []struct {
		name    string
		world   *world
		cfg     func(*Pending)
		want    []string
		reasons []string
	}{
		{name: "nothing waits", world: aWorld()},
		{name: "three CPUs are two machines of two", world: aWorld().pods(3, "a", "", 1000, 1),
			want:    []string{"Buy w small pve1", "Buy w small pve2"},
			reasons: []string{nodescaler.PodsPending, nodescaler.LargestOfNeed, nodescaler.SpreadHost}},
		{name: "four CPUs are two machines and not three", world: aWorld().pods(4, "a", "", 1000, 1),
			want: []string{"Buy w small pve1", "Buy w small pve2"}},
		{name: "memory asks for more machines than CPU", world: aWorld().pods(3, "a", "", 100, 2100),
			want: []string{"Buy w small pve1", "Buy w small pve2"}},
		{name: "what is on its way is taken off", world: aWorld().pods(4, "a", "", 1000, 1).change(booting("w-1", "pve1")),
			want: []string{"Buy w small pve2"}},
		{name: "what is on its way is enough", world: aWorld().pods(2, "a", "", 1000, 1).change(booting("w-1", "pve1")),
			reasons: []string{nodescaler.CapacityInFlight}},
		{name: "a node that joined and is not ready is on its way",
			world: aWorld().pods(2, "a", "", 1000, 1).node("w-1", "pve1", notReady).change(func(w *world) { w.Machines[0].Since = w.Now.Add(-30 * time.Second) }),
			want:  nil, reasons: []string{nodescaler.CapacityInFlight}},
		{name: "a node that has not been ready for long is not", world: aWorld().pods(2, "a", "", 1000, 1).node("w-1", "pve1", notReady),
			want: []string{"Buy w small pve2"}},
		{name: "three at once", world: aWorld().pods(20, "a", "", 1000, 1),
			want: []string{"Buy w small pve1", "Buy w small pve2", "Buy w small pve3"}, reasons: []string{nodescaler.ParallelLimit}},
		{name: "three at once with one on its way", world: aWorld().pods(20, "a", "", 1000, 1).change(booting("w-1", "pve2")),
			want: []string{"Buy w small pve1", "Buy w small pve3"}, reasons: []string{nodescaler.ParallelLimit}},
		{name: "no more than the pool may have", world: aWorld().pods(20, "a", "", 1000, 1).change(func(w *world) { w.Pools[0].Max = 1 }),
			want: []string{"Buy w small pve1"}, reasons: []string{nodescaler.PoolAtMax}},
		{name: "none of a pool that makes none", world: aWorld().pods(20, "a", "", 1000, 1).change(shut), reasons: []string{"PoolPaused"}},
		{name: "none where it is refused", world: aWorld().pods(2, "a", "", 1000, 1).change(refuse("pve1")), want: []string{"Buy w small pve2"}},
		{name: "none if all is refused", world: aWorld().pods(2, "a", "", 1000, 1).change(refuse("pve1", "pve2", "pve3")), reasons: []string{nodescaler.NoHostRoom, "StorageFull"}},
		{name: "a machine that is going still counts for the limit",
			world:   aWorld().pods(2, "a", "", 1000, 1).change(func(w *world) { w.Pools[0].Max = 1; w.machine("w-1", "pve1", nodescaler.Deleting) }),
			reasons: []string{nodescaler.PoolAtMax}},
		{name: "a pod larger than a machine is ignored", world: aWorld().pod("big", "", 2001, 1).pod("a", "", 500, 1),
			want: []string{"Buy w small pve1"}, reasons: []string{nodescaler.PodTooBig}},
		{name: "a pod that no node can hold is bought for all the same (kproximate's fault)", world: aWorld().pod("a", "", 1900, 1),
			want: []string{"Buy w small pve1"}},
		{name: "unless machines count as what they can give", world: aWorld().pod("a", "", 1900, 1),
			cfg: func(c *Pending) { c.CountAs = CountAllocatable }, reasons: []string{nodescaler.PodTooBig}},
		{name: "two pods of 1 CPU do not fit on 1.8", world: aWorld().pods(2, "a", "", 1000, 1),
			cfg: func(c *Pending) { c.CountAs = CountAllocatable }, want: []string{"Buy w small pve1", "Buy w small pve2"}},
		{name: "taints are not looked at (kproximate's fault)",
			world: aWorld().pod("a", "", 500, 1).change(func(w *world) { w.Pools[0].Taints = []nodescaler.Taint{{Key: "gpu", Effect: "NoSchedule"}} }),
			want:  []string{"Buy w small pve1"}},
		{name: "daemons and leaving pods are waited for by nobody", world: aWorld().pod("a", "", 500, 1, daemon).pod("b", "", 500, 1, leaving)},
		{name: "a host without one of the pool's machines first, then the roomiest",
			world: aWorld().node("w-1", "pve1").node("w-2", "pve3").node("w-3", "pve3").pods(3, "a", "", 2000, 1),
			want:  []string{"Buy w small pve2", "Buy w small pve1", "Buy w small pve2"}, reasons: []string{nodescaler.SpreadHost, nodescaler.RoomiestHost}},
		{name: "only hosts that take new machines", world: aWorld().pods(3, "a", "", 2000, 1).change(func(w *world) {
			w.Hosts[0].Online, w.Hosts[1].Cordoned = false, true
		}), want: []string{"Buy w small pve3", "Buy w small pve3", "Buy w small pve3"}},
		{name: "only hosts of the pool", world: aWorld().pod("a", "", 500, 1).change(func(w *world) { w.Pools[0].Hosts = []string{"pve2"} }),
			want: []string{"Buy w small pve2"}},
		{name: "only hosts with room", world: aWorld().pods(3, "a", "", 2000, 1).change(func(w *world) {
			w.Hosts = w.Hosts[:1]
			w.Hosts[0].Room = small.Resources()
		}), want: []string{"Buy w small pve1"}, reasons: []string{nodescaler.NoHostRoom}},
		{name: "an order id that is in use is not used again", world: aWorld().pod("a", "", 500, 1).machine("w-1", "pve1", nodescaler.Failed, func(m *nodescaler.Machine) { m.Order = nodescaler.OrderID(noon, 0) }),
			want: []string{"Buy w small pve2", "Return w-1"}},
		{name: "the pool's minimum", world: aWorld().change(func(w *world) { w.Pools[0].Min = 2; w.machine("w-1", "pve1", nodescaler.Booting) }),
			want: []string{"Buy w small pve2"}, reasons: []string{nodescaler.PoolBelowMin}},
		{name: "the named pool and shape", world: aWorld().pod("a", "", 5000, 1).change(func(w *world) {
			w.Pools[0].Shapes = append(w.Pools[0].Shapes, large)
			w.Pools = append(w.Pools, nodescaler.Pool{Name: "other", Max: 9, Shapes: []pricing.Shape{small}})
		}), cfg: func(c *Pending) { c.Pool, c.Shape = "w", "large" }, want: []string{"Buy w large pve1"}},
		{name: "several pools and none named", world: aWorld().pod("a", "", 500, 1).change(func(w *world) { w.Pools = append(w.Pools, nodescaler.Pool{Name: "x"}) }),
			reasons: []string{nodescaler.PoolUnknown}},
		{name: "a shape that is not there", world: aWorld().pod("a", "", 500, 1), cfg: func(c *Pending) { c.Shape = "huge" },
			reasons: []string{nodescaler.PoolUnknown}},
		{name: "a reserve larger than the machine", world: aWorld().pod("a", "", 500, 1).change(func(w *world) { w.Pools[0].Reserved.CPU = 2000 }),
			cfg: func(c *Pending) { c.CountAs = CountAllocatable }, reasons: []string{nodescaler.PoolUnknown}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := withPending(t, tt.world, tt.cfg)
			expect(t, decide(t, p, &tt.world.Snapshot), tt.want, tt.reasons...)
		})
	}
}

func TestPendingGivesBack(t *testing.T) {
	// two nodes of 2 CPU, the second with the lesser load
	pair := func(cpu pricing.MilliCPU) *world {
		return aWorld().node("w-1", "pve1").node("w-2", "pve2").pod("a", "w-1", 1000, 100).pod("b", "w-2", cpu-1000, 100)
	}
	tests := []struct {
		name    string
		world   *world
		cfg     func(*Pending)
		want    []string
		reasons []string
	}{
		{name: "one fewer would do", world: pair(1600), want: []string{"Cordon w-2", "Evict b"},
			reasons: []string{nodescaler.LoadFitsFewer, nodescaler.LeastLoaded, nodescaler.NodeDraining}},
		{name: "one fewer would not", world: pair(1667), reasons: []string{nodescaler.LoadNeedsAll}},
		{name: "memory decides too", world: pair(1600).pod("c", "w-1", 0, 3300), reasons: []string{nodescaler.LoadNeedsAll}},
		{name: "exactly at the limit is not below it",
			world:   aWorld().node("w-1", "pve1").node("w-2", "pve1").node("w-3", "pve2").node("w-4", "pve2").pods(3, "a", "w-1", 1600, 1),
			cfg:     func(c *Pending) { c.LoadHeadroom = 0.25 },
			reasons: []string{nodescaler.LoadNeedsAll}},
		{name: "a hair below the limit is",
			world: aWorld().node("w-1", "pve1").node("w-2", "pve1").node("w-3", "pve2").node("w-4", "pve2").pods(3, "a", "w-1", 1599, 1),
			cfg:   func(c *Pending) { c.LoadHeadroom = 0.25 }, want: []string{"Cordon w-2"}},
		{name: "an empty node among loaded ones", world: pair(1600).node("w-3", "pve3"), want: []string{"Cordon w-3"}},
		{name: "the last node stays, even without load", world: aWorld().node("w-1", "pve1"), reasons: []string{nodescaler.LoadNeedsAll}},
		{name: "the pool's minimum stays", world: pair(1600).change(func(w *world) { w.Pools[0].Min = 2 }), reasons: []string{nodescaler.PoolAtMin}},
		{name: "not while pods wait", world: pair(1600).pod("c", "", 100, 1), want: []string{"Buy w small pve3"}, reasons: []string{nodescaler.ActivityElsewhere}},
		{name: "but a pod that is ignored is not waited for", world: pair(1600).pod("c", "", 9999, 1), want: []string{"Cordon w-2", "Evict b"}},
		{name: "not while a machine comes", world: pair(1600).change(booting("w-3", "pve3")), reasons: []string{nodescaler.ActivityElsewhere}},
		{name: "not while a machine goes", world: pair(1600).machine("w-3", "pve3", nodescaler.Deleting), reasons: []string{nodescaler.ActivityElsewhere}},
		{name: "not while a node is not ready", world: pair(1600).node("w-3", "pve3", notReady), reasons: []string{nodescaler.NodeNotReady}},
		{name: "not while a host is away", world: pair(1600).change(func(w *world) { w.Hosts[0].Online = false }), reasons: []string{nodescaler.NodeNotReady}},
		{name: "a pinned pod keeps its node", world: pair(1600).pod("c", "w-2", 10, 1, pinned), want: []string{"Cordon w-1", "Evict a"}, reasons: []string{nodescaler.PodPinned}},
		{name: "somebody else's cordon is left alone", world: pair(1600).change(func(w *world) { w.Nodes[1].Cordoned = true }), want: []string{"Cordon w-1", "Evict a"},
			reasons: []string{nodescaler.NodeCordoned}},
		{name: "daemons are not evicted", world: pair(1600).pod("d", "w-2", 10, 1, daemon), want: []string{"Cordon w-2", "Evict b"}},
		{name: "the budget allows one", world: pair(1600).pod("c", "w-2", 10, 1).change(func(w *world) { w.Budgets = []nodescaler.Budget{{Workload: "ns/app", Allowed: 1}} }),
			want: []string{"Cordon w-2", "Evict b"}, reasons: []string{nodescaler.BudgetExhausted}},

		{name: "a drain goes on, and holds up the next", world: pair(1200).node("w-3", "pve3", draining).pods(2, "c", "w-3", 10, 1),
			want: []string{"Evict c-00", "Evict c-01"}, reasons: []string{nodescaler.ActivityElsewhere}},
		{name: "a drain waits for pods to be gone", world: pair(1200).node("w-3", "pve3", draining).pod("c", "w-3", 10, 1, leaving),
			reasons: []string{nodescaler.PodLeaving}},
		{name: "a drained node is given back", world: pair(1200).node("w-3", "pve3", draining).pod("d", "w-3", 10, 1, daemon),
			want: []string{"Return w-3"}, reasons: []string{nodescaler.NodeEmpty}},
		{name: "a drain goes on while pods wait", world: pair(1200).node("w-3", "pve3", draining).pod("c", "", 10, 1),
			want: []string{"Buy w small pve1", "Return w-3"}},
		{name: "a drain that somebody called off is taken back", world: pair(1200).node("w-3", "pve3", draining, func(n *nodescaler.Node) { n.Cordoned = false }),
			want: []string{"Uncordon w-3"}, reasons: []string{nodescaler.DrainCalledOff}},
		{name: "a drain below the minimum is taken back", world: pair(1200).node("w-3", "pve3", draining).change(func(w *world) { w.Pools[0].Min = 3 }),
			want: []string{"Uncordon w-3"}, reasons: []string{nodescaler.PoolAtMin}},
		{name: "a drain that cannot end is taken back", world: pair(1200).node("w-3", "pve3", draining).pod("c", "w-3", 10, 1, pinned),
			want: []string{"Uncordon w-3"}, reasons: []string{nodescaler.PodPinned}},
		{name: "a drain of a node that is not ready waits", world: pair(1200).node("w-3", "pve3", draining, notReady).pod("c", "w-3", 10, 1),
			reasons: []string{nodescaler.NodeNotReady}},
		{name: "a failed machine is given back", world: pair(2000).machine("w-3", "pve3", nodescaler.Failed), want: []string{"Return w-3"},
			reasons: []string{nodescaler.MachineFailed}},
		{name: "unless its host is away", world: pair(2000).machine("w-3", "pve3", nodescaler.Failed).change(func(w *world) { w.Hosts[2].Online = false }),
			reasons: []string{nodescaler.HostOffline}},
		{name: "a node that does not say whose it is", world: pair(1600).node("w-3", "pve3", func(n *nodescaler.Node) { n.Machine = "" }), want: []string{"Cordon w-2", "Evict b"}},
		{name: "machines of other pools are none of its business", world: pair(2000).machine("x-1", "pve3", nodescaler.Failed).change(func(w *world) {
			w.Machines[2].Pool = "x"
		})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := withPending(t, tt.world, tt.cfg)
			expect(t, decide(t, p, &tt.world.Snapshot), tt.want, tt.reasons...)
		})
	}
}

func TestPendingPolls(t *testing.T) {
	w := aWorld().pod("a", "", 500, 1).node("w-1", "pve1", draining)
	p := build(t, Spec{Policy: "pending"})
	plan := decide(t, p, w.at(0))
	expect(t, plan, []string{"Buy w small pve2"}, nodescaler.JustStarted)
	if want := noon.Add(10 * time.Second); !plan.LookAgain.Equal(want) {
		t.Errorf("look again at %v, want %v", plan.LookAgain, want)
	}
	plan = decide(t, p, w.at(4*time.Second))
	expect(t, plan, nil)
	if want := noon.Add(10 * time.Second); !plan.LookAgain.Equal(want) {
		t.Errorf("between polls: look again at %v, want %v", plan.LookAgain, want)
	}
	expect(t, decide(t, p, w.at(10*time.Second)), []string{"Buy w small pve2", "Return w-1"})
	// A clock that is set back is no reason to wait for it to catch up.
	expect(t, decide(t, p, w.at(-time.Hour)), []string{"Buy w small pve2", "Return w-1"})
}

func TestPendingSaysWithNumbersWhyItOrders(t *testing.T) {
	w := aWorld().pods(7, "a", "", 500, 100).change(booting("w-1", "pve1"))
	plan := decide(t, withPending(t, w, nil), &w.Snapshot)
	want := []nodescaler.Reason{
		{Code: nodescaler.PodsPending, Text: "3500m CPU and 700 MiB asked for by 7 pods (a-00, a-01, a-02, a-03, a-04 and 2 more); 2000m CPU and 4.0 GiB on the way in 1 machine (w-1); a machine counts as 2000m CPU and 4.0 GiB"},
		{Code: nodescaler.LargestOfNeed, Text: "the larger of the needs for CPU and memory is 1 machine of shape small"},
		{Code: nodescaler.SpreadHost, Text: "pve2 carries no machine of pool w yet, as 2 of 3 hosts with room"},
	}
	if len(plan.Actions) != 1 {
		t.Fatalf("actions %v", lines(plan))
	}
	if d := cmp.Diff(want, plan.Actions[0].Reasons); d != "" {
		t.Error(d)
	}
	if a := plan.Actions[0]; a.Rate != pricing.DefaultBook().Rate(small, "pve2", w.Now) || !strings.HasPrefix(a.Order, "mtim7pc0-") {
		t.Errorf("rate %v, order %s", a.Rate, a.Order)
	}
}
