// Package capacity says what an application can serve, and what becomes of requests that come
// on top of that.
//
// A Profile is what a number of pods serves together, and its inverse how many pods a load needs; a
// Sizing makes replicas of that. HPA, Loss and Discrete model, period by period, how Kubernetes'
// HorizontalPodAutoscaler follows a load and what is lost meanwhile. MMPP is an arrival process
// that changes between regimes: fitted to a series, worked out in closed form, and played back.
//
// Arrivals, service and loss are requests a second, meant over a period; a count a minute will do
// as well, as long as the profile speaks the same unit. Where this departs from what was printed of
// these models, the printed form is beside the one that is right, or in a test that shows why not.
package capacity

import "math"

// slack is taken off before a float is rounded up, so that the last bit of a division does not buy
// a pod: 8 pods of 125x + 209 serve 1027.65/0.85 exactly, and its float is above that.
const slack = 1e-9

// ceil rounds up to a count. What is past all counts, or no number, is the largest: as an int it
// would be undefined, and an unknown must not shrink anything.
func ceil(x float64) int {
	up := math.Ceil(x - slack)
	if !(up < math.MaxInt32) {
		return math.MaxInt32
	}
	return int(max(up, 0))
}

// finite reports whether x is a number and not without bounds.
func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
