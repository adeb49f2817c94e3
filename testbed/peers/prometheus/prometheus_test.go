package prometheus

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/teststorage"
)

const files = "../../../podscaler/signals/testdata/"

var reader = parser.NewParser(parser.Options{EnableExtendedRangeSelectors: true})

func engine() *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: reader,
	})
}

// store keeps samples as Prometheus does.
type store struct {
	*teststorage.TestStorage
	t *testing.T
}

func newStore(t *testing.T) store { return store{teststorage.New(t), t} }

func (s store) add(series labels.Labels, samples [][2]float64) {
	s.t.Helper()
	app := s.Appender(context.Background())
	for _, x := range samples {
		if _, err := app.Append(0, series, int64(x[0]), x[1]); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := app.Commit(); err != nil {
		s.t.Fatal(err)
	}
}

func (s store) addNative(series labels.Labels, at int64, h *histogram.Histogram) {
	s.t.Helper()
	app := s.Appender(context.Background())
	if _, err := app.AppendHistogram(0, series, at, h, nil); err != nil {
		s.t.Fatal(err)
	}
	if err := app.Commit(); err != nil {
		s.t.Fatal(err)
	}
}

func (s store) ask(query string, at int64) promql.Vector {
	s.t.Helper()
	q, err := engine().NewInstantQuery(context.Background(), s, nil, query, time.UnixMilli(at))
	if err != nil {
		s.t.Fatalf("%s: %v", query, err)
	}
	defer q.Close()
	v, err := q.Exec(context.Background()).Vector()
	if err != nil {
		s.t.Fatalf("%s: %v", query, err)
	}
	return v
}

// twinCase is one line of twin.jsonl.
type twinCase struct {
	Name   string
	Series []struct {
		Name    string
		Labels  map[string]string
		Samples [][2]float64
	}
	At, Window              int64
	Q, Target               float64
	Latency, Good, Arrivals *float64
}

func TestTheEngineAnswersTheSame(t *testing.T) {
	file, err := os.Open(files + "twin.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var cases []twinCase
	for d := json.NewDecoder(file); d.More(); {
		var c twinCase
		if err := d.Decode(&c); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, c)
	}
	if len(cases) < 60 {
		t.Fatalf("%d cases, want 60 and more", len(cases))
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			s := newStore(t)
			for _, x := range c.Series {
				m := map[string]string{"__name__": x.Name}
				for k, v := range x.Labels {
					m[k] = v
				}
				s.add(labels.FromMap(m), x.Samples)
			}
			bucket, count := "h_bucket", `h_bucket{le="+Inf"}`
			if c.Window > 0 {
				// smoothed draws a line between the samples around the window's begin, and
				// extrapolates nothing.
				over := fmt.Sprintf("[%dms] smoothed)", c.Window)
				bucket, count = "increase(h_bucket"+over, "increase(h_count"+over
				s.compare("arrivals", fmt.Sprintf("sum(%s) / %v", count, float64(c.Window)/1000), c.At, c.Arrivals)
			}
			s.compare("latency", fmt.Sprintf("histogram_quantile(%v, sum by (le) (%s))", c.Q, bucket), c.At, c.Latency)
			good := strings.Replace(bucket, "h_bucket", fmt.Sprintf(`h_bucket{le="%v"}`, c.Target), 1)
			s.compare("good", fmt.Sprintf("sum(%s) / sum(%s)", good, count), c.At, c.Good)
		})
	}
}

func (s store) compare(what, query string, at int64, want *float64) {
	s.t.Helper()
	v := s.ask(query, at)
	if len(v) != 1 {
		s.t.Errorf("%s: %s returned %d series", what, query, len(v))
		return
	}
	got := v[0].F
	switch {
	case math.IsNaN(got) != (want == nil):
		s.t.Errorf("%s is %v here, and known elsewhere: %t", what, got, want != nil)
	case want != nil && math.Abs(got-*want) > 1e-9*max(1, math.Abs(got)):
		s.t.Errorf("%s is %v by %s, and %v elsewhere", what, got, query, *want)
	}
}

// Every preset's queries are PromQL, and answer for the series that they name: one series a
// selector, of a counter that rises by 2 a second.
func TestPresetsQueriesAnswer(t *testing.T) {
	text, err := os.ReadFile(files + "presets.txt")
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for section := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		title, queries, _ := strings.Cut(section, "\n")
		t.Run(strings.TrimPrefix(title, "# "), func(t *testing.T) {
			for query := range strings.SplitSeq(queries, "\n") {
				asked++
				answers(t, query)
			}
		})
	}
	if asked < 100 {
		t.Errorf("%d queries, want 100 and more", asked)
	}
}

const noon = int64(1772366400000)

func answers(t *testing.T, query string) {
	t.Helper()
	expr, err := reader.ParseExpr(query)
	if err != nil {
		t.Errorf("%s: %v", query, err)
		return
	}
	s := newStore(t)
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			s.fill(v, strings.Contains(query, "histogram_"))
		}
		return nil
	})
	want := 2.0
	switch {
	case strings.Contains(query, "timestamp("):
		want = float64(noon) / 1000
	case strings.Contains(query, "count_over_time("):
		want = 4
	case strings.Contains(query, "histogram_quantile("):
		want = math.NaN() // for any values in the buckets that were made
	case strings.Contains(query, "histogram_fraction("):
		want = 1
	case !strings.Contains(query, "rate("):
		want = 690 // a gauge, by its last value
	}
	v := s.ask(query, noon)
	if len(v) == 0 {
		t.Errorf("%s: no answer", query)
	}
	for _, x := range v {
		if math.IsNaN(want) && !(x.F > 0) || math.Abs(x.F-want) > 1e-9 {
			t.Errorf("%s: %v, want %v", query, x, want)
		}
	}
}

// fill makes a series that a selector selects, sampled every 15 s for a minute.
func (s store) fill(v *parser.VectorSelector, native bool) {
	s.t.Helper()
	b := labels.NewBuilder(labels.EmptyLabels())
	for _, m := range v.LabelMatchers {
		switch m.Type {
		case labels.MatchEqual:
			b.Set(m.Name, m.Value)
		case labels.MatchRegexp:
			b.Set(m.Name, example(m.Value))
		default: // what must not be there is omitted
		}
	}
	if strings.HasSuffix(v.Name, "_bucket") {
		b.Set("le", "+Inf")
	}
	series := b.Labels()
	for _, m := range v.LabelMatchers {
		if !m.Matches(series.Get(m.Name)) {
			s.t.Fatalf("%s was to match %s", series, m)
		}
	}
	for i := range 4 {
		at, n := noon-int64(3-i)*15000, 600+30*i
		if native {
			s.addNative(series, at, &histogram.Histogram{
				Schema: 3, Count: uint64(n), Sum: float64(n) / 10, PositiveSpans: []histogram.Span{{Offset: -30, Length: 1}},
				PositiveBuckets: []int64{int64(n)},
			})
			continue
		}
		s.add(series, [][2]float64{{float64(at), float64(n)}})
	}
}

var alternatives = regexp.MustCompile(`\|.*$`)

// example is a string that a preset's regular expression matches.
func example(regex string) string {
	first := alternatives.ReplaceAllString(regex, "")
	first = strings.NewReplacer(`(?:[a-z0-9]{1,15}@kubernetes(?:crd)?`, "80@kubernetes", `\`, "").Replace(first)
	return first
}
