package hpaplus

import (
	"math"
	"slices"

	"github.com/plimsoll/plimsoll/testbed/replay"
)

// Values that the knobs of scalers without an excess are swept over.
var (
	quantiles = []float64{0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999}
	prices    = []float64{0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}
)

// sweeps are what rows come to when their knobs are turned, by row and case. The excess of the case
// is what is turned, and omitted.
type sweeps map[key][]replay.Result

// equal compares the rows at the pod-minutes that another takes at the case's excess: every knob is
// turned until it takes as many, by looking, as no one could beforehand, at the days that are
// judged.
func (s *stage) equal(c Case, swept sweeps) error {
	l, setting, err := s.at(c)
	if err != nil {
		return err
	}
	for _, against := range s.Replay.Against {
		base, err := s.play(l, against, setting, nil)
		if err != nil {
			return err
		}
		for _, row := range s.Replay.Rows {
			r, err := s.play(l, row, setting, nil)
			if err != nil {
				return err
			}
			curve, err := s.sweep(l, row, setting, c, swept)
			if err != nil {
				return err
			}
			m := ratios(curve, &base)
			m["lost"], m["podMinutes"], m["pods"] = 100*r.LostPart(), float64(r.PodMinutes), r.MeanPods()
			s.add(row, c, r.Arrived, m).Against = against
		}
	}
	return nil
}

// sweep plays a row at all values of its knob, once.
func (s *stage) sweep(l *load, row string, setting replay.Setting, c Case, swept sweeps) ([]replay.Result, error) {
	c.Excess = 0
	at := key{row: row, c: c}
	if done := swept[at]; done != nil {
		return done, nil
	}
	k, err := replay.Find(row)
	if err != nil {
		return nil, err
	}
	values := s.Replay.Knobs
	switch k.Knob {
	case replay.Excess:
		// An HPA cannot aim at more use than there is. Its sweep ends there.
		values = slices.DeleteFunc(slices.Clone(values), func(v float64) bool {
			_, err := k.New(setting.With(k.Knob, v))
			return v > 1 && err != nil
		})
	case replay.Quantile:
		values = quantiles
	case replay.Price:
		values = prices
	}
	swept[at], err = replay.Sweep(l.Trace, l.train, k, setting, values)
	return swept[at], err
}

// ratios are what a row loses at the pod-minutes of another, and takes at its loss.
func ratios(curve []replay.Result, base *replay.Result) map[string]float64 {
	m := map[string]float64{"lostRatio": math.NaN(), "podsAtLoss": math.NaN()}
	if 100*base.LostPart() < tooFewLost {
		return m
	}
	if lost, known := replay.LostAt(curve, float64(base.PodMinutes)); known {
		m["lostRatio"] = lost / base.Lost
	}
	if pods, known := replay.PodsAt(curve, base.Lost); known {
		m["podsAtLoss"] = 100 * (pods/float64(base.PodMinutes) - 1)
	}
	return m
}
