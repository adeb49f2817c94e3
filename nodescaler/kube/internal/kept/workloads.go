package kept

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
)

// Scaled is what is kept of a Deployment or a StatefulSet.
type Scaled struct {
	metav1.ObjectMeta
	Kind     string
	Replicas int
	Selector string
	Writer   Writer
	Rollout  podscaler.Rollout
	Failing  string // why its pods cannot be created; empty if they can, or if that is not known
	Ordered  bool   // its pods are made one after another, each once those before it are ready
	Like     *Pod   // one of its pods; only kept where CapacityBuffers are served
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

// deadlineExceeded is the reason of a Deployment whose rollout made no progress for too long.
const deadlineExceeded = "ProgressDeadlineExceeded"

// stuck reports whether a Deployment says that its rollout has failed.
func stuck(conditions []appsv1.DeploymentCondition) bool {
	return slices.ContainsFunc(conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse && c.Reason == deadlineExceeded
	})
}

func shortDeployment(d *appsv1.Deployment) *Scaled {
	kept := keepScale(&d.ObjectMeta, "Deployment", d.Spec.Replicas, d.Spec.Selector)
	if !d.Spec.Paused { // a rollout that is parked half way may be so for weeks
		kept.Rollout = rollout(d.Status.Replicas, d.Status.UpdatedReplicas)
		kept.Rollout.Failed = kept.Rollout.InProgress && stuck(d.Status.Conditions)
	}
	kept.Failing = failing(d.Status.Conditions)
	return kept
}

func shortStatefulSet(d *appsv1.StatefulSet) *Scaled {
	kept := keepScale(&d.ObjectMeta, "StatefulSet", d.Spec.Replicas, d.Spec.Selector)
	if d.Status.UpdateRevision != d.Status.CurrentRevision && d.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType {
		kept.Rollout = rollout(d.Status.Replicas-parked(d), d.Status.UpdatedReplicas)
	}
	kept.Ordered = d.Spec.PodManagementPolicy != appsv1.ParallelPodManagement
	return kept
}

// parked is how many pods of a StatefulSet keep their form: those below the partition.
func parked(d *appsv1.StatefulSet) int32 {
	how := d.Spec.UpdateStrategy.RollingUpdate
	if how == nil || how.Partition == nil {
		return 0
	}
	below := *how.Partition
	if d.Spec.Ordinals != nil {
		below -= d.Spec.Ordinals.Start
	}
	return min(max(below, 0), d.Status.Replicas)
}

func keepScale(m *metav1.ObjectMeta, kind string, replicas *int32, selector *metav1.LabelSelector) *Scaled {
	kept := &Scaled{ObjectMeta: keepMeta(m), Kind: kind, Replicas: 1, Writer: writerOfReplicas(m.ManagedFields)}
	if replicas != nil {
		kept.Replicas = int(*replicas)
	}
	if s, err := metav1.LabelSelectorAsSelector(selector); err == nil && !s.Empty() {
		kept.Selector = s.String()
	}
	return kept
}

// FieldManager is our name in managedFields. All processes of ours share it: what one leader wrote
// is not foreign to the next.
const FieldManager = "plimsoll"

// Writer is who wrote the replicas that an object has.
type Writer struct {
	Ours bool
	Name string
}

// writerOfReplicas reads it from the managed fields: of those that own spec.replicas the last.
func writerOfReplicas(fields []metav1.ManagedFieldsEntry) Writer {
	var w Writer
	var last time.Time
	for i := range fields {
		e := &fields[i]
		if e.FieldsV1 == nil || !ownsReplicas(e.FieldsV1) {
			continue
		}
		w.Ours = w.Ours || e.Manager == FieldManager
		if w.Name == "" || e.Time != nil && e.Time.After(last) {
			w.Name = Text(e.Manager)
			if e.Time != nil {
				last = e.Time.Time
			}
		}
	}
	return w
}

func ownsReplicas(f *metav1.FieldsV1) bool {
	var owned struct {
		Spec map[string]json.RawMessage `json:"f:spec"`
	}
	if err := json.Unmarshal(f.GetRawBytes(), &owned); err != nil {
		return false
	}
	_, ok := owned.Spec["f:replicas"]
	return ok
}

// DaemonSet is the copy of a DaemonSet: the nodes that its pods run on, and the requests of one
// pod.
type DaemonSet struct {
	metav1.ObjectMeta
	Like       *Pod
	generation string // of its template
}

