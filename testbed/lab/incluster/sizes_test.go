//go:build lab

package incluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/plane"
)

// small asks for less than any container is recommended. Pods of the plane use the memory that they
// ask for, and more is recommended the more they have: hence the bound.
func (w *world) small(name, rightsize string) {
	w.Helper()
	w.apply(fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: 2
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      containers: [{name: app, image: none, resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {cpu: 20m, memory: 32Mi}}}]
`, name))
	w.apply(fmt.Sprintf(`
apiVersion: plimsoll.dev/v1alpha1
kind: WorkloadAutoscaler
metadata: {name: %[1]s}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: %[1]s}
  mode: Active
  policy: HPA
  minReplicas: 2
  maxReplicas: 2
  hpa: {metrics: [{type: Resource, name: cpu, averageValue: 500m}]}
  rightsize: {mode: %[2]s, containers: [{name: app, maxAllowed: {memory: 250Mi}}]}
`, name, rightsize))
}

// asks are what the pods of an app ask for, and how many there are that do.
func (w *world) asks(app string) map[string]int {
	w.Helper()
	all := map[string]int{}
	for _, p := range w.pods() {
		if r := p.Spec.Containers[0].Resources; p.Labels["app"] == app {
			all[fmt.Sprintf("%s %s of %s %s", r.Requests.Cpu(), r.Requests.Memory(), r.Limits.Cpu(), r.Limits.Memory())]++
		}
	}
	return all
}

// resizable plays what KWOK leaves of a kubelet: to say what containers have. The API server takes
// a node that does not for one that cannot resize.
func (w *world) resizable() {
	w.Helper()
	for _, p := range w.pods() {
		for i := range p.Status.ContainerStatuses {
			p.Status.ContainerStatuses[i].Resources = &p.Spec.Containers[i].Resources
		}
		if _, err := w.client.CoreV1().Pods(p.Namespace).UpdateStatus(w.Context(), &p, metav1.UpdateOptions{}); err != nil {
			w.Fatal(err)
		}
	}
}

// In rightsize mode Off it is said what containers should request, and nothing is written but that;
// in mode InPlace the pods that run get it by their subresource, one after the other, and stay the
// same pods.
func TestContainersAreSizedInPlaceWhereThatIsWanted(t *testing.T) {
	w := newWorld(t, &plane.Part{Every: 5 * time.Second})
	w.apply(fmt.Sprintf(`
