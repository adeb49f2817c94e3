package sim

import (
	"math"
	"testing"
	"time"
)

// Requests that take a second each come twice a second to one pod that serves one at a time: the
// k-th comes at k/2, is answered at k + 1/2, and so takes (k + 1)/2 seconds.
func TestLateRequestsAreCountedWhetherAnsweredOrNot(t *testing.T) {
	cfg := small(0)
	w := &cfg.Workloads[0]
	w.Quota, w.Concurrency, w.Demand = 1000, 1, Demand{Mean: time.Second}
	w.Load = Load{Kind: Open, Even: true, Level: Flat(2)}
	w.LatencyGoal = 3200 * time.Millisecond
	s := live(t, cfg, 2*time.Minute).Scores()[0]

	over := 0.0
	for k := 6; k <= 119; k++ {
		over += float64(k+1)/2 - 3.2
	}
	for k := 120; k <= 233; k++ {
		over += 120 - float64(k)/2 - 3.2
	}
	if late := s.Requests - s.Failed - s.Good; late != 114 || s.Overdue != 114 || math.Abs(s.Over-over) > 1e-3 {
		t.Errorf("%d late, %d overdue, by %.3f s; want 114, 114, %.3f", late, s.Overdue, s.Over, over)
	}
	for i, want := range []Minute{{Requests: 59, Late: 54, Overdue: 54}, {Requests: 60, Late: 60, Overdue: 114}} {
		got := s.Minutes[i]
		if got.Requests != want.Requests || got.Late != want.Late || got.Overdue != want.Overdue {
			t.Errorf("minute %d: %d requests, %d late, %d overdue; want %d, %d, %d", i, got.Requests, got.Late, got.Overdue, want.Requests, want.Late, want.Overdue)
		}
	}
}
