package sight

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/targets"
)

func TestPodsBelongToTheNearestOwnerThatIsScaled(t *testing.T) {
	of := &Lists{Scaled: []*kept.Scaled{
		{ObjectMeta: named("Deployment", "web", metav1.ObjectMeta{})},
		{ObjectMeta: named("Deployment", "part", ownedBy("example.com/v1", "Website", "site"))},
	}}
	for _, rs := range []struct {
		name string
		of   metav1.ObjectMeta
	}{
		{"web-1", ownedBy("apps/v1", "Deployment", "web")}, {"part-1", ownedBy("apps/v1", "Deployment", "part")},
		{"roll-1", ownedBy("argoproj.io/v1alpha1", "Rollout", "roll")}, {"alone", metav1.ObjectMeta{}}, {"loop", ownedBy("apps/v1", "ReplicaSet", "loop")},
	} {
		of.Owners = append(of.Owners, &metav1.PartialObjectMetadata{ObjectMeta: named("ReplicaSet", rs.name, rs.of)})
	}
	all := []targets.Target{
		{Workload: "shop/site-scaler", Ref: kept.Refer("shop", "example.com/v2", "Website", "site")},
		{Workload: "shop/web-scaler", Ref: kept.Refer("shop", "apps/v1", "Deployment", "web")},
	}
	whose := newGenealogy(of, all)
	for _, w := range []struct {
		name, want string
		of         metav1.ObjectMeta
	}{
		{"of a Deployment that is scaled", "shop/web-scaler", ownedBy("apps/v1", "ReplicaSet", "web-1")},
		{"of a Deployment of something that is scaled", "shop/site-scaler", ownedBy("apps/v1", "ReplicaSet", "part-1")},
		{"of a Rollout that no autoscaler scales", "shop/Rollout/roll", ownedBy("argoproj.io/v1alpha1", "ReplicaSet", "roll-1")},
		{"of a ReplicaSet alone", "shop/ReplicaSet/alone", ownedBy("apps/v1", "ReplicaSet", "alone")},
		{"of a StatefulSet that is not there", "shop/StatefulSet/db", ownedBy("apps/v1", "StatefulSet", "db")},
		{"of owners that own one another", "shop/ReplicaSet/loop", ownedBy("apps/v1", "ReplicaSet", "loop")},
		{"bare", "", metav1.ObjectMeta{}},
	} {
		for range 2 { // found, and remembered
			if got := whose.workload(&kept.Pod{ObjectMeta: w.of}); got != w.want {
				t.Errorf("%s: %q, want %q", w.name, got, w.want)
			}
		}
	}
}

func TestPodsThatNoOwnerLeadsToAreFoundByLabels(t *testing.T) {
	labelled := func(name, app string) *kept.Pod {
		return &kept.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": app}}}
	}
	for _, c := range []struct {
		name   string
		target targets.Target
		before []string
		want   []string
	}{
		{"one that its pods say nothing of", targets.Target{Known: true, Selector: "app=a"}, []string{"", "shop/Thing/x", ""}, []string{"shop/t", "shop/t", ""}},
		{"one that owners lead to", targets.Target{Known: true, Selector: "app=a"}, []string{"", "shop/t", ""}, []string{"", "shop/t", ""}},
		{"pods of another target", targets.Target{Known: true, Selector: "app=a"}, []string{"shop/other", "", ""}, []string{"shop/other", "shop/t", ""}},
		{"one of a watched kind", targets.Target{Known: true, Selector: "app=a", Watched: true}, []string{"", "", ""}, []string{"", "", ""}},
		{"without a selector", targets.Target{Known: true}, []string{"", "", ""}, []string{"", "", ""}},
	} {
		c.target.Workload, c.target.Ref.Namespace = "shop/t", "shop"
		seen := &Sight{Targets: []targets.Target{{Workload: "shop/other"}, c.target}, pods: []*kept.Pod{labelled("1", "a"), labelled("2", "a"), labelled("3", "b")}}
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

func ownedBy(apiVersion, kind, name string) metav1.ObjectMeta {
	yes := true
	return metav1.ObjectMeta{Namespace: "shop", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(kind + "-" + name), Controller: &yes},
	}}
}

// named has the metadata be of an object.
func named(kind, name string, m metav1.ObjectMeta) metav1.ObjectMeta {
	m.Namespace, m.Name, m.UID = "shop", name, types.UID(kind+"-"+name)
	return m
}
