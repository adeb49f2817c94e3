package operator

import (
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
)

// Reasons of the condition that says what is expected.
const (
	reasonRoomAskedFor = "RoomAskedFor" // whoever orders machines knows
	// no more replicas are expected than there are to be
	reasonNothingExpected = "NothingExpected"
	// it cannot be made known: the cluster does not have the kind
	reasonNoCapacityBuffers = "NoCapacityBuffers"
	reasonFailedHandOff     = "FailedHandOff" // nor otherwise
)

// expected is what a step makes known of the workload, or nil if it leaves that as it is.
func (w *workload) expected(s *loop.Step) *loop.Expectation {
	i := slices.IndexFunc(s.Expected, func(e loop.Expectation) bool { return e.Workload == w.name })
	if i < 0 {
		return nil
	}
	return &s.Expected[i]
}

// handedOff states what was made known. Between two runs of a policy, what its last run said stays.
func (w *workload) handedOff(c conditions, a *loop.Expectation) {
	kind := v1alpha1.ConditionCapacityAhead
	if a == nil {
		return
	}
	by, name := w.handOff, kube.ExpectName(w.object.Name)
	switch {
	case a.Err != nil:
		c.set(kind, metav1.ConditionFalse, failedHandOff(a.Err), "%v", a.Err)
	case a.More == 0:
		c.set(kind, metav1.ConditionFalse, reasonNothingExpected, "no more replicas are expected than there are to be")
	case a.Held != nil:
		c.set(kind, metav1.ConditionFalse, a.Held.Code, "%d replicas more than %d are expected by when a machine comes, and room for them would be asked for by %s %s", a.More, a.To, by, name)
	default:
		c.set(kind, metav1.ConditionTrue, reasonRoomAskedFor, "%d replicas more than %d are expected by when a machine comes, and room for them is asked for by %s %s", a.More, a.To, by, name)
	}
}

func failedHandOff(err error) string {
	if errors.Is(err, kube.ErrNoBuffers) {
		return reasonNoCapacityBuffers
	}
	return reasonFailedHandOff
}

// handOffEvents say that nothing could be made known.
func handOffEvents(a *loop.Expectation) []kube.Event {
	if a == nil || a.Err == nil {
		return nil
	}
	text := a.Err.Error()
	return []kube.Event{{About: v1alpha1.ConditionCapacityAhead, Key: text, Warning: true, Reason: failedHandOff(a.Err), Note: text}}
}
