package live

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll/plimsoll/testbed"
)

// Must notes a fault unless a rule is kept.
type Must func(kept bool, key, rule string, was any)

// Check notes what of an experiment cannot be in any world that goes by the clock.
func Check(e *testbed.Experiment, must Must) {
	must(len(e.Workloads) == 1, "workloads", "one", len(e.Workloads))
	must(len(e.Load.Scenarios) == 0, "load.scenarios", "omitted: k6 keeps the number of users", len(e.Load.Scenarios))
	must(e.Signals.Late == 0, "signals.late", "omitted", e.Signals.Late)
	must(len(e.Faults) == 0, "faults", "omitted", len(e.Faults))
	must(e.Duration%time.Minute == 0, "duration", "whole minutes", e.Duration)
	for i := range e.Pools {
		p := &e.Pools[i]
		must(p.Start == p.Min, fmt.Sprintf("pools[%d].start", i), "min, which Plimsoll makes by itself", p.Start)
		must(len(p.Resources) == 0, fmt.Sprintf("pools[%d].resources", i), "omitted", p.Resources)
	}
	for i := range e.Workloads {
		must(e.Workloads[i].Priority == 0, fmt.Sprintf("workloads[%d].priority", i), "omitted", e.Workloads[i].Priority)
	}
	for i := range e.Policies {
		p := &e.Policies[i]
		must(!p.Clairvoyant, "policies "+p.Name, "without what knows the load to come", "clairvoyant")
	}
}

// NodeReady reports whether a node is ready.
func NodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// PodReady reports whether a pod has been ready for a moment. Times are whole seconds in
// Kubernetes, and an HPA does not count what a pod uses while it becomes ready.
func PodReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && time.Since(c.LastTransitionTime.Time) > 2*time.Second
	})
}
