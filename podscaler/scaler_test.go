package podscaler_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/testbed/must"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// wish is a policy that proposes its number of replicas; a negative number is an unknown one.
type wish struct{ replicas int }

func (w *wish) Desired(*podscaler.View) podscaler.Recommendation {
	if w.replicas < 0 {
		return podscaler.Recommendation{Reasons: []podscaler.Reason{{Code: "Unknown", Text: "told to be"}}}
	}
	return podscaler.Recommendation{Replicas: w.replicas, Known: true}
}

// oneMore is a policy that is never content.
type oneMore struct{}

func (oneMore) Desired(v *podscaler.View) podscaler.Recommendation {
	return podscaler.Recommendation{Replicas: v.Replicas + 1, Known: true}
}

// step is one run: at a number of seconds, with a proposal, and what must come of it.
type step struct {
	at, wish int
	to       int
	reason   string // code and text of a reason, or a part of it
}

// play runs a scaler through the steps. Every decision is carried out before the next step.
func play(t *testing.T, w podscaler.Workload, replicas int, steps []step) {
	t.Helper()
	must.Do(t, w.Validate())
	p := &wish{}
	s := podscaler.NewScaler(w, p)
	for _, st := range steps {
		p.replicas = st.wish
		d := s.Decide(&podscaler.View{Now: after(st.at), Workload: s.Workload(), Replicas: replicas})
		if d.To != st.to {
			t.Errorf("at %d s, %d replicas and %d wanted: went to %d, should be %d; %v", st.at, replicas, st.wish, d.To, st.to, d.Reasons)
		}
		if !mentions(d, st.reason) {
			t.Errorf("at %d s: reasons are %v, should have %q", st.at, d.Reasons, st.reason)
		}
		replicas = d.To
	}
}

func after(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }

func mentions(d podscaler.Decision, what string) bool {
	return slices.ContainsFunc(d.Reasons, func(r podscaler.Reason) bool { return strings.Contains(r.String(), what) })
}

func workload(change func(*podscaler.Workload)) podscaler.Workload {
	w := podscaler.Workload{Name: "shop/web", Min: 1, Max: 100}
	if change != nil {
		change(&w)
	}
	return w
}

func TestGrowthFollowsTheBehavior(t *testing.T) {
	legacy := workload(func(w *podscaler.Workload) { w.Behavior = podscaler.LegacyBehavior() })
	plain := workload(func(w *podscaler.Workload) { w.Behavior = podscaler.DefaultBehavior() })
	t.Run("scenario 7: 1 to wanted 50 without a behavior: 4", func(t *testing.T) {
		play(t, legacy, 1, []step{{0, 50, 4, "ScaleUpLimit: 50 wanted, at most 4 allowed now"}})
	})
	t.Run("scenario 7: 1 to wanted 50 with behavior {}: 5", func(t *testing.T) {
		play(t, plain, 1, []step{{0, 50, 5, "ScaleUpLimit: 50 wanted, at most 5 allowed now"}})
	})
	t.Run("scenario 7: 10 to wanted 50: 20 in the first 15 s, 40 in the next", func(t *testing.T) {
		play(t, plain, 10, []step{
			{0, 50, 20, "ScaleUpLimit: 50 wanted, at most 20 allowed now"},
			{5, 50, 20, "ScaleUpLimit: 50 wanted, at most 20 allowed now"},
			{14, 50, 20, "ScaleUpLimit"},
			{15, 50, 40, "ScaleUpLimit: 50 wanted, at most 40 allowed now"},
			{30, 50, 50, "DesiredWithinRange: 50 is within"},
		})
	})
	t.Run("without a behavior the limit is one of each run, not of a time", func(t *testing.T) {
		play(t, legacy, 10, []step{{0, 50, 20, "ScaleUpLimit"}, {5, 50, 40, "ScaleUpLimit"}, {10, 50, 50, "DesiredWithinRange"}})
	})
	t.Run("the bound is named where it is what binds", func(t *testing.T) {
		play(t, workload(func(w *podscaler.Workload) { w.Behavior, w.Max = podscaler.DefaultBehavior(), 8 }), 6,
			[]step{{0, 50, 8, "TooManyReplicas: 50 wanted, at most 8 allowed now"}})
	})
}

