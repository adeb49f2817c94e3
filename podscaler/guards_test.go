package podscaler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// The step limits of a behavior do what the papers' frequency control does, with percentages
// rounded as an HPA rounds them. An own limit of 0 % is selectPolicy Disabled.
func TestScenario13StepsAreLimitedInPercent(t *testing.T) {
	twenty := podscaler.Rules{Policies: []podscaler.StepLimit{{Percent: 20, Period: time.Minute}}}
	limited := func(most int, up, down podscaler.Rules) podscaler.Workload {
		return workload(func(w *podscaler.Workload) { w.Max, w.Behavior = most, &podscaler.Behavior{Up: up, Down: down} })
	}
	off := podscaler.Rules{Select: podscaler.SelectDisabled}
	play(t, limited(7, twenty, twenty), 3, []step{{0, 6, 4, "ScaleUpLimit: 6 wanted, at most 4 allowed now"}})
	play(t, limited(100, twenty, twenty), 10, []step{{0, 10, 10, ""}, {60, 5, 8, "ScaleDownLimit: 5 wanted, at least 8 allowed now"}})
	play(t, limited(100, off, twenty), 10, []step{{0, 20, 10, "ScaleUpLimit"}, {60, 5, 8, "ScaleDownLimit"}})
	play(t, limited(100, twenty, off), 10, []step{{0, 5, 10, "ScaleDownLimit"}, {60, 20, 12, "ScaleUpLimit"}})
}

// A cool-down of the workload is for both directions; the one of each direction is the Watermark
// policy's.
func TestScenario14CooldownCountsFromTheLastChangeEitherWay(t *testing.T) {
	for _, c := range []struct {
		window, at int
		wish, to   int
		reason     string
	}{
		{60, 59, 8, 6, "Cooldown: 8 wanted, but the last change of replicas was 59s ago: 1s left of 1m"},
		{60, 60, 8, 8, "DesiredWithinRange"},
		{300, 299, 3, 6, "Cooldown: 3 wanted, but the last change of replicas was 4m59s ago: 1s left of 5m"},
		{300, 300, 3, 3, "DesiredWithinRange"},
	} {
		t.Run(fmt.Sprintf("%d s after a growth, of %d s", c.at, c.window), func(t *testing.T) {
			w := workload(func(w *podscaler.Workload) { w.Cooldown = time.Duration(c.window) * time.Second })
			play(t, w, 4, []step{{0, 6, 6, ""}, {c.at, c.wish, c.to, c.reason}})
		})
	}
}

