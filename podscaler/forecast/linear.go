package forecast

import "math"

// linear is what AR and Ridge share: the change from one value to the next as a weighted sum
// of what is known before, with weights that are learnt as the values come. The weights are
// drawn towards 0, which is the forecast of Last, so that what does not move stays exactly where
// it is, and what is known too little is not believed too much.
type linear struct {
	lags int // values in a row that are needed, real ones
	keep float64
	// regressors fills a row with what explains period t: at(i) is the value i periods before
	// it. A row with a NaN cannot be used.
	regressors func(row []float64, t int, at func(i int) float64)

	past  ring // a gap is filled with what was expected
	t     int  // periods that have passed
	real  int  // values since the last gap
	age   int  // periods since the last value
	rows  int  // rows learnt
	unit  float64
	top   float64 // the largest value that is remembered
	fit   regression
	row   []float64
	still bool // in training: nothing fades
}

// penalty is the weight that the last value has against the data, in rows of the series' size.
const penalty = 1e-6

// steepest is how much of the largest value may be expected at most.
const steepest = 1.5

func newLinear(lags, reach, regressors int, memory float64) linear {
	return linear{
		lags: lags, keep: 1 - 1/memory, past: newRing(reach), age: stale,
		fit: newRegression(regressors, penalty), row: make([]float64, regressors),
	}
}

func (m *linear) Observe(v float64) {
	if gap(v) {
		m.skip()
		return
	}
	if m.real >= m.lags && m.scale() {
		m.learn(v)
	}
	m.past.push(v)
	m.real, m.age = m.real+1, 0
	m.top = max(v, m.top*m.keep)
	m.t++
}

// skip lets a period pass without a value. What was expected is in for it, so that the
// next forecast has something to go by, and is not learnt from.
func (m *linear) skip() {
	v, ok := m.Predict(1)
	if !ok {
		v = m.past.back(0)
	}
	m.past.push(v)
	m.real, m.age = 0, min(m.age+1, stale)
	m.t++
}

// scale settles the unit of the regression, so that its penalty means the same for any series.
// A series that was 0 so far has none, and nothing to learn.
func (m *linear) scale() bool {
	if m.unit == 0 {
		sum := 0.0
		for i := range m.lags {
			sum += m.past.back(i) * m.past.back(i)
		}
		m.settle(sum / float64(m.lags))
	}
	return m.unit > 0
}

// settle makes the unit of a mean square. What is next to nothing is nothing: counted in such a
// unit, a load that comes later would leave what a float holds.
func (m *linear) settle(square float64) {
	if square > 1/(Most*Most) {
		m.unit = math.Sqrt(square)
	}
}

func (m *linear) learn(v float64) {
	keep := m.keep
	if m.still {
		keep = 1
	}
	m.regressors(m.row, m.t, func(i int) float64 { return m.past.back(i-1) / m.unit })
	if !whole(m.row) {
		return
	}
	m.fit.add(m.row, (v-m.past.back(0))/m.unit, keep)
	m.rows++
}

// Train fits the whole history with the same weight to every period of it.
func (m *linear) Train(history []float64) {
	if m.unit == 0 {
		sum, n := 0.0, 0.0
		for _, v := range history {
			if !gap(v) {
				sum, n = sum+v*v, n+1
			}
		}
		m.settle(sum / max(n, 1))
	}
	m.still = true
	for _, v := range history {
		m.Observe(v)
	}
	m.still = false
}

// Predict walks to the horizon a period at a time, taking each forecast for a value. A walk may
// not leave what has been seen by more than half: after the steep climb of a flash crowd the
// weights would have the load grow on, to three times what it was two hours later.
func (m *linear) Predict(h int) (float64, bool) {
	if m.age >= stale || !m.ready() {
		return 0, false
	}
	ahead := make([]float64, 0, h)
	row := make([]float64, len(m.row))
	at := func(i int) float64 {
		if k := len(ahead) - i; k >= 0 {
			return ahead[k]
		}
		return m.past.back(i - 1 - len(ahead))
	}
	scaled := func(i int) float64 { return at(i) / m.unit }
	for k := range h {
		next := at(1)
		if m.unit > 0 {
			m.regressors(row, m.t+k, scaled)
			if !whole(row) {
				return 0, false
			}
			next += m.fit.at(row) * m.unit
		}
		ahead = append(ahead, min(max(next, 0), steepest*m.top))
	}
	return count(ahead[h-1])
}

// ready reports whether the weights rest on enough, or nothing but 0 was ever seen.
func (m *linear) ready() bool { return m.rows >= m.lags || m.unit == 0 && m.real >= m.lags }

func (m *linear) Size() int { return m.past.size() + m.fit.size() + (len(m.row)+20)*wordBytes }

// whole reports whether all of a row is known.
func whole(row []float64) bool {
	for _, v := range row {
		if math.IsNaN(v) {
			return false
		}
	}
	return true
}
