package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/figure"
	"github.com/plimsoll/plimsoll/testbed/replay/hpaplus"
)

// Replay is an experiment under counted loads with its results.
type Replay struct {
	Experiment *hpaplus.Experiment // as its file says, even if only a part of it was run
	Results    *hpaplus.Results
	File       []byte
	Took       time.Duration // 0 when that is not known
}

// replayContent is what its page is made of.
type replayContent struct {
	*Replay
	Figures   []Figure
	Tables    []testbed.Table
	Turns     []testbed.Table
	Verdicts  []testbed.Verdict
	Reference *testbed.Table
	Facts     [][2]string
	Command   string
}

// Head is how the page begins.
func (p *Replay) Head() head { return head{p.Experiment.Title, p.Experiment.Shows, "testbed"} }

// WriteHTML writes the page.
func (p *Replay) WriteHTML(w io.Writer) error {
	c := replayContent{
		Replay: p, Figures: p.Figures(), Tables: p.Experiment.Tables(p.Results), Turns: p.turns(), Verdicts: p.Experiment.Judge(p.Results), Facts: p.facts(),
		Command: strings.Join(append(append([]string{"plimsoll testbed run experiment.yaml"}, p.Results.Options...), "--out ."), " "),
	}
	if t, ok := p.Experiment.Side(p.Results); ok {
		c.Reference = &t
	}
	return page(w, "replay.html", &c)
}

// facts are the parameters that a reader asks for first.
func (p *Replay) facts() [][2]string {
	r := &p.Experiment.Replay
	facts := [][2]string{
		{"world", p.Results.World},
		{"traces", strings.Join(p.Results.Traces, ", ")},
		{"trials", fmt.Sprintf("%d of a trace that is drawn, one of a recorded one", p.Results.Trials)},
		{"seed", fmt.Sprint(p.Results.Seed)},
		{"days", fmt.Sprintf("%d to train, %d to be judged", r.Train, r.Test)},
		{"cases", strings.Join(p.Experiment.CaseNames(), "; ")},
	}
	var entrants []string
	for _, e := range r.Entrants {
		entrants = append(entrants, e.Type)
	}
	if len(entrants) > 0 {
		facts = append(facts, [2]string{"in the race", strings.Join(entrants, ", ")})
	}
	return append(facts, [2]string{"version", p.Results.Version})
}

// turns are who decided from when on and why, of the first trial on each trace, up to as many
// changes as can be read.
func (p *Replay) turns() []testbed.Table {
	const most = 60
	var out []testbed.Table
	for i := range p.Results.Runs {
		run := &p.Results.Runs[i]
		if len(run.Leaders) == 0 {
			continue
		}
		t := testbed.Table{
			Caption: fmt.Sprintf("%s on %s: the first %d of %d changes", run.Row, run.Trace, min(most, len(run.Leaders)), len(run.Leaders)),
			Head:    []string{"minute", "who", "why"}, Left: 3,
		}
		for _, l := range run.Leaders[:min(most, len(run.Leaders))] {
			t.Rows = append(t.Rows, []string{fmt.Sprint(l.Minute), l.Leader, l.Why})
		}
		out = append(out, t)
	}
	return out
}

// Figures draws the results as suits what is compared.
func (p *Replay) Figures() []Figure {
	var charts []*figure.Chart
	switch p.Experiment.Replay.Compare {
	case hpaplus.Forecasters:
		charts = append(charts, p.accuracy())
	case hpaplus.Models:
		charts = append(charts, p.against("excess", "pods", "Replicas of the models", false)...)
		charts = append(charts, p.against("excess", "mse", "Difference from the lossless model", false)...)
	case hpaplus.Equal:
		charts = append(charts, p.against("excess", "lostRatio", "Lost at equal pod-minutes", true)...)
	default:
		charts = p.scalers()
	}
	return drawn(charts)
}

func (p *Replay) scalers() []*figure.Chart {
	charts := p.against("pods", "lostChange", "Lost, against the baseline", true)
	for _, w := range p.Experiment.Replay.Weights {
		name := fmt.Sprintf("cost%g", w)
		charts = append(charts, p.against("pods", name, fmt.Sprintf("Cost, a pod-minute at %g lost requests", w), true)...)
	}
	charts = append(charts, p.tradeoff()...)
	charts = append(charts, p.against("threshold", "lostChange", "Lost, by the threshold", true)...)
	for i := range p.Results.Runs {
		if run := &p.Results.Runs[i]; len(run.Leaders) > 0 {
			charts = append(charts, p.timeline(run))
		}
	}
	return append(charts, p.courses()...)
}

