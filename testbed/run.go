package testbed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/oracle"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// Options change what of an experiment is run, and how. Zero values leave it as its file says.
type Options struct {
	Users     []int    // levels of a sweep, in place of the file's
	Scenarios []string // of the file's
	Policies  []string // of the file's
	// Trace is a recorded load that is added to the scenarios, or nil.
	Trace    *Trace
	Load     sim.Kind // of users, in place of the file's
	Trials   int
	Duration time.Duration // of every trial
	Seed     *uint64
	// World is where runs are made; none is the simulated world.
	World World
	// Parallel is how many runs are made at a time; 0 is as many as suit the world.
	Parallel int
	// Version is recorded in the results.
	Version string
	// Progress hears of every run that is done, one call at a time.
	Progress func(Progress)
}

// Progress is how far an experiment has come.
type Progress struct {
	Done, Total int
	Requests    int // that were simulated so far
	// Part is the part of the work that is done, by users and length: long runs are made first.
	Part float64
}

// Flags are the options as they are given on a command line; results record them, so that the
// run can be made again.
func (o *Options) Flags() []string {
	var out []string
	add := func(given bool, flag, value string) {
		if given {
			out = append(out, "--"+flag, value)
		}
	}
	users := make([]string, len(o.Users))
	for i, n := range o.Users {
		users[i] = strconv.Itoa(n)
	}
	add(len(users) > 0, "users", strings.Join(users, ","))
	add(len(o.Scenarios) > 0, "scenarios", strings.Join(o.Scenarios, ","))
	add(len(o.Policies) > 0, "policies", strings.Join(o.Policies, ","))
	add(o.Load != "", "load", string(o.Load))
	add(o.Trials > 0, "trials", strconv.Itoa(o.Trials))
	add(o.Duration > 0, "for", pricing.Short(o.Duration))
	if o.Seed != nil {
		add(true, "seed", strconv.FormatUint(*o.Seed, 10))
	}
	if t := o.Trace; t != nil {
		add(true, "trace", t.File)
		add(t.From > 0, "trace-from", pricing.Short(t.From))
		add(t.Length > 0, "trace-length", pricing.Short(t.Length))
		add(t.Peak > 0, "trace-peak", strconv.FormatFloat(t.Peak, 'g', -1, 64))
	}
	return out
}

// Made reports how an experiment's file differs from what results say that they were made with: it
// was edited since, or is another's. What was changed by a flag is not compared.
func (e *Experiment) Made(r *Results) error {
	var errs []error
	same := func(flag, key string, is, was any) {
		if is != was && !slices.Contains(r.Options, "--"+flag) && !slices.Contains(r.Options, "--trace") {
			errs = append(errs, fmt.Errorf("%s: must be %v, as the results were made with, was %v", key, was, is))
		}
	}
	same("name", "name", e.Name, r.Experiment)
	same("for", "duration", pricing.Short(e.Duration), pricing.Short(time.Duration(r.DurationSeconds)*time.Second))
	same("seed", "seed", e.Seed, r.Seed)
	same("trials", "trials", e.Trials, r.Trials)
	same("load", "load.kind", e.Load.Kind, r.Load)
	return errors.Join(errs...)
}

// With returns the experiment as the options change it.
func (e *Experiment) With(o Options) (*Experiment, error) {
	out := *e
	var f Faults
	if len(o.Users) > 0 {
		f.Must(len(e.Load.Scenarios) == 0, "users", "must not be given for "+e.Name+", which has scenarios", o.Users)
		for _, n := range o.Users {
			f.Must(n > 0, "users", "must be at least 1", n)
			f.Must(n <= sim.MaxLevel, "users", mostUsers, n)
		}
		out.Load.Users = slices.Compact(slices.Sorted(slices.Values(o.Users)))
	}
	f.Must(len(o.Scenarios) == 0 || len(e.Load.Scenarios) > 0, "scenarios", "must not be given for "+e.Name+", which has users", o.Scenarios)
	all, wanted := slices.Clone(e.Load.Scenarios), o.Scenarios
	if o.Load != "" {
		out.Load.use(&f, o.Load, all)
	}
	if o.Trace != nil {
		f.Must(len(all) > 0, "trace", "must not be given for "+e.Name+", which has users", o.Trace.File)
		trace := o.Trace.scenario(&f, all)
		all = append(all, trace)
		if len(wanted) > 0 { // of the file's, and the trace is one more
			wanted = append(slices.Clone(wanted), trace.Name)
		}
	}
	out.Load.Scenarios = pick(&f, "scenarios", all, wanted, func(s *Scenario) string { return s.Name })
	out.Policies = pick(&f, "policies", e.Policies, o.Policies, func(p *Policy) string { return p.Name })
	f.Must(o.Parallel >= 0, "parallel", "must be at least 1", o.Parallel)
	f.Must(o.Trials >= 0, "trials", "must be at least 1", o.Trials)
	f.Must(o.Duration >= 0, "for", "must be longer than 0s", o.Duration)
	f.Must(o.Duration%time.Second == 0, "for", "must be whole seconds", o.Duration)
	out.Trials = cmp.Or(o.Trials, e.Trials)
	if o.Duration > 0 {
		out.Duration = o.Duration
		for i := range out.Load.Scenarios {
			out.Load.Scenarios[i].Duration = 0
		}
	}
	if o.Seed != nil {
		out.Seed = *o.Seed
	}
	return &out, errors.Join(f...)
}

