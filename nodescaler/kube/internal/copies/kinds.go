package copies

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
)

// keepOurs is the transform of the copies of our own objects, which are kept whole.
func keepOurs(o any) (any, error) {
	if m, ok := o.(metav1.Object); ok {
		m.SetManagedFields(nil)
	}
	return o, nil
}

// Kind names a kind that is watched.
type Kind int

// The kinds.
const (
	Nodes Kind = iota
	Pods
	Namespaces
	Disruptions
	LimitRanges
	Volumes
	Claims
	Classes
	Attachables
	Attachments
	DeviceClaims
	DeviceTemplates
	Publications
	Owners
	Deployments
	StatefulSets
	DaemonSets
	PodTemplates
	Buffers
	OldBuffers
	HPAs
	ScaledObjects
	Verticals
	Autoscalers
	VMPools
	PriceBooks
	Proposals
	NumberOfKinds
)

// What CapacityBuffers are called in requests.
const (
	BufferGroup    = "autoscaling.x-k8s.io"
	BufferResource = "capacitybuffers"
)

// BufferVersions are the released versions of CapacityBuffer, the newest first. What is said in it
// is the same in all.
var BufferVersions = []string{"v1beta1", "v1alpha1"}

// watchedKind is a kind of which copies are held.
type watchedKind struct {
	Group, version, Kind, Resource string
	clusterWide                    bool
	object                         client.Object
	keep                           toolscache.TransformFunc // nil is that of Kubernetes' kinds
	fields                         fields.Selector
	// added kinds do not exist in every cluster: they are watched once they exist.
	added bool
	// Foreign kinds may be removed from a cluster while we watch them. A broken watch of them makes
	// no copy stale.
	Foreign bool
	// rival kinds are other autoscalers. Where they may not be listed, what they could have is
	// held, and the rest goes on.
	rival bool
	// ForBuffers are the kinds that are watched where CapacityBuffers are served, and not at all
	// elsewhere.
	ForBuffers bool
}

