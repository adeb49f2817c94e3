package operator

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/podscaler"
)

// What is made known follows from the decision and from what holds the workload, and from nothing else.
func TestWhatIsExpectedFollowsFromTheDecision(t *testing.T) {
	decided := func(to, ahead int) *podscaler.Decision {
		return &podscaler.Decision{Known: true, From: 4, To: to, Ahead: ahead}
	}
	held := func(code string) *nodescaler.Reason { return because(code, "") }
	one := 1
	for _, c := range []struct {
		name     string
		decision *podscaler.Decision
		gone     bool // it has no part in the step
		held     *nodescaler.Reason
		pause    pause
		want     string
	}{
		{name: "more is expected", decision: decided(5, 8), want: "3"},
		{name: "more is expected while it shrinks", decision: decided(2, 6), want: "4"},
		{name: "as many are expected", decision: decided(5, 5), want: "0"},
		{name: "fewer are expected", decision: decided(5, 3), want: "0"},
		{name: "the policy expects nothing", decision: decided(5, 0), want: "0"},
		{name: "it is not its turn", want: "as it was"},
		{name: "what it wants is not known", decision: &podscaler.Decision{From: 4, To: 4}, want: "as it was"},
		{name: "only recommended", decision: decided(5, 8), held: held(v1alpha1.ReasonRecommending), want: "would be 3"},
		{name: "only recommended, not its turn", held: held(v1alpha1.ReasonRecommending), want: "would be 0"},
		{name: "somebody else scales it", decision: decided(5, 8), held: held(v1alpha1.ReasonForeignAutoscaler), want: "would be 3"},
		{name: "its object means nothing", gone: true, held: held(v1alpha1.ReasonInvalidSpec), want: "would be 0"},
		{name: "paused", decision: decided(5, 8), held: held(v1alpha1.ReasonPaused), pause: pause{on: true}, want: "as it was"},
		{name: "paused upwards", decision: decided(4, 8), pause: pause{on: true, direction: v1alpha1.PauseUp}, want: "0"},
		{name: "paused downwards", decision: decided(5, 8), pause: pause{on: true, direction: v1alpha1.PauseDown}, want: "3"},
		{name: "fixed", decision: &podscaler.Decision{From: 4, To: 1}, pause: pause{on: true, replicas: &one}, want: "0"},
	} {
		w := &workload{held: c.held, pause: c.pause}
		step := &loop.WorkloadStep{Decision: c.decision}
		if c.gone {
			step = nil
		}
		got := "as it was"
		switch a := w.expected(step); {
		case a != nil && a.held != nil:
			got = fmt.Sprintf("would be %d", a.more)
		case a != nil:
			got = fmt.Sprint(a.more)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// handsOff leaves the machines to cluster-autoscaler.
func (h *house) handsOff(by kube.HandOffBy) *house {
	h.cfg.HandOff = kube.HandOff{By: by, PriorityClass: "low", Image: "pause"}
	h.cfg.NodeScaler, h.cfg.Provider = false, true
	return h
}

func (h *house) expectations() []string {
	return slices.DeleteFunc(slices.Clone(h.done), func(s string) bool { return !strings.HasPrefix(s, "expect ") })
}

func TestWhatIsExpectedIsMadeKnownAndTold(t *testing.T) {
	h := newHouse(t).handsOff(kube.ByCapacityBuffer)
	web := h.web(active)
	h.node("workers", "a")
	h.pool("workers", active+"  scaledBy: ClusterAutoscaler\n")
	h.begin().steps(1)
	h.expect("at the first look", []string{}, h.expectations())
	h.steps(1)
	h.expect("of a policy that does not look ahead", []string{"expect 0 more of shop/web"}, h.expectations())
	h.expect("told", "False NothingExpected", said(web.Status.Conditions)["CapacityAhead"])

	h.broken["expect"] = fmt.Errorf("wrapped: %w", kube.ErrNoBuffers)
	h.steps(1)
	h.expect("without the kind", "False NoCapacityBuffers", said(web.Status.Conditions)["CapacityAhead"])
	h.expect("and told", true, strings.Contains(strings.Join(h.told, "\n"), "web NoCapacityBuffers: wrapped: the cluster does not know CapacityBuffers"))
	h.broken["expect"] = errors.New("forbidden")
	h.steps(1)
	h.expect("refused", "False FailedHandOff", said(web.Status.Conditions)["CapacityAhead"])

	h.cfg.HandOff = kube.HandOff{}
	h.begin().steps(2)
	if c, there := said(web.Status.Conditions)["CapacityAhead"]; there {
		t.Errorf("with nothing handed off it is told as %s", c)
	}
}

// seer wants as many as there are, and expects to want more.
type seer struct{ more int }

func (f seer) Desired(v *podscaler.View) podscaler.Recommendation {
	return podscaler.Recommendation{Known: true, Replicas: v.Replicas, Ahead: v.Replicas + f.more, Reasons: []podscaler.Reason{podscaler.Because("Test", "the test says so")}}
}

// foresees gives a workload another policy. Its first look comes anew.
func (h *house) foresees(more int) {
	k := h.term.scalers["shop/web"]
	k.scaler = podscaler.NewScaler(k.workload, seer{more})
	h.steps(2)
}

func TestMoreIsMadeKnownAndTakenBack(t *testing.T) {
	h := newHouse(t).handsOff(kube.ByPlaceholders)
	web := h.web(active)
	h.node("workers", "a")
	h.begin().steps(1)
	h.foresees(3)
	h.expect("made known", "expect 3 more of shop/web", h.done[len(h.done)-1])
	h.expect("told", "True RoomAskedFor", said(web.Status.Conditions)["CapacityAhead"])
	web.Spec.Mode = v1alpha1.ModePaused
	before := len(h.done)
	h.steps(2)
	h.expect("paused", []string{}, h.done[before:])
	web.Spec.Mode = v1alpha1.ModeRecommend
	h.steps(1)
	h.expect("taken back", []string{"expect 0 more of shop/web"}, h.done[before:])
	h.expect("told what would be", "False Recommending", said(web.Status.Conditions)["CapacityAhead"])
}

// The pods are somebody else's to scale, in whatever way. Machines follow from them, and nothing is done to them, not
// even to choose which go first.
func TestMachinesAloneFollowPodsThatOthersScale(t *testing.T) {
	h := newHouse(t)
	joint := nodepolicy.DefaultJoint()
	joint.Rebuy = 0
	h.cfg.PodScaler, h.cfg.Nodes = false, nodepolicy.Spec{Policy: "joint", Joint: &joint}
	h.web(active) // which nobody reads
	h.pool("workers", active)
	h.begin().steps(2)
	h.expect("for the four that wait", []string{"create workers"}, h.done)
	h.replicas["shop/web"] = 7
	h.steps(2)
	h.expect("for three more", 2, len(h.machines))
	h.replicas["shop/web"] = 0
	h.steps(200)
	h.expect("for none", 0, len(h.machines))
	for _, d := range h.done {
		if verb, _, _ := strings.Cut(d, " "); !slices.Contains([]string{"create", "drain", "delete"}, verb) {
			t.Errorf("done: %s", d)
		}
	}
}

// With cluster-autoscaler in charge, what there may be ends at what its pools allow, and not at the nodes there are.
func TestRoomIsThatOfPoolsOfOthers(t *testing.T) {
	h := newHouse(t).handsOff(kube.ByCapacityBuffer)
	h.pool("workers", active+"  scaledBy: ClusterAutoscaler\n")
	h.pool("held", "  scaledBy: ClusterAutoscaler\n").Spec.VMIDs = v1alpha1.VMIDs{First: 2000, Last: 2099}
	h.begin().steps(1)
	names := func(pools []nodescaler.Pool) (all []string) {
		for _, p := range pools {
			all = append(all, p.Name)
		}
		return all
	}
	h.expect("pools to plan for", []string{}, names(h.term.runner.Pools))
	h.expect("pools to count on", []string{"workers"}, names(h.term.runner.Offered))
}

func TestRecommendModeHandsNothingOff(t *testing.T) {
	h := newHouse(t).handsOff(kube.ByPlaceholders)
	h.cfg.Active = false
	h.web(active)
	h.node("workers", "a")
	h.begin().steps(1)
	h.foresees(3)
	h.expect("done", []string{}, h.done)
	h.expect("told", "False Recommending", said(h.autoscalers["shop/web"].Status.Conditions)["CapacityAhead"])
	if h.term.runner.HandedOff {
		t.Error("the loop leaves to others what nobody was told of")
	}
}

// The texts say the numbers, and whether anything came of them.
func TestConditionOfWhatIsExpected(t *testing.T) {
	for want, a := range map[string]*ahead{
		"True RoomAskedFor 3 replicas more than 5 are expected by when a machine comes, and room for them is asked for by Placeholders plimsoll-ahead-web":        {more: 3, to: 5},
		"False Recommending 3 replicas more than 5 are expected by when a machine comes, and room for them would be asked for by Placeholders plimsoll-ahead-web": {more: 3, to: 5, held: because(v1alpha1.ReasonRecommending, "")},
		"False NothingExpected no more replicas are expected than there are to be":                                                                                {to: 5},
		"False FailedHandOff forbidden": {more: 3, err: errors.New("forbidden")},
	} {
		h := newHouse(t)
		w := &workload{object: h.web(active), handOff: kube.ByPlaceholders, ahead: a}
		st := &v1alpha1.WorkloadAutoscalerStatus{}
		w.handedOff(conditions{&st.Conditions, 1, t0})
		if c := st.Conditions[0]; fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message) != want {
			t.Errorf("%s %s %s, want %s", c.Status, c.Reason, c.Message, want)
		}
	}
}
