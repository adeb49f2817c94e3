package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/written"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// site is a server that answers as a test prescribes, and records its requests.
type site struct {
	mu     sync.Mutex
	asked  []string
	answer func(w http.ResponseWriter, r *http.Request)
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	s.answer(w, r)
}

func (s *site) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.asked...)
}

func tell(w http.ResponseWriter, o any) { _ = json.NewEncoder(w).Encode(o) }

func deny(w http.ResponseWriter, s metav1.Status) {
	s.TypeMeta, s.Status = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, metav1.StatusFailure
	w.WriteHeader(int(s.Code))
	tell(w, s)
}

// port is a cluster at the site whose copies are what a test puts there.
func (s *site) port(t *testing.T, mode Mode) *Cluster {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s.portBy(t, mode, server.URL, ByCapacityBuffer)
}

// portBy is one that makes expected replicas known in a way.
func (s *site) portBy(t *testing.T, mode Mode, url string, by HandOffBy) *Cluster {
	t.Helper()
	c := must.Get(New(Config{
		REST: &rest.Config{Host: url}, Mode: mode, Namespace: "plimsoll", Lease: "plimsoll",
		HandOff: HandOff{By: by, PriorityClass: "plimsoll-placeholder", Image: "pause"},
	}))(t)
	return c
}

// holds puts copies of objects in place of what is watched.
func (c *Cluster) holds(t testing.TB, i copies.Kind, all ...any) {
	t.Helper()
	must.Do(t, c.copies.Hold(i, all...))
}

// leads has the port lead, as if the lease had been renewed some time ago.
func (c *Cluster) leads(ago time.Duration) {
	renewed := time.Now().Add(-ago)
	c.lead.renewed.Store(&renewed)
}

func autoscaler(name string, mode v1alpha1.Mode) *v1alpha1.WorkloadAutoscaler {
	return &v1alpha1.WorkloadAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("wla-" + name), Generation: 1},
		Spec: v1alpha1.WorkloadAutoscalerSpec{
			Mode: mode, ScaleTargetRef: v1alpha1.ScaleTargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
			Rightsize: &v1alpha1.Rightsize{Mode: v1alpha1.RightsizeInPlace},
		},
	}
}

// observed has the port see a Deployment with an autoscaler, a pod and a node of ours.
func (c *Cluster) observes(t *testing.T) {
	t.Helper()
	c.holds(t, copies.Autoscalers, autoscaler("web", v1alpha1.ModeActive))
	c.holds(t, copies.Deployments, scalable[appsv1.Deployment](t, 2))
	c.holds(t, copies.Pods, kept.ShortPod(written.Object[corev1.Pod](t, `metadata: {namespace: shop, name: web-1, uid: u-1, `+written.Owned+`}`)))
	owner := &metav1.PartialObjectMetadata{ObjectMeta: something("ReplicaSet", "web-1", controlledBy("apps/v1", "Deployment", "web"))}
	owner.UID = "rs"
	c.holds(t, copies.Owners, owner)
	c.look(t.Context())
}

// scalable is a Deployment or a StatefulSet that is called web.
func scalable[T any](t testing.TB, replicas int) *T {
	t.Helper()
	return written.Object[T](t, fmt.Sprintf("{metadata: {namespace: shop, name: web, uid: web}, spec: {replicas: %d, selector: {matchLabels: {app: web}}}}", replicas))
}

// writes are all the ways to write, and the least mode for each.
func writes(c *Cluster) map[string]struct {
	need Mode
	do   func(context.Context) error
} {
	wla := autoscaler("web", v1alpha1.ModeActive)
	wla.Status.ObservedGeneration = 1 // which it has not said before
	return map[string]struct {
		need Mode
		do   func(context.Context) error
	}{
		"scale":  {Active, func(ctx context.Context) error { return c.SetReplicas(ctx, "shop/web", 3) }},
		"choose": {Active, func(ctx context.Context) error { return c.Choose(ctx, "shop/web", []string{"shop/web-1"}) }},
		"expect": {Active, func(ctx context.Context) error { return c.Expect(ctx, "shop/web", 1) }},
		"forget": {Active, func(ctx context.Context) error { return c.Expect(ctx, "shop/web", 0) }},
		"drain":  {Active, func(ctx context.Context) error { return c.SetDraining(ctx, "n-1", true) }},
		"undo":   {Active, func(ctx context.Context) error { return c.SetDraining(ctx, "n-1", false) }},
		"resize": {Active, func(ctx context.Context) error { return c.Resize(ctx, "shop/web", "shop/web-1", nil) }},
		"evict":  {Active, func(ctx context.Context) error { return c.Evict(ctx, "shop/web-1") }},
		"remove": {Active, func(ctx context.Context) error { return c.RemoveNode(ctx, "n-1") }},
		"status": {Recommend, func(ctx context.Context) error { return c.SetStatus(ctx, wla) }},
	}
}

