//go:build lab

package scale

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/testbed/lab/plane"
)

// window is what the workloads are measured over.
const window = time.Minute

func namespace(i int) string { return fmt.Sprintf("team-%02d", i%namespaces) }
func name(i int) string      { return fmt.Sprintf("app-%03d", i) }

// replicas is a workload's share of the pods.
func replicas(i int) int {
	n := *pods / *workloads
	if i < *pods%*workloads {
		n++
	}
	return n
}

// slow workloads miss their objective with any replicas, and go to their upper bound.
func slow(i int) bool { return i%10 == 9 }

// byCPU are the workloads that are scaled as a HorizontalPodAutoscaler would.
func byCPU(i int) bool { return i%2 == 1 && !slow(i) }

func object(kind, name, namespace string, spec map[string]any) map[string]any {
	meta := map[string]any{"name": name}
	if namespace != "" {
		meta["namespace"] = namespace
	}
	return map[string]any{"apiVersion": "plimsoll.dev/v1alpha1", "kind": kind, "metadata": meta, "spec": spec}
}

// deployment is a workload. A request takes a tenth of a second at the limit of one pod, and half a
// one in those that are slow.
func deployment(i int) map[string]any {
	demand := "10ms"
	if slow(i) {
		demand = "50ms"
	}
	labels := map[string]any{"app": name(i)}
	return map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": name(i), "namespace": namespace(i), "labels": labels},
		"spec": map[string]any{
			"replicas": replicas(i), "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels, "annotations": map[string]any{plane.AnnotationDemand: demand, plane.AnnotationSpread: "50%"}},
				"spec": map[string]any{
					"terminationGracePeriodSeconds": 1,
					"containers":                    []any{container("server", "40m", "60Mi", "100m"), container("proxy", "5m", "20Mi", "50m")},
				},
			},
		},
	}
}

func container(name, cpu, memory, limit string) map[string]any {
	return map[string]any{
		"name": name, "image": "lab.plimsoll.dev/" + name,
		"env":       []any{map[string]any{"name": "REGION", "value": "lab"}, map[string]any{"name": "LOG_LEVEL", "value": "info"}},
		"resources": map[string]any{"requests": map[string]any{"cpu": cpu, "memory": memory}, "limits": map[string]any{"cpu": limit, "memory": memory}},
	}
}

// autoscaler scales a workload by what the gateway in front of it measures, and by its pods' CPU.
// What does well is at its lower bound and cannot shrink, so that the pods stay as many as was
// asked for.
func autoscaler(i int, prometheus string) map[string]any {
	n := replicas(i)
	spec := map[string]any{
		"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": name(i)},
		"mode":           "Active", "policy": "SLOCost", "runPeriod": "15s", "stabilizationWindow": "20s",
		"minReplicas": n, "maxReplicas": n + max(1, n/10),
		"slo":     map[string]any{"p": "90th", "target": "250ms", "window": window.String()},
		"cost":    map[string]any{"target": 1000000, "per": "1h"},
		"signals": map[string]any{"preset": "Istio", "match": map[string]any{"reporter": "source"}, "prometheus": map[string]any{"url": prometheus}},
	}
	if byCPU(i) {
		delete(spec, "cost")
		delete(spec, "stabilizationWindow")
		spec["policy"] = "HPA"
		spec["hpa"] = map[string]any{"metrics": []any{map[string]any{"type": "Resource", "name": "cpu", "averageUtilization": 60}}}
	}
	return object("WorkloadAutoscaler", name(i), namespace(i), spec)
}

// probe is a pod that fits on an empty machine only.
func probe(i int) *corev1.Pod {
	ask := corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(cores*1000-300, resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("1Gi")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("probe-%02d", i), Namespace: namespace(0)},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "probe", Image: "lab.plimsoll.dev/probe", Resources: corev1.ResourceRequirements{Requests: ask},
		}}},
	}
}
