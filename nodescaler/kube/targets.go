package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/podscaler"
)

// Target is what a WorkloadAutoscaler scales.
type Target struct {
	Workload string // the WorkloadAutoscaler, as namespace/name
	Kind     string // as it is named in scaleTargetRef
	Name     string
	// Known is set when the scale was read; only then Replicas and Selector mean something.
	Known    bool
	Replicas int
	Selector string // of its pods
	// Rollout is the change of its pods that is under way. Of kinds that are not watched it is not
	// known.
	Rollout podscaler.Rollout
	// Failing is why its pods cannot be created; empty if they can, or if that is not known.
	Failing string
	// Findings are why nothing may be written to it, the most important first; empty if it may be
	// written.
	Findings []Finding
	// Sized is the autoscaler that sizes its pods, so that they may not be resized; nil without
	// one.
	Sized *Finding

	ref      reference
	wla      *v1alpha1.WorkloadAutoscaler
	uid      types.UID
	resource schema.GroupVersionResource
	watched  bool // its scale was read from the copies
}

// Codes of findings. Besides them, v1alpha1's ReasonTargetNotFound, ReasonTargetNotScalable,
// ReasonForeignAutoscaler and ReasonForeignWrites.
const (
	// FindingForeignSizer: a VerticalPodAutoscaler sizes the target's pods.
	FindingForeignSizer = "ForeignSizer"
	// FindingTargetUnknown: the target, or its scale, could not be read just now.
	FindingTargetUnknown = "TargetUnknown"
	// FindingSelectorMissing: the scale does not say by which labels its pods are found.
	FindingSelectorMissing = "SelectorMissing"
)

// Finding is something about a target that forbids to write to it.
type Finding struct {
	Code string
	Text string
}

func (t *Target) fault(code, format string, args ...any) {
	t.Findings = append(t.Findings, Finding{code, fmt.Sprintf(format, args...)})
}

// The kinds whose copies contain their scale.
var watchedScales = map[string]map[string]schema.GroupVersionResource{
	"apps/v1": {
		"Deployment":  {Group: "apps", Version: "v1", Resource: "deployments"},
		"StatefulSet": {Group: "apps", Version: "v1", Resource: "statefulsets"},
	},
}

// Targets resolves what every WorkloadAutoscaler scales, sorted by Workload. It reads what Observe
// reads, and may be called before it.
func (c *Cluster) Targets(ctx context.Context) ([]Target, error) {
	if err := c.Fresh(); err != nil {
		return nil, err
	}
	return c.resolve(ctx), nil
}

// resolve finds every target, and what forbids to write to it.
func (c *Cluster) resolve(ctx context.Context) []Target {
	wlas := kept[*v1alpha1.WorkloadAutoscaler](c, autoscalers)
	targets := make([]Target, len(wlas))
	// One deadline for all targets, because the other observations grow stale meanwhile.
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var asked sync.WaitGroup
	atOnce := make(chan struct{}, 8)
	for i, wla := range wlas {
		ref := wla.Spec.ScaleTargetRef
		t := &targets[i]
		*t = Target{
			Workload: wla.Namespace + "/" + wla.Name, Kind: ref.Kind, Name: ref.Name, wla: wla,
			ref: refer(wla.Namespace, ref.APIVersion, ref.Kind, ref.Name),
		}
		if t.resource, t.watched = watchedScales[ref.APIVersion][ref.Kind]; t.watched {
			c.readCopy(t)
			continue
		}
		atOnce <- struct{}{}
		asked.Go(func() {
			defer func() { <-atOnce }()
			c.readScale(ctx, t)
		})
	}
	asked.Wait()
	slices.SortFunc(targets, func(a, b Target) int { return strings.Compare(a.Workload, b.Workload) })
	c.rivals(targets)
	c.sizers(targets)
	c.meddlers(targets)
	return targets
}

