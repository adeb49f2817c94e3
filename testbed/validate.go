package testbed

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// Validate returns every fault of what the file says.
func (e *Experiment) Validate() error {
	var f Faults
	checker{e, &f}.validate()
	return errors.Join(f...)
}

// checker collects the faults of an experiment.
type checker struct {
	*Experiment
	f *Faults
}

func (e checker) validate() {
	e.f.Must(e.Name != "", "name", "must not be empty", e.Name)
	e.f.Must(e.Trials >= 1, "trials", "must be at least 1", e.Trials)
	e.f.Must(e.Duration >= 0, "duration", "must not be negative", e.Duration)
	e.f.Must(e.Duration%time.Second == 0, "duration", "must be whole seconds", e.Duration)
	if s := e.Span; s != nil {
		e.f.Must(s.Min >= 0 && s.Max > s.Min, "span", "must end after it starts, at 0s or later", s)
	}
	e.f.Must(e.Tick > 0, "tick", "must be longer than 0s", e.Tick)
	e.validatePrices()
	before := len(*e.f)
	e.validateHosts()
	e.validatePools()
	placed := len(*e.f) == before
	if placed {
		e.validateRoom()
	}
	e.Delays.validate(e.f, "delays")
	e.Signals.validate(e.f, "signals")
	before = len(*e.f)
	e.validateWorkloads(placed)
	sound := len(*e.f) == before
	e.Load.validate(e.f, e.Duration)
	for i := range e.Load.Scenarios {
		s := &e.Load.Scenarios[i]
		s.Otherwise.validate(e.f, fmt.Sprintf("load.scenarios[%d].otherwise", i), e.Experiment, cmp.Or(s.Duration, e.Duration))
	}
	e.validatePolicies(sound)
	e.validateFaults("faults", e.Faults, e.longest())
	for i := range e.Assertions {
		e.validateAssertion(fmt.Sprintf("assertions[%d]", i), &e.Assertions[i])
	}
	e.validateClaims()
	e.validateReference()
}

// validatePrices wants prices of hosts and shapes that there are. One of another name would be the
// price of nothing, and what it was meant for would have the book's.
func (e checker) validatePrices() {
	e.f.Under("prices", e.Prices.Validate())
	for _, name := range slices.Sorted(maps.Keys(e.Prices.Hosts)) {
		e.f.OneOf("prices.hosts."+name, name, e.hostNames())
	}
	var shapes []string
	for i := range e.Pools {
		for _, s := range e.Pools[i].Shapes {
			shapes = append(shapes, s.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Prices.Shapes)) {
		e.f.OneOf("prices.shapes."+name, name, slices.Compact(slices.Sorted(slices.Values(shapes))))
	}
}

// names wants a list to have unique names, and returns them.
func names[T any](f *Faults, key string, all []T, name func(*T) string) []string {
	out := make([]string, len(all))
	for i := range all {
		out[i] = name(&all[i])
		path := fmt.Sprintf("%s[%d].name", key, i)
		f.Must(out[i] != "", path, "must not be empty", out[i])
		f.Must(!slices.Contains(out[:i], out[i]), path, "must be there once", out[i])
	}
	return out
}

// fileName is what a name may be that is put into the name of a file.
var fileName = regexp.MustCompile(`^[\pL\pN][\pL\pN ._+-]*$`)

// plain wants a name that may be a file's. Of one like a/../b a figure would be written to another
// folder.
func plain(f *Faults, path, name string) {
	f.Must(name == "" || fileName.MatchString(name), path, "must be of letters, digits, spaces and . _ + -, with a letter or digit first", name)
}

func (e *Experiment) hostNames() []string {
	out := make([]string, len(e.Hosts))
	for i := range e.Hosts {
		out[i] = e.Hosts[i].Name
	}
	return out
}

func (e checker) validateHosts() {
	e.f.Must(len(e.Hosts) > 0, "hosts", "must have at least one", len(e.Hosts))
	names(e.f, "hosts", e.Hosts, func(h *Host) string { return h.Name })
	for i, h := range e.Hosts {
		path := fmt.Sprintf("hosts[%d]", i)
		e.f.Must(h.CPU > 0, path+".cpu", "must be more than 0", h.CPU)
		e.f.Must(h.Memory > 0, path+".memory", "must be more than 0", h.Memory)
	}
}

func (e checker) validatePools() {
	e.f.Must(len(e.Pools) > 0, "pools", "must have at least one", len(e.Pools))
	names(e.f, "pools", e.Pools, func(p *Pool) string { return p.Name })
	for i := range e.Pools {
		p, path := &e.Pools[i], fmt.Sprintf("pools[%d]", i)
		e.f.Must(len(p.Shapes) > 0, path+".shapes", "must have at least one", len(p.Shapes))
		for j, s := range p.Shapes {
			at := fmt.Sprintf("%s.shapes[%d]", path, j)
			e.f.Must(s.Name != "", at+".name", "must not be empty", s.Name)
			e.f.Must(s.CPU > 0, at+".cpu", "must be more than 0", s.CPU)
			e.f.Must(s.Memory > 0, at+".memory", "must be more than 0", s.Memory)
			e.f.Must(p.Reserved.Within(s.Resources()), path+".reserved", "must fit into shape "+s.Name, resources(p.Reserved))
		}
		e.f.Must(p.Min >= 0, path+".min", "must not be negative", p.Min)
		e.f.Must(p.Max >= p.Min, path+".max", fmt.Sprintf("must be at least min, which is %d", p.Min), p.Max)
		e.f.Must(p.Start >= p.Min && p.Start <= p.Max, path+".start", fmt.Sprintf("must be from min to max, which are %d and %d", p.Min, p.Max), p.Start)
		e.f.Must(p.PodSlots >= 0, path+".podSlots", "must not be negative", p.PodSlots)
		amounts(e.f, path+".resources", p.Resources)
		for j, h := range p.Hosts {
			e.f.OneOf(fmt.Sprintf("%s.hosts[%d]", path, j), h, e.hostNames())
		}
		for j, t := range p.Taints {
			e.f.OneOf(fmt.Sprintf("%s.taints[%d].effect", path, j), t.Effect, taintEffects)
		}
	}
}

// taintEffects are what a taint may do to pods that do not tolerate it.
var taintEffects = []string{"NoSchedule", "NoExecute"}

func amounts(f *Faults, path string, all map[string]pricing.Quantity) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f.Must(all[name] > 0, fmt.Sprintf("%s[%q]", path, name), "must be more than 0", int64(all[name]))
	}
}

