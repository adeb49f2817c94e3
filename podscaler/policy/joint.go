package policy

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// The joint policy asks for the replicas that hold the objective, and for as many more as are paid
// for anyway. It learns what a request costs, what a pod may use and how response times grow with
// the load. It sizes for the load that is offered, by the requests in flight and not only by those
// that get through, and looks ahead as far as a replica and as far as a machine takes to come. It
// gives up replicas by the machine, since one fewer on a machine that stays saves nothing, and the
// later the more often it has regretted it.
//
// Requests that queue are of users who wait for their answers, or do not depend on each other. It
// distinguishes them by how a queue grows and by what becomes of it (see pause), and sizes for all
// that wait of the one kind and for what comes of the other.
//
// It needs the objective, what pods request, their CPU, arrivals, and requests in flight. Response
// times let it learn; without them it goes by what it believes and does not shrink.
//
// It loses where the load jumps by more than is paid for and machines take minutes: no forecast
// foresees that. After each start it loses to a well-tuned HPA for the minutes that learning takes.
// Its model is of pods that work on requests until they are done. Where requests wait for something
// else, as for a database, more pods do not help: then what waits is no queue, its model is off,
// and an objective that no number of pods holds is given up.

// Joint is the settings of the joint policy.
type Joint struct {
	// Headroom is the part of the objective that response times are kept away from it by; unset is
	// 0.04, and it is 0 while the machines cost more than their target.
	Headroom *float64 `json:"headroom,omitempty"`
	// Certainty is how sure it is to be that the load stays below what is sized for when a replica
	// or a machine comes, as a quantile; unset is 0.75.
	Certainty *float64 `json:"certainty,omitempty"`
	// Keep is how long replicas are kept after they were last needed; unset is learned: 90s, and up
	// to 30m where those that were given up are needed again.
	Keep *podscaler.Duration `json:"keep,omitempty"`
	// Fill asks for replicas in room that is paid for and empty; unset is true.
	Fill *bool `json:"fill,omitempty"`
	// Without names one of JointMechanisms that is switched off. Only experiments can set it.
	Without string `json:"-"`
}

func init() {
	register("Joint", "learns what holds the response times, sizes for the load to come, and fills what is paid for.", func(s Spec) (podscaler.Policy, error) {
		if s.Joint == nil {
			return newJoint(Joint{})
		}
		return newJoint(*s.Joint)
	})
}

// joint has five parts, each of which knows those above it.
type joint struct {
	estimator  estimator
	forecaster *forecaster
	sizer      sizer
	allocator  allocator
	holder     holder
	off        switches
}

func newJoint(c Joint) (podscaler.Policy, error) {
	headroom, certainty := *cmp.Or(c.Headroom, new(0.04)), *cmp.Or(c.Certainty, new(0.75))
	keep := time.Duration(*cmp.Or(c.Keep, new(podscaler.Duration(shortKeep))))
	var f podscaler.Faults
	f.Unless(0 <= headroom && headroom < 1, "joint.headroom", "must be at least 0 and below 1", headroom)
	f.Unless(0 < certainty && certainty < 1, "joint.certainty", "must be above 0 and below 1", certainty)
	f.Unless(keep > 0, "joint.keep", "must be above 0", keep)
	load, err := newForecaster(certainty)
	if err != nil {
		return nil, cmp.Or(f.Err(), err)
	}
	p := &joint{forecaster: load, sizer: sizer{headroom: headroom}, allocator: allocator{fill: *cmp.Or(c.Fill, new(true))}, holder: holder{keep: keep, learns: c.Keep == nil}}
	for _, off := range []**switches{&p.estimator.off, &p.forecaster.off, &p.sizer.off, &p.allocator.off, &p.holder.off} {
		*off = &p.off
	}
	f.Unless(p.switchOff(c.Without), "without", "must be one of joint's mechanisms", c.Without)
	return p, f.Err()
}

