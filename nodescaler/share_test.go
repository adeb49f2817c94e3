package nodescaler_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// web is an ask of the workload web, as fleet has it, for which a node takes four replicas.
func web(replicas, want int) nodescaler.Ask {
	worth := make([]float64, want)
	for i := range worth {
		worth[i] = float64(want - i)
	}
	return nodescaler.Ask{
		Workload: "web", Like: nodescaler.Pod{Workload: "web", Requests: pricing.Resources{CPU: 500, Memory: pricing.GB}},
		Replicas: replicas, Most: 40, Bid: podscaler.Bid{Known: true, Want: want, Worth: worth},
	}
}

// Scenario 33: machines of four places at 10 an hour. What is paid for is filled; a further machine
// is bought if the hard limit allows its price.
func TestScenario33WhatIsPaidForIsFilledAndTheLimitHolds(t *testing.T) {
	for _, c := range []struct {
		name             string
		need, limit      int
		ready, most      int
		why              string
		perMachine, rate int
	}{
		{"what three nodes hold is offered for nine", 9, 0, 12, 12, "", 4, 10},
		{"thirteen need a fourth", 13, 0, 12, 16, "", 4, 10},
		{"which a limit of 30 does not allow", 13, 30, 12, 12, nodescaler.LimitReached, 0, 0},
		{"one of 40 does", 13, 40, 12, 16, "", 4, 10},
		{"but no fifth", 17, 40, 12, 16, nodescaler.LimitReached, 4, 10},
		{"one of 39.99 does not either", 13, 39, 12, 12, nodescaler.LimitReached, 0, 0},
		{"a reached limit is reported to asks that want no more, too", 12, 30, 12, 12, nodescaler.LimitReached, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := fleet(0, []int{3, 3, 3}, nil)
			s.Pods, s.Limit = nil, pricing.Rate(c.limit)*1e9
			for i := range 9 {
				s.Pods = append(s.Pods, nodescaler.Pod{
					Pod:      podscaler.Pod{Name: fmt.Sprintf("web-%d", i), Phase: podscaler.Running, Ready: true},
					Workload: "web", Node: fmt.Sprintf("node-%d", i%3+1), Requests: web(0, 0).Like.Requests,
				})
			}
			got := nodescaler.Share(nodescaler.NewIndex(s), []nodescaler.Ask{web(9, c.need)})[0]
			code := got.Why.Code
			got.Why = podscaler.Reason{}
			want := podscaler.Places{Ready: c.ready, Filled: 12, Coming: c.ready, Most: c.most, PerMachine: c.perMachine, Next: pricing.Rate(c.rate) * 1e9}
			if diff := gocmp.Diff(want, got); diff != "" || code != c.why {
				t.Errorf("why %q, want %q; -want +got:\n%s", code, c.why, diff)
			}
		})
	}
}

