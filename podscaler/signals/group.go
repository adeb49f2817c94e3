package signals

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/plimsoll/plimsoll/podscaler"
)

// leastScrapes is how many samples a window must hold for a rate over it to mean much.
const leastScrapes = 4

// answers are what came back for a group, shared out among its members.
type answers struct {
	buckets, arrivals, inFlight, errors, newest, scrapes *answer
	// Native histograms, by quantile and target.
	quantiles, goods map[float64]*answer
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

// measure sends the group's queries, and has their answers shared out among the members.
func (g *group) measure(r *round) func() {
	all := answers{quantiles: map[float64]*answer{}, goods: map[float64]*answer{}}
	ask := func(q question, of float64) *answer {
		return r.query(g.endpoint, &request{text: g.write(q, of), labels: g.labelNames(), namespace: g.namespace, unit: g.unit})
	}
	all.arrivals, all.newest, all.scrapes = ask(asksArrivals, 0), ask(asksNewest, 0), ask(asksScrapes, 0)
	all.errors = ask(asksErrors, 0)
	if g.preset.inFlight != "" {
		all.inFlight = ask(asksInFlight, 0)
	}
	for _, m := range g.members {
		slo := m.source.SLO
		switch {
		case slo.Target <= 0:
		case !g.native && all.buckets == nil:
			all.buckets = ask(asksBuckets, 0)
		case g.native:
			if all.quantiles[slo.Quantile] == nil {
				all.quantiles[slo.Quantile] = ask(asksQuantile, slo.Quantile)
			}
			if target := g.inUnits(slo.Target); all.goods[target] == nil {
				all.goods[target] = ask(asksGood, target)
			}
		}
	}
	return func() { g.share(r, &all) }
}

// labelNames are those by which an answer's series are shared out and read.
func (g *group) labelNames() []string {
	all := append([]string{"le"}, g.preset.outcome.labels...)
	for _, at := range g.preset.places(g.kind) {
		all = append(all, at.labels...)
	}
	return all
}

// inUnits is a time in what the preset's edges count in.
func (g *group) inUnits(d time.Duration) float64 { return float64(d) / float64(g.preset.unit) }

// share reads each member's series out of the answers.
func (g *group) share(r *round, all *answers) {
	split := map[*answer]map[string][]*model.Sample{}
	take := func(i int, a *answer) portion {
		if m := r.measured[g.members[i].workload]; errors.Is(a.err, errPutOff) {
			m.putOff = true
		}
		if a.err == nil && split[a] == nil {
			split[a] = g.split(a)
		}
		return portion{answer: a, series: split[a][g.members[i].key(g.preset)]}
	}
	for i, m := range g.members {
		out := &sheet{group: g, member: m, m: r.measured[m.workload], round: r}
		out.freshness(take(i, all.newest), take(i, all.arrivals))
		out.arrivals(take(i, all.arrivals))
		if all.inFlight != nil {
			out.inFlight(take(i, all.inFlight))
		}
		out.errors(take(i, all.errors))
		if slo := m.source.SLO; slo.Target > 0 && g.native {
			out.native(latency, take(i, all.quantiles[slo.Quantile]))
			out.native(good, take(i, all.goods[g.inUnits(slo.Target)]))
		} else if slo.Target > 0 {
			out.classic(take(i, all.buckets))
		}
		out.scrapes(take(i, all.scrapes))
	}
}

// key is what a member's series are found by in a split answer.
func (m member) key(p *preset) string {
	if p.fold != nil {
		if s := m.source; strings.Contains(s.Spec.Service, "@") {
			return s.Spec.Service
		}
		return m.source.Target.Namespace + "-" + m.source.service()
	}
	plain := make([]string, len(m.names))
	for i, n := range m.names {
		plain[i] = strings.ReplaceAll(n, `\`, "")
	}
	return strings.Join(plain, "\x00")
}

// split sorts an answer's series by the workloads that they speak of. A name that a preset folds
// is found by what it is folded to and by itself.
func (g *group) split(a *answer) map[string][]*model.Sample {
	by := map[string][]*model.Sample{}
	for _, s := range a.vector {
		for _, at := range g.preset.places(g.kind) {
			values := make([]string, len(at.labels))
			for i, label := range at.labels {
				values[i] = string(s.Metric[model.LabelName(label)])
			}
			if slices.Contains(values, "") {
				continue
			}
			key := strings.Join(values, "\x00")
			by[key] = append(by[key], s)
			if g.preset.fold != nil {
				folded := g.preset.fold(values)
				by[folded] = append(by[folded], s)
			}
			break
		}
	}
	return by
}

// portion is one member's part of an answer.
type portion struct {
	*answer
	series []*model.Sample
}

// sum adds up the numbers of a portion: a workload may be known by several services' names.
func (p portion) sum() float64 {
	total := 0.0
	for _, s := range p.series {
		total += float64(s.Value)
	}
	return total
}

func (p portion) most() float64 {
	most := math.Inf(-1)
	for _, s := range p.series {
		most = max(most, float64(s.Value))
	}
	return most
}

// sheet is where one member's measurement is written.
type sheet struct {
	group  *group
	member member
	m      *measurement
	round  *round
	stale  string // why nothing that is measured counts
}

func (s *sheet) skip(signal string) bool { return s.member.source.has(signal) }

// failed notes what is wrong with an answer as such, and reports whether there is nothing in it.
func (s *sheet) failed(signal string, p portion, metric string) bool {
	if p.warnings != "" {
		s.m.miss(signal)
		s.m.note(CodeMetricsPartial, signal, "the answer came with a warning")
	}
	code, why := s.unfit(p, metric)
	if why != "" {
		s.m.unknown(code, signal, why)
	}
	return why != ""
}

// unfit says why there is nothing in an answer, or nothing.
func (s *sheet) unfit(p portion, metric string) (code, why string) {
	switch {
	case s.stale != "":
		return CodeMetricsStale, s.stale
	case p.err != nil:
		return p.code, p.err.Error()
	case len(p.series) == 0:
		return CodeMetricsUnknown, fmt.Sprintf("no series of %s has two samples in the window of %s and %s", metric, s.group.window, s.wanted())
	}
	return "", ""
}

// wanted describes the labels that a member's series would have.
func (s *sheet) wanted() string {
	at := s.group.preset.places(s.group.kind)[0]
	var all []string
	for i, label := range at.labels {
		all = append(all, label+oneOf([]member{s.member}, i))
	}
	return strings.Join(all, ",")
}

// freshness finds out whether anything was sampled of late. A rate goes on being answered for a
// whole window after the last sample, and falls all the while.
func (s *sheet) freshness(newest, arrivals portion) {
	switch {
	case newest.err != nil && arrivals.err == nil:
		s.m.gap = true
		s.m.note(CodeMetricsUnknown, "the time of the newest sample", newest.err.Error())
	case newest.err != nil || len(newest.series)+len(arrivals.series) == 0:
	case len(newest.series) == 0:
		s.stale = "there is no sample in what Prometheus looks back by"
	default:
		last := time.UnixMilli(int64(1000 * newest.most()))
		if newest.series[0].Timestamp.Time().Sub(last) > s.round.options.MaxAge {
			s.stale = fmt.Sprintf("the newest sample is of %s, which is longer ago than %s", last.UTC().Format(time.TimeOnly), s.round.options.MaxAge)
		}
	}
}

func (s *sheet) arrivals(p portion) {
	if s.skip(arrivals) || s.failed(arrivals, p, s.group.preset.requests) {
		return
	}
	s.number(arrivals, p.sum())
}

// inFlight is a bonus where a preset knows of it: not everything that it knows exports it.
func (s *sheet) inFlight(p portion) {
	switch {
	case s.skip(inFlight):
	case p.err == nil && len(p.series) == 0 && s.stale == "":
		s.m.reading(inFlight, podscaler.Reading{Why: "there is no series of " + s.group.preset.inFlight})
	case !s.failed(inFlight, p, s.group.preset.inFlight):
		s.number(inFlight, p.sum())
	}
}

// errors is a bonus, too: that it is unknown is said where it is looked at, and is no finding.
func (s *sheet) errors(p portion) {
	if s.skip(errorRate) {
		return
	}
	o := &s.group.preset.outcome
	if _, why := s.unfit(p, o.counter); why != "" {
		s.m.reading(errorRate, podscaler.Reading{Why: why})
		return
	}
	var all tally
	for _, series := range p.series {
		o.count(&all, float64(series.Value), func(label string) string { return string(series.Metric[model.LabelName(label)]) })
	}
	s.m.reading(errorRate, o.reading(all))
}

func (s *sheet) number(signal string, v float64) {
	if why := nonsense(signal, v); why != "" {
		s.m.unknown(CodeMetricsUnknown, signal, why)
		return
	}
	s.m.reading(signal, podscaler.Known(v))
}

// classic reads latency and good fraction from buckets.
func (s *sheet) classic(p portion) {
	metric := s.group.preset.histogram + "_bucket"
	var h *histogram
	for _, signal := range []string{latency, good} {
		if s.skip(signal) || s.failed(signal, p, metric) {
			continue
		}
		if h == nil {
			h = p.histogram()
		}
		if h == nil {
			s.m.unknown(CodeMetricsUnknown, signal, fmt.Sprintf("the series of %s make no histogram: they need le=\"+Inf\" and another edge", metric))
		}
	}
	if h != nil {
		s.m.histogram(h, s.member.source, s.group.preset.unit)
	}
}

// histogram puts together what the series of a portion count below each edge.
func (p portion) histogram() *histogram {
	below := map[float64]float64{}
	for _, s := range p.series {
		if edge, err := strconv.ParseFloat(string(s.Metric["le"]), 64); err == nil {
			below[edge] += float64(s.Value)
		}
	}
	return newHistogram(below)
}

// histogram reads latency and good fraction, as far as no query of the owner's does.
func (m *measurement) histogram(h *histogram, s *Source, unit time.Duration) {
	target := float64(s.SLO.Target) / float64(unit)
	edge, _ := h.upTo(target)
	text := h.noEdge(s.SLO.Quantile, target, unit)
	for _, signal := range []string{latency, good} {
		v := h.good(target)
		if signal == latency {
			v = h.quantile(s.SLO.Quantile) * unit.Seconds()
		}
		switch {
		case s.has(signal):
		case math.IsNaN(v):
			m.silent = append(m.silent, finding{code: CodeMetricsUnknown, why: "the histogram counts no request", signals: []string{signal}})
		case signal == good && edge <= 0:
			// No gap, which would not end before edges or target are changed.
			m.reading(good, podscaler.Reading{Why: text})
		default:
			m.reading(signal, podscaler.Known(v))
		}
	}
	if text != "" {
		m.note(CodeNoBucketEdge, "", text)
		if !s.has(good) && edge > 0 {
			m.window.GoodWithin = time.Duration(edge * float64(unit))
		}
	}
}

// native reads what Prometheus itself made of a native histogram.
func (s *sheet) native(signal string, p portion) {
	if s.skip(signal) || s.failed(signal, p, s.group.preset.histogram) {
		return
	}
	if len(p.series) > 1 {
		s.m.unknown(CodeManySeries, signal, fmt.Sprintf("the query returned %d series for the workload, must be one", len(p.series)))
		return
	}
	v := float64(p.series[0].Value)
	if math.IsNaN(v) {
		s.m.silent = append(s.m.silent, finding{code: CodeMetricsUnknown, why: "the histogram counts no request", signals: []string{signal}})
		return
	}
	if signal == latency {
		v *= s.group.preset.unit.Seconds()
	}
	s.number(signal, v)
}

// scrapes warns of a window that is too short for how often its series are sampled.
func (s *sheet) scrapes(p portion) {
	if p.err != nil || len(p.series) == 0 || p.most() >= leastScrapes {
		return
	}
	s.m.note(CodeFewScrapes, "", fmt.Sprintf("the window of %s holds fewer than %d samples of each series: make slo.window longer, or sample more often",
		s.group.window, leastScrapes))
}

// selectors are the conditions that pick the series of some workloads, one for each place.
func (g *group) selectors() []selector {
	var all []selector
	for _, at := range g.preset.places(g.kind) {
		conditions := matchers(g.preset, g.match)
		for _, label := range at.without {
			conditions = append(conditions, label+`=""`)
		}
		for i, label := range at.labels {
			conditions = append(conditions, label+oneOf(g.members, i))
		}
		all = append(all, selector{by: at.labels, where: strings.Join(conditions, ",")})
	}
	return all
}

type selector struct {
	by    []string
	where string
}

// oneOf matches the i-th names of all members: with = where one is meant, so that the query of
// a single workload reads as one would write it.
func oneOf(members []member, i int) string {
	var names []string
	for _, m := range members {
		names = append(names, m.names[i])
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if plain := strings.ReplaceAll(names[0], `\`, ""); len(names) == 1 && regexp.QuoteMeta(plain) == names[0] {
		return "=" + quoteLabel(plain)
	}
	return "=~" + quoteLabel(strings.Join(names, "|"))
}

// question is one query for all members of a group, by what it asks.
type question string

const (
	asksBuckets  question = "buckets"  // requests a second below each edge
	asksQuantile question = "quantile" // of a native histogram
	asksGood     question = "good"     // of a native histogram
	asksArrivals question = "arrivals"
	asksInFlight question = "inFlight"
	asksErrors   question = "errors"  // requests a second by what became of them
	asksNewest   question = "newest"  // when the newest sample was taken
	asksScrapes  question = "scrapes" // how many samples of a series are in the window
)

// write is the PromQL of a question. of is the quantile or the target of a native histogram.
func (g *group) write(q question, of float64) string {
	p, w, counter := g.preset, "["+promDuration(g.window)+"]", g.counter(g.preset.requests)
	return g.each(func(s selector) string {
		by := strings.Join(s.by, ", ")
		switch q {
		case asksBuckets:
			return fmt.Sprintf("sum by (%s, le) (rate(%s_bucket{%s}%s))", by, p.histogram, s.where, w)
		case asksQuantile:
			return fmt.Sprintf("histogram_quantile(%s, sum by (%s) (rate(%s{%s}%s)))", decimal(of), by, p.histogram, s.where, w)
		case asksGood:
			return fmt.Sprintf("histogram_fraction(-Inf, %s, sum by (%s) (rate(%s{%s}%s)))", decimal(of), by, p.histogram, s.where, w)
		case asksArrivals:
			return g.counted(fmt.Sprintf("sum by (%s) (rate(%s{%s}%s))", by, counter, s.where, w), counter)
		case asksErrors:
			by, counter := strings.Join(slices.Concat(s.by, p.outcome.labels), ", "), g.counter(p.outcome.counter)
			return g.counted(fmt.Sprintf("sum by (%s) (rate(%s{%s}%s))", by, counter, s.where, w), counter)
		case asksInFlight:
			return fmt.Sprintf("sum by (%s) (%s{%s})", by, p.inFlight, s.where)
		case asksNewest:
			return fmt.Sprintf("max by (%s) (timestamp(%s{%s}))", by, counter, s.where)
		case asksScrapes:
			return fmt.Sprintf("max by (%s) (count_over_time(%s{%s}%s))", by, counter, s.where, w)
		}
		panic("no such question: " + string(q))
	})
}

// counter is the series that a counter is stored in. A native histogram has no series for its
// count: it is the count.
func (g *group) counter(name string) string {
	if g.native && name == g.preset.histogram+"_count" {
		return g.preset.histogram
	}
	return name
}

// counted is the rate of a counter's, which of a native histogram is the rate of its count.
func (g *group) counted(rate, counter string) string {
	if g.native && counter == g.preset.histogram {
		return "histogram_count(" + rate + ")"
	}
	return rate
}

func (g *group) each(write func(selector) string) string {
	var parts []string
	for _, s := range g.selectors() {
		parts = append(parts, write(s))
	}
	return strings.Join(parts, " or ")
}
