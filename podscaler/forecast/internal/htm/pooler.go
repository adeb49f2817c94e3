package htm

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Pooler turns bits into active columns, always as many, and the more of them the same the more
// alike the bits are: the HTM spatial pooler (Cui, Ahmad and Hawkins 2017), with global inhibition.
//
// A column can see half of the bits, each by a synapse with a permanence, and those above a
// threshold are connected. The columns with the most connected bits that are on win, and lean
// towards these bits. Whoever wins more often than its share has its count lowered, so that all
// columns come to be of use.
type Pooler struct {
	columns, winners int
	bits             int
	boost            float64   // how much whoever wins too often is held back
	permanences      []float32 // by column and bit; outside where the column cannot see the bit
	duty             []float64 // the share of the time that a column was active, lately
	on               []int     // room for the bits that are on
	scores           []float64 // room for the winners' scores, the highest first
}

const (
	outside         = -1
	pooledConnected = 0.5  // the permanence from which a synapse is connected
	pooledMore      = 0.03 // what a winner's synapse to a bit that is on gains
	pooledLess      = 0.005
	dutyPeriods     = 1000
	usualBoost      = 2
)

// NewPooler wires so many columns to half of the bits each, by chance.
func NewPooler(bits, columns, winners int, r *rand.Rand) Pooler {
	p := Pooler{
		columns: columns, winners: winners, bits: bits, boost: usualBoost, permanences: make([]float32, columns*bits),
		duty: make([]float64, columns), on: make([]int, 0, bits), scores: make([]float64, 0, winners+1),
	}
	for i := range p.permanences {
		p.permanences[i] = outside
	}
	for c := range columns {
		p.duty[c] = p.share()
		for _, bit := range r.Perm(bits)[:bits/2] {
			p.permanences[c*bits+bit] = r.Float32()
		}
	}
	return p
}

// share is the part of the time that a column is active on average.
func (p *Pooler) share() float64 { return float64(p.winners) / float64(p.columns) }

// Pool returns the columns that win, in their order, in the room that it is given. Of columns
// with the same score the first wins.
func (p *Pooler) Pool(bits []bool, active []int32) []int32 {
	p.on = p.on[:0]
	for i, on := range bits {
		if on {
			p.on = append(p.on, i)
		}
	}
	active, p.scores = active[:0], p.scores[:0]
	for c := range p.columns {
		score := p.score(c)
		if len(active) == p.winners && score <= p.scores[p.winners-1] {
			continue
		}
		at := len(active)
		for at > 0 && p.scores[at-1] < score {
			at--
		}
		active = slices.Insert(active, at, int32(c))
		p.scores = slices.Insert(p.scores, at, score)
		active, p.scores = active[:min(len(active), p.winners)], p.scores[:min(len(p.scores), p.winners)]
	}
	slices.Sort(active)
	return active
}

// score is how many of the bits that are on a column is connected to, in view of how often it has
// won.
func (p *Pooler) score(c int) float64 {
	n := 0
	row := p.permanences[c*p.bits : (c+1)*p.bits]
	for _, bit := range p.on {
		if row[bit] >= pooledConnected {
			n++
		}
	}
	return float64(n) * math.Exp(p.boost*(p.share()-p.duty[c]))
}

// Learn lets the columns that have won lean towards the bits that they have won by.
func (p *Pooler) Learn(bits []bool, active []int32) {
	for c := range p.duty {
		p.duty[c] -= p.duty[c] / dutyPeriods
	}
	for _, c := range active {
		p.duty[c] += 1. / dutyPeriods
		row := p.permanences[int(c)*p.bits : (int(c)+1)*p.bits]
		for i, permanence := range row {
			switch {
			case permanence == outside:
			case bits[i]:
				row[i] = min(permanence+pooledMore, 1)
			default:
				row[i] = max(permanence-pooledLess, 0)
			}
		}
	}
}

// Size is how many bytes it holds.
func (p *Pooler) Size() int {
	return 4*len(p.permanences) + (len(p.duty)+cap(p.on)+cap(p.scores)+15)*wordBytes
}