func TestPlacesAreWhereReplicasMayGo(t *testing.T) {
	machine := func(phase nodescaler.Phase) func(*nodescaler.Snapshot) {
		return func(s *nodescaler.Snapshot) {
			s.Machines = append(s.Machines, nodescaler.Machine{Name: "coming", Order: "coming", Pool: "workers", Shape: s.Pools[0].Shapes[0], Host: "pve1", Phase: phase})
		}
	}
	shut := func(s *nodescaler.Snapshot) {
		s.Pools[0].Closed = &nodescaler.Reason{Code: "PoolPaused", Text: "3 failed in a row"}
	}
	two := func(s *nodescaler.Snapshot) { // a limit of two machines, where disks cost something
		s.Prices = pricing.DefaultBook()
		s.Limit = 2 * s.Prices.Rate(s.Pools[0].Shapes[0], "pve1", s.Now)
		s.Prices.PerDiskGB, s.Machines[1].Shape.Disk = pricing.Unit/10, 20*pricing.GB
	}
	for name, c := range map[string]struct {
		change              func(*nodescaler.Snapshot)
		ready, coming, most int
		why                 string
	}{
		"on a node, and on machines that are bought": {func(*nodescaler.Snapshot) {}, 4, 4, 20, ""},
		"on a machine that is ordered":               {machine(nodescaler.Ordered), 4, 8, 20, ""},
		"on one that boots":                          {machine(nodescaler.Booting), 4, 8, 20, ""},
		"not on one that goes":                       {machine(nodescaler.Deleting), 4, 4, 20, ""},
		"not on one that failed":                     {machine(nodescaler.Failed), 4, 4, 20, ""},
		"not on a booting one on an offline host": {func(s *nodescaler.Snapshot) {
			machine(nodescaler.Booting)(s)
			s.Hosts = append(s.Hosts, nodescaler.Host{Host: pricing.Host{Name: "pve2", Room: s.Hosts[0].Room}})
			s.Machines[1].Host = "pve2"
		}, 4, 4, 20, ""},
		"not on a spare that cannot be woken there": {func(s *nodescaler.Snapshot) {
			machine(nodescaler.Spare)(s)
			s.Hosts = append(s.Hosts, nodescaler.Host{Host: pricing.Host{Name: "pve2", Room: s.Hosts[0].Room}})
			s.Machines[1].Host, s.Pools[0].Max = "pve2", 2
		}, 4, 4, 4, nodescaler.PoolAtMax},
		"but on one that can": {func(s *nodescaler.Snapshot) {
			machine(nodescaler.Spare)(s)
			s.Pools[0].Max = 2
		}, 4, 4, 8, nodescaler.PoolAtMax},
		"nor is its disk in the way of a machine under a limit": {func(s *nodescaler.Snapshot) {
			machine(nodescaler.Spare)(s)
			two(s)
		}, 4, 4, 8, nodescaler.LimitReached},
		"nor what it costs while it is made": {func(s *nodescaler.Snapshot) {
			machine(nodescaler.Booting)(s)
			two(s)
			s.Machines[1].Keep = true
		}, 4, 4, 8, nodescaler.LimitReached},
		"but what is on a host that is away is paid for": {func(s *nodescaler.Snapshot) {
			machine(nodescaler.Spare)(s)
			two(s)
			s.Hosts = append(s.Hosts, nodescaler.Host{Host: pricing.Host{Name: "pve2", Room: s.Hosts[0].Room}})
			s.Machines[1].Host = "pve2"
		}, 4, 4, 4, nodescaler.LimitReached},
		"not on a node that is cordoned":  {func(s *nodescaler.Snapshot) { s.Nodes[0].Cordoned = true }, 0, 0, 20, ""},
		"not on a node that is not ready": {func(s *nodescaler.Snapshot) { s.Nodes[0].Ready = false }, 0, 0, 20, ""},
		"but later on one that is new and will be": {func(s *nodescaler.Snapshot) {
			s.Nodes[0].Ready, s.Nodes[0].Joined = false, s.Now.Add(-time.Minute)
		}, 0, 4, 20, ""},
		"not on a new one that is cordoned": {func(s *nodescaler.Snapshot) {
			s.Nodes[0].Ready, s.Nodes[0].Cordoned, s.Nodes[0].Joined = false, true, s.Now.Add(-time.Minute)
		}, 0, 0, 20, ""},
		"later on a spare that is woken": {func(s *nodescaler.Snapshot) {
			s.Nodes[0].Ready = false
			s.Machines[0].Phase, s.Machines[0].Woken = nodescaler.Booting, s.Now.Add(-time.Second)
		}, 0, 4, 20, ""},
		"not beyond what a pool may have": {func(s *nodescaler.Snapshot) { s.Pools[0].Max = 3 }, 4, 4, 12, nodescaler.PoolAtMax},
		"not where none is made now":      {shut, 4, 4, 4, "PoolPaused"},
		"nor on spares that are not woken, of a pool that is held up": {func(s *nodescaler.Snapshot) {
			machine(nodescaler.Spare)(s)
			s.Pools[0].HeldUp = &nodescaler.Reason{Code: "Paused", Text: "paused by ann"}
		}, 4, 4, 4, "Paused"},
		"but on a spare that is there": {func(s *nodescaler.Snapshot) {
			machine(nodescaler.Spare)(s)
			shut(s)
		}, 4, 4, 8, "PoolPaused"},
		"not beyond what hosts hold": {func(s *nodescaler.Snapshot) { s.Hosts[0].Room = s.Pools[0].Shapes[0].Resources().Times(2) }, 4, 4, 8, nodescaler.NoHostRoom},
		"not on a host that is away": {func(s *nodescaler.Snapshot) { s.Hosts[0].Online = false }, 0, 0, 0, nodescaler.NoHostRoom},
		"not where something else waits to go": {func(s *nodescaler.Snapshot) {
			s.Pods = append(s.Pods, nodescaler.Pod{Pod: podscaler.Pod{Name: "other"}, Workload: "other", Requests: pricing.Resources{CPU: 1100}, Unschedulable: true})
		}, 1, 1, 21, ""},
		"not on a machine that is too small": {func(s *nodescaler.Snapshot) { s.Pools[0].Shapes[0].Memory = pricing.GB / 2 }, 4, 4, 4, nodescaler.PoolUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			s := fleet(0, []int{0}, nil)
			c.change(s)
			got := nodescaler.Share(nodescaler.NewIndex(s), []nodescaler.Ask{web(0, 20)})[0]
			if got.Ready != c.ready || got.Coming != c.coming || got.Most != c.most || got.Why.Code != c.why {
				t.Errorf("%+v, want ready %d, coming %d, most %d, why %q", got, c.ready, c.coming, c.most, c.why)
			}
			if got.Filled > got.Coming {
				t.Errorf("%d are filled of %d", got.Filled, got.Coming)
			}
		})
	}
}

