package operator

import (
	"testing"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// What people have fixed, or keep from going one way, would not be done either.
func TestOutlookGoesByWhatPeoplePaused(t *testing.T) {
	for _, c := range []struct {
		said map[string]string
		want int
	}{
		{nil, 8},
		{map[string]string{v1alpha1.AnnotationPausedReplicas: "3"}, 3},
		{map[string]string{v1alpha1.AnnotationPaused: v1alpha1.PauseUp}, 4},
		{map[string]string{v1alpha1.AnnotationPaused: v1alpha1.PauseDown}, 8},
		// What would be done is still shown.
		{map[string]string{v1alpha1.AnnotationPaused: "true"}, 8},
	} {
		h := newHouse(t)
		web := h.web(active)
		web.Annotations = c.said
		h.node("workers", "a")
		h.cores = 1
		state, err := h.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		targets, err := h.Targets(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		seen := &Seen{Picture: &kube.Picture{State: state, Autoscalers: []*v1alpha1.WorkloadAutoscaler{web}, Targets: targets}, Machines: h.machines}
		out, err := h.cfg.Foresee(t.Context(), seen, h.now)
		if err != nil {
			t.Fatal(err)
		}
		if to := out.Workloads[0].Step.Decision.To; to != c.want {
			t.Errorf("%v: %d replicas, want %d", c.said, to, c.want)
		}
	}
}

// What would be done to a pool that is paused is still shown, with that it is paused.
func TestOutlookSaysWhichPoolsArePaused(t *testing.T) {
	h := newHouse(t)
	h.pool("free", active)
	held := h.pool("held", active)
	held.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true", v1alpha1.AnnotationPausedBy: "ann"}
	out := h.outlook()
	if len(out.Paused) != 1 || out.Paused["held"] != "paused by ann" {
		t.Errorf("paused are %v", out.Paused)
	}
}

// A pool in mode Recommend is planned for, unless others act: as plimsoll run does.
func TestOutlookPlansWithoutPoolsThatAreOnlyObserved(t *testing.T) {
	for mode, want := range map[string]bool{active: true, "": false} {
		h := newHouse(t)
		h.pool("acts", mode)
		h.pool("watches", "").Spec.VMIDs = v1alpha1.VMIDs{First: 2000, Last: 2099}
		out := h.outlook()
		if len(out.Pools) != 2 {
			t.Fatalf("the pools are %v", out.Pools)
		}
		for _, p := range out.Pools {
			if got := p.HeldUp != nil && p.HeldDown != nil; got != (want && p.Name == "watches") {
				t.Errorf("beside mode %q pool %s is held: %t", mode, p.Name, got)
			}
		}
	}
}

// outlook is what would be done with what there is.
func (h *house) outlook() *Outlook {
	h.Helper()
	picture := &kube.Picture{State: must.Get(h.Observe(h.Context()))(h), Pools: must.Get(h.Pools())(h)}
	return must.Get(h.cfg.Foresee(h.Context(), &Seen{Picture: picture}, h.now))(h)
}
