package hpaplus

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
	"github.com/plimsoll/plimsoll/podscaler/forecast"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/strict"
)

// Experiment is what an experiment's file says.
type Experiment struct {
	Name  string         `json:"name" strict:"required"`
	Title string         `json:"title" strict:"required"`
	Shows string         `json:"shows" strict:"required"`
	Notes []testbed.Note `json:"notes,omitempty"`
	// Trials is how often a drawn trace is drawn; what was recorded is played once.
	Trials     int         `json:"trials" strict:"required"`
	Seed       uint64      `json:"seed" strict:"required"`
	Replay     Replay      `json:"replay" strict:"required"`
	Assertions []Assertion `json:"assertions,omitempty"`
	Reference  *Reference  `json:"reference,omitempty"`
}

// Replay is what is compared, on what, and what is held fixed.
type Replay struct {
	Compare string `json:"compare" strict:"required"` // Scalers, Equal, Forecasters or Models
	// Traces are those that come with the program; others may take their place.
	Traces []string `json:"traces" strict:"required"`
	// Train and Test are the days that are learnt from, and the days after them that are judged.
	Train int `json:"train" strict:"required"`
	Test  int `json:"test" strict:"required"`

	Profile *Line    `json:"profile,omitempty"`
	MaxPods int      `json:"maxPods,omitempty"`
	Rows    []string `json:"rows,omitempty"`
	// Against are the rows that others are set against: one at the same excess, any at equal
	// pod-minutes.
	Against []string `json:"against,omitempty"`
	// Entrants race in hpa-plus.
	Entrants []forecast.Spec `json:"entrants,omitempty"`
	Cases    []Grid          `json:"cases,omitempty"`
	// Weights are how many lost requests a pod-minute is worth, for a cost of both.
	Weights []float64 `json:"weights,omitempty"`
	// Knobs are the excesses that every scaler is swept over, for a comparison at equal
	// pod-minutes.
	Knobs []float64 `json:"knobs,omitempty"`
	// Leaders keeps who decided when, and Course what was lost by when, of the first trial.
	Leaders bool `json:"leaders,omitempty"`
	Course  bool `json:"course,omitempty"`
	// States are those of the process that models of the HPA are compared under, where it is fitted
	// to a recorded trace.
	States int `json:"states,omitempty"`
}

// What is compared.
const (
	Scalers     = "scalers"     // at the same excess
	Equal       = "equal"       // at the same pod-minutes
	Forecasters = "forecasters" // by their errors a minute ahead
	Models      = "models"      // of the HPA's replicas
)

var comparisons = []string{Scalers, Equal, Forecasters, Models}

// Line is a profile: what so many pods serve is perPod·pods + base requests a second.
type Line struct {
	PerPod float64 `json:"perPod" strict:"required"`
	Base   float64 `json:"base" strict:"required"`
}

// Grid is cases: every combination of its values. What is omitted is the usual.
type Grid struct {
	Pods      []float64 `json:"pods,omitempty"`
	Tolerance []float64 `json:"tolerance,omitempty"`
	Excess    []float64 `json:"excess,omitempty"`
	Timeout   []int     `json:"timeout,omitempty"`
	Window    []int     `json:"window,omitempty"`
	Threshold []float64 `json:"threshold,omitempty"`
}

// Case is what is held fixed while rows are compared.
type Case struct {
	// Pods is the size of the load: what a scaler that knows it would have on the mean at an excess
	// of 0.9.
	Pods      float64 `json:"pods"`
	Tolerance float64 `json:"tolerance"` // of the HPA
	Excess    float64 `json:"excess"`
	Timeout   int     `json:"timeout"`   // periods that a request waits
	Window    int     `json:"window"`    // periods that HPA+ compares its forecasters over
	Threshold float64 `json:"threshold"` // of HPA+, above which it believes none of them
}

// usual is the paper's setting.
var usual = Case{Pods: 5, Tolerance: 0.1, Excess: 0.9, Timeout: 1, Window: 5, Threshold: 0.3}

// dimension is one of the values of a case.
type dimension struct {
	key string
	of  func(*Case) float64
}

