package signals

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
)

// scrape is how one workload's pods are read, and what was read.
//
// What is kept of a page is what was added since the page before, by edge. A pod that is gone
// counts until its requests leave the window, one that restarted counts from 0 again, and a window
// is a sum. Of what came in since before the window began, the window's part counts, as if it had
// come in evenly; nothing is extrapolated.
type scrape struct {
	workload string
	source   *Source
	url      func(address string) string
	secured  bool // by TLS
	every    time.Duration
	window   time.Duration

	histogram, requests, inFlight string // names of metrics
	unit                          time.Duration
	outcome                       outcome // of requests that the page shows
	preset                        *preset

	began, last time.Time // the first and the last round
	pods        map[string]*scraped
}

// heardFor is for how many readings a page counts that no later one has followed.
const heardFor = 3

// hangsFor is for how many readings the requests count of a pod that is ready and shows no page any
// more.
const hangsFor = 20

// defaultEvery is the time between two readings of a page where none is given.
const defaultEvery = 15 * time.Second

// newScrape returns the old one if it is for the same source: what was scraped stays.
func newScrape(workload string, s *Source, old *scrape) *scrape {
	if old != nil && old.source == s {
		return old
	}
	c, p := s.Spec.Scrape, presets[s.Spec.preset()]
	n := &scrape{
		workload: workload, source: s, window: s.window(),
		every:     cmp.Or(time.Duration(c.Every), defaultEvery),
		histogram: p.histogram, requests: p.requests, inFlight: cmp.Or(c.InFlight, p.inFlight), unit: p.unit,
		outcome: p.outcome, preset: p, pods: map[string]*scraped{},
	}
	if c.Latency != "" {
		n.histogram, n.requests, n.unit = c.Latency, c.Latency+"_count", time.Second
		if c.Unit == Milliseconds {
			n.unit = time.Millisecond
		}
	}
	n.requests = cmp.Or(c.Requests, n.requests)
	if c.StatusLabel != "" {
		n.outcome = byCode(n.requests, c.StatusLabel)
	}
	port, path, scheme := cmp.Or(c.Port, p.scrape.port), cmp.Or(c.Path, p.scrape.path, "/metrics"), cmp.Or(c.Scheme, "http")
	n.secured = scheme == "https"
	n.url = func(address string) string {
		return scheme + "://" + net.JoinHostPort(address, strconv.Itoa(port)) + path
	}
	return n
}

// scraped is what one pod's pages said.
type scraped struct {
	pod    Pod
	here   bool // it is among the pods there are
	seen   time.Time
	last   time.Time // of the last page; zero if there was none
	err    error     // of the last try
	series map[string]*counter
	flight float64 // the gauge's last value; NaN if it was not on the page
	unsure bool    // the last page does not say of all requests whether they failed
	added  []added
}

// counter is the last value of a series. One that fell was begun anew. Those of one histogram share
// a family: if one of them fell, the others may be above their old values by chance.
//
// The start time that a page may have says nothing of them. It may be that of an exporter, or of an
// application whose page a sidecar merges with its own. All that was ever counted would be new.
type counter struct {
	value  float64
	family string
	edge   float64 // NaN if it is not a bucket
	seen   time.Time

	request, ended, failed bool // it counts requests; those that came to an end; those that failed
}

// added is what came in between a page and the one before it.
type added struct {
	from, at time.Time
	requests float64
	ended    tally
	below    map[float64]float64
}

// partSince is the part of what was added that lies after a window's begin.
func (a *added) partSince(begin time.Time) float64 {
	if !a.from.Before(begin) {
		return 1
	}
	return max(0, float64(a.at.Sub(begin))/float64(a.at.Sub(a.from)))
}

// scraper is the client that pages are read with. With an error it serves for those that are read
// without TLS.
func (r *round) scraper() (*http.Client, error) {
	var c Credentials
	var err error
	if r.options.ScrapeCredentials != nil {
		if c, err = r.options.ScrapeCredentials(r.ctx); err != nil {
			err = fmt.Errorf("the credentials for metrics pages cannot be read: %w", err)
		}
	}
	if err == nil {
		err = r.pages.open(c)
	}
	if err != nil {
		_ = r.pages.open(Credentials{}) // which asks for nothing that could be at fault
	}
	return r.pages.client(), err
}

// page is one reading of one pod.
type page struct {
	pod    Pod
	err    error
	flight float64
	unsure bool
	series map[string]*counter
	names  int  // bytes
	putOff bool // it was not read in this round
}

