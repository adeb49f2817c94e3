package lstm

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The loss here is what the windows lose where every expectation counts, with the random weights
// that a network is born with and a head that is not 0, so that nothing is hidden by a factor.
func TestGradientsAreWhatSmallChangesOfParametersMake(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	n := NewNetwork(4, r)
	for i, head := 0, n.Head(n.Params); i < len(head); i++ {
		head[i] = r.NormFloat64()
	}
	window, came := make([]float64, 9), make([]float64, 9)
	for i := range window {
		window[i], came[i] = 2*r.NormFloat64(), r.NormFloat64()
	}
	p := NewPassage(n.units, len(window))
	dLoss := make([]float64, len(window))
	loss := func() (sum float64) {
		n.Through(window, p)
		for i := range window {
			dLoss[i] = n.Expects(&p.Moments[i+1]) - came[i]
			sum += dLoss[i] * dLoss[i] / 2
		}
		return sum
	}
	loss()
	gradient := make([]float64, len(n.Params))
	n.Back(dLoss, p, gradient)
	for i, param := range n.Params {
		const step = 1e-4
		at := func(k float64) float64 { n.Params[i] = param + k*step; return loss() }
		// The central difference of fourth order: its own error is far below what is asked.
		slope := (8*(at(1)-at(-1)) - (at(2) - at(-2))) / (12 * step)
		n.Params[i] = param
		if off := math.Abs(slope-gradient[i]) / max(math.Abs(slope)+math.Abs(gradient[i]), 1e-4); !(off < 1e-6) {
			t.Errorf("parameter %d: the gradient is %v, small changes make %v", i, gradient[i], slope)
		}
	}
}

// Adam's first step is of the size of the rate for a gradient of any size; a gradient that goes on
// as it was is followed by steps of that size, and one that turns about by smaller ones.
func TestAdamsStepsAreOfTheSizeOfTheRate(t *testing.T) {
	params, a := make([]float64, 3), NewAdam(3)
	a.Step(params, []float64{1e-3, -5, 0}, 0.01)
	for i, want := range []float64{-0.01, 0.01, 0} {
		if math.Abs(params[i]-want) > 1e-6 {
			t.Errorf("parameter %d is %v after a step, should be %v", i, params[i], want)
		}
	}
	steady, turning := NewAdam(1), NewAdam(1)
	there, about := []float64{0}, []float64{0}
	for i := range 100 {
		steady.Step(there, []float64{2}, 0.01)
		turning.Step(about, []float64{2 - 4*float64(i%2)}, 0.01)
	}
	if math.Abs(there[0]+1) > 1e-6 || math.Abs(about[0]) > 0.02 {
		t.Errorf("after a hundred steps of 0.01 one way it is %v, should be -1; turning about %v, should be about 0", there[0], about[0])
	}
}
