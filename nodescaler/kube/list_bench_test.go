package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/written"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// BenchmarkFirstList is the first list of 30,000 pods of 200 workloads on 1,000 nodes, as an API
// server streams them, and two looks. It says how large the heap is at most meanwhile and how
// large what is kept.
func BenchmarkFirstList(b *testing.B) {
	for b.Loop() {
		before := heap()
		s := &streamed{TB: b, pods: 30_000, nodes: 1000}
		c := must.Get(New(Config{REST: &rest.Config{Host: "http://cluster", Transport: s}}))(b)
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = c.Run(ctx) }()
		var most atomic.Int64
		go func() {
			for ctx.Err() == nil {
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most.Store(max(most.Load(), int64(m.HeapAlloc)))
				time.Sleep(5 * time.Millisecond)
			}
		}()
		must.Do(b, c.Synced(ctx))
		for range 2 {
			if state := must.Get(c.Observe(ctx))(b); len(state.Pods) != s.pods || len(state.Nodes) != s.nodes {
				b.Fatal(len(state.Pods), len(state.Nodes))
			}
		}
		b.ReportMetric(float64(most.Load())/1e6-before, "MB-most")
		b.ReportMetric(heap()-before, "MB-kept")
		cancel()
		<-ended
	}
}

// heap is what is in use, in megabytes.
func heap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what is cleaned up after the first goes with the second
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / 1e6
}

// streamed is an API server with pods and nodes, which it makes as they are read.
type streamed struct {
	testing.TB
	pods, nodes int
}

// RoundTrip implements [http.RoundTripper].
func (s *streamed) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := &http.Response{StatusCode: http.StatusOK, Request: r, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader("ok"))}
	if r.URL.Query().Get("watch") == "" {
		if r.URL.Path != "/readyz" {
			answer.StatusCode = http.StatusNotFound
		}
		return answer, nil
	}
	body := &stream{ctx: r.Context()}
	switch r.URL.Path {
	case "/api/v1/pods":
		body.left, body.one = s.pods, s.pod()
	case "/api/v1/nodes":
		body.left, body.one = s.nodes, s.node()
	default:
		for i := range copies.Kinds {
			if k := &copies.Kinds[i]; strings.HasSuffix(r.URL.Path, "/"+k.Resource) {
				version := strings.TrimPrefix(strings.TrimPrefix(path.Dir(r.URL.Path), "/apis/"), "/api/")
				body.end = map[string]any{"kind": k.Kind, "apiVersion": version}
			}
		}
		if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata") {
			body.end = map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
		}
		answer.Body = body
		return answer, nil
	}
	answer.Header.Set("Content-Type", "application/vnd.kubernetes.protobuf;stream=watch")
	answer.Body = body
	return answer, nil
}

// stream is a watch that begins with what there is.
type stream struct {
	ctx   context.Context
	left  int
	one   func(i int) kuberuntime.Object
	end   map[string]any // its last event, where it has no objects
	done  bool
	ready bytes.Buffer
}

// Close implements [io.Closer].
func (s *stream) Close() error { return nil }

// Read implements [io.Reader].
func (s *stream) Read(p []byte) (int, error) {
	for s.ready.Len() == 0 {
		if s.left > 0 {
			s.left--
			s.event("ADDED", s.one(s.left))
			continue
		}
		if s.done {
			<-s.ctx.Done()
			return 0, s.ctx.Err()
		}
		s.done = true
		m := metav1.ObjectMeta{ResourceVersion: "9000000", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}
		if s.one == nil {
			s.end["metadata"] = m
			_ = json.NewEncoder(&s.ready).Encode(map[string]any{"type": "BOOKMARK", "object": s.end})
			continue
		}
		last := s.one(0)
		if o, is := last.(metav1.Object); is {
			o.SetAnnotations(m.Annotations)
			o.SetResourceVersion(m.ResourceVersion)
		}
		s.event("BOOKMARK", last)
	}
	return s.ready.Read(p)
}

