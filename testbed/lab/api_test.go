//go:build lab

package lab_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/deploy"
	"github.com/plimsoll/plimsoll/testbed/crd"
	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/labtest"
	"github.com/plimsoll/plimsoll/testbed/must"
)

const fixtures = "../../api/v1alpha1/testdata/"

var resources = map[string]string{
	v1alpha1.KindWorkloadAutoscaler: "workloadautoscalers",
	v1alpha1.KindVMPool:             "vmpools",
	v1alpha1.KindPriceBook:          "pricebooks",
	v1alpha1.KindScalingProposal:    "scalingproposals",
}

// apiServer is a control plane with the CRDs in it.
type apiServer struct {
	t *testing.T
	*lab.Lab
	dynamic.Interface
}

func newAPIServer(t *testing.T) *apiServer {
	t.Parallel() // each has a lab of its own, and waits most of the time
	l := labtest.Up(t, lab.Config{})
	c, err := dynamic.NewForConfig(l.REST())
	if err != nil {
		t.Fatal(err)
	}
	s := &apiServer{t, l, c}
	kinds := must.Get(deploy.Manifests.ReadFile("manifests/crds.yaml"))(t)
	if err := l.Create(t.Context(), kinds); err != nil {
		t.Fatal(err)
	}
	_, err = client(t, l).CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// object reads a manifest.
func (s *apiServer) object(manifest []byte) *unstructured.Unstructured {
	s.t.Helper()
	text := must.Get(yaml.YAMLToJSONStrict(manifest))(s.t)
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(text); err != nil {
		s.t.Fatal(err)
	}
	return obj
}

// of is where objects of the kind are kept.
func (s *apiServer) of(obj *unstructured.Unstructured) dynamic.ResourceInterface {
	of := s.Resource(v1alpha1.GroupVersion.WithResource(resources[obj.GetKind()]))
	if ns := obj.GetNamespace(); ns != "" {
		return of.Namespace(ns)
	}
	return of
}

func (s *apiServer) create(manifest []byte) (*unstructured.Unstructured, error) {
	obj := s.object(manifest)
	return s.of(obj).Create(s.t.Context(), obj, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
}

func (s *apiServer) remove(obj *unstructured.Unstructured) {
	if err := s.of(obj).Delete(s.t.Context(), obj.GetName(), metav1.DeleteOptions{}); err != nil {
		s.t.Error(err)
	}
}

func read(t *testing.T, folder string) []crd.Fixture {
	t.Helper()
	return must.Get(crd.Fixtures(os.DirFS(fixtures + folder)))(t)
}

func TestManifestsMeetTheRealAPIServer(t *testing.T) {
	s := newAPIServer(t)
	t.Run("accepted", s.accepted)
	t.Run("rejected", s.rejected)
	t.Run("status", s.status)
	t.Run("columns", s.columns)
	t.Run("explained", s.explained)
}

// accepted holds the server to the rules as they are run without one: the same is stored.
func (s *apiServer) accepted(t *testing.T) {
	j := must.Get(crd.Read(os.DirFS("../../deploy/crds")))(t)
	document := must.Get(os.ReadFile("../../docs/api.md"))(t)
	all := read(t, "accepted")
	for i, block := range crd.Blocks(document) {
		all = append(all, crd.Fixture{Name: fmt.Sprintf("manifest %d of docs/api.md", i+1), Documents: [][]byte{block}})
	}
	for _, f := range all {
		stored, err := s.create(f.Documents[0])
		if err != nil {
			t.Errorf("%s: %v", f.Name, err)
			continue
		}
		want := must.Get(j.Create(f.Documents[0]))(t)
		if diff := cmp.Diff(want.Object["spec"], stored.Object["spec"]); diff != "" {
			t.Errorf("%s: is stored otherwise (-without server +server):\n%s", f.Name, diff)
		}
		s.remove(stored)
	}
}

func (s *apiServer) rejected(t *testing.T) {
	for _, f := range read(t, "rejected") {
		err := s.refuse(f)
		if err == nil {
			t.Errorf("%s: is accepted", f.Name)
			continue
		}
		for _, fault := range f.Refused {
			if !strings.Contains(err.Error(), fault) {
				t.Errorf("%s: is refused for\n  %v\nand not for\n  %s", f.Name, err, fault)
			}
		}
	}
}

// refuse returns what the server says to the last document of a fixture.
func (s *apiServer) refuse(f crd.Fixture) error {
	obj, err := s.create(f.Documents[0])
	if err != nil {
		return err
	}
	defer s.remove(obj)
	if len(f.Documents) == 1 {
		return nil
	}
	next := s.object(f.Documents[1])
	next.SetResourceVersion(obj.GetResourceVersion())
	_, err = s.of(next).Update(s.t.Context(), next, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict})
	return err
}

func ready(reason string) []metav1.Condition {
	now := metav1.NewTime(time.Unix(1700000000, 0).UTC())
	return []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: reason, Message: "as it should be", LastTransitionTime: now}}
}

