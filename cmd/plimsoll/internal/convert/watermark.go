package convert

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// fromWatermark converts Datadog's, from which policy Watermark has its settings. Marks of
// resources are carried over; the queries behind other marks are in a metrics adapter, as an HPA's
// do.
func fromWatermark(m tree, _ Options) *v1alpha1.WorkloadAutoscalerSpec {
	s := m.at("spec")
	if r := s.at("recommender"); r.there() {
		r.lose("no service outside is asked how many replicas there should be")
		return nil
	}
	w := &v1alpha1.Watermark{
		Algorithm: choice(s.at("algorithm"), map[string]string{"": "Absolute", "absolute": "Absolute", "average": "Average"}),
		// Its default; ours is the Water Pod Autoscaler's.
		Tolerance:        new(v1alpha1.Ratio("0.1")),
		UpLimitPercent:   percent(s.at("scaleUpLimitFactor")),
		DownLimitPercent: percent(s.at("scaleDownLimitFactor")),
		Cooldown:         byDirection(s.at("upscaleForbiddenWindowSeconds"), s.at("downscaleForbiddenWindowSeconds")),
		Delay:            byDirection(s.at("upscaleDelayAboveWatermarkSeconds"), s.at("downscaleDelayBelowWatermarkSeconds")),
		ConvergeTo:       choice(s.at("convergeTowardsWatermark"), map[string]string{"": "", "highwatermark": "High", "lowwatermark": "Low"}),
		TolerateZero:     yes(s.at("tolerateZero")),

		InitialReadinessDelay: inSeconds(s.at("readinessDelaySeconds")),
	}
	if t := s.at("tolerance"); t.there() {
		w.Tolerance = ratio(t)
	}
	if yes(s.at("dryRun")) {
		m.note("mode: Recommend is what dryRun is")
	}
	if !mark(w, s.at("metrics")) {
		m.note("none of its metrics could be carried over, so nothing was written: without one, the marks would be 80 and 40 %% of the requested CPU")
		return nil
	}
	spec := &v1alpha1.WorkloadAutoscalerSpec{
		ScaleTargetRef: target(s.at("scaleTargetRef"), ""),
		Mode:           v1alpha1.ModeRecommend,
		PolicySpec:     v1alpha1.PolicySpec{Policy: v1alpha1.PolicyWatermark, Watermark: w},
		MinReplicas:    new(int32(1)),
		Readiness:      available(s.at("minAvailableReplicaPercentage")),
	}
	bounds(spec, s)
	m.note("watermark.antiOscillation: no shrinking goes so far that it would be taken back at once; false does as a WatermarkPodAutoscaler does")
	return spec
}

// available reads how many of the replicas must be ready before anything is changed.
func available(t tree) *v1alpha1.Readiness {
	percent, ok := t.whole()
	if !ok {
		return nil
	}
	if percent < 0 || percent > 100 {
		t.fault("must be between 0 and 100", t.value)
	}
	return &v1alpha1.Readiness{MinAvailablePercent: percent}
}

// bounds reads how many replicas there may be. Where they go by multiples, bounds between two
// would never be reached.
func bounds(spec *v1alpha1.WorkloadAutoscalerSpec, s tree) {
	least, most := s.at("minReplicas"), s.at("maxReplicas")
	if n, ok := least.whole(); ok {
		spec.MinReplicas = &n
	}
	spec.MaxReplicas, _ = most.whole()
	if !most.there() {
		most.fault("must be there", "nothing")
	}
	if *spec.MinReplicas == 0 {
		least.lose("is written as 1: at 0 there is no load that could be shared out")
		*spec.MinReplicas = 1
	}
	multiple, ok := s.at("replicaScalingAbsoluteModulo").whole()
	if !ok || multiple <= 1 {
		return
	}
	spec.Watermark.Multiple = multiple
	if off := *spec.MinReplicas % multiple; off != 0 {
		*spec.MinReplicas += multiple - off
		least.lose("is written as %d, the next multiple of replicaScalingAbsoluteModulo", *spec.MinReplicas)
	}
	if off := spec.MaxReplicas % multiple; off != 0 {
		spec.MaxReplicas -= off
		most.lose("is written as %d, a multiple of replicaScalingAbsoluteModulo", spec.MaxReplicas)
	}
	s.note("watermark.multiple: on the way down it rounds down, where a WatermarkPodAutoscaler rounds up")
}

// mark takes over the marks of resources, and reports whether there are any.
func mark(w *v1alpha1.Watermark, metrics tree) bool {
	for _, t := range metrics.items() {
		switch kind := t.at("type").needed(); kind {
		case "Resource":
			in := t.at("resource")
			in.at("metricSelector").lose("the workload's own pods are measured")
			m := v1alpha1.WatermarkMetric{Type: kind, Name: in.at("name").needed(), High: quantity(in.at("highWatermark")), Low: quantity(in.at("lowWatermark"))}
			if m.High == nil && m.Low == nil {
				in.fault("must have highWatermark or lowWatermark", in.value)
			}
			for ours, theirs := range map[string]string{"high": "highWatermark", "low": "lowWatermark"} {
				in.at(theirs).becomes(fmt.Sprintf("spec.watermark.metrics[%d].%s", len(w.Metrics), ours))
			}
			w.Metrics = append(w.Metrics, m)
		case "External":
			in := t.at("external")
			name := in.at("metricName").text()
			marks := ""
			if high := in.at("highWatermark").text(); high != "" {
				marks += ", high: " + high
			}
			if low := in.at("lowWatermark").text(); low != "" {
				marks += ", low: " + low
			}
			t.lose("the query behind External %s is in a metrics adapter: add it to signals.metrics under that name, and {type: External, name: %s%s} to watermark.metrics", name, name, marks)
		default:
			t.lose("type %q is not known", kind)
		}
	}
	if len(w.Metrics) == 1 && w.Metrics[0].Name == podscaler.ResourceCPU {
		w.High, w.Low, w.Metrics = w.Metrics[0].High, w.Metrics[0].Low, nil
		return true
	}
	return len(w.Metrics) > 0
}

// choice reads one of several words as ours.
func choice(t tree, of map[string]string) string {
	ours, known := of[t.word()]
	if !known {
		t.fault("must be one of "+strings.TrimPrefix(strings.Join(slices.Sorted(maps.Keys(of)), ", "), ", "), t.value)
	}
	return ours
}

func yes(t tree) bool {
	return choice(t, map[string]string{"": "", "false": "", "true": "true"}) != ""
}

// percent reads a limit, which may have decimals there.
func percent(t tree) *int32 {
	if !t.there() {
		return nil
	}
	q, err := resource.ParseQuantity(t.word())
	if err != nil || q.Sign() < 0 || q.Value() > 1000000 {
		t.fault("must be a percentage", t.value)
		return nil
	}
	n := int32(q.MilliValue() / 1000)
	if int64(n)*1000 != q.MilliValue() {
		t.lose("is written as %d: limits are whole percentages", n)
	}
	return &n
}

func byDirection(up, down tree) *v1alpha1.ByDirection {
	if !up.there() && !down.there() {
		return nil
	}
	return &v1alpha1.ByDirection{Up: inSeconds(up), Down: inSeconds(down)}
}

func inSeconds(t tree) *v1alpha1.Duration {
	n, ok := t.whole()
	if !ok {
		return nil
	}
	return new(v1alpha1.Duration(pricing.Short(time.Duration(n) * time.Second)))
}
