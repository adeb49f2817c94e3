//go:build lab

package charts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/deploy"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/labtest"
	"github.com/plimsoll/plimsoll/testbed/must"
)

const root = "../../.."

// world is a control plane, and what is installed into it.
type world struct {
	*testing.T
	lab    *lab.Lab
	client kubernetes.Interface
	any    dynamic.Interface
	names  *restmapper.DeferredDiscoveryRESTMapper
	helmAt string
}

func newWorld(t *testing.T, parts ...lab.Part) *world {
	t.Helper()
	t.Parallel() // each has a lab of its own, and waits most of the time
	l := labtest.Up(t, lab.Config{Parts: parts})
	w := &world{T: t, lab: l, client: kubernetes.NewForConfigOrDie(l.REST()), any: dynamic.NewForConfigOrDie(l.REST())}
	w.names = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(w.client.Discovery()))
	return w
}

// helm runs Helm against the lab, and builds it first.
func (w *world) helm(args ...string) {
	w.Helper()
	if w.helmAt == "" {
		out, err := exec.Command("go", "-C", filepath.Join(root, "deploy/tools"), "tool", "-n", "helm").Output()
		if err != nil {
			w.Fatalf("build helm: %v", err)
		}
		w.helmAt = strings.TrimSpace(string(out))
	}
	cmd := exec.Command(w.helmAt, args...)
	home := w.TempDir()
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.lab.Kubeconfig(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	if out, err := cmd.CombinedOutput(); err != nil {
		w.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// apply applies what is in a text, document by document, as kubectl apply --server-side does.
func (w *world) apply(text string, dry ...string) {
	w.Helper()
	for _, document := range strings.Split(text, "\n---\n") {
		o := w.object(document)
		if o.GetKind() == "" {
			continue
		}
		at := w.where(o)
		var err error
		w.until(func() error { // the kinds take a moment until they are served
			_, err = at.Apply(w.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "kubectl", DryRun: dry})
			if apierrors.IsNotFound(err) {
				return err
			}
			return nil
		})
		if err != nil {
			w.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}

func (w *world) object(document string) *unstructured.Unstructured {
	w.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
		w.Fatalf("%v in:\n%s", err, document)
	}
	return o
}

// where is where an object belongs.
func (w *world) where(o *unstructured.Unstructured) dynamic.ResourceInterface {
	w.Helper()
	kind := o.GroupVersionKind()
	var at dynamic.ResourceInterface
	w.until(func() error {
		mapping, err := w.names.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			w.names.Reset()
			return err
		}
		at = w.any.Resource(mapping.Resource)
		if mapping.Scope.Name() == "namespace" {
			at = w.any.Resource(mapping.Resource).Namespace(o.GetNamespace())
		}
		return nil
	})
	return at
}

// until tries until there is no error any more.
func (w *world) until(try func() error) {
	w.Helper()
	labtest.Until(w.T, "it succeeds", 100*time.Millisecond, func(context.Context) error { return try() })
}

func (w *world) file(name string) string {
	w.Helper()
	text := must.Get(os.ReadFile(filepath.Join(root, name)))(w)
	return string(text)
}

// shown is a manifest that the binary carries.
func (w *world) shown(name string) string {
	w.Helper()
	text := must.Get(deploy.Manifests.ReadFile("manifests/" + name + ".yaml"))(w)
	return string(text)
}

// The manifests are taken by a real API server, twice the same and from one mode to the other,
// under restricted pod security; and what they allow is what the code needs, in each mode.
func TestManifestsAreTakenByKubernetes(t *testing.T) {
	w := newWorld(t)
	w.apply(w.shown("crds"))
	for _, mode := range []struct {
		name string
		is   kube.Mode
	}{{"recommend", kube.Recommend}, {"active", kube.Active}, {"recommend", kube.Recommend}} {
		text := w.shown(mode.name)
		// The namespace, without which nothing can be tried.
		w.apply(strings.SplitN(text, "\n---\n", 2)[0])
		w.apply(text, metav1.DryRunAll)
		w.apply(text)
		w.apply(text)
		if mode.is == kube.Recommend { // kubectl apply takes nothing away that was not given again
			w.removeActing()
		}
		w.checkRights(mode.is)
	}
	w.podIsMade()
}

// What 'plimsoll manifests loader' prints is taken too, in a namespace whose pod security is
// restricted, and the controllers make a pod of each service.
func TestLoadersAreTakenByKubernetes(t *testing.T) {
	w := newWorld(t)
	w.apply(`{apiVersion: v1, kind: Namespace, metadata: {name: bench, labels: {pod-security.kubernetes.io/enforce: restricted}}}`)
	out, err := exec.Command("go", "-C", root, "run", "./cmd/plimsoll", "manifests", "loader", "--services", "3", "--namespace", "bench", "--memory", "2MB").Output()
	if err != nil {
		t.Fatal(err)
	}
	w.apply(string(out))
	w.apply(string(out))
	w.until(func() error {
		for _, name := range []string{"loader", "loader-2", "loader-3"} {
			pods, err := w.client.CoreV1().Pods("bench").List(w.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + name})
			if err != nil || len(pods.Items) != 1 {
				return errors.Join(fmt.Errorf("%s has no pod, or more than one", name), err)
			}
		}
		return nil
	})
}

// removeActing takes away what mode active gave.
func (w *world) removeActing() {
	w.Helper()
	for _, err := range []error{
		w.client.RbacV1().ClusterRoleBindings().Delete(w.Context(), "plimsoll-act", metav1.DeleteOptions{}),
		w.client.RbacV1().ClusterRoles().Delete(w.Context(), "plimsoll-act", metav1.DeleteOptions{}),
	} {
		if err != nil && !apierrors.IsNotFound(err) {
			w.Fatal(err)
		}
	}
}

// podIsMade waits until the controllers have made a pod, which the namespace's pod security lets
// them only if it is as restricted asks.
func (w *world) podIsMade() {
	w.Helper()
	w.until(func() error {
		pods, err := w.client.CoreV1().Pods("plimsoll").List(w.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=autoscaler"})
		if err == nil && len(pods.Items) == 0 {
			err = errors.New("no pod is made")
			if events, _ := w.client.CoreV1().Events("plimsoll").List(w.Context(), metav1.ListOptions{}); events != nil {
				for i := range events.Items {
					err = fmt.Errorf("%w; %s", err, events.Items[i].Message)
				}
			}
		}
		return err
	})
}

// checkRights asks the API server what the account may do, for everything that the code needs in
// any mode.
func (w *world) checkRights(mode kube.Mode) {
	w.Helper()
	needs := kube.Needs(mode)
	for _, n := range kube.Needs(kube.Active) {
		group, resource := n.Group, n.Resource
		if resource == "*/scale" {
			group, resource = "apps", "deployments/scale"
		}
		resource, sub, _ := strings.Cut(resource, "/")
		ask := &authorizationv1.ResourceAttributes{Group: group, Resource: resource, Subresource: sub, Verb: n.Verb, Namespace: "shop"}
		if n.Own {
			ask.Namespace = "plimsoll"
			if n.Verb != "create" {
				ask.Name = "plimsoll"
			}
		}
		if n.Resource == "namespaces" && n.Verb == "get" {
			ask.Namespace, ask.Name = "kube-system", "kube-system"
		}
		if may, want := w.may(ask), slices.Contains(needs, n); may != want {
			w.Errorf("mode %s: %s %s/%s: allowed is %t, needed is %t", mode, n.Verb, n.Group, n.Resource, may, want)
		}
	}
	intents := func(verb string) *authorizationv1.ResourceAttributes {
		return &authorizationv1.ResourceAttributes{Resource: "configmaps", Verb: verb, Namespace: "plimsoll", Name: "plimsoll-intents"}
	}
	if !w.may(intents("get")) || !w.may(&authorizationv1.ResourceAttributes{Group: "metrics.k8s.io", Resource: "pods", Verb: "list"}) {
		w.Errorf("mode %s: it may not read what it ordered, or what pods use", mode)
	}
	if may := w.may(intents("patch")); may != (mode == kube.Active) {
		w.Errorf("mode %s: writing what was ordered: allowed is %t", mode, may)
	}
	for _, never := range []authorizationv1.ResourceAttributes{
		{Resource: "namespaces", Verb: "get", Namespace: "shop", Name: "shop"}, {Resource: "namespaces", Verb: "patch", Name: "shop"},
		{Resource: "secrets", Verb: "get", Namespace: "plimsoll"}, {Resource: "secrets", Verb: "list"},
		{Resource: "pods", Subresource: "exec", Verb: "create", Namespace: "shop"}, {Resource: "configmaps", Verb: "get", Namespace: "shop", Name: "plimsoll-intents"},
		{Group: "apps", Resource: "deployments", Verb: "patch", Namespace: "shop"}, {Group: "plimsoll.dev", Resource: "vmpools", Verb: "patch"},
	} {
		if w.may(&never) {
			w.Errorf("mode %s: it may %s %s", mode, never.Verb, never.Resource)
		}
	}
}

func (w *world) may(ask *authorizationv1.ResourceAttributes) bool {
	w.Helper()
	review, err := w.client.AuthorizationV1().SubjectAccessReviews().Create(w.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: "system:serviceaccount:plimsoll:plimsoll", ResourceAttributes: ask},
	}, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return review.Status.Allowed
}

// A release from beginning to end, with Helm itself: server-side apply, a change of mode, a second
// replica, and the way back, in which Helm takes away the rights to act.
func TestReleaseLives(t *testing.T) {
	w := newWorld(t)
	w.helm("install", "plimsoll-crds", filepath.Join(root, "deploy/charts/plimsoll-crds"))
	chart := filepath.Join(root, "deploy/charts/plimsoll")
	if _, err := w.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "plimsoll", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	values := filepath.Join(t.TempDir(), "values.yaml")
	text := `{proxmox: {createSecret: true, secret: {token: "plimsoll@pve!plimsoll=0"}}, config: {owner: home, endpoints: ["https://pve1.example:8006"]},
		networkPolicy: {enabled: true}, dashboard: {enabled: true}, rbac: {secrets: {default: [prometheus]}}}`
	if err := os.WriteFile(values, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	with := []string{"plimsoll", chart, "--namespace", "plimsoll", "--values", values}
	w.helm(append([]string{"install"}, with...)...)
	w.checkRights(kube.Recommend)
	w.podIsMade()
	w.helm(append([]string{"upgrade", "--set", "mode=Active,replicas=2"}, with...)...)
	w.checkRights(kube.Active)
	w.helm(append([]string{"upgrade"}, with...)...)
	w.checkRights(kube.Recommend)
	w.helm("uninstall", "plimsoll", "--namespace", "plimsoll")
	if _, err := w.client.AppsV1().Deployments("plimsoll").Get(t.Context(), "plimsoll", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the deployment after the release: %v", err)
	}
}

// Kinds with one field fewer each are installed, objects are made, and the kinds of today come over
// them: the objects are the same afterwards, the new field can be set, and uninstalling leaves all
// of it.
func TestKindsAreUpgradedOverObjects(t *testing.T) {
	w := newWorld(t)
	was := filepath.Join(t.TempDir(), "plimsoll-crds")
	if err := os.CopyFS(was, os.DirFS(filepath.Join(root, "deploy/charts/plimsoll-crds"))); err != nil {
		t.Fatal(err)
	}
	lost := map[string]string{"workloadautoscalers": "stabilizationWindow", "vmpools": "maxFailures", "pricebooks": "shapes"}
	for kind, field := range lost {
		w.withoutField(filepath.Join(was, "files", "plimsoll.dev_"+kind+".yaml"), field)
	}
	w.helm("install", "plimsoll-crds", was)

	objects := map[string]types.UID{}
	for _, name := range []string{"wla-hpa-minimal", "vmp-minimal", "book-units"} {
		text := w.file("api/v1alpha1/testdata/accepted/" + name + ".yaml")
		w.apply(text)
		objects[text] = w.read(text).GetUID()
	}
	news := map[string]string{
		"WorkloadAutoscaler": `{"spec": {"stabilizationWindow": "2m"}}`, "VMPool": `{"spec": {"maxFailures": 5}}`,
	}
	for text := range objects { // what the old kinds do not know is not kept
		if o := w.object(text); news[o.GetKind()] != "" {
			w.patch(o, news[o.GetKind()])
			if got := w.read(text); w.hasNew(got) {
				t.Errorf("%s keeps a field that it does not know: the test removed none", o.GetKind())
			}
		}
	}

	w.helm("upgrade", "plimsoll-crds", filepath.Join(root, "deploy/charts/plimsoll-crds"))
	for text, uid := range objects {
		got := w.read(text)
		if got.GetUID() != uid {
			t.Errorf("%s is another object", got.GetKind())
		}
		if o := w.object(text); news[o.GetKind()] != "" {
			w.until(func() error { // the API server takes the new kinds up in a moment
				w.patch(o, news[o.GetKind()])
				if !w.hasNew(w.read(text)) {
					return fmt.Errorf("%s does not keep a field that it knows by now", o.GetKind())
				}
				return nil
			})
		}
	}

	w.helm("uninstall", "plimsoll-crds")
	for text, uid := range objects {
		if got := w.read(text); got.GetUID() != uid || got.GetDeletionTimestamp() != nil {
			t.Errorf("%s went with the chart", got.GetKind())
		}
	}
}

// withoutField takes a field of the spec out of a kind, with the rules that know it.
func (w *world) withoutField(name, field string) {
	w.Helper()
	text := must.Get(os.ReadFile(name))(w)
	kind := w.object(string(text))
	versions, _, _ := unstructured.NestedSlice(kind.Object, "spec", "versions")
	path := []string{"schema", "openAPIV3Schema", "properties", "spec"}
	version := versions[0].(map[string]any)
	spec, _, _ := unstructured.NestedMap(version, path...)
	fields := spec["properties"].(map[string]any)
	if fields[field] == nil {
		w.Fatalf("%s has no field %s", name, field)
	}
	delete(fields, field)
	if rules, ok := spec["x-kubernetes-validations"].([]any); ok {
		spec["x-kubernetes-validations"] = slices.DeleteFunc(rules, func(r any) bool { return strings.Contains(fmt.Sprint(r), field) })
	}
	if err := unstructured.SetNestedMap(version, spec, path...); err != nil {
		w.Fatal(err)
	}
	if err := unstructured.SetNestedSlice(kind.Object, versions, "spec", "versions"); err != nil {
		w.Fatal(err)
	}
	out := must.Get(yaml.Marshal(kind.Object))(w)
	if err := os.WriteFile(name, out, 0o600); err != nil {
		w.Fatal(err)
	}
}

func (w *world) read(text string) *unstructured.Unstructured {
	w.Helper()
	o := w.object(text)
	return must.Get(w.where(o).Get(w.Context(), o.GetName(), metav1.GetOptions{}))(w)
}

func (w *world) patch(o *unstructured.Unstructured, patch string) {
	w.Helper()
	if _, err := w.where(o).Patch(w.Context(), o.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		w.Fatal(err)
	}
}

// hasNew reports whether an object has the field that the kinds of yesterday lacked.
func (w *world) hasNew(o *unstructured.Unstructured) bool {
	w.Helper()
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	_, window := spec["stabilizationWindow"]
	_, failures := spec["maxFailures"]
	return window || failures
}
