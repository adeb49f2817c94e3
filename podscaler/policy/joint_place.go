package policy

import (
	"fmt"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

const (
	// unsureRuns is how many runs in a row have to want a machine before it is bought, while it is
	// not sure what requests take, for pods that have just started use more than they will, and
	// where it is for one replica: a load that stays at the edge of a machine would else buy
	// one again and again.
	unsureRuns = 4
	// queuedRuns is how many runs in a row have to want one for a single replica to work off a
	// queue: there is one for a moment on any pods, now and then, and it is gone before a machine
	// could be there.
	queuedRuns = 2
	// unsureFor is for how long they have to where it is for one replica and next to nothing is
	// known: it may be the caution of not knowing that wants it, and by then something is.
	unsureFor = 2 * time.Minute
)

// place makes replicas of what is needed: kept as long as it may be needed again, filled up to what
// is paid for, and no more than there is to be had.
func (p *joint) place(v *podscaler.View, s sizing) podscaler.Recommendation {
	r := podscaler.Recommendation{Known: true, Reasons: p.explain(v, &s)}
	n := s.now
	if pl := v.Room.Places; pl != nil && n > pl.Coming && !p.off.agreed {
		if n = max(pl.Coming, p.agreed(v, pl, &s)); n < s.now {
			r.Reasons = append(r.Reasons, podscaler.Because(podscaler.ReasonModelUncertain, "%d are wanted; only %d have been wanted for enough runs in a row to buy a machine for", s.now, n))
		}
	}
	s.ahead = max(n, s.later)
	if n < v.Replicas {
		if n = p.kept(v, &s, n); n > s.now {
			r.Reasons = append(r.Reasons, podscaler.Because(podscaler.ReasonScaleDownStabilized, "%d are needed, and %d are kept: as many were needed in the last %s, or are not known not to have been",
				s.now, n, pricing.Short(p.keep)))
		}
	}
	to := n
	if pl := v.Room.Places; pl != nil {
		to = p.filled(v, pl, n)
		if to > n {
			r.Reasons = append(r.Reasons, podscaler.Because(podscaler.ReasonPaidPlacesFilled, "%d needed, and %d more in room that is paid for anyway: for %d now, for %d with the machines on their way", n, to-n, pl.Ready, pl.Coming))
		}
		if p.leaves(v, pl, to) {
			r.Reasons = append(r.Reasons, podscaler.Because(podscaler.ReasonPaidPlacesLeft, "%d stay of %d: room for %d is paid for or on its way, and the rest of it is left empty, so that a machine can go", to, v.Replicas, pl.Coming))
		}
		if most := max(pl.Most, v.Replicas); to > most {
			why := "no more was bid for before this run"
			if pl.Why.Code != "" {
				why = pl.Why.String()
			}
			r.Reasons = append(r.Reasons, podscaler.Because(podscaler.ReasonPlacesLimited, "%d wanted, and there is room for %d at most: %s", to, most, why))
			to = most
		}
	}
	r.Replicas, r.Ahead = to, s.ahead
	r.Reasons = append(r.Reasons, p.marginal(v, &s, to))
	return r
}

// agreed is how many replicas the last runs agree on. For a single one beyond what is paid for
// neither a queue that one run sees is reason enough, nor one for as long as those that have room
// already do not serve yet, for they may be enough to work it off, nor the caution of knowing next
// to nothing.
func (p *joint) agreed(v *podscaler.View, pl *podscaler.Places, s *sizing) int {
	one := s.now == pl.Coming+1
	switch {
	case p.queued(v) && !one, s.sure == 1 && !one:
		return s.now
	case p.queued(v) && serving(v.Pods) >= pl.Coming:
		return p.needs.lately(queuedRuns)
	}
	n := p.needs.lately(unsureRuns)
	if s.sure < 0.5 && n == pl.Coming+1 {
		n = p.needs.least(v.Now, unsureFor)
	}
	return n
}

// kept is how many replicas stay of those that there are, where n are needed now: the most that
// were needed for a while, and all of them until that is known and what is needed is learnt. While
// requests are late in a queue none is removed: it would lose those that it holds, of which the
// oldest pods have most.
func (p *joint) kept(v *podscaler.View, s *sizing, n int) int {
	most, known := p.needs.most(v.Now, p.keep)
	if !known || !p.learnt(v).Measured() || p.blind(v) || p.late(v, s.work.rate) && !p.off.late {
		return max(v.Replicas, n)
	}
	if p.learns && !p.off.start {
		most = max(most, p.needs.start(v.Now))
	}
	return min(max(most, n), max(v.Replicas, n), max(p.guard.most(), n))
}

// late reports whether more requests queue than the objective allows to be in flight. Pods that
// wait for something else meanwhile hold many requests, and answer them in time.
func (p *joint) late(v *podscaler.View, rate float64) bool {
	n, _ := inFlight(v)
	return p.queued(v) && n > rate*v.Workload.SLO.Target.Seconds()
}

// blind reports whether something is unknown that might want more replicas.
func (p *joint) blind(v *podscaler.View) bool {
	_, latency := v.Window.Latency.Number()
	_, arrivals := v.Window.Arrivals.Number()
	_, flying := v.Window.InFlight.Number()
	_, cpu := used(v.Pods)
	return !latency || !arrivals || !cpu || p.flying && !flying
}

// filled is n and what there is room for beside them on machines that are paid for as long as n
// are needed. A whole machine's room is left empty, for then the machine can go.
func (p *joint) filled(v *podscaler.View, pl *podscaler.Places, n int) int {
	if !p.fill {
		return n
	}
	most := max(min(v.Workload.Max, p.guard.most()), n)
	if pl.Filled > 0 {
		return min(max(n, pl.Filled), most)
	}
	room := pl.Ready
	if n > room {
		room = pl.Coming
	}
	free := room - n
	switch {
	case free < 0:
		return n
	case p.perMachine > 0:
		free %= p.perMachine
	}
	return min(n+free, most)
}

// leaves reports whether replicas are given up that have room, or will have it: the machine they
// would keep is not needed for those that stay.
func (p *joint) leaves(v *podscaler.View, pl *podscaler.Places, to int) bool {
	return p.fill && to < min(v.Replicas, pl.Coming, v.Workload.Max)
}

// explain says what is needed, and what it comes from.
func (p *joint) explain(v *podscaler.View, s *sizing) []podscaler.Reason {
	w := v.Workload
	var reasons []podscaler.Reason
	add := func(code, format string, args ...any) {
		reasons = append(reasons, podscaler.Because(code, format, args...))
	}
	holds := fmt.Sprintf("where the p%.4g stays below %.4gms", 100*w.SLO.Quantile, 1000*s.part*w.SLO.Target.Seconds())
	if p.guard.beyond() {
		holds = "at any response time"
	}
	add(podscaler.ReasonSizedForLoad, "%d replicas carry the %.4g cores that are offered (%.4g requests a second of %.3gms each) up to %.0f %% of %.3g cores each, %s",
		s.model, s.work.offered, s.work.rate+s.work.back, 1000*s.work.demand, 100*s.ceiling, s.quota, holds)
	if p.queued(v) && s.work.back > 0 {
		who := fmt.Sprintf("users who pause for %.3gs, and ask again once they are answered", p.pause.estimate())
		if p.pause.long() {
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
	if p.guard.beyond() {
		add(podscaler.ReasonObjectiveUnreachable, "on idle pods response times would have been %.3g times the objective. Pods are kept below %.0f %% of their cpu and no emptier, for more of them would not help",
			p.guard.times, 100*guardLoad)
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
		add("response times were off from the model by %.0f %%", 100*p.service.Miss())
	}
	if n, ok := inFlight(v); ok && p.waiting && number(v.Window.Latency) > v.Workload.SLO.Target.Seconds() {
		add("%.4g requests are in flight on pods that use at most half of their cpu: they wait for something else, and pass for no queue, since more pods would not answer them", n)
	}
	if p.pauses.none {
		add("as many requests are in flight however long answers take: users who do not pause, of which CPU does not show how many there are. Pods are kept below %.0f %% of theirs", 100*guardLoad)
	}
	if p.pause.others() {
		add("queues grew as those of requests that do not depend on each other, not as those of users who wait for answers: "+
			"it sizes for what comes and not for what waits, and keeps pods below %.0f %% of their cpu", 100*queueLoad)
	}
	return reasons
}

// inSeconds prints what was measured no finer than it matters.
func inSeconds(d time.Duration) string { return pricing.Short(d.Round(time.Second)) }

// marginal says what one replica more and one fewer would cost, and what comes of doing nothing.
func (p *joint) marginal(v *podscaler.View, s *sizing, to int) podscaler.Reason {
	more, fewer := "its price is not known", "its price is not known"
	if pl := v.Room.Places; pl != nil {
		switch {
		case p.leaves(v, pl, to):
			more = "costs nothing before that machine goes, for its room is paid for, and would keep it"
		case to < pl.Coming:
			more = "costs nothing, for its room is paid for"
		case pl.PerMachine > 0:
			more = fmt.Sprintf("costs a machine, %s an hour, that takes %d", pl.Next, pl.PerMachine)
		default:
			more = fmt.Sprintf("is not to be had: %s", pl.Why)
		}
		switch {
		case p.perMachine > 0 && to <= pl.Ready && (pl.Ready-to+1)/p.perMachine > (pl.Ready-to)/p.perMachine:
			fewer = fmt.Sprintf("would free a machine, %s an hour", pl.Next)
		default:
			fewer = "would save nothing, for its machine stays"
		}
	}
	full, then := 0.0, "hold"
	if n := serving(v.Pods); n > 0 {
		full = 100 * s.work.offered / (s.quota * float64(n))
		if p.guard.beyond() || p.learnt(v).Load(s.work.offered, float64(n)) > s.ceiling {
			then = "do not hold"
		}
	}
	return podscaler.Because(podscaler.ReasonMarginalPrice, "one more %s; one fewer %s; with nothing done the pods that are ready are at %.0f %% of their cpu, and %s what response times are to stay within",
		more, fewer, full, then)
}
