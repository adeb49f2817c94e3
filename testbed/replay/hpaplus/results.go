package hpaplus

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"

	"github.com/plimsoll/plimsoll/testbed"
)

// World is where these experiments run, unless they are compared with a cluster.
const World = "replay"

// Results are what became of an experiment. The same experiment with the same seed gives the same
// bytes: how long training took is kept apart, in Times.
type Results struct {
	Header
	Runs    []Outcome `json:"runs"`
	Summary []Summary `json:"summary"`
	Times   []Timing  `json:"-"`
}

// Header says what the results are of.
type Header struct {
	Experiment string `json:"experiment"`
	World      string `json:"world"`
	Seed       uint64 `json:"seed"`
	Version    string `json:"version"`
	Compare    string `json:"compare"`
	Trials     int    `json:"trials"` // of drawn traces
	// Traces are those that were played, in order.
	Traces []string `json:"traces"`
	// Own says that these are all of the experiment's own, which its assertions are about.
	Own bool `json:"own"`
	// Planned is how many draws and recordings there should be, and Done how many were played; an
	// interrupted experiment has fewer.
	Planned int      `json:"planned"`
	Done    int      `json:"done"`
	Options []string `json:"options,omitempty"`
}

// Outcome is what came of a row on a trace in a case.
type Outcome struct {
	Trace string `json:"trace"`
	Trial int    `json:"trial"` // from 1 on
	Row   string `json:"row"`
	// Against is the row that it is set against at equal pod-minutes.
	Against  string                    `json:"against,omitempty"`
	Case     Case                      `json:"case"`
	Measures map[string]testbed.Number `json:"measures"`
	// Active are who decided for what part of the time.
	Active map[string]testbed.Number `json:"active,omitempty"`
	// Leaders are who decided from when on, and Course what had been lost by when.
	Leaders []Turn `json:"leaders,omitempty"`
	Course  []Mark `json:"course,omitempty"`

	requests int
}

// Turn is who decides from a minute on, and why then.
type Turn struct {
	Minute int    `json:"minute"`
	Leader string `json:"leader"`
	Why    string `json:"why,omitempty"`
}

// Mark is what a run came to by the end of an hour.
type Mark struct {
	Hour       int            `json:"hour"`
	Lost       testbed.Number `json:"lost"` // percent of what had arrived
	PodMinutes int            `json:"podMinutes"`
}

// Summary is all runs of a row in a case: on each trace the mean over its trials, and over the
// traces the median of these means.
type Summary struct {
	Row      string          `json:"row"`
	Against  string          `json:"against,omitempty"`
	Case     Case            `json:"case"`
	Measures map[string]Over `json:"measures"`
	Active   map[string]Over `json:"active,omitempty"`
}

// Over is a measure over all traces.
type Over struct {
	Range
	Traces map[string]Stat `json:"traces"`
}

// Range is the median over traces, and the first and ninth decile.
type Range struct {
	Median testbed.Number `json:"median"`
	Low    testbed.Number `json:"low"`
	High   testbed.Number `json:"high"`
}

// Stat is a measure over the trials on one trace.
type Stat struct {
	testbed.Stat
	// Known is in how many trials it is known: what is a part of hardly anything is not.
	Known int `json:"known"`
}

// Timing is how long a forecaster took to train.
type Timing struct {
	Trace   string  `json:"trace"`
	Trial   int     `json:"trial"`
	Row     string  `json:"row"`
	Seconds float64 `json:"seconds"`
}

// Measure is a number that runs may have.
type Measure struct {
	Name, Head, Title, Unit string
	Digits                  int
	in                      []string // the comparisons that have it
}

// Measures are all of them, in the order of tables.
var Measures = []Measure{
	{"lost", "lost %", "requests lost", "%", 2, []string{Scalers, Equal}},
	{"podMinutes", "pod-minutes", "pod-minutes", "", 0, []string{Scalers, Equal}},
	{"pods", "pods", "pods, mean", "", 2, []string{Scalers, Equal, Models}},
	{"moves", "changes", "changes of replicas", "", 0, []string{Scalers}},
	{"lostChange", "lost, Δ %", "lost, against the baseline", "%", 1, []string{Scalers}},
	{"podsChange", "pod-min, Δ %", "pod-minutes, against the baseline", "%", 1, []string{Scalers}},
	{"lostRatio", "lost, ratio", "lost at the other's pod-minutes, in parts of its loss", "", 2, []string{Equal}},
	{"podsAtLoss", "pod-min at its loss, Δ %", "pod-minutes at the other's loss, against its own", "%", 1, []string{Equal}},
	{"r2", "R²", "R² a minute ahead", "", 3, []string{Forecasters}},
	{"r2Forward", "R² forward", "R² a minute ahead, walking forward through the training days", "", 3, []string{Forecasters}},
	{"rmse", "RMSE", "RMSE, in standard deviations of the training days", "", 3, []string{Forecasters}},
	{"covered", "covered %", "minutes within the 95 % quantile", "%", 1, []string{Forecasters}},
	{"kilobytes", "memory kB", "memory", "kB", 1, []string{Forecasters}},
	{"mse", "MSE", "mean squared difference from the lossless model's pods", "", 3, []string{Models}},
}

