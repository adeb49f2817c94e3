package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/podscaler"
)

// The HPA policy is Kubernetes' own: replicas in the ratio of a metric to its target, the most
// that any metric asks for, by the controller's rules as of Kubernetes 1.37. Those lean to the
// safe side: a pod whose use is not known counts so as to make the change smaller.
//
// It needs each pod's CPU, or series of the view's window by name.
//
// It loses where the metric saturates: CPU stops at its limit, so that growth is 1/target a run
// at most, and none if 1/target is within the tolerance. It loses by the time that a machine
// takes to boot, which it cannot see; and it knows neither the SLO nor a price. Two rules are
// odd and kept: a Value counts ready pods only, so that with none it asks for 0, and an
// AverageValue within the tolerance asks for the pods there are, not for the replicas.

// HPA is the settings of the HPA policy.
type HPA struct {
	// Metrics are what is looked at; none is CPU at 80 % of the request.
	Metrics []Metric `json:"metrics,omitempty" yaml:"metrics,omitempty"`
	// Tolerance is how far a ratio may be from 1 with nothing done; unset is 0.1. The
	// workload's behavior overrides it by direction.
	Tolerance *float64 `json:"tolerance,omitempty" yaml:"tolerance,omitempty"`
	// CPUInitializationPeriod is how long after its start a pod's CPU samples count only if it
	// is ready and was so throughout them; unset is the workload's readiness.
	CPUInitializationPeriod *podscaler.Duration `json:"cpuInitializationPeriod,omitempty" yaml:"cpuInitializationPeriod,omitempty"`
	// InitialReadinessDelay is how long after its start a change of readiness is still part of
	// starting: a pod that is not ready since then has never been. Unset is the workload's
	// readiness.
	InitialReadinessDelay *podscaler.Duration `json:"initialReadinessDelay,omitempty" yaml:"initialReadinessDelay,omitempty"`
}

// Metric is a metric and the one target it has.
type Metric struct {
	Type MetricType `json:"type" yaml:"type"`
	// Name is cpu for a Resource, and a series in the view's window for all others.
	Name string `json:"name" yaml:"name"`
	// AverageUtilization is in percent of the pods' requests; for Resource.
	AverageUtilization int `json:"averageUtilization,omitempty" yaml:"averageUtilization,omitempty"`
	// AverageValue is for each pod; for all types.
	AverageValue Quantity `json:"averageValue,omitempty" yaml:"averageValue,omitempty"`
	// Value is for the whole; for Object and External.
	Value Quantity `json:"value,omitempty" yaml:"value,omitempty"`
}

// MetricType is where a metric comes from, in the words of autoscaling/v2.
type MetricType string

// The types of metric.
const (
	Resource MetricType = "Resource" // each pod's CPU
	Pods     MetricType = "Pods"     // a series with a value for each pod
	Object   MetricType = "Object"   // a series with one value, of something in the cluster
	External MetricType = "External" // a series with one value, of something outside
)

func init() {
	register("HPA", "keeps a metric, such as CPU, at a target, by the rules of Kubernetes' HorizontalPodAutoscaler.", func(s Spec) (podscaler.Policy, error) {
		if s.HPA == nil {
			return newHPA(HPA{})
		}
		return newHPA(*s.HPA)
	})
}

type hpa struct {
	metrics   []Metric
	tolerance float64
	startup   startup
}

func newHPA(c HPA) (podscaler.Policy, error) {
	h := &hpa{metrics: c.Metrics, tolerance: 0.1}
	if len(h.metrics) == 0 {
		h.metrics = []Metric{{Type: Resource, Name: "cpu", AverageUtilization: 80}}
	}
	if c.Tolerance != nil {
		h.tolerance = *c.Tolerance
	}
	var f faults
	f.unless(h.tolerance >= 0 && !math.IsInf(h.tolerance, 0), "hpa.tolerance", "must be at least 0", h.tolerance)
	h.startup = startupOf(&f, "hpa", c.CPUInitializationPeriod, c.InitialReadinessDelay)
	for i := range h.metrics {
		h.metrics[i].validate(&f, fmt.Sprintf("hpa.metrics[%d]", i))
	}
	return h, f.err()
}

// targetsOf are the targets that each type of metric may have.
var targetsOf = map[MetricType][]string{
	Resource: {"averageUtilization", "averageValue"},
	Pods:     {"averageValue"},
	Object:   {"averageValue", "value"},
	External: {"averageValue", "value"},
}