// values are the distinct values of a dimension among the cases, in order.
func (p *Replay) values(key string) []float64 {
	var out []float64
	for _, c := range p.Results.Cases() {
		out = append(out, c.Value(key))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// against draws a measure over a dimension, a line for each row in each case that differs in the
// others. There is nothing to draw over a dimension that has one or two values.
func (p *Replay) against(key, measure, title string, besides bool) []*figure.Chart {
	at := p.values(key)
	if len(at) < 3 {
		return nil
	}
	m := p.measure(measure)
	return p.overTraces(func(trace string) *figure.Chart {
		c := &figure.Chart{ID: key + "-" + measure, Title: title, X: figure.Axis{Title: key, At: at}, Y: figure.Axis{Title: m.Title, Unit: m.Unit}}
		for i := range p.Results.Summary {
			s := &p.Results.Summary[i]
			if besides && (s.Row == s.Against || s.Against == "" && s.Row == p.Experiment.Replay.Against[0]) {
				continue
			}
			p.add(c, p.lineName(s, key), measured(s.Case.Value(key), s.Measures[measure], trace))
		}
		for i := range c.Series {
			slices.SortFunc(c.Series[i].Points, func(a, b figure.Point) int { return cmp.Compare(a.X, b.X) })
		}
		c.Desc = fmt.Sprintf("%s over %s for %d lines, %s.", m.Title, key, len(c.Series), reach(c.Series, m.Unit))
		return c
	})
}

// overTraces draws a chart of each trace if there are few, or else of the medians over them. Where
// nothing is known it draws no chart.
func (p *Replay) overTraces(draw func(trace string) *figure.Chart) []*figure.Chart {
	traces := []string{""}
	if hpaplus.Few(p.Results) {
		traces = p.Results.Traces
	}
	var out []*figure.Chart
	for _, trace := range traces {
		c := draw(trace)
		known := slices.ContainsFunc(c.Series, func(s figure.Series) bool {
			return slices.ContainsFunc(s.Points, func(p figure.Point) bool { return !math.IsNaN(p.Y) })
		})
		if !known {
			continue
		}
		if trace == "" {
			c.Desc += fmt.Sprintf(" Medians over %d traces; the shaded bands go from the first to the ninth decile.", len(p.Results.Traces))
		} else {
			c.ID, c.Title = c.ID+"-"+trace, c.Title+", on "+trace
		}
		out = append(out, c)
	}
	return out
}

// add puts a point on the line of a name.
func (p *Replay) add(c *figure.Chart, name string, at figure.Point) {
	j := slices.IndexFunc(c.Series, func(one figure.Series) bool { return one.Name == name })
	if j < 0 {
		j, c.Series = len(c.Series), append(c.Series, figure.Series{Name: name})
	}
	c.Series[j].Points = append(c.Series[j].Points, at)
}

// lineName names a row with what else its case differs in.
func (p *Replay) lineName(s *hpaplus.Summary, but string) string {
	words := []string{s.Row}
	if len(p.Experiment.Replay.Against) > 1 {
		words[0] += " against " + s.Against
	}
	for _, key := range hpaplus.Dimensions() {
		if key != but && len(p.values(key)) > 1 {
			words = append(words, fmt.Sprintf("%s %g", key, s.Case.Value(key)))
		}
	}
	return strings.Join(words, ", ")
}

// measured is a measure's mean on a trace with its interval, or without one its median with the
// deciles.
func measured(x float64, v hpaplus.Over, trace string) figure.Point {
	if trace != "" {
		return point(x, v.Traces[trace].Stat)
	}
	return figure.Point{X: x, Y: float64(v.Median), Low: float64(v.Low), High: float64(v.High)}
}

func (p *Replay) measure(name string) hpaplus.Measure {
	all := p.Experiment.Measures()
	return all[slices.IndexFunc(all, func(m hpaplus.Measure) bool { return m.Name == name })]
}

// tradeoff draws what is lost against pod-minutes over the excess, a chart for each case but for
// that.
func (p *Replay) tradeoff() []*figure.Chart {
	if len(p.values("excess")) < 2 {
		return nil
	}
	return p.overTraces(func(trace string) *figure.Chart {
		c := &figure.Chart{
			ID: "tradeoff", Title: "Lost requests against pod-minutes, by strategy", Scatter: true,
			X: figure.Axis{Title: "pod-minutes"}, Y: figure.Axis{Title: "requests lost", Unit: "%"},
		}
		for i := range p.Results.Summary {
			s := &p.Results.Summary[i]
			at := measured(measured(0, s.Measures["podMinutes"], trace).Y, s.Measures["lost"], trace)
			at.Low, at.High = at.Y, at.Y
			p.add(c, p.lineName(s, "excess"), at)
		}
		c.Desc = fmt.Sprintf("Each of %d rows at every excess, by its pod-minutes and what it lost; nearer to the lower left is better.", len(c.Series))
		return c
	})
}

// accuracy draws forecasters by what they need and how good they are.
func (p *Replay) accuracy() *figure.Chart {
	c := &figure.Chart{
		ID: "accuracy", Title: "How good forecasters are, and what they hold", Scatter: true,
		X: figure.Axis{Title: "memory, as a power of ten", Unit: "kB"}, Y: figure.Axis{Title: "R² a minute ahead, 0 where it is below"},
		Desc: "Each forecaster by its memory and by R², the median over the traces. Those that do not report their memory are omitted.",
	}
	for i := range p.Results.Summary {
		s := &p.Results.Summary[i]
		y := max(float64(s.Measures["r2"].Median), 0)
		x := math.Log10(float64(s.Measures["kilobytes"].Median))
		c.Series = append(c.Series, figure.Series{Name: s.Row, Points: []figure.Point{{X: x, Y: y, Low: y, High: y}}})
	}
	return c
}

// timeline draws who decided for what part of each hour: from minute to minute they change too
// often to be seen.
func (p *Replay) timeline(run *hpaplus.Outcome) *figure.Chart {
	c := &figure.Chart{
		ID: "leaders-" + run.Trace, Title: "Who decided, on " + run.Trace,
		X: figure.Axis{Title: "time", Unit: "h"}, Y: figure.Axis{Title: "part of the hour", Unit: "%"},
		Desc: "Which forecaster set the pods, or the HPA where none was believed, for what part of each hour of the first trial.",
	}
	hours := p.Experiment.Replay.Test * 24
	minutes := map[string][]float64{}
	for i, l := range run.Leaders {
		end := hours * 60
		if i+1 < len(run.Leaders) {
			end = run.Leaders[i+1].Minute
		}
		if minutes[l.Leader] == nil {
			minutes[l.Leader] = make([]float64, hours)
		}
		for minute := l.Minute; minute < end; minute++ {
			minutes[l.Leader][minute/60]++
		}
	}
	for _, who := range slices.Sorted(maps.Keys(minutes)) {
		s := figure.Series{Name: who}
		for hour, n := range minutes[who] {
			y := 100 * n / 60
			s.Points = append(s.Points, figure.Point{X: float64(hour) + 0.5, Y: y, Low: y, High: y})
		}
		c.Series = append(c.Series, s)
	}
	return c
}

// courses draw what had been lost by when, a chart for each trace and excess.
func (p *Replay) courses() []*figure.Chart {
	var out []*figure.Chart
	for i := range p.Results.Runs {
		run := &p.Results.Runs[i]
		if len(run.Course) == 0 {
			continue
		}
		id := fmt.Sprintf("course-%s-%g", run.Trace, run.Case.Excess)
		j := slices.IndexFunc(out, func(c *figure.Chart) bool { return c.ID == id })
		if j < 0 {
			j, out = len(out), append(out, &figure.Chart{
				ID: id, Title: fmt.Sprintf("Lost so far, on %s at an excess of %g", run.Trace, run.Case.Excess),
				X: figure.Axis{Title: "time", Unit: "h"}, Y: figure.Axis{Title: "lost of what had arrived", Unit: "%"},
				Desc: "The part of all requests that had been lost by each hour of the first trial.",
			})
		}
		s := figure.Series{Name: run.Row}
		for _, m := range run.Course {
			y := float64(m.Lost)
			s.Points = append(s.Points, figure.Point{X: float64(m.Hour), Y: y, Low: y, High: y})
		}
		out[j].Series = append(out[j].Series, s)
	}
	return out
}
