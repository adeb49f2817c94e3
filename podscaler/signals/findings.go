package signals

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/plimsoll/plimsoll/podscaler"
)

// The codes of findings. They are stable: people alert and match on them.
const (
	// CodeMetricsUnknown: a signal could not be measured.
	CodeMetricsUnknown = "MetricsUnknown"
	// CodeMetricsStale: what there is to measure by is too old, so the signals are unknown.
	CodeMetricsStale = "MetricsStale"
	// CodeMetricsPartial: signals were measured from a part of what there is: enough to grow by.
	CodeMetricsPartial = "MetricsPartial"
	// CodeManySeries: a query that is to give one number gave several, so the signal is unknown.
	CodeManySeries = "ManySeries"
	// CodeNoBucketEdge: no edge of the histogram is at the objective's target.
	CodeNoBucketEdge = "NoBucketEdge"
	// CodeFewScrapes: the window holds too few samples to measure a rate well.
	CodeFewScrapes = "FewScrapes"
	// CodeCostSourceMismatch: OpenCost and the price book disagree; the price book counts.
	CodeCostSourceMismatch = "CostSourceMismatch"
)

// measurement is what one Prepare found out of one workload.
type measurement struct {
	window podscaler.Window
	// gap says that something was to be measured and was not: the workload may not shrink
	// until it has been measured for a full window again.
	gap      bool
	findings []finding
	// putOff says that the turn of a part of it did not come.
	putOff bool
	// silent are the signals that speak of requests and had none to speak of.
	silent []finding
}

// finding is a condition of some signals. Its text has no number that changes while its cause does
// not, so that it is reported once.
type finding struct {
	code, why string
	signals   []string
}

// miss notes that a signal was not measured, or not all of it.
func (m *measurement) miss(signal string) { m.gap = m.gap || signal != errorRate }

// unknown records that a signal should have been measured and was not.
func (m *measurement) unknown(code, signal, why string) {
	m.miss(signal)
	m.reading(signal, podscaler.Reading{Why: why})
	m.note(code, signal, why)
}

// failed records what kept a signal from being measured. One whose turn did not come is not
// measured in this round, and what was measured before counts.
func (m *measurement) failed(code, signal string, err error) {
	if errors.Is(err, errPutOff) {
		m.putOff = true
	}
	m.unknown(code, signal, err.Error())
}

// note adds a finding, or a signal to one that is there.
func (m *measurement) note(code, signal, why string) {
	for i := range m.findings {
		if f := &m.findings[i]; f.code == code && f.why == why {
			f.signals = append(f.signals, signal)
			return
		}
	}
	m.findings = append(m.findings, finding{code: code, why: why, signals: []string{signal}})
}

// reading sets what is known of a signal; a name that is not one of ours is a further metric.
func (m *measurement) reading(signal string, r podscaler.Reading) {
	switch signal {
	case latency:
		m.window.Latency = r
	case good:
		m.window.Good = r
	case arrivals:
		m.window.Arrivals = r
	case inFlight:
		m.window.InFlight = r
	case registration:
		m.window.Registered = r
	case errorRate:
		m.window.Errors = r
	default:
		m.metric(signal, podscaler.Metric{Total: podscaler.Reading{Known: r.Known, Value: r.Value}, Why: r.Why})
	}
}

func (m *measurement) metric(name string, v podscaler.Metric) {
	if m.window.Metrics == nil {
		m.window.Metrics = map[string]podscaler.Metric{}
	}
	m.window.Metrics[name] = v
}

// settle decides what silence means. Where no requests are known to come, missing response times
// are no fault; where that is unknown, the measuring may have stopped.
func (m *measurement) settle(s *Source) {
	asked, known := m.window.Arrivals.Number()
	for _, f := range m.silent {
		switch signal := f.signals[0]; {
		case known && asked == 0:
			m.reading(signal, podscaler.Reading{Why: fmt.Sprintf("there was no request in %s", s.window())})
		default:
			m.unknown(f.code, signal, f.why)
		}
	}
	m.silent = nil
}

// reasons are the findings as reasons of a decision.
func (m *measurement) reasons() []podscaler.Reason {
	var all []podscaler.Reason
	for _, f := range m.findings {
		text := f.why
		if len(f.signals) > 0 && f.signals[0] != "" {
			text = fmt.Sprintf("%s: %s", strings.Join(f.signals, ", "), f.why)
		}
		all = append(all, podscaler.Reason{Code: f.code, Text: text})
	}
	return all
}

// nonsense says why a number cannot be the signal.
func nonsense(signal string, v float64) string {
	number := decimal(v)
	switch {
	case !podscaler.Known(v).Known:
		return fmt.Sprintf("the query returned %v, which is no measurement", v)
	case (signal == good || signal == errorRate) && (v < 0 || v > 1+1e-9):
		return "the query returned " + number + ", must be a fraction between 0 and 1"
	case signal == registration && (v < 0 || v > math.MaxInt32 || v != math.Trunc(v)):
		return "the query returned " + number + ", must be a number of instances"
	case (signal == latency || signal == arrivals || signal == inFlight) && v < 0:
		return "the query returned " + number + ", must be at least 0"
	}
	return ""
}
