package testbed

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

func TestResultsAreReadAsTheyWereWritten(t *testing.T) {
	r := mustRun(t, minimal(t, Options{Trials: 1}), Options{Version: "v1.2.3"})
	r.Runs[0].P90Ms = Number(math.NaN())
	r.Runs[1].LateMs, r.Runs[1].Warning = 2.5, "the machine was busy"
	text := written(t, r)
	again := must.Get(ReadResults(strings.NewReader(text)))(t)
	if diff := cmp.Diff(text, written(t, again)); diff != "" {
		t.Error(diff)
	}
	if !cmp.Equal(again.Header, r.Header) || len(again.Runs) != len(r.Runs) {
		t.Errorf("read back as %+v", again)
	}
	if !strings.Contains(text, `"p90Ms":null`) {
		t.Error("an unknown value is not null")
	}
	if _, err := ReadResults(strings.NewReader(strings.Replace(text, `"trial"`, `"trail"`, 1))); err == nil {
		t.Error("an unknown key is read over")
	}
	for what, broken := range map[string]string{
		"text behind the results": text + "{}",
		"a missing measure":       strings.Replace(text, `"thrash":{"mean"`, `"vmHours":{"mean"`, 1),
	} {
		if _, err := ReadResults(strings.NewReader(broken)); err == nil {
			t.Errorf("%s is read over", what)
		}
	}
}

func TestResultsKeepToTheirSchema(t *testing.T) {
	schema := compiled(t)
	r := mustRun(t, minimal(t, Options{}), Options{Version: "v1.2.3"})
	r.Runs[0].LateMs, r.Runs[0].ServedP90Ms, r.Runs[0].Warning = 2.5, 199.5, "the machine was busy"
	text := written(t, r)
	check := func(text string) error {
		v := must.Get(jsonschema.UnmarshalJSON(strings.NewReader(text)))(t)
		return schema.Validate(v)
	}
	if err := check(text); err != nil {
		t.Error(err)
	}
	for name, broken := range map[string]string{
		"a field that is not in the contract": strings.Replace(text, `"failed":`, `"lost":0,"failed":`, 1),
		"a field that is missing":             strings.Replace(text, `"thrash":`, `"thresh":`, 1),
		"a count that is no number":           strings.Replace(text, `"trial":1`, `"trial":"1"`, 1),
		"a summary without an interval":       strings.Replace(text, `"high":`, `"hi":`, 1),
	} {
		if broken == text {
			t.Fatalf("%s: nothing was changed", name)
		}
		if check(broken) == nil {
			t.Errorf("%s passes", name)
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

// The schema demands every measure, so that none is added to the code alone.
func TestTheSchemaKnowsEveryMeasure(t *testing.T) {
	var schema struct {
		Defs struct {
			Run, Measures struct{ Required []string }
		} `json:"$defs"`
	}
	must.Do(t, json.Unmarshal(read(t, "results.schema.json"), &schema))
	if diff := cmp.Diff(measureNames(), schema.Defs.Measures.Required); diff != "" {
		t.Error(diff)
	}
	want := append([]string{"policy", "nodePolicy", "users", "trial"}, measureNames()...)
	if diff := cmp.Diff(want, schema.Defs.Run.Required); diff != "" {
		t.Error(diff)
	}
}

// A host that dies for good takes all answers with it: what is left of the percentile must not look
// like a result.
func TestTablesMarkWhatWasNotAnswered(t *testing.T) {
	e := minimal(t, Options{Policies: []string{"hpa"}, Users: []int{10}, Trials: 1})
	sound := e.Overview(mustRun(t, e, Options{}))
	if text := fmt.Sprint(sound); strings.Contains(text, "!") {
		t.Errorf("where all was answered there is a mark: %s", text)
	}
	e.Faults = []Fault{{At: time.Minute, Kind: sim.HostDies, Host: "pve1"}}
	r := mustRun(t, e, Options{})
	lost := e.Overview(r)
	for _, cell := range lost.Rows[0][1:] {
		if !regexp.MustCompile(` ![1-9]\d%$`).MatchString(cell) {
			t.Errorf("%q has no mark", cell)
		}
	}
	if strings.Count(lost.Caption, lostCaption) != 1 {
		t.Errorf("the caption is %q", lost.Caption)
	}
}
