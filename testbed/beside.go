package testbed

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Source is results under the name that they are distinguished by: a world's, or a folder's.
type Source struct {
	Name string
	*Results
}

// Contrast is one measure of a policy at a level, in each of several sources.
type Contrast struct {
	Policy   string `json:"policy"`
	Users    int    `json:"users"`
	Scenario string `json:"scenario,omitempty"`
	Measure  string `json:"measure"`
	// Values are in the order of the sources, as are Off: how far the first is from each, as a part
	// of that one's. What did not run is null.
	Values  []Stat   `json:"values"`
	Off     []Number `json:"off"`
	Flagged bool     `json:"flagged"` // the first is further off than it should be
}

// contrasted are the measures that sources are held against each other by.
var contrasted = []string{"requests", "goodFraction", "p50Ms", "p90Ms", "p99Ms", "costUnits", "podMinutes", "vmHours", "orders", "returns", "decisions"}

// servedP90 is what of p90Ms is left without what the machine added that a world by the clock ran
// on. It is of sources of which one says that.
const servedP90 = "servedP90Ms"

// mostOff is how far the first source should be off at most: a world that predicts another does it
// no worse.
var mostOff = map[string]float64{"p90Ms": 0.20, "costUnits": 0.05}

// tooFar reports whether the first source is too far off to have predicted a measure.
func tooFar(measure string, off float64) bool {
	most, aimed := mostOff[measure]
	return aimed && math.Abs(off) > most
}

// Beside lays results of one experiment side by side: each policy that ran at the same level in two
// of the sources or more.
func Beside(all []Source) ([]Contrast, error) {
	if err := alike(all); err != nil {
		return nil, err
	}
	var out []Contrast
	for _, of := range cells(all) {
		for _, c := range contrasted {
			out = append(out, contrast(all, of, c))
			if c == "p90Ms" && slices.ContainsFunc(all, func(s Source) bool { return s.late(of) }) {
				out = append(out, contrast(all, of, servedP90))
			}
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no policy ran at the same level in two of them")
	}
	return out, nil
}

// alike says why sources cannot be compared, if they cannot.
func alike(all []Source) error {
	if len(all) < 2 {
		return fmt.Errorf("there must be two or more to compare, were %d", len(all))
	}
	first := &all[0]
	var errs []error
	for i := range all[1:] {
		s := &all[1+i]
		same := func(is bool, what string, theirs, ours any) {
			if !is {
				errs = append(errs, fmt.Errorf("%s: must have the %s of %s, %v, was %v", s.Name, what, first.Name, ours, theirs))
			}
		}
		same(s.Experiment == first.Experiment, "experiment", s.Experiment, first.Experiment)
		same(s.Load == first.Load, "load", s.Load, first.Load)
		same(s.DurationSeconds == first.DurationSeconds, "seconds of a trial", s.DurationSeconds, first.DurationSeconds)
		same(s.Unit == first.Unit, "unit", s.Unit, first.Unit)
		same(!slices.ContainsFunc(all[:1+i], func(o Source) bool { return o.Name == s.Name }), "name of no other, such as", s.Name, first.Name)
	}
	return errors.Join(errs...)
}

// cell is a policy at a level.
type cell struct {
	policy string
	level  Level
}

// cells are those that are in two sources or more, in the order in which they are first met.
func cells(all []Source) []cell {
	var order []cell
	n := map[cell]int{}
	for i := range all {
		for j := range all[i].Summary {
			s := &all[i].Summary[j]
			c := cell{s.Policy, s.level()}
			if n[c]++; n[c] == 1 {
				order = append(order, c)
			}
		}
	}
	return slices.DeleteFunc(order, func(c cell) bool { return n[c] < 2 })
}

func contrast(all []Source, of cell, measure string) Contrast {
	c := Contrast{Policy: of.policy, Users: of.level.Users, Scenario: of.level.Scenario, Measure: measure}
	for i := range all {
		unknown := Number(math.NaN())
		v := Stat{unknown, unknown, unknown, unknown}
		if s := all[i].At(of.policy, of.level); s != nil {
			v = s.Measures[measure]
			if measure == servedP90 {
				v = all[i].served(of)
			}
		}
		c.Values = append(c.Values, v)
		off := apart(float64(c.Values[0].Mean), float64(v.Mean))
		c.Off = append(c.Off, Rounded(off))
		c.Flagged = c.Flagged || tooFar(measure, off)
	}
	return c
}

// late reports whether a source distinguishes answers that were late from those that took long.
func (s *Source) late(of cell) bool {
	return slices.ContainsFunc(s.Runs, func(r Trial) bool { return r.Policy == of.policy && r.Level() == of.level && r.ServedP90Ms > 0 })
}

// served sums up the 90th percentiles without what was late; in a world by no clock nothing is.
func (s *Source) served(of cell) Stat {
	var all []float64
	for i := range s.Runs {
		r := &s.Runs[i]
		switch {
		case r.Policy != of.policy || r.Level() != of.level:
		case r.ServedP90Ms > 0:
			all = append(all, float64(r.ServedP90Ms))
		default:
			all = append(all, float64(r.P90Ms))
		}
	}
	return statOf(all)
}

// apart is how far a is from b, as a part of b. From nothing, nothing but nothing has a distance.
func apart(a, b float64) float64 {
	switch {
	case a == b:
		return 0
	case b == 0:
		return math.NaN()
	}
	return a/b - 1
}

// Worlds is a table of contrasts, a row for each measure.
func Worlds(all []Source, contrasts []Contrast) Table {
	t := Table{Head: []string{"policy", "at", "measure"}, Left: 3}
	var names, aims []string
	for i := range all {
		names = append(names, fmt.Sprintf("%s (trials: %d)", all[i].Name, all[i].Trials))
		t.Head = append(t.Head, all[i].Name)
	}
	for i := range all[1:] {
		t.Head = append(t.Head, all[0].Name+" off "+all[1+i].Name)
	}
	for _, m := range contrasted {
		if most, aimed := mostOff[m]; aimed {
			aims = append(aims, fmt.Sprintf("%.0f %% in %s", 100*most, m))
		}
	}
	t.Caption = fmt.Sprintf("Means of %s, and how far %s is from the others; ! where that is over %s", strings.Join(names, ", "), all[0].Name, strings.Join(aims, ", "))
	for i := range contrasts {
		c := &contrasts[i]
		row := []string{c.Policy, Level{c.Users, c.Scenario}.String(), c.Measure}
		for _, v := range c.Values {
			row = append(row, v.show())
		}
		for _, off := range c.Off[1:] {
			row = append(row, c.percent(float64(off)))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// percent is a distance as it is printed.
func (c *Contrast) percent(off float64) string {
	if math.IsNaN(off) {
		return "–  "
	}
	mark := "  "
	if tooFar(c.Measure, off) {
		mark = " !"
	}
	return fmt.Sprintf("%+.1f %%", 100*off) + mark
}
