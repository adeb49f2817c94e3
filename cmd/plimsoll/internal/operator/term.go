package operator

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/notify"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/nodescaler/recording"
	"github.com/plimsoll/plimsoll/pricing"
)

// term is one term of leadership: what the loop remembers lasts as long.
type term struct {
	Config
	fleet    Fleet
	memory   loop.Memory
	prices   *pricing.Book     // of the last step
	readings readings          // of objects
	asks     asks              // of pods
	said     map[types.UID]any // the statuses of the last step: those that are read may be older
	statuses statuses
	prepared bool      // the signals were measured once
	ticks    time.Time // a tick, by which others are reckoned
	last     time.Time // of the last step
	began    time.Time // the last step, by the monotonic clock
	trouble  trouble
	alerts   notify.Alerts
	past     *histories

	// measuring is while the signals are measured for the next step; measured receives when they
	// were.
	measuring bool
	measured  chan struct{}

	beside sync.WaitGroup // what goes on while steps are made
	swept  time.Time      // orphans were last looked for
}

// begin forgets what the loop remembered, which makes it slower to shrink and never faster.
func (t *term) begin() error {
	t.memory, t.asks = loop.Memory{}, nil
	t.past = &histories{of: map[string]*history{}, log: t.Log}
	t.forget(recording.Nothing)
	if !t.NodeScaler {
		return nil
	}
	policy, err := nodepolicy.New(t.Nodes)
	t.memory.Nodes = policy
	return err
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

// wait waits for the picture of the cluster, which may be old when the lead comes back after the
// API server was away, but no longer than for a step: that says what is wrong.
func (t *term) wait(ctx, until context.Context) {
	ctx, cancel := context.WithTimeout(ctx, t.Interval)
	defer cancel()
	defer context.AfterFunc(until, cancel)()
	_ = t.Cluster.Synced(ctx)
}

// step makes one step.
func (t *term) step(ctx context.Context, now time.Time) error {
	began := time.Now()
	now, err := t.follow(now)
	if err != nil {
		return err
	}
	t.last, t.began = now, began
	ports := t.ports()
	o := ports.Observe(ctx, now)
	if t.fleet == nil {
		o.Machines = nodesAsMachines{}.of(o.Cluster.Nodes)
	}
	var d *desk
	if o.ClusterErr == nil {
		d, o.ClusterErr = t.read(ctx, &o)
	}
	var in loop.Intent
	if o.ClusterErr == nil {
		in = t.configure(ctx, d, &o)
		ports.Measure(ctx, &o, &in, &t.memory)
		t.past.read(ctx, t, now)
	}
	s := loop.Decide(&o, &in, &t.memory)
	if o.ClusterErr == nil && !in.DryRun {
		ports.Act(ctx, &s)
		t.memory.Learn(&s)
	}
	err = errors.Join(t.record(&o, &in, &s), s.Record(t.Journal))
	if err != nil && o.ClusterErr == nil {
		s.Problems = append(s.Problems, *because(CodeJournalNotWritten, "%v", err))
	}
	err = errors.Join(o.ClusterErr, err)
	t.price(&o, in.Pools)
	if o.ClusterErr == nil {
		err = errors.Join(err, t.report(ctx, d, &o, &s))
	}
	t.Metrics.step(&s, began, time.Now())
	return err
}

// forget notes in the recording what is remembered of the steps before.
func (t *term) forget(kept recording.Remembered) {
	if t.Recording == nil {
		return
	}
	var nodes *nodepolicy.Spec
	if t.NodeScaler {
		nodes = &t.Nodes
	}
	t.Recording.Forget(kept, nodes)
}

// record keeps a step and what it was decided by, if that is to be kept.
func (t *term) record(o *loop.Observation, in *loop.Intent, s *loop.Step) error {
	if t.Recording == nil {
		return nil
	}
	return t.Recording.Append(o, in, s)
}

// ports are what the step sees and acts through.
func (t *term) ports() *loop.Ports {
	p := &loop.Ports{Cluster: t.Cluster, Machines: nodesAsMachines{}, Signals: t.Signals, Uses: t.Containers, Approvals: t.Cluster.Approvals(), Histories: t.past}
	if t.fleet != nil {
		p.Machines = linked{t.fleet, t.Links}
	}
	return p
}

// report does what follows from a step, and says what came of it.
func (t *term) report(ctx context.Context, d *desk, o *loop.Observation, s *loop.Step) error {
	machines := &counted{state: o.Machines, err: o.MachinesErr, held: nodescaler.Holds(o.Machines.Machines, o.Cluster.Nodes), nodes: o.Cluster.Nodes}
	err := t.publish(context.WithoutCancel(ctx), d, s, machines)
	t.reportHeadroom(context.WithoutCancel(ctx), s)
	t.sweep(ctx, d, o.Time)
	t.Metrics.show(d, s, machines, t.said)
	return err
}

// price has costs worked out of what was seen, if all of it was.
func (t *term) price(o *loop.Observation, pools []nodescaler.Pool) {
	switch {
	case t.Costs == nil:
	case o == nil || o.ClusterErr != nil || o.MachinesErr != nil:
		t.Costs.Unknown()
	default:
		t.Costs.See(&nodescaler.Snapshot{
			Now: o.Time, Pools: pools, Hosts: o.Machines.Hosts, Machines: o.Machines.Machines,
			Nodes: o.Cluster.Nodes, Pods: o.Cluster.Pods, Budgets: o.Cluster.Budgets, Prices: t.prices,
		})
	}
}

// read puts the objects on the desk.
func (t *term) read(ctx context.Context, seen *loop.Observation) (*desk, error) {
	o := objects{readings: &t.readings}
	var errs [4]error
	o.books, errs[0] = t.Cluster.PriceBooks()
	if t.NodeScaler || t.Provider {
		o.pools, errs[1] = t.Cluster.Pools()
	}
	if t.PodScaler {
		o.autoscalers, errs[2] = t.Cluster.Autoscalers()
		o.targets, errs[3] = t.Cluster.Targets(ctx)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	o.requests = t.asks.see(seen.Cluster.Pods, o.autoscalers)
	t.recall(&o)
	return t.lay(o, seen.Time), nil
}

// configure makes signals and fleet work by the desk, and returns what the loop is to work by.
func (t *term) configure(ctx context.Context, d *desk, o *loop.Observation) loop.Intent {
	in := t.intent(d)
	t.prices = in.Prices
	if t.PodScaler {
		t.measure(ctx, d)
	}
	if t.fleet != nil {
		if err := t.fleet.Configure(d.usable(), in.Prices); err != nil {
			t.Log.Error("pools", "error", err) // CheckPools has let pass what Configure does not
		}
		t.fleet.Rest(d.resting())
		o.Machines.Soon = t.fleet.Unread() // what is ordered there now would be refused
		o.Machines.Refused = closed(o.Machines.Refused, t.fleet.Paused())
	}
	if t.Offer != nil {
		if err := t.Offer(d.offered(), in.Prices); err != nil {
			t.Log.Error("pools for cluster-autoscaler", "error", err)
		}
	}
	return in
}

// closed adds the pools that take no orders now to what is refused: what is planned for them would
// be refused at every step, even if another pool could serve the pods that wait.
func closed(refused map[string][]nodescaler.RefusedOrder, why map[string]nodescaler.Reason) map[string][]nodescaler.RefusedOrder {
	all := maps.Clone(refused) // others may be reading them
	if all == nil {
		all = map[string][]nodescaler.RefusedOrder{}
	}
	for pool, r := range why {
		all[pool] = slices.Concat([]nodescaler.RefusedOrder{{Why: r}}, all[pool])
	}
	return all
}

// measure has the workloads measured from now on as their objects say. Only the first step of all
// waits for that: without it, each would seem to have lost its signals where the lead changes.
func (t *term) measure(ctx context.Context, d *desk) {
	if err := t.Signals.Configure(d.sources()); err != nil {
		t.Log.Error("signals", "error", err) // resources has let pass what Configure does not
	}
	if !t.prepared {
		t.prepared = true
		t.Signals.Prepare(ctx, d.now)
	}
	for _, w := range d.workloads {
		w.findings = t.Signals.Findings(w.name)
	}
}
