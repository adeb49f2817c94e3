//go:build lab

package kubeport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/testbed/lab"
)

const aheadOfWeb = "plimsoll-ahead-web"

// handsOff is a port that makes expected replicas known in a way, with the rights that takes.
func (w *world) handsOff(by kube.HandOffBy) *kube.Cluster {
	w.Helper()
	h := kube.HandOff{By: by, PriorityClass: "low", Image: "pause"}
	rules := ""
	for _, n := range h.Needs() {
		rules += fmt.Sprintf(`{apiGroups: [%q], resources: [%q], verbs: [%q]}, `, n.Group, n.Resource, n.Verb)
	}
	w.make(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: handoff}, rules: [` + rules + `]}`)
	w.make(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: handoff}, subjects: [{kind: User, name: ` + user +
		`}], roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: handoff}}`)
	c := w.cluster(kube.Config{Mode: kube.Active, HandOff: h})
	w.lead(c, "leader")
	return c
}

// Placeholders hold the room of a node, wait without one, are no pods to the port, and are gone the
// moment that pods of their workload want their place. They go with the autoscaler.
func TestPlaceholdersGiveWayToPods(t *testing.T) {
	w := newWorld(t, lab.ControlPlane{})
	w.make(`{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: low}, value: -10, preemptionPolicy: Never}`)
	w.node("n-1", "workers") // 4 cores
	w.make(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 1,
  selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: ` + podSpec("1300m") + `}}}`)
	w.autoscaler("web", "apps/v1", "Deployment", "web", "Active")
	c := w.handsOff(kube.ByPlaceholders)
	w.bound("web", 1)
	// The port's copies may be behind what the server says.
	see := func(what string, pods, placed int) {
		t.Helper()
		w.sees(c, what, func(s *loop.ClusterState) bool {
			waits := slices.ContainsFunc(s.Pods, func(p nodescaler.Pod) bool { return p.Unschedulable })
			return !waits && len(podsOf(s, "shop/web")) == pods && len(s.Pods) == pods && s.Placed["shop/web"] == placed
		})
	}
	see("the pod", 1, 0)

	// Of three cores that are left two places are had; the third waits, which is what orders a
	// machine.
	if err := c.Expect(t.Context(), "shop/web", 3); err != nil {
		t.Fatal(err)
	}
	see("two have a place", 1, 2)
	w.until("the third waits", func(ctx context.Context) error { return w.waiting(ctx, 1) })

	// A pod that is made finds a place at once: no one waits for the placeholder to end by itself.
	began := time.Now()
	if err := c.SetReplicas(t.Context(), "shop/web", 3); err != nil {
		t.Fatal(err)
	}
	quiet := w.comesAndGoes("n-1")
	w.bound("web", 3)
	quiet()
	t.Logf("three pods were bound %s after they were asked for", time.Since(began).Round(10*time.Millisecond))
	see("the pods have the places", 3, 0)
	w.until("all placeholders wait", func(ctx context.Context) error { return w.waiting(ctx, 3) })

	if err := c.Expect(t.Context(), "shop/web", 0); err != nil {
		t.Fatal(err)
	}
	w.until("none is left", func(ctx context.Context) error { return w.waiting(ctx, 0) })
	w.autoscalerGoes(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"})
}

// comesAndGoes has a pod that asks for nothing come to a node and go, every second until it is
// ended, as one always does in a cluster. The scheduler may miss that the last of several that it
// makes room with has gone, and looks again when any pod has, or after five minutes.
func (w *world) comesAndGoes(node string) (end func()) {
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan struct{})
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	go func() {
		defer close(ended)
		for i := 0; ctx.Err() == nil; i++ {
			p := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("passes-%d", i)},
				Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "pause"}}},
			}
			if _, err := w.client.CoreV1().Pods("shop").Create(w.Context(), p, metav1.CreateOptions{}); err != nil {
				w.Error(err)
				return
			}
			if err := w.client.CoreV1().Pods("shop").Delete(w.Context(), p.Name, now); err != nil {
				w.Error(err)
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// buffers is as much of the kind as is said in it, with upstream's rule that a buffer refers to one
// thing.
const buffers = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition,
  metadata: {name: capacitybuffers.autoscaling.x-k8s.io, annotations: {api-approved.kubernetes.io: "unapproved, a stand-in for a test"}},
  spec: {group: autoscaling.x-k8s.io, scope: Namespaced, names: {kind: CapacityBuffer, listKind: CapacityBufferList, plural: capacitybuffers, singular: capacitybuffer},
    versions: [{name: v1beta1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, required: [spec], properties: {
      spec: {type: object,
        x-kubernetes-validations: [{rule: "!(has(self.podTemplateRef) && has(self.scalableRef))", message: one of both}],
        properties: {
        provisioningStrategy: {type: string, default: buffer.x-k8s.io/active-capacity},
        podTemplateRef: {type: object, properties: {name: {type: string}}},
        scalableRef: {type: object, required: [kind, name], properties: {apiGroup: {type: string}, kind: {type: string, minLength: 1}, name: {type: string, minLength: 1}}},
        replicas: {type: integer, format: int32, minimum: 0}, percentage: {type: integer, format: int32}, limits: {type: object, x-kubernetes-preserve-unknown-fields: true}}},
      status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}}]}}`

