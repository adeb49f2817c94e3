package testbed

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ruled is a claim about policy cost beside hpa.
func ruled(c Claim) Claim {
	c.Name, c.Policies = "c", []string{"cost"}
	if c.Most == nil {
		c.Against = []string{"hpa"}
	}
	return c
}

// sweep has, in its trials' means: hpa 201 ms at 10 users and 251 at 100, 5.1 and 30.1 units; cost
// 151 and 241 ms, 20.1 and 25.1 units.
func TestEachRuleOfAClaimIsTriedByItsOwnNumbers(t *testing.T) {
	for name, c := range map[string]struct {
		claim Claim
		want  string // of each comparison: at, side, comes out, fails
	}{
		"lower":                 {Claim{Lower: []string{"p90Ms"}}, "10 lower ✓, 100 lower ✓"},
		"lower, and is not":     {Claim{Lower: []string{"costUnits"}}, "10 higher ✗, 100 lower ✓"},
		"only where it is said": {Claim{Lower: []string{"costUnits"}, Where: Where{{"users", ">", "10"}}}, "100 lower ✓"},
		"alike":                 {Claim{Alike: map[string]Share{"p90Ms": 0.05}}, "10 lower ✗, 100 alike ✓"},
		"at most":               {Claim{Most: map[string]float64{"p90Ms": 200}}, "10 lower ✓, 100 higher ✗"},
		"just at most":          {Claim{Most: map[string]float64{"costUnits": 500}}, "10 lower ✓, 100 lower ✓"},
		// 90 ms more for 90 users, the HPA 50; 5 units more, the HPA 25.
		"flatter":     {Claim{Flatter: []string{"costUnits"}}, "10 to 100 lower ✓"},
		"not flatter": {Claim{Flatter: []string{"p90Ms"}}, "10 to 100 higher ✗"},
		// It has 0.75 and 0.96 of the HPA's response time, and 3.9 and 0.83 of its cost.
		"gaining":     {Claim{Gaining: []string{"costUnits"}}, "10 to 100 lower ✓"},
		"not gaining": {Claim{Gaining: []string{"p90Ms"}}, "10 to 100 higher ✗"},
	} {
		claim := ruled(c.claim)
		var got []string
		for _, x := range claim.Try(sweep()) {
			mark := "~"
			if x.ComesOut() {
				mark = "✓"
			} else if x.Fails() {
				mark = "✗"
			}
			got = append(got, x.At+" "+x.Differences[0].Side()+" "+mark)
		}
		if diff := cmp.Diff(c.want, strings.Join(got, ", ")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestSlopesAreForAHundredUsers(t *testing.T) {
	claim := ruled(Claim{Flatter: []string{"p90Ms"}})
	d := claim.Try(sweep())[0].Differences[0]
	if want := 100 * (90 - 50) / 90.; math.Abs(d.Mean-want) > 1e-4 || math.Abs(d.Of-100*50/90.) > 1e-4 {
		t.Errorf("%+v, want %v of %v", d, want, 100*50/90.)
	}
}

// What the trials leave open neither comes out nor fails, and is not counted as either.
func TestWhatTheTrialsLeaveOpenIsOpen(t *testing.T) {
	r := sweep()
	for i := range r.Runs {
		if run := &r.Runs[i]; run.Policy == "cost" && run.Users == 100 && run.Trial == 2 {
			run.P90Ms = 400
		}
	}
	r.sum()
	e := &Experiment{Claims: []Claim{ruled(Claim{Lower: []string{"p90Ms"}})}}
	got := e.Claimed(r)
	if diff := cmp.Diff([][]string{{"c", "1", "0", "1"}}, got.Rows); diff != "" {
		t.Error(diff)
	}
	all := e.Claims[0].Try(r)
	if got, want := Sentence(all), "The claim comes out in 1 of 2 comparisons, and in 1 the trials do not decide: cost against hpa at 10."; got != want {
		t.Errorf("got %q", got)
	}
	want := [][]string{{"cost", "hpa", "p90Ms", "-24.9 ± 0.0 % ✓", "+27.5 ± 399.9 % ~"}}
	if diff := cmp.Diff(want, e.Claims[0].Differences(all).Rows); diff != "" {
		t.Error(diff)
	}
}

// With one trial there is no interval: the claims are there all the same, and are undecided.
func TestOneTrialTellsNoClaim(t *testing.T) {
	r := sweep()
	r.Trials, r.Runs = 1, slices.DeleteFunc(r.Runs, func(run Trial) bool { return run.Trial > 1 })
	r.sum()
	e := &Experiment{Claims: []Claim{
		ruled(Claim{Lower: []string{"p90Ms"}}), ruled(Claim{Alike: map[string]Share{"p90Ms": 0.1}}), ruled(Claim{Flatter: []string{"p90Ms"}}),
	}}
	got := e.Claimed(r)
	want := [][]string{{"c", "0", "0", "2"}, {"c", "0", "0", "2"}, {"c", "0", "0", "1"}}
	if diff := cmp.Diff(want, got.Rows); diff != "" || !strings.Contains(got.Caption, "one trial has no interval") {
		t.Errorf("%s: %s", got.Caption, diff)
	}
}

func TestClaimsAreReadStrictly(t *testing.T) {
	whole := string(read(t, "experiments/slo-cost.yaml"))
	for from, to := range map[string]struct{ to, want string }{
		"lower: [sloViolationMinutes, costUnits]":   {"lower: []", "claims[8]: must have at least one measure, was 0"},
		"lower: [p90Ms, costUnits]":                 {"lower: [p90Mss]", "claims[0].lower: must be one of"},
		"gaining: [p90Ms, costUnits]":               {"gaining: [p90Ms]\n    flatter: [p90Ms]", "exactly one of"},
		"most: {costUnits: 40}":                     {"most: {costUnits: 0}", "claims[7].most.costUnits: must be above 0"},
		"most: {p90Ms: 300}":                        {"most: {p90Ms: 300}\n    against: [hpa50]", "claims[6].against: must have at least one, and none beside most"},
		"name: grows-slower":                        {"name: gains-with-users", "claims[5].name: must be another"},
		"alike: {p90Ms: 10%, costUnits: 10%}":       {"alike: {p90Ms: 0%}", "claims[3].alike.p90Ms: must be above 0%"},
		"where: users <= 20\n":                      {"where: users is few\n", "must be conditions like users <= 60"},
		"policies: [hpa80]\n    against: [hpa50]\n": {"policies: [hpa90]\n    against: [hpa50]\n", "claims[10].policies[0]: must be one of"},
	} {
		text := strings.Replace(whole, from, to.to, 1)
		if text == whole {
			t.Fatalf("%s: nothing was changed", from)
		}
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), to.want) {
			t.Errorf("%s: %v, want %q", to.to, err, to.want)
		}
	}
}
