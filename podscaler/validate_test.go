package podscaler_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

func TestWorkloadFaultsNameKeyRuleAndValue(t *testing.T) {
	type W = podscaler.Workload
	cases := []struct {
		change func(*W)
		fault  string
	}{
		{func(w *W) { w.Name = "" }, `name: must not be empty, was ""`},
		{func(w *W) { w.Min = -1 }, "minReplicas: must be at least 0, was -1"},
		{func(w *W) { w.Min, w.Max = 0, 0 }, "maxReplicas: must be at least 1, was 0"},
		{func(w *W) { w.Min, w.Max = 5, 3 }, "maxReplicas: must be at least minReplicas, which is 5, was 3"},
		{func(w *W) { w.RunPeriod = -time.Second }, "runPeriod: must be at least 0, was -1s"},
		{func(w *W) { w.Cooldown = -time.Second }, "stabilizationWindow: must be at least 0, was -1s"},
		{func(w *W) { w.Pod.CPU = -1 }, "pod.cpu: must be at least 0, was -1"},
		{func(w *W) { w.Pod.Memory = -1 }, "pod.memory: must be at least 0, was -1"},
		{func(w *W) { w.SLO.Target = -time.Second }, "slo.target: must be at least 0, was -1s"},
		{func(w *W) { w.SLO.Quantile = 1 }, "slo.p: must be above 0 and below 1, was 1"},
		{func(w *W) { w.SLO.Quantile = math.NaN() }, "slo.p: must be above 0 and below 1, was NaN"},
		{func(w *W) { w.SLO.Window = 0 }, "slo.window: must be above 0, was 0s"},
		{func(w *W) { w.Cost.Target = -pricing.Unit }, "cost.target: must be at least 0, was -1"},
		{func(w *W) { w.Cost.Per = 0 }, "cost.per: must be above 0, was 0s"},
		{func(w *W) { w.Cost.Count = "all" }, "cost.count: must be joined, ordered or predicted, was all"},
		{func(w *W) { w.Cost.Measure = "total" }, "cost.measure: must be rate or projected, was total"},
		{func(w *W) { w.Fallback = &podscaler.Fallback{Replicas: 5, After: -1} }, "fallback.after: must be at least 0, was -1ns"},
		{func(w *W) { w.Fallback = &podscaler.Fallback{Replicas: 101} }, "fallback.replicas: must be above 0 and between minReplicas and maxReplicas, which are 1 and 100, was 101"},
		{func(w *W) { w.Min, w.Fallback = 0, &podscaler.Fallback{Behavior: podscaler.FallbackStatic} }, "fallback.replicas: must be above 0 and between minReplicas and maxReplicas, which are 0 and 100, was 0"},
		{func(w *W) { w.Fallback = &podscaler.Fallback{Behavior: podscaler.FallbackCurrent, Replicas: 3} }, "fallback.replicas: must be unset with behavior Current, which does not look at it, was 3"},
		{func(w *W) { w.Fallback = &podscaler.Fallback{Behavior: "Max", Replicas: 3} }, "fallback.behavior: must be Static, Current, CurrentIfHigher or CurrentIfLower, was Max"},
		{func(w *W) { w.Readiness.InitialDelay = new(-time.Second) }, "readiness.initialDelay: must be at least 0, was -1s"},
		{func(w *W) { w.Readiness.CPUInitialization = new(-time.Second) }, "readiness.cpuInitialization: must be at least 0, was -1s"},
		{func(w *W) { w.Readiness.MinAvailablePercent = 101 }, "readiness.minAvailablePercent: must be between 0 and 100, was 101"},
		{func(w *W) { w.Upstream.Drop = 1.1 }, "upstream.drop: must be above 0 and at most 1, was 1.1"},
		{func(w *W) { w.Upstream.ErrorRise = math.NaN() }, "upstream.errorRise: must be above 0 and at most 1, was NaN"},
		{func(w *W) { w.Upstream.Within = -time.Second }, "upstream.within: must be above 0, was -1s"},
		{func(w *W) { w.Upstream.Hold = -time.Second }, "upstream.hold: must be above 0, was -1s"},
		{func(w *W) { w.Behavior.Up.Window = 2 * time.Hour }, "behavior.scaleUp.stabilizationWindowSeconds: must be between 0 and 1h, was 2h0m0s"},
		{func(w *W) { w.Behavior.Down.Select = "Most" }, "behavior.scaleDown.selectPolicy: must be Max, Min or Disabled, was Most"},
		{func(w *W) { w.Behavior.Down.Tolerance = new(-0.1) }, "behavior.scaleDown.tolerance: must be at least 0, was -0.1"},
		{func(w *W) { w.Behavior.Up.Policies = nil }, "behavior.scaleUp.policies: must name at least one policy, unless selectPolicy is Disabled, was 0"},
		{func(w *W) { w.Behavior.Up.Policies[1].Pods = 3 }, "behavior.scaleUp.policies[1]: must have a value above 0 in either pods or percent, was 3 pods and 100 percent"},
		{func(w *W) { w.Behavior.Down.Policies[0].Percent = 0 }, "behavior.scaleDown.policies[0]: must have a value above 0 in either pods or percent, was 0 pods and 0 percent"},
		{func(w *W) { w.Behavior.Up.Policies[0].Pods = 1 << 31 }, "behavior.scaleUp.policies[0].pods: must be at most 2147483647, was 2147483648"},
		{func(w *W) { w.Behavior.Up.Policies[1].Percent = 1 << 31 }, "behavior.scaleUp.policies[1].percent: must be at most 2147483647, was 2147483648"},
		{func(w *W) { w.Behavior.Up.Policies[0].Period = time.Hour }, "behavior.scaleUp.policies[0].periodSeconds: must be between 1s and 30m, was 1h0m0s"},
		{func(w *W) { w.Behavior.Legacy = true }, "behavior.scaleUp.policies: must be empty with the legacy behavior, which does not look at them, was 2"},
		{func(w *W) { w.Behavior.Legacy = true }, "behavior.scaleUp.selectPolicy: must be empty with the legacy behavior, which does not look at it, was Max"},
		{func(w *W) { w.Behavior = podscaler.LegacyBehavior(); w.Behavior.Up.Window = time.Minute }, "behavior.scaleUp.stabilizationWindowSeconds: must be 0 with the legacy behavior, which does not look at it, was 1m0s"},
	}
	valid := func() W {
		return workload(func(w *W) {
			w.SLO = podscaler.SLO{Quantile: 0.9, Target: 300 * time.Millisecond, Window: time.Minute}
			w.Cost = podscaler.CostTarget{Target: 40 * pricing.Unit, Per: time.Hour}
			w.Behavior = podscaler.DefaultBehavior()
		})
	}
	if w := valid(); w.Validate() != nil {
		t.Fatalf("a valid workload is refused: %v", w.Validate())
	}
	for _, c := range cases {
		w := valid()
		c.change(&w)
		if err := w.Validate(); err == nil || !strings.Contains(err.Error(), c.fault) {
			t.Errorf("faults are %v, should have %q", err, c.fault)
		}
	}
}

func TestEveryFaultIsReported(t *testing.T) {
	w := podscaler.Workload{Min: -1, RunPeriod: -1}
	err := w.Validate()
	if err == nil {
		t.Fatal("four faults are not seen")
	}
	if n := len(strings.Split(err.Error(), "\n")); n != 4 {
		t.Errorf("%d faults are reported, should be 4:\n%v", n, err)
	}
}

func TestBothBehaviorsAreValid(t *testing.T) {
	for _, b := range []*podscaler.Behavior{podscaler.LegacyBehavior(), podscaler.DefaultBehavior()} {
		w := workload(func(w *podscaler.Workload) { w.Behavior = b })
		if err := w.Validate(); err != nil {
			t.Error(err)
		}
	}
}
