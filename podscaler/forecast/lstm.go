package forecast

import (
	"cmp"
	"math"
	"math/rand/v2"

	"github.com/plimsoll/plimsoll/podscaler/forecast/internal/lstm"
)

// LSTM expects what a small recurrent network has learnt to follow the last values: one layer of
// long short-term memory units, trained on a history by stochastic gradient descent. It needs a
// history, and is better the longer that is; without one it teaches itself on the first day.
//
// It does not see values but by what share of it each missed the level before it, the mean of
// the last few, and says by what share the next one will. A network that is handed the values
// knows nothing outside the range that it was trained in, and does worse than Last on the day of
// a shuttle's launch. This one takes the level as it comes, and learns what happens around it.
// What it does not see is the time of day: three days are too few to learn it from.
//
// Further ahead it goes a period at a time and takes its own forecasts for values, as AR does,
// so that one network serves every horizon. After as many periods as it looks back on it
// stays where it is, for by then it reads nothing but itself.
//
// On request rates by the minute it is as good as AR, for fifty times as long a training, and
// better where there are spikes, for it does not take them for more than they are. It loses where
// AR does, and to AR wherever a person has to understand it.

// LSTM is the settings of the LSTM forecaster.
type LSTM struct {
	// Units is how many units the layer has; 20, unless set.
	Units int `json:"units,omitempty"`
	// Lookback is how many values it looks back on; 16, unless set.
	Lookback int `json:"lookback,omitempty"`
	// Level is over how many periods the level is a mean; 16, unless set. By a level over
	// very many it sees the values as they are, and is lost outside the range of its history.
	// DailyLSTM has none.
	Level float64 `json:"level,omitempty"`
	// Rounds is how often it goes through the history at most; 20, unless set. It stops when
	// the last fifth, which it does not learn from, is foretold no better for six rounds.
	Rounds int `json:"rounds,omitempty"`
	// Batch is how many windows of the history it learns from at a time; 8, unless set.
	Batch int `json:"batch,omitempty"`
	// Rate is the size of a step at first, which gets smaller by the round; 0.005, unless set.
	Rate float64 `json:"rate,omitempty"`
	// History is how many periods are kept to learn from on line; 4320, unless set: three days
	// of minutes.
	History int `json:"history,omitempty"`
	// Retrain is after how many periods it begins to learn anew from those, from what it knows;
	// 1440, unless set. It does one batch each period, so that none of them has to wait, and
	// goes by what it knew until it is done. One that was never trained begins likewise.
	Retrain int `json:"retrain,omitempty"`
	// Seed is that of its first weights and of the order in which it learns; 1, unless set.
	Seed uint64 `json:"seed,omitempty"`
	// Season is how many periods a day has; 1440, unless set. DailyLSTM alone reads it.
	Season int `json:"season,omitempty"`
}

func init() {
	register("LSTM", "expects what a small recurrent network has learnt to follow the last values.",
		func(s Spec) (Model, error) {
			c := settings(s.LSTM)
			c.Level = cmp.Or(c.Level, 16)
			return newLSTM("lstm", c, reader{})
		})
}

func (c *LSTM) complete() {
	c.Units = cmp.Or(c.Units, 20)
	c.Lookback = cmp.Or(c.Lookback, 16)
	c.Rounds = cmp.Or(c.Rounds, 20)
	c.Batch = cmp.Or(c.Batch, 8)
	c.Rate = cmp.Or(c.Rate, 0.005)
	c.History = cmp.Or(c.History, 3*dayOfMinutes)
	c.Retrain = cmp.Or(c.Retrain, dayOfMinutes)
	c.Seed = cmp.Or(c.Seed, 1)
}

// lookbacks is how many times the look-back a history has to be, so that there are windows to
// learn from and some to say what they are worth.
const lookbacks = 8

// check finds what is wrong with settings that are in the block that is named.
func (c *LSTM) check(block string, daily bool) error {
	var f faults
	f.unless(c.Units >= 1 && c.Units <= 256, block+".units", "must be from 1 to 256", c.Units)
	f.unless(c.Lookback >= 2 && c.Lookback <= 256, block+".lookback", "must be from 2 to 256 periods", c.Lookback)
	if daily {
		f.unless(c.Level == 0, block+".level", "must be omitted for DailyLSTM, which sees loads beside those of all its history", c.Level)
		f.unless(c.Season >= 2 && c.Season <= maxPeriods, block+".season", "must be from 2 to 1048576 periods", c.Season)
	} else {
		f.unless(c.Level >= 1 && c.Level <= maxPeriods, block+".level", "must be from 1 to 1048576 periods", c.Level)
		f.unless(c.Season == 0, block+".season", "must be omitted for LSTM, which does not read the time of day; DailyLSTM does", c.Season)
	}
	f.unless(c.Rounds >= 1 && c.Rounds <= 1000, block+".rounds", "must be from 1 to 1000", c.Rounds)
	f.unless(c.Batch >= 1 && c.Batch <= 1024, block+".batch", "must be from 1 to 1024 windows", c.Batch)
	f.unless(c.Rate > 0 && c.Rate <= 0.1, block+".rate", "must be above 0 and at most 0.1", c.Rate)
	f.unless(c.History >= lookbacks*c.Lookback && c.History <= maxPeriods, block+".history", "must be from 8 look-backs to 1048576 periods", c.History)
	f.unless(c.Retrain >= lookbacks*c.Lookback && c.Retrain <= maxPeriods, block+".retrain", "must be from 8 look-backs to 1048576 periods", c.Retrain)
	return f.err()
}

