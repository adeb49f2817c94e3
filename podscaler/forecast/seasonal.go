package forecast

import "cmp"

// Seasonal expects what there was a season ago: a day, a week. It needs one season, and the
// number of periods in it.
//
// Where days are alike it sees their steps as far ahead as anybody asks. It loses by the noise
// of a single period, as Last does, and by everything that today is and yesterday was not.

// Seasonal is the settings of the Seasonal forecaster.
type Seasonal struct {
	// Season is the periods of a season; 1440, unless set: a day of minutes.
	Season int `json:"season,omitempty"`
}

// dayOfMinutes is the season of a series that has a value each minute.
const dayOfMinutes = 1440

func init() {
	register("Seasonal", "expects what there was a season ago.", func(s Spec) (Model, error) { return newSeasonal(settings(s.Seasonal)) })
}

type seasonal struct {
	values []float64 // by place in the season; a gap leaves what was there a season before
	known  []bool
	t      int // periods that have passed
}

func newSeasonal(c Seasonal) (Model, error) {
	c.Season = cmp.Or(c.Season, dayOfMinutes)
	var f faults
	f.unless(c.Season >= 1 && c.Season <= maxPeriods, "seasonal.season", "must be from 1 to 1048576 periods", c.Season)
	if f.err() != nil {
		return nil, f.err()
	}
	return &seasonal{values: make([]float64, c.Season), known: make([]bool, c.Season)}, nil
}

func (s *seasonal) Observe(v float64) {
	if i := s.t % len(s.values); !gap(v) {
		s.values[i], s.known[i] = v, true
	}
	s.t++
}

func (s *seasonal) Predict(h int) (float64, bool) {
	i := (s.t + h - 1) % len(s.values)
	return s.values[i], s.known[i]
}

func (s *seasonal) Size() int { return len(s.values)*(wordBytes+1) + 7*wordBytes }
