package policy

import (
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// cause is the code of the one reason that makes the replicas what they are: it leads the others.
func (p *joint) cause(v *podscaler.View, s *sizing, n, to, most int) string {
	switch pl := v.Room.Places; {
	case to == most && to < n:
		return podscaler.ReasonPlacesLimited
	case to < v.Replicas && pl != nil && p.allocator.leaves(v, pl, to):
		return podscaler.ReasonPaidPlacesLeft
	case n > s.now && to <= v.Replicas:
		return podscaler.ReasonScaleDownStabilized
	case to > n && n <= v.Replicas:
		return podscaler.ReasonPaidPlacesFilled
	case s.wanted > s.now, n < s.now:
		return podscaler.ReasonModelUncertain
	case s.floor >= s.now && s.floor > s.model:
		return podscaler.ReasonReactiveFloor
	case s.coming > s.model:
		return podscaler.ReasonForecastLoad
	case p.estimator.queued(v) && s.work.back > s.work.rate:
		return podscaler.ReasonQueueWorkedOff
	case p.sizer.guard.beyond():
		return podscaler.ReasonObjectiveUnreachable
	}
	return podscaler.ReasonSizedForLoad
}

// lead puts the first reason of a code before the others.
func lead(reasons []podscaler.Reason, code string) {
	i := max(slices.IndexFunc(reasons, func(r podscaler.Reason) bool { return r.Code == code }), 0)
	first := reasons[i]
	copy(reasons[1:i+1], reasons[:i])
	reasons[0] = first
}

// explain says what is needed, and what it comes from.
func (p *joint) explain(v *podscaler.View, s *sizing) []podscaler.Reason {
	w := v.Workload
	var reasons []podscaler.Reason
	add := func(code, format string, args ...any) {
		reasons = append(reasons, podscaler.Because(code, format, args...))
	}
	holds := fmt.Sprintf("where the p%.4g stays below %.4gms", 100*w.SLO.Quantile, 1000*s.part*w.SLO.Target.Seconds())
	if p.sizer.guard.beyond() {
		holds = "at any response time"
	}
	carry, lose := "carry", "lose"
	if s.model == 1 {
		carry, lose = "carries", "loses"
	}
	add(podscaler.ReasonSizedForLoad, "%s %s %.4g cores of load (%.4g requests a second of %.4gms each) and %s %.3g to uneven load; each uses up to %.1f %% of its %.4g cores, %s",
		pricing.Count(s.model, "replica"), carry, s.work.offered, s.work.rate+s.work.back, 1000*s.work.demand, lose, s.wasted, 100*s.ceiling, s.quota, holds)
	if p.estimator.queued(v) && s.work.back > 0 {
		who := fmt.Sprintf("users who pause for %.3gs, and ask again once they are answered", p.estimator.pause.estimate())
		if p.estimator.pause.long() {
			who = "requests that do not depend on each other, to be worked off within a minute"
		}
		add(podscaler.ReasonQueueWorkedOff, "%.4g requests a second of those are the %.4g that wait: %s", s.work.back, s.work.waits, who)
	}
	if s.coming > s.model {
		add(podscaler.ReasonForecastLoad, "%d for the %.4g cores that are expected in %s", s.coming, s.outlook.pod, inSeconds(s.outlook.podLead))
	}
	if s.ahead > s.now {
		add(podscaler.ReasonForecastAhead, "%d for the %.4g cores that are expected in %s, when a machine that is ordered now carries some", s.ahead, s.outlook.machine, inSeconds(s.outlook.machineLead))
	}
	if s.floor >= s.now && s.floor > s.model {
		add(podscaler.ReasonReactiveFloor, "%d for the %.4g cores that are used, in spite of the model", s.floor, s.work.done)
	}
	if p.sizer.guard.beyond() {
		add(podscaler.ReasonObjectiveUnreachable, "on idle pods response times would have been %.3g times the objective. Pods are kept below %.0f %% of their cpu and no emptier, for more of them would not help",
			p.sizer.guard.times, 100*guardLoad)
	}
	if s.wanted > s.now {
		add(podscaler.ReasonModelUncertain, "%d are wanted, and %d asked for: no more than %d times as many and %d as an HPA at %.0f %% of pods' cpu would have asked for in the last %s",
			s.wanted, s.now, guardTimes, guardMore, 100*guardLoad, pricing.Short(longKeep))
	}
	reasons = append(reasons, p.doubts(v, s)...)
	if s.sure < 1 {
		add(podscaler.ReasonModelUncertain, "%.0f %% sure of what requests take and where response times rise", 100*s.sure)
	}
	if tooDear(v) {
		cost, _ := w.Cost.Current(v.Cost)
		add(podscaler.ReasonCostAboveTarget, "the machines cost %s, and should %s (%s): response times may come up to the objective", cost, w.Cost, w.Cost.Basis())
	}
	return reasons
}

// doubts says in what the load or the service is another than the model has it, and what is done
// about that.
func (p *joint) doubts(v *podscaler.View, s *sizing) (reasons []podscaler.Reason) {
	add := func(format string, args ...any) {
		reasons = append(reasons, podscaler.Because(podscaler.ReasonModelOff, format, args...))
	}
	if s.off {
		add("response times were off from the model by %.0f %%", 100*p.estimator.service.Miss())
	}
	if n, ok := inFlight(v); ok && p.estimator.waiting && number(v.Window.Latency) > v.Workload.SLO.Target.Seconds() {
		add("%.4g requests are in flight on pods that use at most half of their cpu: they wait for something else, and pass for no queue, since more pods would not answer them", n)
	}
	if e := &p.estimator; !e.flying && !e.flew.IsZero() {
		add("requests in flight have not been counted for %s: they are worked out from response times", pricing.Short(longKeep))
	}
	if p.estimator.pauses.none {
		add("as many requests are in flight however long answers take: users who do not pause, of which CPU does not show how many there are. Pods are kept below %.0f %% of theirs", 100*guardLoad)
	}
	if p.estimator.pause.others() {
		add("queues grew as those of requests that do not depend on each other, not as those of users who wait for answers: "+
			"it sizes for what comes and not for what waits, and keeps pods below %.0f %% of their cpu", 100*queueLoad)
	}
	return reasons
}

// inSeconds prints what was measured no finer than it matters.
func inSeconds(d time.Duration) string { return pricing.Short(d.Round(time.Second)) }

// marginal says what one replica more and one fewer would cost, and what comes of doing nothing.
func (p *joint) marginal(v *podscaler.View, s *sizing, to int) podscaler.Reason {
	more, fewer := "has no known price", "has no known price"
	if pl := v.Room.Places; pl != nil {
		switch {
		case p.allocator.leaves(v, pl, to):
			more = "costs nothing until that machine goes, and would keep the machine"
		case to < pl.Coming:
			more = "costs nothing: its room is paid for"
		case pl.PerMachine > 0:
			more = fmt.Sprintf("costs a machine (%s/h, room for %d)", pl.Next, pl.PerMachine)
		default:
			more = fmt.Sprintf("has no room: %s", pl.Why)
		}
		switch {
		case p.allocator.perMachine > 0 && to <= pl.Ready && (pl.Ready-to+1)/p.allocator.perMachine > (pl.Ready-to)/p.allocator.perMachine:
			fewer = fmt.Sprintf("would free a machine (%s/h)", pl.Next)
		default:
			fewer = "saves nothing: its machine stays"
		}
	}
	full, then := 0.0, "holds"
	if n := serving(v.Pods); n > 0 {
		full = 100 * s.work.offered / (s.quota * float64(n))
		if p.sizer.guard.beyond() || p.estimator.learnt(v).Load(s.work.offered, float64(n)) > s.ceiling {
			then = "does not hold"
		}
	}
	if unmeasured(v) {
		then = "is not measured"
	}
	return podscaler.Because(podscaler.ReasonMarginalPrice, "one more replica %s; one fewer %s; without a change, ready pods use %.0f %% of their cpu and the objective %s",
		more, fewer, full, then)
}
