package htm

import "math/rand/v2"

// Temporal remembers what follows what, in its context: the temporal memory of HTM (Hawkins and
// Ahmad 2016; Cui, Ahmad and Hawkins 2016).
//
// A column has several cells. A cell has segments, each with synapses to cells that were active
// together; when enough of these are again, the cell is predicted. Of an active column only the
// predicted cells become active, so that the same column has other cells after other pasts; where
// none was predicted all do, for any past is possible: the column bursts. Segments that foretold
// what came are strengthened, and those that foretold what did not come are weakened.
type Temporal struct {
	cells     int // of a column
	threshold int // active connected synapses by which a segment predicts
	match     int // active synapses by which a segment may learn
	grow      int // synapses that a segment has to what was active, after it has learnt
	synapses  int // of a segment at most

	of       [][]int32 // segments of a cell
	out      [][]int32 // synapses that start at a cell
	owner    []int32   // cell of a segment
	used     []int     // when a segment was last active or learnt
	count    []int32   // connected synapses of a segment that start at an active cell
	possible []int32   // the same, connected or not
	touched  []int32   // segments of which either is above 0
	from     []int32   // cell that a synapse starts at, -1 for none; the same room for each segment
	strength []float32 // its permanence

	active, winners []int32 // cells
	Foretold        []int32 // active cells that had been predicted
	before          []int32 // winners of the period before
	on, came        []bool  // whether a cell, a column is active
	now             int     // periods that were observed
	random          *rand.Rand
}

const (
	maxSegments = 16   // of a cell
	newStrength = 0.21 // the permanence of a new synapse
	connected   = 0.5  // the permanence from which it counts
	teaching    = 0.1  // what a synapse gains or loses where its segment was right
	doubting    = 0.02 // what it loses where its segment was wrong
)

// NewTemporal returns a temporal memory for so many columns, some of which are active at a time.
func NewTemporal(columns, cells, active int, r *rand.Rand) Temporal {
	n := columns * cells
	return Temporal{
		cells: cells, threshold: max(active*13/20, 1), match: max(active/2, 1), grow: active, synapses: active * 3 / 2,
		of: make([][]int32, n), out: make([][]int32, n), on: make([]bool, n), came: make([]bool, columns), random: r,
	}
}

// Reset forgets what came before, as at the beginning of a sequence, and nothing that was learnt.
func (m *Temporal) Reset() {
	m.leave()
	m.active, m.winners, m.Foretold = m.active[:0], m.winners[:0], m.Foretold[:0]
}

// leave clears what the active cells had foretold.
func (m *Temporal) leave() {
	for _, s := range m.touched {
		m.count[s], m.possible[s] = 0, 0
	}
	m.touched = m.touched[:0]
	for _, c := range m.active {
		m.on[c] = false
	}
}

// Observe takes the columns that are active in this period, and learns.
func (m *Temporal) Observe(columns []int32) {
	m.now++
	m.before = append(m.before[:0], m.winners...)
	var active, winners []int32 = nil, m.winners[:0]
	m.Foretold = m.Foretold[:0]
	for _, column := range columns {
		m.came[column] = true
		n := len(m.Foretold)
		m.confirm(column)
		if len(m.Foretold) > n {
			active = append(active, m.Foretold[n:]...)
			winners = append(winners, m.Foretold[n:]...)
			continue
		}
		winners = append(winners, m.burst(column))
		for c := range m.cells {
			active = append(active, column*int32(m.cells)+int32(c))
		}
	}
	m.punish()
	for _, column := range columns {
		m.came[column] = false
	}
	m.leave()
	m.active, m.winners = active, winners
	m.predict()
}

// confirm collects the cells of a column that were predicted, and strengthens what predicted them.
func (m *Temporal) confirm(column int32) {
	for c := column * int32(m.cells); c < (column+1)*int32(m.cells); c++ {
		predicted := false
		for _, s := range m.of[c] {
			if m.count[s] >= int32(m.threshold) {
				predicted = true
				m.teach(s)
			}
		}
		if predicted {
			m.Foretold = append(m.Foretold, c)
		}
	}
}

// burst returns the cell of a column that learns what came before, where none knew: the one that
// comes closest to it, or else the one that knows least.
func (m *Temporal) burst(column int32) (winner int32) {
	best, most := int32(-1), int32(m.match-1)
	first := column * int32(m.cells)
	winner, ties := first, 0
	for c := first; c < first+int32(m.cells); c++ {
		for _, s := range m.of[c] {
			if m.possible[s] > most {
				best, most = s, m.possible[s]
			}
		}
		switch a, b := len(m.of[c]), len(m.of[winner]); {
		case a < b:
			winner, ties = c, 1
		case a == b:
			ties++
			if m.random.IntN(ties) == 0 {
				winner = c
			}
		}
	}
	if best >= 0 {
		m.teach(best)
		return m.owner[best]
	}
	if len(m.before) > 0 {
		s := m.segment(winner)
		m.connect(s, m.grow)
	}
	return winner
}

