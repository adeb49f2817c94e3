package operator

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/signals"
	"github.com/plimsoll/plimsoll/pricing"
)

// What is said of an object follows from the desk, the step and what was said before, and from
// nothing else. Between two runs of a policy, what its last run had to say stays.

// status is what a WorkloadAutoscaler's status is after a step.
func (w *workload) status(s *loop.Step) v1alpha1.WorkloadAutoscalerStatus {
	st := *w.object.Status.DeepCopy()
	st.ObservedGeneration, st.ActivePolicy = w.object.Generation, w.object.Spec.Policy
	c := conditions{&st.Conditions, w.object.Generation, s.Time}
	ws, outcome := workloadStep(s, w.name), s.Rescaled(w.name)
	w.numbers(&st, s, ws, outcome)
	w.scale(c, s, ws, outcome)
	if ws != nil && ws.Decision != nil {
		w.measures(c, ws)
		w.limits(c, ws.Decision)
		w.fallback(c, ws.Decision)
		w.registered(c, ws.Decision)
	}
	w.unplanned(c, s, ws)
	w.handedOff(c, w.expected(s))
	w.unasked(c)
	w.surroundings(c, s, ws)
	w.zero(c, ws, outcome)
	w.ready(c)
	w.awaits(c, ws)
	st.Rightsize = sizingStatus(s, ws)
	return st
}

// numbers states what was seen and decided.
func (w *workload) numbers(st *v1alpha1.WorkloadAutoscalerStatus, s *loop.Step, ws *loop.WorkloadStep, outcome *loop.Outcome) {
	st.CurrentReplicas, st.ReadyReplicas = nil, nil
	if w.target.Known && ws != nil {
		st.CurrentReplicas, st.ReadyReplicas = count(ws.Replicas), count(ws.Ready)
	}
	if w.invalid != nil || !w.target.Known {
		st.RecommendedReplicas, st.DesiredReplicas = nil, nil
	}
	if ws == nil || ws.Decision == nil {
		return
	}
	d := ws.Decision
	st.RecommendedReplicas = nil
	if d.Known {
		st.RecommendedReplicas = count(d.Proposed)
	}
	st.DesiredReplicas = count(d.To)
	st.SLO, st.Cost = sloOf(ws.Inputs), costOf(ws.Inputs, &s.Observed.Cost)
	applied := outcome != nil && outcome.Error == ""
	if d.To == d.From {
		return
	}
	st.LastDecision = &v1alpha1.ScalingDecision{
		ID: s.ID, Time: metav1.NewTime(s.Time), Action: "ScaleUp", From: int32(d.From), To: int32(d.To),
		Applied: applied, Reasons: reasonsOf(d.Reasons),
	}
	if d.To < d.From {
		st.LastDecision.Action = "ScaleDown"
	}
	if applied {
		at := metav1.NewTime(s.Time)
		st.LastScaleTime = &at
	}
}

func count(n int) *int32 {
	v := int32(n)
	return &v
}

func reasonsOf(all []podscaler.Reason) []v1alpha1.Reason {
	var out []v1alpha1.Reason
	for _, r := range all {
		out = append(out, v1alpha1.Reason{Code: r.Code, Text: r.Text})
	}
	return out
}

// sloOf is the objective as it was measured, nil without one.
func sloOf(in *loop.Inputs) *v1alpha1.SLOStatus {
	if in == nil || in.TargetMs == 0 {
		return nil
	}
	st := &v1alpha1.SLOStatus{}
	if in.LatencyMs != nil {
		st.Observed = fmt.Sprintf("%.0fms", *in.LatencyMs)
	}
	if in.Good != nil {
		st.GoodFraction = fmt.Sprintf("%.4g", *in.Good)
	}
	if b := in.Budget; b != nil {
		st.ErrorBudget = &v1alpha1.ErrorBudget{Since: metav1.NewTime(b.Since), Left: fmt.Sprintf("%.4g", b.Left)}
		for _, r := range b.Burn {
			st.ErrorBudget.BurnRates = append(st.ErrorBudget.BurnRates, v1alpha1.BurnRate{Window: pricing.Short(time.Duration(r.Over)), Rate: fmt.Sprintf("%.3g", r.Rate)})
		}
	}
	if in.Arrivals != nil {
		st.ArrivalsPerSecond = fmt.Sprintf("%.4g", *in.Arrivals)
	}
	return st
}