func (p *joint) check(w *podscaler.Workload) error {
	var f podscaler.Faults
	f.Unless(w.SLO.Target > 0, "slo.target", "must be above 0 for policy Joint", w.SLO.Target)
	f.Unless(w.Pod.CPU > 0, "pod.cpu", "must be above 0 for policy Joint, which begins with it", int64(w.Pod.CPU))
	f.Unless(w.Min > 0, "minReplicas", "must be at least 1 for policy Joint, which learns from what is there", w.Min)
	return f.Err()
}

// Desired learns from what is seen and asks for what is needed, or paid for. Lost replicas answer
// no requests, so others are asked for in their place for as long as they count.
func (p *joint) Desired(v *podscaler.View) podscaler.Recommendation {
	there, lost := present(v)
	r := p.desired(there)
	if lost == 0 || !r.Known {
		return r
	}
	most := max(v.Workload.Max, v.Replicas)
	r.Replicas = min(r.Replicas+lost, most)
	if r.Ahead > 0 {
		r.Ahead = min(r.Ahead+lost, most)
	}
	r.Reasons = append(r.Reasons, podscaler.Because(podscaler.ReasonReplicasLost,
		"%d replicas are on hosts that are away or on nodes that have gone silent: as many more are asked for", lost))
	lead(r.Reasons, podscaler.ReasonReplicasLost)
	return r
}

// present is what is seen without the replicas that are lost, and how many those are. Where their
// places are counted, they are taken out as well.
func present(v *podscaler.View) (there *podscaler.View, lost int) {
	gone := func(p podscaler.Pod) bool {
		return p.Lost && !p.Terminating && p.Phase != podscaler.Failed && p.Phase != podscaler.Succeeded
	}
	for i := range v.Pods {
		if gone(v.Pods[i]) {
			lost++
		}
	}
	if lost == 0 {
		return v, 0
	}
	rest := *v
	rest.Pods = slices.DeleteFunc(slices.Clone(v.Pods), gone)
	rest.Replicas = max(v.Replicas-lost, 0)
	if pl := v.Room.Places; pl != nil {
		left := *pl
		for _, n := range []*int{&left.Ready, &left.Coming, &left.Most, &left.Filled} {
			*n = max(*n-lost, 0)
		}
		rest.Room.Places = &left
	}
	return &rest, lost
}

func (p *joint) desired(v *podscaler.View) podscaler.Recommendation {
	if why := p.cannot(v); why != nil {
		p.holder.unknown(v.Now)
		return podscaler.Recommendation{Reasons: []podscaler.Reason{*why}}
	}
	e, guard := &p.estimator, &p.sizer.guard
	e.see(v)
	queued := e.queued(v)
	guard.see(v, e.service.Quota(), queued)
	p.forecaster.observe(v.Now, e.work(v, guard.beyond()).coming, queued && !e.pause.others(), e.service.Measured())
	p.allocator.see(v)
	s := p.sizer.size(v, e, p.forecaster)
	p.holder.see(v, s.now, queued)
	return p.place(v, s)
}

