package forecast

import "cmp"

// Theta expects the mean of two lines: the straight line through the past, and one that bends
// twice as much, smoothed exponentially. That is smoothing with half the slope of the line as
// its drift. How fast the smoothing follows, and whether a season is taken out first, is chosen
// by the least squared error of late. It needs one value, and a season and more before it says
// anything of seasons.
//
// It is hard to beat over long horizons, where a slope that is halved is about right. It loses
// where the slope of the last minutes is the news: its line is drawn through hours.

// Theta is the settings of the Theta forecaster.
type Theta struct {
	// Season is the periods of a season; 1440, unless set: a day of minutes; 1 means no season.
	Season int `json:"season,omitempty"`
	// Memory is after how many periods a value's weight in the line, and an error's in the
	// choice of the smoothing, has fallen to a third (1/e); 720, unless set.
	Memory float64 `json:"memory,omitempty"`
}

func init() {
	register("Theta", "expects the mean of a straight line and one that bends twice as much.",
		func(s Spec) (Model, error) { return newTheta(settings(s.Theta)) })
}

type theta struct {
	keep   float64
	lines  []line // one for each share of the season
	season profile
	best   int // the line that speaks
	values int
	age    int
	usual  typical
}

// line is the series with a share of the season taken out: the straight line through it, by
// sums over the periods counted back from the last, and its smoothings.
type line struct {
	kappa           float64
	n, x, y, xx, xy float64
	levels, losses  []float64 // by smoothing
	best            int
}

func newTheta(c Theta) (Model, error) {
	c.Season = cmp.Or(c.Season, dayOfMinutes)
	c.Memory = cmp.Or(c.Memory, dayOfMinutes/2)
	var f faults
	f.unless(c.Season >= 1 && c.Season <= maxPeriods, "theta.season", "must be from 1 to 1048576 periods", c.Season)
	f.unless(c.Memory >= 2 && c.Memory <= maxPeriods, "theta.memory", "must be from 2 to 1048576 periods", c.Memory)
	if f.err() != nil {
		return nil, f.err()
	}
	m := &theta{keep: 1 - 1/c.Memory, age: stale}
	if c.Season > 1 {
		m.season = newProfile(c.Season)
	}
	for _, kappa := range seasonShares {
		m.lines = append(m.lines, line{
			kappa: kappa, levels: make([]float64, len(levelShares)), losses: make([]float64, len(levelShares)),
		})
	}
	return m, nil
}

func (m *theta) Observe(v float64) {
	deviation := m.season.at(1)
	if gap(v) {
		m.age = min(m.age+1, stale)
		for i := range m.lines {
			m.lines[i].pass(m.keep)
		}
		m.season.observe(v, 0)
		return
	}
	f, _ := m.Predict(1)
	limit := m.usual.limit(v, f, m.values)
	for i := range m.lines {
		l := &m.lines[i]
		l.observe(v-l.kappa*deviation, limit, m.keep, m.values == 0)
	}
	m.values, m.age = m.values+1, 0
	if m.season.observe(v, m.lines[len(m.lines)-1].levels[0]) {
		m.begin()
	}
	m.choose()
}

// pass lets a period go by: what is known moves a period into the past, and is worth less.
func (l *line) pass(keep float64) {
	drift := l.slope() / 2
	for i := range l.levels {
		l.levels[i] += drift
	}
	l.xx, l.xy = keep*(l.xx-2*l.x+l.n), keep*(l.xy-l.y)
	l.x, l.y, l.n = keep*(l.x-l.n), keep*l.y, keep*l.n
}

func (l *line) observe(v, limit, keep float64, first bool) {
	l.pass(keep)
	l.n, l.y = l.n+1, l.y+v
	for i, alpha := range levelShares {
		if first {
			l.levels[i] = v
			continue
		}
		miss := v - l.levels[i]
		l.losses[i] = l.losses[i]*keep + min(miss*miss, limit*limit)
		l.levels[i] += alpha * miss
		if l.losses[i] < l.losses[l.best] {
			l.best = i
		}
	}
}

// slope returns the slope of the straight line, and none for what is no line yet.
func (l *line) slope() float64 {
	spread := l.n*l.xx - l.x*l.x
	if l.n < 8 || spread <= 1e-9*l.n*l.xx {
		return 0
	}
	return (l.n*l.xy - l.x*l.y) / spread
}

// loss is that of the smoothing that speaks.
func (l *line) loss() float64 { return l.losses[l.best] }

// begin lets the lines that take the season out join in once there is one. They start from the
// level of the season past, and with the loss of the best line without it.
func (m *theta) begin() {
	least := m.lines[m.best].loss()
	for i := range m.lines {
		l := &m.lines[i]
		if l.kappa == 0 {
			continue
		}
		l.n, l.x, l.y, l.xx, l.xy = 0, 0, 0, 0, 0
		for k := range l.levels {
			l.levels[k] = l.levels[k]*(1-l.kappa) + l.kappa*m.season.level
			l.losses[k] = least
		}
	}
}

// choose lets the line with the least loss speak, the first of several.
func (m *theta) choose() {
	for i := range m.lines {
		if l := &m.lines[i]; (l.kappa == 0 || m.season.known) && l.loss() < m.lines[m.best].loss() {
			m.best = i
		}
	}
}

func (m *theta) Predict(h int) (float64, bool) {
	if m.values == 0 || m.age >= stale {
		return 0, false
	}
	l := &m.lines[m.best]
	return count(l.levels[l.best] + float64(h)*l.slope()/2 + l.kappa*m.season.at(h))
}

func (m *theta) Size() int {
	return len(m.lines)*(13+2*len(levelShares))*wordBytes + m.season.size() + 9*wordBytes
}
