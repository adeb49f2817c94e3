package loop

import (
	"github.com/plimsoll/plimsoll/nodescaler"
)

// rollouts decides how far the rollouts of pools are whose drifted machines are replaced. What
// machines are ordered and drained for it is the node policy's to say, which goes by this.
func (d *decider) rollouts() {
	var missed []nodescaler.Missed
	for i := range d.in.Workloads {
		if w := &d.in.Workloads[i]; !w.Missed.IsZero() {
			missed = append(missed, nodescaler.Missed{Workload: w.Name, Since: w.Missed})
		}
	}
	for i := range d.snap.Pools {
		p := &d.snap.Pools[i]
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
