package lstm

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

// The loss here is what the windows lose where every expectation counts, with the random weights
// that a network is born with and a head that is not 0, so that nothing is hidden by a factor.
func TestGradientsAreWhatSmallChangesOfParametersMake(t *testing.T) {
	for _, inputs := range []int{1, 2, 3} {
		checkGradient(t, inputs)
	}
}

func checkGradient(t *testing.T, inputs int) {
	r := rand.New(rand.NewPCG(3, 4))
	n := NewNetwork(inputs, 4, r)
	for i, head := 0, n.Head(n.Params); i < len(head); i++ {
		head[i] = r.NormFloat64()
	}
	window, came := make([]float64, 9*inputs), make([]float64, 9)
	for i := range window {
		window[i] = 2 * r.NormFloat64()
	}
	for i := range came {
		came[i] = r.NormFloat64()
	}
	p := NewPassage(inputs, n.units, len(came))
	dLoss := make([]float64, len(came))
	loss := func() (sum float64) {
		n.Through(window, p)
		for i := range came {
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
			t.Errorf("%d inputs, parameter %d: the gradient is %v, small changes make %v", inputs, i, gradient[i], slope)
		}
	}
}

// The forward pass is the published equations, here written out gate by gate, with a map in the
// place of offsets.
func TestThePassForwardIsThePublishedEquations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inputs, units := rapid.IntRange(1, 4).Draw(t, "inputs"), rapid.IntRange(1, 5).Draw(t, "units")
		n := NewNetwork(inputs, units, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)))
		for i := range n.Params {
			n.Params[i] += rapid.Float64Range(-2, 2).Draw(t, "change")
		}
		periods := rapid.SliceOfN(rapid.SliceOfN(rapid.Float64Range(-8, 8), inputs, inputs), 1, 12).Draw(t, "periods")
		p := NewPassage(inputs, units, len(periods))
		n.Through(slices.Concat(periods...), p)
		for i, want := range slowPass(&n, periods) {
			if got := n.Expects(&p.Moments[i+1]); !(math.Abs(got-want) <= 1e-12*(1+math.Abs(want))) {
				t.Fatalf("after period %d it expects %v, should be %v", i, got, want)
			}
		}
	})
}

// slowPass is what is expected after each period: i = σ(W·x + U·h + b), and likewise f, g and o;
// c = f∘c + i∘g; h = o∘tanh(c).
func slowPass(n *Network, periods [][]float64) (expected []float64) {
	h, c := make([]float64, n.units), make([]float64, n.units)
	for _, x := range periods {
		gate := map[int][]float64{}
		for g := range gates {
			for u := range n.units {
				row := n.rows(n.Params, u, g)
				sum := row[0]
				for j, v := range x {
					sum += row[1+j] * v
				}
				for j, v := range h {
					sum += row[1+n.inputs+j] * v
				}
				if g == gateValue {
					gate[g] = append(gate[g], math.Tanh(sum))
				} else {
					gate[g] = append(gate[g], 1/(1+math.Exp(-sum)))
				}
			}
		}
		head := n.Head(n.Params)
		y := head[0]
		for u := range n.units {
			c[u] = gate[gateForget][u]*c[u] + gate[gateIn][u]*gate[gateValue][u]
			h[u] = gate[gateOut][u] * math.Tanh(c[u])
			y += head[1+u] * h[u]
		}
		expected = append(expected, y)
	}
	return expected
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
