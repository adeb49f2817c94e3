package policy

import (
	"cmp"
	"math"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/capacity"
)

// estimator learns what a request takes, what a pod may use, and how response times grow with the
// load; and how much load it is that requests queue.
type estimator struct {
	service *capacity.Service
	past    sights
	pause   pause
	pauses  pauses
	// waiting is whether what is in flight waits for something else than pods' CPU.
	waiting bool
	// flying is whether requests in flight are measured, as far as is known: some sources lack
	// them. Flew is when they last were.
	flying bool
	flew   time.Time
	off    *switches
}

// see takes in what is seen.
func (e *estimator) see(v *podscaler.View) {
	w := v.Workload
	if e.service == nil {
		e.service = capacity.NewService(float64(w.Pod.CPU)/1000, w.SLO.Target.Seconds())
	}
	if _, ok := v.Window.InFlight.Number(); ok {
		e.flying, e.flew = true, v.Now
	} else if v.Now.Sub(e.flew) > longKeep {
		e.flying = false // it is no gap: the source has them no more
	}
	if !e.off.unpausing {
		e.pauses.see(v.Now, &v.Window)
	}
	e.past.add(v, measured(v))
	seen := e.past.over(measured(v), float64(w.Pod.CPU)/1000, e.service)
	seen.Waiting = seen.Waiting && !e.off.waiting
	e.waiting = seen.Waiting
	_, seen.Counted = v.Window.InFlight.Number()
	e.service.See(seen)
	if n, known := inFlight(v); known && seen.Counted == e.flying && !e.waiting && !e.off.pause {
		e.pause.see(count{v.Now, n, number(v.Window.Arrivals), serving(v.Pods)}, e.each(), seen.Counted)
	}
}

// sure reports whether it is learnt what a request takes, and nothing hides or delays more of them;
// where none comes, that is all there is to know. While requests are late in a queue it is not:
// pods that go would lose those that they hold, of which the oldest pods have most.
func (e *estimator) sure(v *podscaler.View, rate float64) bool {
	if _, cpu := used(v.Pods); cpu && v.Window.Quiet() {
		return true
	}
	return e.learnt(v).Measured() && !e.blind(v) && !(e.late(v, rate) && !e.off.late)
}

// learnt is what is known of the service, or believed before anything is.
func (e *estimator) learnt(v *podscaler.View) *capacity.Service {
	if e.service != nil {
		return e.service
	}
	return capacity.NewService(float64(v.Workload.Pod.CPU)/1000, v.Workload.SLO.Target.Seconds())
}

// each is how many requests a second a full pod gets done; not a number until that was measured.
func (e *estimator) each() float64 {
	if demand, _ := e.service.Demand(); e.service.Measured() && demand > 0 {
		return e.service.Quota() / demand
	}
	return math.NaN()
}

// queued reports whether pods hold more requests than they work on.
func (e *estimator) queued(v *podscaler.View) bool {
	n, ok := inFlight(v)
	return ok && !e.waiting && queues(n, serving(v.Pods))
}

// queues reports whether so many requests in flight are more than pods work on.
func queues(inFlight float64, pods int) bool { return inFlight > capacity.Queue*float64(pods) }

// late reports whether more requests queue than the objective allows to be in flight. Pods that
// wait for something else meanwhile hold many requests, and answer them in time.
func (e *estimator) late(v *podscaler.View, rate float64) bool {
	n, _ := inFlight(v)
	return e.queued(v) && n > rate*v.Workload.SLO.Target.Seconds()
}

// blind reports whether something is unknown that might want more replicas.
func (e *estimator) blind(v *podscaler.View) bool {
	_, latency := v.Window.Latency.Number()
	_, arrivals := v.Window.Arrivals.Number()
	_, flying := v.Window.InFlight.Number()
	_, cpu := used(v.Pods)
	return !latency || !arrivals || !cpu || e.flying && !flying
}

