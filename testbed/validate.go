package testbed

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/sim"
	"github.com/plimsoll/plimsoll/testbed/strict"
)

// Parse reads an experiment's file. It reports every fault that it finds, with its line.
func Parse(data []byte) (*Experiment, error) {
	e := &Experiment{}
	errs := []error{strict.Unmarshal(data, e)}
	for i := range e.Policies {
		if n := e.Policies[i].Nodes; n != nil {
			errs = append(errs, n.decode())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return e, nil
}

// decode reads the policies' settings over their defaults. Their values are looked at later,
// by the policy itself.
func (n *NodePolicy) decode() error {
	type (
		pending  nodepolicy.Pending
		unneeded nodepolicy.Unneeded
	)
	n.spec = nodepolicy.Spec{Policy: n.Policy}
	var errs []error
	if !n.Pending.IsZero() {
		c := pending(nodepolicy.DefaultPending())
		errs, n.spec.Pending = append(errs, n.Pending.Decode(&c)), (*nodepolicy.Pending)(&c)
	}
	if !n.Unneeded.IsZero() {
		c := unneeded(nodepolicy.DefaultUnneeded())
		errs, n.spec.Unneeded = append(errs, n.Unneeded.Decode(&c)), (*nodepolicy.Unneeded)(&c)
	}
	return errors.Join(errs...)
}

// fault is one thing that is wrong: a key's path, and the rule that its value breaks, with the
// value.
type fault struct{ path, rule string }

// Path is the path of the key at fault.
func (f *fault) Path() string { return f.path }

// Error names path, rule and value.
func (f *fault) Error() string { return f.path + ": " + f.rule }

// faults collects what is wrong: all of it.
type faults []error

// must notes a fault unless the rule is kept. The rule is written as what must be so.
func (f *faults) must(kept bool, path, rule string, was any) {
	if !kept {
		*f = append(*f, &fault{path, rule + ", was " + show(was)})
	}
}

// under notes the faults that a part has found in itself, below the part's path.
func (f *faults) under(path string, err error) {
	if err == nil {
		return
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			f.under(path, one)
		}
		return
	}
	key, rule, keyed := strings.Cut(err.Error(), ": ")
	if !keyed {
		key, rule = "", key
	}
	*f = append(*f, &fault{strings.TrimSuffix(path+"."+key, "."), rule})
}

// oneOf wants a value to be one of the known ones, and asks whether a near one was meant.
func (f *faults) oneOf(path, value string, known []string) {
	f.must(slices.Contains(known, value), path, "must be one of "+strings.Join(known, ", ")+meant(value, known), value)
}

// meant asks whether the nearest of the known names was meant, if one is near.
func meant(name string, known []string) string {
	if near, ok := strict.Nearest(name, known); ok {
		return " (did you mean " + near + "?)"
	}
	return ""
}

// words stand for a value that is more, or less, than one in a file.
type words string

// absent is the value of what is not there.
const absent words = "absent"

// show prints a value as it is written in a file.
func show(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("%q", v)
	case time.Duration:
		return pricing.Short(v)
	}
	return fmt.Sprint(v)
}

// Validate returns every fault of what the file says.
func (e *Experiment) Validate() error {
	var f faults
	e.validate(&f)
	return errors.Join(f...)
}

func (e *Experiment) validate(f *faults) {
	f.must(e.Name != "", "name", "must not be empty", e.Name)
	f.must(e.Trials >= 1, "trials", "must be at least 1", e.Trials)
	f.must(e.Duration >= 0, "duration", "must not be negative", e.Duration)
	f.must(e.Duration%time.Second == 0, "duration", "must be whole seconds", e.Duration)
	f.must(e.Tick > 0, "tick", "must be longer than 0s", e.Tick)
	f.under("prices", e.Prices.Validate())
	e.validateHosts(f)
	e.validatePools(f)
	e.Delays.validate(f)
	e.Signals.validate(f)
	before := len(*f)
	e.validateWorkloads(f)
	sound := len(*f) == before
	e.Load.validate(f, e.Duration)
	e.validatePolicies(f, sound)
	e.validateFaults(f)
	for i := range e.Assertions {
		e.validateAssertion(f, fmt.Sprintf("assertions[%d]", i), &e.Assertions[i])
	}
	e.validateClaim(f)
	e.validateReference(f)
}

