package packing

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/plimsoll/plimsoll/pricing"
)

// mix is a population of pods: how many and of which sizes.
type mix struct {
	name string
	pods func(r *rand.Rand, n int) []Item
}

// mixes are the populations that the benchmarks pack. Sizes are those that people write
// into manifests, but for the last two.
var mixes = []mix{
	{"services", func(r *rand.Rand, n int) []Item {
		return draw(r, n, []pricing.MilliCPU{50, 100, 200, 250, 500, 1000}, []pricing.Bytes{64, 128, 256, 512, 1024})
	}},
	{"mixed", func(r *rand.Rand, n int) []Item {
		return draw(r, n, []pricing.MilliCPU{100, 250, 500, 1000, 2000, 4000}, []pricing.Bytes{128, 256, 512, 1024, 2048, 4096, 8192, 16384})
	}},
	{"chunky", func(r *rand.Rand, n int) []Item {
		return draw(r, n, []pricing.MilliCPU{1500, 2000, 3000, 5000, 6000, 7000}, []pricing.Bytes{3000, 5000, 7000, 9000, 12000})
	}},
	{"fewkinds", func(r *rand.Rand, n int) []Item {
		return draw(r, n, []pricing.MilliCPU{700, 1300}, []pricing.Bytes{900, 2500})
	}},
	{"memory", func(r *rand.Rand, n int) []Item {
		return draw(r, n, []pricing.MilliCPU{50, 100, 250, 500}, []pricing.Bytes{1024, 2048, 3072, 6144, 12288})
	}},
	{"measured", func(r *rand.Rand, n int) []Item { return measured(r, n, 400) }},
	{"alldifferent", func(r *rand.Rand, n int) []Item { return measured(r, n, n) }},
}

// measured makes n pods of so many workloads whose requests were set by what they use.
func measured(r *rand.Rand, n, workloads int) []Item {
	requests := make([]pricing.Resources, workloads)
	for i := range requests {
		c := 50 * math.Exp(r.Float64()*math.Log(80))
		memory := c * math.Exp(r.NormFloat64()*0.8) * 2e6
		requests[i] = pricing.Resources{CPU: pricing.MilliCPU(c), Memory: pricing.Bytes(memory)}
	}
	items := make([]Item, n)
	for i := range items {
		items[i] = Item{Name: fmt.Sprintf("pod-%05d", i), Requests: requests[i%workloads]}
	}
	return items
}

// draw makes n pods; small ones are the more frequent.
func draw(r *rand.Rand, n int, cpus []pricing.MilliCPU, mib []pricing.Bytes) []Item {
	pick := func(n int) int { return min(r.IntN(n), r.IntN(n)) }
	items := make([]Item, n)
	for i := range items {
		items[i] = Item{Name: fmt.Sprintf("pod-%05d", i), Requests: pricing.Resources{CPU: cpus[pick(len(cpus))], Memory: mib[pick(len(mib))] * pricing.MiB}}
	}
	return items
}

// shapes20 is twenty shapes: five sizes in four ratios of memory to CPU.
func shapes20() []pricing.Shape {
	var shapes []pricing.Shape
	for _, cores := range []pricing.MilliCPU{2, 4, 8, 16, 32} {
		for _, ratio := range []pricing.Bytes{1, 2, 4, 8} {
			gib := pricing.Bytes(cores) * ratio
			shapes = append(shapes, pricing.Shape{Name: fmt.Sprintf("c%dm%d", cores, gib), CPU: cores * pricing.Core, Memory: gib * pricing.GiB})
		}
	}
	return shapes
}

// offersOf is every shape on every host, less what the system takes of each machine.
func offersOf(hosts int, shapes []pricing.Shape) []Offer {
	const perMilliCPU, perGB = 20_000, 3_000_000 // 0.02 and 0.003 units an hour for a vCPU and a GB
	var offers []Offer
	for h := range hosts {
		for _, s := range shapes {
			offers = append(offers, Offer{
				Pool: "workers", Shape: s, Host: fmt.Sprintf("pve%d", h+1), Slots: 110,
				Rate: pricing.Rate(s.CPU)*perMilliCPU + pricing.Rate(s.Memory)*perGB/1e9,
				Free: s.Resources().Minus(pricing.Resources{CPU: 200, Memory: 600 * pricing.MiB}),
			})
		}
	}
	return offers
}

