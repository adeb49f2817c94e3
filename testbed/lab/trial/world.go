package trial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/k6"
	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/machines"
	"github.com/plimsoll/plimsoll/testbed/lab/plane"
	"github.com/plimsoll/plimsoll/testbed/lab/product"
	"github.com/plimsoll/plimsoll/testbed/lab/upstream"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// World makes runs in labs, each in one of its own.
type World struct {
	// Program is the plimsoll that is tried.
	Program string
	// Folder is where every run leaves its lab's files, the journal and k6's summary, by the run's name.
	Folder string
	// Lab has Cache, Checkout and Progress for the labs; all else of it is the run's.
	Lab lab.Config
}

var _ testbed.World = (*World)(nil)

// Name is lab.
func (*World) Name() string { return "lab" }

// Parallel is one run at a time: what two labs would do to one another's response times is no part of
// the experiment.
func (*World) Parallel() int { return 1 }

// The lab's hosts.
const (
	hostCPU    = 64 * pricing.Core
	hostMemory = 256 * pricing.GiB
)

// Check says what of an experiment cannot be in the lab.
func (*World) Check(e *testbed.Experiment) error {
	var faults []error
	must := func(kept bool, key, rule string, was any) {
		if !kept {
			faults = append(faults, fmt.Errorf("%s: must be %s in the lab, was %v", key, rule, was))
		}
	}
	must(len(e.Workloads) == 1, "workloads", "one", len(e.Workloads))
	must(len(e.Load.Scenarios) == 0, "load.scenarios", "left out: k6 keeps the number of users", len(e.Load.Scenarios))
	must(e.Signals.Late == 0, "signals.late", "left out", e.Signals.Late)
	must(len(e.Faults) == 0, "faults", "left out", len(e.Faults))
	must(e.Duration%time.Minute == 0, "duration", "whole minutes", e.Duration)
	for i := range e.Hosts {
		h, key := &e.Hosts[i], fmt.Sprintf("hosts[%d]", i)
		must(h.Name == fmt.Sprintf("pve%d", i+1), key+".name", fmt.Sprintf("pve%d", i+1), h.Name)
		must(h.CPU == hostCPU && h.Memory <= hostMemory, key, fmt.Sprintf("of %d vCPU and up to %s", hostCPU/pricing.Core, hostMemory), fmt.Sprintf("of %d and %s", h.CPU/pricing.Core, h.Memory))
	}
	for i := range e.Pools {
		p, key := &e.Pools[i], fmt.Sprintf("pools[%d]", i)
		must(p.Start == p.Min, key+".start", "min, which Plimsoll makes by itself", p.Start)
		must(p.Max <= 100, key+".max", "at most 100", p.Max)
	}
	for i := range e.Workloads {
		must(e.Workloads[i].Priority == 0, fmt.Sprintf("workloads[%d].priority", i), "left out", e.Workloads[i].Priority)
	}
	for i := range e.Policies {
		p := &e.Policies[i]
		must(!p.Clairvoyant, "policies "+p.Name, "without what knows the load to come", "clairvoyant")
	}
	return errors.Join(faults...)
}

// Run makes one run.
func (w *World) Run(ctx context.Context, e *testbed.Experiment, j *testbed.Job) (testbed.Trial, error) {
	out := testbed.Trial{
		Policy: j.Policy.Name, NodePolicy: j.Policy.Nodes.Policy, Users: j.Level.Users, Trial: j.Trial,
	}
	if j.Policy.Upstream() {
		out.NodePolicy = string(testbed.ScaledByClusterAutoscaler)
	}
	r, err := w.begin(ctx, e, j)
	if err != nil {
		return out, err
	}
	load, err := r.load(ctx)
	ended := r.end(context.WithoutCancel(ctx))
	if err := errors.Join(err, ended, r.lab.Down()); err != nil {
		return out, err
	}
	if err := r.scoreJournal(&out, load.Began); err != nil {
		return out, fmt.Errorf("journal: %w", err)
	}
	scoreLate(&out, load)
	return out, scoreLoad(&out, load, e.Workloads[0].SLO.Target)
}

// run is a run that goes on.
type run struct {
	*testbed.Experiment
	job      *testbed.Job
	lab      *lab.Lab
	pve      *machines.Part
	plane    *plane.Part
	client   client.Client
	plimsoll *product.Part
	upstream *upstream.Part // of rows whose machines cluster-autoscaler decides on
	folder   string
	program  string
}

// end ends what decides; the journal is whole then.
func (r *run) end(ctx context.Context) error {
	var err error
	if r.upstream != nil {
		err = r.lab.Stop(ctx, r.upstream.Name())
	}
	return errors.Join(err, r.lab.Stop(ctx, r.plimsoll.Name()))
}

