package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/written"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// shelf is an API server that keeps objects by their path, each with a version.
type shelf struct {
	objects map[string]map[string]any
	version int
	// between is called once, between the reading of an object and what follows.
	between func()
}

func (s *shelf) put(at, text string) {
	var o map[string]any
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		panic(err)
	}
	s.keep(at, o)
}

func (s *shelf) keep(at string, o map[string]any) {
	s.version++
	meta, _ := o["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
		o["metadata"] = meta
	}
	meta["resourceVersion"] = fmt.Sprint(s.version)
	s.objects[at] = o
}

func (s *shelf) answer(w http.ResponseWriter, r *http.Request) {
	var sent map[string]any
	body, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(body, &sent)
	have, there := s.objects[r.URL.Path]
	versionOf := func(o map[string]any) any { m, _ := o["metadata"].(map[string]any); return m["resourceVersion"] }
	switch {
	case r.Method == http.MethodPost:
		s.keep(r.URL.Path+"/"+sent["metadata"].(map[string]any)["name"].(string), sent)
		tell(w, sent)
	case !there:
		deny(w, metav1.Status{Code: 404, Reason: metav1.StatusReasonNotFound})
	case r.Method == http.MethodPut && versionOf(sent) != versionOf(have):
		deny(w, metav1.Status{Code: 409, Reason: metav1.StatusReasonConflict})
	case r.Method == http.MethodPut:
		s.keep(r.URL.Path, sent)
		tell(w, sent)
	default:
		tell(w, have)
		if do := s.between; do != nil && strings.Contains(r.URL.Path, "plimsoll-ahead") {
			s.between = nil
			do()
		}
	}
}

const (
	buffersAt = "/apis/autoscaling.x-k8s.io/v1beta1/namespaces/shop/capacitybuffers/plimsoll-ahead-web"
	holdersAt = "/apis/apps/v1/namespaces/shop/deployments/plimsoll-ahead-web"
	classAt   = "/apis/scheduling.k8s.io/v1/priorityclasses/plimsoll-placeholder"
	webAt     = "/apis/apps/v1/namespaces/shop/deployments/web"
)

// newShelf serves CapacityBuffers, a class for placeholders, and the Deployment web.
func newShelf() *shelf {
	s := &shelf{objects: map[string]map[string]any{}}
	s.put("/apis/autoscaling.x-k8s.io/v1beta1", `{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "autoscaling.x-k8s.io/v1beta1",
		"resources": [{"name": "capacitybuffers", "namespaced": true, "kind": "CapacityBuffer"}]}`)
	s.put(classAt, `{"kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1", "metadata": {"name": "plimsoll-placeholder"}, "value": -10}`)
	s.put(webAt, `{"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "web"}, "spec": {"template": {"metadata": {"labels": {"app": "web"}},
		"spec": {"nodeSelector": {"disk": "fast"}, "containers": [{"name": "main", "resources": {"requests": {"cpu": "600m"}}}]}}}}`)
	return s
}

// port is a cluster before the shelf.
func (s *shelf) port(t *testing.T, by HandOffBy) (*Cluster, *site) {
	t.Helper()
	asked := &site{answer: s.answer}
	server := httptest.NewServer(asked)
	t.Cleanup(server.Close)
	c := asked.portBy(t, Active, server.URL, by)
	c.observes(t)
	c.leads(0)
	return c, asked
}

// spec is that of an object on the shelf, as JSON.
func (s *shelf) spec(at string) string {
	o, there := s.objects[at]
	if !there {
		return ""
	}
	text, _ := json.Marshal(o["spec"])
	return string(text)
}

