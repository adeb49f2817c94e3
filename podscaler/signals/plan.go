package signals

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prometheus/common/model"

	"github.com/plimsoll/plimsoll/podscaler"
)

// plan is what there is to ask for all workloads. It does not change: workloads that are
// configured anew get a new one.
type plan struct {
	sources   map[string]*Source
	names     []string // of the sources, sorted
	endpoints map[string]*endpoint
	groups    []*group
	own       []*ownQuery
	ownByText map[string]*ownQuery
	scrapes   map[string]*scrape
	registry  map[string]*registry
	costs     []*costSource
	nowhere   map[string]string // why a workload's Prometheus cannot be asked, by workload
}

// maxMembers bounds what one query asks for, so that one answer stays a few megabytes.
const maxMembers = 100

// newPlan keeps of the old plan what took time to come by: connections, and what was scraped.
func newPlan(sources map[string]*Source, o *Options, old *plan) *plan {
	p := &plan{
		sources: sources, names: slices.Sorted(maps.Keys(sources)),
		endpoints: map[string]*endpoint{}, ownByText: map[string]*ownQuery{},
		scrapes: map[string]*scrape{}, registry: map[string]*registry{}, nowhere: map[string]string{},
	}
	groups := map[string]*group{}
	for _, name := range p.names {
		s := sources[name]
		e, err := p.endpointOf(s, o, old)
		if err != nil {
			p.nowhere[name] = err.Error()
			p.logRefusal(name, s, o, old, err)
		}
		if s.Spec.Scrape != nil {
			p.scrapes[name] = newScrape(name, s, old.scrapes[name])
		}
		if s.Spec.Registration != nil && s.Spec.Registration.URL != "" {
			p.registry[name] = newRegistry(name, s, o, old.registry[name])
		}
		if e != nil {
			p.join(groups, e, name, s)
			p.ask(e, name, s, e.namespace != "" || o.Access.free(s.Target.Namespace))
		}
		p.compare(e, name, s, o, old)
	}
	for key, e := range old.endpoints {
		if p.endpoints[key] != e {
			e.door.close()
		}
	}
	for _, c := range old.costs {
		if c.door != nil && !slices.ContainsFunc(p.costs, func(n *costSource) bool { return n.door == c.door }) {
			c.door.close()
		}
	}
	for name, g := range old.registry {
		if p.registry[name] != g {
			g.door.close()
		}
	}
	return p
}

// logRefusal has the log say why a workload's Prometheus is not asked, unless it has said so.
func (p *plan) logRefusal(name string, s *Source, o *Options, old *plan, err error) {
	if own := s.Spec.Prometheus; own != nil && old.sources[name] != s {
		new(complaint).hear(o.Log, s.Target.Namespace, own.URL, err)
	}
}

// endpointOf is the Prometheus that a workload's queries go to, or nil if it has none to send.
func (p *plan) endpointOf(s *Source, o *Options, old *plan) (*endpoint, error) {
	if !s.asks() {
		return nil, nil
	}
	namespace, server := s.Target.Namespace, s.Spec.Prometheus
	var allowed *permit
	var err error
	if server != nil {
		allowed, err = o.Access.permit(namespace, server.URL, server.Headers)
	} else if namespace, server = "", o.Prometheus; server == nil {
		err = fmt.Errorf("no Prometheus is known to ask: set signals.prometheus.url, or prometheus.url in the configuration file for all")
	} else if !o.Access.free(s.Target.Namespace) {
		err = s.serviceInScope()
	}
	if err != nil {
		return nil, err
	}
	key := fmt.Sprintf("%q %q %q %q", namespace, server.URL, server.SecretName, server.Headers)
	if e := p.endpoints[key]; e != nil {
		return e, nil
	}
	e := old.endpoints[key]
	if e == nil {
		if e, err = newEndpoint(namespace, *server, allowed, o.MaxBytes); err != nil {
			return nil, err
		}
	}
	p.endpoints[key] = e
	return e, nil
}

