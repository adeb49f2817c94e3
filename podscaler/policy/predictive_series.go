package policy

import (
	"cmp"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/forecast"
)

// series makes one value a period of readings that come at any time, each a mean over the time
// before it. Periods begin at whole multiples of their length, so that a restart cuts the time as
// before.
type series struct {
	length   time.Duration
	start    time.Time // of the period under way; zero before the first look
	readings []reading // that reach into it, oldest first
}

// reading is a mean over the span that ends at at.
type reading struct {
	at    time.Time
	span  time.Duration
	value float64
}

// longest is after how many periods without a look all is begun anew: what they were is unknown.
const longest = 2880

// look takes what is read now, if anything is, and returns the values of the periods that have
// ended since the last look, with NaN for those of which less than half was measured: they are
// gaps, and no zeros. Lost says that the time since is too long to be walked through, or that the
// clock was put back, and that what was learned has no connection with what comes.
func (s *series) look(now time.Time, r *reading) (ended []float64, lost bool) {
	if s.start.IsZero() || now.Before(s.start) || now.Sub(s.start) > longest*s.length {
		lost = !s.start.IsZero()
		*s = series{length: s.length, start: now.Truncate(s.length)}
	}
	s.readings = slices.DeleteFunc(s.readings, func(r reading) bool { return !r.at.Before(now) })
	if r != nil {
		s.readings = append(s.readings, *r)
	}
	for end := s.start.Add(s.length); !now.Before(end); end = end.Add(s.length) {
		ended = append(ended, s.value(s.start, end))
		s.start = end
	}
	s.readings = slices.DeleteFunc(s.readings, func(r reading) bool { return !r.at.After(s.start) })
	return ended, lost
}

// since is when so many periods before the one under way began.
func (s *series) since(periods int) time.Time { return s.start.Add(-time.Duration(periods) * s.length) }

// value is the mean from start to end. Readings overlap where each is over a longer time than lies
// between two: of those the one that has most of the period counts, and before it those that end
// where the one after them begins.
func (s *series) value(start, end time.Time) float64 {
	last := -1
	for i := range s.readings {
		if last < 0 || s.readings[i].within(start, end) >= s.readings[last].within(start, end) {
			last = i
		}
	}
	sum, covered := 0.0, time.Duration(0)
	for i, upto := last, end; i >= 0; i-- {
		// Looks are late by a little, now and then.
		r := &s.readings[i]
		if i != last && r.at.After(upto.Add(r.span/10)) {
			continue
		}
		part := r.within(start, end)
		sum, covered = sum+r.value*part.Seconds(), covered+part
		upto = r.at.Add(-r.span)
	}
	if 2*covered < s.length {
		return math.NaN()
	}
	return sum / covered.Seconds()
}

// within is how much of the reading lies between start and end.
func (r *reading) within(start, end time.Time) time.Duration {
	from, to := r.at.Add(-r.span), r.at
	if from.Before(start) {
		from = start
	}
	if to.After(end) {
		to = end
	}
	return max(to.Sub(from), 0)
}

// mostRead is how many readings of the past are asked for: a week of minutes, which Prometheus
// gives in one answer.
const mostRead = 7 * 24 * 60

// Lacks asks for the readings that a run through all the time would have gone by: one at the end of
// each period, or as many as a period takes that are over a shorter time.
func (p *predictive) Lacks(w *podscaler.Workload) podscaler.Lack {
	if p.learnt {
		return podscaler.Lack{}
	}
	over := cmp.Or(w.SLO.Window, time.Minute)
	step := p.series.length
	for parts := 2; step > over || step > time.Second && p.series.length%step != 0; parts++ {
		step = (p.series.length / time.Duration(parts)).Truncate(time.Millisecond)
	}
	return podscaler.Lack{Step: step, Over: over, Count: mostRead}
}

// Learn sees a history as if it had seen it reading by reading, and forgets for it what it has seen
// itself, which is in it. A history that has less than that is of no use.
func (p *predictive) Learn(h *podscaler.History) {
	p.learnt = true
	from, ok := h.Learnt.(*predictive)
	if h.Learnt = nil; !ok || !reflect.DeepEqual(from.settings, p.settings) {
		made, err := newPredictive(p.settings)
		if err != nil {
			return
		}
		from = made.(*predictive)
		from.relive(h)
	}
	if from.seen > p.seen {
		p.foresight, p.series, p.seen = from.foresight, from.series, from.seen
	}
}

// relive looks at each reading at its time. The time before the first is no gap: the load may have
// begun then.
func (p *predictive) relive(h *podscaler.History) {
	known := func(v float64) bool { return v >= 0 && v <= forecast.Most }
	first := max(slices.IndexFunc(h.Arrivals, known), 0)
	at := h.End.Add(-time.Duration(len(h.Arrivals)-1-first) * h.Step)
	var values []float64
	for _, v := range h.Arrivals[first:] {
		var r *reading
		if known(v) {
			r = &reading{at, h.Over, v}
		}
		ended, _ := p.series.look(at, r)
		values = append(values, ended...)
		at = at.Add(h.Step)
	}
	p.foresight.clock(p.series.since(len(values)), p.series.length)
	p.foresight.relive(values)
	for _, value := range values {
		if !math.IsNaN(value) {
			p.seen++
		}
	}
}

// startTimes learns how long pods take from being asked for until they are ready: those that were
// not there at the look before have been asked for since.
type startTimes struct {
	last   time.Time
	asked  map[string]time.Time // of pods that are not ready yet
	known  map[string]bool      // all pods at the last look
	recent []time.Duration      // the last of them
}

// startsKept is how many start times are looked back on.
const startsKept = 30

// look takes in the pods. When pods were asked for that are there at the first look is unknown.
func (s *startTimes) look(now time.Time, pods []podscaler.Pod) {
	asked, known := map[string]time.Time{}, make(map[string]bool, len(pods))
	var started []time.Duration
	for i := range pods {
		p := &pods[i]
		known[p.Name] = true
		at, waiting := s.asked[p.Name]
		if s.known != nil && !s.known[p.Name] {
			at, waiting = s.last, true
		}
		switch {
		case !waiting || p.Terminating:
		case !p.Ready:
			asked[p.Name] = at
		case !p.ReadyChanged.Before(at):
			started = append(started, p.ReadyChanged.Sub(at))
		}
	}
	slices.Sort(started) // the order of pods means nothing
	s.recent = append(s.recent, started...)
	s.recent = s.recent[max(0, len(s.recent)-startsKept):]
	s.last, s.asked, s.known = now, asked, known
}

// usual is what nine of ten pods did not exceed. The tenth may have waited for something that has
// nothing to do with starting.
func (s *startTimes) usual() (lead time.Duration, known bool) {
	if len(s.recent) == 0 {
		return 0, false
	}
	sorted := slices.Sorted(slices.Values(s.recent))
	return sorted[(9*len(sorted)+9)/10-1], true
}
