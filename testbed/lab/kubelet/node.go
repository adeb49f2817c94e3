package kubelet

import (
	"context"
	"encoding/json"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ours asks for the nodes that have the label.
func ours(o *metav1.ListOptions) { o.LabelSelector = Label + "=" + LabelValue }

// heartbeat is the time between two signs of life of a node: controllers take it for dead after 50
// seconds.
const heartbeat = 10 * time.Second

// keepNodes reports the nodes that have not been reported for long, and returns all that are ours.
func (k *kubelet) keepNodes(ctx context.Context) map[string]bool {
	mine := map[string]bool{}
	for _, o := range k.nodes.Core().V1().Nodes().Informer().GetStore().List() {
		n, is := o.(*corev1.Node)
		if !is {
			continue
		}
		mine[n.Name] = true
		if time.Since(k.beats[n.Name]) < heartbeat && Ready(n) {
			continue
		}
		if err := k.beat(ctx, n); err != nil && ctx.Err() == nil {
			k.log.Printf("node %s: %v", n.Name, err)
		}
		k.beats[n.Name] = time.Now()
	}
	for name := range k.beats {
		if !mine[name] {
			delete(k.beats, name)
		}
	}
	return mine
}

// Ready reports whether a node is ready.
func Ready(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// beat writes that a node is Ready, and where its kubelet is.
func (k *kubelet) beat(ctx context.Context, n *corev1.Node) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if k.version == "" {
		v, err := k.client.Discovery().ServerVersion()
		if err != nil {
			return err
		}
		k.version = v.GitVersion
	}
	patch, err := json.Marshal(map[string]any{"status": k.nodeStatus(n)})
	if err != nil {
		return err
	}
	_, err = k.client.CoreV1().Nodes().Patch(ctx, n.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

func (k *kubelet) nodeStatus(n *corev1.Node) map[string]any {
	now := metav1.Now()
	var conditions []corev1.NodeCondition
	for kind, status := range map[corev1.NodeConditionType]corev1.ConditionStatus{
		corev1.NodeReady: corev1.ConditionTrue, corev1.NodeMemoryPressure: corev1.ConditionFalse,
		corev1.NodeDiskPressure: corev1.ConditionFalse, corev1.NodePIDPressure: corev1.ConditionFalse,
	} {
		c := corev1.NodeCondition{Type: kind, Status: status, LastHeartbeatTime: now, LastTransitionTime: now, Reason: "KubeletRuns"}
		for _, old := range n.Status.Conditions {
			if old.Type == kind && old.Status == status {
				c.LastTransitionTime = old.LastTransitionTime
			}
		}
		conditions = append(conditions, c)
	}
	status := map[string]any{
		"conditions":      conditions,
		"daemonEndpoints": corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(k.part.port)}}, //nolint:gosec // ports fit
		"addresses":       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}, {Type: corev1.NodeHostName, Address: n.Name}},
		"nodeInfo":        map[string]any{"kubeletVersion": k.version, "operatingSystem": "linux", "architecture": runtime.GOARCH},
	}
	if len(n.Status.Capacity) == 0 {
		size := corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI),
			corev1.ResourceMemory: resource.MustParse("4Gi"), corev1.ResourcePods: resource.MustParse("110"),
		}
		status["capacity"], status["allocatable"] = size, size
	}
	return status
}
