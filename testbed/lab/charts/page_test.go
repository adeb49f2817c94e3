//go:build lab

package charts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/labtest"
	"github.com/plimsoll/plimsoll/testbed/lab/product"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// readers are the service accounts of namespace shop, each with the ClusterRole of its name there.
// The stranger has none, and the owner is the cluster's administrator.
const readers = `{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: stranger, namespace: shop}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: owner, namespace: shop}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: owner}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin},
  subjects: [{kind: ServiceAccount, name: owner, namespace: shop}]}
`

const reader = `---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: %[1]s, namespace: shop}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: %[1]s, namespace: shop}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s},
  subjects: [{kind: ServiceAccount, name: %[1]s, namespace: shop}]}
`

// asking is a workload that has too few replicas, and asks before it gets more.
const asking = `---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: %[1]s, namespace: shop}, spec: {replicas: 1, selector: {matchLabels: {app: %[1]s}},
  template: {metadata: {labels: {app: %[1]s}}, spec: {containers: [{name: a, image: example.com/a, resources: {requests: {cpu: 100m, memory: 64Mi}}}]}}}}
---
{apiVersion: plimsoll.dev/v1alpha1, kind: WorkloadAutoscaler, metadata: {name: %[1]s, namespace: shop}, spec: {mode: Approve, policy: HPA, minReplicas: 3, maxReplicas: 5, runPeriod: 5s,
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: %[1]s}}}
`

// Readers of the page do by tokens of their own what the chart's roles let them, and no more. The
// API server decides, and its audit log says who wrote: it was never Plimsoll.
func TestReadersOfThePageDoWhatTheirRolesLetThem(t *testing.T) {
	at := must.Get(lab.FreeAddress())(t)
	w := newWorld(t, &product.Part{Program: labtest.Program(t), Settings: map[string]any{"mode": "Active", "interval": "1s", "dashboard": at}})
	p := &page{w, "http://" + at, map[string]string{"anonymous": "", "forger": "eyJhbGciOiJSUzI1NiJ9.e30.AA"}}
	w.apply(w.shown("active"))
	roles := []string{"view", "edit", "admin", "plimsoll-approve"}
	text := readers
	for _, role := range roles {
		text += fmt.Sprintf(reader, role)
	}
	w.apply(text + fmt.Sprintf(asking, "web") + fmt.Sprintf(asking, "db") + "---\n" + w.file("api/v1alpha1/testdata/accepted/vmp-minimal.yaml"))
	for _, role := range append(roles, "stranger", "owner") {
		p.tokens[role] = w.token(role)
	}
	w.until(func() error { return w.aggregated() })

	const web, pool = `"kind":"WorkloadAutoscaler","namespace":"shop","name":"web"`, `"kind":"VMPool","name":"web"`
	const list = `{"action":"list","kind":"ScalingProposal","namespace":"shop"}`
	asked := p.proposals(list)
	grow := func(action, workload string) string {
		return fmt.Sprintf(`{"action":%q,"kind":"ScalingProposal","namespace":"shop","name":%q}`, action, asked[workload])
	}
	for _, c := range []struct {
		who, does string
		code      int
		says      string
	}{
		{"anonymous", `{"action":"pause",` + web + `}`, 401, "must be Bearer and a token"},
		{"anonymous", list, 401, "must be Bearer and a token"},
		{"forger", `{"action":"pause",` + web + `}`, 401, "the cluster does not know this token"},
		{"stranger", list, 403, "shop:stranger may not list them in shop"},
		{"stranger", `{"action":"pause",` + web + `}`, 403, "may not patch it"},
		{"stranger", `{"action":"pause",` + pool + `}`, 403, "may not patch it"},
		{"stranger", grow("approve", "web"), 403, "may not patch it"},
		{"view", list, 200, asked["web"]},
		{"view", `{"action":"list","kind":"ScalingProposal"}`, 403, "a namespace may be named"},
		{"view", `{"action":"resume",` + web + `}`, 403, "may not patch it"},
		{"view", `{"action":"pause",` + pool + `}`, 403, "may not patch it"},
		{"view", grow("reject", "web"), 403, "may not patch it"},
		{"edit", `{"action":"pause",` + web + `,"for":"2h"}`, 200, `"by":"system:serviceaccount:shop:edit"`},
		{"edit", `{"action":"resume",` + web + `}`, 200, `"mode":"Approve"`},
		{"edit", `{"action":"pause","kind":"WorkloadAutoscaler","namespace":"default","name":"web"}`, 403, "may not patch it"},
		{"edit", `{"action":"pause",` + pool + `}`, 403, "may not patch it"},
		{"edit", grow("approve", "web"), 403, "may not patch it"},
		{"plimsoll-approve", `{"action":"pause",` + web + `}`, 403, "may not patch it"},
		{"plimsoll-approve", grow("reject", "db"), 200, `"by":"system:serviceaccount:shop:plimsoll-approve"`},
		{"admin", `{"action":"pause",` + pool + `}`, 403, "may not patch it"},
		{"admin", grow("approve", "web"), 200, `"by":"system:serviceaccount:shop:admin"`},
		{"admin", grow("reject", "web"), 409, "by system:serviceaccount:shop:admin"},
		{"owner", `{"action":"pause",` + pool + `}`, 200, `"by":"system:serviceaccount:shop:owner"`},
		{"owner", `{"action":"list","kind":"ScalingProposal"}`, 200, `[]`},
	} {
		if code, said := p.act(c.who, c.does); code != c.code || !strings.Contains(said, c.says) {
			t.Errorf("%s: %s: %d %s, want %d with %q", c.who, c.does, code, said, c.code, c.says)
		}
	}
	want := []string{
		"edit workloadautoscalers/web", "edit workloadautoscalers/web", "plimsoll-approve scalingproposals/" + asked["db"],
		"admin scalingproposals/" + asked["web"], "owner vmpools/web",
	}
	if diff := cmp.Diff(want, w.writtenByReaders()); diff != "" {
		t.Errorf("who wrote what (-want +got):\n%s", diff)
	}
	w.until(func() error { // what was approved is done, and what was rejected is not
		d, err := w.client.AppsV1().Deployments("shop").Get(t.Context(), "web", metav1.GetOptions{})
		if err == nil && *d.Spec.Replicas != 3 {
			err = fmt.Errorf("web has %d replicas", *d.Spec.Replicas)
		}
		return err
	})
	if d, err := w.client.AppsV1().Deployments("shop").Get(t.Context(), "db", metav1.GetOptions{}); err != nil || *d.Spec.Replicas != 1 {
		t.Errorf("db: %v, %v", d.Spec.Replicas, err)
	}
}

