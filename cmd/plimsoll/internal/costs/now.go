package costs

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/planner"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/allocation"
)

// Costs is what a cluster costs per hour at one moment, and who pays it.
type Costs struct {
	Currency string
	At       time.Time
	*allocation.Bill
	// Facts are what is known of each priced node besides, by name.
	Facts map[string]Facts
	// Hostless counts priced nodes whose host is not known: a fixed part that it has is in no cost.
	Hostless int
}

// Facts is what identifies a node elsewhere, and whether it could be done without.
type Facts struct {
	ProviderID, Shape, Region, Arch string
	// Spare is nil for a node that must stay even without pods, or whose machine has not become
	// one.
	Spare *planner.Verdict
}

// Bare is the end of the name of the workload that a namespace's pods without an owner are counted
// as.
const Bare = "(bare pods)"

// Of shares out what a snapshot's machines cost. Nodes that no machine is behind have no price.
func Of(s *nodescaler.Snapshot) (*Costs, error) {
	x := nodescaler.NewIndex(s)
	c := &Costs{Currency: x.Book().Unit, At: s.Now, Facts: map[string]Facts{}}
	f := allocation.Fleet{
		Hosts: map[string]pricing.Rate{}, Namespaces: map[string][]string{}, Workloads: map[string][]string{},
	}
	spares := planner.NewSurplus(x, func(n *nodescaler.NodeLoad) bool { return !ControlPlane(n.Labels) })
	verdicts := map[string]*planner.Verdict{}
	for i, found := range spares.List() {
		verdicts[found.Node] = &spares.List()[i]
	}
	behind := c.machines(x, &f, verdicts)
	c.others(x, &f, behind)
	namespaces, workloads := pods(x, &f)
	free(f.Namespaces, namespaces, spares)
	free(f.Workloads, workloads, spares)
	bill, err := f.Bill()
	if err != nil {
		return nil, err
	}
	c.Bill = bill
	c.addPools(s.Pools)
	return c, nil
}

// addPools adds the pools that have no nodes: what they cost is known to be nothing.
func (c *Costs) addPools(pools []nodescaler.Pool) {
	for i := range pools {
		name := pools[i].Name
		at, there := slices.BinarySearchFunc(c.Pools, name, func(l allocation.Line, name string) int { return strings.Compare(l.Name, name) })
		if !there && !c.unpriced(name) {
			c.Pools = slices.Insert(c.Pools, at, allocation.Line{Name: name})
		}
	}
}

// ControlPlane reports whether labels are those of a node that runs the control plane: it is not
// done without because it is empty.
func ControlPlane(labels map[string]string) bool {
	for _, role := range []string{"control-plane", "master", "etcd"} {
		if _, ok := labels["node-role.kubernetes.io/"+role]; ok {
			return true
		}
	}
	return false
}

// unpriced reports whether a pool has nodes without a price.
func (c *Costs) unpriced(pool string) bool {
	return slices.ContainsFunc(c.Unpriced, func(u allocation.Unpriced) bool { return u.Pool == pool })
}

