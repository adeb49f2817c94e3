package operator

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/notify"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
)

// The conditions that people are notified of. Ready is not among a workload's: all that keeps it
// from being ready has a condition of its own, or is a tenant's wish.
var (
	toldOfWorkloads = []string{
		v1alpha1.ConditionAbleToScale, v1alpha1.ConditionMetricsHealthy, v1alpha1.ConditionConflicted, v1alpha1.ConditionSLOAtRisk,
		v1alpha1.ConditionErrorBudgetBurning, v1alpha1.ConditionBudgetExceeded, v1alpha1.ConditionCostSourceMismatch, v1alpha1.ConditionFallback, v1alpha1.ConditionRegistrationMismatch,
	}
	toldOfPools = []string{v1alpha1.ConditionReady, v1alpha1.ConditionConflicted, v1alpha1.ConditionMachinesHeld, v1alpha1.ConditionRolledOut}
)

// ToldOf are the conditions that people may be notified of, sorted.
func ToldOf() []string {
	all := slices.Concat(toldOfWorkloads, toldOfPools)
	slices.Sort(all)
	return slices.Compact(all)
}

// noticeWorkload notifies people of what has become of a workload.
func (t *term) noticeWorkload(w *workload, st *v1alpha1.WorkloadAutoscalerStatus, events []kube.Event) {
	about := notify.Notice{Kind: v1alpha1.KindWorkloadAutoscaler, Namespace: w.object.Namespace, Name: w.object.Name, Time: t.last}
	t.conditions(w.receivers(), about, toldOfWorkloads, w.object.Status.Conditions, st.Conditions)
	for _, e := range events {
		if e.Reason == reasonSuccessfulRescale && t.Notify != nil {
			about.Status, about.Reason, about.Text = notify.Scaled, e.Reason, e.Note
			t.Notify.Tell(w.receivers(), about)
		}
	}
}

// noticePool notifies people of what has become of a pool.
func (t *term) noticePool(p *pool, st *v1alpha1.VMPoolStatus) {
	about := notify.Notice{Kind: v1alpha1.KindVMPool, Name: p.object.Name, Time: t.last}
	t.conditions(nil, about, toldOfPools, p.object.Status.Conditions, st.Conditions)
}

// forgetAlerts drops what was notified of objects that are gone.
func (t *term) forgetAlerts(d *desk) {
	there := map[string]bool{}
	for _, w := range d.workloads {
		there[v1alpha1.KindWorkloadAutoscaler+w.name] = true
	}
	for _, p := range d.pools {
		there[v1alpha1.KindVMPool+"/"+p.object.Name] = true
	}
	t.alerts.Forget(func(kind, namespace, name string) bool { return there[kind+namespace+"/"+name] })
}

// conditions notifies of what has become of an object's conditions. One that is not known now is as
// it was.
func (t *term) conditions(receivers []string, about notify.Notice, kinds []string, before, after []metav1.Condition) {
	if t.Notify == nil {
		return
	}
	for _, kind := range kinds {
		is, was := meta.FindStatusCondition(after, kind), meta.FindStatusCondition(before, kind)
		s := notify.Statement{Notice: about, WasBad: was != nil && bad(was)}
		s.Condition = kind
		switch {
		case is == nil:
			s.Reason, s.Text = reasonNotAsked, "it is not asked for any more"
		case is.Status == metav1.ConditionUnknown:
			continue
		default:
			s.Reason, s.Text, s.Bad = is.Reason, is.Message, bad(is)
		}
		if n := t.alerts.See(s); n != nil {
			t.Notify.Tell(receivers, *n)
		}
	}
}

// receivers are those that the workload names.
func (w *workload) receivers() []string {
	var names []string
	for _, r := range w.object.Spec.Notifications {
		names = append(names, r.Name)
	}
	return names
}

// unheard warns of receivers that are not configured.
func (t *term) unheard(w *workload) []kube.Event {
	var all []kube.Event
	for i, name := range w.receivers() {
		if t.Notify == nil || !t.Notify.Known(name) {
			all = append(all, kube.Event{
				About: CodeReceiverUnknown + " " + name, Key: name, Warning: true, Reason: CodeReceiverUnknown,
				Note: fmt.Sprintf("spec.notifications[%d].name: must be a receiver in the configuration of plimsoll run, was %q", i, name),
			})
		}
	}
	return all
}
