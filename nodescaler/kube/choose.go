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
	"k8s.io/client-go/kubernetes"

	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
)

var _ loop.Chooser = (*Cluster)(nil)

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
	changes := remark(seen.Of[workload], chosen)
	if len(changes) == 0 {
		return nil
	}
	namespace := changes[0].Namespace
	if !c.unmarked.tries(namespace, time.Now()) {
		return nil
	}
	return c.write(ctx, Active, what, func(ctx context.Context) error {
		err := markAll(ctx, c.client, changes)
		if !apierrors.IsForbidden(err) || !lacksPatch(ctx, c.client, namespace) {
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
func lacksPatch(ctx context.Context, client kubernetes.Interface, namespace string) bool {
	review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "patch", Version: "v1", Resource: "pods"},
		},
	}, metav1.CreateOptions{})
	return err == nil && !review.Status.Allowed
}

// remark returns the pods whose mark must change: pods to be marked, and pods with a mark of ours
// to remove.
func remark(all []*kept.Pod, chosen []string) []*kept.Pod {
	goes := make(map[string]bool, len(chosen))
	for _, name := range chosen {
		goes[name] = true
	}
	var changes []*kept.Pod
	for _, p := range all {
		if owner, _, ok := kept.ControllerOf(&p.ObjectMeta); !ok || owner.Group != "apps" || owner.Kind != "ReplicaSet" {
			return nil
		}
		is := goes[p.Said.Name]
		if !p.Said.Terminating && (is && p.Mark == kept.Unmarked || !is && p.Mark == kept.MarkedByUs) {
			changes = append(changes, p)
		}
	}
	return changes
}

// markAll marks the pods without a mark, and removes the mark from the others. A failure for one
// pod does not stop it.
func markAll(ctx context.Context, client kubernetes.Interface, all []*kept.Pod) error {
	failed := make([]error, len(all))
	var parts sync.WaitGroup
	atOnce := make(chan struct{}, 8)
	for i, p := range all {
		atOnce <- struct{}{}
		parts.Go(func() {
			defer func() { <-atOnce }()
			failed[i] = markPod(ctx, client, p)
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
func markPod(ctx context.Context, client kubernetes.Interface, p *kept.Pod) error {
	var cost any = kept.DeletionCost
	if p.Mark == kept.MarkedByUs {
		cost = nil
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": p.UID, "resourceVersion": p.ResourceVersion, "annotations": map[string]any{corev1.PodDeletionCost: cost},
	}})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: kept.FieldManager})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return fmt.Errorf("pod %s: %w: %w", p.Said.Name, ErrChanged, err)
	case err != nil:
		return fmt.Errorf("pod %s: %w", p.Said.Name, err)
	}
	return nil
}
