package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/journals"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/nodescaler/recording"
	"github.com/plimsoll/plimsoll/podscaler"
	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/sim"
	"github.com/plimsoll/plimsoll/testbed/whatif"
)

// record writes a recording of so many minutes, at a step a minute, in which pods of an HPA use
// more and more CPU: record folder 30. Its segments last ten minutes.
func record(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: record folder minutes")
	}
	minutes, err := strconv.Atoi(args[1])
	ts.Check(err)
	folder, err := journals.OpenRecording(ts.MkAbs(args[0]), 1<<20)
	ts.Check(err)
	recorder := recording.Recorder{Open: folder.Open}
	nodes := nodepolicy.Spec{Policy: "unneeded"}
	policy, err := nodepolicy.New(nodes)
	ts.Check(err)
	recorder.Forget(recording.Nothing, &nodes)
	m := loop.Memory{Nodes: policy}
	in := loop.Intent{
		Prices: pricing.DefaultBook(),
		Pools:  []nodescaler.Pool{{Name: "worker", Max: 4, Shapes: []pricing.Shape{{Name: "small", CPU: 2000, Memory: 4 * pricing.GiB}}}},
		Workloads: []loop.Workload{{
			Workload: podscaler.Workload{Name: "shop/web", Min: 1, Max: 9, Pod: pricing.Resources{CPU: 500, Memory: pricing.GiB}},
			Policy:   podpolicy.Spec{Policy: "hpa"},
		}},
	}
	pods := 2
	for i := range minutes {
		now := time.Date(2026, 3, 2, 8, i, 0, 0, time.UTC)
		o := burdened(now, pods, .1+float64(i)/100)
		o.Windows = map[string]loop.Measured{"shop/web": {}}
		s := loop.Decide(&o, &in, &m)
		m.Learn(&s)
		ts.Check(recorder.Append(&o, &in, &s))
		for _, w := range s.Workloads {
			if w.Decision != nil {
				pods = min(w.Decision.To, 4)
			}
		}
	}
	ts.Check(recorder.Close())
}

// recordDay writes a recording of so many minutes of a simulated shop: record-day folder 60.
func recordDay(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: record-day folder minutes")
	}
	minutes, err := strconv.Atoi(args[1])
	ts.Check(err)
	ts.Check(recordShop(ts.MkAbs(args[0]), time.Duration(minutes)*time.Minute))
}

// recordShop writes a recording of a simulated shop.
func recordShop(path string, length time.Duration) error {
	folder, err := journals.OpenRecording(path, 1<<24)
	if err != nil {
		return err
	}
	pod := pricing.Resources{CPU: 500, Memory: 512 * pricing.MB}
	pools := []nodescaler.Pool{{Name: "worker", Min: 1, Max: 9, Shapes: []pricing.Shape{{Name: "small", CPU: 2000, Memory: 4 * pricing.GB}}}}
	c := whatif.Case{
		Length: length, Nodes: &nodepolicy.Spec{Policy: "joint"},
		World: sim.Config{
			Seed: 1, Start: time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC), Tick: 10 * time.Second, MetricsEvery: 15 * time.Second,
			Hosts: []nodescaler.Host{{Host: pricing.Host{Name: "pve1", Room: pricing.Resources{CPU: 32000, Memory: 64 * pricing.GB}}, Online: true}},
			Pools: pools, Initial: map[string]int{"worker": 2},
			Workloads: []sim.Workload{{
				Name: "shop/web", Replicas: 4, Requests: pod, Quota: pod.CPU, Concurrency: 64, Balance: sim.LeastOfTwo,
				Demand: sim.Demand{Mean: 60 * time.Millisecond}, Load: sim.Load{Kind: sim.Open, Level: sim.Flat(20)},
			}},
		},
		Intent: loop.Intent{Pools: pools, Workloads: []loop.Workload{{
			Workload: podscaler.Workload{
				Name: "shop/web", Min: 1, Max: 20, Pod: pod, RunPeriod: 10 * time.Second,
				SLO: podscaler.SLO{Quantile: .9, Target: 300 * time.Millisecond, Window: time.Minute},
			},
			Policy: podpolicy.Spec{Policy: "joint"},
		}}},
	}
	recorder := recording.Recorder{Open: folder.Open}
	recorder.Forget(recording.Nothing, c.Nodes)
	_, err = c.Run(context.Background(), recorder.Append)
	return errors.Join(err, recorder.Close())
}

// burdened is a cluster of a node with pods that use so many cores each.
func burdened(now time.Time, pods int, cores float64) loop.Observation {
	o := loop.Observation{Time: now}
	o.Machines.Hosts = []nodescaler.Host{{Host: pricing.Host{Name: "pve1", Room: pricing.Resources{CPU: 8000, Memory: 16 * pricing.GiB}}, Online: true}}
	o.Cluster.Nodes = []nodescaler.Node{{Name: "n", Ready: true, Allocatable: pricing.Resources{CPU: 4000, Memory: 8 * pricing.GiB}}}
	o.Cluster.Replicas = map[string]int{"shop/web": pods}
	for i := range pods {
		o.Cluster.Pods = append(o.Cluster.Pods, nodescaler.Pod{
			Workload: "shop/web", Node: "n", Requests: pricing.Resources{CPU: 500, Memory: pricing.GiB},
			Pod: podscaler.Pod{
				Name: fmt.Sprintf("shop/web-%d", i), Phase: podscaler.Running, Ready: true, Started: now.Add(-time.Hour), ReadyChanged: now.Add(-time.Hour),
				CPU: podscaler.Sample{Known: true, Value: cores, At: now, Span: 30 * time.Second},
			},
		})
	}
	return o
}
