package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
)

// copies names a kind that is watched.
type copies int

const (
	nodes copies = iota
	pods
	namespaces
	disruptions
	volumes
	claims
	classes
	attachables
	attachments
	deviceClaims
	deviceTemplates
	publications
	owners
	deployments
	statefulSets
	daemonSets
	podTemplates
	buffers
	oldBuffers
	hpas
	scaledObjects
	verticals
	autoscalers
	vmPools
	priceBooks
	proposals
	numberOfCopies
)

// watchedKind is a kind of which copies are held.
type watchedKind struct {
	group, version, kind, resource string
	clusterWide                    bool
	object                         client.Object
	keep                           toolscache.TransformFunc
	fields                         fields.Selector
	// added kinds do not exist in every cluster: they are watched once they exist.
	added bool
	// foreign kinds may be removed from a cluster while we watch them. A broken watch of them makes
	// no copy stale.
	foreign bool
	// forBuffers are the kinds that are watched where CapacityBuffers are served, and not at all
	// elsewhere.
	forBuffers bool
}

var watchedKinds = [numberOfCopies]watchedKind{
	nodes: {version: "v1", kind: "Node", resource: "nodes", clusterWide: true, object: &corev1.Node{}, keep: keepNode},
	pods: {
		version: "v1", kind: "Pod", resource: "pods", object: &corev1.Pod{}, keep: keepPod,
		// Finished pods use no resources and are not pending.
		fields: fields.ParseSelectorOrDie("status.phase!=Succeeded,status.phase!=Failed"),
	},
	namespaces:  {version: "v1", kind: "Namespace", resource: "namespaces", clusterWide: true, object: &metav1.PartialObjectMetadata{}, keep: keepNamespace},
	volumes:     {version: "v1", kind: "PersistentVolume", resource: "persistentvolumes", clusterWide: true, object: &corev1.PersistentVolume{}, keep: keepVolume},
	claims:      {version: "v1", kind: "PersistentVolumeClaim", resource: "persistentvolumeclaims", object: &corev1.PersistentVolumeClaim{}, keep: keepClaim},
	classes:     {group: "storage.k8s.io", version: "v1", kind: "StorageClass", resource: "storageclasses", clusterWide: true, object: &storagev1.StorageClass{}, keep: keepClass},
	attachables: {group: "storage.k8s.io", version: "v1", kind: "CSINode", resource: "csinodes", clusterWide: true, object: &storagev1.CSINode{}, keep: keepAttachable},
	attachments: {group: "storage.k8s.io", version: "v1", kind: "VolumeAttachment", resource: "volumeattachments", clusterWide: true, object: &storagev1.VolumeAttachment{}, keep: keepAttachment},
	deviceClaims: {
		group: "resource.k8s.io", version: "v1", kind: "ResourceClaim", resource: "resourceclaims",
		object: &resourcev1.ResourceClaim{}, keep: keepDeviceClaim, added: true, foreign: true,
	},
	deviceTemplates: {
		group: "resource.k8s.io", version: "v1", kind: "ResourceClaimTemplate", resource: "resourceclaimtemplates",
		object: &resourcev1.ResourceClaimTemplate{}, keep: keepDeviceClaim, added: true, foreign: true,
	},
	publications: {
		group: "resource.k8s.io", version: "v1", kind: "ResourceSlice", resource: "resourceslices", clusterWide: true,
		object: &resourcev1.ResourceSlice{}, keep: keepPublished, added: true, foreign: true,
	},
	disruptions:  {group: "policy", version: "v1", kind: "PodDisruptionBudget", resource: "poddisruptionbudgets", object: &policyv1.PodDisruptionBudget{}, keep: keepDisruption},
	owners:       {group: "apps", version: "v1", kind: "ReplicaSet", resource: "replicasets", object: &metav1.PartialObjectMetadata{}, keep: keepOwner},
	deployments:  {group: "apps", version: "v1", kind: "Deployment", resource: "deployments", object: &appsv1.Deployment{}, keep: keepScaled},
	statefulSets: {group: "apps", version: "v1", kind: "StatefulSet", resource: "statefulsets", object: &appsv1.StatefulSet{}, keep: keepScaled},
	daemonSets:   {group: "apps", version: "v1", kind: "DaemonSet", resource: "daemonsets", object: &appsv1.DaemonSet{}, keep: keepDaemonSet},
	podTemplates: {
		version: "v1", kind: "PodTemplate", resource: "podtemplates", object: &corev1.PodTemplate{}, keep: keepTemplate, forBuffers: true,
	},
	buffers: {
		group: bufferGroup, version: bufferVersions[0], kind: "CapacityBuffer", resource: bufferResource,
		object: &unstructured.Unstructured{}, keep: keepBuffer, added: true, foreign: true, forBuffers: true,
	},
	oldBuffers: { // where the newer version is not served
		group: bufferGroup, version: bufferVersions[1], kind: "CapacityBuffer", resource: bufferResource,
		object: &unstructured.Unstructured{}, keep: keepBuffer, added: true, foreign: true, forBuffers: true,
	},
	hpas: {
		group: "autoscaling", version: "v2", kind: "HorizontalPodAutoscaler", resource: "horizontalpodautoscalers",
		object: &autoscalingv2.HorizontalPodAutoscaler{}, keep: keepRival,
	},
	scaledObjects: {
		group: "keda.sh", version: "v1alpha1", kind: "ScaledObject", resource: "scaledobjects",
		object: &unstructured.Unstructured{}, keep: keepRival, added: true, foreign: true,
	},
	verticals: {
		group: "autoscaling.k8s.io", version: "v1", kind: kindVertical, resource: "verticalpodautoscalers",
		object: &unstructured.Unstructured{}, keep: keepRival, added: true, foreign: true,
	},
	autoscalers: ours(v1alpha1.KindWorkloadAutoscaler, "workloadautoscalers", false, &v1alpha1.WorkloadAutoscaler{}),
	vmPools:     ours(v1alpha1.KindVMPool, "vmpools", true, &v1alpha1.VMPool{}),
	priceBooks:  ours(v1alpha1.KindPriceBook, "pricebooks", true, &v1alpha1.PriceBook{}),
	proposals:   ours(v1alpha1.KindScalingProposal, "scalingproposals", false, &v1alpha1.ScalingProposal{}),
}

