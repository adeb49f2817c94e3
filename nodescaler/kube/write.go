package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
)

// tries is how often a write is begun anew that was crossed by another one to the same object.
const tries = 3

// write does what the mode allows while this process leads. The context ends when it may lead no
// longer, so that no request is sent after that; one that is on its way then is still held to the
// version or the uid that it was meant for.
func (c *Cluster) write(ctx context.Context, need Mode, what string, do func(context.Context) error) error {
	if !c.cfg.Mode.allows(need) {
		return fmt.Errorf("%s: %w: needs %s, is %s", what, ErrForbidden, need, c.cfg.Mode)
	}
	now := time.Now()
	until := c.lead.until()
	if !now.Before(until) {
		return fmt.Errorf("%s: %w", what, ErrNotLeader)
	}
	if limit := now.Add(patience); limit.Before(until) {
		until = limit
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if err := do(ctx); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// again does something until it is not crossed by another write any more.
func again(do func() error) error {
	var err error
	for range tries {
		if err = do(); !apierrors.IsConflict(err) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", ErrChanged, err)
}

// SetReplicas writes the scale of a workload's target, if it still asks for what was last observed.
func (c *Cluster) SetReplicas(ctx context.Context, workload string, replicas int) error {
	what := fmt.Sprintf("scale %s to %d", workload, replicas)
	if replicas < 0 {
		return fmt.Errorf("%s: must be at least 0", what)
	}
	t, err := c.scalable(c.observed.Load(), workload, what)
	if err != nil {
		return err
	}
	return c.write(ctx, Active, what, func(ctx context.Context) error {
		return again(func() error { return c.rescale(ctx, t, replicas) })
	})
}

// scalable is the target of a workload that is ours to scale.
func (c *Cluster) scalable(seen *sight, workload, what string) (*Target, error) {
	t, ok := seen.target(workload)
	switch {
	case !ok:
		return nil, fmt.Errorf("%s: no such workload was observed", what)
	case len(t.Findings) > 0:
		return nil, fmt.Errorf("%s: %w: %s: %s", what, ErrConflicted, t.Findings[0].Code, t.Findings[0].Text)
	}
	// What was observed may be seconds old, and the mode may have changed since.
	wla, ok := one[*v1alpha1.WorkloadAutoscaler](c, autoscalers, workload)
	if !ok || wla.UID != t.wla.UID || !acts(wla) {
		return nil, fmt.Errorf("%s: %w: its autoscaler is not in mode %s or %s", what, ErrConflicted, v1alpha1.ModeActive, v1alpha1.ModeApprove)
	}
	if f, ok := c.meddling.finding(wla, time.Now()); ok {
		return nil, fmt.Errorf("%s: %w: %s: %s", what, ErrConflicted, f.Code, f.Text)
	}
	return t, nil
}

// rescale changes a scale that is as it was observed.
func (c *Cluster) rescale(ctx context.Context, t *Target, replicas int) error {
	scale, err := c.scales.now(ctx, t.resource, t.ref.namespace, t.ref.name)
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
	defer c.scales.forget(t.ref)
	c.meddling.wrote(t.wla.UID, replicas)
	_, err = c.objects.Resource(t.resource).Namespace(t.ref.namespace).
		Patch(ctx, t.ref.name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager}, "scale")
	return err
}

// SetDraining cordons a node and marks it as being emptied by us, or takes back what of it is ours.
func (c *Cluster) SetDraining(ctx context.Context, name string, draining bool) error {
	what := "take back the draining of node " + name
	if draining {
		what = "drain node " + name
	}
	return c.write(ctx, Active, what, func(ctx context.Context) error {
		return again(func() error { return c.mark(ctx, name, draining) })
	})
}

func (c *Cluster) mark(ctx context.Context, name string, draining bool) error {
	n, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if machine, _ := c.cfg.Machine(n); machine == "" && draining {
		return errors.New("no machine of ours is behind it")
	}
	if err := c.observed.Load().same(name, n.UID); err != nil {
		return err
	}
	mark, marked := n.Annotations[annotationDraining]
	var spec, annotations map[string]any
	switch {
	case draining && marked && n.Spec.Unschedulable, !draining && !marked:
		return nil
	case draining && marked:
		spec = map[string]any{"unschedulable": true}
	case draining:
		annotations = map[string]any{annotationDraining: drainingCordoned}
		if n.Spec.Unschedulable {
			annotations[annotationDraining] = drainingWasSo
		}
		spec = map[string]any{"unschedulable": true}
	default:
		annotations = map[string]any{annotationDraining: nil}
		if mark == drainingCordoned {
			spec = map[string]any{"unschedulable": nil}
		}
	}
	return c.patchNode(ctx, n, annotations, spec)
}

// patchNode changes the very version of the node that was read.
func (c *Cluster) patchNode(ctx context.Context, n *corev1.Node, annotations, spec map[string]any) error {
	metadata := map[string]any{"uid": n.UID, "resourceVersion": n.ResourceVersion}
	if annotations != nil {
		metadata["annotations"] = annotations
	}
	patch := map[string]any{"metadata": metadata}
	if spec != nil {
		patch["spec"] = spec
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = c.client.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
	return err
}

// Evict asks for the pod that was observed under this name to be moved. A pod that is gone, or
// replaced by another of the same name, needs no moving.
func (c *Cluster) Evict(ctx context.Context, name string) error {
	what := "evict pod " + name
	p, ok := c.observed.Load().pod(name)
	if !ok {
		return fmt.Errorf("%s: no such pod was observed", what)
	}
	return c.write(ctx, Active, what, func(ctx context.Context) error {
		// The client would wait and repeat by itself for as long as the server proposes. How long a
		// drain may take is the loop's to say.
		err := c.client.PolicyV1().RESTClient().Post().MaxRetries(0).
			AbsPath("/api/v1").Namespace(p.Namespace).Resource("pods").Name(p.Name).SubResource("eviction").
			Body(&policyv1.Eviction{
				ObjectMeta:    metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace},
				DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}},
			}).Do(ctx).Error()
		return evicted(err)
	})
}