// machines enters the machines, which are what is paid for: those that are no nodes yet, or failed,
// too. It returns the nodes that they became.
func (c *Costs) machines(x *nodescaler.Index, f *allocation.Fleet, verdicts map[string]*planner.Verdict) map[string]bool {
	behind := map[string]bool{}
	for _, m := range slices.Concat(x.Machines, x.Spares) {
		size := m.Shape.Resources()
		n := allocation.Node{Name: m.Name, Pool: m.Pool, Host: m.Host, Size: size, Allocatable: size}
		facts := Facts{ProviderID: m.ProviderID, Shape: m.Shape.Name}
		node := x.NodeOf(m.Name)
		switch {
		case node == nil:
		case behind[node.Name]: // two machines that claim one node
			n.Name += " (machine)"
		default:
			behind[node.Name] = true
			n.Name, n.Allocatable = node.Name, node.Allocatable
			facts.Region, facts.Arch = node.Labels[corev1.LabelTopologyRegion], node.Labels[corev1.LabelArchStable]
			facts.Spare = verdicts[node.Name]
			n.Spare = facts.Spare != nil && facts.Spare.Kept == nil
		}
		if m.Phase == nodescaler.Spare { // its disk is all that it costs, and no one uses it
			n.Price = &allocation.Price{Parts: pricing.Parts{Memory: x.SpareRate(m.Shape)}, Saving: pricing.Saving{Alone: x.SpareRate(m.Shape)}}
			f.Hosts[m.Host] = x.Book().HostRate(m.Host, x.Now)
			c.Facts[n.Name] = facts
		} else if size == (pricing.Resources{}) {
			n.Unpriced = "its size is not known"
		} else {
			n.Price = &allocation.Price{Parts: x.Book().Parts(m.Shape, m.Host, x.Now), Saving: x.Book().Saving(m.Shape, m.Host, x.Now)}
			f.Hosts[m.Host] = x.Book().HostRate(m.Host, x.Now)
			c.Facts[n.Name] = facts
			if m.Host == "" {
				c.Hostless++
			}
		}
		f.Nodes = append(f.Nodes, n)
	}
	return behind
}

// others enters the nodes that no machine is behind.
func (c *Costs) others(x *nodescaler.Index, f *allocation.Fleet, behind map[string]bool) {
	for i := range x.Nodes {
		n := &x.Nodes[i]
		if behind[n.Name] {
			continue
		}
		why := "not a machine of Plimsoll's"
		switch {
		case n.Node.Pool != "":
			why = fmt.Sprintf("no machine of pool %s is listed for it", n.Node.Pool)
		case ControlPlane(n.Labels):
			why = "of the control plane, and not a machine of Plimsoll's"
		}
		f.Nodes = append(f.Nodes, allocation.Node{Name: n.Name, Pool: n.Node.Pool, Unpriced: why})
	}
}

// pods enters the pods, and returns them by namespace and by workload.
func pods(x *nodescaler.Index, f *allocation.Fleet) (namespaces, workloads map[string][]*nodescaler.Pod) {
	namespaces, workloads = map[string][]*nodescaler.Pod{}, map[string][]*nodescaler.Pod{}
	for i := range x.Snapshot.Pods {
		p := &x.Snapshot.Pods[i]
		if p.Finished() || p.Node == "" {
			continue
		}
		namespace, _, _ := strings.Cut(p.Name, "/")
		workload := p.Workload
		if workload == "" {
			workload = namespace + "/" + Bare
		}
		f.Pods = append(f.Pods, allocation.Pod{Name: p.Name, Namespace: namespace, Workload: workload, Node: p.Node, Takes: p.Requests})
		namespaces[namespace] = append(namespaces[namespace], p)
		workloads[workload] = append(workloads[workload], p)
	}
	return namespaces, workloads
}

// free finds what each group of pods keeps from being spare.
func free(frees map[string][]string, groups map[string][]*nodescaler.Pod, spares *planner.Surplus) {
	for name, pods := range groups {
		frees[name] = spares.Without(pods)
	}
}

// top returns the dearest lines, at most so many, by name, and the others as one.
func top(lines []allocation.Line, most int) (kept []allocation.Line, others allocation.Line, merged int) {
	if len(lines) <= most {
		return lines, others, 0
	}
	byCost := slices.Clone(lines)
	slices.SortStableFunc(byCost, func(a, b allocation.Line) int { // they come by name
		switch {
		case a.Cost > b.Cost:
			return -1
		case a.Cost < b.Cost:
			return 1
		}
		return 0
	})
	kept = byCost[:most]
	for i := range byCost[most:] {
		l := &byCost[most+i]
		others.Cost += l.Cost
		others.Allocated += l.Allocated
		others.Idle += l.Idle
		others.System += l.System
	}
	slices.SortFunc(kept, func(a, b allocation.Line) int { return strings.Compare(a.Name, b.Name) })
	return kept, others, len(byCost) - most
}
