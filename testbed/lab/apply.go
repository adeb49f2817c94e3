package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// Create creates all objects of a manifest, in their order, and returns when the kinds that it
// defines are served. What is there already stays as it is.
func (l *Lab) Create(ctx context.Context, manifest []byte) error {
	c, err := newCreator(l)
	if err != nil {
		return err
	}
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		var o unstructured.Unstructured
		err := documents.Decode(&o.Object)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case len(o.Object) == 0:
			continue
		}
		if err := c.create(ctx, &o); err != nil {
			return fmt.Errorf("create %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
}

// creator creates objects of every kind that is served.
type creator struct {
	objects dynamic.Interface
	kinds   meta.ResettableRESTMapper
}

func newCreator(l *Lab) (*creator, error) {
	served, err := discovery.NewDiscoveryClientForConfig(l.REST())
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(l.REST())
	if err != nil {
		return nil, err
	}
	return &creator{objects, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(served))}, nil
}

func (c *creator) create(ctx context.Context, o *unstructured.Unstructured) error {
	gvk := o.GroupVersionKind()
	mapping, err := c.kinds.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return err
	}
	var at dynamic.ResourceInterface = c.objects.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		at = c.objects.Resource(mapping.Resource).Namespace(o.GetNamespace())
	}
	if _, err := at.Create(ctx, o, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if gvk.Kind == "CustomResourceDefinition" {
		return c.served(ctx, o)
	}
	return nil
}

// served waits until a kind is.
func (c *creator) served(ctx context.Context, definition *unstructured.Unstructured) error {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		c.kinds.Reset()
		_, err := c.kinds.RESTMapping(schema.GroupKind{Group: group, Kind: kind})
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it is not served: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
