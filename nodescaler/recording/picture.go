package recording

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
)

// picture is what a step was decided by, in values that can be written and compared.
type picture struct {
	nodes    []nodescaler.Node
	pods     []nodescaler.Pod // without what they use
	machines []nodescaler.Machine
	used     map[string]use // by pod
	replicas map[string]int
	rollouts map[string]podscaler.Rollout
	failing  map[string]string
	placed   map[string]int
	hosts    []nodescaler.Host
	budgets  []nodescaler.Budget
	daemons  map[string]nodescaler.Daemons // by pool
	refused  map[string][]nodescaler.RefusedOrder
	soon     map[string]nodescaler.Reason

	workloads []wanted
	rest      intent
}

// use is what a pod was measured to use: CPU and memory.
type use [2]podscaler.Sample

// wanted is what is wanted of a workload.
type wanted struct {
	podscaler.Workload
	Policy       *podpolicy.Spec    `json:",omitempty"`
	Paused       bool               `json:",omitempty"`
	Held         *nodescaler.Reason `json:",omitempty"`
	Pause        podscaler.Pause    `json:",omitzero"`
	ScaledToZero bool               `json:",omitempty"`
	Sizes        *rightsize.Wants   `json:",omitempty"`
}

// intent is what is wanted of all else.
type intent struct {
	Pools, Offered []nodescaler.Pool            `json:",omitempty"`
	Others         map[string]nodescaler.Reason `json:",omitempty"`
	HandedOff      bool                         `json:",omitempty"`
	Prices         *pricing.Book                `json:",omitempty"`
	Limit          pricing.Rate                 `json:",omitempty"`
	Quotas         []nodescaler.Quota           `json:",omitempty"`
	DryRun         bool                         `json:",omitempty"`
}

// measured is what was measured of a workload in one step.
type measured struct {
	podscaler.Window
	Err string `json:",omitempty"`
}

// delta is what is different in a picture from the one before.
type delta struct {
	Nodes    changes[nodescaler.Node]                     `json:"nodes,omitzero"`
	Pods     changes[nodescaler.Pod]                      `json:"pods,omitzero"`
	Machines changes[nodescaler.Machine]                  `json:"machines,omitzero"`
	Used     entries[use]                                 `json:"used,omitzero"`
	Replicas entries[int]                                 `json:"replicas,omitzero"`
	Rollouts entries[podscaler.Rollout]                   `json:"rollouts,omitzero"`
	Failing  entries[string]                              `json:"failing,omitzero"`
	Placed   entries[int]                                 `json:"placed,omitzero"`
	Hosts    *whole[[]nodescaler.Host]                    `json:"hosts,omitempty"`
	Budgets  *whole[[]nodescaler.Budget]                  `json:"budgets,omitempty"`
	Daemons  entries[nodescaler.Daemons]                  `json:"daemons,omitzero"`
	Refused  *whole[map[string][]nodescaler.RefusedOrder] `json:"refused,omitempty"`
	Soon     *whole[map[string]nodescaler.Reason]         `json:"soon,omitempty"`
	Workload changes[wanted]                              `json:"workloads,omitzero"`
	Intent   *whole[intent]                               `json:"intent,omitempty"`
	Windows  map[string]measured                          `json:"windows,omitempty"`
	Sizes    map[string]rightsize.Pod                     `json:"sizes,omitempty"`
	Uses     map[string][]podscaler.ContainerUse          `json:"uses,omitempty"`
}

func alike[T any](a, b *T) bool { return reflect.DeepEqual(a, b) }

var (
	nodes     = named[nodescaler.Node]{func(n *nodescaler.Node) string { return n.Name }, alike[nodescaler.Node]}
	pods      = named[nodescaler.Pod]{func(p *nodescaler.Pod) string { return p.Name }, samePod}
	machines  = named[nodescaler.Machine]{func(m *nodescaler.Machine) string { return m.Name }, alike[nodescaler.Machine]}
	workloads = named[wanted]{func(w *wanted) string { return w.Name }, alike[wanted]}
)

// samePod compares pods without what they use, which is different at every look.
func samePod(a, b *nodescaler.Pod) bool {
	x, y := *a, *b
	x.CPU, x.Memory, y.CPU, y.Memory = podscaler.Sample{}, podscaler.Sample{}, podscaler.Sample{}, podscaler.Sample{}
	return reflect.DeepEqual(&x, &y)
}

// picture is what was observed and wanted. Lists of the observation are shared, and not changed.
func pictureOf(o *loop.Observation, in *loop.Intent) (*picture, error) {
	c, m := &o.Cluster, &o.Machines
	p := &picture{
		nodes: c.Nodes, pods: c.Pods, machines: m.Machines, used: make(map[string]use, len(c.Pods)),
		replicas: c.Replicas, rollouts: c.Rollouts, failing: c.Failing, placed: c.Placed,
		hosts: m.Hosts, budgets: c.Budgets, refused: m.Refused, soon: m.Soon,
		rest: intent{in.Pools, in.Offered, in.Others, in.HandedOff, in.Prices, in.Limit, in.Quotas, in.DryRun},
	}
	for i := range c.Pods {
		if u := (use{c.Pods[i].CPU, c.Pods[i].Memory}); u != (use{}) {
			p.used[c.Pods[i].Name] = u
		}
	}
	if c.Daemons != nil {
		p.daemons = map[string]nodescaler.Daemons{}
		for _, pool := range slices.Concat(in.Pools, in.Offered) {
			p.daemons[pool.Name] = c.Daemons(&pool)
		}
	}
	for i := range in.Workloads {
		w, err := wantedOf(&in.Workloads[i])
		if err != nil {
			return nil, err
		}
		p.workloads = append(p.workloads, w)
	}
	return p, nil
}

