package forecast

import (
	"cmp"
	"math"
)

// HoltWinters expects a level, a trend that dies away, and where in the season it is: additive
// exponential smoothing. How fast level and trend follow, and how much of the season is taken,
// are tried side by side, and the combination with the least squared error of late is the one
// that speaks. It needs one value, and a season and more before it says anything of seasons.
//
// It is steadier than AR where spikes have passed through, for a spike is gone from its level
// after a few values and leaves no weights behind. It loses where what follows depends on more
// than a level and a slope.

// HoltWinters is the settings of the HoltWinters forecaster.
type HoltWinters struct {
	// Season is the periods of a season; 1440, unless set: a day of minutes; 1 means no season.
	Season int `json:"season,omitempty"`
	// Damping is what is left of the trend from one period to the next; 0.9, unless set.
	Damping float64 `json:"damping,omitempty"`
	// Memory is after how many periods an error's weight in the choice of the smoothing has
	// fallen to a third (1/e); 1440, unless set.
	Memory float64 `json:"memory,omitempty"`
}

func init() {
	register("HoltWinters", "expects a level, a trend that dies away, and a season.",
		func(s Spec) (Model, error) { return newHoltWinters(settings(s.HoltWinters)) })
}

// What is tried side by side.
var (
	levelShares  = []float64{0.05, 0.1, 0.15, 0.2, 0.3, 0.45, 0.65, 1}
	trendShares  = []float64{0, 0.05, 0.2}
	seasonShares = []float64{0, 0.25, 0.5, 1}
)

// smoother is one way of smoothing: what share of an error goes into the level, and of that
// into the trend, and what share of the season is taken for real.
type smoother struct {
	alpha, beta, kappa float64

	level, trend float64
	loss         float64 // squared errors, the older the lighter, none of them above the cap
}

type holtWinters struct {
	damping, keep float64
	smoothers     []smoother
	season        profile
	best          int // the smoother that speaks
	usual         typical
	values        int
	age           int
}

func newHoltWinters(c HoltWinters) (Model, error) {
	c.Season = cmp.Or(c.Season, dayOfMinutes)
	c.Damping = cmp.Or(c.Damping, 0.9)
	c.Memory = cmp.Or(c.Memory, dayOfMinutes)
	var f faults
	f.unless(c.Season >= 1 && c.Season <= maxPeriods, "holtWinters.season", "must be from 1 to 1048576 periods", c.Season)
	f.unless(c.Damping > 0 && c.Damping <= 1, "holtWinters.damping", "must be above 0 and at most 1", c.Damping)
	f.unless(c.Memory >= 2 && c.Memory <= maxPeriods, "holtWinters.memory", "must be from 2 to 1048576 periods", c.Memory)
	if f.err() != nil {
		return nil, f.err()
	}
	m := &holtWinters{damping: c.Damping, keep: 1 - 1/c.Memory, age: stale}
	if c.Season > 1 {
		m.season = newProfile(c.Season)
	}
	for _, kappa := range seasonShares {
		for _, beta := range trendShares {
			for _, alpha := range levelShares {
				m.smoothers = append(m.smoothers, smoother{alpha: alpha, beta: beta, kappa: kappa})
			}
		}
	}
	return m, nil
}

func (m *holtWinters) Observe(v float64) {
	if gap(v) {
		m.age = min(m.age+1, stale)
		for i := range m.smoothers {
			s := &m.smoothers[i]
			s.trend *= m.damping
			s.level += s.trend
		}
		m.season.observe(v, 0)
		return
	}
	deviation := m.season.at(1)
	f, _ := m.Predict(1)
	limit := m.usual.limit(v, f, m.values)
	for i := range m.smoothers {
		m.smoothers[i].observe(v, deviation, m.damping, m.keep, limit, m.values == 0)
	}
	m.values, m.age = m.values+1, 0
	if m.season.observe(v, m.whole()) {
		m.begin()
	}
	m.choose()
}

func (s *smoother) observe(v, deviation, damping, keep, limit float64, first bool) {
	v -= s.kappa * deviation
	if first {
		s.level = v
		return
	}
	slope := damping * s.trend
	miss := v - (s.level + slope)
	s.loss = s.loss*keep + min(miss*miss, limit*limit)
	s.level += slope + s.alpha*miss
	s.trend = slope + s.alpha*s.beta*miss
}

// whole is the level by which the season's deviations are measured: a slow one that takes the
// whole season out, so that no day's own swing is taken for the level.
func (m *holtWinters) whole() float64 {
	return m.smoothers[len(m.smoothers)-len(trendShares)*len(levelShares)].level
}

// begin lets those that take the season for real join in once there is one. They start with the
// level of the season past, and the loss of the best without it.
func (m *holtWinters) begin() {
	least := m.smoothers[m.best].loss
	for i := range m.smoothers {
		if s := &m.smoothers[i]; s.kappa > 0 {
			s.level = s.level*(1-s.kappa) + s.kappa*m.season.level
			s.trend, s.loss = 0, least
		}
	}
}

// choose lets the smoother with the least loss speak, the first of several.
func (m *holtWinters) choose() {
	for i := range m.smoothers {
		if s := &m.smoothers[i]; (s.kappa == 0 || m.season.known) && s.loss < m.smoothers[m.best].loss {
			m.best = i
		}
	}
}

func (m *holtWinters) Predict(h int) (float64, bool) {
	if m.values == 0 || m.age >= stale {
		return 0, false
	}
	s := &m.smoothers[m.best]
	return count(s.level + damped(m.damping, h)*s.trend + s.kappa*m.season.at(h))
}

// damped is how many periods' worth of trend are left in h periods: the sum of the first h
// powers of the damping.
func damped(damping float64, h int) float64 {
	if damping == 1 {
		return float64(h)
	}
	return damping * (1 - math.Pow(damping, float64(h))) / (1 - damping)
}

func (m *holtWinters) Size() int { return len(m.smoothers)*6*wordBytes + m.season.size() + 6*wordBytes }

// typical is the usual size of a forecast's errors.
type typical float64

// limit returns the error beyond which none counts for more in a choice: a few times the usual
// one. A single spike of thirty times the load would otherwise choose for all hours after it. It
// takes the value that has come, its forecast, and how many values there were before.
func (u *typical) limit(v, forecast float64, values int) float64 {
	miss := math.Abs(v - forecast)
	if values <= 1 {
		*u = typical(miss)
		return miss
	}
	// A value that did not move has no usual error. A thousandth of the value is too little to
	// count.
	limit := 6 * max(float64(*u), v/1000)
	*u += typical((min(miss, limit) - float64(*u)) / 120)
	return limit
}
