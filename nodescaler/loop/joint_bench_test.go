package loop_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
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

// busy is a large cluster of whose workloads some, one in so many, have twice as much to do as
// they can.
type busy struct {
	*still
	oneIn int
}

func (b busy) Read(_ context.Context, wl *podscaler.Workload, _ time.Time) (podscaler.Window, error) {
	rate, latency, good := 300.0, 0.2, 1.0
	inFlight := 0.12 * rate
	number, _ := strconv.Atoi(wl.Name[len(wl.Name)-2:])
	if number%b.oneIn == 0 {
		inFlight, latency, good = 3*rate, 0.4, 0.7
	}
	return podscaler.Window{
		Latency: podscaler.Known(latency), Good: podscaler.Known(good), Arrivals: podscaler.Known(rate), InFlight: podscaler.Known(inFlight),
	}, nil
}

// crowded is 100 workloads of 60 pods each on 200 nodes, with prices by host, a limit, and policy
// joint for pods and machines.
func crowded(b *testing.B, now time.Time, oneIn int) *loop.Runner {
	s, pools := large(now)
	// Copies, for the collector would else look at 25,000 pods in every step that are none of this
	// cluster's.
	s.machines.Machines, s.cluster.Nodes = slices.Clone(s.machines.Machines[:200]), slices.Clone(s.cluster.Nodes[:200])
	s.cluster.Pods = slices.Clone(s.cluster.Pods[:6000])
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
	nodes := must.Get(nodepolicy.New(nodepolicy.Spec{Policy: "joint"}))(b)
	in := busy{s, oneIn}
	r := &loop.Runner{
		Ports:   loop.Ports{Cluster: in, Machines: in, Signals: in},
		Intent:  loop.Intent{Pools: pools, Prices: book, DryRun: true, Limit: 20_000e9},
		Memory:  loop.Memory{Nodes: nodes},
		Journal: in,
	}
	for i := range 100 {
		pods := must.Get(podpolicy.New(podpolicy.Spec{Policy: "Joint"}))(b)
		r.Workloads = append(r.Workloads, loop.Scaled(podscaler.Workload{
			Name: fmt.Sprintf("shop/service-%02d", i), Min: 1, Max: 1000, Pod: pricing.Resources{CPU: 500, Memory: pricing.GiB},
			SLO: podscaler.SLO{Quantile: 0.9, Target: 300 * time.Millisecond, Window: time.Minute},
		}, pods))
	}
	return r
}

// BenchmarkJoint100Workloads200Nodes is a step in which 100 workloads learn, forecast, and bid for
// the room of 200 nodes and of what may be bought, at prices by host and under a limit. The joint
// policy plans for them all. Five of them are short of replicas, or fifty, for which thousands of
// pods have to be placed and machines bought until the limit is reached.
func BenchmarkJoint100Workloads200Nodes(b *testing.B) {
	b.Run("5 grow", func(b *testing.B) { decide(b, 20) })
	b.Run("50 grow", func(b *testing.B) { decide(b, 2) })
}

func decide(b *testing.B, oneIn int) {
	now := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	r := crowded(b, now, oneIn)
	var took, cpu []time.Duration
	bought, grown := 0, 0
	once := func() {
		now = now.Add(15 * time.Second)
		began, used := time.Now(), cpuTime()
		step := must.Get(r.Once(b.Context(), now))(b)
		took, cpu = append(took, time.Since(began)), append(cpu, cpuTime()-used)
		bought, grown = count(&step)
	}
	for range 60 { // until the policies have learnt, and their forecasts are judged
		once()
	}
	took, cpu = nil, nil
	for b.Loop() {
		once()
	}
	if grown < 80/oneIn { // the limit leaves nothing for the last few
		b.Fatalf("%d workloads grow: this measures too little", grown)
	}
	report := func(took []time.Duration, percent int, unit string) {
		slices.Sort(took)
		b.ReportMetric(float64(took[(percent*len(took)-1)/100].Microseconds())/1000, unit)
	}
	report(took, 99, "p99-ms")
	if cpuTime() > 0 { // it is not known everywhere
		report(cpu, 50, "p50-cpu-ms")
		report(cpu, 99, "p99-cpu-ms")
	}
	b.ReportMetric(float64(bought), "orders")
}

// count is how many machines a step orders, and how many workloads grow in it.
func count(s *loop.Step) (bought, grown int) {
	for i := range s.Plan.Actions {
		if s.Plan.Actions[i].Kind == nodescaler.Buy {
			bought++
		}
	}
	for i := range s.Workloads {
		if d := s.Workloads[i].Decision; d != nil && d.To > d.From {
			grown++
		}
	}
	return bought, grown
}
