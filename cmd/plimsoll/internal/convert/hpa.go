package convert

import (
	"fmt"
	"regexp"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/podscaler/policy"
)

// fromHPA converts Kubernetes' own. Its rules are policy HPA's; what differs is where metrics come
// from: Plimsoll measures resources, and all else by a query that an HPA does not have.
func fromHPA(m tree, _ Options) *v1alpha1.WorkloadAutoscalerSpec {
	s := m.at("spec")
	refuseAnnotations(m.at("metadata").at("annotations"))
	spec := &v1alpha1.WorkloadAutoscalerSpec{
		ScaleTargetRef: target(s.at("scaleTargetRef"), ""),
		Mode:           v1alpha1.ModeRecommend,
		PolicySpec:     v1alpha1.PolicySpec{Policy: v1alpha1.PolicyHPA},
		Behavior:       behavior(s.at("behavior")),
	}
	spec.MaxReplicas, _ = s.at("maxReplicas").whole()
	if low, ok := s.at("minReplicas").whole(); ok {
		spec.MinReplicas = &low
	}
	if !s.at("maxReplicas").there() {
		s.at("maxReplicas").fault("must be there", "nothing")
	}
	if cpu, ok := s.at("targetCPUUtilizationPercentage").whole(); ok { // of autoscaling/v1
		spec.HPA = &v1alpha1.HPA{Metrics: []v1alpha1.HPAMetric{{Type: "Resource", Name: "cpu", AverageUtilization: &cpu}}}
		s.at("targetCPUUtilizationPercentage").becomes("spec.hpa.metrics[0].averageUtilization")
		aboveZero(s.at("targetCPUUtilizationPercentage"), cpu)
	}
	if metrics := s.at("metrics").items(); len(metrics) > 0 {
		spec.HPA = &v1alpha1.HPA{}
		for _, metric := range metrics {
			if carried, ok := metricOf(metric); ok {
				for _, block := range []string{"resource", "containerResource"} {
					if in := metric.at(block); in.there() {
						in.at("target").becomes(fmt.Sprintf("spec.hpa.metrics[%d]", len(spec.HPA.Metrics)))
					}
				}
				spec.HPA.Metrics = append(spec.HPA.Metrics, carried)
			}
		}
		if len(spec.HPA.Metrics) == 0 {
			m.note("none of its metrics could be carried over, so nothing was written: without one, CPU would be kept at 80 %%")
			return nil
		}
	}
	atLeastOne(s.at("minReplicas"), spec)
	return spec
}

// refuseAnnotations refuses an HPA of autoscaling/v1, which has in annotations what that version
// has no keys for: read without them, it would keep CPU at 80 %.
func refuseAnnotations(said tree) {
	for _, key := range []string{"metrics", "behavior"} {
		if t := said.at("autoscaling.alpha.kubernetes.io/" + key); t.there() {
			t.fault("must be spec."+key+" of autoscaling/v2: get the manifest by kubectl get hpa.v2.autoscaling NAME -o yaml", t.word())
		}
	}
	for _, key := range []string{"conditions", "current-metrics"} { // are the status
		said.at("autoscaling.alpha.kubernetes.io/" + key).skip()
	}
}

// atLeastOne writes 1 for a minimum of 0 where no metric is left that can be measured then.
func atLeastOne(low tree, spec *v1alpha1.WorkloadAutoscalerSpec) {
	if spec.MinReplicas == nil || *spec.MinReplicas != 0 {
		return
	}
	if spec.HPA != nil {
		for _, m := range spec.HPA.Metrics {
			if m.Type == "Object" || m.Type == "External" {
				return
			}
		}
	}
	low.lose("is written as 1: no metric was carried over that can be measured without pods")
	spec.MinReplicas = new(int32(1))
}

