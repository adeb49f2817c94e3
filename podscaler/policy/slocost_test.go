package policy_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
)

// at is a view of r replicas that answer in so many ms while the machines cost so much an hour.
func at(r int, ms, cost float64) podscaler.View {
	rate := pricing.Rate(cost * 1e9)
	return podscaler.View{
		Replicas: r,
		Window:   podscaler.Window{Latency: podscaler.Known(ms / 1000)},
		Cost:     podscaler.Cost{Known: true, Joined: rate, Ordered: rate, Predicted: rate},
	}
}

func slocost(c policy.SLOCost) policy.Spec { return policy.Spec{Policy: "SLOCost", SLOCost: &c} }

func TestSLOCostMultipliesByK(t *testing.T) {
	symmetric := slocost(policy.SLOCost{Role: policy.Symmetric})
	capped := slocost(policy.SLOCost{})
	heavy := slocost(policy.SLOCost{Role: policy.Symmetric, RTWeight: new(0.9)})
	run(t, []scenario{
		{
			name: "scenario 23: r 4, w .5: rt 450, cost 40: k 1.25, 5", spec: symmetric, view: at(4, 450, 40),
			to: 5, reasons: []string{"SLOCostRatio: k 1.25 = 0.5 × 1.5 (response time 450ms, target 300ms) + 0.5 × 1 (cost 40, target 40 per 1h; joined and ordered machines, at the present rate)"},
		}, {
			name: "scenario 23: r 4, w .5: rt 150, cost 80: k .5, 2", spec: symmetric, view: at(4, 150, 80),
			to: 2, reasons: []string{"k 0.5 = 0.5 × 0.5 (response time 150ms, target 300ms) + 0.5 × 0.5 (cost 80, target 40 per 1h;"},
		}, {
			name: "scenario 23: r 4, w .5: rt 300, cost 40: 4", spec: symmetric, view: at(4, 300, 40),
			to: 4, reasons: []string{"k 1 = 0.5 × 1 (response time 300ms, target 300ms) + 0.5 × 1 (cost 40,"},
		}, {
			name: "scenario 23: r 4, w_rt .9: rt 600, cost 80: k 1.85, 8", spec: heavy, view: at(4, 600, 80),
			to: 8, reasons: []string{"k 1.85 = 0.9 × 2 (response time 600ms, target 300ms) + 0.1 × 0.5 (cost 80,"},
		}, {
			name: "scenario 24: rounding: rt 120, cost 50, r 5: exactly 3", spec: symmetric, view: at(5, 120, 50),
			to: 3, reasons: []string{"k 0.6 = 0.5 × 0.4 (response time 120ms, target 300ms) + 0.5 × 0.8 (cost 50,"},
		}, {
			name: "scenario 26: cheap, Symmetric: rt 60, cost 20, r 4: k 1.1, 5", spec: symmetric, view: at(4, 60, 20),
			to: 5, reasons: []string{"k 1.1 = 0.5 × 0.2 (response time 60ms, target 300ms) + 0.5 × 2 (cost 20,"},
		}, {
			name: "scenario 26: cheap, Cap: rt 60, cost 20, r 4: k .6, 3", spec: capped, view: at(4, 60, 20),
			to: 3, reasons: []string{
				"k 0.6 = 0.5 × 0.2 (response time 60ms, target 300ms) + 0.5 × 1 (cost 20,",
				"CostRatioCapped: cost 20 is below its target: the ratio 2 counts as 1",
			},
		}, {
			name: "dear, Cap is the formula", spec: capped, view: at(4, 150, 80),
			to: 2, reasons: []string{"k 0.5 = 0.5 × 0.5 (response time 150ms, target 300ms) + 0.5 × 0.5 (cost 80,"},
		}, {
			name: "k within (1 − 1/r, 1] does not shrink: 7 at k .86 stay", spec: symmetric, view: at(7, 216, 40),
			to: 7, reasons: []string{"k 0.86 = "},
		}, {
			name: "the policy knows no bounds, the scaler does", spec: symmetric, view: at(4, 30_000, 40),
			workload: func(w *podscaler.Workload) { w.Max = 48 },
			to:       48, proposed: 202, reasons: []string{"k 50.5 = ", "TooManyReplicas: 202 wanted, at most 48 allowed now"},
		}, {
			name: "a tolerance keeps k 1.04 from growing 100 replicas", spec: slocost(policy.SLOCost{Role: policy.Symmetric, Tolerance: 0.05}), view: at(100, 324, 40),
			to: 100, reasons: []string{"k 1.04 = ", "WithinTolerance: k 1.04 is within 0.05 of 1: 100 replicas stay"},
		}, {
			name: "k 1.06 is more than that", spec: slocost(policy.SLOCost{Role: policy.Symmetric, Tolerance: 0.05}), view: at(100, 336, 40),
			to: 106, reasons: []string{"k 1.06 = "},
		},
	})
}

