package replay

import (
	"encoding/json"

	"github.com/plimsoll/plimsoll/podscaler/forecast"
)

// pool holds the forecasters of several runs over the same load, in step. What a forecaster expects
// depends on what arrived and not on who scales by it, so that a sweep of twenty excesses learns
// and forecasts once.
type pool map[string]*common

// common is a forecaster that several runs look at.
type common struct {
	model forecast.Model
	seen  int // values observed
	// What is expected of the next period, if a caller has asked since the last value.
	asked bool
	mean  float64
	known bool
}

// of returns a run's look at the forecaster of a spec.
func (p pool) of(spec forecast.Spec) (forecast.Model, error) {
	spec.Name = "" // what it is called makes no difference
	key, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	c, ok := p[string(key)]
	if !ok {
		m, err := forecast.New(spec)
		if err != nil {
			return nil, err
		}
		c = &common{model: m}
		p[string(key)] = c
	}
	if _, sized := c.model.(forecast.Sized); !sized {
		return &look{common: c}, nil
	}
	return sizedLook{&look{common: c}}, nil
}

// look is one run's look at a forecaster. Whoever is first to come to a value has it observed.
type look struct {
	*common
	at int
}

func (l *look) Observe(v float64) {
	if l.at++; l.at > l.seen {
		l.model.Observe(v)
		l.seen, l.asked = l.at, false
	}
}

func (l *look) Train(history []float64) {
	if l.at += len(history); l.at > l.seen {
		forecast.Train(l.model, history)
		l.seen, l.asked = l.at, false
	}
}

func (l *look) Predict(h int) (float64, bool) {
	if h != 1 {
		return l.model.Predict(h)
	}
	if !l.asked {
		l.mean, l.known = l.model.Predict(h)
		l.asked = true
	}
	return l.mean, l.known
}

// sizedLook is a look at a forecaster that knows its size.
type sizedLook struct{ *look }

func (l sizedLook) Size() int {
	bytes, _ := forecast.Size(l.model)
	return bytes
}