func TestShrinkingWaitsForTheWindow(t *testing.T) {
	// Recommendations 10, 8, 6 within 300 s: 10 stays until the 10 is older than 300 s, then 8.
	t.Run("scenario 8: with behavior {} until it is 300 s old", func(t *testing.T) {
		w := workload(func(w *podscaler.Workload) { w.Behavior = podscaler.DefaultBehavior() })
		play(t, w, 10, []step{
			{0, 10, 10, "DesiredWithinRange: 10"},
			{60, 8, 10, "ScaleDownStabilized: 8 wanted; 10 counts, the highest of the last 5m"},
			{120, 6, 10, "ScaleDownStabilized: 6 wanted; 10 counts"},
			{299, 6, 10, "ScaleDownStabilized: 6 wanted; 10 counts"},
			{300, 6, 8, "ScaleDownStabilized: 6 wanted; 8 counts"},
			{359, 6, 8, "ScaleDownStabilized: 6 wanted; 8 counts"},
			{360, 6, 6, "DesiredWithinRange: 6"},
		})
	})
	t.Run("without a behavior at 300 s still", func(t *testing.T) {
		w := workload(func(w *podscaler.Workload) { w.Behavior = podscaler.LegacyBehavior() })
		play(t, w, 10, []step{
			{0, 10, 10, "DesiredWithinRange: 10"},
			{60, 8, 10, "ScaleDownStabilized: 8 wanted; 10 counts, the highest of the last 5m"},
			{120, 6, 10, "ScaleDownStabilized"},
			{300, 6, 10, "ScaleDownStabilized: 6 wanted; 10 counts"},
			{301, 6, 8, "ScaleDownStabilized: 6 wanted; 8 counts"},
			{361, 6, 6, "DesiredWithinRange: 6"},
		})
	})
	t.Run("growth waits for its own window", func(t *testing.T) {
		w := workload(func(w *podscaler.Workload) {
			w.Behavior = podscaler.DefaultBehavior()
			w.Behavior.Up.Window = time.Minute
		})
		play(t, w, 4, []step{
			{0, 8, 4, "ScaleUpStabilized: 8 wanted; 4 counts, the lowest of the last 1m"},
			{30, 6, 4, "ScaleUpStabilized: 6 wanted; 4 counts"},
			{60, 9, 6, "ScaleUpStabilized: 9 wanted; 6 counts"},
			{90, 9, 9, "DesiredWithinRange: 9"},
		})
	})
}