func shortDaemonSet(d *appsv1.DaemonSet) *DaemonSet {
	return &DaemonSet{
		keepMeta(&d.ObjectMeta), shortForm(d.Namespace, d.Name, &d.Spec.Template),
		Text(d.Annotations[appsv1.DeprecatedTemplateGeneration]),
	}
}

// Made reports whether a pod was made of the template that the DaemonSet has now. The API server
// counts templates, and the controller writes the number into a label.
func (d *DaemonSet) Made(p *Pod) bool {
	return d.generation != "" && p.Labels["pod-template-generation"] == d.generation
}

// RunsOn reports whether a pod of the DaemonSet runs on a node like this one.
func (d *DaemonSet) RunsOn(n *nodescaler.Node) bool {
	return nodescaler.Accepts(&d.Like.Form, n) == ""
}

// Disruption is what is kept of a PodDisruptionBudget.
type Disruption struct {
	metav1.ObjectMeta
	Selector labels.Selector
	Allowed  int
	// Unready is whether pods that are not ready may be evicted all the same, because they always
	// may, or because enough others are healthy.
	Unready bool
}

func shortDisruption(b *policyv1.PodDisruptionBudget) *Disruption {
	kept := &Disruption{ObjectMeta: keepMeta(&b.ObjectMeta), Selector: labels.Nothing()}
	if s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil {
		kept.Selector = s
	}
	if b.Status.ObservedGeneration >= b.Generation { // else the number is that of another budget
		kept.Allowed = int(b.Status.DisruptionsAllowed)
		kept.Unready = b.Status.DesiredHealthy > 0 && b.Status.CurrentHealthy >= b.Status.DesiredHealthy
	}
	if p := b.Spec.UnhealthyPodEvictionPolicy; p != nil && *p == policyv1.AlwaysAllow {
		kept.Unready = true
	}
	return kept
}

// Reference names the target of a scale. Versions do not distinguish targets.
type Reference struct {
	schema.GroupKind
	Namespace, Name string
}

// Refer makes a reference of what a manifest has.
func Refer(namespace, apiVersion, kind, name string) Reference {
	gv, _ := schema.ParseGroupVersion(apiVersion) // an invalid name finds nothing
	return Reference{schema.GroupKind{Group: gv.Group, Kind: kind}, namespace, name}
}

// Rival is the copy of a foreign autoscaler: only its target is kept.
type Rival struct {
	metav1.ObjectMeta
	Kind   string
	Target Reference
}

// KindVertical is the kind that sizes pods.
const KindVertical = "VerticalPodAutoscaler"

func shortHorizontal(r *autoscalingv2.HorizontalPodAutoscaler) *Rival {
	t := r.Spec.ScaleTargetRef
	return &Rival{keepMeta(&r.ObjectMeta), "HorizontalPodAutoscaler", Refer(r.Namespace, t.APIVersion, t.Kind, t.Name)}
}

// shortRival keeps a ScaledObject or a VerticalPodAutoscaler. One that only recommends is no rival.
func shortRival(r *unstructured.Unstructured) *Rival {
	ref := rivalRef(r)
	m := metav1.ObjectMeta{Name: r.GetName(), Namespace: r.GetNamespace(), UID: r.GetUID(), ResourceVersion: r.GetResourceVersion()}
	return &Rival{m, r.GetKind(), Refer(m.Namespace, ref["apiVersion"], ref["kind"], ref["name"])}
}

// rivalRef is the target of a foreign autoscaler, as apiVersion, kind and name.
func rivalRef(r *unstructured.Unstructured) map[string]string {
	if r.GetKind() == KindVertical {
		if mode, _, _ := unstructured.NestedString(r.Object, "spec", "updatePolicy", "updateMode"); mode == "Off" {
			return nil
		}
		ref, _, _ := unstructured.NestedStringMap(r.Object, "spec", "targetRef")
		return ref
	}
	ref, _, _ := unstructured.NestedStringMap(r.Object, "spec", "scaleTargetRef")
	return map[string]string{ // with KEDA's defaults
		"apiVersion": cmp.Or(ref["apiVersion"], "apps/v1"), "kind": cmp.Or(ref["kind"], "Deployment"), "name": ref["name"],
	}
}

// ControllerOf returns who controls something, in the same namespace.
func ControllerOf(m *metav1.ObjectMeta) (Reference, types.UID, bool) {
	owner := metav1.GetControllerOfNoCopy(m)
	if owner == nil {
		return Reference{}, "", false
	}
	return Refer(m.Namespace, owner.APIVersion, owner.Kind, owner.Name), owner.UID, true
}