// costOf is what the machines cost, nil where there is no target or it is not known.
func costOf(in *loop.Inputs, all *loop.Cost) *v1alpha1.CostStatus {
	if in == nil || in.CostTarget == 0 || !all.Known {
		return nil
	}
	st := &v1alpha1.CostStatus{Currency: all.Unit, PerHour: all.Ordered.String()}
	if in.Cost != nil {
		st.Current = in.Cost.String()
	}
	return st
}

// scale states whether the target's scale can be read and written.
func (w *workload) scale(c conditions, s *loop.Step, ws *loop.WorkloadStep, outcome *loop.Outcome) {
	kind := v1alpha1.ConditionAbleToScale
	switch {
	case len(w.target.Findings) > 0 && !w.target.Known:
		f := w.target.Findings[0]
		c.set(kind, metav1.ConditionFalse, f.Code, "%s", f.Text)
	case outcome != nil && outcome.Error != "":
		c.set(kind, metav1.ConditionFalse, reasonFailedUpdateScale, "%s", outcome.Error)
	case outcome != nil:
		c.set(kind, metav1.ConditionTrue, reasonSucceededRescale, "set to %d replicas, by decision %s", ws.Decision.To, s.ID)
	case ws != nil && ws.Decision != nil:
		reason, text := reasonReadyForNewScale, "the scale was read, and nothing keeps it from being written"
		for _, r := range ws.Decision.Reasons {
			if r.Code == podscaler.ReasonScaleUpStabilized || r.Code == podscaler.ReasonScaleDownStabilized {
				reason, text = r.Code, r.Text
			}
		}
		c.set(kind, metav1.ConditionTrue, reason, "%s", text)
	case failedUpdate(*c.list): // until the next decision: what was refused would be so still
	case !isTrue(*c.list, kind):
		c.set(kind, metav1.ConditionTrue, reasonSucceededGetScale, "the target's scale was read")
	}
}

// failedUpdate reports whether the last replicas that were decided on could not be written.
func failedUpdate(all []metav1.Condition) bool {
	able := meta.FindStatusCondition(all, v1alpha1.ConditionAbleToScale)
	return able != nil && able.Reason == reasonFailedUpdateScale
}

// measures states what the policy could measure at its last run.
func (w *workload) measures(c conditions, ws *loop.WorkloadStep) {
	d := ws.Decision
	disabled := reasonWith(d.Reasons, podscaler.ReasonScalingDisabled)
	switch {
	case disabled != nil:
		c.set(v1alpha1.ConditionScalingActive, metav1.ConditionFalse, disabled.Code, "%s", disabled.Text)
	case d.Known:
		r := first(d.Reasons, podscaler.Reason{Code: podscaler.ReasonValidMetricFound, Text: "a number of replicas follows from what was measured"})
		c.set(v1alpha1.ConditionScalingActive, metav1.ConditionTrue, podscaler.ReasonValidMetricFound, "%s", r.Text)
	case outOfBounds(d) != nil:
		r := outOfBounds(d)
		c.set(v1alpha1.ConditionScalingActive, metav1.ConditionTrue, r.Code, "%s", r.Text)
	default:
		r := first(d.Reasons, podscaler.Reason{Code: reasonNotMeasured, Text: "the policy could not say how many replicas there should be"})
		c.set(v1alpha1.ConditionScalingActive, metav1.ConditionFalse, r.Code, "%s", r.Text)
	}
	bad := w.amiss(signals.CodeManySeries, signals.CodeMetricsUnknown, signals.CodeMetricsStale, signals.CodeMetricsPartial)
	if bad == nil {
		bad = unmeasured(d)
	}
	if bad != nil {
		c.set(v1alpha1.ConditionMetricsHealthy, metav1.ConditionFalse, bad.Code, "%s", bad.Text)
	} else {
		c.set(v1alpha1.ConditionMetricsHealthy, metav1.ConditionTrue, reasonAsMeasured, "everything that the policy asks for was measured")
	}
	w.targets(c, ws.Inputs, reasonWith(d.Reasons, podscaler.ReasonObjectiveUnreachable))
	if w.signals.OpenCost == nil {
		return
	}
	if apart := w.amiss(signals.CodeCostSourceMismatch); apart != nil {
		c.set(v1alpha1.ConditionCostSourceMismatch, metav1.ConditionTrue, apart.Code, "%s", apart.Text)
	} else {
		c.set(v1alpha1.ConditionCostSourceMismatch, metav1.ConditionFalse, reasonPricesAgree, "OpenCost shows what the price book says")
	}
}