// token is a token of a service account of shop, as kubectl create token prints one.
func (w *world) token(account string) string {
	w.Helper()
	got, err := w.client.CoreV1().ServiceAccounts("shop").CreateToken(w.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return got.Status.Token
}

// aggregated reports whether the controllers have added the chart's roles to Kubernetes' own.
func (w *world) aggregated() error {
	for role, has := range map[string]string{"view": "vmpools", "edit": "workloadautoscalers", "admin": "scalingproposals"} {
		got, err := w.client.RbacV1().ClusterRoles().Get(w.Context(), role, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(got.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, has) }) {
			return fmt.Errorf("ClusterRole %s has nothing about %s", role, has)
		}
	}
	return nil
}

// writtenByReaders are the writes by the page's actions that the API server took, in their order.
func (w *world) writtenByReaders() (all []string) {
	w.Helper()
	f := must.Get(os.Open(w.lab.AuditLog()))(w)
	defer f.Close() //nolint:errcheck // it was read
	for d := json.NewDecoder(f); ; {
		var r struct {
			RequestURI     string
			User           struct{ Username string }
			ObjectRef      struct{ Resource, Name string }
			ResponseStatus struct{ Code int }
		}
		if err := d.Decode(&r); err != nil { // at the end, or at a line that is being written
			return all
		}
		by := strings.Contains(r.RequestURI, "fieldManager=plimsoll-pause") || strings.Contains(r.RequestURI, "fieldManager=plimsoll-approve")
		if by && r.ResponseStatus.Code == http.StatusOK {
			all = append(all, strings.TrimPrefix(r.User.Username, "system:serviceaccount:shop:")+" "+r.ObjectRef.Resource+"/"+r.ObjectRef.Name)
		}
	}
}

// page is the page of a Plimsoll that runs, and the tokens of its readers.
type page struct {
	*world
	url    string
	tokens map[string]string
}

// act asks for an action as the page does.
func (p *page) act(who, action string) (code int, said string) {
	p.Helper()
	r, err := http.NewRequestWithContext(p.Context(), http.MethodPost, p.url+"/api/v1/actions", strings.NewReader(action))
	if err != nil {
		p.Fatal(err)
	}
	r.Header.Set("Origin", p.url)
	r.Header.Set("Content-Type", "application/json")
	if token := p.tokens[who]; token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		p.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck // it was read
	text := must.Get(io.ReadAll(answer.Body))(p)
	return answer.StatusCode, string(text)
}

// proposals waits until both workloads ask, and returns the names of their proposals. The records
// are shown to all who reach the page, without a token.
func (p *page) proposals(list string) map[string]string {
	p.Helper()
	asked := map[string]string{}
	p.until(func() error {
		code, said := p.act("view", list)
		var all []v1alpha1.ScalingProposal
		if code != http.StatusOK || json.Unmarshal([]byte(said), &all) != nil {
			return fmt.Errorf("%d %s", code, said)
		}
		for i := range all {
			asked[all[i].Spec.Proposed.Object] = all[i].Name
		}
		if asked["web"] == "" || asked["db"] == "" {
			return errors.New("not both workloads ask: " + said)
		}
		return nil
	})
	answer, err := http.Get(p.url + "/api/v1/record")
	if err != nil {
		p.Fatal(err)
	}
	_ = answer.Body.Close() // its status says it all
	if answer.StatusCode != http.StatusOK {
		p.Errorf("the latest record without a token: %s", answer.Status)
	}
	return asked
}