// asks reports whether the source has anything to ask a Prometheus for.
func (s *Source) asks() bool {
	preset := s.Spec.preset() != None && s.Spec.Scrape == nil
	cost := s.Spec.OpenCost != nil && s.Spec.OpenCost.URL == ""
	registry := s.Spec.Registration != nil && s.Spec.Registration.Query != ""
	return preset || cost || registry || len(s.Spec.Metrics) > 0 || s.Spec.Queries != Queries{}
}

// group is workloads of a namespace that one set of queries measures: they differ in nothing but
// their names and objectives. Other namespaces' would wait for its turn, and be unknown with it.
type group struct {
	endpoint  *endpoint
	namespace string
	preset    *preset
	native    bool
	kind      string
	match     map[string]string
	window    time.Duration
	unit      string // what its answers are measured as
	members   []member
}

// member is a workload of a group, and what the series call it.
type member struct {
	workload string
	source   *Source
	names    []string // as regular expressions
}

// join puts a workload into the group whose queries it shares, a new one if that is full.
func (p *plan) join(groups map[string]*group, e *endpoint, name string, s *Source) {
	preset := presets[s.Spec.preset()]
	if preset.histogram == "" || s.Spec.Scrape != nil {
		return
	}
	g := &group{
		endpoint: e, namespace: s.Target.Namespace, preset: preset, native: s.Spec.Histograms == Native,
		match: s.Spec.Match, window: s.window(),
	}
	if preset == presets[Linkerd] {
		g.kind = s.Target.Kind
	}
	key := fmt.Sprintf("%p %s %s %t %s %q %s", e, g.namespace, s.Spec.preset(), g.native, g.kind, g.match, g.window)
	if there := groups[key]; there != nil && len(there.members) < maxMembers {
		g = there
	} else {
		groups[key], g.unit = g, name
		p.groups = append(p.groups, g)
	}
	g.members = append(g.members, member{workload: name, source: s, names: preset.names(s)})
}

// ownQuery is a query that an owner wrote, and the signals that it is for.
type ownQuery struct {
	request
	endpoint *endpoint
	uses     []use
	refused  error // why it is not sent
}

// use is one workload's signal or metric.
type use struct {
	workload, signal, perPod, perVersion string
}

// ask takes in a workload's own queries; one that several have in common is sent once. One that is
// not free must be about the workload's namespace.
func (p *plan) ask(e *endpoint, name string, s *Source, free bool) {
	values := s.values()
	add := func(text string, u use) {
		expanded, _, _ := expand(text, values) // Validate has returned its faults
		key := fmt.Sprintf("%p %s %s", e, s.Target.Namespace, expanded)
		q := p.ownByText[key]
		if q == nil {
			q = &ownQuery{endpoint: e, request: request{text: expanded, namespace: s.Target.Namespace, unit: name, owned: true}}
			if err := checkScope(expanded, s.Target.Namespace); err != nil && !free {
				q.refused = fmt.Errorf("%s: on the Prometheus that all namespaces share a query %w", refusedByPolicy, err)
			}
			p.own, p.ownByText[key] = append(p.own, q), q
		}
		q.uses = append(q.uses, u)
		for _, label := range []string{u.perPod, u.perVersion} {
			if label != "" {
				q.labels = append(q.labels, label)
			}
		}
	}
	for _, q := range s.Spec.Queries.named() {
		add(q.text, use{workload: name, signal: q.name})
	}
	for _, m := range s.Spec.Metrics {
		add(m.Query, use{workload: name, signal: m.Name, perPod: m.PerPod})
	}
	if g := s.Spec.Registration; g != nil && g.Query != "" {
		add(g.Query, use{workload: name, signal: registration, perVersion: g.PerVersion})
	}
}

// old makes an error of an answer that speaks of another time: from a cache, or because one of
// the two clocks is wrong.
func (a *answer) old(now time.Time, maxAge time.Duration) {
	for _, s := range a.vector {
		if age := now.Sub(s.Timestamp.Time()); age > maxAge {
			a.vector, a.code = nil, CodeMetricsStale
			a.err = fmt.Errorf("the answer is %s old by this clock, must be at most %s", age.Round(time.Minute), maxAge)
			return
		}
	}
}