func wantedOf(w *loop.Workload) (wanted, error) {
	all := wanted{Workload: w.Workload, Paused: w.Paused, Held: w.Held, Pause: w.Pause, ScaledToZero: w.ScaledToZero, Sizes: w.Sizes}
	switch spec := w.Policy.(type) {
	case nil:
	case podpolicy.Spec:
		all.Policy = &spec
	default:
		return wanted{}, fmt.Errorf("workload %s: a policy that is made as a %T cannot be recorded", w.Name, w.Policy)
	}
	return all, nil
}

// diff is what leads from one picture to another.
func (p *picture) diff(was *picture) delta {
	return delta{
		Nodes: nodes.diff(was.nodes, p.nodes), Pods: withoutUse(pods.diff(was.pods, p.pods)), Machines: machines.diff(was.machines, p.machines),
		Used: diffEntries(was.used, p.used), Replicas: diffEntries(was.replicas, p.replicas), Rollouts: diffEntries(was.rollouts, p.rollouts),
		Failing: diffEntries(was.failing, p.failing), Placed: diffEntries(was.placed, p.placed), Hosts: diffWhole(was.hosts, p.hosts),
		Budgets: diffWhole(was.budgets, p.budgets), Daemons: diffEntries(was.daemons, p.daemons), Refused: diffWhole(was.refused, p.refused),
		Soon: diffWhole(was.soon, p.soon), Workload: workloads.diff(was.workloads, p.workloads), Intent: diffWhole(was.rest, p.rest),
	}
}

func withoutUse(c changes[nodescaler.Pod]) changes[nodescaler.Pod] {
	c.Set = slices.Clone(c.Set)
	for i := range c.Set {
		c.Set[i].CPU, c.Set[i].Memory = podscaler.Sample{}, podscaler.Sample{}
	}
	return c
}

// apply brings the picture up to date.
func (p *picture) apply(d *delta) {
	p.nodes, p.pods, p.machines = nodes.apply(p.nodes, &d.Nodes), pods.apply(p.pods, &d.Pods), machines.apply(p.machines, &d.Machines)
	p.used, p.replicas, p.rollouts = d.Used.apply(p.used), d.Replicas.apply(p.replicas), d.Rollouts.apply(p.rollouts)
	p.failing, p.placed, p.daemons = d.Failing.apply(p.failing), d.Placed.apply(p.placed), d.Daemons.apply(p.daemons)
	p.hosts, p.budgets, p.refused, p.soon = d.Hosts.apply(p.hosts), d.Budgets.apply(p.budgets), d.Refused.apply(p.refused), d.Soon.apply(p.soon)
	p.workloads, p.rest = workloads.apply(p.workloads, &d.Workload), d.Intent.apply(p.rest)
}

// observation is the picture as it is decided on.
func (p *picture) observation() (o loop.Observation) {
	pods := slices.Clone(p.pods)
	for i := range pods {
		u := p.used[pods[i].Name]
		pods[i].CPU, pods[i].Memory = u[0], u[1]
	}
	daemons := p.daemons
	o.Cluster = loop.ClusterState{
		Nodes: p.nodes, Pods: pods, Replicas: p.replicas, Rollouts: p.rollouts, Failing: p.failing, Placed: p.placed, Budgets: p.budgets,
	}
	if daemons != nil {
		o.Cluster.Daemons = func(pool *nodescaler.Pool) nodescaler.Daemons { return daemons[pool.Name] }
	}
	o.Machines = loop.MachineState{Hosts: p.hosts, Machines: p.machines, Refused: p.refused, Soon: p.soon}
	return o
}

// intent is what was wanted.
func (p *picture) intent() loop.Intent {
	r := &p.rest
	in := loop.Intent{
		Pools: r.Pools, Offered: r.Offered, Others: r.Others, HandedOff: r.HandedOff, Prices: r.Prices, Limit: r.Limit, Quotas: r.Quotas, DryRun: r.DryRun,
	}
	for i := range p.workloads {
		w := &p.workloads[i]
		wants := loop.Workload{Workload: w.Workload, Paused: w.Paused, Held: w.Held, Pause: w.Pause, ScaledToZero: w.ScaledToZero, Sizes: w.Sizes}
		if w.Policy != nil {
			wants.Policy = *w.Policy
		}
		in.Workloads = append(in.Workloads, wants)
	}
	return in
}

// windows are the measurements of a step, as they are written.
func windows(all map[string]loop.Measured) map[string]measured {
	written := make(map[string]measured, len(all))
	for name, m := range all {
		w := measured{Window: m.Window}
		if m.Err != nil {
			w.Err = m.Err.Error()
		}
		written[name] = w
	}
	return written
}

// measurements are what was written, as it is decided by.
func measurements(written map[string]measured) map[string]loop.Measured {
	all := make(map[string]loop.Measured, len(written))
	for name, w := range written {
		m := loop.Measured{Window: w.Window}
		if w.Err != "" {
			m.Err = errors.New(w.Err)
		}
		all[name] = m
	}
	return all
}
