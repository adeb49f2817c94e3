package plane

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// istioLabels are the labels of Istio's metrics, and the two that Prometheus' discovery of pods
// puts on those of every proxy.
var istioLabels = []string{
	"reporter",
	"source_workload", "source_workload_namespace", "source_principal", "source_app", "source_version", "source_cluster",
	"source_canonical_service", "source_canonical_revision",
	"destination_workload", "destination_workload_namespace", "destination_principal", "destination_app", "destination_version",
	"destination_service", "destination_service_name", "destination_service_namespace", "destination_cluster",
	"destination_canonical_service", "destination_canonical_revision",
	"request_protocol", "response_code", "response_flags", "connection_security_policy",
	"namespace", "pod",
}

// The proxy that sends what comes from outside, as Istio's own charts call it.
const (
	gateway          = "istio-ingressgateway"
	gatewayNamespace = "istio-system"
	cluster          = "Kubernetes"
	unknown          = "unknown"
)

var (
	requestsDesc = prometheus.NewDesc("istio_requests_total", "Requests handled by a proxy.", istioLabels, nil)
	durationDesc = prometheus.NewDesc("istio_request_duration_milliseconds",
		"How long requests took: by the law of pods where the pod's proxy reports, by the clock where the gateway does.", istioLabels, nil)
	cpuDesc  = prometheus.NewDesc("container_cpu_usage_seconds_total", "CPU time that containers have used.", []string{"namespace", "pod", "container", "node"}, nil)
	lateDesc = prometheus.NewDesc("lab_plane_answer_late_seconds",
		"How much later than the law of pods has it answers were given. Where this is no small part of the latencies, the machine is too slow for the load.", nil, nil)
)

// collector describes a plane to Prometheus, or of one pod of it as its proxy would.
type collector struct {
	plane *Plane
	only  string // a pod, by namespace and name; empty is all
	// gateway omits what pods' proxies and containers report.
	gateway bool
}

// Describe says what there is.
func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{requestsDesc, durationDesc, cpuDesc, lateDesc} {
		to <- d
	}
}

// Collect sends the present values.
func (c collector) Collect(to chan<- prometheus.Metric) {
	for _, m := range c.collect() {
		to <- m
	}
}

// collect takes everything down at one moment.
func (c collector) collect() []prometheus.Metric {
	p := c.plane
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []prometheus.Metric
	if !c.gateway {
		all = c.proxies(p.now())
	}
	if c.only != "" {
		return all
	}
	for _, a := range p.apps {
		for o, s := range a.sent {
			all = append(all, s.istio(a.labels(o))...)
		}
	}
	n, upTo := p.late.cumulated()
	return append(all, prometheus.MustNewConstHistogram(lateDesc, n, p.late.sum, upTo))
}

// proxies are what pods' proxies and containers report.
func (c collector) proxies(now time.Duration) []prometheus.Metric {
	var all []prometheus.Metric
	seen := map[string]bool{} // of two pods of one name the later counts
	for pod := range c.plane.all {
		key := pod.obs.key()
		if seen[key] || pod.dead || c.only != "" && c.only != key {
			continue
		}
		seen[key] = true
		pod.settle(now)
		for o, s := range pod.got {
			all = append(all, s.istio(pod.labels(o))...)
		}
		// Pods that use nothing are omitted: of a cluster's worth of them, Prometheus would read
		// little else.
		if use := pod.obs.behavior; pod.began && (use.serves || use.steady > 0) {
			for _, ctr := range pod.obs.containers {
				all = append(all, prometheus.MustNewConstMetric(cpuDesc, prometheus.CounterValue, pod.usedBy(ctr.name, now), pod.obs.namespace, pod.obs.name, ctr.name, pod.obs.node))
			}
		}
	}
	return all
}

// istio is a series as Istio's two metrics.
func (s *series) istio(labels []string) []prometheus.Metric {
	n, upTo := s.cumulated()
	return []prometheus.Metric{
		prometheus.MustNewConstMetric(requestsDesc, prometheus.CounterValue, float64(n), labels...),
		prometheus.MustNewConstHistogram(durationDesc, n, s.sum, upTo, labels...),
	}
}

// labels are those of what the pod's proxy reports.
func (d *pod) labels(o outcome) []string {
	return d.app.istio("destination", d.app.name, d.obs.labels, o, d.obs.namespace, d.obs.name)
}

// labels are those of what the gateway reports. Of a request that found no pod it does not know
// whose it would have been.
func (a *application) labels(o outcome) []string {
	workload := a.name
	if o.flags == "UH" {
		workload = unknown
	}
	return a.istio("source", workload, nil, o, gatewayNamespace, gateway)
}

// istio are labels in the order of istioLabels.
func (a *application) istio(reporter, workload string, pod map[string]string, o outcome, namespace, proxy string) []string {
	or := func(text, otherwise string) string {
		if text == "" {
			return otherwise
		}
		return text
	}
	return []string{
		reporter,
		gateway, gatewayNamespace, "spiffe://cluster.local/ns/" + gatewayNamespace + "/sa/" + gateway, gateway, unknown, cluster, gateway, "latest",
		workload, a.namespace, "spiffe://cluster.local/ns/" + a.namespace + "/sa/default", or(pod["app"], a.name), or(pod["version"], unknown),
		a.name + "." + a.namespace + ".svc.cluster.local", a.name, a.namespace, cluster, or(pod["app"], a.name), or(pod["version"], "latest"),
		"http", strconv.Itoa(o.code), o.flags, "mutual_tls",
		namespace, proxy,
	}
}

// usedBy is the CPU time that one of the pod's containers has used: the one that serves, or the
// first, has used it all.
func (d *pod) usedBy(name string, now time.Duration) float64 {
	if name != d.obs.worker() {
		return 0
	}
	return d.total(now) - d.origin
}

// worker is the container that is taken to use all that the pod uses.
func (o *observed) worker() string {
	if name := o.behavior.container; name != "" || len(o.containers) == 0 {
		return name
	}
	return o.containers[0].name
}
