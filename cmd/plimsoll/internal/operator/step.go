package operator

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/nodescaler/loop"
)

// workloadStep is a workload's part of a step, or nil if it has none.
func workloadStep(s *loop.Step, name string) *loop.WorkloadStep {
	i := slices.IndexFunc(s.Workloads, func(w loop.WorkloadStep) bool { return w.Workload == name })
	if i < 0 {
		return nil
	}
	return &s.Workloads[i]
}

func isTrue(all []metav1.Condition, kind string) bool {
	return slices.ContainsFunc(all, func(c metav1.Condition) bool { return c.Type == kind && c.Status == metav1.ConditionTrue })
}
