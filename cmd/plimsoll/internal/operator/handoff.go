package operator

import (
	"context"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
)

// Reasons of the condition that tells what is expected.
const (
	reasonRoomAskedFor      = "RoomAskedFor"      // whoever orders machines knows
	reasonNothingExpected   = "NothingExpected"   // no more replicas are expected than there are to be
	reasonNoCapacityBuffers = "NoCapacityBuffers" // it cannot be made known: the cluster does not have the kind
	reasonFailedHandOff     = "FailedHandOff"     // nor otherwise
)

// ahead is how many replicas a workload is expected to want beyond those that it is told to have, by the last
// step that had something to say of it.
type ahead struct {
	more int
	to   int // those that it is told to have
	held *nodescaler.Reason
	err  error
}

// expected is what a step says of the replicas that are expected. Nil leaves what was made known as it is: it was
// not the workload's turn, what it wants is not known, or somebody wants everything left as it is.
func (w *workload) expected(ws *loop.WorkloadStep) *ahead {
	switch {
	case w.held != nil && w.held.Code == v1alpha1.ReasonPaused:
		return nil
	case ws == nil || w.pause.on && w.pause.direction != v1alpha1.PauseDown: // one that may not grow wants no room to grow into
		return &ahead{held: w.held}
	case ws.Decision == nil && w.held == nil, ws.Decision != nil && !ws.Decision.Known && w.held == nil:
		return nil
	case ws.Decision == nil:
		return &ahead{held: w.held}
	}
	return &ahead{more: max(ws.Decision.Ahead-ws.Decision.To, 0), to: ws.Decision.To, held: w.held}
}

// handOff makes known to whoever orders machines what the workloads are expected to want. Those that nothing is
// done to ask for no room. At the first look nothing is decided, and so nothing is taken back.
func (t *term) handOff(ctx context.Context, d *desk, s *loop.Step) {
	if !t.HandOff.Used() || slices.ContainsFunc(s.Problems, func(p nodescaler.Reason) bool { return p.Code == loop.CodeLooking }) {
		return
	}
	for _, w := range d.workloads {
		if w.ahead = w.expected(workloadStep(s, w.name)); w.ahead == nil || !t.Active {
			continue
		}
		more := w.ahead.more
		if w.held != nil {
			more = 0
		}
		w.ahead.err = t.Cluster.Expect(ctx, w.name, more)
	}
}

// handedOff states what was made known. Between two runs of a policy, what its last run said stays.
func (w *workload) handedOff(c conditions) {
	a, kind := w.ahead, v1alpha1.ConditionCapacityAhead
	if a == nil {
		return
	}
	by, name := w.handOff, kube.ExpectName(w.object.Name)
	switch {
	case a.err != nil:
		c.set(kind, metav1.ConditionFalse, a.failure(), "%v", a.err)
	case a.more == 0:
		c.set(kind, metav1.ConditionFalse, reasonNothingExpected, "no more replicas are expected than there are to be")
	case a.held != nil:
		c.set(kind, metav1.ConditionFalse, a.held.Code, "%d replicas more than %d are expected by when a machine comes, and room for them would be asked for by %s %s", a.more, a.to, by, name)
	default:
		c.set(kind, metav1.ConditionTrue, reasonRoomAskedFor, "%d replicas more than %d are expected by when a machine comes, and room for them is asked for by %s %s", a.more, a.to, by, name)
	}
}

func (a *ahead) failure() string {
	if errors.Is(a.err, kube.ErrNoBuffers) {
		return reasonNoCapacityBuffers
	}
	return reasonFailedHandOff
}

// handOffEvents tell that nothing could be made known.
func (w *workload) handOffEvents() []kube.Event {
	if w.ahead == nil || w.ahead.err == nil {
		return nil
	}
	text := w.ahead.err.Error()
	return []kube.Event{{About: v1alpha1.ConditionCapacityAhead, Key: text, Warning: true, Reason: w.ahead.failure(), Note: text}}
}
