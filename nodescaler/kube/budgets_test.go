package kube

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"
)

// The budgets of a pod are those of its namespace whose selector matches it, however they are
// found.
func TestBudgetsOfAPodAreThoseThatMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom([]string{"a", "b", "c"})
		var all []*disruption
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
			selector, err := metav1.LabelSelectorAsSelector(&s)
			if err != nil {
				t.Fatal(err)
			}
			d := &disruption{selector: selector}
			d.Namespace, d.Name = word.Draw(t, "namespace"), fmt.Sprint(i)
			all = append(all, d)
		}
		p := &pod{}
		p.Namespace, p.Labels = word.Draw(t, "the pod's"), rapid.MapOf(word, word).Draw(t, "labels")
		var want []int
		for i, d := range all {
			if d.Namespace == p.Namespace && d.selector.Matches(labels.Set(p.Labels)) {
				want = append(want, i)
			}
		}
		if got := newCovers(all).of(p, nil); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}
