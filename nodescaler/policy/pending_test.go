package policy

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/pricing"
)

func booting(name, host string) func(*sample.World) {
	return func(w *sample.World) { w.Machine(name, host, nodescaler.Booting) }
}

// withPending builds the policy with changed settings and lets it have its first look.
func withPending(t *testing.T, w *sample.World, change func(*Pending)) nodescaler.Policy {
	t.Helper()
	c := DefaultPending()
	if change != nil {
		change(&c)
	}
	p := build(t, Spec{Policy: "pending", Pending: &c})
	quiet := sample.New()
	quiet.Now = w.Now.Add(-time.Minute)
	sample.Decide(t, p, &quiet.Snapshot)
	return p
}

func TestPendingOrders(t *testing.T) {
	tests := []struct {
		name    string
		world   *sample.World
		cfg     func(*Pending)
		want    []string
		reasons []string
	}{
		{name: "nothing waits", world: sample.New()},
		{name: "three CPUs are two machines of two", world: sample.New().Several(3, "a", "", 1000, 1),
			want:    []string{"Buy w small pve1", "Buy w small pve2"},
			reasons: []string{nodescaler.PodsPending, nodescaler.LargestOfNeed, nodescaler.SpreadHost}},
		{name: "four CPUs are two machines and not three", world: sample.New().Several(4, "a", "", 1000, 1),
			want: []string{"Buy w small pve1", "Buy w small pve2"}},
		{name: "memory asks for more machines than CPU", world: sample.New().Several(3, "a", "", 100, 2100),
			want: []string{"Buy w small pve1", "Buy w small pve2"}},
		{name: "what is on its way is taken off", world: sample.New().Several(4, "a", "", 1000, 1).Change(booting("w-1", "pve1")),
			want: []string{"Buy w small pve2"}},
		{name: "what is on its way is enough", world: sample.New().Several(2, "a", "", 1000, 1).Change(booting("w-1", "pve1")),
			reasons: []string{nodescaler.CapacityInFlight}},
		{name: "a node that joined and is not ready is on its way",
			world: sample.New().Several(2, "a", "", 1000, 1).Node("w-1", "pve1", sample.NotReady).Change(func(w *sample.World) { w.Machines[0].Since = w.Now.Add(-30 * time.Second) }),
			want:  nil, reasons: []string{nodescaler.CapacityInFlight}},
		{name: "a node that has not been ready for long is not", world: sample.New().Several(2, "a", "", 1000, 1).Node("w-1", "pve1", sample.NotReady),
			want: []string{"Buy w small pve2"}},
		{name: "three at once", world: sample.New().Several(20, "a", "", 1000, 1),
			want: []string{"Buy w small pve1", "Buy w small pve2", "Buy w small pve3"}, reasons: []string{nodescaler.ParallelLimit}},
		{name: "three at once with one on its way", world: sample.New().Several(20, "a", "", 1000, 1).Change(booting("w-1", "pve2")),
			want: []string{"Buy w small pve1", "Buy w small pve3"}, reasons: []string{nodescaler.ParallelLimit}},
		{name: "no more than the pool may have", world: sample.New().Several(20, "a", "", 1000, 1).Change(func(w *sample.World) { w.Pools[0].Max = 1 }),
			want: []string{"Buy w small pve1"}, reasons: []string{nodescaler.PoolAtMax}},
		{name: "none of a pool that makes none", world: sample.New().Several(20, "a", "", 1000, 1).Change(sample.Shut), reasons: []string{"PoolPaused"}},
		{name: "none where it is refused", world: sample.New().Several(2, "a", "", 1000, 1).Change(sample.Refuse("pve1")), want: []string{"Buy w small pve2"}},
		{name: "none if all is refused", world: sample.New().Several(2, "a", "", 1000, 1).Change(sample.Refuse("pve1", "pve2", "pve3")), reasons: []string{nodescaler.NoHostRoom, "StorageFull"}},
		{name: "a machine that is going still counts for the limit",
			world:   sample.New().Several(2, "a", "", 1000, 1).Change(func(w *sample.World) { w.Pools[0].Max = 1; w.Machine("w-1", "pve1", nodescaler.Deleting) }),
			reasons: []string{nodescaler.PoolAtMax}},
		{name: "a pod larger than a machine is ignored", world: sample.New().Pod("big", "", 2001, 1).Pod("a", "", 500, 1),
			want: []string{"Buy w small pve1"}, reasons: []string{nodescaler.PodTooBig}},
		{name: "a pod that no node can hold is bought for all the same (kproximate's fault)", world: sample.New().Pod("a", "", 1900, 1),
			want: []string{"Buy w small pve1"}},
		{name: "unless machines count as what they can give", world: sample.New().Pod("a", "", 1900, 1),
			cfg: func(c *Pending) { c.CountAs = CountAllocatable }, reasons: []string{nodescaler.PodTooBig}},
		{name: "two pods of 1 CPU do not fit on 1.8", world: sample.New().Several(2, "a", "", 1000, 1),
			cfg: func(c *Pending) { c.CountAs = CountAllocatable }, want: []string{"Buy w small pve1", "Buy w small pve2"}},
		{name: "taints are not looked at (kproximate's fault)",
			world: sample.New().Pod("a", "", 500, 1).Change(func(w *sample.World) { w.Pools[0].Taints = []nodescaler.Taint{{Key: "gpu", Effect: "NoSchedule"}} }),
			want:  []string{"Buy w small pve1"}},
		{name: "daemons and leaving pods are waited for by nobody", world: sample.New().Pod("a", "", 500, 1, sample.Daemon).Pod("b", "", 500, 1, sample.Leaving)},
		{name: "a host without one of the pool's machines first, then the roomiest",
			world: sample.New().Node("w-1", "pve1").Node("w-2", "pve3").Node("w-3", "pve3").Several(3, "a", "", 2000, 1),
			want:  []string{"Buy w small pve2", "Buy w small pve1", "Buy w small pve2"}, reasons: []string{nodescaler.SpreadHost, nodescaler.RoomiestHost}},
		{name: "only hosts that take new machines", world: sample.New().Several(3, "a", "", 2000, 1).Change(func(w *sample.World) {
			w.Hosts[0].Online, w.Hosts[1].Cordoned = false, true
		}), want: []string{"Buy w small pve3", "Buy w small pve3", "Buy w small pve3"}},
		{name: "only hosts of the pool", world: sample.New().Pod("a", "", 500, 1).Change(func(w *sample.World) { w.Pools[0].Hosts = []string{"pve2"} }),
			want: []string{"Buy w small pve2"}},
		{name: "only hosts with room", world: sample.New().Several(3, "a", "", 2000, 1).Change(func(w *sample.World) {
			w.Hosts = w.Hosts[:1]
			w.Hosts[0].Room = sample.Small.Resources()
		}), want: []string{"Buy w small pve1"}, reasons: []string{nodescaler.NoHostRoom}},
		{name: "an order id that is in use is not used again", world: sample.New().Pod("a", "", 500, 1).Machine("w-1", "pve1", nodescaler.Failed, func(m *nodescaler.Machine) { m.Order = nodescaler.OrderID(sample.Noon, 0) }),
			want: []string{"Buy w small pve2", "Return w-1"}},
		{name: "the pool's minimum", world: sample.New().Change(func(w *sample.World) { w.Pools[0].Min = 2; w.Machine("w-1", "pve1", nodescaler.Booting) }),
			want: []string{"Buy w small pve2"}, reasons: []string{nodescaler.PoolBelowMin}},
		{name: "the named pool and shape", world: sample.New().Pod("a", "", 5000, 1).Change(func(w *sample.World) {
			w.Pools[0].Shapes = append(w.Pools[0].Shapes, sample.Large)
			w.Pools = append(w.Pools, nodescaler.Pool{Name: "other", Max: 9, Shapes: []pricing.Shape{sample.Small}})
		}), cfg: func(c *Pending) { c.Pool, c.Shape = "w", "large" }, want: []string{"Buy w large pve1"}},
		{name: "several pools and none named", world: sample.New().Pod("a", "", 500, 1).Change(func(w *sample.World) { w.Pools = append(w.Pools, nodescaler.Pool{Name: "x"}) }),
			reasons: []string{nodescaler.PoolUnknown}},
		{name: "a shape that is not there", world: sample.New().Pod("a", "", 500, 1), cfg: func(c *Pending) { c.Shape = "huge" },
			reasons: []string{nodescaler.PoolUnknown}},
		{name: "a reserve larger than the machine", world: sample.New().Pod("a", "", 500, 1).Change(func(w *sample.World) { w.Pools[0].Reserved.CPU = 2000 }),
			cfg: func(c *Pending) { c.CountAs = CountAllocatable }, reasons: []string{nodescaler.PoolUnknown}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := withPending(t, tt.world, tt.cfg)
			sample.Expect(t, sample.Decide(t, p, &tt.world.Snapshot), tt.want, tt.reasons...)
		})
	}
}

