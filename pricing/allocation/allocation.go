package allocation

import (
	"cmp"
	"errors"
	"math"
	"math/big"
	"slices"

	"github.com/plimsoll/plimsoll/pricing"
)

// Fleet is what is there, and what it costs per hour. Names of nodes must be unique.
type Fleet struct {
	Nodes []Node
	Pods  []Pod
	// Hosts is the fixed part of each host, charged once while it carries a priced machine.
	Hosts map[string]pricing.Rate
	// Namespaces and Workloads name the nodes that could be done without, besides the spare
	// ones, if the pods of a namespace or of a workload were gone. One that is not listed
	// frees none.
	Namespaces map[string][]string
	Workloads  map[string][]string
}

// Node is a node and the machine behind it.
type Node struct {
	Name, Pool, Host string
	// Size is what the machine has of its host, and Allocatable what pods may have of that.
	Size, Allocatable pricing.Resources
	// Price is what the machine costs per hour, without its host's fixed part; nil if that is
	// not known, and Unpriced is then why.
	Price    *Price
	Unpriced string
	// Spare is set if the node could be done without as things are: it is empty, or all its
	// pods fit elsewhere, on nodes that are not spare.
	Spare bool
}

// Price is what a machine costs per hour, and what of that is saved without it.
type Price struct {
	pricing.Parts
	pricing.Saving
}

// Pod is a pod on a node.
type Pod struct {
	Name, Namespace, Workload, Node string
	// Takes is what the pod is charged for: what it asks for, or what it uses if that is more,
	// as the caller chooses.
	Takes pricing.Resources
}

// Line is what one node, pool, namespace or workload costs per hour.
type Line struct {
	Name string
	// Cost is Allocated, Idle and System together. Of a namespace or a workload, Idle and System
	// are its share of those of the nodes that its pods are on, in proportion to what is allocated
	// there. Those of nodes whose pods pay nothing are in the line without a name.
	Cost, Allocated, Idle, System pricing.Rate
	// Avoidable is what would be saved: of a node, a pool or the total, by doing without its
	// spare nodes; of a namespace or a workload, what could be saved besides if its pods were
	// gone. Those do not add up: two workloads that share a machine free it only together.
	Avoidable pricing.Rate
	// Takes is what the pods are charged for, and Allocatable what pods may have of the nodes; it
	// is nothing in the line of a namespace or a workload.
	Takes, Allocatable pricing.Resources
	// Nodes and Pods are how many are counted in the line. Unpriced are the pods besides that
	// are on nodes without a price: what they cost is not known, and not counted.
	Nodes, Pods, Unpriced int
}

// Nobody is the name of the line for what the pods of no namespace and no workload pay.
const Nobody = ""

// NodeLine is the cost of one node.
type NodeLine struct {
	Line
	Pool, Host string
	Size       pricing.Resources
	// Parts is Cost by what is paid for, the share of the host's fixed part included.
	Parts pricing.Parts
}

// Bill divides the cost per hour of a fleet. Its lists are sorted by name.
type Bill struct {
	Total                        Line
	Nodes                        []NodeLine
	Pools, Namespaces, Workloads []Line
	Unpriced                     []Unpriced
	// Strays counts pods on nodes that are not there.
	Strays int
}

// Unpriced is a node that nothing is known of the cost of, and is in no line.
type Unpriced struct {
	Node, Pool, Why string
	Pods            int
}

// ErrTooDear is what cannot be added up: prices that together are beyond the largest Rate.
var ErrTooDear = errors.New("the prices are too large to add up")

// Bill shares the fleet's cost out.
func (f *Fleet) Bill() (*Bill, error) {
	if f.tooDear() {
		return nil, ErrTooDear
	}
	b := newBook(f)
	for i := range b.nodes {
		b.charge(&b.nodes[i])
	}
	b.countUnpriced()
	b.avoid()
	return b.bill(), nil
}

