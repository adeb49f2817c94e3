package v1alpha1

// Signals says where a workload's numbers are measured.
//
// +kubebuilder:validation:XValidation:rule="!has(self.service) || self.preset in ['Traefik', 'IngressNginx', 'Envoy', 'OTel']",fieldPath=".service",messageExpression="'must be omitted with preset ' + self.preset + ', which does not look at it, was ' + self.service"
// +kubebuilder:validation:XValidation:rule="self.preset != 'Envoy' || has(self.service) || has(self.scrape)",fieldPath=".service",message="must name the Envoy cluster (envoy_cluster_name), which no rule derives from a workload's name, was absent"
// +kubebuilder:validation:XValidation:rule="self.preset != 'None' || !has(self.match) || has(self.scrape)",fieldPath=".match",message="must be omitted without a preset, whose series it narrows, was there"
// +kubebuilder:validation:XValidation:rule="self.preset != 'None' || !has(self.histograms)",fieldPath=".histograms",messageExpression="'must be omitted without a preset, whose histogram it describes, was ' + self.histograms"
// +kubebuilder:validation:XValidation:rule="!has(self.scrape) || !has(self.histograms) || self.histograms != 'Native'",fieldPath=".histograms",message="must be Classic with scrape, for a page of text has no other, was Native"
// +kubebuilder:validation:XValidation:rule="!has(self.scrape) || !(self.preset in ['Traefik', 'IngressNginx'])",fieldPath=".preset",messageExpression="'must be None, Istio, Linkerd, Envoy or OTel with scrape: the pods of others know nothing of it, was ' + self.preset"
// +kubebuilder:validation:XValidation:rule="!has(self.scrape) || has(self.scrape.port) || self.preset in ['Istio', 'Linkerd', 'OTel']",fieldPath=".scrape.port",messageExpression="'must be there with preset ' + self.preset + ', which knows none, was absent'"
// +kubebuilder:validation:XValidation:rule="!has(self.scrape) || self.preset != 'None' || has(self.scrape.latency) || has(self.scrape.requests) || has(self.scrape.inFlight)",fieldPath=".scrape",message="must name latency, requests or inFlight without a preset that knows them, was with none of them"
type Signals struct {
	// Whose metrics describe the workload's requests. The preset knows their names, units and
	// labels.
	// +optional
	// +kubebuilder:default=None
	Preset Preset `json:"preset,omitempty"`
	// In which form the preset's histogram is stored: Classic has a series for each bucket, Native
	// one series with all of them. Default: Classic.
	// +optional
	// +kubebuilder:validation:Enum=Classic;Native
	Histograms string `json:"histograms,omitempty"`
	// The workload's name where the preset's metrics speak of services: the Service of the target's
	// namespace (Traefik, IngressNginx), the Envoy cluster, or the value of job (OTel). Default:
	// the target's own name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Service string `json:"service,omitempty"`
	// Labels that narrow the preset's series, in place of what the preset wants of the same label:
	// {reporter: waypoint}.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(l, l.matches('^[a-zA-Z_][a-zA-Z0-9_]*$'))",messageExpression="'must have names of labels as keys, was ' + self.filter(l, !l.matches('^[a-zA-Z_][a-zA-Z0-9_]*$'))[0]"
	Match map[string]LabelValue `json:"match,omitempty"`
	// The Prometheus that is asked instead of the one in Plimsoll's configuration: a Prometheus, or
	// what speaks its API, such as Thanos, Mimir or VictoriaMetrics.
	// +optional
	Prometheus *Prometheus `json:"prometheus,omitempty"`
	// Queries of your own, in place of the preset's. Each must return one value. Without a
	// prometheus of your own each selector must have namespace="$namespace", unless
	// signals.freeQueries in Plimsoll's configuration lists the namespace. $namespace, $workload,
	// $quantile, $window, $target (in seconds) and $targetMs are replaced by what the autoscaler
	// says.
	// +optional
	Queries *Queries `json:"queries,omitempty"`
	// Further series by name, for the metrics of policy HPA of type Pods, Object and External.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Metrics []Series `json:"metrics,omitempty"`
	// Reads the metrics of the workload's own pods, without a Prometheus.
	// +optional
	Scrape *Scrape `json:"scrape,omitempty"`
	// The OpenCost whose prices are held against the price book's.
	// +optional
	OpenCost *OpenCost `json:"openCost,omitempty"`
	// The service registry that says how many instances of the workload it sends requests to, and
	// of which versions. It is held against the pods that are ready.
	// +optional
	Registration *Registration `json:"registration,omitempty"`
}

