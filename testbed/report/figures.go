package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/figure"
)

// Figure is a chart with the name of its file, and what it shows in words and numbers.
type Figure struct {
	Name, Title, Desc string
	SVG, Narrow       []byte // the same on a telephone
	Table             testbed.Table
}

// Drawing is the figure as it is on a page, of which one drawing is shown: our own, escaped where
// they were drawn.
func (f Figure) Drawing() template.HTML { return template.HTML(f.SVG) + template.HTML(f.Narrow) }

// Short reports whether its table can be read at a glance.
func (f Figure) Short() bool { return len(f.Table.Rows) <= 12 }

// Figures draws the results: of a sweep, response time and cost against users; of scenarios,
// violations against cost. Where the experiment keeps how many replicas were asked for when, that
// comes first. Last is how each policy went about it in one trial.
func Figures(e *testbed.Experiment, r *testbed.Results) []Figure {
	return append(summed(e, r), courses([]testbed.Source{{Results: r}})...)
}

func summed(e *testbed.Experiment, r *testbed.Results) []Figure {
	charts, one := replicas(e, r), []testbed.Source{{Results: r}}
	if len(e.Load.Scenarios) > 0 {
		charts = append(charts, pareto(e, one))
	} else {
		charts = append(charts, responseTime(e, one), cost(e, one))
	}
	return drawn(charts)
}

func drawn(charts []*figure.Chart) []Figure {
	out := make([]Figure, len(charts))
	for i, c := range charts {
		out[i] = Figure{c.ID, c.Title, c.Desc, c.SVG(), c.Narrow(), tabulate(c)}
	}
	return out
}

// replicas draws how many replicas each policy asked for when, in the first trial at each level.
func replicas(e *testbed.Experiment, r *testbed.Results) []*figure.Chart {
	if !e.Path {
		return nil
	}
	var out []*figure.Chart
	for _, l := range r.Levels() {
		c := &figure.Chart{
			ID: "replicas-" + l.String(), Title: "Replicas, at " + l.String(), Steps: true,
			X: figure.Axis{Title: "time", Unit: "min"}, Y: figure.Axis{Title: "replicas asked for"},
			Desc: "How many replicas each policy asked for when, in its first trial.",
		}
		if s := e.Span; s != nil {
			c.X.Lines = []figure.Line{{At: s.Min.Minutes(), Label: "span"}, {At: s.Max.Minutes(), Label: "its end"}}
		}
		for i := range r.Runs {
			run := &r.Runs[i]
			if run.Trial != 1 || run.Level() != l || len(run.Path) == 0 {
				continue
			}
			s := figure.Series{Name: run.Policy}
			for _, m := range run.Path {
				x, y := float64(m.Seconds)/60, float64(m.Replicas)
				s.Points = append(s.Points, figure.Point{X: x, Y: y, Low: y, High: y})
			}
			c.Series = append(c.Series, s)
		}
		if len(c.Series) > 0 {
			out = append(out, c)
		}
	}
	return out
}

func responseTime(e *testbed.Experiment, all []testbed.Source) *figure.Chart {
	c := overUsers(all, "p90Ms", "Response time", figure.Axis{Title: "90th percentile of response time", Unit: "ms"})
	c.ID = "p90"
	c.Desc += unanswered(all)
	c.Y.Lines = objectives(e)
	return c
}

// objectives are the workloads' lines. What is drawn is a 90th percentile of all requests: it is
// over an objective only where that is of this quantile, and of them all.
func objectives(e *testbed.Experiment) []figure.Line {
	own := func(w testbed.Workload) bool { return w.SLO != e.Workloads[0].SLO }
	several := slices.ContainsFunc(e.Workloads, own)
	var out []figure.Line
	for _, w := range e.Workloads {
		ms := float64(w.SLO.Target) / float64(time.Millisecond)
		l := figure.Line{At: ms, Label: fmt.Sprintf("objective %g ms", ms), Limit: w.SLO.P == .9 && !several}
		if w.SLO.P != .9 {
			l.Label += " at the " + w.SLO.P.String()
		}
		if several {
			l.Label += " of " + w.Name
		}
		if !slices.Contains(out, l) {
			out = append(out, l)
		}
	}
	return out
}

// unanswered says where a good part of the requests is in no percentile.
func unanswered(all []testbed.Source) string {
	var where []string
	for i := range all {
		for _, p := range all[i].Policies() {
			for _, l := range all[i].Levels() {
				if lost := all[i].Lost(p, l); lost > 0 {
					where = append(where, fmt.Sprintf("%d %% of %s at %s", lost, in(p, &all[i]), l))
				}
			}
		}
	}
	if len(where) == 0 {
		return ""
	}
	return " Requests that failed, or were not answered by the end, are not in it: " + strings.Join(where, ", ") + "."
}

func cost(e *testbed.Experiment, all []testbed.Source) *figure.Chart {
	c := overUsers(all, "costUnits", "Cost of a trial", figure.Axis{Title: "cumulative cost", Unit: all[0].Unit})
	c.ID = "cost"
	length := time.Duration(all[0].DurationSeconds) * time.Second
	for _, p := range e.Policies {
		if p.Cost == nil {
			continue
		}
		at := p.Cost.Target.Units() * length.Hours() / p.Cost.Per.Hours()
		l := figure.Line{At: at, Label: fmt.Sprintf("target %s per %s", p.Cost.Target, pricing.Short(p.Cost.Per))}
		if !slices.Contains(c.Y.Lines, l) {
			c.Y.Lines = append(c.Y.Lines, l)
		}
	}
	return c
}

