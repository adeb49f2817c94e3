package replay

// Sweeping is a sweep under way, for loads that come in pieces: a kind at each value of its knob,
// in step. Forecasters are trained once for all of them.
type Sweeping struct{ players []*Player }

// NewSweep returns a sweep that has not begun, or every fault of the setting. hear returns who
// hears of the run at the i-th value, and may be nil, or return it.
func NewSweep(k Kind, s Setting, values []float64, hear func(i int) Hear) (*Sweeping, error) {
	s.models = pool{}
	w := &Sweeping{}
	for i, v := range values {
		var h Hear
		if hear != nil {
			h = hear(i)
		}
		p, err := NewPlayer(k, s.With(k.Knob, v), h)
		if err != nil {
			return nil, err
		}
		w.players = append(w.players, p)
	}
	return w, nil
}

// Warm is every Player's.
func (w *Sweeping) Warm(counts []float64) error { return warm(w.players, counts) }

// Feed plays the next minutes at every value.
func (w *Sweeping) Feed(counts ...float64) error {
	for _, n := range counts {
		for _, p := range w.players {
			if err := p.Feed(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// Results are what came of the minutes that were fed so far, in the order of the values.
func (w *Sweeping) Results() []Result {
	out := make([]Result, 0, len(w.players))
	for _, p := range w.players {
		out = append(out, p.Result())
	}
	return out
}
