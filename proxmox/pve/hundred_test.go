package pve

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// buyer is a policy that orders so many machines in its first step, dealt out to the hosts, and
// gives nothing back.
type buyer struct{ left int }

func (b *buyer) Decide(x *nodescaler.Index) nodescaler.Plan {
	var p nodescaler.Plan
	for ; b.left > 0; b.left-- {
		p.Actions = append(p.Actions, nodescaler.Action{
			Kind: nodescaler.Buy, Order: nodescaler.OrderID(x.Now, b.left), Pool: "web", Shape: &x.Pools[0].Shapes[0],
			Host: x.Hosts[b.left%len(x.Hosts)].Name, Reasons: []nodescaler.Reason{{Code: nodescaler.PodsPending, Text: "pods wait"}},
		})
	}
	return p
}

// Observe, SetReplicas, SetDraining and Evict are the cluster of a world: its nodes, and no pods.
func (w *world) Observe(ctx context.Context) (loop.ClusterState, error) {
	nodes, err := w.nodes(ctx)
	var s loop.ClusterState
	for _, n := range nodes {
		s.Nodes = append(s.Nodes, nodescaler.Node{Name: n.Name, Machine: n.Name, Pool: "web", Ready: n.Ready, Joined: n.JoinedAt})
	}
	return s, err
}
func (w *world) SetReplicas(context.Context, string, int) error  { return nil }
func (w *world) SetDraining(context.Context, string, bool) error { return nil }
func (w *world) Evict(context.Context, string) error             { return nil }

// timed is the machine port, with the longest that each call took by the wall clock.
type timed struct {
	loop.Machines
	create, list time.Duration
}

func (m *timed) Create(ctx context.Context, o loop.Order) error {
	defer longest(&m.create, time.Now())
	return m.Machines.Create(ctx, o)
}

func (m *timed) List(ctx context.Context) (loop.MachineState, error) {
	defer longest(&m.list, time.Now())
	return m.Machines.List(ctx)
}

func longest(most *time.Duration, since time.Time) { *most = max(*most, time.Since(since)) }

// rush is what became of many orders at once.
type rush struct {
	calls              int // until each had joined, looks included
	after              int // to tidy up behind those that had
	failures           int
	took               time.Duration // until the last had joined, in the world's time
	once, create, list time.Duration // the longest of each
	spread             map[string]int
	parallel           int // clones at the same time on one host, at most
}

// rushOf orders n machines in one step of the loop, on five hosts.
func rushOf(tb testing.TB, n int) rush {
	w := newWorld(tb, plan{hosts: 5, seed: 100, disk: 2000 * gib}).served()
	p := w.pool()
	p.Max, p.VMIDs, p.Placement.CPURatio = n, placement.VMIDs{First: 1000, Last: 1000 + 3*n}, 4
	w.begin()
	w.run(time.Second)
	before := len(w.sim.Calls())
	port := &timed{Machines: w.fleet}
	runner := &loop.Runner{
		Ports:  loop.Ports{Cluster: w, Machines: port},
		Intent: loop.Intent{Pools: []nodescaler.Pool{p.Words()}, Prices: pricing.DefaultBook()},
		Memory: loop.Memory{Nodes: &buyer{left: n}},
	}
	r := rush{spread: map[string]int{}}
	began := w.sim.Now()
	step := func() loop.Step {
		defer longest(&r.once, time.Now())
		s := must.Get(runner.Once(context.Background(), w.sim.Now()))(tb)
		return s
	}
	var looked time.Time
	for joined := 0; joined < n; {
		if w.sim.Now().Sub(looked) >= 10*time.Second {
			looked = w.sim.Now()
			s := step()
			for _, o := range s.Outcomes {
				if o.Error != "" {
					tb.Fatal(o.Error)
				}
			}
			joined = s.Observed.Machines[nodescaler.Joined]
		}
		_ = w.fleet.Tick(context.Background())
		r.parallel = max(r.parallel, w.cloning())
		w.sim.Advance(w.fleet.Pause())
		if w.sim.Now().Sub(began) > time.Hour {
			tb.Fatalf("after an hour %d of %d have joined\n%s", joined, n, w.story())
		}
	}
	r.took, r.create, r.list = w.sim.Now().Sub(began), port.create, port.list
	r.calls, r.after = w.callsUntilJoined(before)
	for _, v := range w.inRange() {
		r.spread[v.Host]++
	}
	for _, e := range w.events {
		if e.Code == pvecode.TaskFailed || e.Code == pvecode.MachineFailed || e.Code == pvecode.Retry {
			r.failures++
			tb.Log(e)
		}
	}
	return r
}

