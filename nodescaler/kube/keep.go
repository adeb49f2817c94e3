package kube

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/podscaler"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// scaled is what is kept of a Deployment or a StatefulSet.
type scaled struct {
	metav1.ObjectMeta
	kind     string
	replicas int
	selector string
	writer   writer
	rollout  podscaler.Rollout
	failing  string // why its pods cannot be created; empty if they can, or if that is not known
	like     *pod   // one of its pods; only kept where CapacityBuffers are served
}

// keepScaled is the transform of their copies.
func keepScaled(o any) (any, error) {
	switch d := o.(type) {
	case *appsv1.Deployment:
		kept := keepScale(&d.ObjectMeta, "Deployment", d.Spec.Replicas, d.Spec.Selector)
		kept.rollout = rollout(d.Status.Replicas, d.Status.UpdatedReplicas)
		kept.failing = failing(d.Status.Conditions)
		return kept, nil
	case *appsv1.StatefulSet:
		kept := keepScale(&d.ObjectMeta, "StatefulSet", d.Spec.Replicas, d.Spec.Selector)
		if d.Status.UpdateRevision != d.Status.CurrentRevision && d.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType {
			kept.rollout = rollout(d.Status.Replicas, d.Status.UpdatedReplicas)
		}
		return kept, nil
	}
	return o, nil
}

// keepForm is that of their copies with the form of their pods.
func keepForm(o any) (any, error) {
	short, err := keepScaled(o)
	kept, ok := short.(*scaled)
	if err != nil || !ok {
		return short, err
	}
	switch d := o.(type) {
	case *appsv1.Deployment:
		kept.like = shortForm(d.Namespace, &d.Spec.Template)
	case *appsv1.StatefulSet:
		kept.like = shortForm(d.Namespace, &d.Spec.Template)
	}
	return kept, nil
}

// maxFailing is how much is kept of what a controller says of a failure: webhooks answer pages.
const maxFailing = 300

// failing is what a Deployment says of pods that it cannot create, as for a quota, a webhook or a
// service account that is missing. A StatefulSet says so in events only.
func failing(conditions []appsv1.DeploymentCondition) string {
	for i := range conditions {
		if c := &conditions[i]; c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			why := c.Reason + ": " + c.Message
			return strings.ToValidUTF8(why[:min(len(why), maxFailing)], "")
		}
	}
	return ""
}

// rollout is under way while there are pods of an older form. A change of replicas makes none: its
// pods are all of the present form.
func rollout(pods, updated int32) podscaler.Rollout {
	if pods <= updated {
		return podscaler.Rollout{}
	}
	return podscaler.Rollout{InProgress: true, Why: fmt.Sprintf("%d of %d pods have the new form", updated, pods)}
}

func keepScale(m *metav1.ObjectMeta, kind string, replicas *int32, selector *metav1.LabelSelector) *scaled {
	kept := &scaled{ObjectMeta: keepMeta(m), kind: kind, replicas: 1, writer: writerOfReplicas(m.ManagedFields)}
	if replicas != nil {
		kept.replicas = int(*replicas)
	}
	if s, err := metav1.LabelSelectorAsSelector(selector); err == nil && !s.Empty() {
		kept.selector = s.String()
	}
	return kept
}

// rival is the copy of a foreign autoscaler: only its target is kept.
type rival struct {
	metav1.ObjectMeta
	kind   string
	target reference
}

// reference names the target of a scale. Versions do not distinguish targets.
type reference struct {
	schema.GroupKind
	namespace, name string
}

func refer(namespace, apiVersion, kind, name string) reference {
	gv, _ := schema.ParseGroupVersion(apiVersion) // an invalid name finds nothing
	return reference{schema.GroupKind{Group: gv.Group, Kind: kind}, namespace, name}
}

// kindVertical is the kind that sizes pods.
const kindVertical = "VerticalPodAutoscaler"

// keepRival is the transform of the copies of HorizontalPodAutoscalers, ScaledObjects and
// VerticalPodAutoscalers. One of these that only recommends is no rival.
func keepRival(o any) (any, error) {
	switch r := o.(type) {
	case *autoscalingv2.HorizontalPodAutoscaler:
		t := r.Spec.ScaleTargetRef
		return &rival{keepMeta(&r.ObjectMeta), "HorizontalPodAutoscaler", refer(r.Namespace, t.APIVersion, t.Kind, t.Name)}, nil
	case *unstructured.Unstructured:
		ref := rivalRef(r)
		m := metav1.ObjectMeta{Name: r.GetName(), Namespace: r.GetNamespace(), UID: r.GetUID(), ResourceVersion: r.GetResourceVersion()}
		return &rival{m, r.GetKind(), refer(m.Namespace, ref["apiVersion"], ref["kind"], ref["name"])}, nil
	}
	return o, nil
}

