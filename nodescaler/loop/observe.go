package loop

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
)

// Ports are what a step sees through and acts through.
type Ports struct {
	Cluster  Cluster
	Machines Machines
	Signals  Signals
	// Approvals is where people are asked; nil asks no one, and so does nothing that asks first.
	Approvals Approvals
	// Uses is what containers were last measured to use, by pod; nil knows of none.
	Uses func() map[string][]podscaler.ContainerUse
}

// Observation is what the ports answered at one moment.
type Observation struct {
	Time     time.Time
	Cluster  ClusterState
	Machines MachineState
	// ClusterErr and MachinesErr are why the one or the other is not known.
	ClusterErr, MachinesErr error
	// Windows are what was measured of the workloads whose turn it is (Memory.Due), by name.
	Windows map[string]Measured
	// Sizes are what the pods request whose sizes are looked at, and Uses what containers use, by
	// pod: of those namespaces where either sizes or a policy goes by it.
	Sizes map[string]rightsize.Pod
	Uses  map[string][]podscaler.ContainerUse
}

// Measured is what was measured of a workload, or why that is not known.
type Measured struct {
	podscaler.Window
	Err error
}

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
	o.Windows = make(map[string]Measured, len(due))
	for _, w := range due {
		window, err := p.Signals.Read(ctx, w, o.Time)
		if err != nil {
			window = podscaler.Window{}
		}
		o.Windows[w.Name] = Measured{window, err}
	}
}
