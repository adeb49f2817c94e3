package kube

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// Objects are what Read takes. Of claims that are not bound nothing is known where volumes, claims
// or classes are nil, and of namespaces that are not among them no labels.
type Objects struct {
	Nodes      []*corev1.Node
	Pods       []*corev1.Pod
	Namespaces []*corev1.Namespace
	Volumes    []*corev1.PersistentVolume
	Claims     []*corev1.PersistentVolumeClaim
	Classes    []*storagev1.StorageClass
	CSINodes   []*storagev1.CSINode
	// DeviceClaims and DeviceTemplates are ResourceClaims and their templates. Of pods that use any
	// nothing is known where either is nil.
	DeviceClaims    []*resourcev1.ResourceClaim
	DeviceTemplates []*resourcev1.ResourceClaimTemplate
	DeviceSlices    []*resourcev1.ResourceSlice
}

// Read returns nodes and pods as Observe would, where there is no cluster to observe: to play one
// load through our policies and through others. Whose machines nodes are, DaemonSets, budgets and
// what pods use rest on other objects, and are not set.
func Read(o *Objects) nodescaler.Snapshot {
	s := nodescaler.Snapshot{}
	kept := each(o.Pods, shortPod)
	slices.SortFunc(kept, func(a, b *pod) int { return strings.Compare(a.said.Name, b.said.Name) })
	claimed := newDevices(each(o.DeviceClaims, shortDeviceClaim), each(o.DeviceTemplates, shortDeviceTemplate), each(o.DeviceSlices, shortPublished), kept)
	rests := newStorage(each(o.Volumes, shortVolume), each(o.Claims, shortClaim), each(o.Classes, shortClass), each(o.CSINodes, shortAttachable), claimed, kept)
	for _, n := range each(o.Nodes, shortNode) {
		n.said.Extra, n.said.Devices = n.said.Extra.Plus(rests.takes(n.Name)), rests.devices.on[n.Name]
		s.Nodes = append(s.Nodes, n.said)
	}
	marks, whose := newMarker(kept, nil, each(o.Namespaces, metaOf)), &genealogy{found: map[types.UID]string{}}
	s.Pods = make([]nodescaler.Pod, len(kept))
	for i, p := range kept {
		s.Pods[i] = p.said
		s.Pods[i].Workload = whose.workload(p)
		rests.place(&s.Pods[i], p)
		marks.fill(&s.Pods[i], p)
	}
	return s
}

func metaOf(n *corev1.Namespace) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: n.ObjectMeta}
}

// each shortens all objects of a kind; nil stays nil.
func each[T, S any](all []T, shorten func(T) S) []S {
	if all == nil {
		return nil
	}
	short := make([]S, len(all))
	for i, o := range all {
		short[i] = shorten(o)
	}
	return short
}