func TestStepLimitsCountTheChangesOfTheirPeriod(t *testing.T) {
	behavior := func(change func(*podscaler.Behavior)) podscaler.Workload {
		return workload(func(w *podscaler.Workload) {
			w.Max = 200
			w.Behavior = podscaler.DefaultBehavior()
			w.Behavior.Down.Window = 0
			change(w.Behavior)
		})
	}
	minute := time.Minute
	// In all of these the first step is at 60 s, after an idle one at 0 s: limits on the way
	// down allow nothing until their period has been seen.
	cases := []struct {
		name     string
		behavior func(*podscaler.Behavior)
		from     int
		steps    []step
	}{
		{"Max takes the larger change", func(b *podscaler.Behavior) {
			b.Up.Policies = []podscaler.StepLimit{{Pods: 3, Period: minute}, {Percent: 10, Period: minute}}
		}, 11, []step{{0, 40, 14, "at most 14"}}},
		{"Min takes the smaller change, a percentage rounded up", func(b *podscaler.Behavior) {
			b.Up.Select = podscaler.SelectMin
			b.Up.Policies = []podscaler.StepLimit{{Pods: 3, Period: minute}, {Percent: 10, Period: minute}}
		}, 11, []step{{0, 40, 13, "at most 13"}}},
		{"10 % of 100 are 11, as in the controller, for 100 × 1.1 is above 110 in floats", func(b *podscaler.Behavior) {
			b.Up.Policies = []podscaler.StepLimit{{Percent: 10, Period: minute}}
		}, 100, []step{{0, 200, 111, "at most 111"}}},
		{"Disabled freezes growth, not shrinking", func(b *podscaler.Behavior) {
			b.Up.Select = podscaler.SelectDisabled
		}, 10, []step{{0, 40, 10, "ScaleUpLimit: 40 wanted, at most 10"}, {60, 3, 3, "DesiredWithinRange"}}},
		{"Disabled freezes shrinking, not growth", func(b *podscaler.Behavior) {
			b.Down.Select = podscaler.SelectDisabled
		}, 10, []step{{0, 10, 10, ""}, {60, 3, 10, "ScaleDownLimit: 3 wanted, at least 10"}, {75, 12, 12, "DesiredWithinRange"}}},
		{"on the way down what is left is cut", func(b *podscaler.Behavior) {
			b.Down.Policies = []podscaler.StepLimit{{Percent: 10, Period: minute}}
		}, 11, []step{{0, 11, 11, ""}, {60, 1, 9, "ScaleDownLimit: 1 wanted, at least 9"}}},
		{"one pod a minute down", func(b *podscaler.Behavior) {
			b.Down.Policies = []podscaler.StepLimit{{Pods: 1, Period: minute}}
		}, 10, []step{{0, 10, 10, ""}, {60, 1, 9, "at least 9"}, {90, 1, 9, "at least 9"}, {119, 1, 9, ""}, {120, 1, 8, "at least 8"}}},
		{"down, Max is the lower of the limits", func(b *podscaler.Behavior) {
			b.Down.Policies = []podscaler.StepLimit{{Pods: 4, Period: minute}, {Percent: 10, Period: minute}}
		}, 20, []step{{0, 20, 20, ""}, {60, 1, 16, "at least 16"}}},
		{"down, Min is the higher of the limits", func(b *podscaler.Behavior) {
			b.Down.Select = podscaler.SelectMin
			b.Down.Policies = []podscaler.StepLimit{{Pods: 4, Period: minute}, {Percent: 10, Period: minute}}
		}, 20, []step{{0, 20, 20, ""}, {60, 1, 18, "at least 18"}}},
		{"what was added in the period is reclaimed to the limit", func(b *podscaler.Behavior) {
			b.Down.Policies = []podscaler.StepLimit{{Pods: 4, Period: minute}}
		}, 10, []step{{0, 10, 10, ""}, {60, 14, 14, ""}, {75, 1, 6, "at least 6"}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { play(t, behavior(c.behavior), c.from, c.steps) })
	}
}

func TestZeroSetByAPersonIsAPause(t *testing.T) {
	w := workload(func(w *podscaler.Workload) { w.Min = 0 })
	t.Run("scenario 9: a user's 0 stays 0", func(t *testing.T) {
		play(t, w, 0, []step{{0, 5, 0, "ScalingDisabled"}, {15, 5, 0, "ScalingDisabled"}})
	})
	t.Run("scenario 9: our own 0 does not", func(t *testing.T) {
		play(t, w, 3, []step{{0, 0, 0, "DesiredWithinRange"}, {15, 0, 0, "DesiredWithinRange"}, {30, 1, 1, "DesiredWithinRange: 1"}})
	})
	t.Run("nor does one that the status says is ours", func(t *testing.T) {
		s := podscaler.NewScaler(w, &wish{1})
		d := s.Decide(&podscaler.View{Now: t0, Workload: s.Workload(), ScaledToZero: true})
		if d.To != 1 {
			t.Errorf("went to %d, should be 1; %v", d.To, d.Reasons)
		}
	})
	t.Run("and ends when the minimum is raised", func(t *testing.T) {
		s := podscaler.NewScaler(workload(nil), &wish{-1})
		d := s.Decide(&podscaler.View{Now: t0, Workload: s.Workload(), ScaledToZero: true})
		if d.To != 1 || !mentions(d, "TooFewReplicas") {
			t.Errorf("went to %d, should be 1; %v", d.To, d.Reasons)
		}
	})
	t.Run("a user's 0 after ours is the user's", func(t *testing.T) {
		p := &wish{}
		s := podscaler.NewScaler(w, p)
		for i, run := range []struct {
			there, wish int
			reason      string
		}{
			{3, 0, "DesiredWithinRange: 0"},
			{0, 0, "DesiredWithinRange: 0"}, // by us
			{2, 2, "DesiredWithinRange: 2"}, // by the user
			{0, 2, "ScalingDisabled"},       // by the user
		} {
			p.replicas = run.wish
			d := s.Decide(&podscaler.View{Now: after(15 * i), Workload: s.Workload(), Replicas: run.there})
			if d.To != run.wish && run.there > 0 || !mentions(d, run.reason) {
				t.Errorf("run %d: went to %d for %v, should be for %s", i, d.To, d.Reasons, run.reason)
			}
		}
	})
	t.Run("a pause lifts the minimum, too", func(t *testing.T) {
		play(t, workload(nil), 0, []step{{0, 5, 0, "ScalingDisabled"}})
	})
}

func TestReplicasOutOfBoundsArePutRightWithoutMetrics(t *testing.T) {
	w := workload(func(w *podscaler.Workload) {
		w.Min, w.Max, w.Cooldown, w.Behavior = 3, 8, time.Hour, podscaler.DefaultBehavior()
	})
	unknown := -1
	play(t, w, 2, []step{{0, unknown, 3, "TooFewReplicas: there are 2 replicas, at least 3 are allowed"}})
	play(t, w, 20, []step{{0, unknown, 8, "TooManyReplicas: there are 20 replicas, at most 8 are allowed"}})
	play(t, workload(func(w *podscaler.Workload) { w.Min, w.Max = 3, 8 }), 5, []step{
		{0, 1, 3, "TooFewReplicas: 1 wanted, at least 3 allowed now"},
		{15, 50, 8, "TooManyReplicas: 50 wanted, at most 8 allowed now"},
		{30, unknown, 8, "Unknown"},
	})
}

func TestNothingIsChangedDuringTheCooldown(t *testing.T) {
	w := workload(func(w *podscaler.Workload) { w.Cooldown = time.Minute })
	play(t, w, 4, []step{
		{0, 6, 6, "DesiredWithinRange"},
		{59, 8, 6, "Cooldown: 8 wanted, but the last change of replicas was 59s ago: 1s left of 1m"},
		{59, 6, 6, "DesiredWithinRange"}, // nothing to hold back, nothing to say
		{60, 3, 3, "DesiredWithinRange"},
		{90, 6, 3, "Cooldown: 6 wanted, but the last change of replicas was 30s ago: 30s left of 1m"},
	})
}

// One pod to eight in the time of Kubernetes 1.11, and back: after a change 3 minutes upwards, and
// 5 downwards, without a look at what was wanted meanwhile.
func TestTheEarlyHPACoolsDownByDirection(t *testing.T) {
	w := workload(func(w *podscaler.Workload) { w.Behavior, w.Max = podscaler.CooldownBehavior(), 8 })
	play(t, w, 1, []step{
		{0, 9, 4, "ScaleUpLimit: 9 wanted, at most 4 allowed now"},
		{179, 9, 4, "Cooldown: 8 wanted, but the last change of replicas was 2m59s ago: 1s left of 3m"},
		{180, 9, 8, "TooManyReplicas: 9 wanted, at most 8 allowed now"},
		{479, 3, 8, "Cooldown: 3 wanted, but the last change of replicas was 4m59s ago: 1s left of 5m"},
		{480, 3, 3, "DesiredWithinRange: 3"},
		{600, 1, 3, "Cooldown: 1 wanted"},
		{660, 9, 6, "ScaleUpLimit"},
	})
}

func TestAChangeThatWasNotMadeStartsNoCooldown(t *testing.T) {
	w := workload(func(w *podscaler.Workload) { w.Cooldown, w.Behavior = time.Minute, podscaler.DefaultBehavior() })
	s := podscaler.NewScaler(w, &wish{50})
	for i := range 3 {
		d := s.Decide(&podscaler.View{Now: after(5 * i), Workload: s.Workload(), Replicas: 10})
		if d.To != 20 {
			t.Errorf("run %d: recommends %d, should still be 20; %v", i, d.To, d.Reasons)
		}
	}
}

func TestScenario27RunsComeWithThePeriod(t *testing.T) {
	// runPeriod 30 s, stabilizationWindow 45 s: the action after the one at 0 s is at 60 s.
	w := workload(func(w *podscaler.Workload) { w.RunPeriod, w.Cooldown = 30*time.Second, 45*time.Second })
	s := podscaler.NewScaler(w, oneMore{})
	replicas := 4
	var runs, actions []int
	for second := range 121 {
		if !s.Due(after(second)) {
			continue
		}
		runs = append(runs, second)
		d := s.Decide(&podscaler.View{Now: after(second), Workload: s.Workload(), Replicas: replicas})
		if d.To != replicas {
			actions = append(actions, second)
		} else if !mentions(d, "Cooldown: ") || !mentions(d, "was 30s ago: 15s left of 45s") {
			t.Errorf("at %d s: %v, should have 15 s left", second, d.Reasons)
		}
		replicas = d.To
	}
	if diff := cmp.Diff([]int{0, 30, 60, 90, 120}, runs); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{0, 60, 120}, actions); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}