func TestPendingGivesBack(t *testing.T) {
	// two nodes of 2 CPU, the second with the lesser load
	pair := func(cpu pricing.MilliCPU) *sample.World {
		return sample.New().Node("w-1", "pve1").Node("w-2", "pve2").Pod("a", "w-1", 1000, 100).Pod("b", "w-2", cpu-1000, 100)
	}
	tests := []struct {
		name    string
		world   *sample.World
		cfg     func(*Pending)
		want    []string
		reasons []string
	}{
		{name: "one fewer would do", world: pair(1600), want: []string{"Cordon w-2", "Evict b"},
			reasons: []string{nodescaler.LoadFitsFewer, nodescaler.LeastLoaded, nodescaler.NodeDraining}},
		{name: "one fewer would not", world: pair(1667), reasons: []string{nodescaler.LoadNeedsAll}},
		{name: "memory decides too", world: pair(1600).Pod("c", "w-1", 0, 3300), reasons: []string{nodescaler.LoadNeedsAll}},
		{name: "exactly at the limit is not below it",
			world:   sample.New().Node("w-1", "pve1").Node("w-2", "pve1").Node("w-3", "pve2").Node("w-4", "pve2").Several(3, "a", "w-1", 1600, 1),
			cfg:     func(c *Pending) { c.LoadHeadroom = 0.25 },
			reasons: []string{nodescaler.LoadNeedsAll}},
		{name: "a hair below the limit is",
			world: sample.New().Node("w-1", "pve1").Node("w-2", "pve1").Node("w-3", "pve2").Node("w-4", "pve2").Several(3, "a", "w-1", 1599, 1),
			cfg:   func(c *Pending) { c.LoadHeadroom = 0.25 }, want: []string{"Cordon w-2"}},
		{name: "an empty node among loaded ones", world: pair(1600).Node("w-3", "pve3"), want: []string{"Cordon w-3"}},
		{name: "the last node stays, even without load", world: sample.New().Node("w-1", "pve1"), reasons: []string{nodescaler.LoadNeedsAll}},
		{name: "the pool's minimum stays", world: pair(1600).Change(func(w *sample.World) { w.Pools[0].Min = 2 }), reasons: []string{nodescaler.PoolAtMin}},
		{name: "not while pods wait", world: pair(1600).Pod("c", "", 100, 1), want: []string{"Buy w small pve3"}, reasons: []string{nodescaler.ActivityElsewhere}},
		{name: "but a pod that is ignored is not waited for", world: pair(1600).Pod("c", "", 9999, 1), want: []string{"Cordon w-2", "Evict b"}},
		{name: "not while a machine comes", world: pair(1600).Change(booting("w-3", "pve3")), reasons: []string{nodescaler.ActivityElsewhere}},
		{name: "not while a machine goes", world: pair(1600).Machine("w-3", "pve3", nodescaler.Deleting), reasons: []string{nodescaler.ActivityElsewhere}},
		{name: "not while a node is not ready", world: pair(1600).Node("w-3", "pve3", sample.NotReady), reasons: []string{nodescaler.NodeNotReady}},
		{name: "not while a host is away", world: pair(1600).Change(func(w *sample.World) { w.Hosts[0].Online = false }), reasons: []string{nodescaler.NodeNotReady}},
		{name: "a pinned pod keeps its node", world: pair(1600).Pod("c", "w-2", 10, 1, pinned), want: []string{"Cordon w-1", "Evict a"}, reasons: []string{nodescaler.PodPinned}},
		{name: "another owner's cordon is left alone", world: pair(1600).Change(func(w *sample.World) { w.Nodes[1].Cordoned = true }), want: []string{"Cordon w-1", "Evict a"},
			reasons: []string{nodescaler.NodeCordoned}},
		{name: "daemons are not evicted", world: pair(1600).Pod("d", "w-2", 10, 1, sample.Daemon), want: []string{"Cordon w-2", "Evict b"}},
		{name: "the budget allows one", world: pair(1600).Pod("c", "w-2", 10, 1).Change(func(w *sample.World) { w.Budgets = []nodescaler.Budget{{Workload: "ns/app", Allowed: 1}} }),
			want: []string{"Cordon w-2", "Evict b"}, reasons: []string{nodescaler.BudgetExhausted}},

		{name: "a drain goes on, and holds up the next", world: pair(1200).Node("w-3", "pve3", sample.Draining).Several(2, "c", "w-3", 10, 1),
			want: []string{"Evict c-00", "Evict c-01"}, reasons: []string{nodescaler.ActivityElsewhere}},
		{name: "a drain waits for pods to be gone", world: pair(1200).Node("w-3", "pve3", sample.Draining).Pod("c", "w-3", 10, 1, sample.Leaving),
			reasons: []string{nodescaler.PodLeaving}},
		{name: "a drained node is reclaimed", world: pair(1200).Node("w-3", "pve3", sample.Draining).Pod("d", "w-3", 10, 1, sample.Daemon),
			want: []string{"Return w-3"}, reasons: []string{nodescaler.NodeEmpty}},
		{name: "a drain goes on while pods wait", world: pair(1200).Node("w-3", "pve3", sample.Draining).Pod("c", "", 10, 1),
			want: []string{"Buy w small pve1", "Return w-3"}},
		{name: "a drain that somebody called off is taken back", world: pair(1200).Node("w-3", "pve3", sample.Draining, func(n *nodescaler.Node) { n.Cordoned = false }),
			want: []string{"Uncordon w-3"}, reasons: []string{nodescaler.DrainCalledOff}},
		{name: "a drain below the minimum is taken back", world: pair(1200).Node("w-3", "pve3", sample.Draining).Change(func(w *sample.World) { w.Pools[0].Min = 3 }),
			want: []string{"Uncordon w-3"}, reasons: []string{nodescaler.PoolAtMin}},
		{name: "a drain that cannot end is taken back", world: pair(1200).Node("w-3", "pve3", sample.Draining).Pod("c", "w-3", 10, 1, pinned),
			want: []string{"Uncordon w-3"}, reasons: []string{nodescaler.PodPinned}},
		{name: "a drain of a node that is not ready waits", world: pair(1200).Node("w-3", "pve3", sample.Draining, sample.NotReady).Pod("c", "w-3", 10, 1),
			reasons: []string{nodescaler.NodeNotReady}},
		{name: "a failed machine is reclaimed", world: pair(2000).Machine("w-3", "pve3", nodescaler.Failed), want: []string{"Return w-3"},
			reasons: []string{nodescaler.MachineFailed}},
		{name: "unless its host is away", world: pair(2000).Machine("w-3", "pve3", nodescaler.Failed).Change(func(w *sample.World) { w.Hosts[2].Online = false }),
			reasons: []string{nodescaler.HostOffline}},
		{name: "a node that does not say whose it is", world: pair(1600).Node("w-3", "pve3", func(n *nodescaler.Node) { n.Machine = "" }), want: []string{"Cordon w-2", "Evict b"}},
		{name: "machines of other pools are none of its business", world: pair(2000).Machine("x-1", "pve3", nodescaler.Failed).Change(func(w *sample.World) {
			w.Machines[2].Pool = "x"
		})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := withPending(t, tt.world, tt.cfg)
			sample.Expect(t, sample.Decide(t, p, &tt.world.Snapshot), tt.want, tt.reasons...)
		})
	}
}

