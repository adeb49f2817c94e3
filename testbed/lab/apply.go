package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Create creates all objects of a manifest, in their order, and returns when the kinds that it defines
// are served. What is there already stays as it is.
func (l *Lab) Create(ctx context.Context, manifest []byte) error {
	c, err := client.New(l.REST(), client.Options{})
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
		if err := c.Create(ctx, &o); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		if o.GetKind() == "CustomResourceDefinition" {
			if err := served(ctx, c, &o); err != nil {
				return err
			}
		}
	}
}

// served waits until a kind is.
func served(ctx context.Context, c client.Client, kind *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if err := c.Get(ctx, client.ObjectKeyFromObject(kind), kind); err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(kind.Object, "status", "conditions")
		for _, c := range conditions {
			if c, ok := c.(map[string]any); ok && c["type"] == "Established" && c["status"] == "True" {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not served: %w", kind.GetName(), ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
