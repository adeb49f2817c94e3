//go:build lab

package charts

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// A real API server holds the account to what the admission policies say, where RBAC lets it do
// more.
func TestAPIServerHoldsTheAccountToWhatIsItsOwn(t *testing.T) {
	w := newWorld(t)
	w.helm("install", "plimsoll-crds", filepath.Join(root, "deploy/charts/plimsoll-crds"))
	values := filepath.Join(t.TempDir(), "values.yaml")
	text := `{mode: Active, proxmox: {createSecret: true, secret: {token: "plimsoll@pve!plimsoll=0"}},
		config: {owner: home, endpoints: ["https://pve1.example:8006"], handoff: {by: Placeholders}}}`
	if err := os.WriteFile(values, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.helm("install", "plimsoll", filepath.Join(root, "deploy/charts/plimsoll"), "--namespace", "plimsoll", "--create-namespace", "--values", values)
	w.apply(`{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: Node, metadata: {name: big}, status: {capacity: {cpu: 8, memory: 8Gi, pods: 110}}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: shop}}
---
{apiVersion: v1, kind: Pod, metadata: {name: cart, namespace: shop}, spec: {nodeName: big,
  containers: [{name: cart, image: example.com/cart, resources: {requests: {cpu: 100m, memory: 64Mi}}}]}}`)
	a := w.account()
	tries := 0
	w.until(func() error { // policies take a moment until they count
		tries++
		err := a.pod(fmt.Sprintf(`{"metadata": {"labels": {"try": "%d"}}}`, tries))
		switch {
		case err == nil:
			return errors.New("the account may change a pod's label")
		case apierrors.IsForbidden(err):
			return nil
		}
		return err
	})
	for _, c := range []struct {
		what string
		err  error
		want string // part of what the API server says; empty if it allows it
	}{
		{"its own annotation of a pod", a.pod(`{"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "5"}}}`), ""},
		{"an image", a.pod(`{"spec": {"containers": [{"name": "cart", "image": "example.com/other"}]}}`), "Plimsoll may"},
		{"CPU of a container", a.pod(`{"spec": {"containers": [{"name": "cart", "resources": {"requests": {"cpu": "200m"}}}]}}`, "resize"), ""},
		{"a label in a resize", a.pod(`{"metadata": {"labels": {"app": "db"}}}`, "resize"), ""},
		{"no pods on a node", a.node(`{"spec": {"unschedulable": true}}`), ""},
		{"a label of a node", a.node(`{"metadata": {"labels": {"zone": "a"}}}`), "Plimsoll may"},
		{"a Deployment of its own making", a.deploy(func(d *appsv1.Deployment) { d.Name = "cart" }), "Deployments of placeholders alone"},
		{"placeholders that run something", a.deploy(func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0].Image = "example.com/miner"
		}), "the image that config.handoff names"},
		{"placeholders of nobody", a.deploy(func(d *appsv1.Deployment) { d.OwnerReferences = nil }), "must be a WorkloadAutoscaler's"},
		{"placeholders", a.deploy(func(*appsv1.Deployment) {}), ""},
	} {
		if refused := c.err != nil; refused != (c.want != "") || refused && !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.what, c.err, c.want)
		}
	}
	pod, err := w.client.CoreV1().Pods("shop").Get(t.Context(), "cart", metav1.GetOptions{})
	if err != nil || pod.Labels["app"] != "" || pod.Spec.Containers[0].Resources.Requests.Cpu().String() != "200m" {
		t.Errorf("afterwards the pod has labels %v and %v, %v", pod.Labels, pod.Spec.Containers[0].Resources, err)
	}
}

// account writes as Plimsoll's account.
type account struct {
	*world
	as kubernetes.Interface
}

func (w *world) account() *account {
	how := rest.CopyConfig(w.lab.REST())
	how.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:plimsoll:plimsoll", Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	return &account{w, kubernetes.NewForConfigOrDie(how)}
}

func (a *account) pod(patch string, sub ...string) error {
	_, err := a.as.CoreV1().Pods("shop").Patch(a.Context(), "cart", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, sub...)
	return err
}

func (a *account) node(patch string) error {
	_, err := a.as.CoreV1().Nodes().Patch(a.Context(), "big", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// deploy creates placeholders as the program makes them, but for a change.
func (a *account) deploy(change func(*appsv1.Deployment)) error {
	a.Helper()
	var d appsv1.Deployment
	text, err := yaml.YAMLToJSON([]byte(a.file("nodescaler/kube/testdata/placeholders.yaml")))
	if err != nil {
		a.Fatal(err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		a.Fatal(err)
	}
	yes := true
	d.Name, d.Namespace = "plimsoll-ahead-web", "shop"
	d.OwnerReferences = []metav1.OwnerReference{{APIVersion: "plimsoll.dev/v1alpha1", Kind: "WorkloadAutoscaler", Name: "web", UID: "web", Controller: &yes}}
	change(&d)
	_, err = a.as.AppsV1().Deployments("shop").Create(a.Context(), &d, metav1.CreateOptions{})
	return err
}
