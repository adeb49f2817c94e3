package sight

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
	"github.com/plimsoll/plimsoll/pricing"
)

// keepers are the possible controllers of daemons: DaemonSets, and nodes.
type keepers struct {
	sets  map[types.UID]*kept.DaemonSet
	nodes map[string]types.UID
}

func newKeepers(sets []*kept.DaemonSet, nodes map[string]types.UID) *keepers {
	k := &keepers{make(map[types.UID]*kept.DaemonSet, len(sets)), nodes}
	for _, d := range sets {
		k.sets[d.UID] = d
	}
	return k
}

// has reports whether the controller that a pod names exists. A DaemonSet makes each of its pods
// for one node, and a node's own pods are on it. Foreign controllers are not seen.
func (k *keepers) has(p *kept.Pod) bool {
	if p.Said.Foreign {
		return p.Said.Node != "" || p.Meant != ""
	}
	owner := metav1.GetControllerOfNoCopy(p)
	if owner.Kind == "Node" {
		uid, there := k.nodes[owner.Name]
		return there && uid == owner.UID && p.Said.Node == owner.Name
	}
	d := k.sets[owner.UID]
	return d != nil && d.Namespace == p.Namespace && d.Name == owner.Name && (p.Said.Node != "" || p.Meant != "")
}

// disown treats a pod whose DaemonSet or node does not exist as an ordinary pod, because it would
// otherwise evade its namespace's quota, and so a foreign one that is for no node. Its requirements
// were not kept, so no machine is ordered for it.
func disown(said *nodescaler.Pod, p *kept.Pod) {
	owner := metav1.GetControllerOfNoCopy(p)
	why := fmt.Sprintf("its owner, %s %s with UID %s, is not there or does not have it", owner.Kind, owner.Name, owner.UID)
	if said.Foreign {
		why = fmt.Sprintf("its owner, %s %s with UID %s, has it for no node", owner.Kind, owner.Name, owner.UID)
	}
	said.Daemon, said.Pinned, said.Selector = false, cmp.Or(said.Pinned, why), kept.Nowhere("a node of that owner: "+why, "")
}

// daemons returns what DaemonSets and static pods will take of a new node of a pool.
func daemons(sets []*kept.DaemonSet, seen []*kept.Pod, nodes []nodescaler.Node, marks *marker, keep *keepers, now time.Time) func(*nodescaler.Pool) nodescaler.Daemons {
	latest := latestDaemons(seen, keep)
	nodes = settled(nodes, now)
	static := staticPods(seen, nodes, keep)
	return func(p *nodescaler.Pool) nodescaler.Daemons {
		all := nodescaler.Daemons{Static: static[p.Name]}
		for _, d := range sets {
			if !onSome(d, p) && !everywhere(d, p, nodes) {
				continue
			}
			like := d.Like.Says()
			marks.fill(&like, d.Like)
			// Admission may have completed the template or added to it: a LimitRange, a runtime
			// class, a sidecar, or an autoscaler of pods' sizes. What it makes of a template that
			// has no pod yet is not known, so that the larger counts: on a machine that is too
			// small, the pods that it is for have no room.
			if is := latest[d.UID]; is != nil {
				like.Priority = is.Form.Priority // of a class
				if asks := is.Form.Requests; d.Made(is) {
					like.Requests, like.Extra = asks, is.Form.Extra
				} else {
					like.Requests.CPU = max(like.Requests.CPU, asks.CPU)
					like.Requests.Memory = max(like.Requests.Memory, asks.Memory)
					like.Extra = like.Extra.Most(is.Form.Extra)
				}
			}
			all.Sets = append(all.Sets, &like)
		}
		slices.SortStableFunc(all.Sets, func(a, b *nodescaler.Pod) int {
			return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Name, b.Name))
		})
		return all
	}
}

