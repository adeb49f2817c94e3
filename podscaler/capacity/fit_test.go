package capacity

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Every fitted process is valid, with states in rising order of rate and the mean of the series.
func TestFitHasTheMeanOfTheSeries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.Float64Range(0, 500), 12, 200).Draw(t, "counts")
		if rapid.Bool().Draw(t, "whole") { // counts of which many are the same
			for i := range counts {
				counts[i] = math.Floor(counts[i] / 100)
			}
		}
		f := Fit{States: rapid.IntRange(1, 9).Draw(t, "states"), Around: 1 + 2*rapid.IntRange(0, 5).Draw(t, "half")}
		m, err := f.MMPP(counts)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Validate(); err != nil {
			t.Fatal(err)
		}
		if n := len(m.Rates); n > f.States || f.Around == 1 && !slices.IsSorted(m.Rates) {
			t.Fatalf("%d states of %d: %v", n, f.States, m.Rates)
		}
		if got, want := meanRate(m), mean(counts); math.Abs(got-want) > 1e-9*(1+want) {
			t.Fatalf("mean rate %v, the series has %v", got, want)
		}
	})
}

// From a long run of two regimes far apart, their rates and how they change are found again.
func TestFitFindsTheProcessAgain(t *testing.T) {
	even := MMPP{Rates: []float64{40, 400}, Transitions: [][]float64{{0.95, 0.05}, {0.05, 0.95}}}
	found, err := Fit{States: 2, Around: 1}.MMPP(even.Generate(seeded(5), 100_000))
	if err != nil {
		t.Fatal(err)
	}
	for i := range even.Rates {
		// States have equal size and the run's regimes only nearly so: some periods are in the
		// other.
		near(t, "rate", found.Rates[i], even.Rates[i], 0.1*even.Rates[i]+10)
		near(t, "staying", found.Transitions[i][i], even.Transitions[i][i], 0.02)
	}
}

func TestConstantSeriesHasOneState(t *testing.T) {
	m, err := Fit{States: 6, Around: 3}.MMPP(repeat(12, 50))
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Rates) != 1 || m.Rates[0] != 12 || m.Transitions[0][0] != 1 {
		t.Errorf("%+v, want one state of 12", m)
	}
}

func TestFaultyFitsAreRefused(t *testing.T) {
	five := repeat(1, 5)
	for want, c := range map[string]struct {
		fit    Fit
		counts []float64
	}{
		"states: must be 1 at least, was 0":                  {Fit{0, 1}, five},
		"around: must be an odd number of periods, was 4":    {Fit{2, 4}, five},
		"counts: must be 7 at least, was 5":                  {Fit{2, 7}, five},
		"counts: must be 6 at least, was 5":                  {Fit{6, 1}, five},
		"counts: must be 2 at least, was 0":                  {Fit{1, 1}, nil},
		"counts[3]: must be 0 or more, was NaN":              {Fit{1, 1}, []float64{1, 1, 1, math.NaN(), math.NaN()}},
		"counts[0]: must be 0 or more, was -1":               {Fit{1, 1}, []float64{-1, 1}},
		"states: must be 1 at least, was -1\naround: must b": {Fit{-1, -1}, five},
	} {
		if _, err := c.fit.MMPP(c.counts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