// place makes replicas of what is needed: kept as long as it may be needed again, filled up to what
// is paid for, and no more than there is to be had.
func (p *joint) place(v *podscaler.View, s sizing) podscaler.Recommendation {
	r := podscaler.Recommendation{Known: true, Reasons: p.explain(v, &s)}
	if s.outlook.known {
		r.Forecast = podscaler.Forecast{Load: s.outlook.pod, Unit: podscaler.Cores, Within: s.outlook.podLead}
	}
	n := s.now
	if pl := v.Room.Places; pl != nil && n > pl.Coming && !p.allocator.off.agreed {
		if n = max(pl.Coming, p.allocator.agreed(pl, &s, &p.holder, p.estimator.queued(v))); n < s.now {
			r.Reasons = append(r.Reasons, podscaler.Because(podscaler.ReasonNeedUnconfirmed, "%d are needed now, but only %d were in each of the last runs: no more are created until the need lasts", s.now, n))
		}
	}
	s.ahead = max(n, s.later)
	if n < v.Replicas {
		if n = p.kept(v, &s, n); n > s.now {
			r.Reasons = append(r.Reasons, podscaler.Because(podscaler.ReasonScaleDownStabilized, "%d are needed now and %d are kept: fewer have to be enough for %s (stabilization window) before any go",
				s.now, n, pricing.Short(p.holder.keep)))
		}
	}
	to, most := n, math.MaxInt32
	if pl := v.Room.Places; pl != nil {
		to = p.allocator.filled(v, pl, n, p.sizer.guard.most())
		if to > n {
			r.Reasons = append(r.Reasons, podscaler.Because(podscaler.ReasonPaidPlacesFilled, "%d are needed, and %d more use room that is paid for anyway: %d replicas have room now, and %d once ordered machines join", n, to-n, pl.Ready, pl.Coming))
		}
		if p.allocator.leaves(v, pl, to) {
			r.Reasons = append(r.Reasons, podscaler.Because(podscaler.ReasonPaidPlacesLeft, "%d of %d replicas are enough. There is room for %d, but without the other replicas a machine can be drained", to, v.Replicas, pl.Coming))
		}
		if most = max(pl.Most, v.Replicas); to > most {
			why := "no more was asked for in the run before"
			if pl.Why.Code != "" {
				why = pl.Why.String()
			}
			r.Reasons = append(r.Reasons, podscaler.Because(podscaler.ReasonPlacesLimited, "%d are needed, which is limited to %d in this run by the room there is: %s", to, most, why))
			to = most
		}
	}
	r.Replicas, r.Ahead = to, s.ahead
	r.Reasons = append(r.Reasons, p.marginal(v, &s, to))
	lead(r.Reasons, p.cause(v, &s, n, to, most))
	return r
}

// kept is how many replicas stay of those that there are, where n are needed now.
func (p *joint) kept(v *podscaler.View, s *sizing, n int) int {
	return p.holder.kept(v, n, p.estimator.sure(v, s.work.rate), p.sizer.guard.most())
}

// Bid is what would be asked for if there were room for it, by what has been learnt up to the run
// before.
func (p *joint) Bid(v *podscaler.View) podscaler.Bid {
	there, lost := present(v)
	b := p.bid(there)
	if lost == 0 || !b.Known {
		return b
	}
	b.Want, b.Ahead = b.Want+lost, b.Ahead+lost
	if len(b.Worth) > 0 { // those that are lost have their places
		b.Worth = slices.Concat(slices.Repeat(b.Worth[:1], lost), b.Worth)
	}
	return b
}

func (p *joint) bid(v *podscaler.View) podscaler.Bid {
	if p.cannot(v) != nil {
		return podscaler.Bid{}
	}
	s := p.sizer.size(v, &p.estimator, p.forecaster)
	most := max(v.Workload.Max, v.Replicas)
	want := min(max(s.now, min(v.Replicas, p.kept(v, &s, s.now))), most)
	ahead := min(max(want, s.ahead), most)
	return podscaler.Bid{Known: true, Want: want, Ahead: ahead, Worth: s.worth(ahead)}
}

// cannot returns why nothing can be decided.
func (p *joint) cannot(v *podscaler.View) *podscaler.Reason {
	w := v.Workload
	var r podscaler.Reason
	_, arrivals := v.Window.Arrivals.Number()
	_, cpu := used(v.Pods)
	switch {
	case w.Pod.CPU <= 0:
		r = failed(Resource, "cpu", "the pods request none, which is what to begin with")
	case v.Replicas > 0 && serving(v.Pods) == 0:
		r = podscaler.Because(podscaler.ReasonLoadUnknown, "no pod is ready, so what is measured says nothing of the load")
	case !arrivals && !cpu:
		r = podscaler.Because(podscaler.ReasonLoadUnknown, "neither the requests that arrive nor the pods' cpu could be measured%s", because(v.Window.Arrivals.Why))
	default:
		return nil
	}
	return &r
}

// because is why something was not measured, where that is known.
func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}
