package allocation_test

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/allocation"
	"github.com/plimsoll/plimsoll/testbed/must"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

// node is one of 4 vCPU and 8 GiB, of which pods may have 3 and 6, for 40 + 80 Rate.
func node(name, host string) allocation.Node {
	return allocation.Node{
		Name: name, Pool: "workers", Host: host, Size: size(4000, 8), Allocatable: size(3000, 6),
		Price: &allocation.Price{Parts: pricing.Parts{CPU: 40, Memory: 80}, Saving: pricing.Saving{Alone: 120}},
	}
}

func size(cpu pricing.MilliCPU, gib int64) pricing.Resources {
	return pricing.Resources{CPU: cpu, Memory: pricing.Bytes(gib) * pricing.GiB}
}

func pod(name, node string, takes pricing.Resources) allocation.Pod {
	workload, _, _ := strings.Cut(name, "-")
	return allocation.Pod{Name: name, Namespace: "shop", Workload: "shop/" + workload, Node: node, Takes: takes}
}

// table prints a bill, a line a line: cost = allocated + idle + system (avoidable).
func table(b *allocation.Bill) string {
	var t strings.Builder
	print := func(kind string, l allocation.Line) {
		fmt.Fprintf(&t, "%s %s: %d = %d + %d + %d (%d)", kind, l.Name, l.Cost, l.Allocated, l.Idle, l.System, l.Avoidable)
		if l.Unpriced > 0 {
			fmt.Fprintf(&t, " and %d unpriced", l.Unpriced)
		}
		t.WriteByte('\n')
	}
	print("total", b.Total)
	for _, l := range b.Nodes {
		print("node", l.Line)
	}
	for _, kind := range []struct {
		name  string
		lines []allocation.Line
	}{{"pool", b.Pools}, {"namespace", b.Namespaces}, {"workload", b.Workloads}} {
		for _, l := range kind.lines {
			print(kind.name, l)
		}
	}
	for _, u := range b.Unpriced {
		fmt.Fprintf(&t, "unpriced %s: %s, %d pods\n", u.Node, u.Why, u.Pods)
	}
	return t.String()
}

