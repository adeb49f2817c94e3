package capacity

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// twoStates are quiet for 10 periods on average and busy for 5.
var twoStates = MMPP{Rates: []float64{30, 300}, Transitions: [][]float64{{0.9, 0.1}, {0.2, 0.8}}}

// meanRate is the mean arrivals of a period in the long run.
func meanRate(m MMPP) float64 {
	mean := 0.0
	for i, part := range m.Stationary() {
		mean += part * m.Rates[i]
	}
	return mean
}

func TestLongRunOfTwoStates(t *testing.T) {
	pi := twoStates.Stationary()
	near(t, "quiet", pi[0], 2.0/3, 1e-12)
	near(t, "busy", pi[1], 1.0/3, 1e-12)
	near(t, "mean rate", meanRate(twoStates), 120, 1e-9)
	// 30/90 → 1 pod and 300/90 → 4, for two thirds and one third of the time.
	near(t, "mean pods", twoStates.MeanPods(100, 0.9), 2, 1e-9)
	if got := ServersFor(0, 100, 0.9); got != 1 {
		t.Errorf("nothing to do: %d pods, want 1", got)
	}
}

// processes draws a valid one, each state leading to the next at least.
var processes = rapid.Custom(func(t *rapid.T) MMPP {
	n := rapid.IntRange(1, 7).Draw(t, "states")
	m := MMPP{}
	for i := range n {
		row, sum := make([]float64, n), 0.0
		for j := range row {
			if row[j] = rapid.Float64Range(0, 1).Draw(t, "chance"); j == (i+1)%n {
				row[j] += 0.05
			}
			sum += row[j]
		}
		for j := range row {
			row[j] /= sum
		}
		m.Rates = append(m.Rates, rapid.Float64Range(0, 2000).Draw(t, "rate"))
		m.Transitions = append(m.Transitions, row)
	}
	return m
})

func TestLongRunIsItsOwnNextPeriod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := processes.Draw(t, "process")
		if err := m.Validate(); err != nil {
			t.Fatal(err)
		}
		pi := m.Stationary()
		sum := 0.0
		for j := range pi {
			next := 0.0
			for i := range pi {
				next += pi[i] * m.Transitions[i][j]
			}
			if !(pi[j] >= 0) || math.Abs(next-pi[j]) > 1e-9 {
				t.Fatalf("π[%d] = %v, a period later %v", j, pi[j], next)
			}
			sum += pi[j]
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Fatalf("π adds up to %v", sum)
		}
	})
}

// The published table has 7.31, 5.33 and 4.30 pods on average at uses of 0.85, 0.90 and 0.95. One
// load and one service rate cannot give them: a lower use buys its ratio, and less than one pod by
// rounding.
func TestPublishedAveragesCannotComeFromOneLoad(t *testing.T) {
	most := func(pods, use, lower float64) float64 { return pods*use/lower + 1 }
	rapid.Check(t, func(t *rapid.T) {
		m, perPod := processes.Draw(t, "process"), rapid.Float64Range(1, 500).Draw(t, "perPod")
		if got, bound := m.MeanPods(perPod, 0.85), most(m.MeanPods(perPod, 0.95), 0.95, 0.85); got > bound {
			t.Fatalf("%v pods at 0.85, at most %v are possible", got, bound)
		}
	})
	if bound := most(4.30, 0.95, 0.85); !(7.31 > bound) {
		t.Errorf("7.31 pods are within %v", bound)
	}
}

