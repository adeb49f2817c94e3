package kube

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/testbed/kubesim"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// withOthers is an API server that has the kinds of KEDA and of the vertical autoscaler, and the
// Deployment web with a WorkloadAutoscaler.
func withOthers(t *testing.T) *kubesim.Server {
	t.Helper()
	s := kubesim.New(1, append(
		ourKinds(),
		kubesim.Kind{Group: "keda.sh", Version: "v1alpha1", Name: "ScaledObject", Resource: "scaledobjects", Custom: true},
		kubesim.Kind{Group: "autoscaling.k8s.io", Version: "v1", Name: "VerticalPodAutoscaler", Resource: "verticalpodautoscalers", Custom: true},
	)...)
	must.Do(t, s.Apply(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {replicas: 3, selector: {matchLabels: {app: web}}}}`))
	must.Do(t, s.Apply(`{apiVersion: plimsoll.dev/v1alpha1, kind: WorkloadAutoscaler, metadata: {name: web, namespace: shop},
  spec: {mode: Active, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}}`))
	return s
}

// follow has a cluster run, in a bubble of its own, while something is done.
func follow(t *testing.T, cfg Config, do func(*Cluster)) {
	t.Helper()
	c := must.Get(New(cfg))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	// Watches bring a bookmark each minute, and a cache that ends as one comes leaves the goroutine
	// that passes it on.
	time.Sleep(time.Minute - time.Second)
	do(c)
}

// Without the right to list what others scale or size, nothing that they could be is changed, and
// the rest goes on.
func TestOtherAutoscalersThatMayNotBeListedHoldTheirTargetsAlone(t *testing.T) {
	quiet()
	synctest.Test(t, func(t *testing.T) {
		client := withOthers(t).Client("a", nil)
		client.Fail(kubesim.Faults{Forbidden: []string{"scaledobjects.keda.sh", "verticalpodautoscalers.autoscaling.k8s.io"}})
		follow(t, Config{REST: client.Config()}, func(c *Cluster) {
			web := must.Get(c.Targets(t.Context()))(t)[0]
			const why = "the right to list and watch scaledobjects.keda.sh is missing"
			if len(web.Findings) != 1 || web.Findings[0].Code != FindingTargetUnknown || !strings.Contains(web.Findings[0].Text, why) || !web.Known {
				t.Errorf("who scales it: %+v, want %q", web.Findings, why)
			}
			const sizes = "the right to list and watch verticalpodautoscalers.autoscaling.k8s.io is missing"
			if web.Sized == nil || !strings.Contains(web.Sized.Text, sizes) {
				t.Errorf("who sizes it: %+v, want %q", web.Sized, sizes)
			}
			client.Fail(kubesim.Faults{})
			time.Sleep(2 * time.Minute)
			if web := must.Get(c.Targets(t.Context()))(t)[0]; len(web.Findings) > 0 || web.Sized != nil {
				t.Errorf("once they may be: %+v, %+v", web.Findings, web.Sized)
			}
		})
	})
}

// Another kind has to be read, and what is missing is said.
func TestKindsThatMayNotBeListedAreNamed(t *testing.T) {
	quiet()
	synctest.Test(t, func(t *testing.T) {
		client := withOthers(t).Client("a", nil)
		client.Fail(kubesim.Faults{Forbidden: []string{"poddisruptionbudgets.policy"}})
		follow(t, Config{REST: client.Config()}, func(c *Cluster) {
			const why = "the right to list and watch poddisruptionbudgets.policy is missing"
			if err := c.Fresh(); err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("%v, want %q", err, why)
			}
		})
	})
}

// withdrawn has a group of kinds discovered and never listed, until it is gone altogether.
type withdrawn struct {
	http.RoundTripper
	group string
	gone  atomic.Bool
}

func (w *withdrawn) RoundTrip(r *http.Request) (*http.Response, error) {
	if at, is := strings.CutPrefix(r.URL.Path, "/apis/"+w.group); is && (w.gone.Load() || strings.Count(at, "/") > 1) {
		r = r.Clone(r.Context())
		r.URL.Path = "/apis/none"
	}
	return w.RoundTripper.RoundTrip(r)
}

// A kind may go between its discovery and its first list.
func TestForeignKindsThatGoBeforeTheyAreReadAreAbsent(t *testing.T) {
	quiet()
	synctest.Test(t, func(t *testing.T) {
		cfg := withOthers(t).Client("a", nil).Config()
		keda := &withdrawn{RoundTripper: cfg.Transport, group: "keda.sh"}
		cfg.Transport = keda
		follow(t, Config{REST: cfg}, func(c *Cluster) {
			if err := c.Fresh(); err == nil || !strings.Contains(err.Error(), copies.Kinds[copies.ScaledObjects].Resource) {
				t.Errorf("before it is gone: %v", err)
			}
			keda.gone.Store(true)
			time.Sleep(time.Minute - time.Second)
			if err := c.Fresh(); err != nil {
				t.Errorf("once it is gone: %v", err)
			}
			if all := must.Get(c.Autoscalers())(t); len(all) != 1 || all[0].Spec.Mode != v1alpha1.ModeActive {
				t.Errorf("autoscalers: %v", all)
			}
		})
	})
}
