package policy

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestNames(t *testing.T) {
	if d := cmp.Diff([]string{"joint", "pending", "unneeded"}, Names()); d != "" {
		t.Error(d)
	}
	for _, name := range append(Names(), "Pending", "Unneeded") {
		if _, err := New(Spec{Policy: name}); err != nil {
			t.Errorf("%s with its defaults: %v", name, err)
		}
	}
	_, err := New(Spec{Policy: "greedy"})
	if want := `policy: must be one of joint, pending, unneeded, was "greedy"`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestSettingsAreReadOverTheDefaults(t *testing.T) {
	var s Spec
	must.Do(t, json.Unmarshal([]byte(`{"policy": "unneeded",
		"pending": {"parallel": 8, "countAs": "allocatable"},
		"unneeded": {"scaleDownDelayAfterAdd": "0s", "scaleDownUnneededTime": "90s"}}`), &s))
	p, u := DefaultPending(), DefaultUnneeded()
	p.Parallel, p.CountAs = 8, CountAllocatable
	u.ScaleDownDelayAfterAdd, u.ScaleDownUnneededTime = 0, nodescaler.Duration(90*time.Second)
	if d := cmp.Diff(Spec{Policy: "unneeded", Pending: &p, Unneeded: &u}, s); d != "" {
		t.Error(d)
	}
	text := must.Get(json.Marshal(s))(t)
	var again Spec
	if err := json.Unmarshal(text, &again); err != nil || cmp.Diff(s, again) != "" {
		t.Errorf("%s reads back as %+v, %v", text, again, err)
	}
}

func TestBadSettingsAreRefusedWithKeyRuleAndValue(t *testing.T) {
	tests := []struct{ spec, want string }{
		{`{"policy": "pending", "pending": {"parallel": 0, "loadHeadroom": -1, "countAs": "pods", "pollInterval": "0s", "waitForJoin": "-1s"}}`,
			"pending.pollInterval: must be longer than 0s, was 0s\n" +
				"pending.parallel: must be at least 1, was 0\n" +
				"pending.loadHeadroom: must be between 0 and 10, was -1\n" +
				"pending.countAs: must be shape or allocatable, was pods\n" +
				"pending.waitForJoin: must be 0s or longer, was -1s"},
		{`{"policy": "pending", "pending": {"parallel": "three", "workers": 3, "pollInterval": "10"}}`,
			"pending.parallel: must be of type int, was \"three\"\n" +
				"pending.pollInterval: must be a duration such as 30s or 5m, was \"10\"\n" +
				"pending.workers: no such setting"},
		{`{"policy": "pending", "pending": 7}`, "pending: must be a block of settings, was 7"},
		{`{"policy": "unneeded", "unneeded": {"scanInterval": "0s", "maxNodeProvisionTime": "0s", "initialNodeGroupBackoffDuration": "1h",
			"scaleDownUtilizationThreshold": 50, "maxScaleDownParallelism": 0, "maxDrainParallelism": 0, "maxEmptyBulkDelete": 0,
			"okTotalUnreadyCount": -1, "maxTotalUnreadyPercentage": 101, "scaleDownUnneededTime": "-1m"}}`,
			"unneeded.scanInterval: must be longer than 0s, was 0s\n" +
				"unneeded.maxNodeProvisionTime: must be longer than 0s, was 0s\n" +
				"unneeded.maxNodeGroupBackoffDuration: must be at least initialNodeGroupBackoffDuration (1h0m0s), was 30m0s\n" +
				"unneeded.scaleDownUtilizationThreshold: must be between 0 and 1, was 50\n" +
				"unneeded.maxScaleDownParallelism: must be at least 1, was 0\n" +
				"unneeded.maxDrainParallelism: must be at least 1, was 0\n" +
				"unneeded.maxEmptyBulkDelete: must be at least 1, was 0\n" +
				"unneeded.okTotalUnreadyCount: must be 0 or more, was -1\n" +
				"unneeded.maxTotalUnreadyPercentage: must be between 0 and 100, was 101\n" +
				"unneeded.scaleDownUnneededTime: must be 0s or longer, was -1m0s"},
	}
	for _, tt := range tests {
		var s Spec
		err := json.Unmarshal([]byte(tt.spec), &s)
		if err == nil {
			_, err = New(s)
		}
		if err == nil {
			t.Errorf("%s is accepted", tt.spec)
		} else if d := cmp.Diff(tt.want, err.Error()); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.spec, d)
		}
	}
}

// What is just within the bounds is accepted.
func TestSettingsAtTheirBoundsAreAccepted(t *testing.T) {
	for _, spec := range []string{
		`{"policy": "unneeded", "unneeded": {"scaleDownUtilizationThreshold": 0, "maxTotalUnreadyPercentage": 0, "okTotalUnreadyCount": 0,
			"maxScaleDownParallelism": 1, "maxDrainParallelism": 1, "maxEmptyBulkDelete": 1,
			"initialNodeGroupBackoffDuration": "5m", "maxNodeGroupBackoffDuration": "5m", "scanInterval": "1ns", "scaleDownUnneededTime": "0s"}}`,
		`{"policy": "unneeded", "unneeded": {"scaleDownUtilizationThreshold": 1, "maxTotalUnreadyPercentage": 100}}`,
		`{"policy": "joint", "joint": {"lead": "1ns", "rebuy": "0s", "drains": 1, "spares": {"most": 0, "worth": 1000000}}}`,
		`{"policy": "joint", "joint": {"spares": {"worth": 1e-9}}}`,
	} {
		var s Spec
		err := json.Unmarshal([]byte(spec), &s)
		if err == nil {
			_, err = New(s)
		}
		if err != nil {
			t.Errorf("%s: %v", spec, err)
		}
	}
}
