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
	coming  float64 // cores that would be used if nobody had to wait
	offered float64 // and those to work off a queue of those who do not
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
	coming, queue := w.rate, 0.0
	if n, ok := inFlight(v); ok {
		coming, queue = p.offered(v, w.rate, n)
	}
	w.coming, w.offered = coming*w.demand, (coming+queue)*w.demand
	return w
}

// offered is how many requests a second there would be if none had to wait, and how many more of a queue are to be worked off.
// Of users who wait for their answers the queue is what they would ask. Of others what comes is, and all of the queue is
// to be gone within a window. While it is not known who they are it is the less of the two: what was ordered for too many is
// paid for, and a moment later it is known. Where they wait for something else than the pods, or no number of pods holds the
// objective, it is what comes.
func (p *joint) offered(v *podscaler.View, rate, inFlight float64) (coming, queue float64) {
	if p.reach.beyond || p.waiting {
		return rate, 0
	}
	s := p.learnt(v)
	users := max(rate, p.drain.limit(s.Offered(rate, inFlight)))
	doubt, wait := p.callers.doubt(), p.callers.wait()
	if wait && doubt == 0 {
		return users, 0
	}
	coming = p.callers.coming(rate)
	queue = max(inFlight-coming*v.Workload.SLO.Target.Seconds(), 0) / measured(v).Seconds()
	if !wait {
		return coming, queue
	}
	if coming, queue = doubt*coming, doubt*queue; coming+queue > users {
		return users, 0
	}
	return coming, queue
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
	now     int // the most of them
	later   int // by the forecast, for when a machine comes
	ahead   int // for when a machine comes
	off     bool
	endless bool // users do not pause
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
	// guessedPodLead and guessedMachineLead are how long replicas and machines take to come until some
	// have.
	guessedPodLead, guessedMachineLead = 30 * time.Second, 2 * time.Minute
	// offBy is how far the curve may be off before it is not believed.
	offBy = 0.6
	// floorLoad is how full of what they may use pods are kept at most by the CPU alone, and guardLoad
	// while the model is off: what a careful owner would set an HPA to.
	floorLoad, guardLoad = 0.85, 0.6
	// queueLoad is that where requests come whatever becomes of others: their queue grows for as long as pods are too few.
	queueLoad = 0.8
	// caution is by how much the ceiling is lowered while nothing is known.
	caution = 0.05
)

// size works out how many replicas are needed. It changes nothing.
func (p *joint) size(v *podscaler.View) sizing {
	svc := p.learnt(v)
	s := sizing{work: p.work(v), part: p.part(v), quota: svc.Quota(), sure: svc.Confidence()}
	s.ceiling = svc.Ceiling(s.part) - caution*(1-s.sure)
	s.off = s.sure > 0.5 && svc.Miss() > offBy
	guard := floorLoad
	if !p.callers.wait() {
		guard = queueLoad
		s.ceiling = min(s.ceiling, guard)
	}
	if p.reach.beyond {
		s.ceiling = guardLoad
	}
	s.model = ceil(svc.Pods(s.work.offered, s.ceiling))
	if s.endless = p.pauses.none; s.off || s.endless || p.reach.beyond {
		guard = guardLoad
	}
	s.floor = ceil(s.work.done / (s.quota * guard))
	s.now = max(s.model, s.floor, 1)
	s.outlook = p.look(v, s.work.offered)
	if s.outlook.known {
		s.coming = ceil(svc.Pods(s.outlook.pod, s.ceiling))
		s.now = max(s.now, s.coming)
		s.later = ceil(svc.Pods(s.outlook.machine, s.ceiling))
	}
	s.ahead = max(s.later, s.now)
	return s
}

// part is the part of the objective that response times may come to: the less the more of the error
// budget is being spent, and all of it where the machines cost more than they should.
func (p *joint) part(v *podscaler.View) float64 {
	if tooDear(v) {
		return 1
	}
	return 1 - p.headroom*min(max(p.budget.burn(), 1), 2)
}

// quantile is the one that forecasts are read at: the more of the error budget is being spent the surer it is to be
// that the load stays below, and no surer than asked for where the machines cost more than they should.
func (p *joint) quantile(v *podscaler.View) float64 {
	if tooDear(v) {
		return p.certainty
	}
	return 1 - (1-p.certainty)/min(max(p.budget.burn(), 1), 2)
}

// tooDear reports whether the machines cost more than the target that there is for it. That takes the
// headroom away and no more: a target is a wish, and the objective is what it is traded against.
func tooDear(v *podscaler.View) bool {
	cost, known := v.Workload.Cost.Current(v.Cost)
	return known && v.Workload.Cost.Target > 0 && cost > v.Workload.Cost.Target
}

// worth is what each replica is worth: the requests that it is expected to answer well, by what each of
// those that are needed answers.
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

// errorBudget is how much of the requests was not answered well lately, against what the objective allows.
type errorBudget struct {
	at   time.Time
	bad  float64
	seen bool
	part float64 // that is allowed
}

// memory of the error budget: a burst an hour ago counts for a third.
const budgetMemory = time.Hour

func (b *errorBudget) spend(v *podscaler.View) {
	good, ok := v.Window.Good.Number()
	b.part = 1 - v.Workload.SLO.Quantile
	if !ok {
		return
	}
	bad := min(max(1-good, 0), 1)
	if b.seen {
		passed := min(max(v.Now.Sub(b.at), 0), measured(v))
		b.bad += (bad - b.bad) * (1 - math.Exp(-float64(passed)/float64(budgetMemory)))
	}
	b.at, b.seen = v.Now, true
}

// burn is how fast the budget is spent: 1 spends just all of it.
func (b *errorBudget) burn() float64 {
	if b.part <= 0 {
		return 0
	}
	return b.bad / b.part
}
