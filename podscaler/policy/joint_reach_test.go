package policy

import (
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
)

// reached shows a service of pods of half a core and an objective of 300 ms, whose requests take so
// much CPU, and the latency that so full pods have of it, a minute at a time; and tells after how
// many the objective is given up, 0 if it is not.
func reached(r *reach, s *capacity.Service, from, minutes int, demand, load, latency float64) (givenUp int) {
	for i := range minutes {
		const pods = 20
		work := (load*pods - 0.7) * 0.5
		seen := capacity.Seen{
			Arrivals: work / demand, Completions: work / demand, CPU: work, Pods: pods, Busiest: 0.4, Latency: latency,
			Whole: true, Steady: true,
		}
		s.See(seen)
		if r.see(noon.Add(time.Duration(from+i)*time.Minute), s, &seen, min(float64(from+i), 1)); r.beyond && givenUp == 0 {
			givenUp = i + 1
		}
	}
	return givenUp
}

func TestAnObjectiveIsGivenUpWhereNothingHoldsIt(t *testing.T) {
	for _, c := range []struct {
		name                  string
		demand, load, latency float64
		want                  int // minutes until it is
	}{
		{"held", 0.05, 0.5, 0.25, 0},
		{"missed by full pods", 0.05, 0.7, 0.6, 0},
		{"missed by a tenth by pods that are all but idle", 0.05, 0.2, 0.33, 0},
		{"missed by far by those, as something else is slow", 0.05, 0.2, 0.5, 19},
		{"and by pods that are far from full", 0.05, 0.35, 0.5, 19},
		{"requests that take longer alone", 0.25, 0.6, 0.9, 10},
		{"of which most do not, for few are far larger", 0.25, 0.6, 0.2, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r reach
			if got := reached(&r, capacity.NewService(0.5, 0.3), 0, 60, c.demand, c.load, c.latency); got != c.want {
				t.Errorf("given up after %d minutes, want %d", got, c.want)
			}
		})
	}
}

func TestAnObjectiveThatWasGivenUpIsTriedForAgain(t *testing.T) {
	for _, c := range []struct {
		name                  string
		minutes               int
		demand, load, latency float64
		again                 bool
	}{
		{"nothing changes", 22 * 60, 0.25, 0.6, 0.9, false},
		{"for a day", 25 * 60, 0.25, 0.6, 0.9, true},
		{"requests take less", 90, 0.2, 0.5, 0.7, true},
		{"it is held at this load", 1, 0.25, 0.6, 0.29, true},
		{"it is all but held", 60, 0.25, 0.6, 0.31, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r reach
			s := capacity.NewService(0.5, 0.3)
			if reached(&r, s, 0, 60, 0.25, 0.6, 0.9); !r.beyond {
				t.Fatal("it was not given up")
			}
			again := false
			for i := range c.minutes {
				reached(&r, s, 60+i, 1, c.demand, c.load, c.latency)
				again = again || r.since.IsZero() || r.since.After(noon.Add(time.Hour))
			}
			if again != c.again {
				t.Errorf("tried for again: %v, want %v", again, c.again)
			}
		})
	}
}
