package policy

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

func withUnneeded(t sample.Fatal, change func(*Unneeded)) nodescaler.Policy {
	t.Helper()
	c := DefaultUnneeded()
	if change != nil {
		change(&c)
	}
	return build(t, Spec{Policy: "unneeded", Unneeded: &c})
}

// expects has a workload expect so many replicas beyond those decided on.
func expects(n int) func(*sample.World) {
	return func(w *sample.World) {
		w.Future = []nodescaler.Future{{Like: nodescaler.Pod{Workload: "ns/app", Requests: pricing.Resources{CPU: 900, Memory: pricing.GiB}}, Ahead: n}}
	}
}

func TestUnneededOrders(t *testing.T) {
	gpu, one := nodescaler.Taint{Key: "gpu", Value: "yes", Effect: "NoSchedule"}, pricing.Unit
	tests := []struct {
		name    string
		world   *sample.World
		cfg     func(*Unneeded)
		want    []string
		reasons []string
	}{
		{name: "nothing waits", world: sample.New()},
		{name: "replicas are expected, and nobody was told", world: sample.New().Change(expects(3))},
		{name: "replicas are expected, and make known that they are", world: sample.New().Change(expects(3)), cfg: func(c *Unneeded) { c.CapacityBufferPodInjectionEnabled = true },
			want: []string{"Buy w small pve2", "Buy w small pve1"}},
		{name: "pods share a machine", world: sample.New().Several(3, "a", "", 600, 100),
			want: []string{"Buy w small pve1"}, reasons: []string{nodescaler.PodsPending, nodescaler.CheapestOffer}},
		{name: "what the system takes of a machine is not theirs", world: sample.New().Several(2, "a", "", 1000, 100),
			want: []string{"Buy w small pve2", "Buy w small pve1"}},
		{name: "a machine on its way has room", world: sample.New().Machine("w-1", "pve1", nodescaler.Booting, ordered(time.Minute)).Several(3, "a", "", 600, 100), reasons: []string{nodescaler.PodsFitExisting}},
		{name: "but not while its host is away", world: sample.New().Machine("w-1", "pve1", nodescaler.Booting, ordered(time.Minute)).Several(3, "a", "", 600, 100).Change(func(w *sample.World) {
			w.Hosts[0].Online = false
		}), want: []string{"Buy w small pve2"}},
		{name: "orders are spread over hosts that cost the same", world: sample.New().Node("w-1", "pve1").Several(4, "a", "", 1700, 100),
			want: []string{"Buy w small pve2", "Buy w small pve3", "Buy w small pve1"}, reasons: []string{nodescaler.RoomiestHost}},
		{name: "but not over dearer ones", world: sample.New().Several(3, "a", "", 1700, 100).Change(func(w *sample.World) {
			w.Prices = &pricing.Book{PerVCPU: 2 * pricing.Unit, PerGB: pricing.Unit, Hosts: map[string]pricing.HostPrices{"pve3": {Prices: pricing.Prices{PerVCPU: &one}}}}
		}), want: []string{"Buy w small pve3", "Buy w small pve3", "Buy w small pve3"}},
		{name: "nor over hosts that cost something by themselves and sleep", world: sample.New().Node("w-1", "pve1").Several(3, "a", "", 1700, 100).Change(func(w *sample.World) {
			w.Prices = &pricing.Book{PerVCPU: pricing.Unit, PerGB: pricing.Unit, PerHost: pricing.Unit}
		}), want: []string{"Buy w small pve1", "Buy w small pve1"}},
		{name: "whichever of them is first by name", world: sample.New().Node("w-1", "pve2").Several(3, "a", "", 1700, 100).Change(func(w *sample.World) {
			w.Prices = &pricing.Book{PerVCPU: pricing.Unit, PerGB: pricing.Unit, PerHost: pricing.Unit}
		}), want: []string{"Buy w small pve2", "Buy w small pve2"}},
		{name: "a node has room", world: sample.New().Node("w-1", "pve1").Several(3, "a", "", 600, 100), reasons: []string{nodescaler.PodsFitExisting}},
		{name: "a node has slots for one", world: sample.New().Node("w-1", "pve1", func(n *nodescaler.Node) { n.PodSlots = 2 }).Pod("d", "w-1", 0, 0).Several(2, "a", "", 100, 100),
			want: []string{"Buy w small pve2"}, reasons: []string{nodescaler.PodsFitExisting}},
		{name: "a node that is not ours has room", world: sample.New().Pod("a", "", 600, 100).Change(func(w *sample.World) {
			w.Nodes = append(w.Nodes, nodescaler.Node{Name: "control", Ready: true, Allocatable: pricing.Resources{CPU: 1000, Memory: pricing.GiB}})
		}), reasons: []string{nodescaler.PodsFitExisting}},
		{name: "a node has room for some", world: sample.New().Node("w-1", "pve1").Several(5, "a", "", 600, 100),
			want: []string{"Buy w small pve2"}, reasons: []string{nodescaler.PodsFitExisting}},
		{name: "a machine on its way has room", world: sample.New().Change(booting("w-1", "pve1")).Several(3, "a", "", 600, 100).Change(func(w *sample.World) {
			w.Machines[0].Created = w.Now.Add(-time.Minute)
		}), reasons: []string{nodescaler.PodsFitExisting}},
		{name: "a node that is starting has room", world: sample.New().Node("w-1", "pve1", sample.NotReady).Several(3, "a", "", 600, 100).Change(func(w *sample.World) {
			w.Nodes[0].Joined = w.Now.Add(-time.Minute)
		}), reasons: []string{nodescaler.PodsFitExisting}},
		{name: "a node that should have started has none", world: sample.New().Node("w-1", "pve1", sample.NotReady).Several(3, "a", "", 600, 100),
			want: []string{"Buy w small pve2"}},
		{name: "a node has room that is not emptied any further", world: sample.New().Node("w-1", "pve1", sample.Draining).Several(3, "a", "", 600, 100), want: []string{"Uncordon w-1"},
			reasons: []string{nodescaler.PodsFitExisting, nodescaler.JustStarted}},
		{name: "a cordoned node has none", world: sample.New().Node("w-1", "pve1", cordoned).Several(3, "a", "", 600, 100), want: []string{"Buy w small pve2"}},
		{name: "a node whose host is away has none", world: sample.New().Node("w-1", "pve1").Several(3, "a", "", 600, 100).Change(func(w *sample.World) {
			w.Hosts[0].Online = false
		}), want: []string{"Buy w small pve2"}},
		{name: "a tainted node has none", world: sample.New().Node("w-1", "pve1", func(n *nodescaler.Node) { n.Taints = []nodescaler.Taint{gpu} }).Several(3, "a", "", 600, 100),
			want: []string{"Buy w small pve2"}},
		{name: "a node without the label has none", world: sample.New().Node("w-1", "pve1").Pod("a", "", 600, 100, func(p *nodescaler.Pod) {
			p.Selector = map[string]string{"disk": "ssd"}
		}).Change(func(w *sample.World) { w.Pools[0].Labels = map[string]string{"disk": "ssd"} }), want: []string{"Buy w small pve2"}},
		{name: "room under pods that anyone may displace", world: sample.New().Node("w-1", "pve1").Pod("cheap", "w-1", 1800, 100, func(p *nodescaler.Pod) { p.Priority = -11 }).Pod("a", "", 600, 100),
			reasons: []string{nodescaler.PodsFitExisting}},
		{name: "nothing is ordered for such pods", world: sample.New().Pod("a", "", 600, 100, func(p *nodescaler.Pod) { p.Priority = -11 }), reasons: []string{nodescaler.PodExpendable}},
		{name: "the cutoff itself is not below it", world: sample.New().Pod("a", "", 600, 100, func(p *nodescaler.Pod) { p.Priority = -10 }), want: []string{"Buy w small pve1"}},
		{name: "a pod that is too young", world: sample.New().Pod("a", "", 600, 100), cfg: func(c *Unneeded) { c.NewPodScaleUpDelay = minutes(2) }, reasons: []string{nodescaler.PodTooYoung}},
		{name: "a pod that is younger than our clock", world: sample.New().Pod("a", "", 600, 100, func(p *nodescaler.Pod) { p.Created = sample.Noon.Add(10 * time.Minute) }), want: []string{"Buy w small pve1"}},
		{name: "pods to come", world: sample.New().Change(func(w *sample.World) {
			w.Future = []nodescaler.Future{{Like: nodescaler.Pod{Workload: "ns/app", Requests: pricing.Resources{CPU: 900, Memory: pricing.GiB}}, Count: 3}}
		}), want: []string{"Buy w small pve2", "Buy w small pve1"}},
		{name: "a pool that the pod cannot use", world: sample.New().Pod("a", "", 600, 100).Change(func(w *sample.World) { w.Pools[0].Taints = []nodescaler.Taint{gpu} }),
			reasons: []string{"Refused"}},
		{name: "the pool that it can", world: sample.New().Pod("a", "", 600, 100).Change(func(w *sample.World) {
			w.Pools[0].Taints = []nodescaler.Taint{gpu}
			w.Pools = append(w.Pools, nodescaler.Pool{Name: "x", Max: 2, Shapes: []pricing.Shape{sample.Large}})
		}), want: []string{"Buy x large pve1"}},
		{name: "pods that share no node", world: sample.New().Node("w-1", "pve1").Pod("a", "w-1", 100, 100, sample.Lonely).Pod("b", "", 100, 100, sample.Lonely).Pod("c", "", 100, 100, sample.Lonely),
			want: []string{"Buy w small pve2", "Buy w small pve3"}},
		{name: "one of them fits on a node without any", world: sample.New().Node("w-1", "pve1").Pod("b", "", 100, 100, sample.Lonely).Pod("c", "", 100, 100, sample.Lonely),
			want: []string{"Buy w small pve2"}, reasons: []string{nodescaler.PodsFitExisting}},
		{name: "and one on each machine that is on its way", world: sample.New().Change(booting("w-1", "pve1")).Pod("b", "", 100, 100, sample.Lonely).Pod("c", "", 100, 100, sample.Lonely).Change(func(w *sample.World) {
			w.Machines[0].Created = w.Now.Add(-time.Minute)
		}), want: []string{"Buy w small pve2"}, reasons: []string{nodescaler.PodsFitExisting}},
		{name: "others join them", world: sample.New().Pod("b", "", 100, 100, sample.Lonely).Pod("c", "", 100, 100), want: []string{"Buy w small pve1"}},
		{name: "a pod that a pod on the node repels", world: sample.New().Node("w-1", "pve1").Pod("a", "w-1", 100, 100, func(p *nodescaler.Pod) { p.Repels = []string{"app=web"} }).
			Pod("b", "", 100, 100, func(p *nodescaler.Pod) { p.Has = []string{"app=web"} }), want: []string{"Buy w small pve2"}},
		{name: "a pod that every machine's daemons repel", world: sample.New().Pod("b", "", 100, 100, sample.Lonely).Change(func(w *sample.World) {
			w.Pools[0].Daemons.Sets = []*nodescaler.Pod{{Repels: []string{"app=web"}}}
		}), reasons: []string{"Refused"}},
		{name: "replicas to come that share no node", world: sample.New().Change(func(w *sample.World) {
			w.Future = []nodescaler.Future{{Like: nodescaler.Pod{Workload: "ns/app", Requests: pricing.Resources{CPU: 100}, Has: []string{"app=web"}, Repels: []string{"app=web"}}, Count: 3}}
		}), want: []string{"Buy w small pve2", "Buy w small pve3", "Buy w small pve1"}},
		{name: "too big for any", world: sample.New().Pod("a", "", 1900, 100), reasons: []string{"TooBig"}},
		{name: "no more than the pool may have", world: sample.New().Several(3, "a", "", 1800, 100).Change(func(w *sample.World) { w.Pools[0].Max = 1 }),
			want: []string{"Buy w small pve1"}, reasons: []string{"PoolFull"}},
		{name: "none of a pool that makes none", world: sample.New().Several(3, "a", "", 1800, 100).Change(sample.Shut), reasons: []string{"NoOffer", "PoolPaused"}},
		{name: "but one of another that is dearer", world: sample.New().Several(2, "a", "", 1800, 100).Change(sample.Shut).Change(func(w *sample.World) {
			w.Pools = append(w.Pools, w.Pools[0])
			w.Pools[1].Name, w.Pools[1].Shapes, w.Pools[1].Closed = "x", []pricing.Shape{sample.Large}, nil
		}), want: []string{"Buy x large pve1"}, reasons: []string{"PoolPaused"}},
		{name: "none where it is refused", world: sample.New().Several(3, "a", "", 1800, 100).Change(sample.Refuse("pve1", "pve3")),
			want: []string{"Buy w small pve2", "Buy w small pve2", "Buy w small pve2"}, reasons: []string{"StorageFull"}},
		{name: "nor of a shape that is refused, if another is made", world: sample.New().Several(2, "a", "", 1800, 100).Change(sample.Refuse("pve1", "pve2", "pve3")).Change(func(w *sample.World) {
			w.Pools[0].Shapes = append(w.Pools[0].Shapes, sample.Large)
		}), want: []string{"Buy w large pve1"}},
		{name: "nor where the pool's hosts are in maintenance", world: sample.New().Pod("a", "", 1800, 100).Change(func(w *sample.World) {
			w.Pools[0].Maintenance = []string{"pve1", "pve3"}
		}), want: []string{"Buy w small pve2"}},
		{name: "no host has room", world: sample.New().Pod("a", "", 600, 100).Change(func(w *sample.World) {
			for i := range w.Hosts {
				w.Hosts[i].Room = pricing.Resources{}
			}
		}), reasons: []string{"NoRoom"}},
		{name: "no host takes new machines", world: sample.New().Pod("a", "", 600, 100).Change(func(w *sample.World) {
			for i := range w.Hosts {
				w.Hosts[i].Cordoned = true
			}
		}), reasons: []string{"NoOffer"}},
		{name: "the minimum is not filled up by default", world: sample.New().Change(func(w *sample.World) { w.Pools[0].Min = 2 })},
		{name: "unless told to", world: sample.New().Change(func(w *sample.World) { w.Pools[0].Min = 2 }), cfg: func(c *Unneeded) { c.EnforceNodeGroupMinSize = true },
			want: []string{"Buy w small pve1", "Buy w small pve2"}, reasons: []string{nodescaler.PoolBelowMin}},
		{name: "what pods need counts for the minimum", world: sample.New().Pod("a", "", 600, 100).Change(func(w *sample.World) { w.Pools[0].Min = 2 }),
			cfg: func(c *Unneeded) { c.EnforceNodeGroupMinSize = true }, want: []string{"Buy w small pve1", "Buy w small pve2"}},
		{name: "the minimum has no host", world: sample.New().Change(func(w *sample.World) { w.Pools[0].Min, w.Hosts = 2, nil }),
			cfg: func(c *Unneeded) { c.EnforceNodeGroupMinSize = true }, reasons: []string{nodescaler.PoolBelowMin}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sample.Expect(t, sample.Decide(t, withUnneeded(t, tt.cfg), &tt.world.Snapshot), tt.want, tt.reasons...)
		})
	}
}

