package htm

import (
	"math"
	"slices"
)

// Classifier says how likely each of a number of values is, by what is active: softmax regression,
// one step with every value. A value between two that it knows counts for both, in shares of which
// the mean is the value, so that nothing is lost by counting in steps.
type Classifier struct {
	values  []float64 // ascending
	seen    []bool    // values that have come up; the others are out of the question
	taught  bool
	weights [][]float32 // by input, and by value; none until the input is active
}

// learning is how much of what a pattern failed to say is added to what it says, all inputs
// together.
const learning = 1

// NewClassifier knows ascending values, and nothing of them yet.
func NewClassifier(values []float64, inputs int) Classifier {
	return Classifier{values: values, seen: make([]bool, len(values)), weights: make([][]float32, inputs)}
}

// Learn takes what came of a pattern.
func (c *Classifier) Learn(active []int32, v float64) {
	if len(active) == 0 {
		return
	}
	low, share := c.place(v)
	c.seen[low] = true
	if share > 0 {
		c.seen[low+1] = true
	}
	c.taught = true
	miss := c.likely(active)
	for i := range miss {
		miss[i] = -miss[i]
	}
	miss[low] += 1 - share
	if share > 0 {
		miss[low+1] += share
	}
	step := learning / float64(len(active))
	for _, input := range active {
		if c.weights[input] == nil {
			c.weights[input] = make([]float32, len(c.values))
		}
		w := c.weights[input]
		for i, m := range miss {
			w[i] += float32(step * m)
		}
	}
}

// place returns the value that is next to v from below, and the share that the one above it has
// in v. Beyond the first or the last value there is no other.
func (c *Classifier) place(v float64) (low int, share float64) {
	high, exact := slices.BinarySearch(c.values, v)
	switch {
	case exact || high == 0:
		return high, 0
	case high == len(c.values):
		return high - 1, 0
	}
	low = high - 1
	return low, (v - c.values[low]) / (c.values[high] - c.values[low])
}

// likely returns how likely each value is.
func (c *Classifier) likely(active []int32) []float64 {
	sums := make([]float64, len(c.values))
	for _, input := range active {
		for i, w := range c.weights[input] {
			sums[i] += float64(w)
		}
	}
	top, all := math.Inf(-1), 0.0
	for i, s := range sums {
		if c.seen[i] {
			top = max(top, s)
		}
	}
	for i, s := range sums {
		sums[i] = 0
		if c.seen[i] {
			sums[i] = math.Exp(s - top)
			all += sums[i]
		}
	}
	for i := range sums {
		sums[i] /= all
	}
	return sums
}

// Mean returns the mean of what is likely.
func (c *Classifier) Mean(active []int32) (mean float64, ok bool) {
	if !c.taught {
		return 0, false
	}
	for i, p := range c.likely(active) {
		mean += p * c.values[i]
	}
	return mean, true
}

// Size is how many bytes it holds.
func (c *Classifier) Size() int {
	bytes := len(c.values)*wordBytes + len(c.seen) + len(c.weights)*3*wordBytes + 10*wordBytes
	for _, w := range c.weights {
		bytes += 4 * len(w)
	}
	return bytes
}
