package loop

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
)

// Observe asks what there is: machines first, as their nodes are known by them.
func (p *Ports) Observe(ctx context.Context, now time.Time) Observation {
	o := Observation{Time: now}
	o.Machines, o.MachinesErr = p.Machines.List(ctx)
	if o.Cluster, o.ClusterErr = p.Cluster.Observe(ctx); o.ClusterErr != nil {
		o.ClusterErr = fmt.Errorf("observe cluster: %w", o.ClusterErr)
	}
	return o
}

// Measure reads what Decide goes by besides, of the workloads whose turn it is.
func (p *Ports) Measure(ctx context.Context, o *Observation, in *Intent, m *Memory) {
	p.weigh(o, in, m)
	byContainer := func(w Workload) bool { return w.ByContainer }
	if p.Uses != nil && slices.ContainsFunc(in.Workloads, byContainer) {
		o.Uses = p.Uses()
	}
	due := m.Due(o, in)
	o.Histories = p.recall(in, m)
	o.Windows = make(map[string]Measured, len(due))
	for _, w := range due {
		window, err := p.Signals.Read(ctx, w, o.Time)
		if err != nil {
			window = podscaler.Window{}
		}
		o.Windows[w.Name] = Measured{window, err}
	}
}

// recall are the histories that are there of those that policies lack.
func (p *Ports) recall(in *Intent, m *Memory) (all map[string]*podscaler.History) {
	for i := range in.Workloads {
		w := &in.Workloads[i]
		s := m.scalers[w.Name]
		if p.Histories == nil || s == nil {
			continue
		}
		lack := s.Lacks()
		if lack.Count == 0 {
			continue
		}
		if h := p.Histories.History(w, lack); h != nil {
			if all == nil {
				all = map[string]*podscaler.History{}
			}
			all[w.Name] = h
		}
	}
	return all
}