func TestScenario35FallbackCountsAfterItsTime(t *testing.T) {
	const unknown = -1
	with := func(b podscaler.FallbackBehavior, replicas int) podscaler.Workload {
		return workload(func(w *podscaler.Workload) {
			w.Fallback = &podscaler.Fallback{After: 5 * time.Minute, Behavior: b, Replicas: replicas}
		})
	}
	higher := with(podscaler.FallbackCurrentIfHigher, 6)
	t.Run("8 of at least 6 stay", func(t *testing.T) {
		play(t, higher, 8, []step{{0, 8, 8, ""}, {15, unknown, 8, "Unknown"}, {314, unknown, 8, "Unknown"}, {315, unknown, 8,
			"Fallback: the policy had no answer for 5m, which is at least 5m: CurrentIfHigher of 8 replicas and a fallback of 6 is 8"}})
	})
	t.Run("4 become 6", func(t *testing.T) {
		play(t, higher, 4, []step{{0, 4, 4, ""}, {15, unknown, 4, ""}, {314, unknown, 4, ""}, {315, unknown, 6, "Fallback"}, {330, unknown, 6, "Fallback"}})
	})
	t.Run("growth by what is known goes on, and begins the time anew", func(t *testing.T) {
		play(t, higher, 4, []step{{0, unknown, 4, ""}, {240, 5, 5, ""}, {300, unknown, 5, "Unknown"}, {599, unknown, 5, "Unknown"}, {600, unknown, 6, "Fallback"}})
	})
	t.Run("when it is over nothing shrinks before a window is full", func(t *testing.T) {
		w := higher
		w.SLO.Window = time.Minute
		p, replicas := &wish{}, 4
		s := podscaler.NewScaler(w, p)
		for _, c := range []struct {
			at, wish, since, to int
			reason              string
		}{
			{0, unknown, 0, 4, "Unknown"},
			{300, unknown, 300, 6, "Fallback"},
			{315, 2, 315, 6, "SignalsRecovering: 2 wanted"},
			{374, 2, 315, 6, "SignalsRecovering: 2 wanted"},
			{375, 2, 315, 2, "DesiredWithinRange"},
		} {
			p.replicas = c.wish
			d := s.Decide(&podscaler.View{Now: after(c.at), Workload: s.Workload(), Replicas: replicas, Window: podscaler.Window{Since: after(c.since)}})
			if replicas = d.To; d.To != c.to || !mentions(d, c.reason) {
				t.Errorf("at %d s: went to %d, should be %d by %q; %v", c.at, d.To, c.to, c.reason, d.Reasons)
			}
		}
	})
	t.Run("one that shrinks goes by no signals, so that their gap does not hold it", func(t *testing.T) {
		w := with(podscaler.FallbackStatic, 6)
		w.SLO.Window = time.Minute
		s := podscaler.NewScaler(w, &wish{unknown})
		for _, c := range [][2]int{{0, 8}, {300, 6}} {
			if d := s.Decide(&podscaler.View{Now: after(c[0]), Workload: s.Workload(), Replicas: 8, Window: podscaler.Window{Since: after(c[0])}}); d.To != c[1] {
				t.Errorf("at %d s: went to %d, should be %d; %v", c[0], d.To, c[1], d.Reasons)
			}
		}
	})
	for b, want := range map[podscaler.FallbackBehavior][2]int{ // of 8, and of 4, with 6
		"": {8, 6}, podscaler.FallbackStatic: {6, 6}, podscaler.FallbackCurrentIfHigher: {8, 6}, podscaler.FallbackCurrentIfLower: {6, 4},
	} {
		for i, from := range []int{8, 4} {
			play(t, with(b, 6), from, []step{{0, unknown, from, ""}, {300, unknown, want[i], "Fallback"}})
		}
	}
	play(t, with(podscaler.FallbackCurrent, 0), 8, []step{{0, unknown, 8, ""}, {300, unknown, 8, "Fallback"}})
	t.Run("the other guards hold it as they hold a policy", func(t *testing.T) {
		w := with(podscaler.FallbackStatic, 1)
		w.Min, w.Behavior = 1, podscaler.DefaultBehavior()
		w.Behavior.Down.Policies = []podscaler.StepLimit{{Pods: 1, Period: time.Minute}}
		play(t, w, 8, []step{{0, unknown, 8, ""}, {300, unknown, 7, "ScaleDownLimit"}, {330, unknown, 7, "ScaleDownLimit"}, {360, unknown, 6, ""}})
	})
}

// What is not asked cannot be silent: an outage that ended meanwhile does not count.
func TestAnOutageBeginsAnewWhereThePolicyWasNotAsked(t *testing.T) {
	const unknown = -1
	fixed := &podscaler.Pause{Replicas: new(4)}
	for _, c := range []struct {
		name     string
		pause    *podscaler.Pause
		replicas int // there are meanwhile
	}{
		{"fixed by a pause", fixed, 4}, {"switched off", nil, 0}, {"below its bounds", nil, 1}, {"above its bounds", nil, 60},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := workload(func(w *podscaler.Workload) {
				w.Min, w.Max, w.Fallback = 2, 50, &podscaler.Fallback{After: 5 * time.Minute, Replicas: 6}
			})
			s := podscaler.NewScaler(w, &wish{unknown})
			decide := func(at, replicas int, p *podscaler.Pause) podscaler.Decision {
				v := &podscaler.View{Now: after(at), Workload: s.Workload(), Replicas: replicas}
				if p != nil {
					v.Pause = *p
				}
				return s.Decide(v)
			}
			decide(0, 4, nil)
			decide(60, c.replicas, c.pause)
			for _, x := range [][2]int{{3600, 4}, {3899, 4}, {3900, 6}} {
				if d := decide(x[0], 4, nil); d.To != x[1] {
					t.Errorf("at %d s: went to %d, should be %d; %v", x[0], d.To, x[1], d.Reasons)
				}
			}
		})
	}
}

// sleeper is a policy of which it is not known whether something calls for the workload while its
// wish is unknown, and nothing does else.
type sleeper struct{ wish }

func (s *sleeper) Calls(*podscaler.View) podscaler.Call {
	return podscaler.Call{Known: s.replicas >= 0, Active: s.replicas > 0, Why: "the queue"}
}