func TestNothingIsAskedThatTheModeForbids(t *testing.T) {
	for _, mode := range []Mode{"", ReadOnly, Recommend, Active} {
		s := &site{answer: func(w http.ResponseWriter, _ *http.Request) { deny(w, metav1.Status{Code: 500}) }}
		c := s.port(t, mode)
		c.observes(t)
		c.leads(0)
		for name, write := range writes(c) {
			before := len(s.requests())
			err := write.do(t.Context())
			forbidden, asked := errors.Is(err, ErrForbidden), len(s.requests()) > before
			if want := !mode.allows(write.need); forbidden != want || asked == want {
				t.Errorf("mode %q: %s: %v; asked %v", mode, name, err, asked)
			}
		}
		if mode == "" || mode == ReadOnly {
			if err := c.Lead(t.Context(), "me", func(context.Context) {}); !errors.Is(err, ErrForbidden) {
				t.Errorf("mode %q leads: %v", mode, err)
			}
			if asked := s.requests(); len(asked) > 0 {
				t.Errorf("mode %q asked %v", mode, asked)
			}
		}
	}
}

func TestNothingIsAskedWithoutTheLead(t *testing.T) {
	for name, lead := range map[string]func(*Cluster){
		"never led":              func(*Cluster) {},
		"not renewed for long":   func(c *Cluster) { c.leads(renewDeadline) },
		"not renewed for a week": func(c *Cluster) { c.leads(7 * 24 * time.Hour) },
		"given up":               func(c *Cluster) { c.leads(0); c.lead.renewed.Store(nil) },
	} {
		s := &site{answer: func(w http.ResponseWriter, _ *http.Request) { deny(w, metav1.Status{Code: 500}) }}
		c := s.port(t, Active)
		c.observes(t)
		lead(c)
		for what, write := range writes(c) {
			if err := write.do(t.Context()); !errors.Is(err, ErrNotLeader) {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
		if asked := s.requests(); len(asked) > 0 || c.Leading() {
			t.Errorf("%s: asked %v, leading %v", name, asked, c.Leading())
		}
	}
}

// A call that is not answered ends with the lead, however patient it is otherwise.
func TestNoWriteOutlivesTheLead(t *testing.T) {
	held := make(chan struct{})
	s := &site{answer: func(http.ResponseWriter, *http.Request) { <-held }}
	c := s.port(t, Active)
	t.Cleanup(func() { close(held) })
	c.observes(t)
	c.leads(renewDeadline - 200*time.Millisecond)
	if err := c.Evict(t.Context(), "shop/web-1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if c.Leading() {
		t.Error("the write ended while the port still led")
	}
}

func TestAnswersToEvictionsAreRead(t *testing.T) {
	budget := metav1.Status{Code: 429, Reason: metav1.StatusReasonTooManyRequests, Message: "Cannot evict pod as it would violate the pod's disruption budget.",
		Details: &metav1.StatusDetails{RetryAfterSeconds: 10, Causes: []metav1.StatusCause{{Type: "DisruptionBudget"}}}}
	busy := metav1.Status{Code: 429, Reason: metav1.StatusReasonTooManyRequests, Message: "too many requests", Details: &metav1.StatusDetails{RetryAfterSeconds: 1}}
	for _, c := range []struct {
		name           string
		answer         metav1.Status
		failed, budget bool
	}{
		{name: "done", answer: metav1.Status{Code: 201}},
		{name: "gone", answer: metav1.Status{Code: 404, Reason: metav1.StatusReasonNotFound}},
		{name: "another pod of the name", answer: metav1.Status{Code: 409, Reason: metav1.StatusReasonConflict}},
		{name: "budget", answer: budget, failed: true, budget: true},
		{name: "busy", answer: busy, failed: true},
		{name: "two budgets", answer: metav1.Status{Code: 500, Reason: metav1.StatusReasonInternalError, Message: "more than one PodDisruptionBudget"}, failed: true},
		{name: "forbidden", answer: metav1.Status{Code: 403, Reason: metav1.StatusReasonForbidden}, failed: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var body struct {
				Metadata      struct{ Name, Namespace string }
				DeleteOptions struct{ Preconditions struct{ UID string } }
			}
			s := &site{answer: func(w http.ResponseWriter, r *http.Request) {
				_ = json.NewDecoder(r.Body).Decode(&body)
				if c.answer.Code < 300 {
					w.WriteHeader(int(c.answer.Code))
					tell(w, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
					return
				}
				if c.answer.Details != nil {
					w.Header().Set("Retry-After", fmt.Sprint(c.answer.Details.RetryAfterSeconds))
				}
				deny(w, c.answer)
			}}
			port := s.port(t, Active)
			port.observes(t)
			port.leads(0)
			err := port.Evict(t.Context(), "shop/web-1")
			if (err != nil) != c.failed || errors.Is(err, loop.ErrBudget) != c.budget {
				t.Errorf("%v, want failed %v, budget %v", err, c.failed, c.budget)
			}
			if asked := s.requests(); len(asked) != 1 || asked[0] != "POST /api/v1/namespaces/shop/pods/web-1/eviction" {
				t.Errorf("asked %v: how often is the loop's to say, and a pod is never deleted", asked)
			}
			if body.Metadata.Name != "web-1" || body.DeleteOptions.Preconditions.UID != "u-1" {
				t.Errorf("sent %+v", body)
			}
		})
	}
}

// scaleSite holds one scale, which another client may change at any moment.
type scaleSite struct {
	scale    autoscalingv1.Scale
	afterGet func(*scaleSite)
	patched  int
}

func (s *scaleSite) answer(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/scale") {
		deny(w, metav1.Status{Code: 404, Reason: metav1.StatusReasonNotFound})
		return
	}
	if r.Method == http.MethodGet {
		tell(w, s.scale)
		if s.afterGet != nil {
			s.afterGet(s)
		}
		return
	}
	var patch autoscalingv1.Scale
	_ = json.NewDecoder(r.Body).Decode(&patch)
	if patch.ResourceVersion != s.scale.ResourceVersion || patch.UID != s.scale.UID {
		deny(w, metav1.Status{Code: 409, Reason: metav1.StatusReasonConflict})
		return
	}
	s.patched++
	s.scale.Spec.Replicas = patch.Spec.Replicas
	tell(w, s.scale)
}

func TestScaleIsWrittenOnlyAsItWasObserved(t *testing.T) {
	version := func(s *scaleSite, to string) { s.scale.ResourceVersion = to }
	for _, c := range []struct {
		name    string
		before  func(*scaleSite)
		during  func(*scaleSite)
		want    error
		patched int
		left    int32
	}{
		{name: "as it was", patched: 1, left: 3},
		{name: "is so already", before: func(s *scaleSite) { s.scale.Spec.Replicas = 3 }, left: 3},
		{name: "another client changed it", before: func(s *scaleSite) { s.scale.Spec.Replicas = 5 }, want: ErrChanged, left: 5},
		{name: "another of the name", before: func(s *scaleSite) { s.scale.UID = "new" }, want: ErrChanged, left: 2},
		{name: "its status changed meanwhile", during: func(s *scaleSite) { s.afterGet = nil; version(s, "2") }, patched: 1, left: 3},
		{name: "its replicas changed meanwhile", during: func(s *scaleSite) { s.afterGet = nil; version(s, "2"); s.scale.Spec.Replicas = 9 }, want: ErrChanged, left: 9},
		{name: "it changes all the time", during: func(s *scaleSite) { version(s, s.scale.ResourceVersion+"1") }, want: ErrChanged, left: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			held := &scaleSite{afterGet: c.during, scale: autoscalingv1.Scale{
				TypeMeta:   metav1.TypeMeta{Kind: "Scale", APIVersion: "autoscaling/v1"},
				ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "web", ResourceVersion: "1"}, Spec: autoscalingv1.ScaleSpec{Replicas: 2},
			}}
			if c.before != nil {
				c.before(held)
			}
			port := (&site{answer: held.answer}).port(t, Active)
			port.observes(t)
			port.leads(0)
			if err := port.SetReplicas(t.Context(), "shop/web", 3); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if held.patched != c.patched || held.scale.Spec.Replicas != c.left {
				t.Errorf("written %d times, left at %d, want %d and %d", held.patched, held.scale.Spec.Replicas, c.patched, c.left)
			}
		})
	}
}

