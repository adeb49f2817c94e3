package testbed

import (
	"math"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
)

// Telling is what a run's steps say of it.
type Telling struct {
	// Decisions counts the changes of replicas that were decided.
	Decisions int
	// Machines is when machines were ordered or returned, since the start.
	Machines []time.Duration
	// Counts is how many machines there were or were on their way, spares omitted, whenever that
	// changed.
	Counts []Count

	// The times that a policy was asked, that it said that its model was off, and that it was not
	// sure of it.
	asked, off, unsure int
}

// Hear takes in a step at a time after the start.
func (t *Telling) Hear(s *loop.Step, at time.Duration) {
	t.see(s, at)
	for i := range s.Workloads {
		d := s.Workloads[i].Decision
		if d == nil {
			continue
		}
		t.asked++
		if d.To != d.From {
			t.Decisions++
		}
		if says(d, podscaler.ReasonModelOff) {
			t.off++
		}
		if says(d, podscaler.ReasonModelUncertain) {
			t.unsure++
		}
	}
	for _, o := range s.Outcomes {
		if o.Error != "" || o.Held != nil || o.Action < 0 {
			continue
		}
		if k := s.Plan.Actions[o.Action].Kind; k == nodescaler.Buy || k == nodescaler.Return || k == nodescaler.Stash || k == nodescaler.Wake {
			t.Machines = append(t.Machines, at)
		}
	}
}

// see counts the machines that the step saw. What the first step sees was there from the start.
func (t *Telling) see(s *loop.Step, at time.Duration) {
	c := Count{Seconds: Rounded(at.Seconds())}
	for phase, n := range s.Observed.Machines {
		if phase != nodescaler.Spare {
			c.Machines += n
		}
	}
	if len(t.Counts) == 0 {
		c.Seconds = 0
	} else if t.Counts[len(t.Counts)-1].Machines == c.Machines {
		return
	}
	t.Counts = append(t.Counts, c)
}

// counts are those to the end of a run of that length.
func (t *Telling) counts(length time.Duration) []Count {
	if len(t.Counts) == 0 {
		return nil
	}
	return append(slices.Clone(t.Counts), Count{Rounded(length.Seconds()), t.Counts[len(t.Counts)-1].Machines})
}

// ModelOff is the part of the times that a policy was asked in which it said that its model was
// off.
func (t *Telling) ModelOff() Number { return t.part(t.off) }

// ModelUnsure is the part of the times that a policy was asked in which it was not sure of its
// model yet.
func (t *Telling) ModelUnsure() Number { return t.part(t.unsure) }

func (t *Telling) part(times int) Number {
	if t.asked == 0 {
		return Number(math.NaN())
	}
	return Rounded(float64(times) / float64(t.asked))
}

func says(d *podscaler.Decision, code string) bool {
	return slices.ContainsFunc(d.Reasons, func(r podscaler.Reason) bool { return r.Code == code })
}
