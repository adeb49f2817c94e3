package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/live"
	"github.com/plimsoll/plimsoll/testbed/loader"
	"github.com/plimsoll/plimsoll/testbed/rke2"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// World makes runs on a test bed that is up, one after the other.
type World struct {
	Site *rke2.Site
	// CA are the certificates that Proxmox VE is known by, if the site names a file with them.
	CA      []byte
	Cluster Cluster
	// Keep is the folder that a run's results are kept in, by the run's name, or that of all of
	// them.
	Keep     func(run string) rke2.Store
	Identity Identity
	// Report gets the progress, a line at a time.
	Report func(line string)

	cleared bool
}

var _ testbed.World = (*World)(nil)

// Name is rke2.
func (*World) Name() string { return "rke2" }

// Parallel is one run at a time: there is one test bed.
func (*World) Parallel() int { return 1 }

// Check says what of an experiment cannot be on the test bed, or that what is kept is of another.
func (w *World) Check(e *testbed.Experiment) error {
	var faults pricing.Faults
	must := func(kept bool, key, rule string, was any) { faults.Must(kept, key, rule+" on this test bed", was) }
	live.Check(e, must)
	must(len(e.Pools) == 1, "pools", "one, as there is one of workers", len(e.Pools))
	for i := range e.Pools {
		w.checkPool(&e.Pools[i], fmt.Sprintf("pools[%d]", i), must)
	}
	for i := range e.Workloads {
		key := fmt.Sprintf("workloads[%d]", i)
		checkWorkload(&e.Workloads[i], key, must)
		faults = append(faults, w.checkLoader(&e.Workloads[i], key))
	}
	if len(e.Workloads) > 0 {
		faults = append(faults, checkLoad(e))
	}
	for i := range e.Policies {
		p := &e.Policies[i]
		key := "policies " + p.Name
		must(p.Spares == 0, key+" spares", "omitted", p.Spares)
		if p.Upstream() {
			must(w.Site.ClusterAutoscaler() != "", key+" nodes.scaledBy", "Plimsoll, as the site's addons.plimsoll.nodes is not ClusterAutoscaler,", string(p.Nodes.ScaledBy))
			checkFlags(rowFlags(p.Nodes.Spec()), key+" nodes.unneeded", must)
		}
	}
	return errors.Join(append(faults, w.same())...)
}

// checkPool wants the workers to be what the experiment's machines are.
func (w *World) checkPool(p *testbed.Pool, key string, must live.Must) {
	have := &w.Site.Workers
	must(p.Max <= have.Max, key+".max", fmt.Sprintf("at most the site's workers.max, %d,", have.Max), p.Max)
	must(len(p.Labels) == 0, key+".labels", "omitted", p.Labels)
	must(len(p.Taints) == 0, key+".taints", "omitted", len(p.Taints))
	for i, s := range p.Shapes {
		at := shapeNamed(have.Shapes, s.Name)
		shape := fmt.Sprintf("%s.shapes[%d]", key, i)
		if at < 0 {
			must(false, shape+".name", "that of one of the site's workers.shapes", s.Name)
			continue
		}
		mine := have.Shapes[at]
		size := func(s pricing.Shape) string { return fmt.Sprintf("%s vCPU and %s", s.CPU, s.Memory) }
		// Proxmox VE has memory in whole MiB.
		must(mine.CPU == s.CPU && mine.Memory/pricing.MiB == s.Memory/pricing.MiB, shape, fmt.Sprintf("of the site's workers.shapes[%d], %s,", at, size(mine)), size(s))
	}
}

func checkWorkload(w *testbed.Workload, key string, must live.Must) {
	must(w.Demand.Tail == 0, key+".demand.tail", "omitted: the loader's requests are alike", w.Demand.Tail)
	must(len(w.Selector) == 0, key+".selector", "omitted", w.Selector)
	must(w.Grace >= 2*time.Second, key+".grace", "2s or more", w.Grace)
}

// checkLoader wants the loader to be able to do what the workload's pods do.
func (w *World) checkLoader(l *testbed.Workload, key string) error {
	c := loader.Config{Calibrate: l.Demand.Mean, Spread: float64(l.Demand.Spread), AtOnce: l.Concurrency, CallTimeout: time.Second}
	if digits := w.Site.Experiments().Digits; digits > 0 {
		c.Digits, c.Calibrate = digits, 0
	}
	if err := c.Validate(); err != nil {
		return fmt.Errorf("%s: the loader: %w", key, err)
	}
	return nil
}

// checkLoad wants k6 to be able to do what the users do.
func checkLoad(e *testbed.Experiment) error {
	var faults []error
	for _, n := range e.Load.Users {
		j := &testbed.Job{
			Level: testbed.Level{Users: n}, Length: e.Duration,
			Load: sim.Load{Kind: e.Load.Kind, Think: e.Load.Think, Spread: e.Load.Spread},
		}
		l := live.Load(e, j, "http://service/")
		if err := l.Validate(); err != nil {
			faults = append(faults, fmt.Errorf("load.users %d: k6: %w", n, err))
		}
	}
	return errors.Join(faults...)
}

// Run makes one run, unless it was made before.
func (w *World) Run(ctx context.Context, e *testbed.Experiment, j *testbed.Job) (testbed.Trial, error) {
	r, err := w.newRun(e, j)
	if err != nil {
		return testbed.Trial{}, err
	}
	done, err := finished(r.kept)
	if err != nil {
		return testbed.Trial{}, err
	}
	if done != nil {
		w.say("%s was made before", j)
		return *done, w.clearOnce(ctx, r)
	}
	if err := w.begin(); err != nil {
		return testbed.Trial{}, err
	}
	w.say("%s", j)
	return r.make(ctx)
}

func (w *World) say(format string, args ...any) { w.Report(fmt.Sprintf(format, args...)) }

// clearOnce takes away what a run has left that was ended when its result was kept. The result is
// as good without it.
func (w *World) clearOnce(ctx context.Context, r *run) error {
	if w.cleared {
		return nil
	}
	w.cleared = true
	if err := r.clear(ctx); err != nil {
		w.say("      what it has left in the cluster stays there: %v", err)
	}
	return ctx.Err()
}

// newRun is a run to be made. The workload is in the test bed's namespace.
func (w *World) newRun(e *testbed.Experiment, j *testbed.Job) (*run, error) {
	mine := *e
	mine.Workloads = append([]testbed.Workload(nil), e.Workloads...)
	settings := w.Site.Experiments()
	_, name := live.Names(&mine.Workloads[0])
	mine.Workloads[0].Name = settings.Namespace + "/" + name
	image, err := releaseImage()
	if err != nil {
		return nil, err
	}
	m := manifests{
		Experiment: &mine, world: w, job: j, settings: settings, image: cmp.Or(settings.Images.Plimsoll, image),
		attempt: fmt.Sprintf("%s-%d-%d-%x", j.Policy.Name, j.Level.Users, j.Trial, time.Now().UnixMilli()),
	}
	return &run{manifests: m, kept: w.Keep(fmt.Sprintf("%s-%d-%d", j.Policy.Name, j.Level.Users, j.Trial))}, nil
}
