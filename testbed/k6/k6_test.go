package k6

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/testbed/must"
)

func paper() Load {
	return Load{URL: "http://127.0.0.1:8080/apps/default/web/", Kind: Sleep, Users: 60, Think: time.Second, Spread: time.Second, Duration: 30 * time.Minute, Target: 300 * time.Millisecond}
}

func TestFaultsOfLoadsAreToldByKeyRuleAndValue(t *testing.T) {
	for want, change := range map[string]func(*Load){
		"": func(*Load) {},
		`url: must be like http://127.0.0.1:8080/apps/default/web/, was "web"`: func(l *Load) { l.URL = "web" },
		`kind: must be one of [sleep pace open], was "fast"`:                   func(l *Load) { l.Kind = "fast" },
		`users: must be 1 to 5000, was 0`:                                      func(l *Load) { l.Users = 0 },
		`rate: must be greater than 0 for an open load, was 0`:                 func(l *Load) { l.Kind = Open },
		`think: must be greater than 0 for users, was 0s`:                      func(l *Load) { l.Think = 0 },
		`spread: must be 0 or more, was -1s`:                                   func(l *Load) { l.Spread = -time.Second },
		`duration: must be 1s or more, was 1ms`:                                func(l *Load) { l.Duration = time.Millisecond },
		`target: must be greater than 0, was 0s`:                               func(l *Load) { l.Target = 0 },
		`quantile: must be from 0 to below 1, was 90`:                          func(l *Load) { l.Quantile = 90 },
	} {
		l := paper()
		change(&l)
		got := ""
		if err := l.Validate(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

var (
	// What a script reads of the environment, in its own text or in what it shares.
	reads = regexp.MustCompile(`__ENV\.([A-Z]+)|(?:number|whole|choice|address)\('([A-Z]+)'`)
	// What its head says that it reads: a name in a column, and what it is without.
	documented = regexp.MustCompile(`(?m)^//   ([A-Z]+)  `)
)

// found are the names that a pattern finds, each once.
func found(pattern *regexp.Regexp, texts ...string) []string {
	var names []string
	for _, m := range pattern.FindAllStringSubmatch(strings.Join(texts, "\n"), -1) {
		names = append(names, strings.Join(m[1:], ""))
	}
	slices.Sort(names)
	// Where k6 is run.
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "PWD" })
}

func source(t *testing.T, name string) string {
	t.Helper()
	text := must.Get(Scripts.ReadFile(name))(t)
	return string(text)
}

// Whoever runs a script by hand has its head to go by.
func TestHeadsTellWhatScriptsRead(t *testing.T) {
	if diff := cmp.Diff([]string{"paper.js", "ramp.js", "rate.js", "spike.js", "trace.js"}, Names()); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	for _, name := range Names() {
		text := source(t, name)
		if diff := cmp.Diff(found(reads, text, source(t, shared)), found(documented, text)); diff != "" {
			t.Errorf("%s (-reads +documented):\n%s", name, diff)
		}
		if !strings.Contains(text, "testbed/k6/"+name+"\n") {
			t.Errorf("%s does not say how it is run", name)
		}
	}
}

// The script gets everything that it reads, so that nothing in this process' environment is taken
// for it.
func TestTheScriptGetsTheLoad(t *testing.T) {
	l := paper()
	want := map[string]string{
		"URL": "http://127.0.0.1:8080/apps/default/web/", "KIND": "sleep", "USERS": "60", "RATE": "0", "THINK": "1", "SPREAD": "1",
		"DURATION": "1800", "TARGET": "300", "QUANTILE": "90", "OBJECTIVE": "0", "CONNECTIONS": "keep",
	}
	if diff := cmp.Diff(want, l.Settings()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var listed []string
	args := arguments(l.Settings(), "out.json")
	for i, a := range args {
		if i > 0 && args[i-1] == "-e" {
			name, _, _ := strings.Cut(a, "=")
			listed = append(listed, name)
		}
	}
	slices.Sort(listed)
	if diff := cmp.Diff(found(reads, source(t, "paper.js"), source(t, shared)), listed); diff != "" {
		t.Errorf("(-reads +listed):\n%s", diff)
	}
}

func TestSummariesAreReadStrictly(t *testing.T) {
	s, err := readSummary([]byte(`{"seconds": 61, "requests": 4, "failed": 1, "good": 2, "minutes": [{"requests": 3, "failed": 1, "quantileMs": 500000100}, {"requests": 1, "failed": 0, "quantileMs": 90}]}`))
	if err != nil || !math.IsInf(s.Minutes[0].Quantile, 1) || s.Minutes[1].Quantile != 90 {
		t.Errorf("%+v, %v", s, err)
	}
	if f, known := s.GoodFraction(); f != 0.5 || !known {
		t.Errorf("%v, %v", f, known)
	}
	if _, known := (&Summary{}).GoodFraction(); known {
		t.Error("the share of nothing is known")
	}
	if _, err := readSummary([]byte(`{"requets": 4}`)); err == nil || err.Error() != `k6: summary: json: unknown field "requets"` {
		t.Error(err)
	}
}

func TestSummaryIsFoundAmongWhatIsPrinted(t *testing.T) {
	const line = `plimsoll-summary {"began":"2026-01-02T03:04:05Z","seconds":60,"requests":7,"failed":0,"good":7,"dropped":0,"meanMs":1,"minMs":1,"p50Ms":1,"p90Ms":1,"p95Ms":1,"p99Ms":1,"maxMs":1,"minutes":[{"requests":7,"failed":0,"quantileMs":1}]}` + "\n"
	s, err := Told([]byte("time=\"x\" level=info\n" + line + "more\n"))
	if err != nil || s.Requests != 7 || len(s.Minutes) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	for what, want := range map[string]string{
		"a panic\n":                  "no summary was printed, but \"a panic\"",
		line + line:                  "two summaries were printed",
		line[:60] + "\n":             "summary: unexpected EOF",
		"x" + line:                   "no summary was printed",
		"plimsoll-summary {\"x\":1}": "unknown field",
	} {
		if _, err := Told([]byte(what)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", what, err, want)
		}
	}
}
