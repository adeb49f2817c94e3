package nodescaler

import (
	"cmp"
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

// Share computes for each ask where its further replicas would run: on existing nodes, on machines
// in flight, and on machines that could be bought. Contested room goes to the highest bid, one
// replica at a time. Replicas that exist already come first. Asks without a bid come last, in order
// of how little of their maximum they have. The order of the asks does not matter.
//
// Places are distinguished by room, labels and taints, and filled first fit in order of names.
// Orders are packed by a better algorithm, so Share may fail to place a replica that an order would
// place. The converse never happens.
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
	asks []Ask
	lots []lot
	of   []int // of each of the snapshot's pods, the lot of its workload, or -1
	bins []*bin
	market
}

// lot is what an ask has got.
type lot struct {
	ask         *Ask
	held, ready int // replicas with a place, and those of them with one on a node that is ready
	// next is the first bin of the present auction that may have room: those before it are full.
	next   int
	places podscaler.Places
	purse  *purse       // what its namespace may still take; nil without a quota
	each   pricing.Rate // what a replica comes to at least
}

// bin is a node or a machine on its way, and the room that is left on it.
type bin struct {
	like  *Node
	room  pricing.Resources
	extra pricing.Amounts
	slots int
	crowd Crowd
	ready bool
	// node is the node's name, and pool the machine's pool; empty without a node or a pool.
	node, pool string
}

func newSharing(x *Index, asks []Ask) *sharing {
	s := &sharing{asks: asks, lots: make([]lot, len(asks)), of: make([]int, len(x.Snapshot.Pods)), market: newMarket(x)}
	ours := make(map[string]int, len(asks))
	for i := range asks {
		s.lots[i].ask = &asks[i]
		ours[asks[i].Workload] = i
	}
	s.endow(x.Tenants(), false)
	for i := range s.of {
		s.of[i] = -1
		if l, is := ours[x.Snapshot.Pods[i].Workload]; is {
			s.of[i] = l
		}
	}
	for i := range x.Nodes {
		n := &x.Nodes[i]
		if n.Ready && !n.Cordoned && (n.VM == nil || !x.Away(n.VM.Host)) {
			s.bins = append(s.bins, &bin{n.Node, n.Allocatable.Minus(n.Used.Requests), n.Extra.Minus(n.Used.Extra), Slots(n.PodSlots) - n.Used.Pods, n.Crowd, true, n.Name, n.Pool})
		}
	}
	for _, m := range x.Machines {
		if p := x.Pool(m.Pool); p != nil && x.arrives(m) {
			s.bins = append(s.bins, p.bin(m.Shape, m.Host))
		}
	}
	return s
}

// spent reports whether a machine's money cannot be used for an order. That of a spare can: the
// spare is woken in place of the order, or returned to make room for it. On an offline host neither
// is possible.
func (x *Index) spent(m *Machine) bool { return !m.Kept() || x.Away(m.Host) }

// arrives reports whether a machine is expected to take pods and does not yet: it is no node, or is
// woken from being a spare, or its node is new.
func (x *Index) arrives(m *Machine) bool {
	n := x.NodeOf(m.Name)
	return m.Phase.Live() && !x.Away(m.Host) &&
		(n == nil || !n.Ready && !n.Cordoned && (m.Waking() || n.Starting(x.Now, NodeStartup)))
}

// bin is what a machine of the shape on the host will be.
func (p *PoolSize) bin(shape pricing.Shape, host string) *bin {
	r := p.Empty(shape)
	return &bin{p.NodeOn(shape, host), r.Free, r.Extra, r.Slots, r.Crowd, false, "", p.Name}
}

// settle counts the replicas that have a node, and places the pods of others that have none yet out
// of the way.
func (s *sharing) settle() {
	for i, of := range s.of {
		if p := &s.x.Snapshot.Pods[i]; of >= 0 && p.Node != "" && !p.goes() {
			s.lots[of].held, s.lots[of].ready = s.lots[of].held+1, s.lots[of].ready+1
		}
	}
	for _, p := range s.waiting() {
		if i := first(s.bins, p, 0); i < len(s.bins) {
			s.bins[i].take(p)
		}
	}
}

// waiting are the pods that have no node and are none of the asks'.
func (s *sharing) waiting() (pods []*Pod) {
	for i, of := range s.of {
		if p := &s.x.Snapshot.Pods[i]; of < 0 && p.Node == "" && s.x.NotHelped(p) == "" && !p.goes() {
			pods = append(pods, p)
		}
	}
	return pods
}

// goes reports whether the pod takes nothing for long, or comes and goes with its node.
func (p *Pod) goes() bool { return p.Finished() || p.Terminating || p.Daemon }

// fits reports whether the pod has room here.
func (b *bin) fits(p *Pod) bool {
	return b.holds(p.Requests) && b.extra.Lacks(p.Extra, nil) == "" && Accepts(p, b.like) == "" && b.crowd.Clash(p) == nil
}

func (b *bin) holds(requests pricing.Resources) bool { return b.slots > 0 && requests.Within(b.room) }

