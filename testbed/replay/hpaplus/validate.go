package hpaplus

import (
	"fmt"
	"slices"

	"github.com/plimsoll/plimsoll/podscaler/forecast"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/replay"
)

func (r *Replay) validate(f *testbed.Faults) {
	f.OneOf("replay.compare", r.Compare, comparisons)
	f.Must(len(r.Traces) > 0, "replay.traces", "must have one at least", len(r.Traces))
	for i, t := range r.Traces {
		f.OneOf(fmt.Sprintf("replay.traces[%d]", i), t, Shipped())
	}
	once(f, "replay.traces", r.Traces)
	f.Must(r.Train >= 1, "replay.train", "must be 1 day at least", r.Train)
	f.Must(r.Test >= 1, "replay.test", "must be 1 day at least", r.Test)
	f.Must(r.MaxPods >= 0, "replay.maxPods", "must be at least 1", r.MaxPods)
	if r.Profile != nil {
		if _, err := r.profile(); err != nil {
			f.Must(false, "replay.profile", err.Error(), *r.Profile)
		}
	}
	r.validateRows(f)
	r.validateCases(f)
	for i, w := range r.Weights {
		f.Must(w > 0, fmt.Sprintf("replay.weights[%d]", i), "must be more than 0", w)
	}
	once(f, "replay.weights", r.Weights)
	r.validateRead(f)
	f.Must(r.Compare == Models == (r.States > 0), "replay.states",
		"must be 1 at least where models are compared, and omitted elsewhere", r.States)
}

// once wants nothing twice in a list: it would be played, or counted, twice.
func once[T comparable](f *testbed.Faults, path string, all []T) {
	for i, v := range all {
		f.Must(!slices.Contains(all[:i], v), fmt.Sprintf("%s[%d]", path, i), "must be there once", v)
	}
}

// validateRead wants nothing that the comparison, or none of its rows, reads.
func (r *Replay) validateRead(f *testbed.Faults) {
	same := r.Compare == Scalers
	played, race := same || r.Compare == Equal, slices.Contains(r.Rows, "hpa-plus")
	unread := func(there, read bool, key, where string) {
		f.Must(!there || read, "replay."+key, "must be omitted "+where, "there")
	}
	const noScalers, notSame, noRace = "where no scalers are compared", "where scalers are not compared at the same excess", "without the row hpa-plus, which alone reads it"
	unread(r.Profile != nil, played, "profile", noScalers)
	unread(r.MaxPods != 0, played, "maxPods", noScalers)
	unread(len(r.Weights) > 0, same, "weights", notSame)
	unread(r.Leaders, same, "leaders", notSame)
	unread(r.Course, same, "course", notSame)
	unread(len(r.Entrants) > 0, played && race, "entrants", noRace)
	for i := range r.Cases {
		unread(len(r.Cases[i].Window) > 0, played && race, fmt.Sprintf("cases[%d].window", i), noRace)
		unread(len(r.Cases[i].Threshold) > 0, played && race, fmt.Sprintf("cases[%d].threshold", i), noRace)
	}
}

// validateRows wants names of what is compared, and a baseline among scalers.
func (r *Replay) validateRows(f *testbed.Faults) {
	scalers := r.Compare == Scalers || r.Compare == Equal
	known := kindNames()
	switch {
	case r.Compare == Forecasters:
		known = forecast.Names()
	case r.Compare == Models:
		f.Must(len(r.Rows) == 0, "replay.rows", "must be omitted where models are compared", len(r.Rows))
	case scalers:
		f.Must(len(r.Rows) > 0, "replay.rows", "must have one at least", len(r.Rows))
	}
	for i, row := range r.Rows {
		f.OneOf(fmt.Sprintf("replay.rows[%d]", i), row, known)
	}
	once(f, "replay.rows", r.Rows)
	f.Must(len(r.Against) > 0 == scalers, "replay.against", "must have one at least where scalers are compared, and be omitted elsewhere", len(r.Against))
	f.Must(r.Compare != Scalers || len(r.Against) < 2, "replay.against", "must be one where scalers are compared at the same excess", len(r.Against))
	for i, row := range r.Against {
		f.OneOf(fmt.Sprintf("replay.against[%d]", i), row, r.Rows)
	}
	once(f, "replay.against", r.Against)
	for i, s := range r.Entrants {
		if _, err := forecast.New(s); err != nil {
			f.Must(false, fmt.Sprintf("replay.entrants[%d]", i), err.Error(), s.Type)
		}
	}
}

func (r *Replay) validateCases(f *testbed.Faults) {
	f.Must(len(r.Cases) > 0 != (r.Compare == Forecasters), "replay.cases",
		"must have one at least, and be omitted where forecasters are compared", len(r.Cases))
	r.validateTwice(f)
	for i := range r.Cases {
		path := fmt.Sprintf("replay.cases[%d].", i)
		for _, c := range r.Cases[i].cases() {
			f.Must(c.Pods >= 1, path+"pods", "must be at least 1", c.Pods)
			f.Must(c.Tolerance >= 0 && c.Tolerance < 1, path+"tolerance", "must be from 0 to below 1", c.Tolerance)
			f.Must(c.Excess > 0 && c.Excess <= 1, path+"excess", "must be more than 0 and at most 1", c.Excess)
			f.Must(c.Timeout >= 1, path+"timeout", "must be at least 1", c.Timeout)
			f.Must(c.Window >= 1 && c.Window <= longestWindow, path+"window", fmt.Sprintf("must be from 1 to %d", longestWindow), c.Window)
			f.Must(c.Threshold >= 0 && c.Threshold <= 2, path+"threshold", "must be from 0 to 2", c.Threshold)
			if len(*f) > 0 {
				return // each of the others would say it again
			}
		}
	}
	f.Must(len(r.Knobs) > 1 == (r.Compare == Equal), "replay.knobs", "must be two or more for a comparison at equal pod-minutes, and omitted elsewhere", len(r.Knobs))
	for i, k := range r.Knobs {
		f.Must(k > 0 && k < 2 && (i == 0 || k > r.Knobs[i-1]), fmt.Sprintf("replay.knobs[%d]", i), "must be between 0 and 2, and more than the one before", k)
	}
}

// validateTwice wants every line of cases to have one that none before it has, and none twice.
func (r *Replay) validateTwice(f *testbed.Faults) {
	var before []Case
	for i := range r.Cases {
		g, path := &r.Cases[i], fmt.Sprintf("replay.cases[%d]", i)
		once(f, path+".pods", g.Pods)
		once(f, path+".tolerance", g.Tolerance)
		once(f, path+".excess", g.Excess)
		once(f, path+".timeout", g.Timeout)
		once(f, path+".window", g.Window)
		once(f, path+".threshold", g.Threshold)
		own := g.cases()
		f.Must(slices.ContainsFunc(own, func(c Case) bool { return !slices.Contains(before, c) }), path, "must have a case that the lines before it have not", len(own))
		before = append(before, own...)
	}
}

func kindNames() []string {
	var out []string
	for _, k := range replay.Kinds() {
		out = append(out, k.Name)
	}
	return out
}