func (m *Metric) validate(f *faults, key string) {
	allowed, known := targetsOf[m.Type]
	if !known {
		f.unless(false, key+".type", "must be Resource, Pods, Object or External", strconv.Quote(string(m.Type)))
		return
	}
	f.unless(m.Name != "", key+".name", "must not be empty", `""`)
	f.unless(m.Type != Resource || m.Name == "cpu", key+".name", "must be cpu, the only resource that is measured", strconv.Quote(m.Name))
	f.unless(m.AverageUtilization >= 0, key+".averageUtilization", "must be above 0", m.AverageUtilization)
	f.unless(m.AverageValue >= 0, key+".averageValue", "must be above 0", m.AverageValue)
	f.unless(m.Value >= 0, key+".value", "must be above 0", m.Value)
	set := m.targets()
	one := len(set) == 1 && slices.Contains(allowed, set[0])
	rule := fmt.Sprintf("must have one target, which for %s is %s", m.Type, strings.Join(allowed, " or "))
	f.unless(one, key, rule, cmp.Or(strings.Join(set, " and "), "none"))
}

// targets names the targets that are set.
func (m *Metric) targets() (set []string) {
	if m.AverageUtilization != 0 {
		set = append(set, "averageUtilization")
	}
	if m.AverageValue != 0 {
		set = append(set, "averageValue")
	}
	if m.Value != 0 {
		set = append(set, "value")
	}
	return set
}

func (h *hpa) check(w *podscaler.Workload) error {
	var f faults
	whole := false
	for i, m := range h.metrics {
		whole = whole || m.Type == Object || m.Type == External
		f.unless(m.AverageUtilization == 0 || w.Pod.CPU > 0, "pod.cpu",
			fmt.Sprintf("must be above 0 for hpa.metrics[%d], which is in percent of it", i), int64(w.Pod.CPU))
	}
	f.unless(w.Min > 0 || whole, "minReplicas", "must be at least 1 without an Object or External metric, for nothing else can be measured at 0", w.Min)
	return f.err()
}

// Desired is the most replicas that any metric asks for. An unknown metric may be the one that
// asks for most: with one among them the workload may grow, and does not shrink.
func (h *hpa) Desired(v *podscaler.View) podscaler.Recommendation {
	most, blind := -1, 0
	reasons := make([]podscaler.Reason, 0, len(h.metrics)+1)
	for i := range h.metrics {
		n, why := h.propose(v, &h.metrics[i])
		most = max(most, n)
		if n < 0 {
			blind++
		}
		reasons = append(reasons, why)
	}
	if blind > 0 && 0 <= most && most < v.Replicas {
		reasons = append(reasons, incomplete(blind, len(h.metrics), v.Replicas, most))
		most = -1
	}
	if most < 0 {
		return podscaler.Recommendation{Reasons: reasons}
	}
	return podscaler.Recommendation{Replicas: most, Known: true, Reasons: reasons}
}

// propose returns what one metric asks for, or -1 if that cannot be known, and why.
func (h *hpa) propose(v *podscaler.View, m *Metric) (int, podscaler.Reason) {
	if m.Type == Resource || m.Type == Pods {
		series, why := perPod(v, m.Type, m.Name)
		if why != "" {
			return -1, failed(m.Type, m.Name, why)
		}
		return h.byPod(v, m, samples{series: series, filter: m.Type == Resource})
	}
	total, why := whole(v, m.Name)
	switch {
	case why != "":
		return -1, failed(m.Type, m.Name, why)
	case len(v.Pods) == 0 && v.Replicas > 0 && m.Value > 0 && !bandOf(v, h.tolerance).holds(total/float64(m.Value)):
		return -1, failed(m.Type, m.Name, "the workload has no pods")
	case m.Value > 0:
		return h.byValue(v, m, total)
	}
	return h.byAverage(v, m, total)
}

func (m *Metric) found(format string, args ...any) podscaler.Reason {
	return podscaler.Because(podscaler.ReasonValidMetricFound, "%s is %s", m.Name, fmt.Sprintf(format, args...))
}

// byValue compares the whole with its target, in the ratio of the ready pods. From zero the
// ratio alone counts.
func (h *hpa) byValue(v *podscaler.View, m *Metric, total float64) (int, podscaler.Reason) {
	ratio, value := total/float64(m.Value), Quantity(total)
	if v.Replicas == 0 {
		n := whole32(ratio)
		return n, m.found("%s of %s: %d wanted, from 0", value, m.Value, n)
	}
	ready := 0
	for i := range v.Pods {
		if v.Pods[i].Phase == podscaler.Running && v.Pods[i].Ready {
			ready++
		}
	}
	n, band := whole32(ratio*float64(ready)), bandOf(v, h.tolerance)
	if band.holds(ratio) {
		n = v.Replicas
	}
	return n, m.found("%s of %s with %d pods ready, ratio %.4g%s: %d wanted", value, m.Value, ready, ratio, band.note(ratio), n)
}

