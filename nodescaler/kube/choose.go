package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/nodescaler/loop"
)

var _ loop.Chooser = (*Cluster)(nil)

// deletionCost is the pod deletion cost of chosen pods. It is below 0, the default of all other
// pods, and an unusual number, by which our own marks are recognised.
const deletionCost = "-1876"

// mark is whose deletion cost a pod has.
type mark uint8

const (
	unmarked mark = iota
	markedByUs
	markedByOthers
)

func markOf(p *corev1.Pod) mark {
	switch cost, ok := p.Annotations[corev1.PodDeletionCost]; {
	case !ok:
		return unmarked
	case cost == deletionCost:
		return markedByUs
	}
	return markedByOthers
}

// Choose marks the pods that the ReplicaSet controller deletes first when the workload scales down,
// and removes the marks of an earlier choice. It changes no pod whose deletion cost another client
// wrote, and no workload with pods that no ReplicaSet owns: other controllers have an order of
// their own. Without the right to patch pods it marks nothing, and logs once that any pod may go.
func (c *Cluster) Choose(ctx context.Context, workload string, chosen []string) error {
	what := "choose pods of " + workload
	seen := c.observed.Load()
	if _, err := c.scalable(seen, workload, what); err != nil {
		return err
	}
	changes := remark(seen.of[workload], chosen)
	if len(changes) == 0 {
		return nil
	}
	namespace := changes[0].Namespace
	if !c.unmarked.tries(namespace, time.Now()) {
		return nil
	}
	return c.write(ctx, Active, what, func(ctx context.Context) error {
		err := c.markAll(ctx, changes)
		if !apierrors.IsForbidden(err) || !c.lacksPatch(ctx, namespace) {
			return err
		}
		if c.unmarked.deny(namespace, time.Now()) {
			c.log.Info("pods may not be patched, so that any of them goes first when a workload shrinks", "namespace", namespace)
		}
		return nil
	})
}

// lacksPatch reports whether we lack the right to patch pods in a namespace. A patch may be refused
// for another reason, such as an admission policy. Every client may review its own rights.
func (c *Cluster) lacksPatch(ctx context.Context, namespace string) bool {
	review, err := c.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "patch", Version: "v1", Resource: "pods"},
		},
	}, metav1.CreateOptions{})
	return err == nil && !review.Status.Allowed
}

// deniedFor is how long a missing right is not tried again.
const deniedFor = time.Hour

// denials are namespaces in which a right is lacking.
type denials struct {
	mu    sync.Mutex
	since map[string]time.Time // by namespace, when it was last lacking
}

// tries reports whether it is worth trying in a namespace.
func (d *denials) tries(namespace string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	since, denied := d.since[namespace]
	return !denied || now.Sub(since) >= deniedFor
}

// deny notes that the right is lacking, and reports whether that is news.
func (d *denials) deny(namespace string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, known := d.since[namespace]
	if d.since == nil {
		d.since = map[string]time.Time{}
	}
	d.since[namespace] = now
	return !known
}

// remark returns the pods whose mark must change: pods to be marked, and pods with a mark of ours
// to remove.
func remark(all []*pod, chosen []string) []*pod {
	goes := make(map[string]bool, len(chosen))
	for _, name := range chosen {
		goes[name] = true
	}
	var changes []*pod
	for _, p := range all {
		if owner, _, ok := controllerOf(&p.ObjectMeta); !ok || owner.Group != "apps" || owner.Kind != "ReplicaSet" {
			return nil
		}
		is := goes[p.said.Name]
		if !p.said.Terminating && (is && p.mark == unmarked || !is && p.mark == markedByUs) {
			changes = append(changes, p)
		}
	}
	return changes
}

// markAll marks the pods without a mark, and removes the mark from the others. A failure for one
// pod does not stop it.
func (c *Cluster) markAll(ctx context.Context, all []*pod) error {
	failed := make([]error, len(all))
	var parts sync.WaitGroup
	atOnce := make(chan struct{}, 8)
	for i, p := range all {
		atOnce <- struct{}{}
		parts.Go(func() {
			defer func() { <-atOnce }()
			failed[i] = c.markPod(ctx, p)
		})
	}
	parts.Wait()
	failed = slices.DeleteFunc(failed, func(err error) bool { return err == nil })
	if extra := len(failed) - 3; extra > 0 { // they will mostly say the same
		failed = append(failed[:3], fmt.Errorf("and %d more", extra))
	}
	return errors.Join(failed...)
}

// markPod changes the mark of exactly the version of the pod that was observed: another client may
// have written a deletion cost since. A pod that is gone needs no mark.
func (c *Cluster) markPod(ctx context.Context, p *pod) error {
	var cost any = deletionCost
	if p.mark == markedByUs {
		cost = nil
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": p.UID, "resourceVersion": p.ResourceVersion, "annotations": map[string]any{corev1.PodDeletionCost: cost},
	}})
	if err != nil {
		return err
	}
	_, err = c.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return fmt.Errorf("pod %s: %w: %w", p.said.Name, ErrChanged, err)
	case err != nil:
		return fmt.Errorf("pod %s: %w", p.said.Name, err)
	}
	return nil
}
