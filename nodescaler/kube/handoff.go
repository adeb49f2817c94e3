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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
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
var ErrNoBuffers = errors.New("the cluster does not know CapacityBuffers of " + copies.BufferGroup)

const (
	// annotationMadeFrom is the source that a published object was made from, without the number.
	annotationMadeFrom = "plimsoll.dev/made-from"
	// expectAge is how long a published object is assumed to exist. Another client may have removed
	// it.
	expectAge = 2 * time.Minute
)

// ExpectName is what everything is called by which replicas of a WorkloadAutoscaler's target are
// made known, in its namespace.
func ExpectName(autoscaler string) string { return kept.ExpectName(autoscaler) }

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
	t, ok := seen.Target(workload)
	if !ok {
		return fmt.Errorf("%s: no such workload was observed", what)
	}
	if more > 0 {
		if _, err := c.scalable(seen, workload, what); err != nil {
			return err
		}
	}
	return c.write(ctx, Active, what, func(ctx context.Context) error {
		if c.expected.is(t.Autoscaler.UID, more) {
			return nil
		}
		c.expected.forget(t.Autoscaler.UID)
		if err := again(func() error { return publisher{c}.expect(ctx, t, more) }); err != nil {
			return err
		}
		c.expected.note(t.Autoscaler.UID, more)
		return nil
	})
}

// publisher makes expected replicas known.
type publisher struct{ *Cluster }

func (p publisher) expect(ctx context.Context, t *Target, more int) error {
	if p.cfg.HandOff.By == ByPlaceholders {
		return p.put(ctx, t, placeholderResource, more, func() (map[string]any, error) { return p.placeholders(ctx, t) })
	}
	resource, served, err := p.copies.Served.Buffers(ctx)
	switch {
	case err != nil:
		return err
	case !served && more == 0:
		return nil
	case !served:
		return ErrNoBuffers
	}
	return p.put(ctx, t, resource, more, func() (map[string]any, error) { return buffer(resource, t), nil })
}

// Usable looks at a cluster, and returns why nothing could be made known there in this way, or nil.
func (h HandOff) Usable(ctx context.Context, cfg *rest.Config) error {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, copies.Patience)
	defer cancel()
	switch h.By {
	case ByPlaceholders:
		return h.givesWay(ctx, client)
	case ByCapacityBuffer:
		if _, served, err := copies.NewServed(client).Buffers(ctx); err != nil || !served {
			return cmp.Or(err, ErrNoBuffers)
		}
	case ByNothing:
	}
	return nil
}

// buffer is the CapacityBuffer of a target. Whoever reads it takes the form of a replica from the
// target.
func buffer(resource schema.GroupVersionResource, t *Target) map[string]any {
	return map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": "CapacityBuffer",
		"spec": map[string]any{"scalableRef": map[string]any{"apiGroup": t.Ref.Group, "kind": t.Ref.Kind, "name": t.Ref.Name}},
	}
}

// put has the object be there, as it is to be made and with so many replicas. For none it is not
// made, and what is there stays as it is but for the number. An object of the name that is not ours
// is left alone.
func (p publisher) put(ctx context.Context, t *Target, resource schema.GroupVersionResource, more int, make func() (map[string]any, error)) error {
	where := p.objects.Resource(resource).Namespace(t.Ref.Namespace)
	have, err := where.Get(ctx, ExpectName(t.Autoscaler.Name), metav1.GetOptions{})
	there := err == nil
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return err
	case !there && more == 0:
		return nil
	case there && !metav1.IsControlledBy(have, t.Autoscaler):
		return fmt.Errorf("%w: there is a %s %s that is not of this autoscaler", ErrConflicted, have.GetKind(), have.GetName())
	case there && more == 0:
		return p.update(ctx, t, resource, have, have.Object, 0)
	}
	want, err := make()
	if err != nil {
		return err
	}
	if there {
		return p.update(ctx, t, resource, have, want, more)
	}
	made, err := publication(t, want, more)
	if err != nil {
		return err
	}
	_, err = where.Create(ctx, made, metav1.CreateOptions{FieldManager: kept.FieldManager})
	return err
}

// update changes what is there, if it differs from what is wanted, in the very version that was
// read.
func (p publisher) update(ctx context.Context, t *Target, resource schema.GroupVersionResource, have *unstructured.Unstructured, want map[string]any, more int) error {
	count, _, _ := unstructured.NestedInt64(have.Object, "spec", "replicas")
	changed := have.DeepCopy()
	if more > 0 {
		made, err := publication(t, want, more)
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
	_, err := p.objects.Resource(resource).Namespace(t.Ref.Namespace).Update(ctx, changed, metav1.UpdateOptions{FieldManager: kept.FieldManager})
	return err
}

// publication is an object with its metadata: it goes with the autoscaler.
func publication(t *Target, of map[string]any, more int) (*unstructured.Unstructured, error) {
	text, err := json.Marshal(of["spec"])
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	o := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(of)}
	o.SetNamespace(t.Ref.Namespace)
	o.SetName(ExpectName(t.Autoscaler.Name))
	o.SetLabels(map[string]string{kept.LabelManagedBy: kept.FieldManager})
	o.SetAnnotations(map[string]string{annotationMadeFrom: hex.EncodeToString(sum[:8])})
	yes := true
	o.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindWorkloadAutoscaler, Name: t.Autoscaler.Name, UID: t.Autoscaler.UID, Controller: &yes,
	}})
	return o, unstructured.SetNestedField(o.Object, int64(more), "spec", "replicas")
}

// expectations are what was last made known, by autoscaler, so that nothing is asked for what stays
// as it is.
type expectations struct {
	mu sync.Mutex
	of map[types.UID]madeKnown
}

// madeKnown is how many were, and when by the monotonic clock.
type madeKnown struct {
	is int
	at time.Time
}

func newExpectations() *expectations { return &expectations{of: map[types.UID]madeKnown{}} }

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
	e.of[wla] = madeKnown{more, now}
}

func (e *expectations) forget(wla types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.of, wla)
}
