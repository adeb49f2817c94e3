package forecast

import "math"

// Distribution is what may come at a horizon, and how likely.
type Distribution struct {
	Mean  float64 // what is expected
	Known bool    // whether anything is: the rest of an unknown distribution means nothing

	levels, values []float64 // quantiles, both rising; none is all weight on the mean
}

// Quantile returns the value that is not exceeded with chance p, between 0 and 1. Between the
// quantiles that are kept it draws a straight line; beyond the outermost it has seen nothing,
// and answers with those. It is never negative, and never falls as p rises.
func (d Distribution) Quantile(p float64) float64 {
	n := len(d.levels)
	switch {
	case !d.Known || math.IsNaN(p):
		return math.NaN()
	case n == 0:
		return d.Mean
	case p <= d.levels[0]:
		return d.values[0]
	}
	for i := 1; i < n; i++ {
		if lo, hi := d.levels[i-1], d.levels[i]; p <= hi {
			// Rounding may lead past the end of the line, above what comes after it.
			return min(d.values[i-1]+(p-lo)/(hi-lo)*(d.values[i]-d.values[i-1]), d.values[i])
		}
	}
	return d.values[n-1]
}

// Above returns how much of what may come is above c, on the mean over all that may come: the
// requests that a capacity of c is expected to be short of. What the next pod is worth is the
// difference that its capacity makes to this.
func (d Distribution) Above(c float64) float64 {
	switch n := len(d.levels); {
	case !d.Known || math.IsNaN(c):
		return math.NaN()
	case n == 0:
		return max(d.Mean-c, 0)
	default:
		sum := d.levels[0]*max(d.values[0]-c, 0) + (1-d.levels[n-1])*max(d.values[n-1]-c, 0)
		for i := 1; i < n; i++ {
			sum += (d.levels[i] - d.levels[i-1]) * aboveLine(d.values[i-1]-c, d.values[i]-c)
		}
		return sum
	}
}

// aboveLine is the mean of what is above 0 on a straight line from lo to hi.
func aboveLine(lo, hi float64) float64 {
	switch {
	case hi <= 0:
		return 0
	case lo >= 0:
		return (lo + hi) / 2
	default:
		return hi / (hi - lo) * hi / 2
	}
}
