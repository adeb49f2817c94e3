package copies

import (
	"context"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
)

// kindsAge is how old the list of kinds may be. A kind that comes later is seen as late.
const kindsAge = 20 * time.Second

// Served is which kinds the API server has, as it said lately.
type Served struct {
	kinds discovery.ServerResourcesInterfaceWithContext

	mu     sync.Mutex
	groups map[string]aged
}

// aged are the kinds of a group, and when they were listed by the monotonic clock.
type aged struct {
	is *metav1.APIResourceList
	at time.Time
}

// NewServed asks by a client.
func NewServed(client kubernetes.Interface) *Served {
	return &Served{kinds: discovery.ToServerResourcesInterfaceWithContext(client.Discovery()), groups: map[string]aged{}}
}

// Buffers finds the version of CapacityBuffer that the cluster serves.
func (s *Served) Buffers(ctx context.Context) (schema.GroupVersionResource, bool, error) {
	for _, version := range BufferVersions {
		gv := schema.GroupVersion{Group: BufferGroup, Version: version}
		list, err := s.List(ctx, gv.String())
		if err != nil {
			return schema.GroupVersionResource{}, false, err
		}
		if slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == BufferResource && r.Namespaced }) {
			return gv.WithResource(BufferResource), true, nil
		}
	}
	return schema.GroupVersionResource{}, false, nil
}

// List returns the kinds of a group and version; a group that is not there has none.
func (s *Served) List(ctx context.Context, apiVersion string) (*metav1.APIResourceList, error) {
	s.mu.Lock()
	k, ok := s.groups[apiVersion]
	s.mu.Unlock()
	if ok && time.Since(k.at) < kindsAge {
		return k.is, nil
	}
	now := time.Now()
	list, err := s.kinds.ServerResourcesForGroupVersionWithContext(ctx, apiVersion)
	if apierrors.IsNotFound(err) {
		list, err = &metav1.APIResourceList{}, nil
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups[apiVersion] = aged{list, now}
	return list, nil
}