func resources(r pricing.Resources) words {
	return words(r.CPU.String() + " CPU and " + r.Memory.String())
}

func (d *Delays) validate(f *Faults, path string) {
	for _, r := range []struct {
		key string
		Range
	}{{"clone", d.Clone}, {"boot", d.Boot}, {"delete", d.Delete}, {"wake", d.Wake}, {"podStart", d.PodStart}} {
		f.Must(r.Min >= 0, path+"."+r.key, "must not be negative", r.Range)
	}
	f.Must(d.Clones >= 0, path+".clones", "must not be negative", d.Clones)
}

func (s *Signals) validate(f *Faults, path string) {
	f.OneOf(path+".latency", s.Latency, []string{Exact, Scraped})
	f.Must(s.MetricsEvery > 0, path+".metricsEvery", "must be longer than 0s", s.MetricsEvery)
	f.Must(s.Late >= 0, path+".late", "must not be negative", s.Late)
	f.Must(whole(s.Late), path+".late", "must be whole seconds", s.Late)
	scraped := s.Latency == Scraped
	f.Must(s.Every > 0 == scraped, path+".every", "must be longer than 0s for scraped latencies, and omitted for exact ones", s.Every)
	f.Must(len(s.Edges) > 0 == scraped, path+".edges", "must be given for scraped latencies, and omitted for exact ones", s.Edges)
	for i := range s.Edges {
		rising := s.Edges[i] > 0 && (i == 0 || s.Edges[i] > s.Edges[i-1])
		f.Must(rising, fmt.Sprintf("%s.edges[%d]", path, i), "must be longer than the edge before it", s.Edges[i])
	}
}

// validateWorkloads asks where their pods may run only if hosts and pools are in order.
func (e checker) validateWorkloads(placed bool) {
	e.f.Must(len(e.Workloads) > 0, "workloads", "must have at least one", len(e.Workloads))
	names(e.f, "workloads", e.Workloads, func(w *Workload) string { return w.Name })
	shared := slices.ContainsFunc(e.Workloads, func(w Workload) bool { return w.Load == nil })
	e.f.Must(shared || len(e.Workloads) == 0, "workloads", "must have one without a load of its own, which gets the experiment's: leave out workloads[0].load", len(e.Workloads))
	for i := range e.Workloads {
		w, path := &e.Workloads[i], fmt.Sprintf("workloads[%d]", i)
		w.validate(e.f, path)
		e.validateOwn(path, w)
		if placed {
			e.validateWhere(path, w)
		}
	}
}

func (w *Workload) validate(f *Faults, path string) {
	f.Must(w.Requests.CPU > 0, path+".requests.cpu", "must be more than 0", w.Requests.CPU)
	f.Must(w.Quota > 0, path+".quota", "must be more than 0", w.Quota)
	f.Must(w.Concurrency > 0, path+".concurrency", "must be at least 1", w.Concurrency)
	w.Demand.validate(f, path+".demand")
	if m := w.Memory; m != nil {
		f.Must(m.Base > 0, path+".memory.base", "must be more than 0", m.Base)
		f.Must(m.PerRequest >= 0, path+".memory.perRequest", "must not be negative", m.PerRequest)
	}
	f.OneOf(path+".balance", string(w.Balance), balances)
	f.Must(w.Replicas.Min >= 0, path+".replicas.min", "must not be negative", w.Replicas.Min)
	f.Must(w.Replicas.Max >= max(1, w.Replicas.Min), path+".replicas.max",
		fmt.Sprintf("must be at least 1 and at least min, which is %d", w.Replicas.Min), w.Replicas.Max)
	f.Must(w.Replicas.Start >= w.Replicas.Min && w.Replicas.Start <= w.Replicas.Max, path+".replicas.start",
		"must be from min to max", w.Replicas.Start)
	f.Must(w.Unavailable >= 0, path+".unavailable", "must not be negative", w.Unavailable)
	f.Must(w.Grace >= 0, path+".grace", "must not be negative", w.Grace)
	f.Must(w.SLO.Target > 0, path+".slo.target", "must be longer than 0s", w.SLO.Target)
	f.Must(w.SLO.Window > 0, path+".slo.window", "must be longer than 0s", w.SLO.Window)
	w.Cost.validate(f, path+".cost")
	if w.Share != nil {
		f.Must(*w.Share > 0 && *w.Share <= 1, path+".share", "must be more than 0% and at most 100%", *w.Share)
	}
}

