package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/sight"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/targets"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
)

// Size returns what sizing a pod goes by, as it was last observed.
func (c *Cluster) Size(name string) (rightsize.Pod, bool) {
	seen := c.observed.Load()
	p, ok := seen.Pod(name)
	if !ok {
		return rightsize.Pod{}, false
	}
	size := p.Sizing()
	size.Ranges = seen.Ranges[p.Namespace].Ranges
	return size, true
}

// rangesOf are what the LimitRanges of each namespace allow together.
func rangesOf(of *copies.Copies) map[string]kept.LimitRange {
	by := map[string]kept.LimitRange{}
	for _, l := range copies.Sorted[*kept.LimitRange](of, copies.LimitRanges) {
		is := by[l.Namespace]
		is.Ranges.Container, is.Ranges.Pod = is.Ranges.Container.And(l.Ranges.Container), is.Ranges.Pod.And(l.Ranges.Pod)
		by[l.Namespace] = is
	}
	return by
}

// Resize asks for other requests and limits of a pod's containers, while it runs, for the workload
// that it was observed to be sized for.
func (c *Cluster) Resize(ctx context.Context, workload, name string, changes []rightsize.Change) error {
	what := "resize pod " + name
	p, err := sizable(c.observed.Load(), c.copies, what, workload, name, v1alpha1.RightsizeInPlace, v1alpha1.RightsizeAuto)
	if err != nil {
		return err
	}
	body, err := resizing(p.UID, changes)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return c.write(ctx, Active, what, func(ctx context.Context) error {
		_, err := c.client.CoreV1().Pods(p.Namespace).
			Patch(ctx, p.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{FieldManager: kept.FieldManager}, "resize")
		return err
	})
}

// Recreate evicts a pod that its node has no room to resize, while its workload is observed to want
// that.
func (c *Cluster) Recreate(ctx context.Context, workload, name string) error {
	if _, err := sizable(c.observed.Load(), c.copies, "evict pod "+name, workload, name, v1alpha1.RightsizeAuto); err != nil {
		return err
	}
	return c.Evict(ctx, name)
}

// sizable is a pod that is ours to size, in one of the modes.
func sizable(seen *sight.Sight, of *copies.Copies, what, workload, name string, modes ...v1alpha1.RightsizeMode) (*kept.Pod, error) {
	t, known := seen.Target(workload)
	p, ok := seen.Pod(name)
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
	wla, ok := copies.One[*v1alpha1.WorkloadAutoscaler](of, copies.Autoscalers, workload)
	if !ok || wla.UID != t.Autoscaler.UID || !targets.Acts(wla) || wla.Spec.Rightsize == nil || !slices.Contains(modes, wla.Spec.Rightsize.Mode) {
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
