package forecast

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The loss here is what the windows lose where every expectation counts, with the random weights
// that a network is born with and a head that is not 0, so that nothing is hidden by a factor.
func TestGradientsAreWhatSmallChangesOfParametersMake(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	n := newNetwork(4, r)
	for i, head := 0, n.head(n.params); i < len(head); i++ {
		head[i] = r.NormFloat64()
	}
	window, came := make([]float64, 9), make([]float64, 9)
	for i := range window {
		window[i], came[i] = 2*r.NormFloat64(), r.NormFloat64()
	}
	p := newPassage(n.units, len(window))
	dLoss := make([]float64, len(window))
	loss := func() (sum float64) {
		n.through(window, p)
		for i := range window {
			dLoss[i] = n.expects(&p.moments[i+1]) - came[i]
			sum += dLoss[i] * dLoss[i] / 2
		}
		return sum
	}
	loss()
	gradient := make([]float64, len(n.params))
	n.back(dLoss, p, gradient)
	for i, param := range n.params {
		const step = 1e-4
		at := func(k float64) float64 { n.params[i] = param + k*step; return loss() }
		// The central difference of fourth order: its own error is far below what is asked.
		slope := (8*(at(1)-at(-1)) - (at(2) - at(-2))) / (12 * step)
		n.params[i] = param
		if off := math.Abs(slope-gradient[i]) / max(math.Abs(slope)+math.Abs(gradient[i]), 1e-4); !(off < 1e-6) {
			t.Errorf("parameter %d: the gradient is %v, small changes make %v", i, gradient[i], slope)
		}
	}
}

// What a training steps down is the gradient of what it judges by, misses that are cut and gaps
// that are omitted included.
func TestATrainingStepsDownTheLossThatItJudgesBy(t *testing.T) {
	c := LSTM{Units: 3, Lookback: 8}
	c.complete()
	r := rand.New(rand.NewPCG(5, 6))
	series := make([]float64, 100)
	for i := range series {
		series[i] = 3 * r.NormFloat64()
	}
	series[5], series[6] = math.NaN(), 20
	n := newNetwork(c.Units, r)
	for i, head := 0, n.head(n.params); i < len(head); i++ {
		head[i] = r.NormFloat64()
	}
	tr := newTraining(&c, series, level{}, n, r)
	loss := func() float64 {
		tr.loss, tr.judged = 0, 0
		tr.judge(0)
		return tr.loss
	}
	loss()
	if tr.judged != 3 {
		t.Fatalf("%v values were judged, should be the half of 8 without the gap", tr.judged)
	}
	gradient := make([]float64, len(n.params))
	tr.net.back(tr.dLoss, tr.room, gradient)
	for i, param := range tr.net.params {
		const step = 1e-5
		tr.net.params[i] = param + step
		up := loss()
		tr.net.params[i] = param - step
		slope := (up - loss()) / (2 * step)
		tr.net.params[i] = param
		if math.Abs(slope-gradient[i]) > 1e-6*(1+math.Abs(slope)) {
			t.Errorf("parameter %d: the gradient is %v, small changes make %v", i, gradient[i], slope)
		}
	}
}

// Adam's first step is of the size of the rate for a gradient of any size; a gradient that goes on
// as it was is followed by steps of that size, and one that turns about by smaller ones.
func TestAdamsStepsAreOfTheSizeOfTheRate(t *testing.T) {
	params, a := make([]float64, 3), newAdam(3)
	a.step(params, []float64{1e-3, -5, 0}, 0.01)
	for i, want := range []float64{-0.01, 0.01, 0} {
		if math.Abs(params[i]-want) > 1e-6 {
			t.Errorf("parameter %d is %v after a step, should be %v", i, params[i], want)
		}
	}
	steady, turning := newAdam(1), newAdam(1)
	there, about := []float64{0}, []float64{0}
	for i := range 100 {
		steady.step(there, []float64{2}, 0.01)
		turning.step(about, []float64{2 - 4*float64(i%2)}, 0.01)
	}
	if math.Abs(there[0]+1) > 1e-6 || math.Abs(about[0]) > 0.02 {
		t.Errorf("after a hundred steps of 0.01 one way it is %v, should be -1; turning about %v, should be about 0", there[0], about[0])
	}
}

// A network that proves worse on what it did not learn from is not taken.
func TestTheBestOnTheProofIsTheOutcome(t *testing.T) {
	c := LSTM{Units: 4, Lookback: 8, Rate: 0.1, Rounds: 30}
	c.complete()
	r := rand.New(rand.NewPCG(7, 8))
	series := make([]float64, 400)
	for i := range series {
		series[i] = r.NormFloat64() // noise: all that is learnt of it is wrong
	}
	tr := newTraining(&c, series, level{}, newNetwork(c.Units, r), r)
	proof := func(n network) float64 {
		tr.net, tr.loss, tr.judged = n, 0, 0
		for _, at := range tr.proof {
			tr.judge(at)
		}
		return tr.loss / tr.judged
	}
	before := proof(tr.net)
	tr.loss, tr.judged = 0, 0
	for !tr.done() {
		tr.step()
	}
	if tr.round > 1+c.Rounds || tr.worse < patience {
		t.Errorf("it went on for %d rounds, the last %d of them for nothing", tr.round-1, tr.worse)
	}
	last, best := proof(tr.net), proof(tr.best)
	if best != tr.least || best > before || best >= last {
		t.Errorf("the outcome's loss is %v (kept as %v), it was %v before, and %v in the end", best, tr.least, before, last)
	}
}
