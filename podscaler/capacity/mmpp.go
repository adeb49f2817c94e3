package capacity

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
)

// An MMPP is a Poisson process whose rate changes with a regime, and the regime from period to
// period by chance. The idea is to have the replicas of a reactive scaler in closed form, and
// series that are like a recorded one but not the same, as many and as long as wanted.
//
// It needs a count a period, and many of them: each regime must be seen often. It loses days and
// weeks, since a regime does not know the hour; trends; and bursts that are shorter than a period.
// Its replicas lose no request, so that they are near the truth only while few are lost.

// MMPP is a Markov-modulated Poisson process.
type MMPP struct {
	// Rates are the mean arrivals of a period in each state.
	Rates []float64
	// Transitions[i][j] is the chance to be in j a period after being in i.
	Transitions [][]float64
}

// Validate returns every fault. Every state must lead to every other, for otherwise the long
// run depends on where it began.
func (m MMPP) Validate() error {
	if len(m.Rates) == 0 {
		return errors.New("rates: must have a state at least, was empty")
	}
	if len(m.Transitions) != len(m.Rates) {
		return fmt.Errorf("transitions: must have a row for each of %d states, was %d", len(m.Rates), len(m.Transitions))
	}
	var errs []error
	for i, rate := range m.Rates {
		if !finite(rate) || rate < 0 {
			errs = append(errs, fmt.Errorf("rates[%d]: must be 0 or more, was %v", i, rate))
		}
		errs = append(errs, m.row(i))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return m.connected()
}

// row returns the fault of a row of transitions.
func (m MMPP) row(i int) error {
	if n := len(m.Transitions[i]); n != len(m.Rates) {
		return fmt.Errorf("transitions[%d]: must have a chance for each of %d states, was %d", i, len(m.Rates), n)
	}
	sum := 0.0
	for j, chance := range m.Transitions[i] {
		if !(chance >= 0 && chance <= 1) {
			return fmt.Errorf("transitions[%d][%d]: must be from 0 to 1, was %v", i, j, chance)
		}
		sum += chance
	}
	if math.Abs(sum-1) > 1e-6 {
		return fmt.Errorf("transitions[%d]: must add up to 1, was %v", i, sum)
	}
	return nil
}

// connected returns the first pair of states of which one never leads to the other.
func (m MMPP) connected() error {
	for from := range m.Rates {
		seen := make([]bool, len(m.Rates))
		seen[from] = true
		for todo := []int{from}; len(todo) > 0; todo = todo[1:] {
			for to, chance := range m.Transitions[todo[0]] {
				if chance > 0 && !seen[to] {
					seen[to] = true
					todo = append(todo, to)
				}
			}
		}
		for to, reached := range seen {
			if !reached {
				return fmt.Errorf("transitions: every state must lead to every other, but %d never leads to %d", from, to)
			}
		}
	}
	return nil
}

// Stationary is the part of all periods that is spent in each state in the long run: π = πQ, Σπ =
// 1. The process must be valid.
func (m MMPP) Stationary() []float64 {
	// States are taken out one by one, the last first, each handing its traffic on to those that
	// are left. No difference is ever taken, so that rare states come out as exact as common ones.
	n := len(m.Rates)
	q := make([][]float64, n)
	for i := range q {
		q[i] = append([]float64(nil), m.Transitions[i]...)
	}
	for k := n - 1; k > 0; k-- {
		leaves := 0.0
		for _, chance := range q[k][:k] {
			leaves += chance
		}
		for i := range k {
			q[i][k] /= leaves
			for j := range k {
				q[i][j] += q[i][k] * q[k][j]
			}
		}
	}
	pi := make([]float64, n)
	pi[0] = 1
	sum := 1.0
	for k := 1; k < n; k++ {
		for i := range k {
			pi[k] += pi[i] * q[i][k]
		}
		sum += pi[k]
	}
	for i := range pi {
		pi[i] /= sum
	}
	return pi
}

// MeanPods is the mean replicas in the long run of a scaler that follows the rate: ServersFor in
// each state, by the part of time spent there.
func (m MMPP) MeanPods(perPod, use float64) float64 {
	mean := 0.0
	for i, part := range m.Stationary() {
		mean += part * float64(ServersFor(m.Rates[i], perPod, use))
	}
	return mean
}

// ServersFor is the replicas that the MMPP/M/c model has in the period after one of that rate: the
// least that keep pods of the same service rate no busier than use, and one if there is nothing to
// do. The service rate and the use must be above 0.
func ServersFor(rate, perPod, use float64) int {
	return max(ceil(rate/(use*perPod)), 1)
}

// Generate plays so many periods of a valid process, beginning anywhere: the count of each. The
// same state of rng gives the same counts.
func (m MMPP) Generate(rng *rand.Rand, periods int) []float64 {
	counts := make([]float64, periods)
	state := pick(rng, m.Stationary())
	for i := range counts {
		counts[i] = Poisson(rng, m.Rates[state])
		state = pick(rng, m.Transitions[state])
	}
	return counts
}

// pick draws an index by chances that add up to 1.
func pick(rng *rand.Rand, chances []float64) int {
	u, last := rng.Float64(), 0
	for i, chance := range chances {
		if chance == 0 {
			continue // what cannot be must not be drawn, even with the last bit of the sum missing
		}
		if last = i; u < chance {
			break
		}
		u -= chance
	}
	return last
}

// few is the mean up to which arrivals are counted one by one.
const few = 30

// Poisson draws a count of that mean. A large mean goes by rejection below a curve with heavy tails
// (Hörmann's transformed rejection, 1993), so that the cost of a draw does not grow with it.
func Poisson(rng *rand.Rand, mean float64) float64 {
	if mean < few {
		count, left := 0.0, mean
		for left -= rng.ExpFloat64(); left > 0; left -= rng.ExpFloat64() {
			count++
		}
		return count
	}
	b := 0.931 + 2.53*math.Sqrt(mean)
	a := -0.059 + 0.02483*b
	scale := 1.1239 + 1.1328/(b-3.4)
	for {
		u, v := rng.Float64()-0.5, 1-rng.Float64()
		edge := 0.5 - math.Abs(u)
		k := math.Floor((2*a/edge+b)*u + mean + 0.43)
		if k < 0 {
			continue
		}
		g, _ := math.Lgamma(k + 1)
		if math.Log(v*scale/(a/(edge*edge)+b)) <= k*math.Log(mean)-mean-g {
			return k
		}
	}
}