// amiss is the first finding about the workload's signals with one of the codes, in their order, or
// nil.
func (w *workload) amiss(codes ...string) *podscaler.Reason {
	for _, code := range codes {
		if r := reasonWith(w.findings, code); r != nil {
			return r
		}
	}
	return nil
}

// outOfBounds is why replicas were to be put right without asking the policy, or nil.
func outOfBounds(d *podscaler.Decision) *podscaler.Reason {
	if d.Known || len(d.Reasons) == 0 {
		return nil
	}
	switch d.Reasons[0].Code {
	case podscaler.ReasonTooFewReplicas, podscaler.ReasonTooManyReplicas, podscaler.ReasonScheduleFloor, podscaler.ReasonScheduleCeiling:
		return &d.Reasons[0]
	}
	return nil
}

// unmeasured is the first of a decision's reasons that says what could not be measured.
func unmeasured(d *podscaler.Decision) *podscaler.Reason {
	for i, r := range d.Reasons {
		switch r.Code {
		case podscaler.ReasonFailedGetResourceMetric, podscaler.ReasonFailedGetContainerMetric, podscaler.ReasonFailedGetPodsMetric, podscaler.ReasonFailedGetObjectMetric,
			podscaler.ReasonFailedGetExternalMetric, podscaler.ReasonMetricsIncomplete, podscaler.ReasonLatencyUnknown, podscaler.ReasonCostUnknown:
			return &d.Reasons[i]
		}
	}
	return nil
}

func reasonWith(all []podscaler.Reason, code string) *podscaler.Reason {
	for i := range all {
		if all[i].Code == code {
			return &all[i]
		}
	}
	return nil
}

func first(all []podscaler.Reason, otherwise podscaler.Reason) podscaler.Reason {
	if len(all) == 0 {
		return otherwise
	}
	return all[0]
}

// targets states whether the objective and the budget are kept, and why the policy has given the
// objective up if it has.
func (w *workload) targets(c conditions, in *loop.Inputs, beyond *podscaler.Reason) {
	if in == nil {
		return
	}
	if in.TargetMs > 0 {
		switch {
		case in.LatencyMs == nil:
			c.set(v1alpha1.ConditionSLOAtRisk, metav1.ConditionUnknown, reasonNotMeasured, "response times could not be measured")
		case *in.LatencyMs > in.TargetMs && beyond != nil:
			c.set(v1alpha1.ConditionSLOAtRisk, metav1.ConditionTrue, beyond.Code, "%.0f ms, above the objective of %.0f ms: %s", *in.LatencyMs, in.TargetMs, beyond.Text)
		case *in.LatencyMs > in.TargetMs:
			c.set(v1alpha1.ConditionSLOAtRisk, metav1.ConditionTrue, reasonAboveTarget, "%.0f ms, above the objective of %.0f ms", *in.LatencyMs, in.TargetMs)
		default:
			c.set(v1alpha1.ConditionSLOAtRisk, metav1.ConditionFalse, reasonWithinTarget, "%.0f ms, of at most %.0f ms", *in.LatencyMs, in.TargetMs)
		}
	}
	burning(c, in.Budget)
	if in.CostTarget > 0 {
		per := w.words.Cost.Per
		switch {
		case in.Cost == nil:
			c.set(v1alpha1.ConditionBudgetExceeded, metav1.ConditionUnknown, reasonNotMeasured, "what the machines cost is not known")
		case *in.Cost > in.CostTarget:
			c.set(v1alpha1.ConditionBudgetExceeded, metav1.ConditionTrue, reasonAboveTarget, "%s in %s, above the target of %s", in.Cost, per, in.CostTarget)
		default:
			c.set(v1alpha1.ConditionBudgetExceeded, metav1.ConditionFalse, reasonWithinTarget, "%s in %s, of at most %s", in.Cost, per, in.CostTarget)
		}
	}
}

