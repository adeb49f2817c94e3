package upstream

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// anywhere is the host of all machines: cluster-autoscaler knows of no hosts, and takes room to be
// endless until it is refused some.
const anywhere = "anywhere"

const endless = 1 << 50

// snapshot puts what was seen into the policy's words. Only the chosen group may grow:
// cluster-autoscaler orders from one at a time.
func (s *scan) snapshot(chosen *option) *nodescaler.Snapshot {
	out := &nodescaler.Snapshot{
		Now: s.now, Prices: pricing.DefaultBook(), Nodes: slices.Clone(s.sight.State.Nodes), Pods: s.sight.State.Pods,
		Budgets: s.sight.State.Budgets, Future: s.buffers(),
		Hosts: []nodescaler.Host{{Host: pricing.Host{Name: anywhere, Room: pricing.Resources{CPU: endless, Memory: endless}}, Online: true}},
	}
	for _, g := range s.all {
		pool := g.pool()
		if chosen == nil || chosen.group != g {
			pool.Max = 0 // what there is may stay
			pool.Min = min(pool.Min, g.target)
		}
		out.Pools = append(out.Pools, pool)
		out.Machines = append(out.Machines, s.machines(g, &pool)...)
	}
	slices.SortFunc(out.Pools, func(a, b nodescaler.Pool) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(out.Machines, func(a, b nodescaler.Machine) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// pool is a group as its template shows it.
func (g *group) pool() nodescaler.Pool {
	n := g.template
	capacity, left := resources(n.Status.Capacity), resources(n.Status.Allocatable)
	p := nodescaler.Pool{
		Name: g.id, Min: g.min, Max: g.max, Labels: maps.Clone(n.Labels), Reserved: capacity.Minus(left),
		PodSlots: int(n.Status.Allocatable.Pods().Value()),
		Shapes:   []pricing.Shape{{Name: "template", CPU: capacity.CPU, Memory: capacity.Memory}},
	}
	for _, t := range n.Spec.Taints {
		if t.Effect != corev1.TaintEffectPreferNoSchedule {
			p.Taints = append(p.Taints, nodescaler.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
		}
	}
	return p
}

func resources(list corev1.ResourceList) pricing.Resources {
	return pricing.Resources{CPU: pricing.MilliCPU(list.Cpu().MilliValue()), Memory: pricing.Bytes(list.Memory().Value())}
}

// machines are the nodes of a group, the instances that are to become nodes, and what its target
// says beyond both.
func (s *scan) machines(g *group, p *nodescaler.Pool) []nodescaler.Machine {
	var all []nodescaler.Machine
	add := func(name string, phase nodescaler.Phase, m nodescaler.Machine) {
		m.Name, m.ProviderID, m.Pool, m.Shape, m.Host, m.Phase = name, name, g.id, p.Shapes[0], anywhere, phase
		all = append(all, m)
	}
	left := g.target
	for _, n := range g.nodes {
		phase := nodescaler.Joined
		if s.leaves(n.Machine) {
			phase = nodescaler.Deleting
		} else {
			left--
		}
		add(n.Machine, phase, nodescaler.Machine{Created: n.Joined, Since: n.Joined})
	}
	for _, i := range g.coming {
		since := s.unseen[i.GetId()]
		add(i.GetId(), nodescaler.Booting, nodescaler.Machine{Created: since, Since: since})
		left--
	}
	// It is not the policy's to give it up.
	since := s.now.Add(-time.Duration(s.cfg.Unneeded.MaxNodeProvisionTime))
	if known := s.short[g.id]; known.After(since) {
		since = known
	}
	for n := range max(0, left) {
		add(fmt.Sprintf("%s (to come, %d)", g.id, n+1), nodescaler.Ordered, nodescaler.Machine{Since: since})
	}
	return all
}
