package recording

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
)

// picture is what a step was decided by, in values that can be written and compared. What is long
// and seldom changes is apart from the rest, of which all is written when anything of it changes.
type picture struct {
	nodes     []nodescaler.Node
	pods      []nodescaler.Pod
	used      map[string]use // by pod
	machines  []nodescaler.Machine
	replicas  map[string]int
	daemons   map[string]nodescaler.Daemons // by pool
	workloads []wanted
	cluster   loop.ClusterState
	site      loop.MachineState
	rest      loop.Intent
}

// use is what a pod, and each of its containers, was measured to use. It differs at every look.
type use struct {
	CPU, Memory podscaler.Sample         `json:",omitzero"`
	Uses        []podscaler.ContainerUse `json:",omitempty"`
}

func useOf(p *nodescaler.Pod) use { return use{p.CPU, p.Memory, p.Uses} }

func (u use) of(p *nodescaler.Pod) { p.CPU, p.Memory, p.Uses = u.CPU, u.Memory, u.Uses }

// uses are what those pods use of which it is different. They go by their places in the list of
// pods, each as far behind the one before: most pods differ, and names take more than numbers.
type uses struct {
	Gaps []int        `json:"gaps"`
	Of   columns[use] `json:"of"`
}

// diffUses is what leads to what pods use.
func diffUses(was map[string]use, pods []nodescaler.Pod) (u uses) {
	last := -1
	for i := range pods {
		if now := useOf(&pods[i]); !reflect.DeepEqual(was[pods[i].Name], now) {
			u.Gaps, u.Of, last = append(u.Gaps, i-last), append(u.Of, now), i
		}
	}
	return u
}

// apply is what the pods use then.
func (u *uses) apply(was map[string]use, pods []nodescaler.Pod) (map[string]use, error) {
	now := make(map[string]use, len(pods))
	at, next := -1, 0
	if len(u.Gaps) != len(u.Of) {
		return nil, fmt.Errorf("used: must have as many gaps as values, has %d and %d", len(u.Gaps), len(u.Of))
	}
	for i := range pods {
		value := was[pods[i].Name]
		if next < len(u.Gaps) && i == at+u.Gaps[next] {
			value, at, next = u.Of[next], i, next+1
		}
		now[pods[i].Name] = value
	}
	if next < len(u.Gaps) {
		return nil, fmt.Errorf("used: must be of pods in the list, %d are not", len(u.Gaps)-next)
	}
	return now, nil
}

// wanted is what is wanted of a workload. Its policy is in the place of what makes it.
type wanted struct {
	loop.Workload
	Policy *podpolicy.Spec `json:",omitempty"`
}

// measured is what was measured of a workload in one step.
type measured struct {
	podscaler.Window
	Err string `json:",omitempty"`
}

// delta is what is different in a picture from the one before, and what was measured in the step.
type delta struct {
	Nodes     changes[nodescaler.Node]            `json:"nodes,omitzero"`
	Pods      changes[nodescaler.Pod]             `json:"pods,omitzero"`
	Used      uses                                `json:"used,omitzero"`
	Machines  changes[nodescaler.Machine]         `json:"machines,omitzero"`
	Replicas  entries[int]                        `json:"replicas,omitzero"`
	Daemons   entries[nodescaler.Daemons]         `json:"daemons,omitzero"`
	Workloads changes[wanted]                     `json:"workloads,omitzero"`
	Cluster   *whole[loop.ClusterState]           `json:"cluster,omitempty"`
	Site      *whole[loop.MachineState]           `json:"site,omitempty"`
	Intent    *whole[loop.Intent]                 `json:"intent,omitempty"`
	Windows   keyed[measured]                     `json:"windows,omitempty"`
	Sizes     map[string]rightsize.Pod            `json:"sizes,omitempty"`
	Uses      map[string][]podscaler.ContainerUse `json:"uses,omitempty"`
	Histories map[string]*podscaler.History       `json:"histories,omitempty"`
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
	use{}.of(&x)
	use{}.of(&y)
	return reflect.DeepEqual(&x, &y)
}

