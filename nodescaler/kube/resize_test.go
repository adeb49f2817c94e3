package kube

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
)

func TestWhatSizingGoesByIsReadFromPods(t *testing.T) {
	const meta = `metadata: {namespace: shop, name: web-1, generation: 3, ` + owned + `}` + "\n"
	const app = `spec: {containers: [{name: app, resources: {requests: {cpu: 100m}}}]}` + "\n"
	pair := func(cpu, memory int64) pricing.Resources {
		return pricing.Resources{CPU: pricing.MilliCPU(cpu), Memory: pricing.Bytes(memory) * pricing.MiB}
	}
	plain := []rightsize.Container{{Name: "app", Requests: pair(100, 0)}}
	at := func(minute int) time.Time { return time.Date(2026, 3, 1, 12, minute, 0, 0, time.UTC) }
	dead := []rightsize.Container{{Name: "app", Requests: pair(100, 0), OOMStarted: at(1), OOMEnded: at(2)}}
	const killed = `{terminated: {reason: OOMKilled, exitCode: 137, startedAt: "2026-03-01T12:01:00Z", finishedAt: "2026-03-01T12:02:00Z"}}`
	for _, c := range []struct {
		name, pod string
		want      rightsize.Pod
	}{{
		"what containers ask for", meta + `spec:
  initContainers: [{name: first, resources: {requests: {cpu: 2}}}, {name: side, restartPolicy: Always, resources: {requests: {cpu: 1}}}]
  containers:
  - {name: app, resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 128Mi}}, resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}, {resourceName: memory, restartPolicy: RestartContainer}]}
  - {name: proxy}`,
		rightsize.Pod{Containers: []rightsize.Container{
			{Name: "app", Requests: pair(100, 64), Limits: pair(0, 128), Restarts: []rightsize.Resource{rightsize.Memory}}, {Name: "proxy"},
			{Name: "side", Sidecar: true, Requests: pair(1000, 0)},
		}},
	}, {
		"a pod that asks as a whole", meta + `spec: {resources: {requests: {cpu: 1}}, containers: [{name: app}]}`, rightsize.Pod{},
	}, {
		"one that runs", meta + app + `status: {phase: Running, startTime: "2026-03-01T12:00:00Z"}`, rightsize.Pod{Running: true, Started: at(0), Containers: plain},
	}, {
		"a kill that was restarted from", meta + app + `status: {containerStatuses: [{name: app, lastState: ` + killed + `}]}`, rightsize.Pod{Containers: dead},
	}, {
		"a kill that was not yet", meta + app + `status: {containerStatuses: [{name: app, state: ` + killed + `}]}`, rightsize.Pod{Containers: dead},
	}, {
		"another end", meta + app + `status: {containerStatuses: [{name: app, lastState: ` + strings.Replace(killed, "OOMKilled", "Error", 1) + `}]}`, rightsize.Pod{Containers: plain},
	}, {
		"a kill of a sidecar", meta + `spec: {containers: [{name: app, resources: {requests: {cpu: 100m}}}], initContainers: [{name: side, restartPolicy: Always}]}
status: {initContainerStatuses: [{name: side, lastState: ` + killed + `}]}`,
		rightsize.Pod{Containers: append(slices.Clip(plain), rightsize.Container{Name: "side", Sidecar: true, OOMStarted: at(1), OOMEnded: at(2)})},
	}, {
		"a resize that is deferred", meta + app + `status: {conditions: [{type: PodResizePending, status: "True", reason: Deferred, lastTransitionTime: "2026-03-01T12:03:00Z"}]}`,
		rightsize.Pod{Resize: rightsize.ResizeDeferred, ResizeSince: at(3), Containers: plain},
	}, {
		"one that is deferred while an earlier one is under way", meta + app + `status: {conditions: [{type: PodResizeInProgress, status: "True"}, {type: PodResizePending, status: "True", reason: Deferred}]}`,
		rightsize.Pod{Resize: rightsize.ResizePending, Containers: plain},
	}, {
		"one that no node can hold, beside one under way", meta + app + `status: {conditions: [{type: PodResizeInProgress, status: "True"}, {type: PodResizePending, status: "True", reason: Infeasible}]}`,
		rightsize.Pod{Resize: rightsize.ResizeInfeasible, Containers: plain},
	}, {
		"one under way", meta + app + `status: {conditions: [{type: PodResizeInProgress, status: "True"}]}`, rightsize.Pod{Resize: rightsize.ResizePending, Containers: plain},
	}, {
		"one that is over", meta + app + `status: {observedGeneration: 3, conditions: [{type: PodResizeInProgress, status: "False"}]}`, rightsize.Pod{Containers: plain},
	}, {
		"one that the kubelet has not looked at", meta + app + `status: {observedGeneration: 2}`, rightsize.Pod{Resize: rightsize.ResizePending, Containers: plain},
	}} {
		t.Run(c.name, func(t *testing.T) {
			cluster := &Cluster{}
			cluster.observed.Store(&sight{pods: []*pod{keptPod(t, c.pod)}})
			got, ok := cluster.Size("shop/web-1")
			got.Started, got.ResizeSince = got.Started.UTC(), got.ResizeSince.UTC()
			for i := range got.Containers {
				o := &got.Containers[i]
				o.OOMStarted, o.OOMEnded = o.OOMStarted.UTC(), o.OOMEnded.UTC()
			}
			if diff := cmp.Diff(c.want, got); !ok || diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

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
	err := c.Resize(t.Context(), "shop/web", "shop/web-1", []rightsize.Change{{
		Container: "app", Requests: pricing.Resources{CPU: 1500, Memory: 262144000}, Limits: pricing.Resources{Memory: 512 * pricing.MiB},
	}, {Container: "side", Sidecar: true, Requests: pricing.Resources{CPU: 10}}})
	if err != nil {
		t.Fatal(err)
	}
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
		o, err := keepRival(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": map[string]any{"namespace": "shop", "name": "vpa"},
			"spec": map[string]any{
				"targetRef":    map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
				"updatePolicy": map[string]any{"updateMode": mode},
			},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	for name, c := range map[string]struct {
		spoil func(*Cluster)
		free  bool
	}{
		"a VerticalPodAutoscaler has them": {spoil: func(c *Cluster) { c.holds(t, verticals, sizer("Recreate")) }},
		"one that only recommends":         {spoil: func(c *Cluster) { c.holds(t, verticals, sizer("Off")) }, free: true},
		"a HorizontalPodAutoscaler has them": {spoil: func(c *Cluster) {
			c.holds(t, hpas, &rival{metav1.ObjectMeta{Name: "h"}, "HorizontalPodAutoscaler", refer("shop", "apps/v1", "Deployment", "web")})
		}},
		"the autoscaler does not ask for it": {spoil: func(c *Cluster) {
			w := autoscaler("web", v1alpha1.ModeActive)
			w.Spec.Rightsize = nil
			c.holds(t, autoscalers, w)
		}},
		"it asks for recommendations": {spoil: func(c *Cluster) {
			w := autoscaler("web", v1alpha1.ModeActive)
			w.Spec.Rightsize.Mode = v1alpha1.RightsizeOff
			c.holds(t, autoscalers, w)
		}},
		"it is in mode Recommend as a whole":    {spoil: func(c *Cluster) { c.holds(t, autoscalers, autoscaler("web", v1alpha1.ModeRecommend)) }},
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
			port.observed.Store(&sight{targets: port.resolve(t.Context()), pods: port.observed.Load().pods})
			err := port.Resize(t.Context(), "shop/web", "shop/web-1", nil)
			if c.free && (err != nil || len(s.requests()) != 1) || !c.free && (!errors.Is(err, ErrConflicted) || len(s.requests()) > 0) {
				t.Errorf("%v, asked %v", err, s.requests())
			}
		})
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
		port.holds(t, autoscalers, w)
		port.observed.Store(&sight{targets: port.resolve(t.Context()), pods: port.observed.Load().pods})
		err := port.Recreate(t.Context(), "shop/web", "shop/web-1")
		if diff := cmp.Diff(want, s.requests()); diff != "" || (err == nil) != (want != nil) || err != nil && !errors.Is(err, ErrConflicted) {
			t.Errorf("%s: %v, %s", mode, err, diff)
		}
	}
}
