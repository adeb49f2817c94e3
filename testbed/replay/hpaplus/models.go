package hpaplus

import (
	"context"
	"fmt"
	"math"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
	"github.com/plimsoll/plimsoll/podscaler/forecast"
	"github.com/plimsoll/plimsoll/testbed/replay"
)

// The models of the HPA's replicas.
const (
	Discrete   = "discrete"    // lossy, minute by minute
	Lossless   = "lossless"    // MMPP/M/c, by the count of the last minute
	ClosedForm = "closed-form" // MMPP/M/c, in the long run
)

var modelRows = []string{Discrete, Lossless, ClosedForm}

// RowNames are the rows of the experiment.
func (e *Experiment) RowNames() []string {
	switch {
	case e.Replay.Compare == Models:
		return append([]string(nil), modelRows...)
	case len(e.Replay.Rows) == 0:
		return forecast.Names()
	}
	return append([]string(nil), e.Replay.Rows...)
}

// models compares the models of the HPA under a process, where pods have no profile and the HPA no
// tolerance, as the lossless model wants it.
func (j *job) models() error {
	m, err := j.source.process(j.Experiment)
	if err != nil {
		return err
	}
	const perPod = 125
	flat, err := capacity.Linear(perPod, 0)
	if err != nil {
		return err
	}
	counts := m.Generate(j.rng(), (j.Replay.Train+j.Replay.Test)*minutesADay)
	setting := replay.Default()
	setting.Profile = flat
	for _, c := range j.Cases() {
		scaled, err := replay.Scale(&replay.Trace{Name: j.source.Name, Counts: counts}, 0, c.Pods, setting)
		if err != nil {
			return err
		}
		if err := j.model(c, m, scaled.Counts, sum(scaled.Counts)/sum(counts), flat); err != nil {
			return err
		}
	}
	return nil
}

// model plays one case. Rates are requests a second from here on.
func (j *job) model(c Case, m capacity.MMPP, counts []float64, scale float64, p capacity.Profile) error {
	rates := make([]float64, len(counts))
	for i, n := range counts {
		rates[i] = n / 60
	}
	d := capacity.Discrete{Profile: p, Timeout: c.Timeout, HPA: capacity.HPA{
		Target: c.Excess, Tolerance: c.Tolerance, Min: 1, Max: math.MaxInt32, Stabilization: 1,
	}}
	run, err := d.Run(rates)
	if err != nil {
		return fmt.Errorf("the discrete model: %w", err)
	}
	mu := p.PerPod(1)
	pods, lossless, square := 0.0, 0.0, 0.0
	for i := 1; i < len(run); i++ {
		n := float64(capacity.ServersFor(rates[i-1], mu, c.Excess))
		pods, lossless = pods+float64(run[i].Pods), lossless+n
		square += (float64(run[i].Pods) - n) * (float64(run[i].Pods) - n)
	}
	minutes, requests := float64(len(run)-1), sum(counts)
	j.add(Discrete, c, requests, map[string]float64{"pods": pods / minutes, "mse": square / minutes})
	j.add(Lossless, c, 0, map[string]float64{"pods": lossless / minutes, "mse": 0})
	j.add(ClosedForm, c, 0, map[string]float64{"pods": m.MeanPods(mu*60/scale, c.Excess), "mse": math.NaN()})
	return nil
}

// forecasters judges forecasts a minute ahead on the test days.
func (j *job) forecasters(ctx context.Context) error {
	t, err := j.source.draw(j.trial, j.Experiment)
	if err != nil {
		return err
	}
	train := j.Replay.Train * minutesADay
	for _, name := range j.RowNames() {
		if err := ctx.Err(); err != nil {
			return err
		}
		m, err := forecast.New(forecast.Spec{Type: name}.WithSeed(j.Seed))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		forward, err := j.walkForward(name, t.Counts[:train])
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		began := j.now()
		forecast.Train(m, t.Counts[:train])
		if took := j.now() - began; j.clock != nil {
			j.times = append(j.times, Timing{Trace: j.source.Name, Trial: j.trial, Row: name, Seconds: took})
		}
		if err := j.judge(name, m, t.Counts[:train], t.Counts[train:], forward); err != nil {
			return err
		}
	}
	return nil
}

// walkForward is the mean R² of a forecaster that is trained on more and more of the days that are
// learnt from, each time anew, and judged on the day after. Of a single day it is unknown.
func (j *job) walkForward(name string, days []float64) (float64, error) {
	sum, folds := 0.0, 0
	for cut := minutesADay; cut < len(days); cut += minutesADay {
		m, err := forecast.New(forecast.Spec{Type: name}.WithSeed(j.Seed))
		if err != nil {
			return 0, err
		}
		forecast.Train(m, days[:cut])
		test, square, last := days[cut:cut+minutesADay], 0.0, days[cut-1]
		for _, v := range test {
			said, ok := m.Predict(1)
			if !ok {
				said = last
			}
			square += (v - said) * (v - said)
			m.Observe(v)
			last = v
		}
		sum, folds = sum+1-square/float64(len(test))/variance(test), folds+1
	}
	return sum / float64(folds), nil
}

func (j *job) now() float64 {
	if j.clock == nil {
		return 0
	}
	return j.clock().Seconds()
}

// judge walks a trained forecaster through the test days. Where it does not know, the last value
// counts as its forecast.
func (j *job) judge(name string, m forecast.Model, train, test []float64, forward float64) error {
	d, err := forecast.NewCalibrated(m, forecast.Calibration{})
	if err != nil {
		return err
	}
	last, square, known, covered := train[len(train)-1], 0.0, 0, 0
	for _, v := range test {
		said, ok := d.Predict(1)
		if !ok {
			said = last
		}
		if q := d.Forecast(1); q.Known {
			known++
			if v <= q.Quantile(0.95) {
				covered++
			}
		}
		square += (v - said) * (v - said)
		d.Observe(v)
		last = v
	}
	n := float64(len(test))
	kb := math.NaN()
	if bytes, ok := forecast.Size(m); ok {
		kb = float64(bytes) / 1000
	}
	j.add(name, usual, n, map[string]float64{
		"r2": 1 - square/n/variance(test), "rmse": math.Sqrt(square / n / variance(train)),
		"r2Forward": forward,
		"covered":   100 * float64(covered) / float64(known), "kilobytes": kb,
	})
	return nil
}

// variance is the mean squared distance from the mean.
func variance(values []float64) float64 {
	n := float64(len(values))
	mean, square := sum(values)/n, 0.0
	for _, v := range values {
		square += (v - mean) * (v - mean)
	}
	return square / n
}
