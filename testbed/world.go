package testbed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"runtime"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/oracle"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// World is where runs are made. All worlds score a run by the same rules.
type World interface {
	// Name is in the results.
	Name() string
	// Check returns everything in the experiment that this world cannot do, or nil.
	Check(e *Experiment) error
	// Run makes one run and scores it.
	Run(ctx context.Context, e *Experiment, j *Job) (Trial, error)
	// Parallel is how many runs it makes at a time by default.
	Parallel() int
}

// Job is one run to be made: a policy at a level of load, for one of the times it is tried.
type Job struct {
	Policy *Policy
	Level  Level
	Load   sim.Load
	Length time.Duration
	Trial  int
}

func (j *Job) String() string {
	at := fmt.Sprintf("%d users", j.Level.Users)
	if j.Level.Scenario != "" {
		at = j.Level.Scenario
	}
	return fmt.Sprintf("%s at %s, trial %d", j.Policy.Name, at, j.Trial)
}

// simulated is the simulated world.
type simulated struct {
	plans   plans
	journal loop.Journal // of the one run that it makes, or nil
}

// Simulated returns the simulated world: runs in it take seconds and repeat exactly.
func Simulated() World { return Recorded(nil) }

// Recorded returns a simulated world for one run, whose steps the journal keeps.
func Recorded(journal loop.Journal) World {
	return &simulated{plans{made: map[row]func() (*oracle.Schedule, error){}}, journal}
}

func (*simulated) Name() string            { return "sim" }
func (*simulated) Check(*Experiment) error { return nil }
func (*simulated) Parallel() int           { return runtime.GOMAXPROCS(0) }

func (w *simulated) Run(ctx context.Context, e *Experiment, j *Job) (Trial, error) {
	if !j.Policy.Clairvoyant {
		return e.simulate(ctx, j, nil, w.journal)
	}
	schedule, err := w.plans.at(e, j)
	if err != nil {
		return Trial{}, err
	}
	return e.simulate(ctx, j, schedule, w.journal)
}

// SeedOf is the job's luck. It does not depend on the policy, so that all have the same.
func (e *Experiment) SeedOf(j *Job) uint64 {
	h := fnv.New64a()
	h.Write(fmt.Appendf(nil, "%d/%d/%s", e.Seed, j.Trial, j.Level))
	return h.Sum64()
}

// jobs are all runs of the experiment, in the order of the results.
func (e *Experiment) jobs() []Job {
	var out []Job
	for i := range e.Policies {
		for _, j := range e.loads() {
			j.Policy = &e.Policies[i]
			for j.Trial = 1; j.Trial <= e.Trials; j.Trial++ {
				out = append(out, j)
			}
		}
	}
	return out
}

// loads are the levels of load, as jobs without a policy.
func (e *Experiment) loads() []Job {
	base := sim.Load{Kind: e.Load.Kind, Think: e.Load.Think, Spread: e.Load.Spread, Even: e.Load.Even}
	var out []Job
	for _, n := range e.Load.Users {
		j := Job{Level: Level{Users: n}, Load: base, Length: e.Duration}
		j.Load.Level = sim.Flat(float64(n))
		out = append(out, j)
	}
	for i := range e.Load.Scenarios {
		s := &e.Load.Scenarios[i]
		curve := sim.Curve(s.Curve)
		j := Job{Level: Level{int(math.Round(curve.Max())), s.Name}, Load: base, Length: e.Duration}
		j.Load.Level = curve
		if s.Duration > 0 {
			j.Length = s.Duration
		}
		if s.Kind != "" {
			j.Load.Kind = s.Kind
		}
		if o := s.Otherwise; o != nil && o.Think > 0 {
			j.Load.Think = o.Think
		}
		out = append(out, j)
	}
	return out
}

// midnight is when all trials start, as far as tariffs by the time of day are concerned.
var midnight = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// FirstRates are the least and the most that a machine of the pool's shape costs an hour when a
// trial begins, by the host.
func (e *Experiment) FirstRates(p *Pool, s pricing.Shape) (least, most pricing.Rate) {
	least = math.MaxInt64
	for _, h := range e.takers(p) {
		rate := e.Prices.Rate(s, h.Name, midnight)
		least, most = min(least, rate), max(most, rate)
	}
	return least, most
}