// work is what the load comes to.
type work struct {
	rate    float64 // requests a second that come
	demand  float64 // cores × seconds that each takes
	done    float64 // cores that are used
	coming  float64 // cores that would be used if no request had to wait
	offered float64 // and those to work off a queue
	waits   float64 // requests that wait
	back    float64 // requests a second that those come to
}

// work reads the load off the view. Where the objective is given up, what waits is no load.
func (e *estimator) work(v *podscaler.View, beyond bool) work {
	s := e.learnt(v)
	done, _ := used(v.Pods)
	rate, ok := v.Window.Arrivals.Number()
	if rate = max(rate, 0); !ok {
		rate = 0
	}
	w := work{done: done}
	if w.demand, _ = s.Demand(); w.demand <= 0 {
		w.demand = done / rate
	}
	if math.IsNaN(w.demand) || math.IsInf(w.demand, 0) || w.demand <= 0 {
		w.demand, w.coming, w.offered = 0, done, done
		return w
	}
	w.rate = max(rate, done/w.demand)
	e.queue(v, &w, beyond)
	return w
}

// queue adds the requests that wait to the load. Those of users are load as soon as they are
// answered; others are to be worked off once. Requests that wait for something else than the pods,
// or for an objective that no number of pods holds, ask for no more pods.
func (e *estimator) queue(v *podscaler.View, w *work, beyond bool) {
	pause, answer := e.pause.estimate(), capacity.MeanShare*v.Workload.SLO.Target.Seconds()
	if n, ok := inFlight(v); ok && !beyond && !e.waiting {
		w.waits = max(n-w.rate*answer, 0)
	}
	if g := e.pause.grows; e.pause.others() && g > 0 { // known before a window's rate shows it
		w.rate = max(w.rate, w.done/w.demand+g)
	}
	w.back = w.waits / (pause + answer)
	w.coming = (w.rate + w.back*max(1-pause/longestPause, 0)) * w.demand
	w.offered = (w.rate + w.back) * w.demand
}

// inFlight is how many requests are in flight; where that is not measured, what arrivals and
// response times make of it, which is as old as they are.
func inFlight(v *podscaler.View) (n float64, known bool) {
	if n, ok := v.Window.InFlight.Number(); ok {
		return max(n, 0), true
	}
	return answering(&v.Window)
}

// answering is how many requests are in flight on the mean of those that are answered, by Little's
// law.
func answering(w *podscaler.Window) (n float64, known bool) {
	rate, arriving := w.Arrivals.Number()
	latency, answered := w.Latency.Number()
	if !arriving || !answered {
		return 0, false
	}
	return max(rate*latency*capacity.MeanShare, 0), true
}

// measured is how long the window of the view is.
func measured(v *podscaler.View) time.Duration {
	return cmp.Or(v.Window.Over, v.Workload.SLO.Window, time.Minute)
}

// used is the CPU that the serving pods use, in cores; it is not known if no pod has a sample.
// Those without one count as much as the others on the mean, but for those that were not ready yet
// when the others were measured: what they use now the others used then.
func used(pods []podscaler.Pod) (cores float64, known bool) {
	sum, sampled, unsampled, silent := 0.0, 0, 0, 0
	var measured time.Time
	for i := range pods {
		if !serves(&pods[i]) {
			continue
		}
		cpu, ok := pods[i].CPU.Number()
		if !ok {
			unsampled++
			continue
		}
		sum, sampled = sum+max(cpu, 0), sampled+1
		if at := pods[i].CPU.At; at.After(measured) {
			measured = at
		}
	}
	for i := 0; i < len(pods) && unsampled > 0; i++ {
		if _, ok := pods[i].CPU.Number(); !ok && serves(&pods[i]) && pods[i].ReadyChanged.Before(measured) {
			silent++
		}
	}
	if sampled == 0 || math.IsInf(sum, 0) {
		return 0, false
	}
	return sum * float64(sampled+silent) / float64(sampled), true
}
