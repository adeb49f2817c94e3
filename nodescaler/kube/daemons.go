package kube

import (
	"cmp"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// daemonSet is the copy of a DaemonSet: the nodes that its pods run on, and the requests of one
// pod.
type daemonSet struct {
	metav1.ObjectMeta
	like *pod
}

// keepDaemonSet is the transform of the copies of DaemonSets.
func keepDaemonSet(o any) (any, error) {
	d, ok := o.(*appsv1.DaemonSet)
	if !ok {
		return o, nil
	}
	like := &corev1.Pod{ObjectMeta: d.Spec.Template.ObjectMeta, Spec: d.Spec.Template.Spec}
	like.Namespace, like.Name = d.Namespace, d.Name
	return &daemonSet{keepMeta(&d.ObjectMeta), shortPod(like)}, nil
}

// runsOn reports whether a pod of the DaemonSet runs on a node like this one.
func (d *daemonSet) runsOn(n *nodescaler.Node) bool {
	return nodescaler.Accepts(&d.like.said, n) == ""
}

// keepers are the possible controllers of daemons: DaemonSets, and nodes.
type keepers struct {
	sets  map[types.UID]*daemonSet
	nodes map[string]types.UID
}

func newKeepers(sets []*daemonSet, nodes map[string]types.UID) *keepers {
	k := &keepers{make(map[types.UID]*daemonSet, len(sets)), nodes}
	for _, d := range sets {
		k.sets[d.UID] = d
	}
	return k
}

// has reports whether the controller that a pod names exists. A DaemonSet makes each of its pods
// for one node, and a node's own pods are on it.
func (k *keepers) has(p *pod) bool {
	owner := metav1.GetControllerOfNoCopy(p)
	if owner.Kind == "Node" {
		uid, there := k.nodes[owner.Name]
		return there && uid == owner.UID && p.said.Node == owner.Name
	}
	d := k.sets[owner.UID]
	return d != nil && d.Namespace == p.Namespace && d.Name == owner.Name && (p.said.Node != "" || p.meant != "")
}

// disown treats a pod whose DaemonSet or node does not exist as an ordinary pod, because it would
// otherwise evade its namespace's quota. Its requirements were not kept, so no machine is ordered
// for it.
func disown(said *nodescaler.Pod, p *pod) {
	owner := metav1.GetControllerOfNoCopy(p)
	why := fmt.Sprintf("its owner, %s %s with UID %s, is not there or does not have it", owner.Kind, owner.Name, owner.UID)
	said.Daemon, said.Pinned, said.Selector = false, cmp.Or(said.Pinned, why), nowhere("a node of that owner: "+why, "")
}

// daemons returns what DaemonSets and static pods will take of a new node of a pool.
func daemons(sets []*daemonSet, seen []*pod, nodes []nodescaler.Node, marks *marker, keep *keepers) func(*nodescaler.Pool) nodescaler.Daemons {
	latest := latestDaemons(seen, keep)
	static := staticPods(seen, nodes, keep)
	return func(p *nodescaler.Pool) nodescaler.Daemons {
		all := nodescaler.Daemons{Static: static[p.Name]}
		for _, d := range sets {
			if !d.runsOn(p.Node()) {
				continue
			}
			like := d.like.said
			marks.fill(&like, d.like)
			// Admission, such as a LimitRange, may have completed the template.
			if is := latest[d.UID]; is != nil {
				like.Requests.CPU = cmp.Or(like.Requests.CPU, is.said.Requests.CPU)
				like.Requests.Memory = cmp.Or(like.Requests.Memory, is.said.Requests.Memory)
				if like.Extra == nil {
					like.Extra = is.said.Extra
				}
				like.Priority = is.said.Priority // a template names a class alone
			}
			all.Sets = append(all.Sets, &like)
		}
		slices.SortStableFunc(all.Sets, func(a, b *nodescaler.Pod) int {
			return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Name, b.Name))
		})
		return all
	}
}

// latestDaemons are the pods of DaemonSets that were created last, by the DaemonSet's UID.
func latestDaemons(seen []*pod, keep *keepers) map[types.UID]*pod {
	latest := map[types.UID]*pod{}
	for _, p := range seen {
		if owner := metav1.GetControllerOfNoCopy(p); p.said.Daemon && owner.Kind == "DaemonSet" && keep.has(p) {
			if is := latest[owner.UID]; is == nil || is.said.Created.Before(p.said.Created) {
				latest[owner.UID] = p
			}
		}
	}
	return latest
}

// staticPods sums what the kubelet runs by itself on every ready node of a pool, and so on the next
// one. The node with the least counts: a pod that it lacks does not run on every node.
func staticPods(seen []*pod, nodes []nodescaler.Node, keep *keepers) map[string]nodescaler.Used {
	on := map[string]nodescaler.Used{}
	for _, p := range seen {
		if p.said.Daemon && metav1.GetControllerOfNoCopy(p).Kind == "Node" && keep.has(p) {
			on[p.said.Node] = on[p.said.Node].With(&p.said)
		}
	}
	least := map[string]nodescaler.Used{}
	for i := range nodes {
		n := &nodes[i]
		if n.Pool == "" || !n.Ready {
			continue
		}
		u, is := on[n.Name], on[n.Name]
		if known, more := least[n.Pool]; more {
			u.Requests.CPU = min(known.Requests.CPU, is.Requests.CPU)
			u.Requests.Memory = min(known.Requests.Memory, is.Requests.Memory)
			u.Extra = known.Extra.Least(is.Extra)
			u.Pods = min(known.Pods, is.Pods)
		}
		least[n.Pool] = u
	}
	return least
}

// nodeMeant is the node that a pending daemon belongs to: its controller made it for this node, and
// the scheduler binds it to no other. Its room there is used already.
func nodeMeant(p *corev1.Pod) string {
	a := p.Spec.Affinity
	if p.Spec.NodeName != "" || !isDaemon(p) || a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		i := slices.IndexFunc(term.MatchFields, func(r corev1.NodeSelectorRequirement) bool {
			return r.Key == nodescaler.NameField && r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1
		})
		if i >= 0 {
			return text(term.MatchFields[i].Values[0])
		}
	}
	return ""
}
