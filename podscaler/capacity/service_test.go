package capacity_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
)

// truth is a service as it is, which another is to learn.
type truth struct{ demand, quota, alone, bend float64 }

// at is what is measured of it where so many pods answer so many requests a second.
func (c truth) at(rate, pods float64) capacity.Seen {
	work := rate * c.demand
	x := (work/c.quota + 0.7) / pods
	return capacity.Seen{
		Arrivals: rate, Completions: rate, CPU: work, Pods: pods, Busiest: work / pods, InFlight: pods,
		Latency: c.alone * math.Pow(1-x, -c.bend), Whole: true, Steady: true,
	}
}

// ceiling is the load at which its response times are at the objective of 300 ms.
func (c truth) ceiling() float64 { return 1 - math.Pow(c.alone/0.3, 1/c.bend) }

func TestDemandIsWhatPodsUseForWhatTheyAnswer(t *testing.T) {
	s := capacity.NewService(0.5, 0.3)
	if _, known := s.Demand(); known || s.Measured() {
		t.Error("knows the demand before anything was seen")
	}
	for range 20 {
		s.See(truth{demand: 0.05, quota: 0.5, alone: 0.12, bend: 0.5}.at(40, 6))
	}
	if d, known := s.Demand(); !known || !s.Measured() || math.Abs(d-0.05) > 1e-9 {
		t.Errorf("the demand is %v (known %v), should be 0.05", d, known)
	}
	// Another release takes twice as long: after some minutes that is what is known.
	for range 180 {
		s.See(truth{demand: 0.1, quota: 0.5, alone: 0.2, bend: 0.5}.at(20, 6))
	}
	if d, _ := s.Demand(); d < 0.09 || d > 0.1 {
		t.Errorf("the demand is %v, should have come near 0.1", d)
	}
}

func TestQuotaIsWhatFullPodsUse(t *testing.T) {
	s := capacity.NewService(0.6, 0.3)
	s.See(capacity.Seen{Pods: 3, Busiest: 0.2, InFlight: 2, Latency: 0.1})
	if got := s.Quota(); got != 0.6 {
		t.Errorf("pods with little to do make the quota %v, should leave it at the request, 0.6", got)
	}
	for range 20 {
		s.See(capacity.Seen{Pods: 3, Busiest: 0.5, InFlight: 60, Latency: 2, Queued: true, Full: true})
	}
	if got := s.Quota(); math.Abs(got-0.5) > 0.01 {
		t.Errorf("full pods that use 0.5 make the quota %v", got)
	}
	short := capacity.Seen{Pods: 3, Busiest: 0.4, InFlight: 60, Latency: 2, Full: true}
	for range 5 {
		s.See(short)
	}
	if s.Quota() < 0.499 {
		t.Errorf("pods that were full for a moment make the quota %v, and nothing has been learnt of response times", s.Quota())
	}
	for range 20 {
		s.See(truth{demand: 0.05, quota: 0.5, alone: 0.12, bend: 0.5}.at(40, 8))
	}
	for range 40 {
		s.See(short)
	}
	if got := s.Quota(); math.Abs(got-0.4) > 0.02 {
		t.Errorf("pods that are full for moments and use 0.4 make the quota %v", got)
	}
	s.See(capacity.Seen{Pods: 3, Busiest: 1.3, InFlight: 2, Latency: 0.1})
	if got := s.Quota(); got != 1.3 {
		t.Errorf("a pod that uses 1.3 makes the quota %v", got)
	}
}

// A pod on an idle node once used eight times what it requests. Later all that there is on full
// nodes is a little more than that.
func TestABurstIsBelievedNoLongerThanItLasts(t *testing.T) {
	const request, burst = 0.5, 4.0
	for _, c := range []struct {
		name string
		seen capacity.Seen
		runs int
		want float64
	}{
		{"full nodes, requests counted", capacity.Seen{Busiest: 0.6, InFlight: 60, Latency: 2, Queued: true, Full: true, Counted: true}, 20, 0.6},
		{"full nodes, requests not counted", capacity.Seen{Busiest: 0.6, InFlight: 60, Latency: 2, Queued: true}, 20, 0.6},
		{"samples from before the queue say nothing below the request", capacity.Seen{Busiest: 0.3, InFlight: 60, Latency: 2, Queued: true}, 60, request},
		{"what waits for something else uses little", capacity.Seen{Busiest: 0.2, InFlight: 60, Latency: 2, Queued: true, Full: true, Counted: true}, 60, burst},
		{"the objective holds", capacity.Seen{Busiest: 0.6, InFlight: 60, Latency: 0.1, Queued: true, Full: true, Counted: true}, 60, burst},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := capacity.NewService(request, 0.3)
			for range 100 {
				s.See(capacity.Seen{Pods: 2, Busiest: request, InFlight: 60, Latency: 2, Queued: true, Full: true, Counted: true})
			}
			s.See(capacity.Seen{Pods: 2, Busiest: burst, InFlight: 2, Latency: 0.1, Counted: true})
			if s.Quota() != burst {
				t.Fatalf("the burst makes the quota %v, should be believed at once", s.Quota())
			}
			c.seen.Pods, c.seen.Request = 2, request
			for range c.runs {
				s.See(c.seen)
			}
			if got := s.Quota(); math.Abs(got-c.want) > 0.4*c.want {
				t.Errorf("the quota is %v after %d runs, should be near %v", got, c.runs, c.want)
			}
			if waits := s.Waits(&c.seen); waits != (c.seen.Full && c.seen.Busiest == 0.2) {
				t.Errorf("waits for something else: %v", waits)
			}
		})
	}
}