// DeletePod deletes the pod that was observed under this name, past any budget. One that is gone,
// or another one, is no error.
func (c *Cluster) DeletePod(ctx context.Context, name string, grace time.Duration) error {
	what := "delete pod " + name
	p, ok := c.observed.Load().pod(name)
	if !ok {
		return fmt.Errorf("%s: no such pod was observed", what)
	}
	return c.write(ctx, Active, what, func(ctx context.Context) error {
		seconds := max(int64(grace/time.Second), 1)
		err := c.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{
			GracePeriodSeconds: &seconds, Preconditions: &metav1.Preconditions{UID: &p.UID},
		})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		return err
	})
}

// evicted reads the answer to an eviction. Too many requests is the word for a budget as well as
// for a server that is busy: only the first names it as the cause.
func evicted(err error) error {
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case apierrors.IsTooManyRequests(err) && apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
		return fmt.Errorf("%w: %w", loop.ErrBudget, err)
	}
	return err
}

// Nodes returns all nodes, sorted by name, as the machine side needs them.
func (c *Cluster) Nodes(context.Context) ([]Node, error) {
	all, err := read[*node](c, nodes)
	if err != nil {
		return nil, err
	}
	words := make([]Node, len(all))
	for i, n := range all {
		words[i] = Node{
			Name: n.Name, UID: string(n.UID), ProviderID: n.said.ProviderID, SystemUUID: n.said.SystemUUID,
			Labels: n.Labels, Ready: n.ready, ReadySince: n.readySince, Joined: n.CreationTimestamp.Time,
		}
	}
	return words, nil
}

// RemoveNode deletes the node of a machine that is gone, if it is the one that was observed. A node
// that is gone already is no error.
func (c *Cluster) RemoveNode(ctx context.Context, name string) error {
	return c.write(ctx, Active, "remove node "+name, func(ctx context.Context) error {
		return removeNode(ctx, c.client, name, c.observed.Load().same)
	})
}
