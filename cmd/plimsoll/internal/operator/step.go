package operator

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/proxmox/pve"
)

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

// sweepEvery is how often orphans are looked for, which takes many calls.
const sweepEvery = 10 * time.Minute

// sweep looks for what is left over, and removes what has been so for long. What belongs to a pool
// that is held is spared. Of pools that cluster-autoscaler scales, which decides on their machines
// and nodes, discs go. It takes its time beside the loop.
func (t *term) sweep(ctx context.Context, d *desk, now time.Time) {
	if t.fleet == nil || now.Sub(t.swept).Abs() < sweepEvery {
		return
	}
	t.swept = now
	free, offered := map[string]bool{}, map[string]bool{}
	for _, p := range d.pools {
		free[p.object.Name] = t.NodeScaler && p.held == nil && !p.pause.on && p.tidies()
		offered[p.object.Name] = p.offered
	}
	t.beside.Go(func() {
		report, err := t.fleet.Collect(ctx, func(o pve.Orphan) bool {
			return !free[o.Pool] && !(offered[o.Pool] && o.Kind == pve.DiscWithoutMachine)
		})
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