// byAverage shares the whole out among pods that take one target each. What it compares with is
// the pods there are, not the replicas asked for.
func (h *hpa) byAverage(v *podscaler.View, m *Metric, total float64) (int, podscaler.Reason) {
	there := 0
	for i := range v.Pods {
		p := &v.Pods[i]
		if !p.Terminating && (p.Phase == podscaler.Pending || p.Phase == podscaler.Running) {
			there++
		}
	}
	want, value := total/float64(m.AverageValue), Quantity(total)
	if there == 0 {
		n := whole32(want)
		return n, m.found("%s, %s a pod with none there: %d wanted", value, m.AverageValue, n)
	}
	ratio, n, band := total/(float64(m.AverageValue)*float64(there)), whole32(want), bandOf(v, h.tolerance)
	if band.holds(ratio) {
		n = there
	}
	return n, m.found("%s, %s a pod with %d pods there, ratio %.4g%s: %d wanted", value, m.AverageValue, there, ratio, band.note(ratio), n)
}

// byPod compares the mean over the pods with its target. Pods without a sample count as using
// all they should on the way down and nothing on the way up; pods that are not ready count as
// using nothing on the way up. What then would turn round, or be within the tolerance, stays.
func (h *hpa) byPod(v *podscaler.View, m *Metric, of samples) (int, podscaler.Reason) {
	if m.AverageUtilization > 0 && v.Workload.Pod.CPU <= 0 {
		return -1, failed(m.Type, m.Name, "the pods request no cpu that it could be in percent of")
	}
	t := h.startup.tally(v, of)
	if t.ready == 0 {
		return -1, failed(m.Type, m.Name, "no ready pod has a sample")
	}
	goal, band, n := goalOf(m, v.Workload), bandOf(v, h.tolerance), t.ready
	before, unready := goal.ratio(t.total, n), 0
	switch {
	case before < 1:
		t.total += goal.missing * float64(t.missing)
		n += t.missing
	case before > 1:
		unready = t.unready
		n += t.missing + unready
	}
	filled, ratio, note := n > t.ready, goal.ratio(t.total, n), ""
	want := whole32(ratio * float64(n))
	turned := (before-1)*(ratio-1) < 0 || filled && (ratio-1)*float64(want-v.Replicas) < 0
	if turned || band.holds(ratio) {
		want = v.Replicas
	}
	if filled {
		note = fmt.Sprintf(" (%.4g before counting in %d without a sample and %d not ready)", before, t.missing, unready)
	}
	return want, m.found("%s of %s over %d pods, ratio %.4g%s%s: %d wanted",
		goal.print(goal.usage(t.total, n)), goal.print(goal.target), n, ratio, note, band.note(ratio), want)
}

// whole32 rounds up as the controller does: floats make 15 of 50 pods at 14 % of 50 %, not 14.
func whole32(x float64) int { return int(min(max(math.Ceil(x), 0), math.MaxInt32)) }

// goal is a target for each pod: in percent of a request, or in thousandths if request is 0.
type goal struct {
	target, request float64
	missing         float64 // what a pod without a sample counts as on the way down
}

func goalOf(m *Metric, w *podscaler.Workload) goal {
	if m.AverageUtilization == 0 {
		return goal{target: float64(m.AverageValue), missing: float64(m.AverageValue)}
	}
	request := float64(w.Pod.CPU)
	return goal{
		target:  float64(m.AverageUtilization),
		request: request,
		missing: math.Trunc(request * float64(max(100, m.AverageUtilization)) / 100),
	}
}

// usage is the mean over n pods in whole thousandths or percent. The controller cuts off what
// is below one, too; keeping it would act at 66.8 % where an HPA sees 66.
func (g goal) usage(total float64, n int) float64 {
	if g.request > 0 {
		return math.Trunc(100 * total / (g.request * float64(n)))
	}
	return math.Trunc(total / float64(n))
}

func (g goal) ratio(total float64, n int) float64 { return g.usage(total, n) / g.target }

func (g goal) print(usage float64) string {
	if g.request > 0 {
		return strconv.FormatFloat(usage, 'f', -1, 64) + "%"
	}
	return Quantity(usage).String()
}

func (b band) holds(ratio float64) bool { return 1-b.down <= ratio && ratio <= 1+b.up }

func (b band) note(ratio float64) string {
	if !b.holds(ratio) {
		return ""
	}
	return fmt.Sprintf(", within %.4g and %.4g", 1-b.down, 1+b.up)
}
