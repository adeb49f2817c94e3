package lstm

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Network is one layer of LSTM units after Hochreiter and Schmidhuber, with forget gates, that
// reads one number a period, or a few, and a weighted sum of their outputs, which is what it
// expects next.
//
// All parameters are one slice, so that a gradient is a slice of the same shape and whoever
// descends it need not know what is what. A unit has four rows, one for each gate, beside each
// other; a row weighs what the unit sees: 1, the numbers read, and all units' last outputs. The
// sum's weights come last, the constant first.
type Network struct {
	inputs int
	units  int
	Params []float64
}

// The gates of a unit, in the order of their rows.
const (
	gateIn     = iota // how much of the candidate enters the cell
	gateForget        // how much of the cell stays
	gateValue         // the candidate
	gateOut           // how much of the cell is shown
	gates
)

// seen is how many numbers a unit sees.
func seen(inputs, units int) int { return 1 + inputs + units }

// NewNetwork draws weights that neither drown nor saturate a unit, with gates that forget little
// at first. It expects 0 of everything until it is taught.
func NewNetwork(inputs, units int, r *rand.Rand) Network {
	n := Network{inputs: inputs, units: units, Params: make([]float64, units*gates*seen(inputs, units)+1+units)}
	width := 1 / math.Sqrt(float64(units))
	rows := n.Params[:units*gates*seen(inputs, units)]
	for i := range rows {
		rows[i] = width * (2*r.Float64() - 1)
	}
	for u := range units {
		n.rows(n.Params, u, gateForget)[0] = 1
	}
	return n
}

// Clone copies a network.
func (n *Network) Clone() Network {
	return Network{inputs: n.inputs, units: n.units, Params: slices.Clone(n.Params)}
}

// rows returns the row of a gate of a unit in Params or a gradient.
func (n *Network) rows(Params []float64, unit, gate int) []float64 {
	k := seen(n.inputs, n.units)
	return Params[(unit*gates+gate)*k : (unit*gates+gate+1)*k]
}

// Head returns the weights of the sum.
func (n *Network) Head(Params []float64) []float64 { return Params[len(Params)-1-n.units:] }

// Moment is what the units hold and show after a period, and how it came about.
type Moment struct {
	all   []float64 // that the others are parts of
	seen  []float64 // 1, the numbers read, what the units showed before
	gates []float64 // by unit
	cell  []float64
	tanh  []float64 // of the cell
	shown []float64
}

// NewMoment is before anything was read.
func NewMoment(inputs, units int) Moment {
	return partsOf(make([]float64, seen(inputs, units)+(gates+3)*units), inputs, units)
}

func partsOf(all []float64, inputs, units int) Moment {
	m := Moment{all: all}
	for _, part := range []struct {
		of     *[]float64
		length int
	}{{&m.seen, seen(inputs, units)}, {&m.gates, gates * units}, {&m.cell, units}, {&m.tanh, units}, {&m.shown, units}} {
		*part.of, all = all[:part.length:part.length], all[part.length:]
	}
	return m
}

// Clear forgets all that was read.
func (m *Moment) Clear() { clear(m.all) }

// Size is how many bytes the numbers take.
func (m *Moment) Size() int { return len(m.all) * wordBytes }

// Clone copies a moment.
func (m *Moment) Clone() Moment {
	return partsOf(slices.Clone(m.all), len(m.seen)-1-len(m.cell), len(m.cell))
}

// Read takes numbers in after the moment before, which may be to itself. It adds up a unit's four
// gates at once, for a sum has to wait for its last addition, and four need not wait for each
// other.
func (n *Network) Read(v []float64, before, to *Moment) {
	see := to.seen
	see[0] = 1
	copy(see[1:], v)
	copy(see[1+len(v):], before.shown)
	k := len(see)
	for u := range n.units {
		w := n.Params[u*gates*k : (u+1)*gates*k]
		w0, w1, w2, w3 := w[:k], w[k:2*k], w[2*k:3*k], w[3*k:4*k]
		var a0, a1, a2, a3 float64
		for i, x := range see {
			a0 += w0[i] * x
			a1 += w1[i] * x
			a2 += w2[i] * x
			a3 += w3[i] * x
		}
		g := to.gates[u*gates : (u+1)*gates]
		g[gateIn], g[gateForget], g[gateValue], g[gateOut] = sigmoid(a0), sigmoid(a1), math.Tanh(a2), sigmoid(a3)
		to.cell[u] = g[gateForget]*before.cell[u] + g[gateIn]*g[gateValue]
		to.tanh[u] = math.Tanh(to.cell[u])
		to.shown[u] = g[gateOut] * to.tanh[u]
	}
}

