package worlds

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// Name is that of the experiment which every world is, with another seed.
const Name = "joint-random"

// Title is what all of them are.
const Title = "Worlds that are drawn at random, one from each seed"

// The rows: HPAs, of which one is what all are set against, and the policy that this is about.
const (
	against = "hpa60"
	about   = "joint"
	spared  = "joint-auto" // with spares
	// clairvoyant knows the load. It is there where it can be.
	clairvoyant = "clairvoyant"
)

var hpas = []int{30, 40, 50, 60, 70, 80}

// leastLevel is the load from which on a clairvoyant plans: it finds out to half a user, or half a
// request a second, what machines carry.
const leastLevel = 10

// File is the experiment's file of the world that a seed makes.
func File(seed uint64) []byte {
	w := draw(seed)
	var b bytes.Buffer
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("name: %s", Name)
	p("title: 'World %d: %s'", seed, w)
	p("shows: What policies make of a world that was drawn at random, from its seed. Odd seeds are for tuning, even ones for reports.")
	p("trials: 1\nduration: %s\nseed: %d\ntick: 5s\nwake: true", pricing.Short(w.length), seed)
	w.hosts(p)
	p("prices: {currency: units, pricePerVCPUHour: 1, pricePerGBHour: 0.1, pricePerDiskGBHour: 0.005}")
	p("delays: {clone: %s, boot: %s, delete: 10s, podStart: %s, clones: %d}", about10(w.lead/2), about10(w.lead-w.lead/2), about10(w.podStart), w.clones)
	p("signals: %s", w.signals())
	p("workloads:")
	for i := range w.services {
		w.services[i].write(p, w, i > 0)
	}
	first := &w.services[0]
	p("load:\n  kind: %s", first.kind)
	if first.think > 0 {
		p("  think: %s\n  spread: %s", first.think, min(first.think, 10*time.Second))
	}
	p("  scenarios: [{name: %s, curve: \"%s\"}]", strings.ReplaceAll(first.shape, "/", "-"), curve(first.curve))
	w.rows(p)
	if len(w.faults) > 0 {
		p("faults:")
	}
	for _, f := range w.faults {
		p("  - {at: %s, kind: clone-fails, count: %d}", f.at, f.count)
	}
	return b.Bytes()
}

// Draw is the experiment of the world that a seed makes.
func Draw(seed uint64) (*testbed.Experiment, error) {
	e, err := testbed.Parse(File(seed))
	if err != nil {
		return nil, fmt.Errorf("world %d: %w", seed, err)
	}
	return e, nil
}

// about10 is a range of a tenth to either side.
func about10(d time.Duration) string {
	unit := time.Second / 10
	return fmt.Sprintf("%s..%s", (d * 9 / 10).Round(unit), (d * 11 / 10).Round(unit))
}

func curve(c sim.Curve) string {
	text, _ := testbed.Curve(c).MarshalText() // it always can
	return string(text)
}

// hosts are three, with room for all machines.
func (w *world) hosts(p func(string, ...any)) {
	largest := 0
	for _, n := range w.machines {
		largest = max(largest, n)
	}
	each := (w.max + 2) / 3 * largest
	p("hosts:")
	for i := range 3 {
		p("  - {name: pve%d, cpu: %d, memory: %dGB}", i+1, each, 4*each)
	}
	var shapes []string
	for _, n := range w.machines {
		shapes = append(shapes, fmt.Sprintf("{name: cpu%d, cpu: %d, memory: %dGB, disk: 32GB}", n, n, 4*n))
	}
	p("pools:\n  - name: workers\n    shapes: [%s]", strings.Join(shapes, ", "))
	p("    reserved: {cpu: %dm, memory: 0B}\n    min: 1\n    max: %d\n    start: %d", reserved, w.max, w.start)
}

// signals has edges around the targets of all workloads.
func (w *world) signals() string {
	if !w.scraped {
		return fmt.Sprintf("{latency: exact, metricsEvery: %s}", w.scrape)
	}
	var edges []time.Duration
	for i := range w.services {
		edges = append(edges, around(w.services[i].target)...)
	}
	return fmt.Sprintf("{latency: scraped, every: %s, metricsEvery: %s, edges: [%s]}", w.scrape, w.scrape, rising(edges))
}

