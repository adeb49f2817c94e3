//go:build browser

package browsertest

import (
	"fmt"
	"maps"
	"math"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/dashboard"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// What a page of a large cluster may take.
const (
	mostCPU      = 1         // seconds of the browser, where known work takes knownTakes
	mostBytes    = 700_000   // that one view loads
	mostElements = 12_000    // that it has
	mostHeap     = 8 << 20   // of the page, once its garbage is collected
	mostHistory  = 128 << 20 // of the server
)

// known is work of the kinds that a view is: elements that are made from JSON, laid out and drawn.
const known = `new Promise(done => {
	const rows = JSON.parse(JSON.stringify(Array.from({length: 2500}, (_, i) => ({name: 'row-' + i, of: [i, i * 7 % 1000, i / 3]}))));
	const table = document.createElement('table');
	for (const r of rows) {
		const tr = table.insertRow();
		for (const v of [r.name, ...r.of]) tr.insertCell().textContent = v;
	}
	document.body.replaceChildren(table);
	requestAnimationFrame(() => setTimeout(() => done(table.offsetHeight)));
})`

// knownTakes is how many seconds of CPU known takes where little else runs, on a core of a virtual
// machine of two. A busy machine, whose caches and cores are shared, takes up to twice as long for
// the same. So known and view are measured in turn by the same browser, three times each, and the
// least of each counts, since others can only add to it.
const knownTakes = .15

// A large cluster has 1,000 nodes and 200 workloads, and records of 30 days.
func TestALargeClusterIsShownAtOnce(t *testing.T) {
	before := heap()
	h, began := dashboard.New(dashboard.Small), time.Now()
	c := newCluster()
	for c.now.Before(c.end) {
		must.Do(t, h.Append(c.step()))
	}
	kept := heap() - before
	t.Logf("%d records were made in %.1f s; the server keeps %.1f MB of them", c.steps, time.Since(began).Seconds(), float64(kept)/1e6)
	if kept > mostHistory {
		t.Errorf("the server keeps %d bytes, of at most %d", kept, mostHistory)
	}
	b, server := serve(t, h)
	for _, view := range []struct{ name, path, shows string }{
		{"now", "#/now", "worker-0999"},
		{"workloads", "#/workloads", "team-19/service-199"},
		{"workload", "#/workload/team-07/service-107?span=720", "Decisions about it"},
		{"machines", "#/machines", "worker-0999"},
		{"decisions", "#/decisions?span=720", "asked for by"},
		{"money", "#/money?span=720", "By namespace"},
	} {
		t.Run(view.name, func(t *testing.T) {
			least, second := map[string]float64{}, math.Inf(1)
			var p *tab
			for range 3 {
				blank := b.tab(t)
				second = min(second, blank.took(func() { blank.eval(known, nil) })["TaskDuration"]/knownTakes)
				p = b.tab(t) // whose process has done nothing yet
				p.online(server)
				p.see(1280, "screen", "light")
				took := p.took(func() {
					p.visit(server + "/" + view.path)
					p.drawn(view.shows)
				})
				for name, v := range took {
					if was, there := least[name]; !there || v < was {
						least[name] = v
					}
				}
			}
			p.within(least, second)
			if faults := p.take(); len(faults) > 0 {
				t.Error(strings.Join(faults, "\n"))
			}
		})
	}
	t.Run("it follows for an hour", func(t *testing.T) { follows(t, b.tab(t), h, c, server) })
}

// serve serves a page until the browser is gone: one that is open keeps a connection.
func serve(t *testing.T, h *dashboard.History) (*browser, string) {
	t.Helper()
	server := httptest.NewServer(h.Handler(true))
	t.Cleanup(server.Close)
	return start(t), server.URL
}

// follows draws the page anew for many records, which must leave nothing behind.
func follows(t *testing.T, p *tab, h *dashboard.History, c *cluster, url string) {
	p.online(url)
	p.see(1280, "screen", "light")
	p.ask("Performance.enable", nil, nil)
	p.visit(url)
	p.drawn("worker-0999")
	from := p.heap()
	for range 12 {
		s := c.step()
		must.Do(t, h.Append(s))
		if !p.shows("Latest record " + s.Time.Format("2006-01-02 15:04:05")) {
			t.Fatalf("it does not show the record of %s", s.Time)
		}
	}
	to := p.heap()
	t.Logf("the page's heap: %.1f MB at first, %.1f MB after 12 records", from/1e6, to/1e6)
	if to > mostHeap || to > 1.5*from+4e6 {
		t.Errorf("the page's heap grows from %.0f to %.0f bytes", from, to)
	}
}

// took is what Chromium measured while something was done. Times are those of the page's thread on
// a CPU, not what others take meanwhile.
func (p *tab) took(do func()) map[string]float64 {
	p.t.Helper()
	p.ask("Performance.enable", map[string]any{"timeDomain": "threadTicks"}, nil)
	from := p.metrics()
	do()
	took := p.metrics()
	for name := range took {
		took[name] -= from[name]
	}
	return took
}

// within holds what a view took to the limits. A second is as long as this machine takes for it.
func (p *tab) within(took map[string]float64, second float64) {
	p.t.Helper()
	var bytes, elements float64
	cpu := took["TaskDuration"] / second
	p.eval("performance.getEntriesByType('resource').reduce((n, e) => n + e.transferSize, 0)", &bytes)
	p.eval("document.querySelectorAll('*').length", &elements)
	used := p.heap()
	p.t.Logf("%.0f ms of CPU, %.0f on this machine now, of which scripts took %.0f, styles %.0f and layout %.0f; %.0f layouts; %.0f kB loaded, %.0f elements, %.1f MB of heap",
		1e3*cpu, 1e3*took["TaskDuration"], 1e3*took["ScriptDuration"], 1e3*took["RecalcStyleDuration"], 1e3*took["LayoutDuration"], took["LayoutCount"], bytes/1e3, elements, used/1e6)
	for _, limit := range []struct {
		of       string
		is, most float64
	}{{"seconds of CPU", cpu, mostCPU}, {"bytes loaded", bytes, mostBytes}, {"elements", elements, mostElements}, {"bytes of heap", used, mostHeap}} {
		if !(limit.is > 0 && limit.is <= limit.most) {
			p.t.Errorf("%s: %g, of at most %g", limit.of, limit.is, limit.most)
		}
	}
}

// drawn waits until a view is there and on the screen. The page is asked, for to read all of its
// text over and over would be work of its own.
func (p *tab) drawn(text string) {
	p.t.Helper()
	var is bool
	p.eval(fmt.Sprintf(`new Promise(done => {
		const until = Date.now() + %d;
		const look = () => {
			if (document.querySelector('main')?.textContent.includes(%q)) requestAnimationFrame(() => setTimeout(() => done(true)));
			else if (Date.now() > until) done(false);
			else setTimeout(look, 50);
		};
		look();
	})`, (patience*3/4).Milliseconds(), text), &is)
	if !is {
		p.t.Fatalf("it does not show %q:\n%.2000s", text, p.text())
	}
}

// metrics are what Chromium has measured of a page, by its names.
func (p *tab) metrics() map[string]float64 {
	p.t.Helper()
	var answer struct {
		Metrics []struct {
			Name  string
			Value float64
		}
	}
	p.ask("Performance.getMetrics", nil, &answer)
	all := map[string]float64{}
	for _, m := range answer.Metrics {
		all[m.Name] = m.Value
	}
	return all
}

// heap is what the page's scripts keep.
func (p *tab) heap() float64 {
	p.t.Helper()
	p.ask("HeapProfiler.collectGarbage", nil, nil)
	return p.metrics()["JSHeapUsedSize"]
}

// heap is what this process keeps.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// cluster makes records of a large cluster: every half an hour, and in the last hour every ten
// seconds. Charts and sums of them are as large as those of all records.
type cluster struct {
	now, end time.Time
	steps    int
	last     loop.Step
}

func newCluster() *cluster {
	c := &cluster{now: time.Date(2026, 6, 1, 6, 0, 0, 0, time.UTC)}
	c.end = c.now.AddDate(0, 0, 30)
	shape := pricing.Shape{Name: "large", CPU: 8 * pricing.Core, Memory: 32 * pricing.GiB}
	o := &c.last.Observed
	*o = loop.Observed{Nodes: 1000, Pods: 30_000, Machines: map[nodescaler.Phase]int{nodescaler.Joined: 1000}, Cost: loop.Cost{Known: true, Unit: "EUR"}}
	for i := range 34 {
		o.Hosts = append(o.Hosts, loop.HostLoad{Name: fmt.Sprintf("pve%02d", i), Online: true, Room: pricing.Resources{CPU: 256 * pricing.Core, Memory: 1024 * pricing.GiB}})
	}
	for i := range 1000 {
		on := &o.Hosts[i*34/1000]
		on.Machines = append(on.Machines, loop.MachineLoad{
			Name: fmt.Sprintf("worker-%04d", i), Pool: "worker", Phase: nodescaler.Joined, Shape: shape, Rate: 80_000, Pods: 30,
			Requests: pricing.Resources{CPU: 6 * pricing.Core, Memory: 20 * pricing.GiB}, Created: c.now,
		})
	}
	for i := range 20 {
		o.Namespaces = append(o.Namespaces, loop.NamespaceLoad{Namespace: fmt.Sprintf("team-%02d", i), Allocated: 3_000_000, Idle: 1_000_000})
	}
	for i := range 200 {
		name := fmt.Sprintf("team-%02d/service-%03d", i%20, i)
		c.last.Workloads = append(c.last.Workloads, loop.WorkloadStep{Workload: name, Replicas: 150, Ready: 150, Inputs: &loop.Inputs{TargetMs: 300}})
	}
	return c
}

// step is the next record. Loads go up and down, one workload of twenty is scaled, and every sixth
// time machines are bought.
func (c *cluster) step() *loop.Step {
	if c.steps++; c.end.Sub(c.now) > time.Hour {
		c.now = c.now.Add(30 * time.Minute)
	} else {
		c.now = c.now.Add(10 * time.Second)
	}
	s := c.last
	s.ID, s.Time, s.Plan.Actions = fmt.Sprintf("d-%06d", c.steps), c.now, nil
	s.Observed.Machines = maps.Clone(s.Observed.Machines)
	s.Observed.Cost.Ordered = pricing.Rate(80_000_000 + 1_000_000*(c.steps%37))
	s.Observed.Cost.Joined = s.Observed.Cost.Ordered
	for i := range s.Workloads {
		w := &s.Workloads[i]
		load, latency := float64(1000+(c.steps*(i+7))%900), float64(150+(c.steps*(i+3))%200)
		w.Inputs, w.Decision = &loop.Inputs{TargetMs: 300, Arrivals: &load, LatencyMs: &latency}, &podscaler.Decision{
			Workload: w.Workload, From: w.Replicas, To: w.Replicas,
			Reasons: []podscaler.Reason{{Code: "SizedForLoad", Text: fmt.Sprintf("%d replicas carry the %.1f requests a second, where the p90 stays below 300ms", w.Replicas, load)}},
		}
		if (i+c.steps)%20 == 0 {
			w.Decision.To = 140 + (c.steps*(i+1))%20
			w.Replicas, w.Ready = w.Decision.To, w.Decision.To
		}
	}
	if c.steps%6 == 0 {
		for i := range 5 {
			s.Plan.Actions = append(s.Plan.Actions, nodescaler.Action{
				Kind: nodescaler.Buy, Pool: "worker", Order: fmt.Sprintf("worker-%d-%d", c.steps, i), Host: fmt.Sprintf("pve%02d", i), Shape: &s.Observed.Hosts[0].Machines[0].Shape,
				Reasons: []nodescaler.Reason{{Code: "PodsPending", Text: fmt.Sprintf("asked for by %d pods of team-%02d", c.steps%9+1, i)}},
			})
		}
	}
	c.last = s
	return &s
}
