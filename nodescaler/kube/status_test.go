package kube

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// What a server answered is in conditions and events, and people look at those in a terminal.
func TestNothingThatSteersATerminalIsWrittenToTheCluster(t *testing.T) {
	const said, shown = "refused: \x1b]0;mine\x07\u009b2J\u202e", `refused: \u001b]0;mine\u0007\u009b2J\u202e`
	a := &v1alpha1.WorkloadAutoscaler{}
	a.Status.Conditions = []metav1.Condition{{Type: "Ready", Message: said}}
	a.Status.LastDecision = &v1alpha1.ScalingDecision{Reasons: []v1alpha1.Reason{{Code: "Unread", Text: said}}}
	text := must.Get(statusOf(a))(t)
	var got v1alpha1.WorkloadAutoscalerStatus
	must.Do(t, json.Unmarshal(text, &got))
	if got.Conditions[0].Message != shown || got.LastDecision.Reasons[0].Text != shown {
		t.Errorf("the status says %q and %q, want %q", got.Conditions[0].Message, got.LastDecision.Reasons[0].Text, shown)
	}
	if e := event(corev1.ObjectReference{Kind: "WorkloadAutoscaler"}, nil, Event{About: "Ready", Note: said}); e.Note != shown {
		t.Errorf("the event says %q, want %q", e.Note, shown)
	}
}

// Whoever leads next goes by the status: it is written at once that a new machine failed, and how
// many there are can wait.
func TestHowFarARolloutIsIsWrittenAtOnce(t *testing.T) {
	said := func(change func(*v1alpha1.RolloutStatus)) string {
		p := &v1alpha1.VMPool{}
		p.Status.Rollout = &v1alpha1.RolloutStatus{Revision: "a", Phase: "Canary", Updated: 1, Total: 4}
		change(p.Status.Rollout)
		text := must.Get(statusOf(p))(t)
		return string(verdicts(text))
	}
	is := said(func(*v1alpha1.RolloutStatus) {})
	for name, change := range map[string]func(*v1alpha1.RolloutStatus){
		"failed":       func(r *v1alpha1.RolloutStatus) { r.Failed = []string{"web-1"} },
		"phase":        func(r *v1alpha1.RolloutStatus) { r.Phase = "Progressing" },
		"revision":     func(r *v1alpha1.RolloutStatus) { r.Revision = "b" },
		"canaryPassed": func(r *v1alpha1.RolloutStatus) { r.CanaryPassed = true },
	} {
		if said(change) == is {
			t.Errorf("a change of %s waits", name)
		}
	}
	if said(func(r *v1alpha1.RolloutStatus) { r.Updated, r.Total = 2, 5 }) != is {
		t.Error("numbers do not wait")
	}
}
