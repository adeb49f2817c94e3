package plane

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// watch follows the nodes and pods of a cluster, and returns when those that are there are known.
// Nodes come first, so that no pod of one that does not run seems to serve.
func (p *Plane) watch(ctx context.Context, client kubernetes.Interface, s *services) error {
	err := follow(ctx, client, s, "nodes", &corev1.Node{}, p.observedNode, func(n *corev1.Node) { p.removedNode(n.Name) })
	if err != nil {
		return err
	}
	return follow(ctx, client, s, "pods", &corev1.Pod{},
		func(pod *corev1.Pod) { p.observed(observe(pod)) },
		func(pod *corev1.Pod) { p.removed(pod.Namespace + "/" + pod.Name) })
}

// follow reports the objects of a resource that are there, whenever they change, and when they go.
func follow[T any, P interface {
	*T
	runtime.Object
}](ctx context.Context, client kubernetes.Interface, s *services, resource string, of P, there, gone func(P)) error {
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(client.CoreV1().RESTClient(), resource, metav1.NamespaceAll, fields.Everything()),
		ObjectType:    of,
		Transform:     slim,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { there(o.(P)) },
			UpdateFunc: func(_, o any) { there(o.(P)) },
			DeleteFunc: func(o any) {
				if last, missed := o.(cache.DeletedFinalStateUnknown); missed {
					o = last.Obj
				}
				gone(o.(P))
			},
		},
	})
	s.goOn(informer.RunWithContext)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return errors.Join(errors.New("list "+resource), ctx.Err())
	}
	return nil
}

// slim leaves out what is not read, of which there is much where there are many pods.
func slim(o any) (any, error) {
	switch o := o.(type) {
	case *corev1.Pod:
		o.ManagedFields = nil
		o.Spec.Volumes, o.Spec.InitContainers, o.Spec.Tolerations = nil, nil, nil
		for i := range o.Spec.Containers {
			c := &o.Spec.Containers[i]
			*c = corev1.Container{Name: c.Name, Resources: c.Resources}
		}
		o.Status.ContainerStatuses, o.Status.InitContainerStatuses = nil, nil
	case *corev1.Node:
		o.ManagedFields, o.Status = nil, corev1.NodeStatus{}
	}
	return o, nil
}
