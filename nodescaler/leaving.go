package nodescaler

import (
	"cmp"
	"slices"

	"github.com/plimsoll/plimsoll/pricing"
)

// Emptier is a Policy that wants workloads which scale down to vacate whole machines, so that these
// can be reclaimed without an eviction.
type Emptier interface {
	Policy
	Empties() bool
}

// Leaving names the pods of the workload that should be deleted first if it loses count replicas.
// It vacates as many whole machines as possible, in order of the saving for each pod. The rest
// comes from the machine that is closest to empty. Kubernetes deletes pods that are not ready, or
// have no node, before any of these.
func Leaving(x *Index, workload string, count int) []string {
	for i := range x.Snapshot.Pods {
		if p := &x.Snapshot.Pods[i]; p.Workload == workload && !p.Finished() && !p.Terminating && (p.Node == "" || !p.Ready) {
			count--
		}
	}
	spare := map[string]int{}
	for _, p := range x.Pools {
		spare[p.Name] = max(p.Live-p.Min, 0)
	}
	var names []string
	for _, e := range x.emptyable(workload) {
		if count <= 0 {
			break
		}
		if free := e.others == 0 && len(e.pods) <= count && spare[e.node.VM.Pool] > 0 && x.Hold(e.node.VM) == nil; free {
			spare[e.node.VM.Pool]--
		} else if e.others == 0 && len(e.pods) <= count {
			continue // it is kept in any case
		}
		for _, p := range e.pods[:min(len(e.pods), count)] {
			names = append(names, p.Name)
		}
		count -= min(len(e.pods), count)
	}
	return names
}

// emptied is a node that carries pods of a workload.
type emptied struct {
	node   *NodeLoad
	pods   []*Pod // of the workload, ready
	others int    // pods besides, that would have to be moved
	saving pricing.Rate
}

// emptyable is our nodes that carry pods of the workload, in the order in which these should leave
// them.
func (x *Index) emptyable(workload string) []emptied {
	var list []emptied
	for i := range x.Nodes {
		n := &x.Nodes[i]
		if n.VM == nil || n.VM.Phase != Joined || !n.Ready || x.Away(n.VM.Host) {
			continue
		}
		e := emptied{node: n, saving: x.Rate(n.VM.Shape, n.VM.Host)}
		for _, p := range n.Held() {
			switch {
			case p.Terminating || p.Workload == workload && !p.Ready: // these go anyway
			case p.Workload == workload:
				e.pods = append(e.pods, p)
			default:
				e.others++
			}
		}
		if len(e.pods) > 0 {
			list = append(list, e)
		}
	}
	slices.SortStableFunc(list, func(a, b emptied) int {
		each := func(e emptied) float64 { return float64(e.saving) / float64(len(e.pods)) }
		draining := func(e emptied) int {
			if e.node.Draining {
				return 0
			}
			return 1
		}
		return cmp.Or(
			cmp.Compare(draining(a), draining(b)),
			cmp.Compare(min(a.others, 1), min(b.others, 1)),
			-cmp.Compare(each(a), each(b)),
			cmp.Compare(a.others, b.others),
			cmp.Compare(a.node.Name, b.node.Name))
	})
	return list
}