// overUsers draws a measure against the number of users, a line for each policy in each of the
// sources.
func overUsers(all []testbed.Source, measure, title string, y figure.Axis) *figure.Chart {
	c := &figure.Chart{Title: title, X: figure.Axis{Title: usersOf(all[0].Results)}, Y: y}
	for i := range all {
		for _, l := range all[i].Levels() {
			c.X.At = append(c.X.At, float64(l.Users))
		}
		for _, p := range all[i].Policies() {
			s := line(&all[i], p, measure)
			s.Kin = 1 + slices.Index(all[0].Policies(), p)
			c.Series = append(c.Series, s)
		}
	}
	slices.Sort(c.X.At)
	c.X.At = slices.Compact(c.X.At)
	of := fmt.Sprintf("%d policies", len(all[0].Policies()))
	if len(all) > 1 {
		of = fmt.Sprintf("%d policies in %d runs", len(all[0].Policies()), len(all))
	}
	c.Desc = fmt.Sprintf("%s against %s for %s, %s; the shaded bands are 95 %% intervals of the mean over %d trials.",
		strings.ToUpper(y.Title[:1])+y.Title[1:], c.X.Title, of, reach(c.Series, y.Unit), all[0].Trials)
	return c
}

// line is a policy's in a source.
func line(of *testbed.Source, policy, measure string) figure.Series {
	s := figure.Series{Name: in(policy, of)}
	for _, l := range of.Levels() {
		if sum := of.At(policy, l); sum != nil {
			s.Points = append(s.Points, point(float64(l.Users), sum.Measures[measure]))
		}
	}
	return s
}

// reach says from where to where the lines go.
func reach(lines []figure.Series, unit string) string {
	lowest, highest := math.Inf(1), math.Inf(-1)
	for _, s := range lines {
		for _, v := range s.Points {
			if !math.IsNaN(v.Y) {
				lowest, highest = min(lowest, v.Y), max(highest, v.Y)
			}
		}
	}
	if lowest > highest {
		return "none of it known"
	}
	return fmt.Sprintf("from %.4g to %.4g %s", lowest, highest, unit)
}

// usersOf says what the levels of a sweep count.
func usersOf(r *testbed.Results) string {
	if r.Load == "open" {
		return "requests per second"
	}
	return "virtual users"
}

// point is a mean with its interval, or without one where there was one trial.
func point(x float64, s testbed.Stat) figure.Point {
	p := figure.Point{X: x, Y: float64(s.Mean), Low: float64(s.Low), High: float64(s.High)}
	if math.IsNaN(p.Low) {
		p.Low, p.High = p.Y, p.Y
	}
	return p
}

// pareto draws the sums over all scenarios: what a policy costs against what its users suffer, with
// a line through the policies that no other of its source beats in both. Clairvoyant ones, which
// beat all, are beside it.
func pareto(e *testbed.Experiment, sources []testbed.Source) *figure.Chart {
	c := &figure.Chart{
		ID: "pareto", Title: "Cost against violations, over all scenarios", Scatter: true,
		X: figure.Axis{Title: "cost", Unit: sources[0].Unit},
		Y: figure.Axis{Title: "time over the target", Unit: "min"},
	}
	var guides []figure.Series
	joined := 0
	for i := range sources {
		s := &sources[i]
		var all []figure.Point
		for _, p := range s.Policies() {
			at := at(s.Total(p, "costUnits"), s.Total(p, "sloViolationMinutes"))
			if p != e.Clairvoyant() {
				all = append(all, at)
			}
			c.Series = append(c.Series, figure.Series{Name: in(p, s), Kin: 1 + slices.Index(sources[0].Policies(), p), Points: []figure.Point{at}})
		}
		best := frontier(all)
		joined += len(best)
		guides = append(guides, figure.Series{Name: in("frontier", s), Guide: true, Points: best})
	}
	c.Desc = fmt.Sprintf("Each of %d policies by what it cost and how long its users waited too long; nearer to the lower left is better. "+
		"%s.", len(c.Series), front(joined))
	c.Series = append(c.Series, guides...)
	return c
}

// front says what the line through the best policies is, if there is one.
func front(joined int) string {
	if joined < 2 {
		return "One policy beats all others in both, short of a clairvoyant one"
	}
	return fmt.Sprintf("The dashed line joins the %d that no other policy beats in both, short of a clairvoyant one", joined)
}

// in is a name with its source's, if that has one.
func in(name string, s *testbed.Source) string {
	if s.Name == "" {
		return name
	}
	return name + " in " + s.Name
}

// frontier returns the points for which no other is lower in one way and at most as high in
// the other, from left to right.
func frontier(all []figure.Point) []figure.Point {
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b figure.Point) int { return cmp.Or(cmp.Compare(a.X, b.X), cmp.Compare(a.Y, b.Y)) })
	var out []figure.Point
	for _, p := range sorted {
		if len(out) == 0 || p.Y < out[len(out)-1].Y {
			out = append(out, p)
		}
	}
	return out
}
