package steer

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
)

func TestAPoolIsResumedAfterTheBrakeHeldItByASlowClock(t *testing.T) {
	for _, c := range []struct{ now, status, since, want string }{
		{"2026-03-01T12:00:00Z", "True", "2026-03-01T11:00:00Z", "2026-03-01T12:00:00Z"},
		{"2026-03-01T12:00:00Z", "True", "2026-03-01T12:10:00Z", "2026-03-01T12:10:01Z"},
		{"2026-03-01T12:00:00Z", "False", "2026-03-01T12:10:00Z", "2026-03-01T12:00:00Z"},
		{"2026-03-01T12:00:00Z", "True", "later", "2026-03-01T12:00:00Z"},
	} {
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		said := resumed(true, now)
		of := sinceBraked(said, &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{
			map[string]any{"type": v1alpha1.ConditionBraked, "status": c.status, "lastTransitionTime": c.since},
		}}}})
		if got := *of[v1alpha1.AnnotationResumed]; got != c.want {
			t.Errorf("%v: got %s", c, got)
		}
		if got := *said[v1alpha1.AnnotationResumed]; got != c.now {
			t.Errorf("%v: another pool is resumed at %s", c, got)
		}
	}
}