// Pods that request another amount may use another, and those that carried the load before are as
// many as carry it.
func TestAnotherRequestIsAnotherQuota(t *testing.T) {
	for _, c := range []struct {
		name           string
		quota, request float64 // of pods that requested 0.5
		want           float64
	}{
		{"as many", 0.5, 0.5, 0.5},
		{"four times as many", 0.5, 2, 2},
		{"a quarter", 0.5, 0.125, 0.125},
		{"of which pods could use a part", 0.4, 2, 1.6},
		{"of which they could use more", 1.5, 2, 2},
		{"fewer, of which they could use more", 1.5, 0.25, 0.25},
		{"more of which they could", 1.5, 0.5, 1.5},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := capacity.NewService(0.5, 0.3)
			is := truth{demand: 0.05, quota: c.quota, alone: 0.15, bend: 0.5}
			s.See(capacity.Seen{Pods: 8, Busiest: c.quota, InFlight: 1, Latency: 0.1, Request: 0.5})
			for range 40 {
				s.See(capacity.Seen{Pods: 8, Busiest: c.quota, InFlight: 60, Latency: 2, Queued: true, Full: true, Request: 0.5})
			}
			for range 200 {
				seen := is.at(60, 3.5/c.quota)
				seen.Request = 0.5
				s.See(seen)
			}
			cores := s.Pods(3, s.Ceiling(1)) * s.Quota()
			seen := capacity.Seen{Pods: 8, Request: c.request}
			s.See(seen)
			if got := s.Quota(); math.Abs(got-c.want) > 0.02*c.want {
				t.Errorf("the quota is %.3g, should be %.3g", got, c.want)
			}
			if got := s.Pods(3, s.Ceiling(1)) * s.Quota(); got < cores*0.9 {
				t.Errorf("it takes %.3g cores of pods, and took %.3g before", got, cores)
			}
			for range 100 {
				s.See(capacity.Seen{Pods: 8, Busiest: 0.9 * c.want, InFlight: 60, Latency: 2, Queued: true, Full: true, Request: c.request})
			}
			if got := s.Quota(); math.Abs(got-0.9*c.want) > 0.02*c.want {
				t.Errorf("the quota is %.3g once full pods use %.3g", got, 0.9*c.want)
			}
		})
	}
}

// Pods that turn out to have less than they request were fuller than estimated while the curve was
// learnt, and held the objective that full. They still carry the load that they carried, even if
// idle pods were seen since.
func TestAnotherQuotaLeavesWhatWasLearntOfResponseTimes(t *testing.T) {
	for _, c := range []struct {
		name  string
		quota float64
		idle  int // looks at idle pods
		most  float64
	}{{"less", 0.5, 0, 8.2}, {"more", 0.8, 0, 8.2}, {"less, after a quiet minute", 0.5, 12, 8.2}, {"more, after one", 0.8, 12, 8.2}, {"far less, at which it did not hold", 0.35, 0, 11}} {
		t.Run(c.name, func(t *testing.T) {
			s := capacity.NewService(0.6, 0.3)
			is := truth{demand: 0.05, quota: 0.6, alone: 0.15, bend: 0.5}
			seen := is.at(60, 8)
			seen.Latency, seen.Busiest = 0.2999, 0
			for range 200 {
				s.See(seen)
			}
			for range c.idle {
				s.See(is.at(4, 8))
			}
			before := s.Pods(3, s.Ceiling(1))
			for range 40 {
				s.See(capacity.Seen{Pods: 8, Busiest: c.quota, InFlight: 60, Latency: 2, Queued: true, Full: true})
			}
			if after := s.Pods(3, s.Ceiling(1)); math.Abs(s.Quota()-c.quota) > 0.01 || math.Abs(before-8) > 0.2 || !(7.8 <= after && after <= c.most) {
				t.Errorf("8 pods just held the objective; of %.2g cores each it takes %.2f by what was learnt, of %.2g it takes %.2f", 0.6, before, s.Quota(), after)
			}
		})
	}
}

