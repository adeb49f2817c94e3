package kube

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// A volume is on one node's own disk if its required node affinity matches that node only: by the
// node's name or host name, or by a label of the volume's driver that no other node has. Examples
// are k3s' local-path, local and hostPath volumes with an affinity, and CSI drivers like TopoLVM or
// OpenEBS. Zones and regions do not count, even with a single node: they are where a volume can be
// attached, not the disk that it is on. The place of a hostPath without an affinity is unknown, as
// it may be a share that all nodes mount. Pods that use one keep their node while they run.
//
// Such a volume counts while its claim is bound, with or without a pod: a StatefulSet at 0 and a
// CronJob between two runs need it again. It also counts after the claim is deleted, if the reclaim
// policy retains the volume, because its owner wants the data.

// annotationMayBeLost with the value true, on a claim or a volume, allows its loss with the node.
const annotationMayBeLost = "plimsoll.dev/safe-to-lose"

func mayBeLost(m metav1.Object) bool { return m.GetAnnotations()[annotationMayBeLost] == "true" }

// claim is what is kept of a PersistentVolumeClaim.
type claim struct {
	metav1.ObjectMeta
	mayBeLost bool
	form                      // that its volume is to have
	selector  labels.Selector // of that volume's labels; nil is any
	unnamed   bool            // it has no class, and not on purpose
	alone     bool            // one pod at a time may use it
	node      string          // that its volume is being made for, if one was chosen
	volume    string          // that it is to be bound to, if one was chosen
	// bound is set once it is for good, and lost if that volume is gone.
	bound, lost bool
}

// keepClaim is the transform of the copies of PersistentVolumeClaims.
func keepClaim(o any) (any, error) {
	c, ok := o.(*corev1.PersistentVolumeClaim)
	if !ok {
		return o, nil
	}
	return shortClaim(c), nil
}

func shortClaim(c *corev1.PersistentVolumeClaim) *claim {
	kept := claimOf(&c.ObjectMeta, &c.Spec)
	kept.lost = c.Status.Phase == corev1.ClaimLost
	return kept
}

// claimOf keeps a claim but for its status, or a template.
func claimOf(m *metav1.ObjectMeta, spec *corev1.PersistentVolumeClaimSpec) *claim {
	kept := &claim{
		ObjectMeta: keepMeta(m), mayBeLost: mayBeLost(m), volume: spec.VolumeName,
		alone: slices.Contains(spec.AccessModes, corev1.ReadWriteOncePod), node: text(m.Annotations["volume.kubernetes.io/selected-node"]),
	}
	_, completed := m.Annotations["pv.kubernetes.io/bind-completed"]
	kept.bound = kept.volume != "" && completed
	if spec.Selector != nil {
		kept.selector = labels.Nothing()
		if s, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil {
			kept.selector = s
		}
	}
	class, named := m.Annotations[corev1.BetaStorageClassAnnotation]
	if !named && spec.StorageClassName != nil {
		class, named = *spec.StorageClassName, true
	}
	kept.form, kept.unnamed = formOf(class, spec.Resources.Requests, spec.AccessModes, spec.VolumeMode, spec.VolumeAttributesClassName), !named
	return kept
}

// has reports whether a volume that names the claim is its own. An earlier claim of the name may
// have left one.
func (c *claim) has(v *volume) bool {
	return c == nil || (v.claimUID == "" || v.claimUID == c.UID) && (c.volume == "" || c.volume == v.Name)
}

// home is where a volume lies: on the nodes whose label has one of the values.
type home struct {
	label  string
	values []string
}

