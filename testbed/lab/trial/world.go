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
	"github.com/plimsoll/plimsoll/testbed/live"
)

// World makes runs in labs, each in one of its own.
type World struct {
	// Program is the plimsoll that is tried.
	Program string
	// Folder is where every run leaves its lab's files, the journal and k6's summary, by the run's
	// name.
	Folder string
	// Lab has Cache, Checkout and Progress for the labs; all else of it is the run's.
	Lab lab.Config
}

var _ testbed.World = (*World)(nil)

// Name is lab.
func (*World) Name() string { return "lab" }

// Parallel is one run at a time: what two labs would do to one another's response times is no part
// of the experiment.
func (*World) Parallel() int { return 1 }

// The lab's hosts.
const (
	hostCPU    = 64 * pricing.Core
	hostMemory = 256 * pricing.GiB
)

// Check says what of an experiment cannot be in the lab.
func (*World) Check(e *testbed.Experiment) error {
	var faults pricing.Faults
	must := func(kept bool, key, rule string, was any) { faults.Must(kept, key, rule+" in the lab", was) }
	live.Check(e, must)
	for i := range e.Hosts {
		h, key := &e.Hosts[i], fmt.Sprintf("hosts[%d]", i)
		must(h.Name == fmt.Sprintf("pve%d", i+1), key+".name", fmt.Sprintf("pve%d", i+1), h.Name)
		must(h.CPU == hostCPU && h.Memory <= hostMemory, key, fmt.Sprintf("of %d vCPU and up to %s", hostCPU/pricing.Core, hostMemory), fmt.Sprintf("of %d and %s", h.CPU/pricing.Core, h.Memory))
	}
	for i := range e.Pools {
		must(e.Pools[i].Max <= 100, fmt.Sprintf("pools[%d].max", i), "at most 100", e.Pools[i].Max)
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
	if r.upstream != nil {
		out.PodMoves = r.upstream.Evictions()
	}
	return out, live.Score(&out, e, j, r.eachStep, load)
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

// begin brings a lab up as the experiment begins: with its machines joined, its pods ready and
// no one who sends requests.
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
	namespace, name := live.Names(&r.Workloads[0])
	url := fmt.Sprintf("%s/apps/%s/%s/", r.lab.Endpoint("plane", "apps"), namespace, name)
	return k6.Run(ctx, program, r.folder, live.Load(r.Experiment, r.job, url))
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