func TestAnIdleWorkloadFallsBack(t *testing.T) {
	const unknown = -1
	for _, c := range []struct {
		name  string
		f     podscaler.Fallback
		steps []step
	}{
		{"after its time", podscaler.Fallback{Replicas: 6}, []step{
			{0, 0, 0, "Idle"}, {60, unknown, 0, "Idle"}, {359, unknown, 0, "Idle"},
			{360, unknown, 6, "Fallback: the policy had no answer for 5m, which is at least 5m: CurrentIfHigher of 0 replicas and a fallback of 6 is 6"},
			{375, unknown, 6, "Fallback"}, {390, 3, 3, "DesiredWithinRange"},
		}},
		{"with an answer in between", podscaler.Fallback{Replicas: 6}, []step{
			{0, unknown, 0, "Idle"}, {200, 0, 0, "Idle"}, {300, unknown, 0, "Idle"}, {599, unknown, 0, "Idle"}, {600, unknown, 6, "Fallback"},
		}},
		{"to what there is", podscaler.Fallback{Behavior: podscaler.FallbackCurrent}, []step{{0, unknown, 0, "Idle"}, {600, unknown, 0, "Idle"}}},
		{"to the lower", podscaler.Fallback{Behavior: podscaler.FallbackCurrentIfLower, Replicas: 6}, []step{{0, unknown, 0, ""}, {600, unknown, 0, "Idle"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.f.After = 5 * time.Minute
			w := workload(func(w *podscaler.Workload) { w.Min, w.Idle, w.Fallback = 2, &podscaler.Idle{After: time.Hour}, &c.f })
			must.Do(t, w.Validate())
			p, replicas := &sleeper{}, 0
			s := podscaler.NewScaler(w, p)
			for _, st := range c.steps {
				p.replicas = st.wish
				d := s.Decide(&podscaler.View{Now: after(st.at), Workload: s.Workload(), Replicas: replicas})
				if d.To != st.to || !mentions(d, st.reason) {
					t.Errorf("at %d s: went to %d, should be %d by %q; %v", st.at, d.To, st.to, st.reason, d.Reasons)
				}
				replicas = d.To
			}
		})
	}
}

// A pause that fixes the replicas asks nothing what calls for the workload, so the time until it is
// idle begins anew.
func TestAWorkloadIsNotIdleForThePauseThatFixedIt(t *testing.T) {
	w := workload(func(w *podscaler.Workload) { w.Min, w.Idle = 2, &podscaler.Idle{After: 10 * time.Minute} })
	s := podscaler.NewScaler(w, &sleeper{})
	for _, st := range []struct {
		minute int
		paused bool
		to     int
	}{{0, false, 2}, {9, false, 2}, {10, true, 2}, {60, true, 2}, {61, false, 2}, {70, false, 2}, {71, false, 0}} {
		v := &podscaler.View{Now: after(60 * st.minute), Workload: s.Workload(), Replicas: 2}
		if st.paused {
			v.Pause.Replicas = new(2)
		}
		if d := s.Decide(v); d.To != st.to {
			t.Errorf("after %d minutes: went to %d, should be %d: %v", st.minute, d.To, st.to, d.Reasons)
		}
	}
}

// A person's 0 stays 0 although something calls for the workload, and our own does not. One that
// was found so may be KEDA's, as is one of a workload that nothing is written to: it is woken.
func TestAnIdleWorkloadStaysAtAPersonsZero(t *testing.T) {
	type look struct{ at, there, calls, to int }
	for _, c := range []struct {
		name         string
		held, status bool
		looks        []look
	}{
		{"a person's", false, false, []look{{0, 3, 3, 3}, {150, 3, 3, 3}, {165, 0, 3, 0}, {900, 0, 3, 0}, {915, 2, 3, 3}}},
		{"ours", false, false, []look{{0, 2, 0, 2}, {60, 2, 0, 0}, {75, 0, 0, 0}, {500, 0, 3, 2}}},
		{"a person's after ours", false, false, []look{{0, 2, 0, 2}, {60, 2, 0, 0}, {75, 0, 3, 2}, {90, 2, 3, 3}, {300, 3, 3, 3}, {315, 0, 3, 0}}},
		{"ours, seen after another decision", false, false, []look{{0, 2, 0, 2}, {60, 2, 0, 0}, {75, 2, 3, 3}, {90, 0, 3, 2}}},
		{"found so", false, false, []look{{0, 0, 0, 0}, {300, 0, 3, 2}}},
		{"of a process that just ended", false, false, []look{{0, 3, 3, 3}, {15, 0, 3, 2}}},
		{"KEDA's", true, false, []look{{0, 3, 3, 3}, {300, 3, 3, 3}, {315, 0, 3, 2}}},
		{"a person's, by the status", false, true, []look{{0, 0, 3, 0}, {300, 0, 3, 0}, {315, 1, 3, 2}, {615, 0, 3, 0}}},
		{"another, of which the status is behind", false, true, []look{{0, 3, 3, 3}, {15, 0, 3, 2}}},
	} {
		w := workload(func(w *podscaler.Workload) { w.Min, w.Idle = 2, &podscaler.Idle{After: time.Minute} })
		p := &sleeper{}
		s := podscaler.NewScaler(w, p)
		for _, l := range c.looks {
			p.replicas = l.calls
			d := s.Decide(&podscaler.View{Now: after(l.at), Workload: s.Workload(), Replicas: l.there, Held: c.held, SwitchedOff: c.status})
			if d.To != l.to || (l.calls > 0 && l.to == 0) != mentions(d, "ScalingDisabled") {
				t.Errorf("%s, at %d s: went from %d to %d, should be %d; %v", c.name, l.at, l.there, d.To, l.to, d.Reasons)
			}
		}
	}
}

func pods(ready, unready int) []podscaler.Pod {
	all := make([]podscaler.Pod, ready+unready)
	for i := range all {
		all[i] = podscaler.Pod{Name: fmt.Sprintf("web-%03d", i), Phase: podscaler.Running, Ready: i < ready, Started: t0.Add(-time.Hour)}
	}
	return all
}

func TestTooFewReadyReplicasAreLeftAlone(t *testing.T) {
	w := workload(func(w *podscaler.Workload) { w.Readiness.MinAvailablePercent = 50 })
	leaving := pods(4, 0)
	leaving[0].Terminating, leaving[1].Phase = true, podscaler.Failed
	for _, c := range []struct {
		name     string
		pods     []podscaler.Pod
		wish, to int
		reason   string
	}{
		{"half of them are enough", pods(2, 2), 8, 8, "DesiredWithinRange"},
		{"fewer are not, to grow", pods(1, 3), 8, 4, "TooFewAvailable: 8 wanted, but 1 of 4 replicas are ready, fewer than 50%"},
		{"nor to shrink", pods(1, 3), 2, 4, "TooFewAvailable: 2 wanted"},
		{"pods that are not there yet are not ready", pods(1, 0), 2, 4, "TooFewAvailable"},
		{"those that leave are not", leaving, 2, 2, ""},
		{"nor if one more does", leaving[:3], 2, 4, "TooFewAvailable"},
		{"bounds are kept whoever is ready", pods(0, 4), 900, 4, "TooFewAvailable: 100 wanted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := podscaler.NewScaler(w, &wish{c.wish})
			d := s.Decide(&podscaler.View{Now: t0, Workload: s.Workload(), Replicas: 4, Pods: c.pods})
			if d.To != c.to || !mentions(d, c.reason) {
				t.Errorf("4 replicas went to %d, should be %d by %q; %v", d.To, c.to, c.reason, d.Reasons)
			}
		})
	}
}

