package operator

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/signals"
	"github.com/plimsoll/plimsoll/proxmox/placement"
)

// events are the events of a workload: changes of its replicas, and conditions that turned.
func (w *workload) events(s *loop.Step, st *v1alpha1.WorkloadAutoscalerStatus) []kube.Event {
	all := turned(w.object.Status.Conditions, st.Conditions, v1alpha1.ConditionReady, v1alpha1.ConditionConflicted, v1alpha1.ConditionMetricsHealthy,
		v1alpha1.ConditionSLOAtRisk, v1alpha1.ConditionErrorBudgetBurning, v1alpha1.ConditionBudgetExceeded, v1alpha1.ConditionCostSourceMismatch, v1alpha1.ConditionFallback,
		v1alpha1.ConditionRegistrationMismatch, v1alpha1.ConditionCapacityHeld)
	for _, code := range []string{signals.CodeNoBucketEdge, signals.CodeFewScrapes} {
		if r := w.amiss(code); r != nil {
			all = append(all, kube.Event{About: code, Key: r.Text, Warning: true, Reason: code, Note: r.Text})
		}
	}
	for _, r := range w.warnings {
		all = append(all, kube.Event{About: r.Code, Key: r.Text, Warning: true, Reason: r.Code, Note: r.Text})
	}
	all = append(all, sizingEvents(s, workloadStep(s, w.name))...)
	all = append(all, handOffEvents(w.expected(s))...)
	d := st.LastDecision
	if d == nil || d.ID != s.ID || !d.Time.Time.Equal(s.Time) { // who leads anew counts steps anew
		return all
	}
	e := kube.Event{About: "Rescale", Key: fmt.Sprintf("%s %d %d", s.ID, d.From, d.To), Action: d.Action}
	why := ""
	if r := decisive(d.Reasons); r.Text != "" {
		why = "; " + r.Text
	}
	outcome := s.Rescaled(w.name)
	switch {
	case d.Applied:
		e.Reason, e.Note = reasonSuccessfulRescale, fmt.Sprintf("from %d to %d replicas%s", d.From, d.To, why)
	case outcome != nil:
		e.Warning, e.Reason, e.Note = true, "FailedRescale", fmt.Sprintf("from %d to %d replicas: %s", d.From, d.To, outcome.Error)
	default: // sent again only when another number is recommended
		e.Key = fmt.Sprintf("%d %d", d.From, d.To)
		e.Reason, e.Note = "WouldRescale", fmt.Sprintf("from %d to %d replicas%s", d.From, d.To, why)
	}
	return append(all, e)
}

// decisive is the reason that made the number of a decision that was written down.
func decisive(written []v1alpha1.Reason) podscaler.Reason {
	all := make([]podscaler.Reason, len(written))
	for i, r := range written {
		all[i] = podscaler.Reason{Code: r.Code, Text: r.Text}
	}
	return podscaler.Decisive(all)
}

// events are the events of a pool: what was done or would be, and conditions that turned.
func (p *pool) events(s *loop.Step, st *v1alpha1.VMPoolStatus) []kube.Event {
	all := turned(p.object.Status.Conditions, st.Conditions, v1alpha1.ConditionReady, v1alpha1.ConditionConflicted, v1alpha1.ConditionPodsUnplaced, v1alpha1.ConditionRolledOut)
	if p.pve.Join.Token.JoinsServers() {
		all = append(all, kube.Event{
			About: reasonServerToken, Key: p.pve.Join.TokenFile, Warning: true, Reason: reasonServerToken,
			Note: fmt.Sprintf("join.tokenFile %s holds the servers' token: whoever gets hold of one machine can join the cluster as a server; put the agents' own there, "+
				"which the servers are given as agent-token", p.pve.Join.TokenFile),
		})
	}
	if p.ours() && len(s.Plan.Held) > 0 {
		all = append(all, heldEvent(s.Plan.Held))
	}
	for i := range s.Plan.Actions {
		a := &s.Plan.Actions[i]
		o := s.Tried(i)
		// It is done in a moment.
		soon := o != nil && o.Held != nil && o.Held.Code == placement.CodeTemplateUnread
		// Evictions are many, and pods have events of their own.
		if a.Pool == p.object.Name && a.Kind != nodescaler.Evict && a.Kind != nodescaler.DeletePod && !soon {
			all = append(all, actionEvent(s, a, o))
		}
	}
	return all
}

// heldEvent names the namespaces that pods are held of, and explains the first few. Another set
// makes another event.
func heldEvent(held []nodescaler.Held) kube.Event {
	var names, notes []string
	for i := range held {
		if h := &held[i]; !slices.Contains(names, h.Namespace) {
			if names = append(names, h.Namespace); len(names) <= 5 {
				notes = append(notes, h.Why.Text)
			}
		}
	}
	if more := len(names) - len(notes); more > 0 {
		notes = append(notes, fmt.Sprintf("and %d namespaces more", more))
	}
	return kube.Event{
		About: nodescaler.NamespaceQuota, Key: strings.Join(names, " "), Warning: true, Reason: nodescaler.NamespaceQuota,
		Note: "no machine is ordered for what exceeds a quota: " + strings.Join(notes, "; "),
	}
}

// actionEvent is the event of an action of the plan.
func actionEvent(s *loop.Step, a *nodescaler.Action, o *loop.Outcome) kube.Event {
	what := string(a.Kind) + " " + subject(a)
	if a.Rate != 0 {
		what += fmt.Sprintf(" (%s, %s/mo)", a.Rate.Display(s.Observed.Cost.Unit), a.Rate.PerMonth().Display(s.Observed.Cost.Unit))
	}
	for _, r := range a.Reasons {
		what += "; " + r.Text
	}
	e := kube.Event{About: string(a.Kind), Action: string(a.Kind), Note: what, Key: s.ID + " " + subject(a), Reason: "Machine" + string(a.Kind)}
	switch {
	case o == nil || o.Held != nil:
		// One event of each kind, until something is done.
		e.Reason, e.Key = "Would"+string(a.Kind), a.Pool
		if o != nil && waits(o.Held) { // and one of each proposal
			e.Key, e.Note = o.Held.Text, o.Held.Text+"; "+what
		}
	case o.Error != "":
		e.Warning, e.Reason, e.Note, e.Key = true, "Failed"+string(a.Kind), what+": "+o.Error, o.Error
	}
	return e
}

// events are the events of a price book.
func (b *book) events(st *v1alpha1.PriceBookStatus) []kube.Event {
	return turned(b.object.Status.Conditions, st.Conditions, v1alpha1.ConditionReady)
}

// turned returns events of conditions of which something else is true now than before.
func turned(before, after []metav1.Condition, kinds ...string) []kube.Event {
	var all []kube.Event
	for _, kind := range kinds {
		is, was := meta.FindStatusCondition(after, kind), meta.FindStatusCondition(before, kind)
		if is == nil || was != nil && was.Status == is.Status && was.Reason == is.Reason || was == nil && !bad(is) {
			continue
		}
		all = append(all, kube.Event{
			About: kind, Key: string(is.Status) + " " + is.Reason, Warning: bad(is), Reason: is.Reason, Note: is.Message, Turned: true,
		})
	}
	return all
}