// begin brings a lab up as the experiment begins: with its machines joined, its pods ready and nobody
// who sends requests.
func (w *World) begin(ctx context.Context, e *testbed.Experiment, j *testbed.Job) (*run, error) {
	r := &run{Experiment: e, job: j, program: w.Program}
	r.folder = filepath.Join(w.Folder, fmt.Sprintf("%s-%d-%d", j.Policy.Name, j.Level.Users, j.Trial))
	if err := os.MkdirAll(r.folder, 0o700); err != nil {
		return nil, err
	}
	cfg := w.Lab
	cfg.Data = r.folder
	r.pve, r.plane = r.proxmox(), &plane.Part{Seed: e.SeedOf(j), Every: e.Signals.MetricsEvery}
	cfg.Parts = []lab.Part{&lab.KWOK{PodStart: span(e.Delays.PodStart)}, &lab.Prometheus{}, r.pve, r.plane}
	l, err := lab.Up(ctx, cfg)
	if err != nil {
		return nil, err
	}
	r.lab = l
	if err := r.settle(ctx); err != nil {
		return nil, errors.Join(err, l.Down())
	}
	return r, nil
}

// load lets the users in until the trial is over.
func (r *run) load(ctx context.Context) (*k6.Summary, error) {
	program, err := r.lab.Tool(ctx, lab.ToolK6)
	if err != nil {
		return nil, err
	}
	if err := r.take(ctx); err != nil {
		return nil, err
	}
	w := &r.Workloads[0]
	namespace, name := names(w)
	return k6.Run(ctx, program, r.folder, k6.Load{
		URL:  fmt.Sprintf("%s/apps/%s/%s/", r.lab.Endpoint("plane", "apps"), namespace, name),
		Kind: k6.Kind(r.job.Load.Kind), Users: users(r.job), Rate: rate(r.job), Think: r.job.Load.Think, Spread: r.job.Load.Spread,
		Duration: r.job.Length, Target: w.SLO.Target, Quantile: float64(w.SLO.P),
	})
}

// inFlight is how many requests of an open load may be on their way for each that comes in a second.
const inFlight = 20

func users(j *testbed.Job) int {
	if j.Load.Kind == sim.Open {
		return inFlight * j.Level.Users
	}
	return j.Level.Users
}

func rate(j *testbed.Job) float64 {
	if j.Load.Kind == sim.Open {
		return float64(j.Level.Users)
	}
	return 0
}

// scoreLoad fills in what k6 tells of a run.
func scoreLoad(into *testbed.Trial, s *k6.Summary, target time.Duration) error {
	good, any := s.GoodFraction()
	if !any {
		return errors.New("k6: no request was answered")
	}
	if s.Dropped > 0 {
		return fmt.Errorf("k6: %d requests were not sent, for %d were on their way already for each a second", s.Dropped, inFlight)
	}
	into.Requests, into.Failed, into.GoodFraction = s.Requests, s.Failed, testbed.Rounded(good)
	into.P50Ms, into.P90Ms, into.P99Ms = testbed.Rounded(s.P50), testbed.Rounded(s.P90), testbed.Rounded(s.P99)
	for _, m := range s.Minutes {
		if m.Requests > 0 && m.Quantile > float64(target)/float64(time.Millisecond) {
			into.SLOViolationMinutes++
		}
	}
	return nil
}

// scoreLate fills in how late answers were, and warns if that is no small part of how long they took: then
// the machine was too slow for the load, or too busy with other things.
func scoreLate(into *testbed.Trial, s *k6.Summary) {
	if s.Late == nil || s.Served == nil {
		return
	}
	into.LateMs, into.ServedP90Ms = testbed.Rounded(s.Late.P90), testbed.Rounded(s.Served.P90)
	if s.Late.P90 > mostLate*s.P90 || s.Late.Mean > mostLate*s.P50 {
		into.Warning = fmt.Sprintf("answers were late by %.1f ms in the mean and by %.1f at the 90th percentile, which is over %g %% of what they took: the machine did not keep up with the lab",
			s.Late.Mean, s.Late.P90, 100*mostLate)
	}
}

// mostLate is the part of response times that answers may be late by.
const mostLate = 0.05

// scoreJournal fills in what the journal tells of a run.
func (r *run) scoreJournal(into *testbed.Trial, from time.Time) error {
	t, err := tallied(r.eachStep, from, from.Add(r.job.Length))
	if err != nil {
		return err
	}
	if r.upstream != nil {
		if err := t.onlyWatched(); err != nil {
			return err
		}
		t.moves = r.upstream.Evictions()
	}
	return t.put(into, r.Experiment, r.job)
}

// await asks again and again until something holds.
func await(ctx context.Context, what string, patience time.Duration, holds func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := holds(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %s: %w", what, patience, err)
		case <-time.After(250 * time.Millisecond):
		}
	}
}
