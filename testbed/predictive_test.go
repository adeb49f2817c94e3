package testbed

import (
	"slices"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// On a ramp pods and machines have to be there in time.
func TestPredictiveIsInTimeForARamp(t *testing.T) {
	r := must.Get(Run(t.Context(), profiledExperiment(t), Options{Scenarios: []string{"ramp"}, Policies: []string{"hpa", "predictive"}, Trials: 2}))(t)
	over, cost := map[string]float64{}, map[string]float64{}
	for i := range r.Runs {
		over[r.Runs[i].Policy] += float64(r.Runs[i].SLOViolationMinutes)
		cost[r.Runs[i].Policy] += float64(r.Runs[i].CostUnits)
	}
	if over["predictive"] > over["hpa"] || cost["predictive"] > 1.02*cost["hpa"] {
		t.Errorf("predictive is over the objective for %v minutes at %v units, the HPA for %v at %v", over["predictive"], cost["predictive"], over["hpa"], cost["hpa"])
	}
}

// While no one knows what comes, a load that falls shrinks nothing.
func TestPredictiveShrinksNothingWithoutMetrics(t *testing.T) {
	const from, to = 17 * time.Minute, 27 * time.Minute
	e := profiledExperiment(t)
	e.Path = true
	shrinks := func() bool {
		r := must.Get(Run(t.Context(), e, Options{Scenarios: []string{"sine"}, Policies: []string{"predictive"}, Trials: 1}))(t)
		last := 0
		return slices.ContainsFunc(r.Runs[0].Path, func(m Moment) bool {
			fewer := m.Replicas < last
			last = m.Replicas
			return fewer && float64(m.Seconds) > from.Seconds() && float64(m.Seconds) < to.Seconds()
		})
	}
	if !shrinks() {
		t.Error("with metrics nothing is shrunk either: this test says nothing")
	}
	e.Faults = []Fault{{At: from, Kind: sim.MetricsVanish, For: to - from}}
	if shrinks() {
		t.Error("with the metrics gone replicas were taken away")
	}
}
