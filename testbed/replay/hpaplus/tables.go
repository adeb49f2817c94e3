package hpaplus

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/testbed"
)

// Tables are the results: on one or two traces all there is to say of each, on more of them the
// medians and what matters most trace by trace; and what else the experiment asks for.
func (e *Experiment) Tables(r *Results) []testbed.Table {
	var tables []testbed.Table
	if tables = e.grids(r); len(tables) > 0 {
		return tables // a line for each case would be hundreds
	}
	if Few(r) {
		for _, trace := range r.Traces {
			tables = append(tables, e.overview(r, trace))
		}
	} else {
		tables = append(tables, e.overview(r, ""))
		for _, name := range e.principal() {
			tables = append(tables, e.byTrace(r, name))
		}
	}
	if e.Replay.Leaders {
		tables = append(tables, e.activity(r))
	}
	return tables
}

// few is of how many traces a median says nothing.
const few = 2

// Few reports whether the traces are so few that each is listed by itself.
func Few(r *Results) bool { return len(r.Traces) <= few }

// principal are the measures that are also listed trace by trace.
func (e *Experiment) principal() []string {
	switch e.Replay.Compare {
	case Equal:
		return []string{"lostRatio", "lost"}
	case Forecasters:
		return []string{"r2"}
	case Models:
		return []string{"mse", "pods"}
	}
	return []string{"lostChange", "podsChange"}
}

// overview is a line for each row in each case, with every measure: on a trace, or over all of them
// without one.
func (e *Experiment) overview(r *Results, trace string) testbed.Table {
	t := e.rowsOf(r, func(*Summary) bool { return true }, func(s *Summary, m *Measure) string {
		switch {
		case m.relative() && e.itself(s, m.Name):
			return ""
		case trace != "":
			return m.stat(s.Measures[m.Name].Traces[trace], r.trials(trace))
		}
		return m.show(s.Measures[m.Name].Range)
	})
	t.Caption = fmt.Sprintf("the median over %d traces [first to ninth decile]", len(r.Traces))
	if trace != "" {
		t.Caption = "on " + trace
		if n := r.trials(trace); n > 1 {
			t.Caption += fmt.Sprintf(": the mean of %d trials, and half of its 95 %% interval", n)
		}
	}
	if len(r.Times) > 0 {
		t.Head = append(t.Head, "training s")
		for i := range t.Rows {
			t.Rows[i] = append(t.Rows[i], testbed.Show(r.Seconds(r.Summary[i].Row), 3))
		}
	}
	return t
}

