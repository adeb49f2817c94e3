package sight

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
)

// Disks are the nodes, to look up which of them volumes lie on.
type Disks struct {
	nodes   []*kept.Node
	byLabel map[string]map[string][]*kept.Node
	claims  map[string]*kept.Claim // by namespace/name
	// machines are nodes by their machines' names. The volumes of a renamed node refer to its old
	// name, which is still the name of its machine.
	machines map[string]*kept.Node
	byName   map[string][]*kept.Node // by their short names
}

// NewDisks takes the nodes, and the claims that may say what is safe to lose.
func NewDisks(nodes []*kept.Node, claims []*kept.Claim) *Disks {
	d := &Disks{nodes: nodes, byLabel: map[string]map[string][]*kept.Node{}, claims: make(map[string]*kept.Claim, len(claims)), machines: map[string]*kept.Node{}, byName: map[string][]*kept.Node{}}
	for _, n := range nodes {
		d.byName[short(n.Name)] = append(d.byName[short(n.Name)], n)
	}
	for _, c := range claims {
		d.claims[c.Namespace+"/"+c.Name] = c
	}
	return d
}

// having returns the nodes with a label of the value.
func (d *Disks) having(label, value string) []*kept.Node {
	known, ok := d.byLabel[label]
	if !ok {
		known = map[string][]*kept.Node{}
		for _, n := range d.nodes {
			is, has := n.Labels[label]
			if label == nodescaler.NameField || label == corev1.LabelHostname && !has {
				is, has = n.Name, true
			}
			if has {
				known[is] = append(known[is], n)
			}
		}
		d.byLabel[label] = known
	}
	at := known[value]
	for _, n := range d.named(value) {
		if !slices.Contains(at, n) {
			at = append(slices.Clip(at), n)
		}
	}
	return at
}

// named returns the nodes that a value of any label names: by their names, in short or in full, or
// by those of their machines. A node that is gone, or has registered anew, lacks the labels that
// its volumes go by; the volumes are there.
func (d *Disks) named(value string) (at []*kept.Node) {
	if n := d.machines[value]; n != nil {
		at = append(at, n)
	}
	for _, n := range d.byName[short(value)] {
		if (n.Name == value || n.Name == short(value) || short(n.Name) == value) && !slices.Contains(at, n) {
			at = append(at, n)
		}
	}
	return at
}

// short is a host name without its domain.
func short(name string) string {
	name, _, _ = strings.Cut(name, ".")
	return name
}

// Local are the claims whose volumes lie on a node's own disk and must not be lost, sorted, by
// node.
func (d *Disks) Local(volumes []*kept.Volume) map[string][]string {
	found := map[string][]string{}
	for _, v := range volumes {
		if len(v.Homes) == 0 || !v.Lasts || d.expendable(v) {
			continue
		}
		for _, n := range d.of(v) {
			found[n.Name] = append(found[n.Name], v.Claim)
		}
	}
	for _, claims := range found {
		slices.Sort(claims)
	}
	return found
}

// expendable reports whether the volume, or the very claim that it is bound to, is marked as safe
// to lose.
func (d *Disks) expendable(v *kept.Volume) bool {
	c := d.claims[v.Claim]
	return v.MayBeLost || c != nil && c.MayBeLost && c.UID == v.ClaimUID
}

// of returns the nodes that a volume lies on: one, or none if it can be on several. Several nodes
// with one host name, or with a label that names one of them, are all taken for the one that is
// meant.
func (d *Disks) of(v *kept.Volume) []*kept.Node {
	var at []*kept.Node
	sole := true // one host is named
	for _, h := range v.Homes {
		sole = sole && len(h.Values) == 1 && h.Values[0] == v.Homes[0].Values[0] && (h.Label == corev1.LabelHostname || len(d.named(h.Values[0])) > 0)
		for _, value := range h.Values {
			for _, n := range d.having(h.Label, value) {
				if !slices.Contains(at, n) {
					at = append(at, n)
				}
			}
		}
	}
	if v.More {
		at = slices.DeleteFunc(at, func(n *kept.Node) bool { return !v.Required.Meets(&n.Said) })
	}
	if len(at) > 1 && !sole {
		return nil
	}
	return at
}
