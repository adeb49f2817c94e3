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
// It needs what each pod uses of a resource, or its containers, or series of the view's window by
// name.
//
// It loses where the metric saturates: CPU stops at its limit, so that growth is 1/target a run
// at most, and none if 1/target is within the tolerance. It loses by the time that a machine
// takes to boot, which it cannot see; and it knows neither the SLO nor a price. Two rules are
// odd and kept: a Value counts ready pods only, so that with none it asks for 0, and an
// AverageValue within the tolerance asks for the pods there are, not for the replicas.

// HPA is the settings of the HPA policy.
type HPA struct {
	// Metrics are what is looked at; none is CPU at 80 % of the request.
	Metrics []Metric `json:"metrics,omitempty"`
	// Tolerance is how far a ratio may be from 1 with nothing done; unset is 0.1. The
	// workload's behavior overrides it by direction.
	Tolerance *float64 `json:"tolerance,omitempty"`
	// CPUInitializationPeriod is how long after its start a pod's CPU samples count only if it
	// is ready and was so throughout them; unset is the workload's readiness.
	CPUInitializationPeriod *podscaler.Duration `json:"cpuInitializationPeriod,omitempty"`
	// InitialReadinessDelay is how long after its start a change of readiness is still part of
	// starting: a pod that is not ready since then has never been. Unset is the workload's
	// readiness.
	InitialReadinessDelay *podscaler.Duration `json:"initialReadinessDelay,omitempty"`
}

// Metric is a metric and the one target it has.
type Metric struct {
	Type MetricType `json:"type"`
	// Name is that of the resource for Resource and ContainerResource, such as cpu or memory, and a
	// series in the view's window for all others.
	Name string `json:"name"`
	// Container is the container that is looked at; for ContainerResource.
	Container string `json:"container,omitempty"`
	// AverageUtilization is in percent of what is requested; for Resource and ContainerResource.
	AverageUtilization int `json:"averageUtilization,omitempty"`
	// AverageValue is for each pod; for all types.
	AverageValue Quantity `json:"averageValue,omitempty"`
	// Value is for the whole; for Object and External.
	Value Quantity `json:"value,omitempty"`
	// Activation is what the whole must be above to call for a workload that is idle; for Object
	// and External. Unset is 0.
	Activation Quantity `json:"activation,omitempty"`
}

// MetricType is where a metric comes from, in the words of autoscaling/v2.
type MetricType string

// The types of metric.
const (
	Resource          MetricType = "Resource"          // what each pod uses of a resource
	ContainerResource MetricType = "ContainerResource" // what one container of each pod uses of it
	Pods              MetricType = "Pods"              // a series with a value for each pod
	Object            MetricType = "Object"            // a series with one value, in the cluster
	External          MetricType = "External"          // a series with one value, from outside
)

// ofResource reports whether it is what pods use of a resource, which the metrics API measures.
func (t MetricType) ofResource() bool { return t == Resource || t == ContainerResource }

// perPod reports whether there is a value for each pod.
func (t MetricType) perPod() bool { return t.ofResource() || t == Pods }

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
	var f podscaler.Faults
	f.Unless(h.tolerance >= 0 && !math.IsInf(h.tolerance, 0), "hpa.tolerance", "must be at least 0", h.tolerance)
	h.startup = startupOf(&f, "hpa", c.CPUInitializationPeriod, c.InitialReadinessDelay)
	for i := range h.metrics {
		h.metrics[i].validate(&f, fmt.Sprintf("hpa.metrics[%d]", i))
	}
	return h, f.Err()
}

// targetsOf are the targets that each type of metric may have.
var targetsOf = map[MetricType][]string{
	Resource:          {"averageUtilization", "averageValue"},
	ContainerResource: {"averageUtilization", "averageValue"},
	Pods:              {"averageValue"},
	Object:            {"averageValue", "value"},
	External:          {"averageValue", "value"},
}

// validateType looks at what metrics of both policies are named by, and returns the targets that
// one of its type may have.
func validateType(f *podscaler.Faults, key string, t MetricType, name, container string) (allowed []string, known bool) {
	allowed, known = targetsOf[t]
	f.Unless(known, key+".type", "must be Resource, ContainerResource, Pods, Object or External", strconv.Quote(string(t)))
	if !known {
		return nil, false
	}
	f.Unless(name != "", key+".name", "must not be empty", `""`)
	f.Unless(t != ContainerResource || container != "", key+".container", "must name the container with type ContainerResource", `""`)
	f.Unless(t == ContainerResource || container == "", key+".container", "must be empty but with type ContainerResource", strconv.Quote(container))
	return allowed, known
}

// title names the metric in reasons.
func (m *Metric) title() string { return titleOf(m.Name, m.Container) }

func titleOf(name, container string) string {
	if container == "" {
		return name
	}
	return name + " of container " + container
}