// blank makes everything unknown that was to come from a Prometheus which cannot be asked.
func (p *plan) blank(m *measurement, s *Source, why string) {
	for _, signal := range s.wanted() {
		m.unknown(CodeMetricsUnknown, signal, why)
	}
	for _, q := range s.Spec.Metrics {
		m.unknown(CodeMetricsUnknown, q.Name, why)
	}
	if !m.window.Errors.Known && m.window.Errors.Why == "" {
		m.reading(errorRate, podscaler.Reading{Why: why})
	}
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

// measure asks the owner's query, and has the answer read for all who asked it.
func (q *ownQuery) measure(r *round) func() {
	a := &answer{code: CodeMetricsUnknown, err: q.refused}
	if q.refused == nil {
		a = r.query(q.endpoint, &q.request)
	}
	return func() {
		for _, u := range q.uses {
			u.take(r.measured[u.workload], a)
		}
	}
}

// take reads an answer as a number, or as one for each pod.
func (u use) take(m *measurement, a *answer) {
	if a.warnings != "" {
		m.miss(u.signal)
		m.note(CodeMetricsPartial, u.signal, "the answer came with a warning")
	}
	switch {
	case a.err != nil:
		m.failed(a.code, u.signal, a.err)
	case u.perPod != "":
		u.takePods(m, a)
	case len(a.vector) == 0:
		m.unknown(CodeMetricsUnknown, u.signal, "the query returned nothing")
	case u.perVersion != "":
		u.takeVersions(m, a)
	case len(a.vector) > 1:
		m.unknown(CodeManySeries, u.signal, fmt.Sprintf("the query returned %d series, must be one", len(a.vector)))
	default:
		u.takeOne(m, a)
	}
}

func (u use) takeOne(m *measurement, a *answer) {
	if a.vector[0].Histogram != nil {
		m.unknown(CodeMetricsUnknown, u.signal, "the query returned a histogram, must be a number")
		return
	}
	v := float64(a.vector[0].Value)
	switch why := nonsense(u.signal, v); {
	case why == "":
		m.reading(u.signal, podscaler.Known(v))
	case math.IsNaN(v) && (u.signal == latency || u.signal == good || u.signal == errorRate):
		m.silent = append(m.silent, finding{code: CodeMetricsUnknown, why: why, signals: []string{u.signal}})
	default:
		m.unknown(CodeMetricsUnknown, u.signal, why)
	}
}

// nonsense says why a number cannot be the signal.
func nonsense(signal string, v float64) string {
	number := decimal(v)
	switch {
	case !podscaler.Known(v).Known:
		return fmt.Sprintf("the query returned %v, which is no measurement", v)
	case (signal == good || signal == errorRate) && (v < 0 || v > 1+1e-9):
		return "the query returned " + number + ", must be a fraction between 0 and 1"
	case signal == registration && (v < 0 || v > math.MaxInt32 || v != math.Trunc(v)):
		return "the query returned " + number + ", must be a number of instances"
	case (signal == latency || signal == arrivals || signal == inFlight) && v < 0:
		return "the query returned " + number + ", must be at least 0"
	}
	return ""
}

// takePods reads one number for each pod. A pod without a number is one that was not measured.
func (u use) takePods(m *measurement, a *answer) {
	pods := map[string]float64{}
	for _, s := range a.vector {
		pod := string(s.Metric[model.LabelName(u.perPod)])
		if _, twice := pods[pod]; twice || pod == "" {
			why := fmt.Sprintf("the query returned several series for pod %s, must be one", pod)
			if pod == "" {
				why = fmt.Sprintf("the query returned a series without the label %s, which is to name its pod", u.perPod)
			}
			m.gap = true
			m.note(CodeManySeries, u.signal, why)
			m.metric(u.signal, podscaler.Metric{Why: why})
			return
		}
		if v := float64(s.Value); s.Histogram == nil && podscaler.Known(v).Known {
			pods[pod] = v
		}
	}
	if len(pods) == 0 {
		m.unknown(CodeMetricsUnknown, u.signal, "the query returned no number for any pod")
		return
	}
	m.metric(u.signal, podscaler.Metric{PerPod: pods})
}
