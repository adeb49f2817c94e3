package steer

import (
	"context"
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
)

// patch changes an object, and returns it as it is then. Key is the annotation that resumes it, or
// empty. Its time is compared with that since when something is held, by the controller's clock: by
// a fast clock here it would count too late, and by a slow one never. So it is written anew where
// the object says that it differs.
func patch(ctx context.Context, of dynamic.ResourceInterface, name, manager, key string, change map[string]any) (*unstructured.Unstructured, error) {
	text, err := json.Marshal(change)
	if err != nil {
		return nil, err
	}
	after, err := of.Patch(ctx, name, types.MergePatchType, text, metav1.PatchOptions{FieldManager: manager})
	if err != nil || key == "" {
		return after, err
	}
	said, counts := after.GetAnnotations()[key], resumes(after, manager, key)
	if counts == said {
		return after, nil
	}
	return patch(ctx, of, name, manager, "", map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: counts}}})
}

// clocksDiffer is by how much a clock is wrong: times are written by the second.
const clocksDiffer = 2 * time.Second

// resumes returns what is to be written to resume an object: the time at which it was, by the API
// server's clock if that is known and differs, and after what is held.
func resumes(o *unstructured.Unstructured, manager, key string) string {
	said := o.GetAnnotations()[key]
	at, err := time.Parse(time.RFC3339, said)
	if err != nil {
		return said
	}
	for _, f := range o.GetManagedFields() {
		if f.Manager == manager && f.Time != nil && at.Sub(f.Time.Time).Abs() > clocksDiffer {
			at = f.Time.Time
		}
	}
	if held := heldSince(o, key); !held.Before(at) {
		at = held.Add(time.Second) // it is cut to a second
	}
	return at.UTC().Format(time.RFC3339)
}

// heldSince is since when an object has been held by what the annotation resumes; zero if it is
// not.
func heldSince(o *unstructured.Unstructured, key string) time.Time {
	since := ""
	if key == v1alpha1.AnnotationRolloutResumed {
		since, _, _ = unstructured.NestedString(o.Object, "status", "rollout", "since")
	}
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range all {
		c, _ := c.(map[string]any)
		if key == v1alpha1.AnnotationResumed && c["type"] == v1alpha1.ConditionBraked && c["status"] == string(metav1.ConditionTrue) {
			since, _ = c["lastTransitionTime"].(string)
		}
	}
	at, err := time.Parse(time.RFC3339, since)
	if err != nil {
		return time.Time{}
	}
	return at
}
