package replay

import (
	"fmt"
	"math"
	"slices"
)

const (
	// MinutesADay is the periods of a day.
	MinutesADay = 24 * 60

	secondsAMinute = 60
)

// Trace is a load: the requests of each minute, which need not be whole numbers once it is scaled.
type Trace struct {
	Name   string
	Counts []float64
}

// Validate returns the first fault of the counts.
func (t *Trace) Validate() error {
	if len(t.Counts) < 2 {
		return fmt.Errorf("%s: must have 2 minutes at least, had %d", t.Name, len(t.Counts))
	}
	for i, n := range t.Counts {
		if !(n >= 0) || math.IsInf(n, 0) {
			return fmt.Errorf("%s: minute %d: count: must be 0 or more, was %v", t.Name, i, n)
		}
	}
	return nil
}

// splits returns the fault of so many minutes of training: some must be left to be judged by.
func (t *Trace) splits(train int) error {
	if train < 0 || train >= len(t.Counts) {
		return fmt.Errorf("%s: train: must be from 0 to %d minutes, was %d", t.Name, len(t.Counts)-1, train)
	}
	return nil
}

// Window returns so many days of the trace from a day on, day 0 being the first. It shares the
// counts with the trace.
func (t *Trace) Window(day, days int) (*Trace, error) {
	switch have := len(t.Counts) / MinutesADay; { // whole days
	case have == 0:
		return nil, fmt.Errorf("%s: must have a whole day of %d minutes at least, had %d", t.Name, MinutesADay, len(t.Counts))
	case day < 0 || day >= have:
		return nil, fmt.Errorf("%s: day: must be from 0 to %d, was %d", t.Name, have-1, day)
	case days < 1 || day+days > have:
		return nil, fmt.Errorf("%s: days: must be from 1 to %d from day %d on, was %d", t.Name, have-day, day, days)
	}
	from, to := day*MinutesADay, (day+days)*MinutesADay
	return &Trace{Name: fmt.Sprintf("%s/%02d", t.Name, day), Counts: t.Counts[from:to:to]}, nil
}

// Times returns the trace with every count multiplied.
func (t *Trace) Times(by float64) *Trace {
	counts := slices.Clone(t.Counts)
	for i := range counts {
		counts[i] *= by
	}
	return &Trace{Name: t.Name, Counts: counts}
}

// rates are counts a minute as requests a second.
func rates(counts []float64) []float64 {
	out := make([]float64, len(counts))
	for i, n := range counts {
		out[i] = n / secondsAMinute
	}
	return out
}