// Preset names a source of request metrics.
//
// +kubebuilder:validation:Enum=None;Istio;Linkerd;Traefik;IngressNginx;Envoy;OTel
type Preset string

// The presets.
const (
	PresetNone         Preset = "None"
	PresetIstio        Preset = "Istio"
	PresetLinkerd      Preset = "Linkerd"
	PresetTraefik      Preset = "Traefik"
	PresetIngressNginx Preset = "IngressNginx"
	PresetEnvoy        Preset = "Envoy"
	PresetOTel         Preset = "OTel"
)

// LabelValue is the value of a label of a series.
//
// +kubebuilder:validation:MaxLength=256
type LabelValue string

// Prometheus is how a Prometheus is reached.
type Prometheus struct {
	// Its address, with the path before /api/v1 if it has one: http://prometheus.monitoring:9090.
	// It is asked if signals.allowedHosts in Plimsoll's configuration lists its host for the
	// namespace.
	// +required
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^https?://[A-Za-z0-9.:_\[\]-]+(/[A-Za-z0-9._~/-]*)?$')`,message="must be http:// or https:// with a host, and a path if there is one, without user or query: http://prometheus.monitoring:9090"
	URL string `json:"url"`
	// A secret in the same namespace with what the server wants to see: token, or username and
	// password, and ca.crt, tls.crt and tls.key. It is shown over https, and over http only where
	// the configuration says so.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')`,message="must be the name of a secret: lower-case letters, digits, - and ., each part beginning and ending with a letter or digit"
	SecretName string `json:"secretName,omitempty"`
	// Headers that are sent with every query, such as the tenant of a shared store: {X-Scope-OrgID:
	// shop}. The configuration must list their names beside the host. Credentials belong into the
	// secret.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(h, h.matches('^[0-9A-Za-z_-]+$') && h.lowerAscii() != 'authorization')",messageExpression="'must have names of headers as keys, and credentials in the secret, was ' + self.filter(h, !h.matches('^[0-9A-Za-z_-]+$') || h.lowerAscii() == 'authorization')[0]"
	Headers map[string]HeaderValue `json:"headers,omitempty"`
}

// HeaderValue is the value of a header.
//
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[ -~]*$')`,message="must be of printable ASCII characters"
type HeaderValue string

// Queries are PromQL.
type Queries struct {
	// The objective's quantile of response times, in seconds.
	// +optional
	Latency Query `json:"latency,omitempty"`
	// The fraction of requests that are answered within the objective's target, from 0 to 1.
	// +optional
	Good Query `json:"good,omitempty"`
	// Requests for each second.
	// +optional
	Arrivals Query `json:"arrivals,omitempty"`
	// Requests that are being served or wait.
	// +optional
	InFlight Query `json:"inFlight,omitempty"`
	// The fraction of requests that a server error answers or that are refused, from 0 to 1.
	// +optional
	Errors Query `json:"errors,omitempty"`
}

// Query is PromQL.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=4096
type Query string

// Series is a series with a name.
type Series struct {
	// What metrics of policies HPA and Watermark, and fastSlow.metric, call it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// The query that returns it: one value, or with perPod one for each pod.
	// +required
	Query Query `json:"query"`
	// The label that holds a pod's name, such as pod, where there is a value for each. By default
	// there is one value for the whole.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-zA-Z_][a-zA-Z0-9_]*$')`,message="must be the name of a label: letters, digits and _, not a digit first"
	PerPod string `json:"perPod,omitempty"`
}

