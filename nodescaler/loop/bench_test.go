package loop_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/podscaler"
	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// still is a large cluster that nothing changes in.
type still struct {
	cluster  loop.ClusterState
	machines loop.MachineState
}

func (s *still) Observe(context.Context) (loop.ClusterState, error) { return s.cluster, nil }
func (s *still) List(context.Context) (loop.MachineState, error)    { return s.machines, nil }
func (s *still) SetReplicas(context.Context, string, int) error     { return nil }
func (s *still) SetDraining(context.Context, string, bool) error    { return nil }
func (s *still) Evict(context.Context, string) error                { return nil }
func (s *still) Create(context.Context, loop.Order) error           { return nil }
func (s *still) Delete(context.Context, string) error               { return nil }
func (s *still) Append(*loop.Step) error                            { return nil }
func (s *still) Read(context.Context, *podscaler.Workload, time.Time) (podscaler.Window, error) {
	return podscaler.Window{Latency: podscaler.Known(0.2)}, nil
}

// large is 1,000 nodes with 30 pods each, of 100 workloads, and 500 pods that wait.
func large(now time.Time) (*still, []nodescaler.Pool) {
	shape := pricing.Shape{Name: "large", CPU: 16000, Memory: 64 * pricing.GiB}
	pools := []nodescaler.Pool{{
		Name: "worker", Max: 1200, Reserved: pricing.Resources{CPU: 200, Memory: pricing.GiB},
		Shapes: []pricing.Shape{{Name: "small", CPU: 4000, Memory: 16 * pricing.GiB}, {Name: "medium", CPU: 8000, Memory: 32 * pricing.GiB}, shape},
	}}
	s := &still{cluster: loop.ClusterState{Replicas: map[string]int{}}}
	for h := range 40 {
		s.machines.Hosts = append(s.machines.Hosts, nodescaler.Host{
			Host: pricing.Host{Name: fmt.Sprintf("pve%02d", h), Room: pricing.Resources{CPU: 512000, Memory: 2048 * pricing.GiB}}, Online: true,
		})
	}
	pod := func(i int, node string) {
		w := fmt.Sprintf("shop/service-%02d", i%100)
		s.cluster.Replicas[w]++
		p := nodescaler.Pod{
			Pod: podscaler.Pod{
				Name: fmt.Sprintf("%s-%06d", w, i), Phase: podscaler.Running, Ready: node != "",
				Started: now.Add(-time.Hour), ReadyChanged: now.Add(-time.Hour),
				CPU: podscaler.Sample{Known: true, Value: 0.2, At: now, Span: 15 * time.Second},
			},
			Workload: w, Node: node, Created: now.Add(-time.Hour), Unschedulable: node == "",
			Requests: pricing.Resources{CPU: pricing.MilliCPU(100 * (1 + i%9)), Memory: pricing.Bytes(1+i%4) * 512 * pricing.MiB},
		}
		if node == "" { // larger than what the nodes have left
			p.Phase, p.CPU.Known = podscaler.Pending, false
			p.Requests = pricing.Resources{CPU: pricing.MilliCPU(1100 + 100*(i%19)), Memory: pricing.Bytes(1+i%7) * pricing.GiB}
		}
		s.cluster.Pods = append(s.cluster.Pods, p)
	}
	for n := range 1000 {
		name := fmt.Sprintf("worker-%04d", n)
		s.machines.Machines = append(s.machines.Machines, nodescaler.Machine{
			Name: name, Order: fmt.Sprintf("%04d", n), Pool: "worker", Shape: shape, Host: s.machines.Hosts[n%40].Name,
			Phase: nodescaler.Joined, Created: now.Add(-time.Hour), Since: now.Add(-time.Hour),
		})
		s.cluster.Nodes = append(s.cluster.Nodes, nodescaler.Node{
			Name: name, Machine: name, Pool: "worker", Ready: true, Joined: now.Add(-time.Hour),
			Allocatable: pools[0].Capacity(shape),
		})
		for i := range 30 {
			pod(30*n+i, name)
		}
	}
	for i := range 500 {
		pod(30000+i, "")
	}
	return s, pools
}

// BenchmarkOnce is a step of the whole loop over a large cluster: 1,000 nodes, 30,000 pods, 500
// more that wait, 100 workloads that are all due.
func BenchmarkOnce1000Nodes30Pods500Pending(b *testing.B) {
	once(b, podpolicy.Spec{Policy: "hpa"}, podscaler.CostTarget{}, false)
}

// BenchmarkOnceConstrained is the same where a third of the pods are kept apart by node, or spread
// over three zones.
func BenchmarkOnceConstrained(b *testing.B) {
	once(b, podpolicy.Spec{Policy: "hpa"}, podscaler.CostTarget{}, true)
}

