package capacity

import (
	"errors"
	"fmt"
	"math"
)

// HPA is Kubernetes' autoscaler reduced to what decides its replicas once a period: pods in the
// ratio of their use to a target, a tolerance, bounds, and a pause between two shrinks. It is a
// model to work out a fleet with, and leaves out samples that are missing and pods that are not
// ready.
//
// It needs a profile, which gives the use: served over capacity. It loses because that use cannot
// be above 1. A period's growth is at most 1/target, and none at all where that is within the
// tolerance: at a target of 0.95 and the usual tolerance of 0.1 replicas never rise. And it takes
// the capacity per pod as it is at the present count, which calls for more than a falling profile
// needs on the way down, and for fewer on the way up.
type HPA struct {
	Target    float64 // use of the pods' capacity, above 0 and up to 1
	Tolerance float64 // how far the ratio of use to target may be from 1 with nothing done
	Min, Max  int
	// Stabilization is how many periods after a shrink the next may come; 1 is the next period.
	Stabilization int
}

// Validate returns every fault of the settings.
func (h HPA) Validate() error {
	var errs []error
	if !(h.Target > 0 && h.Target <= 1) {
		errs = append(errs, fmt.Errorf("target: must be above 0 and up to 1, was %v", h.Target))
	}
	if h.Min < 1 {
		errs = append(errs, fmt.Errorf("min: must be 1 at least, was %d", h.Min))
	} else if h.Max < h.Min {
		errs = append(errs, fmt.Errorf("max: must be %d at least, was %d", h.Min, h.Max))
	}
	if !finite(h.Tolerance) || h.Tolerance < 0 {
		errs = append(errs, fmt.Errorf("tolerance: must be 0 or more, was %v", h.Tolerance))
	}
	if h.Stabilization < 1 {
		errs = append(errs, fmt.Errorf("stabilization: must be 1 period at least, was %d", h.Stabilization))
	}
	return errors.Join(errs...)
}

// Desired is the replicas for the next period after pods have served that much, within the bounds:
// ceil(served/(target·AP(pods))), or what there is if the use is within the tolerance of its
// target.
func (h HPA) Desired(p Profile, pods int, served float64) int {
	ratio := use(p, pods, served) / h.Target
	want := pods
	if math.Abs(ratio-1) > h.Tolerance+slack {
		want = ceil(float64(pods) * ratio)
	}
	return min(max(want, h.Min), h.Max)
}

// use is the part of the pods' capacity that was taken; none if there is no capacity.
func use(p Profile, pods int, served float64) float64 {
	total := p.Total(float64(pods))
	if total == 0 {
		return 0
	}
	return served / total
}

// Autoscaler is an HPA under way: it remembers when pods last became fewer.
type Autoscaler struct {
	hpa    HPA
	pods   int // of the last period
	shrunk int // periods since they became fewer, counting the first; at least the pause if never
}

// Start returns an HPA that has seen nothing yet. The settings must be valid.
func (h HPA) Start() *Autoscaler { return &Autoscaler{hpa: h, shrunk: h.Stabilization} }

// Next is the replicas of the next period after pods have served that much in the last. It must be
// asked every period, for it counts them; whether its answer is followed it sees by the pods.
func (a *Autoscaler) Next(p Profile, pods int, served float64) int {
	if pods < a.pods {
		a.shrunk = 0
	}
	a.pods = pods
	a.shrunk++
	want := a.hpa.Desired(p, pods, served)
	if want < pods && a.shrunk < a.hpa.Stabilization {
		return pods
	}
	return want
}