// validateOwn looks at the load that a workload has of its own, if it has one.
func (e checker) validateOwn(path string, w *Workload) {
	if w.Load == nil {
		return
	}
	own := e.own(w.Load)
	e.f.Must(w.Share == nil, path+".share", "must be omitted beside load, all of which is the workload's", w.Share)
	e.f.Must(own.Level.Max() <= sim.MaxLevel, path+".load.curve", mostUsers, own.Level.Max())
	e.f.OneOf(path+".load.kind", string(own.Kind), kinds)
	e.f.Must(w.Load.Think >= 0, path+".load.think", "must not be negative", w.Load.Think)
	closed := own.Kind == sim.Sleep || own.Kind == sim.Pace
	e.f.Must(!closed || own.Think > 0, path+".load.think", "must be longer than 0s, or load.think be, as the kind is "+string(own.Kind), w.Load.Think)
}

func (d *Demand) validate(f *Faults, path string) {
	f.Must(d.Mean > 0, path+".mean", "must be longer than 0s", d.Mean)
	f.Must(d.Spread >= 0 && d.Spread < 1, path+".spread", "must be from 0% to below 100%", d.Spread)
	f.Must(d.Tail == 0 || d.Tail > 1, path+".tail", "must be above 1, or omitted", d.Tail)
	f.Must(d.Tail == 0 || d.Spread == 0, path+".spread", "must be 0% with a tail", d.Spread)
	f.Must(d.Wait >= 0, path+".wait", "must not be negative", d.Wait)
}

func (c *CostTarget) validate(f *Faults, path string) {
	if c == nil {
		return
	}
	f.Must(c.Target > 0, path+".target", "must be more than 0", c.Target)
	f.Must(c.Per > 0, path+".per", "must be longer than 0s", c.Per)
	f.OneOf(path+".count", string(c.Count), []string{"joined", "ordered", "predicted"})
	f.OneOf(path+".measure", string(c.Measure), []string{"rate", "projected"})
}

var kinds = []string{string(sim.Sleep), string(sim.Pace), string(sim.Open)}

// mostUsers is the rule on how many there may be of what the load is of.
var mostUsers = fmt.Sprintf("must be at most %d", int(sim.MaxLevel))

func (l *Load) validate(f *Faults, length time.Duration) {
	f.OneOf("load.kind", string(l.Kind), kinds)
	f.Must(len(l.Users) > 0 != (len(l.Scenarios) > 0), "load", "must have either users or scenarios",
		words(fmt.Sprintf("%d users and %d scenarios", len(l.Users), len(l.Scenarios))))
	for i, n := range l.Users {
		path := fmt.Sprintf("load.users[%d]", i)
		f.Must(n > 0, path, "must be at least 1", n)
		f.Must(n <= sim.MaxLevel, path, mostUsers, n)
		f.Must(i == 0 || n > l.Users[i-1], path, "must be more than the number before it", n)
	}
	f.Must(len(l.Users) == 0 || length != 0, "duration", "must be given for a sweep", absent)
	f.Must(l.Spread >= 0, "load.spread", "must not be negative", l.Spread)
	l.validateThink(f, l.Kind, "load.kind")
	names(f, "load.scenarios", l.Scenarios, func(s *Scenario) string { return s.Name })
	for i := range l.Scenarios {
		s, path := &l.Scenarios[i], fmt.Sprintf("load.scenarios[%d]", i)
		plain(f, path+".name", s.Name)
		f.Must(sim.Curve(s.Curve).Max() <= sim.MaxLevel, path+".curve", mostUsers, sim.Curve(s.Curve).Max())
		f.Must(s.Duration >= 0, path+".duration", "must not be negative", s.Duration)
		f.Must(s.Duration != 0 || length != 0, path+".duration", "must be given, as the experiment has none", absent)
		if s.Kind != "" {
			f.OneOf(path+".kind", string(s.Kind), kinds)
			l.validateThink(f, s.Kind, path+".kind")
		}
	}
}

// validateThink wants a pause for senders that make one.
func (l *Load) validateThink(f *Faults, kind sim.Kind, because string) {
	f.Must(kind == sim.Open || l.Think > 0, "load.think", "must be longer than 0s, as "+because+" is "+string(kind), l.Think)
}
