package testbed

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Comparison is one policy against another at one level of load, trial by trial under the same
// luck.
type Comparison struct {
	Policy, Against string
	Level           Level
	Differences     []Difference // one for each of the claim's measures
}

// Difference is by how much a measure of one policy differs from another's.
type Difference struct {
	Measure string
	// Part is the difference of the means as a part of the other's mean.
	Part float64
	// Low and High bound the 95 % interval of the mean difference, by Student's t over pairs.
	Low, High float64
}

// Side says on which side of the other a policy is; what the trials cannot tell apart is level.
func (d Difference) Side() string {
	switch {
	case math.IsNaN(d.Low):
		return "unknown"
	case d.High < 0:
		return "lower"
	case d.Low > 0:
		return "higher"
	}
	return "level"
}

// ComesOut reports whether every measure is lower, as claimed.
func (c *Comparison) ComesOut() bool {
	return !slices.ContainsFunc(c.Differences, func(d Difference) bool { return d.Side() != "lower" })
}

// Outcome puts the comparison in words: p90Ms lower, costUnits higher.
func (c *Comparison) Outcome() string {
	words := make([]string, len(c.Differences))
	for i, d := range c.Differences {
		words[i] = d.Measure + " " + d.Side()
	}
	return strings.Join(words, ", ")
}

// Try compares every policy of the claim with every other, wherever both ran in pairs.
func (c *Claim) Try(r *Results) []Comparison {
	var out []Comparison
	for _, p := range c.Policies {
		for _, against := range c.Against {
			for _, l := range r.Levels() {
				ours, theirs := r.pairs(p, against, l)
				if len(ours) < 2 {
					continue
				}
				cmp := Comparison{Policy: p, Against: against, Level: l}
				for _, name := range c.Lower {
					cmp.Differences = append(cmp.Differences, difference(measure(name), ours, theirs))
				}
				out = append(out, cmp)
			}
		}
	}
	return out
}

// pairs returns the runs of two policies at a level that have the same trial, in its order.
func (r *Results) pairs(a, b string, l Level) (ours, theirs []Trial) {
	byTrial := map[int]*Trial{}
	for i := range r.Runs {
		if run := &r.Runs[i]; run.Policy == b && run.Level() == l {
			byTrial[run.Trial] = run
		}
	}
	for i := range r.Runs {
		if run := &r.Runs[i]; run.Policy == a && run.Level() == l && byTrial[run.Trial] != nil {
			ours, theirs = append(ours, *run), append(theirs, *byTrial[run.Trial])
		}
	}
	return ours, theirs
}

func difference(m *Measure, ours, theirs []Trial) Difference {
	a, b := values(ours, m), values(theirs, m)
	apart := make([]float64, len(a))
	for i := range a {
		apart[i] = a[i] - b[i]
	}
	s := statOf(apart)
	return Difference{
		Measure: m.Name, Part: float64(s.Mean) / float64(statOf(b).Mean), Low: float64(s.Low), High: float64(s.High),
	}
}

// Sentence says of how many comparisons the claim comes out, and where.
func Sentence(all []Comparison) string {
	if len(all) == 0 {
		return "The claim was not tried: that takes two trials or more of its policies and of those they are compared with."
	}
	var won []string
	for i := range all {
		if c := &all[i]; c.ComesOut() {
			won = append(won, fmt.Sprintf("%s against %s at %s", c.Policy, c.Against, c.Level))
		}
	}
	text := fmt.Sprintf("The claim comes out in %d of %d comparisons", len(won), len(all))
	if len(won) > 0 {
		text += ": " + strings.Join(won, ", ")
	}
	return text + "."
}

// Verdicts put the comparisons of each pair of policies in a sentence: where the claim comes
// out, and how it fails elsewhere.
func Verdicts(all []Comparison) []string {
	var out []string
	for start := 0; start < len(all); {
		end := start
		for end < len(all) && all[end].Policy == all[start].Policy && all[end].Against == all[start].Against {
			end++
		}
		out = append(out, verdict(all[start:end]))
		start = end
	}
	return out
}

// verdict is the sentence of one pair of policies.
func verdict(pair []Comparison) string {
	var outcomes []string
	levels := map[string][]string{}
	won := 0
	for i := range pair {
		o := pair[i].Outcome()
		if pair[i].ComesOut() {
			won++
		}
		if levels[o] == nil {
			outcomes = append(outcomes, o)
		}
		levels[o] = append(levels[o], pair[i].Level.String())
	}
	parts := make([]string, len(outcomes))
	for i, o := range outcomes {
		parts[i] = o + " at " + strings.Join(levels[o], ", ")
	}
	holds := fmt.Sprintf("comes out at %d of %d levels", won, len(pair))
	switch won {
	case 0:
		holds = "does not come out"
	case len(pair):
		holds = "comes out at every level"
	}
	return fmt.Sprintf("%s against %s %s: %s.", pair[0].Policy, pair[0].Against, holds, strings.Join(parts, "; "))
}

// Deviation is how far a result is from the reference's.
type Deviation struct {
	Policy       string
	Level        Level
	Measure      string
	Ours, Theirs float64
	// Off is the difference as a part of theirs; Flagged says that it is beyond the tolerance.
	Off     float64
	Flagged bool
}

// Compare holds the results against the reference, wherever both have a value.
func (ref *Reference) Compare(r *Results) []Deviation {
	var out []Deviation
	for _, c := range ref.Cells {
		at := r.find(&Level{c.Users, c.Scenario}, Level{})
		for _, m := range Measures {
			theirs, has := c.Values[m.Name]
			ours := r.Mean(c.Policy, at, m.Name)
			if !has || math.IsNaN(ours) {
				continue
			}
			d := Deviation{Policy: c.Policy, Level: at, Measure: m.Name, Ours: ours, Theirs: theirs, Off: ours/theirs - 1}
			d.Flagged = math.Abs(d.Off) > float64(ref.Tolerance[m.Name])
			out = append(out, d)
		}
	}
	return out
}
