package forecast

import "math"

// level is what an LSTM sees values from: a mean of the last ones, and the unit in which they
// miss it, which is a share of it. So what was learnt at a small load holds for a large one of the
// same shape.
//
// One without a memory is the mean of all its history, and stays where it is: values are seen in
// standard deviations of the history, as their Z-scores.
type level struct {
	memory float64 // periods
	least  float64 // no share is taken of less, for any value would be a surprise to a level near 0
	unit   float64 // what is a usual miss, as a share; 0 for none, and nothing is a surprise

	e      float64 // the level
	values int
	age    int // periods since the last value
}

// furthest is by how many units a value may miss the level: what is further off counts as so far
// off. Of a spike it is learnt that it was one, and not how large.
const furthest = 8

// newLevel settles the unit by a history. A history that never moved has no unit.
func newLevel(history []float64, memory float64) level {
	if memory == 0 {
		return standard(history)
	}
	l := level{memory: memory}
	sum, n := 0.0, 0.0
	for _, v := range history {
		if !gap(v) {
			sum, n = sum+v, n+1
		}
	}
	if sum < 1/Most {
		return l // next to nothing is nothing to divide by
	}
	l.least = sum / n / 100
	squares, n, at := 0.0, 0.0, l
	for _, v := range history {
		if share, ok := at.pass(v); ok {
			squares, n = squares+share*share, n+1
		}
	}
	l.unit = math.Sqrt(squares / max(n, 1))
	return l
}

// standard is a level that stays at the mean of a history.
func standard(history []float64) (l level) {
	sum, n := 0.0, 0.0
	for _, v := range history {
		if !gap(v) {
			sum, n = sum+v, n+1
		}
	}
	l.e = sum / max(n, 1)
	squares := 0.0
	for _, v := range history {
		if !gap(v) {
			squares += (v - l.e) * (v - l.e)
		}
	}
	// Of values that are all the same, what is left is the error of their mean.
	if unit := math.Sqrt(squares / max(n, 1)); unit > 1e-9*l.e && unit >= 1/Most {
		l.unit, l.values = unit, 1
	}
	return l
}

// pass lets a period pass and returns by what share of it its value missed the level before. It
// is not ok for a gap, nor for a first value: that is the level, as it is after a long silence.
func (l *level) pass(v float64) (share float64, ok bool) {
	if gap(v) {
		l.age = min(l.age+1, stale)
		return 0, false
	}
	if l.memory == 0 {
		l.age = 0
		return v - l.e, true
	}
	if !l.known() {
		l.e, l.values, l.age = v, 1, 0
		return 0, false
	}
	share = (v - l.e) / l.whole()
	l.values++
	l.e += (v - l.e) / min(float64(l.values), l.memory)
	l.age = 0
	return share, true
}

// take lets a period pass and returns by how many units its value missed the level, or NaN.
func (l *level) take(v float64) float64 {
	share, ok := l.pass(v)
	switch {
	case !ok:
		return math.NaN()
	case l.unit == 0:
		return 0
	}
	return bounded(share / l.unit)
}

// expect returns the value that misses the level by so many units.
func (l *level) expect(units float64) float64 {
	return max(l.e+bounded(units)*l.unit*l.whole(), 0)
}

// whole is what shares are of.
func (l *level) whole() float64 {
	if l.memory == 0 {
		return 1
	}
	return max(l.e, l.least)
}

func (l *level) known() bool { return l.values > 0 && l.age < stale }

func bounded(units float64) float64 { return min(max(units, -furthest), furthest) }

// orNone makes no surprise of a period without a value, or with one beyond belief.
func orNone(units float64) float64 {
	if math.IsNaN(units) {
		return 0
	}
	return units
}
