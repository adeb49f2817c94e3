package operator

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
)

// Pods that wait and that no machine would help say so in events of their own, in a condition of
// the pools, and in a metric. All rest on what the step's plan says of them.

const (
	// A step sends events about so many pods at most, and an hour about so many of one workload.
	// The next step goes on.
	podEventsPerStep     = 50
	podEventsPerWorkload = nodescaler.UnplacedNamed
)

// planned reports whether the step's plan says what has no place. The first steps, and those
// without a view of the machines, plan nothing.
func planned(s *loop.Step) bool {
	p := &s.Plan
	return len(p.Unplaced)+len(p.Reasons)+len(p.Actions) > 0 || !p.LookAgain.IsZero()
}

// eventsAboutPods sends events about pods that have no place.
func (t *term) eventsAboutPods(s *loop.Step) {
	sent, of := 0, map[string]int{}
	for i := range s.Plan.Unplaced {
		u := &s.Plan.Unplaced[i]
		for _, pod := range u.Pods {
			key := u.Workload
			if key == "" {
				key = pod
			}
			if of[key]++; of[key] > podEventsPerWorkload {
				break
			}
			e := kube.Event{About: "Wait", Action: u.Why.Code, Warning: true, Reason: reasonNotTriggered, Note: "no machine is ordered for it: " + u.Why.Code + ": " + u.Text()}
			if t.Cluster.AboutPod(pod, "", e) {
				sent++
			}
			if sent == podEventsPerStep {
				return
			}
		}
	}
}

// unplaced states whether pods wait that no machine would help.
func (c conditions) unplaced(s *loop.Step) {
	kind := v1alpha1.ConditionPodsUnplaced
	worst, pods := -1, 0
	for i := range s.Plan.Unplaced {
		u := &s.Plan.Unplaced[i]
		pods += u.Count
		if u.Count > 0 && (worst < 0 || u.Count > s.Plan.Unplaced[worst].Count) {
			worst = i
		}
	}
	switch {
	case worst >= 0:
		u := &s.Plan.Unplaced[worst]
		c.set(kind, metav1.ConditionTrue, u.Why.Code, "%d pods have no place; %s: %s", pods, u.Who(), u.Text())
	case planned(s):
		c.set(kind, metav1.ConditionFalse, reasonAllPlaced, "no pod waits that a machine could not help")
	}
}

// unplaced counts the pods that have no place by code. A step that plans nothing leaves the counts
// as they were.
func (m *Metrics) unplaced(s *loop.Step) {
	if !planned(s) {
		return
	}
	m.noneUnplaced()
	for i := range s.Plan.Unplaced {
		if u := &s.Plan.Unplaced[i]; slices.Contains(nodescaler.UnplacedCodes(), u.Why.Code) {
			m.podsUnplaced.WithLabelValues(u.Why.Code).Add(float64(u.Count))
		} else {
			m.podsUnplaced.WithLabelValues(otherReason).Add(float64(u.Count))
		}
	}
}

// otherReason is the label of codes that are not among nodescaler.UnplacedCodes.
const otherReason = "Other"

func (m *Metrics) noneUnplaced() {
	for _, code := range append(nodescaler.UnplacedCodes(), otherReason) {
		m.podsUnplaced.WithLabelValues(code).Set(0)
	}
}
