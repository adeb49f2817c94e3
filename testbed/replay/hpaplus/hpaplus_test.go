package hpaplus

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/plimsoll/plimsoll/podscaler/forecast"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/replay"
)

// short is an experiment that comes with the program, with forecasters that are quick to train, on
// fewer draws.
func short(t testing.TB, name string) *Experiment {
	t.Helper()
	data := must.Get(testbed.File(name))(t)
	e := must.Get(Parse(data))(t)
	e.Trials = 2
	e.Replay.Train = 1
	e.Assertions, e.Reference = nil, nil
	switch {
	case e.Replay.Compare == Forecasters:
		e.Replay.Train = 2
		e.Replay.Rows = []string{"ar", "holtwinters", "last"}
	case e.Replay.Compare != Models:
		e.Replay.Rows = slices.DeleteFunc(e.Replay.Rows, func(row string) bool {
			return slices.Contains([]string{"lstm", "htm", "qlearning", "sarsa", "fuzzy-rl", "predictive"}, row)
		})
		e.Replay.Entrants = []forecast.Spec{{Type: "AR"}, {Type: "Last"}}
		e.Replay.Cases = e.Replay.Cases[:1]
	}
	return e
}

func mustRun(t testing.TB, e *Experiment, o Options) *Results {
	t.Helper()
	return must.Get(Run(t.Context(), e, o))(t)
}

func written(t testing.TB, r *Results) string {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, r.Write(&b))
	return b.String()
}

func replays(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, name := range testbed.Names() {
		data := must.Get(testbed.File(name))(t)
		if testbed.Replays(data) {
			out = append(out, name)
		}
	}
	return out
}

