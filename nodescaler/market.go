package nodescaler

import (
	"cmp"
	"fmt"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// market is the machines that could be bought, or woken.
type market struct {
	x      *Index
	paid   *Paid
	free   []pricing.Resources // of each of the index's hosts
	room   map[string]int      // machines by pool
	stalls []stall             // by pool, and in the order of its shapes
}

// stall is where machines of one shape are had.
type stall struct {
	pool  *PoolSize
	only  string // the host that its machines are on; empty is any
	shape pricing.Shape
	empty bin
	rates []pricing.Rate // of each host
	host  int            // the cheapest that may carry another now, or -1
	// total is the cost of all machines with one more on a host, if that exceeds the limit.
	total pricing.Rate
}

func newMarket(x *Index) market {
	m := market{x: x, paid: x.PaidFor(x.spent), free: make([]pricing.Resources, len(x.Hosts)), room: map[string]int{}}
	for i := range x.Hosts {
		m.free[i] = x.Hosts[i].Free
	}
	kept := map[string]int{}
	for _, spare := range x.Spares {
		if !x.Away(spare.Host) {
			kept[spare.Pool]++
		}
	}
	for i := range x.Pools {
		p := &x.Pools[i]
		m.room[p.Name] = p.Places()
		if p.HeldUp == nil {
			m.room[p.Name] += kept[p.Name] // one that is kept can be woken
		}
		for _, shape := range p.Shapes {
			rates := make([]pricing.Rate, len(x.Hosts))
			for h := range x.Hosts {
				rates[h] = x.Rate(shape, x.Hosts[h].Name)
			}
			for _, host := range x.HostsApart(p.Pool) {
				m.stalls = append(m.stalls, stall{pool: p, only: host, shape: shape, empty: *p.bin(shape, host), rates: rates})
			}
		}
	}
	m.look()
	return m
}

// look finds for each stall the host on which its machine is cheapest, of those that the room and
// the limit allow.
func (m *market) look() {
	for i := range m.stalls {
		m.stalls[i].host, m.stalls[i].total = -1, 0
	}
	for h := range m.x.Hosts {
		host := &m.x.Hosts[h]
		opening := m.paid.opening(host.Name)
		for i := range m.stalls {
			st := &m.stalls[i]
			if st.only != "" && st.only != host.Name || !st.shape.Resources().Within(m.free[h]) || !st.pool.Makes(st.shape, host.Host) {
				continue
			}
			if total, within := m.paid.with(st.rates[h], opening); !within {
				st.total = total
			} else if st.host < 0 || st.rates[h] < st.rates[st.host] {
				st.host = h
			}
		}
	}
}

// take notes that an offer was taken.
func (m *market) take(o *offer) {
	m.paid.Add(o.shape, m.x.Hosts[o.host].Name)
	m.room[o.pool.Name]--
	m.free[o.host] = m.free[o.host].Minus(o.shape.Resources())
	m.look()
}

// offer is a machine that could be bought.
type offer struct {
	pool  *PoolSize
	shape pricing.Shape
	host  int
	rate  pricing.Rate
	holds int // of the replicas it is looked at for
}

// each is what the room for one of them costs.
func (o *offer) each() float64 { return float64(o.rate) / float64(o.holds) }

// refusal is what keeps a machine from being bought.
type refusal struct {
	full    *PoolSize    // it may have no more machines
	closed  *PoolSize    // it makes none for now
	crowded *PoolSize    // no host has room for another
	total   pricing.Rate // what all would cost, if the limit does not allow it
}

// cheapest returns the machine with the lowest price for a replica that limits, hosts and prices
// allow now, or the reason why no machine is possible.
func (m *market) cheapest(p *Pod) (best offer, why podscaler.Reason) {
	var no refusal
	for i := range m.stalls {
		st := &m.stalls[i]
		if !st.empty.fits(p) {
			continue
		}
		if m.room[st.pool.Name] < 1 {
			no.pool(st.pool)
			continue
		}
		no.crowded = cmp.Or(no.crowded, st.pool)
		no.total = cmp.Or(st.total, no.total)
		if st.host < 0 {
			continue
		}
		o := offer{st.pool, st.shape, st.host, st.rates[st.host], st.empty.count(p)}
		if best.pool == nil || o.each() < best.each() {
			best = o
		}
	}
	if best.pool == nil {
		why = no.why(m.x.Limit)
	}
	return best, why
}

// pool notes a pool of which no machine is to be had.
func (no *refusal) pool(p *PoolSize) {
	if p.Shut() != nil {
		no.closed = cmp.Or(no.closed, p)
		return
	}
	no.full = p
}

func (no *refusal) why(limit pricing.Rate) podscaler.Reason {
	switch {
	case no.total > 0:
		return Reason{Code: LimitReached, Text: fmt.Sprintf("one machine more would cost %s/h in all, of at most %s/h", no.total, limit)}
	case no.crowded != nil:
		return Reason{Code: NoHostRoom, Text: fmt.Sprintf("no host of pool %s has room for another machine", no.crowded.Name)}
	case no.closed != nil:
		return *no.closed.Shut()
	case no.full != nil:
		return Reason{Code: PoolAtMax, Text: fmt.Sprintf("pool %s may have no more machines than %d", no.full.Name, no.full.Max)}
	}
	return Reason{Code: PoolUnknown, Text: "no pool has a machine that takes a replica"}
}