// tooDear reports whether the sum of all prices is no Rate. Prices are not negative, so that
// then no sum of some of them is too large either.
func (f *Fleet) tooDear() bool {
	sum := new(big.Int)
	for i := range f.Nodes {
		if p := f.Nodes[i].Price; p != nil {
			for _, rate := range []pricing.Rate{p.CPU, p.Memory} {
				sum.Add(sum, big.NewInt(int64(rate)))
			}
		}
	}
	for _, fixed := range f.Hosts {
		sum.Add(sum, big.NewInt(int64(fixed)))
	}
	// A Rate that would overflow is the largest one.
	return !sum.IsInt64() || sum.Int64() == math.MaxInt64
}

// book is a bill that is being written.
type book struct {
	*Fleet
	nodes                 []entry // by name
	at                    map[string]int
	total                 Line
	pools                 lines
	namespaces, workloads lines
	strays                int
}

// entry is a node in the book.
type entry struct {
	*Node
	pods  []*Pod // by name
	parts pricing.Parts
	line  Line
}

// newBook sorts the fleet: what is divided is divided in the order of names.
func newBook(f *Fleet) *book {
	b := &book{Fleet: f, pools: lines{}, namespaces: lines{}, workloads: lines{}, at: make(map[string]int, len(f.Nodes))}
	for i := range f.Nodes {
		b.nodes = append(b.nodes, entry{Node: &f.Nodes[i], line: Line{Name: f.Nodes[i].Name}})
	}
	slices.SortFunc(b.nodes, func(x, y entry) int { return cmp.Compare(x.Name, y.Name) })
	for i := range b.nodes {
		b.at[b.nodes[i].Name] = i
	}
	for i := range f.Pods {
		p := &f.Pods[i]
		if n, ok := b.at[p.Node]; ok {
			b.nodes[n].pods = append(b.nodes[n].pods, p)
		} else {
			b.strays++
		}
	}
	for i := range b.nodes {
		slices.SortFunc(b.nodes[i].pods, func(x, y *Pod) int {
			return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
		})
	}
	b.chargeHosts()
	return b
}

// chargeHosts gives every priced machine its own price and its share of the fixed part of its
// host.
func (b *book) chargeHosts() {
	on := map[string][]*entry{}
	for i := range b.nodes {
		if n := &b.nodes[i]; n.Price != nil {
			n.parts = n.Price.Parts
			on[n.Host] = append(on[n.Host], n)
		}
	}
	for host, machines := range on { // each by itself
		weights := make([]int64, len(machines))
		for i, n := range machines {
			weights[i] = int64(n.Price.Sum())
		}
		for i, share := range divideOr(b.Hosts[host], weights, evenly) {
			n := machines[i]
			both := divideOr(share, []int64{int64(n.Price.CPU), int64(n.Price.Memory)}, evenly)
			n.parts.CPU += both[0]
			n.parts.Memory += both[1]
		}
	}
}

// charge shares a node's cost out over its pods, and enters them.
func (b *book) charge(n *entry) {
	if n.Price == nil {
		return
	}
	pays, idle, system := n.shares()
	l := &n.line
	for i, p := range n.pods {
		l.Allocated += pays[i]
		l.Takes = l.Takes.Plus(p.Takes)
	}
	l.Cost, l.Idle, l.System = n.parts.Sum(), idle, system
	l.Allocatable, l.Nodes, l.Pods = n.Allocatable, 1, len(n.pods)
	b.pools.of(n.Pool).add(l)
	b.total.add(l)
	b.passOn(n, pays)
}