func TestPodsThatStartAreToldByTheWorkloadsTimes(t *testing.T) {
	pod := func(started, readyChanged, sampled int, ready bool) podscaler.Pod {
		return podscaler.Pod{
			Started: after(started), ReadyChanged: after(readyChanged), Ready: ready,
			CPU: podscaler.Sample{Known: true, At: after(sampled), Span: 30 * time.Second},
		}
	}
	own := podscaler.Readiness{InitialDelay: new(time.Minute), CPUInitialization: new(time.Duration(0))}
	for _, c := range []struct {
		name  string
		rules podscaler.Readiness
		pod   podscaler.Pod
		want  bool
	}{
		{"not started", podscaler.Readiness{}, podscaler.Pod{}, true},
		{"ready throughout the sample", podscaler.Readiness{}, pod(-200, -100, -60, true), false},
		{"ready for less", podscaler.Readiness{}, pod(-200, -80, -60, true), true},
		{"not ready in the first minutes", podscaler.Readiness{}, pod(-299, -10, 0, false), true},
		{"not ready later", podscaler.Readiness{}, pod(-300, -10, 0, false), false},
		{"never ready", podscaler.Readiness{}, pod(-300, -271, 0, false), true},
		{"by its own times", own, pod(-100, -80, -60, true), false},
		{"never ready by them", own, pod(-300, -241, 0, false), true},
	} {
		if got := c.rules.Starting(&c.pod, c.pod.CPU.At.Add(-c.pod.CPU.Span), t0); got != c.want {
			t.Errorf("%s: starting %v, should be %v", c.name, got, c.want)
		}
	}
}

// counts is a policy that wants a replica for each pod that is there, as some do that know no
// better.
type counts struct{}

func (counts) Desired(v *podscaler.View) podscaler.Recommendation {
	n := 0
	for i := range v.Pods {
		if !v.Pods[i].Terminating {
			n++
		}
	}
	return podscaler.Recommendation{Replicas: n, Known: true}
}

// seen is a policy that records the pods it saw.
type seen struct{ names []string }

func (s *seen) Desired(v *podscaler.View) podscaler.Recommendation {
	s.names = nil
	for i := range v.Pods {
		s.names = append(s.names, v.Pods[i].Name)
	}
	return podscaler.Recommendation{Replicas: v.Replicas, Known: true}
}

