package kubesim

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
)

// write carries out what changes objects. The caller holds the lock.
func (s *Server) write(q *request) answer {
	switch {
	case q.method == http.MethodPost && q.sub == "eviction":
		return s.evict(q)
	case q.method == http.MethodPost && q.name == "":
		return s.create(q)
	case q.method == http.MethodPut && q.name != "":
		return s.update(q)
	case q.method == http.MethodPatch && q.name != "":
		return s.patch(q)
	case q.method == http.MethodDelete && q.name != "" && q.sub == "":
		return s.remove(q)
	}
	return failed(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "%s is not allowed here", q.method)
}

func (q *request) read() (map[string]any, error) {
	raw := map[string]any{}
	err := json.Unmarshal(q.body, &raw)
	return normal(raw), err
}

func (s *Server) create(q *request) answer {
	raw, err := q.read()
	if err != nil {
		return failed(http.StatusBadRequest, metav1.StatusReasonBadRequest, "%v", err)
	}
	m := metaOf(raw)
	q.name, _ = m["name"].(string)
	switch {
	case q.name == "":
		return failed(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "metadata.name: required")
	case q.table.objects[q.key()] != nil:
		return failed(http.StatusConflict, metav1.StatusReasonAlreadyExists, "%s %q already exists", q.table.id(), q.name)
	}
	if q.namespace != "" {
		m["namespace"] = q.namespace
	}
	delete(m, "uid")
	own(raw, nil, q.get("fieldManager"), "")
	return answer{code: http.StatusCreated, body: s.put(q.table, q.key(), raw).text}
}

// meant returns an answer if metadata that a client sent is not that of the object that is there.
func (q *request) meant(is *object, sent map[string]any) *answer {
	m := metaOf(is.raw)
	for _, key := range []string{"uid", "resourceVersion"} {
		if v, _ := sent[key].(string); v != "" && v != m[key] {
			a := q.conflict(fmt.Sprintf("the %s is %v, and was to be %s", key, m[key], v))
			return &a
		}
	}
	return nil
}

func (q *request) conflict(why string) answer {
	return failed(http.StatusConflict, metav1.StatusReasonConflict, "Operation cannot be fulfilled on %s %q: %s", q.table.id(), q.name, why)
}

func (s *Server) update(q *request) answer {
	is := q.table.objects[q.key()]
	if is == nil {
		return notFound(q)
	}
	raw, err := q.read()
	if err != nil {
		return failed(http.StatusBadRequest, metav1.StatusReasonBadRequest, "%v", err)
	}
	return s.replace(q, is, raw)
}

// replace stores what a client made of an object, or of its subresource.
func (s *Server) replace(q *request, is *object, raw map[string]any) answer {
	if a := q.meant(is, metaOf(raw)); a != nil {
		return *a
	}
	next := runtime.DeepCopyJSON(is.raw)
	switch q.sub {
	case "":
		status := next["status"]
		if next = raw; q.table.Status && status != nil {
			next["status"] = status
		} else if q.table.Status {
			delete(next, "status")
		}
		keepOrders(next, is.raw)
	case "status":
		next["status"] = raw["status"]
	case "scale":
		spec, _ := raw["spec"].(map[string]any)
		specOf(next)["replicas"] = number(spec["replicas"])
	case "resize":
		next["spec"] = raw["spec"]
	default:
		return failed(http.StatusNotFound, metav1.StatusReasonNotFound, "no subresource %s", q.sub)
	}
	own(next, is.raw, q.get("fieldManager"), q.sub)
	o := s.settle(q.table, q.key(), next)
	if q.sub == "scale" {
		return answered(http.StatusOK, scaleOf(o))
	}
	return answer{code: http.StatusOK, body: o.text}
}

// keepOrders keeps what a client cannot take back: that an object is to be deleted.
func keepOrders(next, was map[string]any) {
	for _, key := range []string{"deletionTimestamp", "deletionGracePeriodSeconds"} {
		delete(metaOf(next), key)
		if v := metaOf(was)[key]; v != nil {
			metaOf(next)[key] = v
		}
	}
}

// settle stores an object, or removes it if it waited for its last finalizer.
func (s *Server) settle(t *table, key string, raw map[string]any) *object {
	m := metaOf(raw)
	_, graceful := m["deletionGracePeriodSeconds"]
	if before := metaOf(t.objects[key].raw); len(finalizers(before)) > 0 && len(finalizers(m)) == 0 && m["deletionTimestamp"] != nil && !graceful {
		s.erase(t, key)
		return newObject(key, s.version, raw)
	}
	return s.put(t, key, raw)
}

func finalizers(m map[string]any) []any {
	all, _ := m["finalizers"].([]any)
	return all
}

func specOf(raw map[string]any) map[string]any {
	spec, ok := raw["spec"].(map[string]any)
	if !ok {
		spec = map[string]any{}
		raw["spec"] = spec
	}
	return spec
}

// scaleOf is an object's scale.
func scaleOf(o *object) map[string]any {
	m, spec := metaOf(o.raw), specOf(runtime.DeepCopyJSON(o.raw))
	replicas := int64(1)
	if n, ok := spec["replicas"]; ok {
		replicas = number(n)
	}
	status, _ := o.raw["status"].(map[string]any)
	is := map[string]any{"replicas": number(status["replicas"])}
	if selector, ok := spec["selector"].(map[string]any); ok {
		var of metav1.LabelSelector
		if runtime.DefaultUnstructuredConverter.FromUnstructured(selector, &of) == nil {
			is["selector"] = metav1.FormatLabelSelector(&of)
		}
	}
	meta := map[string]any{}
	for _, key := range []string{"name", "namespace", "uid", "resourceVersion", "creationTimestamp"} {
		if v, ok := m[key]; ok {
			meta[key] = v
		}
	}
	return map[string]any{
		"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": meta, "spec": map[string]any{"replicas": replicas}, "status": is,
	}
}

