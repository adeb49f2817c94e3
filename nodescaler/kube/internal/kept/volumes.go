package kept

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

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

// Volume is what is kept of a PersistentVolume: where pods that use it can run.
type Volume struct {
	metav1.ObjectMeta
	Claim    string // namespace/name
	ClaimUID types.UID
	Required nodescaler.Affinity
	Zones    nodescaler.Affinity // what its labels require of nodes
	Driver   string              // of the container storage interface
	form
	Free  bool   // it is available, and no claim's
	Local string // why the volume goes with its node, if it does
	// Homes are where it lies, if that is on single nodes, and more is set where its affinity asks
	// for other things of them, too.
	Homes []home
	More  bool
	// Lasts is set while what is on it is wanted, and mayBeLost if it is marked so.
	Lasts, MayBeLost bool
}

// ShortVolume is what is kept of a PersistentVolume.
func ShortVolume(v *corev1.PersistentVolume) *Volume {
	kept := &Volume{ObjectMeta: keepMeta(&v.ObjectMeta), Lasts: lasts(v), MayBeLost: mayBeLost(v)}
	if v.Spec.ClaimRef != nil {
		kept.ClaimUID = v.Spec.ClaimRef.UID
		kept.Claim = v.Spec.ClaimRef.Namespace + "/" + v.Spec.ClaimRef.Name
	}
	if v.Spec.NodeAffinity != nil && v.Spec.NodeAffinity.Required != nil {
		kept.Required = affinity(v.Spec.NodeAffinity.Required)
		kept.Homes, kept.More = homesOf(v.Spec.NodeAffinity.Required)
	}
	kept.Zones = zonesOf(v.Labels)
	class, named := v.Annotations[corev1.BetaStorageClassAnnotation]
	if !named {
		class = v.Spec.StorageClassName
	}
	kept.form = formOf(class, v.Spec.Capacity, v.Spec.AccessModes, v.Spec.VolumeMode, v.Spec.VolumeAttributesClassName)
	if kept.Free = v.Spec.ClaimRef == nil && v.Status.Phase == corev1.VolumeAvailable; kept.Free {
		kept.Labels = same(v.Labels)
	}
	if v.Spec.CSI != nil {
		kept.Driver = Text(v.Spec.CSI.Driver)
	}
	if v.Spec.Local != nil || v.Spec.HostPath != nil {
		kept.Local = fmt.Sprintf("persistent volume %s is on the node's own disk", v.Name)
	}
	return kept
}

// zoneLabels are by the scheduler's filter VolumeZone. Where a node lacks the earlier of two labels
// it goes by the present one.
var zoneLabels = []struct{ key, present string }{
	{corev1.LabelFailureDomainBetaZone, corev1.LabelTopologyZone}, {corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyRegion},
	{corev1.LabelTopologyZone, ""}, {corev1.LabelTopologyRegion, ""},
}

// zonesOf reads what a volume's labels of zone and region require of nodes; nil is nothing. The
// scheduler does not ask it of nodes that have none of these labels.
func zonesOf(volume map[string]string) nodescaler.Affinity {
	all, unlabelled := nodescaler.Affinity{nil}, nodescaler.Term{}
	for _, l := range zoneLabels {
		unlabelled = append(unlabelled, nodescaler.Requirement{Key: l.key, Operator: nodescaler.DoesNotExist})
		var values []string
		for value := range strings.SplitSeq(volume[l.key], "__") {
			values = append(values, Text(strings.TrimSpace(value)))
		}
		if slices.Contains(values, "") { // there is no label, or one that the scheduler ignores
			continue
		}
		slices.Sort(values)
		in := func(key string) nodescaler.Requirement {
			return nodescaler.Requirement{Key: key, Operator: nodescaler.In, Values: values}
		}
		for i, t := range all {
			all[i] = append(slices.Clip(t), in(l.key))
			if l.present != "" {
				all = append(all, append(slices.Clip(t), unlabelled[len(unlabelled)-1], in(l.present)))
			}
		}
	}
	if len(all[0]) == 0 {
		return nil
	}
	return append(all, unlabelled)
}