func TestScenario39SurgeIsNoDemandAndIdleLoadShrinksNothing(t *testing.T) {
	w := workload(func(w *podscaler.Workload) { w.Max = 1000 })
	rollout := podscaler.Rollout{InProgress: true, Why: "25 of 125 pods are new"}
	canary := podscaler.Rollout{InProgress: true, Why: "10 of 110 pods are a canary's"}
	for _, c := range []struct {
		name    string
		policy  podscaler.Policy
		rollout podscaler.Rollout
		pods    []podscaler.Pod
		to      int
		reason  string
	}{
		{"100 with a surge of 25 % and idle load stay 100", &wish{60}, rollout, pods(100, 25), 100, "Rollout: 60 wanted, but the pods are being replaced: 25 of 125 pods are new"},
		{"by a policy that counts pods, too", counts{}, rollout, pods(100, 25), 100, "DesiredWithinRange: 100"},
		{"when all of the surge is ready, too", counts{}, rollout, pods(125, 0), 100, "DesiredWithinRange: 100"},
		{"growth that the load wants goes on", &wish{120}, rollout, pods(100, 25), 120, "DesiredWithinRange"},
		{"a canary that takes the place of stable pods is counted once", counts{}, canary, pods(100, 0), 100, "DesiredWithinRange: 100"},
		{"a canary of 10 beside all stable pods is counted once", counts{}, canary, pods(110, 0), 100, "DesiredWithinRange: 100"},
		{"a canary that idles shrinks nothing", &wish{60}, canary, pods(110, 0), 100, "Rollout: 60 wanted, but the pods are being replaced: 10 of 110 pods are a canary's"},
		{"afterwards the idle load counts", &wish{60}, podscaler.Rollout{}, pods(100, 0), 60, "DesiredWithinRange"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := podscaler.NewScaler(w, c.policy)
			d := s.Decide(&podscaler.View{Now: t0, Workload: s.Workload(), Replicas: 100, Pods: c.pods, Rollout: c.rollout})
			if d.To != c.to || !mentions(d, c.reason) {
				t.Errorf("100 replicas went to %d, should be %d by %q; %v", d.To, c.to, c.reason, d.Reasons)
			}
		})
	}
	t.Run("what is omitted is new or not ready, and the rest keeps its order", func(t *testing.T) {
		named := func(name string, change func(*podscaler.Pod)) podscaler.Pod {
			p := podscaler.Pod{Name: name, Phase: podscaler.Running, Ready: true, Started: after(-600)}
			if change != nil {
				change(&p)
			}
			return p
		}
		all := []podscaler.Pod{
			named("f-waits", func(p *podscaler.Pod) { p.Phase, p.Ready, p.Started = podscaler.Pending, false, time.Time{} }),
			named("e-new", func(p *podscaler.Pod) { p.Started = after(-60) }),
			named("d-leaves", func(p *podscaler.Pod) { p.Terminating = true }),
			named("c", nil), named("b-starts", func(p *podscaler.Pod) { p.Ready = false }), named("a", nil),
		}
		policy := &seen{}
		s := podscaler.NewScaler(workload(nil), policy)
		for replicas, want := range map[int]string{
			1: "[d-leaves a]", 2: "[d-leaves c a]", 3: "[e-new d-leaves c a]", 4: "[e-new d-leaves c b-starts a]", 5: "[f-waits e-new d-leaves c b-starts a]",
		} {
			s.Decide(&podscaler.View{Now: t0, Workload: s.Workload(), Replicas: replicas, Pods: all, Rollout: rollout})
			if got := fmt.Sprint(policy.names); got != want {
				t.Errorf("of %d replicas the policy saw %s, should see %s", replicas, got, want)
			}
		}
	})
}

// traffic is what comes in at a run, and what becomes of 8 replicas of which 2 are wanted.
type traffic struct {
	at       int
	arrivals float64 // below 0 is unknown
	errors   float64
	to       int
	reason   string
}

func TestAFailedRolloutHoldsNoShrinking(t *testing.T) {
	for _, failed := range []bool{false, true} {
		s := podscaler.NewScaler(workload(nil), &wish{3})
		d := s.Decide(&podscaler.View{Now: t0, Workload: s.Workload(), Replicas: 8, Rollout: podscaler.Rollout{InProgress: true, Failed: failed}})
		if want := map[bool]int{false: 8, true: 3}[failed]; d.To != want {
			t.Errorf("failed %v: went to %d, should be %d; %v", failed, d.To, want, d.Reasons)
		}
	}
}

