package policy_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestPoliciesAreFoundByEitherName(t *testing.T) {
	names := policy.Names()
	if !slices.IsSorted(names) || !slices.Contains(names, "hpa") || !slices.Contains(names, "slocost") {
		t.Errorf("names are %v, should be sorted and have hpa and slocost", names)
	}
	for _, name := range append(names, "HPA", "SLOCost") {
		if _, err := policy.New(policy.Spec{Policy: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnUnknownPolicyIsToldWhichThereAre(t *testing.T) {
	for _, name := range []string{"vpa", ""} {
		_, err := policy.New(policy.Spec{Policy: name})
		want := "policy: must be one of " + strings.Join(policy.Names(), ", ") + `, was "` + name + `"`
		if err == nil || err.Error() != want {
			t.Errorf("fault is %v, should be %s", err, want)
		}
	}
}

func TestSettingsOfAnotherPolicyAreRefused(t *testing.T) {
	_, err := policy.New(policy.Spec{Policy: "watermark", FastSlow: &policy.FastSlow{}, HPA: &policy.HPA{}, Watermark: &policy.Watermark{Multiple: -1}})
	want := `fastSlow: may be there only with policy FastSlow, was Watermark
hpa: may be there only with policy HPA, was Watermark
watermark.multiple: must be between 1 and 2147483647, was -1`
	if err == nil || err.Error() != want {
		t.Errorf("faults are\n%v\nshould be\n%s", err, want)
	}
}

func TestSpecsAreReadAndPrintedAsPeopleWriteThem(t *testing.T) {
	const text = `{
		"policy": "HPA",
		"hpa": {
			"metrics": [
				{"type": "Resource", "name": "cpu", "averageUtilization": 60},
				{"type": "Resource", "name": "cpu", "averageValue": "250m"},
				{"type": "External", "name": "queue", "averageValue": 10},
				{"type": "Object", "name": "bytes", "value": "1.5Mi"}
			],
			"tolerance": 0.05,
			"cpuInitializationPeriod": "2m",
			"initialReadinessDelay": "10s"
		},
		"fastSlow": {"target": 55, "tolerance": 0.1, "scaleUpFactor": 3, "downStep": 2, "downWindow": "15m"},
		"sloCost": {"rtWeight": 0.9, "role": "Symmetric", "wait": true, "tolerance": 0.1},
		"watermark": {
			"algorithm": "Absolute", "high": "1200m", "low": 0.4, "tolerance": 0.02, "upLimitPercent": 0, "downLimitPercent": 20,
			"cooldown": {"up": "1m"}, "delay": {"down": "30s"}, "multiple": 3, "convergeTo": "High", "antiOscillation": false, "tolerateZero": true,
			"metrics": [{"type": "Pods", "name": "load", "high": 5}]
		}
	}`
	want := policy.Spec{
		Policy: "HPA",
		HPA: &policy.HPA{
			Metrics: []policy.Metric{
				{Type: policy.Resource, Name: "cpu", AverageUtilization: 60},
				{Type: policy.Resource, Name: "cpu", AverageValue: 250},
				{Type: policy.External, Name: "queue", AverageValue: 10_000},
				{Type: policy.Object, Name: "bytes", Value: 1536 * 1024 * 1000},
			},
			Tolerance:               new(0.05),
			CPUInitializationPeriod: new(podscaler.Duration(2 * time.Minute)),
			InitialReadinessDelay:   new(podscaler.Duration(10 * time.Second)),
		},
		FastSlow: &policy.FastSlow{
			Target: new(policy.Quantity(55_000)), Tolerance: new(0.1), ScaleUpFactor: new(3.0), DownStep: new(2),
			DownWindow: new(podscaler.Duration(15 * time.Minute)),
		},
		SLOCost: &policy.SLOCost{RTWeight: new(0.9), Role: policy.Symmetric, Wait: true, Tolerance: 0.1},
		Watermark: &policy.Watermark{
			Algorithm: policy.Absolute, High: 1200, Low: 400, Tolerance: new(0.02), UpLimitPercent: new(0), DownLimitPercent: new(20),
			Cooldown: policy.ByDirection{Up: seconds(60)}, Delay: policy.ByDirection{Down: seconds(30)}, Multiple: 3,
			ConvergeTo: policy.ConvergeHigh, AntiOscillation: new(false), TolerateZero: true,
			Metrics: []policy.WatermarkMetric{{Type: policy.Pods, Name: "load", High: 5000}},
		},
	}
	var got policy.Spec
	must.Do(t, json.Unmarshal([]byte(text), &got))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	printed := must.Get(json.Marshal(got))(t)
	var again policy.Spec
	must.Do(t, json.Unmarshal(printed, &again))
	if diff := cmp.Diff(got, again); diff != "" {
		t.Errorf("printed and read again (-want +got):\n%s", diff)
	}
}

func TestQuantitiesAreExactOrRefused(t *testing.T) {
	for text, want := range map[string]policy.Quantity{
		"25m": 25, "1500m": 1500, "0.5": 500, "10": 10_000, "2k": 2_000_000, "1Ki": 1_024_000, "-3": -3000, "0.001": 1,
	} {
		got, err := policy.ParseQuantity(text)
		if err != nil || got != want {
			t.Errorf("%q is %d thousandths (%v), should be %d", text, int64(got), err, int64(want))
		}
		if again, err := policy.ParseQuantity(got.String()); err != nil || again != got {
			t.Errorf("%q is printed as %q, which is read as %d (%v)", text, got, int64(again), err)
		}
	}
	for _, text := range []string{"", "abc", "1e3", "0.5m", "0.0001", "5 m", "5mm", ".5", "9999999T"} {
		if got, err := policy.ParseQuantity(text); err == nil || !strings.HasSuffix(err.Error(), `was "`+text+`"`) {
			t.Errorf("%q is read as %d (%v), should be refused with its value", text, int64(got), err)
		}
	}
	var d podscaler.Duration
	if err := d.UnmarshalText([]byte("5")); err == nil || err.Error() != `must be a duration such as 30s or 5m, was "5"` {
		t.Errorf("a duration without a unit: %v", err)
	}
}