func TestScenario27AWindowBelowThePeriodIsWarnedOf(t *testing.T) {
	w := workload(func(w *podscaler.Workload) { w.RunPeriod, w.Cooldown = 30*time.Second, 10*time.Second })
	want := []podscaler.Reason{{
		Code: podscaler.ReasonStabilizationWindowTooShort,
		Text: "stabilizationWindow 10s is shorter than runPeriod 30s: it is over before the next run and holds nothing back",
	}}
	if diff := cmp.Diff(want, w.Warnings()); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	w.Cooldown = 45 * time.Second
	if got := w.Warnings(); got != nil {
		t.Errorf("45 s of 30 s: warned %v, should not", got)
	}
}

func TestANewLeaderKeepsWhatItFinds(t *testing.T) {
	w := workload(func(w *podscaler.Workload) { w.Behavior = podscaler.DefaultBehavior() })
	t.Run("scenario 37: the old one recommended 10, the new one sees 4: at least 4 for a whole window", func(t *testing.T) {
		play(t, w, 4, []step{
			{0, 2, 4, "ScaleDownStabilized: 2 wanted; 4 counts, the highest of the last 5m"},
			{150, 1, 4, "ScaleDownStabilized"},
			{299, 2, 4, "ScaleDownStabilized"},
			{300, 2, 2, "DesiredWithinRange: 2"},
		})
	})
	t.Run("and what another client raises meanwhile", func(t *testing.T) {
		s := podscaler.NewScaler(w, &wish{2})
		for _, run := range []struct{ at, there, to int }{{0, 4, 4}, {60, 10, 10}, {299, 10, 10}, {300, 10, 2}} {
			d := s.Decide(&podscaler.View{Now: after(run.at), Workload: s.Workload(), Replicas: run.there})
			if d.To != run.to {
				t.Errorf("at %d s: from %d to %d, should be %d; %v", run.at, d.From, d.To, run.to, d.Reasons)
			}
		}
	})
	t.Run("a step limit binds it until its period is seen", func(t *testing.T) {
		slow := workload(func(w *podscaler.Workload) {
			w.Behavior = podscaler.DefaultBehavior()
			w.Behavior.Down = podscaler.Rules{Policies: []podscaler.StepLimit{{Pods: 1, Period: time.Minute}}}
		})
		play(t, slow, 10, []step{{0, 2, 10, "ScaleDownLimit: 2 wanted, at least 10"}, {59, 2, 10, ""}, {60, 2, 9, "at least 9"}})
	})
	t.Run("a cool-down binds it on the way down only", func(t *testing.T) {
		cool := workload(func(w *podscaler.Workload) { w.Cooldown = 45 * time.Second })
		play(t, cool, 10, []step{
			{0, 2, 10, "Cooldown: 2 wanted, but the first run was 0s ago: 45s left of 45s"},
			{30, 12, 12, "DesiredWithinRange"},
			{60, 2, 12, "the last change of replicas was 30s ago: 15s left"},
			{75, 2, 2, "DesiredWithinRange"},
		})
	})
}

