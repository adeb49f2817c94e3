package forecast

import (
	"cmp"
	"math"
)

// Ensemble expects the weighted mean of what its members expect. The weights are exponential in how
// much worse than the best a member was of late. That is measured by how far it was off, and by the
// pinball loss of its quantile at the horizon that decisions are made for: too low costs more
// there. Members that are much worse have no vote, and those that do not know are passed over. It
// needs what its first member needs, and some periods to distinguish them.
//
// It is close to the best of its members on every load, whichever that is, and changes its mind
// within hours rather than minutes. It loses to the best member by what it takes to find out, and
// it cannot be better than all of them where they all err alike.

// EnsembleSettings is the settings of an Ensemble.
type EnsembleSettings struct {
	// Members are the forecasters that are weighed; AR, Ridge, HoltWinters, Theta, Seasonal and
	// Last, unless set.
	Members []Spec `json:"members,omitempty"`
	// Season is the periods of a season where no members are set; 1440, unless set: a day of
	// minutes.
	Season int `json:"season,omitempty"`
	// Horizon is how many periods ahead decisions are made, by which members are judged; 1,
	// unless set.
	Horizon int `json:"horizon,omitempty"`
	// Quantile is the level that decisions are made at; the mean counts besides. 0.95, unless
	// set.
	Quantile float64 `json:"quantile,omitempty"`
	// Memory is after how many periods a loss has fallen to a third (1/e); 240, unless set:
	// on recorded days more was slower to leave a member that a shock had thrown.
	Memory float64 `json:"memory,omitempty"`
	// Rate is how sharply losses distinguish members; 0.1, unless set.
	Rate float64 `json:"rate,omitempty"`
}

// Vote is what a member has to say in an ensemble.
type Vote struct {
	Name   string
	Weight float64 // of the forecast for the next period; 0 for no vote
	Loss   float64 // the mean of late, in units of the series
}

// Ensemble is a Model of several.
type Ensemble struct {
	members []member
	keep    float64
	rate    float64
	usual   typical
	level   float64
	values  int
}

// member is a model, the quantiles that its errors make, and what they have lost.
type member struct {
	Entrant
	errors follower
	lost   float64 // losses, the older the lighter
	judged float64 // how many, likewise
}

const (
	// probation is how many losses it takes to be distinguished from others.
	probation = 10
	// vote is the least weight that has one, as a share of the largest.
	vote = 0.01
)

func init() {
	register("Ensemble", "weighs several forecasters by how they have done of late.",
		func(s Spec) (Model, error) { return newEnsemble(settings(s.Ensemble)) })
}

func newEnsemble(c EnsembleSettings) (Model, error) {
	var f faults
	f.unless(c.Season == 0 || c.Season >= 2 && c.Season <= maxPeriods, "ensemble.season", "must be from 2 to 1048576 periods", c.Season)
	f.unless(c.Season == 0 || len(c.Members) == 0, "ensemble.season", "must not be set beside members, which have their own", c.Season)
	if f.err() != nil {
		return nil, f.err()
	}
	if len(c.Members) == 0 {
		c.Members = usualMembers(c.Season)
	}
	members, err := enter("ensemble.members", c.Members)
	if err != nil {
		return nil, err
	}
	return NewEnsemble(members, c)
}

// usualMembers are those of an ensemble that names none.
func usualMembers(season int) []Spec {
	return []Spec{
		{Type: "AR"},
		{Type: "Ridge", Ridge: &Ridge{Season: season}},
		{Type: "HoltWinters", HoltWinters: &HoltWinters{Season: season}},
		{Type: "Theta", Theta: &Theta{Season: season}},
		{Type: "Seasonal", Seasonal: &Seasonal{Season: season}},
		{Type: "Last"},
	}
}

func (c *EnsembleSettings) complete() {
	c.Horizon = cmp.Or(c.Horizon, 1)
	c.Quantile = cmp.Or(c.Quantile, 0.95)
	c.Memory = cmp.Or(c.Memory, 240)
	c.Rate = cmp.Or(c.Rate, 0.1)
}

// NewEnsemble returns an ensemble of models that were made elsewhere, by settings whose members
// and season do not count.
func NewEnsemble(members []Entrant, c EnsembleSettings) (*Ensemble, error) {
	c.complete()
	var f faults
	f.checkEntrants("ensemble.members", members)
	f.unless(c.Horizon >= 1 && c.Horizon <= 10080, "ensemble.horizon", "must be from 1 to 10080 periods", c.Horizon)
	f.unless(c.Quantile > 0 && c.Quantile < 1, "ensemble.quantile", "must be above 0 and below 1", c.Quantile)
	f.unless(c.Memory >= 2 && c.Memory <= maxPeriods, "ensemble.memory", "must be from 2 to 1048576 periods", c.Memory)
	f.unless(c.Rate > 0 && c.Rate <= 100, "ensemble.rate", "must be above 0 and at most 100", c.Rate)
	if f.err() != nil {
		return nil, f.err()
	}
	e := &Ensemble{keep: 1 - 1/c.Memory, rate: c.Rate}
	cover := []float64{c.Quantile}
	for _, m := range members {
		e.members = append(e.members, member{Entrant: m, errors: newFollower(c.Horizon, 480, 0.005, cover)})
	}
	return e, nil
}