// burning states whether the error budget is spent too fast. Until requests were counted nothing is
// said of it.
func burning(c conditions, b *podscaler.Budget) {
	kind := v1alpha1.ConditionErrorBudgetBurning
	if b == nil {
		return
	}
	a := b.Burning()
	if a == nil {
		c.set(kind, metav1.ConditionFalse, reasonWithinBudget, "%.3g %% of the requests may be late, and %.3g %% of that is left for 30 days", 100*b.Late, 100*b.Left)
		return
	}
	reason := reasonSlowBurn
	if a.Page {
		reason = reasonFastBurn
	}
	c.set(kind, metav1.ConditionTrue, reason, "%.3g times as many requests as may (%.3g %%) were late over %s, and %.3g times over %s",
		b.Over(a.Long), 100*b.Late, pricing.Short(a.Long), b.Over(a.Short), pricing.Short(a.Short))
}

// limits states whether bounds or behavior allow less than was proposed.
func (w *workload) limits(c conditions, d *podscaler.Decision) {
	for _, r := range d.Reasons {
		switch r.Code {
		case podscaler.ReasonTooFewReplicas, podscaler.ReasonTooManyReplicas, podscaler.ReasonScaleUpLimit, podscaler.ReasonScaleDownLimit, podscaler.ReasonCooldown,
			podscaler.ReasonScheduleFloor, podscaler.ReasonScheduleCeiling, podscaler.ReasonTooFewAvailable, podscaler.ReasonRollout, podscaler.ReasonUpstreamSuspect,
			podscaler.ReasonSignalsRecovering, podscaler.ReasonPaused, nodescaler.NamespaceQuota:
			c.set(v1alpha1.ConditionScalingLimited, metav1.ConditionTrue, r.Code, "%s", r.Text)
			return
		}
	}
	c.set(v1alpha1.ConditionScalingLimited, metav1.ConditionFalse, podscaler.ReasonDesiredWithinRange, "what is proposed is allowed")
}

// fallback states whether the fallback decides in place of the policy, where there is one.
func (w *workload) fallback(c conditions, d *podscaler.Decision) {
	if w.words.Fallback == nil {
		return
	}
	if r := reasonWith(d.Reasons, podscaler.ReasonFallback); r != nil {
		c.set(v1alpha1.ConditionFallback, metav1.ConditionTrue, r.Code, "%s", r.Text)
	} else {
		c.set(v1alpha1.ConditionFallback, metav1.ConditionFalse, reasonPolicyDecides, "the policy decides")
	}
}

// registered states whether a service registry knows other instances than are ready, where one is
// asked.
func (w *workload) registered(c conditions, d *podscaler.Decision) {
	if w.signals.Registration == nil {
		return
	}
	kind := v1alpha1.ConditionRegistrationMismatch
	switch r := reasonWith(d.Reasons, podscaler.ReasonRegistrationMismatch); {
	case r != nil:
		c.set(kind, metav1.ConditionTrue, r.Code, "%s", r.Text)
	case reasonWith(d.Reasons, podscaler.ReasonRegistrationUnknown) != nil:
		c.set(kind, metav1.ConditionUnknown, podscaler.ReasonRegistrationUnknown, "the registry could not be asked")
	default:
		c.set(kind, metav1.ConditionFalse, reasonAsRegistered, "the registry knows the instances that are ready")
	}
}

// unasked drops the conditions of what the autoscaler asks for no more: nothing would say anew what
// holds of it.
func (w *workload) unasked(c conditions) {
	if w.invalid != nil { // what it asks for is not known
		return
	}
	for kind, asked := range map[string]bool{
		v1alpha1.ConditionSLOAtRisk:            w.words.SLO.Target > 0,
		v1alpha1.ConditionErrorBudgetBurning:   w.words.SLO.Target > 0,
		v1alpha1.ConditionBudgetExceeded:       w.words.Cost.Target > 0,
		v1alpha1.ConditionCostSourceMismatch:   w.signals.OpenCost != nil,
		v1alpha1.ConditionFallback:             w.words.Fallback != nil,
		v1alpha1.ConditionRegistrationMismatch: w.signals.Registration != nil,
		v1alpha1.ConditionCapacityAhead:        w.handOff != "",
	} {
		if !asked && meta.FindStatusCondition(*c.list, kind) != nil { // to remove is to copy
			meta.RemoveStatusCondition(c.list, kind)
		}
	}
}

