package loader

import (
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// edges are in seconds. They are close where objectives are: between two of them nothing is known.
var edges = []float64{
	.005, .01, .025, .05, .075, .1, .125, .15, .175, .2, .225, .25, .275, .3, .325, .35, .4, .45, .5, .6, .75, 1, 1.5, 2, 3, 5, 7.5, 10, 30, 60,
}

// meters are the loader's metrics. Requests have the names that OpenTelemetry gives them, by which
// Plimsoll's preset OTel finds them, and others' dashboards do.
type meters struct {
	requests *prometheus.HistogramVec
	calls    *prometheus.HistogramVec
	active   prometheus.GaugeFunc
	digits   prometheus.Gauge
	demand   prometheus.Gauge
	underWay atomic.Int64
}

func newMeters(calls []string) *meters {
	m := &meters{
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "http_server_request_duration_seconds", Help: "How long requests took, with waiting and the calls they made; 499 is one whose client went away.",
			Buckets: edges, NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
		}, []string{"http_response_status_code"}),
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "http_client_request_duration_seconds", Help: "How long calls to other loaders took; 0 is one without an answer.",
			Buckets: edges, NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
		}, []string{"url_full", "http_response_status_code"}),
		digits: prometheus.NewGauge(prometheus.GaugeOpts{Name: "plimsoll_loader_digits", Help: "How many decimals of π a request works out."}),
		demand: prometheus.NewGauge(prometheus.GaugeOpts{Name: "plimsoll_loader_demand_seconds", Help: "What the work was found to take of a core; 0 where it was set."}),
	}
	m.active = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "http_server_active_requests", Help: "Requests that are not answered yet, those that wait among them.",
	}, func() float64 { return float64(m.underWay.Load()) })
	// A rate over a series that appears with its first request misses that.
	m.requests.WithLabelValues("200")
	for _, call := range calls {
		m.calls.WithLabelValues(call, "200")
	}
	return m
}

func (m *meters) register(registry prometheus.Registerer) error {
	var errs []error
	for _, c := range []prometheus.Collector{
		m.requests, m.calls, m.active, m.digits, m.demand,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		errs = append(errs, registry.Register(c))
	}
	return errors.Join(errs...)
}

// enter counts a request that has come, until it leaves.
func (m *meters) enter() (leave func()) {
	m.underWay.Add(1)
	return func() { m.underWay.Add(-1) }
}

func (m *meters) served(status int, took time.Duration) {
	m.requests.WithLabelValues(strconv.Itoa(status)).Observe(took.Seconds())
}

func (m *meters) called(address string, status int, took time.Duration) {
	m.calls.WithLabelValues(address, strconv.Itoa(status)).Observe(took.Seconds())
}
