package demo

import (
	"fmt"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/podscaler"
	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// Shop is the workload of the demo.
const Shop = "shop/web"

// Setting says in a few lines what the demo consists of.
func Setting() []string {
	list, pool, book, shop := hosts(), pools()[0], prices(1), shop()
	sizes := make([]string, len(pool.Shapes))
	for i, s := range pool.Shapes {
		sizes[i] = s.CPU.Cores()
	}
	return []string{
		fmt.Sprintf("%d Proxmox hosts of %d cores, loaded up to %s; machines of %s vCPU; %s %s per vCPU-hour, %s per GB-hour",
			len(list), cores, list[0].Room.CPU.Cores(), strings.Join(sizes, " and "), book.Unit, book.PerVCPU, book.PerGB),
		fmt.Sprintf("%s promises p%g of %d ms over %s, and should cost no more than %s %s",
			shop.Name, 100*objective.Quantile, objective.Target.Milliseconds(), pricing.Short(objective.Window), book.Unit, shop.Cost),
		"pods and machines by policy joint: as many pods as hold the objective, on the cheapest machines",
	}
}

// A session begins on a Monday at six, when the shop's first visitors wake: whoever watches for
// a few seconds only is to see the morning, and not a cluster asleep.
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
		Name: "worker", Min: 2, Max: 20,
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

// pod is what a pod of the shop asks for, and may use.
var pod = pricing.Resources{CPU: 500, Memory: 512 * pricing.MB}

// objective is what the shop promises: nine of ten answers within 300 ms, in any minute.
var objective = podscaler.SLO{Quantile: .9, Target: 300 * time.Millisecond, Window: time.Minute}

// shop is the workload as its autoscaler knows it. The cost target is a cap that the fleet of a
// usual day stays under; when prices double it does not, and headroom is given up for it.
func shop() podscaler.Workload {
	return podscaler.Workload{
		Name: Shop, Min: 3, Max: 60, SLO: objective, Pod: pod,
		RunPeriod: 10 * time.Second,
		Cost:      podscaler.CostTarget{Target: 280_000, Per: time.Hour, Count: podscaler.CountJoined, Measure: podscaler.MeasureRate},
	}
}

func podPolicy() (podscaler.Policy, error) {
	return podpolicy.New(podpolicy.Spec{Policy: "joint"})
}

func nodePolicy() (nodescaler.Policy, error) {
	return nodepolicy.New(nodepolicy.Spec{Policy: "joint"})
}

// world is the cluster with its users.
func world(seed uint64, users sim.Curve) sim.Config {
	seconds := func(from, to int) timing.Range {
		return timing.Range{Min: time.Duration(from) * time.Second, Max: time.Duration(to) * time.Second}
	}
	return sim.Config{
		Seed: seed, Start: start, Tick: 10 * time.Second, Wake: true, MetricsEvery: 15 * time.Second,
		Hosts: hosts(), Pools: pools(), Initial: map[string]int{"worker": 3}, Prices: prices(1),
		// A full clone on local SSDs, a cloud image's boot, and the kubelet's registration; the
		// storage takes two clones at a time.
		Delays: sim.Delays{
			Machine:  timing.Machine{Clone: seconds(12, 25), Boot: seconds(40, 70), Delete: seconds(5, 12)},
			PodStart: seconds(2, 6),
		},
		Clones: 2,
		Workloads: []sim.Workload{{
			Name: Shop, Replicas: 9, Requests: pod, Quota: pod.CPU, Concurrency: 64,
			Demand:  sim.Demand{Mean: 55 * time.Millisecond, Spread: .3},
			Balance: sim.LeastOfTwo, Unavailable: 2, Grace: 20 * time.Second,
			Load:   sim.Load{Kind: sim.Sleep, Level: users, Think: time.Second, Spread: time.Second},
			Window: objective.Window, LatencyGoal: objective.Target, GoalQuantile: objective.Quantile,
		}},
	}
}