// SetClock passes the time of day on.
func (e *Ensemble) SetClock(period int) {
	for i := range e.members {
		SetClock(e.members[i].Model, period)
	}
}

// Observe takes the next period's value, and judges by it what the members forecast for it.
func (e *Ensemble) Observe(v float64) {
	limit := e.limit(v)
	for i := range e.members {
		m := &e.members[i]
		if loss, ok := m.errors.loss(v); ok {
			m.lost, m.judged = m.lost*e.keep+min(loss, limit), m.judged*e.keep+1
		}
		m.errors.judge(v, e.level)
		m.Model.Observe(v)
	}
	if !gap(v) {
		e.values++
		e.level += (v - e.level) / float64(min(e.values, dayOfMinutes))
	}
	for i := range e.members {
		m := &e.members[i]
		mean, ok := m.Model.Predict(m.errors.h)
		m.errors.expect(mean, ok, e.level)
	}
}

// limit returns the loss above which none counts for more: what all of them missed by far says
// nothing of any.
func (e *Ensemble) limit(v float64) float64 {
	closest, judged := math.Inf(1), false
	for i := range e.members {
		if p := e.members[i].errors.due(); p.known && !gap(v) {
			closest, judged = min(closest, math.Abs(v-p.mean)), true
		}
	}
	if !judged {
		return 0
	}
	return e.usual.limit(v, v-closest, e.values)
}

// loss is what a forecast loses by a value that has come: the pinball loss of its quantile, and
// that of the mean as a median. The quantile alone would forgive a model that is always half as
// much too high, for its errors would pull it down; and it is the mean that is passed on. Where
// there were too few errors to make a quantile of, the mean replaces it.
func (f *follower) loss(v float64) (loss float64, ok bool) {
	p := f.due()
	if !p.known || gap(v) {
		return 0, false
	}
	loss = pinball(0.5, p.mean, v)
	for i, level := range f.cover {
		q := p.mean
		if p.hasValues {
			q = p.values[i]
		}
		loss += pinball(level, q, v)
	}
	return loss, true
}

// pinball is what a quantile of that level costs where a value comes: level for each unit that it
// is too low by, and the rest of 1 for each that it is too high by.
func pinball(level, quantile, v float64) float64 {
	if v > quantile {
		return level * (v - quantile)
	}
	return (1 - level) * (quantile - v)
}

// Predict is the weighted mean of what the members with a vote expect.
func (e *Ensemble) Predict(h int) (float64, bool) {
	sum, all := 0.0, 0.0
	means := make([]float64, len(e.members))
	for i, w := range e.weigh(h, means) {
		sum, all = sum+w*means[i], all+w
	}
	if all == 0 {
		return 0, false
	}
	return count(sum / all)
}

// weigh fills in what the members expect and returns their weights, the largest of which is 1. A
// member that does not know has none.
func (e *Ensemble) weigh(h int, means []float64) []float64 {
	weights := make([]float64, len(e.members))
	known := make([]bool, len(e.members))
	best := -1
	for i := range e.members {
		m := &e.members[i]
		means[i], known[i] = m.Model.Predict(h)
		if known[i] && (best < 0 || m.before(&e.members[best])) {
			best = i
		}
	}
	for i := range e.members {
		if !known[i] {
			continue
		}
		if w := e.weight(&e.members[i], &e.members[best]); w >= vote {
			weights[i] = w
		}
	}
	return weights
}

// before reports whether m is to be believed before n: whoever was judged before who was not,
// and then who lost less.
func (m *member) before(n *member) bool {
	if a, b := m.judged >= probation, n.judged >= probation; a != b {
		return a
	}
	return m.judged >= probation && m.loss() < n.loss()
}

func (m *member) loss() float64 { return m.lost / max(m.judged, 1) }

// weight is that of a member beside the best. Where no one was judged yet all weigh the same;
// whoever is alone in not being judged has to wait.
func (e *Ensemble) weight(m, best *member) float64 {
	switch {
	case best.judged < probation || m == best:
		return 1
	case m.judged < probation:
		return 0
	case m.loss() <= best.loss():
		return 1
	}
	// Nothing is worse than one who is right by any factor.
	worse := m.loss()/best.loss() - 1
	return math.Exp(-e.rate * min(m.judged, best.judged) * worse)
}

// Votes says what the members have to say on the next period, in their order.
func (e *Ensemble) Votes() []Vote {
	votes := make([]Vote, len(e.members))
	all := 0.0
	weights := e.weigh(1, make([]float64, len(e.members)))
	for _, w := range weights {
		all += w
	}
	for i := range e.members {
		votes[i] = Vote{Name: e.members[i].Name, Weight: weights[i] / max(all, 1), Loss: e.members[i].loss()}
	}
	return votes
}

// Train hands all members the first two thirds of the history and walks them through the rest,
// where they are judged.
func (e *Ensemble) Train(history []float64) {
	cut := len(history) * 2 / 3
	for i := range e.members {
		Train(e.members[i].Model, history[:cut])
	}
	for _, v := range history[cut:] {
		e.Observe(v)
	}
}

// Size is the memory of the members that report it, and of their errors.
func (e *Ensemble) Size() int {
	bytes := 12 * wordBytes
	for i := range e.members {
		model, _ := Size(e.members[i].Model)
		bytes += model + e.members[i].errors.size() + 6*wordBytes
	}
	return bytes
}
