package loop_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// million is a small cluster in which workloads ask for so many replicas each, none of which is a
// pod.
func million(workloads, replicas int) *nodescaler.Snapshot {
	now := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	shape := pricing.Shape{Name: "small", CPU: 4000, Memory: 16 * pricing.GiB}
	s := &nodescaler.Snapshot{Now: now, Prices: pricing.DefaultBook(), Pools: []nodescaler.Pool{{Name: "worker", Max: 12, Shapes: []pricing.Shape{shape}}}}
	for h := range 3 {
		s.Hosts = append(s.Hosts, nodescaler.Host{
			Host: pricing.Host{Name: fmt.Sprintf("pve%d", h), Room: pricing.Resources{CPU: 64000, Memory: 256 * pricing.GiB}}, Online: true,
		})
	}
	for n := range 6 {
		name := fmt.Sprintf("worker-%d", n)
		s.Machines = append(s.Machines, nodescaler.Machine{
			Name: name, Order: name, Pool: "worker", Shape: shape, Host: s.Hosts[n%3].Name, Phase: nodescaler.Joined, Created: now.Add(-time.Hour), Since: now.Add(-time.Hour),
		})
		s.Nodes = append(s.Nodes, nodescaler.Node{Name: name, Machine: name, Pool: "worker", Ready: true, Joined: now.Add(-time.Hour), Allocatable: shape.Resources()})
	}
	for w := range workloads {
		like := nodescaler.Pod{Workload: fmt.Sprintf("shop/w-%04d", w), Requests: pricing.Resources{CPU: 100, Memory: 128 * pricing.MiB}}
		s.Future = append(s.Future, nodescaler.Future{Like: like, Count: replicas})
		p := like
		p.Pod = podscaler.Pod{Name: like.Workload + "-1", Phase: podscaler.Running}
		p.Node = s.Nodes[w%6].Name
		s.Pods = append(s.Pods, p)
	}
	return s
}

// BenchmarkMillionReplicas is what a policy takes for workloads that ask for more than can ever be.
func BenchmarkMillionReplicas(b *testing.B) {
	for _, policy := range []string{"joint", "unneeded", "pending"} {
		for _, c := range []struct{ workloads, replicas int }{{5, 1_000_000}, {1000, 1_000}, {100, 1_000_000}} {
			b.Run(fmt.Sprintf("%s/%dx%d", policy, c.workloads, c.replicas), func(b *testing.B) {
				s := million(c.workloads, c.replicas)
				b.ReportAllocs()
				for b.Loop() {
					p := must.Get(nodepolicy.New(nodepolicy.Spec{Policy: policy}))(b)
					p.Decide(nodescaler.NewIndex(s))
				}
			})
		}
	}
}

// Replicas are numbers, however many are asked for: what a decision takes follows from what
// machines could carry.
func TestAMillionReplicasAreANumber(t *testing.T) {
	for _, policy := range []string{"joint", "unneeded"} {
		allocated := func(replicas int) float64 {
			s := million(5, replicas)
			return testing.AllocsPerRun(1, func() {
				p := must.Get(nodepolicy.New(nodepolicy.Spec{Policy: policy}))(t)
				if plan := p.Decide(nodescaler.NewIndex(s)); len(plan.Actions) != 6 {
					t.Errorf("%d machines are ordered, want the 6 that the pool may still have", len(plan.Actions))
				}
			})
		}
		if few, many := allocated(2_000), allocated(1_000_000_000); many > 1.2*few {
			t.Errorf("%s allocates %.0f times for 1e9 replicas, and %.0f times for 2,000", policy, many, few)
		}
	}
}