// lstmModel is the model: a network at work, and at times one that is being taught.
type lstmModel struct {
	c      LSTM
	random *rand.Rand
	net    lstm.Network
	known  bool        // the network has been taught
	level  level       // that the values are seen from
	reader reader      // of what the network reads
	window ring        // that is made from: by how far values missed the level, NaN for a gap
	now    lstm.Moment // of the network after it has read that
	last   float64     // the last miss that it read
	clock  int         // the period of the day of the next value
	top    float64     // the largest value that is remembered

	past     ring // values to learn from, NaN for a gap
	since    int  // periods since the network was taught, or since there was anything
	teaching *training
}

// newLSTM makes one of settings that are in the block that is named.
func newLSTM(block string, c LSTM, by reader) (Model, error) {
	c.complete()
	if err := c.check(block, by.season != 0); err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(c.Seed, 0))
	return &lstmModel{
		c: c, random: random, net: lstm.NewNetwork(by.inputs(), c.Units, random), level: newLevel(nil, c.Level),
		reader: by, window: newRing(c.Lookback), now: lstm.NewMoment(by.inputs(), c.Units), past: newRing(c.History),
	}, nil
}

func (m *lstmModel) Observe(v float64) {
	m.see(v)
	m.learn()
	m.read()
}

// see lets a period pass.
func (m *lstmModel) see(v float64) {
	if gap(v) {
		v = math.NaN()
	} else {
		m.top = max(v, m.top*(1-1/float64(m.c.History)))
	}
	m.past.push(v)
	m.window.push(m.level.take(v))
	m.clock = m.reader.period(m.clock + 1)
}

// learn does a batch of what is to be learnt, if it is time.
func (m *lstmModel) learn() {
	if m.teaching == nil {
		if m.since++; m.since < m.c.Retrain {
			return
		}
		m.since = 0
		m.teach(m.past.all())
	}
	if m.teaching != nil {
		m.teaching.step()
		m.adopt()
	}
}

// Train learns from the whole history at once. One that is too short for that is only seen.
func (m *lstmModel) Train(history []float64) {
	for _, v := range history {
		m.see(v)
	}
	m.since, m.teaching = 0, nil
	m.teach(history)
	for m.teaching != nil {
		m.teaching.step()
		m.adopt()
	}
	m.read()
}

// teach begins to teach a network that knows what the one at work does, if there is enough to
// learn from.
func (m *lstmModel) teach(history []float64) {
	l := newLevel(history, m.c.Level)
	at, series, values := l, make([]float64, len(history)), 0
	for i, v := range history {
		series[i] = at.take(v)
		if !math.IsNaN(series[i]) {
			values++
		}
	}
	if values+1 >= lookbacks*m.c.Lookback {
		m.teaching = newTraining(&m.c, lesson{series, l, m.reader, m.clock - len(history)}, m.net, m.random)
	}
}

// adopt puts a network to work that has been taught, and looks back with its eyes.
func (m *lstmModel) adopt() {
	if !m.teaching.done() {
		return
	}
	m.net, m.level, m.known = m.teaching.best, m.teaching.level, true
	m.teaching = nil
	for _, v := range m.past.all() {
		m.window.push(m.level.take(v))
	}
}

// read reads the window, from nothing: what was before it is forgotten for good. Where there was
// no value the network reads that all was as expected.
func (m *lstmModel) read() {
	if !m.known {
		return
	}
	m.now.Clear()
	var room [mostInputs]float64
	in := room[:m.reader.inputs()]
	m.last = math.NaN()
	for i := m.c.Lookback - 1; i >= 0; i-- {
		m.last = m.reader.read(in, m.window.back(i), m.last, m.clock-1-i)
		m.net.Read(in, &m.now, &m.now)
	}
}

// Predict walks to the horizon, which may not lead much above what has been seen.
func (m *lstmModel) Predict(h int) (float64, bool) {
	if !m.known || !m.level.known() {
		return 0, false
	}
	l, ahead, last := m.level, m.now, m.last
	var room [mostInputs]float64
	in := room[:m.reader.inputs()]
	f := min(l.expect(m.net.Expects(&ahead)), steepest*m.top)
	for k := range min(h, m.c.Lookback) - 1 {
		if k == 0 {
			ahead = ahead.Clone()
		}
		last = m.reader.read(in, l.take(f), last, m.clock+k)
		m.net.Read(in, &ahead, &ahead)
		f = min(l.expect(m.net.Expects(&ahead)), steepest*m.top)
	}
	return count(f)
}

func (m *lstmModel) Size() int {
	bytes := (len(m.net.Params)+65)*wordBytes + m.now.Size() + m.window.size() + m.past.size()
	if m.teaching != nil {
		bytes += m.teaching.size()
	}
	return bytes
}
