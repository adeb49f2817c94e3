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

// greedy bids for all there is.
type greedy struct{ far }

func (greedy) Bid(*podscaler.View) podscaler.Bid {
	return podscaler.Bid{Known: true, Want: 40, Ahead: 60, Worth: make([]float64, 60)}
}

// A bid takes room from others: it is for no more than may be decided on, and no less.
func TestABidIsForWhatMayBeDecidedOn(t *testing.T) {
	disabled := podscaler.DefaultBehavior()
	disabled.Up.Select = podscaler.SelectDisabled
	open := func(low, high *int) func(*podscaler.Workload) {
		return func(w *podscaler.Workload) {
			w.Max, w.Schedules = 50, []podscaler.Schedule{{Name: "night", From: after(-1), To: after(1), Min: low, Max: high}}
		}
	}
	for _, c := range []struct {
		name        string
		of          func(*podscaler.Workload)
		there       int
		pause       podscaler.Pause
		want, ahead int
		worth       int
	}{
		{"nothing is in the way", nil, 4, podscaler.Pause{}, 40, 60, 60},
		{"a schedule's ceiling", open(nil, new(3)), 3, podscaler.Pause{}, 3, 3, 3},
		{"it, with more there", open(nil, new(3)), 9, podscaler.Pause{}, 3, 3, 3},
		{"a schedule's floor", open(new(45), nil), 45, podscaler.Pause{}, 45, 50, 50},
		{"growing is paused", nil, 4, podscaler.Pause{Up: true}, 4, 4, 4},
		{"it is, and shrinking", nil, 4, podscaler.Pause{Up: true, Down: true}, 4, 4, 4},
		{"growing is paused below the least", func(w *podscaler.Workload) { w.Min = 8 }, 4, podscaler.Pause{Up: true}, 4, 4, 4},
		{"shrinking is paused", nil, 70, podscaler.Pause{Down: true}, 70, 70, 60},
		{"it is, above the most", open(nil, new(3)), 9, podscaler.Pause{Down: true}, 9, 9, 9},
		{"it was", nil, 4, podscaler.Pause{Up: true, Until: after(0)}, 40, 60, 60},
		{"they are fixed", nil, 4, podscaler.Pause{Replicas: new(7)}, 7, 7, 7},
		{"a behavior forbids growth", func(w *podscaler.Workload) { w.Behavior = disabled }, 4, podscaler.Pause{}, 4, 4, 4},
		{"it does, below the least", func(w *podscaler.Workload) { w.Behavior, w.Min = disabled, 8 }, 4, podscaler.Pause{}, 40, 60, 60},
		{"a person set them to 0", nil, 0, podscaler.Pause{}, 0, 0, 0},
	} {
		s := podscaler.NewScaler(workload(c.of), greedy{})
		v := podscaler.View{Now: t0, Workload: s.Workload(), Replicas: c.there, Pause: c.pause}
		if b := s.Bid(&v); b.Want != c.want || b.Ahead != c.ahead || len(b.Worth) != c.worth {
			t.Errorf("%s: %d and %d ahead, %d of them with a worth; want %d, %d and %d", c.name, b.Want, b.Ahead, len(b.Worth), c.want, c.ahead, c.worth)
		}
		if most := s.Most(&v); most < c.ahead {
			t.Errorf("%s: %d at most, and %d are bid for", c.name, most, c.ahead)
		}
	}
}
