package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/plimsoll/plimsoll/testbed"
)

// stake is what a verdict is about: a measure over all levels of a trial.
type stake struct {
	head string
	of   func([]*testbed.Trial) float64
	// relative compares in parts of the other's; what may be 0 is compared by its difference.
	relative bool
	unit     string
	digits   int
	less     string // how a smaller and a larger value are said
	more     string
}

// stakes are cost, minutes over the target, and the part of the requests that was late.
var stakes = []stake{
	{
		"cost", func(all []*testbed.Trial) float64 {
			return total(all, func(t *testbed.Trial) float64 { return float64(t.CostUnits) })
		},
		true, "%", 1, "costs %s less", "costs %s more",
	},
	{
		"minutes over the target", func(all []*testbed.Trial) float64 {
			return total(all, func(t *testbed.Trial) float64 { return float64(t.SLOViolationMinutes) })
		}, false, "min", 1, "is over the target for %s less", "is over the target for %s more",
	},
	{
		"late requests", func(all []*testbed.Trial) float64 {
			requests := total(all, func(t *testbed.Trial) float64 { return float64(t.Requests) })
			return 100 * total(all, func(t *testbed.Trial) float64 { return float64(t.Requests) * float64(t.LateShare) }) / requests
		}, false, "points", 2, "has %s fewer of its requests late", "has %s more of its requests late",
	},
}

func total(all []*testbed.Trial, of func(*testbed.Trial) float64) float64 {
	sum := 0.0
	for _, t := range all {
		sum += of(t)
	}
	return sum
}

// verdict compares every policy with the first, over all levels, trial by trial: in a sentence and
// in a row with the 95 % intervals. Without anything to compare with there is no verdict.
func verdict(r *testbed.Results) ([]string, testbed.Table) {
	policies := r.Policies()
	if len(policies) < 2 {
		return nil, testbed.Table{}
	}
	first := trials(r, policies[0])
	t := testbed.Table{
		Caption: fmt.Sprintf("Beside %s, over all levels, with the 95 %% interval over the trials", policies[0]),
		Head:    []string{"policy"}, Left: 1,
	}
	if r.Trials < 2 {
		t.Caption = fmt.Sprintf("Beside %s, over all levels, in one trial, which has no interval", policies[0])
	}
	for _, s := range stakes {
		t.Head = append(t.Head, s.head)
	}
	var sentences []string
	for _, p := range policies[1:] {
		row, said := []string{p}, []string(nil)
		for i := range stakes {
			d := stakes[i].beside(trials(r, p), first)
			row = append(row, stakes[i].show(d))
			if s := stakes[i].say(d); s != "" {
				said = append(said, s)
			}
		}
		t.Rows = append(t.Rows, row)
		if len(said) == 0 {
			sentences = append(sentences, fmt.Sprintf("%s does not differ from %s in cost, minutes over the target or late requests by more than chance.", p, policies[0]))
			continue
		}
		sentences = append(sentences, fmt.Sprintf("%s %s than %s.", p, strings.Join(said, ", "), policies[0]))
	}
	return sentences, t
}

// trials are a policy's, by number, as far as it ran at all levels.
func trials(r *testbed.Results, policy string) map[int][]*testbed.Trial {
	out := map[int][]*testbed.Trial{}
	for i := range r.Runs {
		if t := &r.Runs[i]; t.Policy == policy {
			out[t.Trial] = append(out[t.Trial], t)
		}
	}
	for n, all := range out {
		if len(all) < len(r.Levels()) {
			delete(out, n)
		}
	}
	return out
}

// beside is the difference from another policy, over the trials that both have.
func (s *stake) beside(ours, theirs map[int][]*testbed.Trial) testbed.Stat {
	var all []float64
	for n := 1; len(all) < len(ours) && n <= 1<<16; n++ {
		a, b := ours[n], theirs[n]
		switch {
		case a == nil && b == nil && n > len(ours)+len(theirs):
			return testbed.StatOf(all)
		case a == nil || b == nil:
		case s.relative:
			all = append(all, 100*(s.of(a)/s.of(b)-1))
		default:
			all = append(all, s.of(a)-s.of(b))
		}
	}
	return testbed.StatOf(all)
}

// show is a difference with its interval.
func (s *stake) show(d testbed.Stat) string {
	mean := float64(d.Mean)
	if math.IsNaN(mean) || math.IsInf(mean, 0) {
		return "–"
	}
	signed := func(v testbed.Number) string { return fmt.Sprintf("%+.*f", s.digits, float64(v)) }
	text := signed(d.Mean) + " " + s.unit
	if !math.IsNaN(float64(d.Low)) {
		text += " (" + signed(d.Low) + " to " + signed(d.High) + ")"
	}
	return text
}

// say is a difference in words, if it is more than chance.
func (s *stake) say(d testbed.Stat) string {
	mean, low, high := float64(d.Mean), float64(d.Low), float64(d.High)
	if math.IsNaN(mean) || math.IsInf(mean, 0) || mean == 0 || low <= 0 && high >= 0 {
		return ""
	}
	amount := fmt.Sprintf("%.*f %s", s.digits, math.Abs(mean), s.unit)
	if mean < 0 {
		return fmt.Sprintf(s.less, amount)
	}
	return fmt.Sprintf(s.more, amount)
}

// shown are the tables of a page. Each has one unit, and one that is all zeros says nothing.
func shown(e *testbed.Experiment, r *testbed.Results) []testbed.Table {
	var out []testbed.Table
	for i := range testbed.Measures {
		m := &testbed.Measures[i]
		switch m.Name {
		case "p90Ms", "sloViolationMinutes":
			out = append(out, r.By(m, m.Unit))
		case "costUnits":
			out = append(out, r.By(m, r.Unit))
		}
	}
	for i, t := range e.Tables(r) {
		if i > 0 { // the first has three units in a cell, for terminals
			out = append(out, t)
		}
	}
	if yardstick := e.Clairvoyant(); yardstick != "" && len(e.Load.Scenarios) > 0 {
		t := testbed.Table{Caption: "Cost over all scenarios, in parts of that of " + yardstick, Head: []string{"policy", "× " + yardstick}, Left: 1}
		for _, p := range r.Policies() {
			t.Rows = append(t.Rows, []string{p, testbed.Show(r.Total(p, "costUnits")/r.Total(yardstick, "costUnits"), 2)})
		}
		out = append(out, t)
	}
	kept := out[:0]
	for _, t := range out {
		if says(&t) {
			kept = append(kept, t)
		}
	}
	return kept
}

// says reports whether a table has any value but zeros.
func says(t *testbed.Table) bool {
	for _, row := range t.Rows {
		for _, cell := range row[min(t.Left, len(row)):] {
			if strings.ContainsAny(cell, "123456789") || !strings.ContainsAny(cell, "0–") {
				return true
			}
		}
	}
	return false
}
