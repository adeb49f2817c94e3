package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/api/printable"
	"github.com/plimsoll/plimsoll/nodescaler"
)

// CapacityBuffers ask for room that is kept free: for so many pods of a template, or of what a
// scalable object makes. Where the configuration has Plimsoll serve them, it is the autoscaler that
// their status is written by. Those that it publishes for cluster-autoscaler are not for it.

// activeCapacity is the strategy that is served: room on machines that run.
const activeCapacity = "buffer.x-k8s.io/active-capacity"

// Types of conditions of CapacityBuffers, and reasons that are set here. The first of these is
// cluster-autoscaler's.
const (
	bufferReady        = "ReadyForProvisioning"
	bufferProvisioning = "Provisioning"

	reasonAttributesSet = "AttributesSetSuccessfully"
	reasonBufferInvalid = "BufferInvalid"
	reasonRoomKept      = "RoomKept"
	reasonRoomComing    = "RoomComing"
)

// bufferSpec is the part of a CapacityBuffer that people write.
type bufferSpec struct {
	Strategy       string                                 `json:"provisioningStrategy"`
	PodTemplateRef *struct{ Name string }                 `json:"podTemplateRef"`
	ScalableRef    *struct{ APIGroup, Kind, Name string } `json:"scalableRef"`
	Replicas       *int64                                 `json:"replicas"`
	Percentage     *int64                                 `json:"percentage"`
	Limits         map[string]resource.Quantity           `json:"limits"`
}

// bufferKept is what is kept of a CapacityBuffer.
type bufferKept struct {
	metav1.ObjectMeta
	version string
	spec    bufferSpec
	invalid error // why its spec cannot be read
	status  bufferStatus
	ours    bool // published for cluster-autoscaler
}

// bufferStatus is the part of a CapacityBuffer that its autoscaler writes.
type bufferStatus struct {
	PodTemplateRef *nameRef `json:"podTemplateRef"`
	Replicas       *int32   `json:"replicas"`
	// PodTemplateGeneration is that of the template that was read.
	PodTemplateGeneration *int64             `json:"podTemplateGeneration"`
	ProvisioningStrategy  *string            `json:"provisioningStrategy"`
	Conditions            []metav1.Condition `json:"conditions"`
}

type nameRef struct {
	Name string `json:"name"`
}

// keepBuffer is the transform of the copies of CapacityBuffers.
func keepBuffer(o any) (any, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o, nil
	}
	kept := &bufferKept{
		ObjectMeta: metav1.ObjectMeta{
			Name: u.GetName(), Namespace: text(u.GetNamespace()), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion(), Generation: u.GetGeneration(),
		},
		version: u.GroupVersionKind().Version, ours: u.GetLabels()[labelManagedBy] == fieldManager,
	}
	kept.invalid = convert(u.Object["spec"], &kept.spec)
	_ = convert(u.Object["status"], &kept.status) // what cannot be read is written anew
	return kept, nil
}

