package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/steer"
	"github.com/plimsoll/plimsoll/dashboard"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// tokenAPI is an API server that knows users by their tokens, and lets each patch and list what its
// rights say: resources, with their namespaces where they have any.
type tokenAPI struct {
	*kubeAPI
	users  map[string]string   // by token
	rights map[string][]string // by user
}

func (a *tokenAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	user, known := a.users[token]
	w.Header().Set("Content-Type", "application/json")
	if !known {
		status(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
		return
	}
	switch path := r.URL.Path; {
	case r.Method == http.MethodPost && path == "/apis/authentication.k8s.io/v1/selfsubjectreviews":
		_ = json.NewEncoder(w).Encode(map[string]any{
			"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "status": map[string]any{"userInfo": map[string]any{"username": user}},
		})
	case r.Method == http.MethodPost && path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
		var review struct {
			Spec struct {
				ResourceAttributes struct{ Namespace, Resource, Verb, Group string }
			}
		}
		_ = json.NewDecoder(r.Body).Decode(&review)
		of := review.Spec.ResourceAttributes
		_ = json.NewEncoder(w).Encode(map[string]any{
			"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
			"status": map[string]any{"allowed": of.Group == "plimsoll.dev" && (of.Verb == "patch" || of.Verb == "list") && a.may(user, of.Resource, of.Namespace)},
		})
	default:
		_, namespace := everywhere(path)
		resource := strings.Split(strings.TrimPrefix(path[strings.Index(path, "v1alpha1/"):], "v1alpha1/"), "/")
		list := resource[len(resource)-1] == "scalingproposals"
		of := resource[max(0, len(resource)-2)]
		if list {
			of = "scalingproposals"
		}
		if !a.may(user, of, strings.TrimSuffix(namespace, "/")) {
			status(w, http.StatusForbidden, metav1.StatusReasonForbidden, user+" may not")
			return
		}
		if !list && a.ours(path) == nil {
			status(w, http.StatusNotFound, metav1.StatusReasonNotFound, path+" not found")
			return
		}
		r.Header.Set("Authorization", "Bearer secret")
		a.kubeAPI.ServeHTTP(w, r)
	}
}

func (a *tokenAPI) may(user, resource, namespace string) bool {
	for _, right := range a.rights[user] {
		if right == strings.TrimSuffix(resource+"/"+namespace, "/") {
			return true
		}
	}
	return false
}

const pausable = `apiVersion: plimsoll.dev/v1alpha1
kind: WorkloadAutoscaler
metadata: {name: web, namespace: shop}
spec: {mode: Active}
---
apiVersion: plimsoll.dev/v1alpha1
kind: VMPool
metadata: {name: worker}
spec: {mode: Active}
---
apiVersion: plimsoll.dev/v1alpha1
kind: ScalingProposal
metadata: {name: web-grow, namespace: shop}
spec: {proposed: {kind: WorkloadAutoscaler, object: web, does: Grow, what: grow shop/web from 2 to 5 replicas, until: "2026-06-01T07:00:00Z"}}
status: {phase: Open}
---
apiVersion: plimsoll.dev/v1alpha1
kind: ScalingProposal
metadata: {name: web-shrink, namespace: shop}
spec: {proposed: {kind: WorkloadAutoscaler, object: web, does: Shrink, what: shrink shop/web, until: "2026-06-01T05:00:00Z"}}
status: {phase: Open}
`

// TestActionsAreTheUsersOwn has users of the page pause, resume and answer by their tokens.
// Plimsoll's own token may do everything, and is never used.
func TestActionsAreTheUsersOwn(t *testing.T) {
	api := &tokenAPI{
		kubeAPI: must.Get(newKubeAPI(pausable))(t),
		users:   map[string]string{"t-plimsoll": "plimsoll", "t-ann": "ann", "t-ben": "ben", "t-eve": "eve", "t-sue": "sue"},
		rights: map[string][]string{
			"plimsoll": {"workloadautoscalers/shop", "vmpools"}, "ann": {"workloadautoscalers/shop"}, "ben": {"vmpools"}, "sue": {"scalingproposals/shop"},
		},
	}
	server := httptest.NewServer(api)
	defer server.Close()
	now := time.Date(2026, 6, 1, 6, 0, 0, 0, time.UTC)
	h := dashboard.New(dashboard.Small)
	h.Doors.Actions = steer.NewDoor(&rest.Config{Host: server.URL, BearerToken: "t-plimsoll"}, func() time.Time { return now })
	must.Do(t, h.Append(&loop.Step{ID: "d-000001", Time: now}))
	page := h.Handler(true)
	const web, worker = `"kind":"WorkloadAutoscaler","namespace":"shop","name":"web"`, `"kind":"VMPool","name":"worker"`
	const proposals, grow = `"kind":"ScalingProposal","namespace":"shop"`, `"kind":"ScalingProposal","namespace":"shop","name":"web-grow"`
	for _, c := range []struct {
		name, token, body string
		code              int
		want              string
	}{
		{"unknown token", "t-other", `{"action":"pause",` + web + `}`, 401, "does not know this token"},
		{"no rights", "t-eve", `{"action":"pause",` + web + `}`, 403, "eve may not patch it"},
		{"rights to something else", "t-ann", `{"action":"pause",` + worker + `}`, 403, "ann may not patch it"},
		{"another namespace", "t-ann", `{"action":"pause","kind":"WorkloadAutoscaler","namespace":"lab","name":"web"}`, 403, "ann may not"},
		{"pause", "t-ann", `{"action":"pause",` + web + `,"for":"2h"}`, 200, `"paused":"true","until":"2026-06-01T08:00:00Z","by":"ann"`},
		{"resume", "t-ann", `{"action":"resume",` + web + `}`, 200, `"name":"web","mode":"Active"}`},
		{"pause a pool", "t-ben", `{"action":"pause",` + worker + `}`, 200, `"paused":"true","by":"ben"`},
		{"not there", "t-ann", `{"action":"pause","kind":"WorkloadAutoscaler","namespace":"shop","name":"db"}`, 404, "not found"},
		{"another action", "t-ann", `{"action":"delete",` + web + `}`, 400, `action: must be pause, resume, list, approve or reject, was \"delete\"`},
		{"another kind", "t-ann", `{"action":"pause","kind":"Secret","namespace":"shop","name":"web"}`, 400, "kind: must be"},
		{"list, no rights", "t-ann", `{"action":"list",` + proposals + `}`, 403, "ann may not list them in shop"},
		{"list all, no rights", "t-sue", `{"action":"list","kind":"ScalingProposal"}`, 403, "sue may not list them in every namespace: no role allows it; a namespace may be named"},
		{"list", "t-sue", `{"action":"list",` + proposals + `}`, 200, `"what":"grow shop/web from 2 to 5 replicas"`},
		{"approve, no rights", "t-ann", `{"action":"approve",` + grow + `}`, 403, "ann may not patch it"},
		{"approve another kind", "t-ann", `{"action":"approve",` + web + `}`, 400, "kind: must be ScalingProposal to approve"},
		{"pause a proposal", "t-sue", `{"action":"pause",` + grow + `}`, 400, "kind: must be WorkloadAutoscaler or VMPool to pause"},
		{"approve what expired", "t-sue", `{"action":"approve",` + proposals + `,"name":"web-shrink"}`, 409, "web-shrink expired at 2026-06-01T05:00:00Z"},
		{"approve what is not there", "t-sue", `{"action":"approve",` + proposals + `,"name":"db-grow"}`, 404, "not found"},
		{"reject", "t-sue", `{"action":"reject",` + grow + `,"note":"it is a sale"}`, 200, `"approval":{"decision":"Rejected","by":"sue","note":"it is a sale"}`},
		{"approve what was rejected", "t-sue", `{"action":"approve",` + grow + `}`, 409, "web-grow is already Rejected, by sue"},
		{"list none", "t-sue", `{"action":"list",` + proposals + `}`, 200, `[]`},
		{"list one", "t-sue", `{"action":"list",` + grow + `}`, 400, "name: must be omitted with list"},
		{"a note of a pause", "t-ann", `{"action":"pause",` + web + `,"note":"it is a sale"}`, 400, "note: must be omitted with pause"},
		{"a time of an answer", "t-sue", `{"action":"reject",` + grow + `,"for":"2h"}`, 400, "for: must be omitted with reject"},
		{"a path", "t-ann", `{"action":"pause","kind":"VMPool","name":"../../api/v1/secrets"}`, 400, "name: "},
		{"an unknown key", "t-ann", `{"action":"pause",` + web + `,"token":"t-ann"}`, 400, "unknown field"},
		{"no time", "t-ann", `{"action":"pause",` + web + `,"for":"soon"}`, 400, "for: must be a duration"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/api/v1/actions", strings.NewReader(c.body))
			r.Header.Set("Origin", "http://127.0.0.1")
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", "Bearer "+c.token)
			w := httptest.NewRecorder()
			page.ServeHTTP(w, r)
			if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("%d %s, want %d with %q", w.Code, w.Body, c.code, c.want)
			}
			if c.code != 400 && strings.Contains(w.Body.String(), c.token) {
				t.Errorf("the token is in the answer: %s", w.Body)
			}
		})
	}
	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/api/v1/record", nil))
	if strings.Contains(w.Body.String(), "t-ann") {
		t.Errorf("the record has a token: %s", w.Body)
	}
	if ann := api.ours("/apis/plimsoll.dev/v1alpha1/namespaces/shop/workloadautoscalers/web").GetAnnotations(); len(ann) != 0 {
		t.Errorf("what was resumed has annotations: %v", ann)
	}
}
