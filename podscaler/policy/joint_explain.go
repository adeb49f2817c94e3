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
	if to <= v.Replicas { // else what is needed is the cause, and not what limits it
		if code := p.limit(v, s, n, to, most); code != "" {
			return code
		}
	}
	switch {
	case to > n && n <= v.Replicas:
		return podscaler.ReasonPaidPlacesFilled
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

// limit is the code of what keeps replicas from being those that the load needs, or empty.
func (p *joint) limit(v *podscaler.View, s *sizing, n, to, most int) string {
	switch pl := v.Room.Places; {
	case to == most && to < n:
		return podscaler.ReasonPlacesLimited
	case to < v.Replicas && pl != nil && p.allocator.leaves(v, pl, to):
		return podscaler.ReasonPaidPlacesLeft
	case n > s.now:
		return podscaler.ReasonScaleDownStabilized
	case to > n:
		return podscaler.ReasonPaidPlacesFilled
	case n < s.now:
		return podscaler.ReasonNeedUnconfirmed
	case s.wanted > s.now:
		return podscaler.ReasonGuardLimited
	}
	return ""
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
	holds := fmt.Sprintf("which keeps the p%.4g below %.4g ms", 100*w.SLO.Quantile, 1000*s.part*w.SLO.Target.Seconds())
	if p.sizer.guard.beyond() {
		holds = "at any response time"
	}
	add(podscaler.ReasonSizedForLoad, "%s for %.4g cores of load (%.4g requests/s%s × %.4g ms of CPU) and %.3g cores lost to uneven balancing: at most %.1f %% of each one's CPU of %.4g, %s",
		pricing.Count(s.model, "replica"), s.work.offered, s.work.rate+s.work.back, p.whence(v, s), 1000*s.work.demand, s.wasted, 100*s.ceiling, s.quota, holds)
	if p.estimator.queued(v) && s.work.back > 0 {
		who := fmt.Sprintf("users who wait for answers, and pause for %.3gs before they ask again", p.estimator.pause.estimate())
		if p.estimator.pause.long() {
			who = "independent requests, to be worked off within a minute"
		}
		add(podscaler.ReasonQueueWorkedOff, "%.4g requests/s of those work off the %.4g that are queued: %s", s.work.back, s.work.waits, who)
	}
	if s.coming > s.model {
		add(podscaler.ReasonForecastLoad, "%d for the %.4g cores forecast in %s, when a pod that starts now is ready", s.coming, s.outlook.pod, inSeconds(s.outlook.podLead))
	}
	if s.ahead > s.now {
		add(podscaler.ReasonForecastAhead, "%d for the %.4g cores forecast in %s, when a machine that is ordered now has ready pods; these replicas get machines before they are created", s.ahead, s.outlook.machine, inSeconds(s.outlook.machineLead))
	}
	if s.floor >= s.now && s.floor > s.model {
		add(podscaler.ReasonReactiveFloor, "%d for the %.4g cores that pods use, although the model needs fewer", s.floor, s.work.done)
	}
	if p.sizer.guard.beyond() {
		add(podscaler.ReasonObjectiveUnreachable, "even on idle pods response times would be %.3g times the objective, so that more replicas do not help: pods are kept below %.0f %% of their CPU and no emptier",
			p.sizer.guard.times, 100*guardLoad)
	}
	if s.wanted > s.now {
		add(podscaler.ReasonGuardLimited, "the model needs %d, which is limited to %d: %d times the most that an HPA at %.0f %% of CPU would have asked for in the last %s, and %d more",
			s.wanted, s.now, guardTimes, 100*guardLoad, pricing.Short(longKeep), guardMore)
	}
	reasons = append(reasons, p.doubts(v, s)...)
	if s.sure < 1 {
		add(podscaler.ReasonModelUncertain, "the model is %.0f %% sure of what requests take and of where response times rise; while it learns, pods are kept emptier", 100*s.sure)
	}
	if tooDear(v) {
		cost, _ := w.Cost.Current(v.Cost)
		add(podscaler.ReasonCostAboveTarget, "the machines cost %s, and should %s (%s): response times may come up to the objective", cost, w.Cost, w.Cost.Basis())
	}
	return reasons
}

// whence says why the load is sized for more requests than arrive, if it is.
func (p *joint) whence(v *podscaler.View, s *sizing) string {
	arrivals, known := v.Window.Arrivals.Number()
	switch {
	case !known:
		return " by pods' CPU"
	case s.work.back > 0:
		return " with those queued"
	case s.work.rate > 1.02*arrivals:
		return " by pods' CPU, which is more than was counted,"
	}
	return ""
}

// doubts says in what the load or the service is another than the model has it, and what is done
// about that.
func (p *joint) doubts(v *podscaler.View, s *sizing) (reasons []podscaler.Reason) {
	add := func(format string, args ...any) {
		reasons = append(reasons, podscaler.Because(podscaler.ReasonModelOff, format, args...))
	}
	if s.off {
		add("response times differ from the model's by %.0f %%, so that pods are kept emptier", 100*p.estimator.service.Miss())
	}
	if n, ok := inFlight(v); ok && p.estimator.waiting && number(v.Window.Latency) > v.Workload.SLO.Target.Seconds() {
		add("%.4g requests are in flight on pods that use at most half of their CPU: they wait for something else, such as a database, and are not taken for a queue, since more pods would not answer them", n)
	}
	if e := &p.estimator; !e.flying && !e.flew.IsZero() {
		add("requests in flight have not been counted for %s: they are worked out from response times", pricing.Short(longKeep))
	}
	if p.estimator.pauses.none {
		add("as many requests are in flight however long answers take: users do not pause, and CPU does not show how many there are. Pods are kept below %.0f %% of their CPU", 100*guardLoad)
	}
	if p.estimator.pause.others() {
		add("an open workload: queues grew as those of independent requests, not as those of users who wait for answers. "+
			"It is sized for what arrives and not for what is queued, and pods are kept below %.0f %% of their CPU", 100*queueLoad)
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
			more = "would keep a machine that can be drained"
		case to < pl.Coming:
			more = "costs nothing (there is room)"
		case pl.PerMachine > 0:
			more = fmt.Sprintf("needs a new machine (%s/h, room for %d)", pl.Next, pl.PerMachine)
		default:
			more = fmt.Sprintf("has no room: %s", pl.Why)
		}
		switch {
		case p.allocator.perMachine > 0 && to <= pl.Ready && (pl.Ready-to+1)/p.allocator.perMachine > (pl.Ready-to)/p.allocator.perMachine:
			fewer = fmt.Sprintf("frees a machine (%s/h)", pl.Next)
		default:
			fewer = "frees no machine"
		}
	}
	full, then := 0.0, "be met"
	if n := serving(v.Pods); n > 0 {
		full = 100 * s.work.offered / (s.quota * float64(n))
		if p.sizer.guard.beyond() || p.estimator.learnt(v).Load(s.work.offered, float64(n)) > s.ceiling {
			then = "be missed"
		}
	}
	expect := "the model expects the objective to " + then
	if unmeasured(v) {
		expect = "response times are not measured"
	}
	return podscaler.Because(podscaler.ReasonMarginalPrice, "one replica more than %d %s; one fewer %s. The pods that are ready now use %.0f %% of their CPU at this load; with these alone, %s",
		to, more, fewer, full, expect)
}
