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
	"k8s.io/client-go/kubernetes"

	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/sight"
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
	if limit := now.Add(copies.Patience); limit.Before(until) {
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

// AtOnce is of how many workloads replicas are written at once.
func (c *Cluster) AtOnce() int { return 8 }

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
		return again(func() error { return c.targets.Rescale(ctx, t, replicas) })
	})
}

// scalable is the target of a workload that is ours to scale.
func (c *Cluster) scalable(seen *sight.Sight, workload, what string) (*Target, error) {
	t, ok := seen.Target(workload)
	if !ok {
		return nil, fmt.Errorf("%s: no such workload was observed", what)
	}
	if err := c.targets.Refuses(t); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return t, nil
}

// What the mark of a node says, which the kept annotation is.
const (
	drainingCordoned = "cordoned"         // by us
	drainingWasSo    = "cordoned-already" // by another client, and its cordon stays
)

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
	if err := sameNode(c.observed.Load(), name, n.UID); err != nil {
		return err
	}
	mark, marked := n.Annotations[kept.AnnotationDraining]
	var spec, annotations map[string]any
	switch {
	case draining && marked && n.Spec.Unschedulable, !draining && !marked:
		return nil
	case draining && marked:
		spec = map[string]any{"unschedulable": true}
	case draining:
		annotations = map[string]any{kept.AnnotationDraining: drainingCordoned}
		if n.Spec.Unschedulable {
			annotations[kept.AnnotationDraining] = drainingWasSo
		}
		spec = map[string]any{"unschedulable": true}
	default:
		annotations = map[string]any{kept.AnnotationDraining: nil}
		if mark == drainingCordoned {
			spec = map[string]any{"unschedulable": nil}
		}
	}
	return patchNode(ctx, c.client, n, annotations, spec)
}

// sameNode returns an error if a node is another one than was observed under its name.
func sameNode(seen *sight.Sight, name string, is types.UID) error {
	if seen.Another(name, is) {
		return fmt.Errorf("%w: this node %s is another one than was observed", ErrChanged, name)
	}
	return nil
}

// patchNode changes the very version of the node that was read.
func patchNode(ctx context.Context, client kubernetes.Interface, n *corev1.Node, annotations, spec map[string]any) error {
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
	_, err = client.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: kept.FieldManager})
	return err
}

// Evict asks for the pod that was observed under this name to be moved. A pod that is gone, or
// replaced by another of the same name, needs no moving.
func (c *Cluster) Evict(ctx context.Context, name string) error {
	what := "evict pod " + name
	p, ok := c.observed.Load().Pod(name)
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
	p, ok := c.observed.Load().Pod(name)
	if !ok {
		return fmt.Errorf("%s: no such pod was observed", what)
	}
	return c.write(ctx, Active, what, func(ctx context.Context) error {
		seconds := max(int64(grace/time.Second), 1)
		return unlessGone(c.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{
			GracePeriodSeconds: &seconds, Preconditions: &metav1.Preconditions{UID: &p.UID},
		}))
	})
}

// evicted reads the answer to an eviction. Too many requests is the word for a budget as well as
// for a server that is busy: only the first names it as the cause.
func evicted(err error) error {
	if apierrors.IsTooManyRequests(err) && apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) {
		return fmt.Errorf("%w: %w", loop.ErrBudget, err)
	}
	return unlessGone(err)
}

// Nodes returns all nodes, sorted by name, as the machine side needs them.
func (c *Cluster) Nodes(context.Context) ([]Node, error) {
	all, err := read[*kept.Node](c, copies.Nodes)
	if err != nil {
		return nil, err
	}
	words := make([]Node, len(all))
	for i, n := range all {
		words[i] = describe(n)
	}
	return words, nil
}

// RemoveNode deletes the node of a machine that is gone, if it is the one that was observed. A node
// that is gone already is no error.
func (c *Cluster) RemoveNode(ctx context.Context, name string) error {
	return c.write(ctx, Active, "remove node "+name, func(ctx context.Context) error {
		return removeNode(ctx, c.client, name, func(name string, is types.UID) error { return sameNode(c.observed.Load(), name, is) })
	})
}

// Targets resolves what every WorkloadAutoscaler scales, sorted by Workload. It reads what Observe
// reads, and may be called before it.
func (c *Cluster) Targets(ctx context.Context) ([]Target, error) {
	if err := c.Fresh(); err != nil {
		return nil, err
	}
	return c.targets.Resolve(ctx), nil
}