// Kinds are all that are watched.
var Kinds = [NumberOfKinds]watchedKind{
	Nodes: {version: "v1", Kind: "Node", Resource: "nodes", clusterWide: true, object: &corev1.Node{}},
	Pods: {
		version: "v1", Kind: "Pod", Resource: "pods", object: &corev1.Pod{},
		// Finished pods use no resources and are not pending.
		fields: fields.ParseSelectorOrDie("status.phase!=Succeeded,status.phase!=Failed"),
	},
	Namespaces:  {version: "v1", Kind: "Namespace", Resource: "namespaces", clusterWide: true, object: &metav1.PartialObjectMetadata{}, keep: kept.KeepNamespace},
	Volumes:     {version: "v1", Kind: "PersistentVolume", Resource: "persistentvolumes", clusterWide: true, object: &corev1.PersistentVolume{}},
	Claims:      {version: "v1", Kind: "PersistentVolumeClaim", Resource: "persistentvolumeclaims", object: &corev1.PersistentVolumeClaim{}},
	Classes:     {Group: "storage.k8s.io", version: "v1", Kind: "StorageClass", Resource: "storageclasses", clusterWide: true, object: &storagev1.StorageClass{}},
	Attachables: {Group: "storage.k8s.io", version: "v1", Kind: "CSINode", Resource: "csinodes", clusterWide: true, object: &storagev1.CSINode{}},
	Attachments: {Group: "storage.k8s.io", version: "v1", Kind: "VolumeAttachment", Resource: "volumeattachments", clusterWide: true, object: &storagev1.VolumeAttachment{}},
	DeviceClaims: {
		Group: "resource.k8s.io", version: "v1", Kind: "ResourceClaim", Resource: "resourceclaims",
		object: &resourcev1.ResourceClaim{}, added: true, Foreign: true,
	},
	DeviceTemplates: {
		Group: "resource.k8s.io", version: "v1", Kind: "ResourceClaimTemplate", Resource: "resourceclaimtemplates",
		object: &resourcev1.ResourceClaimTemplate{}, added: true, Foreign: true,
	},
	Publications: {
		Group: "resource.k8s.io", version: "v1", Kind: "ResourceSlice", Resource: "resourceslices", clusterWide: true,
		object: &resourcev1.ResourceSlice{}, added: true, Foreign: true,
	},
	Disruptions:  {Group: "policy", version: "v1", Kind: "PodDisruptionBudget", Resource: "poddisruptionbudgets", object: &policyv1.PodDisruptionBudget{}},
	LimitRanges:  {version: "v1", Kind: "LimitRange", Resource: "limitranges", object: &corev1.LimitRange{}},
	Owners:       {Group: "apps", version: "v1", Kind: "ReplicaSet", Resource: "replicasets", object: &metav1.PartialObjectMetadata{}, keep: kept.KeepOwner},
	Deployments:  {Group: "apps", version: "v1", Kind: "Deployment", Resource: "deployments", object: &appsv1.Deployment{}},
	StatefulSets: {Group: "apps", version: "v1", Kind: "StatefulSet", Resource: "statefulsets", object: &appsv1.StatefulSet{}},
	DaemonSets:   {Group: "apps", version: "v1", Kind: "DaemonSet", Resource: "daemonsets", object: &appsv1.DaemonSet{}},
	PodTemplates: {
		version: "v1", Kind: "PodTemplate", Resource: "podtemplates", object: &corev1.PodTemplate{}, ForBuffers: true,
	},
	Buffers: {
		Group: BufferGroup, version: BufferVersions[0], Kind: kept.KindBuffer, Resource: BufferResource,
		object: &unstructured.Unstructured{}, added: true, Foreign: true, ForBuffers: true,
	},
	OldBuffers: { // where the newer version is not served
		Group: BufferGroup, version: BufferVersions[1], Kind: kept.KindBuffer, Resource: BufferResource,
		object: &unstructured.Unstructured{}, added: true, Foreign: true, ForBuffers: true,
	},
	HPAs: {
		Group: "autoscaling", version: "v2", Kind: "HorizontalPodAutoscaler", Resource: "horizontalpodautoscalers",
		object: &autoscalingv2.HorizontalPodAutoscaler{},
	},
	ScaledObjects: {
		Group: "keda.sh", version: "v1alpha1", Kind: "ScaledObject", Resource: "scaledobjects",
		object: &unstructured.Unstructured{}, added: true, Foreign: true, rival: true,
	},
	Verticals: {
		Group: "autoscaling.k8s.io", version: "v1", Kind: kept.KindVertical, Resource: "verticalpodautoscalers",
		object: &unstructured.Unstructured{}, added: true, Foreign: true, rival: true,
	},
	Autoscalers: ours(v1alpha1.KindWorkloadAutoscaler, "workloadautoscalers", false, &v1alpha1.WorkloadAutoscaler{}),
	VMPools:     ours(v1alpha1.KindVMPool, "vmpools", true, &v1alpha1.VMPool{}),
	PriceBooks:  ours(v1alpha1.KindPriceBook, "pricebooks", true, &v1alpha1.PriceBook{}),
	Proposals:   ours(v1alpha1.KindScalingProposal, "scalingproposals", false, &v1alpha1.ScalingProposal{}),
}

func ours(kind, resource string, clusterWide bool, object client.Object) watchedKind {
	return watchedKind{
		Group: v1alpha1.GroupVersion.Group, version: v1alpha1.GroupVersion.Version, Kind: kind, Resource: resource,
		clusterWide: clusterWide, object: object, keep: keepOurs, added: true,
	}
}

func (k *watchedKind) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: k.Group, Version: k.version, Kind: k.Kind}
}

// path is where the kind is listed and watched.
func (k *watchedKind) path() string {
	if k.Group == "" {
		return "/api/" + k.version + "/" + k.Resource
	}
	return "/apis/" + k.Group + "/" + k.version + "/" + k.Resource
}

// ask returns an object that names the kind to the cache.
func (k *watchedKind) ask() client.Object {
	switch o := k.object.DeepCopyObject().(type) {
	case *metav1.PartialObjectMetadata:
		o.SetGroupVersionKind(k.gvk())
		return o
	case *unstructured.Unstructured:
		o.SetGroupVersionKind(k.gvk())
		return o
	case client.Object:
		return o
	}
	return nil
}

// newScheme knows Kubernetes' kinds and ours.
func newScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	if err := scheme.AddToScheme(s); err != nil {
		return nil, err
	}
	return s, v1alpha1.AddToScheme(s)
}

// names is what the watched kinds are called in requests.
func names() meta.RESTMapper {
	all := meta.NewDefaultRESTMapper(nil)
	for i := range Kinds {
		k := &Kinds[i]
		scope := meta.RESTScopeNamespace
		if k.clusterWide {
			scope = meta.RESTScopeRoot
		}
		resource := schema.GroupVersionResource{Group: k.Group, Version: k.version, Resource: k.Resource}
		all.AddSpecific(k.gvk(), resource, resource, scope)
	}
	return all
}
