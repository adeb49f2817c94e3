package policy

import (
	"fmt"
	"math"
	"strconv"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// sum is what some pods use together, and what they request of it where the target is a part of
// that, in thousandths.
type sum struct {
	pods        int
	used, asked float64
}

func (s sum) plus(o sum) sum { return sum{s.pods + o.pods, s.used + o.used, s.asked + o.asked} }

// byPod compares the mean over the pods with its target. Pods without a sample count as using
// all they should on the way down and nothing on the way up; pods that are not ready count as
// using nothing on the way up. What then would turn round, or be within the tolerance, stays.
func (h *hpa) byPod(v *podscaler.View, m *Metric, of samples) (int, podscaler.Reason) {
	by, why := h.sums(v, m, of)
	now := by[ready]
	switch {
	case now.pods == 0:
		return -1, failed(m.Type, m.title(), noSample(v.Pods, m.Container))
	case why != "":
		return -1, failed(m.Type, m.title(), why)
	case m.AverageUtilization > 0 && now.asked <= 0:
		return -1, failed(m.Type, m.title(), fmt.Sprintf("the pods request no %s that it could be in percent of", m.Name))
	}
	band, before, late := bandOf(v, h.tolerance), m.ratio(now), sum{}
	absent := by[missing]
	switch {
	case before < 1:
		now = now.plus(absent)
	case before > 1:
		late = by[unready]
		now = now.plus(sum{pods: absent.pods, asked: absent.asked}).plus(late)
	}
	filled, ratio, note := now.pods > by[ready].pods, m.ratio(now), ""
	want := whole32(ratio * float64(now.pods))
	turned := (before-1)*(ratio-1) < 0 || filled && (ratio-1)*float64(want-v.Replicas) < 0
	if turned || band.holds(ratio) {
		want = v.Replicas
	}
	if filled {
		note = fmt.Sprintf(" (%.4g before counting in %d without a sample and %d not ready)", before, absent.pods, late.pods)
	}
	return want, m.found("%s of %s over %d pods, ratio %.4g%s%s: %d wanted",
		m.print(m.usage(now)), m.print(m.target()), now.pods, ratio, note, band.note(ratio), want)
}

// sums adds up the pods by what their samples are worth. Those without one have what they count as
// on the way down. Where the target is a part of what pods request and one of them requests
// nothing, nothing is known of all of them, as the controller has it.
func (h *hpa) sums(v *podscaler.View, m *Metric, of samples) (by [worths]sum, why string) {
	rules := h.startup.over(v.Workload.Readiness)
	for i := range v.Pods {
		p, s := &v.Pods[i], sum{pods: 1}
		w, used := of.worth(p, &rules, v.Now)
		if s.used = used; m.AverageUtilization > 0 {
			asked, fault := m.asked(v.Workload, p)
			if fault != "" && why == "" {
				why = fault
			}
			s.asked = asked
		}
		if w == missing {
			s.used = m.full(s.asked)
		}
		by[w] = by[w].plus(s)
	}
	return by, why
}

// asked is what a pod requests of the metric's resource, in thousandths, or why that is not known.
// Where nothing is known of its containers it is what the workload's pods request.
func (m *Metric) asked(w *podscaler.Workload, p *podscaler.Pod) (thousandths float64, why string) {
	if p.Asks != nil {
		n, why := p.Asks.Of(p.Name, m.Name, m.Container)
		return float64(n), why
	}
	if m.Container != "" {
		return 0, "what the pods' containers request is not known"
	}
	n, _ := requestOf(w, m.Name)
	return float64(n), ""
}

// requestOf is what each of a workload's pods requests of a resource, in thousandths, if it is
// known here.
func requestOf(w *podscaler.Workload, resource string) (thousandths int64, known bool) {
	switch resource {
	case podscaler.ResourceCPU:
		return int64(w.Pod.CPU), true
	case podscaler.ResourceMemory:
		return int64(w.Pod.Memory) * 1000, true
	}
	return 0, false
}

// full is what a pod without a sample counts as on the way down.
func (m *Metric) full(asked float64) float64 {
	if m.AverageUtilization == 0 {
		return float64(m.AverageValue)
	}
	return float64(int64(asked) * int64(max(100, m.AverageUtilization)) / 100)
}

// target is in whole percent or thousandths.
func (m *Metric) target() float64 {
	if m.AverageUtilization > 0 {
		return float64(m.AverageUtilization)
	}
	return float64(m.AverageValue)
}

// usage is the mean in whole percent or thousandths. The controller cuts off what is below one,
// too; keeping it would act at 66.8 % where an HPA sees 66. It divides whole numbers, which floats
// would round where they are large, as those of bytes are.
func (m *Metric) usage(s sum) float64 {
	const most = math.MaxInt64 / 100 >> 1
	switch {
	case m.AverageUtilization == 0:
		return math.Trunc(s.used / float64(s.pods))
	case math.Abs(s.used) > most || s.asked > most:
		return math.Trunc(100 * s.used / s.asked)
	}
	return float64(100 * int64(s.used) / int64(s.asked))
}

func (m *Metric) ratio(s sum) float64 { return m.usage(s) / m.target() }

func (m *Metric) print(usage float64) string {
	if m.AverageUtilization > 0 {
		return strconv.FormatFloat(usage, 'f', -1, 64) + "%"
	}
	return printAmount(m.Type, m.Name, usage)
}

// printAmount prints thousandths as what they are of: as bytes where it is memory.
func printAmount(t MetricType, name string, thousandths float64) string {
	if !t.ofResource() || name != podscaler.ResourceMemory {
		return amount(thousandths).String()
	}
	bytes := pricing.Bytes(math.Round(thousandths / 1000))
	if bytes < 10*pricing.MiB {
		return bytes.String()
	}
	return bytes.Rounded()
}
