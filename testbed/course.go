package testbed

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/testbed/sim"
)

// Course is how many replicas a workload was asked to have in a run.
type Course struct {
	Start, Most int // at the start, and the most that were allowed
	Changes     []sim.Change
}

// Follow puts the courses of its workloads and the steps of its machines into the run of that
// length. The run's totals are in it already.
func (r *Trial) Follow(e *Experiment, courses []Course, told *Telling, length time.Duration) {
	for i := range courses {
		c := &courses[i]
		r.Thrash += Thrash(c.Start, c.Changes)
		for _, change := range c.Changes {
			switch {
			case change.To > change.From:
				r.Growths++
				r.ReplicasAdded += change.To - change.From
			case change.To < change.From:
				r.Shrinks++
			}
		}
		r.MaxReplicasMinutes = max(r.MaxReplicasMinutes, c.full()) // unknown if one is
	}
	r.UpheavalPerHour = Rounded(float64(r.PodMoves+r.Orders) / length.Hours())
	all := together(courses, length)
	r.SpanReplicaMinutes, r.SpanChanges = Number(math.NaN()), Number(math.NaN())
	if s := e.Span; s != nil && s.Max <= length {
		r.SpanReplicaMinutes = replicaMinutes(all, s.Min, s.Max)
		r.SpanChanges = Number(changesIn(s, courses, told.Machines))
	}
	r.Path, r.Machines = all, told.counts(length)
}

// changesIn counts the changes of replicas, and the machines that were ordered or returned, in a
// span.
func changesIn(span *Range, courses []Course, machines []time.Duration) int {
	n := 0
	count := func(at time.Duration) {
		if at >= span.Min && at < span.Max {
			n++
		}
	}
	for i := range courses {
		for _, c := range courses[i].Changes {
			if c.To != c.From {
				count(c.At)
			}
		}
	}
	for _, at := range machines {
		count(at)
	}
	return n
}

// full is how many minutes it took until all replicas were asked for that are allowed.
func (c *Course) full() Number {
	if c.Start >= c.Most {
		return 0
	}
	for _, change := range c.Changes {
		if change.To >= c.Most {
			return Rounded(change.At.Minutes())
		}
	}
	return Number(math.NaN())
}

// together is how many replicas all workloads together were asked to have, to the end of the run.
func together(courses []Course, length time.Duration) []Moment {
	out := []Moment{{}}
	var changes []sim.Change
	for _, c := range courses {
		out[0].Replicas += c.Start
		changes = append(changes, c.Changes...)
	}
	slices.SortStableFunc(changes, func(a, b sim.Change) int { return cmp.Compare(a.At, b.At) })
	for _, c := range append(changes, sim.Change{At: length}) {
		last := &out[len(out)-1]
		next := Moment{Rounded(c.At.Seconds()), last.Replicas + c.To - c.From}
		if next.Seconds == last.Seconds {
			*last = next
		} else {
			out = append(out, next)
		}
	}
	return out
}

// replicaMinutes is the time of all replicas of a path from one time to another.
func replicaMinutes(path []Moment, from, to time.Duration) Number {
	sum := 0.0
	for i, m := range path {
		end := to.Seconds()
		if i+1 < len(path) {
			end = min(end, float64(path[i+1].Seconds))
		}
		sum += float64(m.Replicas) * max(0, end-max(from.Seconds(), float64(m.Seconds))) / 60
	}
	return Rounded(sum)
}
