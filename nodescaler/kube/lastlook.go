package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/plimsoll/plimsoll/nodescaler"
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
		if said := o.said.Identity(); len(ids.Of(said).Named) > 0 {
			s.Nodes = append(s.Nodes, nodescaler.SeenNode{Identity: said, UID: string(o.UID), Ready: o.ready, Open: o.open()})
		}
	}
	for i := range s.Nodes {
		if s.Nodes[i].Pods, err = n.podsOn(ctx, s.Nodes[i].Name, s.Nodes[i].Ready); err != nil {
			return s, err
		}
	}
	if !slices.ContainsFunc(all, func(o *node) bool { return o.Name == machine.Name }) {
		all = append(all, &node{ObjectMeta: metav1.ObjectMeta{Name: machine.Name}})
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

// pages reads a list page by page.
func pages(how metav1.ListOptions, one func(metav1.ListOptions) (next string, err error)) error {
	how.Limit = page
	for {
		next, err := one(how)
		if err != nil || next == "" {
			return err
		}
		how.Continue = next
	}
}

// all reads the nodes, sorted by name.
func (n *Nodes) all(ctx context.Context) (all []*node, err error) {
	err = pages(metav1.ListOptions{}, func(how metav1.ListOptions) (string, error) {
		list, err := n.client.CoreV1().Nodes().List(ctx, how)
		if err != nil {
			return "", fmt.Errorf("nodes: %w", err)
		}
		for i := range list.Items {
			all = append(all, shortNode(&list.Items[i]))
		}
		return list.Continue, nil
	})
	slices.SortFunc(all, func(a, b *node) int { return strings.Compare(a.Name, b.Name) })
	return all, err
}

// podsOn are the pods that have to be gone from a node before its machine can go, as
// namespace/name. A pod that was asked to leave a node which is not ready will never be seen to
// have left.
func (n *Nodes) podsOn(ctx context.Context, node string, ready bool) (names []string, err error) {
	how := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()}
	err = pages(how, func(how metav1.ListOptions) (string, error) {
		list, err := n.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, how)
		if err != nil {
			return "", fmt.Errorf("pods of node %s: %w", node, err)
		}
		for i := range list.Items {
			p := shortPod(&list.Items[i])
			if p.said.Node == node && !p.said.Finished() && !p.said.Daemon && !p.isPlaceholder() && (ready || !p.said.Terminating) {
				names = append(names, p.said.Name)
			}
		}
		return list.Continue, nil
	})
	slices.Sort(names)
	return names, err
}

// localClaims are the claims on the disks of some nodes that must not be lost, by node. Which
// claims may be is only asked where there are any.
func (n *Nodes) localClaims(ctx context.Context, all []*node, of []string) (map[string][]string, error) {
	var kept []*volume
	err := pages(metav1.ListOptions{}, func(how metav1.ListOptions) (string, error) {
		list, err := n.client.CoreV1().PersistentVolumes().List(ctx, how)
		if err != nil {
			return "", fmt.Errorf("persistentvolumes: %w", err)
		}
		for i := range list.Items {
			kept = append(kept, shortVolume(&list.Items[i]))
		}
		return list.Continue, nil
	})
	if err != nil {
		return nil, err
	}
	found := newDisks(all, nil).local(kept)
	var marks []*claim
	asked := map[string]bool{}
	for _, node := range of {
		for _, name := range found[node] {
			namespace, _, _ := strings.Cut(name, "/")
			if asked[namespace] {
				continue
			}
			asked[namespace] = true
			in, err := n.claimsIn(ctx, namespace)
			if err != nil {
				return nil, err
			}
			marks = append(marks, in...)
		}
	}
	if len(marks) == 0 {
		return found, nil
	}
	return newDisks(all, marks).local(kept), nil
}

func (n *Nodes) claimsIn(ctx context.Context, namespace string) (all []*claim, err error) {
	err = pages(metav1.ListOptions{}, func(how metav1.ListOptions) (string, error) {
		list, err := n.client.CoreV1().PersistentVolumeClaims(namespace).List(ctx, how)
		if err != nil {
			return "", fmt.Errorf("persistentvolumeclaims of %s: %w", namespace, err)
		}
		for i := range list.Items {
			all = append(all, shortClaim(&list.Items[i]))
		}
		return list.Continue, nil
	})
	return all, err
}
