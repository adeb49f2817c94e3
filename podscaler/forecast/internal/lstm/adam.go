package lstm

import "math"

// Adam goes down a gradient by steps of about the same size for every parameter, after Kingma and
// Ba: by a mean of its last gradients over the root of a mean of their squares.
type Adam struct {
	mean, square []float64
	steps        int
}

const (
	adamMean   = 0.9
	adamSquare = 0.999
	adamLeast  = 1e-8
)

// NewAdam descends so many parameters.
func NewAdam(n int) Adam { return Adam{mean: make([]float64, n), square: make([]float64, n)} }

// Step changes the parameters by one step down a gradient.
func (a *Adam) Step(params, gradient []float64, rate float64) {
	a.steps++
	// Both means began at 0, and are too small by that.
	grown := 1 - math.Pow(adamMean, float64(a.steps))
	grownSquare := 1 - math.Pow(adamSquare, float64(a.steps))
	for i, g := range gradient {
		a.mean[i] += (1 - adamMean) * (g - a.mean[i])
		a.square[i] += (1 - adamSquare) * (g*g - a.square[i])
		params[i] -= rate * (a.mean[i] / grown) / (math.Sqrt(a.square[i]/grownSquare) + adamLeast)
	}
}

// Size is how many bytes it holds.
func (a *Adam) Size() int { return 2 * len(a.mean) * wordBytes }
