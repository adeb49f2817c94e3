// Package chart holds the charts to what is promised of them, by rendering them as users do.
package chart

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/deploy/tools/internal/helm"
)

const (
	chartDir = "../../charts/plimsoll"
	kindsDir = "../../charts/plimsoll-crds"
)

// rendered is what a chart makes of some values.
type rendered struct {
	objects []metav1.Object
}

// render renders the chart as a release of its own name, with values in YAML.
func render(t *testing.T, values string, args ...string) *rendered {
	t.Helper()
	r, err := tryRender(t, chartDir, values, args...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func tryRender(t *testing.T, chart, values string, args ...string) (*rendered, error) {
	t.Helper()
	text, err := helm.Run(append([]string{"template", "plimsoll", chart, "--namespace", "plimsoll", "--values", write(t, values)}, args...)...)
	if err != nil {
		return nil, err
	}
	return parse(text)
}

// parse reads every document into Kubernetes' own type, if it is one of Kubernetes' own: a field
// that is not there is an error, and so is a key that is twice, which server-side apply refuses.
func parse(text []byte) (*rendered, error) {
	r := &rendered{}
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		var head metav1.TypeMeta
		if err := yaml.Unmarshal(document, &head); err != nil {
			return nil, fmt.Errorf("%w in:\n%s", err, document)
		}
		if head.Kind == "" {
			continue
		}
		object := blank(head)
		if err := yaml.UnmarshalStrict(document, object); err != nil {
			return nil, fmt.Errorf("%s: %w in:\n%s", head.Kind, err, document)
		}
		r.objects = append(r.objects, object)
	}
	return r, nil
}

func blank(head metav1.TypeMeta) metav1.Object {
	switch head.APIVersion + " " + head.Kind {
	case "v1 ConfigMap":
		return &corev1.ConfigMap{}
	case "v1 Pod":
		return &corev1.Pod{}
	case "v1 Secret":
		return &corev1.Secret{}
	case "v1 Service":
		return &corev1.Service{}
	case "v1 ServiceAccount":
		return &corev1.ServiceAccount{}
	case "admissionregistration.k8s.io/v1 MutatingWebhookConfiguration":
		return &admissionv1.MutatingWebhookConfiguration{}
	case "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy":
		return &admissionv1.ValidatingAdmissionPolicy{}
	case "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding":
		return &admissionv1.ValidatingAdmissionPolicyBinding{}
	case "apps/v1 Deployment":
		return &appsv1.Deployment{}
	case "networking.k8s.io/v1 NetworkPolicy":
		return &networkingv1.NetworkPolicy{}
	case "policy/v1 PodDisruptionBudget":
		return &policyv1.PodDisruptionBudget{}
	case "rbac.authorization.k8s.io/v1 ClusterRole":
		return &rbacv1.ClusterRole{}
	case "rbac.authorization.k8s.io/v1 ClusterRoleBinding":
		return &rbacv1.ClusterRoleBinding{}
	case "rbac.authorization.k8s.io/v1 Role":
		return &rbacv1.Role{}
	case "rbac.authorization.k8s.io/v1 RoleBinding":
		return &rbacv1.RoleBinding{}
	case "scheduling.k8s.io/v1 PriorityClass":
		return &schedulingv1.PriorityClass{}
	default: // of others: ServiceMonitor, PrometheusRule, our own kinds
		return &unstructured.Unstructured{}
	}
}

// all are the objects of a type.
func all[T metav1.Object](r *rendered) []T {
	var found []T
	for _, o := range r.objects {
		if is, ok := o.(T); ok {
			found = append(found, is)
		}
	}
	return found
}

// only is the one object of a type.
func only[T metav1.Object](t *testing.T, r *rendered) T {
	t.Helper()
	found := all[T](r)
	if len(found) != 1 {
		t.Fatalf("%d of %T, want one", len(found), *new(T))
	}
	return found[0]
}

// kinds are the kinds and names of everything, sorted.
func (r *rendered) kinds() []string {
	var names []string
	for _, o := range r.objects {
		kind := strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1.")
		if u, ok := o.(*unstructured.Unstructured); ok {
			kind = u.GetKind()
		}
		names = append(names, kind+" "+o.GetName())
	}
	slices.Sort(names)
	return names
}

// write puts a text into a file of its own.
func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "values.yaml")
	if err := writeFile(name, text); err != nil {
		t.Fatal(err)
	}
	return name
}
