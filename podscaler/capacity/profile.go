package capacity

import (
	"errors"
	"fmt"
	"math"
	"sort"
)

// A profile is measured, or learned, as the load that pods serve together before they lose any: the
// more of them, the less each adds. The idea is to turn a forecast in requests into pods without a
// CPU target that was set by hand. What is inverted is the total, x·AP(x). AP alone falls with
// the pods, and its inverse answers more load with fewer of them.
//
// It needs one measurement at least, of the same requests that will come. It loses when requests
// change their cost, when something behind the pods is the bottleneck, and beyond what was
// measured, where it is a straight line's guess.

// Profile is what an application serves by the number of its pods. It is made by Linear,
// Quadratic or Table; the zero value serves nothing and must not be asked.
type Profile struct {
	one   float64 // what a single pod serves
	curve curve
}

// curve is a profile from one pod on, where it is rising.
type curve interface {
	total(pods float64) float64
	inverse(load float64) float64 // load is at least what one pod serves
}

// Total is P(x) = x·AP(x), what x pods serve together. It is never negative and never falls. No pod
// serves nothing, even if a fitted line is above 0 there, and from there to one pod it rises
// straight, so that every load has an inverse.
func (p Profile) Total(pods float64) float64 {
	switch {
	case !(pods > 0):
		return 0
	case pods < 1:
		return pods * p.one
	}
	return p.curve.total(pods)
}

// PerPod is AP(x), what each of x pods serves; 0 without one.
func (p Profile) PerPod(pods int) float64 {
	if pods <= 0 {
		return 0
	}
	return p.Total(float64(pods)) / float64(pods)
}

// Inverse is P⁻¹, the least x with Total(x) ≥ load: 0 for no load, and +Inf for one that no
// number of pods serves. Of a load that is not known (NaN) the pods are not known either.
func (p Profile) Inverse(load float64) float64 {
	switch {
	case math.IsNaN(load) || math.IsInf(load, 1):
		return load
	case load <= 0:
		return 0
	case load <= p.one:
		return load / p.one
	}
	return p.curve.inverse(load)
}

// newProfile closes a curve towards none, and refuses one that cannot be inverted.
func newProfile(name string, c curve) (Profile, error) {
	one := c.total(1)
	if !finite(one) || one <= 0 {
		return Profile{}, fmt.Errorf("%s profile: must have a single pod serve more than 0, was %v", name, one)
	}
	return Profile{one: one, curve: c}, nil
}

type linear struct{ perPod, base float64 }

// Linear is the profile of P(x) = perPod·x + base: every pod adds the same.
func Linear(perPod, base float64) (Profile, error) {
	if !finite(perPod) || perPod <= 0 {
		return Profile{}, fmt.Errorf("linear profile: perPod: must be above 0, was %v", perPod)
	}
	if !finite(base) {
		return Profile{}, fmt.Errorf("linear profile: base: must be a number, was %v", base)
	}
	return newProfile("linear", linear{perPod, base})
}

func (l linear) total(pods float64) float64   { return l.perPod*pods + l.base }
func (l linear) inverse(load float64) float64 { return (load - l.base) / l.perPod }

type quadratic struct{ a, b, c float64 }

// Quadratic is the profile of P(x) = a·x² + b·x + c. With a below 0 pods get in each other's way:
// each adds less than the one before, up to a peak. From the peak on the total is held there. The
// falling arm of a parabola comes from the fit and was never measured, but that more pods do not
// help was; a load above the peak is served by no number of them.
func Quadratic(a, b, c float64) (Profile, error) {
	for _, f := range []struct {
		key   string
		value float64
	}{{"a", a}, {"b", b}, {"c", c}} {
		if !finite(f.value) {
			return Profile{}, fmt.Errorf("quadratic profile: %s: must be a number, was %v", f.key, f.value)
		}
	}
	if slope := 2*a + b; slope <= 0 {
		return Profile{}, fmt.Errorf("quadratic profile: must rise at one pod, 2a+b above 0, was %v", slope)
	}
	if a == 0 {
		return Linear(b, c)
	}
	return newProfile("quadratic", quadratic{a, b, c})
}

func (q quadratic) at(x float64) float64 { return (q.a*x+q.b)*x + q.c }

// peak is where the parabola turns, and +Inf if it only rises.
func (q quadratic) peak() float64 {
	if q.a > 0 {
		return math.Inf(1)
	}
	return -q.b / (2 * q.a)
}

func (q quadratic) total(pods float64) float64 { return q.at(min(pods, q.peak())) }

func (q quadratic) inverse(load float64) float64 {
	if q.a < 0 && load > q.at(q.peak()) {
		return math.Inf(1)
	}
	root := math.Sqrt(max(q.b*q.b-4*q.a*(q.c-load), 0))
	if q.b > 0 {
		// The same root, without the difference of two near numbers that a small a would leave.
		return 2 * (load - q.c) / (q.b + root)
	}
	return (root - q.b) / (2 * q.a)
}

// Point is a measurement: that many pods served that much together.
type Point struct {
	Pods  int
	Total float64
}

type table []Point

// Table is the profile through measured points, straight between them, and from none to the first.
// Past the last one it goes on as between the last two. Pods and totals must rise from row to row:
// a measurement that fell is noise to be measured again, or a peak, for which Quadratic is there.
func Table(points ...Point) (Profile, error) {
	var errs []error
	last := Point{}
	for i, p := range points {
		if p.Pods <= last.Pods {
			errs = append(errs, fmt.Errorf("table profile: row %d: pods: must be above %d, was %d", i+1, last.Pods, p.Pods))
		}
		if !finite(p.Total) || p.Total <= last.Total {
			errs = append(errs, fmt.Errorf("table profile: row %d: total: must be above %v, was %v", i+1, last.Total, p.Total))
		}
		last = p
	}
	if len(points) == 0 {
		errs = append(errs, errors.New("table profile: must have a row at least, was empty"))
	}
	if len(errs) > 0 {
		return Profile{}, errors.Join(errs...)
	}
	return newProfile("table", append(table{{}}, points...))
}

func (t table) total(pods float64) float64 {
	a, b := t.around(func(p Point) bool { return float64(p.Pods) >= pods })
	return a.Total + (pods-float64(a.Pods))*(b.Total-a.Total)/float64(b.Pods-a.Pods)
}

func (t table) inverse(load float64) float64 {
	a, b := t.around(func(p Point) bool { return p.Total >= load })
	return float64(a.Pods) + (load-a.Total)*float64(b.Pods-a.Pods)/(b.Total-a.Total)
}

// around returns the neighbours between which the first point lies that has reached what is
// looked for, or the last two if none has.
func (t table) around(reached func(Point) bool) (before, after Point) {
	i := sort.Search(len(t), func(i int) bool { return reached(t[i]) })
	i = min(max(i, 1), len(t)-1)
	return t[i-1], t[i]
}

// Sizing turns a load into replicas.
type Sizing struct {
	Profile Profile
	// Excess is how much of the pods' capacity the load is to take, above 0 and up to 1: 0.85 is
	// cautious, 0.95 loses requests in every surprise.
	Excess   float64
	Min, Max int
}

// Pods is ceil(P⁻¹(load/excess)) within the bounds, so that no load is the least of replicas, and
// one that no number of pods serves the most. It is not ok if the load is not known.
func (s Sizing) Pods(load float64) (pods int, ok bool) {
	need := s.Profile.Inverse(load / s.Excess)
	if math.IsNaN(need) {
		return 0, false
	}
	return min(max(ceil(need), s.Min), s.Max), true
}
