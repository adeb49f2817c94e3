package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// still is a port that sends no request.
func still(t testing.TB) *Cluster {
	t.Helper()
	return must.Get(New(Config{REST: &rest.Config{Host: "http://127.0.0.1:1"}}))(t)
}

func controlledBy(apiVersion, kind, name string) metav1.ObjectMeta {
	yes := true
	return metav1.ObjectMeta{Namespace: "shop", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(kind + "-" + name), Controller: &yes},
	}}
}

// something is a copy with an owner, or none.
func something(kind, name string, m metav1.ObjectMeta) metav1.ObjectMeta {
	m.Namespace, m.Name, m.UID = "shop", name, types.UID(kind+"-"+name)
	return m
}

func TestPodsBelongToTheNearestOwnerThatIsScaled(t *testing.T) {
	c := still(t)
	replicas := int32(1)
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
	deployment := func(name string, m metav1.ObjectMeta) *scaled {
		m = something("Deployment", name, m)
		return keepScale(&m, "Deployment", &replicas, selector)
	}
	c.holds(t, deployments, deployment("web", metav1.ObjectMeta{}), deployment("part", controlledBy("example.com/v1", "Website", "site")))
	for _, rs := range []struct {
		name string
		of   metav1.ObjectMeta
	}{
		{"web-1", controlledBy("apps/v1", "Deployment", "web")}, {"part-1", controlledBy("apps/v1", "Deployment", "part")},
		{"roll-1", controlledBy("argoproj.io/v1alpha1", "Rollout", "roll")}, {"alone", metav1.ObjectMeta{}}, {"loop", controlledBy("apps/v1", "ReplicaSet", "loop")},
	} {
		c.holds(t, owners, &metav1.PartialObjectMetadata{ObjectMeta: something("ReplicaSet", rs.name, rs.of)})
	}
	scaled := map[string]v1alpha1.ScaleTargetRef{
		"web-scaler": {APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, "site-scaler": {APIVersion: "example.com/v2", Kind: "Website", Name: "site"},
	}
	var targets []Target
	for _, name := range []string{"site-scaler", "web-scaler"} {
		ref := scaled[name]
		targets = append(targets, Target{Workload: "shop/" + name, ref: refer("shop", ref.APIVersion, ref.Kind, ref.Name)})
	}
	whose := c.genealogy(targets)
	for _, w := range []struct {
		name, want string
		of         metav1.ObjectMeta
	}{
		{"of a Deployment that is scaled", "shop/web-scaler", controlledBy("apps/v1", "ReplicaSet", "web-1")},
		{"of a Deployment of something that is scaled", "shop/site-scaler", controlledBy("apps/v1", "ReplicaSet", "part-1")},
		{"of a Rollout that no autoscaler scales", "shop/Rollout/roll", controlledBy("argoproj.io/v1alpha1", "ReplicaSet", "roll-1")},
		{"of a ReplicaSet alone", "shop/ReplicaSet/alone", controlledBy("apps/v1", "ReplicaSet", "alone")},
		{"of a StatefulSet that is not there", "shop/StatefulSet/db", controlledBy("apps/v1", "StatefulSet", "db")},
		{"of owners that own one another", "shop/ReplicaSet/loop", controlledBy("apps/v1", "ReplicaSet", "loop")},
		{"bare", "", metav1.ObjectMeta{}},
	} {
		for range 2 { // found, and remembered
			if got := whose.workload(&pod{ObjectMeta: w.of}); got != w.want {
				t.Errorf("%s: %q, want %q", w.name, got, w.want)
			}
		}
	}
}

func TestPodsThatNoOwnerLeadsToAreFoundByLabels(t *testing.T) {
	labelled := func(name, app string) *pod {
		return &pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": app}}}
	}
	for _, c := range []struct {
		name   string
		target Target
		before []string
		want   []string
	}{
		{"one that its pods say nothing of", Target{Known: true, Selector: "app=a"}, []string{"", "shop/Thing/x", ""}, []string{"shop/t", "shop/t", ""}},
		{"one that owners lead to", Target{Known: true, Selector: "app=a"}, []string{"", "shop/t", ""}, []string{"", "shop/t", ""}},
		{"pods of another target", Target{Known: true, Selector: "app=a"}, []string{"shop/other", "", ""}, []string{"shop/other", "shop/t", ""}},
		{"one of a watched kind", Target{Known: true, Selector: "app=a", watched: true}, []string{"", "", ""}, []string{"", "", ""}},
		{"without a selector", Target{Known: true}, []string{"", "", ""}, []string{"", "", ""}},
	} {
		c.target.Workload, c.target.ref.namespace = "shop/t", "shop"
		seen := &sight{targets: []Target{{Workload: "shop/other"}, c.target}, pods: []*pod{labelled("1", "a"), labelled("2", "a"), labelled("3", "b")}}
		said := make([]nodescaler.Pod, len(c.before))
		var got []string
		for i := range said {
			said[i].Workload = c.before[i]
		}
		adopt(seen, said)
		for i := range said {
			got = append(got, said[i].Workload)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.name, diff)
		}
	}
}

