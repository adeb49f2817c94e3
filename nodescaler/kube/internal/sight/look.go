package sight

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/targets"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
)

// Look puts together what the copies hold. Machine names the machine and the pool behind a node.
func Look(of *Lists, targets []targets.Target, usage map[string]podscaler.Sample, machine func(*corev1.Node) (machine, pool string), now time.Time) (loop.ClusterState, *Sight) {
	seen := &Sight{Targets: targets, Nodes: make(map[string]types.UID, len(of.Nodes))}
	for _, n := range of.Nodes {
		seen.Nodes[n.Name] = n.UID
	}
	state := loop.ClusterState{Replicas: map[string]int{}, Rollouts: map[string]podscaler.Rollout{}, Failing: map[string]string{}, Ordered: map[string]bool{}}
	seen.pods, state.Placed = apart(inOrder(of.Pods), targets)
	claimed := newDevices(of.DeviceClaims, of.DeviceTemplates, of.Publications, seen.pods)
	rests := newStorage(of.Volumes, of.Claims, of.Classes, of.Attachables, claimed, seen.pods)
	state.Nodes = of.saidByNodes(rests, seen, machine)
	for i := range targets {
		if t := &targets[i]; t.Known {
			state.Replicas[t.Workload], state.Rollouts[t.Workload] = t.Replicas, t.Rollout
			if t.Failing != "" {
				state.Failing[t.Workload] = t.Failing
			}
			if t.Ordered {
				state.Ordered[t.Workload] = true
			}
		}
	}
	marks, keep := newMarker(slices.Concat(seen.pods, of.bufferForms()), of.DaemonSets, of.Namespaces), newKeepers(of.DaemonSets, seen.Nodes)
	state.Pods = of.saidByPods(seen, usage, rests, marks, keep)
	state.Headroom = of.headroom(seen, state.Pods, marks)
	state.Daemons = daemons(of.DaemonSets, seen.pods, state.Nodes, marks, keep, now)
	state.Budgets = budgets(of.Disruptions, seen.pods, state.Pods)
	return state, seen
}

// saidByNodes is what nodes say, with whose they are and what rests on other objects.
func (of *Lists) saidByNodes(rests *storage, seen *Sight, machine func(*corev1.Node) (machine, pool string)) []nodescaler.Node {
	said := make([]nodescaler.Node, len(of.Nodes))
	attached := of.attached(seen)
	on := NewDisks(of.Nodes, of.Claims)
	for i, n := range of.Nodes {
		said[i] = n.Said
		said[i].Attached = attached[n.Name]
		said[i].Extra, said[i].Devices = n.Said.Extra.Plus(rests.takes(n.Name)), rests.devices.on[n.Name]
		if said[i].Machine, said[i].Pool = machine(n.Stub()); said[i].Machine != "" {
			on.machines[said[i].Machine] = n
		}
	}
	local := on.Local(of.Volumes)
	for i := range said {
		said[i].LocalClaims, said[i].ClaimsUnknown = local[said[i].Name], of.Volumes == nil
	}
	return said
}

// saidByPods is what pods say, with what rests on other objects.
func (of *Lists) saidByPods(seen *Sight, usage map[string]podscaler.Sample, rests *storage, marks *marker, keep *keepers) []nodescaler.Pod {
	said := make([]nodescaler.Pod, len(seen.pods))
	whose := newGenealogy(of, seen.Targets)
	for i, p := range seen.pods {
		said[i] = p.Says()
		if i > 0 && p.Alike(seen.pods[i-1]) { // as most are, since they are sorted
			said[i].Workload = said[i-1].Workload
		} else {
			said[i].Workload = whose.workload(p)
		}
		said[i].CPU = usage[p.Said.Name]
		rests.place(&said[i], p)
		marks.fill(&said[i], p)
		if said[i].Daemon && !keep.has(p) {
			disown(&said[i], p)
		} else if p.Meant != "" {
			if _, there := seen.Nodes[p.Meant]; there {
				said[i].Node, said[i].Unschedulable = p.Meant, false
			}
		}
	}
	adopt(seen, said)
	seen.sort(said)
	return said
}

// attached are the volumes that are attached to each node, sorted. Those of daemons are not among
// them: they stay as long as their node.
func (of *Lists) attached(seen *Sight) map[string][]string {
	if len(of.Attachments) == 0 {
		return nil
	}
	volumes := make(map[string]*kept.Volume, len(of.Volumes))
	for _, v := range of.Volumes {
		volumes[v.Name] = v
	}
	stays := map[[2]string]bool{} // node and claim
	for _, p := range seen.pods {
		for i := range p.Claims {
			if p.Said.Daemon {
				stays[[2]string{p.Said.Node, p.Namespace + "/" + p.Claims[i].Claim}] = true
			}
		}
	}
	on := map[string][]string{}
	for _, a := range of.Attachments {
		v, known := volumes[a.Volume]
		if a.Volume == "" || known && stays[[2]string{a.Node, v.Claim}] {
			continue
		}
		on[a.Node] = append(on[a.Node], a.Volume)
	}
	for node := range on {
		slices.Sort(on[node])
	}
	return on
}

// apart takes the placeholders out of the pods, and counts those that have a node, by workload.
func apart(all []*kept.Pod, targets []targets.Target) ([]*kept.Pod, map[string]int) {
	var of map[string]string
	placed := map[string]int{}
	rest := all[:0]
	for _, p := range all {
		if !p.IsPlaceholder() {
			rest = append(rest, p)
			continue
		}
		if of == nil {
			of = map[string]string{}
			for i := range targets {
				of[targets[i].Ref.Namespace+"/"+kept.ExpectName(targets[i].Autoscaler.Name)] = targets[i].Workload
			}
		}
		if workload := of[p.Namespace+"/"+p.Labels[kept.LabelPlaceholder]]; workload != "" && p.Said.Node != "" && !p.Said.Terminating {
			placed[workload]++
		}
	}
	return rest, placed
}
