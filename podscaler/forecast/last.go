package forecast

import "math"

// Last expects what there is: the last value, at every horizon. It needs one value.
//
// It is the forecast of a reactive scaler, and hard to beat where a series is a walk without
// direction. It loses by all that can be foreseen: the noise of a single period, which it
// takes for news, every slope, and every time of day.

// stale is after how many periods without a value the last one says nothing any more.
const stale = 10

func init() {
	register("Last", "expects what there is: the last value.", func(Spec) (Model, error) { return &last{age: stale}, nil })
}

type last struct {
	value float64
	age   int // periods since the value was seen
}

func (l *last) Observe(v float64) {
	if gap(v) {
		l.age = min(l.age+1, stale)
		return
	}
	l.value, l.age = v, 0
}

func (l *last) Predict(int) (float64, bool) {
	if l.age >= stale {
		return 0, false
	}
	return l.value, true
}

func (l *last) Size() int { return 2 * wordBytes }

// ring keeps the last values of a series.
type ring struct {
	values []float64
	n      int // values ever put in
}

func newRing(length int) ring { return ring{values: make([]float64, length)} }

func (r *ring) push(v float64) {
	r.values[r.n%len(r.values)] = v
	r.n++
}

// back returns the value that was put in i values before the last, i ≥ 0, or NaN where the ring
// does not reach.
func (r *ring) back(i int) float64 {
	if i < 0 || i >= min(r.n, len(r.values)) {
		return math.NaN()
	}
	return r.values[(r.n-1-i)%len(r.values)]
}

// all returns the values from the oldest on.
func (r *ring) all() []float64 {
	all := make([]float64, min(r.n, len(r.values)))
	for i := range all {
		all[i] = r.back(len(all) - 1 - i)
	}
	return all
}

func (r *ring) size() int { return (len(r.values) + 4) * wordBytes }