// names wants a list to have unique names, and returns them.
func names[T any](f *faults, key string, all []T, name func(*T) string) []string {
	out := make([]string, len(all))
	for i := range all {
		out[i] = name(&all[i])
		path := fmt.Sprintf("%s[%d].name", key, i)
		f.must(out[i] != "", path, "must not be empty", out[i])
		f.must(!slices.Contains(out[:i], out[i]), path, "must be there once", out[i])
	}
	return out
}

func (e *Experiment) hostNames() []string {
	out := make([]string, len(e.Hosts))
	for i := range e.Hosts {
		out[i] = e.Hosts[i].Name
	}
	return out
}

func (e *Experiment) validateHosts(f *faults) {
	f.must(len(e.Hosts) > 0, "hosts", "must have at least one", len(e.Hosts))
	names(f, "hosts", e.Hosts, func(h *Host) string { return h.Name })
	for i, h := range e.Hosts {
		path := fmt.Sprintf("hosts[%d]", i)
		f.must(h.CPU > 0, path+".cpu", "must be more than 0", h.CPU)
		f.must(h.Memory > 0, path+".memory", "must be more than 0", h.Memory)
	}
}

func (e *Experiment) validatePools(f *faults) {
	f.must(len(e.Pools) > 0, "pools", "must have at least one", len(e.Pools))
	names(f, "pools", e.Pools, func(p *Pool) string { return p.Name })
	for i := range e.Pools {
		p, path := &e.Pools[i], fmt.Sprintf("pools[%d]", i)
		f.must(len(p.Shapes) > 0, path+".shapes", "must have at least one", len(p.Shapes))
		for j, s := range p.Shapes {
			at := fmt.Sprintf("%s.shapes[%d]", path, j)
			f.must(s.Name != "", at+".name", "must not be empty", s.Name)
			f.must(s.CPU > 0, at+".cpu", "must be more than 0", s.CPU)
			f.must(s.Memory > 0, at+".memory", "must be more than 0", s.Memory)
			f.must(p.Reserved.Within(s.Resources()), path+".reserved", "must fit into shape "+s.Name, resources(p.Reserved))
		}
		f.must(p.Min >= 0, path+".min", "must not be negative", p.Min)
		f.must(p.Max >= p.Min, path+".max", fmt.Sprintf("must be at least min, which is %d", p.Min), p.Max)
		f.must(p.Start >= 0 && p.Start <= p.Max, path+".start", fmt.Sprintf("must be from 0 to max, which is %d", p.Max), p.Start)
		f.must(p.PodSlots >= 0, path+".podSlots", "must not be negative", p.PodSlots)
		for j, h := range p.Hosts {
			f.oneOf(fmt.Sprintf("%s.hosts[%d]", path, j), h, e.hostNames())
		}
		for j, t := range p.Taints {
			f.oneOf(fmt.Sprintf("%s.taints[%d].effect", path, j), t.Effect, []string{"NoSchedule", "NoExecute"})
		}
	}
}

func resources(r pricing.Resources) words {
	return words(r.CPU.String() + " CPU and " + r.Memory.String())
}

func (d *Delays) validate(f *faults) {
	for _, r := range []struct {
		key string
		Range
	}{{"clone", d.Clone}, {"boot", d.Boot}, {"delete", d.Delete}, {"podStart", d.PodStart}} {
		f.must(r.Min >= 0, "delays."+r.key, "must not be negative", r.Range)
	}
	f.must(d.Clones >= 0, "delays.clones", "must not be negative", d.Clones)
}

func (s *Signals) validate(f *faults) {
	f.oneOf("signals.latency", s.Latency, []string{Exact, Scraped})
	f.must(s.MetricsEvery > 0, "signals.metricsEvery", "must be longer than 0s", s.MetricsEvery)
	scraped := s.Latency == Scraped
	f.must(s.Every > 0 == scraped, "signals.every", "must be longer than 0s for scraped latencies, and left out for exact ones", s.Every)
	f.must(len(s.Edges) > 0 == scraped, "signals.edges", "must be given for scraped latencies, and left out for exact ones", s.Edges)
	for i := range s.Edges {
		rising := s.Edges[i] > 0 && (i == 0 || s.Edges[i] > s.Edges[i-1])
		f.must(rising, fmt.Sprintf("signals.edges[%d]", i), "must be longer than the edge before it", s.Edges[i])
	}
}

