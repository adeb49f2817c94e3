package operator

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
)

// Reasons of events about pods and nodes, as cluster-autoscaler names them: what people look for,
// and what their alerts and dashboards count.
const (
	reasonTriggered    = "TriggeredScaleUp"
	reasonNotTriggered = "NotTriggerScaleUp"
	reasonWouldTrigger = "WouldTriggerScaleUp" // which cluster-autoscaler does not have
	reasonScaleDown    = "ScaleDown"
	reasonReboot       = "Reboot"
)

// eventsOfActions sends events about the pods that a machine was ordered or started for, or would
// be, about nodes that are emptied, and about pods that were evicted for it.
func (t *term) eventsOfActions(s *loop.Step) {
	sent := 0
	for i := range s.Plan.Actions {
		a := &s.Plan.Actions[i]
		o := s.Tried(i)
		if a.Kind == nodescaler.Buy || a.Kind == nodescaler.Wake {
			e, pods := t.eventOfOrder(a, o)
			for _, pod := range pods {
				if sent < podEventsPerStep && t.Cluster.AboutPod(pod, "", e) {
					sent++
				}
			}
			continue
		}
		if o == nil || o.Held != nil || o.Error != "" {
			continue
		}
		switch a.Kind { //nolint:exhaustive // the others are of no interest to who looks at pods and nodes
		case nodescaler.Cordon:
			t.Cluster.AboutNode(a.Node, kube.Event{
				About: reasonScaleDown, Action: string(a.Kind), Reason: reasonScaleDown, Note: "the node is cordoned and will be emptied" + whyOf(a),
			})
		case nodescaler.Evict:
			if sent < podEventsPerStep && t.Cluster.AboutPod(a.Pod, a.Node, kube.Event{
				About: reasonScaleDown, Action: string(a.Kind), Reason: reasonScaleDown, Note: "evicted, to empty node " + a.Node + whyOf(a),
			}) {
				sent++
			}
		case nodescaler.DeletePod:
			if sent < podEventsPerStep && t.Cluster.AboutPod(a.Pod, a.Node, kube.Event{
				About: reasonScaleDown, Action: string(a.Kind), Reason: nodescaler.DrainEnds, Note: "deleted, to empty node " + a.Node + whyOf(a), Warning: true,
			}) {
				sent++
			}
		case nodescaler.Reboot:
			t.Cluster.AboutNode(a.Node, kube.Event{
				About: reasonReboot, Action: string(a.Kind), Reason: reasonReboot, Note: "the node's machine is stopped and started" + whyOf(a), Warning: true,
			})
		case nodescaler.Return:
			t.Cluster.AboutNode(a.Node, kube.Event{
				About: reasonScaleDown, Action: string(a.Kind), Reason: reasonScaleDown, Note: "the node's machine is returned" + whyOf(a),
			})
		}
	}
}

// eventOfOrder is what is said of an order, and about which pods: about none if it failed, for it
// is made again. Where none is made, pods wait for long, and a few of them are enough.
func (t *term) eventOfOrder(a *nodescaler.Action, o *loop.Outcome) (kube.Event, []string) {
	e := kube.Event{About: "ScaleUp", Action: string(a.Kind), Reason: reasonWouldTrigger}
	few := a.Pods[:min(len(a.Pods), podEventsPerWorkload)]
	switch {
	case o == nil && !t.Active:
		e.Note = would(a) + ": Plimsoll is in mode Recommend"
	case o == nil || o.Error != "":
		return e, nil
	case o.Held != nil:
		e.Note = would(a) + ": " + o.Held.Text
	default:
		e.Reason, e.Note = reasonTriggered, fmt.Sprintf("pool %s: a machine is on its way: %s", a.Pool, subject(a))
		return e, a.Pods
	}
	return e, few
}

// would says what is not done. A machine's name is another one at every step.
func would(a *nodescaler.Action) string {
	if a.Shape == nil {
		return fmt.Sprintf("pool %s would start spare %s", a.Pool, a.Machine)
	}
	return fmt.Sprintf("pool %s would get a machine of shape %s", a.Pool, a.Shape.Name)
}

// whyOf is an action's first reason.
func whyOf(a *nodescaler.Action) string {
	if len(a.Reasons) == 0 {
		return ""
	}
	return ": " + a.Reasons[0].Text
}

// Pods that wait and that no machine would help say so in events of their own, in a condition of
// the pools, and in a metric. All rest on what the step's plan says of them.
const (
	// A step sends events about so many pods at most, and an hour about so many of one workload.
	// The next step goes on.
	podEventsPerStep     = 50
	podEventsPerWorkload = nodescaler.UnplacedNamed
)

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
		c.set(kind, metav1.ConditionTrue, u.Why.Code, "no place for %s; %s: %s", pricing.Count(pods, "pod"), u.Who(), u.Text())
	case planned(s):
		c.set(kind, metav1.ConditionFalse, reasonAllPlaced, "no pod waits that a machine could not help")
	}
}
