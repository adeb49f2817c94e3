package trial

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
)

// collected is what Prometheus has of a run.
type collected struct {
	From   time.Time        `json:"from"`
	To     time.Time        `json:"to"`
	Step   string           `json:"step"`
	Series map[string]asked `json:"series"`
}

// asked is a query with Prometheus' answer, or why it has no answer.
type asked struct {
	Query  string          `json:"query"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// every is the time between two points.
const every = 15 * time.Second

// collect asks Prometheus how a run went. That it does not answer costs the run nothing but this.
func collect(ctx context.Context, base string, queries map[string]string, from, to time.Time) *collected {
	out := &collected{From: from, To: to, Step: every.String(), Series: map[string]asked{}}
	for name, q := range queries {
		a := asked{Query: q}
		result, err := ask(ctx, base, q, from, to)
		if a.Result = result; err != nil {
			a.Error = err.Error()
		}
		out.Series[name] = a
	}
	return out
}

// failed are the queries without an answer.
func (c *collected) failed() int {
	n := 0
	for _, a := range c.Series {
		if a.Error != "" {
			n++
		}
	}
	return n
}

func ask(ctx context.Context, base, query string, from, to time.Time) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	seconds := func(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }
	values := url.Values{"query": {query}, "start": {seconds(from)}, "end": {seconds(to)}, "step": {seconds(time.Unix(0, 0).Add(every))}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base, "/")+"/api/v1/query_range?"+values.Encode(), nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(res.Body, 64<<20))
	if err != nil {
		return nil, err
	}
	var answer struct {
		Status, Error string
		Data          struct{ Result json.RawMessage }
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("answers %s, which is not Prometheus' own", res.Status)
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("answers %s: %s", res.Status, answer.Error)
	}
	return answer.Data.Result, nil
}

// queries are what is asked of a workload, and of the workers' pool.
func queries(preset v1alpha1.Preset, namespace, name, workers string, quantile float64) map[string]string {
	counter, histogram, of := "http_server_request_duration_seconds_count", "http_server_request_duration_seconds", fmt.Sprintf(`namespace=%q`, namespace)
	if preset == v1alpha1.PresetIstio {
		counter, histogram = "istio_requests_total", "istio_request_duration_milliseconds"
		of = fmt.Sprintf(`destination_workload_namespace=%q,destination_workload=%q`, namespace, name)
	}
	q := strconv.FormatFloat(quantile, 'f', -1, 64)
	return map[string]string{
		"requestsPerSecond": fmt.Sprintf(`sum(rate(%s{%s}[1m]))`, counter, of),
		"latency":           fmt.Sprintf(`histogram_quantile(%s, sum by (le) (rate(%s_bucket{%s}[1m])))`, q, histogram, of),
		"cpuCores":          fmt.Sprintf(`sum(rate(container_cpu_usage_seconds_total{namespace=%q,pod=~%q,container!=""}[1m]))`, namespace, name+"-.*"),
		"replicasReady":     fmt.Sprintf(`max(plimsoll_workload_ready_replicas{namespace=%q,name=%q})`, namespace, name),
		"machines":          fmt.Sprintf(`max by (phase) (plimsoll_machines{pool=%q})`, workers),
	}
}