func (e *Experiment) validateWorkloads(f *faults) {
	f.must(len(e.Workloads) > 0, "workloads", "must have at least one", len(e.Workloads))
	names(f, "workloads", e.Workloads, func(w *Workload) string { return w.Name })
	for i := range e.Workloads {
		w, path := &e.Workloads[i], fmt.Sprintf("workloads[%d]", i)
		w.validate(f, path)
		f.must(e.fits(w), path+".requests", "must fit onto a machine of some pool", resources(w.Requests))
	}
}

// fits reports whether any machine has room for a pod at all.
func (e *Experiment) fits(w *Workload) bool {
	for _, p := range e.Pools {
		for _, s := range p.Shapes {
			if w.Requests.Within(s.Resources().Minus(p.Reserved)) {
				return true
			}
		}
	}
	return false
}

func (w *Workload) validate(f *faults, path string) {
	f.must(w.Requests.CPU > 0, path+".requests.cpu", "must be more than 0", w.Requests.CPU)
	f.must(w.Quota > 0, path+".quota", "must be more than 0", w.Quota)
	f.must(w.Concurrency > 0, path+".concurrency", "must be at least 1", w.Concurrency)
	f.must(w.Demand.Mean > 0, path+".demand.mean", "must be longer than 0s", w.Demand.Mean)
	f.must(w.Demand.Spread >= 0 && w.Demand.Spread < 1, path+".demand.spread", "must be from 0% to below 100%", w.Demand.Spread)
	f.oneOf(path+".balance", string(w.Balance), []string{string(sim.LeastOfTwo), string(sim.AtRandom)})
	f.must(w.Replicas.Min >= 0, path+".replicas.min", "must not be negative", w.Replicas.Min)
	f.must(w.Replicas.Max >= max(1, w.Replicas.Min), path+".replicas.max",
		fmt.Sprintf("must be at least 1 and at least min, which is %d", w.Replicas.Min), w.Replicas.Max)
	f.must(w.Replicas.Start >= w.Replicas.Min && w.Replicas.Start <= w.Replicas.Max, path+".replicas.start",
		"must be from min to max", w.Replicas.Start)
	f.must(w.Unavailable >= 0, path+".unavailable", "must not be negative", w.Unavailable)
	f.must(w.Grace >= 0, path+".grace", "must not be negative", w.Grace)
	f.must(w.SLO.Target > 0, path+".slo.target", "must be longer than 0s", w.SLO.Target)
	f.must(w.SLO.Window > 0, path+".slo.window", "must be longer than 0s", w.SLO.Window)
	w.Cost.validate(f, path+".cost")
	if w.Share != nil {
		f.must(*w.Share > 0 && *w.Share <= 1, path+".share", "must be more than 0% and at most 100%", *w.Share)
	}
}

func (c *CostTarget) validate(f *faults, path string) {
	if c == nil {
		return
	}
	f.must(c.Target > 0, path+".target", "must be more than 0", c.Target)
	f.must(c.Per > 0, path+".per", "must be longer than 0s", c.Per)
	f.oneOf(path+".count", string(c.Count), []string{"joined", "ordered", "predicted"})
	f.oneOf(path+".measure", string(c.Measure), []string{"rate", "projected"})
}

var kinds = []string{string(sim.Sleep), string(sim.Pace), string(sim.Open)}

func (l *Load) validate(f *faults, length time.Duration) {
	f.oneOf("load.kind", string(l.Kind), kinds)
	f.must(len(l.Users) > 0 != (len(l.Scenarios) > 0), "load", "must have either users or scenarios",
		words(fmt.Sprintf("%d users and %d scenarios", len(l.Users), len(l.Scenarios))))
	for i, n := range l.Users {
		path := fmt.Sprintf("load.users[%d]", i)
		f.must(n > 0, path, "must be at least 1", n)
		f.must(i == 0 || n > l.Users[i-1], path, "must be more than the number before it", n)
	}
	f.must(len(l.Users) == 0 || length != 0, "duration", "must be given for a sweep", absent)
	f.must(l.Spread >= 0, "load.spread", "must not be negative", l.Spread)
	l.validateThink(f, l.Kind, "load.kind")
	names(f, "load.scenarios", l.Scenarios, func(s *Scenario) string { return s.Name })
	for i := range l.Scenarios {
		s, path := &l.Scenarios[i], fmt.Sprintf("load.scenarios[%d]", i)
		f.must(s.Duration >= 0, path+".duration", "must not be negative", s.Duration)
		f.must(s.Duration != 0 || length != 0, path+".duration", "must be given, as the experiment has none", absent)
		if s.Kind != "" {
			f.oneOf(path+".kind", string(s.Kind), kinds)
			l.validateThink(f, s.Kind, path+".kind")
		}
	}
}

