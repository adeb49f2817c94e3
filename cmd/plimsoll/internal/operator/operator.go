package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/notify"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/podscaler"
	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/podscaler/signals"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/pve"
)

// Config is what an operator is made of.
type Config struct {
	Cluster Cluster
	// Identity names this process among those that may lead.
	Identity string
	// PodScaler, NodeScaler and Provider are what of the product runs.
	PodScaler, NodeScaler, Provider bool
	// Active does what is decided, for objects that say so themselves. Otherwise nothing is written but
	// statuses and events.
	Active bool
	// PriceBook is the name of the book that machines are priced by.
	PriceBook string
	// Interval is the time between two steps, unless something happens.
	Interval time.Duration
	// Nodes is the policy for all pools.
	Nodes   nodepolicy.Spec
	Signals Signals
	// Containers are what each pod's containers were last measured to use, by namespace/name; nil leaves
	// it unknown.
	Containers func() map[string][]signals.ContainerUse
	Journal    loop.Journal // nil keeps none
	// Fleet makes the fleet of one term of leadership. It is given what to call when another leads by
	// now. Nil makes no machines.
	Fleet func(ctx context.Context, fenced func(error)) (Fleet, error)
	// Links are told which machines there are; whoever reads nodes asks them.
	Links *Links
	// ReadFile reads the files that join profiles name.
	ReadFile func(name string) ([]byte, error)
	// Serve runs beside the loop while this process leads, as the provider's server does; nil is nothing.
	Serve func(ctx context.Context, f Fleet) error
	// Offer is told before every step which pools cluster-autoscaler may have, and what machines cost; nil
	// is not.
	Offer   func(pools []nodescaler.Pool, prices *pricing.Book) error
	Metrics *Metrics
	// Costs is shown what every step saw, and told when nothing was seen; nil is nobody.
	Costs Costs
	// Notify tells people what happens to the objects; nil tells nobody.
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
	// Findings are what was amiss with a workload's signals then.
	Findings(workload string) []podscaler.Reason
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
}

// New makes an operator. It makes no request.
func New(cfg Config) (*Operator, error) {
	if _, err := nodepolicy.New(cfg.Nodes); cfg.NodeScaler && err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	return &Operator{cfg: cfg}, nil
}

// Ready is why the process is not ready, or nil: it sees the cluster, and leads or stands by.
func (o *Operator) Ready() error {
	if !o.synced.Load() {
		return errors.New("the cluster has not been seen yet")
	}
	if o.cfg.Serve != nil && !o.leading.Load() {
		return errors.New("another process leads, and serves cluster-autoscaler")
	}
	return o.cfg.Cluster.Fresh()
}

// Run runs until the context is done. A step that is under way is ended then, and the lead given back.
func (o *Operator) Run(ctx context.Context) error {
	run, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	watching, unwatch := context.WithCancel(context.WithoutCancel(ctx)) // the last step still needs the picture
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

// rest waits a moment before it is tried again to lead.
func rest(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(2 * time.Second):
	}
}

// term waits for the lead and keeps it until it is lost, something fails without which there is nothing
// to do, or the program is to end. Who only waits then waits no more; who leads ends the step first.
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
	t.sweeping.Wait()
	parts.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

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
		Signals: t.Signals, Journal: t.Journal, Prices: pricing.DefaultBook(), Predict: nodepolicy.Predict, DryRun: !t.Active,
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

// onTime is the time of a step that the ticker calls for: the tick's own, if the clock is near it. Periods
// are whole numbers of ticks. By the clock every other one of them would not be over yet at the tick that
// it ends at, for want of a fraction of a millisecond, and last a tick longer. After a step that is nowhere
// near a tick, the first or a late one, or when the clock was set, ticks are reckoned from there.
func (t *term) onTime(now time.Time) time.Time {
	tick := t.ticks.Add(now.Sub(t.ticks).Round(t.Interval))
	switch {
	case now.Sub(tick).Abs() > min(t.Interval/10, nearTick):
		t.ticks = now
	case tick.After(t.last):
		return tick
	}
	return now
}

// nearTick is how far from its tick a step may be and still go by it.
const nearTick = 500 * time.Millisecond

// trouble is what went wrong with steps. What goes on for long is told now and then, not at every step.
type trouble struct {
	what string
	at   time.Time
}

// tellEvery is how often the same trouble is told.
const tellEvery = time.Minute

var digits = regexp.MustCompile(`[0-9]+`)

func (t *trouble) tell(log *slog.Logger, err error, now time.Time) {
	what := ""
	if err != nil {
		what = digits.ReplaceAllString(err.Error(), "")
	}
	switch {
	case err == nil && t.what != "":
		log.Info("steps are made again")
	case err != nil && (what != t.what || now.Sub(t.at) >= tellEvery):
		log.Warn("step", "error", err)
		t.at = now
	}
	t.what = what
}

// jumped reports whether the clock was put forward or back since the last step. By windows and cool-downs
// that such a clock measures, somebody's replicas would be taken too soon, or none given for long.
func (t *term) jumped(now time.Time) bool {
	gap := now.Sub(t.last)
	return !t.last.IsZero() && (gap < -nearTick || gap > max(10*t.Interval, 2*time.Minute))
}