// costMeasure is the cost of a row in parts of the baseline's, at so many lost requests a
// pod-minute.
func costMeasure(weight float64) Measure {
	return Measure{"cost" + number(weight), "cost at " + number(weight), fmt.Sprintf("cost, a pod-minute at %s lost requests, in parts of the baseline's", number(weight)), "", 2, []string{Scalers}}
}

// Measures are those of the experiment.
func (e *Experiment) Measures() []Measure {
	var out []Measure
	for _, m := range Measures {
		if slices.Contains(m.in, e.Replay.Compare) {
			out = append(out, m)
		}
	}
	for _, w := range e.Replay.Weights {
		out = append(out, costMeasure(w))
	}
	return out
}

func (e *Experiment) measureNames() []string {
	var out []string
	for _, m := range e.Measures() {
		out = append(out, m.Name)
	}
	return out
}

// key is what runs are summed up by.
type key struct {
	row, against string
	c            Case
}

// sum makes the summary of the runs.
func (r *Results) sum() {
	r.Summary = nil
	groups := map[key][]*Outcome{}
	var order []key
	for i := range r.Runs {
		run := &r.Runs[i]
		k := key{run.Row, run.Against, run.Case}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], run)
	}
	for _, k := range order {
		s := Summary{Row: k.row, Against: k.against, Case: k.c, Measures: map[string]Over{}}
		for name := range groups[k][0].Measures {
			s.Measures[name] = r.over(groups[k], func(run *Outcome) float64 { return float64(run.Measures[name]) })
		}
		for _, who := range leaders(groups[k]) {
			if s.Active == nil {
				s.Active = map[string]Over{}
			}
			s.Active[who] = r.over(groups[k], func(run *Outcome) float64 { return float64(run.Active[who]) })
		}
		r.Summary = append(r.Summary, s)
	}
}

// leaders are all who decided in any of the runs.
func leaders(runs []*Outcome) []string {
	all := map[string]bool{}
	for _, run := range runs {
		for who := range run.Active {
			all[who] = true
		}
	}
	out := make([]string, 0, len(all))
	for who := range all {
		out = append(out, who)
	}
	sort.Strings(out)
	return out
}

// over sums a measure up: by trace, and over traces.
func (r *Results) over(runs []*Outcome, of func(*Outcome) float64) Over {
	out := Over{Traces: map[string]Stat{}}
	var means []float64
	for _, trace := range r.Traces {
		var known []float64
		for _, run := range runs {
			if v := of(run); run.Trace == trace && !math.IsNaN(v) {
				known = append(known, v)
			}
		}
		s := Stat{Stat: testbed.StatOf(known), Known: len(known)}
		if len(known) == 0 {
			s.Mean = testbed.Number(math.NaN())
		} else {
			means = append(means, float64(s.Mean))
		}
		out.Traces[trace] = s
	}
	slices.Sort(means)
	out.Range = Range{
		Median: testbed.Rounded(quantile(means, 0.5)), Low: testbed.Rounded(quantile(means, 0.1)), High: testbed.Rounded(quantile(means, 0.9)),
	}
	return out
}

// quantile is that of sorted values, on a straight line between them; unknown without any.
func quantile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := p * float64(len(sorted)-1)
	i := min(int(at), len(sorted)-1)
	j := min(i+1, len(sorted)-1)
	return sorted[i] + (at-float64(i))*(sorted[j]-sorted[i])
}

// At returns the summary of a row in a case, or nil.
func (r *Results) At(row, against string, c Case) *Summary {
	for i := range r.Summary {
		if s := &r.Summary[i]; s.Row == row && s.Against == against && s.Case == c {
			return s
		}
	}
	return nil
}

// Cases are those that there are runs in, in order.
func (r *Results) Cases() []Case {
	return testbed.Distinct(r.Summary, func(s *Summary) Case { return s.Case })
}

// Seconds is how long a row took to train, on the mean over all traces and trials.
func (r *Results) Seconds(row string) float64 {
	sum, n := 0.0, 0
	for _, t := range r.Times {
		if t.Row == row {
			sum, n = sum+t.Seconds, n+1
		}
	}
	return sum / float64(n) // unknown without any
}

// Write writes the results as JSON, a run a line, so that two files can be compared line by line.
func (r *Results) Write(w io.Writer) error { return testbed.WriteLines(w, r.Header, r.Runs, r.Summary) }

// WriteTimes writes how long training took.
func (r *Results) WriteTimes(w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(r.Times)
}

// ReadResults reads what Write wrote.
func ReadResults(in io.Reader) (*Results, error) {
	d := json.NewDecoder(in)
	d.DisallowUnknownFields()
	var out Results
	if err := d.Decode(&out); err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("read results: must end after the results")
	}
	if out.World != World {
		return nil, fmt.Errorf("read results: world: must be %s, was %q", World, out.World)
	}
	return &out, nil
}

// ReadTimes reads what WriteTimes wrote.
func ReadTimes(in io.Reader) ([]Timing, error) {
	var out []Timing
	if err := json.NewDecoder(in).Decode(&out); err != nil {
		return nil, fmt.Errorf("read times: %w", err)
	}
	return out, nil
}