func TestBill(t *testing.T) {
	spare := func(n allocation.Node) allocation.Node { n.Spare = true; return n }
	shared := func(n allocation.Node) allocation.Node {
		n.Price.Saving = pricing.Saving{Alone: 20, WithHost: 90}
		return n
	}
	for name, c := range map[string]struct {
		fleet allocation.Fleet
		want  string
	}{
		"pods pay for what they take, CPU and memory each at its price": {
			allocation.Fleet{
				Nodes: []allocation.Node{node("a", "")},
				Pods:  []allocation.Pod{pod("web-1", "a", size(2000, 1)), pod("db-1", "a", size(500, 4))},
			}, `
total : 120 = 75 + 15 + 30 (0)
node a: 120 = 75 + 15 + 30 (0)
pool workers: 120 = 75 + 15 + 30 (0)
namespace shop: 120 = 75 + 15 + 30 (0)
workload shop/db: 72 = 45 + 9 + 18 (0)
workload shop/web: 48 = 30 + 6 + 12 (0)
`},
		"a node without pods is all idle": {
			allocation.Fleet{Nodes: []allocation.Node{node("a", "")}}, `
total : 120 = 0 + 90 + 30 (0)
node a: 120 = 0 + 90 + 30 (0)
pool workers: 120 = 0 + 90 + 30 (0)
namespace : 120 = 0 + 90 + 30 (0)
workload : 120 = 0 + 90 + 30 (0)
`},
		"a pod that takes nothing pays nothing": {
			allocation.Fleet{Nodes: []allocation.Node{node("a", "")}, Pods: []allocation.Pod{pod("web-1", "a", size(0, 0))}}, `
total : 120 = 0 + 90 + 30 (0)
node a: 120 = 0 + 90 + 30 (0)
pool workers: 120 = 0 + 90 + 30 (0)
namespace : 120 = 0 + 90 + 30 (0)
namespace shop: 0 = 0 + 0 + 0 (0)
workload : 120 = 0 + 90 + 30 (0)
workload shop/web: 0 = 0 + 0 + 0 (0)
`},
		"pods that take more than there is pay for the whole": {
			allocation.Fleet{
				Nodes: []allocation.Node{node("a", "")},
				Pods:  []allocation.Pod{pod("web-1", "a", size(6000, 0)), pod("db-1", "a", size(2000, 7))},
			}, `
total : 120 = 110 + 0 + 10 (0)
node a: 120 = 110 + 0 + 10 (0)
pool workers: 120 = 110 + 0 + 10 (0)
namespace shop: 120 = 110 + 0 + 10 (0)
workload shop/db: 87 = 80 + 0 + 7 (0)
workload shop/web: 33 = 30 + 0 + 3 (0)
`},
		"a host's fixed part is shared by price, and saved with the last machine only": {
			allocation.Fleet{
				Nodes: []allocation.Node{
					spare(node("a", "pve1")), node("b", "pve1"), spare(node("c", "pve2")), spare(node("d", "pve2")),
				},
				Hosts: map[string]pricing.Rate{"pve1": 120, "pve2": 240, "pve3": 1000},
			}, `
total : 840 = 0 + 630 + 210 (600)
node a: 180 = 0 + 135 + 45 (120)
node b: 180 = 0 + 135 + 45 (0)
node c: 240 = 0 + 180 + 60 (240)
node d: 240 = 0 + 180 + 60 (240)
pool workers: 840 = 0 + 630 + 210 (600)
namespace : 840 = 0 + 630 + 210 (0)
workload : 840 = 0 + 630 + 210 (0)
`},
		"a workload saves what could be saved besides if it were gone": {
			allocation.Fleet{
				Nodes: []allocation.Node{spare(node("a", "pve1")), node("b", "pve1"), node("c", "pve2")},
				Pods:  []allocation.Pod{pod("web-1", "b", size(3000, 6)), pod("db-1", "c", size(3000, 6))},
				Hosts: map[string]pricing.Rate{"pve1": 120}, Workloads: map[string][]string{"shop/web": {"b"}, "shop/db": {"a"}},
				Namespaces: map[string][]string{"shop": {"b", "c"}},
			}, `
total : 480 = 225 + 135 + 120 (120)
node a: 180 = 0 + 135 + 45 (120)
node b: 180 = 135 + 0 + 45 (0)
node c: 120 = 90 + 0 + 30 (0)
pool workers: 480 = 225 + 135 + 120 (120)
namespace : 180 = 0 + 135 + 45 (0)
namespace shop: 300 = 225 + 0 + 75 (360)
workload : 180 = 0 + 135 + 45 (0)
workload shop/db: 120 = 90 + 0 + 30 (0)
workload shop/web: 180 = 135 + 0 + 45 (240)
`},
		"of a share of what a host draws, nothing is saved before the host": {
			allocation.Fleet{
				Nodes: []allocation.Node{spare(shared(node("a", "pve1"))), shared(node("b", "pve1")), spare(shared(node("c", "pve2"))), spare(shared(node("d", "")))},
			}, `
total : 480 = 0 + 360 + 120 (150)
node a: 120 = 0 + 90 + 30 (20)
node b: 120 = 0 + 90 + 30 (0)
node c: 120 = 0 + 90 + 30 (110)
node d: 120 = 0 + 90 + 30 (20)
pool workers: 480 = 0 + 360 + 120 (150)
namespace : 480 = 0 + 360 + 120 (0)
workload : 480 = 0 + 360 + 120 (0)
`},
		"what has no price is named and not counted": {
			allocation.Fleet{
				Nodes: []allocation.Node{
					node("a", "pve1"), {Name: "cp", Host: "pve1", Size: size(2000, 4), Unpriced: "not a machine of ours", Spare: true},
				},
				Pods: []allocation.Pod{pod("web-1", "a", size(3000, 6)), pod("web-2", "cp", size(500, 1)), pod("db-1", "cp", size(500, 1)), pod("db-2", "gone", size(500, 1))},
			}, `
total : 120 = 90 + 0 + 30 (0) and 2 unpriced
node a: 120 = 90 + 0 + 30 (0)
pool workers: 120 = 90 + 0 + 30 (0)
namespace shop: 120 = 90 + 0 + 30 (0) and 2 unpriced
workload shop/db: 0 = 0 + 0 + 0 (0) and 1 unpriced
workload shop/web: 120 = 90 + 0 + 30 (0) and 1 unpriced
unpriced cp: not a machine of ours, 2 pods
`},
	} {
		t.Run(name, func(t *testing.T) {
			b := must.Get(c.fleet.Bill())(t)
			if diff := cmp.Diff(strings.TrimPrefix(c.want, "\n"), table(b)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPricesTooLargeToAddUpAreRefused(t *testing.T) {
	n := node("a", "")
	n.Price = &allocation.Price{Parts: pricing.Parts{CPU: math.MaxInt64}}
	for _, f := range []allocation.Fleet{
		{Nodes: []allocation.Node{n}},
		{Nodes: []allocation.Node{n, node("b", "")}},
		{Hosts: map[string]pricing.Rate{"x": math.MaxInt64 - 1, "y": 2}},
	} {
		if _, err := f.Bill(); !errors.Is(err, allocation.ErrTooDear) {
			t.Errorf("got %v", err)
		}
	}
}

func TestStraysAreCounted(t *testing.T) {
	f := allocation.Fleet{Nodes: []allocation.Node{node("a", "")}, Pods: []allocation.Pod{pod("web-1", "b", size(1, 1))}}
	b, err := f.Bill()
	if err != nil || b.Strays != 1 || b.Total.Allocated != 0 {
		t.Errorf("%d strays, %+v, %v", b.Strays, b.Total, err)
	}
}

// drawFleet draws a fleet in which anything is possible but prices below nothing.
func drawFleet(t *rapid.T) allocation.Fleet {
	f := allocation.Fleet{Hosts: map[string]pricing.Rate{}, Namespaces: map[string][]string{}, Workloads: map[string][]string{}}
	amount := func(name string, most int64) int64 { return rapid.Int64Range(0, most).Draw(t, name) }
	resources := func(name string) pricing.Resources {
		return pricing.Resources{CPU: pricing.MilliCPU(amount(name, 8000)), Memory: pricing.Bytes(amount(name, 1<<36))}
	}
	for _, host := range []string{"pve1", "pve2"} {
		f.Hosts[host] = pricing.Rate(amount("fixed", 1e9))
	}
	names := []string{"elsewhere"}
	for i := range rapid.IntRange(0, 6).Draw(t, "nodes") {
		n := allocation.Node{
			Name: fmt.Sprint("n", i), Pool: rapid.SampledFrom([]string{"", "p", "q"}).Draw(t, "pool"),
			Host: rapid.SampledFrom([]string{"", "pve1", "pve2"}).Draw(t, "host"),
			Size: resources("size"), Allocatable: resources("allocatable"), Spare: rapid.Bool().Draw(t, "spare"),
		}
		if rapid.IntRange(0, 4).Draw(t, "priced") > 0 {
			n.Price = &allocation.Price{Parts: pricing.Parts{CPU: pricing.Rate(amount("cpu", 1e10)), Memory: pricing.Rate(amount("memory", 1e10))}}
			n.Price.Alone = pricing.Rate(amount("alone", int64(n.Price.Sum())))
			n.Price.WithHost = pricing.Rate(amount("with host", int64(n.Price.Sum()-n.Price.Alone)))
		}
		f.Nodes, names = append(f.Nodes, n), append(names, n.Name)
	}
	for i := range rapid.IntRange(0, 12).Draw(t, "pods") {
		namespace := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "namespace")
		f.Pods = append(f.Pods, allocation.Pod{
			Name: fmt.Sprint("p", i), Namespace: namespace, Workload: namespace + "/" + rapid.SampledFrom([]string{"x", "y"}).Draw(t, "workload"),
			Node: rapid.SampledFrom(names).Draw(t, "on"), Takes: resources("takes"),
		})
	}
	f.Namespaces["a"] = rapid.SliceOf(rapid.SampledFrom(names)).Draw(t, "freed")
	f.Workloads["a/x"] = rapid.SliceOf(rapid.SampledFrom(names)).Draw(t, "freed")
	return f
}

func mustBill(t *rapid.T, f allocation.Fleet) *allocation.Bill {
	return must.Get(f.Bill())(t)
}

func TestEveryCostIsDividedToTheLastDigit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFleet(t)
		b := mustBill(t, f)
		var paid pricing.Rate
		used := map[string]bool{}
		for _, n := range f.Nodes {
			if n.Price != nil {
				paid += n.Price.Sum()
				if !used[n.Host] {
					used[n.Host] = true
					paid += f.Hosts[n.Host]
				}
			}
		}
		if b.Total.Cost != paid {
			t.Fatalf("%d are paid, and %d in the bill", paid, b.Total.Cost)
		}
		nodes := make([]allocation.Line, len(b.Nodes))
		for i, n := range b.Nodes {
			nodes[i] = n.Line
			if n.Parts.Sum() != n.Cost {
				t.Fatalf("%v", n)
			}
		}
		for _, lines := range [][]allocation.Line{nodes, b.Pools, b.Namespaces, b.Workloads} {
			var sum allocation.Line
			for _, l := range lines {
				if l.Cost != l.Allocated+l.Idle+l.System || min(l.Allocated, l.Idle, l.System, l.Avoidable) < 0 {
					t.Fatalf("%+v", l)
				}
				sum.Cost, sum.Allocated, sum.Idle, sum.System = sum.Cost+l.Cost, sum.Allocated+l.Allocated, sum.Idle+l.Idle, sum.System+l.System
			}
			if sum.Cost != b.Total.Cost || sum.Allocated != b.Total.Allocated || sum.Idle != b.Total.Idle || sum.System != b.Total.System {
				t.Fatalf("%+v do not add up to %+v", lines, b.Total)
			}
		}
	})
}

func TestNothingMoreIsAvoidableThanIsPaid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := mustBill(t, drawFleet(t))
		var nodes, pools pricing.Rate
		for _, n := range b.Nodes {
			nodes += n.Avoidable
			if n.Avoidable > n.Cost {
				t.Fatalf("%+v", n)
			}
		}
		for _, p := range b.Pools {
			pools += p.Avoidable
		}
		if nodes != b.Total.Avoidable || pools != b.Total.Avoidable {
			t.Fatalf("nodes %d, pools %d, total %d", nodes, pools, b.Total.Avoidable)
		}
		for _, l := range append(b.Namespaces, b.Workloads...) {
			if b.Total.Avoidable+l.Avoidable > b.Total.Cost {
				t.Fatalf("%+v of %+v", l, b.Total)
			}
		}
	})
}

func TestOrderOfInputDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFleet(t)
		want := mustBill(t, f)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "rng"), 0))
		r.Shuffle(len(f.Nodes), func(i, j int) { f.Nodes[i], f.Nodes[j] = f.Nodes[j], f.Nodes[i] })
		r.Shuffle(len(f.Pods), func(i, j int) { f.Pods[i], f.Pods[j] = f.Pods[j], f.Pods[i] })
		if diff := cmp.Diff(want, mustBill(t, f)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestSharesAreTheExactOnes compares what workloads pay with fractions.
func TestSharesAreTheExactOnes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFleet(t)
		clear(f.Hosts)
		pays, pods := map[string]*big.Rat{}, map[string]int64{}
		for _, n := range f.Nodes {
			if n.Price == nil {
				continue
			}
			part := func(cost pricing.Rate, of func(pricing.Resources) int64) {
				whole, taken := max(of(n.Allocatable), of(n.Size)), int64(0)
				for _, p := range f.Pods {
					if p.Node == n.Name {
						taken += of(p.Takes)
					}
				}
				for _, p := range f.Pods {
					if p.Node != n.Name || of(p.Takes) == 0 {
						continue
					}
					if pays[p.Workload] == nil {
						pays[p.Workload] = new(big.Rat)
					}
					share := big.NewRat(of(p.Takes), max(whole, taken))
					pays[p.Workload].Add(pays[p.Workload], share.Mul(share, big.NewRat(int64(cost), 1)))
					pods[p.Workload]++
				}
			}
			part(n.Price.CPU, func(r pricing.Resources) int64 { return int64(r.CPU) })
			part(n.Price.Memory, func(r pricing.Resources) int64 { return int64(r.Memory) })
		}
		for _, l := range mustBill(t, f).Workloads {
			exact, ok := pays[l.Name]
			if !ok {
				exact = new(big.Rat)
			}
			off := new(big.Rat).Sub(exact, big.NewRat(int64(l.Allocated), 1))
			if off.Abs(off).Cmp(big.NewRat(pods[l.Name], 1)) > 0 {
				t.Fatalf("%s pays %d, and exactly it is %s", l.Name, l.Allocated, exact.FloatString(3))
			}
		}
	})
}

// BenchmarkBill is 1,000 nodes with 30 pods each of 200 workloads.
func BenchmarkBill(b *testing.B) {
	var f allocation.Fleet
	for i := range 1000 {
		n := node(fmt.Sprint("n", i), fmt.Sprint("pve", i%20))
		f.Nodes = append(f.Nodes, n)
		for j := range 30 {
			p := pod(fmt.Sprintf("w%d-%d", (i*30+j)%200, i*30+j), n.Name, size(90, 0))
			f.Pods = append(f.Pods, p)
		}
	}
	for b.Loop() {
		must.Get(f.Bill())(b)
	}
}