// teach lets a segment lean towards the cells that were active, and reach out for those of them
// that it does not know.
func (m *Temporal) teach(s int32) {
	m.used[s] = m.now
	m.adapt(s, teaching, -teaching)
	m.connect(s, m.grow-int(m.possible[s]))
}

// punish weakens the segments that foretold, or almost, what did not come.
func (m *Temporal) punish() {
	for _, s := range m.touched {
		if m.possible[s] >= int32(m.match) && !m.came[m.owner[s]/int32(m.cells)] {
			m.adapt(s, -doubting, 0)
		}
	}
}

// adapt changes the synapses of a segment: those from active cells by one step, the rest by
// another. What falls to 0 is gone.
func (m *Temporal) adapt(s int32, active, rest float32) {
	for i := s * int32(m.synapses); i < (s+1)*int32(m.synapses); i++ {
		switch {
		case m.from[i] < 0:
			continue
		case m.on[m.from[i]]:
			m.strength[i] = min(m.strength[i]+active, 1)
		default:
			m.strength[i] += rest
		}
		if m.strength[i] <= 0 {
			m.cut(i)
		}
	}
}

// connect gives a segment synapses to some of the last winners that it has none to. Where there
// is no room left the weakest synapse has to go.
func (m *Temporal) connect(s int32, n int) {
	room := m.from[int(s)*m.synapses : (int(s)+1)*m.synapses]
	for left := len(m.before); left > 0 && n > 0; left-- {
		k := m.random.IntN(left)
		m.before[k], m.before[left-1] = m.before[left-1], m.before[k]
		cell, free, known := m.before[left-1], -1, false
		for i, c := range room {
			switch {
			case c == cell:
				known = true
			case c < 0 && free < 0:
				free = i
			}
		}
		if known {
			continue
		}
		if free < 0 {
			free = m.weakest(s)
			m.cut(s*int32(m.synapses) + int32(free))
		}
		at := s*int32(m.synapses) + int32(free)
		m.from[at], m.strength[at] = cell, newStrength
		m.out[cell] = append(m.out[cell], at)
		n--
	}
}

func (m *Temporal) weakest(s int32) (weakest int) {
	strength := m.strength[int(s)*m.synapses : (int(s)+1)*m.synapses]
	for i, v := range strength {
		if v < strength[weakest] {
			weakest = i
		}
	}
	return weakest
}

// cut removes a synapse.
func (m *Temporal) cut(synapse int32) {
	out := m.out[m.from[synapse]]
	for i, s := range out {
		if s == synapse {
			out[i] = out[len(out)-1]
			m.out[m.from[synapse]] = out[:len(out)-1]
			break
		}
	}
	m.from[synapse] = -1
}

// segment returns a new segment of a cell, or its least used one with nothing left in it.
func (m *Temporal) segment(cell int32) int32 {
	if len(m.of[cell]) < maxSegments {
		s := int32(len(m.owner))
		m.owner = append(m.owner, cell)
		m.used = append(m.used, m.now)
		m.count, m.possible = append(m.count, 0), append(m.possible, 0)
		for range m.synapses {
			m.from, m.strength = append(m.from, -1), append(m.strength, 0)
		}
		m.of[cell] = append(m.of[cell], s)
		return s
	}
	oldest := m.of[cell][0]
	for _, s := range m.of[cell] {
		if m.used[s] < m.used[oldest] {
			oldest = s
		}
	}
	for i := oldest * int32(m.synapses); i < (oldest+1)*int32(m.synapses); i++ {
		if m.from[i] >= 0 {
			m.cut(i)
		}
	}
	m.used[oldest] = m.now
	return oldest
}

// predict counts for all segments what the active cells say to them.
func (m *Temporal) predict() {
	for _, c := range m.active {
		m.on[c] = true
		for _, synapse := range m.out[c] {
			s := synapse / int32(m.synapses)
			if m.possible[s] == 0 {
				m.touched = append(m.touched, s)
			}
			m.possible[s]++
			if m.strength[synapse] >= connected {
				m.count[s]++
			}
		}
	}
}

// Size is how many bytes it holds.
func (m *Temporal) Size() int {
	lists := 0
	for c := range m.of {
		lists += 4*(cap(m.of[c])+cap(m.out[c])) + 6*wordBytes
	}
	return lists + cap(m.owner)*(4+wordBytes+8) + cap(m.from)*8 + len(m.on) + len(m.came) + 4*cap(m.touched) + 30*wordBytes
}
