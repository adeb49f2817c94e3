package rightsize

import (
	"math"
	"time"
)

const (
	// leastWeight is what a sample of CPU weighs. Older recommenders, 1.2 for one, weighed it by
	// the container's request, so that what was asked for had a say in what was measured. 1.8.1
	// does not.
	leastWeight = 0.1
	// epsilon is the weight below which a bucket counts as empty. It is small enough that a sample
	// of ten half-lives ago is still there.
	epsilon = 0.001 * leastWeight
	// maxAge is how many half-lives the newest sample may be after the reference time before
	// that is moved on. Weights double with every half-life, and would overflow one day.
	maxAge = 100
)

// scale is how wide a histogram's buckets are: the first begins at 0, and each is wider than the
// one before it by the same part.
type scale struct {
	first   float64 // the width of the first bucket
	growth  float64
	buckets int
}

// The scales of the two histograms, in cores and in bytes.
var (
	cpuScale    = newScale(0.01, 1000)
	memoryScale = newScale(1e7, 1e12)
)

// newScale returns the scale that has a bucket for values up to last. Growth is a variable because
// a constant 0.05 is not what is left of 1.05 in floating point when 1 is taken away, and values
// on edges would fall into other buckets than the recommender's.
func newScale(first, last float64) scale {
	step := 0.05
	s := scale{first: first, growth: 1 + step}
	s.buckets = int(math.Ceil(s.steps(last))) + 1
	return s
}

// steps returns how many buckets begin below a value, with a fraction.
func (s *scale) steps(value float64) float64 {
	return math.Log(value*(s.growth-1)/s.first+1) / math.Log(s.growth)
}

// bucket returns the bucket of a value. The last one also takes what is beyond it.
func (s *scale) bucket(value float64) int {
	if value < s.first {
		return 0
	}
	return min(int(s.steps(value)), s.buckets-1)
}

// start returns where a bucket begins.
func (s *scale) start(bucket int) float64 {
	if bucket == 0 {
		return 0
	}
	return s.first * (math.Pow(s.growth, float64(bucket)) - 1) / (s.growth - 1)
}

// histogram is a distribution in which a sample weighs half as much after each half-life. Instead
// of lowering what is there, new samples weigh more: only proportions matter.
type histogram struct {
	scale    *scale
	halfLife time.Duration
	weights  []float64
	// total is added up as samples come. Its rounding is part of where a percentile falls.
	total float64
	// reference is when a sample weighs what it weighs, a whole number of half-lives after year 1.
	reference time.Time
}

func newHistogram(s *scale, halfLife time.Duration) *histogram {
	return &histogram{scale: s, halfLife: halfLife, weights: make([]float64, s.buckets)}
}

func (h *histogram) add(value, weight float64, at time.Time) {
	weight *= h.factor(at)
	h.weights[h.scale.bucket(value)] += weight
	h.total += weight
}

// take takes a sample away that was added before.
func (h *histogram) take(value, weight float64, at time.Time) {
	weight *= h.factor(at)
	bucket := h.scale.bucket(value)
	h.weights[bucket] = without(h.weights[bucket], weight)
	h.total = without(h.total, weight)
}

// without subtracts, and leaves no crumbs of rounding.
func without(weight, part float64) float64 {
	if weight -= part; weight < epsilon {
		return 0
	}
	return weight
}

// factor is how much more a sample weighs than one of the reference time.
func (h *histogram) factor(at time.Time) float64 {
	if at.After(h.reference.Add(maxAge * h.halfLife)) {
		h.shift(at)
	}
	return math.Exp2(float64(at.Sub(h.reference)) / float64(h.halfLife))
}

// shift moves the reference time near to a time, and makes all weights less by as much.
func (h *histogram) shift(at time.Time) {
	at = at.Round(h.halfLife)
	halvings := math.Floor(float64(h.reference.Sub(at))/float64(h.halfLife) + 0.5)
	by := math.Ldexp(1, int(halvings))
	for i := range h.weights {
		h.weights[i] *= by
	}
	h.total *= by
	h.reference = at
}

// percentile returns the end of the bucket in which that part of the weight is reached, or of the
// last bucket its start. It is unknown while there is no sample.
func (h *histogram) percentile(p float64) (value float64, known bool) {
	first, last := h.span()
	if h.weights[first] < epsilon {
		return 0, false
	}
	threshold, sum, bucket := p*h.total, 0.0, first
	for ; bucket < last; bucket++ {
		if sum += h.weights[bucket]; sum >= threshold {
			break
		}
	}
	return h.scale.start(min(bucket+1, h.scale.buckets-1)), true
}

// span returns the first and the last bucket that is not empty. Of an empty histogram both are
// empty, too.
func (h *histogram) span() (first, last int) {
	first, last = h.scale.buckets-1, 0
	for i, w := range h.weights {
		if w >= epsilon {
			first, last = min(first, i), i
		}
	}
	return first, last
}