// watch shows the policy the same world every ten seconds, and returns after how long it first
// did something, and what. It returns the last plan if it never did.
func watch(t sample.Fatal, p nodescaler.Policy, w *sample.World, from, to time.Duration) (time.Duration, nodescaler.Plan) {
	t.Helper()
	var plan nodescaler.Plan
	for at := from; at <= to; at += 10 * time.Second {
		if plan = sample.Decide(t, p, w.At(at)); len(plan.Actions) > 0 {
			return at, plan
		}
	}
	return -1, plan
}

const (
	tenMinutes    = 10*time.Minute + 10*time.Second // the first scan that is later than ten minutes
	twentyMinutes = 20*time.Minute + 10*time.Second
	never         = -1
)

// half is a world with a node w-1 that is used by half and one, w-2, that is used by less.
func half() *sample.World {
	return sample.New().Node("w-1", "pve1").Node("w-2", "pve2").Several(2, "a", "w-1", 450, 100).Several(2, "b", "w-2", 200, 100)
}

func TestUnneededGivesBack(t *testing.T) {
	tests := []struct {
		name    string
		world   *sample.World
		cfg     func(*Unneeded)
		after   time.Duration
		want    []string
		reasons []string
	}{
		{name: "a little used node whose pods fit elsewhere", world: half(), after: tenMinutes,
			want: []string{"Cordon w-2", "Evict b-00", "Evict b-01"}, reasons: []string{nodescaler.NodeUnneeded, nodescaler.NodeBusy}},
		{name: "an empty node is only closed at first", world: sample.New().Node("w-1", "pve1").Pod("d", "w-1", 100, 100, sample.Daemon), after: tenMinutes, want: []string{"Cordon w-1"}},
		{name: "used by exactly half is not below", world: sample.New().Node("w-1", "pve1").Node("w-2", "pve2").Several(2, "a", "w-1", 450, 100).Several(2, "b", "w-2", 450, 100),
			after: never, reasons: []string{nodescaler.NodeBusy}},
		{name: "another threshold", world: sample.New().Node("w-1", "pve1").Node("w-2", "pve2").Several(2, "a", "w-1", 450, 100).Several(2, "b", "w-2", 450, 100),
			cfg: func(c *Unneeded) { c.ScaleDownUtilizationThreshold = 0.51 }, after: tenMinutes, want: []string{"Cordon w-1", "Evict a-00", "Evict a-01"}},
		{name: "used by half in memory alone", world: half().Pod("m", "w-2", 0, 1800), after: never},
		{name: "daemons count as use", world: half().Pod("d", "w-2", 500, 1, sample.Daemon), after: never, reasons: []string{nodescaler.NodeBusy}},
		{name: "unless told otherwise", world: half().Pod("d", "w-2", 500, 1, sample.Daemon), cfg: func(c *Unneeded) { c.IgnoreDaemonsetsUtilization = true },
			after: tenMinutes, want: []string{"Cordon w-2", "Evict b-00", "Evict b-01"}},
		{name: "pods that are leaving do not", world: half().Pod("l", "w-2", 500, 1, sample.Leaving), after: tenMinutes,
			want: []string{"Cordon w-2", "Evict b-00", "Evict b-01"}, reasons: []string{nodescaler.PodLeaving}},
		{name: "its pods fit nowhere else", world: half().Pod("c", "w-1", 600, 100), after: never, reasons: []string{nodescaler.NoPlaceElsewhere}},
		{name: "they fit nowhere else but on a cordoned node", world: half().Pod("c", "w-1", 600, 100).Node("w-3", "pve3", cordoned), after: never,
			reasons: []string{nodescaler.NoPlaceElsewhere, nodescaler.NodeCordoned}},
		{name: "a selector holds a pod where it is", world: half().Change(func(w *sample.World) {
			w.Nodes[1].Labels = map[string]string{"disk": "ssd"}
			w.Pods[2].Selector = map[string]string{"disk": "ssd"}
		}), after: never, reasons: []string{nodescaler.NoPlaceElsewhere}},
		{name: "a taint keeps a pod away", world: half().Change(func(w *sample.World) { w.Nodes[0].Taints = []nodescaler.Taint{{Key: "x", Effect: "NoSchedule"}} }),
			after: never, reasons: []string{nodescaler.NoPlaceElsewhere}},
		{name: "a pinned pod", world: half().Pod("p", "w-2", 10, 1, pinned), after: never, reasons: []string{nodescaler.PodPinned}},
		{name: "a budget of none", world: half().Change(func(w *sample.World) { w.Budgets = []nodescaler.Budget{{Workload: "ns/app"}} }), after: never,
			reasons: []string{nodescaler.BudgetExhausted}},
		{name: "a budget of none that lets those go that do not serve", world: half().Change(func(w *sample.World) {
			w.Budgets = []nodescaler.Budget{{Workload: "ns/app"}}
			for i := range w.Pods {
				w.Pods[i].Unbudgeted = true
			}
		}), after: tenMinutes, want: []string{"Cordon w-2", "Evict b-00", "Evict b-01"}},
		{name: "a budget of one only takes longer", world: half().Change(func(w *sample.World) { w.Budgets = []nodescaler.Budget{{Workload: "ns/app", Allowed: 1}} }),
			after: tenMinutes, want: []string{"Cordon w-2", "Evict b-00"}, reasons: []string{nodescaler.BudgetExhausted}},
		{name: "the pool's minimum", world: half().Change(func(w *sample.World) { w.Pools[0].Min = 2 }), after: never, reasons: []string{nodescaler.PoolAtMin}},
		{name: "pods that anyone may displace neither count nor block, and are evicted",
			world: half().Pod("c", "w-2", 1000, 1, func(p *nodescaler.Pod) { p.Priority = -11 }),
			after: tenMinutes, want: []string{"Cordon w-2", "Evict b-00", "Evict b-01", "Evict c"}},
		{name: "a node that is not ready takes longer", world: half().Change(func(w *sample.World) { w.Nodes[1].Ready = false }), after: twentyMinutes,
			want: []string{"Cordon w-2", "Evict b-00", "Evict b-01"}},
		{name: "a node that is not ready is no place", world: half().Change(func(w *sample.World) { w.Nodes[0].Ready = false }), after: never,
			reasons: []string{nodescaler.NoPlaceElsewhere}},
		{name: "a host that is away", world: half().Change(func(w *sample.World) { w.Hosts[1].Online = false }), after: never, reasons: []string{nodescaler.HostOffline}},
		{name: "a host that is away is no place", world: half().Change(func(w *sample.World) { w.Hosts[0].Online = false }), after: never,
			reasons: []string{nodescaler.NoPlaceElsewhere}},
		{name: "another owner's cordon", world: half().Change(func(w *sample.World) { w.Nodes[1].Cordoned = true }), after: never, reasons: []string{nodescaler.NodeCordoned}},
		{name: "a node without a machine of ours", world: half().Change(func(w *sample.World) { w.Nodes[1].Machine, w.Machines = "", w.Machines[:1] }), after: never},
		{name: "a node that does not say whose it is, with the name of a machine", world: half().Change(func(w *sample.World) { w.Nodes[1].Machine = "" }), after: never},
		{name: "a node whose machine is not listed", world: half().Change(func(w *sample.World) { w.Machines = w.Machines[:1] }), after: never},
		{name: "a pod that waits for the same room", world: half().Pod("c", "", 800, 100), after: never, reasons: []string{nodescaler.PodsFitExisting}},
		{name: "where a pod that waits would go", world: half().Pod("c", "", 1000, 100), after: never, reasons: []string{nodescaler.NodeTakesPods}},
		{name: "of two that could take each other's pods, one", world: sample.New().Node("w-1", "pve1").Node("w-2", "pve2").Several(2, "a", "w-1", 300, 100).Several(2, "b", "w-2", 200, 100),
			after: tenMinutes, want: []string{"Cordon w-2", "Evict b-00", "Evict b-01"}, reasons: []string{nodescaler.NodeTakesPods}},
		{name: "a node that must stay is a place for the pods of another", world: sample.New().Node("w-1", "pve1").Node("w-2", "pve2").Pod("p", "w-1", 10, 1, pinned).Pod("b", "w-2", 500, 1),
			after: tenMinutes, want: []string{"Cordon w-2", "Evict b"}, reasons: []string{nodescaler.NodeTakesPods}},
		{name: "full ones one by one", world: sample.New().Node("w-1", "pve1").Node("w-2", "pve2").Node("w-3", "pve3").Several(3, "a", "w-1", 400, 100).Pod("b", "w-2", 200, 100).Pod("c", "w-3", 100, 100),
			after: tenMinutes, want: []string{"Cordon w-3", "Evict c"}, reasons: []string{nodescaler.ParallelLimit}},
		{name: "two by two", world: sample.New().Node("w-1", "pve1").Node("w-2", "pve2").Node("w-3", "pve3").Several(3, "a", "w-1", 400, 100).Pod("b", "w-2", 200, 100).Pod("c", "w-3", 100, 100),
			cfg:   func(c *Unneeded) { c.MaxDrainParallelism = 2 },
			after: tenMinutes, want: []string{"Cordon w-3", "Evict c", "Cordon w-2", "Evict b"}},
		{name: "empty ones in bulk, before full ones, down to the minimum",
			world: half().Node("w-3", "pve3").Node("w-4", "pve3").Node("w-5", "pve3").Change(func(w *sample.World) { w.Pools[0].Min = 1 }),
			after: tenMinutes, want: []string{"Cordon w-3", "Cordon w-4", "Cordon w-5", "Cordon w-2", "Evict b-00", "Evict b-01"}},
		{name: "no more of them than the minimum allows",
			world: half().Node("w-3", "pve3").Node("w-4", "pve3").Node("w-5", "pve3").Change(func(w *sample.World) { w.Pools[0].Min = 3 }),
			after: tenMinutes, want: []string{"Cordon w-3", "Cordon w-4"}, reasons: []string{nodescaler.PoolAtMin}},
		{name: "no more of them than in bulk", world: half().Node("w-3", "pve3").Node("w-4", "pve3").Node("w-5", "pve3"), cfg: func(c *Unneeded) { c.MaxEmptyBulkDelete = 2 },
			after: tenMinutes, want: []string{"Cordon w-3", "Cordon w-4", "Cordon w-2", "Evict b-00", "Evict b-01"}, reasons: []string{nodescaler.ParallelLimit}},
		{name: "no more at once than may be", world: half().Node("w-3", "pve3").Node("w-4", "pve3").Machine("w-5", "pve3", nodescaler.Deleting), cfg: func(c *Unneeded) { c.MaxScaleDownParallelism = 2 },
			after: tenMinutes, want: []string{"Cordon w-3"}, reasons: []string{nodescaler.ParallelLimit}},
		{name: "not within ten minutes of an order", world: half().Change(func(w *sample.World) { w.Machines[0].Created = w.Now.Add(5 * time.Minute) }),
			after: 15 * time.Minute, want: []string{"Cordon w-2", "Evict b-00", "Evict b-01"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			after, plan := watch(t, withUnneeded(t, tt.cfg), tt.world, 0, 30*time.Minute)
			if after != tt.after {
				t.Errorf("acted after %v, want %v", after, tt.after)
			}
			sample.Expect(t, plan, tt.want, tt.reasons...)
		})
	}
}

