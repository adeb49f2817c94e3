package kube

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/written"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
)

func TestWhatPodsGetAsTheyAreCreated(t *testing.T) {
	const pod = `spec: {containers: [{name: app, resources: {requests: {cpu: 200m, memory: 64Mi}, limits: {memory: 128Mi}}}, {name: other}], initContainers: [{name: side, restartPolicy: Always}, {name: first}]}` + "\n"
	const meta = `metadata: {generateName: web-1-, labels: {pod-template-hash: "1"}, ` + written.Owned + "}\n"
	mi := func(n int64) pricing.Bytes { return pricing.Bytes(n) * pricing.MiB }
	app := rightsize.Change{
		Container: "app", Requests: pricing.Resources{CPU: 150, Memory: mi(96)}, Limits: pricing.Resources{Memory: mi(192)},
	}
	side := rightsize.Change{Container: "side", Sidecar: true, Requests: pricing.Resources{CPU: 10}}
	all := []v1alpha1.CreatedContainer{
		{Name: "app", Requests: v1alpha1.ContainerAmounts{CPU: "150m", Memory: "96Mi"}}, {Name: "side", Requests: v1alpha1.ContainerAmounts{CPU: "10m"}},
	}
	for name, c := range map[string]struct {
		pod    string
		change func(*v1alpha1.WorkloadAutoscaler)
		want   []rightsize.Change
		ranges string // of its namespace
	}{
		"no more than a LimitRange admits": {pod: meta + pod, ranges: `[{type: Container, max: {memory: 144Mi}}, {type: Pod, min: {cpu: 320m}}]`, want: []rightsize.Change{
			{Container: "app", Requests: pricing.Resources{CPU: 300, Memory: mi(72)}, Limits: pricing.Resources{Memory: mi(144)}},
			{Container: "side", Sidecar: true, Requests: pricing.Resources{CPU: 20}},
		}},
		"as the status says": {pod: meta + pod, want: []rightsize.Change{app, side}},
		"nothing less, where little is known": {pod: meta + pod, change: func(w *v1alpha1.WorkloadAutoscaler) { w.Status.Rightsize.Created[0].RaiseOnly = true }, want: []rightsize.Change{
			{Container: "app", Requests: pricing.Resources{CPU: 200, Memory: mi(96)}, Limits: pricing.Resources{Memory: mi(192)}}, side,
		}},
		"of a ReplicaSet that is newer than what was seen": {pod: `metadata: {labels: {pod-template-hash: 7d9}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-7d9, uid: new, controller: true}]}` + "\n" + pod, want: []rightsize.Change{app, side}},
		"of another one that is not known":                 {pod: `metadata: {ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-7d9, uid: new, controller: true}]}` + "\n" + pod},
		"of no owner":                                      {pod: "metadata: {name: web}\n" + pod},
		"of another Deployment":                            {pod: `metadata: {labels: {pod-template-hash: 7d9}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: mail-7d9, uid: new, controller: true}]}` + "\n" + pod},
		"of a StatefulSet of the name":                     {pod: `metadata: {ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: web, uid: s, controller: true}]}` + "\n" + pod},
		"that asks as a whole":                             {pod: meta + `spec: {resources: {requests: {cpu: 1}}, containers: [{name: app}]}`},
		"of other containers":                              {pod: meta + `spec: {containers: [{name: another}]}`},
		"the status says nothing":                          {pod: meta + pod, change: func(w *v1alpha1.WorkloadAutoscaler) { w.Status.Rightsize.Created = nil }},
		"there is none":                                    {pod: meta + pod, change: func(w *v1alpha1.WorkloadAutoscaler) { w.Status.Rightsize = nil }},
		"what it says cannot be read": {pod: meta + pod, change: func(w *v1alpha1.WorkloadAutoscaler) {
			w.Status.Rightsize.Created = []v1alpha1.CreatedContainer{{Name: "app", Requests: v1alpha1.ContainerAmounts{CPU: "much", Memory: "-1"}}}
		}},
		"the mode is Off by now":           {pod: meta + pod, change: func(w *v1alpha1.WorkloadAutoscaler) { w.Spec.Rightsize.Mode = v1alpha1.RightsizeOff }},
		"the object's is Recommend by now": {pod: meta + pod, change: func(w *v1alpha1.WorkloadAutoscaler) { w.Spec.Mode = v1alpha1.ModeRecommend }},
		"it is paused by now": {pod: meta + pod, change: func(w *v1alpha1.WorkloadAutoscaler) {
			w.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true"}
		}},
		"it is in another namespace": {pod: meta + pod, change: func(w *v1alpha1.WorkloadAutoscaler) { w.Namespace = "else" }},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := (&site{}).port(t, Active)
			w := autoscaler("web", v1alpha1.ModeActive)
			w.Status.Rightsize = &v1alpha1.RightsizeStatus{Created: append([]v1alpha1.CreatedContainer(nil), all...)}
			if c.change != nil {
				c.change(w)
			}
			cluster.holds(t, copies.Autoscalers, w)
			if c.ranges != "" {
				cluster.holds(t, copies.LimitRanges, written.Object[corev1.LimitRange](t, `{metadata: {name: l, namespace: shop}, spec: {limits: `+c.ranges+`}}`),
					written.Object[corev1.LimitRange](t, `{metadata: {name: l, namespace: else}, spec: {limits: [{type: Container, max: {memory: 1Mi}}]}}`))
			}
			set := &metav1.PartialObjectMetadata{ObjectMeta: something("ReplicaSet", "web-1", controlledBy("apps/v1", "Deployment", "web"))}
			set.UID = types.UID("rs")
			cluster.holds(t, copies.Owners, set)
			workload, got := created(cluster.copies, "shop", written.Object[corev1.Pod](t, c.pod))
			if diff := cmp.Diff(c.want, got); diff != "" || c.want != nil && workload != "web" {
				t.Errorf("by %q, -want +got:\n%s", workload, diff)
			}
		})
	}
	if _, got := (&site{}).port(t, Active).Created("shop", written.Object[corev1.Pod](t, meta+pod)); got != nil {
		t.Errorf("from copies that may be old: %v", got)
	}
}
