package capacity_test

import (
	"math"
	"testing"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
)

// sharing is a service of which so many sights were had, of requests of 50 ms on pods of half a
// core.
func sharing(sights int) *capacity.Service {
	s := capacity.NewService(0.5, 0.3)
	for range sights {
		s.See(truth{demand: 0.05, quota: 0.5, alone: 0.12, bend: 0.5}.at(40, 8))
	}
	return s
}

func TestARequestAloneTakesItsCPUAtTheSpeedOfItsPod(t *testing.T) {
	if got := sharing(20).Alone(); math.Abs(got-0.1) > 1e-9 {
		t.Errorf("50 ms on half a core take %v s, should take 0.1", got)
	}
	wide := capacity.NewService(4, 0.3)
	for range 20 {
		wide.See(truth{demand: 0.08, quota: 4, alone: 0.08, bend: 0.5}.at(40, 8))
	}
	if got := wide.Alone(); math.Abs(got-0.08) > 1e-9 {
		t.Errorf("80 ms on a pod of four cores take %v s, should take 0.08: a request works on one at a time", got)
	}
	if got := sharing(0).Alone(); got != 0 {
		t.Errorf("a request of which nothing is known takes %v s", got)
	}
}
