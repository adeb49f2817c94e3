package serving

import (
	"math"
	"math/rand/v2"
	"time"
)

// Demand is the CPU time of one request: even between Mean×(1-Spread) and Mean×(1+Spread), or, with
// a Tail, by the law of Pareto with that exponent, under which few requests take most of the time.
// The lower the exponent, the heavier the tail; at 1 there would be no mean. Wait is the mean of an
// exponential time for which the request waits besides for something else, such as a database.
type Demand struct {
	Mean   time.Duration
	Spread float64
	Tail   float64
	Wait   time.Duration
}

// Draw takes the CPU seconds of one request.
func (d Demand) Draw(rng *rand.Rand) float64 {
	s := d.Mean.Seconds()
	if d.Tail > 0 {
		least := s * (d.Tail - 1) / d.Tail
		return least * math.Pow(1-rng.Float64(), -1/d.Tail)
	}
	if d.Spread == 0 {
		return s
	}
	return s * (1 + d.Spread*(2*rng.Float64()-1))
}

// DrawWait takes the seconds that one request waits.
func (d Demand) DrawWait(rng *rand.Rand) float64 {
	if d.Wait == 0 {
		return 0
	}
	return d.Wait.Seconds() * rng.ExpFloat64()
}

// Balance is how a request finds its pod.
type Balance string

// The ways of balancing.
const (
	LeastOfTwo Balance = "least-of-two" // the one with less to do of two drawn at random
	AtRandom   Balance = "random"
)

// Pick picks one of the pods, of which at least one must be there, for a request.
func Pick[P interface{ Load() int }](pods []P, how Balance, rng *rand.Rand) P {
	if len(pods) == 1 {
		return pods[0]
	}
	a := pods[rng.IntN(len(pods))]
	if how == AtRandom {
		return a
	}
	// The second draw may hit the first: that is how Envoy does it, and with few pods it
	// shows in the latencies.
	if b := pods[rng.IntN(len(pods))]; b.Load() < a.Load() {
		return b
	}
	return a
}
