package demo

import (
	"fmt"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// Setting says in a few lines what the demo consists of.
func Setting() []string {
	list, pool, book := hosts(), pools()[0], prices(1)
	sizes := make([]string, len(pool.Shapes))
	for i, s := range pool.Shapes {
		sizes[i] = s.CPU.Cores()
	}
	lines := []string{fmt.Sprintf("%d Proxmox hosts of %d cores, loaded up to %s; machines of %s vCPU; %s %s per vCPU-hour, %s per GB-hour",
		len(list), cores, list[0].Room.CPU.Cores(), strings.Join(sizes, " and "), book.Unit, book.PerVCPU, book.PerGB)}
	for _, s := range services() {
		line := fmt.Sprintf("%s, %s: p%g within %d ms", s.Name, s.what, 100*s.SLO.Quantile, s.SLO.Target.Milliseconds())
		if s.Cost.Target > 0 {
			line += fmt.Sprintf(", while the cluster costs at most %s %s", book.Unit, s.Cost)
		}
		lines = append(lines, line)
	}
	return append(lines, "pods and machines by policy joint: as many pods as hold the objectives, on the cheapest machines")
}

// A session begins on a Monday at six, when the shop's first visitors wake, so that a few seconds
// of it show the morning, and not a cluster asleep.
const opening = 6 * time.Hour

var start = time.Date(2026, time.June, 1, 0, 0, 0, 0, time.UTC).Add(opening)

// cores is how many each host has.
const cores = 20

// hosts are three machines that keep four of their cores for themselves; the rest may be
// promised to virtual machines.
func hosts() []nodescaler.Host {
	room := pricing.Resources{CPU: (cores - 4) * pricing.Core, Memory: 48 * pricing.GB}
	var list []nodescaler.Host
	for _, name := range []string{"pve1", "pve2", "pve3"} {
		list = append(list, nodescaler.Host{Host: pricing.Host{Name: name, Room: room}, Online: true})
	}
	return list
}

func pools() []nodescaler.Pool {
	return []nodescaler.Pool{{
		Name: "worker", Min: 2, Max: 24,
		Reserved: pricing.Resources{CPU: 250, Memory: 500 * pricing.MB},
		Shapes: []pricing.Shape{
			{Name: "small", CPU: 2 * pricing.Core, Memory: 4 * pricing.GB, Disk: 20 * pricing.GB},
			{Name: "medium", CPU: 4 * pricing.Core, Memory: 8 * pricing.GB, Disk: 20 * pricing.GB},
		},
	}}
}

// prices are a given multiple of these: a full host comes to 0.154 an hour, which is hardware
// of 4000 over five years (0.091) and 200 W at 0.30 a kWh (0.060).
func prices(times pricing.Micros) *pricing.Book {
	return &pricing.Book{Unit: "EUR", PerVCPU: times * 6000, PerGB: times * 1200}
}

// service is a workload with its users.
type service struct {
	podscaler.Workload
	what        string // it is, in a word or two
	replicas    int    // at the start
	unavailable int    // pods that may be evicted at a time
	demand      sim.Demand
	users       users
}

// services are the demo's workloads: a shop whose pages and searches follow its visitors, and the
// reports that an office computes from it at night.
func services() []service {
	list := []service{{
		Workload: workload("shop/web", 3, 60, .9, 300*time.Millisecond, pricing.Resources{CPU: 500, Memory: 512 * pricing.MB}),
		what:     "a web shop's pages", replicas: 8, unavailable: 2,
		demand: sim.Demand{Mean: 55 * time.Millisecond, Spread: .3}, users: visitors(1),
	}, {
		Workload: workload("shop/search", 2, 30, .95, 600*time.Millisecond, pricing.Resources{CPU: 750, Memory: 768 * pricing.MB}),
		what:     "its search", replicas: 2, unavailable: 1,
		demand: sim.Demand{Mean: 120 * time.Millisecond, Spread: .5}, users: visitors(.2),
	}, {
		Workload: workload("office/reports", 1, 20, .9, 5*time.Second, pricing.Resources{CPU: 1000, Memory: pricing.GB}),
		what:     "reports at night", replicas: 1, unavailable: 1,
		demand: sim.Demand{Mean: 900 * time.Millisecond, Spread: .5}, users: clerks,
	}}
	// A cap that the fleet of a usual day stays under. When prices double it does not, and the
	// shop's headroom is given up for it.
	list[0].Cost = podscaler.CostTarget{Target: 420_000, Per: time.Hour, Count: podscaler.CountJoined, Measure: podscaler.MeasureRate}
	return list
}

// workload is one as its autoscaler knows it: its objective is held over any minute.
func workload(name string, least, most int, quantile float64, target time.Duration, pod pricing.Resources) podscaler.Workload {
	return podscaler.Workload{
		Name: name, Min: least, Max: most, Pod: pod, RunPeriod: 10 * time.Second,
		SLO: podscaler.SLO{Quantile: quantile, Target: target, Window: time.Minute},
	}
}

// simulated is the service in a world, to which requests come at a rate.
func (s *service) simulated(rate sim.Curve) sim.Workload {
	return sim.Workload{
		Name: s.Name, Replicas: s.replicas, Requests: s.Pod, Quota: s.Pod.CPU, Concurrency: 64,
		Demand: s.demand, Balance: sim.LeastOfTwo, Unavailable: s.unavailable, Grace: 20 * time.Second,
		Load: s.users.load(rate), Window: s.SLO.Window, LatencyGoal: s.SLO.Target, GoalQuantile: s.SLO.Quantile,
	}
}

// world is the cluster before anyone uses it.
func world(seed uint64) sim.Config {
	seconds := func(from, to int) timing.Range {
		return timing.Range{Min: time.Duration(from) * time.Second, Max: time.Duration(to) * time.Second}
	}
	return sim.Config{
		Seed: seed, Start: start, Tick: 10 * time.Second, Wake: true, MetricsEvery: 15 * time.Second,
		Hosts: hosts(), Pools: pools(), Initial: map[string]int{"worker": 4}, Prices: prices(1),
		// A full clone on local SSDs, a cloud image's boot, and the kubelet's registration; the
		// storage takes two clones at a time.
		Delays: sim.Delays{
			Machine:  timing.Machine{Clone: seconds(12, 25), Boot: seconds(40, 70), Delete: seconds(5, 12)},
			PodStart: seconds(2, 6),
		},
		Clones: 2,
	}
}
