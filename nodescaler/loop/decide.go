package loop

import (
	"cmp"
	"fmt"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/approval"
)

// Decide is everything that is decided in a step, about pods and about machines: replicas first,
// the requests of pods, and machines for the pods that come of them. It is a function of its
// arguments: what was observed, what people want, and what is remembered, which it brings up to
// date.
func Decide(o *Observation, in *Intent, m *Memory) Step {
	m.Steps++
	step := Step{ID: fmt.Sprintf("d-%06d", m.Steps), Time: o.Time}
	if o.ClusterErr != nil {
		step.problem(CodeClusterUnknown, o.ClusterErr.Error())
		return step
	}
	d := &decider{o: o, in: in, Memory: m, step: &step, predictedOf: -1}
	d.see()
	d.consult = approval.New(&approval.Seen{
		Time: o.Time, Proposals: o.Cluster.Proposals, Machines: o.Machines.Machines, MachinesKnown: o.MachinesErr == nil,
	}, &in.Consent, &m.asking)
	d.scalePods()
	d.sizes()
	d.planMachines()
	step.Asked = d.consult.End()
	step.Snapshot = &d.snap
	return step
}

// planMachines decides on machines, for the pods that were just decided on.
func (d *decider) planMachines() {
	if d.Nodes != nil && d.machinesKnown && !d.newMachines && !d.newCluster {
		d.rollouts()
		d.step.Plan = d.refuse(d.Nodes.Decide(d.x))
		d.step.Plan.Unplaced = d.unoffered(d.step.Plan.Unplaced)
		d.unplanned()
		d.consult.Looked()
	}
	for i := range d.step.Plan.Actions {
		if why := d.later(&d.step.Plan.Actions[i]); why != nil {
			if d.step.Deferred == nil {
				d.step.Deferred = map[int]nodescaler.Reason{}
			}
			d.step.Deferred[i] = *why
		}
	}
	d.step.Deferred = d.consult.Plan(d.x, &d.step.Plan, d.step.Deferred)
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

// rollouts decides how far the rollouts of pools are whose drifted machines are replaced. What
// machines are ordered and drained for it is the node policy's to say, which goes by this.
func (d *decider) rollouts() {
	var missed []nodescaler.Missed
	for i := range d.in.Workloads {
		if w := &d.in.Workloads[i]; !w.Missed.IsZero() {
			missed = append(missed, nodescaler.Missed{Workload: w.Name, Since: w.Missed})
		}
	}
	for i := range d.x.Pools {
		p := d.x.Pools[i].Pool // the one that policies see
		if p.Disruption.Drift != nodescaler.DriftReplace || p.Rolling.Revision == "" {
			continue
		}
		p.Rolling.Compared = d.o.Machines.Revisions[p.Name]
		p.Rolling.Now = d.x.Roll(p, missed)
		if d.step.Rollouts == nil {
			d.step.Rollouts = map[string]nodescaler.Rolled{}
		}
		d.step.Rollouts[p.Name] = p.Rolling.Now
	}
}
