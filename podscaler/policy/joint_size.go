package policy

import (
	"math"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/capacity"
)

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

// work reads the load off the view.
func (p *joint) work(v *podscaler.View) work {
	s := p.learnt(v)
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
	p.queue(v, &w)
	return w
}

// queue adds the requests that wait to the load. Those of users are load as soon as they are
// answered; others are to be worked off once. Requests that wait for something else than the pods,
// or for an objective that no number of pods holds, ask for no more pods.
func (p *joint) queue(v *podscaler.View, w *work) {
	pause, answer := p.pause.estimate(), capacity.MeanShare*v.Workload.SLO.Target.Seconds()
	if n, ok := inFlight(v); ok && !p.guard.beyond() && !p.waiting {
		w.waits = max(n-w.rate*answer, 0)
	}
	if g := p.pause.grows; p.pause.others() && g > 0 { // known before the rate over a window shows it
		w.rate = max(w.rate, w.done/w.demand+g)
	}
	w.back = w.waits / (pause + answer)
	w.coming = (w.rate + w.back*max(1-pause/longestPause, 0)) * w.demand
	w.offered = (w.rate + w.back) * w.demand
}

// learnt is what is known of the service, or believed before anything is.
func (p *joint) learnt(v *podscaler.View) *capacity.Service {
	if p.service != nil {
		return p.service
	}
	return capacity.NewService(float64(v.Workload.Pod.CPU)/1000, v.Workload.SLO.Target.Seconds())
}

// sizing is how many replicas are needed, and why.
type sizing struct {
	work    work
	part    float64 // of the objective that response times may come to
	ceiling float64 // of the load
	quota   float64
	model   int // by the model, for the load now
	coming  int // by the forecast, for when a replica comes
	floor   int // by the CPU alone
	wanted  int // the most of them
	now     int // and as many of those as the guard allows
	later   int // by the forecast, for when a machine comes
	ahead   int // for when a machine comes
	off     bool
	sure    float64
	outlook forecastOf
}

// forecastOf are the loads that are expected.
type forecastOf struct {
	pod, machine         float64 // cores, as the quantile has it
	podLead, machineLead time.Duration
	known                bool
}

const (
	// guessedPodLead and guessedMachineLead are how long replicas and machines take to come until
	// some have.
	guessedPodLead, guessedMachineLead = 30 * time.Second, 2 * time.Minute
	// offBy is how far the curve may be off before that is said.
	offBy = 0.6
	// floorLoad is how full of what they may use pods are kept at most by the CPU alone.
	floorLoad = 0.85
	// queueLoad is that where requests do not depend on each other: their queue grows for as
	// long as pods are too few.
	queueLoad = 0.8
	// caution is by how much the ceiling is lowered while nothing is known.
	caution = 0.05
)

// size works out how many replicas are needed. It changes nothing.
func (p *joint) size(v *podscaler.View) sizing {
	svc := p.learnt(v)
	s := sizing{work: p.work(v), part: p.part(v), quota: svc.Quota(), sure: svc.Confidence()}
	s.ceiling = svc.Ceiling(s.part)
	if !p.off.caution {
		s.ceiling -= caution * (1 - s.sure)
	}
	s.off = s.sure > 0.5 && svc.Miss() > offBy
	load := floorLoad
	if p.pause.others() {
		load = queueLoad
		s.ceiling = min(s.ceiling, load)
	}
	if p.guard.beyond() {
		s.ceiling = guardLoad
	}
	s.model = ceil(svc.Pods(s.work.offered, s.ceiling))
	if p.pauses.none || p.guard.beyond() {
		load = guardLoad
	}
	if s.floor = 1; !p.off.floor {
		s.floor = p.guard.least(v, s.quota, load)
	}
	s.wanted = max(s.model, s.floor)
	s.outlook = p.look(v, s.work.offered)
	if s.outlook.known {
		s.coming = ceil(svc.Pods(s.outlook.pod, s.ceiling))
		s.wanted = max(s.wanted, s.coming)
		s.later = ceil(svc.Pods(s.outlook.machine, s.ceiling))
	}
	most := p.guard.most()
	s.now, s.later = min(s.wanted, most), min(s.later, most)
	s.ahead = max(s.later, s.now)
	return s
}

// part is the part of the objective that response times may come to: all of it where the machines
// cost more than they should.
func (p *joint) part(v *podscaler.View) float64 {
	if tooDear(v) {
		return 1
	}
	return 1 - p.headroom
}

// tooDear reports whether the machines cost more than the target that there is for it. That takes
// the headroom away and no more: a target is a wish, and the objective is what it is traded
// against.
func tooDear(v *podscaler.View) bool {
	cost, known := v.Workload.Cost.Current(v.Cost)
	return known && v.Workload.Cost.Target > 0 && cost > v.Workload.Cost.Target
}

// worth is what each replica is worth: the requests that it is expected to answer well, by what
// each of those that are needed answers.
func (s *sizing) worth(n int) []float64 {
	worth := make([]float64, n)
	if s.work.demand <= 0 || n == 0 {
		return worth
	}
	each := s.ceiling * s.quota / s.work.demand
	rate := max(s.work.offered, s.outlook.machine) / s.work.demand
	for i := range worth {
		worth[i] = max(min(each, rate-each*float64(i)), 0)
	}
	return worth
}
