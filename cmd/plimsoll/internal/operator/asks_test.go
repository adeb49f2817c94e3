package operator

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// What a workload asks for changes with pods that are created otherwise, and with nothing else.
func TestWhatNewPodsAskFor(t *testing.T) {
	var a asks
	of := []*v1alpha1.WorkloadAutoscaler{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}}
	pod := func(name string, at time.Duration, cpu pricing.MilliCPU) nodescaler.Pod {
		return nodescaler.Pod{Pod: podscaler.Pod{Name: name}, Workload: "shop/web", Created: t0.Add(at), Requests: pricing.Resources{CPU: cpu}}
	}
	leaving := func(p nodescaler.Pod) nodescaler.Pod { p.Terminating = true; return p }
	for _, c := range []struct {
		name string
		pods []nodescaler.Pod
		want pricing.MilliCPU
	}{
		{"no pod yet", nil, 0},
		{"the first", []nodescaler.Pod{pod("a", 0, 500)}, 500},
		{"a newer one", []nodescaler.Pod{pod("a", 0, 500), pod("b", time.Minute, 600)}, 600},
		{"which is resized", []nodescaler.Pod{pod("a", 0, 500), pod("b", time.Minute, 900)}, 600},
		{"and goes", []nodescaler.Pod{pod("a", 0, 500), leaving(pod("b", time.Minute, 900))}, 600},
		{"all are resized", []nodescaler.Pod{pod("a", 0, 900)}, 600},
		{"none is there", nil, 600},
		{"one was moved", []nodescaler.Pod{pod("c", time.Hour, 600)}, 600},
		{"it is resized", []nodescaler.Pod{pod("c", time.Hour, 900)}, 600},
		{"its template changed", []nodescaler.Pod{pod("c", time.Hour, 900), pod("d", 2*time.Hour, 700)}, 700},
	} {
		if got := a.see(c.pods, of)["shop/web"].CPU; got != c.want {
			t.Errorf("%s: %dm, want %dm", c.name, got, c.want)
		}
	}
	a.see(nil, nil)
	if got := a.see([]nodescaler.Pod{pod("a", 0, 500)}, of)["shop/web"].CPU; len(a) != 1 || got != 500 {
		t.Errorf("an autoscaler that was away is remembered: %dm", got)
	}
}
