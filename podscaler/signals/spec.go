package signals

import (
	"net/url"
	"slices"

	"github.com/plimsoll/plimsoll/podscaler"
)

// Spec says where a workload's signals come from. Its keys are those of a WorkloadAutoscaler's
// spec.signals.
type Spec struct {
	// Preset names whose metrics are read for latency, good fraction, arrivals and requests in
	// flight. Empty means None.
	Preset Preset `json:"preset,omitempty"`
	// Histograms says in which form the preset's histogram is stored. Empty is Classic.
	Histograms Histograms `json:"histograms,omitempty"`
	// Service names the workload where the preset's metrics speak of services: the Service of
	// the target's namespace (Traefik, IngressNginx), the Envoy cluster, or the value of job
	// (OTel). Empty is the target's own name, where that says enough.
	Service string `json:"service,omitempty"`
	// Match narrows the preset's series to those with these labels, and takes the place of the
	// preset's own choice for the same label.
	Match map[string]string `json:"match,omitempty"`
	// Prometheus is asked instead of the one that all workloads share.
	Prometheus *Prometheus `json:"prometheus,omitempty"`
	// Queries take the place of the preset's, one by one.
	Queries Queries `json:"queries,omitzero"`
	// Metrics are further series, which a policy asks for by name.
	Metrics []Series `json:"metrics,omitempty"`
	// Scrape reads the preset's metrics from the workload's own pods instead of Prometheus.
	Scrape *Scrape `json:"scrape,omitempty"`
	// OpenCost is held against the price book.
	OpenCost *OpenCost `json:"openCost,omitempty"`
	// Registration is the service registry that is held against the pods that are ready.
	Registration *Registration `json:"registration,omitempty"`
}

// Preset names whose metrics are read.
type Preset string

// The presets.
const (
	Istio        Preset = "Istio"
	Linkerd      Preset = "Linkerd"
	Traefik      Preset = "Traefik"
	IngressNginx Preset = "IngressNginx"
	Envoy        Preset = "Envoy"
	OTel         Preset = "OTel"
	None         Preset = "None"
)

// Histograms is the form in which a histogram is stored.
type Histograms string

// The forms of histograms.
const (
	Classic Histograms = "Classic" // a series for each bucket, with its upper edge in le
	Native  Histograms = "Native"  // one series with all buckets, converted classic ones among them
)

// Prometheus is a server of the Prometheus query API.
type Prometheus struct {
	URL string `json:"url"`
	// SecretName names a Secret in the workload's namespace with what the server wants to see:
	// token, or username and password; ca.crt, tls.crt and tls.key.
	SecretName string `json:"secretName,omitempty"`
	// Headers are sent with every query, such as the tenant of a shared store.
	Headers map[string]string `json:"headers,omitempty"`
}

// Queries are PromQL of the owner's. The autoscaler puts its values in place of $namespace,
// $workload, $quantile, $window, $target and $targetMs.
type Queries struct {
	Latency string `json:"latency,omitempty"` // the quantile of response times, in seconds
	// The fraction of requests within the target, 0 to 1.
	Good     string `json:"good,omitempty"`
	Arrivals string `json:"arrivals,omitempty"` // requests a second
	InFlight string `json:"inFlight,omitempty"` // requests being served or queued
	Errors   string `json:"errors,omitempty"`   // the fraction of requests that failed, 0 to 1
}

// Series is a metric that a policy asks for by name.
type Series struct {
	Name  string `json:"name"`
	Query string `json:"query"`
	// PerPod is the label that holds a pod's name, if the query answers with a value for each.
	PerPod string `json:"perPod,omitempty"`
}

// Scrape says how the pods' own metrics pages are read. What a preset knows need not be said.
type Scrape struct {
	Port   int    `json:"port,omitempty"`
	Path   string `json:"path,omitempty"`   // empty is /metrics, or the preset's
	Scheme string `json:"scheme,omitempty"` // http or https; empty is http
	// Every is the time between two readings of a page. 0 is 15s.
	Every podscaler.Duration `json:"every,omitempty"`
	// Latency names the histogram of response times, without _bucket, and Unit what it counts
	// in.
	Latency string `json:"latency,omitempty"`
	Unit    Unit   `json:"unit,omitempty"`
	// Requests names the counter of requests; empty is the histogram's count.
	Requests string `json:"requests,omitempty"`
	// InFlight names the gauge of requests being served.
	InFlight string `json:"inFlight,omitempty"`
	// StatusLabel is the label of the counter of requests that holds the status code of HTTP, by
	// which is known which of them failed.
	StatusLabel string `json:"statusLabel,omitempty"`
}

