package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
)

// sizes keeps what sizing goes by. Init containers that end are not sized, nor the containers of a
// pod that asks for resources as a whole.
func sizes(p *corev1.Pod) []rightsize.Container {
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

func sizeOf(c *corev1.Container, statuses []corev1.ContainerStatus) rightsize.Container {
	size := rightsize.Container{
		Name: text(c.Name), Requests: resources(c.Resources.Requests), Limits: resources(c.Resources.Limits), Restarts: restarts(c),
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
			all = append(all, rightsize.Resource(text(string(p.ResourceName))))
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

// Size returns what sizing a pod goes by, as it was last observed.
func (c *Cluster) Size(name string) (rightsize.Pod, bool) {
	p, ok := c.observed.Load().pod(name)
	if !ok {
		return rightsize.Pod{}, false
	}
	return rightsize.Pod{
		Running: p.said.Phase == podscaler.Running && !p.said.Terminating, Started: p.said.Started,
		Resize: p.resize, ResizeSince: p.resizeSince, Containers: p.containers,
	}, true
}

// Resize asks for other requests and limits of a pod's containers, while it runs, for the workload
// that it was observed to be sized for.
func (c *Cluster) Resize(ctx context.Context, workload, name string, changes []rightsize.Change) error {
	what := "resize pod " + name
	p, err := c.sizable(what, workload, name, v1alpha1.RightsizeInPlace, v1alpha1.RightsizeAuto)
	if err != nil {
		return err
	}
	body, err := resizing(p.UID, changes)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return c.write(ctx, Active, what, func(ctx context.Context) error {
		_, err := c.client.CoreV1().Pods(p.Namespace).
			Patch(ctx, p.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager}, "resize")
		return err
	})
}

// Recreate evicts a pod that its node has no room to resize, while its workload is observed to want
// that.
func (c *Cluster) Recreate(ctx context.Context, workload, name string) error {
	if _, err := c.sizable("evict pod "+name, workload, name, v1alpha1.RightsizeAuto); err != nil {
		return err
	}
	return c.Evict(ctx, name)
}

// sizable is a pod that is ours to size, in one of the modes.
func (c *Cluster) sizable(what, workload, name string, modes ...v1alpha1.RightsizeMode) (*pod, error) {
	t, known := c.observed.Load().target(workload)
	p, ok := c.observed.Load().pod(name)
	switch {
	case !known:
		return nil, fmt.Errorf("%s: no workload %s was observed", what, workload)
	case !ok:
		return nil, fmt.Errorf("%s: no such pod was observed", what)
	case len(t.Findings) > 0:
		return nil, fmt.Errorf("%s: %w: %s: %s", what, ErrConflicted, t.Findings[0].Code, t.Findings[0].Text)
	case t.Sized != nil:
		return nil, fmt.Errorf("%s: %w: %s: %s", what, ErrConflicted, t.Sized.Code, t.Sized.Text)
	}
	// What was observed may be seconds old, and the mode may have changed since.
	wla, ok := one[*v1alpha1.WorkloadAutoscaler](c, autoscalers, workload)
	if !ok || wla.UID != t.wla.UID || !acts(wla) || wla.Spec.Rightsize == nil || !slices.Contains(modes, wla.Spec.Rightsize.Mode) {
		return nil, fmt.Errorf("%s: %w: its autoscaler is not in mode %s with rightsize mode %s", what, ErrConflicted, v1alpha1.ModeActive, modes[0])
	}
	return p, nil
}

// resizing is the patch for changes. With the uid it is refused for another pod of the name.
func resizing(uid types.UID, changes []rightsize.Change) ([]byte, error) {
	spec := map[string][]map[string]any{}
	for _, change := range changes {
		amounts := map[string]any{}
		for key, list := range map[string]corev1.ResourceList{"requests": amountsOf(change.Requests), "limits": amountsOf(change.Limits)} {
			if len(list) > 0 {
				amounts[key] = list
			}
		}
		key := "containers"
		if change.Sidecar {
			key = "initContainers"
		}
		spec[key] = append(spec[key], map[string]any{"name": change.Container, "resources": amounts})
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "spec": spec})
}

// amountsOf is the list of amounts in Kubernetes' words; 0 is not among them.
func amountsOf(r pricing.Resources) corev1.ResourceList {
	list := corev1.ResourceList{}
	if r.CPU > 0 {
		list[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(r.CPU), resource.DecimalSI)
	}
	if r.Memory > 0 {
		list[corev1.ResourceMemory] = *resource.NewQuantity(int64(r.Memory), resource.BinarySI)
	}
	return list
}
