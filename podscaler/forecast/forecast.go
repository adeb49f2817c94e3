package forecast

import "math"

// Model predicts a series that comes one value a period.
type Model interface {
	// Observe takes the next period's value. NaN is a gap, and so is what cannot be a count, a
	// value below 0 or above Most: time passes, and nothing is learned.
	Observe(v float64)
	// Predict returns the value that is expected h periods after the last one, h ≥ 1. It is
	// never negative, NaN or infinite, and not ok while too little is known. It changes nothing.
	Predict(h int) (mean float64, ok bool)
}

// Trainer is a Model that is trained on a history, oldest first, before it goes on line, or
// that makes better use of a history in one piece than value by value. After Train the last
// value of the history is the last value observed. The same history and seed make the same
// model.
type Trainer interface {
	Model
	Train(history []float64)
}

// Sized is a Model that knows the bytes of memory it holds.
type Sized interface{ Size() int }

// Clocked is a Model that reads the time of day, or passes it on. Where it is not said which period
// of the day the next value is of, the first was that from midnight.
type Clocked interface {
	Model
	SetClock(period int)
}

// SetClock says which period of the day the next value of m is of, if m wants to know.
func SetClock(m Model, period int) {
	if c, ok := m.(Clocked); ok {
		c.SetClock(period)
	}
}

// Train hands m a history, oldest first: at once if m is a Trainer, else value by value.
func Train(m Model, history []float64) {
	if t, ok := m.(Trainer); ok {
		t.Train(history)
		return
	}
	for _, v := range history {
		m.Observe(v)
	}
}

// Size returns the bytes of memory that m holds, if it knows them.
func Size(m Model) (bytes int, known bool) {
	if s, ok := m.(Sized); ok {
		return s.Size(), true
	}
	return 0, false
}

// Most is the largest value of a series that is believed. Squares of larger ones, and their
// sums, would leave what a float holds, and a model never recovers from that.
const Most = 1e30

// gap reports whether v is no value of a series.
func gap(v float64) bool { return !(v >= 0 && v <= Most) }

// count makes a forecast of a number: nothing is expected to be below 0, and what has run off
// to infinity is not a forecast.
func count(v float64) (mean float64, ok bool) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, false
	}
	return max(v, 0), true
}

// wordBytes is the size of a float64 or an int, for Size.
const wordBytes = 8