func TestSLOCostCountsCostAsItsTargetSays(t *testing.T) {
	v := at(4, 300, 0)
	hourly := func(units int) pricing.Rate { return pricing.RateOf(pricing.Micros(units) * pricing.Unit) }
	v.Cost = podscaler.Cost{Known: true, Joined: hourly(20), Ordered: hourly(40), Predicted: hourly(160), Spent: 30 * pricing.Unit, PeriodLeft: 15 * time.Minute}
	target := func(count podscaler.CostCount, measure podscaler.CostMeasure) func(*podscaler.Workload) {
		return func(w *podscaler.Workload) {
			w.Cost = podscaler.CostTarget{Target: 40 * pricing.Unit, Per: 30 * time.Minute, Count: count, Measure: measure}
		}
	}
	symmetric := slocost(policy.SLOCost{Role: policy.Symmetric})
	run(t, []scenario{
		{
			name: "joined machines: 20/h is 10 per 30m, k 2.5", spec: symmetric, view: v, workload: target(podscaler.CountJoined, podscaler.MeasureRate),
			to: 10, reasons: []string{"+ 0.5 × 4 (cost 10, target 40 per 30m; joined machines, at the present rate)"},
		}, {
			name: "ordered ones too: 20 per 30m, k 1.5", spec: symmetric, view: v, workload: target(podscaler.CountOrdered, podscaler.MeasureRate),
			to: 6, reasons: []string{"+ 0.5 × 2 (cost 20, target 40 per 30m; joined and ordered machines, at the present rate)"},
		}, {
			name: "and those that pending replicas will need: 80 per 30m, k .75", spec: symmetric, view: v, workload: target(podscaler.CountPredicted, podscaler.MeasureRate),
			to: 3, reasons: []string{"+ 0.5 × 0.5 (cost 80, target 40 per 30m; joined, ordered and needed machines, at the present rate)"},
		}, {
			name: "projected: 30 spent and 15 min at 40/h are 40, k 1", spec: symmetric, view: v, workload: target(podscaler.CountOrdered, podscaler.MeasureProjected),
			to: 4, reasons: []string{"+ 0.5 × 1 (cost 40, target 40 per 30m; joined and ordered machines, spent so far and to come)"},
		},
	})
}

func TestSLOCostDoesNotGuess(t *testing.T) {
	spec := slocost(policy.SLOCost{Role: policy.Symmetric})
	v := at(4, 300, 40)
	without := func(change func(*podscaler.View)) podscaler.View {
		changed := v
		change(&changed)
		return changed
	}
	run(t, []scenario{
		{
			name: "scenario 28: NaN response time: no action", spec: spec, view: without(func(v *podscaler.View) { v.Window.Latency = podscaler.Reading{Known: true, Value: math.NaN()} }),
			to: 4, unknown: true, reasons: []string{"LatencyUnknown: the p90 of response times over 1m0s could not be measured"},
		}, {
			name: "no response time: no action", spec: spec, view: without(func(v *podscaler.View) { v.Window.Latency = podscaler.Reading{Why: "server error: 503"} }),
			to: 4, unknown: true, reasons: []string{"LatencyUnknown: the p90 of response times over 1m0s could not be measured: server error: 503"},
		}, {
			name: "no request comes, so there is no response time: none is late", spec: spec, view: without(func(v *podscaler.View) {
				v.Window.Latency, v.Window.Arrivals = podscaler.Reading{Known: true, Value: math.NaN()}, podscaler.Known(0)
			}),
			to: 2, reasons: []string{"k 0.5 = 0.5 × 0 (response time 0ms, target 300ms) + 0.5 × 1 (cost 40,"},
		}, {
			name: "unknown cost: no action", spec: spec, view: without(func(v *podscaler.View) {
				v.Cost = podscaler.Cost{Joined: 1, Ordered: 1, Why: "the machines could not be listed"}
			}),
			to: 4, unknown: true, reasons: []string{"CostUnknown: the present cost is not known: the machines could not be listed"},
		}, {
			name: "a cost of 0: no division, no action", spec: spec, view: without(func(v *podscaler.View) { v.Cost = podscaler.Cost{Known: true} }),
			to: 4, unknown: true, reasons: []string{"CostUnknown: the present cost is 0 (joined and ordered machines, at the present rate), which the target cannot be divided by"},
		},
	})
}

