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

// add records what is wrong with the value of key.
func add(f *podscaler.Faults, key string, err error) {
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
	var f podscaler.Faults
	p, known := presets[s.preset()]
	f.Unless(known, "signals.preset", "must be "+either(slices.Sorted(maps.Keys(presets))), strconv.Quote(string(s.Preset)))
	f.Unless(slices.Contains([]Histograms{"", Classic, Native}, s.Histograms), "signals.histograms", "must be Classic or Native", strconv.Quote(string(s.Histograms)))
	if known {
		s.validatePreset(&f, p)
	}
	if s.Prometheus != nil {
		s.Prometheus.validate(&f, "signals.prometheus.")
	}
	for _, q := range s.Queries.named() {
		add(&f, "signals.queries."+q.name, checkQuery(q.text))
	}
	s.validateMetrics(&f)
	if s.Scrape != nil {
		s.Scrape.validate(&f, s.preset(), p)
		f.Unless(s.Histograms != Native, "signals.histograms", "must be Classic with signals.scrape: a page of text has no other", s.Histograms)
	}
	if s.OpenCost != nil && s.OpenCost.URL != "" {
		validateURL(&f, "signals.openCost.url", s.OpenCost.URL)
	}
	if s.Registration != nil {
		s.Registration.validate(&f)
	}
	return errors.Join(f...)
}

// validatePreset looks at the keys whose sense depends on the preset.
func (s *Spec) validatePreset(f *podscaler.Faults, p *preset) {
	name := s.preset()
	if !p.byService {
		f.Unless(s.Service == "", "signals.service", fmt.Sprintf("must be empty with preset %s, which does not look at it", name), strconv.Quote(s.Service))
	}
	f.Unless(!strings.ContainsRune(s.Service, utf8.RuneError), "signals.service", "must have no U+FFFD in it, which Prometheus reads as a fault", strconv.Quote(s.Service))
	f.Unless(name != Envoy || s.Service != "" || s.Scrape != nil, "signals.service", "must name the Envoy cluster (envoy_cluster_name), which no rule derives from a workload's name", `""`)
	f.Unless(name != None || len(s.Match) == 0 || s.Scrape != nil, "signals.match", "must be empty without a preset, whose series it narrows", s.Match)
	f.Unless(name != None || s.Histograms == "", "signals.histograms", "must be empty without a preset, whose histogram it describes", s.Histograms)
	for _, label := range slices.Sorted(maps.Keys(s.Match)) {
		f.Unless(labelForm.MatchString(label), "signals.match", "must have names of labels as keys", strconv.Quote(label))
	}
}

// Validate returns every fault of a Prometheus that does not belong to a workload, or nil.
func (p *Prometheus) Validate() error {
	var f podscaler.Faults
	p.validate(&f, "")
	return errors.Join(f...)
}

// validate adds the faults, with the key that they are under.
func (p *Prometheus) validate(f *podscaler.Faults, under string) {
	validateURL(f, under+"url", p.URL)
	validateAccess(f, under, p.SecretName, p.Headers)
}

// validateAccess looks at what a server is shown.
func validateAccess(f *podscaler.Faults, under, secretName string, headers map[string]string) {
	f.Unless(secretName == "" || nameForm.MatchString(secretName), under+"secretName", "must be the name of a Secret", strconv.Quote(secretName))
	for _, h := range slices.Sorted(maps.Keys(headers)) {
		f.Unless(headerForm.MatchString(h) && !strings.EqualFold(h, "Authorization"), under+"headers",
			"must have names of headers as keys, and credentials elsewhere", strconv.Quote(h))
		f.Unless(!strings.ContainsAny(headers[h], "\r\n\x00"), under+"headers."+h, "must be one line", strconv.Quote(headers[h]))
	}
}

// validateURL wants an address that a path can be put behind.
func validateURL(f *podscaler.Faults, key, text string) {
	u, err := url.Parse(text)
	ok := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.RawQuery == "" && u.Fragment == "" && u.User == nil
	f.Unless(ok, key, "must be a URL such as http://prometheus.monitoring:9090, without credentials, query or fragment", strconv.Quote(redact(u, text)))
}

// Reserved reports whether a name is that of a signal, which no metric may have.
func Reserved(name string) bool {
	return slices.Contains([]string{latency, good, arrivals, inFlight, errorRate, registration}, name)
}

func (s *Spec) validateMetrics(f *podscaler.Faults) {
	seen := map[string]bool{}
	for i, m := range s.Metrics {
		key := fmt.Sprintf("signals.metrics[%d]", i)
		f.Unless(m.Name != "", key+".name", "must not be empty", `""`)
		f.Unless(m.Name == "" || !seen[m.Name], key+".name", "must not be that of another metric", strconv.Quote(m.Name))
		f.Unless(!Reserved(m.Name), key+".name", "must not be that of a signal, whose place it would take", strconv.Quote(m.Name))
		seen[m.Name] = true
		f.Unless(m.Query != "", key+".query", "must not be empty", `""`)
		add(f, key+".query", checkQuery(m.Query))
		f.Unless(m.PerPod == "" || labelForm.MatchString(m.PerPod), key+".perPod", "must be the name of the label that holds a pod's name", strconv.Quote(m.PerPod))
	}
}

