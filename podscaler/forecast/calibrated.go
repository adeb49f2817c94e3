package forecast

import (
	"cmp"
	"math"
	"slices"
)

// Calibrated makes distributions of a Model's forecasts from the errors that it made at each
// horizon: on-line conformal prediction. It asks nothing of the model, the noise or the load, but
// that errors go on as they were for a while.
//
// An error is measured in what is usual at present: by the root of the forecast, as counts scatter
// by the root of what is counted, and by the size of the last errors. Loads have calm and restless
// hours. A quantile is the forecast and so many such units as the last errors have it.
// Where a level was exceeded more often than it should be it is raised by a step, else lowered by
// a smaller one. So over time a 95 % quantile covers 95 % of any errors: adaptive conformal
// inference.
//
// It loses at the edge of what it has seen: a load that no error foretold is outside every
// quantile, once.
type Calibrated struct {
	model    Model
	horizons []follower // by rising horizon
	level    float64    // of the series, slow
	values   int
}

// Calibration is the settings of a Calibrated. What is not set is its default.
type Calibration struct {
	// Horizons are the horizons whose errors are followed, in periods; 1, unless set. Another
	// horizon gets the spread of the next longer one, and beyond the longest nothing is known.
	Horizons []int `json:"horizons,omitempty"`
	// Window is how many errors are kept at each horizon; 1440, unless set.
	Window int `json:"window,omitempty"`
	// Rate is the step by which a level is moved; 0.005, unless set.
	Rate float64 `json:"rate,omitempty"`
}

// coverage are the levels that are calibrated one by one.
var coverage = []float64{0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975, 0.99, 0.995, 0.999}

// fewest is how many errors a distribution rests on at least.
const fewest = 20

// NewCalibrated returns a Calibrated of m, or every fault of the settings.
func NewCalibrated(m Model, c Calibration) (*Calibrated, error) {
	if len(c.Horizons) == 0 {
		c.Horizons = []int{1}
	}
	c.Window = cmp.Or(c.Window, dayOfMinutes)
	c.Rate = cmp.Or(c.Rate, 0.005)
	horizons := slices.Compact(slices.Sorted(slices.Values(c.Horizons)))
	var f faults
	f.unless(horizons[0] >= 1 && horizons[len(horizons)-1] <= 10080, "horizons", "must be from 1 to 10080 periods", c.Horizons)
	f.unless(c.Window >= fewest && c.Window <= maxPeriods, "window", "must be from 20 to 1048576 errors", c.Window)
	f.unless(c.Rate > 0 && c.Rate < 1, "rate", "must be above 0 and below 1", c.Rate)
	if f.err() != nil {
		return nil, f.err()
	}
	d := &Calibrated{model: m}
	for _, h := range horizons {
		d.horizons = append(d.horizons, newFollower(h, c.Window, c.Rate, coverage))
	}
	return d, nil
}

// Observe takes the next period's value, and judges by it what was forecast for it.
func (d *Calibrated) Observe(v float64) {
	for i := range d.horizons {
		d.horizons[i].judge(v, d.level)
	}
	d.model.Observe(v)
	d.count(v)
	for i := range d.horizons {
		f := &d.horizons[i]
		mean, ok := d.model.Predict(f.h)
		f.expect(mean, ok, d.level)
	}
}

// Train hands the model the history, or what it asks of it. The last third is then walked
// through value by value, for errors made in training are smaller than those to come.
func (d *Calibrated) Train(history []float64) {
	cut := len(history) * 2 / 3
	Train(d.model, history[:cut])
	for _, v := range history[:cut] {
		d.count(v)
	}
	for _, v := range history[cut:] {
		d.Observe(v)
	}
}

// Relive sees a history as Observe would, value by value, and follows only as many errors as are
// kept: the model comes out the same, the quantiles next to it, in a fraction of the time.
func (d *Calibrated) Relive(history []float64) {
	longest := &d.horizons[len(d.horizons)-1]
	cut := max(len(history)-len(longest.scores)-longest.h, 0)
	for _, v := range history[:cut] {
		d.model.Observe(v)
		d.count(v)
	}
	for _, v := range history[cut:] {
		d.Observe(v)
	}
}

// count takes a value into the level.
func (d *Calibrated) count(v float64) {
	if !gap(v) {
		d.values++
		d.level += (v - d.level) / float64(min(d.values, dayOfMinutes))
	}
}

// Predict is the model's.
func (d *Calibrated) Predict(h int) (float64, bool) { return d.model.Predict(h) }

// Forecast returns what may come h periods ahead. It is not known while the model knows nothing,
// while too few of its errors at that horizon are, and beyond the longest horizon followed.
func (d *Calibrated) Forecast(h int) Distribution {
	mean, ok := d.model.Predict(h)
	if !ok {
		return Distribution{}
	}
	for i := range d.horizons {
		if f := &d.horizons[i]; f.h >= h {
			return f.distribution(mean, d.level)
		}
	}
	return Distribution{}
}

