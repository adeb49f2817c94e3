package replay

import (
	"math"
	"testing"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
	"github.com/plimsoll/plimsoll/podscaler/forecast"
	"github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/race"
)

// A policy that is given a profile as a table knows the profile.
func TestATableOfAProfileIsTheProfile(t *testing.T) {
	linear := must.Get(capacity.Linear(125, 209))(t)
	quadratic, err := capacity.Quadratic(-3, 130, 40) // its peak is between 21 and 22 pods
	if err != nil {
		t.Fatal(err)
	}
	kinked := must.Get(capacity.Table(capacity.Point{Pods: 2, Total: 100}, capacity.Point{Pods: 5, Total: 190}, capacity.Point{Pods: 9, Total: 230}))(t)
	for name, c := range map[string]struct {
		profile    capacity.Profile
		rows, upTo int
	}{
		"linear": {linear, 2, 1000}, "quadratic": {quadratic, 21, 21}, "kinked": {kinked, 4, 1000},
	} {
		rows := tableOf(c.profile, 1000)
		if len(rows) > c.rows+1 || len(rows) < c.rows-1 {
			t.Errorf("%s: %d rows: %v", name, len(rows), rows)
		}
		points := make([]capacity.Point, len(rows))
		for i, r := range rows {
			points[i] = capacity.Point(r)
		}
		table, err := capacity.Table(points...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for n := range c.upTo {
			if got, want := table.Total(float64(n+1)), c.profile.Total(float64(n+1)); math.Abs(got-want) > 1e-6*want {
				t.Errorf("%s: %d pods serve %v, want %v", name, n+1, got, want)
			}
		}
	}
}

// What is shipped looks back five minutes before it shrinks, and so takes more pods and loses less
// than what was published; one that looks ahead loses less again.
func TestPoliciesOfTheProductOnRecordedDays(t *testing.T) {
	race.Skip(t)
	got := cases{}
	for i, trace := range judgedBy(t, 5) {
		if i%3 != 0 {
			continue // it is much the same, and takes its time
		}
		published := sweep(t, trace, "hpa", published(0.1), 0.9)[0]
		for _, name := range []string{"hpa-v2", "predictive", "fast-slow", "watermark"} {
			r := sweep(t, trace, name, Default(), 0.9)[0]
			t.Logf("%-14s %-11s %7.3f %% at %6d, %4d moves; hpa %7.3f %% at %6d, %4d moves", trace.Name, name,
				100*r.LostPart(), r.PodMinutes, r.Moves, 100*published.LostPart(), published.PodMinutes, published.Moves)
			got.add(name+" lost", r.Lost/published.Lost)
			got.add(name+" pod-minutes", float64(r.PodMinutes)/float64(published.PodMinutes))
			got.add(name+" moves", float64(r.Moves)/float64(published.Moves))
		}
	}
	for _, name := range []string{"hpa-v2", "predictive", "fast-slow", "watermark"} {
		got.within(t, name+" lost", 0, 0.4)
		got.within(t, name+" pod-minutes", 1.1, 2.2)
		got.within(t, name+" moves", 0, 0.7)
	}
}

// For each policy of the product's, the replay has one that plays it here, or says why not.
func TestEveryPolicyIsPlayedOrRefused(t *testing.T) {
	playedBy := map[string]string{
		"fastslow": "fast-slow", "hpa": "hpa-v2", "predictive": "predictive", "watermark": "watermark",
	}
	for _, name := range policy.Names() {
		_, refused := refused[name]
		_, played := kinds[playedBy[name]]
		if refused == played {
			t.Errorf("%s is played %t and refused %t", name, played, refused)
		}
	}
}

// A seed that moves only some of those who learn by chance would let a run be taken for the luck of
// all of them.
func TestTheSeedMovesEveryoneWhoLearnsByChance(t *testing.T) {
	series := rates(MMPP(1, 4).Counts[:600])
	expects := func(name string, seed uint64) (mean float64) {
		s := Default()
		s.Seed = seed
		spec := forecast.Spec{Type: name, QLearning: &forecast.QLearning{Warmup: 300}, SARSA: &forecast.SARSA{Warmup: 300}}
		m := must.Get(newModel(spec, s))(t)
		forecast.Train(m, series[:500])
		for _, v := range series[500:] {
			f, _ := m.Predict(1)
			mean += f / 100
			m.Observe(v)
		}
		return mean
	}
	for _, name := range []string{"LSTM", "HTM", "QLearning", "SARSA"} {
		if a, b := expects(name, 1), expects(name, 2); a == b || a != expects(name, 1) {
			t.Errorf("%s expects %v in the mean by one seed and %v by another", name, a, b)
		}
	}
	if a, b := expects("AR", 1), expects("AR", 2); a != b {
		t.Errorf("AR expects %v in the mean by one seed and %v by another, and knows no chance", a, b)
	}
}