func TestWhoeverSaysStopIsHeardAtOnce(t *testing.T) {
	for name, stop := range map[string]func(*v1alpha1.WorkloadAutoscaler){
		"recommend": func(w *v1alpha1.WorkloadAutoscaler) { w.Spec.Mode = v1alpha1.ModeRecommend },
		"paused":    func(w *v1alpha1.WorkloadAutoscaler) { w.Spec.Mode = v1alpha1.ModePaused },
		"annotated": func(w *v1alpha1.WorkloadAutoscaler) {
			w.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true"}
		},
		"replaced": func(w *v1alpha1.WorkloadAutoscaler) { w.UID = "another" },
		"deleted":  func(w *v1alpha1.WorkloadAutoscaler) { w.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} },
	} {
		s := &site{answer: func(w http.ResponseWriter, _ *http.Request) { deny(w, metav1.Status{Code: 500}) }}
		c := s.port(t, Active)
		c.observes(t)
		c.leads(0)
		now := autoscaler("web", v1alpha1.ModeActive)
		stop(now)
		c.holds(t, copies.Autoscalers, now)
		if err := c.SetReplicas(t.Context(), "shop/web", 3); !errors.Is(err, ErrConflicted) || len(s.requests()) > 0 {
			t.Errorf("%s: %v, asked %v", name, err, s.requests())
		}
	}
}