// surroundings states what others do: who else scales it, who paused it, what machines are on their
// way.
func (w *workload) surroundings(c conditions, s *loop.Step, ws *loop.WorkloadStep) {
	switch i := slices.IndexFunc(w.target.Findings, conflicts); {
	case i < 0:
		c.set(v1alpha1.ConditionConflicted, metav1.ConditionFalse, reasonNoConflict, "no other autoscaler is known to scale the target")
	case rests(w.held):
		f := w.target.Findings[i]
		c.set(v1alpha1.ConditionConflicted, metav1.ConditionFalse, f.Code, "%s: that is no conflict while nothing is written here", f.Text)
	default:
		c.set(v1alpha1.ConditionConflicted, metav1.ConditionTrue, w.target.Findings[i].Code, "%s", w.target.Findings[i].Text)
	}
	c.paused(w.pause, w.object.Spec.Mode == v1alpha1.ModePaused)
	if ws != nil {
		coming := s.Observed.Machines[nodescaler.Ordered] + s.Observed.Machines[nodescaler.Booting] + ordered(s, func(*nodescaler.Action) bool { return true })
		c.capacity(coming, ws.Pending, "replica", "not ready")
	}
}

// conflicts reports whether a finding is that another client scales the target.
func conflicts(f kube.Finding) bool {
	return f.Code == v1alpha1.ReasonForeignAutoscaler || f.Code == v1alpha1.ReasonForeignWrites
}

// unplanned states for which of the workload's pods no machine is ordered, once there were any.
// Those of a new workload may come yet: that is no alarm.
func (w *workload) unplanned(c conditions, s *loop.Step, ws *loop.WorkloadStep) {
	if ws == nil {
		return
	}
	kind, why := v1alpha1.ConditionCapacityHeld, ws.Unplanned
	if why != nil && why.Code == loop.CodeReplicasNotCreated && s.Time.Sub(w.object.CreationTimestamp.Time) < loop.GapGrace {
		why = nil
	}
	switch {
	case why != nil:
		c.set(kind, metav1.ConditionTrue, why.Code, "%s", why.Text)
	case meta.FindStatusCondition(*c.list, kind) != nil:
		c.set(kind, metav1.ConditionFalse, reasonPlannedFor, "all its pods count when machines are planned")
	}
}

func (c conditions) paused(p pause, mode bool) {
	switch {
	case mode:
		c.set(v1alpha1.ConditionPaused, metav1.ConditionTrue, v1alpha1.ReasonPaused, "mode Paused")
	case p.on:
		c.set(v1alpha1.ConditionPaused, metav1.ConditionTrue, v1alpha1.ReasonPaused, "%s", p.text)
	default:
		c.set(v1alpha1.ConditionPaused, metav1.ConditionFalse, reasonNotPaused, "it is not paused")
	}
}

// ordered is how many machines the step has ordered of those that are asked for.
func ordered(s *loop.Step, of func(*nodescaler.Action) bool) (n int) {
	for i := range s.Plan.Actions {
		a, o := &s.Plan.Actions[i], s.Tried(i)
		if a.Kind == nodescaler.Buy && of(a) && o != nil && o.Held == nil && o.Error == "" {
			n++
		}
	}
	return n
}

// capacity states whether replicas or pods wait while machines are in flight. That none is has one
// reason: replicas become ready one by one, and another reason is written at once.
func (c conditions) capacity(coming, waiting int, what, how string) {
	switch {
	case waiting == 0:
		c.set(v1alpha1.ConditionCapacityPending, metav1.ConditionFalse, reasonNoneComing, "nothing waits for a machine")
	case coming == 0:
		c.set(v1alpha1.ConditionCapacityPending, metav1.ConditionFalse, reasonNoneComing, "%s %s, and no machine is in flight", pricing.Are(waiting, what), how)
	default:
		c.set(v1alpha1.ConditionCapacityPending, metav1.ConditionTrue, reasonMachinesComing, "%s %s, and %s in flight", pricing.Are(waiting, what), how, pricing.Are(coming, "machine"))
	}
}