// onSome reports whether the DaemonSet runs on machines of the pool, or of one of its shapes.
func onSome(d *kept.DaemonSet, p *nodescaler.Pool) bool {
	if !p.ShapeIsType {
		return d.RunsOn(p.NodeOn(pricing.Shape{}, ""))
	}
	return slices.ContainsFunc(p.Shapes, func(s pricing.Shape) bool { return d.RunsOn(p.NodeOn(s, "")) })
}

// daemonsCome is how soon after a node joined it has its labels and daemons.
const daemonsCome = 5 * time.Minute

// settled are the ready nodes of pools, without those that joined a moment ago where a pool has
// others: such a node may lack labels and daemons yet.
func settled(nodes []nodescaler.Node, now time.Time) []nodescaler.Node {
	young := func(n nodescaler.Node) bool { return now.Sub(n.Joined) < daemonsCome }
	ready := slices.DeleteFunc(slices.Clone(nodes), func(n nodescaler.Node) bool { return n.Pool == "" || !n.Ready })
	others := map[string]bool{}
	for _, n := range ready {
		others[n.Pool] = others[n.Pool] || !young(n)
	}
	return slices.DeleteFunc(ready, func(n nodescaler.Node) bool { return young(n) && others[n.Pool] })
}

// everywhere reports whether the DaemonSet runs on every settled node of the pool, and so on the
// next one. It may select a label that a node gets after it has joined, as by node feature
// discovery: machine after machine would else be bought for a pod that has no room beside it. A
// host name is the node's own, and so are a zone that is its host and a type that is its shape.
func everywhere(d *kept.DaemonSet, p *nodescaler.Pool, nodes []nodescaler.Node) (is bool) {
	for i := range nodes {
		n := &nodes[i]
		if n.Pool != p.Name {
			continue
		}
		next := &nodescaler.Node{Labels: maps.Clone(n.Labels), Taints: p.Taints}
		delete(next.Labels, nodescaler.HostLabel)
		if p.HostIsZone {
			delete(next.Labels, nodescaler.ZoneLabel)
		}
		if p.ShapeIsType {
			delete(next.Labels, nodescaler.TypeLabel)
		}
		if !d.RunsOn(next) {
			return false
		}
		is = true
	}
	return is
}

// latestDaemons are the pods of DaemonSets that were created last, by the DaemonSet's UID.
func latestDaemons(seen []*kept.Pod, keep *keepers) map[types.UID]*kept.Pod {
	latest := map[types.UID]*kept.Pod{}
	for _, p := range seen {
		if owner := metav1.GetControllerOfNoCopy(p); p.Said.Daemon && !p.Said.Foreign && owner.Kind == "DaemonSet" && keep.has(p) {
			if is := latest[owner.UID]; is == nil || is.Said.Created.Before(p.Said.Created) {
				latest[owner.UID] = p
			}
		}
	}
	return latest
}

// staticPods sums what the kubelet runs by itself on every settled node of a pool, and so on the
// next one. The node with the least counts: a pod that it lacks does not run on every node. Foreign
// daemons count among several nodes: on a single one, nothing says that they are for every node.
func staticPods(seen []*kept.Pod, nodes []nodescaler.Node, keep *keepers) map[string]nodescaler.Used {
	pool, among := map[string]string{}, map[string]int{}
	for i := range nodes {
		pool[nodes[i].Name] = nodes[i].Pool
		among[nodes[i].Pool]++
	}
	on := map[string]nodescaler.Used{}
	for _, p := range seen {
		if !p.Said.Daemon || p.Said.Node == "" || p.Said.Finished() || !keep.has(p) {
			continue
		}
		if p.Said.Foreign && among[pool[p.Said.Node]] > 1 || !p.Said.Foreign && metav1.GetControllerOfNoCopy(p).Kind == "Node" {
			on[p.Said.Node] = on[p.Said.Node].With(&p.Form)
		}
	}
	least := map[string]nodescaler.Used{}
	for i := range nodes {
		n := &nodes[i]
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