// rivalRef is the target of a foreign autoscaler, as apiVersion, kind and name.
func rivalRef(r *unstructured.Unstructured) map[string]string {
	if r.GetKind() == kindVertical {
		if mode, _, _ := unstructured.NestedString(r.Object, "spec", "updatePolicy", "updateMode"); mode == "Off" {
			return nil
		}
		ref, _, _ := unstructured.NestedStringMap(r.Object, "spec", "targetRef")
		return ref
	}
	ref, _, _ := unstructured.NestedStringMap(r.Object, "spec", "scaleTargetRef")
	if ref["kind"] == "" { // as KEDA has it
		ref = map[string]string{"apiVersion": "apps/v1", "kind": "Deployment", "name": ref["name"]}
	}
	return ref
}

// disruption is what is kept of a PodDisruptionBudget.
type disruption struct {
	metav1.ObjectMeta
	selector labels.Selector
	allowed  int
}

// keepDisruption is the transform of their copies.
func keepDisruption(o any) (any, error) {
	b, ok := o.(*policyv1.PodDisruptionBudget)
	if !ok {
		return o, nil
	}
	kept := &disruption{ObjectMeta: keepMeta(&b.ObjectMeta), selector: labels.Nothing()}
	if s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil {
		kept.selector = s
	}
	if b.Status.ObservedGeneration >= b.Generation { // else the number is that of another budget
		kept.allowed = int(b.Status.DisruptionsAllowed)
	}
	return kept, nil
}

// volume is what is kept of a PersistentVolume: where pods that use it can run.
type volume struct {
	metav1.ObjectMeta
	claim    string // namespace/name
	claimUID types.UID
	required nodescaler.Affinity
	driver   string // of the container storage interface
	form
	free  bool   // it is available, and no claim's
	local string // why the volume goes with its node, if it does
	// homes are where it lies, if that is on single nodes, and more is set where its affinity asks
	// for other things of them, too.
	homes []home
	more  bool
	// lasts is set while what is on it is wanted, and mayBeLost if it is marked so.
	lasts, mayBeLost bool
}

// keepVolume is the transform of their copies.
func keepVolume(o any) (any, error) {
	if v, ok := o.(*corev1.PersistentVolume); ok {
		return shortVolume(v), nil
	}
	return o, nil
}

func shortVolume(v *corev1.PersistentVolume) *volume {
	kept := &volume{ObjectMeta: keepMeta(&v.ObjectMeta), lasts: lasts(v), mayBeLost: mayBeLost(v)}
	if v.Spec.ClaimRef != nil {
		kept.claimUID = v.Spec.ClaimRef.UID
		kept.claim = v.Spec.ClaimRef.Namespace + "/" + v.Spec.ClaimRef.Name
	}
	if v.Spec.NodeAffinity != nil && v.Spec.NodeAffinity.Required != nil {
		kept.required = affinity(v.Spec.NodeAffinity.Required)
		kept.homes, kept.more = homesOf(v.Spec.NodeAffinity.Required)
	}
	class, named := v.Annotations[corev1.BetaStorageClassAnnotation]
	if !named {
		class = v.Spec.StorageClassName
	}
	kept.form = formOf(class, v.Spec.Capacity, v.Spec.AccessModes, v.Spec.VolumeMode, v.Spec.VolumeAttributesClassName)
	if kept.free = v.Spec.ClaimRef == nil && v.Status.Phase == corev1.VolumeAvailable; kept.free {
		kept.Labels = same(v.Labels)
	}
	if v.Spec.CSI != nil {
		kept.driver = text(v.Spec.CSI.Driver)
	}
	if v.Spec.Local != nil || v.Spec.HostPath != nil {
		kept.local = fmt.Sprintf("persistent volume %s is on the node's own disk", v.Name)
	}
	return kept
}

// keepOwner is the transform of the copies of ReplicaSets, of which only the metadata is read. They
// lead from a pod to its Deployment, or to another owner.
func keepOwner(o any) (any, error) {
	if m, ok := o.(*metav1.PartialObjectMetadata); ok {
		m.ObjectMeta = keepMeta(&m.ObjectMeta)
	}
	return o, nil
}

// keepNamespace is the transform of the copies of namespaces, of which only the metadata is read,
// for their labels.
func keepNamespace(o any) (any, error) {
	if m, ok := o.(*metav1.PartialObjectMetadata); ok {
		is := same(m.Labels)
		m.ObjectMeta = keepMeta(&m.ObjectMeta)
		m.Labels = is
	}
	return o, nil
}

// keepOurs is the transform of the copies of our own objects, which are kept whole.
func keepOurs(o any) (any, error) {
	if m, ok := o.(metav1.Object); ok {
		m.SetManagedFields(nil)
	}
	return o, nil
}
