package kubelet

import (
	"context"
	"encoding/json"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// write reports the pod's status to the API server, unless it knows, and reports whether it does.
func (p *pod) write(ctx context.Context, now *corev1.Pod, ended bool) bool {
	phase := now.Status.Phase
	if phase == corev1.PodSucceeded || phase == corev1.PodFailed {
		return true // that is for ever
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.uid}, "status": p.status(now, ended)})
	if err != nil {
		p.k.log.Print(err)
		return false
	}
	// Controllers write that pods of a silent node are not ready, and do not take it back.
	if string(patch) == p.written && p.agrees(now) {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := p.k.client.CoreV1().Pods(p.namespace).Patch(ctx, p.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		if ctx.Err() == nil {
			p.k.log.Printf("pod %s/%s: %v", p.namespace, p.name, err)
		}
		return false
	}
	p.written = string(patch)
	return true
}

// agrees is whether the API server has the conditions that we wrote.
func (p *pod) agrees(now *corev1.Pod) bool {
	for kind, c := range p.since {
		for _, there := range now.Status.Conditions {
			if there.Type == kind && there.Status != c.Status {
				return false
			}
		}
	}
	return true
}

// status is the part of the pod's status that is the kubelet's.
func (p *pod) status(o *corev1.Pod, ended bool) map[string]any {
	var all []corev1.ContainerStatus
	for _, c := range p.all() {
		all = append(all, c.status(ended))
	}
	for i := range o.Spec.Containers {
		if p.all() == nil && !ended {
			c := &o.Spec.Containers[i]
			all = append(all, corev1.ContainerStatus{Name: c.Name, Image: c.Image, State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating", Message: p.unmounted},
			}})
		}
	}
	allReady := len(all) > 0
	for i := range all {
		allReady = allReady && all[i].Ready
	}
	begun := p.all() != nil
	return map[string]any{
		"phase": phaseOf(all, o.Spec.RestartPolicy, ended), "containerStatuses": all, "startTime": p.started,
		"hostIP": "127.0.0.1", "podIP": p.ip, "podIPs": []map[string]string{{"ip": p.ip}, {"$patch": "replace"}},
		"conditions": []map[string]any{
			p.condition(corev1.PodReadyToStartContainers, begun), p.condition(corev1.PodInitialized, true),
			p.condition(corev1.ContainersReady, allReady), p.condition(corev1.PodReady, allReady),
		},
	}
}

// condition is one of the pod's, with the time since when it is so.
func (p *pod) condition(kind corev1.PodConditionType, holds bool) map[string]any {
	status, reason := corev1.ConditionTrue, any(nil)
	if !holds {
		status, reason = corev1.ConditionFalse, "ContainersNotReady"
	}
	c := p.since[kind]
	if c.Status != status {
		c = corev1.PodCondition{Status: status, LastTransitionTime: metav1.Now()}
		p.since[kind] = c
	}
	return map[string]any{"type": kind, "status": status, "reason": reason, "lastTransitionTime": c.LastTransitionTime}
}

// phaseOf is how far a pod has come.
func phaseOf(all []corev1.ContainerStatus, policy corev1.RestartPolicy, ended bool) corev1.PodPhase {
	var begun, going, failed bool
	for i := range all {
		t := all[i].State.Terminated
		begun = begun || t != nil || all[i].State.Running != nil || all[i].LastTerminationState.Terminated != nil
		failed = failed || t == nil || t.ExitCode != 0
		again := policy == corev1.RestartPolicyAlways || policy == corev1.RestartPolicyOnFailure && (t == nil || t.ExitCode != 0)
		going = going || t == nil || again
	}
	switch {
	case (ended || !going) && (failed || len(all) == 0):
		return corev1.PodFailed
	case ended || !going:
		return corev1.PodSucceeded
	case begun:
		return corev1.PodRunning
	default:
		return corev1.PodPending
	}
}

// status is the container's. One that has ended for good does not wait any more.
func (c *container) status(ended bool) corev1.ContainerStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	started := c.state.Running != nil
	s := corev1.ContainerStatus{
		Name: c.spec.Name, Image: c.spec.Image, ContainerID: c.id, State: c.state, LastTerminationState: c.last, Ready: c.ready,
		RestartCount: max(0, c.starts-1), Started: &started,
	}
	if program, there := c.pod.k.part.Programs[nameOf(c.spec.Image)]; there {
		s.ImageID = "process://" + filepath.Base(program.Path)
	}
	if ended && s.State.Terminated == nil && s.LastTerminationState.Terminated != nil {
		s.State = s.LastTerminationState
	}
	return s
}