// A CapacityBuffer is taken as it is written, and goes with the autoscaler. Until the cluster has
// the kind it is said that it has none.
func TestCapacityBuffersAreKept(t *testing.T) {
	w := newWorld(t, lab.ControlPlane{})
	w.node("n-1", "workers")
	w.deployment("web", 1)
	w.autoscaler("web", "apps/v1", "Deployment", "web", "Active")
	c := w.handsOff(kube.ByCapacityBuffer)
	w.sees(c, "the pod", func(s *loop.ClusterState) bool { return len(podsOf(s, "shop/web")) == 1 })
	if err := c.Expect(t.Context(), "shop/web", 3); !errors.Is(err, kube.ErrNoBuffers) {
		t.Fatalf("without the kind: %v", err)
	}
	w.make(buffers)
	w.kind("autoscaling.x-k8s.io", "v1beta1", "CapacityBuffer")
	where := schema.GroupVersionResource{Group: "autoscaling.x-k8s.io", Version: "v1beta1", Resource: "capacitybuffers"}
	w.until("the port knows the kind", func(ctx context.Context) error { return c.Expect(ctx, "shop/web", 3) })
	for _, n := range []int64{3, 5, 0} {
		if err := c.Expect(t.Context(), "shop/web", int(n)); err != nil {
			t.Fatal(err)
		}
		got, err := w.any.Resource(where).Namespace("shop").Get(t.Context(), aheadOfWeb, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var spec struct {
			Replicas             int64
			ProvisioningStrategy string
			ScalableRef          struct{ APIGroup, Kind, Name string }
		}
		decode(t, got.Object["spec"].(map[string]any), &spec)
		if ref := spec.ScalableRef; spec.Replicas != n || ref.APIGroup != "apps" || ref.Kind != "Deployment" || ref.Name != "web" || spec.ProvisioningStrategy == "" {
			t.Errorf("%d are expected, and the buffer says %+v", n, spec)
		}
	}
	w.autoscalerGoes(where)
}

// waiting wants so many placeholders that wait, and none that has a place.
func (w *world) waiting(ctx context.Context, count int) error {
	list, err := w.client.CoreV1().Pods("shop").List(ctx, metav1.ListOptions{LabelSelector: "plimsoll.dev/placeholder=" + aheadOfWeb})
	if err != nil {
		return err
	}
	placed, waits := 0, 0
	for i := range list.Items {
		p := &list.Items[i]
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
				waits++
			}
		}
		if p.Spec.NodeName != "" {
			placed++
		}
	}
	if waits != count {
		return fmt.Errorf("%d wait and %d have a place", waits, placed)
	}
	return nil
}

// autoscalerGoes wants what is published to go with the autoscaler.
func (w *world) autoscalerGoes(kind schema.GroupVersionResource) {
	w.Helper()
	of := w.any.Resource(schema.GroupVersionResource{Group: "plimsoll.dev", Version: "v1alpha1", Resource: "workloadautoscalers"}).Namespace("shop")
	if err := of.Delete(w.Context(), "web", metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
	w.until(aheadOfWeb+" is gone", func(ctx context.Context) error {
		_, err := w.any.Resource(kind).Namespace("shop").Get(ctx, aheadOfWeb, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
}
