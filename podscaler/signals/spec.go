package signals

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

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

// faults collects what is wrong with a configuration: all of it, not the first.
type faults []error

// unless records that the value of key breaks the rule, unless it keeps it.
func (f *faults) unless(kept bool, key, rule string, value any) {
	if !kept {
		*f = append(*f, fmt.Errorf("%s: %s, was %v", key, rule, value))
	}
}

func (f *faults) add(key string, err error) {
	if err != nil {
		*f = append(*f, fmt.Errorf("%s: %w", key, err))
	}
}

var (
	labelForm  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	metricForm = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	nameForm   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	headerForm = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
)

// Validate returns every fault of the spec, each with its key, the rule and the value, or nil.
func (s *Spec) Validate() error {
	var f faults
	p, known := presets[s.preset()]
	f.unless(known, "signals.preset", "must be "+either(slices.Sorted(maps.Keys(presets))), strconv.Quote(string(s.Preset)))
	f.unless(slices.Contains([]Histograms{"", Classic, Native}, s.Histograms), "signals.histograms", "must be Classic or Native", strconv.Quote(string(s.Histograms)))
	if known {
		s.validatePreset(&f, p)
	}
	if s.Prometheus != nil {
		s.Prometheus.validate(&f, "signals.prometheus.")
	}
	for _, q := range s.Queries.named() {
		f.add("signals.queries."+q.name, checkQuery(q.text))
	}
	s.validateMetrics(&f)
	if s.Scrape != nil {
		s.Scrape.validate(&f, s.preset(), p)
		f.unless(s.Histograms != Native, "signals.histograms", "must be Classic with signals.scrape: a page of text has no other", s.Histograms)
	}
	if s.OpenCost != nil && s.OpenCost.URL != "" {
		validateURL(&f, "signals.openCost.url", s.OpenCost.URL)
	}
	if s.Registration != nil {
		s.Registration.validate(&f)
	}
	return errors.Join(f...)
}

func (s *Spec) preset() Preset {
	if s.Preset == "" {
		return None
	}
	return s.Preset
}

// validatePreset looks at the keys whose sense depends on the preset.
func (s *Spec) validatePreset(f *faults, p *preset) {
	name := s.preset()
	if !p.byService {
		f.unless(s.Service == "", "signals.service", fmt.Sprintf("must be empty with preset %s, which does not look at it", name), strconv.Quote(s.Service))
	}
	f.unless(!strings.ContainsRune(s.Service, utf8.RuneError), "signals.service", "must have no U+FFFD in it, which Prometheus reads as a fault", strconv.Quote(s.Service))
	f.unless(name != Envoy || s.Service != "" || s.Scrape != nil, "signals.service", "must name the Envoy cluster (envoy_cluster_name), which no rule derives from a workload's name", `""`)
	f.unless(name != None || len(s.Match) == 0 || s.Scrape != nil, "signals.match", "must be empty without a preset, whose series it narrows", s.Match)
	f.unless(name != None || s.Histograms == "", "signals.histograms", "must be empty without a preset, whose histogram it describes", s.Histograms)
	for _, label := range slices.Sorted(maps.Keys(s.Match)) {
		f.unless(labelForm.MatchString(label), "signals.match", "must have names of labels as keys", strconv.Quote(label))
	}
}

// Validate returns every fault of a Prometheus that does not belong to a workload, or nil.
func (p *Prometheus) Validate() error {
	var f faults
	p.validate(&f, "")
	return errors.Join(f...)
}

// validate adds the faults, with the key that they are under.
func (p *Prometheus) validate(f *faults, under string) {
	validateURL(f, under+"url", p.URL)
	validateAccess(f, under, p.SecretName, p.Headers)
}

// validateAccess looks at what a server is shown.
func validateAccess(f *faults, under, secretName string, headers map[string]string) {
	f.unless(secretName == "" || nameForm.MatchString(secretName), under+"secretName", "must be the name of a Secret", strconv.Quote(secretName))
	for _, h := range slices.Sorted(maps.Keys(headers)) {
		f.unless(headerForm.MatchString(h) && !strings.EqualFold(h, "Authorization"), under+"headers",
			"must have names of headers as keys, and credentials elsewhere", strconv.Quote(h))
		f.unless(!strings.ContainsAny(headers[h], "\r\n\x00"), under+"headers."+h, "must be one line", strconv.Quote(headers[h]))
	}
}

