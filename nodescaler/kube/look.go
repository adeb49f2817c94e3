package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
)

// Picture is the cluster as it was at one look.
type Picture struct {
	State loop.ClusterState
	// Capacity is what each node has in all, and ProviderIDs who provides it, by node.
	Capacity    map[string]pricing.Resources
	ProviderIDs map[string]string
	Autoscalers []*v1alpha1.WorkloadAutoscaler
	Pools       []*v1alpha1.VMPool
	PriceBooks  []*v1alpha1.PriceBook
	// Targets are what the autoscalers scale. Whose else they are is not looked for.
	Targets []Target
	// Unread are the kinds that could not be read, each with the reason. Without them less is known
	// of which pods may move, and of whose they are.
	Unread []error
}

// Look reads the cluster once, without watches, for commands that only report. Nodes and pods must
// be readable. Other kinds that are not readable are skipped and listed in the result.
func Look(ctx context.Context, cfg Config) (*Picture, error) {
	cfg.Mode = ReadOnly
	c, err := New(cfg)
	if err != nil {
		return nil, err
	}
	known, err := newScheme()
	if err != nil {
		return nil, err
	}
	from, err := client.New(cfg.REST, client.Options{Scheme: known, Mapper: names()})
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	p := &Picture{Capacity: map[string]pricing.Resources{}, ProviderIDs: map[string]string{}}
	for i := range numberOfCopies {
		// These kinds only forbid or allow writes, and Look writes nothing.
		if i == proposals || i == hpas || i == scaledObjects || i == verticals || i == attachments || watchedKinds[i].forBuffers && !cfg.Buffers {
			continue
		}
		switch err := c.copyOnce(ctx, from, i, p.note); {
		case err == nil:
		case i == nodes || i == pods:
			return nil, err
		default:
			p.Unread = append(p.Unread, err)
		}
	}
	p.State = c.look(ctx)
	p.Targets = c.observed.Load().targets
	p.Autoscalers = kept[*v1alpha1.WorkloadAutoscaler](c, autoscalers)
	p.Pools, p.PriceBooks = kept[*v1alpha1.VMPool](c, vmPools), kept[*v1alpha1.PriceBook](c, priceBooks)
	return p, nil
}

// note keeps what of a node is not in the loop's words.
func (p *Picture) note(o runtime.Object) {
	if n, ok := o.(*corev1.Node); ok {
		p.Capacity[n.Name], p.ProviderIDs[n.Name] = resources(n.Status.Capacity), n.Spec.ProviderID
	}
}

// copyOnce holds copies of a kind as they are now. A kind that the cluster does not have has none.
func (c *Cluster) copyOnce(ctx context.Context, from client.Client, i copies, note func(runtime.Object)) error {
	k := &watchedKinds[i]
	held := toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, k.ask(), 0, nil)
	err := k.each(ctx, from, func(o runtime.Object) error {
		note(o)
		short, err := c.keepOf(i)(o)
		if err != nil {
			return err
		}
		return held.GetStore().Add(short)
	})
	if err != nil && (!k.added || !apierrors.IsNotFound(err)) {
		return fmt.Errorf("%s: %w", k.resource, err)
	}
	c.held[i].informer.Store(&held)
	return nil
}

// each lists a kind, page by page.
func (k *watchedKind) each(ctx context.Context, from client.Client, do func(runtime.Object) error) error {
	how := &client.ListOptions{Limit: page, FieldSelector: k.fields}
	for {
		list, err := k.list(from.Scheme())
		if err != nil {
			return err
		}
		if err := readPage(ctx, from, list, how); err != nil {
			return err
		}
		if err := meta.EachListItem(list, do); err != nil {
			return err
		}
		if how.Continue = list.GetContinue(); how.Continue == "" {
			return nil
		}
	}
}

func readPage(ctx context.Context, from client.Reader, list client.ObjectList, how *client.ListOptions) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return from.List(ctx, list, how)
}

// list returns an empty list of the kind.
func (k *watchedKind) list(known *runtime.Scheme) (client.ObjectList, error) {
	gvk := schema.GroupVersionKind{Group: k.group, Version: k.version, Kind: k.kind + "List"}
	switch k.object.(type) {
	case *metav1.PartialObjectMetadata:
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvk)
		return list, nil
	case *unstructured.Unstructured:
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk)
		return list, nil
	}
	o, err := known.New(gvk)
	if err != nil {
		return nil, err
	}
	list, ok := o.(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("%s is no list", gvk.Kind)
	}
	return list, nil
}
