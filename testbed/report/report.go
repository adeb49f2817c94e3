package report

import (
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/api/printable"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// Report is an experiment with its results.
type Report struct {
	Experiment *testbed.Experiment // as its file says, even if only a part of it was run
	Results    *testbed.Results
	// File is the experiment's file, to be shown as it was written.
	File []byte
	// Took is how long the runs took on the clock on the wall; 0 when that is not known. It is
	// the one thing on the page that a repetition does not repeat.
	Took time.Duration
}

//go:embed report.html beside.html simulated.html replay.html
var pages embed.FS

var layouts = template.Must(template.ParseFS(pages, "*.html"))

// head is what every page begins with.
type head struct {
	Title, Lead string
	By          string // the command that wrote it
}

// Head is how the page begins.
func (r *Report) Head() head { return head{r.Experiment.Title, r.Experiment.Shows, "testbed"} }

// content is what the page is made of.
type content struct {
	*Report
	Figures   []Figure
	Courses   []Figure
	Tables    []testbed.Table
	Measures  []testbed.Table
	Verdicts  []testbed.Verdict
	Sentences []string      // how each policy compares with the first
	Beside    testbed.Table // the same in numbers
	Claimed   testbed.Table
	Claims    []claim
	Reference *testbed.Table
	Flagged   int
	Facts     [][2]string
	Command   string
	Work      string
}

// claim is what became of one of the experiment's claims.
type claim struct {
	Name, Text, Sentence string
	Table, Differences   testbed.Table
	Verdicts             []string
}

// WriteHTML writes the page.
func (r *Report) WriteHTML(w io.Writer) error {
	c := content{
		Report: r, Tables: shown(r.Experiment, r.Results), Verdicts: r.Experiment.Judge(r.Results),
		Figures: summed(r.Experiment, r.Results), Courses: courses([]testbed.Source{{Results: r.Results}}),
		Facts: r.facts(), Command: r.command(), Work: r.work(),
	}
	c.Sentences, c.Beside = verdict(r.Results)
	for i := range testbed.Measures {
		m := &testbed.Measures[i]
		unit := m.Unit
		if m.Name == "costUnits" {
			unit = r.Results.Unit
		}
		if t := r.Results.By(m, unit); r.Results.Knows(m) && says(&t) {
			c.Measures = append(c.Measures, t)
		}
	}
	c.Claimed = r.Experiment.Claimed(r.Results)
	for i := range r.Experiment.Claims {
		c.Claims = append(c.Claims, tried(&r.Experiment.Claims[i], r.Results))
	}
	if t, ok := r.Experiment.Side(r.Results); ok {
		c.Reference = &t
		for _, d := range r.Experiment.Reference.Compare(r.Results) {
			if d.Flagged {
				c.Flagged++
			}
		}
	}
	return page(w, "report.html", &c)
}

// page writes a page of a layout. What steers a browser's lines is in no text of it.
func page(w io.Writer, layout string, content any) error {
	out := printable.NewWriter(w)
	if err := errors.Join(layouts.ExecuteTemplate(out, layout, content), out.Close()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// tried puts the comparisons of a claim into a table, a row for each pair of policies.
func tried(c *testbed.Claim, r *testbed.Results) claim {
	all := c.Try(r)
	out := claim{Name: c.Name, Text: c.Text, Sentence: testbed.Sentence(all), Verdicts: testbed.Verdicts(all), Differences: c.Differences(all)}
	out.Table = testbed.Table{
		Caption: "↓ lower, ↑ higher, ≈ alike, = no significant difference, ? unknown; ✓ the claim comes out",
		Head:    []string{"policy", "against"}, Left: 2,
	}
	columns := map[string]int{}
	for i := range all {
		if _, has := columns[all[i].At]; !has {
			columns[all[i].At] = len(out.Table.Head)
			out.Table.Head = append(out.Table.Head, all[i].At)
		}
	}
	for i := range all {
		x := &all[i]
		rows := out.Table.Rows
		if n := len(rows); n == 0 || rows[n-1][0] != x.Policy || rows[n-1][1] != x.Against {
			row := make([]string, len(out.Table.Head))
			row[0], row[1] = x.Policy, x.Against
			out.Table.Rows = append(rows, row)
		}
		out.Table.Rows[len(out.Table.Rows)-1][columns[x.At]] = arrows(x)
	}
	return out
}

func arrows(c *testbed.Comparison) string {
	var b strings.Builder
	for _, d := range c.Differences {
		b.WriteString(map[string]string{"lower": "↓", "higher": "↑", "alike": "≈", "level": "=", "unknown": "?"}[d.Side()])
	}
	if c.ComesOut() {
		b.WriteString(" ✓")
	}
	return b.String()
}

// facts are the parameters that a reader asks for first.
func (r *Report) facts() [][2]string {
	e := r.Experiment
	facts := [][2]string{
		{"world", r.Results.World},
		{"runs", fmt.Sprintf("%d of %d: %d × %d × %d (policies, levels, trials)", len(r.Results.Runs), r.Results.Planned,
			len(r.Results.Policies()), len(r.Results.Levels()), r.Results.Trials)},
		{"seed", fmt.Sprint(r.Results.Seed)},
		{"load", string(r.Results.Load) + thinking(e, r.Results.Load)},
		{"loop", "a step every " + pricing.Short(e.Tick)},
		{"a machine is made in", testbed.Range{Min: e.Delays.Clone.Min + e.Delays.Boot.Min, Max: e.Delays.Clone.Max + e.Delays.Boot.Max}.String() + atATime(e)},
	}
	if len(e.Load.Scenarios) == 0 {
		facts = append(facts, [2]string{"length of a trial", pricing.Short(time.Duration(r.Results.DurationSeconds) * time.Second)})
	}
	for i := range e.Pools {
		p := &e.Pools[i]
		for _, s := range p.Shapes {
			rate, most := e.FirstRates(p, s)
			price := rate.String()
			if most != rate {
				price += " to " + most.String()
			}
			facts = append(facts, [2]string{"machine " + s.Name, fmt.Sprintf("%s vCPU, %s, %s %s/h, %d to %d of them",
				s.CPU, s.Memory, price, e.Prices.Unit, p.Min, p.Max)})
		}
	}
	for _, w := range e.Workloads {
		facts = append(facts, [2]string{w.Name, fmt.Sprintf("a pod requests %s vCPU and %s and may use %s; a request takes %s ± %s of CPU; objective %s within %s",
			w.Requests.CPU, w.Requests.Memory, w.Quota, pricing.Short(w.Demand.Mean), w.Demand.Spread, w.SLO.P, pricing.Short(w.SLO.Target))})
	}
	return append(facts, [2]string{"version", r.Results.Version})
}

func atATime(e *testbed.Experiment) string {
	if e.Delays.Clones == 0 {
		return ""
	}
	return fmt.Sprintf(", %d at a time", e.Delays.Clones)
}

// thinking is the pause of those who have one.
func thinking(e *testbed.Experiment, kind sim.Kind) string {
	if e.Load.Think == 0 || kind == sim.Open {
		return ""
	}
	return ", " + pricing.Short(e.Load.Think)
}

// command is what runs the experiment again, as it was run.
func (r *Report) command() string {
	return strings.Join(append(again(r.Results), "--out ."), " ")
}

// again are the words that run an experiment as it was run.
func again(r *testbed.Results) []string {
	return append([]string{"plimsoll testbed run experiment.yaml --world", r.World}, r.Options...)
}

func (r *Report) work() string {
	requests := 0
	for i := range r.Results.Runs {
		requests += r.Results.Runs[i].Requests
	}
	text := fmt.Sprintf("%d requests were simulated", requests)
	if r.Took > 0 {
		text += fmt.Sprintf(" in %.1f s, %.1f million a second", r.Took.Seconds(), float64(requests)/r.Took.Seconds()/1e6)
	}
	return text + "."
}
