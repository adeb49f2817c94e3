package report

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/testbed"
)

// verdictOf are trials of policies whose cost, minutes and late parts are known.
func verdictOf(trials int, runs map[string][3][]float64, order ...string) *testbed.Results {
	r := &testbed.Results{Header: testbed.Header{Trials: trials}}
	for _, p := range order {
		r.Summary = append(r.Summary, testbed.Summary{Policy: p, Users: 10})
		for i := range trials {
			x := runs[p]
			r.Runs = append(r.Runs, testbed.Trial{
				Policy: p, Users: 10, Trial: i + 1, Requests: 1000,
				CostUnits: testbed.Number(x[0][i]), SLOViolationMinutes: int(x[1][i]), LateShare: testbed.Number(x[2][i]),
			})
		}
	}
	return r
}

// The verdict compares with the first policy, trial by trial, and claims only what is more than
// chance.
func TestTheVerdictIsBesideTheFirstPolicy(t *testing.T) {
	runs := map[string][3][]float64{
		"hpa":   {{100, 200, 300}, {10, 10, 10}, {.05, .05, .05}},
		"joint": {{80, 160, 240}, {4, 5, 6}, {.05, .01, .09}},
		"same":  {{90, 230, 290}, {9, 11, 10}, {.05, .05, .05}},
	}
	sentences, table := verdict(verdictOf(3, runs, "hpa", "joint", "same"))
	want := []string{
		"joint costs 20.0 % less, is over the target for 5.0 min less than hpa.",
		"same does not differ from hpa in cost, minutes over the target or late requests by more than chance.",
	}
	if diff := cmp.Diff(want, sentences); diff != "" {
		t.Error(diff)
	}
	row := []string{"joint", "-20.0 % (-20.0 to -20.0)", "-5.0 min (-7.5 to -2.5)", "+0.00 points (-9.94 to +9.94)"}
	if diff := cmp.Diff(row, table.Rows[0]); diff != "" {
		t.Error(diff)
	}

	// One trial has no interval; one policy is beside nothing.
	sentences, table = verdict(verdictOf(1, map[string][3][]float64{"hpa": {{100}, {10}, {.05}}, "joint": {{125}, {10}, {math.NaN()}}}, "hpa", "joint"))
	if diff := cmp.Diff([]string{"joint costs 25.0 % more than hpa."}, sentences); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"joint", "+25.0 %", "+0.0 min", "–"}, table.Rows[0]); diff != "" {
		t.Error(diff)
	}
	if sentences, _ := verdict(verdictOf(1, runs, "hpa")); sentences != nil {
		t.Errorf("one policy has a verdict: %v", sentences)
	}
}

// A table of zeros says nothing, and one with any other value does.
func TestTablesOfZerosAreNotShown(t *testing.T) {
	for cells, want := range map[string]bool{"0": false, "0.0 ± 0.0": false, "–": false, "0 %": false, "0.01": true, "7 ± 2": true, "✓": true} {
		table := testbed.Table{Rows: [][]string{{"p1", "0", cells}}, Left: 1}
		if got := says(&table); got != want {
			t.Errorf("%q: %v", cells, got)
		}
	}
	if says(&testbed.Table{}) {
		t.Error("an empty table says something")
	}
}