// validateThink wants a pause for senders that make one.
func (l *Load) validateThink(f *faults, kind sim.Kind, because string) {
	f.must(kind == sim.Open || l.Think > 0, "load.think", "must be longer than 0s, as "+because+" is "+string(kind), l.Think)
}

// validatePolicies holds policies against the workloads too, if those are sound: otherwise
// every policy would tell the workloads' faults again.
func (e *Experiment) validatePolicies(f *faults, sound bool) {
	f.must(len(e.Policies) > 0, "policies", "must have at least one", len(e.Policies))
	names(f, "policies", e.Policies, func(p *Policy) string { return p.Name })
	for i := range e.Policies {
		p, path := &e.Policies[i], fmt.Sprintf("policies[%d]", i)
		before := len(*f)
		p.Cost.validate(f, path+".cost")
		f.must(p.MaxReplicas >= 0, path+".maxReplicas", "must not be negative", p.MaxReplicas)
		f.must(p.MaxMachines >= 0, path+".maxMachines", "must not be negative", p.MaxMachines)
		e.validateLimits(f, path, p)
		if p.Clairvoyant {
			f.must(p.Pods == nil && p.Nodes == nil, path, "must have no policies if it is clairvoyant", p.Name)
			one := len(e.Workloads) == 1 && len(e.Pools) == 1 && len(e.Pools[0].Shapes) == 1
			f.must(one, path+".clairvoyant", "must be left out unless there is one workload on one pool of one shape", true)
			continue
		}
		p.validatePods(f, path+".pods")
		if sound && len(*f) == before {
			e.validatePair(f, path+".pods", p)
		}
		p.validateNodes(f, path+".nodes")
	}
}

// validateLimits wants a policy's limits to leave room for what a trial starts with and may not
// go below; a lower one would not be kept. A clairvoyant chooses its own start.
func (e *Experiment) validateLimits(f *faults, path string, p *Policy) {
	for i := range e.Workloads {
		r := &e.Workloads[i].Replicas
		least := r.Min
		if !p.Clairvoyant {
			least = max(r.Min, r.Start)
		}
		f.must(p.MaxReplicas <= 0 || p.MaxReplicas >= least, path+".maxReplicas",
			fmt.Sprintf("must be at least %d, with which %s starts or which is its minimum", least, e.Workloads[i].Name), p.MaxReplicas)
	}
	for i := range e.Pools {
		least := e.Pools[i].Min
		if !p.Clairvoyant {
			least = max(least, e.Pools[i].Start)
		}
		f.must(p.MaxMachines <= 0 || p.MaxMachines >= least, path+".maxMachines",
			fmt.Sprintf("must be at least %d, with which pool %s starts or which is its minimum", least, e.Pools[i].Name), p.MaxMachines)
	}
}

func (p *Policy) validatePods(f *faults, path string) {
	if p.Pods == nil {
		f.must(false, path, "must be set, unless the policy is clairvoyant", absent)
		return
	}
	f.must(p.Pods.RunPeriod >= 0, path+".runPeriod", "must not be negative", p.Pods.RunPeriod)
	f.must(p.Pods.Cooldown >= 0, path+".cooldown", "must not be negative", p.Pods.Cooldown)
	p.Pods.Behavior.validate(f, path+".behavior")
	known := podpolicy.Names()
	if name := p.Pods.Policy; !slices.Contains(known, strings.ToLower(name)) {
		f.oneOf(path+".policy", name, known)
		return
	}
	_, err := podpolicy.New(p.Pods.Spec)
	f.under(path, err)
}

// validatePair asks a pod policy whether it can work on the workloads.
func (e *Experiment) validatePair(f *faults, path string, p *Policy) {
	policy, err := podpolicy.New(p.Pods.Spec)
	if err != nil {
		return // said before
	}
	for i := range e.Workloads {
		w := e.Workloads[i].scaled(p)
		if err := podpolicy.Check(&w, policy); err != nil {
			rule := "cannot work on " + w.Name + ": " + strings.ReplaceAll(err.Error(), "\n", "; ")
			*f = append(*f, &fault{path, rule})
		}
	}
}

