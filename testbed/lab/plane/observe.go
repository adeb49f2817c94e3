package plane

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func parseQuantity(text string) (float64, error) {
	q, err := resource.ParseQuantity(text)
	return q.AsApproximateFloat64(), err
}

// observed is what the plane takes from a pod of the API server.
type observed struct {
	namespace, name, uid string
	workload             string // of the same namespace
	labels               map[string]string
	node, address        string
	behavior             behavior
	fault                error // with its annotations
	running              bool  // its containers run
	ready                bool  // and it is among the endpoints, but for terminating
	terminating          bool
	grace                time.Duration
	containers           []container
}

// container is one container with the memory that it is taken to use: what it asked for.
type container struct {
	name   string
	memory int64 // bytes
}

func (o *observed) key() string { return o.namespace + "/" + o.name }

// app is the name of the application that the pod belongs to.
func (o *observed) app() string { return o.namespace + "/" + o.workload }

// observe reads a pod.
func observe(p *corev1.Pod) *observed {
	o := &observed{
		namespace: p.Namespace, name: p.Name, uid: string(p.UID), workload: workloadOf(p),
		labels: p.Labels, node: p.Spec.NodeName, address: p.Status.PodIP,
		running:     p.Status.Phase == corev1.PodRunning,
		terminating: p.DeletionTimestamp != nil,
		grace:       graceOf(p),
	}
	o.behavior, o.fault = readBehavior(p)
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			o.ready = o.running && c.Status == corev1.ConditionTrue
		}
	}
	for _, c := range p.Spec.Containers {
		o.containers = append(o.containers, container{c.Name, c.Resources.Requests.Memory().Value()})
	}
	return o
}

// graceOf is how long the pod may finish what it has once it is to go.
func graceOf(p *corev1.Pod) time.Duration {
	seconds := p.DeletionGracePeriodSeconds
	if seconds == nil {
		seconds = p.Spec.TerminationGracePeriodSeconds
	}
	if seconds == nil {
		return corev1.DefaultTerminationGracePeriodSeconds * time.Second
	}
	return time.Duration(*seconds) * time.Second
}

// workloadOf is what Istio calls the pod's workload: the Deployment behind its ReplicaSet, another
// owner, or the pod itself.
func workloadOf(p *corev1.Pod) string {
	owner := metav1.GetControllerOf(p)
	if owner == nil {
		return p.Name
	}
	if hash := p.Labels["pod-template-hash"]; owner.Kind == "ReplicaSet" && hash != "" {
		return strings.TrimSuffix(owner.Name, "-"+hash)
	}
	return owner.Name
}
