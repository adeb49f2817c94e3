package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
)

// sight is what one Observe saw that writing goes by: which things were meant by their names.
type sight struct {
	targets []Target // sorted by workload
	pods    []*pod   // sorted by namespace/name
	// of is the pods of targets, by workload.
	of map[string][]*pod
	// nodes are those that were there, by name.
	nodes map[string]types.UID
	// buffers are the CapacityBuffers that are served.
	buffers []*bufferAsked
}

func (s *sight) target(workload string) (*Target, bool) {
	if s == nil {
		return nil, false
	}
	i, ok := slices.BinarySearchFunc(s.targets, workload, func(t Target, name string) int { return strings.Compare(t.Workload, name) })
	if !ok {
		return nil, false
	}
	return &s.targets[i], true
}

func (s *sight) pod(name string) (*pod, bool) {
	if s == nil {
		return nil, false
	}
	i, ok := slices.BinarySearchFunc(s.pods, name, func(p *pod, name string) int { return strings.Compare(p.said.Name, name) })
	if !ok {
		return nil, false
	}
	return s.pods[i], true
}

// Observe returns the cluster as it is now. Replicas holds every target that is Known.
func (c *Cluster) Observe(ctx context.Context) (loop.ClusterState, error) {
	if err := c.Fresh(); err != nil {
		return loop.ClusterState{}, err
	}
	return c.look(ctx), nil
}

// Addresses returns the IPs of all pods that have one, by namespace/name.
func (c *Cluster) Addresses() map[string]string {
	all := unsorted[*pod](c, pods)
	addresses := make(map[string]string, len(all))
	for _, p := range all {
		if p.address != "" {
			addresses[p.said.Name] = p.address
		}
	}
	return addresses
}

// look puts together what the copies hold.
func (c *Cluster) look(ctx context.Context) loop.ClusterState {
	seen := &sight{targets: c.resolve(ctx), pods: unsorted[*pod](c, pods)}
	// By namespace/name as one word: that is how they are looked up.
	slices.SortFunc(seen.pods, func(a, b *pod) int { return strings.Compare(a.said.Name, b.said.Name) })
	var placed map[string]int
	seen.pods, placed = apart(seen.pods, seen.targets)
	usage := c.meter.samples(ctx)
	all := kept[*node](c, nodes)
	seen.nodes = make(map[string]types.UID, len(all))
	for _, n := range all {
		seen.nodes[n.Name] = n.UID
	}
	claimed := newDevices(unsorted[*deviceClaim](c, deviceClaims), unsorted[*deviceClaim](c, deviceTemplates), unsorted[*published](c, publications), seen.pods)
	rests := newStorage(kept[*volume](c, volumes), unsorted[*claim](c, claims), unsorted[*class](c, classes), unsorted[*attachable](c, attachables), claimed, seen.pods)
	state := loop.ClusterState{Nodes: c.nodes(all, rests, seen), Replicas: map[string]int{}, Rollouts: map[string]podscaler.Rollout{}, Failing: map[string]string{}, Placed: placed}
	for i := range seen.targets {
		if t := &seen.targets[i]; t.Known {
			state.Replicas[t.Workload], state.Rollouts[t.Workload] = t.Replicas, t.Rollout
			if t.Failing != "" {
				state.Failing[t.Workload] = t.Failing
			}
		}
	}
	sets := kept[*daemonSet](c, daemonSets)
	marks, keep := newMarker(slices.Concat(seen.pods, c.bufferForms()), sets, unsorted[*metav1.PartialObjectMetadata](c, namespaces)), newKeepers(sets, seen.nodes)
	state.Pods = c.pods(seen, usage, rests, marks, keep)
	state.Headroom = c.headroom(seen, state.Pods, marks)
	state.Daemons = daemons(sets, seen.pods, state.Nodes, marks, keep)
	state.Budgets = budgets(kept[*disruption](c, disruptions), seen.pods, state.Pods)
	state.Proposals = approvals{c}.all()
	c.observed.Store(seen)
	return state
}

// same returns an error if a node is another one than was observed under its name.
func (s *sight) same(name string, is types.UID) error {
	if s == nil {
		return nil
	}
	if was, seen := s.nodes[name]; seen && was != is {
		return fmt.Errorf("%w: this node %s is another one than was observed", ErrChanged, name)
	}
	return nil
}

// nodes completes what nodes say with whose they are.
func (c *Cluster) nodes(all []*node, rests *storage, seen *sight) []nodescaler.Node {
	said := make([]nodescaler.Node, len(all))
	attached := c.attached(seen)
	on := newDisks(all, unsorted[*claim](c, claims))
	for i, n := range all {
		said[i] = n.said
		said[i].Attached = attached[n.Name]
		said[i].Extra, said[i].Devices = n.said.Extra.Plus(rests.takes(n.Name)), rests.devices.on[n.Name]
		if said[i].Machine, said[i].Pool = c.cfg.Machine(n.stub()); said[i].Machine != "" {
			on.machines[said[i].Machine] = n
		}
	}
	local := on.local(unsorted[*volume](c, volumes))
	// Look may lack the right to read them.
	unread := c.held[volumes].informer.Load() == nil
	for i := range said {
		said[i].LocalClaims, said[i].ClaimsUnknown = local[said[i].Name], unread
	}
	return said
}