// constrain has every third workload's pods keep apart by node or be spread over zones.
func (s *still) constrain(pools []nodescaler.Pool) []nodescaler.Pool {
	zone := func(n int) map[string]string { return map[string]string{"zone": string(rune('a' + n%3))} }
	for i := range s.cluster.Nodes {
		n := &s.cluster.Nodes[i]
		n.Labels = zone(i)
		n.Labels[nodescaler.HostLabel] = n.Name
	}
	var zoned []nodescaler.Pool
	for i := range 3 {
		p := pools[0]
		p.Labels = zone(i)
		if i > 0 {
			p.Name += p.Labels["zone"]
		}
		zoned = append(zoned, p)
	}
	for i := range s.cluster.Pods {
		p := &s.cluster.Pods[i]
		switch mark := "labels app=" + p.Workload; i % 100 % 6 {
		case 0:
			p.Has, p.Repels = []string{mark}, []string{mark}
		case 3:
			p.Has, p.Topology = []string{mark}, []nodescaler.Topology{{Key: "zone", Mark: mark, Skew: 5}}
		}
	}
	return zoned
}

// BenchmarkOncePredicted is the same with workloads that go by what is yet to be paid for.
func BenchmarkOncePredicted(b *testing.B) {
	once(b, podpolicy.Spec{Policy: "slocost"}, podscaler.CostTarget{Target: 1e12, Per: time.Hour, Count: podscaler.CountPredicted}, false)
}

func once(b *testing.B, policy podpolicy.Spec, cost podscaler.CostTarget, constrained bool) {
	now := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	s, pools := large(now)
	if constrained {
		pools = s.constrain(pools)
	}
	run(b, s, pools, now, nodepolicy.Spec{Policy: "unneeded"}, policy, cost)
}

// run takes steps, 15 seconds apart. A quarter of an hour has passed before the first that is
// measured, so that what waits for machines to be calm is part of it.
func run(b *testing.B, s *still, pools []nodescaler.Pool, now time.Time, by nodepolicy.Spec, policy podpolicy.Spec, cost podscaler.CostTarget) {
	nodes := must.Get(nodepolicy.New(by))(b)
	r := &loop.Runner{
		Ports:   loop.Ports{Cluster: s, Machines: s, Signals: s},
		Intent:  loop.Intent{Pools: pools, Prices: pricing.DefaultBook(), DryRun: true},
		Memory:  loop.Memory{Nodes: nodes},
		Journal: s,
	}
	for i := range 100 {
		pods := must.Get(podpolicy.New(policy))(b)
		r.Workloads = append(r.Workloads, loop.Scaled(podscaler.Workload{
			Name: fmt.Sprintf("shop/service-%02d", i), Min: 1, Max: 1000, Pod: pricing.Resources{CPU: 500, Memory: pricing.GiB},
			SLO: podscaler.SLO{Quantile: 0.9, Target: 300 * time.Millisecond, Window: time.Minute}, Cost: cost,
		}, pods))
	}
	for range 5 {
		now = now.Add(3 * time.Minute)
		must.Get(r.Once(b.Context(), now))(b)
	}
	orders := 0
	for b.Loop() {
		now = now.Add(15 * time.Second)
		step := must.Get(r.Once(b.Context(), now))(b)
		orders = len(step.Plan.Actions)
	}
	b.ReportMetric(float64(orders), "actions")
}

// BenchmarkOnceLifecycle is a step over 1,000 nodes with 10,000 pods and none that wait, without
// anything about the machines' lifecycle, and with pools that have machines replaced for all there
// is.
func BenchmarkOnceLifecycle(b *testing.B) {
	for _, c := range []struct {
		name       string
		disruption nodescaler.Disruption
	}{
		{"Without", nodescaler.Disruption{}},
		{"With", nodescaler.Disruption{
			Drift: nodescaler.DriftReplace, ExpireAfter: nodescaler.Duration(720 * time.Hour),
			TerminationGracePeriod: nodescaler.Duration(time.Hour),
			Consolidation:          nodescaler.Consolidation{Policy: nodescaler.WhenEmptyOrUnderutilized},
			Repair: nodescaler.Repair{
				Conditions: []nodescaler.Ailment{{Type: nodescaler.Ready, Status: "Unknown", For: nodescaler.Duration(10 * time.Minute)}},
				Reboot:     &nodescaler.RebootRule{Within: nodescaler.Duration(10 * time.Minute)},
			},
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			now := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
			s, pools := large(now)
			s.thin(3)
			pools[0].Disruption = c.disruption
			run(b, s, pools, now, nodepolicy.Spec{Policy: "joint"}, podpolicy.Spec{Policy: "hpa"}, podscaler.CostTarget{})
		})
	}
}

// thin keeps each n-th of the pods that are on nodes, three times as large.
func (s *still) thin(n int) {
	var kept []nodescaler.Pod
	for i := range s.cluster.Pods {
		p := s.cluster.Pods[i]
		if p.Node == "" || i%n > 0 {
			s.cluster.Replicas[p.Workload]--
			continue
		}
		p.Requests.CPU, p.Requests.Memory = p.Requests.CPU*pricing.MilliCPU(n), p.Requests.Memory*pricing.Bytes(n)
		kept = append(kept, p)
	}
	s.cluster.Pods = kept
}