func TestUnneededClockStartsAgainWhenANodeWasNeeded(t *testing.T) {
	w, p := half(), withUnneeded(t, nil)
	if after, _ := watch(t, p, w, 0, 9*time.Minute); after != never {
		t.Fatalf("acted after %v", after)
	}
	w.Pods[2].Requests.CPU = 1500
	sample.Decide(t, p, w.At(9*time.Minute+10*time.Second))
	w.Pods[2].Requests.CPU = 200
	from := 9*time.Minute + 20*time.Second
	if after, _ := watch(t, p, w, from, time.Hour); after != from+tenMinutes {
		t.Errorf("acted after %v, want %v", after, from+tenMinutes)
	}
}

func TestUnneededClockStartsAgainWhenTheClusterWasNotWell(t *testing.T) {
	w, p := half(), withUnneeded(t, nil)
	watch(t, p, w, 0, 9*time.Minute)
	ill := half()
	for i := range 4 {
		ill.Node(fmt.Sprintf("x-%d", i), "pve3", sample.NotReady)
	}
	sample.Decide(t, p, ill.At(9*time.Minute+10*time.Second))
	from := 9*time.Minute + 20*time.Second
	if after, _ := watch(t, p, w, from, time.Hour); after != from+tenMinutes {
		t.Errorf("acted after %v, want %v", after, from+tenMinutes)
	}
}