// zero states whether 0 replicas are our own doing. That outlives the process, for a scaler that
// starts takes replicas of 0 for a person's wish otherwise. A write that failed may have been
// carried out: it counts until the next decision. So does what is only recommended, which another
// client, as KEDA, carries out. Of a workload that may be idle it states, too, that another's are
// to stay.
func (w *workload) zero(c conditions, ws *loop.WorkloadStep, outcome *loop.Outcome) {
	switch {
	case ws == nil || !w.target.Known:
	case outcome != nil && ws.Decision.To == 0, w.recommendsZero(ws):
		c.set(v1alpha1.ConditionScaledToZero, metav1.ConditionTrue, reasonScaledToZero, "0 replicas were decided on here")
	case ws.Decision == nil && w.recommends(): // until the next decision
	case ws.Replicas > 0 && (ws.Decision != nil || !failedUpdate(*c.list)):
		c.set(v1alpha1.ConditionScaledToZero, metav1.ConditionFalse, reasonNotAtZero, "there are replicas")
	case w.words.Idle != nil && ws.Decision != nil && reasonWith(ws.Decision.Reasons, podscaler.ReasonScalingDisabled) != nil:
		c.set(v1alpha1.ConditionScaledToZero, metav1.ConditionFalse, reasonSwitchedOff, "another client set the replicas to 0: they stay until they are set to something else")
	}
}

// recommendsZero reports whether 0 replicas are recommended where there are some.
func (w *workload) recommendsZero(ws *loop.WorkloadStep) bool {
	d := ws.Decision
	return d != nil && d.From > 0 && d.To == 0 && w.recommends()
}

// recommends reports whether another client carries out what is decided, if anyone does.
func (w *workload) recommends() bool {
	return w.held != nil && w.held.Code == v1alpha1.ReasonRecommending
}

// switchedOff reports whether replicas of 0 are recorded as another client's.
func switchedOff(all []metav1.Condition) bool {
	zero := meta.FindStatusCondition(all, v1alpha1.ConditionScaledToZero)
	return zero != nil && zero.Reason == reasonSwitchedOff
}

// rests reports whether nothing is done because people want it so, by why an object is held.
func rests(held *nodescaler.Reason) bool {
	return held != nil && (held.Code == v1alpha1.ReasonRecommending || held.Code == v1alpha1.ReasonPaused)
}

// ready states the most important of all.
func (w *workload) ready(c conditions) {
	kind := v1alpha1.ConditionReady
	active := meta.FindStatusCondition(*c.list, v1alpha1.ConditionScalingActive)
	able := meta.FindStatusCondition(*c.list, v1alpha1.ConditionAbleToScale)
	switch {
	case w.held != nil && !rests(w.held):
		c.set(kind, metav1.ConditionFalse, w.held.Code, "%s", w.held.Text)
	case !w.target.Known:
		c.set(kind, metav1.ConditionFalse, able.Reason, "%s", able.Message)
	case w.held != nil && w.held.Code == v1alpha1.ReasonPaused:
		c.set(kind, metav1.ConditionTrue, w.held.Code, "%s", w.held.Text)
	case w.held == nil && w.pause.replicas != nil && able.Status != metav1.ConditionFalse:
		c.set(kind, metav1.ConditionTrue, v1alpha1.ReasonPaused, "%s", w.pause.text)
	case active == nil:
		c.set(kind, metav1.ConditionUnknown, reasonStarting, "nothing was decided yet")
	case active.Status == metav1.ConditionFalse:
		c.set(kind, metav1.ConditionFalse, active.Reason, "%s", active.Message)
	case able.Status == metav1.ConditionFalse:
		c.set(kind, metav1.ConditionFalse, able.Reason, "%s", able.Message)
	case w.held != nil:
		c.set(kind, metav1.ConditionTrue, w.held.Code, "%s", w.held.Text)
	default:
		c.set(kind, metav1.ConditionTrue, v1alpha1.ReasonActive, "what is decided is done")
	}
}
