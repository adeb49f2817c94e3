package forecast_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/plimsoll/plimsoll/podscaler/forecast"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// moody expects the last value, and half as much again in its bad times.
type moody struct {
	value float64
	bad   bool
}

func (m *moody) Observe(v float64) { m.value = v }

func (m *moody) Predict(int) (float64, bool) {
	if m.bad {
		return 1.5 * m.value, true
	}
	return m.value, true
}

func TestMembersLoseTheirVoteAndWinItBack(t *testing.T) {
	a, b := &moody{}, &moody{bad: true}
	members := []forecast.Entrant{{Name: "a", Model: a}, {Name: "b", Model: b}}
	e := must.Get(forecast.NewEnsemble(members, forecast.EnsembleSettings{Memory: 60}))(t)
	r := rand.New(rand.NewPCG(3, 4))
	run := func(n int) {
		for range n {
			e.Observe(100 + 2*r.NormFloat64())
		}
	}
	expect := func(when string, wantA, wantB float64) {
		t.Helper()
		votes := e.Votes()
		if votes[0].Weight != wantA || votes[1].Weight != wantB {
			t.Errorf("%s the votes are %v, should weigh %v and %v", when, votes, wantA, wantB)
		}
	}
	run(5)
	expect("before anybody is judged", 0.5, 0.5)
	run(100)
	expect("with b half as much too high", 1, 0)
	if f, ok := e.Predict(1); !ok || f != a.value {
		t.Errorf("the ensemble expects %v, should expect what a does, %v", f, a.value)
	}
	a.bad, b.bad = true, false
	run(600)
	expect("with a too high for ten times the memory", 0, 1)
}

func TestAnEnsembleTakesTheNextBestForWhoDoesNotKnow(t *testing.T) {
	// Ridge and Seasonal know nothing in the first season; the others carry the ensemble.
	e := model(t, of("Ensemble", 24)).(*forecast.Ensemble)
	for i := range 20 {
		e.Observe(float64(100 + i%3))
	}
	if f, ok := e.Predict(1); !ok || f < 90 || f > 110 {
		t.Errorf("the ensemble expects %v (known: %t), should be near 101", f, ok)
	}
	for _, v := range e.Votes() {
		if knows := v.Name != "Ridge" && v.Name != "Seasonal" && v.Name != "AR"; !knows && v.Weight > 0 {
			t.Errorf("%s has a vote of %v on what it does not know", v.Name, v.Weight)
		}
	}
	for range 15 {
		e.Observe(math.NaN())
	}
	// Only what was a season ago is left to go by.
	if f, ok := e.Predict(1); !ok || f != 102 {
		t.Errorf("the ensemble expects %v (known: %t) after a gap, should be what was a season ago, 102", f, ok)
	}
}

func TestAnEnsembleHandsItsSeasonToWhomItBrings(t *testing.T) {
	e := model(t, forecast.Spec{Type: "Ensemble", Ensemble: &forecast.EnsembleSettings{Season: 12}})
	for i := range 24 {
		e.Observe(float64(10 * (i % 12)))
	}
	for h := 1; h <= 12; h++ {
		if f, ok := e.Predict(h); !ok || math.Abs(f-float64(10*(h-1))) > 0.1 {
			t.Errorf("the ensemble expects %v (known: %t) %d ahead, where the season has %d", f, ok, h, 10*(h-1))
		}
	}
}

// Errors are judged at the horizon that decisions are made for: who is right at once and wrong
// later must not lead there.
func TestMembersAreJudgedAtTheHorizon(t *testing.T) {
	series := func(i int) float64 { return 100 + 50*math.Sin(2*math.Pi*float64(i)/48) }
	weights := func(horizon int) map[string]float64 {
		members := []forecast.Entrant{
			{Name: "late", Model: &drift{}},
			{Name: "Seasonal", Model: model(t, of("Seasonal", 48))},
		}
		e := must.Get(forecast.NewEnsemble(members, forecast.EnsembleSettings{Horizon: horizon}))(t)
		r := rand.New(rand.NewPCG(5, 6))
		for i := range 480 {
			e.Observe(series(i) + 3*r.NormFloat64())
		}
		all := map[string]float64{}
		for _, v := range e.Votes() {
			all[v.Name] = v.Weight
		}
		return all
	}
	if w := weights(1); w["late"] == 0 {
		t.Errorf("one period ahead the weights are %v, should have one for who is right at once", w)
	}
	if w := weights(12); w["Seasonal"] != 1 {
		t.Errorf("twelve periods ahead the weights are %v, should all be on who knows the season", w)
	}
}

// drift knows the next value by heart, and takes it for all that follow.
type drift struct{ t int }

func (d *drift) Observe(float64) { d.t++ }

func (d *drift) Predict(int) (float64, bool) {
	return 100 + 50*math.Sin(2*math.Pi*float64(d.t)/48), true
}
