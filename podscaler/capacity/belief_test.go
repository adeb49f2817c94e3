package capacity_test

import (
	"math"
	"testing"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
)

// sharing is a service of which so many sights were had, of requests of 50 ms on pods of half a core.
func sharing(sights int) *capacity.Service {
	s := capacity.NewService(0.5, 0.3)
	for range sights {
		s.See(truth{demand: 0.05, quota: 0.5, alone: 0.12, bend: 0.5}.at(40, 8))
	}
	return s
}

// Of pods that share their CPU among requests of one size response times are known before any was seen.
func TestSlownessIsAgainstPodsThatShareTheirCPU(t *testing.T) {
	as := truth{demand: 0.05, quota: 0.5, alone: 0.115, bend: 0.6}
	slower := as
	slower.alone *= 1.8
	short := as
	short.alone /= 4
	queue, moving := as.at(40, 8), as.at(40, 8)
	queue.Queued, moving.Steady = true, false
	unmeasured := as.at(40, 8)
	unmeasured.Latency = math.NaN()
	for _, c := range []struct {
		name   string
		sights int
		seen   capacity.Seen
		want   float64 // NaN is not known
	}{
		{"as believed", 20, as.at(40, 8), 1},
		{"as believed, with more load", 20, as.at(50, 8), 1},
		{"slower", 20, slower.at(40, 8), 1.8},
		{"before it is known what requests take", 5, as.at(40, 8), math.NaN()},
		{"of a queue", 20, queue, math.NaN()},
		{"while the load changes", 20, moving, math.NaN()},
		{"of idle pods", 20, slower.at(5, 8), math.NaN()},
		{"of full ones", 20, as.at(70, 8), math.NaN()},
		{"where they are far below the objective", 20, short.at(40, 8), math.NaN()},
		{"where they are not measured", 20, unmeasured, math.NaN()},
		{"of no pods", 20, capacity.Seen{Steady: true, Latency: 1}, math.NaN()},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, known := sharing(c.sights).Slowness(&c.seen, 0.9)
			if known != !math.IsNaN(c.want) || known && math.Abs(got-c.want) > 1e-6 {
				t.Errorf("response times are %.3f times those of pods that share (known %v), should be %.3f", got, known, c.want)
			}
		})
	}
}

// What sharing adds grows with the quantile: half of the requests wait for less than a third of what nine in ten do, and
// the hundredth that waits longest for twice as long.
func TestSlownessIsByTheQuantile(t *testing.T) {
	as := truth{demand: 0.05, quota: 0.5, alone: 0.115, bend: 0.6}.at(40, 8)
	added := as.Latency - 0.115
	for q, part := range map[float64]float64{0.5: math.Log10(2), 0.9: 1, 0.99: 2} {
		seen := as
		seen.Latency = 0.115 + part*added
		if got, known := sharing(20).Slowness(&seen, q); !known || math.Abs(got-1) > 1e-6 {
			t.Errorf("by the quantile %v response times are %.3f times those of pods that share (known %v), should be as theirs", q, got, known)
		}
	}
	for _, q := range []float64{0, 1, math.NaN()} {
		if got, known := sharing(20).Slowness(&as, q); known {
			t.Errorf("by the quantile %v they are %v times those of pods that share", q, got)
		}
	}
}

func TestWhatFullPodsUseIsKnownOnceEnoughWereFull(t *testing.T) {
	s := sharing(20)
	if got, known := s.Full(); known {
		t.Errorf("full pods are taken to use %v, and none was seen", got)
	}
	for range 19 {
		s.See(capacity.Seen{Pods: 3, Busiest: 0.3, InFlight: 60, Latency: 2, Queued: true, Full: true})
	}
	if got, known := s.Full(); !known || math.Abs(got-0.31) > 0.01 {
		t.Errorf("full pods are taken to use %.3f (known %v), and use 0.3", got, known)
	}
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
