package podscaler

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
)

// Faults collects what is wrong with a configuration: all of it, not the first.
type Faults []error

// Unless records that the value of key breaks the rule, unless it keeps it.
func (f *Faults) Unless(kept bool, key, rule string, value any) {
	if !kept {
		*f = append(*f, fmt.Errorf("%s: %s, was %v", key, rule, value))
	}
}

// Err returns the faults as one error, or nil.
func (f Faults) Err() error { return errors.Join(f...) }

// Validate returns every fault of the workload, each with its key, the rule and the value, or
// nil.
func (w *Workload) Validate() error {
	var f Faults
	f.Unless(w.Name != "", "name", "must not be empty", `""`)
	f.Unless(w.Min >= 0, "minReplicas", "must be at least 0", w.Min)
	f.Unless(w.Max >= 1, "maxReplicas", "must be at least 1", w.Max)
	f.Unless(w.Max >= w.Min, "maxReplicas", fmt.Sprintf("must be at least minReplicas, which is %d", w.Min), w.Max)
	f.Unless(w.RunPeriod >= 0, "runPeriod", "must be at least 0", w.RunPeriod)
	f.Unless(w.Cooldown >= 0, "stabilizationWindow", "must be at least 0", w.Cooldown)
	f.Unless(w.Pod.CPU >= 0, "pod.cpu", "must be at least 0", int64(w.Pod.CPU))
	f.Unless(w.Pod.Memory >= 0, "pod.memory", "must be at least 0", int64(w.Pod.Memory))
	w.SLO.validate(&f)
	w.Cost.validate(&f)
	w.Readiness.validate(&f)
	w.Upstream.validate(&f)
	if w.Fallback != nil {
		w.Fallback.validate(&f, w)
	}
	if w.Idle != nil {
		w.Idle.validate(&f, w)
	}
	names := map[string]bool{}
	for i := range w.Schedules {
		key, s := fmt.Sprintf("schedules[%d]", i), &w.Schedules[i]
		s.validate(&f, key, w)
		f.Unless(!names[s.Name], key+".name", "must be the name of no other schedule", strconv.Quote(s.Name))
		names[s.Name] = true
	}
	if w.Behavior != nil {
		w.Behavior.Up.validate(&f, "behavior.scaleUp", w.Behavior.Legacy)
		w.Behavior.Down.validate(&f, "behavior.scaleDown", w.Behavior.Legacy)
		f.Unless(!w.Behavior.Legacy || w.Behavior.Up.Window == 0, "behavior.scaleUp.stabilizationWindowSeconds",
			"must be 0 with the legacy behavior, which does not look at it", w.Behavior.Up.Window)
	}
	return errors.Join(f...)
}

func (s SLO) validate(f *Faults) {
	f.Unless(s.Target >= 0, "slo.target", "must be at least 0", s.Target)
	if s.Target > 0 {
		f.Unless(s.Quantile > 0 && s.Quantile < 1, "slo.p", "must be above 0 and below 1", s.Quantile)
		f.Unless(s.Window > 0, "slo.window", "must be above 0", s.Window)
	}
}

func (t CostTarget) validate(f *Faults) {
	f.Unless(t.Target >= 0, "cost.target", "must be at least 0", t.Target)
	if t.Target > 0 {
		f.Unless(t.Per > 0, "cost.per", "must be above 0", t.Per)
	}
	switch t.Count {
	case "", CountJoined, CountOrdered, CountPredicted:
	default:
		f.Unless(false, "cost.count", "must be joined, ordered or predicted", t.Count)
	}
	switch t.Measure {
	case "", MeasureRate, MeasureProjected:
	default:
		f.Unless(false, "cost.measure", "must be rate or projected", t.Measure)
	}
}

// The longest times that autoscaling/v2 allows in a behavior.
const (
	maxWindow = time.Hour
	maxPeriod = 30 * time.Minute
)

// maxStep is the largest step that autoscaling/v2 can hold. Larger ones would wrap round when
// they are added to replicas, and forbid what they are to allow.
const maxStep = math.MaxInt32

func (r *Rules) validate(f *Faults, key string, legacy bool) {
	f.Unless(r.Window >= 0 && r.Window <= maxWindow, key+".stabilizationWindowSeconds", "must be between 0 and 1h", r.Window)
	f.Unless(r.Cooldown >= 0, key+".cooldown", "must be at least 0", r.Cooldown)
	switch r.Select {
	case "", SelectMax, SelectMin, SelectDisabled:
	default:
		f.Unless(false, key+".selectPolicy", "must be Max, Min or Disabled", r.Select)
	}
	if r.Tolerance != nil {
		f.Unless(finite(*r.Tolerance) && *r.Tolerance >= 0, key+".tolerance", "must be at least 0", *r.Tolerance)
	}
	if legacy {
		f.Unless(len(r.Policies) == 0, key+".policies", "must be empty with the legacy behavior, which does not look at them", len(r.Policies))
		f.Unless(r.Select == "", key+".selectPolicy", "must be empty with the legacy behavior, which does not look at it", r.Select)
		return
	}
	f.Unless(len(r.Policies) > 0 || r.Select == SelectDisabled, key+".policies", "must name at least one policy, unless selectPolicy is Disabled", 0)
	for i, p := range r.Policies {
		p.validate(f, fmt.Sprintf("%s.policies[%d]", key, i))
	}
}

func (p StepLimit) validate(f *Faults, key string) {
	one := p.Pods > 0 && p.Percent == 0 || p.Pods == 0 && p.Percent > 0
	f.Unless(one, key, "must have a value above 0 in either pods or percent", fmt.Sprintf("%d pods and %d percent", p.Pods, p.Percent))
	f.Unless(p.Pods <= maxStep, key+".pods", fmt.Sprintf("must be at most %d", maxStep), p.Pods)
	f.Unless(p.Percent <= maxStep, key+".percent", fmt.Sprintf("must be at most %d", maxStep), p.Percent)
	f.Unless(p.Period >= time.Second && p.Period <= maxPeriod, key+".periodSeconds", "must be between 1s and 30m", p.Period)
}

// Warnings returns what is allowed and most likely not meant.
func (w *Workload) Warnings() []Reason {
	var warnings []Reason
	if w.Cooldown > 0 && w.Cooldown < w.RunPeriod {
		warnings = append(warnings, Because(ReasonStabilizationWindowTooShort,
			"stabilizationWindow %s is shorter than runPeriod %s: it is over before the next run and holds nothing back", pricing.Short(w.Cooldown), pricing.Short(w.RunPeriod)))
	}
	return warnings
}
