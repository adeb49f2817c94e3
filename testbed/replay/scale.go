package replay

import (
	"errors"
	"fmt"
)

// scaleExcess is the excess at which the oracle says how large a load is.
const scaleExcess = 0.9

// mostScale is more than a request a minute has to be multiplied by to need any number of pods.
const mostScale = 1e12

// Scale returns the trace multiplied so that the oracle takes so many pods in the mean of the
// minutes after the training, at an excess of 0.9. So loads of different sites, and of the same at
// different hours, are compared where pods are as coarse.
func Scale(t *Trace, train int, pods float64, s Setting) (*Trace, error) {
	s.Excess = scaleExcess
	if err := errors.Join(t.Validate(), t.splits(train), s.Validate()); err != nil {
		return nil, err
	}
	if !(pods > float64(s.Min) && pods < float64(s.Max)) {
		return nil, fmt.Errorf("pods: must be between min %d and max %d, was %v", s.Min, s.Max, pods)
	}
	test := rates(t.Counts[train:])
	mean := func(by float64) float64 {
		sum := 0
		for _, load := range test {
			sum += s.pods(load * by)
		}
		return float64(sum) / float64(len(test))
	}
	low, high := 0.0, 1.0
	for mean(high) < pods {
		if low, high = high, 2*high; high > mostScale {
			return nil, fmt.Errorf("%s: pods: no multiple of the load takes %v in the mean, for %d of %d minutes are without requests",
				t.Name, pods, without(test), len(test))
		}
	}
	for range 60 {
		if middle := (low + high) / 2; mean(middle) < pods {
			low = middle
		} else {
			high = middle
		}
	}
	return t.Times(high), nil
}

// Idle reports whether the load never takes more than the fewest pods, at an excess, and the most
// requests a second that it has after the training.
func Idle(t *Trace, train int, s Setting, excess float64) (peak float64, idle bool) {
	for _, load := range rates(t.Counts[train:]) {
		peak = max(peak, load) // of what is not a number, what was before
	}
	return peak, s.With(Excess, excess).pods(peak) <= s.Min
}

// without is how many minutes have no requests.
func without(series []float64) (minutes int) {
	for _, v := range series {
		if v == 0 {
			minutes++
		}
	}
	return minutes
}
