package sight

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/written"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// The budgets of a pod are those of its namespace whose selector matches it, however they are
// found.
func TestBudgetsOfAPodAreThoseThatMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom([]string{"a", "b", "c"})
		var all []*kept.Disruption
		for i := range rapid.IntRange(0, 6).Draw(t, "budgets") {
			s := metav1.LabelSelector{}
			for range rapid.IntRange(0, 2).Draw(t, "requirements") {
				key, values := word.Draw(t, "key"), rapid.SliceOfNDistinct(word, 1, 2, rapid.ID[string]).Draw(t, "values")
				switch op := rapid.SampledFrom([]metav1.LabelSelectorOperator{"", metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists}).Draw(t, "operator"); op {
				case "":
					s.MatchLabels = map[string]string{key: values[0]}
				case metav1.LabelSelectorOpExists:
					s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: op})
				default:
					s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: op, Values: values})
				}
			}
			selector := must.Get(metav1.LabelSelectorAsSelector(&s))(t)
			d := &kept.Disruption{Selector: selector}
			d.Namespace, d.Name = word.Draw(t, "namespace"), fmt.Sprint(i)
			all = append(all, d)
		}
		p := &kept.Pod{}
		p.Namespace, p.Labels = word.Draw(t, "the pod's"), rapid.MapOf(word, word).Draw(t, "labels")
		var want []int
		for i, d := range all {
			if d.Namespace == p.Namespace && d.Selector.Matches(labels.Set(p.Labels)) {
				want = append(want, i)
			}
		}
		if got := newCovers(all).of(p, nil); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func TestBudgetsAreShared(t *testing.T) {
	aBudget := func(name string, allowed int, selector string) *kept.Disruption {
		o := must.Get(kept.Keep(written.Object[policyv1.PodDisruptionBudget](t, `{metadata: {namespace: shop, name: `+name+`}, spec: {selector: `+selector+`},
  status: {disruptionsAllowed: `+strconv.Itoa(allowed)+`}}`)))(t)
		return o.(*kept.Disruption)
	}
	aPod := func(name, workload, labels string) (*kept.Pod, nodescaler.Pod) {
		p := kept.ShortPod(written.Object[corev1.Pod](t, `{metadata: {namespace: shop, name: `+name+`, labels: `+labels+`, `+written.Owned+`}}`))
		said := p.Says()
		said.Workload = workload
		return p, said
	}
	o, _ := kept.Keep(written.Object[policyv1.PodDisruptionBudget](t, `{metadata: {namespace: shop, name: d, generation: 2}, spec: {selector: {}}, status: {disruptionsAllowed: 5, observedGeneration: 1}}`))
	outdated := o.(*kept.Disruption)
	for _, c := range []struct {
		name   string
		all    []*kept.Disruption
		want   []nodescaler.Budget
		pinned string
	}{
		{name: "none", want: []nodescaler.Budget{}},
		{name: "on one workload", all: []*kept.Disruption{aBudget("b", 2, `{matchLabels: {app: a}}`)}, want: []nodescaler.Budget{{Workload: "a", Allowed: 2}}},
		{name: "on part of one", all: []*kept.Disruption{aBudget("b", 2, `{matchLabels: {app: a, v: "1"}}`)}, want: []nodescaler.Budget{{Workload: "a", Allowed: 2}}},
		{name: "on two", all: []*kept.Disruption{aBudget("b", 2, `{matchExpressions: [{key: app, operator: Exists}]}`)}, want: []nodescaler.Budget{{Workload: "a", Allowed: 1}, {Workload: "b", Allowed: 1}}},
		{name: "on two, used up", all: []*kept.Disruption{aBudget("b", 0, `{}`)}, want: []nodescaler.Budget{{Workload: "a"}, {Workload: "b"}}},
		{name: "on two parts of one", all: []*kept.Disruption{aBudget("b", 3, `{matchLabels: {app: a, v: "1"}}`), aBudget("c", 1, `{matchLabels: {app: a, v: "2"}}`)}, want: []nodescaler.Budget{{Workload: "a", Allowed: 1}}},
		{name: "twice on one pod", all: []*kept.Disruption{aBudget("b", 3, `{matchLabels: {app: b}}`), aBudget("c", 2, `{matchLabels: {app: b}}`)}, want: []nodescaler.Budget{{Workload: "b", Allowed: 2}},
			pinned: "covered by two disruption budgets, b and c: the API server evicts no such pod"},
		{name: "without a selector", all: []*kept.Disruption{aBudget("b", 3, `null`)}, want: []nodescaler.Budget{}},
		{name: "whose number is old", all: []*kept.Disruption{outdated}, want: []nodescaler.Budget{{Workload: "a"}, {Workload: "b"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var all []*kept.Pod
			var said []nodescaler.Pod
			for _, p := range [][3]string{{"a-1", "a", `{app: a, v: "1"}`}, {"a-2", "a", `{app: a, v: "2"}`}, {"b-1", "b", `{app: b}`}} {
				k, s := aPod(p[0], p[1], p[2])
				all, said = append(all, k), append(said, s)
			}
			elsewhere := kept.ShortPod(written.Object[corev1.Pod](t, `{metadata: {namespace: other, name: a, labels: {app: a}}}`))
			all, said = append(all, elsewhere), append(said, elsewhere.Says())
			if diff := cmp.Diff(c.want, budgets(c.all, all, said)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if said[2].Pinned != c.pinned {
				t.Errorf("pinned %q, want %q", said[2].Pinned, c.pinned)
			}
		})
	}
}

// The API server evicts pods that do not serve past a budget that has nothing left: those that wait
// for their containers always, others as the budget says.
func TestPodsThatDoNotServeMayGoPastTheirBudget(t *testing.T) {
	healthy, unhealthy := "currentHealthy: 2, desiredHealthy: 2", "currentHealthy: 1, desiredHealthy: 2"
	const waits, crashes, serves = "phase: Pending", "phase: Running", `phase: Running, conditions: [{type: Ready, status: "True"}]`
	for _, c := range []struct {
		name, policy, status, pod string
		want                      bool
	}{
		{name: "it serves", status: healthy, pod: serves},
		{name: "it serves, and others always may", policy: "AlwaysAllow", status: healthy, pod: serves},
		{name: "enough others are healthy", status: healthy, pod: crashes, want: true},
		{name: "too few others are", status: unhealthy, pod: crashes},
		{name: "none is wanted", status: "currentHealthy: 0, desiredHealthy: 0", pod: crashes},
		{name: "it always may", policy: "AlwaysAllow", status: unhealthy, pod: crashes, want: true},
		{name: "if the budget is healthy, and it is not", policy: "IfHealthyBudget", status: unhealthy, pod: crashes},
		{name: "the status is old", status: healthy + ", observedGeneration: 1", pod: crashes},
		{name: "it waits for its containers", status: unhealthy, pod: waits, want: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			policy := ""
			if c.policy != "" {
				policy = ", unhealthyPodEvictionPolicy: " + c.policy
			}
			generation := "2"
			if !strings.Contains(c.status, "observedGeneration") {
				generation = "0"
			}
			o := must.Get(kept.Keep(written.Object[policyv1.PodDisruptionBudget](t, `{metadata: {namespace: shop, name: b, generation: `+generation+`}, spec: {selector: {}`+policy+`}, status: {`+c.status+`}}`)))(t)
			p := kept.ShortPod(written.Object[corev1.Pod](t, `{metadata: {namespace: shop, name: a, `+written.Owned+`}, status: {`+c.pod+`}}`))
			said := []nodescaler.Pod{p.Says()}
			budgets([]*kept.Disruption{o.(*kept.Disruption)}, []*kept.Pod{p}, said)
			if said[0].Unbudgeted != c.want {
				t.Errorf("may go past its budget: %t, want %t", said[0].Unbudgeted, c.want)
			}
		})
	}
}