// pods completes what pods say with what rests on other objects.
func (c *Cluster) pods(seen *sight, usage map[string]podscaler.Sample, rests *storage, marks *marker, keep *keepers) []nodescaler.Pod {
	said := make([]nodescaler.Pod, len(seen.pods))
	whose := c.genealogy(seen.targets)
	for i, p := range seen.pods {
		said[i] = p.said
		said[i].Workload = whose.workload(p)
		said[i].CPU = usage[p.said.Name]
		rests.place(&said[i], p)
		marks.fill(&said[i], p)
		switch _, there := seen.nodes[p.meant]; {
		case said[i].Daemon && !keep.has(p):
			disown(&said[i], p)
		case there:
			said[i].Node, said[i].Unschedulable = p.meant, false
		}
	}
	adopt(seen, said)
	seen.sort(said)
	return said
}

// sort puts the pods of each target together.
func (s *sight) sort(said []nodescaler.Pod) {
	s.of = make(map[string][]*pod, len(s.targets))
	for i := range s.targets {
		s.of[s.targets[i].Workload] = nil
	}
	for i, p := range s.pods {
		if of, is := s.of[said[i].Workload]; is {
			s.of[said[i].Workload] = append(of, p)
		}
	}
}

// genealogy finds the workloads that pods belong to, by their owners.
type genealogy struct {
	targets map[reference]string
	// Owners with owners of their own: ReplicaSets, Deployments, StatefulSets.
	parents map[types.UID]*metav1.ObjectMeta
	found   map[types.UID]string // by the pod's owner
}

func (c *Cluster) genealogy(targets []Target) *genealogy {
	g := &genealogy{targets: map[reference]string{}, parents: map[types.UID]*metav1.ObjectMeta{}, found: map[types.UID]string{}}
	for i := range targets {
		// Of two autoscalers on one target the first has the pods; neither may write.
		if _, ok := g.targets[targets[i].ref]; !ok {
			g.targets[targets[i].ref] = targets[i].Workload
		}
	}
	for _, o := range unsorted[*metav1.PartialObjectMetadata](c, owners) {
		g.parents[o.UID] = &o.ObjectMeta
	}
	for _, i := range []copies{deployments, statefulSets} {
		for _, o := range unsorted[*scaled](c, i) {
			g.parents[o.UID] = &o.ObjectMeta
		}
	}
	return g
}

// controllerOf returns who controls something, in the same namespace.
func controllerOf(m *metav1.ObjectMeta) (reference, types.UID, bool) {
	owner := metav1.GetControllerOfNoCopy(m)
	if owner == nil {
		return reference{}, "", false
	}
	return refer(m.Namespace, owner.APIVersion, owner.Kind, owner.Name), owner.UID, true
}

// workload names the pod's workload: the first of its owners, from the nearest on, that an
// autoscaler scales, or else the last that is known.
func (g *genealogy) workload(p *pod) string {
	ref, uid, ok := controllerOf(&p.ObjectMeta)
	if !ok {
		return ""
	}
	if name, ok := g.found[uid]; ok {
		return name
	}
	first := uid
	for range 8 { // owners that own each other have no end
		if name, ok := g.targets[ref]; ok {
			g.found[first] = name
			return name
		}
		parent, ok := g.parents[uid]
		if !ok {
			break
		}
		above, aboveUID, owned := controllerOf(parent)
		if !owned {
			break
		}
		ref, uid = above, aboveUID
	}
	g.found[first] = ref.namespace + "/" + ref.Kind + "/" + ref.name
	return g.found[first]
}

// adopt gives a target whose pods no owner leads to those that its selector finds.
func adopt(seen *sight, said []nodescaler.Pod) {
	has, taken := map[string]bool{}, map[string]bool{}
	for i := range seen.targets {
		taken[seen.targets[i].Workload] = true
	}
	for i := range said {
		has[said[i].Workload] = true
	}
	for i := range seen.targets {
		t := &seen.targets[i]
		if t.watched || !t.Known || t.Selector == "" || has[t.Workload] {
			continue
		}
		selector, err := labels.Parse(t.Selector)
		if err != nil {
			continue
		}
		for j, p := range seen.pods {
			if p.Namespace == t.ref.namespace && !taken[said[j].Workload] && selector.Matches(labels.Set(p.Labels)) {
				said[j].Workload = t.Workload
			}
		}
	}
}
