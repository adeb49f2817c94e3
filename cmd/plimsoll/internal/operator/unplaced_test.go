package operator

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
)

// unplacedIn is how many pods the metric counts for a reason.
func unplacedIn(h *house, registry *prometheus.Registry, code string) int {
	h.Helper()
	return int(series(h.T, registry, "plimsoll_pods_unplaced")[code])
}

// measuredHouse is a house with the registry of its metrics.
func measuredHouse(t *testing.T) (*house, *prometheus.Registry) {
	t.Helper()
	h, registry := newHouse(t), prometheus.NewPedanticRegistry()
	var err error
	if h.cfg.Metrics, err = NewMetrics(registry); err != nil {
		t.Fatal(err)
	}
	return h, registry
}

// Pods that no machine would help are shown in events, in the pool's condition and the workload's,
// and in a metric, all of which say it no more once they have a place.
func TestPodsWithoutAPlaceAreShown(t *testing.T) {
	h, registry := measuredHouse(t)
	w := h.web(active)
	p := h.pool("aa", active)
	p.Spec.Max, h.replicas["shop/web"], h.cores = 1, 10, 2
	h.begin().steps(1)
	h.expect("before the first plan", "", said(p.Status.Conditions)["PodsUnplaced"])
	h.steps(5)
	h.expect("the condition", "True PoolAtMax", said(p.Status.Conditions)["PodsUnplaced"])
	h.expect("the workload's", "True PoolAtMax", said(w.Status.Conditions)["CapacityHeld"])
	events := strings.Join(h.told, "\n")
	h.expect("the pod's event", true, strings.Contains(events,
		"Pod shop/web-04 NotTriggerScaleUp: no machine is ordered for it: PoolAtMax: pool aa: at its maximum of 1 machine; what would help: a max of pool aa above 1"))
	h.expect("the pool's event", true, strings.Contains(events, "VMPool aa PoolAtMax: "))
	h.expect("the metric", 6, unplacedIn(h, registry, nodescaler.PoolAtMax))
	p.Spec.Max = 9
	h.steps(6)
	h.expect("the condition then", "False AllPlaced", said(p.Status.Conditions)["PodsUnplaced"])
	h.expect("the metric then", 0, unplacedIn(h, registry, nodescaler.PoolAtMax))
}

// Pods that a machine is ordered for, nodes that are emptied and pods that are evicted say so, in
// cluster-autoscaler's words; what is only recommended says nothing.
func TestPodsAndNodesSayWhatIsDone(t *testing.T) {
	for _, mode := range []string{"Active", "Recommend"} {
		h := newHouse(t)
		h.cfg.Active = mode == "Active"
		h.begin()
		s := &loop.Step{Plan: nodescaler.Plan{Actions: []nodescaler.Action{
			{Kind: nodescaler.Buy, Pool: "aa", Order: "o1", Shape: &pricing.Shape{Name: "small"}, Pods: []string{"shop/a", "shop/b"}},
			{Kind: nodescaler.Cordon, Node: "w-1", Reasons: []nodescaler.Reason{{Code: nodescaler.NodeEmpty, Text: "no pods"}}},
			{Kind: nodescaler.Evict, Node: "w-1", Pod: "shop/c"},
			{Kind: nodescaler.Return, Node: "w-1", Machine: "w-1"},
			{Kind: nodescaler.Wake, Machine: "aa-2", Pool: "aa", Pods: []string{"shop/d"}},
			{Kind: nodescaler.Buy, Pool: "aa", Order: "o2", Shape: &pricing.Shape{Name: "small"}, Pods: []string{"shop/e"}},
			{Kind: nodescaler.Buy, Pool: "aa", Order: "o3", Shape: &pricing.Shape{Name: "small"}, Pods: []string{"shop/f"}},
		}}}
		var want []string
		if mode == "Active" {
			for i := range 5 {
				s.Outcomes = append(s.Outcomes, loop.Outcome{Action: i})
			}
			s.Outcomes = append(s.Outcomes, loop.Outcome{Action: 5, Error: "refused"}, loop.Outcome{Action: 6, Held: &nodescaler.Reason{Code: "Paused", Text: "paused by ann"}})
			want = []string{
				"Pod shop/a TriggeredScaleUp: pool aa: a machine is on its way: small " + nodescaler.MachineName("aa", "o1"),
				"Pod shop/b TriggeredScaleUp: pool aa: a machine is on its way: small " + nodescaler.MachineName("aa", "o1"),
				"Node w-1 ScaleDown: the node is cordoned and will be emptied: no pods",
				"Pod shop/c ScaleDown: evicted, to empty node w-1",
				"Node w-1 ScaleDown: the node's machine is returned",
				"Pod shop/d TriggeredScaleUp: pool aa: a machine is on its way: aa-2",
				"Pod shop/f WouldTriggerScaleUp: pool aa would get a machine of shape small: paused by ann",
			}
		} else {
			for _, pod := range "abdef" {
				does := "get a machine of shape small"
				if pod == 'd' {
					does = "start spare aa-2"
				}
				want = append(want, fmt.Sprintf("Pod shop/%c WouldTriggerScaleUp: pool aa would %s: Plimsoll is in mode Recommend", pod, does))
			}
		}
		h.term.eventsOfActions(s)
		h.expect("events", strings.Join(want, "\n"), strings.Join(h.told, "\n"))
	}
}

// Thousands of pods make a bounded number of events a step, and few of each workload.
func TestEventsAboutPodsAreBounded(t *testing.T) {
	h := newHouse(t)
	h.begin()
	s := &loop.Step{}
	for i := range 100 {
		u := nodescaler.Unplaced{Workload: fmt.Sprintf("ns/w%02d", i/4), Count: 1000, Why: nodescaler.Reason{Code: nodescaler.PoolAtMax}}
		for n := range nodescaler.UnplacedNamed {
			u.Pods = append(u.Pods, fmt.Sprintf("ns/w%02d-%d-%d", i/4, i, n))
		}
		s.Plan.Unplaced = append(s.Plan.Unplaced, u)
	}
	h.term.eventsAboutPods(s)
	h.expect("events", podEventsPerStep, len(h.told))
	of := 0
	for _, e := range h.told {
		if strings.HasPrefix(e, "Pod ns/w00-") {
			of++
		}
	}
	h.expect("of one workload", podEventsPerWorkload, of)
}

// A code that the metric does not know is counted all the same.
func TestUnknownReasonsAreCounted(t *testing.T) {
	h, registry := measuredHouse(t)
	h.cfg.Metrics.unplaced(&loop.Step{Plan: nodescaler.Plan{Unplaced: []nodescaler.Unplaced{{Count: 3, Why: nodescaler.Reason{Code: "New"}}}}})
	h.expect("the metric", 3, unplacedIn(h, registry, otherReason))
}
