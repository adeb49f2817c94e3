package loop

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// Codes of what a step itself has to say.
const (
	CodeClusterUnknown = "ClusterUnknown" // the cluster could not be read: nothing is decided
	// the machines could not be read: pods are scaled, machines are not
	CodeMachinesUnknown = "MachinesUnknown"
	CodeSignalsUnknown  = "SignalsUnknown" // a workload's signals could not be read
	CodeLooking         = "Looking"        // the first step after a start only looks
	CodeNoSuchWorkload  = "NoSuchWorkload" // a workload has no scale subresource to be found
	// an action would have broken an invariant and is not done
	CodePlanRefused   = "PlanRefused"
	CodeOrderLost     = "OrderLost"     // an accepted order never showed up among the machines
	CodeCostUnknown   = "CostUnknown"   // the ledger could not be kept
	CodePolicyInvalid = "PolicyInvalid" // a workload's policy cannot be made
)

// Decide is everything that is decided in a step, about pods and about machines: replicas first,
// the requests of pods, and machines for the pods that come of them. It is a function of its
// arguments: what was observed, what people want, and what is remembered, which it brings up to
// date.
func Decide(o *Observation, in *Intent, m *Memory) Step {
	m.steps++
	step := Step{ID: fmt.Sprintf("d-%06d", m.steps), Time: o.Time}
	if o.ClusterErr != nil {
		step.problem(CodeClusterUnknown, o.ClusterErr.Error())
		return step
	}
	d := &decider{o: o, in: in, Memory: m, step: &step, predictedOf: -1}
	d.see()
	d.consult = newConsult(o, &in.Consent, &m.asking)
	d.pods()
	d.sizes()
	d.machines()
	step.Asked = d.consult.end()
	step.Snapshot = &d.snap
	return step
}

// decider is one decision under way.
type decider struct {
	*Memory
	o    *Observation
	in   *Intent
	step *Step

	consult       *consult
	snap          nodescaler.Snapshot
	x             *nodescaler.Index // of snap, made once
	machinesKnown bool
	offered       []nodescaler.Pool // Intent.Offered, with what they refuse
	// The first sight of the cluster, and of the machines, is only looked at.
	newCluster, newMachines bool
	byWorkload              map[string][]int // indices into snap.Pods
	alive                   map[string]int   // pods that are there and stay, by workload
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
		Now: o.Time, Jumped: m.Jumped, Pools: withDaemons(in.planned(), cs.Daemons), Prices: m.prices, Limit: in.Limit, Quotas: in.Quotas,
		Nodes: nodescaler.WithDevices(cs.Nodes, slices.Concat(in.Pools, in.Offered)), Pods: cs.Pods, Budgets: cs.Budgets, Headroom: cs.Headroom,
	}
	if o.MachinesErr != nil {
		d.step.problem(CodeMachinesUnknown, o.MachinesErr.Error())
	} else {
		d.seeMachines()
	}
	d.index()
	m.gaps.see(o.Time, cs.Replicas, d.alive, cs.Failing)
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

// reprice lets machines cost what the book says from a moment on, if it is another one.
func (m *Memory) reprice(b *pricing.Book, at time.Time) error {
	if m.prices == nil || b != m.prices && !reflect.DeepEqual(b, m.prices) {
		if l := m.account.ledger; l != nil {
			if err := l.Reprice(b, at); err != nil {
				return err
			}
		}
		m.prices = b
	}
	return nil
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
	d.x = nodescaler.NewIndex(&d.snap)
	d.lost = lostNodes(d.x)
	d.byWorkload, d.alive = make(map[string][]int, len(d.o.Cluster.Replicas)), make(map[string]int, len(d.o.Cluster.Replicas))
	for i := range d.snap.Pods {
		p := &d.snap.Pods[i]
		if p.Workload == "" {
			continue
		}
		if d.byWorkload[p.Workload] = append(d.byWorkload[p.Workload], i); !p.Terminating && !p.Finished() {
			d.alive[p.Workload]++
		}
	}
	for i := range d.snap.Machines {
		m := &d.snap.Machines[i]
		if (m.Phase == nodescaler.Ordered || m.Phase == nodescaler.Booting) && !m.Kept() {
			d.booting++
		}
	}
}

// machines decides on machines, for the pods that were just decided on.
func (d *decider) machines() {
	if d.Nodes != nil && d.machinesKnown && !d.newMachines && !d.newCluster {
		d.rollouts()
		d.step.Plan = d.refuse(d.Nodes.Decide(d.x))
		d.step.Plan.Unplaced = d.unoffered(d.step.Plan.Unplaced)
		d.unplanned()
		d.consult.looked()
	}
	for i := range d.step.Plan.Actions {
		if why := d.later(&d.step.Plan.Actions[i]); why != nil {
			if d.step.Deferred == nil {
				d.step.Deferred = map[int]nodescaler.Reason{}
			}
			d.step.Deferred[i] = *why
		}
	}
	d.consult.plan(d.x, d.step)
	d.leaving()
	d.expectations()
}

// later says why an action of the plan is not done now, or nil. A pool that can be ordered from in
// a moment is planned for, so that nothing dearer is ordered meanwhile.
func (d *decider) later(a *nodescaler.Action) *nodescaler.Reason {
	held := d.in.held(a.Pool, a.Kind)
	if why, soon := d.o.Machines.Soon[a.Pool]; soon && held == nil && a.Kind.Grows() {
		held = &why
	}
	return held
}

// leaving chooses the pods that go first where a workload shrinks and the node policy wants whole
// machines emptied. None is a choice, too: an earlier one is forgotten by it.
func (d *decider) leaving() {
	e, is := d.Nodes.(nodescaler.Emptier)
	if !is || !e.Empties() || !d.machinesKnown {
		return
	}
	for i := range d.step.Workloads {
		ws := &d.step.Workloads[i]
		if ws.Decision == nil || ws.Decision.To >= ws.Decision.From || ws.Held != nil {
			continue
		}
		ws.Leaving = append([]string{}, nodescaler.Leaving(d.x, ws.Workload, ws.Decision.From-ws.Decision.To)...)
	}
}

// refuse leaves out of a plan what would break an invariant, and says so. What is left is
// looked at again: an eviction rests on the cordon before it.
func (d *decider) refuse(p nodescaler.Plan) nodescaler.Plan {
	for {
		bad := map[int]bool{}
		for _, v := range nodescaler.Check(d.x, p) {
			a := &p.Actions[v.Action]
			d.step.problem(CodePlanRefused, fmt.Sprintf("%s %s: %s: %s", a.Kind, cmp.Or(a.Pod, a.Machine, a.Node, a.Order), v.Code, v.Text))
			bad[v.Action] = true
		}
		if len(bad) == 0 {
			return p
		}
		kept := p.Actions[:0:0]
		for i, a := range p.Actions {
			if !bad[i] {
				kept = append(kept, a)
			}
		}
		p.Actions = kept
	}
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

func (s *Step) problem(code, text string) {
	s.Problems = append(s.Problems, nodescaler.Reason{Code: code, Text: text})
}