func TestExpectedReplicasAreAskedForByCapacityBuffers(t *testing.T) {
	s := newShelf()
	c, asked := s.port(t, ByCapacityBuffer)
	expect := func(n int, want string) {
		t.Helper()
		if err := c.Expect(t.Context(), "shop/web", n); err != nil {
			t.Error(err)
		}
		if got := s.spec(buffersAt); got != want {
			t.Errorf("with %d expected: %s, want %s", n, got, want)
		}
	}
	expect(0, "")
	expect(3, `{"replicas":3,"scalableRef":{"apiGroup":"apps","kind":"Deployment","name":"web"}}`)
	before := len(asked.requests())
	expect(3, `{"replicas":3,"scalableRef":{"apiGroup":"apps","kind":"Deployment","name":"web"}}`)
	if now := len(asked.requests()); now != before {
		t.Errorf("what stays was asked for: %v", asked.requests()[before:])
	}
	expect(5, `{"replicas":5,"scalableRef":{"apiGroup":"apps","kind":"Deployment","name":"web"}}`)
	expect(0, `{"replicas":0,"scalableRef":{"apiGroup":"apps","kind":"Deployment","name":"web"}}`)
	meta, _ := json.Marshal(s.objects[buffersAt]["metadata"].(map[string]any)["ownerReferences"])
	if want := `[{"apiVersion":"plimsoll.dev/v1alpha1","controller":true,"kind":"WorkloadAutoscaler","name":"web","uid":"wla-web"}]`; string(meta) != want {
		t.Errorf("owners are %s, want %s: it is to go with the autoscaler", meta, want)
	}
}

func TestOlderVersionsOfCapacityBuffersDo(t *testing.T) {
	s := newShelf()
	s.objects = map[string]map[string]any{}
	c, _ := s.port(t, ByCapacityBuffer)
	if err := c.Expect(t.Context(), "shop/web", 2); !errors.Is(err, ErrNoBuffers) {
		t.Errorf("without the kind: %v", err)
	}
	if err := c.Expect(t.Context(), "shop/web", 0); err != nil {
		t.Errorf("nothing expected, without the kind: %v", err)
	}
	s.put("/apis/autoscaling.x-k8s.io/v1alpha1", `{"kind": "APIResourceList", "apiVersion": "v1", "resources": [{"name": "capacitybuffers", "namespaced": true, "kind": "CapacityBuffer"}]}`)
	c, _ = s.port(t, ByCapacityBuffer)
	if err := c.Expect(t.Context(), "shop/web", 2); err != nil || s.spec(strings.ReplaceAll(buffersAt, "v1beta1", "v1alpha1")) == "" {
		t.Errorf("with an older one: %v, %v", err, s.objects)
	}
}

func TestExpectedReplicasAreAskedForByPlaceholders(t *testing.T) {
	s := newShelf()
	c, _ := s.port(t, ByPlaceholders)
	var d appsv1.Deployment
	expect := func(n int) {
		t.Helper()
		must.Do(t, c.Expect(t.Context(), "shop/web", n))
		text, _ := json.Marshal(s.objects[holdersAt])
		if d = (appsv1.Deployment{}); json.Unmarshal(text, &d) != nil || s.objects[holdersAt] != nil && int(*d.Spec.Replicas) != n {
			t.Fatalf("with %d expected: %s", n, text)
		}
	}
	expect(0)
	if s.objects[holdersAt] != nil {
		t.Error("made for nothing")
	}
	expect(2)
	made := d.Spec.Template
	if cpu := made.Spec.Containers[0].Resources.Requests.Cpu().MilliValue(); cpu != 600 || made.Spec.NodeSelector["disk"] != "fast" {
		t.Errorf("made as %+v", made)
	}
	// The template changes, and so do the placeholders; what is wanted no more is taken away.
	s.put(webAt, `{"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "web"}, "spec": {"template": {"metadata": {"labels": {"app": "web"}},
		"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "700m"}}}]}}}}`)
	c.expected.forget("wla-web")
	expect(2)
	if cpu := d.Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().MilliValue(); cpu != 700 || d.Spec.Template.Spec.NodeSelector != nil {
		t.Errorf("after a change made as %+v", d.Spec.Template)
	}
	// Another client writes in between.
	s.between = func() { s.keep(holdersAt, s.objects[holdersAt]) }
	expect(4)
	// For none, nothing has to be known of the class and the target.
	delete(s.objects, classAt)
	delete(s.objects, webAt)
	expect(0)
	if cpu := d.Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().MilliValue(); cpu != 700 {
		t.Errorf("without replicas it is %+v", d.Spec.Template)
	}
}

