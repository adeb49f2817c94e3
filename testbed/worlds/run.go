package worlds

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/plimsoll/plimsoll/testbed"
)

// Options say which worlds are drawn, and how they are run.
type Options struct {
	// From is the first seed. Each world takes the second next one after it, so that all are odd,
	// or all are even.
	From     uint64
	Count    int
	Policies []string // all without any
	Parallel int      // worlds at a time; 0 is one a processor
	Version  string
	// Progress hears of every world that is done, one call at a time.
	Progress func(testbed.Progress)
}

// World is what came of one.
type World struct {
	Seed  uint64  `json:"seed"`
	Title string  `json:"title"`
	Runs  []Score `json:"runs"`
}

// Score is what came of a policy in a world.
type Score struct {
	Policy      string         `json:"policy"`
	Requests    int            `json:"requests"`
	CostUnits   testbed.Number `json:"costUnits"`
	LateShare   testbed.Number `json:"lateShare"`
	FailedShare testbed.Number `json:"failedShare"`
	WorstMinute testbed.Number `json:"worstMinute"`
	OverMinutes testbed.Number `json:"overMinutes"`
	Orders      int            `json:"orders"`
	Thrash      int            `json:"thrash"`
}

// crew runs worlds side by side.
type crew struct {
	Options
	all []*testbed.Experiment

	lock     sync.Mutex
	progress testbed.Progress
}

// Run runs worlds, several at a time. What comes of a world depends on its seed alone. When ctx
// ends before all are done, or one fails, it returns those that are done along with the error.
func Run(ctx context.Context, o Options) (*Report, error) {
	c := &crew{Options: o}
	if err := c.draw(); err != nil {
		return nil, err
	}
	done := make([]*World, o.Count)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	queue := make(chan int)
	var workers sync.WaitGroup
	for range cmp.Or(o.Parallel, runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for i := range queue {
				w, err := c.run(ctx, c.all[i])
				if err != nil {
					stop(err)
				}
				done[i] = w
			}
		})
	}
	for i := 0; i < o.Count && ctx.Err() == nil; i++ {
		select {
		case queue <- i:
		case <-ctx.Done():
		}
	}
	close(queue)
	workers.Wait()
	r := &Report{From: o.From, Planned: o.Count, Version: o.Version}
	for _, w := range done {
		if w != nil {
			r.Worlds = append(r.Worlds, *w)
		}
	}
	r.sum()
	return r, context.Cause(ctx)
}

// draw makes all worlds, and says how many runs there will be.
func (c *crew) draw() error {
	for i := range c.Count {
		e, err := Draw(c.From + 2*uint64(i))
		if err != nil {
			return err
		}
		if len(c.Policies) > 0 {
			e.Policies = slices.DeleteFunc(e.Policies, func(p testbed.Policy) bool { return !slices.Contains(c.Policies, p.Name) })
		}
		c.all = append(c.all, e)
		c.progress.Total += len(e.Policies)
	}
	return nil
}

// run makes the runs of a world one after the other, as the worlds are side by side.
func (c *crew) run(ctx context.Context, e *testbed.Experiment) (*World, error) {
	r, err := testbed.Run(ctx, e, testbed.Options{Parallel: 1})
	if err != nil {
		return nil, fmt.Errorf("world %d: %w", e.Seed, err)
	}
	w := &World{Seed: e.Seed, Title: e.Title}
	requests := 0
	for i := range r.Runs {
		w.Runs = append(w.Runs, scored(&r.Runs[i]))
		requests += r.Runs[i].Requests
	}
	c.hear(len(r.Runs), requests)
	return w, nil
}

func scored(t *testbed.Trial) Score {
	return Score{t.Policy, t.Requests, t.CostUnits, t.LateShare, t.FailedShare, t.WorstMinute, t.OverMinutes, t.Orders, t.Thrash}
}

// hear notes that the runs of a world are done.
func (c *crew) hear(runs, requests int) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.progress.Done += runs
	c.progress.Requests += requests
	c.progress.Part = float64(c.progress.Done) / float64(c.progress.Total)
	if c.Progress != nil {
		c.Progress(c.progress)
	}
}
