package targets

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
)

// notScalable is why something has no scale, and surely has not.
type notScalable struct{ code, text string }

func (n notScalable) Error() string { return n.text }

// scales reads and writes the scale of any kind that has one.
type scales struct {
	served  *copies.Served
	objects dynamic.Interface

	mu   sync.Mutex
	read map[kept.Reference]lately
}

// lately is a scale, and when it was read by the monotonic clock.
type lately struct {
	is *autoscalingv1.Scale
	at time.Time
}

// scaleAge is how old the scale of a kind that is not watched may be. Steps follow one another
// quickly when pods turn unschedulable.
const scaleAge = 5 * time.Second

// get reads a scale, which may be a few seconds old.
func (s *scales) get(ctx context.Context, apiVersion string, ref kept.Reference) (*autoscalingv1.Scale, schema.GroupVersionResource, error) {
	resource, err := s.resource(ctx, apiVersion, ref.Kind)
	if err != nil {
		return nil, resource, err
	}
	s.mu.Lock()
	k, ok := s.read[ref]
	s.mu.Unlock()
	if ok && time.Since(k.at) < scaleAge {
		return k.is, resource, nil
	}
	now := time.Now()
	scale, err := s.now(ctx, resource, ref.Namespace, ref.Name)
	if apierrors.IsNotFound(err) {
		return nil, resource, notScalable{v1alpha1.ReasonTargetNotFound, fmt.Sprintf("there is no %s %s in namespace %s", ref.Kind, ref.Name, ref.Namespace)}
	}
	if err != nil {
		return nil, resource, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for old, k := range s.read {
		if now.Sub(k.at) > time.Minute {
			delete(s.read, old)
		}
	}
	s.read[ref] = lately{scale, now}
	return scale, resource, nil
}

// now reads a scale as it is.
func (s *scales) now(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) (*autoscalingv1.Scale, error) {
	raw, err := s.objects.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{}, "scale")
	if err != nil {
		return nil, err
	}
	var scale autoscalingv1.Scale
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, &scale); err != nil {
		return nil, fmt.Errorf("not a scale: %w", err)
	}
	return &scale, nil
}

// forget drops what was read of a scale that was written since.
func (s *scales) forget(ref kept.Reference) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.read, ref)
}

// resource finds what the kind is called in paths, and that it has a scale.
func (s *scales) resource(ctx context.Context, apiVersion, kind string) (schema.GroupVersionResource, error) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return schema.GroupVersionResource{}, notScalable{v1alpha1.ReasonTargetNotFound, err.Error()}
	}
	list, err := s.served.List(ctx, apiVersion)
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	for i := range list.APIResources {
		r := &list.APIResources[i]
		if r.Kind != kind || strings.Contains(r.Name, "/") {
			continue
		}
		if !slices.ContainsFunc(list.APIResources, func(o metav1.APIResource) bool { return o.Name == r.Name+"/scale" }) {
			return schema.GroupVersionResource{}, notScalable{v1alpha1.ReasonTargetNotScalable, fmt.Sprintf("a %s of %s has no scale", kind, apiVersion)}
		}
		return gv.WithResource(r.Name), nil
	}
	return schema.GroupVersionResource{}, notScalable{v1alpha1.ReasonTargetNotFound, fmt.Sprintf("the cluster has no kind %s of %s", kind, apiVersion)}
}