// validateURL wants an address that a path can be put behind.
func validateURL(f *faults, key, text string) {
	u, err := url.Parse(text)
	ok := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.RawQuery == "" && u.Fragment == "" && u.User == nil
	f.unless(ok, key, "must be a URL such as http://prometheus.monitoring:9090, without credentials, query or fragment", strconv.Quote(redact(u, text)))
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

func (s *Spec) validateMetrics(f *faults) {
	seen := map[string]bool{}
	for i, m := range s.Metrics {
		key := fmt.Sprintf("signals.metrics[%d]", i)
		f.unless(m.Name != "", key+".name", "must not be empty", `""`)
		f.unless(m.Name == "" || !seen[m.Name], key+".name", "must not be that of another metric", strconv.Quote(m.Name))
		f.unless(!slices.Contains([]string{latency, good, arrivals, inFlight, registration}, m.Name), key+".name", "must not be that of a signal, whose place it would take", strconv.Quote(m.Name))
		seen[m.Name] = true
		f.unless(m.Query != "", key+".query", "must not be empty", `""`)
		f.add(key+".query", checkQuery(m.Query))
		f.unless(m.PerPod == "" || labelForm.MatchString(m.PerPod), key+".perPod", "must be the name of the label that holds a pod's name", strconv.Quote(m.PerPod))
	}
}

// The bounds of the time between two readings of a page: more often is a load on the pods, less
// often fills no window.
const (
	minEvery = time.Second
	maxEvery = 5 * time.Minute
)

func (s *Scrape) validate(f *faults, name Preset, p *preset) {
	known := scrapeDefaults{}
	if p != nil {
		known = p.scrape
		f.unless(name == None || p.scrapable, "signals.preset", "must be None, Istio, Linkerd, Envoy or OTel with signals.scrape: the pods of others know nothing of it", name)
	}
	f.unless(s.Port >= 1 && s.Port <= 65535 || s.Port == 0 && known.port != 0, "signals.scrape.port", "must be between 1 and 65535", s.Port)
	f.unless(s.Path == "" || strings.HasPrefix(s.Path, "/") && validPath(s.Path), "signals.scrape.path", "must begin with / and be a path", strconv.Quote(s.Path))
	f.unless(slices.Contains([]string{"", "http", "https"}, s.Scheme), "signals.scrape.scheme", "must be http or https", strconv.Quote(s.Scheme))
	every := time.Duration(s.Every)
	f.unless(every == 0 || minEvery <= every && every <= maxEvery, "signals.scrape.every", "must be between 1s and 5m", s.Every)
	f.unless(slices.Contains([]Unit{"", Seconds, Milliseconds}, s.Unit), "signals.scrape.unit", "must be Seconds or Milliseconds", strconv.Quote(string(s.Unit)))
	f.unless(s.Unit == "" || s.Latency != "", "signals.scrape.unit", "must be empty without signals.scrape.latency, whose unit it is", s.Unit)
	for _, m := range []struct{ key, name string }{{"latency", s.Latency}, {"requests", s.Requests}, {"inFlight", s.InFlight}} {
		f.unless(m.name == "" || metricForm.MatchString(m.name), "signals.scrape."+m.key, "must be the name of a metric", strconv.Quote(m.name))
	}
	f.unless(s.StatusLabel == "" || labelForm.MatchString(s.StatusLabel), "signals.scrape.statusLabel", "must be the name of a label", strconv.Quote(s.StatusLabel))
	f.unless(s.StatusLabel == "" || s.Latency != "" || s.Requests != "", "signals.scrape.statusLabel", "must be empty without signals.scrape.latency or requests, whose label it is", strconv.Quote(s.StatusLabel))
	f.unless(!strings.HasSuffix(s.Latency, "_bucket"), "signals.scrape.latency", "must be the histogram's name, without _bucket", strconv.Quote(s.Latency))
	named := s.Latency != "" || s.Requests != "" || s.InFlight != ""
	f.unless(named || name != None, "signals.scrape", "must name latency, requests or inFlight without a preset that knows them", "none")
}

func validPath(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host == "" && u.RawQuery == "" && u.Fragment == ""
}

// either prints a, b or c.
func either[S ~string](names []S) string {
	texts := make([]string, len(names))
	for i, n := range names {
		texts[i] = string(n)
	}
	last := len(texts) - 1
	return strings.Join(texts[:last], ", ") + " or " + texts[last]
}

// Validate returns every fault of the source, those of its spec among them, or nil.
func (s *Source) Validate() error {
	var f faults
	f.unless(nameForm.MatchString(s.Target.Namespace), "namespace", "must be the name of a namespace", strconv.Quote(s.Target.Namespace))
	f.unless(nameForm.MatchString(s.Target.Name), "scaleTargetRef.name", "must be the name of an object", strconv.Quote(s.Target.Name))
	f.unless(s.Spec.preset() != Linkerd || s.Spec.Scrape != nil || linkerdKind(s.Target.Kind) != "", "scaleTargetRef.kind",
		"must be "+either(linkerdKinds)+" with preset Linkerd, which labels no other", strconv.Quote(s.Target.Kind))
	if err := s.Spec.Validate(); err != nil {
		f = append(f, err)
	}
	for _, q := range s.Spec.Queries.named() {
		s.needsObjective(&f, "signals.queries."+q.name, q.text)
	}
	for i, m := range s.Spec.Metrics {
		s.needsObjective(&f, fmt.Sprintf("signals.metrics[%d].query", i), m.Query)
	}
	if g := s.Spec.Registration; g != nil {
		s.needsObjective(&f, "signals.registration.query", g.Query)
	}
	return errors.Join(f...)
}

// needsObjective wants an objective for a query that speaks of one.
func (s *Source) needsObjective(f *faults, key, text string) {
	_, met, _ := expand(text, nil)
	for _, v := range []string{"quantile", "target", "targetMs"} {
		f.unless(s.SLO.Target > 0 || !slices.Contains(met, v), "slo.target", fmt.Sprintf("must be above 0 for %s, which speaks of $%s", key, v), s.SLO.Target)
	}
}

type namedQuery struct{ name, text string }

// named returns the queries that are given, by the name of what they measure.
func (q Queries) named() []namedQuery {
	all := []namedQuery{{"latency", q.Latency}, {"good", q.Good}, {"arrivals", q.Arrivals}, {"inFlight", q.InFlight}, {"errors", q.Errors}}
	return slices.DeleteFunc(all, func(n namedQuery) bool { return n.text == "" })
}
