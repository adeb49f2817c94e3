package forecast

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/plimsoll/plimsoll/podscaler/forecast/internal/htm"
)

// HTM expects what came after the same situation in the same context: a Hierarchical Temporal
// Memory, after the published algorithm. A situation becomes a few active columns (htm.Pooler),
// of which those cells are active that represent the sequence they are reached by
// (htm.Temporal); and a softmax regression says what comes of it, at each of a few horizons
// (htm.Classifier). All of it learns from every value as it comes. It needs 64 values above 0 to
// choose the scale that it reads the series by, or a history to train on, and is good after a day
// or two of minutes.
//
// What it sees is how far the last value is from the median of the last few, that median, and the
// place in the season if there is one. What it says is a change, which is added to the last
// value. Neither is of the published forecasters: they read and say the values themselves, and have
// nothing to say of a load that they have not seen yet.
//
// It decides itself when to learn, and it follows sequences that no weighted sum can. On counted
// requests it is a little worse than AR, and its temporal memory is of no use there, for noise does
// not repeat. A season takes it tens of repetitions; and it costs more than a hundred
// times what AR does.

// HTM is the settings of the HTM forecaster.
type HTM struct {
	// Columns is how many there are; 512, unless set. The published size is 2048.
	Columns int `json:"columns,omitempty"`
	// Cells is the number of them in a column; 8, unless set. The published size is 32.
	Cells int `json:"cells,omitempty"`
	// Active is how many columns are active at a time; 20, unless set.
	Active int `json:"active,omitempty"`
	// History is the number of values whose median is seen beside the last one; 15, unless set.
	History int `json:"history,omitempty"`
	// Season is the periods of a season; none, unless set.
	Season int `json:"season,omitempty"`
	// Horizons are what is learnt, in periods; 1, 5 and 15, unless set. What is between two of
	// them is on a line between them, and what is beyond the last is as the last.
	Horizons []int `json:"horizons,omitempty"`
	// Seed is that of the chance by which columns are wired; 1, unless set.
	Seed uint64 `json:"seed,omitempty"`
}

func init() {
	register("HTM", "expects what came after the same situation in the same context.",
		func(s Spec) (Model, error) { return newHTM(settings(s.HTM)) })
}

func (c *HTM) complete() {
	c.Columns = cmp.Or(c.Columns, 512)
	c.Cells = cmp.Or(c.Cells, 8)
	c.Active = cmp.Or(c.Active, 20)
	c.History = cmp.Or(c.History, 15)
	if len(c.Horizons) == 0 {
		c.Horizons = []int{1, 5, 15}
	}
	c.Seed = cmp.Or(c.Seed, 1)
}

func newHTM(c HTM) (Model, error) {
	c.complete()
	var f faults
	f.unless(c.Columns >= 64 && c.Columns <= 2048, "htm.columns", "must be from 64 to 2048", c.Columns)
	f.unless(c.Cells >= 1 && c.Cells <= 32, "htm.cells", "must be from 1 to 32", c.Cells)
	f.unless(c.Active >= 4 && c.Active <= 64, "htm.active", "must be from 4 to 64", c.Active)
	f.unless(c.Active <= c.Columns/4, "htm.active", "must be at most a quarter of the columns", c.Active)
	f.unless(c.History >= 2 && c.History <= 10080, "htm.history", "must be from 2 to 10080 periods", c.History)
	f.unless(c.Season == 0 || c.Season >= 2 && c.Season <= maxPeriods, "htm.season", "must be from 2 to 1048576 periods", c.Season)
	f.unless(len(c.Horizons) <= 16 && ascend(c.Horizons), "htm.horizons", "must be at most 16, ascending, from 1 to 10080 periods", c.Horizons)
	if f.err() != nil {
		return nil, f.err()
	}
	c.Horizons = slices.Clone(c.Horizons)
	return &htmModel{
		HTM: c, past: newRing(c.History), usual: newRing(settling), age: stale,
		recent: make([]pattern, c.Horizons[len(c.Horizons)-1]+stale),
	}, nil
}

func ascend(horizons []int) bool {
	for i, h := range horizons {
		if h < 1 || h > 10080 || i > 0 && h <= horizons[i-1] {
			return false
		}
	}
	return true
}

// htmModel is the forecaster. Until the ruler is there it has nothing else either.
type htmModel struct {
	HTM
	past  ring // values
	usual ring // values above 0, by which the ruler is chosen
	t     int  // periods that have passed
	age   int  // periods since the last value

	ruler    htm.Ruler // its unit is 0 until it is chosen
	drift    float64   // mean of the logarithm of values over the unit, of late
	fields   []htm.Field
	bits     []bool
	pooler   htm.Pooler
	temporal htm.Temporal
	ahead    []htm.Classifier // by horizon
	recent   []pattern        // by period, the last ones
}

// pattern is what there was in a period: what was active, and what changes are counted from, and
// in.
type pattern struct {
	active     []int32 // none in a gap
	last, unit float64
}

const (
	// settling is how many values above 0 the ruler is chosen by.
	settling = 64
	// otherwise is the drift from which a load is another one: seven times as much, or as little.
	otherwise = 2
)

