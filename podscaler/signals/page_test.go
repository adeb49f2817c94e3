package signals

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

func all(string) bool { return true }

func TestPagesAreReadInBothFormats(t *testing.T) {
	l := func(pairs ...string) (labels []label) {
		for i := 0; i < len(pairs); i += 2 {
			labels = append(labels, label{pairs[i], pairs[i+1]})
		}
		return labels
	}
	for _, c := range []struct {
		name, page string
		want       []sample
	}{
		{"a name and a value", "up 1\n", []sample{{"up", nil, 1}}},
		{"no newline at the end", "up 1", []sample{{"up", nil, 1}}},
		{"nothing between name and value", "up+1\n", []sample{{"up", nil, 1}}},
		{"a time behind it", "up 1 1700000000000\r\n", []sample{{"up", nil, 1}}},
		{"labels, with blanks and a last comma", "a { b = \"c\" , d=\"e\", } +Inf", []sample{{"a", l("b", "c", "d", "e"), inf}}},
		{"escapes", `a{b="x\"y\\z\nw"} 2e3`, []sample{{"a", l("b", "x\"y\\z\nw"), 2000}}},
		{"braces and spaces within quotes", `a{b="} 7 {"} 5`, []sample{{"a", l("b", "} 7 {"), 5}}},
		{"comments and empty lines", "# HELP a b\n\n# TYPE a counter\na 0\n# EOF\n", []sample{{"a", nil, 0}}},
		{"an exemplar", `a_bucket{le="1.0"} 3 # {trace_id="x"} 0.7 1.5`, []sample{{"a_bucket", l("le", "1.0"), 3}}},
		{"a name in quotes", `{"http.seconds_bucket",le="1"} 3`, []sample{{"http.seconds_bucket", l("le", "1"), 3}}},
		{"labels with names in quotes", `a{"b.c"="d"} 3`, []sample{{"a", l("b.c", "d"), 3}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []sample
			err := parsePage(strings.NewReader(c.page), false, all, func(s sample) error { got = append(got, s); return nil })
			if d := cmp.Diff(c.want, got, cmp.AllowUnexported(sample{}, label{})); err != nil || d != "" {
				t.Errorf("%v (-want +got):\n%s", err, d)
			}
		})
	}
}

func TestAPageThatCannotBeReadIsRefused(t *testing.T) {
	for _, c := range []struct{ name, page, want string }{
		{"no value", "a 1\nb\n", "line 2: a sample must have a value"},
		{"a name of other letters, without quotes", "http.seconds 1", `line 1: a value must be a number, was ".seconds"`},
		{"no value behind labels", "b{}", "line 1: a sample must have a value"},
		{"no number", "a one", `line 1: a value must be a number, was "one"`},
		{"Go's numbers", "a 0x10", `line 1: a value must be a number, was "0x10"`},
		{"labels without end", `a{b="c" 3`, `line 1: labels must be name="value", was "3"`},
		{"labels that just stop", `a{b="c"`, "line 1: labels must end with }"},
		{"a label without value", `a{b} 3`, `line 1: label "b" must have a value`},
		{"a value without quotes", `a{b=c} 3`, `line 1: a label's value must be in double quotes, was "c} 3"`},
		{"a value without end", `a{b="c} 3`, "line 1: a label's value must end with a double quote"},
		{"another escape", `a{b="\t"} 3`, `line 1: a label's value must have no escapes but \n, \" and \\, was \t`},
		{"a name in braces without quotes", `{a} 3`, `line 1: label "a" must have a value`},
		{"and behind a label", `{b="c",a} 3`, `line 1: label "a" must have a value`},
		{"two names", `{"a","b"} 3`, `line 1: label "b" must have a value`},
		{"no name", `{} 3`, "line 1: a sample must have a name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := parsePage(strings.NewReader(c.page), false, all, func(sample) error { return nil })
			if err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestLinesThatAreNotWantedNeedNotBeUnderstood(t *testing.T) {
	n := 0
	err := parsePage(strings.NewReader("other{broken\n%broken\n.other 1\nmine 1\n"), false, func(name string) bool { return name == "mine" }, func(sample) error { n++; return nil })
	if err != nil || n != 1 {
		t.Errorf("got %d, %v", n, err)
	}
}

func TestAPageThatWasCutOffIsNoPage(t *testing.T) {
	if err := parsePage(strings.NewReader("a 1\n"), true, all, func(sample) error { return nil }); err == nil {
		t.Error("OpenMetrics without its end was taken")
	}
}

// The slow twin reads whole families; what it accepts has the same samples here.
func FuzzPage(f *testing.F) {
	for _, s := range []string{
		"a 1\n", "# TYPE a counter\na{b=\"c\",d=\"\\\"\"} 1 5\n", "{\"a.b\",c=\"d\"} 2\n", "a{\n", "a{b=\"\\n\",} NaN\n", "# EOF", "a  -Inf\t3\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, page []byte) {
		got := map[string]float64{}
		n := 0
		err := parsePage(bytes.NewReader(page), false, all, func(s sample) error {
			got[s.name] = s.value
			n++
			return nil
		})
		p := expfmt.NewTextParser(model.UTF8Validation)
		families, twinErr := p.TextToMetricFamilies(bytes.NewReader(page))
		if twinErr != nil || strings.Contains(string(page), "# TYPE") {
			return // with types, the twin folds several lines into one sample
		}
		if errors.Is(err, errNoValue) {
			return // the twin takes {a} for {"a"}; Prometheus' own parser refuses it, as we do
		}
		want := 0
		for name, family := range families {
			want += len(family.Metric)
			last := family.Metric[len(family.Metric)-1]
			if v := untyped(last); err == nil && got[name] != v && !(v != v && got[name] != got[name]) {
				t.Errorf("%q: %s is %v, the twin has %v", page, name, got[name], v)
			}
		}
		if err == nil && n != want {
			t.Errorf("%q: %d samples, the twin has %d", page, n, want)
		}
		if err != nil {
			t.Errorf("%q: %v, which the twin accepts", page, err)
		}
	})
}

func untyped(m *dto.Metric) float64 {
	if m.Untyped == nil {
		return 0
	}
	return m.Untyped.GetValue()
}
