package costs

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/golden"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// aCluster is two machines on one host, one of them with nothing on it, one on another that is no
// node yet, and a control plane that is no machine of ours.
func aCluster() *nodescaler.Snapshot {
	book := &pricing.Book{Unit: "EUR", PerVCPU: 10_000, PerGiB: 2_500, PerHost: 12_000}
	shape := pricing.Shape{Name: "small", CPU: 4000, Memory: 8 * pricing.GiB}
	pool := nodescaler.Pool{Name: "workers", Shapes: []pricing.Shape{shape}, Max: 5}
	s := &nodescaler.Snapshot{Now: noon, Prices: book, Pools: []nodescaler.Pool{{Name: "spot", Max: 2}, pool}}
	for i, host := range []string{"pve1", "pve1", "pve2"} {
		name := fmt.Sprint("w-", i+1)
		m := nodescaler.Machine{Name: name, ProviderID: "proxmox://home/10" + fmt.Sprint(i), Pool: "workers", Shape: shape, Host: host, Phase: nodescaler.Joined}
		if i == 2 {
			m.Phase = nodescaler.Booting
		} else {
			s.Nodes = append(s.Nodes, nodescaler.Node{
				Name: name, Machine: name, Pool: "workers", Ready: true, Allocatable: pricing.Resources{CPU: 3000, Memory: 6 * pricing.GiB},
				Labels: map[string]string{"kubernetes.io/arch": "amd64", "topology.kubernetes.io/region": "home"},
			})
		}
		s.Machines = append(s.Machines, m)
	}
	s.Nodes = append(s.Nodes, nodescaler.Node{Name: "cp", Ready: true, Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}})
	pod := func(name, workload, node string, cpu pricing.MilliCPU, gib pricing.Bytes) {
		s.Pods = append(s.Pods, nodescaler.Pod{
			Pod: podscaler.Pod{Name: name, Phase: podscaler.Running}, Workload: workload, Node: node,
			Requests: pricing.Resources{CPU: cpu, Memory: gib * pricing.GiB},
		})
	}
	pod("shop/web-1", "shop/web", "w-1", 2000, 1)
	pod("shop/debug", "", "w-1", 500, 1)
	pod("kube-system/etcd", "kube-system/Node/cp", "cp", 100, 1)
	pod("shop/web-2", "shop/web", "", 1000, 1)
	return s
}

func served(t *testing.T, e *Exporter) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(e)
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatal(w.Body.String())
	}
	return w.Body.String()
}

func TestWhatIsServed(t *testing.T) {
	e := NewExporter()
	e.See(aCluster())
	golden.Compare(t, "testdata/metrics.txt", served(t, e))
}

// TestHourlyMeansHourly holds OpenCost's series to each other and to the price book: cores and GiB
// at their prices are the node, and nothing is divided by the hours of a month.
func TestHourlyMeansHourly(t *testing.T) {
	s := aCluster()
	s.Prices.PerHost = 0
	holdsHourly(t, s, "0.01", "0.0025", "0.06")
	s.Prices.PerMachine = 30_000 // by half as much again
	holdsHourly(t, s, "0.015", "0.00375", "0.09")
}

// holdsHourly looks at what is served of w-1 for a core, a GiB and the node.
func holdsHourly(t *testing.T, s *nodescaler.Snapshot, cpu, ram, total string) {
	t.Helper()
	e := NewExporter()
	e.See(s)
	text := served(t, e)
	for _, want := range []string{
		`node_cpu_hourly_cost{arch="amd64",instance="w-1",instance_type="small",node="w-1",provider_id="proxmox://home/100",region="home"} ` + cpu,
		`node_ram_hourly_cost{arch="amd64",instance="w-1",instance_type="small",node="w-1",provider_id="proxmox://home/100",region="home"} ` + ram,
		`node_total_hourly_cost{arch="amd64",instance="w-1",instance_type="small",node="w-1",provider_id="proxmox://home/100",region="home"} ` + total,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("there is no %s", want)
		}
	}
}

func TestWhatIsUnknownIsSaidAndNotServed(t *testing.T) {
	e := NewExporter()
	unknown := func(when string) {
		t.Helper()
		var lines []string
		for line := range strings.Lines(served(t, e)) {
			if !strings.HasPrefix(line, "#") {
				lines = append(lines, line)
			}
		}
		if diff := cmp.Diff([]string{"plimsoll_cost_known 0\n"}, lines); diff != "" {
			t.Errorf("%s: %s", when, diff)
		}
	}
	unknown("at first")
	e.See(aCluster())
	if text := served(t, e); !strings.Contains(text, "plimsoll_cost_known 1\n") {
		t.Error(text)
	}
	e.Unknown()
	unknown("when nothing is seen")
	dear := aCluster()
	dear.Prices.PerVCPU = 1 << 62
	e.See(dear)
	unknown("when prices cannot be added up")
}

func TestSeriesAreBounded(t *testing.T) {
	s := aCluster()
	for i := range 2 * MaxLines {
		s.Pods = append(s.Pods, nodescaler.Pod{
			Pod: podscaler.Pod{Name: fmt.Sprintf("n%d/p", i)}, Workload: fmt.Sprintf("n%d/w", i), Node: "w-2",
			Requests: pricing.Resources{CPU: pricing.MilliCPU(1 + i%7)},
		})
	}
	e := NewExporter()
	e.See(s)
	text := served(t, e)
	// web, bare pods, nobody's and etcd, which has no price, are there besides.
	for _, by := range []string{"namespace", "workload"} {
		if n := strings.Count(text, "\nplimsoll_"+by+"_avoidable_cost_per_hour{"); n < MaxLines-2 || n > MaxLines {
			t.Errorf("%d series by %s", n, by)
		}
	}
	c, sum := e.Costs(), 0.0
	for line := range strings.Lines(text) {
		var v float64
		if name, rest, _ := strings.Cut(line, "{"); name == "plimsoll_workload_cost_per_hour" {
			must.Get(fmt.Sscan(rest[strings.Index(rest, "} ")+2:], &v))(t)
			sum += v
		}
	}
	if diff := sum - c.Total.Cost.Units(); diff > 1e-9 || diff < -1e-9 {
		t.Errorf("the series add up to %v of %v", sum, c.Total.Cost.Units())
	}
}

func TestTwoMachinesThatClaimOneNodeAreTwoLines(t *testing.T) {
	s := aCluster()
	s.Nodes[1].Name = "w-2-renamed"
	s.Machines = append(s.Machines, s.Machines[0])
	s.Machines[3].Name = "w-2-renamed"
	c, err := Of(s)
	if err != nil || len(c.Nodes) != 4 {
		t.Fatalf("%d nodes, %v", len(c.Nodes), err)
	}
	e := NewExporter()
	e.See(s)
	served(t, e)
}
