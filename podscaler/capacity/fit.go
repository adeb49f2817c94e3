package capacity

import (
	"errors"
	"fmt"
	"slices"
)

// Fit is how an MMPP is fitted to a series: by states of equal size, and the moves between them as
// they were counted. Each period belongs to a state by the mean count of the periods around it, for
// a single count is as much chance as the regime that it came from. A state's rate is the mean of
// its counts.
//
// The series is taken as a ring, in which the first period follows the last. So every state is left
// as often as it is entered, and the process has the mean of the series exactly.
//
// It is not the most likely process, which would take an iterative search. It loses what is within
// a state: of rare peaks only their mean is kept, and where requests come in clusters, as pages
// with their pictures do, minutes jump less than they did.
type Fit struct {
	States int
	// Around is how many periods the mean covers that decides a period's state: odd, and 1 for
	// the count alone. More take out chance, and what the regimes do in shorter times with it.
	Around int
}

// MMPP fits the process to counts, one a period. Where many counts are the same there may be fewer
// states than asked for.
func (f Fit) MMPP(counts []float64) (MMPP, error) {
	if err := f.validate(counts); err != nil {
		return MMPP{}, err
	}
	states, n := f.assign(smooth(counts, f.Around))
	m := MMPP{Rates: make([]float64, n), Transitions: make([][]float64, n)}
	for i := range m.Transitions {
		m.Transitions[i] = make([]float64, n)
	}
	visits := make([]float64, n)
	for i, s := range states {
		visits[s]++
		m.Rates[s] += counts[i]
		m.Transitions[s][states[(i+1)%len(states)]]++
	}
	for s, n := range visits {
		m.Rates[s] /= n
		for j := range m.Transitions[s] {
			m.Transitions[s][j] /= n
		}
	}
	return m, nil
}

func (f Fit) validate(counts []float64) error {
	var errs []error
	if f.States < 1 {
		errs = append(errs, fmt.Errorf("states: must be 1 at least, was %d", f.States))
	}
	if f.Around < 1 || f.Around%2 == 0 {
		errs = append(errs, fmt.Errorf("around: must be an odd number of periods, was %d", f.Around))
	}
	if least := max(f.States, f.Around, 2); len(counts) < least {
		errs = append(errs, fmt.Errorf("counts: must be %d at least, was %d", least, len(counts)))
	}
	for i, c := range counts {
		if !finite(c) || c < 0 {
			errs = append(errs, fmt.Errorf("counts[%d]: must be 0 or more, was %v", i, c))
			break // one gap is often the first of thousands
		}
	}
	return errors.Join(errs...)
}

// assign gives each period the state of its level, states being numbered from the lowest without
// a gap, and returns how many there are.
func (f Fit) assign(level []float64) (states []int, n int) {
	sorted := slices.Sorted(slices.Values(level))
	var edges []float64 // the lowest level of each state but the first
	for s := 1; s < f.States; s++ {
		edge := sorted[s*len(sorted)/f.States]
		if edge > sorted[0] && (len(edges) == 0 || edge > edges[len(edges)-1]) {
			edges = append(edges, edge)
		}
	}
	states = make([]int, len(level))
	for i, v := range level {
		at, exact := slices.BinarySearch(edges, v)
		if exact {
			at++
		}
		states[i] = at
	}
	return states, len(edges) + 1
}

// smooth is the mean of each value and its neighbours on the ring.
func smooth(values []float64, around int) []float64 {
	n, half := len(values), around/2
	means := make([]float64, n)
	for i := range values {
		sum := 0.0
		for j := i - half; j <= i+half; j++ {
			sum += values[(j+n)%n]
		}
		means[i] = sum / float64(around)
	}
	return means
}
