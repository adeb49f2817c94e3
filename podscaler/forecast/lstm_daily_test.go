package forecast_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/plimsoll/plimsoll/podscaler/forecast"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// noons is a load with noise that doubles at noon, and falls back at midnight, of days of 24
// periods. Who looks back on fewer than twelve cannot count them.
func noons(r *rand.Rand, days int) (series []float64) {
	for i := range 24 * days {
		series = append(series, 100*float64(1+i%24/12)+5*r.NormFloat64())
	}
	return series
}

// daily is one that learns quickly, of days of 24 periods.
func daily() forecast.Spec {
	c := small(1 << 20).LSTM
	c.Season, c.History = 24, 2400
	return forecast.Spec{Type: "DailyLSTM", DailyLSTM: c}
}

// atNoon is what a model expects for noon, as a multiple of what it expects two periods before.
func atNoon(t *testing.T, m forecast.Model, days []float64) float64 {
	t.Helper()
	at, before := 0.0, 0.0
	for i, v := range days {
		f, ok := m.Predict(1)
		if !ok {
			t.Fatal("nothing is known")
		}
		switch i % 24 {
		case 12:
			at += f
		case 10:
			before += f
		}
		m.Observe(v)
	}
	return at / before
}

func TestDailyLSTMKnowsTheTimeOfDay(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	history, after := noons(r, 80), noons(r, 20)
	m, plain := model(t, daily()), model(t, small(1<<20))
	forecast.Train(m, history)
	forecast.Train(plain, history)
	daily, without := atNoon(t, m, after), atNoon(t, plain, after)
	if daily < 1.5 || without > daily-0.3 {
		t.Errorf("it expects %.2f times as much at noon as before it, and LSTM, which cannot know of it, %.2f times as much", daily, without)
	}
}

// The history begins at noon, which is its first midnight to one that is not handed the time.
func TestTheClockSaysWhenADayBegins(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	history, after := noons(r, 80), noons(r, 20)
	at, never := model(t, daily()), model(t, daily())
	forecast.SetClock(at, 12)
	forecast.Train(at, history[12:])
	forecast.Train(never, history[12:])
	a, _ := at.Predict(1)
	if b, _ := never.Predict(1); a == b {
		t.Error("the clock makes no difference")
	}
	if got := atNoon(t, at, after); got < 1.5 {
		t.Errorf("it expects %.2f times as much at noon as before it, should be near 2", got)
	}
}

// clocked is a Model that keeps the time of day.
type clocked struct {
	drift
	period int
}

func (c *clocked) SetClock(period int) { c.period = period }

func TestTheTimeOfDayIsPassedOn(t *testing.T) {
	for name, of := range map[string]func(members []forecast.Entrant) (forecast.Model, error){
		"Race": func(m []forecast.Entrant) (forecast.Model, error) {
			return forecast.NewRace(m, forecast.RaceSettings{})
		},
		"Ensemble": func(m []forecast.Entrant) (forecast.Model, error) {
			return forecast.NewEnsemble(m, forecast.EnsembleSettings{})
		},
	} {
		last := &clocked{}
		m := must.Get(of([]forecast.Entrant{{Name: "without", Model: &drift{}}, {Name: "with", Model: last}}))(t)
		if forecast.SetClock(m, 7); last.period != 7 {
			t.Errorf("%s: the time of day is %d, should be 7", name, last.period)
		}
	}
}

// After a gap it goes by what was there before, and forecasts go on.
func TestDailyLSTMForecastsThroughAGap(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	m := model(t, daily())
	forecast.Train(m, noons(r, 80))
	for range 5 {
		m.Observe(math.NaN())
	}
	if f, ok := m.Predict(1); !ok || f < 70 || f > 250 {
		t.Errorf("after a gap it expects %v (known: %t), should be from 100 to 200", f, ok)
	}
}

// Z-scores of loads that were all the same are unknown, and so is the forecast.
func TestDailyLSTMKnowsNothingOfALoadThatNeverMoved(t *testing.T) {
	m := model(t, daily())
	flat := make([]float64, 480)
	for i := range flat {
		flat[i] = 0.1
	}
	forecast.Train(m, flat)
	if f, ok := m.Predict(1); ok {
		t.Errorf("it expects %v", f)
	}
}
