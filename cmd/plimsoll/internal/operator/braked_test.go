package operator

import (
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
)

func TestAPoolThatTheBrakeHoldsSaysSo(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	held := map[string]nodescaler.Reason{"workers": {Code: pvecode.Braked, Text: "3 machines wait"}}
	for _, c := range []struct {
		name    string
		braked  map[string]nodescaler.Reason
		resumed string
		want    string
		at      time.Time
	}{
		{"nothing waits", nil, "", "False NotBraked", time.Time{}},
		{"machines wait", held, "", "True Braked", time.Time{}},
		{"and were let go", held, "2026-03-01T12:00:00Z", "True Braked", now},
		{"and what was written is no time", held, "now", "True Braked", time.Time{}},
		{"and what was written is yet to come", held, "2026-03-01T12:00:01Z", "True Braked", time.Time{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			object := &v1alpha1.VMPool{}
			object.Name = "workers"
			if c.resumed != "" {
				object.Annotations = map[string]string{v1alpha1.AnnotationResumed: c.resumed}
			}
			p := &pool{object: object}
			st := p.status(&loop.Step{Time: now}, &floor{known: true, braked: c.braked, prices: pricing.DefaultBook()}, nil)
			if got := said(st.Conditions)["Braked"]; got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if at := resumedAt(object, now); !at.Equal(c.at) {
				t.Errorf("it was resumed at %s, want %s", at, c.at)
			}
			wrong := c.resumed != "" && c.at.IsZero()
			for _, condition := range st.Conditions {
				if condition.Type == v1alpha1.ConditionBraked && strings.Contains(condition.Message, v1alpha1.AnnotationResumed) != wrong {
					t.Errorf("it says %q", condition.Message)
				}
			}
		})
	}
}
