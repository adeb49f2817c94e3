package targets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
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
	// Ordered is whether its controller makes a pod once all before it are ready.
	Ordered bool
	// Findings are why nothing may be written to it, the most important first; empty if it may be
	// written.
	Findings []Finding
	// Sized is the autoscaler that sizes its pods, so that they may not be resized; nil without
	// one.
	Sized *Finding

	Ref        kept.Reference
	Autoscaler *v1alpha1.WorkloadAutoscaler
	uid        types.UID
	Resource   schema.GroupVersionResource
	Watched    bool // its scale was read from the copies
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

var (
	// ErrConflicted is returned for a workload with a finding, or whose autoscaler is no longer
	// Active.
	ErrConflicted = errors.New("not ours to scale")
	// ErrChanged is returned by a write when another client changed the object after it was
	// observed.
	ErrChanged = errors.New("changed by another client")
)

// Resolver finds out what autoscalers scale, and what forbids to write to it.
type Resolver struct {
	copies   *copies.Copies
	scales   scales
	meddling *meddling
	leads    func() bool
}

// New makes a resolver. Leads is whether this process does.
func New(c *copies.Copies, leads func() bool) *Resolver {
	return &Resolver{
		copies: c, leads: leads, meddling: newMeddling(),
		scales: scales{served: c.Served, objects: c.Objects, read: map[kept.Reference]lately{}},
	}
}

// Resolve finds every target, and what forbids to write to it.
func (all *Resolver) Resolve(ctx context.Context) []Target {
	wlas := copies.Sorted[*v1alpha1.WorkloadAutoscaler](all.copies, copies.Autoscalers)
	targets := make([]Target, len(wlas))
	// One deadline for all targets, because the other observations grow stale meanwhile.
	ctx, cancel := context.WithTimeout(ctx, copies.Patience)
	defer cancel()
	var asked sync.WaitGroup
	atOnce := make(chan struct{}, 8)
	for i, wla := range wlas {
		ref := wla.Spec.ScaleTargetRef
		t := &targets[i]
		*t = Target{
			Workload: wla.Namespace + "/" + wla.Name, Kind: ref.Kind, Name: ref.Name, Autoscaler: wla,
			Ref: kept.Refer(wla.Namespace, ref.APIVersion, ref.Kind, ref.Name),
		}
		if t.Resource, t.Watched = watchedScales[ref.APIVersion][ref.Kind]; t.Watched {
			all.readCopy(t)
			continue
		}
		atOnce <- struct{}{}
		asked.Go(func() {
			defer func() { <-atOnce }()
			all.readScale(ctx, t)
		})
	}
	asked.Wait()
	slices.SortFunc(targets, func(a, b Target) int { return strings.Compare(a.Workload, b.Workload) })
	all.rivals(targets)
	all.sizers(targets)
	all.meddlers(targets)
	return targets
}

// readCopy reads the scale of a kind that is watched.
func (all *Resolver) readCopy(t *Target) {
	kind := copies.Deployments
	if t.Kind == "StatefulSet" {
		kind = copies.StatefulSets
	}
	d, ok := copies.One[*kept.Scaled](all.copies, kind, t.Ref.Namespace+"/"+t.Ref.Name)
	if !ok {
		t.fault(v1alpha1.ReasonTargetNotFound, "there is no %s %s in namespace %s", t.Kind, t.Name, t.Ref.Namespace)
		return
	}
	t.Known, t.Replicas, t.Selector, t.Rollout, t.Failing, t.uid = true, d.Replicas, d.Selector, d.Rollout, d.Failing, d.UID
	t.Ordered = d.Ordered
	if t.Selector == "" {
		t.fault(FindingSelectorMissing, "the scale of %s %s has no selector for its pods", t.Kind, t.Name)
	}
}

// readScale asks for the scale of a kind that is not watched.
func (all *Resolver) readScale(ctx context.Context, t *Target) {
	scale, resource, err := all.scales.get(ctx, t.Autoscaler.Spec.ScaleTargetRef.APIVersion, t.Ref)
	t.Resource = resource
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
	all.meddling.read(t.Autoscaler, t.Replicas, time.Now())
}

// rivals finds targets that another autoscaler scales, too.
func (all *Resolver) rivals(targets []Target) {
	others := map[kept.Reference][]string{}
	for _, kind := range []copies.Kind{copies.HPAs, copies.ScaledObjects} {
		for _, r := range copies.Sorted[*kept.Rival](all.copies, kind) {
			others[r.Target] = append(others[r.Target], r.Kind+" "+r.Name)
		}
	}
	missing := all.copies.Missing(copies.ScaledObjects)
	ours := map[kept.Reference][]string{}
	for i := range targets {
		ours[targets[i].Ref] = append(ours[targets[i].Ref], targets[i].Workload)
	}
	for i := range targets {
		t := &targets[i]
		names := slices.Clone(others[t.Ref])
		slices.Sort(names)
		for _, name := range ours[t.Ref] {
			if name != t.Workload {
				names = append(names, v1alpha1.KindWorkloadAutoscaler+" "+name)
			}
		}
		if len(names) > 0 {
			t.fault(v1alpha1.ReasonForeignAutoscaler, "%s %s is scaled by %s, too", t.Kind, t.Name, strings.Join(names, " and "))
		} else if missing != "" {
			t.fault(FindingTargetUnknown, "it is not known whether a ScaledObject scales %s %s: %s", t.Kind, t.Name, missing)
		}
	}
}