func TestUnneededLifeOfADrain(t *testing.T) {
	w, p := half(), withUnneeded(t, nil)
	at, plan := watch(t, p, w, 0, time.Hour)
	sample.Expect(t, plan, []string{"Cordon w-2", "Evict b-00", "Evict b-01"})
	sample.Draining(&w.Nodes[1])
	w.Pods[2].Terminating, w.Pods[3].Terminating = true, true
	sample.Expect(t, sample.Decide(t, p, w.At(at+10*time.Second)), nil, nodescaler.NodeDraining, nodescaler.PodLeaving)
	w.Pods[2].Node, w.Pods[2].Terminating = "w-1", false
	w.Pods[3].Node, w.Pods[3].Terminating = "w-1", false
	sample.Expect(t, sample.Decide(t, p, w.At(at+20*time.Second)), []string{"Return w-2"}, nodescaler.NodeEmpty)
	w.Machines[1].Phase = nodescaler.Deleting
	sample.Expect(t, sample.Decide(t, p, w.At(at+30*time.Second)), nil)
}

func TestUnneededEmptiesOneNodeAtATime(t *testing.T) {
	w := sample.New().Node("w-1", "pve1").Node("w-2", "pve2").Node("w-3", "pve3").Several(3, "a", "w-1", 400, 100).Pod("b", "w-2", 200, 100).Pod("c", "w-3", 100, 100)
	p := withUnneeded(t, nil)
	at, plan := watch(t, p, w, 0, time.Hour)
	sample.Expect(t, plan, []string{"Cordon w-3", "Evict c"}, nodescaler.ParallelLimit)
	sample.Draining(&w.Nodes[2])
	w.Pods[4].Terminating = true
	sample.Expect(t, sample.Decide(t, p, w.At(at+10*time.Second)), nil, nodescaler.PodLeaving, nodescaler.ParallelLimit)
	w.Pods[4].Node, w.Pods[4].Terminating = "w-1", false
	sample.Expect(t, sample.Decide(t, p, w.At(at+20*time.Second)), []string{"Return w-3", "Cordon w-2", "Evict b"})
}