func TestEveryExperimentIsThereAndNamedAsItsFile(t *testing.T) {
	want := []string{
		"hpaplus-equal", "hpaplus-figure5", "hpaplus-grid", "hpaplus-models", "hpaplus-race", "hpaplus-rivals", "hpaplus-scale",
		"hpaplus-strategies", "hpaplus-table2", "hpaplus-table3",
	}
	names := replays(t)
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	for _, name := range names {
		data := must.Get(testbed.File(name))(t)
		e, err := Parse(data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if e.Name != name || len(e.Notes) == 0 {
			t.Errorf("file %s has experiment %s with %d notes", name, e.Name, len(e.Notes))
		}
		if _, err := testbed.Parse(data); err == nil {
			t.Errorf("%s is taken for one with users", name)
		}
	}
}

// Every experiment runs, and keeps to the schema, whose words are also those of the code.
func TestEveryExperimentRunsAndKeepsToTheSchema(t *testing.T) {
	schema := compiled(t)
	for _, name := range replays(t) {
		t.Run(name, func(t *testing.T) {
			e := short(t, name)
			r := mustRun(t, e, Options{Version: "v1.2.3", Trials: 1})
			text := written(t, r)
			v := must.Get(jsonschema.UnmarshalJSON(strings.NewReader(text)))(t)
			if err := schema.Validate(v); err != nil {
				t.Error(err)
			}
			again := must.Get(ReadResults(strings.NewReader(text)))(t)
			if diff := cmp.Diff(text, written(t, again)); diff != "" {
				t.Errorf("read back: %s", diff)
			}
			wantRuns(t, e, r)
			for _, table := range e.Tables(r) {
				for _, row := range table.Rows {
					if len(row) != len(table.Head) {
						t.Errorf("%s: a line of %d under a head of %d: %q", table.Caption, len(row), len(table.Head), row)
					}
				}
			}
			for what, broken := range map[string]string{
				"an unknown key":    strings.Replace(text, `"planned"`, `"plannned"`, 1),
				"another world":     strings.Replace(text, `"world": "replay"`, `"world": "sim"`, 1),
				"text behind it":    text + "{}",
				"a count in quotes": strings.Replace(text, `"trial":1`, `"trial":"1"`, 1),
			} {
				if _, err := ReadResults(strings.NewReader(broken)); err == nil {
					t.Errorf("%s is read over", what)
				}
			}
		})
	}
}

// wantRuns wants every row in every case on every trace, and every measure known in some of them.
func wantRuns(t *testing.T, e *Experiment, r *Results) {
	t.Helper()
	want := len(e.RowNames()) * len(e.Cases()) * len(r.Traces) * max(1, len(e.Replay.Against))
	if len(r.Runs) != want {
		t.Errorf("%d runs, want %d", len(r.Runs), want)
	}
	for _, m := range e.Measures() {
		known := slices.ContainsFunc(r.Runs, func(o Outcome) bool {
			v, has := o.Measures[m.Name]
			return has && !math.IsNaN(float64(v))
		})
		if !known && m.Name != "lostChange" {
			t.Errorf("%s is known nowhere", m.Name)
		}
	}
}

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile("results.schema.json") // reads the file
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestTheSameSeedGivesTheSameBytesHoweverManyRunAtATime(t *testing.T) {
	e := short(t, "hpaplus-race")
	clock := time.Duration(0)
	one := written(t, mustRun(t, e, Options{Parallel: 1}))
	other := written(t, mustRun(t, e, Options{Parallel: 3, Clock: func() time.Duration { clock += time.Second; return clock }}))
	if diff := cmp.Diff(one, other); diff != "" {
		t.Error(diff)
	}
	seed := uint64(2)
	if third := written(t, mustRun(t, e, Options{Seed: &seed})); third == one {
		t.Error("another seed gives the same")
	}
}

func TestTrainingTimeIsToldApartFromWhatIsCompared(t *testing.T) {
	e := short(t, "hpaplus-models")
	var now time.Duration
	r := mustRun(t, e, Options{Parallel: 1, Trials: 1, Clock: func() time.Duration { now += time.Second; return now }})
	if got := r.Seconds("ar"); got != 1 {
		t.Errorf("a training between two looks at the clock took %v s", got)
	}
	var b bytes.Buffer
	must.Do(t, r.WriteTimes(&b))
	times := must.Get(ReadTimes(&b))(t)
	if diff := cmp.Diff(r.Times, times); diff != "" {
		t.Error(diff)
	}
	if text := written(t, r); strings.Contains(text, "econds") {
		t.Error("the results contain the time")
	}
}

// What a scaler sees of a forecaster in the book is what the forecaster would have said on the
// trace itself, in the unit of the multiplied one.
func TestTheBookSaysWhatTheForecasterSaid(t *testing.T) {
	trace := replay.MMPP(1, 3)
	b := &book{rates: trace.Counts, from: 1200, said: map[string]*said{}}
	m := must.Get(b.models(2.5)(forecast.Spec{Type: "AR"}))(t)
	live := must.Get(forecast.New(forecast.Spec{Type: "AR"}))(t)
	forecast.Train(live, trace.Counts[:1200])
	forecast.Train(m, trace.Counts[:1200])
	for i, v := range trace.Counts[1200:] {
		want, wantOK := live.Predict(1)
		got, ok := m.Predict(1)
		if ok != wantOK || math.Abs(got-2.5*want) > 1e-9*want {
			t.Fatalf("minute %d: %v %v, want %v %v", i, got, ok, 2.5*want, wantOK)
		}
		live.Observe(v)
		m.Observe(2.5 * v)
	}
	if _, ok := m.Predict(1); ok {
		t.Error("it knows what comes after the trace")
	}
	if early := (&repeated{said: b.said["x"], from: 1200}); func() bool { _, ok := early.Predict(1); return ok }() {
		t.Error("it knows what comes before the book begins")
	}
	if m, err := b.models(1)(forecast.Spec{Type: "Ensemble"}); m != nil || err != nil {
		t.Error("an ensemble is not made anew")
	}
}

// A row loses at its own pod-minutes what it loses, and one that knows the load nothing.
func TestEqualPodMinutesAreEqual(t *testing.T) {
	e := short(t, "hpaplus-equal")
	r := mustRun(t, e, Options{Trials: 1})
	seen := 0
	for i := range r.Runs {
		run := &r.Runs[i]
		ratio := float64(run.Measures["lostRatio"])
		switch {
		case run.Row == run.Against && run.Case.Timeout == 1:
			if seen++; math.Abs(ratio-1) > 1e-9 {
				t.Errorf("%s against itself at %v loses %v", run.Row, run.Case.Excess, ratio)
			}
		case run.Row == "oracle" && ratio > 0.1:
			t.Errorf("who knows the load loses %v of %s", ratio, run.Against)
		}
	}
	if seen == 0 {
		t.Error("nobody is set against itself")
	}
}

func TestTheHPANeverGrowsWhereItsToleranceHidesThatItIsFull(t *testing.T) {
	e := short(t, "hpaplus-table3")
	r := mustRun(t, e, Options{Trials: 1})
	c := usual
	c.Excess = 0.95
	for trace, s := range r.At("hpa", "", c).Measures["pods"].Traces {
		if s.Mean != 1 {
			t.Errorf("%s: at an excess of 0.95 and a tolerance of 0.1 the HPA has %v pods", trace, s.Mean)
		}
	}
}

func TestSourcesAreReadAsTheyAreGiven(t *testing.T) {
	days := &replay.Trace{Name: "load.csv", Counts: make([]float64, 6*minutesADay)}
	read := func(name string) (*replay.Trace, error) {
		if name != "a/load.csv" && name != "me@home.csv" {
			return nil, os.ErrNotExist
		}
		return days, nil
	}
	for given, want := range map[string][]string{
		"mmpp": {"mmpp"}, "a/load.csv": {"load"}, "a/load.csv@0,2": {"load@0", "load@2"}, "me@home.csv": {"me@home"},
	} {
		sources, err := Sources(given, read)
		if err != nil {
			t.Errorf("%s: %v", given, err)
		}
		var names []string
		for _, s := range sources {
			names = append(names, s.Name)
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("%s: %s", given, diff)
		}
	}
	for given, want := range map[string]string{
		"none.csv":                       "file does not exist",
		"a/load.csv@6":                   "day: must be from 0 to 5, was 6",
		"a/load.csv@1,":                  "must be a file, or one with the days that windows begin on such as load.csv@3,10",
		"a/load.csv@1e":                  "file does not exist",
		"a/load.csv@9999999999999999999": "must be a file",
	} {
		if _, err := Sources(given, read); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", given, err, want)
		}
	}
}

