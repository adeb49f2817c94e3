package testbed

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// made are results of two trials each, given as p90 and cost of the first; the second is 2 ms
// and 0.2 units more for every policy alike.
func made(cells ...Trial) *Results {
	r := &Results{Header: Header{Unit: "units", Trials: 2}}
	for _, c := range cells {
		for trial := range 2 {
			run := c
			run.Trial = trial + 1
			run.P90Ms += Number(2 * trial)
			run.CostUnits += Number(0.2 * float64(trial))
			r.Runs = append(r.Runs, run)
		}
	}
	r.sum()
	return r
}

func run(policy string, users int, p90, cost Number) Trial {
	return Trial{Policy: policy, Users: users, P90Ms: p90, CostUnits: cost}
}

func sweep() *Results {
	return made(
		run("hpa", 10, 200, 5), run("hpa", 100, 250, 30),
		run("cost", 10, 150, 20), run("cost", 100, 240, 25),
	)
}

func TestAssertionsAreJudgedAtEveryLevel(t *testing.T) {
	for _, c := range []struct {
		text, want string
	}{
		{"p90Ms(policy=hpa) <= 300", "✓ (10: 201 and 300; 100: 251 and 300)"},
		{"p90Ms(policy=hpa) < 251", "✗ (100: 251 and 251)"},
		{"p90Ms(policy=hpa) <= 251", "✓ (10: 201 and 251; 100: 251 and 251)"},
		{"costUnits(policy=cost) < costUnits(policy=hpa)", "✗ (10: 20.10 and 5.10)"},
		{"costUnits(policy=cost) < costUnits(policy=hpa) where users >= 100", "✓ (100: 25.10 and 30.10)"},
		{"costUnits(policy=cost) < costUnits(policy=hpa) where users > 10 and users < 200", "✓ (100: 25.10 and 30.10)"},
		{"costUnits(policy=cost) <= 0.5 * costUnits(policy=hpa) where users == 100", "✗ (100: 25.10 and 15.05)"},
		{"costUnits(policy=cost, users=10) > costUnits(policy=hpa, users=10)", "✓ (20.10 and 5.10)"},
		{"costUnits(policy=cost) > costUnits(policy=hpa, users=10)", "✓ (10: 20.10 and 5.10; 100: 25.10 and 5.10)"},
		{"sum costUnits(policy=cost) > sum costUnits(policy=hpa)", "✓ (45.20 and 35.20)"},
		{"max p90Ms(policy=cost) == 241", "✓ (241 and 241)"},
		{"2 * min p90Ms(policy=cost) >= 303", "✗ (302 and 303)"},
		{"mean costUnits(policy=hpa) <= 17.6", "✓ (17.60 and 17.60)"},
		// What did not run is neither held nor missed.
		{"p90Ms(policy=gone) < 1", "– (not run)"},
		{"p90Ms(policy=hpa) < 1 where users > 1000", "– (not run)"},
	} {
		var a Assertion
		if err := a.UnmarshalText([]byte(c.text)); err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		got := a.judge(sweep(), sweep().Levels()).String()
		if got = strings.Replace(got, " "+c.text+" ", "", 1); got != c.want {
			t.Errorf("%s: got %s, want %s", c.text, got, c.want)
		}
	}
}

func TestLevelsAreOnlyPutTogetherWhereAllWereRun(t *testing.T) {
	e := &Experiment{Load: Load{Users: []int{10, 60}}}
	for text, want := range map[string]bool{
		"sum costUnits(policy=hpa) < 1":                   false,
		"sum costUnits(policy=hpa) < 9 where users <= 10": true,
		"costUnits(policy=hpa) < 9":                       true,
	} {
		var a Assertion
		must.Do(t, a.UnmarshalText([]byte(text)))
		e.Assertions = []Assertion{a}
		v := e.Judge(made(Trial{Policy: "hpa", Users: 10, CostUnits: 5}))[0]
		if looked := len(v.Checks) > 0; looked != want || !v.Held {
			t.Errorf("%s: %+v; want it looked at: %v, and no fault found", text, v, want)
		}
	}
}

func TestWhatIsAssertedOfASpanIsNotRunWhereTheRunEndedBeforeIt(t *testing.T) {
	short := Trial{Policy: "hpa", Users: 10, SpanChanges: Number(math.NaN()), SpanReplicaMinutes: Number(math.NaN())}
	for _, text := range []string{"spanChanges(policy=hpa) == 0", "sum spanReplicaMinutes(policy=hpa) < 9"} {
		var a Assertion
		must.Do(t, a.UnmarshalText([]byte(text)))
		for _, c := range []struct {
			run  Trial
			want string
		}{{short, "– " + text + "  (not run)"}, {Trial{Policy: "hpa", Users: 10}, "✓ " + text}} {
			r := made(c.run)
			if got := a.judge(r, r.Levels()).String(); !strings.HasPrefix(got, c.want) {
				t.Errorf("got %s, want %s", got, c.want)
			}
		}
	}
}

func TestAnUnknownMeasureMissesWhatIsAsserted(t *testing.T) {
	r := made(run("hpa", 10, Number(math.NaN()), 5))
	for _, text := range []string{"p90Ms(policy=hpa) <= 300", "300 < max p90Ms(policy=hpa)", "p90Ms(policy=hpa, users=10) == 1"} {
		var a Assertion
		must.Do(t, a.UnmarshalText([]byte(text)))
		if v := a.judge(r, r.Levels()); v.Held || len(v.Checks) != 1 || !strings.Contains(v.Numbers(), "–") {
			t.Errorf("%+v", v)
		}
	}
	if side := (Difference{Low: math.NaN(), High: math.NaN()}).Side(); side != "unknown" {
		t.Errorf("an unknown difference is %s", side)
	}
}