// homesOf reads of an affinity what names single nodes; nil if one of its terms names none. More
// reports whether there are requirements besides.
func homesOf(required *corev1.NodeSelector) (homes []home, more bool) {
	if required == nil {
		return nil, false
	}
	for i := range required.NodeSelectorTerms {
		t := &required.NodeSelectorTerms[i]
		more = more || len(t.MatchExpressions)+len(t.MatchFields) > 1
		all := slices.Concat(t.MatchFields, t.MatchExpressions)
		best := slices.IndexFunc(all, func(r corev1.NodeSelectorRequirement) bool { return r.Key == corev1.LabelHostname && namesNodes(&r) })
		if best < 0 {
			best = slices.IndexFunc(all, func(r corev1.NodeSelectorRequirement) bool { return namesNodes(&r) })
		}
		if best < 0 {
			return nil, false
		}
		homes = append(homes, home{text(all[best].Key), all[best].Values})
	}
	return homes, more
}

// namesNodes reports whether the requirement can match a single node by its nature.
func namesNodes(r *corev1.NodeSelectorRequirement) bool {
	_, name, _ := strings.Cut(r.Key, "/")
	switch name {
	case "zone", "region", "arch", "os", "instance-type":
		return false
	}
	return r.Operator == corev1.NodeSelectorOpIn
}

// lasts reports whether the data on the volume is needed: it is bound, or retained on purpose.
func lasts(v *corev1.PersistentVolume) bool {
	switch v.Status.Phase {
	case corev1.VolumeAvailable, corev1.VolumeFailed:
		return false
	case corev1.VolumeReleased:
		return v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
	case corev1.VolumeBound, corev1.VolumePending:
	}
	return v.Spec.ClaimRef != nil
}

// disks are the nodes, to look up which of them volumes lie on.
type disks struct {
	nodes   []*node
	byLabel map[string]map[string][]*node
	claims  map[string]*claim // by namespace/name
	// machines are nodes by their machines' names. The volumes of a renamed node refer to its old
	// name, which is still the name of its machine.
	machines map[string]*node
	byName   map[string][]*node // by their short names
}

func newDisks(nodes []*node, claims []*claim) *disks {
	d := &disks{nodes: nodes, byLabel: map[string]map[string][]*node{}, claims: make(map[string]*claim, len(claims)), machines: map[string]*node{}, byName: map[string][]*node{}}
	for _, n := range nodes {
		d.byName[short(n.Name)] = append(d.byName[short(n.Name)], n)
	}
	for _, c := range claims {
		d.claims[c.Namespace+"/"+c.Name] = c
	}
	return d
}

// having returns the nodes with a label of the value.
func (d *disks) having(label, value string) []*node {
	known, ok := d.byLabel[label]
	if !ok {
		known = map[string][]*node{}
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
func (d *disks) named(value string) (at []*node) {
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

// local are the claims whose volumes lie on a node's own disk and must not be lost, sorted, by
// node.
func (d *disks) local(volumes []*volume) map[string][]string {
	found := map[string][]string{}
	for _, v := range volumes {
		if len(v.homes) == 0 || !v.lasts || d.expendable(v) {
			continue
		}
		for _, n := range d.of(v) {
			found[n.Name] = append(found[n.Name], v.claim)
		}
	}
	for _, claims := range found {
		slices.Sort(claims)
	}
	return found
}

// expendable reports whether the volume, or the very claim that it is bound to, is marked as safe
// to lose.
func (d *disks) expendable(v *volume) bool {
	c := d.claims[v.claim]
	return v.mayBeLost || c != nil && c.mayBeLost && c.UID == v.claimUID
}

// of returns the nodes that a volume lies on: one, or none if it can be on several. Several nodes
// with one host name, or with a label that names one of them, are all taken for the one that is
// meant.
func (d *disks) of(v *volume) []*node {
	var at []*node
	sole := true // one host is named
	for _, h := range v.homes {
		sole = sole && len(h.values) == 1 && h.values[0] == v.homes[0].values[0] && (h.label == corev1.LabelHostname || len(d.named(h.values[0])) > 0)
		for _, value := range h.values {
			for _, n := range d.having(h.label, value) {
				if !slices.Contains(at, n) {
					at = append(at, n)
				}
			}
		}
	}
	if v.more {
		at = slices.DeleteFunc(at, func(n *node) bool { return !v.required.Meets(&n.said) })
	}
	if len(at) > 1 && !sole {
		return nil
	}
	return at
}
