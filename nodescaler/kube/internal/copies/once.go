package copies

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ReadOnce holds copies of all kinds as they are now, but for those without. Nodes and pods must be
// readable. Why others were not is in unread. Each object is noted as it was read.
func (c *Copies) ReadOnce(ctx context.Context, cfg *rest.Config, note func(runtime.Object), without ...Kind) (unread []error, err error) {
	known, err := newScheme()
	if err != nil {
		return nil, err
	}
	from, err := client.New(cfg, client.Options{Scheme: known, Mapper: names()})
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	for i := range NumberOfKinds {
		if slices.Contains(without, i) || Kinds[i].ForBuffers && !c.how.Buffers {
			continue
		}
		switch err := c.copyOnce(ctx, from, i, note); {
		case err == nil:
		case i == Nodes || i == Pods:
			return nil, err
		default:
			unread = append(unread, err)
		}
	}
	return unread, nil
}

// copyOnce holds copies of a kind. A kind that the cluster does not have has none.
func (c *Copies) copyOnce(ctx context.Context, from client.Client, i Kind, note func(runtime.Object)) error {
	k := &Kinds[i]
	var all []any
	err := k.each(ctx, from, func(o runtime.Object) error {
		note(o)
		short, err := c.keepOf(i)(o)
		all = append(all, short)
		return err
	})
	if err != nil && (!k.added || !apierrors.IsNotFound(err)) {
		return fmt.Errorf("%s: %w", k.Resource, err)
	}
	return c.Hold(i, all...)
}

// Page is how many objects one answer holds, so that a large cluster is not one large answer.
const Page = 500

// each lists a kind, page by page.
func (k *watchedKind) each(ctx context.Context, from client.Client, do func(runtime.Object) error) error {
	how := &client.ListOptions{Limit: Page, FieldSelector: k.fields}
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
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	return from.List(ctx, list, how)
}

// list returns an empty list of the kind.
func (k *watchedKind) list(known *runtime.Scheme) (client.ObjectList, error) {
	gvk := schema.GroupVersionKind{Group: k.Group, Version: k.version, Kind: k.Kind + "List"}
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