// sizers finds targets whose pods another autoscaler sizes.
func (all *Resolver) sizers(targets []Target) {
	by := map[kept.Reference]string{}
	for _, r := range copies.Sorted[*kept.Rival](all.copies, copies.Verticals) {
		if by[r.Target] == "" { // they are sorted: the first is reported
			by[r.Target] = r.Name
		}
	}
	missing := all.copies.Missing(copies.Verticals)
	for i := range targets {
		t := &targets[i]
		if missing != "" {
			t.Sized = &Finding{FindingForeignSizer, fmt.Sprintf("it is not known whether a %s sizes the pods of %s %s: %s", kept.KindVertical, t.Kind, t.Name, missing)}
		}
		if name := by[t.Ref]; name != "" {
			t.Sized = &Finding{FindingForeignSizer, fmt.Sprintf("the pods of %s %s are sized by %s %s", t.Kind, t.Name, kept.KindVertical, name)}
		}
	}
}

// meddlers finds targets whose replicas another client keeps changing.
func (all *Resolver) meddlers(targets []Target) {
	present := make(map[types.UID]bool, len(targets))
	for i := range targets {
		t := &targets[i]
		present[t.Autoscaler.UID] = true
		if f, ok := all.meddling.finding(t.Autoscaler, time.Now()); ok {
			t.Findings = append(t.Findings, f)
		}
	}
	all.meddling.forget(present)
}

// ScaleChanged notes replicas that another client wrote.
func (all *Resolver) ScaleChanged(before, after any) {
	was, ok := before.(*kept.Scaled)
	is, too := after.(*kept.Scaled)
	if !ok || !too || was.Replicas == is.Replicas || is.Writer.Ours {
		return
	}
	ref := kept.Refer(is.Namespace, "apps/v1", is.Kind, is.Name)
	for _, wla := range copies.Sorted[*v1alpha1.WorkloadAutoscaler](all.copies, copies.Autoscalers) {
		r := wla.Spec.ScaleTargetRef
		if kept.Refer(wla.Namespace, r.APIVersion, r.Kind, r.Name) == ref && !(is.Writer.Name == "" && all.mayBeOurs(wla.UID, is.Replicas)) {
			all.meddling.saw(wla, is.Writer.Name, was.Replicas, is.Replicas, time.Now())
		}
	}
}

// mayBeOurs reports whether replicas without a field manager may be our own write. The API server
// notes no manager for a write to the scale of an object that was applied without replicas. A
// process that does not lead cannot know what the leader writes.
func (all *Resolver) mayBeOurs(wla types.UID, replicas int) bool {
	return !all.leads() || all.meddling.isOurs(wla, replicas)
}

// Refuses says why a target is not ours to scale, as far as is known now; nil if it is.
func (all *Resolver) Refuses(t *Target) error {
	if len(t.Findings) > 0 {
		return fmt.Errorf("%w: %s: %s", ErrConflicted, t.Findings[0].Code, t.Findings[0].Text)
	}
	// What was observed may be seconds old, and the mode may have changed since.
	wla, ok := copies.One[*v1alpha1.WorkloadAutoscaler](all.copies, copies.Autoscalers, t.Workload)
	if !ok || wla.UID != t.Autoscaler.UID || !Acts(wla) {
		return fmt.Errorf("%w: its autoscaler is not in mode %s or %s", ErrConflicted, v1alpha1.ModeActive, v1alpha1.ModeApprove)
	}
	if f, ok := all.meddling.finding(wla, time.Now()); ok {
		return fmt.Errorf("%w: %s: %s", ErrConflicted, f.Code, f.Text)
	}
	return nil
}

// Rescale changes a scale that is as it was observed.
func (all *Resolver) Rescale(ctx context.Context, t *Target, replicas int) error {
	scale, err := all.scales.now(ctx, t.Resource, t.Ref.Namespace, t.Ref.Name)
	switch {
	case err != nil:
		return err
	case scale.UID != t.uid:
		return fmt.Errorf("%w: this %s %s is another one than was observed", ErrChanged, t.Kind, t.Name)
	case int(scale.Spec.Replicas) == replicas:
		return nil
	case int(scale.Spec.Replicas) != t.Replicas:
		return fmt.Errorf("%w: replicas are %d, and were %d when this was decided", ErrChanged, scale.Spec.Replicas, t.Replicas)
	}
	patch := map[string]any{
		"metadata": map[string]any{"uid": scale.UID, "resourceVersion": scale.ResourceVersion},
		"spec":     map[string]any{"replicas": replicas},
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	defer all.scales.forget(t.Ref)
	all.meddling.wrote(t.Autoscaler.UID, replicas)
	_, err = all.copies.Objects.Resource(t.Resource).Namespace(t.Ref.Namespace).
		Patch(ctx, t.Ref.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: kept.FieldManager}, "scale")
	return err
}