// statuses are one of each kind with everything in it.
func statuses() map[string]any {
	now := metav1.NewTime(time.Unix(1700000000, 0).UTC())
	reasons := []v1alpha1.Reason{{Code: "SLOCostRatio", Text: "k 1.25"}}
	return map[string]any{
		"wla-seed": &v1alpha1.WorkloadAutoscalerStatus{
			ObservedGeneration: 1, CurrentReplicas: new(int32(4)), ReadyReplicas: new(int32(4)), RecommendedReplicas: new(int32(5)), DesiredReplicas: new(int32(5)),
			ActivePolicy: v1alpha1.PolicySLOCost, LastScaleTime: &now,
			SLO:          &v1alpha1.SLOStatus{Observed: "212.4ms", GoodFraction: "0.994", ArrivalsPerSecond: "41.7"},
			Cost:         &v1alpha1.CostStatus{Currency: "units", PerHour: "40", Current: "20"},
			LastDecision: &v1alpha1.ScalingDecision{ID: "d-000042", Time: now, Action: "ScaleUp", From: 4, To: 5, Applied: true, Reasons: reasons},
			Conditions:   ready(v1alpha1.ReasonActive),
		},
		"vmp-minimal": &v1alpha1.VMPoolStatus{
			ObservedGeneration: 1, Machines: &v1alpha1.MachineCounts{Total: 3, Ordered: 1, Booting: 0, Joined: 2}, CostPerHour: "30", Currency: "units",
			LastPlan:   &v1alpha1.PlanStatus{ID: "d-000042", Time: now, Applied: false, Actions: []v1alpha1.PlanAction{{Kind: "Buy", Subject: "small", CostPerHour: "10", Reasons: reasons}}},
			Conditions: ready(v1alpha1.ReasonRecommending),
		},
		"book-derived": &v1alpha1.PriceBookStatus{
			ObservedGeneration: 1, Active: true,
			Prices:     &v1alpha1.ResolvedPrices{PricePerVCPUHour: "0.0316", PricePerGBHour: "0.0042", PricePerGiBHour: "0.0045", Tariff: "night", Until: &now, Working: []string{"energy = 60 W × 0.30 EUR/kWh = 0.018 EUR/h"}},
			Conditions: ready(v1alpha1.ReasonPricesInForce),
		},
	}
}

// status writes everything that a status may have, which must come back as it was.
func (s *apiServer) status(t *testing.T) {
	for name, status := range statuses() {
		obj := s.withStatus(t, name, status)
		text := must.Get(json.Marshal(obj.Object["status"]))(t)
		want := must.Get(json.Marshal(status))(t)
		var a, b any
		if err := json.Unmarshal(want, &a); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &b); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("%s: the status is stored otherwise (-written +stored):\n%s", name, diff)
		}
		s.remove(obj)
	}
}

func (s *apiServer) withStatus(t *testing.T, name string, status any) *unstructured.Unstructured {
	t.Helper()
	manifest, err := os.ReadFile(fixtures + "accepted/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	obj := must.Get(s.create(manifest))(t)
	obj.Object["status"] = must.Get(runtime.DefaultUnstructuredConverter.ToUnstructured(status))(t)
	obj, err = s.of(obj).UpdateStatus(t.Context(), obj, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

// columns are what kubectl get shows.
func (s *apiServer) columns(t *testing.T) {
	want := map[string][]string{
		"wla-seed":     {"nginx-autoscaler nginx SLOCost Recommend 1 48 4 5 99th 212.4ms 300ms 40 True Active", "Deployment 5 0.994 SLOCostRatio"},
		"vmp-minimal":  {"web Recommend Plimsoll 0 10 3 2 0 30 True Recommending", "1 0 0 0"},
		"book-derived": {"default EUR 0.0316 0.0042 true", "0.0045 night True"},
	}
	c := client(t, s.Lab).Discovery().RESTClient()
	for name, status := range statuses() {
		obj := s.withStatus(t, name, status)
		text, err := c.Get().AbsPath("/apis", v1alpha1.GroupVersion.String()).NamespaceIfScoped(obj.GetNamespace(), obj.GetNamespace() != "").
			Resource(resources[obj.GetKind()]).Name(obj.GetName()).SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(t.Context()).Raw()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want[name], row(t, text)); diff != "" {
			t.Errorf("%s: kubectl get shows (-want +got):\n%s", name, diff)
		}
		s.remove(obj)
	}
}

// row is what a table's only row shows, and what it shows only when it may be wide. Ages are
// omitted.
func row(t *testing.T, text []byte) []string {
	t.Helper()
	var table metav1.Table
	if err := json.Unmarshal(text, &table); err != nil || len(table.Rows) != 1 {
		t.Fatalf("no table: %v: %s", err, text)
	}
	var narrow, wide []string
	for i, column := range table.ColumnDefinitions {
		cell := fmt.Sprint(table.Rows[0].Cells[i])
		switch {
		case column.Name == "Age":
		case column.Priority == 0:
			narrow = append(narrow, cell)
		default:
			wide = append(wide, cell)
		}
	}
	return []string{strings.Join(narrow, " "), strings.Join(wide, " ")}
}

// explained asks for what kubectl explain prints.
func (s *apiServer) explained(t *testing.T) {
	text, err := client(t, s.Lab).Discovery().RESTClient().Get().AbsPath("/openapi/v3/apis/plimsoll.dev/v1alpha1").Do(t.Context()).Raw()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Components struct{ Schemas map[string]map[string]any }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]string{
		"WorkloadAutoscaler.spec.slo.p":               "The quantile of response times: 99th, 99.9th, p95 or \"0.95\".",
		"WorkloadAutoscaler.spec.stabilizationWindow": "The time after a change of replicas in which no further one is made",
		"VMPool.spec.template.byHost":                 "The VMID of each host's own template: {pve1: 9001, pve2: 9002}.",
		"PriceBook.spec.derived.pricePerKWh":          "What a kilowatt-hour costs: \"0.30\".",
	} {
		path := strings.Split(field, ".")
		node := doc.Components.Schemas["dev.plimsoll.v1alpha1."+path[0]]
		for _, key := range path[1:] {
			node, _, _ = unstructured.NestedMap(node, "properties", key)
		}
		if got, _ := node["description"].(string); !strings.HasPrefix(got, want) {
			t.Errorf("%s is explained as %q, should begin with %q", field, got, want)
		}
	}
}