func TestScenario36UpstreamOutageShrinksNothingForAWhile(t *testing.T) {
	reading := func(v float64) podscaler.Reading {
		if v < 0 {
			return podscaler.Reading{}
		}
		return podscaler.Known(v)
	}
	const no = -1
	// A first run that is long ago, so that errors are no suspicion by themselves.
	begin := traffic{-1000, 200, 0, 8, ""}
	for _, c := range []struct {
		name  string
		rules podscaler.Upstream
		runs  []traffic
	}{
		{"90 % gone in a minute while errors rise: for 15 minutes", podscaler.Upstream{}, []traffic{
			{0, 200, 0.001, 2, "DesiredWithinRange"},
			{60, 20, 0.12, 8, "UpstreamSuspect: 2 wanted, but arrivals went from 200 to 20 a second within 1m while failures went from 0.1% to 12%: 15m left"},
			{75, 18, 0.15, 8, "UpstreamSuspect: 2 wanted"},
			{959, 20, 0.12, 8, "UpstreamSuspect"},
			{960, 20, 0.12, 2, "DesiredWithinRange"},
			{975, 20, 0.12, 2, "DesiredWithinRange"},
		}},
		{"gone bit by bit within the minute", podscaler.Upstream{}, []traffic{
			{0, 200, 0, 2, ""}, {15, 150, 0.01, 2, ""}, {30, 90, 0.02, 2, ""}, {45, 19, 0.03, 8, "UpstreamSuspect"},
		}},
		{"all is gone, so that no errors are known any more", podscaler.Upstream{}, []traffic{
			{0, 200, 0, 2, ""}, {15, 100, 0.2, 2, ""}, {30, 0, no, 8, "arrivals went from 200 to 0 a second within 30s while failures went from 0% to 20%"},
		}},
		{"89 % are not enough", podscaler.Upstream{}, []traffic{{0, 200, 0, 2, ""}, {60, 22, 0.12, 2, ""}}},
		{"slowly", podscaler.Upstream{}, []traffic{{0, 200, 0, 2, ""}, {40, 100, 0.1, 2, ""}, {80, 19, 0.1, 2, ""}}},
		{"between two runs that are further apart than a minute", podscaler.Upstream{}, []traffic{{0, 200, 0, 2, ""}, {120, 19, 0.1, 8, "UpstreamSuspect"}}},
		{"fewer requests without errors are fewer requests", podscaler.Upstream{}, []traffic{{0, 200, 0.05, 2, ""}, {60, 2, 0.05, 2, ""}}},
		{"errors that are unknown say nothing", podscaler.Upstream{}, []traffic{{0, 200, no, 2, ""}, {60, 2, no, 2, ""}}},
		{"nor do unknown arrivals", podscaler.Upstream{}, []traffic{{0, 200, 0, 2, ""}, {60, no, 0.5, 2, ""}}},
		{"off", podscaler.Upstream{Off: true}, []traffic{{0, 200, 0, 2, ""}, {60, 2, 0.5, 2, ""}}},
		{"by thresholds of one's own", podscaler.Upstream{Drop: 0.5, Within: 2 * time.Minute, ErrorRise: 0.2, Hold: time.Minute}, []traffic{
			{0, 200, 0, 2, ""}, {60, 101, 0.2, 2, ""}, {90, 100, 0.19, 8, "UpstreamSuspect"}, {149, 100, 0.2, 8, "1s left"}, {150, 100, 0.2, 2, ""},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := workload(func(w *podscaler.Workload) { w.Upstream = c.rules })
			s := podscaler.NewScaler(w, &wish{2})
			for _, run := range append([]traffic{begin}, c.runs...) {
				d := s.Decide(&podscaler.View{
					Now: after(run.at), Workload: s.Workload(), Replicas: 8, Window: podscaler.Window{Arrivals: reading(run.arrivals), Errors: reading(run.errors)},
				})
				if run != begin && (d.To != run.to || !mentions(d, run.reason)) {
					t.Errorf("at %d s 8 replicas went to %d, should be %d by %q; %v", run.at, d.To, run.to, run.reason, d.Reasons)
				}
			}
		})
	}
	t.Run("arrivals over a longer window fall as slowly as that passes", func(t *testing.T) {
		objective := workload(func(w *podscaler.Workload) { w.SLO.Window = 20 * time.Minute })
		for _, runs := range [][]traffic{
			{{600, 110, 0.1, 2, ""}, {1140, 20, 0.5, 8, "UpstreamSuspect"}, {2039, 20, 0.5, 8, "UpstreamSuspect"}, {2040, 20, 0.5, 2, "DesiredWithinRange"}},
			// Once is enough.
			{{1100, 200, 0.1, 2, ""}, {1140, 20, 0.5, 8, "UpstreamSuspect"}, {2040, 20, 0.9, 2, "DesiredWithinRange"}},
		} {
			// The objective's, or without one.
			for over, w := range map[time.Duration]podscaler.Workload{0: objective, 20 * time.Minute: workload(nil)} {
				s := podscaler.NewScaler(w, &wish{2})
				for _, run := range append([]traffic{begin, {0, 200, 0, 2, ""}}, runs...) {
					d := s.Decide(&podscaler.View{
						Now: after(run.at), Workload: s.Workload(), Replicas: 8,
						Window: podscaler.Window{Arrivals: reading(run.arrivals), Errors: reading(run.errors), Over: over},
					})
					if run != begin && (d.To != run.to || !mentions(d, run.reason)) {
						t.Errorf("at %d s 8 replicas went to %d, should be %d by %q; %v", run.at, d.To, run.to, run.reason, d.Reasons)
					}
				}
			}
		}
	})
	t.Run("requests that come as before and fail at once, while they do", func(t *testing.T) {
		s := podscaler.NewScaler(workload(nil), &wish{2})
		for _, run := range []traffic{
			begin, {0, 200, 0.001, 2, "DesiredWithinRange"}, {60, 190, 0.2, 2, ""},
			{75, 180, 1, 8, "UpstreamSuspect: 2 wanted, but 100% of the requests fail, of which it was 0%: 15m left"},
			{1200, 60, 0.9, 8, "90% of the requests fail"}, {3600, 200, 0.3, 8, "UpstreamSuspect"},
			{3615, 200, 0.1, 8, "14m45s left"}, {4499, 200, 0, 8, "1s left"}, {4500, 200, 0, 2, "DesiredWithinRange"},
			{9000, 200, 0.26, 8, "26% of the requests fail"},
		} {
			d := s.Decide(&podscaler.View{
				Now: after(run.at), Workload: s.Workload(), Replicas: 8, Window: podscaler.Window{Arrivals: reading(run.arrivals), Errors: reading(run.errors)},
			})
			if run != begin && (d.To != run.to || !mentions(d, run.reason)) {
				t.Errorf("at %d s 8 replicas went to %d, should be %d by %q; %v", run.at, d.To, run.to, run.reason, d.Reasons)
			}
		}
	})
	t.Run("all hang, so that none is counted at its end", func(t *testing.T) {
		for _, c := range []struct {
			flying podscaler.Reading // at the end
			to     int
		}{{podscaler.Reading{}, 8}, {podscaler.Known(0), 2}} {
			s := podscaler.NewScaler(workload(nil), &wish{2})
			for _, run := range []traffic{
				begin, {0, 200, 0, 2, ""}, {30, 100, 0, 2, ""}, {60, 0, no, c.to, ""}, {959, 0, no, c.to, ""}, {960, 0, no, 2, ""}, {975, 0, no, 2, ""},
			} {
				d := s.Decide(&podscaler.View{Now: after(run.at), Workload: s.Workload(), Replicas: 8, Window: podscaler.Window{
					Arrivals: reading(run.arrivals), Errors: reading(run.errors), InFlight: c.flying,
				}})
				held := mentions(d, "UpstreamSuspect: 2 wanted, but arrivals went from 100 to 0 a second within 30s, and requests that hang may not be counted")
				if run != begin && (d.To != run.to || run.at == 60 && held != (c.to == 8)) {
					t.Errorf("in flight %+v: at %d s 8 replicas went to %d, should be %d; %v", c.flying, run.at, d.To, run.to, d.Reasons)
				}
			}
		}
	})
	t.Run("growth is not held", func(t *testing.T) {
		p := &wish{2}
		s := podscaler.NewScaler(workload(nil), p)
		for at, window := range []podscaler.Window{{Arrivals: podscaler.Known(200), Errors: podscaler.Known(0)}, {Arrivals: podscaler.Known(9), Errors: podscaler.Known(1)}} {
			d := s.Decide(&podscaler.View{Now: after(60 * at), Workload: s.Workload(), Replicas: 8, Window: window})
			if p.replicas == 12 && d.To != 12 {
				t.Errorf("went to %d, should be 12; %v", d.To, d.Reasons)
			}
			p.replicas = 12
		}
	})
	t.Run("a new leader takes errors for enough", func(t *testing.T) {
		s := podscaler.NewScaler(workload(nil), &wish{2})
		for _, c := range []struct {
			at     int
			errors float64
			to     int
		}{{0, 0.005, 2}, {15, 0.02, 8}, {899, 0, 8}, {900, 0.02, 2}} {
			d := s.Decide(&podscaler.View{Now: after(c.at), Workload: s.Workload(), Replicas: 8, Window: podscaler.Window{Arrivals: podscaler.Known(20), Errors: podscaler.Known(c.errors)}})
			if d.To != c.to {
				t.Errorf("at %d s 8 replicas went to %d, should be %d; %v", c.at, d.To, c.to, d.Reasons)
			}
		}
	})
}

