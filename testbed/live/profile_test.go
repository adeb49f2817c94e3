package live

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/k6"
	"github.com/plimsoll/plimsoll/testbed/kubesim"
)

const web = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec: {replicas: 3, selector: {matchLabels: {app: web}}}`

// readyPod is a pod of it. No controller is played here: the pods are those that a test makes.
const readyPod = `
apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: shop, labels: {app: web}}
status: {phase: Running, conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-03-01T12:00:00Z"}]}`

// town is a cluster with the Deployment, and what it serves.
func town(t *testing.T, objects ...string) (*kubesim.Server, *Service) {
	t.Helper()
	g := v1alpha1.GroupVersion
	server := kubesim.New(1, kubesim.Kind{Group: g.Group, Version: g.Version, Name: v1alpha1.KindWorkloadAutoscaler, Resource: "workloadautoscalers", Status: true, Custom: true})
	for _, o := range append(objects, web) {
		if err := server.Apply(o); err != nil {
			t.Fatal(err)
		}
	}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(site.Close)
	s := &Service{Namespace: "shop", Name: "web", Folder: t.TempDir(), Report: func(string) {}}
	s.Send = k6.Load{URL: site.URL, Duration: time.Second, Target: 50 * time.Millisecond, Quantile: 0.9}
	cfg := server.Client("profile", nil).Config()
	cfg.QPS = -1 // no limit, which goes by the clock
	if err := s.Connect(cfg); err != nil {
		t.Fatal(err)
	}
	return server, s
}

// replay puts a program in place of k6 that says the same of every load.
func replay(t *testing.T, s *Service, summary string) {
	t.Helper()
	s.K6 = filepath.Join(t.TempDir(), "k6")
	script := "#!/bin/sh\ncat > " + filepath.Join(s.Folder, "summary.json") + " <<'end'\n" + summary + "\nend\n"
	if err := os.WriteFile(s.K6, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
}

var one = testbed.Profiling{Pods: []int{1}, To: 0.5}

func withPods(t *testing.T, server *kubesim.Server, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := server.Apply(strings.ReplaceAll(readyPod, "NAME", name)); err != nil {
			t.Fatal(err)
		}
	}
}

func replicasOf(server *kubesim.Server) any {
	return server.Get("deployments.apps", "shop/web")["spec"].(map[string]any)["replicas"]
}

// expectBack wants the replicas to be as they were, after they were as they had to be.
func expectBack(t *testing.T, server *kubesim.Server) {
	t.Helper()
	var way []any
	for _, c := range server.History("deployments.apps") {
		way = append(way, c.Object()["spec"].(map[string]any)["replicas"])
	}
	if !slices.Equal(way, []any{int64(3), int64(1), int64(3)}) {
		t.Errorf("the replicas were %v, want 3, 1 and 3 again", way)
	}
}

func TestWhatIsScaledByAnotherIsNotMeasured(t *testing.T) {
	hpa := `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: scaler, namespace: shop}, spec: {maxReplicas: 5, scaleTargetRef: {kind: KIND, name: NAME}}}`
	ours := `{apiVersion: plimsoll.dev/v1alpha1, kind: WorkloadAutoscaler, metadata: {name: scaler, namespace: shop, annotations: {plimsoll.dev/paused: "PAUSED"}}, spec: {mode: MODE, scaleTargetRef: {kind: Deployment, name: web}}}`
	const free = "must be 1 that are ready" // it goes on to wait for its pod, which is not there
	for _, c := range []struct{ name, manifest, want string }{
		{"an HPA", strings.NewReplacer("KIND", "Deployment", "NAME", "web").Replace(hpa), "must not be scaled by anything else while it is measured; HorizontalPodAutoscaler scaler scales it: delete that"},
		{"an HPA of another", strings.NewReplacer("KIND", "Deployment", "NAME", "api").Replace(hpa), free},
		{"an HPA of another kind", strings.NewReplacer("KIND", "StatefulSet", "NAME", "web").Replace(hpa), free},
		{"mode Active", strings.NewReplacer("MODE", "Active", "PAUSED", "").Replace(ours), "WorkloadAutoscaler scaler is in mode Active: pause it with plimsoll pause"},
		{"mode Approve", strings.NewReplacer("MODE", "Approve", "PAUSED", "up").Replace(ours), "is in mode Approve"},
		{"mode Active, paused", strings.NewReplacer("MODE", "Active", "PAUSED", "true").Replace(ours), free},
		{"mode Active, paused until later", strings.NewReplacer("MODE", "Active", `"PAUSED"`, `"true", plimsoll.dev/paused-until: "2099-01-01T00:00:00Z"`).Replace(ours), "pause it with plimsoll pause, without an end"},
		{"mode Recommend", strings.NewReplacer("MODE", "Recommend", "PAUSED", "").Replace(ours), free},
	} {
		server, s := town(t, c.manifest)
		_, err := s.Measure(t.Context(), one)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
		if got := replicasOf(server); got != int64(3) {
			t.Errorf("%s: %v replicas are left, want 3", c.name, got)
		}
	}
}

func TestReplicasArePutBack(t *testing.T) {
	for _, c := range []struct {
		name    string
		pods    []string
		spoil   func(*Service, context.CancelFunc)
		summary string
		want    string
	}{
		{"a pod too many", []string{"a", "b"}, nil, "", "pods: must be 1 that are ready within 0s, were 2, of which 2 were ready: see kubectl describe pods"},
		{"no such page", []string{"a"}, func(s *Service, _ context.CancelFunc) { s.Send.URL += "/nowhere" }, "", "url: must answer with 200, was 404 Not Found ("},
		{"an interrupt", []string{"a"}, func(s *Service, stop context.CancelFunc) {
			lines := 0
			s.Report = func(string) {
				if lines++; lines == 2 { // the first load is over
					stop()
				}
			}
		}, `{"requests": 10, "good": 10}`, context.Canceled.Error()},
		{"k6 fails", []string{"a"}, nil, "nonsense", "1 pod: k6: summary: "},
		{"nothing holds", []string{"a"}, nil, `{"requests": 10, "good": 8}`, "1 pod: no load holds: 1 requests a second miss the objective"},
	} {
		server, s := town(t)
		withPods(t, server, c.pods...)
		replay(t, s, c.summary)
		ctx, stop := context.WithCancel(t.Context())
		if c.spoil != nil {
			c.spoil(s, stop)
		}
		_, err := s.Measure(ctx, one)
		stop()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
		expectBack(t, server)
	}
}

// What another has set meanwhile is not overwritten.
func TestReplicasOfAnotherStay(t *testing.T) {
	server, s := town(t)
	withPods(t, server, "a")
	replay(t, s, `{"requests": 10, "good": 10}`)
	loads := 0
	s.Report = func(string) {
		if loads++; loads == 2 {
			server.Change("deployments.apps", "shop/web", func(raw map[string]any) { raw["spec"].(map[string]any)["replicas"] = 7 })
		}
	}
	_, err := s.Measure(t.Context(), one)
	if !errors.Is(err, ErrScaled) || !strings.Contains(err.Error(), "its replicas were set to 7, and had been set to 1") {
		t.Errorf("%v, want another to have scaled it", err)
	}
	if got := replicasOf(server); got != int64(7) || !errors.Is(err, ErrLeft) {
		t.Errorf("%v replicas are left, want 7 (%v)", got, err)
	}
}

// Even an interrupt says that replicas were not put back.
func TestReplicasThatAreLeftAreSaid(t *testing.T) {
	server, s := town(t)
	withPods(t, server, "a")
	replay(t, s, `{"requests": 10, "good": 10}`)
	ctx, stop := context.WithCancel(t.Context())
	lines := 0
	s.Report = func(string) {
		if lines++; lines == 2 {
			server.Remove("deployments.apps", "shop/web")
			stop()
		}
	}
	_, err := s.Measure(ctx, one)
	const want = `its replicas were not put back, 3: deployments.apps "web" not found; kubectl scale -n shop deployment/web --replicas=3 does it`
	if !errors.Is(err, ErrLeft) || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestWhatHoldsIsThePartOfAllThatWereToBeSent(t *testing.T) {
	for _, c := range []struct {
		sum  k6.Summary
		want bool
	}{
		{k6.Summary{Requests: 100, Good: 90}, true},
		{k6.Summary{Requests: 100, Good: 89}, false},
		{k6.Summary{Requests: 95, Good: 90, Dropped: 5}, true},
		{k6.Summary{Requests: 95, Good: 90, Dropped: 6}, false},
		{k6.Summary{}, false},
	} {
		if got := kept(&c.sum, 0.9); got != c.want {
			t.Errorf("%+v: holds is %v", c.sum, got)
		}
	}
	for _, c := range []struct {
		rate float64
		want int
	}{{0.1, 11}, {100, 60}, {1000, 510}} {
		if got := atOnce(c.rate, 250*time.Millisecond); got != c.want {
			t.Errorf("%v a second: %d at a time, want %d", c.rate, got, c.want)
		}
	}
}

// A load that no k6 of one machine can send is no load that was missed.
func TestMoreRequestsAtATimeThanK6CarriesAreRefused(t *testing.T) {
	server, s := town(t)
	withPods(t, server, "a")
	s.Send.Target = time.Hour
	if _, err := s.Measure(t.Context(), one); err == nil || !strings.Contains(err.Error(), "must be at most 5000 on their way at a time, as many as k6 carries here, were ") {
		t.Errorf("%v, want the limit", err)
	}
	expectBack(t, server)
}
