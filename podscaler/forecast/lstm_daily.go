package forecast

import (
	"cmp"
	"math"
)

// DailyLSTM is an LSTM that reads what the one of HPA+ does: of each of the last sixteen values its
// Z-score by the history, its difference from the one before, and the minutes since midnight, which
// is a Z-score, too. It says the Z-score of the next value. All else is as of LSTM.
//
// It needs days that are alike, and the time of day (Clocked). It loses to LSTM where a load leaves
// the range of its history, for it knows nothing there; and where three days are too few to learn
// from what was the time of day and what was chance.

func init() {
	register("DailyLSTM", "expects what a small recurrent network has learnt to follow the last values, their differences and the time of day.",
		func(s Spec) (Model, error) {
			c := settings(s.DailyLSTM)
			c.Season = cmp.Or(c.Season, dayOfMinutes)
			return newLSTM("dailyLSTM", c, reader{season: c.Season})
		})
}

// reader makes of a period what a network reads of it: how far its value missed the level, or with
// a season besides what that changed by, and the time of day.
type reader struct{ season int }

// mostInputs is the most numbers that a network reads a period.
const mostInputs = 3

func (r reader) inputs() int {
	if r.season == 0 {
		return 1
	}
	return mostInputs
}

// read fills in what is read of a period, by what was read of the one before, and returns what the
// next one goes by. A period without a value is no surprise to a network that goes by a level, and
// to another one as the period before.
func (r reader) read(to []float64, miss, last float64, clock int) float64 {
	if r.season == 0 {
		to[0] = orNone(miss)
		return to[0]
	}
	if math.IsNaN(miss) {
		miss = orNone(last)
	}
	if math.IsNaN(last) {
		last = miss // a window's first value has none before it
	}
	to[0], to[1], to[2] = miss, miss-last, r.hour(clock)
	return miss
}

// hour is the Z-score of a period among those of a day.
func (r reader) hour(clock int) float64 {
	n := float64(r.season)
	return (float64(r.period(clock)) - (n-1)/2) / math.Sqrt((n*n-1)/12)
}

// period is the period of the day, by a count that began at a midnight.
func (r reader) period(clock int) int {
	if r.season == 0 {
		return 0
	}
	return ((clock % r.season) + r.season) % r.season
}

// SetClock says which period of the day the next value is of.
func (m *lstmModel) SetClock(period int) { m.clock = m.reader.period(period) }
