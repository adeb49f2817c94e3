package disruption

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// store holds the objects that Karpenter reads and writes, and answers as a cache of them does. The
// fake client of controller-runtime would encode and decode each, a hundred times as slow. What it
// does not serve fails loudly, on the client that it does not have.
type store struct {
	client.Client
	lock    sync.Mutex
	kinds   map[reflect.Type]*kind
	made    int
	now     func() metav1.Time
	changed func(client.Object) // after each write
}

// kind is the objects of a kind, sorted by namespace and name.
type kind struct {
	keys    []string
	objects []client.Object
}

func newStore(now func() metav1.Time) *store {
	return &store{kinds: map[reflect.Type]*kind{}, now: now, changed: func(client.Object) {}}
}

func keyOf(o client.Object) string { return o.GetNamespace() + "/" + o.GetName() }

func clone[T client.Object](o T) T { return o.DeepCopyObject().(T) }

func (s *store) kind(of reflect.Type) *kind {
	k := s.kinds[of]
	if k == nil {
		k = &kind{}
		s.kinds[of] = k
	}
	return k
}

// put adds or replaces an object.
func (s *store) put(o client.Object) {
	s.lock.Lock()
	if o.GetUID() == "" {
		s.made++
		o.SetUID(types.UID(fmt.Sprintf("uid-%d", s.made)))
		if o.GetCreationTimestamp().Time.IsZero() {
			o.SetCreationTimestamp(s.now())
		}
	}
	k := s.kind(reflect.TypeOf(o).Elem())
	i, there := slices.BinarySearch(k.keys, keyOf(o))
	if there {
		k.objects[i] = clone(o)
	} else {
		k.keys = slices.Insert(k.keys, i, keyOf(o))
		k.objects = slices.Insert(k.objects, i, clone(o))
	}
	s.lock.Unlock()
	s.changed(o)
}

// remove takes an object away for good.
func (s *store) remove(o client.Object) {
	s.lock.Lock()
	defer s.lock.Unlock()
	k := s.kind(reflect.TypeOf(o).Elem())
	if i, there := slices.BinarySearch(k.keys, keyOf(o)); there {
		k.keys, k.objects = slices.Delete(k.keys, i, i+1), slices.Delete(k.objects, i, i+1)
	}
}

// Get copies the object into the one that is handed in.
func (s *store) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	of := reflect.TypeOf(into).Elem()
	k := s.kind(of)
	i, there := slices.BinarySearch(k.keys, key.Namespace+"/"+key.Name)
	if !there {
		return errors.NewNotFound(schema.GroupResource{Resource: strings.ToLower(of.Name())}, key.Name)
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(clone(k.objects[i])).Elem())
	return nil
}

// List copies all objects that the options select into the list.
func (s *store) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	by := (&client.ListOptions{}).ApplyOptions(options)
	of := reflect.TypeOf(into).Elem()
	items, is := of.FieldByName("Items")
	if !is {
		return fmt.Errorf("%s has no items", of)
	}
	all := []runtime.Object{}
	for _, o := range s.kind(items.Type.Elem()).objects {
		if matches, err := selects(by, o); err != nil {
			return err
		} else if matches {
			all = append(all, clone(o))
		}
	}
	return meta.SetList(into, all)
}

// selects reports whether the options select the object: by namespace, by labels, and by the fields
// that Karpenter has indexed.
func selects(by *client.ListOptions, o client.Object) (bool, error) {
	if by.Namespace != "" && by.Namespace != o.GetNamespace() || by.LabelSelector != nil && !by.LabelSelector.Matches(labels.Set(o.GetLabels())) {
		return false, nil
	}
	if by.FieldSelector == nil {
		return true, nil
	}
	indexed := fields.Set{}
	switch o := o.(type) {
	case *corev1.Pod:
		indexed["spec.nodeName"] = o.Spec.NodeName
	case *corev1.Node:
		indexed["spec.providerID"] = o.Spec.ProviderID
	case *v1.NodeClaim:
		indexed["status.providerID"] = o.Status.ProviderID
	}
	for _, r := range by.FieldSelector.Requirements() {
		if !indexed.Has(r.Field) {
			return false, fmt.Errorf("%T is not indexed by %s", o, r.Field)
		}
	}
	return by.FieldSelector.Matches(indexed), nil
}

// Create adds an object, and makes up its name if it has none.
func (s *store) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	if o.GetName() == "" {
		s.lock.Lock()
		s.made++
		o.SetName(fmt.Sprintf("%s%05d", o.GetGenerateName(), s.made))
		s.lock.Unlock()
	}
	s.put(o)
	return nil
}

// Patch takes the object as it is: who patches here changed the newest copy of it.
func (s *store) Patch(_ context.Context, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
	s.put(o)
	return nil
}

// Delete marks the object: all that Karpenter deletes has finalizers.
func (s *store) Delete(ctx context.Context, o client.Object, _ ...client.DeleteOption) error {
	newest := clone(o)
	if err := s.Get(ctx, client.ObjectKeyFromObject(o), newest); err != nil {
		return err
	}
	if newest.GetDeletionTimestamp() == nil {
		now := s.now()
		newest.SetDeletionTimestamp(&now)
		s.put(newest)
	}
	return nil
}

// Status patches as the store does.
func (s *store) Status() client.SubResourceWriter { return statuses{store: s} }

type statuses struct {
	client.SubResourceWriter
	store *store
}

func (s statuses) Patch(_ context.Context, o client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	s.store.put(o)
	return nil
}
