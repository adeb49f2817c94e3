package forecast_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plimsoll/plimsoll/podscaler/forecast"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// script is a model that foretells what it is asked to, value by value; NaN for nothing.
type script struct {
	says []float64
	t    int
}

func (s *script) Observe(float64) { s.t++ }

func (s *script) Predict(h int) (float64, bool) {
	i := s.t + h - 1
	return s.says[i], !math.IsNaN(s.says[i])
}

// verdict has scripts race over values. The first forecasts are for the second value: nothing is
// asked before the first.
func verdict(t *testing.T, values []float64, names string, says ...[]float64) forecast.Verdict {
	var entrants []forecast.Entrant
	for i, s := range says {
		// A value before all others, so that the first one is foretold too.
		told := append(append([]float64{0}, s...), 0)
		entrants = append(entrants, forecast.Entrant{Name: names[i : i+1], Model: &script{says: told}})
	}
	r := must.Get(forecast.NewRace(entrants, forecast.RaceSettings{}))(t)
	r.Observe(100)
	for _, v := range values {
		r.Observe(v)
	}
	_, ok := r.Predict(1)
	if v := r.Verdict(); ok != (v.Leader != "") {
		t.Errorf("forecast known: %t, leader %q", ok, v.Leader)
	}
	return r.Verdict()
}

func TestTheRaceIsWonByTheLeastDifferenceBelowTheThreshold(t *testing.T) {
	var (
		nan    = math.NaN()
		values = []float64{100, 110, 120, 130, 140}
		a      = []float64{90, 100, 130, 120, 150}
		b      = []float64{100, 100, 100, 100, 100}
		c      = []float64{160, 180, 200, 210, 230}
		d      = []float64{140, 150, 165, 180, 195}
	)
	for name, test := range map[string]struct {
		values []float64
		names  string
		says   [][]float64
		want   forecast.Verdict
	}{
		"the closest leads": {values, "AB", [][]float64{a, b}, forecast.Verdict{
			Leader: "A", Reason: forecast.BestOfWindow, Message: "A was the closest over the last 5 periods: it differed by 0.0859",
			Places: []forecast.Place{{"A", 5, 0.0859}, {"B", 5, 0.1743}},
		}},
		"nobody is close": {values, "CD", [][]float64{c, d}, forecast.Verdict{
			Reason:  forecast.NobodyClose,
			Message: "D was the closest over the last 5 periods, and differed by 0.3216, more than 0.3",
			Places:  []forecast.Place{{"C", 5, 0.4803}, {"D", 5, 0.3216}},
		}},
		"too short": {values[:4], "A", [][]float64{a}, forecast.Verdict{
			Reason: forecast.TooFewSamples, Message: "no forecaster has forecast the last 5 periods",
			Places: []forecast.Place{{"A", 4, 0.0901}},
		}},
		"a gap is no sample": {[]float64{100, 110, nan, 130, 140}, "A", [][]float64{a}, forecast.Verdict{
			Reason: forecast.TooFewSamples, Message: "no forecaster has forecast the last 5 periods",
			Places: []forecast.Place{{"A", 4, 0.0874}},
		}},
		"who did not know begins again": {values, "AB", [][]float64{{90, 100, 130, nan, 150}, b}, forecast.Verdict{
			Leader: "B", Reason: forecast.BestOfWindow, Message: "B was the closest over the last 5 periods: it differed by 0.1743",
			Places: []forecast.Place{{"A", 1, 0.0690}, {"B", 5, 0.1743}},
		}},
		"nothing foretold as nothing is right, and anything else is as wrong as can be": {
			[]float64{0, 0, 0, 0, 0}, "AB", [][]float64{{0, 0, 0, 0, 0}, {0, 0, 0, 1, 0}}, forecast.Verdict{
				Leader: "A", Reason: forecast.BestOfWindow, Message: "A was the closest over the last 5 periods: it differed by 0.0000",
				Places: []forecast.Place{{"A", 5, 0}, {"B", 5, 0.4}},
			},
		},
		"the first of equals leads": {values, "YX", [][]float64{b, b}, forecast.Verdict{
			Leader: "Y", Reason: forecast.BestOfWindow, Message: "Y was the closest over the last 5 periods: it differed by 0.1743",
			Places: []forecast.Place{{"Y", 5, 0.1743}, {"X", 5, 0.1743}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := verdict(t, test.values, test.names, test.says...)
			if diff := cmp.Diff(test.want, got, cmpopts.EquateApprox(0, 0.00005)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestADifferenceIsDefinedForNothing(t *testing.T) {
	for _, test := range []struct{ forecast, value, want float64 }{
		{0, 0, 0}, {0, 7, 2}, {7, 0, 2}, {90, 110, 0.2}, {110, 90, 0.2},
	} {
		if got := forecast.RelativeDifference(test.forecast, test.value); got != test.want {
			t.Errorf("%v for %v differs by %v, want %v", test.forecast, test.value, got, test.want)
		}
	}
}

func TestARaceFurtherAheadJudgesWhatWasSaidThen(t *testing.T) {
	says := []float64{0, 0, 0, 10, 20, 30, 40, 50, 0, 0, 0, 0}
	r := must.Get(forecast.NewRace([]forecast.Entrant{{Name: "A", Model: &script{says: says}}}, forecast.RaceSettings{Horizon: 3}))(t)
	for _, v := range []float64{5, 5, 5, 10, 20, 30, 40, 60} {
		r.Observe(v)
	}
	want := []forecast.Place{{"A", 5, 2. / 11 / 5}}
	if diff := cmp.Diff(want, r.Verdict().Places, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
}
