package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plimsoll/plimsoll/api/printable"
	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
)

// SetStatus writes the status of one of our own objects, of which it reads name, namespace, uid and
// status. It writes nothing when nothing changed, and changes of mere numbers, with the conditions
// as they were and nothing done, only once in a while: call it at every step with what is true
// then. An object that is gone has no status.
func (c *Cluster) SetStatus(ctx context.Context, o client.Object) error {
	i, _, err := ofOurs(o)
	if err != nil {
		return err
	}
	status, err := statusOf(o)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("status of %s %s", copies.Kinds[i].Kind, o.GetName())
	if !c.reports.due(o.GetUID(), status, statusNow(c.copies, i, o), time.Now()) {
		return nil
	}
	return c.write(ctx, Recommend, what, func(ctx context.Context) error {
		body, err := json.Marshal(map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": copies.Kinds[i].Kind,
			"metadata": metav1.ObjectMeta{Name: o.GetName(), Namespace: o.GetNamespace(), UID: o.GetUID()},
			"status":   json.RawMessage(status),
		})
		if err != nil {
			return err
		}
		// Applied whole, so that absent fields are removed, including those that other clients
		// wrote.
		force := true
		_, err = c.objects.Resource(v1alpha1.GroupVersion.WithResource(copies.Kinds[i].Resource)).Namespace(o.GetNamespace()).
			Patch(ctx, o.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: kept.FieldManager, Force: &force}, "status")
		if err == nil {
			c.reports.wrote(o.GetUID(), status, time.Now())
		}
		return unlessGone(err)
	})
}

// ofOurs is which of our kinds an object is of, and its status.
func ofOurs(o client.Object) (i copies.Kind, status any, err error) {
	switch o := o.(type) {
	case *v1alpha1.WorkloadAutoscaler:
		return copies.Autoscalers, o.Status, nil
	case *v1alpha1.VMPool:
		return copies.VMPools, o.Status, nil
	case *v1alpha1.PriceBook:
		return copies.PriceBooks, o.Status, nil
	}
	return 0, nil, fmt.Errorf("a %T is not one of our kinds", o)
}

// statusOf returns an object's status as JSON, with no text in it that steers a terminal: people
// look at it with kubectl.
func statusOf(o client.Object) ([]byte, error) {
	_, status, err := ofOurs(o)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	return printable.JSON(text), nil
}

// statusNow returns the status that the object has, as far as is known.
func statusNow(of *copies.Copies, i copies.Kind, o client.Object) []byte {
	key := o.GetName()
	if o.GetNamespace() != "" {
		key = o.GetNamespace() + "/" + key
	}
	is, ok := copies.One[client.Object](of, i, key)
	if !ok {
		return nil
	}
	status, err := statusOf(is)
	if err != nil {
		return nil
	}
	return status
}

// About sends an event about one of our own objects, in the background. It sends nothing if the
// mode forbids writes, or if another process leads.
func (c *Cluster) About(about client.Object, e Event) {
	i, _, err := ofOurs(about)
	if err != nil || !c.cfg.Mode.allows(Recommend) {
		return
	}
	unsaid, ok := c.events.admit(about.GetUID(), e, time.Now())
	if !ok {
		return
	}
	if unsaid > 0 {
		e.Note = fmt.Sprintf("%s (%d events before this one were dropped)", e.Note, unsaid)
	}
	c.events.send(event(corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: copies.Kinds[i].Kind, Namespace: about.GetNamespace(), Name: about.GetName(),
		UID: about.GetUID(), ResourceVersion: about.GetResourceVersion(),
	}, c.lead.holder.Load(), e), c.log)
}

// AboutPod sends an event about a pod, by its name with its namespace, in the background. It is on
// the node that is named, or waits where none is. It reports whether it did: not for a pod that is
// gone or elsewhere, and of events with the same reason and action one an hour.
func (c *Cluster) AboutPod(name, node string, e Event) bool {
	p, ok := copies.One[*kept.Pod](c.copies, copies.Pods, name)
	return ok && p.Said.Node == node && c.aboutCore("Pod", &p.ObjectMeta, e)
}

// AboutNode sends an event about a node, as AboutPod does.
func (c *Cluster) AboutNode(name string, e Event) bool {
	n, ok := copies.One[*kept.Node](c.copies, copies.Nodes, name)
	return ok && c.aboutCore("Node", &n.ObjectMeta, e)
}

// aboutCore sends an event about an object of Kubernetes' own, unless it was sent within the hour.
func (c *Cluster) aboutCore(kind string, o *metav1.ObjectMeta, e Event) bool {
	if !c.cfg.Mode.allows(Recommend) || !c.events.again(podEvent{o.UID, e.Reason, e.Action}, time.Now()) {
		return false
	}
	c.events.send(event(corev1.ObjectReference{
		APIVersion: "v1", Kind: kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion,
	}, c.lead.holder.Load(), e), c.log)
	return true
}

// sendEvents sends what waits, until the context is done.
func (c *Cluster) sendEvents(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-c.events.queue:
			err := c.write(ctx, Recommend, "event about "+e.Regarding.Name, func(ctx context.Context) error {
				_, err := c.client.EventsV1().Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{FieldManager: kept.FieldManager})
				return err
			})
			if err != nil {
				c.log.Warn("event not sent", "reason", e.Reason, "note", e.Note, "err", err)
			}
		}
	}
}