// read adds the reading of all pods to the round, if it is time for it.
func (s *scrape) read(r *round, client *http.Client, err error, pods []Pod) []*page {
	if r.now.Before(s.last) {
		s.restart()
	}
	s.look(r.now, pods)
	// A round that is due in a moment is not put off by a whole step.
	if !s.last.IsZero() && r.now.Sub(s.last) < s.every-s.every/10 {
		return nil
	}
	s.last = r.now
	if s.began.IsZero() {
		s.began = r.now
	}
	var pages []*page
	for _, pod := range pods {
		if pod.Address == "" {
			continue
		}
		got := &page{pod: pod, err: err}
		pages = append(pages, got)
		if err == nil {
			r.add(linePages, &job{
				flow: flow{s.source.Target.Namespace, s.workload}, unit: pod.Name, limit: pageTimeout,
				run: func(ctx context.Context) error {
					got.err = s.fetch(ctx, client, got)
					return got.err
				},
				refused: func(error) { got.putOff = true },
			})
		}
	}
	return pages
}

// restart begins anew where the clock was put back: what was added at times to come would be in
// no window, or in all.
func (s *scrape) restart() {
	s.began, s.last = time.Time{}, time.Time{}
	s.pods = map[string]*scraped{}
}

// look notes which pods there are.
func (s *scrape) look(now time.Time, pods []Pod) {
	for _, p := range s.pods {
		p.here = false
	}
	for _, pod := range pods {
		p := s.pods[pod.Name]
		if p == nil {
			p = &scraped{seen: now, series: map[string]*counter{}, flight: math.NaN()}
			s.pods[pod.Name] = p
		}
		p.pod, p.here = pod, true
	}
}

// fetch reads a pod's page.
func (s *scrape) fetch(ctx context.Context, client *http.Client, into *page) error {
	err := get(ctx, client, s.url(into.pod.Address), func(body io.Reader, complete bool) error { return s.parse(body, complete, into) })
	var f *failure
	if errors.As(err, &f) { // it is the owner's own pod
		return f.detail
	}
	return err
}

// maxNames bounds what the names of a page's series take.
const maxNames = 4 << 20

// parse takes from a page what the workload's signals are made of.
func (s *scrape) parse(body io.Reader, complete bool, into *page) error {
	into.series, into.flight = map[string]*counter{}, math.NaN()
	bucket := s.histogram + "_bucket"
	wanted := func(name string) bool {
		return name == s.requests || name == s.outcome.counter || name == s.inFlight || s.histogram != "" && name == bucket
	}
	return parsePage(body, complete, wanted, func(line sample) error {
		switch {
		case !s.counts(&line):
		case line.name == s.inFlight && podscaler.Known(line.value).Known:
			if math.IsNaN(into.flight) {
				into.flight = 0
			}
			into.flight += line.value
		case line.name == bucket || line.name == s.requests || line.name == s.outcome.counter:
			return into.count(&line, s.counter(&line, into))
		}
		return nil
	})
}

// counter is what a line counts.
func (s *scrape) counter(line *sample, into *page) *counter {
	c := &counter{value: line.value, edge: math.NaN()}
	if line.name == s.histogram+"_bucket" {
		c.edge = 0 // count reads it
		return c
	}
	c.request, c.ended = line.name == s.requests, line.name == s.outcome.counter
	if c.ended {
		var known bool
		c.failed, known = s.outcome.failed(line.get)
		into.unsure = into.unsure || !known
	}
	return c
}

// counts reports whether a series is of the requests that the workload serves. What the preset
// wants of labels it wants of the series that it knows; one's own have others.
func (s *scrape) counts(line *sample) bool {
	p, match := s.preset, s.source.Spec.Match
	known := line.name == p.histogram+"_bucket" || line.name == p.requests || line.name == p.outcome.counter || line.name == p.inFlight
	for name, value := range p.match {
		if _, overridden := match[name]; known && !overridden && line.get(name) != value {
			return false
		}
	}
	for name, value := range p.exclude {
		if _, overridden := match[name]; known && !overridden && line.get(name) == value {
			return false
		}
	}
	for name, value := range match {
		if line.get(name) != value {
			return false
		}
	}
	return true
}

