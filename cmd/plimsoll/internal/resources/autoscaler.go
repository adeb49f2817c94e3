package resources

import (
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/podscaler/signals"
	"github.com/plimsoll/plimsoll/pricing"
)

// day is longer than a cool-down or a window makes sense.
const day = 24 * time.Hour

// Autoscaler returns what a WorkloadAutoscaler wants of its workload, by which policy, and where
// its signals come from. What one of the workload's pods asks for is not known here: Workload.Pod
// is for the caller to fill in, and policy.Check then says whether the policy can work with it.
func Autoscaler(a *v1alpha1.WorkloadAutoscaler) (podscaler.Workload, policy.Spec, signals.Spec, error) {
	var f faults
	w := podscaler.Workload{
		Name:      a.Namespace + "/" + a.Name,
		Min:       1,
		Max:       int(a.Spec.MaxReplicas),
		SLO:       f.slo(a.Spec.SLO),
		Cost:      f.cost(a.Spec.Cost),
		RunPeriod: f.within("spec.runPeriod", a.Spec.RunPeriod, 5*time.Second, 10*time.Minute),
		Cooldown:  f.within("spec.stabilizationWindow", a.Spec.StabilizationWindow, 0, day),
		Behavior:  f.behavior(&a.Spec),
	}
	if a.Spec.MinReplicas != nil {
		w.Min = int(*a.Spec.MinReplicas)
	}
	f.guards(&a.Spec, &w)
	var s policy.Spec
	f.read(spec, &a.Spec.PolicySpec, &s)
	if len(f) == 0 {
		f.note(spec, check(w, s))
	}
	from := f.signals(a, w.SLO)
	return w, s, from, f.err()
}

// signals returns where a workload's signals come from.
func (f *faults) signals(a *v1alpha1.WorkloadAutoscaler, slo podscaler.SLO) signals.Spec {
	type keys signals.Spec // the source says what is wrong with them
	var read keys
	if a.Spec.Signals != nil {
		f.read("spec.signals", a.Spec.Signals, &read)
	}
	from := signals.Spec(read)
	source := signals.Source{
		Target: signals.Target{Namespace: a.Namespace, Kind: a.Spec.ScaleTargetRef.Kind, Name: a.Spec.ScaleTargetRef.Name},
		SLO:    slo, Spec: from,
	}
	f.note(spec, source.Validate())
	return from
}

// ByContainer reports whether a policy goes by what containers use, and not by pods' CPU alone.
func ByContainer(p *v1alpha1.PolicySpec) bool {
	by := func(kind, name string) bool {
		return kind == "ContainerResource" || kind == "Resource" && name != podscaler.ResourceCPU
	}
	return p.HPA != nil && slices.ContainsFunc(p.HPA.Metrics, func(m v1alpha1.HPAMetric) bool { return by(m.Type, m.Name) }) ||
		p.Watermark != nil && slices.ContainsFunc(p.Watermark.Metrics, func(m v1alpha1.WatermarkMetric) bool { return by(m.Type, m.Name) })
}

// check asks workload and policy for their own faults. Pods are taken to ask for a core and a
// gibibyte, for what they ask for is not known yet.
func check(w podscaler.Workload, s policy.Spec) error {
	w.Pod = pricing.Resources{CPU: pricing.Core, Memory: pricing.GiB}
	p, err := policy.New(s)
	if err != nil {
		return err
	}
	return policy.Check(&w, p)
}

func (f *faults) slo(s *v1alpha1.SLO) (slo podscaler.SLO) {
	if s == nil {
		return slo
	}
	q, err := podscaler.ParseQuantile(s.P)
	if err != nil {
		f.note("", pricing.NewFault("spec.slo.p", err.Error()))
	}
	return podscaler.SLO{Quantile: q, Target: f.duration("spec.slo.target", s.Target), Window: f.within("spec.slo.window", s.Window, 0, day)}
}

func (f *faults) cost(c *v1alpha1.CostTarget) (target podscaler.CostTarget) {
	if c == nil {
		return target
	}
	amount, err := pricing.ParseMicros(string(c.Target))
	if err != nil {
		f.note("", pricing.NewFault("spec.cost.target", err.Error()))
	}
	return podscaler.CostTarget{
		Target: amount, Per: f.duration("spec.cost.per", c.Per),
		Count: podscaler.CostCount(c.Count), Measure: podscaler.CostMeasure(c.Measure),
	}
}

// behavior returns the limits on changes. An HPA without a behavior has one all the same.
func (f *faults) behavior(s *v1alpha1.WorkloadAutoscalerSpec) *podscaler.Behavior {
	switch {
	case s.Behavior != nil:
		b := podscaler.DefaultBehavior()
		f.rules("spec.behavior.scaleUp", s.Behavior.ScaleUp, &b.Up)
		f.rules("spec.behavior.scaleDown", s.Behavior.ScaleDown, &b.Down)
		return b
	case s.Policy == v1alpha1.PolicyHPA:
		return podscaler.LegacyBehavior()
	}
	return nil
}

// rules reads the limits in one direction over their defaults.
func (f *faults) rules(path string, from *v1alpha1.ScalingRules, into *podscaler.Rules) {
	if from == nil {
		return
	}
	if from.StabilizationWindowSeconds != nil {
		into.Window = seconds(*from.StabilizationWindowSeconds)
	}
	if from.SelectPolicy != nil {
		into.Select = podscaler.Select(*from.SelectPolicy)
	}
	if from.Tolerance != nil {
		into.Tolerance = f.ratio(path+".tolerance", *from.Tolerance)
	}
	if from.Policies == nil {
		return
	}
	into.Policies = nil
	for i, p := range from.Policies {
		limit := podscaler.StepLimit{Period: seconds(p.PeriodSeconds)}
		switch p.Type {
		case "Pods":
			limit.Pods = int(p.Value)
		case "Percent":
			limit.Percent = int(p.Value)
		default:
			f.note("", pricing.NewFault(fmt.Sprintf("%s.policies[%d].type", path, i), fmt.Sprintf("must be Pods or Percent, was %q", p.Type)))
		}
		into.Policies = append(into.Policies, limit)
	}
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

func (f *faults) ratio(path string, r v1alpha1.Ratio) *float64 {
	n, ok := number(string(r)).(float64)
	if !ok {
		f.note("", pricing.NewFault(path, fmt.Sprintf("must be a number, was %q", string(r))))
	}
	return &n
}