func TestUnneededCordonThatIsSeenLateIsStillItsOwn(t *testing.T) {
	w, p := sample.New().Node("w-1", "pve1"), withUnneeded(t, nil)
	at, _ := watch(t, p, w, 0, time.Hour)
	sample.Expect(t, sample.Decide(t, p, w.At(at+10*time.Second)), []string{"Cordon w-1"})
	sample.Draining(&w.Nodes[0])
	sample.Expect(t, sample.Decide(t, p, w.At(at+20*time.Second)), []string{"Return w-1"})
}

func TestUnneededEmptyNodeIsGivenBackInTheScanAfterItWasClosed(t *testing.T) {
	w, p := sample.New().Node("w-1", "pve1"), withUnneeded(t, nil)
	at, plan := watch(t, p, w, 0, time.Hour)
	sample.Expect(t, plan, []string{"Cordon w-1"})
	sample.Draining(&w.Nodes[0])
	sample.Expect(t, sample.Decide(t, p, w.At(at+10*time.Second)), []string{"Return w-1"})
}

func TestUnneededWaitsAfterAnOrderOfItsOwn(t *testing.T) {
	w, p := half(), withUnneeded(t, nil)
	watch(t, p, w, 0, 9*time.Minute)
	w.Pod("big", "", 1800, 100)
	sample.Expect(t, sample.Decide(t, p, w.At(9*time.Minute+10*time.Second)), []string{"Buy w small pve3"})
	w.Pods = w.Pods[:len(w.Pods)-1] // and the order is refused: no machine is ever seen
	after, _ := watch(t, p, w, 9*time.Minute+20*time.Second, time.Hour)
	if want := 19*time.Minute + 10*time.Second; after != want {
		t.Errorf("acted after %v, want %v", after, want)
	}
}

func TestUnneededScansAtItsInterval(t *testing.T) {
	w, p := sample.New().Pod("a", "", 500, 1), withUnneeded(t, nil)
	sample.Expect(t, sample.Decide(t, p, w.At(0)), []string{"Buy w small pve1"})
	plan := sample.Decide(t, p, w.At(9*time.Second))
	sample.Expect(t, plan, nil)
	if want := sample.Noon.Add(10 * time.Second); !plan.LookAgain.Equal(want) || len(plan.Reasons) > 0 {
		t.Errorf("look again at %v, want %v; %v", plan.LookAgain, want, plan.Reasons)
	}
	sample.Expect(t, sample.Decide(t, p, w.At(10*time.Second)), []string{"Buy w small pve1"})
}

// With frequent loops a scan does not wait for its interval when something waits for which nothing
// was done.
func TestFrequentLoopsScanForWhatIsNew(t *testing.T) {
	future := func(n int) func(*sample.World) {
		return func(w *sample.World) {
			w.Future = []nodescaler.Future{{Like: nodescaler.Pod{Workload: "ns/app", Requests: pricing.Resources{CPU: 900, Memory: pricing.GiB}}, Count: n}}
		}
	}
	made := func(w *sample.World) { // what the first scan orders for one pod
		w.Machine("w-1", "pve1", nodescaler.Ordered, func(m *nodescaler.Machine) { m.Order, m.Created = nodescaler.OrderID(sample.Noon, 0), sample.Noon })
	}
	tests := []struct {
		name        string
		first, then func(*sample.World)
		want        []string
	}{
		{name: "nothing has changed", first: func(w *sample.World) { w.Pod("a", "", 1700, 1) }, then: made},
		{name: "another pod waits", first: func(w *sample.World) { w.Pod("a", "", 1700, 1) }, then: func(w *sample.World) { made(w); w.Pod("b", "", 1700, 1) }, want: []string{"Buy w small pve2"}},
		{name: "more replicas are decided on", first: future(1), then: func(w *sample.World) { made(w); future(3)(w) }, want: []string{"Buy w small pve2"}},
		// For nothing has come of what was ordered.
		{name: "fewer are", first: future(3), then: future(1), want: []string{"Buy w small pve1"}},
		{name: "the order was not carried out", first: func(w *sample.World) { w.Pod("a", "", 1700, 1) }, then: func(*sample.World) {}, want: []string{"Buy w small pve1"}},
		{name: "and nobody waits any more", first: func(w *sample.World) { w.Pod("a", "", 1700, 1) }, then: func(w *sample.World) { w.Pods = nil }},
		{name: "nothing can be ordered", first: func(w *sample.World) { w.Pod("a", "", 1900, 1) }, then: func(*sample.World) {}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, frequent := range []bool{true, false} {
				w, p := sample.New(), withUnneeded(t, func(c *Unneeded) { c.FrequentLoopsEnabled = frequent })
				tt.first(w)
				_ = sample.Decide(t, p, w.At(0))
				tt.then(w)
				want := tt.want
				if !frequent {
					want = nil
				}
				sample.Expect(t, sample.Decide(t, p, w.At(time.Second)), want)
			}
		})
	}
}

