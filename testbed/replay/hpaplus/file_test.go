package hpaplus

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// least is the least that an experiment says.
const least = `
name: mine
title: Mine
shows: what it shows
trials: 1
seed: 1
replay:
  compare: scalers
  traces: [mmpp]
  train: 1
  test: 1
  rows: [hpa, naive]
  against: [hpa]
  cases:
    - {pods: [5], excess: [0.9]}
assertions: [lost(row=naive) < 5, "podMinutes(row=naive, trace=mmpp) > 0.5 * podMinutes(row=hpa, trace=mmpp)", lost(row=hpa) <= 0]
`

func TestFaultsNameLineKeyRuleAndValue(t *testing.T) {
	must.Get(Parse([]byte(least)))(t)
	for _, c := range []struct{ from, to, want string }{
		{"trials: 1", "trials: 0", "line 5: trials: must be at least 1, was 0"},
		{"seed: 1", "seed: 1\nusers: [3]", "users: "},
		{"  train: 1", "  train: 1\n  trian: 1", "replay.trian: "},
		{"compare: scalers", "compare: scaler", "replay.compare: must be one of scalers, equal, forecasters, models (did you mean scalers?), was \"scaler\""},
		{"traces: [mmpp]", "traces: [poisson]", "replay.traces[0]: must be one of diurnal, mmpp"},
		{"train: 1", "train: 0", "replay.train: must be 1 day at least, was 0"},
		{"rows: [hpa, naive]", "rows: [hpa, naif]", "replay.rows[1]: must be one of"},
		{"rows: [hpa, naive]", "rows: [hpa, naive, naive]", "replay.rows[2]: must be there once, was \"naive\""},
		{"against: [hpa]", "against: [oracle]", "replay.against[0]: must be one of hpa, naive"},
		{"against: [hpa]", "against: []", "replay.against: must have one at least where scalers are compared"},
		{"against: [hpa]", "against: [hpa]\n  entrants: [{type: Arr}]", "replay.entrants[0]: "},
		{"against: [hpa]", "against: [hpa]\n  weights: [0]", "replay.weights[0]: must be more than 0, was 0"},
		{"against: [hpa]", "against: [hpa]\n  knobs: [0.5, 0.6]", "replay.knobs: must be two or more for a comparison at equal pod-minutes, and omitted elsewhere, was 2"},
		{"against: [hpa]", "against: [hpa]\n  states: 6", "replay.states: "},
		{"traces: [mmpp]", "traces: [mmpp, diurnal, mmpp]", "replay.traces[2]: must be there once, was \"mmpp\""},
		{"excess: [0.9]", "excess: [0.9, 0.8, 0.9]", "replay.cases[0].excess[2]: must be there once, was 0.9"},
		{"{pods: [5], excess: [0.9]}", "{pods: [5], excess: [0.9]}\n    - {tolerance: [0.1]}", "replay.cases[1]: must have a case that the lines before it have not, was 1"},
		{"excess: [0.9]", "window: [5]", "replay.cases[0].window: must be omitted without the row hpa-plus, which alone reads it"},
		{"against: [hpa]", "against: [hpa]\n  weights: [1, 1]", "replay.weights[1]: must be there once, was 1"},
		{"against: [hpa]", "against: [hpa]\n  entrants: [{type: AR}]", "replay.entrants: must be omitted without the row hpa-plus"},
		{"compare: scalers", "compare: equal\n  knobs: [0.8, 0.9]\n  course: true", "replay.course: must be omitted where scalers are not compared at the same excess"},
		{"compare: scalers", "compare: forecasters\n  maxPods: 7", "replay.maxPods: must be omitted where no scalers are compared"},
		{"seed: 1", "seed: 1\nreference: {source: x, cells: [{row: hpa, values: {lost: 1}}, {row: hpa, values: {lost: 2}}]}", "reference.cells[1]: must be of another row, against or excess than the cells before, was \"hpa\""},
		{"pods: [5]", "pods: [0.5]", "replay.cases[0].pods: must be at least 1, was 0.5"},
		{"excess: [0.9]", "excess: [1.9]", "replay.cases[0].excess: must be more than 0 and at most 1, was 1.9"},
		{"excess: [0.9]", "window: [61]", "replay.cases[0].window: must be from 1 to 60, was 61"},
		{"lost(row=naive) < 5", "lots(row=naive) < 5", "assertions[0]: must be one of lost"},
		{"lost(row=naive) < 5", "lost(row=naif) < 5", "assertions[0]: row: must be one of hpa, naive"},
		{"lost(row=naive) < 5", "lost(row=naive)", "assertions[0]: must be an assertion like"},
		{"lost(row=naive) < 5", "\"lost(row=naive, users=3) < 5\"", "must name row, against, trace or one of pods"},
		{"lost(row=naive) < 5", "\"lost(row=naive, excess=0.8) < 5\"", "assertions[0]: must be about some case"},
		{"lost(row=naive) < 5", "\"lost(row=naive, trace=diurnal) < 5\"", "assertions[0]: trace: must be one of mmpp"},
	} {
		text := strings.Replace(least, c.from, c.to, 1)
		if text == least {
			t.Fatalf("%s: nothing was changed", c.from)
		}
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.to, err, c.want)
		}
	}
}

// Assertions are judged on the experiment's own traces, and on those alone.
func TestAssertionsAreJudgedByWhatCameOut(t *testing.T) {
	e := must.Get(Parse([]byte(least)))(t)
	r := mustRun(t, e, Options{})
	for i, want := range []bool{true, true, false} {
		if v := e.Judge(r)[i]; v.Held != want || len(v.Checks) != 1 {
			t.Errorf("%v, want %v", v, want)
		}
	}
	others := mustRun(t, e, Options{Traces: []Source{shipped("diurnal")}})
	for _, v := range e.Judge(others) {
		if len(v.Checks) > 0 || !v.Held {
			t.Errorf("on another trace: %v", v)
		}
	}
}

// The document's example is a whole experiment: it is read as one, and no key is missing in it.
func TestDocumentTellsEveryKey(t *testing.T) {
	data := must.Get(os.ReadFile("../../../docs/experiment-file.md"))(t)
	_, rest, _ := strings.Cut(string(data), "## Experiments that replay counts")
	_, rest, _ = strings.Cut(rest, "```yaml\n")
	example, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("the document has no example")
	}
	if _, err := Parse([]byte(example)); err != nil {
		t.Errorf("the example is not read: %v", err)
	}
	for _, of := range []reflect.Type{
		reflect.TypeFor[Experiment](), reflect.TypeFor[Replay](), reflect.TypeFor[Line](), reflect.TypeFor[Grid](), reflect.TypeFor[Reference](), reflect.TypeFor[Cell](),
	} {
		for i := range of.NumField() {
			key, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			if !regexp.MustCompile(`\b` + key + `:`).MatchString(example) {
				t.Errorf("the document does not have the key %s", key)
			}
		}
	}
}
