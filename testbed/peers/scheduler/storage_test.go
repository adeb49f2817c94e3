package scheduler

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/plimsoll/plimsoll/nodescaler/kube"
)

// storage is the namespaces and claims that pods of all worlds have, and what these rest on.
type storage struct{ kube.Objects }

var stored = newStorage()

// claim is one of those of each namespace, or one that there is not.
func (c chance) claim() string {
	switch c.IntN(16) {
	case 0:
		return pick(c, "none", pick(c, stored.Claims...).Name)
	case 1, 2, 3, 4:
		return "alone"
	case 5:
		return "of-zoned"
	case 6, 7, 8:
		return pick(c, "finds-2", "finds-4", "finds-labelled", "finds-once", "finds-or-made", "kept", "kept-small")
	case 9:
		return fmt.Sprint("labelled-", c.IntN(4))
	default: // of which a node takes few
		return fmt.Sprint("bound-", c.IntN(5))
	}
}

func newStorage() (s storage) {
	for _, mode := range []storagev1.VolumeBindingMode{storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer} {
		s.Classes = append(s.Classes, &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: string(mode)}, Provisioner: "few.example.com", VolumeBindingMode: &mode,
		})
	}
	zoned := s.Classes[1].DeepCopy()
	zoned.Name, zoned.Provisioner = "zoned", "many.example.com"
	zoned.AllowedTopologies = []corev1.TopologySelectorTerm{
		{}, {MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "zone", Values: []string{"a", "d"}}, {Key: "disk", Values: []string{"ssd", "hdd"}}}},
		{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "zone", Values: []string{"c"}}}},
	}
	static := s.Classes[1].DeepCopy()
	static.Name, static.Provisioner = "static", "kubernetes.io/no-provisioner"
	s.Classes = append(s.Classes, zoned, static)
	s.free()
	for i, most := range []int32{1, 2, 3, 0} { // n4 has the driver without a limit, n5 not at all
		s.CSINodes = append(s.CSINodes, csiNode(fmt.Sprint("n", i), &storagev1.VolumeNodeResources{Count: &most}))
	}
	s.CSINodes = append(s.CSINodes, csiNode("n4", nil))
	for _, namespace := range spaces {
		s.claims(namespace)
	}
	return s
}

// spaces are the namespaces of pods.
var spaces = []string{"shop", "other", "third"}

// namespaces draws their labels.
func (c chance) namespaces() (all []*corev1.Namespace) {
	for _, name := range spaces {
		labels := map[string]string{corev1.LabelMetadataName: name}
		if !c.one(4) {
			labels["team"] = pick(c, "red", "blue")
		}
		if c.one(2) {
			labels["tier"] = "x"
		}
		all = append(all, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	}
	return all
}

func csiNode(name string, limit *storagev1.VolumeNodeResources) *storagev1.CSINode {
	return &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
			{Name: "few.example.com", NodeID: name, Allocatable: limit}, {Name: "other.example.com", NodeID: name},
		}},
	}
}

func (s *storage) claims(namespace string) {
	for i, zone := range []string{"", "", "", "a", "b"} {
		s.bound(namespace, fmt.Sprint("bound-", i), zone)
	}
	for i, labels := range []map[string]string{
		{corev1.LabelTopologyZone: "a__b"}, {corev1.LabelFailureDomainBetaZone: "a"}, {corev1.LabelTopologyZone: "a", corev1.LabelTopologyRegion: "r"},
		{corev1.LabelFailureDomainBetaZone: "b", corev1.LabelFailureDomainBetaRegion: "r"},
	} {
		s.bound(namespace, fmt.Sprint("labelled-", i), "")
		s.Volumes[len(s.Volumes)-1].Labels = labels
	}
	s.bound(namespace, "alone", "").Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	deleted := s.bound(namespace, "deleted", "")
	deleted.Finalizers, deleted.DeletionTimestamp = []string{"kubernetes.io/pvc-protection"}, &metav1.Time{Time: time.Unix(1, 0)}
	s.bound(namespace, "lost", "").Status.Phase = corev1.ClaimLost
	s.bound(namespace, "no-volume", "").Spec.VolumeName = "gone"
	s.claim(namespace, "no-class")
	delayed := string(storagev1.VolumeBindingWaitForFirstConsumer)
	for _, class := range []string{"gone", string(storagev1.VolumeBindingImmediate), delayed, "zoned"} {
		s.claim(namespace, "of-"+class).Spec.StorageClassName = &class
	}
	for _, class := range []string{delayed, "zoned"} {
		pinned := s.claim(namespace, "pinned-"+class)
		pinned.Spec.StorageClassName, pinned.Annotations = &class, map[string]string{"volume.kubernetes.io/selected-node": "n2"}
	}
	s.finds(namespace)
	chosen := s.claim(namespace, "chosen")
	chosen.Spec.StorageClassName, chosen.Spec.VolumeName = &delayed, "v"
}