// readCopy reads the scale of a kind that is watched.
func (c *Cluster) readCopy(t *Target) {
	kind := deployments
	if t.Kind == "StatefulSet" {
		kind = statefulSets
	}
	d, ok := one[*scaled](c, kind, t.ref.namespace+"/"+t.ref.name)
	if !ok {
		t.fault(v1alpha1.ReasonTargetNotFound, "there is no %s %s in namespace %s", t.Kind, t.Name, t.ref.namespace)
		return
	}
	t.Known, t.Replicas, t.Selector, t.Rollout, t.Failing, t.uid = true, d.replicas, d.selector, d.rollout, d.failing, d.UID
	if t.Selector == "" {
		t.fault(FindingSelectorMissing, "the scale of %s %s has no selector for its pods", t.Kind, t.Name)
	}
}

// readScale asks for the scale of a kind that is not watched.
func (c *Cluster) readScale(ctx context.Context, t *Target) {
	scale, resource, err := c.scales.get(ctx, t.wla.Spec.ScaleTargetRef.APIVersion, t.ref)
	t.resource = resource
	var not notScalable
	switch {
	case errors.As(err, &not):
		t.fault(not.code, "%s", not.text)
		return
	case err != nil:
		t.fault(FindingTargetUnknown, "the scale of %s %s: %v", t.Kind, t.Name, err)
		return
	}
	t.Known, t.Replicas, t.Selector, t.uid = true, int(scale.Spec.Replicas), scale.Status.Selector, scale.UID
	if t.Selector == "" {
		t.fault(FindingSelectorMissing, "the scale of %s %s has no selector for its pods", t.Kind, t.Name)
	}
	c.meddling.read(t.wla, t.Replicas, time.Now())
}

// rivals finds targets that another autoscaler scales, too.
func (c *Cluster) rivals(targets []Target) {
	others := map[reference][]string{}
	for _, kind := range []copies{hpas, scaledObjects} {
		for _, r := range kept[*rival](c, kind) {
			others[r.target] = append(others[r.target], r.kind+" "+r.Name)
		}
	}
	ours := map[reference][]string{}
	for i := range targets {
		ours[targets[i].ref] = append(ours[targets[i].ref], targets[i].Workload)
	}
	for i := range targets {
		t := &targets[i]
		names := slices.Clone(others[t.ref])
		slices.Sort(names)
		for _, name := range ours[t.ref] {
			if name != t.Workload {
				names = append(names, v1alpha1.KindWorkloadAutoscaler+" "+name)
			}
		}
		if len(names) > 0 {
			t.fault(v1alpha1.ReasonForeignAutoscaler, "%s %s is scaled by %s, too", t.Kind, t.Name, strings.Join(names, " and "))
		}
	}
}

// sizers finds targets whose pods another autoscaler sizes.
func (c *Cluster) sizers(targets []Target) {
	by := map[reference]string{}
	for _, r := range kept[*rival](c, verticals) {
		if by[r.target] == "" { // they are sorted: the first is reported
			by[r.target] = r.Name
		}
	}
	for i := range targets {
		t := &targets[i]
		if name := by[t.ref]; name != "" {
			t.Sized = &Finding{FindingForeignSizer, fmt.Sprintf("the pods of %s %s are sized by %s %s", t.Kind, t.Name, kindVertical, name)}
		}
	}
}

// meddlers finds targets whose replicas another client keeps changing.
func (c *Cluster) meddlers(targets []Target) {
	present := make(map[types.UID]bool, len(targets))
	for i := range targets {
		t := &targets[i]
		present[t.wla.UID] = true
		if f, ok := c.meddling.finding(t.wla, time.Now()); ok {
			t.Findings = append(t.Findings, f)
		}
	}
	c.meddling.forget(present)
}

// notScalable is why something has no scale, and surely has not.
type notScalable struct{ code, text string }

func (n notScalable) Error() string { return n.text }