// benchmarkProblem is pods of a population, twenty shapes on hosts with so much room each.
func benchmarkProblem(mx mix, pods, hosts int, room pricing.Resources) Problem {
	r := rand.New(rand.NewPCG(1, 2))
	p := Problem{Items: mx.pods(r, pods), Offers: offersOf(hosts, shapes20()), Hosts: map[string]pricing.Resources{}, Limits: map[string]int{"workers": pods}}
	for h := range hosts {
		p.Hosts[fmt.Sprintf("pve%d", h+1)] = room
	}
	return p
}

// modest is a problem with a few shapes on two hosts and up to three nodes with room.
func modest(mx mix, seed uint64, pods int) Problem {
	r := rand.New(rand.NewPCG(seed, 2))
	all := shapes20()
	shapes := []pricing.Shape{all[11]}
	for range 2 + r.IntN(6) {
		shapes = append(shapes, all[r.IntN(16)])
	}
	p := Problem{Items: mx.pods(r, pods), Offers: offersOf(2, shapes), Hosts: map[string]pricing.Resources{}, Limits: map[string]int{"workers": pods}}
	for _, host := range []string{"pve1", "pve2"} {
		p.Hosts[host] = pricing.Resources{CPU: 1e6, Memory: 4 * pricing.TiB}
	}
	for i := range r.IntN(4) {
		p.Bins = append(p.Bins, Bin{
			Name: fmt.Sprintf("node-%d", i), Slots: 100,
			Free: pricing.Resources{CPU: pricing.MilliCPU(r.IntN(8000)), Memory: pricing.Bytes(r.IntN(16)) * pricing.GiB},
		})
	}
	return p
}

func BenchmarkSolve10kPods20Shapes(b *testing.B) {
	for _, mx := range mixes {
		b.Run(mx.name, func(b *testing.B) {
			benchmark(b, benchmarkProblem(mx, 10000, 6, pricing.Resources{CPU: 1e9, Memory: 1e15}))
		})
	}
	b.Run("fullhosts", func(b *testing.B) {
		benchmark(b, benchmarkProblem(mixes[1], 10000, 20, pricing.Resources{CPU: 430e3, Memory: 1200 * pricing.GiB}))
	})
}

func BenchmarkSolve500PendingOn1000Nodes(b *testing.B) {
	for _, c := range []struct {
		name string
		room int // percent
	}{{"room", 15}, {"tight", 3}, {"full", 0}} {
		for _, mx := range mixes {
			b.Run(c.name+"/"+mx.name, func(b *testing.B) {
				benchmark(b, busyProblem(mx, 500, 1000, c.room))
			})
		}
	}
}

// busyProblem is some pending pods and many nodes with up to the given percentage of room.
func busyProblem(mx mix, pods, nodes, room int) Problem {
	p := benchmarkProblem(mx, pods, 4, pricing.Resources{CPU: 1e6, Memory: 4 * pricing.TiB})
	r := rand.New(rand.NewPCG(3, 4))
	for i := range nodes {
		p.Bins = append(p.Bins, Bin{
			Name:  fmt.Sprintf("node-%04d", i),
			Slots: 80,
			Free:  pricing.Resources{CPU: pricing.MilliCPU(r.IntN(16*10*room + 1)), Memory: pricing.Bytes(r.IntN(64*room+1)) * pricing.GiB / 100},
		})
	}
	return p
}

func benchmark(b *testing.B, p Problem) {
	var r Result
	for b.Loop() {
		r = Solve(p)
	}
	gap := 0.0
	if r.Rate > 0 {
		gap = 100 * (float64(r.Rate)/float64(r.LowerBound) - 1)
	}
	unplaced := 0
	for _, pl := range r.Placements {
		if pl.Bin == "" && pl.Purchase < 0 {
			unplaced++
		}
	}
	b.ReportMetric(gap, "gap%")
	b.ReportMetric(float64(len(r.Purchases)), "machines")
	b.ReportMetric(float64(unplaced), "unplaced")
}
