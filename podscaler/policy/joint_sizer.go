package policy

import (
	"github.com/plimsoll/plimsoll/podscaler"
)

// sizer makes replicas of a load, for now, for when a replica comes and for when a machine does.
type sizer struct {
	headroom float64
	guard    guard
	off      *switches
}

// sizing is how many replicas are needed, and why.
type sizing struct {
	work    work
	part    float64 // of the objective that response times may come to
	ceiling float64 // of the load
	quota   float64
	wasted  float64 // cores
	model   int     // by the model, for the load now
	coming  int     // by the forecast, for when a replica comes
	floor   int     // by the CPU alone
	wanted  int     // the most of them
	now     int     // and as many of those as the guard allows
	later   int     // by the forecast, for when a machine comes
	ahead   int     // for when a machine comes
	off     bool
	sure    float64
	outlook forecastOf
}

const (
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
func (z *sizer) size(v *podscaler.View, e *estimator, f *forecaster) sizing {
	svc := e.learnt(v)
	s := sizing{work: e.work(v, z.guard.beyond()), part: z.part(v), quota: svc.Quota(), wasted: svc.Wasted(), sure: svc.Confidence()}
	s.ceiling = svc.Ceiling(s.part)
	if !z.off.caution {
		s.ceiling -= caution * (1 - s.sure)
	}
	s.off = s.sure > 0.5 && svc.Miss() > offBy
	load := floorLoad
	if e.pause.others() {
		load = queueLoad
		s.ceiling = min(s.ceiling, load)
	}
	if z.guard.beyond() {
		s.ceiling, load = guardLoad, guardLoad
	}
	s.model = ceil(svc.Pods(s.work.offered, s.ceiling))
	if e.pauses.none {
		load = guardLoad
	}
	if s.floor = 1; !z.off.floor {
		s.floor = z.guard.least(v, s.quota, load)
	}
	s.wanted = max(s.model, s.floor)
	s.outlook = f.look(v, s.work.offered)
	if s.outlook.known {
		s.coming = ceil(svc.Pods(s.outlook.pod, s.ceiling))
		s.wanted = max(s.wanted, s.coming)
		s.later = ceil(svc.Pods(s.outlook.machine, s.ceiling))
	}
	most := z.guard.most()
	s.now, s.later = min(s.wanted, most), min(s.later, most)
	s.ahead = max(s.later, s.now)
	return s
}

// part is the part of the objective that response times may come to: all of it where the machines
// cost more than they should.
func (z *sizer) part(v *podscaler.View) float64 {
	if tooDear(v) {
		return 1
	}
	return 1 - z.headroom
}

// tooDear reports whether the machines cost more than the target that there is for it. That takes
// the headroom away and no more: a target is a wish, and the objective is what it is traded
// against.
func tooDear(v *podscaler.View) bool {
	cost, known := v.Workload.Cost.Current(v.Cost)
	return known && v.Workload.Cost.Target > 0 && cost > v.Workload.Cost.Target
}
