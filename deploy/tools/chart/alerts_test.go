package chart

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// now is when the alerts are evaluated: 10,000 s after the epoch.
var now = time.Unix(10_000, 0)

// world is series as a scrape reads them, one a line.
type world string

// Querier implements [storage.Queryable].
func (w world) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		set := &seriesSet{}
		for line := range strings.Lines(string(w)) {
			name, text, _ := strings.Cut(strings.TrimSpace(line), "} ")
			metric, err := parser.NewParser(parser.Options{}).ParseMetric(name + "}")
			if err != nil {
				return storage.ErrSeriesSet(err)
			}
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return storage.ErrSeriesSet(err)
			}
			if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(metric.Get(m.Name)) }) {
				set.next = append(set.next, promql.NewStorageSeries(promql.Series{Metric: metric, Floats: []promql.FPoint{{T: now.UnixMilli(), F: value}}}))
			}
		}
		return set
	}}, nil
}

// seriesSet implements [storage.SeriesSet].
type seriesSet struct {
	at   storage.Series
	next []storage.Series
}

func (s *seriesSet) Next() bool {
	if len(s.next) == 0 {
		return false
	}
	s.at, s.next = s.next[0], s.next[1:]
	return true
}
func (s *seriesSet) At() storage.Series                { return s.at }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// firing are the alerts of the process whose expressions are true, with the components they name.
func (w world) firing(t *testing.T) []string {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1000, Timeout: time.Minute, LookbackDelta: time.Minute})
	firing := []string{}
	for _, a := range alerts(t) {
		if !slices.Contains([]string{"PlimsollNobodyDecides", "PlimsollTwoDecide", "PlimsollStalled"}, a.Alert) {
			continue
		}
		query, err := engine.NewInstantQuery(t.Context(), w, nil, a.Expr, now)
		if err != nil {
			t.Fatal(err)
		}
		got, err := query.Exec(t.Context()).Vector()
		if err != nil {
			t.Fatalf("%s: %v", a.Alert, err)
		}
		for _, sample := range got {
			firing = append(firing, strings.TrimSpace(strings.TrimPrefix(a.Alert, "Plimsoll")+" "+sample.Metric.Get("component")))
		}
	}
	return firing
}

// One installation may decide on pods and another on machines, and steps may be far apart.
func TestAlertsOfTheProcessFire(t *testing.T) {
	const (
		all = `plimsoll_leader{pod="a", component="podscaler"} 1
			plimsoll_leader{pod="a", component="nodescaler"} 1
			plimsoll_leader{pod="b", component="podscaler"} 0
			plimsoll_leader{pod="b", component="nodescaler"} 0`
		often = `
			plimsoll_loop_interval_seconds{pod="a"} 10`
		rarely = `
			plimsoll_loop_interval_seconds{pod="a"} 600`
	)
	for _, c := range []struct {
		name  string
		world world
		want  []string
	}{
		{"all is well", all + often + `
			plimsoll_loop_last_step_timestamp_seconds{pod="a"} 9990`, nil},
		{"no installation", `up{job="x"} 1`, []string{"NobodyDecides"}},
		{"no replica leads", `plimsoll_leader{pod="a", component="podscaler"} 0
			plimsoll_leader{pod="b", component="podscaler"} 0`, []string{"NobodyDecides podscaler"}},
		{"two installations with parts", `plimsoll_leader{pod="a", component="podscaler"} 1
			plimsoll_leader{pod="b", component="nodescaler"} 1`, nil},
		{"one of them decides no more", `plimsoll_leader{pod="a", component="podscaler"} 1
			plimsoll_leader{pod="b", component="nodescaler"} 0`, []string{"NobodyDecides nodescaler"}},
		{"two of them decide on machines", `plimsoll_leader{pod="a", component="podscaler"} 1
			plimsoll_leader{pod="a", component="nodescaler"} 1
			plimsoll_leader{pod="b", component="nodescaler"} 1`, []string{"TwoDecide nodescaler"}},
		{"a step that hangs", all + often + `
			plimsoll_loop_last_step_timestamp_seconds{pod="a"} 9869`, []string{"Stalled"}},
		{"the first step hangs", all + rarely + `
			plimsoll_loop_last_step_timestamp_seconds{pod="a"} 0`, []string{"Stalled"}},
		{"the next step is due in a minute", all + rarely + `
			plimsoll_loop_last_step_timestamp_seconds{pod="a"} 9460`, nil},
		{"a rare step that hangs", all + rarely + `
			plimsoll_loop_last_step_timestamp_seconds{pod="a"} 9279`, []string{"Stalled"}},
		{"a standby takes no steps", all + often + `
			plimsoll_loop_last_step_timestamp_seconds{pod="a"} 9990
			plimsoll_loop_last_step_timestamp_seconds{pod="b"} 0
			plimsoll_loop_interval_seconds{pod="b"} 10`, nil},
	} {
		if got := c.world.firing(t); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
