package operator

import (
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
)

// twoPools is a house of two pools, of which the second is dearer.
func twoPools(t *testing.T, policy string) (h *house, aa, bb *v1alpha1.VMPool) {
	t.Helper()
	h = newHouse(t)
	h.cfg.Nodes.Policy = policy
	aa, bb = h.pool("aa", active), h.pool("bb", active)
	bb.Spec.VMIDs, bb.Spec.Shapes[0].Memory = v1alpha1.VMIDs{First: 2000, Last: 2099}, "8GiB"
	return h, aa, bb
}

func pausedFor(direction string) func(*v1alpha1.VMPool) {
	return func(p *v1alpha1.VMPool) { p.Annotations = map[string]string{v1alpha1.AnnotationPaused: direction} }
}

func observed(p *v1alpha1.VMPool) { p.Spec.Mode = v1alpha1.ModePoolRecommend }

// A pool that is paused or only observed is left as it is, and the others are worked as if it were
// not to be had.
func TestPoolsThatAreHeldLeaveItToOthers(t *testing.T) {
	waiting := func(h *house) { h.web(active) }
	empty := func(h *house) { h.node("bb", "1") }
	below := func(h *house) { h.pools["aa"].Spec.Min = 1; empty(h) }
	idle := func(h *house) { h.node("aa", "1"); empty(h) }
	draining := func(h *house) {
		idle(h)
		h.nodes[0].Draining, h.nodes[0].Cordoned = true, true
	}
	for _, policy := range []string{"joint", "unneeded"} {
		for _, c := range []struct {
			name  string
			hold  func(*v1alpha1.VMPool)
			world func(*house)
			want  string
		}{
			{"paused up, and pods wait", pausedFor("up"), waiting, "create bb"},
			{"paused, and pods wait", pausedFor("true"), waiting, "create bb"},
			{"observed, and pods wait", observed, waiting, "create bb"},
			{"observed, below its minimum", observed, below, "delete bb-1"},
			{"paused up, below its minimum", pausedFor("up"), below, "delete bb-1"},
			{"paused down, with an empty node", pausedFor("down"), idle, "delete bb-1"},
			{"paused while a node is emptied", pausedFor("true"), draining, "delete bb-1"},
			{"paused down while a node is emptied", pausedFor("down"), draining, "delete bb-1"},
		} {
			t.Run(policy+" "+c.name, func(t *testing.T) {
				h, aa, _ := twoPools(t, policy)
				c.hold(aa)
				c.world(h)
				h.begin().steps(180)
				h.expect("the other pool", true, slices.Contains(h.done, c.want))
				for _, what := range h.done {
					if strings.Contains(what, " aa") {
						t.Errorf("%s is done", what)
					}
				}
			})
		}
	}
}

// What would be done is shown where nothing is done at all; beside a pool that acts it would not be
// true.
func TestWhatWouldBeDoneIsToldOfPoolsUnlessOneActs(t *testing.T) {
	for _, both := range []bool{true, false} {
		h, aa, bb := twoPools(t, "joint")
		observed(aa)
		if both {
			observed(bb)
		}
		h.web(active)
		h.begin().steps(4)
		h.expect("what would be bought is told", both, strings.Contains(strings.Join(h.told, "\n"), "aa WouldBuy"))
		h.expect("and planned", both, aa.Status.LastPlan != nil)
		h.expect("observed", "True Recommending", said(aa.Status.Conditions)["Ready"])
		text := ""
		for _, c := range aa.Status.Conditions {
			if c.Type == v1alpha1.ConditionReady {
				text = c.Message
			}
		}
		h.expect("which of the two it is: "+text, !both, strings.Contains(text, "planned without it"))
	}
}