func (b *Behavior) validate(f *faults, path string) {
	if b == nil {
		return
	}
	f.oneOf(path+".preset", b.Preset, []string{V2, Legacy})
	f.must(b.Preset != Legacy || b.ScaleUp == nil && b.ScaleDown == nil, path, "must have no rules of its own with preset legacy", b.Preset)
}

func (p *Policy) validateNodes(f *faults, path string) {
	if p.Nodes == nil {
		f.must(false, path, "must be set, unless the policy is clairvoyant", absent)
		return
	}
	known := nodepolicy.Names()
	if name := p.Nodes.Policy; !slices.Contains(known, strings.ToLower(name)) {
		f.oneOf(path+".policy", name, known)
		return
	}
	if p.Nodes.decode() != nil {
		return // Parse tells it
	}
	_, err := nodepolicy.New(p.Nodes.spec)
	f.under(path, err)
}

func (e *Experiment) validateFaults(f *faults) {
	for i, x := range e.Faults {
		path := fmt.Sprintf("faults[%d]", i)
		f.must(x.At >= 0, path+".at", "must not be negative", x.At)
		f.must(x.For >= 0, path+".for", "must not be negative", x.For)
		f.must(x.Count >= 0, path+".count", "must not be negative", x.Count)
		f.oneOf(path+".kind", string(x.Kind), []string{string(sim.CloneFails), string(sim.HostDies), string(sim.MetricsVanish)})
		if x.Kind == sim.HostDies {
			f.oneOf(path+".host", x.Host, e.hostNames())
		}
	}
}

// validateLevel wants a level to be one of the experiment's.
func (e *Experiment) validateLevel(f *faults, path string, users int, scenario string) {
	if len(e.Load.Scenarios) > 0 {
		f.oneOf(path+".scenario", scenario, e.LevelNames())
		return
	}
	f.must(slices.Contains(e.Load.Users, users), path+".users", fmt.Sprintf("must be one of load.users, %v", e.Load.Users), users)
}

func (e *Experiment) validateAssertion(f *faults, path string, a *Assertion) {
	for _, t := range []*term{&a.left, &a.right} {
		if t.measure == "" {
			continue
		}
		f.oneOf(path+": policy", t.policy, e.PolicyNames())
		if t.at != nil {
			e.validateLevel(f, path+": "+t.measure, t.at.Users, t.at.Scenario)
		}
	}
	for _, c := range a.where {
		if c.key == "scenario" {
			f.oneOf(path+": scenario", c.value, e.LevelNames())
		}
	}
}

func (e *Experiment) validateClaim(f *faults) {
	c := e.Claim
	if c == nil {
		return
	}
	f.must(len(c.Policies) > 0, "claim.policies", "must have at least one", len(c.Policies))
	f.must(len(c.Against) > 0, "claim.against", "must have at least one", len(c.Against))
	f.must(len(c.Lower) > 0, "claim.lower", "must have at least one", len(c.Lower))
	for i, p := range slices.Concat(c.Policies, c.Against) {
		path := fmt.Sprintf("claim.policies[%d]", i)
		if i >= len(c.Policies) {
			path = fmt.Sprintf("claim.against[%d]", i-len(c.Policies))
		}
		f.oneOf(path, p, e.PolicyNames())
	}
	for i, m := range c.Lower {
		f.oneOf(fmt.Sprintf("claim.lower[%d]", i), m, measureNames())
	}
}

func (e *Experiment) validateReference(f *faults) {
	r := e.Reference
	if r == nil {
		return
	}
	for _, m := range slices.Sorted(maps.Keys(r.Tolerance)) {
		f.oneOf("reference.tolerance", m, measureNames())
		f.must(r.Tolerance[m] >= 0, "reference.tolerance."+m, "must not be negative", r.Tolerance[m])
	}
	for i, c := range r.Cells {
		path := fmt.Sprintf("reference.cells[%d]", i)
		f.oneOf(path+".policy", c.Policy, e.PolicyNames())
		e.validateLevel(f, path, c.Users, c.Scenario)
		for _, m := range slices.Sorted(maps.Keys(c.Values)) {
			f.oneOf(path+".values", m, measureNames())
			_, tolerated := r.Tolerance[m]
			f.must(tolerated, "reference.tolerance."+m, "must be given, as "+path+" has a value of it", absent)
			f.must(c.Values[m] > 0, path+".values."+m, "must be more than 0", c.Values[m])
		}
	}
}
