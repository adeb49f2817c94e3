package kube

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// affinity reads the required node affinity. No node meets an invalid term, as in the scheduler, so
// it is dropped.
func affinity(required *corev1.NodeSelector) nodescaler.Affinity {
	terms := make(nodescaler.Affinity, 0, len(required.NodeSelectorTerms))
	for i := range required.NodeSelectorTerms {
		t := &required.NodeSelectorTerms[i]
		term := make(nodescaler.Term, 0, len(t.MatchExpressions)+len(t.MatchFields))
		valid := true
		for j := range t.MatchExpressions {
			r := requirement(&t.MatchExpressions[j])
			term, valid = append(term, r), valid && r.Key != nodescaler.NameField && means(&r)
		}
		for j := range t.MatchFields {
			r := requirement(&t.MatchFields[j])
			one := len(r.Values) == 1 && (r.Operator == nodescaler.In || r.Operator == nodescaler.NotIn)
			term, valid = append(term, r), valid && one && r.Key == nodescaler.NameField
		}
		if valid && len(term) > 0 {
			terms = append(terms, term)
		}
	}
	return terms
}

// labelled reads the preferred node affinity.
func labelled(p *corev1.Pod) (all []nodescaler.Preference) {
	if p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil {
		return nil
	}
	for _, t := range p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		is := affinity(&corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{t.Preference}})
		if len(is) > 0 && t.Weight > 0 {
			all = append(all, nodescaler.Preference{Weight: int(t.Weight), Affinity: is})
		}
	}
	return all
}

func requirement(e *corev1.NodeSelectorRequirement) nodescaler.Requirement {
	r := nodescaler.Requirement{Key: text(e.Key), Operator: nodescaler.Operator(text(string(e.Operator)))}
	for _, value := range e.Values {
		r.Values = append(r.Values, text(value))
	}
	slices.Sort(r.Values)
	return r
}

// means reports whether the number and the kind of the requirement's values suit its operator.
func means(r *nodescaler.Requirement) bool {
	switch r.Operator {
	case nodescaler.In, nodescaler.NotIn:
		return len(r.Values) > 0
	case nodescaler.Exists, nodescaler.DoesNotExist:
		return len(r.Values) == 0
	case nodescaler.Gt, nodescaler.Lt:
		if len(r.Values) != 1 {
			return false
		}
		_, err := strconv.ParseInt(r.Values[0], 10, 64)
		return err == nil
	}
	return false
}