// follow is the time of the step that follows the last: not before it, though that may have gone by a tick
// that the clock had not quite come to. What is remembered does not outlive a clock that jumps.
func (t *term) follow(now time.Time) (time.Time, error) {
	switch {
	case t.jumped(now):
		t.Log.Warn("the clock has jumped: what was remembered is forgotten", "from", t.last, "to", now)
		return now, t.begin()
	case now.Before(t.last):
		return t.last, nil
	}
	return now, nil
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
		t.configure(ctx, d, machines, woken)
	}
	t.runner.Cluster, t.runner.Machines = picture, machines
	s, err := t.runner.Once(ctx, now)
	if err != nil && picture.err == nil {
		s.Problems = append(s.Problems, *because(CodeJournalNotWritten, "%v", err))
	}
	t.price(picture, machines)
	if picture.err == nil {
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
	r.Holds, r.HoldsUp, r.HoldsDown = d.holds(m.state.Machines)
	r.Pauses = d.pauses()
	if pools := r.Pools; t.Links != nil {
		t.Links.pools.Store(&pools)
	}
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
		maps.Copy(r.HoldsUp, t.fleet.Unread()) // what is ordered there now would be refused
	}
	if t.Offer != nil {
		if err := t.Offer(d.offered(), prices); err != nil {
			t.Log.Error("pools for cluster-autoscaler", "error", err)
		}
	}
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

// recall gives the objects the statuses that were last stated, where they were: what is read of them
// may be older, and mere numbers are not written every time.
func (t *term) recall(o *objects) {
	said := map[types.UID]any{}
	for i, a := range o.autoscalers {
		if st, ok := t.said[a.UID].(v1alpha1.WorkloadAutoscalerStatus); ok {
			c := *a
			c.Status, o.autoscalers[i], said[a.UID] = st, &c, st
		}
	}
	for i, p := range o.pools {
		if st, ok := t.said[p.UID].(v1alpha1.VMPoolStatus); ok {
			c := *p
			c.Status, o.pools[i], said[p.UID] = st, &c, st
		}
	}
	for i, b := range o.books {
		if st, ok := t.said[b.UID].(v1alpha1.PriceBookStatus); ok {
			c := *b
			c.Status, o.books[i], said[b.UID] = st, &c, st
		}
	}
	t.said = said
}

// statement is what is to be said of an object.
type statement struct {
	about  client.Object // with its status
	status any
	events []kube.Event
}

// publish writes statuses and events.
func (t *term) publish(ctx context.Context, d *desk, s *loop.Step, m *counted) error {
	all := t.statements(d, s, m)
	errs := t.state(ctx, all)
	for i, o := range all {
		t.said[o.about.GetUID()] = o.status
		if errs[i] != nil {
			s.Problems = append(s.Problems, *because(CodeStatusNotWritten, "%s %s: %v", kindOf(o.about), o.about.GetName(), errs[i]))
		}
		for _, e := range o.events {
			t.Cluster.Tell(o.about, e)
		}
	}
	return errors.Join(errs...)
}

// statements are what is to be said of every object after a step.
func (t *term) statements(d *desk, s *loop.Step, m *counted) []statement {
	var all []statement
	for _, w := range d.workloads {
		o := *w.object
		o.Status = w.status(s)
		events := w.events(s, &o.Status)
		t.noticeWorkload(w, &o.Status, events)
		all = append(all, statement{&o, o.Status, append(events, t.unheard(w)...)})
	}
	f := t.floor(m)
	for _, p := range d.pools {
		o := *p.object
		o.Status = p.status(s, f)
		t.noticePool(p, &o.Status)
		all = append(all, statement{&o, o.Status, p.events(s, &o.Status)})
	}
	for _, b := range d.books {
		o := *b.object
		o.Status = b.status(d)
		all = append(all, statement{&o, o.Status, b.events(&o.Status)})
	}
	t.forgetAlerts(d)
	return all
}

// writers is how many statuses are written at once. One after the other, those of some hundred objects
// would keep the next step waiting for longer than all the rest of this one took.
const writers = 8

// state writes the statuses, and returns what went wrong with each.
func (t *term) state(ctx context.Context, all []statement) []error {
	errs := make([]error, len(all))
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(writers, len(all)) {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(all); i = int(next.Add(1)) - 1 {
				errs[i] = t.Cluster.SetStatus(ctx, all[i].about)
			}
		})
	}
	group.Wait()
	return errs
}

func kindOf(o client.Object) string {
	switch o.(type) {
	case *v1alpha1.WorkloadAutoscaler:
		return v1alpha1.KindWorkloadAutoscaler
	case *v1alpha1.VMPool:
		return v1alpha1.KindVMPool
	}
	return v1alpha1.KindPriceBook
}

func (t *term) floor(m *counted) *floor {
	f := &floor{known: m.err == nil, machines: m.state.Machines, prices: t.runner.Prices}
	if m.err != nil {
		f.why = m.err.Error()
	}
	if t.fleet != nil {
		f.paused = t.fleet.Paused()
	}
	return f
}

// sweepEvery is how often orphans are looked for, which takes many calls.
const sweepEvery = 10 * time.Minute

// sweep looks for what is left over, and removes what has been so for long. What belongs to a pool that
// is held is spared. It takes its time beside the loop.
func (t *term) sweep(ctx context.Context, d *desk, now time.Time) {
	if t.fleet == nil || !t.NodeScaler || now.Sub(t.swept).Abs() < sweepEvery {
		return
	}
	t.swept = now
	free := map[string]bool{}
	for _, p := range d.pools {
		free[p.object.Name] = p.held == nil && !p.pause.on
	}
	t.sweeping.Go(func() {
		report, err := t.fleet.Collect(ctx, func(o pve.Orphan) bool { return !free[o.Pool] })
		if err != nil {
			t.Log.Warn("orphans", "error", err)
			return
		}
		t.Metrics.left(&report)
		for _, o := range report.Orphans {
			t.Log.Info("left over", "kind", o.Kind, "name", o.Name, "host", o.Host, "why", o.Text, "since", o.Noticed, "due", o.Due)
		}
	})
}
