package kubesim

import (
	"encoding/json"
	"net/http"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// evict deletes a pod, if its disruption budget allows it.
func (s *Server) evict(q *request) answer {
	is := q.table.objects[q.key()]
	if is == nil {
		return notFound(q)
	}
	var how policyv1.Eviction
	if err := json.Unmarshal(q.body, &how); err != nil {
		return failed(http.StatusBadRequest, metav1.StatusReasonBadRequest, "%v", err)
	}
	if how.DeleteOptions == nil {
		how.DeleteOptions = &metav1.DeleteOptions{}
	}
	if p := how.DeleteOptions.Preconditions; p != nil && p.UID != nil {
		if a := q.meant(is, map[string]any{"uid": string(*p.UID)}); a != nil {
			return *a
		}
	}
	if serving(is.raw) && metaOf(is.raw)["deletionTimestamp"] == nil {
		if a := s.takeFromBudgets(is); a != nil {
			return *a
		}
	}
	a := s.leave(q, is, how.DeleteOptions)
	if a.code == http.StatusOK {
		a.code = http.StatusCreated
	}
	return a
}

// serving reports whether a pod is ready.
func serving(raw map[string]any) bool {
	status, _ := raw["status"].(map[string]any)
	all, _ := status["conditions"].([]any)
	for _, v := range all {
		if c, _ := v.(map[string]any); c["type"] == "Ready" {
			return c["status"] == "True"
		}
	}
	return false
}

// takeFromBudgets takes one disruption from the pod's budget, or answers that it has no more.
func (s *Server) takeFromBudgets(pod *object) *answer {
	t := s.tables["poddisruptionbudgets.policy"]
	var of []*object
	for _, b := range t.sorted() {
		if metaOf(b.raw)["namespace"] == metaOf(pod.raw)["namespace"] && selects(specOf(runtime.DeepCopyJSON(b.raw))["selector"], labelsOf(metaOf(pod.raw))) {
			of = append(of, b)
		}
	}
	switch len(of) {
	case 0:
		return nil
	case 1:
	default:
		a := failed(http.StatusInternalServerError, metav1.StatusReasonInternalError, "This pod has more than one PodDisruptionBudget")
		return &a
	}
	raw := runtime.DeepCopyJSON(of[0].raw)
	st, _ := raw["status"].(map[string]any)
	if st == nil || number(st["observedGeneration"]) < number(metaOf(raw)["generation"]) || number(st["disruptionsAllowed"]) <= 0 {
		a := refused()
		return &a
	}
	st["disruptionsAllowed"] = number(st["disruptionsAllowed"]) - 1
	s.put(t, of[0].key, raw)
	return nil
}

func refused() answer {
	st := status(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "Cannot evict pod as it would violate the pod's disruption budget.")
	st.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget needs more healthy pods"}}
	return answered(http.StatusTooManyRequests, st)
}

func selects(selector any, of labels.Set) bool {
	raw, ok := selector.(map[string]any)
	if !ok {
		return false
	}
	var by metav1.LabelSelector
	if runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &by) != nil {
		return false
	}
	s, err := metav1.LabelSelectorAsSelector(&by)
	return err == nil && s.Matches(of)
}
