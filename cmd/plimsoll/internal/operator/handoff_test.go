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
)

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

// The pods are another owner's to scale, by any means. Machines follow from them, and nothing is
// done to them, not even to choose which go first.
func TestMachinesAloneFollowPodsThatOthersScale(t *testing.T) {
	h := newHouse(t)
	joint := nodepolicy.DefaultJoint()
	joint.Rebuy = 0
	h.cfg.PodScaler, h.cfg.Nodes = false, nodepolicy.Spec{Policy: "joint", Joint: &joint}
	h.web(active) // which is not read
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

// With cluster-autoscaler in charge, what there may be ends at what its pools allow, and not at
// the nodes there are.
func TestRoomIsThatOfPoolsOfOthers(t *testing.T) {
	h := newHouse(t).handsOff(kube.ByCapacityBuffer)
	h.pool("workers", active+"  scaledBy: ClusterAutoscaler\n")
	h.pool("held", "  scaledBy: ClusterAutoscaler\n").Spec.VMIDs = v1alpha1.VMIDs{First: 2000, Last: 2099}
	h.begin()
	d, err := h.term.read(t.Context(), &loop.Observation{Time: h.now})
	if err != nil {
		t.Fatal(err)
	}
	in := h.term.intent(d)
	names := func(pools []nodescaler.Pool) (all []string) {
		for _, p := range pools {
			all = append(all, p.Name)
		}
		return all
	}
	h.expect("pools to plan for", []string{}, names(in.Pools))
	h.expect("pools to count on", []string{"workers"}, names(in.Offered))
}

func TestRecommendModeHandsNothingOff(t *testing.T) {
	h := newHouse(t).handsOff(kube.ByPlaceholders)
	h.cfg.Active = false
	h.web(active)
	h.node("workers", "a")
	h.begin().steps(3)
	h.expect("done", []string{}, h.done)
	h.expect("said", "False NothingExpected", said(h.autoscalers["shop/web"].Status.Conditions)["CapacityAhead"])
}

// The texts say the numbers, and whether anything came of them.
func TestConditionOfWhatIsExpected(t *testing.T) {
	for want, a := range map[string]*loop.Expectation{
		"True RoomAskedFor 3 replicas more than 5 are expected by when a machine comes, and room for them is asked for by Placeholders plimsoll-ahead-web":        {More: 3, To: 5},
		"False Recommending 3 replicas more than 5 are expected by when a machine comes, and room for them would be asked for by Placeholders plimsoll-ahead-web": {More: 3, To: 5, Held: because(v1alpha1.ReasonRecommending, "")},
		"False NothingExpected no more replicas are expected than there are to be":                                                                                {To: 5},
		"False FailedHandOff forbidden": {More: 3, Err: errors.New("forbidden")},
	} {
		h := newHouse(t)
		w := &workload{object: h.web(active), handOff: kube.ByPlaceholders}
		st := &v1alpha1.WorkloadAutoscalerStatus{}
		w.handedOff(conditions{&st.Conditions, 1, t0}, a)
		if c := st.Conditions[0]; fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message) != want {
			t.Errorf("%s %s %s, want %s", c.Status, c.Reason, c.Message, want)
		}
	}
}
