package testbed

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/podscaler"
	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/sim"
	"github.com/plimsoll/plimsoll/testbed/strict"
)

// validatePolicies holds policies against the workloads too, if those are sound: otherwise
// every policy would report the workloads' faults again.
func (e checker) validatePolicies(sound bool) {
	e.f.Must(len(e.Policies) > 0, "policies", "must have at least one", len(e.Policies))
	names(e.f, "policies", e.Policies, func(p *Policy) string { return p.Name })
	for i := range e.Policies {
		p, path := &e.Policies[i], fmt.Sprintf("policies[%d]", i)
		before := len(*e.f)
		plain(e.f, path+".name", p.Name)
		p.Cost.validate(e.f, path+".cost")
		e.f.Must(p.MaxReplicas >= 0, path+".maxReplicas", "must not be negative", p.MaxReplicas)
		e.f.Must(p.MaxMachines >= 0, path+".maxMachines", "must not be negative", p.MaxMachines)
		e.validateLimits(path, p)
		e.validateLimit(path+".limit", p)
		if p.Clairvoyant {
			e.f.Must(p.Pods == nil && p.Nodes == nil, path, "must have no policies if it is clairvoyant", p.Name)
			one := len(e.Workloads) == 1 && len(e.Pools) == 1 && len(e.Pools[0].Shapes) == 1
			e.f.Must(p.Spares == 0, path+".spares", "must be omitted if the policy is clairvoyant", p.Spares)
			e.f.Must(one, path+".clairvoyant", "must be omitted unless there is one workload on one pool of one shape", true)
			e.f.Must(!e.faulty(), path+".clairvoyant", "must be omitted beside faults, of which its plan knows nothing", true)
			continue
		}
		p.validatePods(e.f, path+".pods", e.Tick)
		if sound && len(*e.f) == before {
			e.validatePair(path+".pods", p)
		}
		p.validateNodes(e.f, path+".nodes")
		e.validatePending(path+".nodes.pending.pool", p)
		e.validateSpares(path+".spares", p)
	}
}

// faulty reports whether anything goes wrong at some level.
func (e *Experiment) faulty() bool {
	return len(e.Faults) > 0 || slices.ContainsFunc(e.Load.Scenarios, func(s Scenario) bool { return s.Otherwise != nil && len(s.Otherwise.Faults) > 0 })
}

// validateLimits wants a policy's limits to leave room for what a trial starts with and may not
// go below; a lower one would not be kept. A clairvoyant chooses its own start.
func (e checker) validateLimits(path string, p *Policy) {
	for i := range e.Workloads {
		r := &e.Workloads[i].Replicas
		least := r.Min
		if !p.Clairvoyant {
			least = max(r.Min, r.Start)
		}
		e.f.Must(p.MaxReplicas <= 0 || p.MaxReplicas >= least, path+".maxReplicas",
			fmt.Sprintf("must be at least %d, with which %s starts or which is its minimum", least, e.Workloads[i].Name), p.MaxReplicas)
	}
	for i := range e.Pools {
		least := e.Pools[i].Min
		if !p.Clairvoyant {
			least = max(least, e.Pools[i].Start)
		}
		e.f.Must(p.MaxMachines <= 0 || p.MaxMachines >= least, path+".maxMachines",
			fmt.Sprintf("must be at least %d, with which pool %s starts or which is its minimum", least, e.Pools[i].Name), p.MaxMachines)
	}
}

// validateSpares wants a row's spares to be wanted by its policy, and to have a place.
func (e checker) validateSpares(path string, p *Policy) {
	if p.Spares == 0 {
		return
	}
	e.f.Must(p.Spares > 0, path, "must not be negative", p.Spares)
	joint := p.Nodes != nil && p.Nodes.spec.Joint != nil
	e.f.Must(joint && p.Spares <= p.Nodes.spec.Joint.Spares.Most, path, "must be at most nodes.joint.spares.most", p.Spares)
	for i := range e.Pools {
		pool := &e.Pools[i]
		e.f.Must(p.Spares+pool.Start <= pool.Max, path, fmt.Sprintf("must leave room for the %d machines that pool %s starts with, of at most %d", pool.Start, pool.Name, pool.Max), p.Spares)
	}
}

