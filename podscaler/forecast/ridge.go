package forecast

import (
	"cmp"
	"math"
)

// Ridge expects a weighted sum of the last values, their means over longer spans, what there was
// a season ago, and the time in the season, as a few sines. Its weights are drawn towards none,
// and are learnt and fixed as those of AR are. It needs a season, and as many values as it has
// lags besides; before that it says nothing.
//
// It sees a day's climb before it begins, which AR cannot. It loses where the season is not
// one: then a day's difference to the day before is noise, which the weights have to learn.

// Ridge is the settings of the Ridge forecaster.
type Ridge struct {
	// Lags is how many values it looks back on one by one; 12, unless set.
	Lags int `json:"lags,omitempty"`
	// Season is the periods of a season; 1440, unless set: a day of minutes.
	Season int `json:"season,omitempty"`
	// Harmonics is how many sines there are to a season; 4, unless set.
	Harmonics int `json:"harmonics,omitempty"`
	// Memory is after how many periods a value's weight has fallen to a third (1/e); ten
	// seasons, unless set.
	Memory float64 `json:"memory,omitempty"`
}

func init() {
	register("Ridge", "expects a weighted sum of the last values, the season's, and the time in it.",
		func(s Spec) (Model, error) { return newRidge(settings(s.Ridge)) })
}

func (c *Ridge) complete() {
	c.Lags = cmp.Or(c.Lags, 12)
	c.Season = cmp.Or(c.Season, dayOfMinutes)
	c.Harmonics = cmp.Or(c.Harmonics, 4)
	c.Memory = cmp.Or(c.Memory, 10*float64(c.Season))
}

func newRidge(c Ridge) (Model, error) {
	c.complete()
	var f faults
	f.unless(c.Lags >= 1 && c.Lags <= 256, "ridge.lags", "must be from 1 to 256", c.Lags)
	f.unless(c.Season >= 2 && c.Season <= maxPeriods, "ridge.season", "must be from 2 to 1048576 periods", c.Season)
	f.unless(c.Harmonics >= 0 && c.Harmonics <= 64, "ridge.harmonics", "must be from 0 to 64", c.Harmonics)
	f.unless(c.Memory >= 2, "ridge.memory", "must be at least 2 periods", c.Memory)
	if f.err() != nil {
		return nil, f.err()
	}
	spans := c.spans()
	n := 1 + c.Lags + len(spans) + 3 + 2*c.Harmonics
	m := newLinear(c.Lags, max(c.Season+1, c.Lags), n, c.Memory)
	m.regressors = func(row []float64, t int, at func(int) float64) {
		row[0] = 1
		for i := 1; i <= c.Lags; i++ {
			row[i] = at(i)
		}
		fillSpans(row[1+c.Lags:], spans, at)
		c.fillSeason(row[1+c.Lags+len(spans):], t, at)
	}
	return &m, nil
}

// spans are the lengths of the longer means, no longer than a season.
func (c *Ridge) spans() (spans []int) {
	for _, s := range []int{30, 120} {
		if s > c.Lags && s < c.Season {
			spans = append(spans, s)
		}
	}
	return spans
}

func fillSpans(row []float64, spans []int, at func(int) float64) {
	sum, i := 0.0, 1
	for k, s := range spans {
		for ; i <= s; i++ {
			sum += at(i)
		}
		row[k] = sum / float64(s)
	}
}

// fillSeason fills in what there was a season ago, around it, and where in the season t is.
func (c *Ridge) fillSeason(row []float64, t int, at func(int) float64) {
	row[0], row[1] = at(c.Season), at(c.Season+1)
	if math.IsNaN(row[1]) {
		row[1] = row[0] // the first period of the second season has nothing before it
	}
	row[2] = (row[0] + at(c.Season-1) + row[1]) / 3
	angle := 2 * math.Pi * float64(t%c.Season) / float64(c.Season)
	for k := range c.Harmonics {
		row[3+2*k], row[4+2*k] = math.Sincos(float64(k+1) * angle)
	}
}
