package convert

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// KEDA takes an answer without series for 0 unless a trigger says otherwise.
func TestAQuerySaysZeroWhereKEDATakesNothingForIt(t *testing.T) {
	long := strings.Repeat("x", 4090)
	for _, c := range []struct{ query, ignore, want string }{
		{"sum(up)", "", "(sum(up)) or on() vector(0)"},
		{"sum(up)", "true", "(sum(up)) or on() vector(0)"},
		{"sum(up)", "false", "sum(up)"},
		{"sum(a) / sum(b)\n", "", "(sum(a) / sum(b)) or on() vector(0)"},
		{"sum(up) # of all", "", "(sum(up) # of all\n) or on() vector(0)"},
		{"sum(up) or vector(0)", "", "sum(up) or vector(0)"},
		{"up OR on () vector( 0 )\n", "", "up OR on () vector( 0 )\n"},
		{"sum(up) # or vector(0)", "", "(sum(up) # or vector(0)\n) or on() vector(0)"},
		{"sum(up or vector(0))", "", "(sum(up or vector(0))) or on() vector(0)"},
		{"sum(up) or vector(10)", "", "(sum(up) or vector(10)) or on() vector(0)"},
		{long, "", long},
		{long, "false", long},
	} {
		settings := map[string]any{"serverAddress": "http://prometheus:9090", "query": c.query, "threshold": "1"}
		if c.ignore != "" {
			settings["ignoreNullValues"] = c.ignore
		}
		text := must.Get(yaml.Marshal(map[string]any{
			"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": map[string]any{"name": "x"},
			"spec": map[string]any{"scaleTargetRef": map[string]any{"name": "x"}, "triggers": []any{map[string]any{"type": "prometheus", "metadata": settings}}},
		}))(t)
		results, _, err := Manifests(text, options)
		if err != nil {
			t.Errorf("%.40s: %v", c.query, err)
			continue
		}
		r := results[0]
		if got := string(r.To.Spec.Signals.Metrics[0].Query); got != c.want {
			t.Errorf("%q, ignoreNullValues %q: %q, should be %q", c.query, c.ignore, got, c.want)
		}
		noted := strings.Contains(strings.Join(r.Notes, "\n"), "spec.triggers[0].metadata.query: KEDA takes an answer without series for 0")
		if noted != (c.want == long && c.ignore == "") || len(r.Lost) > 0 {
			t.Errorf("%.40s: noted is %t, lost %v", c.query, noted, r.Lost)
		}
	}
}

// What was not written is lost: the command fails by it.
func TestAScaledObjectWithoutMetricsIsLost(t *testing.T) {
	const object = `{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: web, namespace: shop}, spec: {scaleTargetRef: {name: web},
triggers: [{type: cron, metadata: {timezone: Europe/Berlin, start: 0 8 * * *, end: 0 20 * * *, desiredReplicas: "5"}}]}}`
	results, _, err := Manifests([]byte(object), Options{})
	if err != nil || len(results) != 1 || results[0].To != nil {
		t.Fatalf("converted to %+v, %v", results, err)
	}
	for _, l := range results[0].Lost {
		if l.Key == "spec.triggers" {
			return
		}
	}
	t.Errorf("nothing is said to be lost but %v", results[0].Lost)
}

// A window is open between its ends for KEDA and here, unless it begins twice before it ends: then
// KEDA has it closed until the last time. A ? is a star to KEDA.
func TestWindowsThatBeginTwiceAreNoted(t *testing.T) {
	for _, c := range []struct {
		start, end string
		noted      bool
	}{
		{"0 8 * * *", "0 18 * * *", false},
		{"0 22 * * 1-5", "0 6 * * 2-6", false},
		{"0 8 1 * *", "0 8 2 * *", false},
		{"0 8 ? * 1", "0 18 * ? 5", false},
		{"0 8 * * 1-5", "0 18 * * 5", true},
		{"0 8,9 * * *", "0 18 * * *", true},
		{"0 8 1,3 * *", "0 8 4 * *", true},
	} {
		object := fmt.Sprintf(`{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: web, namespace: shop}, spec: {scaleTargetRef: {name: web}, triggers: [
  {type: prometheus, metadata: {serverAddress: "http://prometheus:9090", query: sum(up), threshold: "1"}},
  {type: cron, metadata: {timezone: Europe/Berlin, start: %q, end: %q, desiredReplicas: "5"}}]}}`, c.start, c.end)
		results, _, err := Manifests([]byte(object), options)
		must.Do(t, err)
		r := results[0]
		if got := r.To.Spec.Schedules; len(got) != 1 || strings.Contains(string(got[0].Start+got[0].End), "?") {
			t.Fatalf("%s to %s: schedules %v, lost %v", c.start, c.end, got, r.Lost)
		}
		noted := strings.Contains(strings.Join(r.Notes, "\n"), "spec.triggers[1]: begins several times")
		if noted != c.noted || len(r.Lost) > 0 {
			t.Errorf("%s to %s: notes %v, lost %v", c.start, c.end, r.Notes, r.Lost)
		}
	}
}

// A metric that has a signal's name is refused.
func TestATriggerThatHasASignalsNameGetsAnother(t *testing.T) {
	const object = `{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: web, namespace: shop}, spec: {scaleTargetRef: {name: web},
triggers: [{type: prometheus, name: errors, metadata: {serverAddress: "http://prometheus:9090", query: sum(up), threshold: "1"}}]}}`
	results, _, err := Manifests([]byte(object), options)
	must.Do(t, err)
	spec := results[0].To.Spec
	if spec.Signals.Metrics[0].Name != "trigger-0" || spec.HPA.Metrics[0].Name != "trigger-0" {
		t.Errorf("named %q and %q", spec.Signals.Metrics[0].Name, spec.HPA.Metrics[0].Name)
	}
	const note = "spec.triggers[0].name: errors is a signal's name here, and the metric is called trigger-0"
	if !strings.Contains(strings.Join(results[0].Notes, "\n"), note) {
		t.Errorf("notes are %q", results[0].Notes)
	}
}
