package sight

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
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
	pods := each[*kept.Pod](o.Pods)
	pods = inOrder(pods)
	claimed := newDevices(each[*kept.DeviceClaim](o.DeviceClaims), each[*kept.DeviceClaim](o.DeviceTemplates), each[*kept.Published](o.DeviceSlices), pods)
	rests := newStorage(each[*kept.Volume](o.Volumes), each[*kept.Claim](o.Claims), each[*kept.Class](o.Classes), each[*kept.Attachable](o.CSINodes), claimed, pods)
	for _, n := range each[*kept.Node](o.Nodes) {
		n.Said.Extra, n.Said.Devices = n.Said.Extra.Plus(rests.takes(n.Name)), rests.devices.on[n.Name]
		s.Nodes = append(s.Nodes, n.Said)
	}
	var namespaces []*metav1.PartialObjectMetadata
	for _, n := range o.Namespaces {
		namespaces = append(namespaces, &metav1.PartialObjectMetadata{ObjectMeta: n.ObjectMeta})
	}
	marks, whose := newMarker(pods, nil, namespaces), newGenealogy(&Lists{}, nil)
	s.Pods = make([]nodescaler.Pod, len(pods))
	for i, p := range pods {
		s.Pods[i] = p.Says()
		s.Pods[i].Workload = whose.workload(p)
		rests.place(&s.Pods[i], p)
		marks.fill(&s.Pods[i], p)
	}
	return s
}

// each is what is kept of all objects of a kind; nil stays nil.
func each[S, T any](all []T) []S {
	if all == nil {
		return nil
	}
	short := make([]S, 0, len(all))
	for _, o := range all {
		if is, err := kept.Keep(o); err == nil {
			short = append(short, is.(S))
		}
	}
	return short
}