// free makes volumes that are no claim's. No two are of one size: which of them is chosen would be
// chance.
func (s *storage) free() {
	many, once := corev1.ReadWriteMany, corev1.ReadWriteOnce
	for _, f := range []struct {
		class, zone, size, label string
		mode                     corev1.PersistentVolumeAccessMode
		phase                    corev1.PersistentVolumePhase
	}{
		{"static", "a", "3Gi", "", many, corev1.VolumeAvailable}, {"static", "a", "7Gi", "", many, corev1.VolumeAvailable},
		{"static", "b", "5Gi", "", many, corev1.VolumeAvailable}, {"static", "c", "6Gi", "x", once, corev1.VolumeAvailable},
		{"static", "c", "1Gi", "x", many, corev1.VolumeAvailable}, {"static", "c", "9Gi", "", many, corev1.VolumeReleased},
		{"zoned", "b", "4Gi", "", many, corev1.VolumeAvailable}, {"zoned", "", "2Gi", "", once, corev1.VolumeAvailable},
	} {
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "free-" + strings.ToLower(f.class+f.zone+f.size), Labels: map[string]string{"label": f.label}}}
		v.Spec.StorageClassName, v.Spec.AccessModes = f.class, []corev1.PersistentVolumeAccessMode{f.mode}
		v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: amount(f.size)}
		v.Spec.NodeAffinity, v.Status.Phase = inZone(f.zone), f.phase
		s.Volumes = append(s.Volumes, v)
	}
}

// finds makes claims that wait for such a volume, and two of which each has one that is kept for
// it.
func (s *storage) finds(namespace string) {
	for _, f := range []struct{ name, size string }{
		{"finds-2", "2Gi"}, {"finds-4", "4Gi"}, {"finds-labelled", "1Gi"}, {"finds-once", "5Gi"}, {"finds-or-made", "3Gi"}, {"kept", "1Gi"}, {"kept-small", "2500M"},
	} {
		c, class := s.claim(namespace, f.name), "static"
		c.Spec.StorageClassName, c.Spec.Resources.Requests = &class, corev1.ResourceList{corev1.ResourceStorage: amount(f.size)}
		switch f.name {
		case "finds-or-made":
			class = "zoned"
		case "finds-labelled":
			c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"label": "x"}}
		case "finds-once":
			c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		case "kept", "kept-small":
			v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: namespace + "-" + f.name}}
			v.Spec.ClaimRef, v.Spec.StorageClassName = &corev1.ObjectReference{Namespace: namespace, Name: f.name}, class
			v.Spec.Capacity, v.Spec.NodeAffinity = corev1.ResourceList{corev1.ResourceStorage: amount("2Gi")}, inZone("b")
			s.Volumes = append(s.Volumes, v)
		}
	}
}

// inZone is the affinity of a volume that is in a zone, or anywhere.
func inZone(zone string) *corev1.VolumeNodeAffinity {
	if zone == "" {
		return nil
	}
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
	}}}}
}

func (s *storage) claim(namespace, name string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	s.Claims = append(s.Claims, c)
	return c
}

// bound makes a claim with its volume, which is in a zone or anywhere.
func (s *storage) bound(namespace, name, zone string) *corev1.PersistentVolumeClaim {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: namespace + "-" + name}}
	v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: namespace, Name: name}
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "few.example.com", VolumeHandle: v.Name}
	v.Spec.NodeAffinity = inZone(zone)
	s.Volumes = append(s.Volumes, v)
	c := s.claim(namespace, name)
	c.Spec.VolumeName, c.Annotations = v.Name, map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
	return c
}

// all are the objects that the scheduler's filters look up.
func (s *storage) all() (all []runtime.Object) {
	for _, o := range s.Namespaces {
		all = append(all, o)
	}
	for _, o := range s.Volumes {
		all = append(all, o)
	}
	for _, o := range s.Claims {
		all = append(all, o)
	}
	for _, o := range s.Classes {
		all = append(all, o)
	}
	for _, o := range s.CSINodes {
		all = append(all, o)
	}
	return all
}