func TestScenario40PauseFixesTheReplicasOrADirection(t *testing.T) {
	for _, c := range []struct {
		name     string
		pause    podscaler.Pause
		from     int
		wish, to int
		reason   string
	}{
		{"paused-replicas 3: 3", podscaler.Pause{Replicas: new(3), Why: "paused by ann"}, 8, 20, 3, "Paused: replicas are fixed at 3: paused by ann"},
		{"from fewer", podscaler.Pause{Replicas: new(3)}, 1, 20, 3, "Paused: replicas are fixed at 3: paused"},
		{"out of bounds, for a person is above them", podscaler.Pause{Replicas: new(200)}, 8, 8, 200, "Paused"},
		{"at 0, which is no pause of another owner's", podscaler.Pause{Replicas: new(3)}, 0, 8, 3, "Paused"},
		{"at 0", podscaler.Pause{Replicas: new(0)}, 8, 8, 0, "Paused"},
		{"down blocks down", podscaler.Pause{Down: true}, 8, 3, 8, "Paused: 3 wanted, but shrinking is paused"},
		{"and not up", podscaler.Pause{Down: true}, 8, 12, 12, "DesiredWithinRange"},
		{"up blocks up", podscaler.Pause{Up: true, Why: "paused by bob"}, 8, 12, 8, "Paused: 12 wanted, but growing is paused: paused by bob"},
		{"and not down", podscaler.Pause{Up: true}, 8, 3, 3, "DesiredWithinRange"},
		{"both", podscaler.Pause{Up: true, Down: true}, 8, 3, 8, "Paused"},
		{"out of bounds, too", podscaler.Pause{Down: true}, 200, 3, 200, "Paused: 100 wanted"},
		{"until a time to come", podscaler.Pause{Down: true, Until: after(1)}, 8, 3, 8, "shrinking is paused: paused until 2026-03-01T12:00:01Z"},
		{"until now", podscaler.Pause{Down: true, Until: after(0)}, 8, 3, 3, "DesiredWithinRange"},
		{"fixed until now", podscaler.Pause{Replicas: new(5), Until: after(0)}, 8, 3, 3, "DesiredWithinRange"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := podscaler.NewScaler(workload(nil), &wish{c.wish})
			d := s.Decide(&podscaler.View{Now: t0, Workload: s.Workload(), Replicas: c.from, Pause: c.pause})
			if d.To != c.to || !mentions(d, c.reason) {
				t.Errorf("%d replicas went to %d, should be %d by %q; %v", c.from, d.To, c.to, c.reason, d.Reasons)
			}
		})
	}
	t.Run("replicas that were fixed at 0 come back", func(t *testing.T) {
		s := podscaler.NewScaler(workload(nil), &wish{4})
		replicas := 8
		for i, c := range []struct {
			pause podscaler.Pause
			to    int
		}{{podscaler.Pause{Replicas: new(0)}, 0}, {podscaler.Pause{Replicas: new(0)}, 0}, {podscaler.Pause{}, 1}, {podscaler.Pause{}, 4}} {
			d := s.Decide(&podscaler.View{Now: after(15 * i), Workload: s.Workload(), Replicas: replicas, Pause: c.pause})
			if replicas = d.To; d.To != c.to {
				t.Errorf("run %d: went to %d, should be %d; %v", i, d.To, c.to, d.Reasons)
			}
		}
	})
}

func TestEveryGuardThatObjectsIsTold(t *testing.T) {
	w := workload(func(w *podscaler.Workload) {
		w.Cooldown, w.SLO.Window, w.Readiness.MinAvailablePercent = time.Hour, time.Hour, 90
	})
	s := podscaler.NewScaler(w, &wish{2})
	d := s.Decide(&podscaler.View{
		Now: t0, Workload: s.Workload(), Replicas: 8, Pods: pods(4, 4), Rollout: podscaler.Rollout{InProgress: true}, Pause: podscaler.Pause{Down: true},
		Window: podscaler.Window{Since: after(-5), Arrivals: podscaler.Known(1), Errors: podscaler.Known(1)},
	})
	if d.To != 8 {
		t.Errorf("went to %d, should be 8", d.To)
	}
	for i, code := range []string{"DesiredWithinRange", "TooFewAvailable", "Rollout", "UpstreamSuspect", "SignalsRecovering", "Cooldown"} {
		if i >= len(d.Reasons) || d.Reasons[i].Code != code {
			t.Errorf("reason %d should be %s; %v", i, code, d.Reasons)
		}
	}
}