// Expects returns what comes next, by what the units show.
func (n *Network) Expects(m *Moment) float64 {
	head := n.Head(n.Params)
	sum := head[0]
	for u, s := range m.shown {
		sum += head[1+u] * s
	}
	return sum
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// Passage is the room for a window that is read through and learnt from: a moment for each
// period, and on the way back what the loss changes by with cells, outputs and what units see.
type Passage struct {
	Moments              []Moment // the first is before anything was read
	dCell, dShown, dSeen []float64
}

// NewPassage has room for windows of a length.
func NewPassage(inputs, units, length int) *Passage {
	p := &Passage{dCell: make([]float64, units), dShown: make([]float64, units), dSeen: make([]float64, seen(inputs, units))}
	for range length + 1 {
		p.Moments = append(p.Moments, NewMoment(inputs, units))
	}
	return p
}

// Through reads a window from nothing, whose periods are behind each other.
func (n *Network) Through(window []float64, p *Passage) {
	for i := range len(window) / n.inputs {
		n.Read(window[i*n.inputs:(i+1)*n.inputs], &p.Moments[i], &p.Moments[i+1])
	}
}

// Back goes back through a window that was read and adds to the gradient what the loss changes by
// with each parameter. dLoss is what the loss changes by with what was expected after each period.
func (n *Network) Back(dLoss []float64, p *Passage, gradient []float64) {
	clear(p.dCell)
	clear(p.dShown)
	head, dHead := n.Head(n.Params), n.Head(gradient)
	for i := len(dLoss) - 1; i >= 0; i-- {
		m := &p.Moments[i+1]
		if d := dLoss[i]; d != 0 {
			dHead[0] += d
			for u, s := range m.shown {
				dHead[1+u] += d * s
				p.dShown[u] += d * head[1+u]
			}
		}
		clear(p.dSeen)
		for u := range n.units {
			n.backUnit(u, m, p.Moments[i].cell[u], p, gradient)
		}
		copy(p.dShown, p.dSeen[1+n.inputs:])
	}
}

// backUnit goes back through a unit at a moment, whose cell held before.
func (n *Network) backUnit(u int, m *Moment, before float64, p *Passage, gradient []float64) {
	g := m.gates[u*gates : (u+1)*gates]
	dCell := p.dCell[u] + p.dShown[u]*g[gateOut]*(1-m.tanh[u]*m.tanh[u])
	d0 := dCell * g[gateValue] * g[gateIn] * (1 - g[gateIn])
	d1 := dCell * before * g[gateForget] * (1 - g[gateForget])
	d2 := dCell * g[gateIn] * (1 - g[gateValue]*g[gateValue])
	d3 := p.dShown[u] * m.tanh[u] * g[gateOut] * (1 - g[gateOut])
	p.dCell[u] = dCell * g[gateForget]
	see := m.seen
	k := len(see)
	w, dw := n.Params[u*gates*k:(u+1)*gates*k], gradient[u*gates*k:(u+1)*gates*k]
	w0, w1, w2, w3 := w[:k], w[k:2*k], w[2*k:3*k], w[3*k:4*k]
	dw0, dw1, dw2, dw3 := dw[:k], dw[k:2*k], dw[2*k:3*k], dw[3*k:4*k]
	dSeen := p.dSeen[:k]
	for i, x := range see {
		dw0[i] += d0 * x
		dw1[i] += d1 * x
		dw2[i] += d2 * x
		dw3[i] += d3 * x
		dSeen[i] += d0*w0[i] + d1*w1[i] + d2*w2[i] + d3*w3[i]
	}
}

// Size is how many bytes it holds.
func (p *Passage) Size() int {
	return (len(p.Moments)*(len(p.Moments[0].all)+18) + 2*len(p.dCell) + len(p.dSeen) + 12) * wordBytes
}