// validateLimit wants a limit on the cost to leave what a trial starts with, on the hosts where
// that is.
func (e checker) validateLimit(path string, p *Policy) {
	if p.Limit == nil {
		return
	}
	e.f.Must(!p.Clairvoyant, path, "must be omitted if the policy is clairvoyant", p.Name)
	e.f.Must(p.Limit.Amount > 0, path+".amount", "must be above 0", p.Limit.Amount)
	e.f.Must(p.Limit.Per > 0, path+".per", "must be longer than 0s", p.Limit.Per)
	if p.Limit.Per <= 0 {
		return
	}
	places, err := e.placesOf(p)
	if err != nil || e.Prices.Validate() != nil {
		return // said where it is
	}
	machines := make([]pricing.Placed, len(places))
	for i, at := range places {
		machines[i] = pricing.Placed{Shape: at.Pool.Shapes[0], Host: at.Host, Stopped: at.Spare}
	}
	least := e.Prices.Total(machines, midnight)
	e.f.Must(p.Limit.Rate() >= least, path, fmt.Sprintf("must be at least %s an hour, which the machines cost that a trial starts with", least), p.Limit.Amount)
}

func (p *Policy) validatePods(f *Faults, path string, tick time.Duration) {
	if p.Pods == nil {
		f.Must(false, path, "must be set, unless the policy is clairvoyant", absent)
		return
	}
	f.Must(p.Pods.RunPeriod >= 0, path+".runPeriod", "must not be negative", p.Pods.RunPeriod)
	if tick > 0 { // a policy is asked at steps only, and would wait for the next
		f.Must(p.Pods.RunPeriod%tick == 0, path+".runPeriod", fmt.Sprintf("must be a multiple of tick (%s)", pricing.Short(tick)), p.Pods.RunPeriod)
	}
	f.Must(p.Pods.Cooldown >= 0, path+".cooldown", "must not be negative", p.Pods.Cooldown)
	p.Pods.Behavior.validate(f, path+".behavior")
	known := podpolicy.Names()
	if name := p.Pods.Policy; !slices.Contains(known, strings.ToLower(name)) {
		f.OneOf(path+".policy", name, known)
		return
	}
	_, err := podpolicy.New(p.Pods.Spec)
	f.Under(path, err)
	p.Pods.validateSeries(f, path)
}

// validateSeries refuses metrics that no world measures. A policy that waits for one would do
// nothing for the whole of the trial, and its row would look like a result.
func (p *PodPolicy) validateSeries(f *Faults, path string) {
	const rule = "must be the pods' cpu or memory, the only metrics that experiments measure"
	must := func(kind podpolicy.MetricType, name, key string) {
		known := name == podscaler.ResourceCPU || name == podscaler.ResourceMemory
		f.Must(kind == podpolicy.Resource && known, path+"."+key+".name", rule, name)
	}
	if p.HPA != nil {
		for i, m := range p.HPA.Metrics {
			must(m.Type, m.Name, fmt.Sprintf("hpa.metrics[%d]", i))
		}
	}
	if p.Watermark != nil {
		for i, m := range p.Watermark.Metrics {
			must(m.Type, m.Name, fmt.Sprintf("watermark.metrics[%d]", i))
		}
	}
	if p.FastSlow != nil {
		f.Must(p.FastSlow.Metric == "", path+".fastSlow.metric", "must be omitted: experiments measure the pods' cpu and no series", p.FastSlow.Metric)
	}
}

// byMemory reports whether the policy goes by what pods have in use of it.
func (p *PodPolicy) byMemory() bool {
	return p.HPA != nil && slices.ContainsFunc(p.HPA.Metrics, func(m podpolicy.Metric) bool { return m.Name == podscaler.ResourceMemory }) ||
		p.Watermark != nil && slices.ContainsFunc(p.Watermark.Metrics, func(m podpolicy.WatermarkMetric) bool { return m.Name == podscaler.ResourceMemory })
}

// validatePair asks a pod policy whether it can work on the workloads.
func (e checker) validatePair(path string, p *Policy) {
	policy, err := podpolicy.New(p.Pods.Spec)
	if err != nil {
		return // said before
	}
	for i := range e.Workloads {
		w := e.Workloads[i].Scaled(p)
		if p.Pods.byMemory() && e.Workloads[i].Memory == nil {
			*e.f = append(*e.f, pricing.NewFault(path, "goes by memory, of which "+w.Name+" has none to measure: set workloads["+strconv.Itoa(i)+"].memory"))
		}
		if err := podpolicy.Check(&w, policy); err != nil {
			rule := "cannot work on " + w.Name + ": " + strings.ReplaceAll(err.Error(), "\n", "; ")
			*e.f = append(*e.f, pricing.NewFault(path, rule))
		}
	}
}

