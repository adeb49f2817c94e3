package kube

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// A pod is resized by its subresource and nothing else, as the very pod that was observed, with
// what is to be changed.
func TestAPodIsResizedByItsSubresource(t *testing.T) {
	var sent, kind string
	s := &site{answer: func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent, kind = string(body), r.Header.Get("Content-Type")
		tell(w, map[string]any{"apiVersion": "v1", "kind": "Pod"})
	}}
	c := s.port(t, Active)
	c.observes(t)
	c.leads(0)
	must.Do(t, c.Resize(t.Context(), "shop/web", "shop/web-1", []rightsize.Change{{
		Container: "app", Requests: pricing.Resources{CPU: 1500, Memory: 262144000}, Limits: pricing.Resources{Memory: 512 * pricing.MiB},
	}, {Container: "side", Sidecar: true, Requests: pricing.Resources{CPU: 10}}}))
	const want = `{"metadata":{"uid":"u-1"},"spec":{"containers":[{"name":"app","resources":{"limits":{"memory":"512Mi"},"requests":{"cpu":"1500m","memory":"250Mi"}}}],"initContainers":[{"name":"side","resources":{"requests":{"cpu":"10m"}}}]}}`
	if sent != want || kind != "application/strategic-merge-patch+json" {
		t.Errorf("sent as %s:\n%s\nwant\n%s", kind, sent, want)
	}
	if diff := cmp.Diff([]string{"PATCH /api/v1/namespaces/shop/pods/web-1/resize"}, s.requests()); diff != "" {
		t.Error(diff)
	}
}

func TestPodsThatAreNotOursToSizeAreNotAskedFor(t *testing.T) {
	sizer := func(mode string) any {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": map[string]any{"namespace": "shop", "name": "vpa"},
			"spec": map[string]any{
				"targetRef":    map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
				"updatePolicy": map[string]any{"updateMode": mode},
			},
		}}
	}
	for name, c := range map[string]struct {
		spoil func(*Cluster)
		free  bool
	}{
		"a VerticalPodAutoscaler has them": {spoil: func(c *Cluster) { c.holds(t, copies.Verticals, sizer("Recreate")) }},
		"one that only recommends":         {spoil: func(c *Cluster) { c.holds(t, copies.Verticals, sizer("Off")) }, free: true},
		"a HorizontalPodAutoscaler has them": {spoil: func(c *Cluster) {
			c.holds(t, copies.HPAs, &kept.Rival{ObjectMeta: metav1.ObjectMeta{Name: "h"}, Kind: "HorizontalPodAutoscaler", Target: kept.Refer("shop", "apps/v1", "Deployment", "web")})
		}},
		"the autoscaler does not ask for it": {spoil: func(c *Cluster) {
			w := autoscaler("web", v1alpha1.ModeActive)
			w.Spec.Rightsize = nil
			c.holds(t, copies.Autoscalers, w)
		}},
		"it asks for recommendations": {spoil: func(c *Cluster) {
			w := autoscaler("web", v1alpha1.ModeActive)
			w.Spec.Rightsize.Mode = v1alpha1.RightsizeOff
			c.holds(t, copies.Autoscalers, w)
		}},
		"it is in mode Recommend as a whole":    {spoil: func(c *Cluster) { c.holds(t, copies.Autoscalers, autoscaler("web", v1alpha1.ModeRecommend)) }},
		"nothing of it, and it may be resized,": {spoil: func(*Cluster) {}, free: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &site{answer: func(w http.ResponseWriter, _ *http.Request) {
				tell(w, map[string]any{"apiVersion": "v1", "kind": "Pod"})
			}}
			port := s.port(t, Active)
			port.observes(t)
			port.leads(0)
			c.spoil(port)
			port.look(t.Context())
			err := port.Resize(t.Context(), "shop/web", "shop/web-1", nil)
			if c.free && (err != nil || len(s.requests()) != 1) || !c.free && (!errors.Is(err, ErrConflicted) || len(s.requests()) > 0) {
				t.Errorf("%v, asked %v", err, s.requests())
			}
		})
	}
}

// A pod's sizes are bounded by what the LimitRanges of its namespace allow together.
func TestPodsAreSizedWithinTheirNamespacesRanges(t *testing.T) {
	port := (&site{}).port(t, Active)
	port.observes(t)
	limit := func(namespace, name string, memory pricing.Bytes) *kept.LimitRange {
		return &kept.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Ranges: rightsize.Ranges{Pod: rightsize.Range{Max: pricing.Resources{Memory: memory}}}}
	}
	port.holds(t, copies.LimitRanges, limit("shop", "a", 3*pricing.GiB), limit("shop", "b", 2*pricing.GiB), limit("else", "a", pricing.GiB))
	port.look(t.Context())
	if size, known := port.Size("shop/web-1"); !known || size.Ranges.Pod.Max.Memory != 2*pricing.GiB {
		t.Errorf("known %t, within %+v", known, size.Ranges)
	}
}

// In mode Auto, and in no other, a pod is evicted by the API that disruption budgets hold.
func TestOnlyAutoEvicts(t *testing.T) {
	for mode, want := range map[v1alpha1.RightsizeMode][]string{
		v1alpha1.RightsizeAuto: {"POST /api/v1/namespaces/shop/pods/web-1/eviction"}, v1alpha1.RightsizeInPlace: nil, v1alpha1.RightsizeInitial: nil, v1alpha1.RightsizeOff: nil,
	} {
		s := &site{answer: func(w http.ResponseWriter, _ *http.Request) {
			tell(w, map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Success"})
		}}
		port := s.port(t, Active)
		port.observes(t)
		port.leads(0)
		w := autoscaler("web", v1alpha1.ModeActive)
		w.Spec.Rightsize.Mode = mode
		port.holds(t, copies.Autoscalers, w)
		port.look(t.Context())
		err := port.Recreate(t.Context(), "shop/web", "shop/web-1")
		if diff := cmp.Diff(want, s.requests()); diff != "" || (err == nil) != (want != nil) || err != nil && !errors.Is(err, ErrConflicted) {
			t.Errorf("%s: %v, %s", mode, err, diff)
		}
	}
}
