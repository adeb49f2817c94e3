// Package operator runs Plimsoll in a cluster. It reads WorkloadAutoscalers, VMPools and
// PriceBooks, makes of them what the loop works on, lets the loop make its steps while it leads,
// and puts what came of each step back into the objects' statuses, into events and into metrics.
//
// A step is: read the objects (desk), configure loop, signals and fleet by them, let the loop
// observe, decide and act, and publish. What is wrong with an object becomes a condition of that
// object with a reason, and a hold: the rest goes on without it.
package operator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
)

// Operator runs Plimsoll in a cluster.
type Operator struct {
	cfg     Config
	synced  atomic.Bool
	leading atomic.Bool
	steps   int // the number of the last step of this process
}

// New makes an operator. It makes no request.
func New(cfg Config) (*Operator, error) {
	if _, err := nodepolicy.New(cfg.Nodes); cfg.NodeScaler && err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	return &Operator{cfg: cfg}, nil
}

// Ready is why the process is not ready, or nil: it sees the cluster, and leads or is a standby.
func (o *Operator) Ready() error {
	if !o.synced.Load() {
		return errors.New("the cluster has not been seen yet")
	}
	if o.cfg.Serve != nil && !o.leading.Load() {
		return errors.New("another process leads, and answers cluster-autoscaler and KEDA")
	}
	return o.cfg.Cluster.Fresh()
}

// Run runs until the context is done. A step that is under way is ended then, and the lead
// reclaimed.
func (o *Operator) Run(ctx context.Context) error {
	run, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	// The last step still needs the picture.
	watching, unwatch := context.WithCancel(context.WithoutCancel(ctx))
	var watch sync.WaitGroup
	defer watch.Wait()
	defer unwatch()
	watch.Go(func() {
		if err := o.cfg.Cluster.Run(watching); err != nil {
			fail(fmt.Errorf("cluster: %w", err))
		}
	})
	if err := o.cfg.Cluster.Synced(run); err != nil && run.Err() == nil {
		return fmt.Errorf("cluster: %w", err)
	}
	o.synced.Store(run.Err() == nil)
	for run.Err() == nil {
		if err := o.term(run, watching); err != nil {
			o.cfg.Log.Warn("does not lead any more", "why", err)
			rest(run)
		}
	}
	if err := context.Cause(run); ctx.Err() == nil {
		return err
	}
	return nil
}

// counted is the number that the next step's follows: of the last step in the journal, to which
// another process may have written meanwhile, or of this process. A journal that cannot be read
// holds up no step.
func (o *Operator) counted() int {
	if o.cfg.Counted == nil {
		return o.steps
	}
	n, err := o.cfg.Counted()
	if err != nil {
		o.cfg.Log.Warn("the journal cannot be read: ids of decisions may be in it already", "error", err)
	}
	return max(n, o.steps)
}

// rest waits a moment before it is tried again to lead.
func rest(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(2 * time.Second):
	}
}

// term waits for the lead and keeps it until it is lost, something fails without which there is
// nothing to do, or the program is to end. Who only waits then waits no more; who leads ends the
// step first.
func (o *Operator) term(run, watching context.Context) error {
	waiting, giveUp := context.WithCancel(watching)
	defer giveUp()
	defer context.AfterFunc(run, func() {
		if !o.leading.Load() {
			giveUp()
		}
	})()
	var why error
	err := o.cfg.Cluster.Lead(waiting, o.cfg.Identity, func(ctx context.Context) {
		o.leading.Store(true)
		o.cfg.Metrics.Leading(true)
		why = o.lead(ctx, run)
	})
	o.leading.Store(false)
	o.cfg.Metrics.Leading(false)
	return errors.Join(why, err)
}

// lead works while the context lasts and the program is to run, and returns why it could not go on.
func (o *Operator) lead(ctx, run context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	t := &term{Config: o.cfg, said: map[types.UID]any{}}
	if o.cfg.Fleet != nil {
		fleet, err := o.cfg.Fleet(ctx, end)
		if err != nil {
			return err
		}
		t.fleet = fleet
	}
	if err := t.begin(); err != nil {
		return err
	}
	t.memory.Steps = o.counted()
	defer func() { o.steps = t.memory.Steps }()
	var parts sync.WaitGroup
	part := func(do func() error) {
		parts.Go(func() {
			if err := do(); err != nil {
				end(err)
			}
		})
	}
	if t.fleet != nil {
		part(func() error { t.fleet.Run(ctx); return nil })
	}
	if o.cfg.Serve != nil {
		part(func() error { return o.cfg.Serve(ctx, t.fleet) })
	}
	t.run(ctx, run)
	t.price(nil, nil) // whoever leads next says what it costs
	end(nil)
	t.beside.Wait()
	t.trouble.tell(t.Log, errors.Join(t.statuses.failures()...), time.Now())
	parts.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// run makes steps until one of the contexts is done. A step is made by the first: it goes on when
// the second ends.
func (t *term) run(ctx, until context.Context) {
	var news <-chan struct{}
	if t.fleet != nil {
		news = t.fleet.News()
	}
	t.wait(ctx, until)
	t.measured = make(chan struct{}, 1)
	ticker := time.NewTicker(t.Interval)
	defer ticker.Stop()
	// a tick that comes with the end makes no step
	for woken := false; ctx.Err() == nil && until.Err() == nil; {
		// Without the monotonic reading, which no setting of the clock changes: by that no jump
		// would be seen, and times that others have written are measured by the clock.
		now := t.Now().Round(0)
		if !woken {
			now = t.onTime(now)
		}
		t.trouble.tell(t.Log, t.step(ctx, now), time.Now())
		woken = t.due(ctx, until, ticker.C, news)
	}
}

// due waits until a step is to be made, and reports whether something has woken it. At a tick the
// signals are measured, and the step is made once they are; steps that are woken meanwhile go by
// what was measured last. So none waits for a Prometheus that does not answer, and there is one
// between two ticks all the same.
func (t *term) due(ctx, until context.Context, tick <-chan time.Time, news <-chan struct{}) (woken bool) {
	for {
		select {
		case <-tick:
			if !t.PodScaler || t.measuring {
				return false
			}
			t.measuring = true
			now := t.Now().Round(0)
			t.beside.Go(func() {
				t.Signals.Prepare(ctx, now)
				t.measured <- struct{}{}
			})
		case <-t.measured:
			t.measuring = false
			return false
		case <-ctx.Done():
			return true
		case <-until.Done():
			return true
		case <-t.Cluster.Wake():
			return true
		case <-t.Cluster.Changed():
			return true
		case <-news:
			return true
		}
	}
}