// use makes all users behave in one way, in each of the file's scenarios. What was recorded is no
// users.
func (l *Load) use(f *Faults, kind sim.Kind, scenarios []Scenario) {
	f.OneOf("load", string(kind), kinds)
	f.Must(kind == sim.Open || l.Think > 0, "load", "must be open, as the experiment has no load.think", string(kind))
	l.Kind = kind
	for i := range scenarios {
		scenarios[i].Kind = ""
	}
}

// pick returns the things of the given names, or all of them without any. The result is a
// copy, in the file's order.
func pick[T any](f *Faults, key string, all []T, names []string, name func(*T) string) []T {
	var known []string
	for i := range all {
		known = append(known, name(&all[i]))
	}
	for _, n := range names {
		if len(known) == 0 {
			break // said before
		}
		f.Must(slices.Contains(known, n), key, "must be one of "+strings.Join(known, ", ")+meant(n, known), n)
	}
	out := slices.Clone(all)
	if len(names) == 0 {
		return out
	}
	return slices.DeleteFunc(out, func(t T) bool { return !slices.Contains(names, name(&t)) })
}

// Run runs the experiment. When ctx ends before the experiment, or a run fails after others have
// been made, which may have taken hours, it returns what has been done by then along with the
// error.
func Run(ctx context.Context, e *Experiment, o Options) (*Results, error) {
	e, err := e.With(o)
	if err != nil {
		return nil, err
	}
	if o.World == nil {
		o.World = Simulated()
	}
	if err := e.check(o.World); err != nil {
		return nil, err
	}
	jobs := e.jobs()
	runs, done, err := e.runAll(ctx, jobs, o)
	if interrupted := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded); err != nil && !interrupted && !slices.Contains(done, true) {
		return nil, err
	}
	r := &Results{Header: Header{
		Experiment: e.Name, World: o.World.Name(), Seed: e.Seed, Version: o.Version, Unit: e.Prices.Unit,
		Load: e.Load.Kind, Trials: e.Trials, DurationSeconds: int(e.Duration.Seconds()), Planned: len(jobs),
		Options: o.Flags(),
	}}
	for i := range runs {
		if done[i] {
			r.Runs = append(r.Runs, runs[i])
		}
	}
	r.sum()
	return r, err
}

// crew makes runs side by side.
type crew struct {
	*Experiment
	jobs  []Job
	world World
	hears func(Progress)

	lock     sync.Mutex
	runs     []Trial
	done     []bool
	progress Progress
	work     float64 // of all jobs
}

// runAll makes all runs, several at a time. What comes of a run depends on its job alone, and
// it is put in the job's place, so that the order in which they end does not show.
func (e *Experiment) runAll(ctx context.Context, jobs []Job, o Options) (runs []Trial, done []bool, err error) {
	c := &crew{
		Experiment: e, jobs: jobs, hears: o.Progress, runs: make([]Trial, len(jobs)), done: make([]bool, len(jobs)),
		world: o.World, progress: Progress{Total: len(jobs)},
	}
	for i := range jobs {
		c.work += jobs[i].work()
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	queue := make(chan int)
	var workers sync.WaitGroup
	for range cmp.Or(o.Parallel, o.World.Parallel()) {
		workers.Go(func() {
			for i := range queue {
				if err := c.do(ctx, i); err != nil {
					stop(fmt.Errorf("%s: %w", &jobs[i], err))
				}
			}
		})
	}
	feed(ctx, queue, jobs)
	workers.Wait()
	if ctx.Err() != nil {
		return c.runs, c.done, context.Cause(ctx)
	}
	return c.runs, c.done, nil
}

// do makes one run, and reports it.
func (c *crew) do(ctx context.Context, i int) error {
	run, err := c.world.Run(ctx, c.In(c.jobs[i].Level), &c.jobs[i])
	if err != nil {
		return err
	}
	if !c.keeps(&c.jobs[i]) {
		run.Path, run.Machines, run.Minutes = nil, nil, nil
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	c.runs[i], c.done[i] = run, true
	c.progress.Done++
	c.progress.Requests += run.Requests
	c.progress.Part += c.jobs[i].work() / c.work
	if c.hears != nil {
		c.hears(c.progress)
	}
	return nil
}

// keeps reports whether results keep how many replicas and machines a run had when: of all runs
// they would be mostly that.
func (e *Experiment) keeps(j *Job) bool {
	if e.Path {
		return true
	}
	var busiest Level
	for _, l := range e.loads() {
		if l.Level.Users > busiest.Users {
			busiest = l.Level
		}
	}
	return j.Trial == 1 && j.Level == busiest
}

// feed hands out the jobs, the longest first so that none is left over at the end.
func feed(ctx context.Context, queue chan<- int, jobs []Job) {
	defer close(queue)
	order := make([]int, len(jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(jobs[b].work(), jobs[a].work()) })
	for _, i := range order {
		select {
		case queue <- i:
		case <-ctx.Done():
			return
		}
	}
}

// work is about how much there is to simulate; never nothing, so that it can be divided by.
func (j *Job) work() float64 { return float64(max(1, j.Level.Users)) * j.Length.Seconds() }

// plans are the clairvoyant schedules, each made once and by whoever needs it first.
type plans struct {
	lock sync.Mutex
	made map[row]func() (*oracle.Schedule, error)
}

// row is what a schedule depends on: a policy has limits of its own.
type row struct {
	policy string
	level  Level
}

func (p *plans) at(e *Experiment, j *Job) (*oracle.Schedule, error) {
	p.lock.Lock()
	key := row{j.Policy.Name, j.Level}
	plan := p.made[key]
	if plan == nil {
		plan = sync.OnceValues(func() (*oracle.Schedule, error) { return e.schedule(j) })
		p.made[key] = plan
	}
	p.lock.Unlock()
	return plan()
}