func TestNothingIsReadBeforeThereIsAPicture(t *testing.T) {
	c := (&site{answer: func(w http.ResponseWriter, _ *http.Request) { deny(w, metav1.Status{Code: 503}) }}).port(t, Active)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := c.Synced(ctx); !errors.Is(err, ErrStale) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("synced: %v", err)
	}
	_, observed := c.Observe(t.Context())
	_, targets := c.Targets(t.Context())
	_, autoscalers := c.Autoscalers()
	_, nodes := c.Nodes(t.Context())
	for what, err := range map[string]error{"observed": observed, "targets": targets, "autoscalers": autoscalers, "nodes": nodes} {
		if !errors.Is(err, ErrStale) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// BenchmarkLook is one look at a large cluster: 1,000 nodes, 30,000 pods, 200 autoscalers.
func BenchmarkLook(b *testing.B) {
	c := still(b)
	const nodeCount, podCount, workloads = 1000, 30_000, 200
	replicas := int32(podCount / workloads)
	for i := range nodeCount {
		o, _ := keepNode(object[corev1.Node](b, fmt.Sprintf(`{metadata: {name: n-%04d, labels: {plimsoll.dev/pool: workers, kubernetes.io/hostname: n-%04d}},
  status: {allocatable: {cpu: "8", memory: 32Gi, pods: "110"}, conditions: [{type: Ready, status: "True"}]}}`, i, i)))
		c.holds(b, nodes, o)
	}
	for i := range workloads {
		name := fmt.Sprintf("w-%03d", i)
		m := something("Deployment", name, metav1.ObjectMeta{})
		c.holds(b, deployments, keepScale(&m, "Deployment", &replicas, &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}))
		c.holds(b, owners, &metav1.PartialObjectMetadata{ObjectMeta: something("ReplicaSet", name+"-1", controlledBy("apps/v1", "Deployment", name))})
		c.holds(b, autoscalers, autoscaler(name, v1alpha1.ModeActive))
	}
	for i := range podCount {
		p := anyPod(b, i)
		p.OwnerReferences = controlledBy("apps/v1", "ReplicaSet", fmt.Sprintf("w-%03d-1", i%workloads)).OwnerReferences
		p.Spec.NodeName = fmt.Sprintf("n-%04d", i%nodeCount)
		o := must.Get(keepPod(p))(b)
		c.holds(b, pods, o)
	}
	b.ReportAllocs()
	for b.Loop() {
		if s := c.look(b.Context()); len(s.Pods) != podCount || len(s.Replicas) != workloads || s.Pods[0].Workload == "" {
			b.Fatal("not all is seen")
		}
	}
}
