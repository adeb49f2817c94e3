package kube

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// Read returns nodes and pods as Observe would, where there is no cluster to observe: to play one load through our
// policies and through others. Volumes are those that pods' claims are bound to. Whose machines nodes are, DaemonSets,
// budgets and what pods use rest on other objects, and are not set.
func Read(nodes []*corev1.Node, pods []*corev1.Pod, volumes []*corev1.PersistentVolume) nodescaler.Snapshot {
	s := nodescaler.Snapshot{}
	for _, n := range nodes {
		s.Nodes = append(s.Nodes, shortNode(n).said)
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
	marks, whose := newMarker(kept, nil), &genealogy{found: map[types.UID]string{}}
	s.Pods = make([]nodescaler.Pod, len(kept))
	for i, p := range kept {
		s.Pods[i] = p.said
		s.Pods[i].Workload = whose.workload(p)
		place(&s.Pods[i], p, bound)
		marks.fill(&s.Pods[i], p)
	}
	return s
}