// take puts the pod into the bin.
func (b *bin) take(p *Pod) {
	b.room, b.extra, b.slots, b.crowd = b.room.Minus(p.Requests), b.extra.Minus(p.Extra), b.slots-1, b.crowd.With(p)
}

// first returns the index of the first bin, at or after from, that takes the pod, or len(bins).
func first(bins []*bin, p *Pod, from int) int {
	for from < len(bins) && !bins[from].fits(p) {
		from++
	}
	return from
}

// worth is what the lot's next replica is worth for each CPU that it takes: more than any bid while
// it is asked for already, and less where nothing was bid.
func (l *lot) worth() float64 {
	switch next := l.held; {
	case next < l.ask.Replicas:
		return math.Inf(1)
	case next < len(l.ask.Bid.Worth):
		return l.ask.Bid.Worth[next] / float64(max(l.ask.Like.Requests.CPU, 1))
	}
	return math.Inf(-1)
}

// turn is a lot, and what decides when it is served: what its next replica is worth, and how much
// it has of what it may have.
type turn struct {
	*lot
	worth, part float64
}

func (l *lot) turn() turn {
	return turn{l, l.worth(), float64(l.held) / float64(max(l.ask.Most, 1))}
}

// before is the order of turns: the lot whose next replica is worth most comes first, and of equal
// worth the one that has least of what it may have.
func before(a, b *turn) bool {
	if by := cmp.Compare(b.worth, a.worth); by != 0 {
		return by < 0
	}
	if by := cmp.Compare(a.part, b.part); by != 0 {
		return by < 0
	}
	return a.ask.Workload < b.ask.Workload
}

// queue is a heap of turns: the first is at its front.
type queue []turn

// down moves a turn back to where it belongs.
func (q queue) down(i int) {
	for {
		next := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(q); child++ {
			if before(&q[child], &q[next]) {
				next = child
			}
		}
		if next == i {
			return
		}
		q[i], q[next] = q[next], q[i]
		i = next
	}
}

// wanting queues the lots that one of the bins has room for, and returns the least that any of them
// asks for.
func (s *sharing) wanting(bins []*bin) (q queue, least pricing.Resources) {
	q, least = make(queue, 0, len(s.lots)), pricing.Resources{CPU: math.MaxInt64, Memory: math.MaxInt64}
	for i := range s.lots {
		l, p := &s.lots[i], &s.lots[i].ask.Like
		if l.next = first(bins, p, 0); l.next < len(bins) && l.may() {
			q = append(q, l.turn())
			least.CPU, least.Memory = min(least.CPU, p.Requests.CPU), min(least.Memory, p.Requests.Memory)
		}
	}
	for i := len(q)/2 - 1; i >= 0; i-- {
		q.down(i)
	}
	return q, least
}

// auction fills bins, the replica with the highest worth first, until none finds room.
func (s *sharing) auction(bins []*bin) {
	q, least := s.wanting(bins)
	open := 0 // the first bin that is not too full for all of them
	for len(q) > 0 {
		l := q[0].lot
		l.next = first(bins, &l.ask.Like, l.next)
		if l.next < len(bins) && l.may() {
			l.hold(bins[l.next])
			q[0] = l.turn()
			q.down(0)
			continue
		}
		for open < len(bins) && !bins[open].holds(least) {
			open++
		}
		if open == len(bins) {
			return
		}
		last := len(q) - 1
		q[0] = q[last]
		q = q[:last]
		q.down(0)
	}
}

// hold puts the lot's next replica into the bin.
func (l *lot) hold(b *bin) {
	b.take(&l.ask.Like)
	l.purse.take(1, l.each)
	if l.held++; b.ready {
		l.ready++
	}
}

// count is how many such pods the bin takes.
func (b *bin) count(p *Pod) int {
	n := b.slots
	if p.Marked() && Clash(p, p) {
		n = min(n, 1)
	}
	if p.Requests.CPU > 0 {
		n = min(n, int(b.room.CPU/p.Requests.CPU))
	}
	if p.Requests.Memory > 0 {
		n = min(n, int(b.room.Memory/p.Requests.Memory))
	}
	return b.extra.Times(p.Extra, max(n, 0))
}

// price computes for every lot what its next machine would be.
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
	return l.held < max(l.ask.Replicas, l.ask.Bid.Want, l.ask.Bid.Ahead) && l.may()
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
		l := foremost(wanting)
		o, why := s.cheapest(&l.ask.Like)
		if o.pool == nil {
			l.places.Why = why
			wanting = slices.DeleteFunc(wanting, func(other *lot) bool { return other == l })
			continue
		}
		s.market.take(&o)
		s.auction([]*bin{o.pool.bin(o.shape, s.x.Hosts[o.host].Name)})
		wanting = slices.DeleteFunc(wanting, func(l *lot) bool { return !l.wants() })
	}
}

// foremost is the lot whose turn it is.
func foremost(lots []*lot) *lot {
	best := lots[0].turn()
	for _, l := range lots[1:] {
		if t := l.turn(); before(&t, &best) {
			best = t
		}
	}
	return best.lot
}