// config is the world of a job.
func (e *Experiment) config(j *Job) sim.Config {
	c := e.ground(j.Policy)
	c.Seed, c.Start, c.Tick, c.Wake, c.Prices = e.SeedOf(j), midnight, e.Tick, e.Wake, &e.Prices
	c.Delays = sim.Delays{
		Machine: timing.Machine{
			Clone: timing.Range(e.Delays.Clone), Boot: timing.Range(e.Delays.Boot), Delete: timing.Range(e.Delays.Delete),
		},
		Wake:     e.Delays.wake(),
		PodStart: timing.Range(e.Delays.PodStart),
	}
	c.Clones, c.MetricsEvery, c.Late = e.Delays.Clones, e.Signals.MetricsEvery, e.Signals.Late
	for i := range e.Workloads {
		c.Workloads = append(c.Workloads, e.service(&e.Workloads[i], j))
	}
	for _, f := range e.Faults {
		c.Faults = append(c.Faults, sim.Fault{
			At: f.At, Kind: f.Kind, Host: f.Host, For: f.For, Count: f.Count, Left: float64(f.Left),
		})
	}
	return c
}

// ground is what a policy's trials begin with: hosts, and the machines on them.
func (e *Experiment) ground(p *Policy) sim.Config {
	c := sim.Config{Initial: make(map[string]int, len(e.Pools)), Spares: make(map[string]int, len(e.Pools))}
	for _, h := range e.Hosts {
		room := pricing.Resources{CPU: h.CPU, Memory: h.Memory}
		c.Hosts = append(c.Hosts, nodescaler.Host{Host: pricing.Host{Name: h.Name, Room: room}, Online: true})
	}
	for i := range e.Pools {
		c.Pools = append(c.Pools, e.Pools[i].forNodes(p.MaxMachines))
		c.Initial[e.Pools[i].Name] = e.Pools[i].Start
		c.Spares[e.Pools[i].Name] = p.Spares
	}
	return c
}

// wake is how long spares take to be nodes again.
func (d *Delays) wake() timing.Range {
	if d.Wake == (Range{}) {
		return timing.Range{Min: 10 * time.Second, Max: 30 * time.Second}
	}
	return timing.Range(d.Wake)
}

// forNodes is the pool as node policies see it.
func (p *Pool) forNodes(most int) nodescaler.Pool {
	out := nodescaler.Pool{
		Name: p.Name, Shapes: p.Shapes, Reserved: p.Reserved, PodSlots: p.PodSlots,
		Min: p.Min, Max: p.Max, Hosts: p.Hosts, Labels: p.Labels, Extra: pricing.AmountsOf(p.Resources),
	}
	if most > 0 {
		out.Max = min(out.Max, most)
	}
	for _, t := range p.Taints {
		out.Taints = append(out.Taints, nodescaler.Taint(t))
	}
	return out
}

// service is a workload as the simulated world runs it, with its part of the load.
func (e *Experiment) service(w *Workload, j *Job) sim.Workload {
	s := sim.Workload{
		Name: w.Name, Replicas: w.Replicas.Start, Requests: w.Requests, Extra: pricing.AmountsOf(w.Resources), Quota: w.Quota, Concurrency: w.Concurrency,
		Demand:  sim.Demand{Mean: w.Demand.Mean, Spread: float64(w.Demand.Spread), Tail: w.Demand.Tail, Wait: w.Demand.Wait},
		Balance: w.Balance, Selector: w.Selector, Priority: w.Priority, Unavailable: w.Unavailable,
		Grace: w.Grace, Load: j.Load, Window: w.SLO.Window,
		LatencyGoal: w.SLO.Target, GoalQuantile: float64(w.SLO.P),
	}
	if m := w.Memory; m != nil {
		s.Memory = sim.Memory{Base: m.Base, PerRequest: m.PerRequest}
	}
	for _, t := range w.Tolerations {
		s.Tolerations = append(s.Tolerations, nodescaler.Toleration{Key: t.Key, Value: t.Value, Effect: t.Effect})
	}
	if e.Signals.Latency == Scraped {
		s.ScrapeEvery = e.Signals.Every
		s.Buckets = e.Signals.Edges
	}
	if w.Load != nil {
		s.Load = e.own(w.Load)
	}
	if w.Share != nil {
		s.Load.Level, s.Load.Shared = nil, j.Load.Kind != sim.Open
		for _, p := range j.Load.Level {
			s.Load.Level = append(s.Load.Level, sim.Point{At: p.At, Level: p.Level * float64(*w.Share)})
		}
	}
	return s
}

