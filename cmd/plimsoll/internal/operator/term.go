package operator

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/notify"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/podscaler"
	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
)

// term is one term of leadership: what the loop remembers lasts as long.
type term struct {
	Config
	fleet   Fleet
	runner  *loop.Runner
	scalers map[string]*kept
	said    map[types.UID]any // the statuses of the last step: those that are read may be older
	ticks   time.Time         // a tick, by which others are reckoned
	last    time.Time         // of the last step
	trouble trouble
	sizings map[string]*sizing
	sizedAt time.Time // the minute that containers were last looked at in
	alerts  notify.Alerts

	sweeping sync.WaitGroup
	swept    time.Time // orphans were last looked for
}

// kept is a scaler, and what it was made from.
type kept struct {
	workload podscaler.Workload
	spec     podpolicy.Spec
	scaler   *podscaler.Scaler
	warnings []podscaler.Reason
}

// begin makes the loop anew. What it knew is forgotten, which makes it slower to shrink and never faster.
func (t *term) begin() error {
	t.scalers, t.sizings = map[string]*kept{}, map[string]*sizing{}
	t.runner = &loop.Runner{
		Signals: t.Signals, Journal: t.Journal, Prices: pricing.DefaultBook(), Limit: t.Limit, Quotas: t.Quotas, Predict: nodepolicy.Predict, DryRun: !t.Active,
	}
	if !t.NodeScaler {
		return nil
	}
	policy, err := nodepolicy.New(t.Nodes)
	t.runner.Nodes = policy
	return err
}

// run makes steps until one of the contexts is done. A step is made by the first: it goes on when the
// second ends.
func (t *term) run(ctx, until context.Context) {
	var news <-chan struct{}
	if t.fleet != nil {
		news = t.fleet.News()
	}
	t.wait(ctx, until)
	ticker := time.NewTicker(t.Interval)
	defer ticker.Stop()
	for woken := false; ctx.Err() == nil && until.Err() == nil; { // a tick that comes with the end makes no step
		// Without the reading that goes on whatever the clock is set to: by that no jump would be seen, and
		// times that others have written are measured by the clock.
		now := t.Now().Round(0)
		if !woken {
			now = t.onTime(now)
		}
		t.trouble.tell(t.Log, t.step(ctx, now, woken), time.Now())
		woken = true
		select {
		case <-ctx.Done():
		case <-until.Done():
		case <-ticker.C:
			woken = false
		case <-t.Cluster.Wake():
		case <-t.Cluster.Changed():
		case <-news:
		}
	}
}

// wait waits for the picture of the cluster, which may be old when the lead comes back after the API server
// was away, but no longer than for a step: that tells what is wrong.
func (t *term) wait(ctx, until context.Context) {
	ctx, cancel := context.WithTimeout(ctx, t.Interval)
	defer cancel()
	defer context.AfterFunc(until, cancel)()
	_ = t.Cluster.Synced(ctx)
}

// step makes one step.
func (t *term) step(ctx context.Context, now time.Time, woken bool) error {
	began := time.Now()
	now, err := t.follow(now)
	if err != nil {
		return err
	}
	t.last = now
	machines := t.list(ctx)
	picture := t.observe(ctx)
	var d *desk
	if picture.err == nil {
		d, picture.err = t.read(ctx, picture, now)
	}
	if picture.err == nil {
		if t.fleet == nil {
			machines.state, machines.err = nodesAsMachines{picture.state.Nodes}.List(ctx)
		}
		machines.held = nodescaler.Holds(machines.state.Machines, picture.state.Nodes)
		t.configure(ctx, d, machines, woken)
	}
	t.runner.Cluster, t.runner.Machines = picture, machines
	s, err := t.runner.Once(ctx, now)
	if err != nil && picture.err == nil {
		s.Problems = append(s.Problems, *because(CodeJournalNotWritten, "%v", err))
	}
	t.price(picture, machines)
	if picture.err == nil {
		t.handOff(ctx, d, &s)
		t.size(ctx, d, picture.state.Pods)
		err = errors.Join(err, t.publish(context.WithoutCancel(ctx), d, &s, machines))
		t.sweep(ctx, d, now)
		t.Metrics.objects(d, &s, machines)
		t.Metrics.said(d, t.said)
		t.Metrics.sizes(d)
	}
	t.Metrics.step(&s, began, time.Now())
	return err
}

// price has costs worked out of what was seen, if all of it was.
func (t *term) price(c *seen, m *counted) {
	switch {
	case t.Costs == nil:
	case c == nil || c.err != nil || m.err != nil:
		t.Costs.Unknown()
	default:
		t.Costs.See(&nodescaler.Snapshot{
			Now: t.last, Pools: t.runner.Pools, Hosts: m.state.Hosts, Machines: m.state.Machines,
			Nodes: c.state.Nodes, Pods: c.state.Pods, Budgets: c.state.Budgets, Prices: t.runner.Prices,
		})
	}
}