// looked is a policy that has had its first look at a quiet world.
func looked(t *testing.T, w *sample.World, change func(*Unneeded)) nodescaler.Policy {
	t.Helper()
	p := withUnneeded(t, change)
	quiet := sample.New()
	quiet.Now = w.Now.Add(-time.Minute)
	sample.Decide(t, p, &quiet.Snapshot)
	return p
}

func TestUnneededDrains(t *testing.T) {
	// w-3 is being drained, and the others are used too much to move in the meantime.
	idle := func() *sample.World {
		return sample.New().Node("w-1", "pve1").Node("w-2", "pve2").Pod("a", "w-1", 900, 100).Pod("b", "w-2", 900, 100).Node("w-3", "pve3")
	}
	base := func() *sample.World { return idle().Change(func(w *sample.World) { sample.Draining(&w.Nodes[2]) }) }
	tests := []struct {
		name    string
		world   *sample.World
		at      time.Duration // since it was closed, or the next scan
		cfg     func(*Unneeded)
		want    []string
		reasons []string
	}{
		{name: "pods are evicted", world: base().Several(2, "c", "w-3", 100, 1), want: []string{"Evict c-00", "Evict c-01"}, reasons: []string{nodescaler.NodeDraining}},
		{name: "as the budget allows", world: base().Several(2, "c", "w-3", 100, 1).Change(func(w *sample.World) { w.Budgets = []nodescaler.Budget{{Workload: "ns/app", Allowed: 1}} }),
			want: []string{"Evict c-00"}, reasons: []string{nodescaler.BudgetExhausted}},
		{name: "those that are leaving are waited for", world: base().Pod("c", "w-3", 100, 1, sample.Leaving), at: 11 * time.Minute, reasons: []string{nodescaler.PodLeaving}},
		{name: "but not for ever", world: base().Pod("c", "w-3", 100, 1, sample.Leaving), at: 13 * time.Minute, want: []string{"Uncordon w-3"}, reasons: []string{nodescaler.DrainTimedOut}},
		{name: "those that cannot be evicted are given two minutes", world: base().Pod("c", "w-3", 100, 1).Change(func(w *sample.World) { w.Budgets = []nodescaler.Budget{{Workload: "ns/app"}} }),
			at: 110 * time.Second, reasons: []string{nodescaler.BudgetExhausted}},
		{name: "and then the drain has failed", world: base().Pod("c", "w-3", 100, 1).Change(func(w *sample.World) { w.Budgets = []nodescaler.Budget{{Workload: "ns/app"}} }),
			at: 130 * time.Second, want: []string{"Uncordon w-3"}, reasons: []string{nodescaler.DrainTimedOut}},
		{name: "an empty node waits for what may have come while it was closed", world: base(), cfg: func(c *Unneeded) { c.NodeDeleteDelayAfterTaint = seconds(20) },
			reasons: []string{nodescaler.NodeDraining}},
		{name: "and is reclaimed", world: base(), want: []string{"Return w-3"}, reasons: []string{nodescaler.NodeEmpty}},
		{name: "with its daemons", world: base().Pod("d", "w-3", 100, 1, sample.Daemon), want: []string{"Return w-3"}},
		{name: "pods that have lost their other place", world: base().Pod("c", "w-3", 1500, 1), want: []string{"Uncordon w-3"}, reasons: []string{nodescaler.NoPlaceElsewhere}},
		{name: "a pod that was pinned since", world: base().Pod("c", "w-3", 10, 1, pinned), want: []string{"Uncordon w-3"}, reasons: []string{nodescaler.PodPinned}},
		{name: "a pinned pod that is leaving anyway", world: base().Pod("c", "w-3", 10, 1, pinned, sample.Leaving), reasons: []string{nodescaler.PodLeaving}},
		{name: "a minimum that was raised", world: base().Change(func(w *sample.World) { w.Pools[0].Min = 3 }), want: []string{"Uncordon w-3"}, reasons: []string{nodescaler.PoolAtMin}},
		{name: "a node that another client opened again", world: base().Change(func(w *sample.World) { w.Nodes[2].Cordoned = false }), want: []string{"Uncordon w-3"},
			reasons: []string{nodescaler.DrainCalledOff}},
		{name: "a host that is away", world: base().Change(func(w *sample.World) { w.Hosts[2].Online = false }), at: time.Hour, reasons: []string{nodescaler.HostOffline}},
		{name: "a node that is not ready is waited for", world: base().Change(func(w *sample.World) { w.Nodes[2].Ready = false }), at: 20 * time.Minute, reasons: []string{nodescaler.NodeNotReady}},
		{name: "and reclaimed in the end, with pods that cannot be seen to leave", world: base().Pod("c", "w-3", 10, 1, sample.Leaving).Change(func(w *sample.World) { w.Nodes[2].Ready = false }),
			at: 10*time.Second + twentyMinutes, want: []string{"Return w-3"}},
		{name: "a machine that is on its way out already", world: base().Change(func(w *sample.World) { w.Machines[2].Phase = nodescaler.Deleting })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := withUnneeded(t, tt.cfg)
			closed, plan := watch(t, p, idle(), 0, time.Hour)
			sample.Expect(t, plan, []string{"Cordon w-3"})
			plan = sample.Decide(t, p, tt.world.At(closed+10*time.Second))
			if tt.at > 0 {
				plan = sample.Decide(t, p, tt.world.At(closed+tt.at))
			}
			sample.Expect(t, plan, tt.want, tt.reasons...)
		})
	}
}