// own notes who wrote the replicas of an object.
func own(next, was map[string]any, manager, sub string) {
	replicas := specOf(runtime.DeepCopyJSON(next))["replicas"]
	if was != nil && equal(replicas, specOf(runtime.DeepCopyJSON(was))["replicas"]) || replicas == nil || manager == "" {
		if was != nil && metaOf(was)["managedFields"] != nil {
			metaOf(next)["managedFields"] = metaOf(was)["managedFields"]
		}
		return
	}
	entry := map[string]any{
		"manager": manager, "operation": "Update", "apiVersion": next["apiVersion"], "time": time.Now().UTC().Format(time.RFC3339),
		"fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": map[string]any{"f:replicas": map[string]any{}}},
	}
	if sub != "" {
		entry["subresource"] = sub
	}
	metaOf(next)["managedFields"] = []any{entry}
}

// The types of patches.
const (
	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
	applyPatch     = "application/apply-patch+yaml"
)

func (s *Server) patch(q *request) answer {
	is := q.table.objects[q.key()]
	if is == nil {
		return notFound(q)
	}
	change, err := q.read()
	if err != nil {
		return failed(http.StatusBadRequest, metav1.StatusReasonBadRequest, "%v", err)
	}
	if a := q.meant(is, metaOf(change)); a != nil {
		return *a
	}
	raw := runtime.DeepCopyJSON(is.raw)
	if q.sub == "scale" {
		raw = scaleOf(is)
	}
	switch {
	case q.patch == mergePatch:
		merge(raw, change)
	case q.patch == strategicPatch && !q.table.Custom:
		raw, err = q.table.mergeStrategic(raw, change)
	case q.patch == applyPatch && q.sub == "status":
		raw["status"] = change["status"]
	default:
		return failed(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, "no patch of type %s here", q.patch)
	}
	if err != nil {
		return failed(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "%v", err)
	}
	return s.replace(q, is, raw)
}

// merge changes an object as RFC 7386 says.
func merge(raw, change map[string]any) {
	for key, v := range change {
		inner, deep := v.(map[string]any)
		switch {
		case v == nil:
			delete(raw, key)
		case deep:
			is, ok := raw[key].(map[string]any)
			if !ok {
				is = map[string]any{}
			}
			merge(is, inner)
			raw[key] = is
		default:
			raw[key] = v
		}
	}
}

func (t *table) mergeStrategic(raw, change map[string]any) (map[string]any, error) {
	of, err := scheme.Scheme.New(schema.GroupVersionKind{Group: t.Group, Version: t.Version, Kind: t.Name})
	if err != nil {
		return nil, err
	}
	return strategicpatch.StrategicMergeMapPatch(raw, change, of)
}

func (s *Server) remove(q *request) answer {
	is := q.table.objects[q.key()]
	if is == nil {
		return notFound(q)
	}
	var how metav1.DeleteOptions
	if len(q.body) > 0 {
		if err := json.Unmarshal(q.body, &how); err != nil {
			return failed(http.StatusBadRequest, metav1.StatusReasonBadRequest, "%v", err)
		}
	}
	return s.leave(q, is, &how)
}

// leave deletes an object, or has it wait for its grace period and its finalizers.
func (s *Server) leave(q *request, is *object, how *metav1.DeleteOptions) answer {
	m := maps.Clone(metaOf(is.raw))
	if p := how.Preconditions; p != nil {
		sent := map[string]any{}
		if p.UID != nil {
			sent["uid"] = string(*p.UID)
		}
		if p.ResourceVersion != nil {
			sent["resourceVersion"] = *p.ResourceVersion
		}
		if a := q.meant(is, sent); a != nil {
			return *a
		}
	}
	done := status(http.StatusOK, "", "")
	done.Status = metav1.StatusSuccess
	if m["deletionTimestamp"] != nil {
		return answered(http.StatusOK, done)
	}
	grace := graceOf(q.table, is, how)
	if grace == 0 && len(finalizers(m)) == 0 {
		s.erase(q.table, is.key)
		return answered(http.StatusOK, done)
	}
	raw := runtime.DeepCopyJSON(is.raw)
	metaOf(raw)["deletionTimestamp"] = time.Now().Add(time.Duration(grace) * time.Second).UTC().Format(time.RFC3339)
	if grace > 0 {
		metaOf(raw)["deletionGracePeriodSeconds"] = grace
	}
	s.put(q.table, is.key, raw)
	return answered(http.StatusOK, done)
}

// graceOf is how many seconds an object has before it goes: pods on a node alone have any.
func graceOf(t *table, is *object, how *metav1.DeleteOptions) int64 {
	spec, _ := is.raw["spec"].(map[string]any)
	if node, _ := spec["nodeName"].(string); t.id() != "pods" || node == "" {
		return 0
	}
	if how.GracePeriodSeconds != nil {
		return *how.GracePeriodSeconds
	}
	if n, ok := spec["terminationGracePeriodSeconds"]; ok {
		return number(n)
	}
	return 30
}
