package kube

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// Read returns nodes and pods as Observe would, where there is no cluster to observe: to play one load through our
// policies and through others. Volumes are those that pods' claims are bound to, and pools are where new nodes come
// from. Whose machines nodes are, DaemonSets, budgets and what pods use rest on other objects, and are not set.
func Read(nodes []*corev1.Node, pods []*corev1.Pod, volumes []*corev1.PersistentVolume, pools []nodescaler.Pool) nodescaler.Snapshot {
	s := nodescaler.Snapshot{Pools: pools}
	short := make([]*node, len(nodes))
	for i, n := range nodes {
		short[i] = shortNode(n)
		s.Nodes = append(s.Nodes, short[i].said)
	}
	kept := make([]*pod, len(pods))
	for i, p := range pods {
		kept[i] = shortPod(p)
	}
	slices.SortFunc(kept, func(a, b *pod) int { return strings.Compare(a.said.Name, b.said.Name) })
	bound := make(map[string]*volume, len(volumes))
	for _, v := range volumes {
		if v.Spec.ClaimRef != nil {
			of := shortVolume(v)
			bound[of.claim] = of
		}
	}
	where, marks := newPlaces(short, pools), newMarker(kept, nil)
	whose := &genealogy{found: map[types.UID]string{}}
	s.Pods = make([]nodescaler.Pod, len(kept))
	for i, p := range kept {
		s.Pods[i] = p.said
		s.Pods[i].Workload = whose.workload(p)
		where.fill(&s.Pods[i], p, bound)
		marks.fill(&s.Pods[i], p)
	}
	return s
}
