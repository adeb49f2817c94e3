package machines

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/testbed/lab/kubelet"
	"github.com/plimsoll/plimsoll/testbed/lab/plane"
)

// restartPods lets the pods of a node that has come back run again, once Kubernetes takes it for
// Ready: before that they would be marked as not ready once more. KWOK starts pods, and never
// starts them again.
func (k *kubelets) restartPods(ctx context.Context, node string) {
	for ; ctx.Err() == nil; pause(ctx, time.Second) {
		n, err := k.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil || n.Annotations[plane.AnnotationHalted] != "" {
			return // it is gone, or has stopped again
		}
		if !kubelet.Ready(n) {
			continue
		}
		if err := k.restart(ctx, node); err == nil {
			return
		}
	}
}

func (k *kubelets) restart(ctx context.Context, node string) error {
	list, err := k.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()})
	if err != nil {
		return err
	}
	for i := range list.Items {
		p := &list.Items[i]
		if p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil {
			continue
		}
		patch, err := json.Marshal(map[string]any{"status": restarted(p, metav1.Now())})
		if err != nil {
			return err
		}
		if _, err := k.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			return err
		}
	}
	return nil
}

// restarted is what the status of a pod changes to when its containers have started once more.
func restarted(p *corev1.Pod, now metav1.Time) map[string]any {
	var conditions []map[string]any
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
			conditions = append(conditions, map[string]any{"type": c.Type, "status": corev1.ConditionTrue, "lastTransitionTime": now, "reason": nil, "message": nil})
		}
	}
	containers := make([]corev1.ContainerStatus, 0, len(p.Status.ContainerStatuses))
	for _, c := range p.Status.ContainerStatuses {
		c.RestartCount++
		c.Ready, c.State = true, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
		containers = append(containers, c)
	}
	return map[string]any{"conditions": conditions, "containerStatuses": containers}
}
