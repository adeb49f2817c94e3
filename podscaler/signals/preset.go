package signals

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// preset is what is known of one mesh's or proxy's metrics.
type preset struct {
	histogram string        // of response times, without _bucket
	unit      time.Duration // what its edges count in
	requests  string        // the counter of requests
	inFlight  string        // the gauge of requests being served; empty without one
	outcome   outcome       // which requests failed
	match     map[string]string
	exclude   map[string]string
	byService bool // a workload is known by its service
	// places are the labels that hold a workload's names, in each way in which they come to be
	// there.
	places func(kind string) []place
	// names are what those labels say of a workload, each as a regular expression.
	names func(s *Source) []string
	// fold makes one name of the labels' values again; nil joins them as they are.
	fold func(values []string) string

	scrapable bool
	scrape    scrapeDefaults
}

type scrapeDefaults struct {
	port int
	path string
}

// place is a set of labels that hold a workload's names, and labels that must not be there.
type place struct{ labels, without []string }

// always returns the same place for every kind.
func always(places ...place) func(string) []place {
	return func(string) []place { return places }
}

// presets are the presets by name; nothing changes them.
//
// Istio counts each request at both of its ends, so one reporter is chosen; match: {reporter:
// waypoint} chooses a waypoint. Linkerd counts the kubelet's probes as requests, too.
// ingress-nginx and OTel name the workload in labels that Prometheus itself sets for the pod it
// scrapes: the original is then found behind exported_. A PodMonitor sets the namespace and no
// service, so that one of the two labels may be renamed.
var presets = map[Preset]*preset{
	Istio: {
		histogram: "istio_request_duration_milliseconds", unit: time.Millisecond,
		requests:  "istio_requests_total",
		outcome:   istioOutcome,
		match:     map[string]string{"reporter": "destination"},
		places:    always(place{labels: []string{"destination_workload_namespace", "destination_workload"}}),
		names:     byTarget,
		scrapable: true, scrape: scrapeDefaults{port: 15020, path: "/stats/prometheus"},
	},
	Linkerd: {
		histogram: "response_latency_ms", unit: time.Millisecond,
		requests: "request_total",
		outcome:  linkerdOutcome,
		match:    map[string]string{"direction": "inbound"},
		exclude:  map[string]string{"route_name": "probe"},
		places: func(kind string) []place {
			return []place{{labels: []string{"namespace", linkerdKind(kind)}}}
		},
		names:     byTarget,
		scrapable: true, scrape: scrapeDefaults{port: 4191},
	},
	Traefik: {
		histogram: "traefik_service_request_duration_seconds", unit: time.Second,
		requests:  "traefik_service_requests_total",
		outcome:   byCode("traefik_service_requests_total", "code"),
		byService: true,
		places: always(
			place{labels: []string{"service"}, without: []string{"exported_service"}},
			place{labels: []string{"exported_service"}}),
		names: traefikService,
		fold:  traefikFold,
	},
	IngressNginx: {
		histogram: "nginx_ingress_controller_request_duration_seconds", unit: time.Second,
		requests:  "nginx_ingress_controller_requests",
		outcome:   byCode("nginx_ingress_controller_requests", "status"),
		byService: true,
		places: always(
			place{labels: []string{"namespace", "service"}, without: []string{"exported_namespace", "exported_service"}},
			place{labels: []string{"exported_namespace", "service"}, without: []string{"exported_service"}},
			place{labels: []string{"exported_namespace", "exported_service"}}),
		names: func(s *Source) []string { return literal(s.Target.Namespace, s.service()) },
	},
	Envoy: {
		histogram: "envoy_cluster_upstream_rq_time", unit: time.Millisecond,
		requests:  "envoy_cluster_upstream_rq_total",
		inFlight:  "envoy_cluster_upstream_rq_active",
		outcome:   byCode("envoy_cluster_upstream_rq", "envoy_response_code"),
		byService: true,
		places:    always(place{labels: []string{"envoy_cluster_name"}}),
		names:     func(s *Source) []string { return literal(s.service()) },
		scrapable: true, scrape: scrapeDefaults{path: "/stats/prometheus"},
	},
	OTel: {
		histogram: "http_server_request_duration_seconds", unit: time.Second,
		requests:  "http_server_request_duration_seconds_count",
		inFlight:  "http_server_active_requests",
		outcome:   otelOutcome,
		byService: true,
		places: always(
			place{labels: []string{"job"}, without: []string{"exported_job"}},
			place{labels: []string{"exported_job"}}),
		names:     otelJob,
		scrapable: true, scrape: scrapeDefaults{port: 9464},
	},
	None: {scrapable: true},
}

// service is what the preset's metrics call the workload.
func (s *Source) service() string {
	if s.Spec.Service != "" {
		return s.Spec.Service
	}
	return s.Target.Name
}

func literal(names ...string) []string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = regexp.QuoteMeta(n)
	}
	return quoted
}

func byTarget(s *Source) []string { return literal(s.Target.Namespace, s.Target.Name) }

// otelJob is service.namespace/service.name, which instrumentation in Kubernetes fills with the
// namespace and the workload.
func otelJob(s *Source) []string {
	if s.Spec.Service != "" {
		return literal(s.Spec.Service)
	}
	return literal(s.Target.Namespace + "/" + s.Target.Name)
}

// traefikService matches namespace-service-port@provider, for any port; a service that is given
// with its @ is matched as it is.
func traefikService(s *Source) []string {
	if strings.Contains(s.Spec.Service, "@") {
		return literal(s.Spec.Service)
	}
	return []string{regexp.QuoteMeta(s.Target.Namespace+"-"+s.service()) + "-" + traefikPort}
}

// traefikPort follows namespace and Service where Traefik writes both. For a Gateway, the kind of
// route is between them and the port, but in old versions. An IngressRoute with one Service is
// counted by its own name and the hash of its rule, whose 20 digits are more than a port's name
// has. For ingress-nginx's Ingresses, the Ingress is between namespace and Service. These two may
// look like any Service's, and are not read.
const traefikPort = "(?:[a-z0-9]{1,15}@kubernetes(?:crd)?|(?:http-|grpc-)?[0-9]+@kubernetesgateway)"

var traefikForm = regexp.MustCompile("^(.+?)-" + traefikPort + "$")

// traefikFold takes port and provider off a service's name. Where -http could be a Gateway's or end
// a Service's name, it is a Gateway's.
func traefikFold(values []string) string {
	if found := traefikForm.FindStringSubmatch(values[0]); found != nil {
		return found[1]
	}
	return ""
}

// linkerdKinds are the kinds that Linkerd has a label for.
var linkerdKinds = []string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController"}

func linkerdKind(kind string) string {
	if slices.Contains(linkerdKinds, kind) {
		return strings.ToLower(kind)
	}
	return ""
}

// matchers are the conditions on labels that every workload's series meet, as PromQL writes them.
func matchers(p *preset, match map[string]string) []string {
	equal := maps.Clone(p.match)
	if equal == nil {
		equal = map[string]string{}
	}
	maps.Copy(equal, match)
	var conditions []string
	for _, label := range slices.Sorted(maps.Keys(equal)) {
		conditions = append(conditions, label+"="+quoteLabel(equal[label]))
	}
	for _, label := range slices.Sorted(maps.Keys(p.exclude)) {
		if _, overridden := match[label]; !overridden {
			conditions = append(conditions, label+"!="+quoteLabel(p.exclude[label]))
		}
	}
	return conditions
}