// contest draws a site and workloads that ask for room on it; pods of some run already.
func contest(t *rapid.T) (*nodescaler.Snapshot, []nodescaler.Ask) {
	s := fleet(0, make([]int, rapid.IntRange(0, 3).Draw(t, "nodes")), nil)
	s.Pools[0].Max = rapid.IntRange(0, 6).Draw(t, "max")
	s.Hosts[0].Room = s.Pools[0].Shapes[0].Resources().Times(rapid.IntRange(1, 8).Draw(t, "room"))
	s.Limit = pricing.Rate(rapid.Int64Range(0, 70).Draw(t, "limit")) * 1e9
	if len(s.Nodes) > 0 && rapid.Bool().Draw(t, "boots") { // the last is no node yet
		s.Machines[len(s.Nodes)-1].Phase = nodescaler.Booting
		s.Nodes = s.Nodes[:len(s.Nodes)-1]
	}
	var asks []nodescaler.Ask
	for i := range rapid.IntRange(1, 3).Draw(t, "asks") {
		a := web(0, 0)
		a.Workload = fmt.Sprintf("w%d", i)
		a.Like.Requests.CPU = pricing.MilliCPU(rapid.SampledFrom([]int{300, 500, 1900}).Draw(t, "cpu"))
		a.Like.Workload = a.Workload
		a.Most = rapid.IntRange(0, 12).Draw(t, "most")
		for n := range rapid.IntRange(0, 2).Draw(t, "run") {
			if len(s.Nodes) > 0 {
				node := s.Nodes[rapid.IntRange(0, len(s.Nodes)-1).Draw(t, "on")].Name
				p := a.Like
				p.Pod = podscaler.Pod{Name: fmt.Sprintf("%s-%d", a.Workload, n), Phase: podscaler.Running, Ready: true}
				p.Node, p.Requests.CPU = node, 100
				s.Pods = append(s.Pods, p)
			}
		}
		a.Replicas = rapid.IntRange(0, 4).Draw(t, "replicas")
		if a.Bid.Known = rapid.Bool().Draw(t, "bids"); a.Bid.Known {
			a.Bid.Want, a.Bid.Ahead = rapid.IntRange(0, 12).Draw(t, "want"), rapid.IntRange(0, 12).Draw(t, "ahead")
			a.Bid.Worth = rapid.SliceOfN(rapid.Float64Range(0, 10), 0, 12).Draw(t, "worth")
		}
		asks = append(asks, a)
	}
	return s, asks
}

// runs counts the pods of a workload that have a node.
func runs(s *nodescaler.Snapshot, workload string) (n int) {
	for i := range s.Pods {
		if s.Pods[i].Workload == workload && s.Pods[i].Node != "" {
			n++
		}
	}
	return n
}

func TestNobodyIsPromisedMoreThanThereIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, asks := contest(t)
		x := nodescaler.NewIndex(s)
		var ready, coming, most pricing.Resources // what the places take beyond what runs
		for i, p := range nodescaler.Share(x, asks) {
			has := runs(s, asks[i].Workload)
			if p.Ready < has || p.Coming < p.Ready || p.Most < p.Coming || p.Most > max(asks[i].Most, has) {
				t.Fatalf("%s has %d of at most %d: %+v", asks[i].Workload, has, asks[i].Most, p)
			}
			each := asks[i].Like.Requests
			ready, coming, most = ready.Plus(each.Times(p.Ready-has)), coming.Plus(each.Times(p.Coming-has)), most.Plus(each.Times(p.Most-p.Coming))
		}
		var on, by pricing.Resources
		for i := range x.Nodes {
			on = on.Plus(x.Nodes[i].Allocatable.Minus(x.Nodes[i].Used.Requests))
		}
		by = on
		paid := pricing.Rate(0)
		for _, m := range x.Machines {
			if x.NodeOf(m.Name) == nil {
				by = by.Plus(m.Shape.Resources())
			}
			paid += x.Rate(m.Shape, m.Host)
		}
		if !ready.Within(on) || !coming.Within(by) {
			t.Fatalf("places take %v of %v on nodes, %v of %v with what is on its way", ready, on, coming, by)
		}
		shape := s.Pools[0].Shapes[0]
		may := max(s.Pools[0].Max-len(s.Machines), 0)
		may = min(may, max(int((s.Hosts[0].Room.CPU-pricing.MilliCPU(len(s.Machines))*shape.CPU)/shape.CPU), 0))
		if s.Limit > 0 {
			may = min(may, max(int((s.Limit-paid)/x.Rate(shape, "pve1")), 0))
		}
		// What is left of the nodes may not be counted twice, so that all of it is in the last
		// machines.
		if !most.Within(shape.Resources().Times(may)) {
			t.Fatalf("places take %v of %d machines that may be bought", most, may)
		}
	})
}

func TestTheOrderOfAsksDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, asks := contest(t)
		shuffled := rapid.Permutation(asks).Draw(t, "asks")
		by := map[string]podscaler.Places{}
		for i, p := range nodescaler.Share(nodescaler.NewIndex(s), shuffled) {
			by[shuffled[i].Workload] = p
		}
		for i, p := range nodescaler.Share(nodescaler.NewIndex(s), asks) {
			if diff := gocmp.Diff(p, by[asks[i].Workload]); diff != "" {
				t.Fatalf("%s: %s", asks[i].Workload, diff)
			}
		}
	})
}

// unit is one replica that a workload may have.
type unit struct {
	ask   int
	worth float64
}

// twin shares places of one size: everybody's replicas in one list, that which is worth most first,
// and from its front as many as there are places.
func twin(asks []nodescaler.Ask, coming, perMachine, machines int) (got [][2]int) {
	var units []unit
	for i, a := range asks {
		for n := range a.Most {
			units = append(units, unit{i, a.Bid.Worth[n]})
		}
	}
	slices.SortFunc(units, func(a, b unit) int { return -cmp.Compare(a.worth, b.worth) })
	held := func(places int) []int {
		h := make([]int, len(asks))
		for _, u := range units[:min(places, len(units))] {
			h[u.ask]++
		}
		return h
	}
	first := held(coming)
	places := coming
	for ; machines > 0; machines-- {
		h := held(places)
		if !slices.ContainsFunc([]int{0, 1, 2}[:len(asks)], func(i int) bool { return h[i] < min(asks[i].Bid.Want, asks[i].Most) }) {
			break
		}
		places += perMachine
	}
	last := held(places)
	for i := range asks {
		got = append(got, [2]int{first[i], last[i]})
	}
	return got
}

func TestWhatIsWorthMoreGetsTheRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := fleet(0, make([]int, rapid.IntRange(0, 3).Draw(t, "nodes")), nil)
		s.Pools[0].Max = len(s.Machines) + rapid.IntRange(0, 3).Draw(t, "more")
		count := rapid.IntRange(1, 3).Draw(t, "asks")
		// Each worth once, so that there is no tie, and falling, as each further replica helps
		// less.
		worths := rapid.Permutation([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}).Draw(t, "worths")
		var asks []nodescaler.Ask
		for i := range count {
			a := web(0, 0)
			a.Workload, a.Most, a.Bid.Want = fmt.Sprintf("w%d", i), 6, rapid.IntRange(0, 6).Draw(t, "want")
			a.Bid.Worth = slices.Clone(worths[6*i : 6*i+6])
			slices.SortFunc(a.Bid.Worth, func(a, b float64) int { return -cmp.Compare(a, b) })
			asks = append(asks, a)
		}
		want := twin(asks, 4*len(s.Nodes), 4, s.Pools[0].Max-len(s.Machines))
		for i, p := range nodescaler.Share(nodescaler.NewIndex(s), asks) {
			if p.Coming != want[i][0] || p.Most != want[i][1] {
				t.Fatalf("%s: %d, with machines %d, want %v", asks[i].Workload, p.Coming, p.Most, want[i])
			}
		}
	})
}

func TestAsksWithoutABidComeLastAndEvenly(t *testing.T) {
	s := fleet(0, make([]int, 3), nil)
	s.Pools[0].Max = 3
	a, b, c := web(0, 0), web(0, 0), web(0, 5)
	a.Workload, b.Workload, c.Workload, c.Most = "a", "b", "c", 5
	a.Bid, b.Bid = podscaler.Bid{}, podscaler.Bid{}
	a.Most, b.Most = 10, 20
	got := nodescaler.Share(nodescaler.NewIndex(s), []nodescaler.Ask{b, a, c})
	if got[0].Coming != 4 || got[1].Coming != 3 || got[2].Coming != 5 {
		t.Errorf("%d of 20, %d of 10 and %d that were bid, want 4, 3 and 5", got[0].Coming, got[1].Coming, got[2].Coming)
	}
}

// BenchmarkShare100Workloads200Nodes is room for 100 workloads on 200 nodes and 40 hosts, at a
// price list with prices by host and under a limit.
func BenchmarkShare100Workloads200Nodes(b *testing.B) {
	s, asks := crowd()
	for b.Loop() {
		nodescaler.Share(nodescaler.NewIndex(s), asks)
	}
}

func crowd() (*nodescaler.Snapshot, []nodescaler.Ask) {
	shape := pricing.Shape{Name: "small", CPU: 8000, Memory: 32 * pricing.GB}
	s := &nodescaler.Snapshot{Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Prices: pricing.DefaultBook(), Limit: 1e13}
	s.Prices.Hosts = map[string]pricing.HostPrices{}
	s.Pools = []nodescaler.Pool{{Name: "workers", Max: 1000, Shapes: []pricing.Shape{shape, {Name: "large", CPU: 16000, Memory: 64 * pricing.GB}}}}
	for h := range 40 {
		name, price := fmt.Sprintf("pve%02d", h), pricing.Micros(h*1000)
		s.Hosts = append(s.Hosts, nodescaler.Host{Host: pricing.Host{Name: name, Room: shape.Resources().Times(20)}, Online: true})
		s.Prices.Hosts[name] = pricing.HostPrices{PerHost: &price}
	}
	for n := range 200 {
		name := fmt.Sprintf("node-%03d", n)
		s.Machines = append(s.Machines, nodescaler.Machine{Name: name, Order: name, Pool: "workers", Shape: shape, Host: s.Hosts[n%40].Name, Phase: nodescaler.Joined})
		s.Nodes = append(s.Nodes, nodescaler.Node{Name: name, Machine: name, Pool: "workers", Allocatable: shape.Resources(), Ready: true})
		for i := range 10 {
			w := fmt.Sprintf("w-%02d", (10*n+i)%100)
			s.Pods = append(s.Pods, nodescaler.Pod{
				Pod:      podscaler.Pod{Name: fmt.Sprintf("%s-%d-%d", w, n, i), Phase: podscaler.Running, Ready: true},
				Workload: w, Node: name, Requests: pricing.Resources{CPU: 500, Memory: pricing.GB},
			})
		}
	}
	var asks []nodescaler.Ask
	for i := range 100 {
		a := web(20, 60)
		a.Workload, a.Most = fmt.Sprintf("w-%02d", i), 100
		asks = append(asks, a)
	}
	return s, asks
}