// convert reads a part of an object.
func convert(part, into any) error {
	text, err := json.Marshal(part)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// template is what is kept of a PodTemplate.
type template struct {
	metav1.ObjectMeta
	like *pod
}

// keepTemplate is the transform of the copies of PodTemplates.
func keepTemplate(o any) (any, error) {
	t, ok := o.(*corev1.PodTemplate)
	if !ok {
		return o, nil
	}
	kept := &template{ObjectMeta: keepMeta(&t.ObjectMeta), like: shortForm(t.Namespace, &t.Template)}
	kept.Generation = t.Generation
	return kept, nil
}

// shortForm is a pod of a form. Requests that are only limits are filled in, as for pods.
func shortForm(namespace string, form *corev1.PodTemplateSpec) *pod {
	like := &corev1.Pod{ObjectMeta: *form.ObjectMeta.DeepCopy(), Spec: *form.Spec.DeepCopy()}
	like.Namespace, like.Name = namespace, ""
	for _, containers := range [][]corev1.Container{like.Spec.InitContainers, like.Spec.Containers} {
		for i := range containers {
			requested(&containers[i].Resources)
		}
	}
	return shortPod(like)
}

// bufferAsked is a CapacityBuffer, and what becomes of it.
type bufferAsked struct {
	*bufferKept
	room *nodescaler.Headroom
	err  error // why it asks for no room
	// template is set where it refers to one.
	template *template
}

// headroom returns what CapacityBuffers ask for, by name.
func (c *Cluster) headroom(seen *sight, said []nodescaler.Pod, marks *marker) []nodescaler.Headroom {
	if !c.cfg.Buffers {
		return nil
	}
	var all []nodescaler.Headroom
	seen.buffers = nil
	for _, b := range c.bufferList() {
		if strategy := cmp.Or(b.spec.Strategy, activeCapacity); b.ours || strategy != activeCapacity || b.DeletionTimestamp != nil {
			continue
		}
		a := &bufferAsked{bufferKept: b}
		if a.err = c.resolveBuffer(a, seen, said, marks); a.err == nil {
			all = append(all, *a.room)
		}
		seen.buffers = append(seen.buffers, a)
	}
	return all
}

// bufferForms are the forms of the pods that CapacityBuffers ask room for, as far as they are no
// pods.
func (c *Cluster) bufferForms() (forms []*pod) {
	if !c.cfg.Buffers {
		return nil
	}
	for _, b := range c.bufferList() {
		switch s := &b.spec; {
		case s.PodTemplateRef != nil:
			if t, ok := one[*template](c, podTemplates, b.Namespace+"/"+s.PodTemplateRef.Name); ok {
				forms = append(forms, t.like)
			}
		case s.ScalableRef != nil:
			if i, is := formsOf[s.ScalableRef.APIGroup+"/"+s.ScalableRef.Kind]; is {
				if o, ok := one[*scaled](c, i, b.Namespace+"/"+s.ScalableRef.Name); ok && o.like != nil {
					forms = append(forms, o.like)
				}
			}
		}
	}
	return forms
}

// formsOf are the kinds whose templates are known.
var formsOf = map[string]copies{"apps/Deployment": deployments, "apps/StatefulSet": statefulSets}

// bufferList is all of them by namespace and name. Of one that both versions show the newer counts.
func (c *Cluster) bufferList() []*bufferKept {
	all := slices.Concat(kept[*bufferKept](c, buffers), kept[*bufferKept](c, oldBuffers))
	slices.SortStableFunc(all, func(a, b *bufferKept) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return slices.CompactFunc(all, func(a, b *bufferKept) bool { return a.UID == b.UID })
}

var (
	errTwoForms = errors.New("spec: must have one of podTemplateRef and scalableRef")
	errNoNumber = errors.New("spec: must have replicas or limits, or a percentage beside scalableRef")
)

// resolveBuffer finds out what a buffer asks for.
func (c *Cluster) resolveBuffer(a *bufferAsked, seen *sight, said []nodescaler.Pod, marks *marker) error {
	s := &a.spec
	if a.invalid != nil {
		return fmt.Errorf("spec: %w", a.invalid)
	}
	if (s.PodTemplateRef == nil) == (s.ScalableRef == nil) {
		return errTwoForms
	}
	var form *pod
	replicas := 0
	if s.PodTemplateRef != nil {
		t, ok := one[*template](c, podTemplates, a.Namespace+"/"+s.PodTemplateRef.Name)
		if !ok {
			return fmt.Errorf("spec.podTemplateRef: there is no PodTemplate %s in namespace %s", s.PodTemplateRef.Name, a.Namespace)
		}
		a.template, form = t, t.like
	} else {
		var err error
		if form, replicas, err = c.scalableForm(a.Namespace, s.ScalableRef.APIGroup, s.ScalableRef.Kind, s.ScalableRef.Name, seen, said); err != nil {
			return err
		}
	}
	count, err := s.count(replicas, &form.said)
	if err != nil {
		return err
	}
	name := a.Namespace + "/" + a.Name
	like := form.said
	marks.fill(&like, form)
	like.Pod.Name, like.Workload, like.Node, like.Nominated, like.Pinned = "", a.Namespace+"/CapacityBuffer/"+a.Name, "", "", ""
	like.Phase, like.Ready, like.Terminating, like.Unschedulable, like.Daemon, like.Priority = "", false, false, false, false, 0
	a.room = &nodescaler.Headroom{Name: name, Like: like, Count: count}
	return nil
}

// scalableForm is what a scalable object makes, and how many of it there are to be. Of a kind whose
// template is not known the newest pod is one.
func (c *Cluster) scalableForm(namespace, group, kind, name string, seen *sight, said []nodescaler.Pod) (*pod, int, error) {
	if i, is := formsOf[group+"/"+kind]; is {
		o, ok := one[*scaled](c, i, namespace+"/"+name)
		if !ok || o.like == nil {
			return nil, 0, fmt.Errorf("spec.scalableRef: there is no %s %s in namespace %s", kind, name, namespace)
		}
		return o.like, o.replicas, nil
	}
	workload := namespace + "/" + kind + "/" + name
	for i := range seen.targets {
		if t := &seen.targets[i]; t.ref == (reference{schema.GroupKind{Group: group, Kind: kind}, namespace, name}) {
			workload = t.Workload
		}
	}
	var newest *pod
	pods := 0
	for i, p := range seen.pods {
		if said[i].Workload != workload || said[i].Terminating {
			continue
		}
		if pods++; newest == nil || newest.said.Created.Before(p.said.Created) {
			newest = p
		}
	}
	if newest == nil {
		return nil, 0, fmt.Errorf("spec.scalableRef: %s %s in namespace %s has no pod to take the form of", kind, name, namespace)
	}
	return newest, pods, nil
}

// count is for how many pods there is to be room: the larger of replicas and percentage, as far as
// the limits allow; without either, as many as these allow.
func (s *bufferSpec) count(replicas int, like *nodescaler.Pod) (int, error) {
	n := int64(-1)
	if s.Replicas != nil {
		n = max(*s.Replicas, 0)
	}
	if s.Percentage != nil && s.ScalableRef != nil && *s.Percentage >= 0 {
		part := int64(math.Ceil(float64(*s.Percentage) * float64(replicas) / 100))
		n = max(n, part)
	}
	if len(s.Limits) > 0 {
		most, err := s.within(like)
		if err != nil {
			return 0, err
		}
		if n < 0 || most < n {
			n = most
		}
	}
	if n < 0 {
		return 0, errNoNumber
	}
	return int(min(n, math.MaxInt32)), nil
}

// within is how many such pods request no more than the limits together.
func (s *bufferSpec) within(like *nodescaler.Pod) (int64, error) {
	most := int64(-1)
	for name, limit := range s.Limits {
		var each, all int64
		switch corev1.ResourceName(name) {
		case corev1.ResourceCPU:
			each, all = int64(like.Requests.CPU), limit.MilliValue()
		case corev1.ResourceMemory:
			each, all = int64(like.Requests.Memory), limit.Value()
		default:
			each, all = like.Extra.Of(name), limit.Value()
		}
		if each > 0 && (most < 0 || all/each < most) {
			most = max(all/each, 0)
		}
	}
	if most < 0 {
		return 0, errors.New("spec.limits: must limit something that the pods request")
	}
	return most, nil
}

// ReportHeadroom writes what became of the CapacityBuffers that the last Observe saw into their
// statuses, where it differs.
func (c *Cluster) ReportHeadroom(ctx context.Context, states []nodescaler.HeadroomState) error {
	seen := c.observed.Load()
	if seen == nil {
		return nil
	}
	byName := make(map[string]*nodescaler.HeadroomState, len(states))
	for i := range states {
		byName[states[i].Name] = &states[i]
	}
	var errs []error
	for _, a := range seen.buffers {
		errs = append(errs, c.reportBuffer(ctx, a, byName[a.Namespace+"/"+a.Name]))
	}
	return errors.Join(errs...)
}

func (c *Cluster) reportBuffer(ctx context.Context, a *bufferAsked, state *nodescaler.HeadroomState) error {
	want := a.verdict(state)
	is, err := json.Marshal(a.status)
	if err != nil {
		return err
	}
	text, err := json.Marshal(want)
	if err != nil {
		return err
	}
	if string(is) == string(text) || !c.reports.due(a.UID, text, is, time.Now()) {
		return nil
	}
	what := fmt.Sprintf("status of CapacityBuffer %s/%s", a.Namespace, a.Name)
	return c.write(ctx, Active, what, func(ctx context.Context) error {
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": a.UID}, "status": json.RawMessage(printable.JSON(text))})
		if err != nil {
			return err
		}
		gvr := schema.GroupVersionResource{Group: bufferGroup, Version: a.version, Resource: bufferResource}
		_, err = c.objects.Resource(gvr).Namespace(a.Namespace).Patch(ctx, a.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager}, "status")
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		if err == nil {
			c.reports.wrote(a.UID, text, time.Now())
		}
		return err
	})
}

// verdict is what its status is to be. Conditions of other types stay.
func (a *bufferAsked) verdict(state *nodescaler.HeadroomState) bufferStatus {
	s := bufferStatus{ProvisioningStrategy: new(activeCapacity), Conditions: slices.Clone(a.status.Conditions)}
	set := func(kind string, status metav1.ConditionStatus, reason, text string) {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: text, ObservedGeneration: a.Generation})
	}
	if a.err != nil {
		set(bufferReady, metav1.ConditionFalse, reasonBufferInvalid, a.err.Error())
		meta.RemoveStatusCondition(&s.Conditions, bufferProvisioning)
		return s
	}
	if a.template != nil {
		s.PodTemplateRef, s.PodTemplateGeneration = &nameRef{a.template.Name}, new(a.template.Generation)
	}
	s.Replicas = new(int32(a.room.Count))
	set(bufferReady, metav1.ConditionTrue, reasonAttributesSet, "room is kept for its pods")
	if state == nil { // nothing was planned in this step
		return s
	}
	cost := fmt.Sprintf("its part of the machines costs %s/h", state.Rate)
	switch {
	case state.Missing() > 0:
		set(bufferProvisioning, metav1.ConditionFalse, state.Why.Code, fmt.Sprintf("there is no room for %d of %d pods: %s", state.Missing(), state.Wanted, state.Why.Text))
	case state.Coming > 0:
		set(bufferProvisioning, metav1.ConditionTrue, reasonRoomComing, fmt.Sprintf("machines are coming for %d of %d pods; %s", state.Coming, state.Wanted, cost))
	default:
		set(bufferProvisioning, metav1.ConditionTrue, reasonRoomKept, fmt.Sprintf("nodes have room for all %d pods; %s", state.Wanted, cost))
	}
	return s
}