// count keeps a counter's value.
func (p *page) count(line *sample, c *counter) error {
	if !podscaler.Known(line.value).Known || line.value < 0 {
		return fmt.Errorf("a counter must be a number of at least 0, was %v", line.value)
	}
	bucket := !math.IsNaN(c.edge)
	if bucket {
		edge, err := strconv.ParseFloat(line.get("le"), 64)
		if err != nil || math.IsNaN(edge) {
			return fmt.Errorf("a bucket must have its edge in le, was %q", short(line.get("le")))
		}
		c.edge = edge
	}
	slices.SortFunc(line.labels, func(a, b label) int { return strings.Compare(a.name, b.name) })
	family := line.name
	for _, l := range line.labels {
		if !bucket || l.name != "le" {
			family += "\xff" + l.name + "\xff" + l.value
		}
	}
	key := family
	if bucket {
		key += "\xff" + strconv.FormatFloat(c.edge, 'g', -1, 64)
	}
	if p.series[key] != nil {
		return errors.New("a series must be on a page once, was twice: " + short(line.name))
	}
	if p.names += len(key); len(p.series) == maxSeries || p.names > maxNames {
		return fmt.Errorf("the page has more than %d series, or %d bytes of names: narrow them with signals.match", maxSeries, maxNames)
	}
	c.family = family
	p.series[key] = c
	return nil
}

// take adds what was read, and measures.
func (s *scrape) take(r *round, pages []*page) {
	for _, got := range pages {
		if got.putOff {
			continue
		}
		p := s.pods[got.pod.Name]
		p.err = got.err
		if got.err == nil {
			from, known := s.since(p, r.now)
			p.add(got, from, r.now, known)
			if len(got.series) > 0 { // else a part of the page is absent, and will be back
				p.sweep(r.now, s.window)
			}
		}
	}
	s.forget(s.last)
	s.measure(r.now, r.measured[s.workload])
}

// since is when what a page has more than the one before it began to come in. Of a first page that
// is when the pod started, if it did since the first round. It is not known, and nothing counts, if
// the pod was there before: its counts are of any age.
func (s *scrape) since(p *scraped, now time.Time) (from time.Time, known bool) {
	if !p.last.IsZero() {
		return p.last, true
	}
	started := p.pod.Started
	return started, started.After(s.began) && !started.After(now)
}

// add keeps what a page has more than the one before it, if it is known since when that came in.
func (p *scraped) add(got *page, from, now time.Time, known bool) {
	anew := map[string]bool{}
	for key, c := range got.series {
		if before := p.series[key]; before != nil && c.value < before.value {
			anew[c.family] = true
		}
	}
	more := added{from: from, at: now, below: map[float64]float64{}}
	for key, c := range got.series {
		v := c.value
		switch before := p.series[key]; {
		case !known:
			v = 0
		case before != nil && !anew[c.family]:
			v -= before.value
		}
		c.seen, p.series[key] = now, c
		c.add(&more, v)
	}
	p.last, p.flight, p.unsure = now, got.flight, got.unsure
	p.added = append(p.added, more)
}

// remembered is how many series of a pod are kept whether or not they are on its pages: one that
// comes back has its old count, which is not what came in meanwhile.
const remembered = 1000

// sweep forgets series of a pod that shows ever new ones, as with a label for each client: beyond
// those remembered, what was on no page within the window, and beyond maxSeries, on the last one.
func (p *scraped) sweep(now time.Time, window time.Duration) {
	switch n := len(p.series); {
	case n <= remembered:
		return
	case n > maxSeries:
		window = 0
	}
	maps.DeleteFunc(p.series, func(_ string, c *counter) bool { return now.Sub(c.seen) > window })
}

// add adds what a counter has more to what it counts.
func (c *counter) add(into *added, more float64) {
	if !math.IsNaN(c.edge) {
		into.below[c.edge] += more // of 0, too: an edge is there before its first request
		return
	}
	if c.request {
		into.requests += more
	}
	if c.ended {
		into.ended.requests += more
	}
	if c.failed {
		into.ended.failed += more
	}
}

// forget lets go of what has left the window, and of pods that have left with all they added.
func (s *scrape) forget(now time.Time) {
	for name, p := range s.pods {
		p.added = slices.DeleteFunc(p.added, func(a added) bool { return now.Sub(a.at) >= s.window })
		if !p.here && len(p.added) == 0 {
			delete(s.pods, name)
		}
	}
}

// measure makes signals of what the pods added within the window.
func (s *scrape) measure(now time.Time, m *measurement) {
	why, code := s.health(now, m)
	for _, signal := range s.signals() {
		if why != "" && !s.source.has(signal) {
			m.unknown(code, signal, why)
		}
	}
	if s.window < leastScrapes*s.every {
		m.note(CodeFewScrapes, "", fmt.Sprintf("the window of %s holds fewer than %d samples, one every %s: make slo.window longer, or signals.scrape.every shorter", s.window, leastScrapes, s.every))
	}
	sum := s.sum(s.last)
	s.errors(m, sum.ended, why)
	if why != "" {
		return
	}
	if covered := min(s.window, s.last.Sub(s.began)); !s.source.has(arrivals) && s.requests != "" {
		m.rate(sum.requests, covered)
	}
	if s.inFlight != "" && !s.source.has(inFlight) {
		s.flying(m)
	}
	if s.histogram == "" || s.source.SLO.Target <= 0 {
		return
	}
	if h := newHistogram(sum.below); h != nil {
		m.histogram(h, s.source, s.unit)
		return
	}
	for _, signal := range []string{latency, good} {
		if !s.source.has(signal) {
			m.unknown(CodeMetricsUnknown, signal, fmt.Sprintf("no page has a histogram %s", s.histogram))
		}
	}
}

