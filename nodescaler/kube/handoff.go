package kube

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
)

// HandOff is how replicas that are expected are made known to whoever orders machines in our place.
type HandOff struct {
	By HandOffBy
	// PriorityClass is what placeholders have, and Image what they run. Placeholders alone need
	// them.
	PriorityClass, Image string
}

// HandOffBy is by what they are made known.
type HandOffBy string

// The ways to make them known.
const (
	// ByNothing makes nothing known, as the empty value does.
	ByNothing HandOffBy = "none"
	// ByCapacityBuffer publishes CapacityBuffers, which cluster-autoscaler keeps room for.
	ByCapacityBuffer HandOffBy = "CapacityBuffer"
	// ByPlaceholders has pods that do nothing keep the places of those that are expected, and wait
	// for machines in theirs.
	ByPlaceholders HandOffBy = "Placeholders"
)

// HandOffs are all of them.
var HandOffs = []HandOffBy{ByCapacityBuffer, ByPlaceholders, ByNothing}

// Used reports whether anything is made known.
func (h HandOff) Used() bool { return h.By == ByCapacityBuffer || h.By == ByPlaceholders }

func (h HandOff) check() error {
	switch {
	case h.By != "" && !slices.Contains(HandOffs, h.By):
		return fmt.Errorf("hand off by: must be one of %v, was %q", HandOffs, h.By)
	case h.By == ByPlaceholders && (h.PriorityClass == "" || h.Image == ""):
		return fmt.Errorf("hand off by %s: needs a priority class and an image, was %q and %q", h.By, h.PriorityClass, h.Image)
	}
	return nil
}

// ErrNoBuffers is what Expect answers where CapacityBuffers are to be published and the cluster has
// none.
var ErrNoBuffers = errors.New("the cluster does not know CapacityBuffers of " + bufferGroup)

const (
	bufferGroup    = "autoscaling.x-k8s.io"
	bufferResource = "capacitybuffers"
	// labelManagedBy is on everything that is published here, so that it can be found.
	labelManagedBy = "app.kubernetes.io/managed-by"
	// annotationMadeFrom is the source that a published object was made from, without the number.
	annotationMadeFrom = "plimsoll.dev/made-from"
	// expectAge is how long a published object is assumed to exist. Another client may have removed
	// it.
	expectAge = 2 * time.Minute
)

// bufferVersions are the released versions of CapacityBuffer, the newest first. What is said in it
// is the same in all.
var bufferVersions = []string{"v1beta1", "v1alpha1"}

// ExpectName is what everything is called by which replicas of a WorkloadAutoscaler's target are
// made known, in its namespace. It does not begin as the target's name does, so that no query for
// the target's pods finds it.
func ExpectName(autoscaler string) string {
	const most = 63 // it is the value of a label, too
	name := "plimsoll-ahead-" + autoscaler
	if len(name) <= most {
		return name
	}
	sum := sha256.Sum256([]byte(autoscaler))
	return name[:most-9] + "-" + hex.EncodeToString(sum[:4])
}

// Expect publishes, for the autoscaler that orders machines, that a workload will need so many
// replicas beyond its present scale. 0 withdraws what was published before.
func (c *Cluster) Expect(ctx context.Context, workload string, more int) error {
	what := fmt.Sprintf("make known that %s expects %d replicas more", workload, more)
	if more < 0 {
		return fmt.Errorf("%s: must be at least 0", what)
	}
	if !c.cfg.HandOff.Used() {
		return fmt.Errorf("%s: it is not said by what", what)
	}
	seen := c.observed.Load()
	t, ok := seen.target(workload)
	if !ok {
		return fmt.Errorf("%s: no such workload was observed", what)
	}
	if more > 0 {
		if _, err := c.scalable(seen, workload, what); err != nil {
			return err
		}
	}
	return c.write(ctx, Active, what, func(ctx context.Context) error {
		if c.expected.is(t.wla.UID, more) {
			return nil
		}
		c.expected.forget(t.wla.UID)
		if err := again(func() error { return c.expect(ctx, t, more) }); err != nil {
			return err
		}
		c.expected.note(t.wla.UID, more)
		return nil
	})
}

func (c *Cluster) expect(ctx context.Context, t *Target, more int) error {
	if c.cfg.HandOff.By == ByPlaceholders {
		return c.put(ctx, t, placeholderResource, more, func() (map[string]any, error) { return c.placeholders(ctx, t) })
	}
	resource, served, err := c.scales.buffers(ctx)
	switch {
	case err != nil:
		return err
	case !served && more == 0:
		return nil
	case !served:
		return ErrNoBuffers
	}
	return c.put(ctx, t, resource, more, func() (map[string]any, error) { return buffer(resource, t), nil })
}

// Usable looks at a cluster, and returns why nothing could be made known there in this way, or nil.
func (h HandOff) Usable(ctx context.Context, cfg *rest.Config) error {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	switch h.By {
	case ByPlaceholders:
		return h.givesWay(ctx, client)
	case ByCapacityBuffer:
		kinds := scales{kinds: discovery.ToServerResourcesInterfaceWithContext(client.Discovery()), groups: map[string]known[*metav1.APIResourceList]{}}
		if _, served, err := kinds.buffers(ctx); err != nil || !served {
			return cmp.Or(err, ErrNoBuffers)
		}
	case ByNothing:
	}
	return nil
}

