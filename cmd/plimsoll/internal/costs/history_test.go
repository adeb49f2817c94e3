package costs

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/prometheus"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/prometheus/fakeprom"
	"github.com/plimsoll/plimsoll/testbed/must"
)

var noon = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

// kept is a series that a fake Prometheus kept: its text form, and its value at each time since
// noon, or nothing.
type kept struct {
	series string
	at     func(since time.Duration) (float64, bool)
}

func always(v float64) func(time.Duration) (float64, bool) {
	return func(time.Duration) (float64, bool) { return v, true }
}

func between(from, to time.Duration, v float64) func(time.Duration) (float64, bool) {
	return func(since time.Duration) (float64, bool) { return v, since >= from && since < to }
}

// fakePrometheus serves the series under a path of its own.
func fakePrometheus(t *testing.T, store []kept) *Prometheus {
	t.Helper()
	var all []fakeprom.Series
	for _, k := range store {
		all = append(all, fakeprom.Series{Text: k.series, At: func(at time.Time) (float64, bool) { return k.at(at.Sub(noon)) }})
	}
	server := httptest.NewServer(http.StripPrefix("/prometheus", fakeprom.Handler(all)))
	t.Cleanup(server.Close)
	to := must.Get(url.Parse(server.URL + "/prometheus"))(t)
	return &Prometheus{URL: to, Client: server.Client()}
}

