package hpaplus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/plimsoll/plimsoll/testbed"
)

// Options change what of an experiment is run, and how. Zero values leave it as its file says.
type Options struct {
	Traces []Source // in place of the file's
	Rows   []string // of the file's
	Trials int
	Seed   *uint64
	// Parallel is how many traces are worked on at a time; 0 is one a processor.
	Parallel int
	Version  string
	// Clock says how long training takes; nil leaves it unknown.
	Clock func() time.Duration
	// Progress hears of every trace that is done with, one call at a time.
	Progress func(testbed.Progress)
}

// flags are the options as they are given on a command line.
func (o *Options) flags() []string {
	var out []string
	for _, s := range o.Traces {
		out = append(out, "--trace", s.Given)
	}
	if len(o.Rows) > 0 {
		out = append(out, "--policies", strings.Join(o.Rows, ","))
	}
	if o.Trials > 0 {
		out = append(out, "--trials", strconv.Itoa(o.Trials))
	}
	if o.Seed != nil {
		out = append(out, "--seed", strconv.FormatUint(*o.Seed, 10))
	}
	return out
}

// With returns the experiment as the options change it. What others are set against stays in.
func (e *Experiment) With(o Options) (*Experiment, error) {
	out := *e
	var f testbed.Faults
	f.Must(o.Trials >= 0, "trials", "must be at least 1", o.Trials)
	f.Must(o.Parallel >= 0, "parallel", "must be at least 1", o.Parallel)
	out.Trials = cmp.Or(o.Trials, e.Trials)
	if o.Seed != nil {
		out.Seed = *o.Seed
	}
	if len(o.Rows) > 0 {
		known := e.RowNames()
		for _, row := range o.Rows {
			f.OneOf("policies", row, known)
		}
		out.Replay.Rows = slices.DeleteFunc(known, func(row string) bool {
			return !slices.Contains(o.Rows, row) && !slices.Contains(e.Replay.Against, row)
		})
	}
	minutes := (e.Replay.Train + e.Replay.Test) * minutesADay
	for i, s := range o.Traces {
		again := slices.ContainsFunc(o.Traces[:i], func(other Source) bool { return other.Name == s.Name })
		f.Must(!again, "trace", "must be there once", s.Given)
		if s.trace != nil {
			f.Must(len(s.trace.Counts) >= minutes, "trace", fmt.Sprintf("must have %d days from its first on, %d to train and %d to test, as %s has them",
				e.Replay.Train+e.Replay.Test, e.Replay.Train, e.Replay.Test, e.Name), s.Given)
		}
	}
	return &out, errors.Join(f...)
}

// Run runs the experiment. When ctx ends before it, Run returns what has been done by then along
// with the error.
func Run(ctx context.Context, e *Experiment, o Options) (*Results, error) {
	e, err := e.With(o)
	if err != nil {
		return nil, err
	}
	r := &Results{Header: Header{
		Experiment: e.Name, World: World, Seed: e.Seed, Version: o.Version, Compare: e.Replay.Compare,
		Trials: e.Trials, Own: len(o.Traces) == 0, Options: o.flags(),
	}}
	sources := o.Traces
	if r.Own {
		for _, name := range e.Replay.Traces {
			sources = append(sources, shipped(name))
		}
	}
	var jobs []*job
	for _, s := range sources {
		r.Traces = append(r.Traces, s.Name)
		for trial := range s.trials(e) {
			jobs = append(jobs, &job{Experiment: e, source: s, trial: trial + 1, clock: o.Clock})
		}
	}
	c := crew{jobs: jobs, hears: o.Progress, progress: testbed.Progress{Total: len(jobs)}}
	r.Planned = len(jobs)
	err = c.work(ctx, cmp.Or(o.Parallel, runtime.GOMAXPROCS(0)))
	for _, j := range jobs {
		r.Runs, r.Times = append(r.Runs, j.runs...), append(r.Times, j.times...)
	}
	if len(r.Runs) == 0 && err != nil {
		return nil, err
	}
	r.Done = c.progress.Done
	r.sum()
	return r, err
}

// crew works on jobs side by side. What comes of a job depends on it alone and stays with it, so
// that the order in which they end does not show.
type crew struct {
	jobs  []*job
	hears func(testbed.Progress)

	lock     sync.Mutex
	progress testbed.Progress
}

func (c *crew) work(ctx context.Context, parallel int) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	queue := make(chan *job)
	var workers sync.WaitGroup
	for range parallel {
		workers.Go(func() {
			for j := range queue {
				if err := j.do(ctx); err != nil {
					stop(fmt.Errorf("%s, trial %d: %w", j.source.Name, j.trial, err))
					continue
				}
				c.report(j)
			}
		})
	}
	for _, j := range c.jobs {
		select {
		case queue <- j:
		case <-ctx.Done():
		}
	}
	close(queue)
	workers.Wait()
	return context.Cause(ctx)
}

func (c *crew) report(j *job) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.progress.Done++
	for i := range j.runs {
		c.progress.Requests += j.runs[i].requests
	}
	c.progress.Part = float64(c.progress.Done) / float64(len(c.jobs))
	if c.hears != nil {
		c.hears(c.progress)
	}
}