// buffers finds the version of CapacityBuffer that the cluster serves.
func (s *scales) buffers(ctx context.Context) (schema.GroupVersionResource, bool, error) {
	for _, version := range bufferVersions {
		gv := schema.GroupVersion{Group: bufferGroup, Version: version}
		list, err := s.list(ctx, gv.String())
		if err != nil {
			return schema.GroupVersionResource{}, false, err
		}
		if slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == bufferResource && r.Namespaced }) {
			return gv.WithResource(bufferResource), true, nil
		}
	}
	return schema.GroupVersionResource{}, false, nil
}

// buffer is the CapacityBuffer of a target. Whoever reads it takes the form of a replica from the
// target.
func buffer(resource schema.GroupVersionResource, t *Target) map[string]any {
	return map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": "CapacityBuffer",
		"spec": map[string]any{"scalableRef": map[string]any{"apiGroup": t.ref.Group, "kind": t.ref.Kind, "name": t.ref.name}},
	}
}

// put has the object be there, as it is to be made and with so many replicas. For none it is not
// made, and what is there stays as it is but for the number. An object of the name that is not ours
// is left alone.
func (c *Cluster) put(ctx context.Context, t *Target, resource schema.GroupVersionResource, more int, make func() (map[string]any, error)) error {
	where := c.objects.Resource(resource).Namespace(t.ref.namespace)
	have, err := where.Get(ctx, ExpectName(t.wla.Name), metav1.GetOptions{})
	there := err == nil
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return err
	case !there && more == 0:
		return nil
	case there && !metav1.IsControlledBy(have, t.wla):
		return fmt.Errorf("%w: there is a %s %s that is not of this autoscaler", ErrConflicted, have.GetKind(), have.GetName())
	case there && more == 0:
		return c.update(ctx, t, resource, have, have.Object, 0)
	}
	want, err := make()
	if err != nil {
		return err
	}
	if there {
		return c.update(ctx, t, resource, have, want, more)
	}
	made, err := t.publication(want, more)
	if err != nil {
		return err
	}
	_, err = where.Create(ctx, made, metav1.CreateOptions{FieldManager: fieldManager})
	return err
}

// update changes what is there, if it differs from what is wanted, in the very version that was
// read.
func (c *Cluster) update(ctx context.Context, t *Target, resource schema.GroupVersionResource, have *unstructured.Unstructured, want map[string]any, more int) error {
	count, _, _ := unstructured.NestedInt64(have.Object, "spec", "replicas")
	changed := have.DeepCopy()
	if more > 0 {
		made, err := t.publication(want, more)
		if err != nil {
			return err
		}
		if int(count) == more && have.GetAnnotations()[annotationMadeFrom] == made.GetAnnotations()[annotationMadeFrom] {
			return nil
		}
		changed.Object["spec"] = made.Object["spec"]
		annotations := changed.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[annotationMadeFrom] = made.GetAnnotations()[annotationMadeFrom]
		changed.SetAnnotations(annotations)
	} else if count == 0 {
		return nil
	}
	if err := unstructured.SetNestedField(changed.Object, int64(more), "spec", "replicas"); err != nil {
		return err
	}
	_, err := c.objects.Resource(resource).Namespace(t.ref.namespace).Update(ctx, changed, metav1.UpdateOptions{FieldManager: fieldManager})
	return err
}

// publication is an object with its metadata: it goes with the autoscaler.
func (t *Target) publication(of map[string]any, more int) (*unstructured.Unstructured, error) {
	text, err := json.Marshal(of["spec"])
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	o := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(of)}
	o.SetNamespace(t.ref.namespace)
	o.SetName(ExpectName(t.wla.Name))
	o.SetLabels(map[string]string{labelManagedBy: fieldManager})
	o.SetAnnotations(map[string]string{annotationMadeFrom: hex.EncodeToString(sum[:8])})
	yes := true
	o.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindWorkloadAutoscaler, Name: t.wla.Name, UID: t.wla.UID, Controller: &yes,
	}})
	return o, unstructured.SetNestedField(o.Object, int64(more), "spec", "replicas")
}

// expectations are what was last made known, by autoscaler, so that nothing is asked for what stays
// as it is.
type expectations struct {
	mu sync.Mutex
	of map[types.UID]known[int]
}

func newExpectations() *expectations { return &expectations{of: map[types.UID]known[int]{}} }

func (e *expectations) is(wla types.UID, more int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	k, ok := e.of[wla]
	return ok && k.is == more && time.Since(k.at) < expectAge
}

func (e *expectations) note(wla types.UID, more int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	for old, k := range e.of { // those of autoscalers that are gone among them
		if now.Sub(k.at) >= expectAge {
			delete(e.of, old)
		}
	}
	e.of[wla] = known[int]{more, now}
}

func (e *expectations) forget(wla types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.of, wla)
}