// metricOf converts a metric of autoscaling/v2. Resources are measured alike; all else would need a
// query.
func metricOf(t tree) (v1alpha1.HPAMetric, bool) {
	kind := t.at("type").needed()
	block := map[string]string{"Resource": "resource", "ContainerResource": "containerResource", "Pods": "pods", "Object": "object", "External": "external"}[kind]
	in := t.at(block)
	switch {
	case block == "":
		t.lose("type %s is not known", strconv.Quote(kind))
		return v1alpha1.HPAMetric{}, false
	case kind != "Resource" && kind != "ContainerResource":
		name := in.at("metric").at("name").text()
		t.lose("the query behind %s %s is in a metrics adapter: add it to signals.metrics under that name, and %s", kind, name, asOurs(kind, name, in.at("target")))
		return v1alpha1.HPAMetric{}, false
	}
	metric := v1alpha1.HPAMetric{Type: kind, Name: in.at("name").needed()}
	if kind == "ContainerResource" {
		metric.Container = in.at("container").needed()
	}
	goal := in.at("target")
	if old := in.at("targetAverageUtilization"); old.there() { // of autoscaling/v2beta1
		metric.AverageUtilization = percentage(old)
		return metric, true
	}
	if old := in.at("targetAverageValue"); old.there() {
		metric.AverageValue = quantity(old)
		return metric, true
	}
	said := false
	switch goal.at("type").text() {
	case "Utilization":
		value := goal.at("averageUtilization")
		metric.AverageUtilization, said = percentage(value), value.there()
	case "AverageValue":
		value := goal.at("averageValue")
		metric.AverageValue, said = quantity(value), value.there()
	}
	if !said {
		goal.fault("must have averageUtilization, with type Utilization, or averageValue, with type AverageValue", goal.value)
		return metric, false
	}
	return metric, true
}

// percentage reads a target in percent of what is requested.
func percentage(t tree) *int32 {
	n, ok := t.whole()
	if !ok {
		return nil
	}
	aboveZero(t, n)
	return &n
}

// aboveZero refuses a target of 0, which would pass for none.
func aboveZero(t tree, n int32) {
	if n <= 0 {
		t.fault("must be above 0", n)
	}
}

// asOurs is how the metric would be written, were there a query.
func asOurs(kind, name string, goal tree) string {
	key := "averageValue"
	if goal.at("type").text() == "Value" {
		key = "value"
	}
	return "{type: " + kind + ", name: " + name + ", " + key + ": " + goal.at(key).text() + "} to hpa.metrics"
}

// quantity reads one of Kubernetes' quantities.
func quantity(t tree) *v1alpha1.Quantity {
	if !t.there() {
		return nil
	}
	q, err := resource.ParseQuantity(t.word())
	if err != nil {
		t.fault("must be a quantity", t.value)
		return nil
	}
	milli := q.MilliValue()
	if q.Cmp(*resource.NewMilliQuantity(milli, resource.DecimalSI)) != 0 {
		t.fault("must be a whole number of thousandths", t.value)
		return nil
	}
	if as, err := policy.ParseQuantity(t.word()); err == nil && int64(as) == milli && binary.MatchString(t.word()) {
		return new(v1alpha1.Quantity(t.word()))
	}
	return new(v1alpha1.Quantity(policy.Quantity(milli).String()))
}

// binary are the sizes that are kept as they were written.
var binary = regexp.MustCompile(`^[1-9][0-9]{0,5}(Ki|Mi|Gi)$`)

// behavior reads an HPA's behavior, which is ours.
func behavior(t tree) *v1alpha1.Behavior {
	if !t.there() {
		return nil
	}
	return &v1alpha1.Behavior{ScaleUp: rules(t.at("scaleUp")), ScaleDown: rules(t.at("scaleDown"))}
}

func rules(t tree) *v1alpha1.ScalingRules {
	if !t.there() {
		return nil
	}
	r := &v1alpha1.ScalingRules{Tolerance: ratio(t.at("tolerance"))}
	if window, ok := t.at("stabilizationWindowSeconds").whole(); ok {
		r.StabilizationWindowSeconds = &window
	}
	if choice := t.at("selectPolicy").text(); choice != "" {
		r.SelectPolicy = &choice
	}
	for _, p := range t.at("policies").items() {
		value, _ := p.at("value").whole()
		period, _ := p.at("periodSeconds").whole()
		r.Policies = append(r.Policies, v1alpha1.ScalingPolicy{Type: p.at("type").needed(), Value: value, PeriodSeconds: period})
	}
	return r
}

// ratio reads a quantity as a plain decimal.
func ratio(t tree) *v1alpha1.Ratio {
	if !t.there() {
		return nil
	}
	q, err := resource.ParseQuantity(t.word())
	if err != nil || q.Sign() < 0 {
		t.fault("must be a quantity of at least 0", t.value)
		return nil
	}
	return new(v1alpha1.Ratio(strconv.FormatFloat(q.AsApproximateFloat64(), 'f', -1, 64)))
}
