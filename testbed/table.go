package testbed

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Table is a table as it is printed and as it is in a report. The first columns, Left of
// them, are text; all others are numbers.
type Table struct {
	Caption string
	Head    []string
	Rows    [][]string
	Left    int
}

// Print writes the table with its columns aligned.
func (t *Table) Print(w io.Writer) error {
	widths := make([]int, len(t.Head))
	rows := slices.Concat([][]string{t.Head}, t.Rows)
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	b.WriteString(t.Caption + "\n")
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i < t.Left {
				line.WriteString(cell + gap + "  ")
			} else {
				line.WriteString(gap + cell + "  ")
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Tables are the results: what they come to at each level of load, over all scenarios, and what an
// experiment is about beside that.
func (e *Experiment) Tables(r *Results) []Table {
	tables := []Table{e.Overview(r)}
	if len(e.Load.Scenarios) > 1 {
		tables = append(tables, e.sums(r))
	}
	if e.Path {
		tables = append(tables, e.moves(r))
	}
	for _, name := range e.asked() {
		if m := measure(name); r.Knows(m) {
			tables = append(tables, r.By(m, m.Unit))
		}
	}
	return tables
}

// asked are the measures that an experiment is about by what it sets, beside those of all.
func (e *Experiment) asked() []string {
	var out []string
	if slices.ContainsFunc(e.Load.Scenarios, func(s Scenario) bool { return s.Otherwise != nil }) {
		out = append(out, "modelOff", "modelUnsure")
	}
	if slices.ContainsFunc(e.Policies, func(p Policy) bool { return p.Limit != nil }) {
		out = append(out, "rateMax")
	}
	if slices.ContainsFunc(e.Policies, func(p Policy) bool { return p.Spares > 0 }) {
		out = append(out, "wakes", "spareUnits")
	}
	if e.Span != nil && !e.Path {
		out = append(out, "spanChanges")
	}
	return out
}

// Overview is the results in one table: a row for each policy and a column for each level. Of
// scenarios it also has the minutes over the target, the sums, and the cost in parts of a
// clairvoyant's.
func (e *Experiment) Overview(r *Results) Table {
	levels, scenarios := r.Levels(), len(e.Load.Scenarios) > 0
	t := Table{Caption: fmt.Sprintf("90th percentile in ms / cost in %s, by users", r.Unit), Head: []string{"policy"}, Left: 1}
	if scenarios {
		t.Caption = fmt.Sprintf("90th percentile in ms / cost in %s / minutes over the target, by scenario", r.Unit)
	}
	for _, l := range levels {
		t.Head = append(t.Head, l.String())
	}
	yardstick := e.Clairvoyant()
	if scenarios {
		t.Head = append(t.Head, "cost sum", "min sum")
		if yardstick != "" {
			t.Head = append(t.Head, "× "+yardstick)
		}
	}
	for _, p := range r.Policies() {
		row := []string{p}
		for _, l := range levels {
			cell := Show(r.Mean(p, l, "p90Ms"), 0) + "/" + Show(r.Mean(p, l, "costUnits"), 1)
			if scenarios {
				cell += "/" + Show(r.Mean(p, l, "sloViolationMinutes"), 1)
			}
			if lost := r.Lost(p, l); lost > 0 {
				cell += fmt.Sprintf(" !%d%%", lost)
				t.Caption = strings.TrimSuffix(t.Caption, lostCaption) + lostCaption
			}
			row = append(row, cell)
		}
		if scenarios {
			row = append(row, Show(r.Total(p, "costUnits"), 1), Show(r.Total(p, "sloViolationMinutes"), 1))
			if yardstick != "" {
				row = append(row, Show(r.Total(p, "costUnits")/r.Total(yardstick, "costUnits"), 2))
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

const lostCaption = "; ! where so many of the requests failed or were not answered by the end, which are in no percentile"

// Lost is how many of a hundred requests of a policy at a level failed, or were not answered by the
// end. Quantiles are of the others, so that a policy that hardly answers may look better than one
// that does.
func (r *Results) Lost(policy string, l Level) int {
	failed, unfinished := r.Mean(policy, l, "failed"), r.Mean(policy, l, "unfinished")
	if math.IsNaN(unfinished) {
		unfinished = 0
	}
	part := (failed + unfinished) / (r.Mean(policy, l, "requests") + unfinished)
	if math.IsNaN(part) {
		return 0 // there were none
	}
	return int(math.Round(100 * part))
}

// movesMeasured are the measures of how replicas changed.
var movesMeasured = []string{"maxReplicasMinutes", "growths", "replicasAdded", "shrinks", "spanReplicaMinutes"}

// moves is how each policy changed the replicas.
func (e *Experiment) moves(r *Results) Table {
	t := Table{Caption: "how replicas were changed, by policy and level", Head: []string{"policy", "at"}, Left: 2}
	t.Head = append(t.Head, movesMeasured...)
	for _, p := range r.Policies() {
		for _, l := range r.Levels() {
			row := []string{p, l.String()}
			for _, name := range movesMeasured {
				row = append(row, Show(r.Mean(p, l, name), 1))
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// sums is what each policy comes to over all scenarios.
func (e *Experiment) sums(r *Results) Table {
	t := Table{
		Caption: "Over all scenarios, in a trial; area: minutes that all requests together took beyond the target",
		Head:    []string{"policy", "in time", "late", "failed", "worst min", "min over", "area", "pod-min", "cost", "machines ordered", "changes", "thrash", "pods moved"}, Left: 1,
	}
	for _, p := range r.Policies() {
		row := []string{p}
		for _, m := range []string{"goodFraction", "lateShare", "failedShare"} {
			row = append(row, Show(100*r.perRequest(p, m), 2)+" %")
		}
		row = append(row, Show(100*r.worst(p), 0)+" %")
		for _, m := range []string{"sloViolationMinutes", "overMinutes", "podMinutes", "costUnits", "orders", "decisions", "thrash", "podMoves"} {
			row = append(row, Show(r.Total(p, m), 1))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// perRequest is a part of a policy's requests at all levels, each weighted by its requests.
func (r *Results) perRequest(policy, measure string) float64 {
	sum, requests := 0.0, 0.0
	for _, l := range r.Levels() {
		n := r.Mean(policy, l, "requests")
		sum, requests = sum+n*r.Mean(policy, l, measure), requests+n
	}
	return sum / requests
}

// worst is the highest late share of a minute at any level, in the mean of its trials.
func (r *Results) worst(policy string) float64 {
	worst := 0.0
	for _, l := range r.Levels() {
		worst = max(worst, r.Mean(policy, l, "worstMinute"))
	}
	return worst
}

// Clairvoyant names the experiment's yardstick, if it has one.
func (e *Experiment) Clairvoyant() string {
	for i := range e.Policies {
		if e.Policies[i].Clairvoyant {
			return e.Policies[i].Name
		}
	}
	return ""
}

// By is one measure in a table: the mean, and behind it half the width of its 95 % interval.
func (r *Results) By(m *Measure, unit string) Table {
	t := Table{Caption: m.Title, Head: []string{"policy"}, Left: 1}
	if unit != "" {
		t.Caption += " (" + unit + ")"
	}
	levels := r.Levels()
	for _, l := range levels {
		t.Head = append(t.Head, l.String())
	}
	for _, p := range r.Policies() {
		row := []string{p}
		for _, l := range levels {
			cell := "–"
			if s := r.At(p, l); s != nil {
				cell = s.Measures[m.Name].show()
			}
			row = append(row, cell)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// Knows reports whether there is any value of a measure.
func (r *Results) Knows(m *Measure) bool {
	return slices.ContainsFunc(r.Summary, func(s Summary) bool { return !math.IsNaN(float64(s.Measures[m.Name].Mean)) })
}

func (s Stat) show() string {
	mean, half := float64(s.Mean), float64(s.High-s.Low)/2
	digits := 0
	if math.Abs(mean) < 100 && mean != math.Trunc(mean) {
		digits = 2 - min(1, int(math.Abs(mean)))
	}
	if math.IsNaN(half) {
		return Show(mean, digits)
	}
	return Show(mean, digits) + " ± " + Show(half, digits)
}

// Side is the results beside the reference's, flagged where they are further apart than its
// tolerance. It is false if the experiment has no reference, or was run under another load or for
// another time than the reference.
func (e *Experiment) Side(r *Results) (Table, bool) {
	ref := e.Reference
	if ref == nil || r.Load != e.Load.Kind || r.DurationSeconds != int(e.Duration.Seconds()) {
		return Table{}, false
	}
	return ref.side(r), true
}

func (ref *Reference) side(r *Results) Table {
	t := Table{Caption: "ours / reference's; ! where they are further apart than " + ref.tolerances(), Head: []string{"policy", "at"}, Left: 2}
	var measures []*Measure
	for i := range Measures {
		if _, has := ref.Tolerance[Measures[i].Name]; has {
			measures = append(measures, &Measures[i])
			t.Head = append(t.Head, Measures[i].Name, "off")
		}
	}
	at := map[string]int{}
	for _, d := range ref.Compare(r) {
		key := d.Policy + "\x00" + d.Level.String()
		if _, has := at[key]; !has {
			at[key] = len(t.Rows)
			row := append([]string{d.Policy, d.Level.String()}, slices.Repeat([]string{"", ""}, len(measures))...)
			t.Rows = append(t.Rows, row)
		}
		row := t.Rows[at[key]]
		i := 2 + 2*slices.IndexFunc(measures, func(m *Measure) bool { return m.Name == d.Measure })
		row[i] = Show(d.Ours, 1) + " / " + Show(d.Theirs, 1)
		row[i+1] = fmt.Sprintf("%+.0f %%  ", 100*d.Off)
		if d.Flagged {
			row[i+1] = fmt.Sprintf("%+.0f %% !", 100*d.Off)
		}
	}
	return t
}

func (ref *Reference) tolerances() string {
	var out []string
	for _, m := range Measures {
		if s, has := ref.Tolerance[m.Name]; has {
			out = append(out, fmt.Sprintf("%s in %s", s, m.Name))
		}
	}
	return strings.Join(out, ", ")
}

// Show prints a number, or a dash for what is unknown. Of large numbers no decimals are shown, and
// of small ones as many as leave something to be seen: machines may be priced in cents.
func Show(v float64, digits int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	switch a := math.Abs(v); {
	case a >= 100:
		digits = 0
	case digits > 0 && 0 < a && a < 0.1:
		digits = max(digits, 1-int(math.Floor(math.Log10(a))))
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}