var dimensions = []dimension{
	{"pods", func(c *Case) float64 { return c.Pods }},
	{"tolerance", func(c *Case) float64 { return c.Tolerance }},
	{"timeout", func(c *Case) float64 { return float64(c.Timeout) }},
	{"window", func(c *Case) float64 { return float64(c.Window) }},
	{"threshold", func(c *Case) float64 { return c.Threshold }},
	{"excess", func(c *Case) float64 { return c.Excess }},
}

// Dimensions are what cases may differ in.
func Dimensions() []string {
	out := make([]string, len(dimensions))
	for i := range dimensions {
		out[i] = dimensions[i].key
	}
	return out
}

// cases are all of the grid.
func (g *Grid) cases() []Case {
	out := []Case{usual}
	out = spread(out, g.Pods, func(c *Case, v float64) { c.Pods = v })
	out = spread(out, g.Tolerance, func(c *Case, v float64) { c.Tolerance = v })
	out = spread(out, g.Timeout, func(c *Case, v int) { c.Timeout = v })
	out = spread(out, g.Window, func(c *Case, v int) { c.Window = v })
	out = spread(out, g.Threshold, func(c *Case, v float64) { c.Threshold = v })
	return spread(out, g.Excess, func(c *Case, v float64) { c.Excess = v })
}

// spread makes a case of each with each of the values, or leaves them if there are none.
func spread[T any](cases []Case, values []T, set func(*Case, T)) []Case {
	if len(values) == 0 {
		return cases
	}
	var out []Case
	for _, c := range cases {
		for _, v := range values {
			set(&c, v)
			out = append(out, c)
		}
	}
	return out
}

// Cases are those of the experiment, in the order of its file.
func (e *Experiment) Cases() []Case {
	if e.Replay.Compare == Forecasters {
		return []Case{usual}
	}
	var out []Case
	for i := range e.Replay.Cases {
		for _, c := range e.Replay.Cases[i].cases() {
			if !slices.Contains(out, c) {
				out = append(out, c)
			}
		}
	}
	return out
}

// varying are the dimensions in which cases differ.
func varying(cases []Case) []dimension {
	var out []dimension
	for _, d := range dimensions {
		if slices.ContainsFunc(cases, func(c Case) bool { return d.of(&c) != d.of(&cases[0]) }) {
			out = append(out, d)
		}
	}
	return out
}

// CaseNames name the cases by what they differ in; a single case has the name of its comparison.
func (e *Experiment) CaseNames() []string {
	cases := e.Cases()
	differ := varying(cases)
	if len(differ) == 0 {
		return []string{e.Replay.Compare}
	}
	out := make([]string, len(cases))
	for i := range cases {
		out[i] = named(&cases[i], differ)
	}
	return out
}

func named(c *Case, differ []dimension) string {
	words := make([]string, len(differ))
	for i, d := range differ {
		words[i] = d.key + " " + number(d.of(c))
	}
	return strings.Join(words, ", ")
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// Parse reads an experiment's file. It reports every fault that it finds, with its line.
func Parse(data []byte) (*Experiment, error) {
	e := &Experiment{}
	if err := strict.Unmarshal(data, e); err != nil {
		return nil, err
	}
	return e, nil
}

// profile is the line, or the paper's.
func (r *Replay) profile() (capacity.Profile, error) {
	if r.Profile == nil {
		return capacity.Linear(125, 209)
	}
	return capacity.Linear(r.Profile.PerPod, r.Profile.Base)
}

// Validate returns every fault of what the file says.
func (e *Experiment) Validate() error {
	var f testbed.Faults
	f.Must(e.Name != "", "name", "must not be empty", e.Name)
	f.Must(e.Trials >= 1, "trials", "must be at least 1", e.Trials)
	e.Replay.validate(&f)
	for i := range e.Assertions {
		e.Assertions[i].validate(&f, fmt.Sprintf("assertions[%d]", i), e)
	}
	if e.Reference != nil {
		e.Reference.validate(&f, e)
	}
	return errors.Join(f...)
}

// Value is one of the case's values.
func (c Case) Value(dimension string) float64 {
	for _, d := range dimensions {
		if d.key == dimension {
			return d.of(&c)
		}
	}
	panic("hpaplus: cases have no " + dimension)
}