// errors is what the pages say of requests that failed, if nothing else measures it.
func (s *scrape) errors(m *measurement, ended tally, why string) {
	switch {
	case s.source.has(errorRate) || s.outcome.counter == "":
	case why != "":
		m.reading(errorRate, podscaler.Reading{Why: why})
	default:
		m.reading(errorRate, s.outcome.reading(ended))
	}
}

func (m *measurement) rate(requests float64, covered time.Duration) {
	if covered <= 0 {
		m.unknown(CodeMetricsUnknown, arrivals, "the pages were read once: what came in shows from the second time on")
		return
	}
	m.reading(arrivals, podscaler.Known(requests/covered.Seconds()))
}

// signals are those that the scraper measures.
func (s *scrape) signals() []string {
	var all []string
	if s.histogram != "" && s.source.SLO.Target > 0 {
		all = append(all, latency, good)
	}
	if s.requests != "" {
		all = append(all, arrivals)
	}
	if s.inFlight != "" {
		all = append(all, inFlight)
	}
	return all
}

// sum is what all pods added within the window, those that are gone among them.
func (s *scrape) sum(now time.Time) added {
	total := added{below: map[float64]float64{}}
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		total.ended.unsure = total.ended.unsure || s.pods[name].unsure
		for _, a := range s.pods[name].added {
			part := a.partSince(now.Add(-s.window))
			if part == 0 {
				continue
			}
			total.requests += part * a.requests
			total.ended.requests += part * a.ended.requests
			total.ended.failed += part * a.ended.failed
			for edge, v := range a.below {
				total.below[edge] += part * v
			}
		}
	}
	return total
}

// flying adds up the gauges of the pods that hold requests.
func (s *scrape) flying(m *measurement) {
	total, found := 0.0, false
	for _, p := range s.pods {
		if s.holds(p) {
			total, found = total+p.flight, true
		}
	}
	if !found {
		m.reading(inFlight, podscaler.Reading{Why: fmt.Sprintf("no page has %s", s.inFlight)})
		return
	}
	m.reading(inFlight, podscaler.Known(total))
}

// holds reports whether a pod holds the requests that its last page showed. One that has crashed
// or restarted does not. One that hangs does, and more: without them fewer replicas would be wanted
// just then.
func (s *scrape) holds(p *scraped) bool {
	if !p.here || math.IsNaN(p.flight) {
		return false
	}
	silent := s.last.Sub(p.last)
	hangs := p.pod.Ready && !p.pod.Started.After(p.last) && silent <= hangsFor*s.every
	return hangs || silent <= heardFor*s.every
}

// health says why nothing that was scraped counts: no pods, or fewer than half of the ready ones
// answering. If only some are silent, the rest is enough to grow by, for the silent ones will
// hardly be the idle ones, and not enough to shrink by.
func (s *scrape) health(now time.Time, m *measurement) (why, code string) {
	ready, silent := 0, []string{}
	limit := heardFor * s.every
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		p := s.pods[name]
		if !p.here || !p.pod.Ready {
			continue
		}
		ready++
		heard := p.last
		if heard.IsZero() {
			heard = p.seen
		}
		if p.last.IsZero() && p.err != nil || now.Sub(heard) > limit {
			silent = append(silent, name)
		}
	}
	if ready == 0 {
		return "the workload has no ready pod to read", CodeMetricsUnknown
	}
	if len(silent) == 0 {
		return "", ""
	}
	why = fmt.Sprintf("%d of %d ready pods show no page: %s", len(silent), ready, s.excuse(silent))
	if 2*len(silent) > ready {
		return why, CodeMetricsStale
	}
	m.gap = true
	m.note(CodeMetricsPartial, strings.Join(s.signals(), ", "), why)
	return "", ""
}

// excuse names silent pods, and what is wrong with the first.
func (s *scrape) excuse(silent []string) string {
	const shown = 3
	text := strings.Join(silent[:min(shown, len(silent))], ", ")
	if len(silent) > shown {
		text += " and others"
	}
	if err := s.pods[silent[0]].err; err != nil {
		text += ": " + err.Error()
	}
	return text
}
