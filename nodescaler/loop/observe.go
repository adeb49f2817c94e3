package loop

import (
	"context"
	"fmt"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
)

// Ports are what a step sees through and acts through.
type Ports struct {
	Cluster  Cluster
	Machines Machines
	Signals  Signals
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

// Measure reads the signals of the workloads whose turn it is.
func (p *Ports) Measure(ctx context.Context, o *Observation, due []*podscaler.Workload) {
	o.Windows = make(map[string]Measured, len(due))
	for _, w := range due {
		window, err := p.Signals.Read(ctx, w, o.Time)
		if err != nil {
			window = podscaler.Window{}
		}
		o.Windows[w.Name] = Measured{window, err}
	}
}
