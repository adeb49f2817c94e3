package testbed

import (
	"math"

	"github.com/plimsoll/plimsoll/testbed/sim"
)

// lateness adds up what came of the requests of all services of a run. A request is judged once
// it was answered, has failed, or is overdue: sent longer ago than its target, and not answered by
// the end. Without the overdue ones, a policy whose queue outlives the run would look better.
type lateness struct {
	judged, late, failed int
	over                 float64  // seconds
	minutes              []Minute // of all services together
}

func (l *lateness) add(s *sim.Score) {
	l.judged += s.Requests + s.Overdue
	l.late += s.Requests - s.Failed - s.Good + s.Overdue
	l.failed += s.Failed
	l.over += s.Over
	for i := range s.Minutes {
		if i == len(l.minutes) {
			l.minutes = append(l.minutes, Minute{})
		}
		m, into := &s.Minutes[i], &l.minutes[i]
		into.Requests += m.Requests + m.Overdue
		into.Late += m.Late + m.Overdue
	}
}

// put fills in the scores. Without any request there is nothing to be known of them.
func (l *lateness) put(into *Trial) {
	into.Lateness(l.late, l.failed, l.judged)
	into.Each(l.minutes)
	into.OverMinutes = Rounded(l.over / 60)
}

// Each fills in the requests of each minute, and the worst of them.
func (r *Trial) Each(minutes []Minute) {
	worst := math.NaN()
	for _, m := range minutes {
		if m.Requests > 0 {
			worst = max(share(m.Late, m.Requests), zero(worst))
		}
	}
	r.WorstMinute, r.Minutes = Rounded(worst), minutes
}

// Lateness fills in the parts of the requests that were late and that failed. What counts cannot
// say is unknown.
func (r *Trial) Lateness(late, failed, judged int) {
	unknown := Number(math.NaN())
	r.LateShare, r.FailedShare = Rounded(share(late, judged)), Rounded(share(failed, judged))
	r.WorstMinute, r.OverMinutes = unknown, unknown
}

func share(part, of int) float64 { return float64(part) / float64(of) }

func zero(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}
