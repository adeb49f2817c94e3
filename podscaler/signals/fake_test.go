package signals

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/testbed/must"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fake is a Prometheus that answers by script.
type fake struct {
	*httptest.Server
	mu sync.Mutex
	// The answer's data, or "503", or a whole body that begins with {.
	answer  func(query string) string
	queries []string
	seen    []*http.Request
}

func newFake(t *testing.T, answer func(query string) string) *fake {
	f := &fake{answer: answer}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.FormValue("query")
	f.mu.Lock()
	f.queries = append(f.queries, query)
	f.seen = append(f.seen, r)
	answer := f.answer
	f.mu.Unlock()
	if text := r.FormValue("timeout"); text != "" { // a real one refuses what it cannot read, too
		if _, err := model.ParseDuration(text); err != nil {
			http.Error(w, `{"status":"error","errorType":"bad_data","error":"timeout: `+err.Error()+`"}`, http.StatusBadRequest)
			return
		}
	}
	switch body := answer(query); {
	case body == "503":
		http.Error(w, "<html>"+strings.Repeat("unavailable ", 500), http.StatusServiceUnavailable)
	case body == "hang":
		<-r.Context().Done()
	case body == "302":
		http.Redirect(w, r, "http://elsewhere.invalid/", http.StatusFound)
	default:
		if !strings.HasPrefix(body, "{") {
			body = `{"status":"success","data":` + body[1:] + `}`
		}
		_, _ = w.Write([]byte(body))
	}
}

// asked returns what was asked since the last time, sorted.
func (f *fake) asked() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.queries
	f.queries = nil
	slices.Sort(all)
	return all
}

// vector is an answer of series, each written as {a="b"} 1.5.
func vector(at time.Time, series ...string) string {
	var all []string
	for _, s := range series {
		labels, value, _ := strings.Cut(s, "} ")
		labels = strings.TrimPrefix(labels, "{")
		var metric []string
		for _, pair := range strings.FieldsFunc(labels, func(r rune) bool { return r == ';' }) {
			name, v, _ := strings.Cut(pair, "=")
			metric = append(metric, fmt.Sprintf("%q:%s", name, v))
		}
		all = append(all, fmt.Sprintf(`{"metric":{%s},"value":[%d,%q]}`, strings.Join(metric, ","), at.Unix(), value))
	}
	return `=` + `{"resultType":"vector","result":[` + strings.Join(all, ",") + `]}`
}

var p90 = podscaler.SLO{Quantile: 0.9, Target: 250 * time.Millisecond, Window: time.Minute}

func source(spec Spec) Source {
	return Source{Target: Target{Namespace: "shop", Kind: "Deployment", Name: "cart"}, SLO: p90, Spec: spec}
}

// lenient lets objects name what the tests serve, and ask what they like.
var lenient = Access{
	AllowedHosts: []AllowedHosts{{Hosts: []string{"127.0.0.1"}, Headers: []string{"X-Scope-OrgID", "X-Scope"}, PlaintextCredentials: true}},
	FreeQueries:  []string{"*"},
}

// reader measures one workload, shop/cart, once.
func reader(t *testing.T, f *fake, s Source, o Options) *Reader {
	t.Helper()
	if f != nil {
		o.Prometheus = &Prometheus{URL: f.URL}
	}
	if reflect.DeepEqual(o.Access, Access{}) {
		o.Access = lenient
	}
	r := New(o)
	must.Do(t, r.Configure(map[string]Source{"shop/cart": s}))
	r.Prepare(context.Background(), noon)
	return r
}

func read(t *testing.T, r *Reader, name string, now time.Time) podscaler.Window {
	t.Helper()
	w := must.Get(r.Read(context.Background(), &podscaler.Workload{Name: name}, now))(t)
	return w
}

// istio scripts the answers for shop/cart: 100 requests a second, 95 of them within 250 ms, and 2
// that failed.
func istio(query string) string {
	const of = `{destination_workload_namespace="shop";destination_workload="cart"`
	switch {
	case strings.Contains(query, "_bucket{"):
		return vector(noon, of+`;le="100"} 20`, of+`;le="250"} 95`, of+`;le="500"} 100`, of+`;le="+Inf"} 100`)
	case strings.Contains(query, "timestamp("):
		return vector(noon, fmt.Sprintf("%s} %d", of, noon.Unix()-5))
	case strings.Contains(query, "count_over_time("):
		return vector(noon, of+"} 4")
	case strings.Contains(query, "response_code"):
		return vector(noon, of+`;response_code="200";response_flags="-"} 98`, of+`;response_code="503";response_flags="UF"} 2`)
	}
	return vector(noon, of+"} 100")
}

func codes(reasons []podscaler.Reason) []string {
	var all []string
	for _, r := range reasons {
		all = append(all, r.Code)
	}
	return all
}

func lines(reasons []podscaler.Reason) string {
	var all []string
	for _, r := range reasons {
		all = append(all, r.String())
	}
	return strings.Join(all, "\n")
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// logbook keeps what an administrator reads.
type logbook struct {
	slog.Handler
	mu   sync.Mutex
	said []string
}

func (l *logbook) Enabled(context.Context, slog.Level) bool { return true }

func (l *logbook) Handle(_ context.Context, r slog.Record) error {
	var text []string
	r.Attrs(func(a slog.Attr) bool {
		text = append(text, a.Key+" "+a.Value.String())
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, strings.Join(text, " "))
	return nil
}

func (l *logbook) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.said, "\n")
}
