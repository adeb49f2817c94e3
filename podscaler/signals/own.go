package signals

import (
	"fmt"
	"math"

	"github.com/prometheus/common/model"

	"github.com/plimsoll/plimsoll/podscaler"
)

// ownQuery is a query that an owner wrote, and the signals that it is for.
type ownQuery struct {
	request
	endpoint *endpoint
	uses     []use
	refused  error // why it is not sent
}

// use is one workload's signal or metric.
type use struct {
	workload, signal, perPod, perVersion string
}

// measure asks the owner's query, and has the answer read for all who asked it.
func (q *ownQuery) measure(r *round) func() {
	a := &answer{code: CodeMetricsUnknown, err: q.refused}
	if q.refused == nil {
		a = r.query(q.endpoint, &q.request)
	}
	return func() {
		for _, u := range q.uses {
			u.take(r.measured[u.workload], a)
		}
	}
}

// take reads an answer as a number, or as one for each pod.
func (u use) take(m *measurement, a *answer) {
	if a.warnings != "" {
		m.miss(u.signal)
		m.note(CodeMetricsPartial, u.signal, "the answer came with a warning")
	}
	switch {
	case a.err != nil:
		m.failed(a.code, u.signal, a.err)
	case u.perPod != "":
		u.takePods(m, a)
	case len(a.vector) == 0:
		m.unknown(CodeMetricsUnknown, u.signal, "the query returned nothing")
	case u.perVersion != "":
		u.takeVersions(m, a)
	case len(a.vector) > 1:
		m.unknown(CodeManySeries, u.signal, fmt.Sprintf("the query returned %d series, must be one", len(a.vector)))
	default:
		u.takeOne(m, a)
	}
}

func (u use) takeOne(m *measurement, a *answer) {
	if a.vector[0].Histogram != nil {
		m.unknown(CodeMetricsUnknown, u.signal, "the query returned a histogram, must be a number")
		return
	}
	v := float64(a.vector[0].Value)
	switch why := nonsense(u.signal, v); {
	case why == "":
		m.reading(u.signal, podscaler.Known(v))
	case math.IsNaN(v) && (u.signal == latency || u.signal == good || u.signal == errorRate):
		m.silent = append(m.silent, finding{code: CodeMetricsUnknown, why: why, signals: []string{u.signal}})
	default:
		m.unknown(CodeMetricsUnknown, u.signal, why)
	}
}

// takePods reads one number for each pod. A pod without a number is one that was not measured.
func (u use) takePods(m *measurement, a *answer) {
	pods := map[string]float64{}
	for _, s := range a.vector {
		pod := string(s.Metric[model.LabelName(u.perPod)])
		if _, twice := pods[pod]; twice || pod == "" {
			why := fmt.Sprintf("the query returned several series for pod %s, must be one", pod)
			if pod == "" {
				why = fmt.Sprintf("the query returned a series without the label %s, which is to name its pod", u.perPod)
			}
			m.gap = true
			m.note(CodeManySeries, u.signal, why)
			m.metric(u.signal, podscaler.Metric{Why: why})
			return
		}
		if v := float64(s.Value); s.Histogram == nil && podscaler.Known(v).Known {
			pods[pod] = v
		}
	}
	if len(pods) == 0 {
		m.unknown(CodeMetricsUnknown, u.signal, "the query returned no number for any pod")
		return
	}
	m.metric(u.signal, podscaler.Metric{PerPod: pods})
}

// takeVersions reads a number of instances for each version.
func (u use) takeVersions(m *measurement, a *answer) {
	var g registered
	for _, s := range a.vector {
		version := string(s.Metric[model.LabelName(u.perVersion)])
		switch why := nonsense(registration, float64(s.Value)); {
		case s.Histogram != nil:
			m.unknown(CodeMetricsUnknown, registration, "the query returned a histogram, must be a number")
			return
		case why != "":
			m.unknown(CodeMetricsUnknown, registration, why)
			return
		case g.versions[version] > 0:
			m.unknown(CodeManySeries, registration, fmt.Sprintf("the query returned several series for version %q, must be one", version))
			return
		}
		g.count += int(s.Value)
		g.add(version, int(s.Value))
	}
	m.registered(g)
}