// own is the load of a workload that has one of its own.
func (e *Experiment) own(l *OwnLoad) sim.Load {
	return sim.Load{
		Kind: cmp.Or(l.Kind, e.Load.Kind), Think: cmp.Or(l.Think, e.Load.Think), Level: sim.Curve(l.Curve),
		Spread: e.Load.Spread, Even: e.Load.Even,
	}
}

// Scaled is a workload as the pod policies see it.
func (w *Workload) Scaled(p *Policy) podscaler.Workload {
	out := podscaler.Workload{
		Name: w.Name, Min: w.Replicas.Min, Max: w.Replicas.Max, Pod: w.Requests,
		SLO: podscaler.SLO{Quantile: float64(w.SLO.P), Target: w.SLO.Target, Window: w.SLO.Window},
	}
	if p.MaxReplicas > 0 {
		out.Max = min(out.Max, p.MaxReplicas)
	}
	cost := w.Cost
	if p.Cost != nil {
		cost = p.Cost
	}
	if cost != nil {
		out.Cost = podscaler.CostTarget{Target: cost.Target, Per: cost.Per, Count: cost.Count, Measure: cost.Measure}
	}
	if p.Pods != nil {
		out.RunPeriod, out.Cooldown = p.Pods.RunPeriod, p.Pods.Cooldown
		out.Behavior = p.Pods.Behavior.rules()
	}
	return out
}

// rules are the behavior in the scaler's words.
func (b *Behavior) rules() *podscaler.Behavior {
	if b == nil {
		return nil
	}
	switch b.Preset {
	case Legacy:
		return podscaler.LegacyBehavior()
	case V111:
		return podscaler.CooldownBehavior()
	}
	out := podscaler.DefaultBehavior()
	b.ScaleUp.replace(&out.Up)
	b.ScaleDown.replace(&out.Down)
	return out
}

func (r *Rules) replace(in *podscaler.Rules) {
	if r == nil {
		return
	}
	*in = podscaler.Rules{Window: r.StabilizationWindow, Select: r.SelectPolicy, Tolerance: r.Tolerance}
	for _, p := range r.Policies {
		in.Policies = append(in.Policies, podscaler.StepLimit{Pods: p.Pods, Percent: p.Percent, Period: p.Period})
	}
}

// intent is what a job wants of the world it runs in.
func (e *Experiment) intent(j *Job, c *sim.Config) loop.Intent {
	in := loop.Intent{Pools: c.Pools, Prices: c.Prices, Limit: j.Policy.Limit.Rate()}
	for i := range e.Workloads {
		w := loop.Workload{Workload: e.Workloads[i].Scaled(j.Policy)}
		if j.Policy.Pods != nil { // one that knows the load to come has none
			w.Policy = j.Policy.Pods.Spec
		}
		in.Workloads = append(in.Workloads, w)
	}
	return in
}

// foresee puts a schedule into a runner and its world that knows the load to come.
func (e *Experiment) foresee(j *Job, s *oracle.Schedule, c *sim.Config, r *loop.Runner) {
	c.Initial[c.Pools[0].Name] = s.Machines()
	c.Workloads[0].Replicas = s.Replicas()
	r.Nodes = s.Nodes()
	r.Workloads = []loop.Workload{loop.Scaled(e.Workloads[0].Scaled(j.Policy), s.Pods())}
}

// schedule plans for a job's level of load. All its trials go by the plan for the first.
func (e *Experiment) schedule(j *Job) (*oracle.Schedule, error) {
	first := *j
	first.Trial = 1
	w := e.Workloads[0].Scaled(j.Policy)
	return oracle.Plan(e.config(&first), w.Max, j.Length)
}