func (b *Behavior) validate(f *Faults, path string) {
	if b == nil {
		return
	}
	f.OneOf(path+".preset", b.Preset, []string{V2, Legacy, V111})
	own := b.ScaleUp != nil || b.ScaleDown != nil
	f.Must(!own || b.Preset != Legacy && b.Preset != V111, path, "must have no rules of its own with preset "+b.Preset, b.Preset)
}

func (p *Policy) validateNodes(f *Faults, path string) {
	if p.Nodes == nil {
		f.Must(false, path, "must be set, unless the policy is clairvoyant", absent)
		return
	}
	known := nodepolicy.Names()
	if name := p.Nodes.Policy; !slices.Contains(known, strings.ToLower(name)) {
		f.OneOf(path+".policy", name, known)
		return
	}
	p.validateScaledBy(f, path)
	for _, block := range []struct {
		key string
		strict.Block
	}{{"pending", p.Nodes.Pending}, {"unneeded", p.Nodes.Unneeded}, {"joint", p.Nodes.Joint}} {
		f.Must(block.IsZero() || strings.EqualFold(p.Nodes.Policy, block.key), path+"."+block.key,
			"may be there only with policy "+block.key, p.Nodes.Policy)
	}
	if p.Nodes.decode() != nil {
		return // Parse reports it
	}
	_, err := nodepolicy.New(p.Nodes.spec)
	f.Under(path, err)
}

// validatePending wants the policy pending to know which pool it orders from: else it would order
// nothing for the whole of the trial, and its row would look like a result.
func (e checker) validatePending(path string, p *Policy) {
	if p.Nodes == nil || !strings.EqualFold(p.Nodes.Policy, "pending") {
		return
	}
	is, names := "", []string{}
	if said := p.Nodes.spec.Pending; said != nil {
		is = said.Pool
	}
	for i := range e.Pools {
		names = append(names, e.Pools[i].Name)
	}
	if is != "" || len(names) > 1 {
		e.f.OneOf(path, is, names)
	}
}

// validateScaledBy wants machines that cluster-autoscaler decides on to be decided on as it does,
// and by no other client.
func (p *Policy) validateScaledBy(f *Faults, path string) {
	by := p.Nodes.ScaledBy
	if by == "" {
		return
	}
	f.OneOf(path+".scaledBy", string(by), []string{string(ScaledByPlimsoll), string(ScaledByClusterAutoscaler)})
	if by == ScaledByClusterAutoscaler {
		f.Must(strings.EqualFold(p.Nodes.Policy, "unneeded"), path+".policy", "must be unneeded where scaledBy is "+string(by)+", which it represents", p.Nodes.Policy)
		f.Must(p.Limit == nil, strings.TrimSuffix(path, ".nodes")+".limit", "must be omitted where nodes.scaledBy is "+string(by)+", which knows of none", "there")
	}
}

// validateFaults wants faults to happen in a trial that lasts so long, and to say nothing that
// their kind does not know.
func (e checker) validateFaults(at string, all []Fault, lasts time.Duration) {
	for i := range all {
		x, path := &all[i], fmt.Sprintf("%s[%d]", at, i)
		e.f.Must(x.At >= 0, path+".at", "must not be negative", x.At)
		e.f.Must(lasts <= 0 || x.At < lasts, path+".at", "must be before the end of the trial, which is at "+pricing.Short(lasts), x.At)
		e.f.Must(x.For >= 0, path+".for", "must not be negative", x.For)
		e.f.Must(x.Count >= 0, path+".count", "must not be negative", x.Count)
		e.f.OneOf(path+".kind", string(x.Kind), faultKinds())
		if slices.Contains(sim.FaultKinds, x.Kind) {
			x.validateKind(e.f, path, e.hostNames())
		}
	}
}

