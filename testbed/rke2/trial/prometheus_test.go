package trial

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
)

func TestQueriesAreOfTheWorkload(t *testing.T) {
	for preset, want := range map[v1alpha1.Preset]map[string]string{
		v1alpha1.PresetIstio: {
			"requestsPerSecond": `sum(rate(istio_requests_total{destination_workload_namespace="bed",destination_workload="web"}[1m]))`,
			"latency":           `histogram_quantile(0.9, sum by (le) (rate(istio_request_duration_milliseconds_bucket{destination_workload_namespace="bed",destination_workload="web"}[1m])))`,
		},
		v1alpha1.PresetOTel: {
			"requestsPerSecond": `sum(rate(http_server_request_duration_seconds_count{namespace="bed"}[1m]))`,
			"latency":           `histogram_quantile(0.9, sum by (le) (rate(http_server_request_duration_seconds_bucket{namespace="bed"}[1m])))`,
		},
	} {
		want["cpuCores"] = `sum(rate(container_cpu_usage_seconds_total{namespace="bed",pod=~"web-.*",container!=""}[1m]))`
		want["replicasReady"] = `max(plimsoll_workload_ready_replicas{namespace="bed",name="web"})`
		want["machines"] = `max by (phase) (plimsoll_machines{pool="workers"})`
		if diff := cmp.Diff(want, queries(preset, "bed", "web", "workers", 0.9)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", preset, diff)
		}
	}
}

func TestWhatPrometheusDoesNotAnswerIsTold(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("start") != "100" || q.Get("end") != "160" || q.Get("step") != "15" || r.URL.Path != "/below/api/v1/query_range" {
			t.Errorf("was asked %s", r.URL)
		}
		switch q.Get("query") {
		case "up":
			_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"matrix","result":[{"values":[[100,"1"]]}]}}`))
		case "wrong":
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"status":"error","errorType":"bad_data","error":"unknown function"}`))
		default:
			_, _ = w.Write([]byte("<html>"))
		}
	}))
	defer server.Close()
	got := collect(t.Context(), server.URL+"/below/", map[string]string{"a": "up", "b": "wrong", "c": "page"}, time.Unix(100, 0), time.Unix(160, 0))
	want := map[string]asked{
		"a": {Query: "up", Result: []byte(`[{"values":[[100,"1"]]}]`)},
		"b": {Query: "wrong", Error: "answers 400 Bad Request: unknown function"},
		"c": {Query: "page", Error: "answers 200 OK, which is not Prometheus' own"},
	}
	if diff := cmp.Diff(want, got.Series); diff != "" || got.failed() != 2 {
		t.Errorf("%d failed (-want +got)\n%s", got.failed(), diff)
	}
}
