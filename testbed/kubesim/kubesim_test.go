package kubesim

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/plimsoll/plimsoll/testbed/must"
)

const aPod = `{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: shop, labels: {app: web}}, spec: {nodeName: n1, containers: [{name: c}, {name: d}]},
  status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}`

// shop is a server with three pods and a budget, and two clients.
func shop(t *testing.T) (*Server, *Client, kubernetes.Interface) {
	t.Helper()
	s := New(1)
	for i := range 3 {
		apply(t, s, fmt.Sprintf(aPod, fmt.Sprintf("p%d", i)))
	}
	apply(t, s, `{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web, namespace: shop}, spec: {selector: {matchLabels: {app: web}}},
  status: {disruptionsAllowed: 1, observedGeneration: 1}}`)
	apply(t, s, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {replicas: 3, selector: {matchLabels: {app: web}}}}`)
	c := s.Client("a", nil)
	client := must.Get(kubernetes.NewForConfig(c.Config()))(t)
	return s, c, client
}

func apply(t *testing.T, s *Server, manifest string) {
	t.Helper()
	must.Do(t, s.Apply(manifest))
}

func TestListsComeInPages(t *testing.T) {
	s, c, client := shop(t)
	first, err := client.CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{Limit: 2})
	if err != nil || len(first.Items) != 2 || first.Continue == "" {
		t.Fatalf("%v, %v", first, err)
	}
	s.Remove("pods", "shop/p2") // the list goes on as it was
	rest, err := client.CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{Limit: 2, Continue: first.Continue})
	if err != nil || len(rest.Items) != 1 || rest.ResourceVersion != first.ResourceVersion {
		t.Errorf("%v, %v", rest, err)
	}
	c.Fail(Faults{Gone: 1})
	if _, err := client.CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{Limit: 2, Continue: "x"}); !apierrors.IsResourceExpired(err) {
		t.Errorf("a page that is gone: %v", err)
	}
}

func TestWatchShowsWhatIsSelected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, client := shop(t)
		list := must.Get(client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}))(t)
		w := must.Get(client.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{
			ResourceVersion: list.ResourceVersion, FieldSelector: "status.phase!=Succeeded", AllowWatchBookmarks: true,
		}))(t)
		defer w.Stop()
		expect := func(want watch.EventType, name string) {
			t.Helper()
			e := <-w.ResultChan()
			if p, ok := e.Object.(*corev1.Pod); e.Type != want || !ok || p.Name != name {
				t.Errorf("%v, want %s %s", e, want, name)
			}
		}
		phase := func(is string) func(map[string]any) {
			return func(raw map[string]any) { raw["status"].(map[string]any)["phase"] = is }
		}
		s.Change("pods", "shop/p0", phase("Succeeded"))
		expect(watch.Deleted, "p0")
		s.Change("pods", "shop/p0", phase("Running"))
		expect(watch.Added, "p0")
		s.Change("pods", "shop/p1", phase("Pending"))
		expect(watch.Modified, "p1")
		s.Remove("pods", "shop/p1")
		expect(watch.Deleted, "p1")
		began := time.Now()
		if expect(watch.Bookmark, ""); time.Since(began) != bookmarkEvery {
			t.Errorf("the bookmark came after %s", time.Since(began))
		}
	})
}

func TestWatchFromTheForgottenPastIsRefused(t *testing.T) {
	s, _, client := shop(t)
	s.Compact()
	if _, err := client.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "101"}); !apierrors.IsResourceExpired(err) {
		t.Errorf("%v", err)
	}
}

func TestWritesAreHeldToVersions(t *testing.T) {
	s, c, client := shop(t)
	pods := client.CoreV1().Pods("shop")
	p, err := pods.Get(t.Context(), "p0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.Change("pods", "shop/p0", func(raw map[string]any) { metaOf(raw)["annotations"] = map[string]any{"a": "b"} })
	if _, err := pods.Update(t.Context(), p, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("update: %v", err)
	}
	for _, meta := range []string{`{"resourceVersion":"1"}`, `{"uid":"x"}`} {
		_, err := pods.Patch(t.Context(), "p0", types.MergePatchType, []byte(`{"metadata":`+meta+`}`), metav1.PatchOptions{})
		if !apierrors.IsConflict(err) {
			t.Errorf("patch with %s: %v", meta, err)
		}
	}
	other := types.UID("x")
	if err := pods.Delete(t.Context(), "p0", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}}); !apierrors.IsConflict(err) {
		t.Errorf("delete: %v", err)
	}
	p, err = pods.Patch(t.Context(), "p0", types.StrategicMergePatchType, []byte(`{"spec":{"containers":[{"name":"d","image":"x"}]}}`), metav1.PatchOptions{})
	if err != nil || len(p.Spec.Containers) != 2 || p.Spec.Containers[1].Image+p.Spec.Containers[0].Image != "x" {
		t.Errorf("strategic: %v, %v", p, err)
	}
	c.Fail(Faults{Lost: 1})
	_, err = client.AppsV1().Deployments("shop").Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"replicas":5}}`), metav1.PatchOptions{FieldManager: "me"}, "scale")
	if raw := s.Get("deployments.apps", "shop/web"); err == nil || specOf(raw)["replicas"] != int64(5) || metaOf(raw)["managedFields"] == nil || metaOf(raw)["generation"] != int64(2) {
		t.Errorf("a write whose answer is lost: %v, %v", err, raw)
	}
}