func TestScenariosAreNamedWithoutTheirUsers(t *testing.T) {
	r := made(Trial{Policy: "hpa", Users: 150, Scenario: "flash", P90Ms: 400}, Trial{Policy: "hpa", Users: 60, Scenario: "const", P90Ms: 200})
	for text, want := range map[string]bool{
		"p90Ms(policy=hpa, scenario=flash) > 400":            true,
		"p90Ms(policy=hpa) < 300 where scenario == const":    true,
		"p90Ms(policy=hpa) < 300":                            false,
		"p90Ms(policy=hpa, scenario=const) == 201":           true,
		"sum p90Ms(policy=hpa) == 602":                       true,
		"sum p90Ms(policy=hpa) == 201 where scenario==const": true,
	} {
		var a Assertion
		must.Do(t, a.UnmarshalText([]byte(text)))
		if v := a.judge(r, r.Levels()); v.Held != want || len(v.Checks) == 0 {
			t.Errorf("%s: %+v", text, v)
		}
	}
}

// The second trial shifts both policies alike, so that pairs have no spread at all where the
// means of single policies have.
func TestClaimsAreTriedPairByPair(t *testing.T) {
	claim := Claim{Policies: []string{"cost"}, Against: []string{"hpa", "gone"}, Lower: []string{"p90Ms", "costUnits"}}
	all := claim.Try(sweep())
	want := []Comparison{
		{"cost", "hpa", "10", []Difference{{"p90Ms", -50, -50, -50, 201, "lower", 0}, {"costUnits", 15, 15, 15, 5.1, "lower", 0}}},
		{"cost", "hpa", "100", []Difference{{"p90Ms", -10, -10, -10, 251, "lower", 0}, {"costUnits", -5, -5, -5, 30.1, "lower", 0}}},
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Error(diff)
	}
	if got, want := Sentence(all), "The claim comes out in 1 of 2 comparisons: cost against hpa at 100."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	wantWords := []string{"cost against hpa comes out at 1 of 2 levels: p90Ms lower, costUnits higher at 10; p90Ms lower, costUnits lower at 100."}
	if diff := cmp.Diff(wantWords, Verdicts(all)); diff != "" {
		t.Error(diff)
	}
}

func TestADifferenceWithinTheNoiseIsNone(t *testing.T) {
	for want, d := range map[string]Difference{
		"lower": {Low: -3, High: -0.1}, "higher": {Low: 0.1, High: 3}, "level": {Low: -3, High: 0.1},
	} {
		if d.Side() != want {
			t.Errorf("%+v is %s, want %s", d, d.Side(), want)
		}
	}
}

func TestTheReferenceFlagsWhatIsBeyondItsTolerance(t *testing.T) {
	ref := Reference{
		Tolerance: map[string]Share{"p90Ms": 0.15, "costUnits": 0.1},
		Cells: []Cell{
			{Policy: "hpa", Users: 10, Values: map[string]float64{"p90Ms": 201, "costUnits": 4}},
			{Policy: "cost", Users: 100, Values: map[string]float64{"p90Ms": 300}},
			{Policy: "cost", Users: 200, Values: map[string]float64{"p90Ms": 300}}, // not run
		},
	}
	got := ""
	for _, d := range ref.Compare(sweep()) {
		got += fmt.Sprintf("%s %s %s %.1f %.1f %+.2f %v\n", d.Policy, d.Level, d.Measure, d.Ours, d.Theirs, d.Off, d.Flagged)
	}
	want := "hpa 10 p90Ms 201.0 201.0 +0.00 false\nhpa 10 costUnits 5.1 4.0 +0.27 true\ncost 100 p90Ms 241.0 300.0 -0.20 true\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	var table strings.Builder
	side := ref.side(sweep())
	must.Do(t, side.Print(&table))
	wantTable := `ours / reference's; ! where they are further apart than 15% in p90Ms, 10% in costUnits
policy  at       p90Ms      off  costUnits      off
hpa     10   201 / 201   +0 %    5.1 / 4.0  +27 % !
cost    100  241 / 300  -20 % !
`
	if diff := cmp.Diff(wantTable, table.String()); diff != "" {
		t.Error(diff)
	}
}

func TestOverviewHasEveryPolicyAtEveryLevel(t *testing.T) {
	e := &Experiment{Policies: []Policy{{Name: "ideal", Clairvoyant: true}}, Load: Load{Scenarios: []Scenario{{}}}}
	r := made(
		Trial{Policy: "hpa", Scenario: "a", P90Ms: 200, CostUnits: 10, SLOViolationMinutes: 3},
		Trial{Policy: "hpa", Scenario: "b", P90Ms: 300, CostUnits: 20, SLOViolationMinutes: 4},
		Trial{Policy: "ideal", Scenario: "a", P90Ms: 100, CostUnits: 5},
		Trial{Policy: "ideal", Scenario: "b", P90Ms: 100, CostUnits: 10},
		Trial{Policy: "half", Scenario: "b", P90Ms: 100, CostUnits: 10},
	)
	var got strings.Builder
	overview := e.Overview(r)
	must.Do(t, overview.Print(&got))
	want := `90th percentile in ms / cost in units / minutes over the target, by scenario
policy             a             b  cost sum  min sum  × ideal
hpa     201/10.1/3.0  301/20.1/4.0      30.2      7.0     1.99
ideal    101/5.1/0.0  101/10.1/0.0      15.2      0.0     1.00
half           –/–/–  101/10.1/0.0         –        –        –
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
	if !math.IsNaN(r.Total("half", "costUnits")) {
		t.Error("a policy that did not run everywhere has a total")
	}
}