// pictureOf is what was observed and wanted. Lists of the observation are shared, and not changed.
func pictureOf(o *loop.Observation, in *loop.Intent) (*picture, error) {
	p := &picture{
		nodes: o.Cluster.Nodes, pods: o.Cluster.Pods, used: make(map[string]use, len(o.Cluster.Pods)), machines: o.Machines.Machines,
		replicas: o.Cluster.Replicas, cluster: o.Cluster, site: o.Machines, rest: *in,
	}
	p.cluster.Nodes, p.cluster.Pods, p.cluster.Replicas, p.cluster.Daemons = nil, nil, nil, nil
	p.site.Machines, p.rest.Workloads = nil, nil
	for i := range p.pods {
		p.used[p.pods[i].Name] = useOf(&p.pods[i])
	}
	if o.Cluster.Daemons != nil {
		p.daemons = map[string]nodescaler.Daemons{}
		for _, pool := range slices.Concat(in.Pools, in.Offered) {
			p.daemons[pool.Name] = o.Cluster.Daemons(&pool)
		}
	}
	for _, w := range in.Workloads {
		wants := wanted{Workload: w}
		wants.Workload.Policy = nil
		switch spec := w.Policy.(type) {
		case nil:
		case podpolicy.Spec:
			wants.Policy = &spec
		default:
			return nil, fmt.Errorf("workload %s: a policy that is made as a %T cannot be recorded", w.Name, w.Policy)
		}
		p.workloads = append(p.workloads, wants)
	}
	return p, nil
}

// diff is what leads from one picture to another.
func (p *picture) diff(was *picture) delta {
	return delta{
		Nodes: nodes.diff(was.nodes, p.nodes), Pods: withoutUse(pods.diff(was.pods, p.pods)), Used: diffUses(was.used, p.pods),
		Machines: machines.diff(was.machines, p.machines), Replicas: diffEntries(was.replicas, p.replicas), Daemons: diffEntries(was.daemons, p.daemons),
		Workloads: workloads.diff(was.workloads, p.workloads),
		Cluster:   diffWhole(was.cluster, p.cluster), Site: diffWhole(was.site, p.site), Intent: diffWhole(was.rest, p.rest),
	}
}

func withoutUse(c changes[nodescaler.Pod]) changes[nodescaler.Pod] {
	c.Set = slices.Clone(c.Set)
	for i := range c.Set {
		use{}.of(&c.Set[i])
	}
	return c
}

// apply brings the picture up to date.
func (p *picture) apply(d *delta) (err error) {
	p.nodes, p.pods = nodes.apply(p.nodes, &d.Nodes), pods.apply(p.pods, &d.Pods)
	if p.used, err = d.Used.apply(p.used, p.pods); err != nil {
		return err
	}
	p.machines, p.replicas, p.daemons = machines.apply(p.machines, &d.Machines), d.Replicas.apply(p.replicas), d.Daemons.apply(p.daemons)
	p.workloads = workloads.apply(p.workloads, &d.Workloads)
	p.cluster, p.site, p.rest = d.Cluster.apply(p.cluster), d.Site.apply(p.site), d.Intent.apply(p.rest)
	return nil
}

// observation is the picture as it is decided on.
func (p *picture) observation() (o loop.Observation) {
	o.Cluster, o.Machines = p.cluster, p.site
	o.Cluster.Nodes, o.Cluster.Replicas, o.Machines.Machines = p.nodes, p.replicas, p.machines
	o.Cluster.Pods = slices.Clone(p.pods)
	for i := range o.Cluster.Pods {
		p.used[o.Cluster.Pods[i].Name].of(&o.Cluster.Pods[i])
	}
	if daemons := p.daemons; daemons != nil {
		o.Cluster.Daemons = func(pool *nodescaler.Pool) nodescaler.Daemons { return daemons[pool.Name] }
	}
	return o
}

// intent is what was wanted.
func (p *picture) intent() loop.Intent {
	in := p.rest
	for i := range p.workloads {
		w := p.workloads[i].Workload
		if spec := p.workloads[i].Policy; spec != nil {
			w.Policy = *spec
		}
		in.Workloads = append(in.Workloads, w)
	}
	return in
}

// windows are the measurements of a step, as they are written.
func windows(all map[string]loop.Measured) keyed[measured] {
	written := make(keyed[measured], len(all))
	for name, m := range all {
		written[name] = measured{m.Window, errorText(m.Err)}
	}
	return written
}

// measurements are what was written, as it is decided by.
func measurements(written keyed[measured]) map[string]loop.Measured {
	all := make(map[string]loop.Measured, len(written))
	for name, w := range written {
		all[name] = loop.Measured{Window: w.Window, Err: textError(w.Err)}
	}
	return all
}