func TestSLOCostTakesItsCostFromThePriceBook(t *testing.T) {
	// Four nodes of 2 vCPU and 8 GB at 1 unit each are 40/h, on target.
	node := pricing.Shape{CPU: 2 * pricing.Core, Memory: 8 * pricing.GB}
	rate := 4 * pricing.DefaultBook().Rate(node, "pve1", now)
	v := at(4, 300, 0)
	v.Cost = podscaler.Cost{Known: true, Joined: rate, Ordered: rate, Predicted: rate}
	run(t, []scenario{{
		name: "scenario 28: 4 nodes at 10/h: 40/h, k 1", spec: slocost(policy.SLOCost{Role: policy.Symmetric}), view: v,
		to: 4, reasons: []string{"k 1 = ", "+ 0.5 × 1 (cost 40, target 40 per 1h;"},
	}})
}

func TestSLOCostWaitsForWhatItAskedFor(t *testing.T) {
	spec := slocost(policy.SLOCost{Role: policy.Symmetric, Wait: true})
	with := func(room podscaler.Room) podscaler.View {
		v := at(4, 900, 40)
		v.Room = room
		return v
	}
	run(t, []scenario{
		{
			name: "2 replicas not ready", spec: spec, view: with(podscaler.Room{PendingReplicas: 2}),
			to: 4, reasons: []string{"Waiting: replicas not ready: 2, machines booting: 0"},
		}, {
			name: "a machine boots", spec: spec, view: with(podscaler.Room{BootingMachines: 1}),
			to: 4, reasons: []string{"Waiting: replicas not ready: 0, machines booting: 1"},
		}, {
			name: "all is there", spec: spec, view: with(podscaler.Room{}),
			to: 8, reasons: []string{"k 2 = "},
		}, {
			name: "without wait it goes on", spec: slocost(policy.SLOCost{Role: policy.Symmetric}), view: with(podscaler.Room{PendingReplicas: 2, BootingMachines: 1}),
			to: 8, reasons: []string{"k 2 = "},
		},
	})
}

func TestSLOCostSettingsAreRefusedWithKeyRuleAndValue(t *testing.T) {
	for fault, c := range map[string]policy.SLOCost{
		"sloCost.rtWeight: must be above 0 and below 1, was 0":         {RTWeight: new(0.0)},
		"sloCost.rtWeight: must be above 0 and below 1, was 1":         {RTWeight: new(1.0)},
		"sloCost.rtWeight: must be above 0 and below 1, was NaN":       {RTWeight: new(math.NaN())},
		"sloCost.tolerance: must be at least 0 and below 1, was -0.05": {Tolerance: -0.05},
		"sloCost.role: must be Cap or Symmetric, was cap":              {Role: "cap"},
	} {
		_, err := policy.New(slocost(c))
		if err == nil || err.Error() != fault {
			t.Errorf("fault is %v, should be %q", err, fault)
		}
	}
	_, err := policy.New(slocost(policy.SLOCost{RTWeight: new(2.0), Tolerance: 1, Role: "?"}))
	if err == nil || len(strings.Split(err.Error(), "\n")) != 3 {
		t.Errorf("faults are %v, should be all three", err)
	}
}

func TestSLOCostNeedsOfItsWorkload(t *testing.T) {
	p, err := policy.New(policy.Spec{Policy: "slocost"})
	if err != nil {
		t.Fatal(err)
	}
	w := podscaler.Workload{Name: "shop/web", Max: 3}
	err = policy.Check(&w, p)
	if err == nil {
		t.Fatal("a workload without targets is accepted")
	}
	want := []string{
		"slo.target: must be above 0 for policy SLOCost, was 0s",
		"cost.target: must be above 0 for policy SLOCost, was 0",
		"minReplicas: must be at least 1 for policy SLOCost, which multiplies what is there, was 0",
	}
	if got := strings.Split(err.Error(), "\n"); !slices.Equal(got, want) {
		t.Errorf("faults are %q, should be %q", got, want)
	}
}