// home is where a volume lies: on the nodes whose label has one of the values.
type home struct {
	Label  string
	Values []string
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
		homes = append(homes, home{Text(all[best].Key), all[best].Values})
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

// Volumes that are there and no claim's are found by claims that wait for their pod's node, on
// each node as the scheduler does it: the smallest claim chooses first, and the smallest volume
// that suits it.

// form is what a claim asks of a volume, or what a volume has.
type form struct {
	Class      string // "" if it has none
	Bytes      int64
	modes      []corev1.PersistentVolumeAccessMode
	block      bool
	attributes string // the name of a VolumeAttributesClass
}

func formOf(class string, size corev1.ResourceList, modes []corev1.PersistentVolumeAccessMode, mode *corev1.PersistentVolumeMode, attributes *string) form {
	f := form{Class: Text(class), Bytes: size.Storage().Value(), block: mode != nil && *mode == corev1.PersistentVolumeBlock}
	for _, m := range modes {
		f.modes = append(f.modes, corev1.PersistentVolumeAccessMode(Text(string(m))))
	}
	if attributes != nil {
		f.attributes = Text(*attributes)
	}
	return f
}

// Attachment is what is kept of a VolumeAttachment: which volume is attached to which node.
type Attachment struct {
	metav1.ObjectMeta
	Node, Volume string
}

func shortAttachment(a *storagev1.VolumeAttachment) *Attachment {
	kept := &Attachment{ObjectMeta: keepMeta(&a.ObjectMeta), Node: Text(a.Spec.NodeName)}
	if a.Spec.Source.PersistentVolumeName != nil {
		kept.Volume = *a.Spec.Source.PersistentVolumeName
	}
	return kept
}

// What pods' claims ask of nodes is what the scheduler's filters VolumeBinding, VolumeZone,
// VolumeRestrictions and NodeVolumeLimits make of it. How much more a driver can store is not
// looked at.

// Class is what is kept of a StorageClass.
type Class struct {
	metav1.ObjectMeta
	Provisioner string
	Delayed     bool // its claims are bound once the pod has a node
	Usual       bool // the class of claims that name none
	// Required is where its volumes can be made; nil is anywhere.
	Required nodescaler.Affinity
}

// Makes reports whether volumes are made for claims of the class.
func (k *Class) Makes() bool {
	return k.Provisioner != "" && k.Provisioner != "kubernetes.io/no-provisioner"
}

func shortClass(s *storagev1.StorageClass) *Class {
	kept := &Class{
		ObjectMeta: keepMeta(&s.ObjectMeta), Provisioner: Text(s.Provisioner),
		Delayed: s.VolumeBindingMode != nil && *s.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer,
		Usual: s.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" ||
			s.Annotations["storageclass.beta.kubernetes.io/is-default-class"] == "true",
	}
	for _, t := range s.AllowedTopologies {
		term := make(nodescaler.Term, 0, len(t.MatchLabelExpressions))
		for _, e := range t.MatchLabelExpressions {
			term = append(term, nodescaler.Requirement{Key: Text(e.Key), Operator: nodescaler.In, Values: slices.Sorted(slices.Values(e.Values))})
		}
		kept.Required = append(kept.Required, term)
	}
	return kept
}

// Attachable is what is kept of a CSINode: how many volumes of a driver the node takes, where there
// is an end to it.
type Attachable struct {
	metav1.ObjectMeta
	Most map[string]int64 // by driver
}

func shortAttachable(n *storagev1.CSINode) *Attachable {
	kept := &Attachable{keepMeta(&n.ObjectMeta), map[string]int64{}}
	for i := range n.Spec.Drivers {
		if d := &n.Spec.Drivers[i]; d.Allocatable != nil && d.Allocatable.Count != nil {
			kept.Most[Text(d.Name)] = int64(*d.Allocatable.Count)
		}
	}
	return kept
}

// Claim is what is kept of a PersistentVolumeClaim.
type Claim struct {
	metav1.ObjectMeta
	MayBeLost bool
	form                      // that its volume is to have
	selector  labels.Selector // of that volume's labels; nil is any
	Unnamed   bool            // it has no class, and not on purpose
	Alone     bool            // one pod at a time may use it
	Node      string          // that its volume is being made for, if one was chosen
	Volume    string          // that it is to be bound to, if one was chosen
	// Bound is set once it is for good, and lost if that volume is gone.
	Bound, Lost bool
}

func shortClaim(c *corev1.PersistentVolumeClaim) *Claim {
	kept := claimOf(&c.ObjectMeta, &c.Spec)
	kept.Lost = c.Status.Phase == corev1.ClaimLost
	return kept
}

// claimOf keeps a claim but for its status, or a template.
func claimOf(m *metav1.ObjectMeta, spec *corev1.PersistentVolumeClaimSpec) *Claim {
	kept := &Claim{
		ObjectMeta: keepMeta(m), MayBeLost: mayBeLost(m), Volume: spec.VolumeName,
		Alone: slices.Contains(spec.AccessModes, corev1.ReadWriteOncePod), Node: Text(m.Annotations["volume.kubernetes.io/selected-node"]),
	}
	_, completed := m.Annotations["pv.kubernetes.io/bind-completed"]
	kept.Bound = kept.Volume != "" && completed
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
	kept.form, kept.Unnamed = formOf(class, spec.Resources.Requests, spec.AccessModes, spec.VolumeMode, spec.VolumeAttributesClassName), !named
	return kept
}

// Has reports whether a volume that names the claim is its own. An earlier claim of the name may
// have left one.
func (c *Claim) Has(v *Volume) bool {
	return c == nil || (v.ClaimUID == "" || v.ClaimUID == c.UID) && (c.Volume == "" || c.Volume == v.Name)
}

// Fits reports whether the claim may have the volume, if that names the claim.
func (c *Claim) Fits(v *Volume) bool {
	return v.Class == c.Class && v.Bytes >= c.Bytes && v.block == c.block && v.attributes == c.attributes && v.DeletionTimestamp == nil
}

// Suits reports whether the claim may have a volume that is free.
func (c *Claim) Suits(v *Volume) bool {
	if !c.Fits(v) || c.selector != nil && !c.selector.Matches(labels.Set(v.Labels)) {
		return false
	}
	return !slices.ContainsFunc(c.modes, func(m corev1.PersistentVolumeAccessMode) bool { return !slices.Contains(v.modes, m) })
}

// Many reports whether pods on several nodes may use the claim.
func (c *Claim) Many() bool {
	return slices.Contains(c.modes, corev1.ReadWriteMany) || slices.Contains(c.modes, corev1.ReadOnlyMany)
}

// Anew is a claim like it of which nothing has come yet.
func (c *Claim) Anew() *Claim {
	return &Claim{form: c.form, selector: c.selector}
}

// Use is a claim that a pod uses. A generic ephemeral volume's is made after the pod, from the
// template.
type Use struct {
	Claim    string
	Template *Claim
	Again    int // how often the pod names it besides
}

// uses are the claims that a pod uses, each once.
func uses(p *corev1.Pod) (all []Use) {
	for i := range p.Spec.Volumes {
		var u Use
		switch v := &p.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			u.Claim = v.PersistentVolumeClaim.ClaimName
		case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
			t := v.Ephemeral.VolumeClaimTemplate
			u = Use{Claim: p.Name + "-" + v.Name, Template: claimOf(&t.ObjectMeta, &t.Spec)}
		default:
			continue
		}
		if i := slices.IndexFunc(all, func(other Use) bool { return other.Claim == u.Claim }); i >= 0 {
			all[i].Again++
		} else {
			all = append(all, u)
		}
	}
	return all
}
