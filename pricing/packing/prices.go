package packing

import "math"

// prices are what a machine's contents are worth, and what its scarcity adds to its price, in
// the same unit as rates. Whoever buys the machine that holds the most worth for its price
// builds a cheap plan; and any prices at all prove a lower bound (see bound.go).
type prices struct {
	kind []float64       // worth of one item, by kind
	pool []float64       // of one machine more, by pool
	host [][dims]float64 // of a unit of room, by host

	weights weights // roughly what the items' worth comes from
}

func (m *model) newPrices() *prices {
	return &prices{kind: make([]float64, len(m.kinds)), pool: make([]float64, len(m.pools)), host: make([][dims]float64, len(m.hosts))}
}

// of is the price of an offer, scarcity included.
func (pr *prices) of(o *offer) float64 {
	h := &pr.host[o.host]
	return float64(o.rate) + pr.pool[o.pool] + float64(h[cpu]*float64(o.takes[cpu])) + float64(h[memory]*float64(o.takes[memory]))
}

// worth is the value of a load.
func (pr *prices) worth(load []lot) float64 {
	sum := 0.0
	for _, l := range load {
		sum += float64(pr.kind[l.kind] * float64(l.n))
	}
	return sum
}

// cheapest is the offer of spec s with the lowest price.
func (m *model) cheapest(s int, pr *prices) (best int, least float64) {
	best = -1
	for _, o := range m.bySpec[s] {
		if p := pr.of(&m.offers[o]); best < 0 || p < least {
			best, least = o, p
		}
	}
	return best, least
}

// weights turns a vector into one number.
type weights [dims]float64

func (w weights) of(v vector) float64 {
	sum := 0.0
	for d := range v {
		sum += float64(w[d] * float64(v[d]))
	}
	return sum
}

// linear is what CPU, memory and slots cost in the cheapest mix of machines that has as much
// of each as is left to place.
func (m *model) linear(p *plan) weights {
	var right [dims]float64
	for _, k := range m.order {
		for d, need := range m.kinds[k].need {
			right[d] += float64(p.left[k]) * float64(need) / m.scale[d]
		}
	}
	unit := m.dearest()
	l := newLP(right[:], []float64{unplaced, unplaced, unplaced}, dims+len(m.offers))
	for d := range right {
		l.add(column{entries: []entry{{d, -1}}})
	}
	for i := range m.offers {
		c := column{cost: float64(m.offers[i].rate) / unit, entries: make([]entry, 0, dims)}
		for d, v := range m.specs[m.offers[i].spec].room {
			c.entries = append(c.entries, entry{d, float64(v) / m.scale[d]})
		}
		l.add(c)
	}
	l.solve(&budget{100})
	var w weights
	for d := range w {
		w[d] = max(0, l.y[d]) * unit / m.scale[d]
	}
	return w
}

// weighed is prices by what items ask for.
func (m *model) weighed(w weights) *prices {
	pr := m.newPrices()
	pr.weights = w
	for k := range m.kinds {
		pr.kind[k] = w.of(m.kinds[k].need)
	}
	return pr
}

// thrift is prices by which all items are worth the same and money is no object, only what
// limits and hosts have to give.
func (m *model) thrift() *prices {
	pr, much := m.newPrices(), 1e3*m.dearest()
	for k := range pr.kind {
		pr.kind[k] = much
	}
	for i, n := range m.pools {
		pr.pool[i] = much / float64(max(1, n))
	}
	for i, room := range m.hosts {
		for d := range slots {
			pr.host[i][d] = much / float64(max(1, room[d]))
		}
	}
	return pr
}

// fair cuts weights down to where no offer's room is worth more than its rate.
func (m *model) fair(w weights) weights {
	over := 0.0
	for i := range m.offers {
		over = max(over, w.of(m.specs[m.offers[i].spec].room)/float64(m.offers[i].rate))
	}
	if over == 0 || math.IsNaN(over) || math.IsInf(over, 1) {
		return weights{}
	}
	for d := range w {
		w[d] /= over
	}
	return w
}