// callsUntilJoined counts the fleet's calls, and apart from them those about machines that had
// joined.
func (w *world) callsUntilJoined(before int) (calls, after int) {
	joined := map[int]time.Time{}
	for _, e := range w.events {
		if e.Code == pvecode.Joined {
			joined[e.VMID] = e.At
		}
	}
	for _, c := range w.sim.Calls()[before:] {
		if c.User != "plimsoll@pve!fleet" {
			continue
		}
		id := 0
		if found := machinePath.FindStringSubmatch("/api2/json" + c.Path); found != nil {
			_, _ = fmt.Sscan(found[1], &id)
		}
		at, is := joined[id]
		if is && !c.At.Before(at) || strings.Contains(c.Path, "/content/") {
			after++
		} else {
			calls++
		}
	}
	return calls, after
}

// cloning is how many clones are in progress on one host, at most.
func (w *world) cloning() int {
	on, most := map[string]int{}, 0
	for _, v := range w.inRange() {
		if v.Config["lock"] == "clone" {
			on[v.Host]++
			most = max(most, on[v.Host])
		}
	}
	return most
}

func TestHundredMachinesAtOnce(t *testing.T) {
	const n = 100
	r := rushOf(t, n)
	t.Logf("%d machines: %.2f calls each until joined, %.2f after that; all joined after %s, spread %v, %d clones at once on a host",
		n, float64(r.calls)/n, float64(r.after)/n, r.took.Round(time.Second), r.spread, r.parallel)
	t.Logf("longest: step %s, Create %s, List %s", r.once, r.create, r.list)
	if r.calls > 13*n { // one of them lists the machines before the start
		t.Errorf("%d calls, want at most 13 for each machine", r.calls)
	}
	if r.failures > 0 {
		t.Errorf("%d failures", r.failures)
	}
	if r.parallel > 2 {
		t.Errorf("%d clones at once on a host's storage, want at most 2", r.parallel)
	}
	for i := range 5 {
		if host := fmt.Sprintf("pve%d", i+1); r.spread[host] != n/5 {
			t.Errorf("%s has %d machines, want %d", host, r.spread[host], n/5)
		}
	}
}

func BenchmarkHundredMachines(b *testing.B) {
	var r rush
	for b.Loop() {
		r = rushOf(b, 100)
	}
	b.ReportMetric(float64(r.calls)/100, "calls/machine")
	b.ReportMetric(r.took.Seconds(), "emulated-s")
	b.ReportMetric(float64(r.once.Microseconds()), "longest-step-us")
}

// A thousand machines are there, 400 orders wait for their turn, and every host makes as many
// clones as it may.
func BenchmarkPickWhileOrdersWait(b *testing.B) {
	w := newWorld(b, plan{hosts: 5, seed: 5})
	p := w.pool()
	p.Max, p.VMIDs, p.Placement.CPURatio = 3000, placement.VMIDs{First: 1000, Last: 9000}, 32
	w.begin()
	w.run(time.Second)
	f, at := w.fleet, w.sim.Now()
	put := func(i, vmid int, step intents.Step) *tracked {
		id, host := fmt.Sprintf("o-%04d", i), fmt.Sprintf("pve%d", 1+i%5)
		m := &tracked{Intent: intents.Intent{Order: id, Pool: "web", Name: "web-" + id, Shape: p.Shapes[0], Host: host, VMID: vmid, Created: at, Step: step, Since: at}}
		f.roster.machines[id] = m
		return m
	}
	for i := range 1000 {
		m := put(i, 1000+i, intents.StepTidied)
		m.Asked, m.Joined = at, at
		f.view.seen.Guests[m.VMID] = &placement.Guest{VMID: m.VMID, Host: m.Host, Name: m.Name, Running: true, Pool: "plimsoll"}
	}
	for i := range 400 {
		if m := put(1000+i, 3000+i, intents.StepOrdered); i < 10 {
			m.Step, m.Task = intents.StepClaimed, &intents.Task{UPID: "UPID:x", Kind: intents.TaskClone, Host: m.Host, At: at}
		}
	}
	for b.Loop() {
		if w, mv := f.pick(); w != nil {
			b.Fatalf("%s of %s", mv, w.m.Name)
		}
	}
}