// validateKind wants what the fault's kind needs, and nothing else.
func (x *Fault) validateKind(f *Faults, path string, hosts []string) {
	noisy, kind := x.Kind == sim.NoisyNeighbour, string(x.Kind)
	f.Must(noisy == (x.Left > 0) && x.Left >= 0 && x.Left < 1, path+".left",
		"must be above 0% and below 100% for "+string(sim.NoisyNeighbour)+", and omitted for others", x.Left)
	f.Must(x.For > 0 || !noisy && x.Kind != sim.MetricsVanish, path+".for", "must be longer than 0s for "+kind, x.For)
	f.Must(x.For == 0 || x.Kind != sim.CloneFails, path+".for", "must be omitted for "+kind, x.For)
	f.Must(x.Count == 0 || x.Kind == sim.CloneFails, path+".count", "must be omitted for "+kind, x.Count)
	switch {
	case x.Kind == sim.HostDies || noisy && x.Host != "":
		f.OneOf(path+".host", x.Host, hosts)
	case !noisy:
		f.Must(x.Host == "", path+".host", "must be omitted for "+kind, x.Host)
	}
}

// longest is how long the longest trial is.
func (e *Experiment) longest() time.Duration {
	longest := time.Duration(0)
	for _, j := range e.loads() {
		longest = max(longest, j.Length)
	}
	return longest
}

// validateLevel wants a level to be one of the experiment's.
func (e checker) validateLevel(path string, users int, scenario string) {
	if len(e.Load.Scenarios) > 0 {
		e.f.OneOf(path+".scenario", scenario, e.LevelNames())
		return
	}
	e.f.Must(slices.Contains(e.Load.Users, users), path+".users", fmt.Sprintf("must be one of load.users, %v", e.Load.Users), users)
}

func (e checker) validateAssertion(path string, a *Assertion) {
	for _, t := range []*term{&a.left, &a.right} {
		if t.measure == "" {
			continue
		}
		e.f.OneOf(path+": policy", t.policy, e.PolicyNames())
		if t.at != nil {
			e.validateLevel(path+": "+t.measure, t.at.Users, t.at.Scenario)
		}
	}
	e.validateLevels(path+": where", a.where)
}

// validateLevels wants conditions to leave some level. What is about none would never be looked at.
func (e checker) validateLevels(path string, w Where) {
	before := len(*e.f)
	for _, c := range w {
		if c.key == "scenario" {
			e.f.OneOf(path, c.value, e.LevelNames())
		}
	}
	var all []Level
	for _, j := range e.loads() {
		all = append(all, j.Level)
	}
	text, err := w.MarshalText()
	e.f.Must(err == nil && (len(w) == 0 || len(*e.f) > before || len(w.among(all)) > 0), path, "must leave a level of "+strings.Join(e.LevelNames(), ", "), string(text))
}

func (e checker) validateClaims() {
	seen := map[string]bool{}
	for i := range e.Claims {
		c, path := &e.Claims[i], fmt.Sprintf("claims[%d]", i)
		e.f.Must(!seen[c.Name], path+".name", "must be another than that of the claims before", c.Name)
		seen[c.Name] = true
		c.validate(e.f, path, e.Experiment)
	}
}

func (e checker) validateReference() {
	r := e.Reference
	if r == nil {
		return
	}
	for _, m := range slices.Sorted(maps.Keys(r.Tolerance)) {
		e.f.OneOf("reference.tolerance", m, measureNames())
		e.f.Must(r.Tolerance[m] >= 0, "reference.tolerance."+m, "must not be negative", r.Tolerance[m])
	}
	for i, c := range r.Cells {
		path := fmt.Sprintf("reference.cells[%d]", i)
		e.f.OneOf(path+".policy", c.Policy, e.PolicyNames())
		e.validateLevel(path, c.Users, c.Scenario)
		twice := slices.ContainsFunc(r.Cells[:i], func(o Cell) bool { return o.Policy == c.Policy && o.Users == c.Users && o.Scenario == c.Scenario })
		e.f.Must(!twice, path, "must be of another policy or level than the cells before", words(c.Policy+" at "+Level{c.Users, c.Scenario}.String()))
		for _, m := range slices.Sorted(maps.Keys(c.Values)) {
			e.f.OneOf(path+".values", m, measureNames())
			_, tolerated := r.Tolerance[m]
			e.f.Must(tolerated, "reference.tolerance."+m, "must be given, as "+path+" has a value of it", absent)
			e.f.Must(c.Values[m] > 0, path+".values."+m, "must be more than 0", c.Values[m])
		}
	}
}
