package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/nodescaler/recording"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/signals"
	"github.com/plimsoll/plimsoll/pricing"
)

// Config is what an operator is made of.
type Config struct {
	Cluster Cluster
	// Admission says that this process sets what pods request as they are created.
	Admission bool
	// Identity names this process among those that may lead.
	Identity string
	// PodScaler, NodeScaler and Provider are what of the product runs.
	PodScaler, NodeScaler, Provider bool
	// Active does what is decided, for objects that say so themselves. Otherwise nothing is written
	// but statuses and events.
	Active bool
	// PriceBook is the name of the book that machines are priced by.
	PriceBook string
	// Interval is the time between two steps, unless something happens.
	Interval time.Duration
	// Nodes is the policy for all pools.
	Nodes nodepolicy.Spec
	// HandOff is how replicas that are expected are made known to whoever orders machines in our
	// place.
	HandOff kube.HandOff
	// Limit is what all machines together may cost an hour, in the price book's currency; 0 is no
	// limit.
	Limit pricing.Rate
	// Quotas are what namespaces may take of the machines.
	Quotas  []nodescaler.Quota
	Signals Signals
	// Containers are what each pod's containers were last measured to use, by namespace/name; nil
	// leaves it unknown.
	Containers func() map[string][]podscaler.ContainerUse
	Journal    loop.Journal // nil keeps none
	// Counted reads the number of the last step from where the journal is kept; nil begins at the
	// first.
	Counted func() (int, error)
	// Recording is given what every step was decided by, so that it can be decided again; nil is
	// not.
	Recording Recording
	// Fleet makes the fleet of one term of leadership. It is given what to call when another leads
	// by now. Nil makes no machines.
	Fleet func(ctx context.Context, fenced func(error)) (Fleet, error)
	// Links learn which machines there are, for readers of nodes.
	Links *Links
	// ReadFile reads the files that join profiles name.
	ReadFile func(name string) ([]byte, error)
	// Serve runs beside the loop while this process leads, as the provider's server does; nil is
	// nothing.
	Serve func(ctx context.Context, f Fleet) error
	// Offer receives before every step which pools cluster-autoscaler may have, and what machines
	// cost; nil hands out none.
	Offer   func(pools []nodescaler.Pool, prices *pricing.Book) error
	Metrics *Metrics
	// Costs receives what every step saw, or that nothing was seen; nil receives neither.
	Costs Costs
	// Notify notifies people of what happens to the objects; nil does not.
	Notify Notifier
	Now    func() time.Time
	Log    *slog.Logger
}

// Signals measures workloads; signals.Reader does.
type Signals interface {
	loop.Signals
	// Configure says how each workload is measured from now on.
	Configure(sources map[string]signals.Source) error
	// Prepare measures them all.
	Prepare(ctx context.Context, now time.Time)
	// Recall reads what came of requests before now, and hands over each workload's history, or why
	// it has none. A workload of which neither is said is to be asked for again.
	Recall(ctx context.Context, now time.Time, lacks map[string]podscaler.Lack, got func(workload string, h *podscaler.History, err error))
	// Findings are what was amiss with a workload's signals then.
	Findings(workload string) []podscaler.Reason
}

// Recording keeps what steps were decided by; recording.Recorder does.
type Recording interface {
	Forget(kept recording.Remembered, nodes *nodepolicy.Spec)
	Append(o *loop.Observation, in *loop.Intent, s *loop.Step) error
}

// Costs works out what the cluster costs; costs.Exporter does. Snapshots are only to be read.
type Costs interface {
	See(s *nodescaler.Snapshot)
	Unknown()
}

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
