package convert

import (
	"fmt"
	"strconv"
	"time"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
)

// mostOfCPA is how many replicas a CustomPodAutoscaler has at most when it does not say.
const mostOfCPA = 10

// fromPaper converts the CustomPodAutoscaler of the paper on SLO and cost, whose times are bare
// numbers of milliseconds. The kind of that name that others install runs code of its own.
func fromPaper(m tree, o Options) *v1alpha1.WorkloadAutoscalerSpec {
	s := m.at("spec")
	for _, key := range []string{"template", "config"} {
		if s.at(key).there() {
			s.at(key).lose("a CustomPodAutoscaler that runs code of its own has no policy that could be carried over")
			return nil
		}
	}
	spec := &v1alpha1.WorkloadAutoscalerSpec{
		ScaleTargetRef:      target(s.at("scaleTargetRef"), ""),
		Mode:                v1alpha1.ModeRecommend,
		PolicySpec:          v1alpha1.PolicySpec{Policy: v1alpha1.PolicySLOCost, SLOCost: &v1alpha1.SLOCost{Role: "Symmetric"}},
		RunPeriod:           milliseconds(s.at("runPeriod")),
		StabilizationWindow: milliseconds(s.at("stabilizationWindow")),
		MaxReplicas:         mostOfCPA,
		SLO:                 objective(s.at("slo"), o),
		Cost:                &v1alpha1.CostTarget{Target: v1alpha1.Money(s.at("cost").needed()), Per: "1h"},
		Signals:             &v1alpha1.Signals{Preset: v1alpha1.PresetIstio},
	}
	if low, ok := s.at("minReplicas").whole(); ok {
		spec.MinReplicas = &low
	}
	if most, ok := s.at("maxReplicas").whole(); ok {
		spec.MaxReplicas = most
	} else {
		m.note("maxReplicas: %d is what a CustomPodAutoscaler has that does not say", mostOfCPA)
	}
	m.note("signals: response times are Istio's, as in the paper; name another preset or a query if yours are not")
	return spec
}

func objective(t tree, o Options) *v1alpha1.SLO {
	return &v1alpha1.SLO{P: t.at("p").needed(), Target: milliseconds(t.at("target")), Window: window(t.at("window"), o)}
}

// milliseconds reads a bare number.
func milliseconds(t tree) v1alpha1.Duration { return bare(t, time.Millisecond) }

// window reads a bare number whose unit the paper does not say.
func window(t tree, o Options) v1alpha1.Duration {
	if t.there() && o.WindowUnit == 0 {
		t.faults = append(t.faults, fmt.Errorf("%s: %w, was %s", t.path, ErrUnit, t.text()))
		return ""
	}
	return bare(t, o.WindowUnit)
}

func bare(t tree, unit time.Duration) v1alpha1.Duration {
	if !t.there() {
		return ""
	}
	const most = 100_000 * time.Hour
	n, err := strconv.ParseInt(t.word(), 10, 64)
	if err != nil || n < 0 || n > int64(most/unit) {
		t.fault("must be a whole number, at least 0", t.value)
		return ""
	}
	return duration(time.Duration(n) * unit)
}
