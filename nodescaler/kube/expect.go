package kube

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
)

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

// buffer is the CapacityBuffer of a target. Whoever reads it takes the form of a replica from the
// target.
func buffer(resource schema.GroupVersionResource, t *Target) map[string]any {
	return map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": "CapacityBuffer",
		"spec": map[string]any{"scalableRef": map[string]any{"apiGroup": t.Ref.Group, "kind": t.Ref.Kind, "name": t.Ref.Name}},
	}
}

// placeholders is the Deployment of a target's placeholders.
func (p publisher) placeholders(ctx context.Context, t *Target) (map[string]any, error) {
	h := p.cfg.HandOff
	if err := h.givesWay(ctx, p.client); err != nil {
		return nil, err
	}
	like, err := p.replica(ctx, t)
	if err != nil {
		return nil, err
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(deploymentOf(ExpectName(t.Autoscaler.Name), like, h))
}

// replica is the form of a target's next replica: its template, or where its kind is not known to
// have one, the newest of its pods.
func (p publisher) replica(ctx context.Context, t *Target) (*corev1.PodTemplateSpec, error) {
	switch {
	case t.Watched && t.Kind == "Deployment":
		d, err := p.client.AppsV1().Deployments(t.Ref.Namespace).Get(ctx, t.Ref.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return &d.Spec.Template, nil
	case t.Watched:
		s, err := p.client.AppsV1().StatefulSets(t.Ref.Namespace).Get(ctx, t.Ref.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return &s.Spec.Template, nil
	}
	all := slices.DeleteFunc(slices.Clone(p.observed.Load().Of[t.Workload]), func(o *kept.Pod) bool { return o.Said.Terminating })
	if len(all) == 0 {
		return nil, fmt.Errorf("%s %s has no pod to take the form of", t.Kind, t.Name)
	}
	newest := slices.MaxFunc(all, func(a, b *kept.Pod) int { return a.Said.Created.Compare(b.Said.Created) })
	o, err := p.client.CoreV1().Pods(newest.Namespace).Get(ctx, newest.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: o.Labels}, Spec: o.Spec}, nil
}

// placeholderResource is what makes placeholders.
var placeholderResource = appsv1.SchemeGroupVersion.WithResource("deployments")
