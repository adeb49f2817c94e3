package loop_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// bidder wants half as many replicas again as there are, and says what each is worth.
type bidder struct{}

func (bidder) Bid(v *podscaler.View) podscaler.Bid {
	worth := make([]float64, v.Replicas*3/2)
	for i := range worth {
		worth[i] = float64(len(worth) - i)
	}
	return podscaler.Bid{Known: true, Want: len(worth), Ahead: len(worth), Worth: worth}
}

func (bidder) Desired(v *podscaler.View) podscaler.Recommendation {
	return podscaler.Recommendation{Known: true, Replicas: min(v.Replicas*3/2, v.Room.Places.Coming), Ahead: v.Replicas * 3 / 2}
}

// BenchmarkJoint100Workloads200Nodes is a step in which 100 workloads bid for the room of 200 nodes and of
// what may be bought, at prices by host and under a limit, and the joint policy plans for them all.
func BenchmarkJoint100Workloads200Nodes(b *testing.B) {
	now := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	s, pools := large(now)
	s.machines.Machines, s.cluster.Nodes, s.cluster.Pods = s.machines.Machines[:200], s.cluster.Nodes[:200], s.cluster.Pods[:6000]
	for w := range s.cluster.Replicas {
		s.cluster.Replicas[w] = 0
	}
	for i := range s.cluster.Pods {
		s.cluster.Replicas[s.cluster.Pods[i].Workload]++
	}
	book := pricing.DefaultBook()
	book.Hosts = map[string]pricing.HostPrices{}
	for i, h := range s.machines.Hosts {
		price := pricing.Micros(1000 * i)
		book.Hosts[h.Name] = pricing.HostPrices{PerHost: &price}
	}
	nodes, err := nodepolicy.New(nodepolicy.Spec{Policy: "joint"})
	if err != nil {
		b.Fatal(err)
	}
	r := &loop.Runner{Cluster: s, Machines: s, Signals: s, Journal: s, Pools: pools, Nodes: nodes, Prices: book, DryRun: true, Limit: 20_000e9}
	for i := range 100 {
		r.Scalers = append(r.Scalers, podscaler.NewScaler(podscaler.Workload{
			Name: fmt.Sprintf("shop/service-%02d", i), Min: 1, Max: 1000, Pod: pricing.Resources{CPU: 500, Memory: pricing.GiB},
		}, bidder{}))
	}
	bought := 0
	for b.Loop() {
		now = now.Add(15 * time.Second)
		step, err := r.Once(b.Context(), now)
		if err != nil {
			b.Fatal(err)
		}
		bought = 0
		for _, a := range step.Plan.Actions {
			if a.Kind == nodescaler.Buy {
				bought++
			}
		}
	}
	b.ReportMetric(float64(bought), "orders")
}