func TestUnneededRestsAfterAFailedDrain(t *testing.T) {
	w := half().Node("w-3", "pve3", sample.Draining)
	p := looked(t, w, nil)
	watch(t, p, half(), 0, 9*time.Minute+50*time.Second)
	sample.Expect(t, sample.Decide(t, p, w.At(10*time.Minute)), []string{"Uncordon w-3"}, nodescaler.JustStarted)
	w.Pod("c", "w-3", 10, 1, pinned)
	w.Nodes[2].Cordoned, w.Nodes[2].Draining = false, false
	after, plan := watch(t, p, w, 10*time.Minute+10*time.Second, time.Hour)
	if after != 13*time.Minute {
		t.Errorf("acted after %v, three minutes after the failure is 13m", after)
	}
	sample.Expect(t, plan, []string{"Cordon w-2", "Evict b-00", "Evict b-01"})
}

func TestUnneededNodeWhoseDrainFailedStartsAgain(t *testing.T) {
	w, p := half(), withUnneeded(t, func(c *Unneeded) { c.ScaleDownDelayAfterAdd = 0 })
	at, _ := watch(t, p, w, 0, time.Hour)
	// The drain fails in a scan that orders, in which no node is judged.
	stuck := half().Pod("c", "w-2", 10, 1, pinned).Pod("big", "", 1800, 1)
	stuck.Nodes[1].Cordoned, stuck.Nodes[1].Draining = true, true
	at += 10 * time.Second
	sample.Expect(t, sample.Decide(t, p, stuck.At(at)), []string{"Buy w small pve3", "Uncordon w-2"})
	after, _ := watch(t, p, w, at+10*time.Second, time.Hour)
	if want := at + 10*time.Second + tenMinutes; after != want {
		t.Errorf("acted after %v, want %v", after, want)
	}
}

func TestUnneededLooksFirst(t *testing.T) {
	w := half().Node("w-3", "pve3", sample.Draining).Pod("c", "w-3", 10, 1).Machine("w-4", "pve3", nodescaler.Failed).Pod("a", "", 1800, 1)
	sample.Expect(t, sample.Decide(t, withUnneeded(t, func(c *Unneeded) { c.ScaleDownUnneededTime = 0 }), &w.Snapshot), []string{"Uncordon w-3"}, nodescaler.JustStarted, nodescaler.PoolBackingOff)
}

func TestUnneededGivesUpMachines(t *testing.T) {
	tests := []struct {
		name    string
		world   *sample.World
		at      time.Duration
		want    []string
		reasons []string
	}{
		{name: "failed", world: sample.New().Machine("w-1", "pve1", nodescaler.Failed), want: []string{"Return w-1"}, reasons: []string{nodescaler.MachineFailed}},
		{name: "failed, at the minimum", world: sample.New().Machine("w-1", "pve1", nodescaler.Failed).Change(func(w *sample.World) { w.Pools[0].Min = 1 }), want: []string{"Return w-1"}},
		{name: "failed, on a host that is away", world: sample.New().Machine("w-1", "pve1", nodescaler.Failed).Change(func(w *sample.World) { w.Hosts[0].Online = false }),
			reasons: []string{nodescaler.HostOffline}},
		{name: "too long on its way", world: sample.New().Machine("w-1", "pve1", nodescaler.Booting), want: []string{"Return w-1"}, reasons: []string{nodescaler.ProvisionTimedOut}},
		{name: "a quarter of an hour is not too long", world: sample.New().Machine("w-1", "pve1", nodescaler.Ordered).Change(func(w *sample.World) { w.Machines[0].Created = w.Now.Add(-15 * time.Minute) })},
		{name: "late by a clock that was put forward", world: sample.New().Machine("w-1", "pve1", nodescaler.Booting).Change(jumped), at: 15 * time.Minute},
		{name: "late by any clock", world: sample.New().Machine("w-1", "pve1", nodescaler.Booting).Change(jumped), at: 15*time.Minute + 10*time.Second, want: []string{"Return w-1"},
			reasons: []string{nodescaler.ProvisionTimedOut}},
		{name: "an order that waits for its turn", world: sample.New().Machine("w-1", "pve1", nodescaler.Ordered, waiting(15*time.Minute))},
		{name: "an order that waits for too long", world: sample.New().Machine("w-1", "pve1", nodescaler.Ordered, waiting(15*time.Minute+time.Second)), want: []string{"Return w-1"},
			reasons: []string{nodescaler.ProvisionTimedOut}},
		{name: "too long, at the minimum", world: sample.New().Machine("w-1", "pve1", nodescaler.Booting).Change(func(w *sample.World) { w.Pools[0].Min = 1 }), reasons: []string{nodescaler.PoolAtMin}},
		{name: "a node whose machine boots again", world: sample.New().Node("w-1", "pve1", sample.NotReady).Change(func(w *sample.World) { w.Machines[0].Phase = nodescaler.Booting })},
		{name: "a node that vanished is waited for", world: sample.New().Machine("w-1", "pve1", nodescaler.Joined), at: 15 * time.Minute},
		{name: "a quarter of an hour", world: sample.New().Machine("w-1", "pve1", nodescaler.Joined), at: 15*time.Minute + 10*time.Second, want: []string{"Return w-1"},
			reasons: []string{nodescaler.ProvisionTimedOut}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := looked(t, tt.world, nil)
			plan := sample.Decide(t, p, tt.world.At(0))
			if tt.at > 0 {
				plan = sample.Decide(t, p, tt.world.At(tt.at))
			}
			sample.Expect(t, plan, tt.want, tt.reasons...)
		})
	}
}

// jumped has the clock jump just before the world is looked at.
func jumped(w *sample.World) { w.Jumped = w.Now }

// ordered makes a machine one that was ordered so long ago.
func ordered(ago time.Duration) func(*nodescaler.Machine) {
	return func(m *nodescaler.Machine) { m.Created = sample.Noon.Add(-ago) }
}

// waiting makes a machine an order of so long ago that is not yet carried out.
func waiting(ago time.Duration) func(*nodescaler.Machine) {
	return func(m *nodescaler.Machine) { m.Created, m.Since = time.Time{}, m.Since.Add(time.Hour-ago) }
}

func TestUnneededLeavesAFailingPoolAlone(t *testing.T) {
	p := looked(t, sample.New(), nil)
	// blocked shows a failure at the time, and returns for how long nothing is ordered then.
	n := 0
	blocked := func(at time.Duration, failures int) time.Duration {
		failing := sample.New().Pod("a", "", 500, 1)
		for range failures {
			n++
			failing.Machine(fmt.Sprintf("w-%d", n), "pve1", nodescaler.Failed)
		}
		sample.Decide(t, p, failing.At(at))
		// The failed machines are still there for a while, and are no news.
		sample.Decide(t, p, failing.At(at+10*time.Second))
		after, plan := watch(t, p, sample.New().Pod("a", "", 500, 1), at+20*time.Second, at+2*time.Hour)
		sample.Expect(t, plan, []string{"Buy w small pve1"})
		return after - at
	}
	for i, want := range []time.Duration{5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute, 30 * time.Minute} {
		if got := blocked(time.Duration(i)*time.Hour, 1+i%2); got != want {
			t.Errorf("failure %d: nothing ordered for %v, want %v", i+1, got, want)
		}
	}
	if got := blocked(8*time.Hour, 1); got != 5*time.Minute {
		t.Errorf("after four hours without failure: nothing ordered for %v, want 5m", got)
	}
}

