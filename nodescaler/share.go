package nodescaler

import (
	"cmp"
	"container/heap"
	"fmt"
	"math"
	"slices"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// Ask is a workload that may have replicas beyond those it has.
type Ask struct {
	Workload string
	Like     Pod // what a replica asks for
	Replicas int // what it has asked for
	// Most is how many replicas its bounds allow.
	Most int
	Bid  podscaler.Bid
}

// Share says for each ask where its further replicas would go: the nodes that are there, the machines
// on their way, and those that could be bought. What several want goes to the one that bids most for
// it, a replica at a time; replicas that are asked for already come first, and asks without a bid are
// served after those with one, the one that has least of what it may have first. The order of the asks
// does not matter.
//
// Places are told apart by room, labels and taints, and filled first fit in order of names. That is
// not the packing that an order is worked out by, and may leave a replica out that a cleverer one
// places, never the other way round.
func Share(x *Index, asks []Ask) []podscaler.Places {
	s := newSharing(x, asks)
	s.fill()
	s.settle()
	s.auction(s.bins)
	for i := range s.lots {
		s.lots[i].places.Coming = s.lots[i].held
		s.lots[i].places.Ready = s.lots[i].ready
	}
	s.price()
	s.buy()
	out := make([]podscaler.Places, len(asks))
	for i := range s.lots {
		l := &s.lots[i]
		if l.places.Most = l.held; !l.wants() && l.places.PerMachine > 0 {
			l.places.Why = Reason{}
		}
		out[i] = l.places
	}
	return out
}

// sharing is the room that is left, and what each ask has got of it.
type sharing struct {
	x    *Index
	asks []Ask
	lots []lot
	bins []*bin
	paid *Paid
	free map[string]pricing.Resources // by host
	room map[string]int               // machines by pool
	// rates are what the machines of each pool's shapes cost on each host, in the index's order.
	rates [][][]pricing.Rate
}

// lot is what an ask has got.
type lot struct {
	ask         *Ask
	held, ready int // replicas with a place, and those of them with one on a node that is ready
	next        int // the bin of the present auction that may take another: those before it are full
	places      podscaler.Places
}

// bin is a node or a machine on its way, and the room that is left on it.
type bin struct {
	labels map[string]string
	taints []Taint
	room   pricing.Resources
	slots  int
	ready  bool
	// node is the node's name, and pool the machine's pool; empty where there is none.
	node, pool string
}

func newSharing(x *Index, asks []Ask) *sharing {
	s := &sharing{x: x, asks: asks, lots: make([]lot, len(asks)), paid: x.PaidFor(x.stays), free: map[string]pricing.Resources{}, room: map[string]int{}}
	for i := range asks {
		s.lots[i].ask = &asks[i]
	}
	for i := range x.Nodes {
		n := &x.Nodes[i]
		if n.Ready && !n.Cordoned && (n.VM == nil || !x.Away(n.VM.Host)) {
			s.bins = append(s.bins, &bin{n.Labels, n.Taints, n.Allocatable.Minus(n.Used.Requests), Slots(n.PodSlots) - n.Used.Pods, true, n.Name, n.Pool})
		}
	}
	for _, m := range x.Machines {
		if p := x.Pool(m.Pool); p != nil && x.arrives(m) {
			s.bins = append(s.bins, p.bin(m.Shape))
		}
	}
	for _, h := range x.Hosts {
		s.free[h.Name] = h.Free
	}
	kept := map[string]int{}
	for _, m := range x.Spares {
		if !x.Away(m.Host) {
			kept[m.Pool]++
		}
	}
	for _, p := range x.Pools {
		s.room[p.Name] = max(p.Max-p.Exist, 0) + kept[p.Name] // one that is kept can be woken
		var shapes [][]pricing.Rate
		for _, shape := range p.Shapes {
			rates := make([]pricing.Rate, len(x.Hosts))
			for i := range x.Hosts {
				rates[i] = x.Rate(shape, x.Hosts[i].Name)
			}
			shapes = append(shapes, rates)
		}
		s.rates = append(s.rates, shapes)
	}
	return s
}

// stays reports whether a machine's money is spent. That of a spare is to be had: it is woken in place of an order,
// or given back where it is in the way of one. What is on a host that is away can be neither.
func (x *Index) stays(m *Machine) bool { return !m.Kept() || x.Away(m.Host) }

// arrives reports whether a machine is expected to take pods and does not yet: it is no node, or is woken from
// being a spare, or its node is new.
func (x *Index) arrives(m *Machine) bool {
	n := x.NodeOf(m.Name)
	return m.Phase.Live() && !x.Away(m.Host) &&
		(n == nil || !n.Ready && !n.Cordoned && (m.Waking() || n.Starting(x.Now, NodeStartup)))
}

// bin is what a machine of the shape will be.
func (p *PoolSize) bin(shape pricing.Shape) *bin {
	return &bin{p.Labels, p.Taints, p.Capacity(shape), Slots(p.PodSlots), false, "", p.Name}
}

// settle counts the replicas that have a node, and places the pods of others that have none yet out of the way.
func (s *sharing) settle() {
	of := make(map[string]*lot, len(s.lots))
	for i := range s.lots {
		of[s.lots[i].ask.Workload] = &s.lots[i]
	}
	for i := range s.x.Snapshot.Pods {
		p := &s.x.Snapshot.Pods[i]
		if l := of[p.Workload]; l != nil && p.Node != "" && !p.goes() {
			l.held, l.ready = l.held+1, l.ready+1
		}
	}
	for _, p := range s.waiting() {
		place(s.bins, p, 0)
	}
}

// waiting are the pods that have no node and are none of the asks'.
func (s *sharing) waiting() (pods []*Pod) {
	ours := s.ours()
	for i := range s.x.Snapshot.Pods {
		if p := &s.x.Snapshot.Pods[i]; p.Node == "" && !ours[p.Workload] && !p.goes() {
			pods = append(pods, p)
		}
	}
	return pods
}

// ours are the workloads of the asks.
func (s *sharing) ours() map[string]bool {
	ours := make(map[string]bool, len(s.asks))
	for i := range s.asks {
		ours[s.asks[i].Workload] = true
	}
	return ours
}

// goes reports whether the pod takes nothing for long, or comes and goes with its node.
func (p *Pod) goes() bool { return p.Finished() || p.Terminating || p.Daemon }

// fits reports whether the pod has room here.
func (b *bin) fits(p *Pod) bool {
	return b.slots > 0 && p.Requests.Within(b.room) && Accepts(p, b.labels, b.taints) == ""
}

// place puts the pod into the first bin that takes it, from the one given on, and returns which that was; there
// is none if it is the number of the bins.
func place(bins []*bin, p *Pod, from int) int {
	for i := from; i < len(bins); i++ {
		if b := bins[i]; b.fits(p) {
			b.room, b.slots = b.room.Minus(p.Requests), b.slots-1
			return i
		}
	}
	return len(bins)
}

// worth is what the lot's next replica is worth for each CPU that it takes: more than any bid while it is
// asked for already, and less where nothing was bid.
func (l *lot) worth() float64 {
	switch next := l.held; {
	case next < l.ask.Replicas:
		return math.Inf(1)
	case next < len(l.ask.Bid.Worth):
		return l.ask.Bid.Worth[next] / float64(max(l.ask.Like.Requests.CPU, 1))
	}
	return math.Inf(-1)
}

// before is the order of lots: the one whose next replica is worth most comes first, and of equal worth the
// one that has least of what it may have.
func before(a, b *lot) int {
	if by := cmp.Compare(b.worth(), a.worth()); by != 0 {
		return by
	}
	return cmp.Or(
		cmp.Compare(float64(a.held)/float64(max(a.ask.Most, 1)), float64(b.held)/float64(max(b.ask.Most, 1))),
		cmp.Compare(a.ask.Workload, b.ask.Workload))
}

// queue is a heap of lots in their order.
type queue []*lot

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return before(q[i], q[j]) < 0 }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(l any)        { *q = append(*q, l.(*lot)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// auction fills bins, the replica that is worth most first, until nobody finds room.
func (s *sharing) auction(bins []*bin) {
	wanting := make(queue, len(s.lots))
	for i := range s.lots {
		wanting[i], s.lots[i].next = &s.lots[i], 0
	}
	heap.Init(&wanting)
	for len(wanting) > 0 {
		l := wanting[0]
		if l.held < l.ask.Most {
			l.next = place(bins, &l.ask.Like, l.next)
		}
		if l.held >= l.ask.Most || l.next == len(bins) {
			heap.Pop(&wanting)
			continue
		}
		if l.held++; bins[l.next].ready {
			l.ready++
		}
		heap.Fix(&wanting, 0)
	}
}

// offer is a machine that could be bought.
type offer struct {
	pool  *PoolSize
	shape pricing.Shape
	host  string
	rate  pricing.Rate
	holds int // of the replicas it is looked at for
}

// refusal is what keeps a machine from being bought.
type refusal struct {
	full    *PoolSize    // it may have no more machines
	crowded *PoolSize    // no host has room for another
	total   pricing.Rate // what all would cost, if the limit does not allow it
}

// cheapest is the machine with the lowest price for a replica that limits, hosts and prices allow now,
// or the reason for which there is none.
func (s *sharing) cheapest(p *Pod) (best offer, why podscaler.Reason) {
	var no refusal
	for i := range s.x.Pools {
		pool := &s.x.Pools[i]
		for k, shape := range pool.Shapes {
			b := pool.bin(shape)
			if !b.fits(p) {
				continue
			}
			if s.room[pool.Name] < 1 {
				no.full = pool
				continue
			}
			no.crowded = cmp.Or(no.crowded, pool)
			s.on(offer{pool: pool, shape: shape, holds: b.count(p)}, s.rates[i][k], &best, &no)
		}
	}
	if best.pool == nil {
		why = no.why(s.x.Limit)
	}
	return best, why
}

// on looks for the host on which the machine is cheaper than the best one so far.
func (s *sharing) on(o offer, rates []pricing.Rate, best *offer, no *refusal) {
	each := func(o *offer) float64 { return float64(o.rate) / float64(o.holds) }
	for i := range s.x.Hosts {
		h := &s.x.Hosts[i]
		if !o.pool.Takes(h.Host) || !o.shape.Resources().Within(s.free[h.Name]) {
			continue
		}
		o.host, o.rate = h.Name, rates[i]
		if total, within := s.paid.with(o.rate, o.host); !within {
			no.total = total
			continue
		}
		if best.pool == nil || each(&o) < each(best) {
			*best = o
		}
	}
}

func (no *refusal) why(limit pricing.Rate) podscaler.Reason {
	switch {
	case no.total > 0:
		return Reason{Code: LimitReached, Text: fmt.Sprintf("one machine more would cost %s/h in all, of at most %s/h", no.total, limit)}
	case no.crowded != nil:
		return Reason{Code: NoHostRoom, Text: fmt.Sprintf("no host of pool %s has room for another machine", no.crowded.Name)}
	case no.full != nil:
		return Reason{Code: PoolAtMax, Text: fmt.Sprintf("pool %s may have no more machines than %d", no.full.Name, no.full.Max)}
	}
	return Reason{Code: PoolUnknown, Text: "no pool has a machine that takes a replica"}
}

// count is how many such pods the bin takes.
func (b *bin) count(p *Pod) int {
	n := b.slots
	if p.Requests.CPU > 0 {
		n = min(n, int(b.room.CPU/p.Requests.CPU))
	}
	if p.Requests.Memory > 0 {
		n = min(n, int(b.room.Memory/p.Requests.Memory))
	}
	return max(n, 0)
}

// price tells every lot what its next machine would be.
func (s *sharing) price() {
	for i := range s.lots {
		l := &s.lots[i]
		if o, why := s.cheapest(&l.ask.Like); o.pool != nil {
			l.places.PerMachine, l.places.Next = o.holds, o.rate
		} else {
			l.places.Why = why
		}
	}
}

// wants reports whether the lot has less than was asked for or bid.
func (l *lot) wants() bool {
	return l.held < min(max(l.ask.Replicas, l.ask.Bid.Want, l.ask.Bid.Ahead), l.ask.Most)
}

// buy adds machines as long as a lot wants one, the replica that is worth most first.
func (s *sharing) buy() {
	var wanting []*lot
	for i := range s.lots {
		if l := &s.lots[i]; l.wants() {
			wanting = append(wanting, l)
		}
	}
	for len(wanting) > 0 {
		l := slices.MinFunc(wanting, before)
		o, why := s.cheapest(&l.ask.Like)
		if o.pool == nil {
			l.places.Why = why
			wanting = slices.DeleteFunc(wanting, func(other *lot) bool { return other == l })
			continue
		}
		s.paid.Add(o.shape, o.host)
		s.room[o.pool.Name]--
		s.free[o.host] = s.free[o.host].Minus(o.shape.Resources())
		s.auction([]*bin{o.pool.bin(o.shape)})
		wanting = slices.DeleteFunc(wanting, func(l *lot) bool { return !l.wants() })
	}
}
