package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/sight"
)

// Sight is what the API server says now of the nodes that name a machine, of their pods, and of
// volumes on their disks. It reads no copy. A node without a UID is not there any more, and volumes
// say that they are on its disk. An error says that this is not known, and not that there is
// nothing.
func (n *Nodes) Sight(ctx context.Context, id nodescaler.Identity) (nodescaler.Sight, error) {
	ctx, cancel := context.WithTimeout(ctx, n.patience)
	defer cancel()
	s, err := n.sight(ctx, id)
	if err != nil {
		return nodescaler.Sight{}, fmt.Errorf("last look at machine %s: %w", cmp.Or(id.Machine, id.Name), err)
	}
	return s, nil
}

func (n *Nodes) sight(ctx context.Context, id nodescaler.Identity) (nodescaler.Sight, error) {
	machine := nodescaler.Machine{Name: cmp.Or(id.Machine, id.Name), ProviderID: id.ProviderID, SystemUUID: id.SystemUUID}
	all, err := n.all(ctx)
	if err != nil {
		return nodescaler.Sight{}, err
	}
	ids := nodescaler.NewIdentities([]nodescaler.Machine{machine})
	var s nodescaler.Sight
	for _, o := range all {
		if said := o.Said.Identity(); len(ids.Of(said).Named) > 0 {
			s.Nodes = append(s.Nodes, nodescaler.SeenNode{Identity: said, UID: string(o.UID), Ready: o.Ready, Open: o.Open()})
		}
	}
	for i := range s.Nodes {
		if s.Nodes[i].Pods, err = n.podsOn(ctx, s.Nodes[i].Name, s.Nodes[i].Ready); err != nil {
			return s, err
		}
	}
	if !slices.ContainsFunc(all, func(o *kept.Node) bool { return o.Name == machine.Name }) {
		all = append(all, &kept.Node{ObjectMeta: metav1.ObjectMeta{Name: machine.Name}})
	}
	local, err := n.localClaims(ctx, all, append(namesOf(s.Nodes), machine.Name))
	if err != nil {
		return s, err
	}
	for i := range s.Nodes {
		s.Nodes[i].LocalClaims = local[s.Nodes[i].Name]
		delete(local, s.Nodes[i].Name)
	}
	if gone := local[machine.Name]; len(gone) > 0 {
		s.Nodes = append(s.Nodes, nodescaler.SeenNode{Identity: nodescaler.Identity{Name: machine.Name}, LocalClaims: gone})
	}
	return s, nil
}

func namesOf(nodes []nodescaler.SeenNode) []string {
	names := make([]string, len(nodes))
	for i := range nodes {
		names[i] = nodes[i].Name
	}
	return names
}

// listed is what is kept of all objects of a list, which is read page by page.
func listed[T any, L paged](ctx context.Context, what string, how metav1.ListOptions, list func(context.Context, metav1.ListOptions) (L, error)) (all []T, err error) {
	err = pages(ctx, what, how, list, func(o runtime.Object) error {
		short, err := kept.Keep(o)
		if is, ok := short.(T); ok {
			all = append(all, is)
		}
		return err
	})
	return all, err
}

// all reads the nodes, sorted by name.
func (n *Nodes) all(ctx context.Context) ([]*kept.Node, error) {
	all, err := listed[*kept.Node](ctx, "nodes", metav1.ListOptions{}, n.client.CoreV1().Nodes().List)
	slices.SortFunc(all, func(a, b *kept.Node) int { return strings.Compare(a.Name, b.Name) })
	return all, err
}

// podsOn are the pods that have to be gone from a node before its machine can go, as
// namespace/name. A pod that was asked to leave a node which is not ready will never be seen to
// have left.
func (n *Nodes) podsOn(ctx context.Context, node string, ready bool) (names []string, err error) {
	how := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()}
	all, err := listed[*kept.Pod](ctx, "pods of node "+node, how, n.client.CoreV1().Pods(metav1.NamespaceAll).List)
	for _, p := range all {
		if p.Said.Node == node && !p.Said.Finished() && !p.Said.Daemon && !p.IsPlaceholder() && (ready || !p.Said.Terminating) {
			names = append(names, p.Said.Name)
		}
	}
	slices.Sort(names)
	return names, err
}

// localClaims are the claims on the disks of some nodes that must not be lost, by node. Which
// claims may be is only asked where there are any.
func (n *Nodes) localClaims(ctx context.Context, all []*kept.Node, of []string) (map[string][]string, error) {
	volumes, err := listed[*kept.Volume](ctx, "persistentvolumes", metav1.ListOptions{}, n.client.CoreV1().PersistentVolumes().List)
	if err != nil {
		return nil, err
	}
	found := sight.NewDisks(all, nil).Local(volumes)
	var marks []*kept.Claim
	asked := map[string]bool{}
	for _, node := range of {
		for _, name := range found[node] {
			namespace, _, _ := strings.Cut(name, "/")
			if asked[namespace] {
				continue
			}
			asked[namespace] = true
			in, err := listed[*kept.Claim](ctx, "persistentvolumeclaims of "+namespace, metav1.ListOptions{}, n.client.CoreV1().PersistentVolumeClaims(namespace).List)
			if err != nil {
				return nil, err
			}
			marks = append(marks, in...)
		}
	}
	if len(marks) == 0 {
		return found, nil
	}
	return sight.NewDisks(all, marks).Local(volumes), nil
}
