package forecast

import "cmp"

// Spec names a forecaster and carries the settings of those that have any. Only the block of
// the named forecaster counts; a missing one means its defaults, as does a setting that is 0.
type Spec struct {
	// Name is what the forecaster is called among others; its type, unless set.
	Name        string            `json:"name,omitempty"`
	Type        string            `json:"type"`
	Seasonal    *Seasonal         `json:"seasonal,omitempty"`
	AR          *AR               `json:"ar,omitempty"`
	HoltWinters *HoltWinters      `json:"holtWinters,omitempty"`
	Theta       *Theta            `json:"theta,omitempty"`
	Ridge       *Ridge            `json:"ridge,omitempty"`
	QLearning   *QLearning        `json:"qLearning,omitempty"`
	SARSA       *SARSA            `json:"sarsa,omitempty"`
	HTM         *HTM              `json:"htm,omitempty"`
	LSTM        *LSTM             `json:"lstm,omitempty"`
	DailyLSTM   *LSTM             `json:"dailyLSTM,omitempty"`
	Ensemble    *EnsembleSettings `json:"ensemble,omitempty"`
	Race        *RaceSettings     `json:"race,omitempty"`
}

// WithSeason returns the spec with the periods of a season for those that go by one, where it gives
// none. Who is a member or an entrant of another has its season in its own spec.
func (s Spec) WithSeason(season int) Spec {
	s.Seasonal = with(s.Seasonal, func(c *Seasonal) { c.Season = cmp.Or(c.Season, season) })
	s.HoltWinters = with(s.HoltWinters, func(c *HoltWinters) { c.Season = cmp.Or(c.Season, season) })
	s.Theta = with(s.Theta, func(c *Theta) { c.Season = cmp.Or(c.Season, season) })
	s.Ridge = with(s.Ridge, func(c *Ridge) { c.Season = cmp.Or(c.Season, season) })
	s.DailyLSTM = with(s.DailyLSTM, func(c *LSTM) { c.Season = cmp.Or(c.Season, season) })
	s.Ensemble = with(s.Ensemble, func(c *EnsembleSettings) {
		if len(c.Members) == 0 {
			c.Season = cmp.Or(c.Season, season)
		}
	})
	return s
}

// WithSeed returns the spec with a seed for those that learn by chance, where it gives none. Who is
// a member or an entrant of another has its seed in its own spec.
func (s Spec) WithSeed(seed uint64) Spec {
	s.LSTM = with(s.LSTM, func(c *LSTM) { c.Seed = cmp.Or(c.Seed, seed) })
	s.DailyLSTM = with(s.DailyLSTM, func(c *LSTM) { c.Seed = cmp.Or(c.Seed, seed) })
	s.HTM = with(s.HTM, func(c *HTM) { c.Seed = cmp.Or(c.Seed, seed) })
	s.QLearning = with(s.QLearning, func(c *QLearning) { c.Seed = cmp.Or(c.Seed, seed) })
	s.SARSA = with(s.SARSA, func(c *SARSA) { c.Seed = cmp.Or(c.Seed, seed) })
	return s
}

// with returns a changed copy of a block of settings, or of the defaults where it is missing.
func with[T any](block *T, change func(*T)) *T {
	c := settings(block)
	change(&c)
	return &c
}
