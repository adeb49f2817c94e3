package hpaplus

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/podscaler/forecast"
	"github.com/plimsoll/plimsoll/testbed/replay"
	"github.com/plimsoll/plimsoll/testbed/strict"
)

// fault is one thing that is wrong: a key's path, and the rule that its value breaks, with the
// value.
type fault struct{ path, rule string }

// Path is the path of the key at fault.
func (f *fault) Path() string { return f.path }

// Error names path, rule and value.
func (f *fault) Error() string { return f.path + ": " + f.rule }

// faults collects all that is wrong.
type faults []error

func (f *faults) must(kept bool, path, rule string, was any) {
	if kept {
		return
	}
	if text, ok := was.(string); ok {
		was = fmt.Sprintf("%q", text)
	}
	*f = append(*f, &fault{path, fmt.Sprintf("%s, was %v", rule, was)})
}

func (f *faults) oneOf(path, value string, known []string) {
	f.must(slices.Contains(known, value), path, "must be one of "+strings.Join(known, ", ")+meant(value, known), value)
}

// meant asks whether the nearest of the known names was meant, if one is near.
func meant(name string, known []string) string {
	if near, ok := strict.Nearest(name, known); ok {
		return " (did you mean " + near + "?)"
	}
	return ""
}

func (r *Replay) validate(f *faults) {
	f.oneOf("replay.compare", r.Compare, comparisons)
	f.must(len(r.Traces) > 0, "replay.traces", "must have one at least", len(r.Traces))
	for i, t := range r.Traces {
		f.oneOf(fmt.Sprintf("replay.traces[%d]", i), t, Shipped())
	}
	f.must(r.Train >= 1, "replay.train", "must be 1 day at least", r.Train)
	f.must(r.Test >= 1, "replay.test", "must be 1 day at least", r.Test)
	f.must(r.MaxPods >= 0, "replay.maxPods", "must be at least 1", r.MaxPods)
	if r.Profile != nil {
		if _, err := r.profile(); err != nil {
			f.must(false, "replay.profile", err.Error(), *r.Profile)
		}
	}
	r.validateRows(f)
	r.validateCases(f)
	for i, w := range r.Weights {
		f.must(w > 0, fmt.Sprintf("replay.weights[%d]", i), "must be more than 0", w)
	}
	f.must(r.Compare == Models == (r.States > 0), "replay.states",
		"must be 1 at least where models are compared, and left out elsewhere", r.States)
}

// validateRows wants names of what is compared, and a baseline among scalers.
func (r *Replay) validateRows(f *faults) {
	scalers := r.Compare == Scalers || r.Compare == Equal
	known := kindNames()
	switch {
	case r.Compare == Forecasters:
		known = forecast.Names()
	case r.Compare == Models:
		f.must(len(r.Rows) == 0, "replay.rows", "must be left out where models are compared", len(r.Rows))
	case scalers:
		f.must(len(r.Rows) > 0, "replay.rows", "must have one at least", len(r.Rows))
	}
	for i, row := range r.Rows {
		f.oneOf(fmt.Sprintf("replay.rows[%d]", i), row, known)
		f.must(!slices.Contains(r.Rows[:i], row), fmt.Sprintf("replay.rows[%d]", i), "must be there once", row)
	}
	f.must(len(r.Against) > 0 == scalers, "replay.against", "must have one at least where scalers are compared, and be left out elsewhere", len(r.Against))
	f.must(r.Compare != Scalers || len(r.Against) < 2, "replay.against", "must be one where scalers are compared at the same excess", len(r.Against))
	for i, row := range r.Against {
		f.oneOf(fmt.Sprintf("replay.against[%d]", i), row, r.Rows)
	}
	for i, s := range r.Entrants {
		if _, err := forecast.New(s); err != nil {
			f.must(false, fmt.Sprintf("replay.entrants[%d]", i), err.Error(), s.Type)
		}
	}
}

func (r *Replay) validateCases(f *faults) {
	f.must(len(r.Cases) > 0 != (r.Compare == Forecasters), "replay.cases",
		"must have one at least, and be left out where forecasters are compared", len(r.Cases))
	for i := range r.Cases {
		path := fmt.Sprintf("replay.cases[%d].", i)
		for _, c := range r.Cases[i].cases() {
			f.must(c.Pods >= 1, path+"pods", "must be at least 1", c.Pods)
			f.must(c.Tolerance >= 0 && c.Tolerance < 1, path+"tolerance", "must be from 0 to below 1", c.Tolerance)
			f.must(c.Excess > 0 && c.Excess <= 1, path+"excess", "must be more than 0 and at most 1", c.Excess)
			f.must(c.Timeout >= 1, path+"timeout", "must be at least 1", c.Timeout)
			f.must(c.Window >= 1 && c.Window <= longestWindow, path+"window", fmt.Sprintf("must be from 1 to %d", longestWindow), c.Window)
			f.must(c.Threshold >= 0 && c.Threshold <= 2, path+"threshold", "must be from 0 to 2", c.Threshold)
			if len(*f) > 0 {
				return // each of the others would say it again
			}
		}
	}
	f.must(len(r.Knobs) > 1 == (r.Compare == Equal), "replay.knobs", "must be two or more for a comparison at equal pod-minutes, and left out elsewhere", len(r.Knobs))
	for i, k := range r.Knobs {
		f.must(k > 0 && k < 2 && (i == 0 || k > r.Knobs[i-1]), fmt.Sprintf("replay.knobs[%d]", i), "must be between 0 and 2, and more than the one before", k)
	}
}

func kindNames() []string {
	var out []string
	for _, k := range replay.Kinds() {
		out = append(out, k.Name)
	}
	return out
}