// However its curve bends: a service that is run at the ceiling that was learnt comes to rest where
// the objective just holds.
func TestCeilingComesToRestWhereTheObjectiveHolds(t *testing.T) {
	for name, c := range map[string]truth{
		"as believed":      {0.05, 0.5, 0.13, 0.4},
		"sharper":          {0.05, 0.5, 0.12, 0.6},
		"random balancing": {0.05, 0.5, 0.14, 1},
		"quick":            {0.02, 0.5, 0.06, 0.5},
		"slow":             {0.1, 0.5, 0.2, 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			s := capacity.NewService(0.5, 0.3)
			const rate = 400.0
			for range 400 {
				s.See(c.at(rate, s.Pods(rate*c.demand, s.Ceiling(1))))
			}
			want := min(c.ceiling(), 0.93)
			if got := s.Ceiling(1); math.Abs(got-want) > 0.03 {
				t.Errorf("the ceiling is %.3f, should be %.3f", got, want)
			}
			if s.Miss() > 0.1 {
				t.Errorf("at rest the curve is off by %.2f", s.Miss())
			}
		})
	}
}

// Slow answers of a few minutes may push the ceiling down to where it is lowest: measured late,
// they are held against pods that have long come to help. Pods are all but idle there, and what
// they answer is all there is to learn from.
func TestACeilingThatWasPushedDownComesBackWhilePodsAreIdle(t *testing.T) {
	c := truth{0.05, 0.5, 0.13, 0.4}
	s := capacity.NewService(0.5, 0.3)
	for range 40 {
		slow := c.at(40, 24)
		slow.Latency = 0.9
		s.See(slow)
	}
	if got := s.Ceiling(1); got > 0.21 {
		t.Fatalf("the ceiling is %v after answers of three times the objective, should be as low as it goes", got)
	}
	const rate = 40.0
	for range 360 { // half an hour
		s.See(c.at(rate, s.Pods(rate*c.demand, s.Ceiling(1))))
	}
	if got := s.Ceiling(1); got < c.ceiling()-0.15 {
		t.Errorf("the ceiling is %v half an hour later, should have come near %v", got, c.ceiling())
	}
}

// Response times of idle pods waver, and those of a whole night must not make the pods of the day
// fewer or more.
func TestIdlePodsTellLittleOfTheCeiling(t *testing.T) {
	c := truth{0.05, 0.5, 0.13, 0.4}
	s := capacity.NewService(0.5, 0.3)
	for range 200 {
		s.See(c.at(55, 8))
	}
	before := s.Ceiling(1)
	for i := range 300 {
		seen := c.at(3, 8)
		seen.Latency *= []float64{0.75, 1.25, 0.9, 1.2, 1}[i%5]
		s.See(seen)
	}
	if got := s.Ceiling(1); math.Abs(got-before) > 0.03 {
		t.Errorf("idle pods moved the ceiling from %v to %v", before, got)
	}
}

func TestAQueueTeachesNothingOfTheCurve(t *testing.T) {
	s := capacity.NewService(0.5, 0.3)
	was := s.Ceiling(1)
	for range 50 {
		s.See(capacity.Seen{Arrivals: 30, Completions: 30, CPU: 1.5, Pods: 3, Busiest: 0.5, InFlight: 90, Latency: 3, Whole: true, Queued: true, Full: true})
	}
	if got := s.Ceiling(1); got != was {
		t.Errorf("a queue moved the ceiling from %.3f to %.3f", was, got)
	}
}

// By any measurement: what is learnt is a number, the ceiling lies in its bounds, and more work
// never needs fewer pods.
func TestWhateverIsSeenTheModelStaysSound(t *testing.T) {
	any := func(t *rapid.T, name string) float64 {
		return rapid.OneOf(rapid.Float64Range(0, 100), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, math.MaxFloat64, 1e-300})).Draw(t, name)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := capacity.NewService(0.5, 0.3)
		for range rapid.IntRange(1, 20).Draw(t, "sights") {
			s.See(capacity.Seen{
				Arrivals: any(t, "arrivals"), Completions: any(t, "completions"), InFlight: any(t, "in flight"), CPU: any(t, "cpu"),
				Pods: any(t, "pods"), Busiest: any(t, "busiest"), Latency: any(t, "latency"),
				Whole: rapid.Bool().Draw(t, "whole"), Steady: rapid.Bool().Draw(t, "steady"), Queued: rapid.Bool().Draw(t, "queued"), Full: rapid.Bool().Draw(t, "full"),
			})
		}
		demand, _ := s.Demand()
		for _, v := range []float64{demand, s.Quota(), s.Miss(), s.Confidence()} {
			if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
				t.Fatalf("learnt %v", v)
			}
		}
		c := s.Ceiling(rapid.Float64Range(0.1, 1).Draw(t, "part"))
		if !(0.2 <= c && c <= 0.93) {
			t.Fatalf("the ceiling is %v", c)
		}
		if s.Pods(2, c) < s.Pods(1, c) {
			t.Fatal("more work needs fewer pods")
		}
	})
}
