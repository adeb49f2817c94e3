package operator

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
)

// headroomReporter is a Cluster that writes what became of headroom into the objects that ask for
// it.
type headroomReporter interface {
	ReportHeadroom(ctx context.Context, states []nodescaler.HeadroomState) error
}

// reportHeadroom has what became of headroom written, where this process decides on machines.
func (t *term) reportHeadroom(ctx context.Context, s *loop.Step) {
	to, can := t.Cluster.(headroomReporter)
	if !can || !t.NodeScaler {
		return
	}
	if err := to.ReportHeadroom(ctx, s.Plan.Headroom); err != nil && t.Active {
		s.Problems = append(s.Problems, *because(CodeStatusNotWritten, "%v", err))
	}
}

// headroom shows how much of each headroom there is, and what it costs. What is not planned for in
// a step has no series.
func (m *Metrics) headroom(s *loop.Step) {
	if !planned(s) {
		return
	}
	m.roomPods.Reset()
	m.roomRate.Reset()
	for i := range s.Plan.Headroom {
		h := &s.Plan.Headroom[i]
		namespace, name := nodescaler.NamespaceOf(h.Name), h.Name[len(nodescaler.NamespaceOf(h.Name))+1:]
		for state, pods := range map[string]int{"wanted": h.Wanted, "ready": h.Ready, "coming": h.Coming} {
			m.roomPods.With(prometheus.Labels{"namespace": namespace, "name": name, "state": state}).Set(float64(pods))
		}
		m.roomRate.WithLabelValues(namespace, name, s.Observed.Cost.Unit).Set(h.Rate.Units())
	}
}