func (m *Metric) validate(f *podscaler.Faults, key string) {
	allowed, known := validateType(f, key, m.Type, m.Name, m.Container)
	if !known {
		return
	}
	f.Unless(m.AverageUtilization >= 0, key+".averageUtilization", "must be above 0", m.AverageUtilization)
	f.Unless(m.AverageValue >= 0, key+".averageValue", "must be above 0", m.AverageValue)
	f.Unless(m.Value >= 0, key+".value", "must be above 0", m.Value)
	f.Unless(m.Activation >= 0, key+".activation", "must be at least 0", m.Activation)
	f.Unless(m.Activation == 0 || !m.Type.perPod(), key+".activation", "may be set only with type Object or External, which there are without pods", m.Activation)
	set := m.targets()
	one := len(set) == 1 && slices.Contains(allowed, set[0])
	rule := fmt.Sprintf("must have one target, which for %s is %s", m.Type, strings.Join(allowed, " or "))
	f.Unless(one, key, rule, cmp.Or(strings.Join(set, " and "), "none"))
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
	var f podscaler.Faults
	whole := false
	for i, m := range h.metrics {
		whole = whole || !m.Type.perPod()
		request, known := requestOf(w, m.Name)
		f.Unless(m.AverageUtilization == 0 || m.Container != "" || !known || request > 0, "pod."+m.Name,
			fmt.Sprintf("must be above 0 for hpa.metrics[%d], which is in percent of it", i), request)
	}
	f.Unless(w.Idle == nil || whole, "idle", "must be omitted without an Object or External metric, which alone can call for a workload", "there")
	f.Unless(w.Min > 0 || whole, "minReplicas", "must be at least 1 without an Object or External metric, for nothing else can be measured at 0", w.Min)
	return f.Err()
}

// Desired is the most replicas that any metric asks for. An unknown metric may be the one that
// asks for most: with one among them the workload may grow, and does not shrink. The metric that
// decides, or the first one that keeps it from deciding, leads the reasons.
func (h *hpa) Desired(v *podscaler.View) podscaler.Recommendation {
	most, decides := -1, 0
	var unknown []int
	reasons := make([]podscaler.Reason, len(h.metrics), len(h.metrics)+1)
	for i := range h.metrics {
		n, why := h.propose(v, &h.metrics[i])
		reasons[i] = why
		if n < 0 {
			unknown = append(unknown, i)
		} else if n > most {
			most, decides = n, i
		}
	}
	if len(unknown) > 0 && most < v.Replicas {
		if most >= 0 {
			reasons = append(reasons, incomplete(len(unknown), len(h.metrics), v.Replicas, most))
		}
		most, decides = -1, unknown[0]
	}
	leads := reasons[decides]
	copy(reasons[1:decides+1], reasons[:decides])
	reasons[0] = leads
	if most < 0 {
		return podscaler.Recommendation{Reasons: reasons}
	}
	return podscaler.Recommendation{Replicas: most, Known: true, Reasons: reasons}
}

// Calls reports whether a metric of the whole is above its activation. One that is unknown may be.
func (h *hpa) Calls(v *podscaler.View) podscaler.Call {
	var low, unknown []string
	for i := range h.metrics {
		m := &h.metrics[i]
		if m.Type.perPod() {
			continue
		}
		total, why := whole(v, m.Name)
		switch {
		case why != "":
			unknown = append(unknown, fmt.Sprintf("%s is unknown: %s", m.Name, why))
		case total > float64(m.Activation):
			return podscaler.Call{Active: true, Known: true, Why: fmt.Sprintf("%s is %s, above its activation of %s", m.Name, amount(total), m.Activation)}
		default:
			low = append(low, fmt.Sprintf("%s is %s, not above its activation of %s", m.Name, amount(total), m.Activation))
		}
	}
	return podscaler.Call{Known: len(unknown) == 0, Why: strings.Join(append(unknown, low...), "; ")}
}

// propose returns what one metric asks for, or -1 if that cannot be known, and why.
func (h *hpa) propose(v *podscaler.View, m *Metric) (int, podscaler.Reason) {
	if m.Type.perPod() {
		of, why := perPod(v, m.Type, m.Name, m.Container)
		if why != "" {
			return -1, failed(m.Type, m.title(), why)
		}
		of.filter = m.Name == podscaler.ResourceCPU && of.series == nil
		return h.byPod(v, m, of)
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
	return podscaler.Because(podscaler.ReasonValidMetricFound, "%s is %s", m.title(), fmt.Sprintf(format, args...))
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

// whole32 rounds up as the controller does: floats make 15 of 50 pods at 14 % of 50 %, not 14.
func whole32(x float64) int { return int(min(max(math.Ceil(x), 0), math.MaxInt32)) }

func (b band) holds(ratio float64) bool { return 1-b.down <= ratio && ratio <= 1+b.up }

func (b band) note(ratio float64) string {
	if !b.holds(ratio) {
		return ""
	}
	return fmt.Sprintf(", within %.4g and %.4g", 1-b.down, 1+b.up)
}