func ours(kind, resource string, clusterWide bool, object client.Object) watchedKind {
	return watchedKind{
		group: v1alpha1.GroupVersion.Group, version: v1alpha1.GroupVersion.Version, kind: kind, resource: resource,
		clusterWide: clusterWide, object: object, keep: keepOurs, added: true,
	}
}

func (k *watchedKind) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: k.group, Version: k.version, Kind: k.kind}
}

// path is where the kind is listed and watched.
func (k *watchedKind) path() string {
	if k.group == "" {
		return "/api/" + k.version + "/" + k.resource
	}
	return "/apis/" + k.group + "/" + k.version + "/" + k.resource
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
	for i := range watchedKinds {
		k := &watchedKinds[i]
		scope := meta.RESTScopeNamespace
		if k.clusterWide {
			scope = meta.RESTScopeRoot
		}
		resource := schema.GroupVersionResource{Group: k.group, Version: k.version, Resource: k.resource}
		all.AddSpecific(k.gvk(), resource, resource, scope)
	}
	return all
}

// newCache makes the cache. The resource names of kinds are known here, so that the cache can be
// made and used while the API server does not answer.
func (c *Cluster) newCache(cfg *rest.Config) (cache.Cache, error) {
	known, err := newScheme()
	if err != nil {
		return nil, err
	}
	how := map[client.Object]cache.ByObject{}
	for i := range watchedKinds {
		k := &watchedKinds[i]
		how[k.ask()] = cache.ByObject{Transform: c.keepOf(copies(i)), Field: k.fields}
	}
	return cache.New(cfg, cache.Options{
		HTTPClient: c.http, Scheme: known, Mapper: names(), ByObject: how,
		DefaultWatchErrorHandler: func(_ context.Context, r *toolscache.Reflector, err error) {
			c.log.Warn("watch interrupted", "resource", r.TypeDescription(), "err", err)
		},
	})
}

// keepOf is the transform of the copies of a kind.
func (c *Cluster) keepOf(i copies) toolscache.TransformFunc {
	if c.cfg.Buffers && (i == deployments || i == statefulSets) {
		return keepForm
	}
	return watchedKinds[i].keep
}

// held are the copies of one kind. They are there once start has run.
type held struct {
	informer atomic.Pointer[toolscache.SharedIndexInformer]
	absent   atomic.Bool // the cluster has no such kind, as far as was seen
}

// synced returns the version of the copies, and whether there are any.
func (h *held) synced() (string, bool) {
	informer := h.informer.Load()
	if informer == nil {
		return "", h.absent.Load()
	}
	return (*informer).LastSyncResourceVersion(), (*informer).HasSynced()
}

// start makes the cache hold copies of a kind.
func (c *Cluster) start(ctx context.Context, i copies) error {
	k := &watchedKinds[i]
	got, err := c.cache.GetInformer(ctx, k.ask(), cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("%s: %w", k.resource, err)
	}
	informer, ok := got.(toolscache.SharedIndexInformer)
	if !ok {
		return fmt.Errorf("%s: copies are held by a %T", k.resource, got)
	}
	if _, err := informer.AddEventHandler(c.handler(i)); err != nil {
		return fmt.Errorf("%s: %w", k.resource, err)
	}
	c.held[i].informer.Store(&informer)
	if !k.foreign {
		c.watches.follow(k.path(), c.held[i].synced)
	}
	return nil
}