// What has no template that is known here is asked by its newest pod.
func TestPlaceholdersAreMadeForWhateverHasAScale(t *testing.T) {
	const template = `"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "%s"}}}]}`
	for kind, want := range map[string]int64{"StatefulSet": 300, "Rollout": 500} {
		s := newShelf()
		s.put("/apis/apps/v1/namespaces/shop/statefulsets/web", `{"kind": "StatefulSet", "apiVersion": "apps/v1", "spec": {"template": {`+fmt.Sprintf(template, "300m")+`}}}`)
		s.put("/apis/argoproj.io/v1alpha1", `{"kind": "APIResourceList", "apiVersion": "v1", "resources": [{"name": "rollouts", "namespaced": true, "kind": "Rollout"}, {"name": "rollouts/scale", "kind": "Scale"}]}`)
		s.put("/apis/argoproj.io/v1alpha1/namespaces/shop/rollouts/web/scale", `{"kind": "Scale", "apiVersion": "autoscaling/v1", "spec": {"replicas": 2}, "status": {"selector": "app=web"}}`)
		for i, cpu := range []string{"400m", "500m", "600m"} {
			s.put(fmt.Sprintf("/api/v1/namespaces/shop/pods/r-%d", i), `{"kind": "Pod", "apiVersion": "v1", `+fmt.Sprintf(template, cpu)+`}`)
		}
		c, _ := s.port(t, ByPlaceholders)
		wla := autoscaler("web", v1alpha1.ModeActive)
		wla.Spec.ScaleTargetRef.Kind = kind
		if kind == "Rollout" {
			wla.Spec.ScaleTargetRef.APIVersion = "argoproj.io/v1alpha1"
		}
		c.holds(t, copies.Autoscalers, wla)
		c.holds(t, copies.StatefulSets, scalable[appsv1.StatefulSet](t, 1))
		for i, more := range []string{`creationTimestamp: "2026-03-01T12:00:00Z"`, `creationTimestamp: "2026-03-01T13:00:00Z"`, `creationTimestamp: "2026-03-01T14:00:00Z", deletionTimestamp: "2026-03-01T15:00:00Z"`} {
			c.holds(t, copies.Pods, kept.ShortPod(written.Object[corev1.Pod](t, fmt.Sprintf(`metadata: {namespace: shop, name: r-%d, %s, ownerReferences: [{apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: web, uid: ro, controller: true}]}`, i, more))))
		}
		c.look(t.Context())
		if err := c.Expect(t.Context(), "shop/web", 1); err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		var d appsv1.Deployment
		text, _ := json.Marshal(s.objects[holdersAt])
		must.Do(t, json.Unmarshal(text, &d))
		if cpu := d.Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().MilliValue(); cpu != want {
			t.Errorf("%s: placeholders ask for %d, want %d", kind, cpu, want)
		}
	}
}

func TestPlaceholdersGiveWayOrAreNotMade(t *testing.T) {
	for name, class := range map[string]string{
		"priority class plimsoll-placeholder: value must be below 0, or placeholders would not give way to pods without a class, was 7": `{"kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1", "value": 7}`,
		"priority class plimsoll-placeholder: ": "",
	} {
		s := newShelf()
		delete(s.objects, classAt)
		if class != "" {
			s.put(classAt, class)
		}
		c, _ := s.port(t, ByPlaceholders)
		if err := c.Expect(t.Context(), "shop/web", 2); err == nil || !strings.Contains(err.Error(), name) || s.objects[holdersAt] != nil {
			t.Errorf("%v, want %s", err, name)
		}
	}
}

func TestWhatIsNotOursIsLeftAlone(t *testing.T) {
	for by, at := range map[HandOffBy]string{ByPlaceholders: holdersAt, ByCapacityBuffer: buffersAt} {
		for _, n := range []int{0, 3} {
			s := newShelf()
			s.put(at, `{"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "plimsoll-ahead-web"}, "spec": {"replicas": 9}}`)
			c, _ := s.port(t, by)
			if err := c.Expect(t.Context(), "shop/web", n); !errors.Is(err, ErrConflicted) || s.spec(at) != `{"replicas":9}` {
				t.Errorf("%s of another client, %d expected: %v, left as %s", by, n, err, s.spec(at))
			}
		}
	}
}

// A workload that is not ours to scale expects nothing; what it expected before may be taken back.
func TestOnlyWorkloadsThatWeScaleExpectReplicas(t *testing.T) {
	s := newShelf()
	c, _ := s.port(t, ByCapacityBuffer)
	must.Do(t, c.Expect(t.Context(), "shop/web", 3))
	c.holds(t, copies.Autoscalers, autoscaler("web", v1alpha1.ModeRecommend))
	if err := c.Expect(t.Context(), "shop/web", 4); !errors.Is(err, ErrConflicted) {
		t.Errorf("more for a workload that only gets recommendations: %v", err)
	}
	if err := c.Expect(t.Context(), "shop/web", 0); err != nil || !strings.Contains(s.spec(buffersAt), `"replicas":0`) {
		t.Errorf("nothing more: %v, %s", err, s.spec(buffersAt))
	}
}