// shares divides a node's cost: the part of each pod, the idle part and the system's part. Pods
// that take more than the node's allocatable pay for the system's part too, and at most for the
// whole node.
func (n *entry) shares() (pays []pricing.Rate, idle, system pricing.Rate) {
	pays = make([]pricing.Rate, len(n.pods))
	part := func(cost pricing.Rate, of func(pricing.Resources) int64) {
		weights := make([]int64, len(n.pods)+2)
		taken := new(big.Int)
		for i, p := range n.pods {
			weights[i] = max(0, of(p.Takes))
			taken.Add(taken, big.NewInt(weights[i]))
		}
		beyond := func(whole int64) int64 { // what is left of it
			left := new(big.Int).Sub(big.NewInt(whole), taken)
			if left.Sign() <= 0 {
				return 0
			}
			taken.Add(taken, left)
			return left.Int64()
		}
		weights[len(n.pods)] = beyond(of(n.Allocatable))
		weights[len(n.pods)+1] = beyond(of(n.Size))
		shares := divideOr(cost, weights, toTheLast)
		for i := range n.pods {
			pays[i] += shares[i]
		}
		idle += shares[len(n.pods)]
		system += shares[len(n.pods)+1]
	}
	part(n.parts.CPU, func(r pricing.Resources) int64 { return int64(r.CPU) })
	part(n.parts.Memory, func(r pricing.Resources) int64 { return int64(r.Memory) })
	return pays, idle, system
}

// passOn enters a node's pods with their namespaces and workloads, and with what of the idle and
// the system's part falls to them.
func (b *book) passOn(n *entry, pays []pricing.Rate) {
	weights := make([]int64, len(pays)+1)
	for i, pay := range pays {
		weights[i] = int64(pay)
	}
	idle, system := divideOr(n.line.Idle, weights, toTheLast), divideOr(n.line.System, weights, toTheLast)
	for i, p := range n.pods {
		l := Line{
			Cost: pays[i] + idle[i] + system[i], Allocated: pays[i], Idle: idle[i], System: system[i],
			Takes: p.Takes, Pods: 1,
		}
		b.namespaces.of(p.Namespace).add(&l)
		b.workloads.of(p.Workload).add(&l)
	}
	last := len(pays)
	if rest := (Line{Cost: idle[last] + system[last], Idle: idle[last], System: system[last]}); rest.Cost != 0 {
		b.namespaces.of(Nobody).add(&rest)
		b.workloads.of(Nobody).add(&rest)
	}
}

// countUnpriced counts the pods on nodes without a price.
func (b *book) countUnpriced() {
	for i := range b.nodes {
		n := &b.nodes[i]
		if n.Price != nil {
			continue
		}
		one := Line{Unpriced: len(n.pods)}
		b.total.add(&one)
		if n.Pool != "" {
			b.pools.of(n.Pool).add(&one)
		}
		for _, p := range n.pods {
			b.namespaces.of(p.Namespace).Unpriced++
			b.workloads.of(p.Workload).Unpriced++
		}
	}
}

// bill is the book's fair copy.
func (b *book) bill() *Bill {
	bill := &Bill{
		Total: b.total, Pools: b.pools.sorted(), Namespaces: b.namespaces.sorted(), Workloads: b.workloads.sorted(),
		Strays: b.strays,
	}
	for i := range b.nodes {
		n := &b.nodes[i]
		if n.Price == nil {
			bill.Unpriced = append(bill.Unpriced, Unpriced{n.Name, n.Pool, n.Unpriced, len(n.pods)})
			continue
		}
		bill.Nodes = append(bill.Nodes, NodeLine{Line: n.line, Pool: n.Pool, Host: n.Host, Size: n.Size, Parts: n.parts})
	}
	return bill
}

// lines are lines by name.
type lines map[string]*Line

func (l lines) of(name string) *Line {
	if l[name] == nil {
		l[name] = &Line{Name: name}
	}
	return l[name]
}

func (l lines) sorted() []Line {
	list := make([]Line, 0, len(l))
	for _, line := range l {
		list = append(list, *line)
	}
	slices.SortFunc(list, func(x, y Line) int { return cmp.Compare(x.Name, y.Name) })
	return list
}

// add counts another line in; what is avoidable is not a sum.
func (l *Line) add(o *Line) {
	l.Cost += o.Cost
	l.Allocated += o.Allocated
	l.Idle += o.Idle
	l.System += o.System
	l.Takes, l.Allocatable = l.Takes.Plus(o.Takes), l.Allocatable.Plus(o.Allocatable)
	l.Nodes += o.Nodes
	l.Pods += o.Pods
	l.Unpriced += o.Unpriced
}