// event makes an event ready.
func (s *stream) event(kind string, o kuberuntime.Object) {
	var raw, event bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(o, &raw); err != nil {
		panic(err)
	}
	whole := &metav1.WatchEvent{Type: kind, Object: kuberuntime.RawExtension{Raw: raw.Bytes()}}
	if err := protobuf.NewRawSerializer(scheme.Scheme, scheme.Scheme).Encode(whole, &event); err != nil {
		panic(err)
	}
	_, _ = protobuf.LengthDelimitedFramer.NewFrameWriter(&s.ready).Write(event.Bytes())
}

func (s *streamed) pod() func(int) kuberuntime.Object {
	like := written.Object[corev1.Pod](s, `
apiVersion: v1
kind: Pod
metadata:
  annotations: {prometheus.io/scrape: "true", prometheus.io/port: "9090", kubectl.kubernetes.io/restartedAt: "2026-03-01T12:00:00Z"}
  creationTimestamp: "2026-03-01T12:00:00Z"
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-1, uid: rs, controller: true}]
spec:
  serviceAccountName: web
  tolerations:
  - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}
  - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 300}
  volumes: [{name: token, projected: {sources: [{serviceAccountToken: {path: token}}]}}]
  containers:
  - name: main
    image: registry.example.com/shop/web:1.2.3
    args: [serve, --port=8080]
    ports: [{containerPort: 8080}]
    env: [{name: A, value: a}, {name: B, value: b}]
    resources: {requests: {cpu: 40m, memory: 60Mi}, limits: {cpu: 100m, memory: 60Mi}}
    volumeMounts: [{name: token, mountPath: /var/run}]
    readinessProbe: {httpGet: {path: /ready, port: 8080}}
  - {name: proxy, image: registry.example.com/proxy:1, resources: {requests: {cpu: 5m, memory: 20Mi}}}
status:
  phase: Running
  startTime: "2026-03-01T12:01:00Z"
  conditions:
  - {type: Ready, status: "True", lastTransitionTime: "2026-03-01T12:02:00Z"}
  - {type: PodScheduled, status: "True"}
  - {type: Initialized, status: "True"}
  - {type: ContainersReady, status: "True"}
  containerStatuses: [{name: main, image: registry.example.com/shop/web:1.2.3, imageID: "sha256:4c4c", ready: true}]
`)
	like.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(strings.Repeat("x", 1200))}}
	return func(i int) kuberuntime.Object {
		p, w := like.DeepCopy(), i%200
		p.Namespace, p.Name = fmt.Sprintf("team-%02d", w%20), fmt.Sprintf("app-%03d-777bcd78d-%05d", w, i)
		p.UID, p.ResourceVersion = types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i)), fmt.Sprint(1000000+i)
		p.Labels = map[string]string{"app": fmt.Sprintf("app-%03d", w), "pod-template-hash": "777bcd78d"}
		p.OwnerReferences[0].Name, p.OwnerReferences[0].UID = fmt.Sprintf("app-%03d-777bcd78d", w), types.UID(fmt.Sprintf("rs-%03d", w))
		p.Spec.NodeName, p.Status.PodIP = fmt.Sprintf("node-%04d", i%s.nodes), fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)
		return p
	}
}

func (s *streamed) node() func(int) kuberuntime.Object {
	like := written.Object[corev1.Node](s, `
apiVersion: v1
kind: Node
status:
  allocatable: {cpu: "2", memory: 8Gi, pods: "110"}
  conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-03-01T12:02:00Z"}]
`)
	for i := range 30 {
		like.Status.Images = append(like.Status.Images, corev1.ContainerImage{Names: []string{fmt.Sprintf("registry.example.com/image-%02d@sha256:%064d", i, i)}})
	}
	return func(i int) kuberuntime.Object {
		n := like.DeepCopy()
		n.Name, n.UID = fmt.Sprintf("node-%04d", i), types.UID(fmt.Sprintf("node-%04d", i))
		n.Labels = map[string]string{corev1.LabelHostname: n.Name, "plimsoll.dev/pool": "workers"}
		return n
	}
}