// The bounds of the time between two readings of a page: more often is a load on the pods, less
// often fills no window.
const (
	minEvery = time.Second
	maxEvery = 5 * time.Minute
)

func (s *Scrape) validate(f *podscaler.Faults, name Preset, p *preset) {
	known := scrapeDefaults{}
	if p != nil {
		known = p.scrape
		f.Unless(name == None || p.scrapable, "signals.preset", "must be None, Istio, Linkerd, Envoy or OTel with signals.scrape: the pods of others know nothing of it", name)
	}
	f.Unless(s.Port >= 1 && s.Port <= 65535 || s.Port == 0 && known.port != 0, "signals.scrape.port", "must be between 1 and 65535", s.Port)
	f.Unless(s.Path == "" || strings.HasPrefix(s.Path, "/") && validPath(s.Path), "signals.scrape.path", "must begin with / and be a path", strconv.Quote(s.Path))
	f.Unless(slices.Contains([]string{"", "http", "https"}, s.Scheme), "signals.scrape.scheme", "must be http or https", strconv.Quote(s.Scheme))
	every := time.Duration(s.Every)
	f.Unless(every == 0 || minEvery <= every && every <= maxEvery, "signals.scrape.every", "must be between 1s and 5m", s.Every)
	f.Unless(slices.Contains([]Unit{"", Seconds, Milliseconds}, s.Unit), "signals.scrape.unit", "must be Seconds or Milliseconds", strconv.Quote(string(s.Unit)))
	f.Unless(s.Unit == "" || s.Latency != "", "signals.scrape.unit", "must be empty without signals.scrape.latency, whose unit it is", s.Unit)
	for _, m := range []struct{ key, name string }{{"latency", s.Latency}, {"requests", s.Requests}, {"inFlight", s.InFlight}} {
		f.Unless(m.name == "" || metricForm.MatchString(m.name), "signals.scrape."+m.key, "must be the name of a metric", strconv.Quote(m.name))
	}
	f.Unless(s.StatusLabel == "" || labelForm.MatchString(s.StatusLabel), "signals.scrape.statusLabel", "must be the name of a label", strconv.Quote(s.StatusLabel))
	f.Unless(s.StatusLabel == "" || s.Latency != "" || s.Requests != "", "signals.scrape.statusLabel", "must be empty without signals.scrape.latency or requests, whose label it is", strconv.Quote(s.StatusLabel))
	f.Unless(!strings.HasSuffix(s.Latency, "_bucket"), "signals.scrape.latency", "must be the histogram's name, without _bucket", strconv.Quote(s.Latency))
	named := s.Latency != "" || s.Requests != "" || s.InFlight != ""
	f.Unless(named || name != None, "signals.scrape", "must name latency, requests or inFlight without a preset that knows them", "none")
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
	var f podscaler.Faults
	f.Unless(nameForm.MatchString(s.Target.Namespace), "namespace", "must be the name of a namespace", strconv.Quote(s.Target.Namespace))
	f.Unless(nameForm.MatchString(s.Target.Name), "scaleTargetRef.name", "must be the name of an object", strconv.Quote(s.Target.Name))
	f.Unless(s.Spec.preset() != Linkerd || s.Spec.Scrape != nil || linkerdKind(s.Target.Kind) != "", "scaleTargetRef.kind",
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
func (s *Source) needsObjective(f *podscaler.Faults, key, text string) {
	_, met, _ := expand(text, nil)
	for _, v := range []string{"quantile", "target", "targetMs"} {
		f.Unless(s.SLO.Target > 0 || !slices.Contains(met, v), "slo.target", fmt.Sprintf("must be above 0 for %s, which speaks of $%s", key, v), s.SLO.Target)
	}
}

func (r *Registration) validate(f *podscaler.Faults) {
	const key = "signals.registration"
	f.Unless(r.Query != "" || r.URL != "", key, "must have a query or a url", "neither")
	f.Unless(r.Query == "" || r.URL == "", key, "must have a query or a url", "both")
	add(f, key+".query", checkQuery(r.Query))
	f.Unless(r.PerVersion == "" || labelForm.MatchString(r.PerVersion), key+".perVersion", "must be the name of the label that holds a version", strconv.Quote(r.PerVersion))
	f.Unless(r.PerVersion == "" || r.Query != "", key+".perVersion", "must be empty without a query, of whose answer it is a label", strconv.Quote(r.PerVersion))
	f.Unless(r.URL != "" || r.SecretName == "" && len(r.Headers) == 0, key+".url", "must be set for secretName and headers, which are for it alone", `""`)
	if r.URL != "" {
		u, err := url.Parse(r.URL)
		ok := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.Fragment == "" && u.User == nil
		f.Unless(ok, key+".url", "must be a URL such as http://consul:8500/v1/health/service/web, without credentials or fragment", strconv.Quote(redactText(r.URL)))
	}
	validateAccess(f, key+".", r.SecretName, r.Headers)
}
