package kept

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Keep is the transform of copies: it returns what is kept of an object. What it does not know, or
// has transformed before, it returns as it is.
func Keep(o any) (any, error) {
	switch o := o.(type) {
	case *corev1.Node:
		return ShortNode(o), nil
	case *corev1.Pod:
		return ShortPod(o), nil
	case *appsv1.Deployment:
		return shortDeployment(o), nil
	case *appsv1.StatefulSet:
		return shortStatefulSet(o), nil
	case *appsv1.DaemonSet:
		return shortDaemonSet(o), nil
	case *corev1.PodTemplate:
		return shortTemplate(o), nil
	case *policyv1.PodDisruptionBudget:
		return shortDisruption(o), nil
	case *corev1.LimitRange:
		return shortLimitRange(o), nil
	case *autoscalingv2.HorizontalPodAutoscaler:
		return shortHorizontal(o), nil
	case *unstructured.Unstructured:
		if o.GetKind() == KindBuffer {
			return shortBuffer(o), nil
		}
		return shortRival(o), nil
	}
	return keepClaimed(o), nil
}

// keepClaimed keeps what pods' claims rest on.
func keepClaimed(o any) any {
	switch o := o.(type) {
	case *corev1.PersistentVolume:
		return ShortVolume(o)
	case *corev1.PersistentVolumeClaim:
		return shortClaim(o)
	case *storagev1.StorageClass:
		return shortClass(o)
	case *storagev1.CSINode:
		return shortAttachable(o)
	case *storagev1.VolumeAttachment:
		return shortAttachment(o)
	case *resourcev1.ResourceClaim:
		return shortDeviceClaim(o)
	case *resourcev1.ResourceClaimTemplate:
		return shortDeviceTemplate(o)
	case *resourcev1.ResourceSlice:
		return shortPublished(o)
	}
	return o
}

// KeepForm keeps of Deployments and StatefulSets the form of their pods, too.
func KeepForm(o any) (any, error) {
	switch d := o.(type) {
	case *appsv1.Deployment:
		kept := shortDeployment(d)
		kept.Like = shortForm(d.Namespace, "", &d.Spec.Template)
		return kept, nil
	case *appsv1.StatefulSet:
		kept := shortStatefulSet(d)
		kept.Like = shortForm(d.Namespace, "", &d.Spec.Template)
		return kept, nil
	}
	return o, nil
}

// KeepOwner keeps of a ReplicaSet its metadata. They lead from a pod to its Deployment, or to
// another owner.
func KeepOwner(o any) (any, error) {
	if m, ok := o.(*metav1.PartialObjectMetadata); ok {
		m.ObjectMeta = keepMeta(&m.ObjectMeta)
	}
	return o, nil
}

// KeepNamespace keeps of a namespace its metadata with the labels.
func KeepNamespace(o any) (any, error) {
	if m, ok := o.(*metav1.PartialObjectMetadata); ok {
		is := same(m.Labels)
		m.ObjectMeta = keepMeta(&m.ObjectMeta)
		m.Labels = is
	}
	return o, nil
}
