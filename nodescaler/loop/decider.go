package loop

import (
	"slices"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/approval"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// decider is one decision under way.
type decider struct {
	*Memory
	o    *Observation
	in   *Intent
	step *Step

	consult       *approval.Consult
	snap          nodescaler.Snapshot
	x             *nodescaler.Index // of snap, made once
	machinesKnown bool
	offered       []nodescaler.Pool // Intent.Offered, with what they refuse
	// The first sight of the cluster, and of the machines, is only looked at.
	newCluster, newMachines bool
	byWorkload              map[string][]int // indices into snap.Pods
	alive                   map[string]int   // pods that are there and stay, by workload
	unready                 map[string]bool  // some pod is not ready, or on its way out
	lost                    map[string]bool  // nodes
	booting                 int
	joined, all             pricing.Rate // what the joined machines cost now, and what all do
	// predicted is what pending pods still need, when so many kinds of future pods were known; -1
	// is not asked.
	predicted   pricing.Rate
	predictedOf int
}

// see puts what was observed into the snapshot, and has it remembered.
func (d *decider) see() {
	o, in, m := d.o, d.in, d.Memory
	if err := m.reprice(in.book(), o.Time); err != nil {
		d.step.problem(CodeCostUnknown, err.Error())
	}
	cs := &o.Cluster
	d.newCluster, m.looked = !m.looked, true
	d.snap = nodescaler.Snapshot{
		Now: o.Time, Jumped: m.Jumped, Pools: in.planned(), Prices: m.prices, Limit: in.Limit, Quotas: in.Quotas,
		Nodes: nodescaler.WithDevices(cs.Nodes, slices.Concat(in.Pools, in.Offered)), Pods: cs.Pods, Budgets: cs.Budgets, Headroom: cs.Headroom,
	}
	if o.MachinesErr != nil {
		d.step.problem(CodeMachinesUnknown, o.MachinesErr.Error())
	} else {
		d.seeMachines()
	}
	d.index()
	m.gaps.takeTurns(o.Time, cs.Ordered, cs.Replicas, d.alive)
	m.gaps.see(o.Time, d.coming(), d.alive, cs.Failing)
	m.helped.Mark(d.x)
	if len(in.Quotas) > 0 && d.machinesKnown {
		if d.newMachines && !m.recalled {
			m.ordered.recall(d.x)
			m.recalled = true
		}
		d.snap.Ordered = m.ordered.count(o.Time)
	}
	m.leads.see(&d.snap, d.machinesKnown)
	d.step.Observed = d.observed()
}

func (d *decider) seeMachines() {
	ms, m := &d.o.Machines, d.Memory
	d.machinesKnown, d.newMachines, m.listed = true, !m.listed, true
	d.snap.Hosts, d.snap.Machines = ms.Hosts, m.withOrders(ms.Machines, d.o.Time, d.step)
	m.refused.see(d.snap.Machines)
	d.offered = without(withDaemons(d.in.Offered, d.o.Cluster.Daemons), ms.Refused)
	d.snap.Pools = without(without(d.snap.Pools, ms.Refused), m.refused.now(d.o.Time))
	if err := m.account.see(m.prices, d.snap.Machines, d.o.Time); err != nil {
		d.step.problem(CodeCostUnknown, err.Error())
	}
	d.joined, d.all = rates(&d.snap)
}

// withDaemons returns the pools with what daemons take of their machines.
func withDaemons(pools []nodescaler.Pool, daemons func(*nodescaler.Pool) nodescaler.Daemons) []nodescaler.Pool {
	if daemons == nil {
		return pools
	}
	pools = slices.Clone(pools) // they are the owner's
	for i := range pools {
		pools[i].Daemons = daemons(&pools[i])
	}
	return pools
}

func (d *decider) index() {
	said, revisions := d.snap.Pools, d.o.Machines.Revisions
	d.snap.Pools = withDaemons(d.shown.onto(said, revisions), d.o.Cluster.Daemons)
	d.x = nodescaler.NewIndex(&d.snap)
	if d.machinesKnown {
		d.shown.see(d.x, said, revisions)
	}
	d.lost = lostNodes(d.x)
	d.byWorkload, d.alive = make(map[string][]int, len(d.o.Cluster.Replicas)), make(map[string]int, len(d.o.Cluster.Replicas))
	d.unready = map[string]bool{}
	for i := range d.snap.Pods {
		p := &d.snap.Pods[i]
		if p.Workload == "" {
			continue
		}
		if d.byWorkload[p.Workload] = append(d.byWorkload[p.Workload], i); !p.Terminating && !p.Finished() {
			d.alive[p.Workload]++
		}
		d.unready[p.Workload] = d.unready[p.Workload] || p.Terminating || !p.Ready
	}
	for i := range d.snap.Machines {
		m := &d.snap.Machines[i]
		if (m.Phase == nodescaler.Ordered || m.Phase == nodescaler.Booting) && !m.Kept() {
			d.booting++
		}
	}
}

// comes is how many of the replicas asked for can be pods now. A controller that makes them in
// order makes none while one is not ready, and then the next: those behind it are not late.
func (d *decider) comes(workload string, asked int) int {
	switch {
	case !d.o.Cluster.Ordered[workload]:
		return asked
	case d.unready[workload]:
		return min(asked, d.alive[workload])
	}
	return min(asked, d.alive[workload]+1)
}

// coming is how many replicas of each workload can be pods now.
func (d *decider) coming() map[string]int {
	all := make(map[string]int, len(d.o.Cluster.Replicas))
	for name, asked := range d.o.Cluster.Replicas {
		all[name] = d.comes(name, asked)
	}
	return all
}

// observed puts the snapshot into the few numbers that the record carries.
func (d *decider) observed() Observed {
	s := &d.snap
	o := Observed{Nodes: len(s.Nodes), Pods: len(s.Pods), Cost: Cost{Unit: s.Prices.Unit}}
	for i := range s.Pods {
		if s.Pods[i].Unschedulable {
			o.Pending++
		}
	}
	if !d.machinesKnown {
		return o
	}
	o.Machines = map[nodescaler.Phase]int{}
	for i := range s.Machines {
		o.Machines[s.Machines[i].Phase]++
	}
	o.Cost = Cost{
		Known: true, Unit: s.Prices.Unit, Joined: d.joined, Ordered: d.all,
		Spent: d.account.ledger.Between(d.account.started, s.Now),
	}
	return o
}

// cost is what a workload's policy sees of the money.
func (d *decider) cost(wl *podscaler.Workload) podscaler.Cost {
	if !d.machinesKnown {
		return podscaler.Cost{Why: "the machines could not be read"}
	}
	c := podscaler.Cost{Known: true, Joined: d.joined, Ordered: d.all, Predicted: d.all}
	if wl.Cost.Count == podscaler.CountPredicted {
		c.Predicted += d.predict()
	}
	if wl.Cost.Per > 0 {
		from, to := d.account.period(wl.Cost.Per, d.snap.Now)
		c.Spent, c.PeriodLeft = d.account.ledger.Between(from, d.snap.Now), to.Sub(d.snap.Now)
	}
	return c
}

// predict is what the machines will cost that are still needed. It plans for the whole cluster, so
// it is asked anew only once more pods are to come: workloads that stay as they are leave the
// answer as it is.
func (d *decider) predict() pricing.Rate {
	if d.predictedOf != len(d.snap.Future) {
		d.predicted, d.predictedOf = nodepolicy.Predict(d.x), len(d.snap.Future)
	}
	return d.predicted
}
