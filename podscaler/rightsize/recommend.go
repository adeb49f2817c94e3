package rightsize

import (
	"fmt"
	"math"
	"slices"

	"github.com/plimsoll/plimsoll/pricing"
)

// Recommendation is what a container should request.
type Recommendation struct {
	Container string `json:"container"`
	// Resources are those that are recommended. Of others, all amounts below are 0 and mean
	// nothing.
	Resources []Resource `json:"resources"`
	// Target is what to request. A pod is left alone as long as it requests no less than Lower and
	// no more than Upper, which are the further away, the less is known.
	Target pricing.Resources `json:"target"`
	Lower  pricing.Resources `json:"lower"`
	Upper  pricing.Resources `json:"upper"`
	// Uncapped is what Target would be if the policy had no bounds.
	Uncapped pricing.Resources `json:"uncapped"`
	Reasons  []Reason          `json:"reasons"`
}

// Recommend returns what each container should request, by name. The policies must be valid.
func (u *Usage) Recommend(policies Policies) []Recommendation {
	var names []string
	for _, name := range u.names() {
		if !policies.of(name).Off {
			names = append(names, name)
		}
	}
	var all []Recommendation
	for _, name := range names {
		all = append(all, u.recommend(name, len(names), policies.of(name)))
	}
	return all
}

func (u *Usage) recommend(name string, containers int, policy Policy) Recommendation {
	rec := Recommendation{Container: name}
	for _, r := range both {
		e := &estimate{Resource: r, settings: &u.settings, container: u.containers[name], containers: containers}
		switch {
		case !policy.controls(r):
			e.because(ReasonNotControlled, "the policy leaves it alone")
		case e.measure():
			e.floor()
			r.set(&rec.Uncapped, e.target)
			e.bound(r.of(policy.Min), r.of(policy.Max))
			rec.Resources = append(rec.Resources, r)
			r.set(&rec.Target, e.target)
			r.set(&rec.Lower, e.lower)
			r.set(&rec.Upper, e.upper)
		default:
			e.because(ReasonNotMeasured, "there is no sample yet, so nothing is recommended")
		}
		rec.Reasons = append(rec.Reasons, e.reasons...)
	}
	return rec
}

// Has reports whether a resource is recommended.
func (rec *Recommendation) Has(r Resource) bool { return slices.Contains(rec.Resources, r) }

// Short reports whether less than a day of samples is known.
func (rec *Recommendation) Short() bool {
	return slices.ContainsFunc(rec.Reasons, func(r Reason) bool { return r.Code == ReasonLittleHistory })
}

// estimate is a recommendation of one resource as it is made.
type estimate struct {
	Resource
	settings   *Settings
	container  *container
	containers int // that share the floor

	target, lower, upper int64
	reasons              []Reason
}

func (e *estimate) because(code, format string, args ...any) {
	e.reasons = append(e.reasons, because(code, string(e.Resource)+": "+format, args...))
}

// measure makes target and bounds of what was measured, and reports whether anything was.
func (e *estimate) measure() bool {
	s := e.settings
	target, known := e.percentile(s.Target)
	lower, _ := e.percentile(s.Lower)
	upper, _ := e.percentile(s.Upper)
	if !known {
		return false
	}
	history := e.container.history()
	margin := func(v int64) int64 { return v + scaled(v, s.Margin) }
	e.target = margin(target)
	e.upper = scaled(margin(upper), 1+1/history)
	e.lower = scaled(margin(lower), math.Pow(1+0.001/history, -2))
	e.because(ReasonMeasured, "the %gth percentile of %s is %s, and with %g %% on top %s",
		100*s.Target, e.basis(history), e.text(target), 100*s.Margin, e.text(e.target))
	if n := e.container.ooms; n > 0 && e.Resource == Memory {
		e.because(ReasonOutOfMemory, "%s for lack of it, counted as use of %g times what it had, and at least %s more",
			pricing.Count(n, "kill"), s.OOMRatio, e.text(int64(s.OOMStep)))
	}
	if history < 1 {
		e.because(ReasonLittleHistory, "%s is less than a day, so %s", days(history), e.bounded())
	}
	return true
}

// bounded prints the upper bound, which history may not support at all.
func (e *estimate) bounded() string {
	if e.upper == most {
		return "there is no upper bound yet"
	}
	return "the upper bound is " + e.text(e.upper)
}

// percentile returns what was used at most for that part of the time, in whole units.
func (e *estimate) percentile(p float64) (int64, bool) {
	if e.Resource == CPU {
		cores, known := e.container.cpu.percentile(p)
		return amount(cores * 1000), known
	}
	bytes, known := e.container.memory.percentile(p)
	return amount(bytes), known
}

// basis prints what was measured.
func (e *estimate) basis(history float64) string {
	if e.Resource == CPU {
		return fmt.Sprintf("%s, worth %s,", pricing.Count(e.container.samples, "sample"), days(history))
	}
	return fmt.Sprintf("%s, one for each %s of a pod,", pricing.Count(e.container.peaks, "peak"), pricing.Short(e.settings.PeakInterval))
}

// floor raises what is too little for any container.
func (e *estimate) floor() {
	least := scaled(e.of(e.settings.Floor), 1/float64(e.containers))
	if e.target < least {
		e.because(ReasonFloor, "%s is the least for a pod, and %s for each of its containers, of which there are %d",
			e.text(e.of(e.settings.Floor)), e.text(least), e.containers)
	}
	for _, v := range []*int64{&e.target, &e.lower, &e.upper} {
		*v = max(*v, least)
	}
}

// bound keeps target and bounds within what the policy allows.
func (e *estimate) bound(low, high int64) {
	switch {
	case low > 0 && e.target < low:
		e.because(ReasonMinAllowed, "%s is below the least allowed, %s", e.text(e.target), e.text(low))
	case high > 0 && e.target > high:
		e.because(ReasonMaxAllowed, "%s is above the most allowed, %s", e.text(e.target), e.text(high))
	}
	for _, v := range []*int64{&e.target, &e.lower, &e.upper} {
		*v = max(*v, low)
		if high > 0 {
			*v = min(*v, high)
		}
	}
}
