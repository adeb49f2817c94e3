package kept

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
)

// LimitRange is what is kept of a LimitRange.
type LimitRange struct {
	metav1.ObjectMeta
	Ranges rightsize.Ranges
}

func shortLimitRange(l *corev1.LimitRange) *LimitRange {
	kept := &LimitRange{ObjectMeta: keepMeta(&l.ObjectMeta)}
	for i := range l.Spec.Limits {
		item := &l.Spec.Limits[i]
		g := rightsize.Range{
			Min: Resources(item.Min), Max: Resources(item.Max), Default: Resources(item.Default),
			Ratio: pricing.Resources{
				CPU:    max(0, pricing.MilliCPU(item.MaxLimitRequestRatio.Cpu().MilliValue())),
				Memory: max(0, pricing.Bytes(item.MaxLimitRequestRatio.Memory().MilliValue())),
			},
		}
		switch item.Type {
		case corev1.LimitTypeContainer:
			kept.Ranges.Container = kept.Ranges.Container.And(g)
		case corev1.LimitTypePod:
			kept.Ranges.Pod = kept.Ranges.Pod.And(g)
		case corev1.LimitTypePersistentVolumeClaim: // sizes no pod
		}
	}
	return kept
}

// Sizes keeps what sizing goes by. Init containers that end are not sized, nor the containers of a
// pod that asks for resources as a whole.
func Sizes(p *corev1.Pod) []rightsize.Container {
	if whole := p.Spec.Resources; whole != nil && len(whole.Requests)+len(whole.Limits) > 0 {
		return nil
	}
	var all []rightsize.Container // nil without any, as pods that have the same in common share it
	for i := range p.Spec.Containers {
		all = append(all, sizeOf(&p.Spec.Containers[i], p.Status.ContainerStatuses))
	}
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecar := sizeOf(c, p.Status.InitContainerStatuses)
			sidecar.Sidecar = true
			all = append(all, sidecar)
		}
	}
	return all
}

// Starts are the init containers that end, of a pod whose containers are sized.
func Starts(p *corev1.Pod) (all []rightsize.Start) {
	sidecars := 0
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		switch s := (rightsize.Start{Requests: Resources(c.Resources.Requests), Limits: Resources(c.Resources.Limits), Sidecars: sidecars}); {
		case c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways:
			sidecars++
		case s.Requests != pricing.Resources{} || s.Limits != pricing.Resources{}:
			all = append(all, s)
		}
	}
	return all
}

func sizeOf(c *corev1.Container, statuses []corev1.ContainerStatus) rightsize.Container {
	size := rightsize.Container{
		Name: Text(c.Name), Requests: Resources(c.Resources.Requests), Limits: Resources(c.Resources.Limits), Restarts: restarts(c),
	}
	for i := range statuses {
		if statuses[i].Name == c.Name {
			size.OOMStarted, size.OOMEnded = killed(&statuses[i])
		}
	}
	return size
}

// restarts are the resources that a container cannot be given more or less of without a restart.
func restarts(c *corev1.Container) []rightsize.Resource {
	var all []rightsize.Resource
	for _, p := range c.ResizePolicy {
		if p.RestartPolicy == corev1.RestartContainer {
			all = append(all, rightsize.Resource(Text(string(p.ResourceName))))
		}
	}
	return all
}

// killed is when a container's last run began and ended, if it was killed for memory.
func killed(s *corev1.ContainerStatus) (began, ended time.Time) {
	for _, state := range []corev1.ContainerState{s.State, s.LastTerminationState} {
		if t := state.Terminated; t != nil && t.Reason == reasonOOMKilled {
			return t.StartedAt.Time, t.FinishedAt.Time
		}
	}
	return began, ended
}

// reasonOOMKilled is what kubelets write for it.
const reasonOOMKilled = "OOMKilled"

// resizeState is how far the last resize of a pod has come. The generations show one that the
// kubelet has not observed yet, if the kubelet writes them. Of one that waits for room it is known
// since when.
func resizeState(p *corev1.Pod) (state rightsize.ResizeState, since time.Time) {
	if seen := p.Status.ObservedGeneration; seen != 0 && seen < p.Generation {
		state = rightsize.ResizePending
	}
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch {
		case c.Type == corev1.PodResizePending && c.Reason == corev1.PodReasonInfeasible:
			return rightsize.ResizeInfeasible, c.LastTransitionTime.Time
		case c.Type == corev1.PodResizePending && c.Reason == corev1.PodReasonDeferred && state == rightsize.ResizeDone:
			state, since = rightsize.ResizeDeferred, c.LastTransitionTime.Time
		case c.Type == corev1.PodResizePending, c.Type == corev1.PodResizeInProgress:
			state, since = rightsize.ResizePending, time.Time{}
		}
	}
	return state, since
}
