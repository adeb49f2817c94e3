package podscaler_test

import (
	"testing"

	"github.com/plimsoll/plimsoll/podscaler"
)

// far wants as many as there are, and expects to want six more.
type far struct{}

func (far) Desired(v *podscaler.View) podscaler.Recommendation {
	return podscaler.Recommendation{Replicas: v.Replicas, Known: true, Ahead: v.Replicas + 6}
}

// Machines are ordered for what is expected: it is nothing where no replica may be added.
func TestNothingIsExpectedWhereNothingMayGrow(t *testing.T) {
	up := func(change func(*podscaler.Rules)) *podscaler.Behavior {
		b := podscaler.DefaultBehavior()
		change(&b.Up)
		return b
	}
	for _, c := range []struct {
		name     string
		pause    podscaler.Pause
		behavior *podscaler.Behavior
		ahead    int
	}{
		{"it may", podscaler.Pause{}, nil, 10},
		{"by a behavior, too", podscaler.Pause{}, podscaler.DefaultBehavior(), 10},
		{"as the early HPA did", podscaler.Pause{}, podscaler.LegacyBehavior(), 10},
		{"growing is paused", podscaler.Pause{Up: true}, nil, 4},
		{"it was", podscaler.Pause{Up: true, Until: after(0)}, nil, 10},
		{"shrinking is", podscaler.Pause{Down: true}, nil, 10},
		{"the behavior forbids it", podscaler.Pause{}, up(func(r *podscaler.Rules) { r.Select = podscaler.SelectDisabled }), 4},
		{"it has no policy", podscaler.Pause{}, up(func(r *podscaler.Rules) { r.Policies = nil }), 4},
	} {
		s := podscaler.NewScaler(workload(func(w *podscaler.Workload) { w.Behavior = c.behavior }), far{})
		if d := s.Decide(&podscaler.View{Now: t0, Workload: s.Workload(), Replicas: 4, Pause: c.pause}); d.To != 4 || d.Ahead != c.ahead {
			t.Errorf("%s: %d of 4 and %d ahead, want 4 and %d", c.name, d.To, d.Ahead, c.ahead)
		}
	}
}
