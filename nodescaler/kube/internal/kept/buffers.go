package kept

import (
	"encoding/json"
	"errors"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// CapacityBuffers ask for room that is kept free: for so many pods of a template, or of what a
// scalable object makes. Where the configuration has Plimsoll serve them, it is the autoscaler that
// their status is written by. Those that it publishes for cluster-autoscaler are not for it.

// ActiveCapacity is the strategy that is served: room on machines that run.
const ActiveCapacity = "buffer.x-k8s.io/active-capacity"

// LabelManagedBy is on everything that is published by us, so that it can be found.
const LabelManagedBy = "app.kubernetes.io/managed-by"

// KindBuffer is the kind of CapacityBuffers.
const KindBuffer = "CapacityBuffer"

// BufferSpec is the part of a CapacityBuffer that people write.
type BufferSpec struct {
	Strategy       string                                 `json:"provisioningStrategy"`
	PodTemplateRef *struct{ Name string }                 `json:"podTemplateRef"`
	ScalableRef    *struct{ APIGroup, Kind, Name string } `json:"scalableRef"`
	Replicas       *int64                                 `json:"replicas"`
	Percentage     *int64                                 `json:"percentage"`
	Limits         map[string]resource.Quantity           `json:"limits"`
}

// Buffer is what is kept of a CapacityBuffer.
type Buffer struct {
	metav1.ObjectMeta
	Version string
	Spec    BufferSpec
	Invalid error // why its spec cannot be read
	Status  BufferStatus
	Ours    bool // published for cluster-autoscaler
}

// BufferStatus is the part of a CapacityBuffer that its autoscaler writes.
type BufferStatus struct {
	PodTemplateRef *NameRef `json:"podTemplateRef"`
	Replicas       *int32   `json:"replicas"`
	// PodTemplateGeneration is that of the template that was read.
	PodTemplateGeneration *int64             `json:"podTemplateGeneration"`
	ProvisioningStrategy  *string            `json:"provisioningStrategy"`
	Conditions            []metav1.Condition `json:"conditions"`
}

// NameRef names an object of the same namespace.
type NameRef struct {
	Name string `json:"name"`
}

func shortBuffer(u *unstructured.Unstructured) *Buffer {
	kept := &Buffer{
		ObjectMeta: metav1.ObjectMeta{
			Name: u.GetName(), Namespace: Text(u.GetNamespace()), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion(), Generation: u.GetGeneration(),
		},
		Version: u.GroupVersionKind().Version, Ours: u.GetLabels()[LabelManagedBy] == FieldManager,
	}
	kept.Invalid = convert(u.Object["spec"], &kept.Spec)
	_ = convert(u.Object["status"], &kept.Status) // what cannot be read is written anew
	return kept
}

// convert reads a part of an object.
func convert(part, into any) error {
	text, err := json.Marshal(part)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// Template is what is kept of a PodTemplate.
type Template struct {
	metav1.ObjectMeta
	Like *Pod
}

func shortTemplate(t *corev1.PodTemplate) *Template {
	kept := &Template{ObjectMeta: keepMeta(&t.ObjectMeta), Like: shortForm(t.Namespace, "", &t.Template)}
	kept.Generation = t.Generation
	return kept
}

var (
	// ErrTwoForms is of a buffer that asks in two ways, or in none.
	ErrTwoForms = errors.New("spec: must have one of podTemplateRef and scalableRef")
	errNoNumber = errors.New("spec: must have replicas or limits, or a percentage beside scalableRef")
)

// Count is for how many pods there is to be room: the larger of replicas and percentage, as far as
// the limits allow; without either, as many as these allow.
func (s *BufferSpec) Count(replicas int, like *nodescaler.Pod) (int, error) {
	n := int64(-1)
	if s.Replicas != nil {
		n = max(*s.Replicas, 0)
	}
	if s.Percentage != nil && s.ScalableRef != nil && *s.Percentage >= 0 {
		part := int64(math.Ceil(float64(*s.Percentage) * float64(replicas) / 100))
		n = max(n, part)
	}
	if len(s.Limits) > 0 {
		most, err := s.within(like)
		if err != nil {
			return 0, err
		}
		if n < 0 || most < n {
			n = most
		}
	}
	if n < 0 {
		return 0, errNoNumber
	}
	return int(min(n, math.MaxInt32)), nil
}

// within is how many such pods request no more than the limits together.
func (s *BufferSpec) within(like *nodescaler.Pod) (int64, error) {
	most := int64(-1)
	for name, limit := range s.Limits {
		var each, all int64
		switch corev1.ResourceName(name) {
		case corev1.ResourceCPU:
			each, all = int64(like.Requests.CPU), limit.MilliValue()
		case corev1.ResourceMemory:
			each, all = int64(like.Requests.Memory), limit.Value()
		default:
			each, all = like.Extra.Of(name), limit.Value()
		}
		if each > 0 && (most < 0 || all/each < most) {
			most = max(all/each, 0)
		}
	}
	if most < 0 {
		return 0, errors.New("spec.limits: must limit something that the pods request")
	}
	return most, nil
}
