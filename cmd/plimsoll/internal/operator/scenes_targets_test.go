package operator

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/testbed/kubesim"
)

// TestScenesOfTargets has the real adapter read a scale, which the town of the other scenes has
// none of: first it may not, and then the scale has no selector.
func TestScenesOfTargets(t *testing.T) {
	kube.LogTo(slog.New(slog.DiscardHandler))
	synctest.Test(t, func(t *testing.T) {
		p, err := newPair(1)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []string{`
{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: bare, namespace: shop}, spec: {replicas: 2}}`, `
{apiVersion: plimsoll.dev/v1alpha1, kind: WorkloadAutoscaler, metadata: {name: bare, namespace: shop}, spec: {mode: Active, minReplicas: 1, maxReplicas: 10,
  scaleTargetRef: {apiVersion: argoproj.io/v1alpha1, kind: Rollout, name: bare}, runPeriod: 10s,
  policy: HPA, hpa: {metrics: [{type: Resource, name: cpu, averageValue: 300m}]}}}`} {
			if err := p.server.Apply(m); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct {
			forbidden []string
			code      string
		}{{[]string{"rollouts.argoproj.io"}, kube.FindingTargetUnknown}, {nil, kube.FindingSelectorMissing}} {
			for _, h := range p.halves {
				h.client.Fail(kubesim.Faults{Forbidden: c.forbidden})
			}
			for range 60 {
				if err := p.town.Pass(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
			}
			var st v1alpha1.WorkloadAutoscalerStatus
			raw, _ := p.server.Get("workloadautoscalers.plimsoll.dev", "shop/bare")["status"].(map[string]any)
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &st); err != nil {
				t.Fatal(err)
			}
			if ready := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionReady); ready == nil || ready.Reason != c.code {
				t.Errorf("it is %+v, want %s", ready, c.code)
			}
			for range surelyHeard {
				hear(st)
			}
		}
		for _, h := range p.halves {
			h.stop()
		}
	})
}
