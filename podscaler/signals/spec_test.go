package signals

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestEveryFaultOfASpecIsNamedWithItsKeyRuleAndValue(t *testing.T) {
	for _, c := range []struct {
		name, spec string
		want       []string
	}{
		{"nothing is measured where nothing is asked for", `{}`, nil},
		{"a preset alone", `{"preset":"Istio"}`, nil},
		{"everything", `{"preset":"Traefik","service":"web","match":{"cluster":"a"},"prometheus":{"url":"https://mimir/prometheus","secretName":"mimir","headers":{"X-Scope-OrgID":"shop"}},
			"queries":{"latency":"max(x{ns=\"$namespace\"})"},"metrics":[{"name":"queue","query":"sum(depth)"}],"openCost":{"url":"http://opencost.opencost:9003"},"registration":{"query":"count by (version) (up{job=\"$workload\"})","perVersion":"version"}}`, nil},
		{"a registry", `{"registration":{"url":"https://consul:8501/v1/health/service/web?ns=shop","secretName":"consul","headers":{"X-Consul-Token":"x"}}}`, nil},
		{"a registry that is nowhere", `{"registration":{}}`, []string{
			`signals.registration: must have a query or a url, was neither`,
		}},
		{"a registry that is in two places", `{"registration":{"query":"x","url":"consul"}}`, []string{
			`signals.registration: must have a query or a url, was both`,
			`signals.registration.url: must be a URL such as http://consul:8500/v1/health/service/web, without credentials or fragment, was "consul"`,
		}},
		{"a registry's keys where they have no sense", `{"registration":{"query":"x{a=$workload}","perVersion":"a-b","secretName":"No!","headers":{"a b":"c"}}}`, []string{
			`signals.registration.query: must have $workload within quotes, as in label="$workload", was without`,
			`signals.registration.perVersion: must be the name of the label that holds a version, was "a-b"`,
			`signals.registration.url: must be set for secretName and headers, which are for it alone, was ""`,
			`signals.registration.secretName: must be the name of a Secret, was "No!"`,
			`signals.registration.headers: must have names of headers as keys, and credentials elsewhere, was "a b"`,
		}},
		{"a registry with a label and no query", `{"registration":{"url":"http://me:secret@host/x","perVersion":"version"}}`, []string{
			`signals.registration.perVersion: must be empty without a query, of whose answer it is a label, was "version"`,
			`signals.registration.url: must be a URL such as http://consul:8500/v1/health/service/web, without credentials or fragment, was "http://me:xxxxx@host/x"`,
		}},
		{"a metric in the place of a signal", `{"metrics":[{"name":"latency","query":"b"}]}`, []string{
			`signals.metrics[0].name: must not be that of a signal, whose place it would take, was "latency"`,
		}},
		{"a metric in the place of failures", `{"metrics":[{"name":"errors","query":"b"}]}`, []string{
			`signals.metrics[0].name: must not be that of a signal, whose place it would take, was "errors"`,
		}},
		{"scraping a page of one's own", `{"scrape":{"port":8080,"latency":"http_seconds"}}`, nil},
		{"scraping a sidecar", `{"preset":"Istio","scrape":{}}`, nil},
		{"an unknown preset", `{"preset":"Kong"}`, []string{
			`signals.preset: must be Envoy, IngressNginx, Istio, Linkerd, None, OTel or Traefik, was "Kong"`,
		}},
		{"what the preset does not look at", `{"preset":"Istio","service":"web","histograms":"Sparse"}`, []string{
			`signals.histograms: must be Classic or Native, was "Sparse"`,
			`signals.service: must be empty with preset Istio, which does not look at it, was "web"`,
		}},
		{"what needs a preset", `{"match":{"a":"b"},"histograms":"Native"}`, []string{
			`signals.match: must be empty without a preset, whose series it narrows, was map[a:b]`,
			`signals.histograms: must be empty without a preset, whose histogram it describes, was Native`,
		}},
		{"a service that no query can name", `{"preset":"OTel","service":"shop/c\ufffdrt"}`, []string{
			"signals.service: must have no U+FFFD in it, which Prometheus reads as a fault, was \"shop/c\uFFFDrt\"",
		}},
		{"an Envoy cluster that nobody can guess", `{"preset":"Envoy"}`, []string{
			`signals.service: must name the Envoy cluster (envoy_cluster_name), which no rule derives from a workload's name, was ""`,
		}},
		{"labels that are none", `{"preset":"Istio","match":{"a-b":"c"}}`, []string{
			`signals.match: must have names of labels as keys, was "a-b"`,
		}},
		{"a server that cannot be reached so", `{"preset":"Istio","prometheus":{"url":"prometheus:9090","secretName":"No!","headers":{"authorization":"x","X":"a\nb"}}}`, []string{
			`signals.prometheus.url: must be a URL such as http://prometheus.monitoring:9090, without credentials, query or fragment, was "prometheus:9090"`,
			`signals.prometheus.secretName: must be the name of a Secret, was "No!"`,
			`signals.prometheus.headers.X: must be one line, was "a\nb"`,
			`signals.prometheus.headers: must have names of headers as keys, and credentials elsewhere, was "authorization"`,
		}},
		{"a password in a URL is not printed", `{"openCost":{"url":"http://me:secret@host"}}`, []string{
			`signals.openCost.url: must be a URL such as http://prometheus.monitoring:9090, without credentials, query or fragment, was "http://me:xxxxx@host"`,
		}},
		{"queries that cannot be meant", `{"queries":{"latency":"x{a=$workload}","good":"y{a=\"$wokload\"}","arrivals":"z{a=\"b}"}}`, []string{
			`signals.queries.latency: must have $workload within quotes, as in label="$workload", was without`,
			`signals.queries.good: must speak of $namespace, $quantile, $target, $targetMs, $window, $workload only, was $wokload`,
			`signals.queries.arrivals: must close every quote, was "z{a=\"b}"`,
		}},
		{"metrics that cannot be distinguished", `{"metrics":[{"name":"a","query":"b"},{"name":"a","query":""},{"name":"","query":"c","perPod":"1"}]}`, []string{
			`signals.metrics[1].name: must not be that of another metric, was "a"`,
			`signals.metrics[1].query: must not be empty, was ""`,
			`signals.metrics[2].name: must not be empty, was ""`,
			`signals.metrics[2].perPod: must be the name of the label that holds a pod's name, was "1"`,
		}},
		{"a page that is nowhere", `{"preset":"Traefik","histograms":"Native","scrape":{"port":70000,"path":"metrics","scheme":"ftp","every":"1ms","unit":"Minutes","latency":"a_bucket","requests":"a-b"}}`, []string{
			`signals.preset: must be None, Istio, Linkerd, Envoy or OTel with signals.scrape: the pods of others know nothing of it, was Traefik`,
			`signals.scrape.port: must be between 1 and 65535, was 70000`,
			`signals.scrape.path: must begin with / and be a path, was "metrics"`,
			`signals.scrape.scheme: must be http or https, was "ftp"`,
			`signals.scrape.every: must be between 1s and 5m, was 1ms`,
			`signals.scrape.unit: must be Seconds or Milliseconds, was "Minutes"`,
			`signals.scrape.requests: must be the name of a metric, was "a-b"`,
			`signals.scrape.latency: must be the histogram's name, without _bucket, was "a_bucket"`,
			`signals.histograms: must be Classic with signals.scrape: a page of text has no other, was Native`,
		}},
		{"a page that tells of failures", `{"scrape":{"port":80,"requests":"http_requests_total","statusLabel":"code"},"queries":{"errors":"sum(a{n=\"$namespace\"})"}}`, nil},
		{"a label of nothing", `{"preset":"OTel","scrape":{"statusLabel":"a-b"}}`, []string{
			`signals.scrape.statusLabel: must be the name of a label, was "a-b"`,
			`signals.scrape.statusLabel: must be empty without signals.scrape.latency or requests, whose label it is, was "a-b"`,
		}},
		{"a page of which nothing is wanted", `{"scrape":{"port":80,"unit":"Seconds"}}`, []string{
			`signals.scrape.unit: must be empty without signals.scrape.latency, whose unit it is, was Seconds`,
			`signals.scrape: must name latency, requests or inFlight without a preset that knows them, was none`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := json.NewDecoder(strings.NewReader(c.spec))
			d.DisallowUnknownFields()
			var s Spec
			must.Do(t, d.Decode(&s))
			expectFaults(t, s.Validate(), c.want)
		})
	}
}

