package capacity

import (
	"errors"
	"fmt"
	"math"
)

// Fitted is the curve P(x) = A·x² + B·x + C that comes nearest to some points, by the squares of
// what is left over.
//
// It needs points that were measured at the edge, where more load would be lost: a point below it
// says that pods served that much, not that they could not have served more. It loses beyond the
// points, most of all where it is bent.
type Fitted struct {
	A, B, C float64
	// Residual is what is left over at a point: the root of the mean square. With as many numbers
	// of pods as the curve has parameters it is 0 and says nothing.
	Residual float64
	// R2 is the part of how the points differ that the curve explains: 1 where it goes through
	// all of them, and NaN where they do not differ.
	R2 float64
}

// FitLinear returns the straight line through points of two numbers of pods or more.
func FitLinear(points []Point) (Fitted, error) { return fit("linear", points, 2) }

// FitQuadratic returns the parabola through points of three numbers of pods or more.
func FitQuadratic(points []Point) (Fitted, error) { return fit("quadratic", points, 3) }

// At is the curve's value for that many pods.
func (f Fitted) At(pods float64) float64 { return (f.A*pods+f.B)*pods + f.C }

// fit adds up parts that have nothing in common over the points: a constant, a slope around the
// mean, and a bend that neither of them can make. So each has its size by itself, and no equations
// are to be solved that near numbers of pods would spoil.
func fit(name string, points []Point, parameters int) (Fitted, error) {
	if err := fittable(name, points, parameters); err != nil {
		return Fitted{}, err
	}
	n := float64(len(points))
	var meanX, meanY float64
	for _, p := range points {
		meanX, meanY = meanX+float64(p.Pods)/n, meanY+p.Total/n
	}
	var two, three, slope float64 // Σu², Σu³ and Σu·y of u = x − mean
	for _, p := range points {
		u := float64(p.Pods) - meanX
		two, three, slope = two+u*u, three+u*u*u, slope+u*(p.Total-meanY)
	}
	slope /= two
	f := Fitted{B: slope, C: meanY - slope*meanX}
	if parameters == 3 {
		skew, width := three/two, two/n
		var square, bend float64
		for _, p := range points {
			u := float64(p.Pods) - meanX
			w := u*u - skew*u - width
			square, bend = square+w*w, bend+w*(p.Total-meanY)
		}
		bend /= square
		f.A = bend
		f.B -= bend * (2*meanX + skew)
		f.C += bend * (meanX*meanX + skew*meanX - width)
	}
	var left, all float64
	for _, p := range points {
		over, apart := p.Total-f.At(float64(p.Pods)), p.Total-meanY
		left, all = left+over*over, all+apart*apart
	}
	f.Residual, f.R2 = math.Sqrt(left/n), math.NaN()
	if all > 0 {
		f.R2 = 1 - left/all
	}
	return f, nil
}

// fittable returns what is wrong with the points.
func fittable(name string, points []Point, parameters int) error {
	var errs []error
	counts := map[int]bool{}
	for i, p := range points {
		if p.Pods < 1 {
			errs = append(errs, fmt.Errorf("%s fit: point %d: pods: must be 1 at least, was %d", name, i+1, p.Pods))
		}
		if !finite(p.Total) || p.Total < 0 {
			errs = append(errs, fmt.Errorf("%s fit: point %d: total: must be 0 or more, was %v", name, i+1, p.Total))
		}
		counts[p.Pods] = true
	}
	if len(counts) < parameters {
		errs = append(errs, fmt.Errorf("%s fit: must have points of %d different numbers of pods at least, had %d", name, parameters, len(counts)))
	}
	return errors.Join(errs...)
}
