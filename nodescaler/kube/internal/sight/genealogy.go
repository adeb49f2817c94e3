package sight

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/targets"
)

// genealogy finds the workloads that pods belong to, by their owners.
type genealogy struct {
	targets map[kept.Reference]string
	// Owners with owners of their own: ReplicaSets, Deployments, StatefulSets.
	parents map[types.UID]*metav1.ObjectMeta
	found   map[types.UID]string // by the pod's owner
}

func newGenealogy(of *Lists, targets []targets.Target) *genealogy {
	g := &genealogy{targets: map[kept.Reference]string{}, parents: map[types.UID]*metav1.ObjectMeta{}, found: map[types.UID]string{}}
	for i := range targets {
		// Of two autoscalers on one target the first has the pods; neither may write.
		if _, ok := g.targets[targets[i].Ref]; !ok {
			g.targets[targets[i].Ref] = targets[i].Workload
		}
	}
	for _, o := range of.Owners {
		g.parents[o.UID] = &o.ObjectMeta
	}
	for _, o := range of.Scaled {
		g.parents[o.UID] = &o.ObjectMeta
	}
	return g
}

// workload names the pod's workload: the first of its owners, from the nearest on, that an
// autoscaler scales, or else the last that is known.
func (g *genealogy) workload(p *kept.Pod) string {
	ref, uid, ok := kept.ControllerOf(&p.ObjectMeta)
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
		above, aboveUID, owned := kept.ControllerOf(parent)
		if !owned {
			break
		}
		ref, uid = above, aboveUID
	}
	g.found[first] = ref.Namespace + "/" + ref.Kind + "/" + ref.Name
	return g.found[first]
}

// adopt gives a target whose pods no owner leads to those that its selector finds.
func adopt(seen *Sight, said []nodescaler.Pod) {
	if !slices.ContainsFunc(seen.Targets, func(t targets.Target) bool { return !t.Watched }) {
		return
	}
	has, taken := map[string]bool{}, map[string]bool{}
	for i := range seen.Targets {
		taken[seen.Targets[i].Workload] = true
	}
	for i := range said {
		has[said[i].Workload] = true
	}
	for i := range seen.Targets {
		t := &seen.Targets[i]
		if t.Watched || !t.Known || t.Selector == "" || has[t.Workload] {
			continue
		}
		selector, err := labels.Parse(t.Selector)
		if err != nil {
			continue
		}
		for j, p := range seen.pods {
			if p.Namespace == t.Ref.Namespace && !taken[said[j].Workload] && selector.Matches(labels.Set(p.Labels)) {
				said[j].Workload = t.Workload
			}
		}
	}
}