func TestSince(t *testing.T) {
	node := func(name, part string) string {
		return `plimsoll_node_cost_per_hour{node="` + name + `",pool="p",part="` + part + `"}`
	}
	for name, c := range map[string]struct {
		store []kept
		by    By
		last  time.Duration
		want  string
	}{
		"rates add up over the time": {
			[]kept{
				{`plimsoll_cost_known{}`, always(1)}, {`plimsoll_cost_info{currency="EUR"}`, always(1)},
				{node("a", "allocated"), always(0.5)}, {node("a", "idle"), always(0.25)}, {node("a", "system"), always(0.125)},
			}, ByNode, 24 * time.Hour, `
plimsoll_node_cost_per_hour, step 1m0s, EUR, covered 24h0m0s
total 21 = 12 + 6 + 3 for 24h0m0s
a 21 = 12 + 6 + 3 for 24h0m0s`,
		},
		"a node that was there for an hour costs an hour": {
			[]kept{
				{`plimsoll_cost_known{}`, always(1)},
				{node("a", "allocated"), always(1)}, {node("b", "allocated"), between(time.Hour, 2*time.Hour, 2)},
			}, ByNode, 6 * time.Hour, `
plimsoll_node_cost_per_hour, step 1m0s, , covered 6h0m0s
total 8 = 8 + 0 + 0 for 6h0m0s
a 6 = 6 + 0 + 0 for 6h0m0s
b 2 = 2 + 0 + 0 for 1h0m0s`,
		},
		"what is not known is a gap, and not nothing": {
			[]kept{
				{`plimsoll_cost_known{}`, func(since time.Duration) (float64, bool) {
					v := 1.0
					if since >= 3*time.Hour && since < 4*time.Hour {
						v = 0 // it said that it did not know
					}
					return v, since < time.Hour || since >= 2*time.Hour // and said nothing
				}},
				{node("a", "allocated"), always(1)},
			}, ByNode, 6 * time.Hour, `
plimsoll_node_cost_per_hour, step 1m0s, , covered 4h0m0s
gap 13:00:00 to 14:00:00
gap 15:00:00 to 16:00:00
total 4 = 4 + 0 + 0 for 4h0m0s
a 4 = 4 + 0 + 0 for 4h0m0s`,
		},
		"two processes that say the same count once": {
			[]kept{
				{`plimsoll_cost_known{instance="x"}`, between(0, 2*time.Hour, 1)}, {`plimsoll_cost_known{instance="y"}`, between(time.Hour, 6*time.Hour, 1)},
				{`plimsoll_pool_cost_per_hour{pool="p",part="idle",instance="x"}`, between(0, 2*time.Hour, 1)},
				{`plimsoll_pool_cost_per_hour{pool="p",part="idle",instance="y"}`, between(time.Hour, 6*time.Hour, 1)},
			}, ByPool, 6 * time.Hour, `
plimsoll_pool_cost_per_hour, step 1m0s, , covered 6h0m0s
total 6 = 0 + 6 + 0 for 6h0m0s
p 6 = 0 + 6 + 0 for 6h0m0s`,
		},
		"labels that the scraper moved aside are found": {
			[]kept{
				{`plimsoll_cost_known{}`, always(1)},
				{`plimsoll_workload_cost_per_hour{namespace="plimsoll",exported_namespace="shop",workload="web",part="allocated"}`, always(1)},
				{`plimsoll_workload_cost_per_hour{namespace="plimsoll",exported_namespace="shop",workload="Deployment/db",part="allocated"}`, always(2)},
			}, ByWorkload, time.Hour, `
plimsoll_workload_cost_per_hour, step 1m0s, , covered 1h0m0s
total 3 = 3 + 0 + 0 for 1h0m0s
shop/Deployment/db 2 = 2 + 0 + 0 for 1h0m0s
shop/web 1 = 1 + 0 + 0 for 1h0m0s`,
		},
		"without series of ours, OpenCost's are taken": {
			[]kept{
				{`node_total_hourly_cost{node="a"}`, between(0, 2*time.Hour, 1)}, {`node_total_hourly_cost{node="b"}`, between(time.Hour, 3*time.Hour, 2)},
			}, ByNode, 4 * time.Hour, `
node_total_hourly_cost, step 1m0s, , covered 3h0m0s
gap 15:00:00 to 16:00:00
total 6 for 3h0m0s
a 2 for 2h0m0s
b 4 for 2h0m0s`,
		},
		"a long time is looked at less closely": {
			[]kept{{`plimsoll_cost_known{}`, always(1)}, {node("a", "idle"), always(1)}}, ByNode, 30*24*time.Hour + time.Second, `
plimsoll_node_cost_per_hour, step 30m1s, , covered 720h0m1s
total 720.000278 = 0 + 720.000278 + 0 for 720h0m1s
a 720.000278 = 0 + 720.000278 + 0 for 720h0m1s`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := must.Get(fakePrometheus(t, c.store).Since(t.Context(), c.by, noon, noon.Add(c.last)))(t)
			if diff := cmp.Diff(strings.TrimSpace(c.want), strings.TrimSpace(text(h))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func text(h *History) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, step %s, %s, covered %s\n", h.Source, h.Step, h.Currency, h.Covered)
	for _, g := range h.Gaps {
		fmt.Fprintf(&b, "gap %s to %s\n", g.From.Format(time.TimeOnly), g.To.Format(time.TimeOnly))
	}
	for i, s := range append([]Spent{h.Total}, h.Lines...) {
		name := s.Name
		if i == 0 {
			name = "total"
		}
		fmt.Fprintf(&b, "%s %s", name, s.Cost)
		if s.Parted {
			fmt.Fprintf(&b, " = %s + %s + %s", s.Allocated, s.Idle, s.System)
		}
		fmt.Fprintf(&b, " for %s\n", s.For)
	}
	return b.String()
}

func TestHistoriesThatCannotBeToldAreRefused(t *testing.T) {
	known := kept{`plimsoll_cost_known{}`, always(1)}
	for name, c := range map[string]struct {
		store []kept
		by    By
		want  string
		is    error
	}{
		"no series":             {nil, ByNode, "neither plimsoll_cost_known nor node_total_hourly_cost between 2026-09-01T12:00:00Z and 2026-09-01T13:00:00Z", ErrNoSeries},
		"OpenCost has no pools": {[]kept{{`node_total_hourly_cost{node="a"}`, always(1)}}, ByPool, "there is no plimsoll_pool_cost_per_hour", ErrNoSeries},
		"several currencies": {
			[]kept{known, {`plimsoll_cost_info{currency="EUR"}`, between(0, time.Minute, 1)}, {`plimsoll_cost_info{currency="USD"}`, between(time.Minute, time.Hour, 1)}},
			ByNode, "several currencies", nil,
		},
		"several clusters": {
			[]kept{{`plimsoll_cost_known{cluster="a"}`, always(1)}, {`plimsoll_cost_known{cluster="b"}`, always(1)}}, ByNode, `["a" "b"]`, ErrSeveralClusters,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := fakePrometheus(t, c.store).Since(t.Context(), c.by, noon, noon.Add(time.Hour))
			if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestOfSeveralClustersOneCanBeChosen(t *testing.T) {
	p := fakePrometheus(t, []kept{
		{`plimsoll_cost_known{cluster="a"}`, always(1)}, {`plimsoll_cost_known{cluster="b"}`, always(1)},
		{`plimsoll_pool_cost_per_hour{pool="p",part="idle",cluster="a"}`, always(1)}, {`plimsoll_pool_cost_per_hour{pool="p",part="idle",cluster="b"}`, always(5)},
	})
	p.Match = `cluster="a"`
	h, err := p.Since(t.Context(), ByPool, noon, noon.Add(time.Hour))
	if err != nil || h.Total.Cost.String() != "1" {
		t.Errorf("%+v, %v", h, err)
	}
}

func TestAnswersThatAreNoneAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   string
		is     error
	}{
		"a page":            {200, "<html>", "not Prometheus' JSON", prometheus.ErrUnreachable},
		"a refusal":         {400, `{"status":"error","error":"parse error"}`, "prometheus refuses: 400 Bad Request: parse error", nil},
		"a vector":          {200, `{"status":"success","data":{"resultType":"vector","result":[]}}`, `answers with a "vector"`, nil},
		"half a sample":     {200, `{"status":"success","data":{"resultType":"matrix","result":[{"values":[[1]]}]}}`, "must be a time and a value", prometheus.ErrUnreachable},
		"no number":         {200, `{"status":"success","data":{"resultType":"matrix","result":[{"values":[[1,"x"]]}]}}`, "invalid syntax", prometheus.ErrUnreachable},
		"a time that is no": {200, `{"status":"success","data":{"resultType":"matrix","result":[{"values":[["1","1"]]}]}}`, "cannot", prometheus.ErrUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.body)
			}))
			defer server.Close()
			to, _ := url.Parse(server.URL)
			_, err := (&Prometheus{URL: to, Client: server.Client()}).Since(t.Context(), ByNode, noon, noon.Add(time.Hour))
			if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("got %v", err)
			}
		})
	}
}