// Unit is what a histogram of response times counts in.
type Unit string

// The units of response times.
const (
	Seconds      Unit = "Seconds"
	Milliseconds Unit = "Milliseconds"
)

// OpenCost says where OpenCost shows what nodes cost.
type OpenCost struct {
	// URL is OpenCost's own address, such as http://opencost.opencost:9003, whose metrics page
	// is read. Empty reads the same series from Prometheus.
	URL string `json:"url,omitempty"`
}

// Registration says where a service registry says how many instances of the workload it sends
// requests to: PromQL, or the registry's own address.
type Registration struct {
	// Query answers with their number.
	Query string `json:"query,omitempty"`
	// PerVersion is the label that holds a version, if the query answers with a number for each.
	PerVersion string `json:"perVersion,omitempty"`
	// URL answers in JSON with what Plimsoll, Consul or Eureka write; see parseRegistry.
	URL string `json:"url,omitempty"`
	// SecretName names a Secret in the workload's namespace with what the registry wants to see,
	// as that of a Prometheus does.
	SecretName string `json:"secretName,omitempty"`
	// Headers are sent with every request.
	Headers map[string]string `json:"headers,omitempty"`
}

// Target is what an autoscaler scales.
type Target struct {
	Namespace, Kind, Name string
}

// Source is a workload and where its signals come from.
type Source struct {
	Target Target
	SLO    podscaler.SLO
	Spec   Spec
}

// The names of the signals, as a spec's queries have them.
const (
	latency  = "latency"
	good     = "good"
	arrivals = "arrivals"
	inFlight = "inFlight"

	// errorRate may be unknown without a gap: without requests there is nothing to measure.
	errorRate = "errors"
)

// registration is what findings call the signal.
const registration = "registration"

// asks reports whether the source has anything to ask a Prometheus for.
func (s *Source) asks() bool {
	preset := s.Spec.preset() != None && s.Spec.Scrape == nil
	cost := s.Spec.OpenCost != nil && s.Spec.OpenCost.URL == ""
	registry := s.Spec.Registration != nil && s.Spec.Registration.Query != ""
	return preset || cost || registry || len(s.Spec.Metrics) > 0 || s.Spec.Queries != Queries{}
}

// wanted are the signals that a Prometheus is to measure: what the preset knows, and what the
// owner asks for.
func (s *Source) wanted() []string {
	var all []string
	if s.Spec.preset() != None && s.Spec.Scrape == nil {
		if s.SLO.Target > 0 {
			all = append(all, latency, good)
		}
		all = append(all, arrivals)
	}
	for _, q := range s.Spec.Queries.named() {
		if !slices.Contains(all, q.name) {
			all = append(all, q.name)
		}
	}
	if g := s.Spec.Registration; g != nil && g.Query != "" {
		all = append(all, registration)
	}
	return all
}

// has reports whether the owner's own query measures a signal, so that nothing else does.
func (s *Source) has(signal string) bool {
	return slices.ContainsFunc(s.Spec.Queries.named(), func(q namedQuery) bool { return q.name == signal })
}

func (s *Spec) preset() Preset {
	if s.Preset == "" {
		return None
	}
	return s.Preset
}

// redact leaves a password out of what is printed.
func redact(u *url.URL, text string) string {
	if u == nil {
		return "(not a URL)"
	}
	if u.User == nil {
		return text
	}
	return u.Redacted()
}

func redactText(text string) string {
	u, _ := url.Parse(text)
	return redact(u, text)
}

type namedQuery struct{ name, text string }

// named returns the queries that are given, by the name of what they measure.
func (q Queries) named() []namedQuery {
	all := []namedQuery{{"latency", q.Latency}, {"good", q.Good}, {"arrivals", q.Arrivals}, {"inFlight", q.InFlight}, {"errors", q.Errors}}
	return slices.DeleteFunc(all, func(n namedQuery) bool { return n.text == "" })
}
