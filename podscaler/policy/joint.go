package policy

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/capacity"
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
	// 0.04, and it is none while the machines cost more than their target.
	Headroom *float64 `json:"headroom,omitempty" yaml:"headroom,omitempty"`
	// Certainty is how sure it is to be that the load stays below what is sized for when a replica
	// or a machine comes, as a quantile; unset is 0.75.
	Certainty *float64 `json:"certainty,omitempty" yaml:"certainty,omitempty"`
	// Keep is how long replicas are kept after they were last needed; unset is learned: 90s, and up
	// to 30m where those that were given up are needed again.
	Keep *podscaler.Duration `json:"keep,omitempty" yaml:"keep,omitempty"`
	// Fill asks for replicas in room that is paid for and empty; unset is true.
	Fill *bool `json:"fill,omitempty" yaml:"fill,omitempty"`
	// Without names one of JointMechanisms that is switched off. Only experiments can set it.
	Without string `json:"-" yaml:"-"`
}

func init() {
	register("Joint", "learns what holds the response times, sizes for the load to come, and fills what is paid for.", func(s Spec) (podscaler.Policy, error) {
		if s.Joint == nil {
			return newJoint(Joint{})
		}
		return newJoint(*s.Joint)
	})
}

type joint struct {
	headroom, certainty float64
	keep                time.Duration
	learns              bool // how long to keep
	fill                bool

	service *capacity.Service
	past    sights
	load    *outlook
	pause   pause
	pauses  pauses
	guard   guard
	needs   needs
	regrets regrets
	// waiting is whether what is in flight waits for something else than pods' CPU.
	waiting bool
	// flying is whether requests in flight have ever been measured: some sources lack them.
	flying     bool
	perMachine int // replicas that a machine takes, as last seen
	off        switches
}

func newJoint(c Joint) (podscaler.Policy, error) {
	p := &joint{
		headroom: *cmp.Or(c.Headroom, new(0.04)), certainty: *cmp.Or(c.Certainty, new(0.75)),
		keep: time.Duration(*cmp.Or(c.Keep, new(podscaler.Duration(shortKeep)))), learns: c.Keep == nil, fill: *cmp.Or(c.Fill, new(true)),
	}
	var f faults
	var err error
	if p.load, err = newOutlook(p.certainty); err != nil && 0 < p.certainty && p.certainty < 1 {
		return nil, err
	}
	f.unless(0 <= p.headroom && p.headroom < 1, "joint.headroom", "must be at least 0 and below 1", p.headroom)
	f.unless(0 < p.certainty && p.certainty < 1, "joint.certainty", "must be above 0 and below 1", p.certainty)
	f.unless(p.keep > 0, "joint.keep", "must be above 0", p.keep)
	f.unless(p.switchOff(c.Without), "without", "must be one of joint's mechanisms", c.Without)
	return p, f.err()
}

func (p *joint) check(w *podscaler.Workload) error {
	var f faults
	f.unless(w.SLO.Target > 0, "slo.target", "must be above 0 for policy Joint", w.SLO.Target)
	f.unless(w.Pod.CPU > 0, "pod.cpu", "must be above 0 for policy Joint, which begins with it", int64(w.Pod.CPU))
	f.unless(w.Min > 0, "minReplicas", "must be at least 1 for policy Joint, which learns from what is there", w.Min)
	return f.err()
}

// Desired learns from what is seen and asks for what is needed, or paid for. Replicas that are lost
// answer nobody, so others are asked for in their place for as long as they count.
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
		p.needs.unknown(v.Now)
		p.regrets.unknown()
		return podscaler.Recommendation{Reasons: []podscaler.Reason{*why}}
	}
	p.learn(v)
	s := p.size(v)
	if p.learns {
		p.regrets.see(v.Now, s.now, p.queued(v))
		p.keep = p.regrets.keep()
	}
	p.needs.add(v, s.now, max(p.keep, longKeep), p.queued(v))
	return p.place(v, s)
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
	s := p.size(v)
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

// learn takes in what is seen.
func (p *joint) learn(v *podscaler.View) {
	w := v.Workload
	if p.service == nil {
		p.service = capacity.NewService(float64(w.Pod.CPU)/1000, w.SLO.Target.Seconds())
	}
	if _, ok := v.Window.InFlight.Number(); ok {
		p.flying = true
	}
	if !p.off.unpausing {
		p.pauses.see(v.Now, &v.Window)
	}
	p.past.add(v, measured(v))
	seen := p.past.over(measured(v), p.service)
	seen.Waiting = seen.Waiting && !p.off.waiting
	p.waiting = seen.Waiting
	p.service.See(seen)
	p.guard.see(v, p.service.Quota(), p.queued(v))
	if n, counted := v.Window.InFlight.Number(); counted && !p.waiting && !p.off.pause {
		p.pause.see(count{v.Now, max(n, 0), number(v.Window.Arrivals), serving(v.Pods)}, p.each())
	}
	p.load.observe(v.Now, p.work(v).coming, p.queued(v) && !p.pause.others(), p.service.Measured())
	if v.Room.Places != nil && v.Room.Places.PerMachine > 0 {
		p.perMachine = v.Room.Places.PerMachine
	}
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

// queued reports whether pods hold more requests than they work on.
func (p *joint) queued(v *podscaler.View) bool {
	n, ok := inFlight(v)
	return ok && !p.waiting && queues(n, serving(v.Pods))
}

// queues reports whether so many requests in flight are more than pods work on.
func queues(inFlight float64, pods int) bool { return inFlight > capacity.Queue*float64(pods) }
