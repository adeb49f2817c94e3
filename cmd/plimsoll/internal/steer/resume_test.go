package steer

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
)

// store is an API server with one object, that notes by its own clock who wrote it. Without a clock
// it does not.
type store struct {
	dynamic.ResourceInterface
	o     unstructured.Unstructured
	clock string
}

func (s *store) Patch(_ context.Context, _ string, _ types.PatchType, text []byte, how metav1.PatchOptions, _ ...string) (*unstructured.Unstructured, error) {
	var change struct {
		Metadata struct{ Annotations map[string]string }
	}
	if err := json.Unmarshal(text, &change); err != nil {
		return nil, err
	}
	s.o.SetAnnotations(change.Metadata.Annotations)
	if at, err := time.Parse(time.RFC3339, s.clock); err == nil {
		s.o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl", Time: new(metav1.NewTime(at.Add(-time.Hour)))}, {Manager: how.FieldManager, Time: new(metav1.NewTime(at))}})
	}
	return s.o.DeepCopy(), nil
}

// A pool is resumed at once and after what is held, though the clock here is slow or fast.
func TestAPoolIsResumedThoughTheClockIsWrong(t *testing.T) {
	const noon, later, soon = "2026-03-01T12:00:00Z", "2026-03-01T12:10:00Z", "2026-03-01T12:00:02Z"
	for _, c := range []struct {
		name, server, status, since string
		key, want                   string
	}{
		{"the clocks agree", noon, "True", "2026-03-01T11:00:00Z", v1alpha1.AnnotationResumed, noon},
		{"they nearly do", soon, "True", "2026-03-01T11:00:00Z", v1alpha1.AnnotationResumed, noon},
		{"a fast clock", "2026-03-01T11:30:00Z", "True", "2026-03-01T11:00:00Z", v1alpha1.AnnotationResumed, "2026-03-01T11:30:00Z"},
		{"a slow clock", later, "True", "2026-03-01T12:05:00Z", v1alpha1.AnnotationResumed, later},
		{"a slow clock, and the server's is not known", "", "True", later, v1alpha1.AnnotationResumed, "2026-03-01T12:10:01Z"},
		{"held in the same second", noon, "True", noon, v1alpha1.AnnotationResumed, "2026-03-01T12:00:01Z"},
		{"held no more", "", "False", later, v1alpha1.AnnotationResumed, noon},
		{"a time that cannot be read", "", "True", "later", v1alpha1.AnnotationResumed, noon},
		{"a rollout, by a slow clock", "", "", later, v1alpha1.AnnotationRolloutResumed, "2026-03-01T12:10:01Z"},
		{"a rollout, by a fast clock", "2026-03-01T11:30:00Z", "", "2026-03-01T11:00:00Z", v1alpha1.AnnotationRolloutResumed, "2026-03-01T11:30:00Z"},
		{"a rollout that is not known", "", "", "", v1alpha1.AnnotationRolloutResumed, noon},
	} {
		s := &store{clock: c.server, o: unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
			"conditions": []any{map[string]any{"type": v1alpha1.ConditionBraked, "status": c.status, "lastTransitionTime": c.since}},
			"rollout":    map[string]any{"since": c.since},
		}}}}
		after, err := patch(t.Context(), s, "w", "plimsoll-pause", c.key, map[string]any{"metadata": map[string]any{"annotations": map[string]any{c.key: noon}}})
		if err != nil || after.GetAnnotations()[c.key] != c.want || s.o.GetAnnotations()[c.key] != c.want {
			t.Errorf("%s: resumed at %s (%v), want %s", c.name, after.GetAnnotations()[c.key], err, c.want)
		}
	}
}
