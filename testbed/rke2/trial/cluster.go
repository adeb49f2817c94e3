package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
)

// Cluster is the Kubernetes that runs are made in.
type Cluster struct {
	client.Client
	// Logs are what a pod has printed, by its container.
	Logs func(ctx context.Context, namespace, pod string, o *corev1.PodLogOptions) (io.ReadCloser, error)
}

// kinds are those that are read and written.
func kinds() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientscheme.AddToScheme(s), v1alpha1.AddToScheme(s))
}

// Reached is the cluster of a kubeconfig.
func Reached(kubeconfig []byte) (Cluster, error) {
	cfg, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return Cluster{}, fmt.Errorf("kubeconfig: %w", err)
	}
	scheme, err := kinds()
	if err != nil {
		return Cluster{}, err
	}
	objects, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return Cluster{}, err
	}
	pods, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return Cluster{}, err
	}
	return Cluster{objects, func(ctx context.Context, namespace, pod string, o *corev1.PodLogOptions) (io.ReadCloser, error) {
		return pods.CoreV1().Pods(namespace).GetLogs(pod, o).Stream(ctx)
	}}, nil
}

// Waiting: how long something may take that only an API has to do, and between two looks.
const (
	outage = 2 * time.Minute
	glance = time.Second
)

// put brings an object about, regardless of what was in its place.
func (c *Cluster) put(ctx context.Context, o client.Object) error {
	return c.insist(ctx, fmt.Sprintf("put %s %s", kindOf(c.Scheme(), o), client.ObjectKeyFromObject(o)), func(ctx context.Context) error {
		there := &unstructured.Unstructured{}
		gvk, err := c.GroupVersionKindFor(o)
		if err != nil {
			return err
		}
		there.SetGroupVersionKind(gvk)
		err = c.Get(ctx, client.ObjectKeyFromObject(o), there)
		switch {
		case apierrors.IsNotFound(err):
			o.SetResourceVersion("")
			return c.Create(ctx, o)
		case err != nil:
			return err
		}
		o.SetResourceVersion(there.GetResourceVersion())
		return c.Update(ctx, o)
	})
}

func kindOf(s *runtime.Scheme, o client.Object) string {
	if kind := o.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	all, _, err := s.ObjectKinds(o)
	if err != nil {
		return fmt.Sprintf("%T", o)
	}
	return all[0].Kind
}

// removeAll removes what carries our mark of a kind in a namespace, and reports whether there was
// any.
func (c *Cluster) removeAll(ctx context.Context, list client.ObjectList, namespace string) (found bool, err error) {
	if err := c.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{mark: marked}); err != nil {
		return false, err
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		return false, err
	}
	for _, item := range objects {
		o, is := item.(client.Object)
		if !is {
			return false, fmt.Errorf("%T is no object", item)
		}
		found = true
		if o.GetDeletionTimestamp() != nil {
			continue
		}
		if err := c.Delete(ctx, o, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil && !apierrors.IsNotFound(err) {
			return true, err
		}
	}
	return found, nil
}

// ruin is an error that no waiting fixes.
type ruin struct{ error }

func (r ruin) Unwrap() error { return r.error }

// definite reports whether an error would be the same the next time.
func definite(err error) bool {
	if errors.As(err, &ruin{}) {
		return true
	}
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsUnauthorized(err)
}

// insist does something again and again until it is done: an API server that is away for a moment
// must not cost a run of half an hour.
func (c *Cluster) insist(ctx context.Context, what string, do func(ctx context.Context) error) error {
	return await(ctx, what, outage, do)
}

// await asks again and again until something holds.
func await(ctx context.Context, what string, patience time.Duration, holds func(ctx context.Context) error) error {
	end := time.Now().Add(patience)
	for {
		err := holds(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case definite(err):
			return fmt.Errorf("%s: %w", what, err)
		case time.Now().After(end):
			return fmt.Errorf("%s: not within %s: %w", what, patience, err)
		}
		if err := pause(ctx, glance); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// documents are the objects of a manifest.
func documents(text []byte) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		var o unstructured.Unstructured
		err := d.Decode(&o.Object)
		switch {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		case len(o.Object) > 0:
			all = append(all, &o)
		}
	}
}