func TestWhatIsGivenMustFitTheExperiment(t *testing.T) {
	e := short(t, "hpaplus-table3")
	recorded := Source{Name: "load", Given: "load.csv", trace: &replay.Trace{Name: "load", Counts: make([]float64, minutesADay)}}
	for want, o := range map[string]Options{
		"policies: must be one of hpa, hpa-plus": {Rows: []string{"hpa-minus"}},
		"trials: must be at least 1, was -1":     {Trials: -1},
		"parallel: must be at least 1":           {Parallel: -1},
		"trace: must have 2 days":                {Traces: []Source{recorded}},
		"trace: must be there once":              {Traces: []Source{shipped("mmpp"), shipped("mmpp")}},
	} {
		if _, err := Run(t.Context(), e, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	narrowed, err := e.With(Options{Rows: []string{"hpa-plus"}})
	if err != nil || !slices.Contains(narrowed.Replay.Rows, "hpa") {
		t.Errorf("what others are set against is omitted: %v %v", narrowed.Replay.Rows, err)
	}
}

func TestAnInterruptedExperimentTellsWhatWasDone(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	e := short(t, "hpaplus-race")
	r, err := Run(ctx, e, Options{Parallel: 1, Progress: func(testbed.Progress) { stop() }})
	if !errors.Is(err, context.Canceled) || r == nil || r.Done == 0 || r.Done >= r.Planned || len(r.Summary) == 0 {
		t.Errorf("%v, %+v", err, r)
	}
}