// nodeSite holds one node.
type nodeSite struct {
	node    corev1.Node
	patches []string
}

func (s *nodeSite) answer(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPatch {
		var patch map[string]any
		_ = json.NewDecoder(r.Body).Decode(&patch)
		text, _ := json.Marshal(patch)
		s.patches = append(s.patches, string(text))
	}
	tell(w, s.node)
}

func TestDrainingMarksWhatIsOursToTakeBack(t *testing.T) {
	const head = `"resourceVersion":"1","uid":"u"}`
	for _, c := range []struct {
		name     string
		mark     string
		cordoned bool
		draining bool
		want     string
	}{
		{name: "open", draining: true, want: `{"metadata":{"annotations":{"plimsoll.dev/draining":"cordoned"},` + head + `,"spec":{"unschedulable":true}}`},
		{name: "cordoned by another client", cordoned: true, draining: true, want: `{"metadata":{"annotations":{"plimsoll.dev/draining":"cordoned-already"},` + head + `,"spec":{"unschedulable":true}}`},
		{name: "marked already", mark: "cordoned", cordoned: true, draining: true},
		{name: "uncordoned by another client", mark: "cordoned", draining: true, want: `{"metadata":{` + head + `,"spec":{"unschedulable":true}}`},
		{name: "taken back", mark: "cordoned", cordoned: true, want: `{"metadata":{"annotations":{"plimsoll.dev/draining":null},` + head + `,"spec":{"unschedulable":null}}`},
		{name: "taken back, their cordon stays", mark: "cordoned-already", cordoned: true, want: `{"metadata":{"annotations":{"plimsoll.dev/draining":null},` + head + `}`},
		{name: "nothing to take back", cordoned: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &nodeSite{node: corev1.Node{
				TypeMeta:   metav1.TypeMeta{Kind: "Node", APIVersion: "v1"},
				ObjectMeta: metav1.ObjectMeta{Name: "n-1", UID: "u", ResourceVersion: "1", Labels: map[string]string{labelPool: "workers"}},
				Spec:       corev1.NodeSpec{Unschedulable: c.cordoned},
			}}
			if c.mark != "" {
				s.node.Annotations = map[string]string{kept.AnnotationDraining: c.mark}
			}
			port := (&site{answer: s.answer}).port(t, Active)
			port.leads(0)
			must.Do(t, port.SetDraining(t.Context(), "n-1", c.draining))
			if got := strings.Join(s.patches, "\n"); got != c.want {
				t.Errorf("patched\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestTargetsOfOtherKindsAreAskedForSeldom(t *testing.T) {
	s := &site{answer: func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/scale") {
			tell(w, autoscalingv1.Scale{
				TypeMeta: metav1.TypeMeta{Kind: "Scale", APIVersion: "autoscaling/v1"}, ObjectMeta: metav1.ObjectMeta{Name: "r"},
				Spec: autoscalingv1.ScaleSpec{Replicas: 4}, Status: autoscalingv1.ScaleStatus{Selector: "app=r"},
			})
			return
		}
		tell(w, metav1.APIResourceList{GroupVersion: "argoproj.io/v1alpha1", APIResources: []metav1.APIResource{
			{Name: "rollouts", Kind: "Rollout", Namespaced: true}, {Name: "rollouts/scale", Kind: "Scale", Group: "autoscaling", Version: "v1"},
		}})
	}}
	c := s.port(t, ReadOnly)
	wla := autoscaler("r", v1alpha1.ModeActive)
	wla.Spec.ScaleTargetRef = v1alpha1.ScaleTargetRef{APIVersion: "argoproj.io/v1alpha1", Kind: "Rollout", Name: "r"}
	c.holds(t, copies.Autoscalers, wla)
	for range 5 {
		if all := c.targets.Resolve(t.Context()); len(all) != 1 || !all[0].Known || all[0].Replicas != 4 || len(all[0].Findings) > 0 ||
			all[0].Resource != (schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "rollouts"}) {
			t.Fatalf("%+v", all)
		}
	}
	if asked := s.requests(); len(asked) != 2 {
		t.Errorf("asked %v, want which kinds there are once and the scale once", asked)
	}
}

func TestTargetThatCannotBeReadIsUnknown(t *testing.T) {
	s := &site{answer: func(w http.ResponseWriter, _ *http.Request) { deny(w, metav1.Status{Code: 503, Message: "not now"}) }}
	c := s.port(t, ReadOnly)
	wla := autoscaler("r", v1alpha1.ModeActive)
	wla.Spec.ScaleTargetRef = v1alpha1.ScaleTargetRef{APIVersion: "argoproj.io/v1alpha1", Kind: "Rollout", Name: "r"}
	c.holds(t, copies.Autoscalers, wla)
	all := c.targets.Resolve(t.Context())
	if len(all) != 1 || all[0].Known || len(all[0].Findings) != 1 || all[0].Findings[0].Code != FindingTargetUnknown {
		t.Errorf("%+v", all)
	}
}

// A node that has come under the name of one that was observed is neither cordoned, opened nor
// deleted in its place.
func TestAnotherNodeOfTheNameIsLeftAlone(t *testing.T) {
	for name, do := range map[string]func(context.Context, *Cluster) error{
		"drain":  func(ctx context.Context, c *Cluster) error { return c.SetDraining(ctx, "n-1", true) },
		"undo":   func(ctx context.Context, c *Cluster) error { return c.SetDraining(ctx, "n-1", false) },
		"remove": func(ctx context.Context, c *Cluster) error { return c.RemoveNode(ctx, "n-1") },
	} {
		for _, uid := range []types.UID{"observed", "another"} {
			s := &site{answer: func(w http.ResponseWriter, _ *http.Request) {
				tell(w, corev1.Node{
					TypeMeta:   metav1.TypeMeta{Kind: "Node", APIVersion: "v1"},
					ObjectMeta: metav1.ObjectMeta{Name: "n-1", UID: uid, Labels: map[string]string{"plimsoll.dev/pool": "w"}, Annotations: map[string]string{kept.AnnotationDraining: drainingCordoned}},
				})
			}}
			port := s.port(t, Active)
			port.holds(t, copies.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n-1", UID: "observed"}})
			port.look(t.Context())
			port.leads(0)
			err := do(t.Context(), port)
			wrote := len(s.requests()) > 1
			if refused := errors.Is(err, ErrChanged); refused != (uid == "another") || wrote == refused {
				t.Errorf("%s, the node is %s: %v, asked %v", name, uid, err, s.requests())
			}
		}
	}
}
