package signals

import (
	"fmt"
	"maps"
	"slices"
	"strings"

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

func (p *plan) measure(r *round) map[string]*measurement {
	for _, name := range p.names {
		r.measured[name] = &measurement{}
	}
	var sums []func()
	for _, g := range p.groups {
		sums = append(sums, g.measure(r))
	}
	for _, q := range p.own {
		sums = append(sums, q.measure(r))
	}
	for _, name := range p.names {
		if g := p.registry[name]; g != nil {
			sums = append(sums, g.measure(r))
		}
	}
	sums = append(sums, p.scrapeAll(r)...)
	for _, c := range p.costs {
		sums = append(sums, c.measure(r))
	}
	r.run()
	r.keep()
	for _, sum := range sums {
		sum()
	}
	for _, name := range slices.Sorted(maps.Keys(p.nowhere)) {
		p.blank(r.measured[name], p.sources[name], p.nowhere[name])
	}
	for _, name := range p.names {
		r.measured[name].settle(p.sources[name])
	}
	r.complain()
	return r.measured
}

// compare takes in a workload that speaks of an OpenCost.
func (p *plan) compare(e *endpoint, name string, s *Source, o *Options, old *plan) {
	if s.Spec.OpenCost == nil || o.NodePrices == nil {
		return
	}
	n := &costSource{endpoint: e}
	if url := s.Spec.OpenCost.URL; url != "" {
		n = &costSource{namespace: s.Target.Namespace, url: strings.TrimSuffix(url, "/") + "/metrics"}
	} else if e == nil {
		return // the workload's other findings say that there is no Prometheus
	}
	same := func(c *costSource) bool {
		return c.url == n.url && c.endpoint == n.endpoint && c.namespace == n.namespace
	}
	if i := slices.IndexFunc(p.costs, same); i >= 0 {
		p.costs[i].workloads = append(p.costs[i].workloads, name)
		return
	}
	if i := slices.IndexFunc(old.costs, same); i >= 0 {
		n.door, n.refused, n.complaint = old.costs[i].door, old.costs[i].refused, old.costs[i].complaint
	} else if n.url != "" {
		permit, err := o.Access.permit(n.namespace, n.url, nil)
		n.door, n.refused, n.complaint = &door{maxBytes: o.MaxBytes, permit: permit}, err, &complaint{}
	}
	p.costs = append(p.costs, n)
	n.workloads = append(n.workloads, name)
}

// scrapeAll reads the pages that are due and returns what makes signals of them.
func (p *plan) scrapeAll(r *round) []func() {
	if len(p.scrapes) == 0 {
		return nil
	}
	client, err := r.scraper()
	pods := map[string][]Pod{}
	if r.options.Pods != nil {
		for _, pod := range r.options.Pods() {
			pods[pod.Workload] = append(pods[pod.Workload], pod)
		}
	}
	var sums []func()
	for _, name := range p.names {
		if s := p.scrapes[name]; s != nil {
			why := err
			if !s.secured {
				why = nil // a credential that is not sent may be missing
			}
			read := s.read(r, client, why, pods[name])
			sums = append(sums, func() { s.take(r, read) })
		}
	}
	return sums
}
