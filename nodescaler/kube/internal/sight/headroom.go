package sight

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
)

// Buffer is a CapacityBuffer, and what becomes of it.
type Buffer struct {
	*kept.Buffer
	Room *nodescaler.Headroom
	Err  error // why it asks for no room
	// Template is set where it refers to one.
	Template *kept.Template
}

// headroom returns what CapacityBuffers ask for, by name.
func (of *Lists) headroom(seen *Sight, said []nodescaler.Pod, marks *marker) []nodescaler.Headroom {
	var all []nodescaler.Headroom
	for _, b := range of.Buffers {
		if strategy := cmp.Or(b.Spec.Strategy, kept.ActiveCapacity); b.Ours || strategy != kept.ActiveCapacity || b.DeletionTimestamp != nil {
			continue
		}
		a := &Buffer{Buffer: b}
		if a.Err = of.resolveBuffer(a, seen, said, marks); a.Err == nil {
			all = append(all, *a.Room)
		}
		seen.Buffers = append(seen.Buffers, a)
	}
	return all
}

// bufferForms are the forms of the pods that CapacityBuffers ask room for, as far as they are no
// pods.
func (of *Lists) bufferForms() (forms []*kept.Pod) {
	for _, b := range of.Buffers {
		switch s := &b.Spec; {
		case s.PodTemplateRef != nil:
			if t := of.template(b.Namespace, s.PodTemplateRef.Name); t != nil {
				forms = append(forms, t.Like)
			}
		case s.ScalableRef != nil:
			if o := of.form(b.Namespace, s.ScalableRef.Kind, s.ScalableRef.Name); o != nil && hasForm(s.ScalableRef.APIGroup, s.ScalableRef.Kind) {
				forms = append(forms, o.Like)
			}
		}
	}
	return forms
}

// template is a PodTemplate, or nil.
func (of *Lists) template(namespace, name string) *kept.Template {
	i := slices.IndexFunc(of.Templates, func(t *kept.Template) bool { return t.Name == name && t.Namespace == namespace })
	if i < 0 {
		return nil
	}
	return of.Templates[i]
}

// form is what of Deployments and StatefulSets makes pods of a known form, or nil.
func (of *Lists) form(namespace, kind, name string) *kept.Scaled {
	i := slices.IndexFunc(of.Scaled, func(o *kept.Scaled) bool { return o.Name == name && o.Namespace == namespace && o.Kind == kind })
	if i < 0 || of.Scaled[i].Like == nil {
		return nil
	}
	return of.Scaled[i]
}

// hasForm reports whether the template is known of objects of a kind.
func hasForm(group, kind string) bool {
	return group == "apps" && (kind == "Deployment" || kind == "StatefulSet")
}

// resolveBuffer finds out what a buffer asks for.
func (of *Lists) resolveBuffer(a *Buffer, seen *Sight, said []nodescaler.Pod, marks *marker) error {
	s := &a.Spec
	if a.Invalid != nil {
		return fmt.Errorf("spec: %w", a.Invalid)
	}
	if (s.PodTemplateRef == nil) == (s.ScalableRef == nil) {
		return kept.ErrTwoForms
	}
	var form *kept.Pod
	replicas := 0
	if s.PodTemplateRef != nil {
		t := of.template(a.Namespace, s.PodTemplateRef.Name)
		if t == nil {
			return fmt.Errorf("spec.podTemplateRef: there is no PodTemplate %s in namespace %s", s.PodTemplateRef.Name, a.Namespace)
		}
		a.Template, form = t, t.Like
	} else {
		var err error
		if form, replicas, err = of.scalableForm(a.Namespace, s.ScalableRef.APIGroup, s.ScalableRef.Kind, s.ScalableRef.Name, seen, said); err != nil {
			return err
		}
	}
	count, err := s.Count(replicas, &form.Form)
	if err != nil {
		return err
	}
	name := a.Namespace + "/" + a.Name
	like := form.Says()
	marks.fill(&like, form)
	like.Pod.Name, like.Workload, like.Node, like.Nominated, like.Pinned = "", a.Namespace+"/CapacityBuffer/"+a.Name, "", "", ""
	like.Phase, like.Ready, like.Terminating, like.Unschedulable, like.Daemon, like.Priority = "", false, false, false, false, 0
	a.Room = &nodescaler.Headroom{Name: name, Like: like, Count: count}
	return nil
}

// scalableForm is what a scalable object makes, and how many of it there are to be. Of a kind whose
// template is not known the newest pod is one.
func (of *Lists) scalableForm(namespace, group, kind, name string, seen *Sight, said []nodescaler.Pod) (*kept.Pod, int, error) {
	if hasForm(group, kind) {
		o := of.form(namespace, kind, name)
		if o == nil {
			return nil, 0, fmt.Errorf("spec.scalableRef: there is no %s %s in namespace %s", kind, name, namespace)
		}
		return o.Like, o.Replicas, nil
	}
	workload := namespace + "/" + kind + "/" + name
	for i := range seen.Targets {
		if t := &seen.Targets[i]; t.Ref == (kept.Reference{GroupKind: schema.GroupKind{Group: group, Kind: kind}, Namespace: namespace, Name: name}) {
			workload = t.Workload
		}
	}
	var newest *kept.Pod
	pods := 0
	for i, p := range seen.pods {
		if said[i].Workload != workload || said[i].Terminating {
			continue
		}
		if pods++; newest == nil || newest.Said.Created.Before(p.Said.Created) {
			newest = p
		}
	}
	if newest == nil {
		return nil, 0, fmt.Errorf("spec.scalableRef: %s %s in namespace %s has no pod to take the form of", kind, name, namespace)
	}
	return newest, pods, nil
}