// Size is the memory of the model, if it reports it, and of the errors.
func (d *Calibrated) Size() int {
	bytes, _ := Size(d.model)
	for i := range d.horizons {
		bytes += d.horizons[i].size()
	}
	return bytes + 8*wordBytes
}

// follower follows the errors at one horizon.
type follower struct {
	h       int
	pending []pending // forecasts on their way, a ring
	t       int
	scores  []float64 // the last errors in units, a ring
	sorted  []float64 // the same in their order
	n       int       // errors ever kept
	unit    float64   // the size of the last errors, in roots of the forecast
	cover   []float64 // what the quantiles are to cover
	levels  []float64 // at which the errors are read so that they do
	rate    float64
}

// pending is a forecast whose value has not come.
type pending struct {
	known     bool
	mean      float64
	unit      float64   // by which its error will be measured
	values    []float64 // the quantiles that were returned
	hasValues bool
}

func newFollower(h, window int, rate float64, cover []float64) follower {
	f := follower{
		h: h, pending: make([]pending, h), scores: make([]float64, window), sorted: make([]float64, 0, window),
		cover: cover, levels: slices.Clone(cover), rate: rate,
	}
	// Of all of them, for a service has a hundred forecasts on their way.
	values := make([]float64, h*len(cover))
	for i := range f.pending {
		f.pending[i].values, values = values[:len(cover):len(cover)], values[len(cover):]
	}
	return f
}

// root is what counts of the size of mean scatter by. What is expected to be next to nothing
// scatters by more than that: by a hundredth of what is usual, at least.
func root(mean, level float64) float64 {
	if size := max(mean, level/100); size > 0 {
		return math.Sqrt(size)
	}
	return 1
}

// due returns the forecast for the next value to come.
func (f *follower) due() *pending { return &f.pending[f.t%f.h] }

// judge takes the value that has come for the oldest forecast on its way.
func (f *follower) judge(v, level float64) {
	p := f.due()
	if !p.known || gap(v) {
		p.known = false
		return
	}
	p.known = false
	miss := v - p.mean
	if p.hasValues {
		f.adapt(v, p.values)
	}
	f.keep(score(miss, p.unit))
	// By the larger of forecast and value: where next to nothing was expected and a load came, its
	// size in roots of nothing would widen everything for hours.
	size := math.Abs(miss) / root(max(p.mean, v), level)
	f.unit += (size - f.unit) / float64(min(f.n, 60))
}

// score is an error in units. One that came where nothing had ever been missed has none, and is
// as far out as any is let be.
func score(miss, unit float64) float64 {
	const far = 30
	if miss == 0 {
		return 0
	}
	return min(max(miss/unit, -far), far)
}

// adapt moves the levels by what the value did to the quantiles that were returned.
func (f *follower) adapt(v float64, levels []float64) {
	for i, p := range f.cover {
		over := 0.0
		if v > levels[i] {
			over = 1
		}
		f.levels[i] += f.rate * (over - (1 - p))
		// Past the edge there is nothing to read, and the way back would be lost time.
		f.levels[i] = min(max(f.levels[i], 0), 1)
	}
}

// keep puts an error in the place of the oldest.
func (f *follower) keep(s float64) {
	i := f.n % len(f.scores)
	to, _ := slices.BinarySearch(f.sorted, s)
	if f.n < len(f.scores) {
		f.sorted = slices.Insert(f.sorted, to, s)
	} else { // only what lies between the two moves
		from, _ := slices.BinarySearch(f.sorted, f.scores[i])
		if from < to {
			to--
			copy(f.sorted[from:to], f.sorted[from+1:to+1])
		} else {
			copy(f.sorted[to+1:from+1], f.sorted[to:from])
		}
		f.sorted[to] = s
	}
	f.scores[i] = s
	f.n++
}

// expect notes a forecast that was just made, in the place of the one just judged.
func (f *follower) expect(mean float64, ok bool, level float64) {
	p := f.due()
	f.t++
	p.known, p.mean, p.unit = ok, mean, f.unit*root(mean, level)
	if p.hasValues = ok && f.n >= fewest; p.hasValues {
		f.quantiles(p.values, mean, p.unit)
	}
}

// quantiles fills in the quantiles of a forecast, rising.
func (f *follower) quantiles(into []float64, mean, unit float64) {
	for i, p := range f.levels {
		into[i] = max(mean+unit*f.read(p), 0)
		if i > 0 {
			into[i] = max(into[i], into[i-1])
		}
	}
}

// read returns the error that a share p of those kept, and of one to come, does not exceed.
func (f *follower) read(p float64) float64 {
	n := len(f.sorted)
	return f.sorted[min(max(int(math.Ceil(p*float64(n+1)-1e-9))-1, 0), n-1)]
}

func (f *follower) distribution(mean, level float64) Distribution {
	if f.n < fewest {
		return Distribution{}
	}
	d := Distribution{Mean: mean, Known: true, levels: f.cover, values: make([]float64, len(f.cover))}
	f.quantiles(d.values, mean, f.unit*root(mean, level))
	return d
}

func (f *follower) size() int {
	return (2*len(f.scores) + len(f.pending)*(len(f.cover)+7) + len(f.levels) + 16) * wordBytes
}