// write writes a workload. The second has a load of its own.
func (s *service) write(p func(string, ...any), w *world, own bool) {
	p("  - name: default/%s", s.name)
	p("    requests: {cpu: %dm, memory: %dMB}\n    quota: %dm\n    concurrency: %d", s.cpu, max(50, s.cpu/2), s.quota, s.concurrency)
	demand := fmt.Sprintf("mean: %s, spread: %.0f%%", s.demand, 100*s.spread)
	if s.tail > 0 {
		demand += fmt.Sprintf(", tail: %g", s.tail)
	}
	if s.wait > 0 {
		demand += fmt.Sprintf(", wait: %s", s.wait)
	}
	p("    demand: {%s}", demand)
	p("    balance: %s\n    replicas: {min: 1, max: %d, start: %d}\n    unavailable: %d\n    grace: 30s", w.balance, s.max, s.start, s.unavailable)
	p("    slo: {p: %dth, target: %s, window: %s}", s.quantile, s.target, s.window)
	if own {
		p("    load: {kind: %s, curve: \"%s\"}", s.kind, curve(s.curve))
	}
}

// rows are the policies. An HPA's target is a part of what a pod may use, written as a part of what
// it requests.
func (w *world) rows(p func(string, ...any)) {
	target := func(percent int) int { return int(float64(percent)*w.quota + 0.5) }
	first := "&pending {policy: pending, pending: {pollInterval: 10s, parallel: 16}}"
	p("policies:")
	for _, n := range hpas {
		p("  - name: hpa%d\n    pods: {policy: hpa, runPeriod: 15s, behavior: {preset: v2}, hpa: {metrics: [{type: Resource, name: cpu, averageUtilization: %d}]}}\n    nodes: %s", n, target(n), first)
		first = "*pending"
	}
	profile := ""
	if len(w.services) == 1 {
		profile = fmt.Sprintf("cpu: %dm", w.services[0].quota)
	}
	p("  - name: predictive\n    pods: {policy: predictive, runPeriod: 15s, behavior: {preset: v2}, predictive: {period: 15s, profile: {learned: {%s}}, cpu: {averageUtilization: %d}}}\n    nodes: *pending", profile, target(60))
	p("  - name: %s\n    pods: {policy: joint, runPeriod: 5s}\n    nodes: {policy: joint}", about)
	p("  - name: %s\n    pods: {policy: joint, runPeriod: 5s}\n    nodes: {policy: joint, joint: {spares: auto}}", spared)
	if len(w.services) == 1 && len(w.machines) == 1 && len(w.faults) == 0 && w.services[0].curve.Max() >= leastLevel {
		p("  - {name: %s, clairvoyant: true}", clairvoyant)
	}
}

// String says in a line what the world is.
func (w *world) String() string {
	var parts []string
	for i := range w.services {
		s := &w.services[i]
		size := fmt.Sprintf("±%.0f %%", 100*s.spread)
		if s.tail > 0 {
			size = "tail " + strconv.FormatFloat(s.tail, 'g', -1, 64)
		}
		if s.wait > 0 {
			size += fmt.Sprintf(" + %s elsewhere", s.wait)
		}
		who := string(s.kind)
		if s.think > 0 {
			who += " " + s.think.Round(100*time.Millisecond).String()
		}
		parts = append(parts, fmt.Sprintf("%s %s, %s %s on %dm for %s", who, s.shape, s.demand, size, s.cpu, s.target))
	}
	of := make([]string, len(w.machines))
	for i, n := range w.machines {
		of[i] = strconv.Itoa(n)
	}
	parts = append(parts, fmt.Sprintf("%s vCPU in %s, metrics each %s", strings.Join(of, " or "), pricing.Short(w.lead), w.scrape))
	if !w.warm {
		parts = append(parts, "cold")
	}
	if w.balance == sim.AtRandom {
		parts = append(parts, "random balancing")
	}
	if len(w.faults) > 0 {
		parts = append(parts, "clones fail")
	}
	return strings.Join(parts, "; ")
}

// Policies are the names of the rows.
func Policies() []string {
	var out []string
	for _, n := range hpas {
		out = append(out, fmt.Sprintf("hpa%d", n))
	}
	return append(out, "predictive", about, spared, clairvoyant)
}