func expectFaults(t *testing.T, err error, want []string) {
	t.Helper()
	var got []string
	if err != nil {
		got = strings.Split(err.Error(), "\n")
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("faults (-want +got):\n%s", d)
	}
}

func TestASourceFitsItsTarget(t *testing.T) {
	slo := podscaler.SLO{Quantile: 0.9, Target: time.Second, Window: time.Minute}
	for _, c := range []struct {
		name   string
		source Source
		want   []string
	}{
		{"a deployment", Source{Target{"shop", "Deployment", "cart"}, slo, Spec{Preset: Linkerd}}, nil},
		{"a kind that Linkerd has no label for", Source{Target{"shop", "Rollout", "cart"}, slo, Spec{Preset: Linkerd}}, []string{
			`scaleTargetRef.kind: must be Deployment, StatefulSet, DaemonSet, ReplicaSet or ReplicationController with preset Linkerd, which labels no other, was "Rollout"`,
		}},
		{"whose pods are read, Linkerd labels or not", Source{Target{"shop", "Rollout", "cart"}, slo, Spec{Preset: Linkerd, Scrape: &Scrape{}}}, nil},
		{"names that could break out of a query", Source{Target{`a"b`, "Deployment", "c\nd"}, slo, Spec{}}, []string{
			`namespace: must be the name of a namespace, was "a\"b"`,
			`scaleTargetRef.name: must be the name of an object, was "c\nd"`,
		}},
		{"a query that speaks of an objective there is none of", Source{Target{"shop", "Deployment", "cart"}, podscaler.SLO{}, Spec{Queries: Queries{Good: "a{le=\"$target\"}[$window]"}}}, []string{
			`slo.target: must be above 0 for signals.queries.good, which speaks of $target, was 0s`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) { expectFaults(t, c.source.Validate(), c.want) })
	}
}