// rowsOf is a table with a line for each summary that is wanted, by what its cases differ in, and a
// column for each measure.
func (e *Experiment) rowsOf(r *Results, wanted func(*Summary) bool, cell func(*Summary, *Measure) string) testbed.Table {
	t, label := e.labels(r)
	measures := e.Measures()
	for i := range measures {
		t.Head = append(t.Head, measures[i].Head)
	}
	for i := range r.Summary {
		s := &r.Summary[i]
		if !wanted(s) {
			continue
		}
		row := label(s)
		for j := range measures {
			row = append(row, cell(s, &measures[j]))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// labels are the columns of text that tables begin with, and what is in them.
func (e *Experiment) labels(r *Results) (testbed.Table, func(*Summary) []string) {
	differ, against := varying(r.Cases()), len(e.Replay.Against) > 1
	var t testbed.Table
	for _, d := range differ {
		t.Head = append(t.Head, d.key)
	}
	t.Head = append(t.Head, "row")
	if against {
		t.Head = append(t.Head, "against")
	}
	t.Left = len(t.Head)
	return t, func(s *Summary) []string {
		var row []string
		for _, d := range differ {
			row = append(row, number(d.of(&s.Case)))
		}
		row = append(row, s.Row)
		if against {
			row = append(row, s.Against)
		}
		return row
	}
}

// trials are how many there are on a trace.
func (r *Results) trials(trace string) int {
	n := 0
	for i := range r.Runs {
		if r.Runs[i].Trace == trace {
			n = max(n, r.Runs[i].Trial)
		}
	}
	return n
}

// relative reports whether the measure is one row's beside another's.
func (m *Measure) relative() bool {
	return strings.HasSuffix(m.Name, "Change") || strings.HasPrefix(m.Name, "cost") || m.Name == "lostRatio" || m.Name == "podsAtLoss"
}

// show prints a median with its deciles.
func (m *Measure) show(v Range) string {
	if math.IsNaN(float64(v.Median)) {
		return "–"
	}
	if v.Low == v.High {
		return m.number(float64(v.Median))
	}
	return fmt.Sprintf("%s [%s..%s]", m.number(float64(v.Median)), m.number(float64(v.Low)), m.number(float64(v.High)))
}

// number prints a value, a change with its sign.
func (m *Measure) number(v float64) string {
	text := fixed(v, m.Digits)
	if v > 0 && (strings.HasSuffix(m.Name, "Change") || m.Name == "podsAtLoss") {
		return "+" + text
	}
	return text
}

// fixed prints a number with so many decimals, and a dash for what is unknown.
func fixed(v float64, digits int) string {
	if math.IsNaN(v) {
		return "–"
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Trim(text, "-0.") == "" {
		text = strings.TrimPrefix(text, "-")
	}
	return text
}

// byTrace is one measure on every trace: of drawn ones the mean and half the width of its interval.
func (e *Experiment) byTrace(r *Results, name string) testbed.Table {
	all := e.Measures()
	m := all[slices.IndexFunc(all, func(m Measure) bool { return m.Name == name })]
	t, label := e.labels(r)
	t.Caption = m.Title + ", by trace"
	if m.Unit != "" {
		t.Caption += " (" + m.Unit + ")"
	}
	t.Head = append(t.Head, r.Traces...)
	for i := range r.Summary {
		s := &r.Summary[i]
		if e.itself(s, name) {
			continue
		}
		row := label(s)
		for _, trace := range r.Traces {
			row = append(row, m.stat(s.Measures[name].Traces[trace], r.trials(trace)))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// itself reports whether a measure would set a row against itself, or say again what does not
// depend on what it is set against.
func (e *Experiment) itself(s *Summary, measure string) bool {
	switch {
	case measure == "lost":
		return s.Against != "" && s.Against != e.Replay.Against[0]
	case e.Replay.Compare == Models:
		return measure == "mse" && s.Row != Discrete
	case e.Replay.Compare == Scalers:
		return s.Row == e.Replay.Against[0]
	}
	return s.Row == s.Against
}

// stat prints a measure on a trace. Where it is not known in every trial it says in how many.
func (m *Measure) stat(s Stat, trials int) string {
	text := m.number(float64(s.Mean))
	// An interval of the two or one of many trials in which it is known would describe nothing but
	// these.
	if half := float64(s.High-s.Low) / 2; (s.Known == trials || s.Known > 2) && !math.IsNaN(half) {
		text += " ± " + fixed(half, m.Digits)
	}
	if 0 < s.Known && s.Known < trials {
		text += fmt.Sprintf(" (%d of %d)", s.Known, trials)
	}
	return text
}

// activity is who decided for what part of the time, on each trace.
func (e *Experiment) activity(r *Results) testbed.Table {
	t, label := e.labels(r)
	t.Caption = "who decided, % of the time"
	t.Head, t.Left = append(t.Head, "trace"), t.Left+1
	names := r.activeNames()
	t.Head = append(t.Head, names...)
	for i := range r.Summary {
		s := &r.Summary[i]
		if len(s.Active) == 0 {
			continue
		}
		for _, trace := range r.Traces {
			row := append(label(s), trace)
			for _, who := range names {
				row = append(row, fixed(100*float64(s.Active[who].Traces[trace].Mean), 0))
			}
			t.Rows = append(t.Rows, row)
		}
		if len(r.Traces) > few {
			row := append(label(s), "median")
			for _, who := range names {
				row = append(row, fixed(100*float64(s.Active[who].Median), 0))
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

func (r *Results) activeNames() []string {
	var out []string
	for i := range r.Summary {
		for who := range r.Summary[i].Active {
			if !slices.Contains(out, who) {
				out = append(out, who)
			}
		}
	}
	slices.Sort(out)
	return out
}

// grids are lost requests over windows and thresholds, if there are several of both: on one or two
// traces each, on more the median over them.
func (e *Experiment) grids(r *Results) []testbed.Table {
	var windows, thresholds []float64
	for _, c := range r.Cases() {
		windows, thresholds = append(windows, float64(c.Window)), append(thresholds, c.Threshold)
	}
	windows, thresholds = distinct(windows), distinct(thresholds)
	if len(windows) < 2 || len(thresholds) < 2 {
		return nil
	}
	traces := r.Traces
	if len(traces) > few {
		traces = []string{""}
	}
	var out []testbed.Table
	for _, trace := range traces {
		for _, row := range e.Replay.Rows {
			if row != e.Replay.Against[0] {
				out = append(out, e.grid(r, row, trace, windows, thresholds))
			}
		}
	}
	return out
}

func (e *Experiment) grid(r *Results, row, trace string, windows, thresholds []float64) testbed.Table {
	where := trace
	if trace == "" {
		where = fmt.Sprintf("the median over %d traces", len(r.Traces))
	}
	t := testbed.Table{
		Caption: fmt.Sprintf("lost and pod-minutes of %s against %s, Δ %%: windows down, thresholds across; %s", row, e.Replay.Against[0], where),
		Head:    []string{"window"}, Left: 1,
	}
	for _, v := range thresholds {
		t.Head = append(t.Head, number(v))
	}
	for _, w := range windows {
		line := []string{number(w)}
		for _, v := range thresholds {
			i := slices.IndexFunc(r.Summary, func(s Summary) bool {
				return s.Row == row && float64(s.Case.Window) == w && s.Case.Threshold == v
			})
			if i < 0 {
				line = append(line, "–")
				continue
			}
			line = append(line, r.Summary[i].on(trace, "lostChange")+" / "+r.Summary[i].on(trace, "podsChange"))
		}
		t.Rows = append(t.Rows, line)
	}
	return t
}

// on prints a measure on a trace, or its median without one.
func (s *Summary) on(trace, measure string) string {
	over := s.Measures[measure]
	if trace == "" {
		return fixed(float64(over.Median), 1)
	}
	return fixed(float64(over.Traces[trace].Mean), 1)
}

func distinct(values []float64) []float64 {
	slices.Sort(values)
	return slices.Compact(values)
}