func TestFaultyProcessesAreRefused(t *testing.T) {
	for want, m := range map[string]MMPP{
		"rates: must have a state at least, was empty":                                 {},
		"transitions: must have a row for each of 1 states, was 0":                     {Rates: []float64{1}},
		"transitions[0]: must have a chance for each of 1 states, was 2":               {[]float64{1}, [][]float64{{1, 0}}},
		"transitions[0][0]: must be from 0 to 1, was NaN":                              {[]float64{1}, [][]float64{{math.NaN()}}},
		"transitions[0]: must add up to 1, was 0.5":                                    {[]float64{1}, [][]float64{{0.5}}},
		"rates[0]: must be 0 or more, was -1":                                          {[]float64{-1}, [][]float64{{1}}},
		"transitions: every state must lead to every other, but 1 never leads to 0":    {[]float64{1, 2}, [][]float64{{0.5, 0.5}, {0, 1}}},
		"rates[1]: must be 0 or more, was +Inf\ntransitions[1]: must add up to 1, was": {[]float64{1, math.Inf(1)}, [][]float64{{1, 0}, {0, 2e-1}}},
	} {
		if err := m.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestSameSeedSameCounts(t *testing.T) {
	a, b := twoStates.Generate(seeded(7), 500), twoStates.Generate(seeded(7), 500)
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("two runs of one seed (-first +second):\n%s", diff)
	}
	if cmp.Equal(a, twoStates.Generate(seeded(8), 500)) {
		t.Error("another seed gives the same counts")
	}
}

// Over a long run what is generated has the rate of the process.
func TestGeneratedCountsHaveTheMeanOfTheProcess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := processes.Draw(t, "process")
		const periods, batch = 60_000, 1000
		counts := m.Generate(seeded(rapid.Uint64().Draw(t, "seed")), periods)
		// Counts are correlated, so the error of their mean is estimated from means of long
		// batches.
		var means []float64
		for i := 0; i < periods; i += batch {
			means = append(means, mean(counts[i:i+batch]))
		}
		within := 6*math.Sqrt(variance(means)/float64(len(means))) + 0.01
		if got, want := mean(counts), meanRate(m); !(math.Abs(got-want) <= within) {
			t.Fatalf("mean %v, want %v within %v", got, want, within)
		}
		for i, c := range counts {
			if !(c >= 0) || c != math.Trunc(c) {
				t.Fatalf("count %d is %v", i, c)
			}
		}
	})
}

// Each count comes as often as it should, for small means and large, and on both sides of the
// change of method.
func TestCountsArePoisson(t *testing.T) {
	const draws = 100_000
	for _, rate := range []float64{0, 0.3, 5, 29.9, 30, 31, 200, 5000} {
		rng, seen := seeded(3), map[float64]float64{}
		for range draws {
			seen[Poisson(rng, rate)]++
		}
		if rate == 0 {
			if seen[0] != draws {
				t.Error("something comes at a rate of 0")
			}
			continue
		}
		// Counts that are rare are taken together, for the sum to be near its χ² distribution.
		chi, degrees, restSeen, restWant := 0.0, -1.0, float64(draws), float64(draws)
		for k := 0.0; k < rate+60+20*math.Sqrt(rate); k++ {
			g, _ := math.Lgamma(k + 1)
			want := draws * math.Exp(k*math.Log(rate)-rate-g)
			if want < 20 {
				continue
			}
			chi += (seen[k] - want) * (seen[k] - want) / want
			degrees++
			restSeen, restWant = restSeen-seen[k], restWant-want
		}
		if restWant > 5 {
			chi += (restSeen - restWant) * (restSeen - restWant) / restWant
			degrees++
		}
		if degrees > 0 && (chi-degrees)/math.Sqrt(2*degrees) > 4.5 {
			t.Errorf("rate %v: χ² %.0f of %v degrees", rate, chi, degrees)
		}
	}
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

func variance(values []float64) float64 { return covariance(values, 0) }

// covariance is that of values with those so many places later.
func covariance(values []float64, later int) float64 {
	m, sum := mean(values), 0.0
	for i := range len(values) - later {
		sum += (values[i] - m) * (values[i+later] - m)
	}
	return sum / float64(len(values)-later)
}

func BenchmarkGenerateAMillionPeriods(b *testing.B) {
	for b.Loop() {
		twoStates.Generate(seeded(1), 1_000_000)
	}
}

func BenchmarkDiscreteAMillionPeriods(b *testing.B) {
	arrivals := twoStates.Generate(seeded(1), 1_000_000)
	d := Discrete{Profile: nodejs, Timeout: 2, HPA: HPA{Target: 0.9, Min: 1, Max: 40, Stabilization: 1}}
	for b.Loop() {
		if _, err := d.Run(arrivals); err != nil {
			b.Fatal(err)
		}
	}
}