func TestPendingPolls(t *testing.T) {
	w := sample.New().Pod("a", "", 500, 1).Node("w-1", "pve1", sample.Draining)
	p := build(t, Spec{Policy: "pending"})
	plan := sample.Decide(t, p, w.At(0))
	sample.Expect(t, plan, []string{"Buy w small pve2"}, nodescaler.JustStarted)
	if want := sample.Noon.Add(10 * time.Second); !plan.LookAgain.Equal(want) {
		t.Errorf("look again at %v, want %v", plan.LookAgain, want)
	}
	plan = sample.Decide(t, p, w.At(4*time.Second))
	sample.Expect(t, plan, nil)
	if want := sample.Noon.Add(10 * time.Second); !plan.LookAgain.Equal(want) {
		t.Errorf("between polls: look again at %v, want %v", plan.LookAgain, want)
	}
	sample.Expect(t, sample.Decide(t, p, w.At(10*time.Second)), []string{"Buy w small pve2", "Return w-1"})
	// A clock that is set back is no reason to wait for it to catch up.
	sample.Expect(t, sample.Decide(t, p, w.At(-time.Hour)), []string{"Buy w small pve2", "Return w-1"})
}

func TestPendingSaysWithNumbersWhyItOrders(t *testing.T) {
	w := sample.New().Several(7, "a", "", 500, 100).Change(booting("w-1", "pve1"))
	plan := sample.Decide(t, withPending(t, w, nil), &w.Snapshot)
	want := []nodescaler.Reason{
		{Code: nodescaler.PodsPending, Text: "3500m CPU and 700 MiB asked for by 7 pods (a-00, a-01, a-02, a-03, a-04 and 2 more); 2000m CPU and 4.0 GiB on the way in 1 machine (w-1); a machine counts as 2000m CPU and 4.0 GiB"},
		{Code: nodescaler.LargestOfNeed, Text: "the larger of the needs for CPU and memory is 1 machine of shape small"},
		{Code: nodescaler.SpreadHost, Text: "pve2 carries no machine of pool w yet, as 2 of 3 hosts with room"},
	}
	if len(plan.Actions) != 1 {
		t.Fatalf("actions %v", sample.Lines(plan))
	}
	if d := cmp.Diff(want, plan.Actions[0].Reasons); d != "" {
		t.Error(d)
	}
	if a := plan.Actions[0]; a.Rate != pricing.DefaultBook().Rate(sample.Small, "pve2", w.Now) || !strings.HasPrefix(a.Order, "mtim7pc0-") {
		t.Errorf("rate %v, order %s", a.Rate, a.Order)
	}
}