// scales reads and writes the scale of any kind that has one.
type scales struct {
	kinds   discovery.ServerResourcesInterfaceWithContext
	objects dynamic.Interface

	mu     sync.Mutex
	groups map[string]known[*metav1.APIResourceList]
	read   map[reference]known[*autoscalingv1.Scale]
}

// known is an answer, and when it was got by the monotonic clock.
type known[T any] struct {
	is T
	at time.Time
}

const (
	// kindsAge is how old the list of kinds may be. A kind that comes later is seen as late.
	kindsAge = 20 * time.Second
	// scaleAge is how old the scale of a kind that is not watched may be. Steps follow one another
	// quickly when pods turn unschedulable.
	scaleAge = 5 * time.Second
)

// get reads a scale, which may be a few seconds old.
func (s *scales) get(ctx context.Context, apiVersion string, ref reference) (*autoscalingv1.Scale, schema.GroupVersionResource, error) {
	resource, err := s.resource(ctx, apiVersion, ref.Kind)
	if err != nil {
		return nil, resource, err
	}
	s.mu.Lock()
	k, ok := s.read[ref]
	s.mu.Unlock()
	if ok && time.Since(k.at) < scaleAge {
		return k.is, resource, nil
	}
	now := time.Now()
	scale, err := s.now(ctx, resource, ref.namespace, ref.name)
	if apierrors.IsNotFound(err) {
		return nil, resource, notScalable{v1alpha1.ReasonTargetNotFound, fmt.Sprintf("there is no %s %s in namespace %s", ref.Kind, ref.name, ref.namespace)}
	}
	if err != nil {
		return nil, resource, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for old, k := range s.read {
		if now.Sub(k.at) > time.Minute {
			delete(s.read, old)
		}
	}
	s.read[ref] = known[*autoscalingv1.Scale]{scale, now}
	return scale, resource, nil
}

// now reads a scale as it is.
func (s *scales) now(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) (*autoscalingv1.Scale, error) {
	raw, err := s.objects.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{}, "scale")
	if err != nil {
		return nil, err
	}
	var scale autoscalingv1.Scale
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, &scale); err != nil {
		return nil, fmt.Errorf("not a scale: %w", err)
	}
	return &scale, nil
}

// forget drops what was read of a scale that was written since.
func (s *scales) forget(ref reference) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.read, ref)
}

// resource finds what the kind is called in paths, and that it has a scale.
func (s *scales) resource(ctx context.Context, apiVersion, kind string) (schema.GroupVersionResource, error) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return schema.GroupVersionResource{}, notScalable{v1alpha1.ReasonTargetNotFound, err.Error()}
	}
	list, err := s.list(ctx, apiVersion)
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	for i := range list.APIResources {
		r := &list.APIResources[i]
		if r.Kind != kind || strings.Contains(r.Name, "/") {
			continue
		}
		if !slices.ContainsFunc(list.APIResources, func(o metav1.APIResource) bool { return o.Name == r.Name+"/scale" }) {
			return schema.GroupVersionResource{}, notScalable{v1alpha1.ReasonTargetNotScalable, fmt.Sprintf("a %s of %s has no scale", kind, apiVersion)}
		}
		return gv.WithResource(r.Name), nil
	}
	return schema.GroupVersionResource{}, notScalable{v1alpha1.ReasonTargetNotFound, fmt.Sprintf("the cluster has no kind %s of %s", kind, apiVersion)}
}

// list returns the kinds of a group and version; a group that is not there has none.
func (s *scales) list(ctx context.Context, apiVersion string) (*metav1.APIResourceList, error) {
	s.mu.Lock()
	k, ok := s.groups[apiVersion]
	s.mu.Unlock()
	if ok && time.Since(k.at) < kindsAge {
		return k.is, nil
	}
	now := time.Now()
	list, err := s.kinds.ServerResourcesForGroupVersionWithContext(ctx, apiVersion)
	if apierrors.IsNotFound(err) {
		list, err = &metav1.APIResourceList{}, nil
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups[apiVersion] = known[*metav1.APIResourceList]{list, now}
	return list, nil
}