// After an outage nothing shrinks until a full window has been measured.
func TestScenario35NothingShrinksUntilAFullWindowWasMeasured(t *testing.T) {
	w := workload(func(w *podscaler.Workload) { w.SLO.Window = 2 * time.Minute })
	for _, c := range []struct {
		name      string
		since, at int
		wish, to  int
		reason    string
	}{
		{"a moment after the gap", 60, 75, 4, 8, "SignalsRecovering: 4 wanted, but the signals have been measured without a gap for 15s of the window of 2m: 105s left"},
		{"in the gap", 60, 60, 4, 8, "SignalsRecovering: 4 wanted, but the signals have been measured without a gap for 0s of the window of 2m: 120s left"},
		{"just before the window is full", 60, 179, 4, 8, "1s left"},
		{"when it is full", 60, 180, 4, 4, "DesiredWithinRange"},
		{"growing waits for nothing", 60, 75, 9, 9, "DesiredWithinRange"},
		{"nor does what must be put right", 60, 75, 200, 100, "TooManyReplicas"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := podscaler.NewScaler(w, &wish{c.wish})
			d := s.Decide(&podscaler.View{Now: after(c.at), Workload: s.Workload(), Replicas: 8, Window: podscaler.Window{Since: after(c.since)}})
			if d.To != c.to || !mentions(d, c.reason) {
				t.Errorf("8 replicas went to %d, should be %d by %q; %v", d.To, c.to, c.reason, d.Reasons)
			}
		})
	}
	t.Run("without an objective, over what it was measured over", func(t *testing.T) {
		s := podscaler.NewScaler(workload(nil), &wish{4})
		for at, to := range map[int]int{119: 8, 120: 4} {
			view := podscaler.View{Now: after(at), Workload: s.Workload(), Replicas: 8, Window: podscaler.Window{Since: after(60), Over: time.Minute}}
			if d := s.Decide(&view); d.To != to {
				t.Errorf("after %ds 8 replicas went to %d, should be %d; %v", at, d.To, to, d.Reasons)
			}
			s = podscaler.NewScaler(workload(nil), &wish{4})
		}
	})
	t.Run("where no account is kept of gaps", func(t *testing.T) {
		s := podscaler.NewScaler(w, &wish{4})
		if d := s.Decide(&podscaler.View{Now: after(0), Workload: s.Workload(), Replicas: 8}); d.To != 4 {
			t.Errorf("8 replicas went to %d, should be 4; %v", d.To, d.Reasons)
		}
	})
}