func TestUnneededDoesNothingInAClusterThatIsNotWell(t *testing.T) {
	w := half().Pod("c", "", 1800, 1).Machine("w-9", "pve3", nodescaler.Failed)
	for i := range 4 {
		w.Node(fmt.Sprintf("w-%d", 3+i), "pve3", sample.NotReady)
	}
	sample.Expect(t, sample.Decide(t, looked(t, w, nil), &w.Snapshot), nil, nodescaler.ClusterUnhealthy)
	w.Nodes[2].Joined = w.Now.Add(-time.Minute) // one of them is only new
	if plan := sample.Decide(t, looked(t, w, nil), &w.Snapshot); len(plan.Actions) == 0 {
		t.Errorf("three of six not ready are still well: %s", sample.Reasons(plan))
	}
}

// Most machines were removed by a person: that is known, and what ran there gets others.
func TestMachinesAreOrderedForPodsOfMachinesThatFailed(t *testing.T) {
	for _, policy := range []string{"joint", "unneeded"} {
		w := sample.New().Node("w-0", "pve1").Pod("a", "w-0", 1800, 512)
		w.Hosts[0].Room = sample.Small.Resources().Times(10)
		for i := range 5 {
			name := fmt.Sprintf("w-%d", 1+i)
			w.Node(name, "pve1", sample.NotReady).Pod("b-"+name, "", 1800, 512)
			w.Machines[len(w.Machines)-1].Phase = nodescaler.Failed
		}
		w.Pools[0].Max = 20
		looked := build(t, Spec{Policy: policy})
		sample.Decide(t, looked, w.At(0))
		done := map[nodescaler.Kind]int{}
		for _, a := range sample.Decide(t, looked, w.At(30*time.Minute)).Actions {
			done[a.Kind]++
		}
		if want := map[nodescaler.Kind]int{nodescaler.Buy: 5, nodescaler.Return: 5}; !maps.Equal(done, want) {
			t.Errorf("%s: %v, want %v", policy, done, want)
		}
	}
}

// One of two hosts is lost, and half of the nodes with it. That is known, and what ran there has
// room on the other.
func TestMachinesAreOrderedForPodsOfAHostThatIsLost(t *testing.T) {
	for _, policy := range []string{"joint", "unneeded"} {
		w := sample.New()
		w.Hosts = w.Hosts[:2]
		w.Hosts[0].Room, w.Hosts[1].Online = sample.Small.Resources().Times(10), false
		for i := range 4 {
			here, there := fmt.Sprintf("w-1%d", i), fmt.Sprintf("w-2%d", i)
			w.Node(here, "pve1").Pod("a-"+here, here, 1800, 512)
			w.Node(there, "pve2", sample.NotReady).Pod("a-"+there, there, 1800, 512, sample.Leaving).Pod("b-"+there, "", 1800, 512)
		}
		w.Pools[0].Max = 20
		buy := "Buy w small pve1"
		sample.Expect(t, sample.Decide(t, build(t, Spec{Policy: policy}), w.At(0)), []string{buy, buy, buy, buy})
		for i := range 4 {
			w.Nodes[2*i].Ready = false
		}
		sample.Expect(t, sample.Decide(t, build(t, Spec{Policy: policy}), w.At(0)), nil, nodescaler.ClusterUnhealthy)
	}
}

func TestUnneededTellsManyKeptNodesInFew(t *testing.T) {
	w := sample.New()
	for i := range 12 {
		name := fmt.Sprintf("w-%02d", i)
		w.Node(name, "pve1").Pod("a-"+name, name, 1500, 1)
	}
	plan := sample.Decide(t, withUnneeded(t, nil), &w.Snapshot)
	want := []nodescaler.Reason{
		{Code: nodescaler.NodeBusy, Text: "pods request 83 % of w-00, which is not below the threshold of 50 %"},
		{Code: nodescaler.NodeBusy, Text: "pods request 83 % of w-04, which is not below the threshold of 50 %"},
		{Code: nodescaler.NodeBusy, Text: "and 7 nodes more"},
	}
	if len(plan.Reasons) != 7 {
		t.Fatal(sample.Reasons(plan))
	}
	if d := cmp.Diff(want, []nodescaler.Reason{plan.Reasons[0], plan.Reasons[4], plan.Reasons[5]}); d != "" {
		t.Error(d)
	}
}

func TestUnneededCountsFuturePodsOnce(t *testing.T) {
	like := nodescaler.Pod{Pod: podscaler.Pod{}, Workload: "ns/app", Requests: pricing.Resources{CPU: 1800, Memory: pricing.GiB}}
	w := sample.New().Change(func(w *sample.World) { w.Future = []nodescaler.Future{{Like: like, Count: 2}, {Like: like, Count: 1}} })
	plan := sample.Decide(t, withUnneeded(t, nil), &w.Snapshot)
	if len(plan.Actions) != 3 {
		t.Fatalf("three pods to come: %v", sample.Lines(plan))
	}
	ids := []string{}
	for _, a := range plan.Actions {
		ids = append(ids, a.Order)
	}
	if slices.Sort(ids); len(slices.Compact(ids)) != 3 {
		t.Errorf("orders %v", ids)
	}
}

// A node that is not ready does not show whether its pods have left, so it takes its place among
// those that are emptied.
func TestANodeThatGoesDarkIsStillBeingEmptied(t *testing.T) {
	w := sample.New().Node("w-1", "pve1").Node("w-2", "pve2").Node("w-3", "pve3").Several(3, "a", "w-1", 400, 100).Pod("b", "w-2", 200, 100).Pod("c", "w-3", 100, 100)
	p := withUnneeded(t, func(c *Unneeded) { c.ScaleDownDelayAfterFailure = 0 })
	at, plan := watch(t, p, w, 0, 30*time.Minute)
	if got, want := sample.Lines(plan), []string{"Cordon w-3", "Evict c"}; !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	obey(w, plan)
	w.Nodes[2].Ready = false
	if after, plan := watch(t, p, w, at+10*time.Second, at+10*time.Minute); after != never {
		t.Errorf("at %v: %v", after, sample.Lines(plan))
	}
}

// A clock that was put back keeps no scan waiting for the time that has been.
func TestAScanIsDueWhenTheClockIsPutBack(t *testing.T) {
	p := looked(t, sample.New(), nil)
	if plan := sample.Decide(t, p, sample.New().Pod("a", "", 600, 100).At(-time.Hour)); len(plan.Actions) != 1 {
		t.Errorf("an hour before the last scan: %s", sample.Reasons(plan))
	}
}
