package forecast_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/podscaler/forecast"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestForecastersAreFoundByEitherName(t *testing.T) {
	names := forecast.Names()
	if !slices.IsSorted(names) {
		t.Errorf("names are %v, should be sorted", names)
	}
	for _, name := range []string{"last", "Seasonal", "AR", "ar", "HoltWinters", "theta", "Ridge", "QLearning", "SARSA", "HTM", "LSTM", "DailyLSTM", "dailylstm", "Ensemble", "race"} {
		if _, err := forecast.New(forecast.Spec{Type: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, d := range forecast.All() {
		if !slices.Contains(names, strings.ToLower(d.Name)) || !strings.HasSuffix(d.String(), ".") {
			t.Errorf("%q is no description of a forecaster", d)
		}
	}
}

func TestSeasonAndSeedAreThoseOfTheSpecWhereItHasThem(t *testing.T) {
	members := &forecast.EnsembleSettings{Members: []forecast.Spec{{Type: "Last"}}}
	given := forecast.Spec{Type: "LSTM", LSTM: &forecast.LSTM{Seed: 7, Units: 3}, Ridge: &forecast.Ridge{Season: 60}, Ensemble: members}
	got := given.WithSeason(24).WithSeed(5)
	want := forecast.Spec{
		Type:     "LSTM",
		Seasonal: &forecast.Seasonal{Season: 24}, HoltWinters: &forecast.HoltWinters{Season: 24}, Theta: &forecast.Theta{Season: 24},
		Ridge: &forecast.Ridge{Season: 60}, Ensemble: members,
		LSTM: &forecast.LSTM{Seed: 7, Units: 3}, HTM: &forecast.HTM{Seed: 5}, DailyLSTM: &forecast.LSTM{Seed: 5, Season: 24},
		QLearning: &forecast.QLearning{Seed: 5}, SARSA: &forecast.SARSA{Seed: 5},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if e := (forecast.Spec{Type: "Ensemble"}).WithSeason(24).Ensemble; e.Season != 24 {
		t.Errorf("an ensemble that names no members has a season of %d", e.Season)
	}
	if given.HTM != nil || given.Ridge.Season != 60 {
		t.Errorf("what was given has changed: %+v", given)
	}
}

func TestEveryFaultOfSettingsIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		`{"type": "prophet"}`:                                                                                                    "forecaster: must be one of " + strings.Join(forecast.Names(), ", ") + `, was "prophet"`,
		`{"type": "Seasonal", "seasonal": {"season": -1}}`:                                                                       "seasonal.season: must be from 1 to 1048576 periods, was -1",
		`{"type": "AR", "ar": {"lags": 500, "memory": 1}}`:                                                                       "ar.lags: must be from 1 to 256, was 500\nar.memory: must be from 2 to 1048576 periods, was 1",
		`{"type": "HoltWinters", "holtWinters": {"damping": 1.5}}`:                                                               "holtWinters.damping: must be above 0 and at most 1, was 1.5",
		`{"type": "Theta", "theta": {"memory": 1}}`:                                                                              "theta.memory: must be from 2 to 1048576 periods, was 1",
		`{"type": "Ridge", "ridge": {"season": 1, "harmonics": -1}}`:                                                             "ridge.season: must be from 2 to 1048576 periods, was 1\nridge.harmonics: must be from 0 to 64, was -1",
		`{"type": "QLearning", "qLearning": {"levels": 1, "discount": 1, "warmup": 1}}`:                                          "qLearning.levels: must be from 2 to 1024, was 1\nqLearning.discount: must be above 0 and below 1, was 1\nqLearning.warmup: must be from 2 to 1048576 periods, was 1",
		`{"type": "QLearning", "qLearning": {"pods": 2000, "episodes": -1, "rate": 2}}`:                                          "qLearning.pods: must be from 2 to 1024, was 2000\nqLearning.episodes: must be from 1 to 10000, was -1\nqLearning.rate: must be above 0 and at most 1, was 2",
		`{"type": "SARSA", "sarsa": {"explore": 1.5, "shortage": -1}}`:                                                           "sarsa.explore: must be above 0 and at most 1, was 1.5\nsarsa.shortage: must be above 0 and at most 1000, was -1",
		`{"type": "HTM", "htm": {"columns": 63, "cells": -1, "active": 20}}`:                                                     "htm.columns: must be from 64 to 2048, was 63\nhtm.cells: must be from 1 to 32, was -1\nhtm.active: must be at most a quarter of the columns, was 20",
		`{"type": "HTM", "htm": {"active": 3, "history": 1, "season": 1}}`:                                                       "htm.active: must be from 4 to 64, was 3\nhtm.history: must be from 2 to 10080 periods, was 1\nhtm.season: must be from 2 to 1048576 periods, was 1",
		`{"type": "HTM", "htm": {"horizons": [5, 5]}}`:                                                                           "htm.horizons: must be at most 16, ascending, from 1 to 10080 periods, was [5 5]",
		`{"type": "LSTM", "lstm": {"units": -1, "lookback": 1, "level": 0.5, "rounds": -2}}`:                                     "lstm.units: must be from 1 to 256, was -1\nlstm.lookback: must be from 2 to 256 periods, was 1\nlstm.level: must be from 1 to 1048576 periods, was 0.5\nlstm.rounds: must be from 1 to 1000, was -2",
		`{"type": "LSTM", "lstm": {"lookback": 64, "history": 511, "retrain": 100, "batch": 2000, "rate": 1}}`:                   "lstm.batch: must be from 1 to 1024 windows, was 2000\nlstm.rate: must be above 0 and at most 0.1, was 1\nlstm.history: must be from 8 look-backs to 1048576 periods, was 511\nlstm.retrain: must be from 8 look-backs to 1048576 periods, was 100",
		`{"type": "LSTM", "lstm": {"season": 1440}}`:                                                                             "lstm.season: must be omitted for LSTM, which does not read the time of day; DailyLSTM does, was 1440",
		`{"type": "DailyLSTM", "dailyLSTM": {"level": 16, "season": 1}}`:                                                         "dailyLSTM.level: must be omitted for DailyLSTM, which sees loads beside those of all its history, was 16\ndailyLSTM.season: must be from 2 to 1048576 periods, was 1",
		`{"type": "Race", "race": {"threshold": 3, "window": -5}}`:                                                               "race.window: must be from 1 to 10080 periods, was -5\nrace.threshold: must be above 0 and at most 2, was 3",
		`{"type": "Race", "race": {"entrants": [{"type": "Last"}, {"type": "AR", "ar": {"lags": -1}}]}}`:                         "race.entrants[1]: ar.lags: must be from 1 to 256, was -1",
		`{"type": "Ensemble", "ensemble": {"members": [{"type": "Last"}, {"type": "Last"}]}}`:                                    `ensemble.members[1]: must have a name of its own, was "Last"`,
		`{"type": "Race", "race": {"entrants": [{"name": "a", "type": "Last"}, {"type": "Last"}, {"name": "a", "type": "AR"}]}}`: `race.entrants[2]: must have a name of its own, was "a"`,
		`{"type": "Ensemble", "ensemble": {"season": 60, "members": [{"type": "Last"}]}}`:                                        "ensemble.season: must not be set beside members, which have their own, was 60",
		`{"type": "Ensemble", "ensemble": {"season": 1}}`:                                                                        "ensemble.season: must be from 2 to 1048576 periods, was 1",
		`{"type": "Ensemble", "ensemble": {"quantile": 1, "horizon": -1}}`:                                                       "ensemble.horizon: must be from 1 to 10080 periods, was -1\nensemble.quantile: must be above 0 and below 1, was 1",
	} {
		var s forecast.Spec
		must.Do(t, json.Unmarshal([]byte(text), &s))
		if _, err := forecast.New(s); err == nil || err.Error() != want {
			t.Errorf("%s:\n%v, want\n%s", text, err, want)
		}
	}
	_, err := forecast.NewCalibrated(model(t, forecast.Spec{Type: "last"}), forecast.Calibration{Horizons: []int{5, 0}, Window: 3, Rate: 2})
	const want = "horizons: must be from 1 to 10080 periods, was [5 0]\nwindow: must be from 20 to 1048576 errors, was 3\nrate: must be above 0 and below 1, was 2"
	if err == nil || err.Error() != want {
		t.Errorf("calibration:\n%v, want\n%s", err, want)
	}
}

// In a gap time passes, and nothing is learnt.
func TestGapsLetTimePass(t *testing.T) {
	nan := math.NaN()
	for name, test := range map[string]struct {
		spec   forecast.Spec
		series []float64
		h      int
		want   any // nil for not known
	}{
		"Last stands by its value":       {of("Last", 2), []float64{5, nan, nan}, 3, 5.},
		"Last is out of date in the end": {of("Last", 2), []float64{5, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan}, 1, nil},
		"Last never had one":             {of("Last", 2), []float64{nan, -5, math.Inf(1)}, 1, nil},
		"Seasonal knows where it is":     {of("Seasonal", 4), []float64{1, 2, 3, 4, nan, nan}, 1, 3.},
		"Seasonal looks a season back":   {of("Seasonal", 4), []float64{1, 2, 3, 4, 5, nan, 7, 8}, 2, 2.},
		"Seasonal has never been there":  {of("Seasonal", 4), []float64{1, 2, nan, 4}, 3, nil},
		"Seasonal goes round":            {of("Seasonal", 4), []float64{1, 2, 3, 4}, 10, 2.},
		"HoltWinters keeps its level":    {of("HoltWinters", 1), []float64{5, 5, 5, 5, nan}, 4, 5.},
		"Theta keeps its level":          {of("Theta", 1), []float64{5, 5, 5, 5, nan}, 4, 5.},
		"AR goes on from its forecast":   {of("AR", 2), []float64{0, 8, 0, 8, 0, 8, 0, 8, nan}, 1, 8.},
		"Ridge waits for its season":     {of("Ridge", 8), []float64{1, 2, 3, 4, 5, 6, 7}, 1, nil},
	} {
		m := model(t, test.spec)
		for _, v := range test.series {
			m.Observe(v)
		}
		f, ok := m.Predict(test.h)
		want, known := test.want.(float64)
		if ok != known || math.Abs(f-want) > 0.001 {
			t.Errorf("%s: expects %v (known: %t), want %v", name, f, ok, test.want)
		}
	}
}

// A load that grows without end must not be expected to do so for ever.
func TestFarForecastsStayInSight(t *testing.T) {
	for _, name := range []string{"AR", "HoltWinters"} {
		m, v := model(t, of(name, 4)), 1.
		for range 40 {
			m.Observe(v)
			v *= 1.5
		}
		if f, ok := m.Predict(60); !ok || f < v/1.5 || f > 10*v {
			t.Errorf("%s expects %v an hour after the load grew to %v", name, f, v/1.5)
		}
	}
}

func TestADistributionBeyondTheLongestHorizonIsNotKnown(t *testing.T) {
	c := mustCalibrate(t, model(t, forecast.Spec{Type: "Last"}), 8, 2, 2)
	for i := range 200 {
		c.Observe(float64(100 + 10*(i%5)))
	}
	var known []int
	for h := 1; h < 12; h++ {
		if c.Forecast(h).Known {
			known = append(known, h)
		}
	}
	if diff := cmp.Diff([]int{1, 2, 3, 4, 5, 6, 7, 8}, known); diff != "" {
		t.Errorf("known horizons (-want +got):\n%s", diff)
	}
	if a, b := c.Forecast(3), c.Forecast(8); a.Quantile(0.9) != b.Quantile(0.9) {
		t.Errorf("three ahead the 90 %% quantile is %v, should be that of the next longer horizon, %v", a.Quantile(0.9), b.Quantile(0.9))
	}
}

func TestQuantilesBetweenThoseKeptAreOnALine(t *testing.T) {
	d := forecast.Distribution{Mean: 7, Known: true}
	if got := d.Quantile(0.99); got != 7 {
		t.Errorf("without quantiles the 99 %% quantile is %v, should be the mean", got)
	}
	if a, b := d.Above(5), d.Above(9); a != 2 || b != 0 {
		t.Errorf("without quantiles %v and %v are above 5 and 9, should be what the mean is more, 2 and 0", a, b)
	}
	if got := (forecast.Distribution{Mean: 7}).Quantile(0.5); !math.IsNaN(got) {
		t.Errorf("the median of what is not known is %v", got)
	}
}
