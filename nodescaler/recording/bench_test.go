package recording_test

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/nodescaler/recording"
	"github.com/plimsoll/plimsoll/podscaler"
	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// counted counts what is written.
type counted struct{ n *int64 }

func (c counted) Write(data []byte) (int, error) { *c.n += int64(len(data)); return len(data), nil }
func (counted) Close() error                     { return nil }

// BenchmarkLarge records a cluster of 1,000 nodes, 30,000 pods and 200 workloads, at a step every
// ten seconds. What pods use is measured once a minute, in millicores, and requests with six
// digits, as podscaler/signals has them. Five pods a second are made anew. It reports how much a
// day comes to.
func BenchmarkLarge(b *testing.B) {
	for _, measured := range []bool{false, true} {
		b.Run(fmt.Sprintf("usage=%v", measured), func(b *testing.B) { recordLarge(b, measured) })
	}
}

func recordLarge(b *testing.B, measured bool) {
	rng := rand.New(rand.NewPCG(1, 1))
	o, in := large()
	var written int64
	r := recording.Recorder{Open: func(time.Time) (io.WriteCloser, error) { return counted{&written}, nil }}
	r.Forget(recording.Nothing, nil)
	steps := 0
	for b.Loop() {
		b.StopTimer()
		o.Time = o.Time.Add(10 * time.Second)
		o.Cluster.Pods = slices.Clone(o.Cluster.Pods)
		for range 50 {
			at := rng.IntN(len(o.Cluster.Pods))
			o.Cluster.Pods[at].Created, o.Cluster.Pods[at].Ready = o.Time, !o.Cluster.Pods[at].Ready
		}
		if measured && steps%6 == 0 {
			for i := range o.Cluster.Pods {
				o.Cluster.Pods[i].CPU = podscaler.Sample{Known: true, Value: float64(rng.IntN(1000)) / 1000, At: o.Time, Span: 15 * time.Second}
			}
		}
		for name := range o.Windows {
			o.Windows[name] = loop.Measured{Window: podscaler.Window{
				Latency: measurement(rng), Good: measurement(rng), Arrivals: measurement(rng), InFlight: measurement(rng),
			}}
		}
		s := loop.Step{ID: "d-000001", Time: o.Time}
		for _, w := range in.Workloads {
			s.Workloads = append(s.Workloads, loop.WorkloadStep{Workload: w.Name, Decision: &podscaler.Decision{
				Workload: w.Name, From: 3, To: 3, Reasons: []podscaler.Reason{{Code: "SizedForLoad", Text: fmt.Sprintf("%.1f requests a second need %d replicas", rng.Float64()*100, rng.IntN(9))}},
			}})
		}
		b.StartTimer()
		must.Do(b, r.Append(&o, &in, &s))
		steps++
	}
	b.ReportMetric(float64(written)/float64(steps)*8640/1e6, "MB/day")
}

func measurement(rng *rand.Rand) podscaler.Reading {
	return podscaler.Known(float64(rng.IntN(1e6)) / 1e6)
}

func large() (o loop.Observation, in loop.Intent) {
	o.Time = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	o.Windows, o.Cluster.Replicas = map[string]loop.Measured{}, map[string]int{}
	for i := range 200 {
		w := podscaler.Workload{Name: fmt.Sprintf("team-%02d/service-%03d", i%20, i), Min: 1, Max: 300}
		in.Workloads = append(in.Workloads, loop.Workload{Workload: w, Policy: podpolicy.Spec{Policy: "joint"}})
		o.Windows[w.Name], o.Cluster.Replicas[w.Name] = loop.Measured{}, 150
	}
	slices.SortFunc(in.Workloads, func(a, b loop.Workload) int { return strings.Compare(a.Name, b.Name) })
	for i := range 1000 {
		name := fmt.Sprintf("worker-%04d", i)
		shape := pricing.Shape{Name: "large", CPU: 8000, Memory: 32 * pricing.GiB}
		o.Machines.Machines = append(o.Machines.Machines, nodescaler.Machine{
			Name: name, Order: name, Pool: "worker", Shape: shape, Host: fmt.Sprintf("pve%02d", i%34), Phase: nodescaler.Joined, Created: o.Time, Since: o.Time,
			ProviderID: fmt.Sprintf("proxmox://home/%d", 1000+i),
		})
		labels := map[string]string{"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "topology.kubernetes.io/zone": fmt.Sprintf("pve%02d", i%34)}
		o.Cluster.Nodes = append(o.Cluster.Nodes, nodescaler.Node{
			Name: name, Machine: name, Pool: "worker", Ready: true, Joined: o.Time, Allocatable: shape.Resources(), Labels: maps.Clone(labels),
		})
	}
	for i := range 30_000 {
		w := in.Workloads[i%200].Name
		o.Cluster.Pods = append(o.Cluster.Pods, nodescaler.Pod{
			Workload: w, Node: fmt.Sprintf("worker-%04d", i/30), Requests: pricing.Resources{CPU: 200, Memory: 256 * pricing.MiB}, Created: o.Time,
			Has: []string{"app=" + w}, Tolerations: []nodescaler.Toleration{{Key: "node.kubernetes.io/not-ready", Effect: "NoExecute"}},
			Pod: podscaler.Pod{Name: fmt.Sprintf("%s-7d9f8b6c5-%05d", w, i), Phase: podscaler.Running, Ready: true, Started: o.Time, ReadyChanged: o.Time},
		})
	}
	slices.SortFunc(o.Cluster.Pods, func(a, b nodescaler.Pod) int { return strings.Compare(a.Name, b.Name) })
	return o, in
}
