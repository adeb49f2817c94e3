package upstream

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"k8s.io/component-helpers/resource"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/pricing"
)

// taint is what cluster-autoscaler marks nodes with that it is about to delete.
const taint = "ToBeDeletedByClusterAutoscaler"

// BufferKind is as much of the kind CapacityBuffer as is said in it. The kind itself comes with
// cluster-autoscaler's sources.
//
//go:embed capacitybuffers.yaml
var BufferKind []byte

var bufferResource = schema.GroupVersionResource{Group: "autoscaling.x-k8s.io", Version: "v1beta1", Resource: "capacitybuffers"}

// Kubernetes is a real cluster. What it reads is watched; what it writes are taints and evictions.
type Kubernetes struct {
	*kube.Cluster
	client  kubernetes.Interface
	objects dynamic.Interface
	buffers bool
}

var _ Cluster = (*Kubernetes)(nil)

// NewKubernetes makes a cluster, whose Run has to go on beside. CapacityBuffers are only read if
// they are asked for.
func NewKubernetes(cfg *rest.Config, buffers bool) (*Kubernetes, error) {
	k := &Kubernetes{buffers: buffers}
	var err error
	nobodys := func(*corev1.Node) (machine, pool string) { return "", "" }
	if k.Cluster, err = kube.New(kube.Config{REST: cfg, Mode: kube.ReadOnly, Machine: nobodys}); err != nil {
		return nil, err
	}
	if k.client, err = kubernetes.NewForConfig(cfg); err != nil {
		return nil, err
	}
	k.objects, err = dynamic.NewForConfig(cfg)
	return k, err
}

// Observe is the cluster as it is now.
func (k *Kubernetes) Observe(ctx context.Context) (Sight, error) {
	state, err := k.Cluster.Observe(ctx)
	if err != nil {
		return Sight{}, err
	}
	nodes, err := k.Nodes(ctx)
	if err != nil {
		return Sight{}, err
	}
	seen := Sight{State: state, ProviderIDs: map[string]string{}}
	for _, n := range nodes {
		seen.ProviderIDs[n.Name] = n.ProviderID
	}
	for i := range seen.State.Nodes {
		marked(&seen.State.Nodes[i])
	}
	if k.buffers {
		seen.Buffers, err = k.readBuffers(ctx)
	}
	return seen, err
}

// marked takes the mark of a node for what it says.
func marked(n *nodescaler.Node) {
	left := slices.DeleteFunc(slices.Clone(n.Taints), func(t nodescaler.Taint) bool { return t.Key == taint })
	n.Draining = len(left) < len(n.Taints)
	n.Cordoned = n.Cordoned || n.Draining
	n.Taints = left
}

// readBuffers reads what room is to be kept for. A replica is as the template of the Deployment
// says that the buffer refers to, which is all that Plimsoll's buffers refer to here.
func (k *Kubernetes) readBuffers(ctx context.Context) ([]nodescaler.Future, error) {
	list, err := k.objects.Resource(bufferResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var all []nodescaler.Future
	for i := range list.Items {
		o := &list.Items[i]
		n, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
		kind, _, _ := unstructured.NestedString(o.Object, "spec", "scalableRef", "kind")
		name, _, _ := unstructured.NestedString(o.Object, "spec", "scalableRef", "name")
		if n <= 0 {
			continue
		}
		if kind != "Deployment" {
			return nil, fmt.Errorf("CapacityBuffer %s/%s: spec.scalableRef.kind: must be Deployment, was %q", o.GetNamespace(), o.GetName(), kind)
		}
		d, err := k.client.AppsV1().Deployments(o.GetNamespace()).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, nodescaler.Future{Like: replica(o.GetNamespace()+"/"+name, &d.Spec.Template.Spec), Ahead: int(n)})
	}
	return all, nil
}

// replica is a pod as a template says.
func replica(workload string, spec *corev1.PodSpec) nodescaler.Pod {
	asked := resource.PodRequests(&corev1.Pod{Spec: *spec}, resource.PodResourcesOptions{})
	p := nodescaler.Pod{
		Workload: workload, Selector: spec.NodeSelector,
		Requests: pricing.Resources{CPU: pricing.MilliCPU(asked.Cpu().MilliValue()), Memory: pricing.Bytes(asked.Memory().Value())},
	}
	for _, t := range spec.Tolerations {
		if t.Effect != corev1.TaintEffectPreferNoSchedule {
			p.Tolerations = append(p.Tolerations, nodescaler.Toleration{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
		}
	}
	return p
}

// Mark taints a node as one that is about to be deleted and closes it, or takes both back.
func (k *Kubernetes) Mark(ctx context.Context, node string, yes bool) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		n, err := k.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taint })
		if n.Spec.Unschedulable = yes; yes {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: taint, Value: strconv.FormatInt(time.Now().Unix(), 10), Effect: corev1.TaintEffectNoSchedule})
		}
		_, err = k.client.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
		return err
	})
}

// Evict asks for a pod to be moved. One that is gone is no error.
func (k *Kubernetes) Evict(ctx context.Context, pod string) error {
	namespace, name, _ := strings.Cut(pod, "/")
	err := k.client.PolicyV1().Evictions(namespace).Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsTooManyRequests(err):
		return fmt.Errorf("%w: %w", ErrBudget, err)
	}
	return err
}
