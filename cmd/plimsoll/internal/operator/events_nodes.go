package operator

import (
	"fmt"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
)

// Reasons of events about pods and nodes, as cluster-autoscaler names them: what people look for,
// and what their alerts and dashboards count.
const (
	reasonTriggered    = "TriggeredScaleUp"
	reasonNotTriggered = "NotTriggerScaleUp"
	reasonScaleDown    = "ScaleDown"
	reasonReboot       = "Reboot"
)

// eventsOfActions sends events about the pods that a machine was ordered or started for, about
// nodes that are emptied, and about pods that were evicted for it. What was only planned has none.
func (t *term) eventsOfActions(s *loop.Step) {
	sent := 0
	for i := range s.Plan.Actions {
		a := &s.Plan.Actions[i]
		if o := actionOutcome(s, i); o == nil || o.Held != nil || o.Error != "" {
			continue
		}
		switch a.Kind { //nolint:exhaustive // the others are of no interest to who looks at pods and nodes
		case nodescaler.Buy, nodescaler.Wake:
			e := kube.Event{
				About: "ScaleUp", Action: string(a.Kind), Reason: reasonTriggered,
				Note: fmt.Sprintf("pool %s: a machine is on its way: %s", a.Pool, subject(a)),
			}
			for _, pod := range a.Pods {
				if sent < podEventsPerStep && t.Cluster.AboutPod(pod, "", e) {
					sent++
				}
			}
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

// whyOf is an action's first reason.
func whyOf(a *nodescaler.Action) string {
	if len(a.Reasons) == 0 {
		return ""
	}
	return ": " + a.Reasons[0].Text
}
