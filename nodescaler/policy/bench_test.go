package policy

import (
	"fmt"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// fleet is 1,000 nodes of 4 CPU with 30 pods each on 40 hosts, and 500 pods that wait. Every
// third node is used by little more than a third, the others by three quarters.
func fleet() *nodescaler.Snapshot {
	shapes := []pricing.Shape{
		{Name: "big", CPU: 8000, Memory: 32 * pricing.GiB},
		{Name: "medium", CPU: 4000, Memory: 16 * pricing.GiB},
		{Name: "small", CPU: 2000, Memory: 8 * pricing.GiB},
	}
	s := &nodescaler.Snapshot{Now: sample.Noon, Prices: pricing.DefaultBook(), Pools: []nodescaler.Pool{
		{Name: "db", Max: 100, Shapes: shapes, Reserved: pricing.Resources{CPU: 200, Memory: pricing.GiB}, Taints: []nodescaler.Taint{{Key: "db", Effect: "NoSchedule"}}},
		{Name: "web", Max: 2000, Shapes: shapes, Reserved: pricing.Resources{CPU: 200, Memory: pricing.GiB}, Labels: map[string]string{"disk": "ssd"}},
	}}
	for h := range 40 {
		s.Hosts = append(s.Hosts, nodescaler.Host{Host: pricing.Host{Name: fmt.Sprintf("pve%02d", h), Room: pricing.Resources{CPU: 200_000, Memory: 1000 * pricing.GiB}}, Online: true})
	}
	toleration := []nodescaler.Toleration{{Key: "node.kubernetes.io/not-ready", Effect: "NoExecute"}, {Key: "node.kubernetes.io/unreachable", Effect: "NoExecute"}}
	pod := func(i int, name, node string, cpu pricing.MilliCPU) nodescaler.Pod {
		return nodescaler.Pod{
			Pod: podscaler.Pod{Name: name, Phase: podscaler.Running}, Workload: fmt.Sprintf("ns/app-%03d", i%400), Node: node,
			Requests: pricing.Resources{CPU: cpu, Memory: 128 * pricing.MiB}, Unschedulable: node == "", Tolerations: toleration,
		}
	}
	for n := range 1000 {
		name, pool := fmt.Sprintf("n-%04d", n), &s.Pools[1]
		if n%10 == 9 {
			pool = &s.Pools[0]
		}
		s.Machines = append(s.Machines, nodescaler.Machine{Name: name, Order: name, Pool: pool.Name, Shape: shapes[1], Host: s.Hosts[n%40].Name, Phase: nodescaler.Joined, Created: sample.Noon.Add(-time.Hour)})
		s.Nodes = append(s.Nodes, nodescaler.Node{
			Name: name, Machine: name, Pool: pool.Name, Ready: true, Allocatable: pool.Capacity(shapes[1]), Joined: sample.Noon.Add(-time.Hour),
			Taints: pool.Taints, Labels: map[string]string{"kubernetes.io/hostname": name, "disk": pool.Labels["disk"]},
		})
		cpu := pricing.MilliCPU(95)
		if n%3 == 0 {
			cpu = 45
		}
		for i := range 30 {
			p := pod(n*30+i, fmt.Sprintf("ns/p-%05d", n*30+i), name, cpu)
			if pool == &s.Pools[0] {
				p.Tolerations = append([]nodescaler.Toleration{{Key: "db"}}, toleration...)
			}
			p.Daemon = i < 3
			s.Pods = append(s.Pods, p)
		}
	}
	for i := range 500 {
		p := pod(i, fmt.Sprintf("ns/wait-%03d", i), "", pricing.MilliCPU(1200+7*i%1900))
		if i%5 == 0 {
			p.Selector = map[string]string{"disk": "ssd"}
		}
		s.Pods = append(s.Pods, p)
	}
	for i := range 400 {
		s.Budgets = append(s.Budgets, nodescaler.Budget{Workload: fmt.Sprintf("ns/app-%03d", i), Allowed: 1 + i%5})
	}
	return s
}

func benchmark(b *testing.B, name string, s *nodescaler.Snapshot) {
	p := build(b, Spec{Policy: name, Pending: &Pending{Pool: "web", PollInterval: seconds(1), Parallel: 500, CountAs: CountAllocatable}})
	var plan nodescaler.Plan
	for b.Loop() {
		s.Now = s.Now.Add(10 * time.Second)
		plan = p.Decide(nodescaler.NewIndex(s))
	}
	b.ReportMetric(float64(len(plan.Actions)), "actions")
}

// With pods to order for, and without, when all nodes are judged.
func BenchmarkUnneeded1000Nodes(b *testing.B) {
	b.Run("500Pending", func(b *testing.B) { benchmark(b, "unneeded", fleet()) })
	b.Run("NonePending", func(b *testing.B) {
		s := fleet()
		s.Pods = s.Pods[:30_000]
		benchmark(b, "unneeded", s)
	})
}

func BenchmarkPending1000Nodes(b *testing.B) { benchmark(b, "pending", fleet()) }

// Without anything about lifecycle, with pools that have machines replaced for all there is, and
// while cheaper machines are looked for.
func BenchmarkLifecycle1000Nodes(b *testing.B) {
	quiet := func() *nodescaler.Snapshot {
		s := fleet()
		s.Pods = s.Pods[:30_000]
		return s
	}
	asked := func() *nodescaler.Snapshot {
		s := quiet()
		for i := range s.Pools {
			s.Pools[i].Disruption = nodescaler.Disruption{
				Drift: nodescaler.DriftReplace, ExpireAfter: nodescaler.Duration(720 * time.Hour), Consolidation: nodescaler.Consolidation{Policy: nodescaler.WhenEmptyOrUnderutilized},
				Repair: nodescaler.Repair{Conditions: []nodescaler.Ailment{{Type: nodescaler.Ready, Status: "Unknown", For: minutes(10)}}},
			}
		}
		return s
	}
	b.Run("Without", func(b *testing.B) { benchmark(b, "joint", quiet()) })
	b.Run("With", func(b *testing.B) { benchmark(b, "joint", asked()) })
	b.Run("Seeking", func(b *testing.B) {
		s := asked()
		for b.Loop() {
			b.StopTimer()
			p := build(b, Spec{Policy: "joint"})
			for range 2 {
				s.Now = s.Now.Add(11 * time.Minute)
				p.Decide(nodescaler.NewIndex(s))
			}
			s.Now = s.Now.Add(11 * time.Minute)
			b.StartTimer()
			p.Decide(nodescaler.NewIndex(s))
		}
	})
}