func TestEvictionsKeepToBudgets(t *testing.T) {
	s, _, client := shop(t)
	evict := func(name string) error {
		return client.PolicyV1().RESTClient().Post().MaxRetries(0).AbsPath("/api/v1").Namespace("shop").Resource("pods").Name(name).SubResource("eviction").
			Body(&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop"}}).Do(t.Context()).Error()
	}
	if err := evict("p0"); err != nil || metaOf(s.Get("pods", "shop/p0"))["deletionTimestamp"] == nil {
		t.Errorf("the first: %v", err)
	}
	if err := evict("p1"); !apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) {
		t.Errorf("the second: %v", err)
	}
	s.Change("pods", "shop/p1", func(raw map[string]any) { delete(raw["status"].(map[string]any), "conditions") })
	if err := evict("p1"); err != nil {
		t.Errorf("one that is not ready: %v", err)
	}
}

func TestFinalizersKeepAnObject(t *testing.T) {
	s, _, client := shop(t)
	apply(t, s, "{apiVersion: v1, kind: Node, metadata: {name: n1, finalizers: [a/b]}}")
	if err := client.CoreV1().Nodes().Delete(t.Context(), "n1", metav1.DeleteOptions{}); err != nil || metaOf(s.Get("nodes", "n1"))["deletionTimestamp"] == nil {
		t.Errorf("%v", err)
	}
	if _, err := client.CoreV1().Nodes().Patch(t.Context(), "n1", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil || s.Get("nodes", "n1") != nil {
		t.Errorf("%v", err)
	}
}

func TestFaultsShowAsTheyDoInNetworks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, _ := shop(t)
		ask := func(path string) (int, time.Duration, error) {
			began := time.Now()
			r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://kubesim"+path, nil))(t)
			a, err := c.RoundTrip(r)
			if err != nil {
				return 0, time.Since(began), err
			}
			return a.StatusCode, time.Since(began), a.Body.Close()
		}
		c.Fail(Faults{Refused: true})
		if _, _, err := ask("/readyz"); !errors.Is(err, errRefused) {
			t.Errorf("refused: %v", err)
		}
		c.Fail(Faults{Unready: true})
		if code, _, _ := ask("/readyz"); code != http.StatusInternalServerError {
			t.Errorf("unready: %d", code)
		}
		c.Fail(Faults{Busy: 1})
		if code, _, _ := ask("/api/v1/pods"); code != http.StatusTooManyRequests {
			t.Errorf("busy: %d", code)
		}
		c.Fail(Faults{Forbidden: []string{"pods"}})
		if code, _, _ := ask("/api/v1/pods"); code != http.StatusForbidden {
			t.Errorf("forbidden: %d", code)
		}
		c.Fail(Faults{Hangs: true})
		time.AfterFunc(time.Minute, func() { c.Fail(Faults{}) })
		if _, took, err := ask("/readyz"); err == nil || took != time.Minute {
			t.Errorf("hangs: %v after %s", err, took)
		}
		if code, _, _ := ask("/apis/apps/v1"); code != http.StatusOK {
			t.Errorf("discovery: %d", code)
		}
		if code, _, _ := ask("/apis/keda.sh/v1alpha1"); code != http.StatusNotFound {
			t.Errorf("discovery of what is not there: %d", code)
		}
	})
}