// simulate makes one run in the simulated world.
func (e *Experiment) simulate(ctx context.Context, j *Job, s *oracle.Schedule, journal loop.Journal) (Trial, error) {
	c := e.config(j)
	r := &loop.Runner{Intent: e.intent(j, &c), Journal: journal}
	if s != nil {
		e.foresee(j, s, &c, r)
	} else if nodes, err := nodepolicy.New(j.Policy.Nodes.spec); err != nil {
		return Trial{}, err
	} else {
		// every run has its own: what it remembers of one trial must not reach the next
		r.Nodes = nodes
	}
	var t Telling
	w, err := sim.New(c, func(ctx context.Context, now time.Time) error {
		step, err := r.Once(ctx, now)
		t.Hear(&step, now.Sub(c.Start))
		return errors.Join(err, broken(&step))
	})
	if err != nil {
		return Trial{}, err
	}
	r.Cluster, r.Machines, r.Signals = w, w, w
	if err := w.Run(ctx, j.Length); err != nil {
		return Trial{}, err
	}
	return e.score(j, &c, w, &t), nil
}

// broken says what in a step must not happen in any world, regardless of its faults: a plan that
// breaks the rules, or books that cannot be kept. A number that came of it would be worth
// nothing.
func broken(s *loop.Step) error {
	for _, p := range s.Problems {
		switch p.Code {
		case loop.CodePlanRefused, loop.CodeCostUnknown, loop.CodeOrderLost, loop.CodeNoSuchWorkload:
			return fmt.Errorf("step %s at %s: %s", s.ID, pricing.Short(s.Time.Sub(midnight)), p)
		}
	}
	return nil
}

// score is what became of a run. Workloads are added up: a minute is violated when any of
// them misses its objective.
func (e *Experiment) score(j *Job, c *sim.Config, w *sim.World, t *Telling) Trial {
	out := Trial{
		Policy: j.Policy.Name, NodePolicy: j.Policy.nodePolicy(), Users: j.Level.Users, Scenario: j.Level.Scenario, Trial: j.Trial,
		CostUnits: Rounded(w.Cost().Units()), VMHours: Rounded(w.MachineTime().Hours()),
		Orders: w.Totals.Orders, Returns: w.Totals.Returns, Decisions: t.Decisions,
		RateMax: Rounded(w.PeakRate().Units()), ModelOff: t.ModelOff(),
		Wakes: w.Totals.Wakes, SpareUnits: Rounded(w.SpareCost().Units()),
	}
	out.ModelUnsure = t.ModelUnsure()
	var all sim.Sketch
	var late lateness
	var violated []bool
	var courses []Course
	good, unfinished, pods := 0, 0, time.Duration(0)
	scores := w.Scores()
	for i := range scores {
		s := &scores[i]
		out.Requests += s.Requests
		out.Failed += s.Failed
		unfinished += s.Unfinished
		out.PodMoves += s.Moves
		courses = append(courses, Course{startOf(c, s.Workload), e.mostOf(j, s.Workload), s.Changes})
		good += s.Good
		late.add(s)
		pods += s.PodTime
		all.Merge(&s.Latencies)
		violated = either(violated, s.Minutes)
	}
	for _, v := range violated {
		if v {
			out.SLOViolationMinutes++
		}
	}
	out.Unfinished = Number(unfinished)
	out.Follow(e, courses, t, j.Length)
	out.PodMinutes = Rounded(pods.Minutes())
	out.GoodFraction = Rounded(float64(good) / float64(out.Requests))
	late.put(&out)
	out.P50Ms, out.P90Ms, out.P99Ms = Rounded(1e3*all.Quantile(.5)), Rounded(1e3*all.Quantile(.9)), Rounded(1e3*all.Quantile(.99))
	return out
}

func startOf(c *sim.Config, workload string) int {
	for i := range c.Workloads {
		if c.Workloads[i].Name == workload {
			return c.Workloads[i].Replicas
		}
	}
	return 0
}

// mostOf is how many replicas a workload may have in the job.
func (e *Experiment) mostOf(j *Job, workload string) int {
	for i := range e.Workloads {
		if w := &e.Workloads[i]; w.Name == workload {
			return w.Scaled(j.Policy).Max
		}
	}
	return 0
}

// either marks the minutes that are violated already or here.
func either(violated []bool, minutes []sim.Minute) []bool {
	for i := range minutes {
		if i == len(violated) {
			violated = append(violated, false)
		}
		violated[i] = violated[i] || minutes[i].Violated
	}
	return violated
}

// nodePolicy names a row's node policy.
func (p *Policy) nodePolicy() string {
	if p.Clairvoyant {
		return "clairvoyant"
	}
	return p.Nodes.Policy
}