// settle chooses the ruler, and forgets what was learnt by another one.
func (m *htmModel) settle(values []float64) {
	m.ruler, m.drift = htm.NewRuler(values), 0
	r := rand.New(rand.NewPCG(m.Seed, 0))
	bits := 0
	if m.fields, bits = htm.Lay(21, 11); m.Season > 0 {
		m.fields, bits = htm.Lay(21, 11, 7)
	}
	m.bits = make([]bool, bits)
	m.pooler = htm.NewPooler(bits, m.Columns, m.Active, r)
	m.temporal = htm.NewTemporal(m.Columns, m.Cells, m.Active, r)
	m.ahead = make([]htm.Classifier, len(m.Horizons))
	for i := range m.ahead {
		m.ahead[i] = htm.NewClassifier(changes(), m.Columns*(1+m.Cells))
	}
	m.restart()
}

// changes are those that the classifiers know, the smaller the finer.
func changes() (all []float64) {
	for x := -40; x <= 80; x++ {
		all = append(all, math.Sinh(float64(x)/10))
	}
	return all
}

// restart lets the next value be the first of a sequence.
func (m *htmModel) restart() {
	m.temporal.Reset()
	m.past.n = 0
	for i := range m.recent {
		m.recent[i].active = nil
	}
}

func (m *htmModel) Observe(v float64) {
	switch {
	case gap(v):
		m.skip()
	default:
		m.gauge(v)
		m.age = 0
		if m.ruler.Unit > 0 {
			m.learn(v)
			m.see(v)
		}
	}
	m.t++
}

// skip lets a period pass without a value: the sequence is broken.
func (m *htmModel) skip() {
	m.age = min(m.age+1, stale)
	m.at(m.t).active = nil
	m.temporal.Reset()
	if m.age == stale {
		m.past.n = 0
	}
}

// at returns the pattern of a period.
func (m *htmModel) at(t int) *pattern { return &m.recent[t%len(m.recent)] }

// gauge sees to it that the ruler suits the load. What is 0 says nothing of how much is usual.
func (m *htmModel) gauge(v float64) {
	if v < 1/Most {
		return
	}
	m.usual.push(v)
	if m.ruler.Unit > 0 {
		far := max(min(math.Log(v/m.ruler.Unit), 3*otherwise), -3*otherwise)
		m.drift += (far - m.drift) / 1000
	}
	if m.usual.n >= settling && (m.ruler.Unit == 0 || math.Abs(m.drift) > otherwise) {
		m.settle(m.usual.values)
	}
}

// learn takes the value as what came of the patterns before.
func (m *htmModel) learn(v float64) {
	for i, h := range m.Horizons {
		if h > m.t {
			continue
		}
		if p := m.at(m.t - h); p.active != nil {
			m.ahead[i].Learn(p.active, (v-p.last)/p.unit)
		}
	}
}

// see takes the value as a part of the pattern that is there now.
func (m *htmModel) see(v float64) {
	m.past.push(v)
	usual := m.past.median()
	clear(m.bits)
	m.fields[0].Number(m.ruler.Steps(v)-m.ruler.Steps(usual), m.bits)
	m.fields[1].Number(m.ruler.Steps(usual), m.bits)
	if m.Season > 0 {
		m.fields[2].Round(m.t%m.Season, m.Season, m.bits)
	}
	p := m.at(m.t)
	p.last, p.unit = v, usual+m.ruler.Unit
	p.active = m.pooler.Pool(m.bits, p.active)
	m.pooler.Learn(m.bits, p.active)
	m.temporal.Observe(p.active)
	// A column that burst says nothing of the context, and its cells would say it many times.
	for _, cell := range m.temporal.Foretold {
		p.active = append(p.active, int32(m.Columns)+cell)
	}
}

// median returns the median of what the ring holds.
func (r *ring) median() float64 { return htm.Median(r.values[:min(r.n, len(r.values))]) }

// Train chooses the ruler by the whole history, and then learns it value by value.
func (m *htmModel) Train(history []float64) {
	var above []float64
	for _, v := range history {
		if !gap(v) && v >= 1/Most {
			above = append(above, v)
		}
	}
	if m.ruler.Unit == 0 && len(above) >= settling {
		m.settle(above)
	}
	for _, v := range history {
		m.Observe(v)
	}
}

func (m *htmModel) Predict(h int) (float64, bool) {
	if m.age >= stale || m.ruler.Unit == 0 {
		return 0, m.age < stale && m.idle()
	}
	p := m.at(m.t - 1 - m.age)
	h += m.age
	before, change := 0, 0.0
	for i := range m.ahead {
		next, ok := m.ahead[i].Mean(p.active)
		switch {
		case !ok && i == 0:
			return 0, false
		case !ok:
			return count(p.last + change*p.unit)
		case h <= m.Horizons[i]:
			share := float64(h-before) / float64(m.Horizons[i]-before)
			return count(p.last + (change+share*(next-change))*p.unit)
		}
		before, change = m.Horizons[i], next
	}
	return count(p.last + change*p.unit)
}

// idle reports whether nothing but 0 was ever seen.
func (m *htmModel) idle() bool { return m.usual.n == 0 && m.t >= settling }

func (m *htmModel) Size() int {
	bytes := m.past.size() + m.usual.size() + len(m.bits) + 60*wordBytes
	for i := range m.recent {
		bytes += 5*wordBytes + 4*cap(m.recent[i].active)
	}
	for i := range m.ahead {
		bytes += m.ahead[i].Size()
	}
	return bytes + m.pooler.Size() + m.temporal.Size()
}
