package resources

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestGuardsAreReadAsTheyAreWritten(t *testing.T) {
	var a v1alpha1.WorkloadAutoscaler
	accepted(t, "wla-guards-full", &a)
	w, _, _, err := Autoscaler(&a)
	if err != nil {
		t.Fatal(err)
	}
	must.Do(t, w.Validate())
	var berlin pricing.Zone
	must.Do(t, berlin.UnmarshalText([]byte("Europe/Berlin")))
	november := func(d int) time.Time { return time.Date(2026, 11, d, 0, 0, 0, 0, time.UTC) }
	want := podscaler.Workload{
		Schedules: []podscaler.Schedule{
			{Name: "office", Start: cron(t, "0 8 * * mon-fri"), End: cron(t, "0 20 * * mon-fri"), Zone: berlin, Min: new(6), Ramp: 10 * time.Minute},
			{Name: "night", Start: cron(t, "@midnight"), End: cron(t, "0 6 * * *"), Max: new(10)},
			{Name: "sale", From: november(27), To: november(28), Min: new(20), Max: new(40)},
		},
		Fallback:  &podscaler.Fallback{After: 5 * time.Minute, Behavior: podscaler.FallbackCurrentIfHigher, Replicas: 6},
		Readiness: podscaler.Readiness{InitialDelay: new(30 * time.Second), CPUInitialization: new(5 * time.Minute), MinAvailablePercent: 50},
		Upstream:  podscaler.Upstream{Drop: 0.8, Within: 2 * time.Minute, ErrorRise: 0.05, Hold: 10 * time.Minute},
	}
	got := podscaler.Workload{Schedules: w.Schedules, Fallback: w.Fallback, Readiness: w.Readiness, Upstream: w.Upstream}
	same := cmp.Comparer(func(a, b *time.Location) bool {
		return (a == nil) == (b == nil) && (a == nil || a.String() == b.String())
	})
	if diff := cmp.Diff(want, got, same); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestFaultsOfGuardsNameFieldRuleAndValue(t *testing.T) {
	var a v1alpha1.WorkloadAutoscaler
	accepted(t, "wla-guards-full", &a)
	a.Spec.Schedules[0].Start = "0 25 * * *"
	a.Spec.Schedules[0].TimeZone = "Europe/Berlln"
	a.Spec.Schedules[1].End = "0 6 31 2 *"
	_, _, _, err := Autoscaler(&a)
	if err == nil {
		t.Fatal("it was accepted")
	}
	const want = `spec.schedules[0].start: hour must be between 0 and 23, was "25" in "0 25 * * *"
spec.schedules[0].timeZone: must be UTC or the name of a time zone, such as Europe/Berlin, was "Europe/Berlln"
spec.schedules[1].end: must be a date that comes: no month of it has that day, was "0 6 31 2 *"`
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func cron(t *testing.T, s string) podscaler.Cron {
	t.Helper()
	c := must.Get(podscaler.ParseCron(s))(t)
	return c
}
