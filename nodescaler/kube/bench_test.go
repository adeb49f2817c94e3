package kube

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
)

// BenchmarkObserve is a look at a large cluster: 1,000 nodes, 30,000 pods of 200 Deployments with
// an autoscaler and a disruption budget each, in 20 namespaces. It also says how much memory the
// copies are held in, and how much with what two looks saw.
func BenchmarkObserve(b *testing.B) {
	c, before := still(b), heap()
	c.large(b, 1000, 30_000, 200)
	held := heap() - before
	seen := []loop.ClusterState{c.look(b.Context()), c.look(b.Context())}
	looked := heap() - before
	runtime.KeepAlive(seen)
	defer func() { b.ReportMetric(held, "MB-held"); b.ReportMetric(looked, "MB-with-looks") }()
	b.ReportAllocs()
	for b.Loop() {
		if state := c.look(b.Context()); len(state.Pods) != 30_000 || len(state.Budgets) != 200 || len(state.Replicas) != 200 {
			b.Fatal(len(state.Pods), len(state.Budgets), cmp.Diff(nil, state.Replicas))
		}
	}
}

// large fills the copies as watches would.
func (c *Cluster) large(b *testing.B, many, of, workloads int) {
	b.Helper()
	use := map[string]podscaler.Sample{}
	for i := range many {
		c.holds(b, copies.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%04d", i), Labels: map[string]string{"kubernetes.io/hostname": fmt.Sprintf("node-%04d", i)}}})
	}
	meta := func(i int, name, kind string, owner *metav1.ObjectMeta) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Namespace: fmt.Sprintf("team-%02d", i%20), Name: name, UID: types.UID(kind + name), Labels: map[string]string{"app": fmt.Sprintf("app-%03d", i)}}
		if owner != nil {
			yes, of := true, map[string]string{"Pod": "ReplicaSet", "ReplicaSet": "Deployment"}[kind]
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: of, Name: owner.Name, UID: owner.UID, Controller: &yes}}
		}
		return m
	}
	replicas, one := int32(of/workloads), intstr.FromInt32(1)
	sets := make([]metav1.ObjectMeta, workloads)
	for i := range workloads {
		name := fmt.Sprintf("app-%03d", i)
		d := meta(i, name, "Deployment", nil)
		selector := &metav1.LabelSelector{MatchLabels: d.Labels}
		c.holds(b, copies.Deployments, &appsv1.Deployment{ObjectMeta: d, Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector}})
		sets[i] = meta(i, name+"-777bcd78d", "ReplicaSet", &d)
		c.holds(b, copies.Owners, &metav1.PartialObjectMetadata{ObjectMeta: sets[i]})
		c.holds(b, copies.Disruptions, &policyv1.PodDisruptionBudget{ObjectMeta: meta(i, name, "Budget", nil), Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &one, Selector: selector}})
		c.holds(b, copies.Autoscalers, &v1alpha1.WorkloadAutoscaler{
			ObjectMeta: meta(i, name, "WLA", nil), Spec: v1alpha1.WorkloadAutoscalerSpec{ScaleTargetRef: v1alpha1.ScaleTargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: name}},
		})
	}
	ask := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi")}}
	for i := range of {
		w := i % workloads
		p := &corev1.Pod{ObjectMeta: meta(w, fmt.Sprintf("%s-%05d", sets[w].Name, i), "Pod", &sets[w])}
		p.Spec = corev1.PodSpec{NodeName: fmt.Sprintf("node-%04d", i%many), Containers: []corev1.Container{{Name: "server", Resources: ask}, {Name: "proxy", Resources: ask}}}
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
		c.holds(b, copies.Pods, p)
		use[p.Namespace+"/"+p.Name] = podscaler.Sample{Known: true, Value: 0.01}
	}
	c.meter.last.Store(&used{use, time.Now().Add(time.Hour)})
	c.meter.usage = samples{all: use}
}