// Scrape says how the pods' own pages of metrics are read. What a preset knows need not be said.
//
// +kubebuilder:validation:XValidation:rule="!has(self.unit) || has(self.latency)",fieldPath=".unit",messageExpression="'must be omitted without latency, whose unit it is, was ' + self.unit"
// +kubebuilder:validation:XValidation:rule="!has(self.statusLabel) || has(self.latency) || has(self.requests)",fieldPath=".statusLabel",messageExpression="'must be omitted without latency or requests, whose label it is, was ' + self.statusLabel"
type Scrape struct {
	// The port. Default: the preset's.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// The path. Default: /metrics or the preset's.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^/[A-Za-z0-9._~/-]*$')`,message="must be a path that begins with /, without a query: /metrics"
	Path string `json:"path,omitempty"`
	// http or https. Default: http.
	// +optional
	// +kubebuilder:validation:Enum=http;https
	Scheme string `json:"scheme,omitempty"`
	// The time between two readings of a page, from 1s to 5m. Default: 15s.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) >= duration('1s') && duration(self) <= duration('5m')",message="must be from 1s to 5m"
	Every Duration `json:"every,omitempty"`
	// The histogram of response times, without _bucket: http_request_duration_seconds.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.endsWith('_bucket')",message="must be the histogram's name, without _bucket"
	Latency MetricName `json:"latency,omitempty"`
	// What that histogram counts in, Seconds or Milliseconds. Default: Seconds.
	// +optional
	// +kubebuilder:validation:Enum=Seconds;Milliseconds
	Unit string `json:"unit,omitempty"`
	// The counter of requests. Default: the histogram's count.
	// +optional
	Requests MetricName `json:"requests,omitempty"`
	// The gauge of requests that are being served.
	// +optional
	InFlight MetricName `json:"inFlight,omitempty"`
	// The label of the counter of requests with HTTP's status code, by which is known which of them
	// failed: code, status. By default that is not known, unless the preset knows it.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-zA-Z_][a-zA-Z0-9_]*$')`,message="must be the name of a label: letters, digits and _, not a digit first"
	StatusLabel string `json:"statusLabel,omitempty"`
}

// MetricName is the name of a metric of Prometheus.
//
// +kubebuilder:validation:MaxLength=256
// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-zA-Z_:][a-zA-Z0-9_:]*$')`,message="must be the name of a metric: letters, digits, _ and :, not a digit first"
type MetricName string

// OpenCost says where OpenCost shows what nodes cost.
type OpenCost struct {
	// Its address: http://opencost.opencost:9003, whose host must be listed as that of a
	// prometheus. By default the same series are read from Prometheus.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^https?://[A-Za-z0-9.:_\[\]-]+(/[A-Za-z0-9._~/-]*)?$')`,message="must be http:// or https:// with a host, and a path if there is one, without user or query: http://prometheus.monitoring:9090"
	URL string `json:"url,omitempty"`
}

// Registration says where a service registry says how many instances it sends requests to: a query,
// or the registry's address.
//
// +kubebuilder:validation:XValidation:rule="has(self.query) != has(self.url)",messageExpression="'must have a query or a url, was ' + (has(self.query) ? 'both' : 'neither')"
// +kubebuilder:validation:XValidation:rule="!has(self.perVersion) || has(self.query)",fieldPath=".perVersion",messageExpression="'must be omitted without query, of whose answer it is a label, was ' + self.perVersion"
// +kubebuilder:validation:XValidation:rule="has(self.url) || !has(self.secretName) && !has(self.headers)",message="must have a url for secretName and headers, which are for it alone"
type Registration struct {
	// A query that returns their number; with perVersion, one for each version.
	// +optional
	Query Query `json:"query,omitempty"`
	// The label that holds a version, such as version, where there is a number for each. By default
	// there is one for all.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-zA-Z_][a-zA-Z0-9_]*$')`,message="must be the name of a label: letters, digits and _, not a digit first"
	PerVersion string `json:"perVersion,omitempty"`
	// An address that answers in JSON: {"count": 3}, {"instances": [{"name": "a", "version":
	// "1.4"}]}, or as Consul (/v1/health/service/NAME) and Eureka (/eureka/apps/NAME) do. Its host
	// must be listed as that of a prometheus.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^https?://[A-Za-z0-9.:_\[\]-]+(/[A-Za-z0-9._~%/-]*)?([?][A-Za-z0-9._~%=&+/-]*)?$')`,message="must be http:// or https:// with a host, and a path and a query if there are any, without user: http://consul:8500/v1/health/service/shop"
	URL string `json:"url,omitempty"`
	// A secret in the same namespace with what the registry wants to see: token, or username and
	// password, and ca.crt, tls.crt and tls.key.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')`,message="must be the name of a secret: lower-case letters, digits, - and ., each part beginning and ending with a letter or digit"
	SecretName string `json:"secretName,omitempty"`
	// Headers that are sent with every request: {X-Consul-Namespace: shop}. The configuration must
	// list their names beside the host. Credentials belong into the secret.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(h, h.matches('^[0-9A-Za-z_-]+$') && h.lowerAscii() != 'authorization')",messageExpression="'must have names of headers as keys, and credentials in the secret, was ' + self.filter(h, !h.matches('^[0-9A-Za-z_-]+$') || h.lowerAscii() == 'authorization')[0]"
	Headers map[string]HeaderValue `json:"headers,omitempty"`
}