func TestPlaceholdersTakeThePlaceOfTheirLike(t *testing.T) {
	like := written.Object[corev1.PodTemplateSpec](t, `
metadata: {labels: {app: web}}
spec:
  nodeSelector: {disk: fast}
  tolerations: [{key: pool, value: web, effect: NoSchedule}]
  schedulerName: mine
  runtimeClassName: kata
  priorityClassName: high
  serviceAccountName: web
  imagePullSecrets: [{name: registry}]
  affinity:
    nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a, b]}]}]}}
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [pod-template-hash]}
        - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}
  topologySpreadConstraints:
    - {topologyKey: zone, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [pod-template-hash]}
    - {topologyKey: rack, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: db}}}
  volumes: [{name: data, emptyDir: {}}]
  initContainers: [{name: first, resources: {requests: {memory: 2Gi}}}, {name: side, restartPolicy: Always, resources: {requests: {cpu: 50m}}}]
  containers:
    - {name: main, ports: [{containerPort: 80}, {containerPort: 53, hostPort: 5353, protocol: UDP}], resources: {requests: {cpu: 600m}, limits: {memory: 1Gi, example.com/gpu: "1"}}}
`)
	got := deploymentOf("plimsoll-ahead-web", like, HandOff{By: ByPlaceholders, PriorityClass: "plimsoll-placeholder", Image: "registry.k8s.io/pause:3.10.1"})
	// The tests of the chart's admission policy use the same file.
	text := must.Get(os.ReadFile("testdata/placeholders.yaml"))(t)
	want := written.Object[appsv1.Deployment](t, string(text))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A pod of the node's network has all of its ports there, which its template does not say.
func TestPlaceholdersOfTheNodesNetworkHaveItsPorts(t *testing.T) {
	like := written.Object[corev1.PodTemplateSpec](t, `spec: {hostNetwork: true, containers: [{name: main, ports: [{containerPort: 80}]}]}`)
	got := deploymentOf("plimsoll-ahead-web", like, HandOff{}).Spec.Template.Spec.Containers[0].Ports
	if diff := cmp.Diff([]corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Placeholders are not observed as pods, and only the number of those with a node is. A pod that
// cannot be preempted is an ordinary pod, regardless of its labels.
func TestPlaceholdersAreNoPods(t *testing.T) {
	c := still(t)
	c.holds(t, copies.Autoscalers, autoscaler("web", v1alpha1.ModeActive))
	const labels = `labels: {plimsoll.dev/placeholder: plimsoll-ahead-web}`
	for name, rest := range map[string]string{
		"placed":    `spec: {nodeName: n-1, priority: -10}`,
		"also":      `spec: {nodeName: n-1, priority: -10}`,
		"waiting":   `spec: {priority: -10}, status: {conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}`,
		"leaving":   `spec: {nodeName: n-1, priority: -10}`,
		"pretender": `spec: {nodeName: n-1, priority: 0}`,
	} {
		going := ""
		if name == "leaving" {
			going = `deletionTimestamp: "2026-03-01T12:00:00Z", `
		}
		c.holds(t, copies.Pods, kept.ShortPod(written.Object[corev1.Pod](t, `{metadata: {namespace: shop, name: `+name+`, `+going+labels+`}, `+rest+`}`)))
	}
	c.holds(t, copies.Pods, kept.ShortPod(written.Object[corev1.Pod](t, `{metadata: {namespace: other, name: foreign, `+labels+`}, spec: {nodeName: n-1, priority: -1}}`)))
	state := c.look(t.Context())
	var names []string
	for i := range state.Pods {
		names = append(names, state.Pods[i].Name)
	}
	if diff := cmp.Diff([]string{"shop/pretender"}, names); diff != "" {
		t.Errorf("pods, -want +got:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"shop/web": 2}, state.Placed); diff != "" {
		t.Errorf("with a place, -want +got:\n%s", diff)
	}
	waits := kept.ShortPod(written.Object[corev1.Pod](t, `{metadata: {namespace: shop, name: waiting, `+labels+`}, spec: {priority: -10}, status: {conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}}`))
	if c.wake.podCame(nil, waits, false); len(c.Wake()) > 0 {
		t.Error("a placeholder that waits has woken us")
	}
}
