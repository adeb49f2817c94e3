package policy

import (
	"math"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/capacity"
)

// sight is what a run saw.
type sight struct {
	at                 time.Time
	cpu, busiest       float64   // NaN where it is not known
	common             float64   // what more than a quarter of the pods use; NaN of one alone
	from, to           time.Time // while busiest was measured; zero where it is not known
	jammed             time.Time // since when there is a queue; zero without one that was counted
	pods               int
	inFlight, arrivals float64
	latency            float64
}

// sights are those of the last window, oldest first, and the one before where runs are further
// apart.
type sights []sight

// freshFor is how late a sample of CPU may be to be set beside requests in flight.
const freshFor = 30 * time.Second

// oldest is how old a sight may be to be set beside another.
const oldest = 15 * time.Minute

func (s *sights) add(v *podscaler.View, window time.Duration) {
	last := len(*s) - 1
	kept := (*s)[:0]
	for i, x := range *s {
		if age := v.Now.Sub(x.at); age > 0 && (age <= window || i == last && age <= oldest) {
			kept = append(kept, x)
		}
	}
	x := look(v)
	if _, counted := v.Window.InFlight.Number(); counted && queues(x.inFlight, x.pods) {
		x.jammed = x.at
		if n := len(kept) - 1; n >= 0 && !kept[n].jammed.IsZero() && x.at.Sub(kept[n].at) <= window {
			x.jammed = kept[n].jammed
		}
	}
	*s = append(kept, x)
}

func look(v *podscaler.View) sight {
	x := sight{at: v.Now, cpu: math.NaN(), busiest: math.NaN(), common: math.NaN(), pods: serving(v.Pods)}
	if cpu, ok := used(v.Pods); ok {
		x.cpu = cpu
	}
	var all []float64
	for i := range v.Pods {
		p := &v.Pods[i]
		cpu, ok := p.CPU.Number()
		if !ok || !serves(p) || starting(p) {
			continue
		}
		if all = append(all, cpu); cpu <= x.busiest {
			continue
		}
		x.busiest, x.from, x.to = cpu, p.CPU.At.Add(-p.CPU.Span), p.CPU.At
	}
	if n := len(all); n > 1 {
		slices.Sort(all)
		x.common = all[n-1-max(n/4, 1)]
	}
	x.inFlight, _ = inFlight(v)
	x.arrivals, x.latency = number(v.Window.Arrivals), number(v.Window.Latency)
	return x
}

// starting reports whether what a pod used is in part that of its start.
func starting(p *podscaler.Pod) bool {
	return !p.CPU.At.IsZero() && p.CPU.At.Add(-p.CPU.Span).Before(p.ReadyChanged)
}

// believed is what the busiest pod used, as far as it says what each may. Up to the request it
// does. Beyond it, one pod may collect garbage, or do a job that no other has. There it is what
// more than a quarter of the pods use. Of a pod alone it is what that has used for all of a window.
func (s sights) believed(request float64, whole bool) float64 {
	last := &s[len(s)-1]
	all := last.common
	if math.IsNaN(all) {
		all = request
		if whole {
			all = last.busiest
			for i := range s {
				all = min(all, s[i].busiest)
			}
		}
	}
	if math.IsNaN(all) {
		all = request
	}
	return min(last.busiest, max(request, all))
}

func number(r podscaler.Reading) float64 {
	if n, ok := r.Number(); ok && n >= 0 {
		return n
	}
	return math.NaN()
}

// over is what was measured of a service over the window, by its end. Latency and arrivals are of
// the whole of it, so CPU and pods are meant over it as well.
func (s sights) over(window time.Duration, request float64, of *capacity.Service) capacity.Seen {
	last := s[len(s)-1]
	seen := capacity.Seen{
		Arrivals: last.arrivals, Completions: math.NaN(), InFlight: last.inFlight, CPU: math.NaN(),
		Request: request, Latency: last.latency,
	}
	cpu, pods, low, high, slow, fast := 0.0, 0.0, last.pods, last.pods, last.arrivals, last.arrivals
	queued, sampled := 0, 0
	for _, x := range s {
		pods += float64(x.pods)
		if !math.IsNaN(x.cpu) {
			cpu, sampled = cpu+x.cpu, sampled+1
		}
		low, high = min(low, x.pods), max(high, x.pods)
		slow, fast = min(slow, x.arrivals), max(fast, x.arrivals)
		if queues(x.inFlight, x.pods) {
			queued++
		}
	}
	n := float64(len(s))
	seen.Pods = pods / n
	span := last.at.Sub(s[0].at)
	seen.CPU, seen.Completions = cpu/float64(sampled), last.arrivals
	seen.Whole = len(s) > 1 && span >= window*3/4
	seen.Busiest = s.believed(request, seen.Whole)
	seen.Queued = seen.Whole && queued == len(s)
	seen.Full = s.full() || last.to.IsZero() && !math.IsNaN(last.busiest) && seen.Queued && !last.jammed.IsZero()
	if seen.Waiting = last.fresh() && of.Waits(&seen); seen.Waiting {
		seen.Queued, queued = false, 0
	}
	if !seen.Whole {
		s.correct(&seen, window, queued == len(s))
		return seen
	}
	seen.Completions = last.arrivals - (last.inFlight-s[0].inFlight)/span.Seconds()
	seen.Steady = queued == 0 && float64(high-low) <= 0.15*seen.Pods && fast-slow <= 0.25*fast
	return seen
}

// correct works out what was answered where the sights are of a part of the window.
func (s sights) correct(seen *capacity.Seen, window time.Duration, queued bool) {
	last := s[len(s)-1]
	span := last.at.Sub(s[0].at)
	if len(s) > 1 && queued && !last.jammed.IsZero() {
		// What has joined the queue has not been answered, and no CPU was used for it.
		seen.Completions -= max(last.inFlight-s[0].inFlight, 0) / span.Seconds()
	}
	if idle := s.idle(); idle > 0 && s[0].arrivals == 0 && last.arrivals > 0 {
		// All that came in the window came after the sights began, and what is used is used for
		// that.
		seen.Completions *= float64(window) / float64(span)
		seen.Arrivals *= float64(window) / float64(idle)
	}
}

// full reports whether pods held more than they work on for all of the while over which the busiest
// was measured, to the sight after it.
func (s sights) full() bool {
	last := &s[len(s)-1]
	i := slices.IndexFunc(s, func(x sight) bool { return !x.at.Before(last.to) })
	return i >= 0 && last.from.Before(last.to) && !s[i].jammed.IsZero() && !s[i].jammed.After(last.from)
}

// fresh reports whether CPU was measured lately enough to be set beside requests in flight, which
// may be as late as it and do not say so.
func (x *sight) fresh() bool {
	return x.to.IsZero() || x.at.Sub(x.to)-x.to.Sub(x.from) < freshFor
}

// idle is how long ago the last of the sights was that saw no request come; nothing if none did.
func (s sights) idle() time.Duration {
	last := len(s) - 1
	for i := last - 1; i >= 0; i-- {
		if s[i].arrivals == 0 {
			return s[last].at.Sub(s[i].at)
		}
	}
	return 0
}
