package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// What is made known follows from the decision and from what holds the workload, and from nothing
// else.
func TestWhatIsExpectedFollowsFromTheDecision(t *testing.T) {
	decided := func(to, ahead int) *podscaler.Decision {
		return &podscaler.Decision{Known: true, From: 4, To: to, Ahead: ahead}
	}
	one := 1
	for _, c := range []struct {
		name     string
		decision *podscaler.Decision
		gone     bool // it has no part in the step
		of       Workload
		want     string
	}{
		{name: "more is expected", decision: decided(5, 8), want: "3"},
		{name: "more is expected while it shrinks", decision: decided(2, 6), want: "4"},
		{name: "as many are expected", decision: decided(5, 5), want: "0"},
		{name: "fewer are expected", decision: decided(5, 3), want: "0"},
		{name: "the policy expects nothing", decision: decided(5, 0), want: "0"},
		{name: "it is not its turn", want: "as it was"},
		{name: "what it wants is not known", decision: &podscaler.Decision{From: 4, To: 4}, want: "as it was"},
		{name: "held", decision: decided(5, 8), of: Workload{Held: &why[0]}, want: "would be 3"},
		{name: "held, not its turn", of: Workload{Held: &why[0]}, want: "would be 0"},
		{name: "its object means nothing", gone: true, of: Workload{Held: &why[0]}, want: "would be 0"},
		{name: "paused", decision: decided(5, 8), of: Workload{Held: &why[0], Paused: true}, want: "as it was"},
		{name: "paused upwards", decision: decided(4, 8), of: Workload{Pause: podscaler.Pause{Up: true}}, want: "0"},
		{name: "paused downwards", decision: decided(5, 8), of: Workload{Pause: podscaler.Pause{Down: true}}, want: "3"},
		{name: "fixed", decision: &podscaler.Decision{From: 4, To: 1}, of: Workload{Pause: podscaler.Pause{Replicas: &one}}, want: "0"},
	} {
		step := &WorkloadStep{Decision: c.decision}
		if c.gone {
			step = nil
		}
		got := "as it was"
		switch e := c.of.expectation(step); {
		case e != nil && e.Held != nil:
			got = fmt.Sprintf("would be %d", e.More)
		case e != nil:
			got = fmt.Sprint(e.More)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// seer wants as many as there are, and expects to want more.
type seer struct{ more int }

func (f seer) Desired(v *podscaler.View) podscaler.Recommendation {
	return podscaler.Recommendation{Known: true, Replicas: v.Replicas, Ahead: v.Replicas + f.more, Reasons: why}
}

// knowing is a cluster that makes known what is expected.
type knowing struct {
	*house
	known map[string]int
}

func (k knowing) Expect(_ context.Context, workload string, more int) error {
	k.known[workload] = more
	return k.broken["expect"]
}

func TestMoreIsMadeKnownAndTakenBack(t *testing.T) {
	h := knowing{newHouse(), map[string]int{}}
	r := h.runner(seer{3}, nil)
	r.Cluster, r.HandedOff = h, true
	steps(t, r, 1)
	expect(t, "at the first look", map[string]int{}, h.known)
	steps(t, r, 2)
	expect(t, "made known", map[string]int{"shop/web": 3}, h.known)
	r.Workloads[0].Held, r.Workloads[0].Paused = &why[0], true
	steps(t, r, 3)
	expect(t, "paused", map[string]int{"shop/web": 3}, h.known)
	r.Workloads[0].Paused = false
	h.broken["expect"] = errors.New("forbidden")
	s := steps(t, r, 4)
	expect(t, "taken back", map[string]int{"shop/web": 0}, h.known)
	expect(t, "what would be made known", []Expectation{{Workload: "shop/web", More: 3, To: 2, Held: &why[0], Error: "forbidden"}}, withoutErrors(s.Expected))
}

func withoutErrors(all []Expectation) []Expectation {
	for i := range all {
		all[i].Err = nil
	}
	return all
}

// Nothing is left to others that they are not asked for.
func TestInADryRunNothingIsHandedOff(t *testing.T) {
	for _, dry := range []bool{false, true} {
		h, ahead := knowing{newHouse(), map[string]int{}}, 0
		r := h.runner(seer{3}, nodesSay(func(s *nodescaler.Snapshot) nodescaler.Plan {
			for _, f := range s.Future {
				ahead += f.Ahead
			}
			return nodescaler.Plan{}
		}))
		r.Cluster, r.HandedOff, r.DryRun = h, true, dry
		steps(t, r, 2)
		want := map[string]int{"shop/web": 3}
		if dry {
			want = map[string]int{}
		}
		expect(t, fmt.Sprint("made known in a dry run: ", dry), want, h.known)
		expect(t, fmt.Sprint("is planned for here in a dry run: ", dry), dry, ahead == 3)
	}
}

// Placeholders use their namespace's ResourceQuota. Where the pods that are wanted now cannot be
// created, none is kept for those that may be wanted later.
func TestNoRoomIsKeptWherePodsCannotBeCreated(t *testing.T) {
	h := knowing{newHouse(), map[string]int{}}
	r := h.runner(seer{3}, nil)
	r.Cluster, r.HandedOff = h, true
	steps(t, r, 2)
	expect(t, "made known", map[string]int{"shop/web": 3}, h.known)
	h.state.Failing = map[string]string{"shop/web": "FailedCreate: exceeded quota"}
	s := steps(t, r, 3)
	expect(t, "taken back", map[string]int{"shop/web": 0}, h.known)
	if held := s.Expected[0].Held; held == nil || held.Code != CodeReplicaFailure {
		t.Errorf("the reason is %v", held)
	}
	h.state.Failing = nil
	steps(t, r, 4)
	expect(t, "made known again", map[string]int{"shop/web": 3}, h.known)
}

// noting notes what is written, and in which order.
type noting struct {
	knowing
	wrote *[]string
}

func (o noting) Expect(ctx context.Context, workload string, more int) error {
	*o.wrote = append(*o.wrote, fmt.Sprintf("expect %d", more))
	return o.knowing.Expect(ctx, workload, more)
}

func (o noting) SetReplicas(ctx context.Context, workload string, to int) error {
	*o.wrote = append(*o.wrote, fmt.Sprintf("scale to %d", to))
	return o.knowing.SetReplicas(ctx, workload, to)
}

// Room that was asked for is taken back before the pods come that it is for. Whoever looks between
// the two would order machines for both.
func TestRoomIsTakenBackBeforeReplicasGrow(t *testing.T) {
	var wrote []string
	o := noting{knowing{newHouse(), map[string]int{}}, &wrote}
	p := Ports{Cluster: o}
	p.Act(t.Context(), &Step{
		Workloads: []WorkloadStep{{Workload: "shop/web", Decision: &podscaler.Decision{Workload: "shop/web", From: 2, To: 4}}},
		Expected:  []Expectation{{Workload: "shop/web", More: 0, To: 4}},
	})
	expect(t, "the order", []string{"expect 0", "scale to 4"}, wrote)
}

// What was expected is asked for until a machine ordered for it is there, counted in replicas in
// all, or until as many were there or expected anew.
func TestLawAnExpectationLastsAsLongAsAMachineTakes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type run struct {
			at       time.Time
			to, more int
		}
		var h hopes
		var past []run
		now, lead := t0, time.Duration(rapid.IntRange(1, 300).Draw(t, "lead"))*time.Second
		for range rapid.IntRange(1, 60).Draw(t, "runs") {
			e := &Expectation{To: rapid.IntRange(1, 20).Draw(t, "to"), More: rapid.IntRange(0, 5).Draw(t, "more")}
			past = append(past, run{now, e.To, e.More})
			want := e.To
			for i, x := range past {
				met := slices.ContainsFunc(past[i+1:], func(y run) bool { return y.to+y.more >= x.to+x.more })
				if x.more > 0 && !met && now.Sub(x.at) <= lead {
					want = max(want, x.to+x.more)
				}
			}
			if total := e.To + h.more(now, e, lead); total != want || total < e.To+e.More {
				t.Fatalf("room for %d is asked for, want %d", total, want)
			}
			now = now.Add(time.Duration(rapid.IntRange(1, 120).Draw(t, "pause")) * time.Second)
		}
		var none Expectation
		if more := h.more(now, &none, lead); more != 0 || len(h) > 0 {
			t.Fatalf("%d more are asked for where none may be", more)
		}
	})
}

// A machine that is ordered ahead and boots keeps its reason although the forecast falls: whoever
// removes what nothing is expected to use does not remove it.
func TestAMachineOrderedAheadIsNotTakenBackBeforeItIsThere(t *testing.T) {
	h := knowing{newHouse(), map[string]int{}}
	p := &flicker{more: 3}
	r := h.runner(p, nil)
	r.Cluster, r.HandedOff = h, true
	after := func(d time.Duration, more, want int) {
		p.more = more
		must.Get(r.Once(t.Context(), t0.Add(d)))(t)
		expect(t, fmt.Sprint("asked for after ", d), want, h.known["shop/web"])
	}
	after(0, 3, 0) // the first step looks
	after(10*time.Second, 3, 3)
	after(20*time.Second, 0, 3)
	after(2*time.Minute, 1, 3)
	after(10*time.Second+usualLead, 0, 3)
	after(20*time.Second+usualLead, 0, 1)
	after(3*time.Minute+usualLead, 0, 0)
}

// flicker expects more for a while.
type flicker struct{ more int }

func (f *flicker) Desired(v *podscaler.View) podscaler.Recommendation {
	return podscaler.Recommendation{Known: true, Replicas: v.Replicas, Ahead: v.Replicas + f.more, Reasons: why}
}