apiVersion: v1
kind: Node
metadata: {name: n-1, labels: {%s: %s}}
`, lab.KubeletLabel, lab.KubeletLabelValue))
	const before, after = "10m 16Mi of 20m 32Mi", "25m 250Mi of 50m 500Mi"
	w.small("quiet", `"Off"`)
	w.small("web", "InPlace")
	w.until("all pods run", func() bool { return w.running() == 4 })
	same := func() []string {
		var all []string
		for _, p := range w.pods() {
			all = append(all, string(p.UID))
		}
		slices.Sort(all)
		return all
	}
	there := same()
	w.resizable()

	c := w.start("podscaler", "mode: Active\ninterval: 1s\n")
	const quiet = `{apiVersion: plimsoll.dev/v1alpha1, kind: WorkloadAutoscaler, metadata: {name: quiet}}`
	for _, object := range []string{quiet, autoscaler} {
		w.until("it is said what they should request", func() bool {
			return w.text(object, "status", "rightsize", "containers", "0", "target", "memory") == "250Mi" &&
				w.text(object, "status", "rightsize", "containers", "0", "target", "cpu") == "25m"
		})
	}
	w.until("there is an event of it", func() bool { return w.hasEvent("OutsideBounds") })
	defer func() { // its own context ends before a cleanup
		if t.Failed() {
			t.Logf("they ask for %v: %s, last %v", w.asks("web"), w.text(autoscaler, "status", "rightsize", "reason", "text"), w.find(autoscaler, "status", "rightsize", "lastResize"))
		}
	}()
	w.until("one pod is resized", func() bool { return w.asks("web")[after] == 1 && w.asks("web")[before] == 1 })
	w.until("and the other", func() bool { return w.asks("web")[after] == 2 })
	w.until("there is no more to be done", func() bool { return w.text(autoscaler, "status", "rightsize", "reason", "code") == "Unchanged" })
	if got := w.asks("quiet"); got[before] != 2 {
		t.Errorf("those that nobody was to resize ask for %v", got)
	}
	if code := w.text(quiet, "status", "rightsize", "reason", "code"); code != "ModeOff" {
		t.Errorf("they are left alone for %q", code)
	}
	if now := same(); !slices.Equal(there, now) {
		t.Errorf("the pods were %v and are %v", there, now)
	}
	_, page := c.get(w, "/metrics")
	for _, series := range []string{
		`plimsoll_resizes_total{result="done"} 2`, `plimsoll_resizes_total{result="failed"} 0`,
		`plimsoll_container_recommended_cpu_cores{bound="target",container="app",name="quiet",namespace="shop"} 0.025`,
	} {
		if !strings.Contains(page, "\n"+series+"\n") {
			t.Errorf("there is no %s", series)
		}
	}
	w.sizedOneByOne()
}

// sizedOneByOne holds that pods were written to twice, by their subresource, and not at once.
func (w *world) sizedOneByOne() {
	w.Helper()
	may := []string{"leases", "workloadautoscalers/status", "pricebooks/status", "events"}
	var resized []time.Time
	for _, r := range w.writes() {
		switch {
		case r.Verb == "patch" && r.What == "pods/resize":
			resized = append(resized, r.At)
		case !slices.Contains(may, r.What):
			w.Errorf("it has done: %s %s", r.Verb, r.What)
		}
	}
	if len(resized) != 2 || resized[1].Sub(resized[0]) < 30*time.Second {
		w.Errorf("resized at %v", resized)
	}
}

// Containers without limits get their shares of the node as limits, by the same subresource: the
// API server lets limits be added to pods that run. All together they may use no more than the node
// has.
func TestLimitsAreSharesOfTheNode(t *testing.T) {
	w := newWorld(t, &plane.Part{Every: 5 * time.Second})
	w.apply(fmt.Sprintf(`
apiVersion: v1
kind: Node
metadata: {name: n-1, labels: {%s: %s}}
`, lab.KubeletLabel, lab.KubeletLabelValue))
	w.apply(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: app, image: none, resources: {requests: {cpu: 100m, memory: 250Mi}}}]
`)
	w.apply(`
apiVersion: plimsoll.dev/v1alpha1
kind: WorkloadAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  mode: Active
  policy: HPA
  minReplicas: 2
  maxReplicas: 2
  hpa: {metrics: [{type: Resource, name: cpu, averageValue: 500m}]}
  rightsize: {mode: InPlace, limits: DRF, containers: [{name: app, maxAllowed: {memory: 250Mi}}]}
`)
	w.until("all pods run", func() bool { return w.running() == 2 })
	w.resizable()
	w.start("podscaler", "mode: Active\ninterval: 1s\n")
	defer func() {
		if t.Failed() {
			t.Logf("they have %v: %s, limits %v, last %v", w.asks("web"), w.text(autoscaler, "status", "rightsize", "reason", "text"),
				w.find(autoscaler, "status", "rightsize", "limits"), w.find(autoscaler, "status", "rightsize", "lastResize"))
		}
	}()
	w.until("both have limits", func() bool {
		return !slices.ContainsFunc(w.pods(), func(p corev1.Pod) bool { return len(p.Spec.Containers[0].Resources.Limits) < 2 })
	})
	for _, n := range w.nodes() {
		used := 0.0 // of the resource of which the larger part is
		for name, all := range n.Status.Allocatable {
			var sum float64
			for _, p := range w.pods() {
				limit := p.Spec.Containers[0].Resources.Limits[name]
				sum += limit.AsApproximateFloat64()
			}
			used = max(used, sum/all.AsApproximateFloat64())
		}
		if used > 1 || used < 0.99 {
			t.Errorf("pods may use %g of the node: %v", used, w.asks("web"))
		}
	}
}
