package testbed

import (
	"math"
	"testing"

	"github.com/plimsoll/plimsoll/testbed/sim"
)

func TestScoresOfSeveralServicesAreOfAllTheirRequests(t *testing.T) {
	var l lateness
	l.add(&sim.Score{Requests: 60, Failed: 6, Good: 50, Overdue: 10, Over: 90, Minutes: []sim.Minute{{Requests: 40}, {Requests: 20, Failed: 6, Late: 4, Overdue: 10}}})
	l.add(&sim.Score{Requests: 30, Good: 30, Minutes: []sim.Minute{{Requests: 30}, {}, {}}})
	var got Trial
	l.put(&got)
	want := Trial{LateShare: 0.14, FailedShare: 0.06, WorstMinute: Rounded(14. / 30), OverMinutes: 1.5}
	if got.LateShare != want.LateShare || got.FailedShare != want.FailedShare || got.WorstMinute != want.WorstMinute || got.OverMinutes != want.OverMinutes {
		t.Errorf("got %+v, want %+v", got, want)
	}
	l, got = lateness{}, Trial{}
	if l.put(&got); !math.IsNaN(float64(got.LateShare)) || !math.IsNaN(float64(got.WorstMinute)) {
		t.Errorf("of no requests it is known that %v were late, %v in the worst minute", got.LateShare, got.WorstMinute)
	}
}

// Where nothing is overdue at the end, every request is in time, late or failed.
func TestRequestsAreInTimeOrLateOrFailed(t *testing.T) {
	for _, run := range mustRun(t, minimal(t, Options{}), Options{}).Runs {
		if sum := run.GoodFraction + run.LateShare + run.FailedShare; run.Unfinished == 0 && math.Abs(float64(sum)-1) > 2e-4 {
			t.Errorf("%s: %v in time, %v late, %v failed", run.Policy, run.GoodFraction, run.LateShare, run.FailedShare)
		}
		if run.WorstMinute < 0 || run.WorstMinute > 1 || (run.OverMinutes > 0) != (run.LateShare > 0) {
			t.Errorf("%s: worst minute %v, area %v, late %v", run.Policy, run.WorstMinute, run.OverMinutes, run.LateShare)
		}
	}
}
