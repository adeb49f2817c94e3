package hpaplus

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/plimsoll/plimsoll/podscaler/forecast"
)

// book is what forecasters said of each minute of a trace before it came, in the trace's own unit.
// A trace that is multiplied has its forecasts multiplied, so that those who take long to train are
// trained once for all cases of an experiment, and race in all of them.
type book struct {
	rates []float64
	from  int // the first minute that is foretold; what is before it was learnt from
	said  map[string]*said
}

// said is what one forecaster said.
type said struct {
	values []float64
	known  []bool
}

// foretell trains a forecaster and walks it through the rest.
func (b *book) foretell(s forecast.Spec) (*said, error) {
	s.Name = "" // what it is called makes no difference
	name, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	if done := b.said[string(name)]; done != nil {
		return done, nil
	}
	m, err := forecast.New(s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Type, err)
	}
	out := &said{values: make([]float64, len(b.rates)-b.from), known: make([]bool, len(b.rates)-b.from)}
	forecast.Train(m, b.rates[:b.from])
	for i, v := range b.rates[b.from:] {
		out.values[i], out.known[i] = m.Predict(1)
		m.Observe(v)
	}
	b.said[string(name)] = out
	return out, nil
}

// models makes forecasters of scalers from what the book has, for the trace multiplied so. Those
// that are made of others are made anew.
func (b *book) models(scale float64) func(forecast.Spec) (forecast.Model, error) {
	return func(s forecast.Spec) (forecast.Model, error) {
		switch strings.ToLower(s.Type) {
		case "ensemble", "race":
			return nil, nil
		}
		said, err := b.foretell(s)
		if err != nil {
			return nil, err
		}
		return &repeated{said: said, from: b.from, scale: scale}, nil
	}
}

// repeated is a Model that says again what was said. It goes by how many values it has observed,
// and must be shown the trace that the book is of from its beginning.
type repeated struct {
	said  *said
	from  int
	at    int
	scale float64
}

func (m *repeated) Train(history []float64) { m.at = len(history) }

func (m *repeated) Observe(float64) { m.at++ }

func (m *repeated) Predict(h int) (float64, bool) {
	i := m.at - m.from
	if h != 1 || i < 0 || i >= len(m.said.values) {
		return 0, false
	}
	return m.said.values[i] * m.scale, m.said.known[i]
}