// list asks which machines there are, and lets those who read nodes know.
func (t *term) list(ctx context.Context) *counted {
	if t.fleet == nil {
		return &counted{Machines: nodesAsMachines{}}
	}
	c := &counted{Machines: t.fleet}
	if c.state, c.err = t.fleet.List(ctx); c.err == nil && t.Links != nil {
		t.Links.learn(c.state.Machines)
	}
	return c
}

func (t *term) observe(ctx context.Context) *seen {
	s := &seen{Cluster: t.Cluster}
	s.state, s.err = t.Cluster.Observe(ctx)
	return s
}

// read puts the objects on the desk.
func (t *term) read(ctx context.Context, s *seen, now time.Time) (*desk, error) {
	var o objects
	var errs [4]error
	o.requests = requests(s.state.Pods)
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
	t.recall(&o)
	return t.lay(o, now), nil
}

// configure makes loop, signals and fleet work by the desk.
func (t *term) configure(ctx context.Context, d *desk, m *counted, woken bool) {
	r := t.runner
	r.Pools, r.Scalers, r.ScaledToZero = d.words(), t.keep(d), d.scaledToZero()
	r.Offered, r.HandedOff = d.others(), t.Active && t.HandOff.Used()
	r.Holds, r.HoldsUp, r.HoldsDown = d.holds(m.state.Machines)
	r.Pauses = d.pauses()
	prices := d.prices
	if prices == nil {
		prices = pricing.DefaultBook()
	}
	if !reflect.DeepEqual(prices, r.Prices) {
		if err := r.Reprice(prices, d.now); err != nil {
			t.Log.Warn("prices", "error", err)
		}
	}
	if t.PodScaler {
		t.measure(ctx, d, woken)
	}
	if t.fleet != nil {
		if err := t.fleet.Configure(d.usable(), prices); err != nil {
			t.Log.Error("pools", "error", err) // CheckPools has let pass what Configure does not
		}
		r.Soon = t.fleet.Unread() // what is ordered there now would be refused
		shut := t.fleet.Paused()
		r.Pools, r.Offered = closed(r.Pools, shut), closed(r.Offered, shut)
	}
	if t.Offer != nil {
		if err := t.Offer(d.offered(), prices); err != nil {
			t.Log.Error("pools for cluster-autoscaler", "error", err)
		}
	}
}

// closed are the pools, those marked that take no orders now: what is planned for them would be refused at every
// step, whatever another pool could do for the pods that wait.
func closed(pools []nodescaler.Pool, why map[string]nodescaler.Reason) []nodescaler.Pool {
	pools = slices.Clone(pools) // others may be reading them
	for i := range pools {
		if r, shut := why[pools[i].Name]; shut {
			pools[i].Closed = &r
		}
	}
	return pools
}

// measure has the signals measured. A step that something has woken goes by what was measured last: it
// is made for a pod that waits, or for an object that was changed, and neither waits for a Prometheus
// that does not answer.
func (t *term) measure(ctx context.Context, d *desk, woken bool) {
	if err := t.Signals.Configure(d.sources()); err != nil {
		t.Log.Error("signals", "error", err) // resources has let pass what Configure does not
	}
	if !woken {
		t.Signals.Prepare(ctx, d.now)
	}
	for _, w := range d.workloads {
		w.findings = t.Signals.Findings(w.name)
	}
}

// keep returns the scalers of all workloads: the one that there was, where nothing has changed for it.
func (t *term) keep(d *desk) []*podscaler.Scaler {
	var all []*podscaler.Scaler
	there := map[string]*kept{}
	for _, w := range d.workloads {
		if w.invalid != nil {
			continue
		}
		k := t.scalers[w.name]
		if w.words.Pod == (pricing.Resources{}) && k != nil {
			w.words.Pod = k.workload.Pod // there is no pod to ask
		}
		if k == nil || !reflect.DeepEqual(k.workload, w.words) || !reflect.DeepEqual(k.spec, w.policy) {
			policy, err := podpolicy.New(w.policy)
			if err != nil { // resources has asked it already
				t.Log.Error("policy", "workload", w.name, "error", err)
				continue
			}
			k = &kept{w.words, w.policy, podscaler.NewScaler(w.words, policy), podpolicy.Warnings(&w.words, policy)}
		}
		there[w.name], w.warnings = k, k.warnings
		all = append(all, k.scaler)
	}
	t.scalers = there
	return all
}