// startAdded starts a kind that not every cluster has, once this one has it.
func (c *Cluster) startAdded(ctx context.Context, i copies) error {
	k := &watchedKinds[i]
	every := time.Second // until it is known whether it is there, then less often
	for {
		asking, cancel := context.WithTimeout(ctx, patience)
		list, err := c.scales.list(asking, k.gvk().GroupVersion().String())
		cancel()
		there := err == nil && !c.superseded(ctx, i) && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == k.resource })
		if there {
			return c.start(ctx, i)
		}
		if err == nil {
			c.held[i].absent.Store(true)
			every = kindsAge / 2
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

// superseded reports whether a newer version of CapacityBuffers is watched instead.
func (c *Cluster) superseded(ctx context.Context, i copies) bool {
	if i != oldBuffers {
		return false
	}
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	newest, served, err := c.scales.buffers(asking)
	return err != nil || served && newest.Version == watchedKinds[buffers].version
}

// kept returns the copies of a kind, sorted by namespace and name. They are only to be read.
func kept[T metav1.Object](c *Cluster, i copies) []T {
	all := unsorted[T](c, i)
	slices.SortFunc(all, func(a, b T) int {
		if a.GetNamespace() != b.GetNamespace() {
			return strings.Compare(a.GetNamespace(), b.GetNamespace())
		}
		return strings.Compare(a.GetName(), b.GetName())
	})
	return all
}

// unsorted returns the copies of a kind in no order, for callers that sort them otherwise or look
// them up.
func unsorted[T metav1.Object](c *Cluster, i copies) []T {
	informer := c.held[i].informer.Load()
	if informer == nil {
		return nil
	}
	list := (*informer).GetStore().List()
	all := make([]T, 0, len(list))
	for _, o := range list {
		if t, ok := o.(T); ok {
			all = append(all, t)
		}
	}
	return all
}

// one returns one copy, by name or namespace/name.
func one[T metav1.Object](c *Cluster, i copies, key string) (T, bool) {
	var none T
	informer := c.held[i].informer.Load()
	if informer == nil {
		return none, false
	}
	o, ok, err := (*informer).GetStore().GetByKey(key)
	if err != nil || !ok {
		return none, false
	}
	t, ok := o.(T)
	return t, ok
}

// handler reports changes that cannot wait for the next step.
func (c *Cluster) handler(i copies) toolscache.ResourceEventHandler {
	switch i {
	case pods:
		return toolscache.ResourceEventHandlerDetailedFuncs{
			AddFunc:    func(o any, first bool) { c.podCame(nil, o, first) },
			UpdateFunc: func(before, after any) { c.podCame(before, after, false) },
		}
	case deployments, statefulSets:
		return toolscache.ResourceEventHandlerFuncs{UpdateFunc: c.scaleChanged}
	case autoscalers, vmPools, priceBooks:
		return toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { c.changed.ring() }, UpdateFunc: c.oursChanged, DeleteFunc: func(any) { c.changed.ring() },
		}
	case proposals: // an answer is a change of the spec; others come of a step
		return toolscache.ResourceEventHandlerFuncs{UpdateFunc: c.oursChanged}
	default:
		return toolscache.ResourceEventHandlerFuncs{}
	}
}

// podCame signals Wake when a pod turns unschedulable.
func (c *Cluster) podCame(before, after any, first bool) {
	is, ok := after.(*pod)
	was, _ := before.(*pod)
	if ok && !first && is.said.Unschedulable && !is.said.Daemon && !is.isPlaceholder() && (was == nil || !was.said.Unschedulable) {
		c.wake.ring()
	}
}

// scaleChanged notes replicas that another client wrote.
func (c *Cluster) scaleChanged(before, after any) {
	was, ok := before.(*scaled)
	is, too := after.(*scaled)
	if !ok || !too || was.replicas == is.replicas || is.writer.ours {
		return
	}
	ref := reference{schema.GroupKind{Group: "apps", Kind: is.kind}, is.Namespace, is.Name}
	for _, wla := range kept[*v1alpha1.WorkloadAutoscaler](c, autoscalers) {
		r := wla.Spec.ScaleTargetRef
		if refer(wla.Namespace, r.APIVersion, r.Kind, r.Name) == ref && !(is.writer.name == "" && c.mayBeOurs(wla.UID, is.replicas)) {
			c.meddling.saw(wla, is.writer.name, was.replicas, is.replicas, time.Now())
		}
	}
}

// mayBeOurs reports whether replicas without a field manager may be our own write. The API server
// notes no manager for a write to the scale of an object that was applied without replicas. A
// process that does not lead cannot know what the leader writes.
func (c *Cluster) mayBeOurs(wla types.UID, replicas int) bool {
	return !c.Leading() || c.meddling.isOurs(wla, replicas)
}

// oursChanged reports edits of specs. The status is written by us, and needs no action.
func (c *Cluster) oursChanged(before, after any) {
	was, ok := before.(metav1.Object)
	is, too := after.(metav1.Object)
	if ok && too && (was.GetGeneration() != is.GetGeneration() || !maps.Equal(was.GetAnnotations(), is.GetAnnotations()) ||
		!maps.Equal(was.GetLabels(), is.GetLabels()) || (was.GetDeletionTimestamp() == nil) != (is.GetDeletionTimestamp() == nil)) {
		c.changed.ring()
	}
}
