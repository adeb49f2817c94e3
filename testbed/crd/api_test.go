package crd_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/testbed/crd"
	"github.com/plimsoll/plimsoll/testbed/must"
)

var update = flag.Bool("update", false, "write what the rules say to the rejected fixtures into them; read the diff")

const testdata = "../../api/v1alpha1/testdata/"

// crdRules are those of the CRDs; they take a while to compile.
var crdRules = sync.OnceValues(func() (*crd.Judge, error) { return crd.Read(os.DirFS("../../deploy/crds")) })

func judge(t *testing.T) *crd.Judge {
	t.Helper()
	return must.Get(crdRules())(t)
}

func fixtures(t *testing.T, folder string) []crd.Fixture {
	t.Helper()
	return must.Get(crd.Fixtures(os.DirFS(testdata + folder)))(t)
}

func TestDefinitionsAreWhatAnAPIServerTakes(t *testing.T) {
	want := []string{"plimsoll.dev/v1alpha1 PriceBook", "plimsoll.dev/v1alpha1 ScalingProposal", "plimsoll.dev/v1alpha1 VMPool", "plimsoll.dev/v1alpha1 WorkloadAutoscaler"}
	if diff := cmp.Diff(want, judge(t).Kinds()); diff != "" {
		t.Error(diff)
	}
}

func TestAcceptedManifests(t *testing.T) {
	j := judge(t)
	for _, f := range fixtures(t, "accepted") {
		if _, err := j.Create(f.Documents[0]); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
}

func TestRejectedManifests(t *testing.T) {
	j := judge(t)
	for _, f := range fixtures(t, "rejected") {
		got := ask(t, j, f)
		if *update {
			must.Do(t, os.WriteFile(testdata+"rejected/"+f.Name+".yaml", f.Rewrite(got), 0o644))
			continue
		}
		if len(got) == 0 {
			t.Errorf("%s: is accepted", f.Name)
		}
		if diff := cmp.Diff(f.Refused, got); diff != "" {
			t.Errorf("%s: faults differ (-fixture +rules):\n%s", f.Name, diff)
		}
	}
}

func TestScenario25QuantilesThatAreNoneAreRefused(t *testing.T) {
	j := judge(t)
	for p, refused := range map[string]bool{
		"99th": false, "90th": false, "99.9th": false, "p95": false, "0.95": false,
		"100th": true, "0th": true, "abc": true, "1": true,
	} {
		_, err := j.Create(fmt.Appendf(nil, `apiVersion: plimsoll.dev/v1alpha1
kind: WorkloadAutoscaler
metadata: {namespace: default, name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  policy: HPA
  maxReplicas: 40
  slo: {p: %q, target: 300ms, window: 20m}
`, p))
		rule := fmt.Sprintf("spec.slo.p: Invalid value: %q: must be a quantile above 0th and below 100th", p)
		if got := sorted(err); refused != (len(got) > 0) || refused && !strings.HasPrefix(got[0], rule) {
			t.Errorf("%s: refused with %q, should be: %v", p, got, refused)
		}
	}
}

// ask returns what the rules say to the last document of a fixture, sorted.
func ask(t *testing.T, j *crd.Judge, f crd.Fixture) []string {
	t.Helper()
	if len(f.Documents) == 1 {
		_, err := j.Create(f.Documents[0])
		return sorted(err)
	}
	old, err := j.Create(f.Documents[0])
	if err != nil {
		t.Fatalf("%s: the first document is refused: %v", f.Name, err)
	}
	var all []string
	for _, document := range f.Documents[1:] {
		_, err := j.Update(old, document)
		all = append(all, sorted(err)...)
	}
	return all
}

func sorted(err error) []string {
	var all []string
	if several, ok := errors.AsType[utilerrors.Aggregate](err); ok {
		for _, one := range several.Errors() {
			all = append(all, strings.TrimPrefix(one.Error(), "<nil>: Invalid value: "))
		}
	}
	slices.Sort(all)
	return all
}

// literal is a text in a rule's message expression that is long enough to know it by.
var literal = regexp.MustCompile(`'([^']{8,})'`)

func TestEveryRuleHasItsFixture(t *testing.T) {
	var said strings.Builder
	for _, f := range fixtures(t, "rejected") {
		said.WriteString(strings.Join(f.Refused, "\n") + "\n")
	}
	eachNode(judge(t), func(path string, s *schema.Structural) {
		for _, rule := range s.XValidations {
			known := rule.Message != "" && strings.Contains(said.String(), rule.Message)
			for _, m := range literal.FindAllStringSubmatch(rule.MessageExpression, -1) {
				text, _, _ := strings.Cut(m[1], "%")
				known = known || strings.Contains(said.String(), text)
			}
			if !known {
				t.Errorf("%s: no rejected manifest breaks the rule %s%s", path, rule.Message, rule.MessageExpression)
			}
		}
	})
}

func TestEveryFieldIsInAnAcceptedManifest(t *testing.T) {
	j := judge(t)
	there := map[string]bool{}
	for _, f := range fixtures(t, "accepted") {
		obj := &unstructured.Unstructured{}
		must.Do(t, json.Unmarshal(asJSON(t, f.Documents[0]), &obj.Object))
		note(there, j.Schema(obj.GetAPIVersion(), obj.GetKind()), obj.GetKind(), obj.Object)
	}
	eachNode(j, func(path string, s *schema.Structural) {
		if strings.Contains(path, ".spec.") && !there[path] {
			t.Errorf("%s: no accepted manifest has it", path)
		}
	})
}

// note notes the paths in the schema that a value has.
func note(there map[string]bool, s *schema.Structural, path string, value any) {
	there[path] = true
	switch value := value.(type) {
	case map[string]any:
		for key, v := range value {
			if p, ok := s.Properties[key]; ok {
				note(there, &p, path+"."+key, v)
			} else if s.AdditionalProperties != nil {
				note(there, s.AdditionalProperties.Structural, path+"[*]", v)
			}
		}
	case []any:
		for _, v := range value {
			note(there, s.Items, path+"[*]", v)
		}
	}
}

// eachNode visits the schemas of all kinds.
func eachNode(j *crd.Judge, visit func(path string, s *schema.Structural)) {
	for _, name := range j.Kinds() {
		version, kind, _ := strings.Cut(name, " ")
		walk(j.Schema(version, kind), kind, visit)
	}
}

func walk(s *schema.Structural, path string, visit func(string, *schema.Structural)) {
	visit(path, s)
	for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[key]
		walk(&p, path+"."+key, visit)
	}
	if s.Items != nil {
		walk(s.Items, path+"[*]", visit)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		walk(s.AdditionalProperties.Structural, path+"[*]", visit)
	}
}

// An integer beyond what its Go type holds would make every list of its kind undecodable.
func TestIntegersAreBounded(t *testing.T) {
	const largest = 1<<31 - 1
	eachNode(judge(t), func(path string, s *schema.Structural) {
		if s.Type != "integer" || !strings.Contains(path, ".spec.") {
			return
		}
		v := s.ValueValidation
		if v == nil || v.Minimum == nil || v.Maximum == nil || *v.Minimum < -largest-1 || *v.Maximum > largest {
			t.Errorf("%s: must have a minimum and a maximum that 32 bits hold", path)
		}
	})
}

func TestEveryFieldIsExplained(t *testing.T) {
	eachNode(judge(t), func(path string, s *schema.Structural) {
		if !strings.Contains(path, ".spec") && !strings.Contains(path, ".status") || strings.HasSuffix(path, "[*]") || strings.Contains(path, ".conditions") {
			return
		}
		if !strings.HasSuffix(s.Description, ".") && !strings.HasSuffix(s.Description, "}") && !regexp.MustCompile(`[.:] [^.]+$`).MatchString(s.Description) {
			t.Errorf("%s: must be explained in sentences, was %q", path, s.Description)
		}
	})
}

func TestUnknownFieldsAreRefusedWhereverTheyStand(t *testing.T) {
	j := judge(t)
	for _, f := range fixtures(t, "accepted") {
		var obj map[string]any
		must.Do(t, json.Unmarshal(asJSON(t, f.Documents[0]), &obj))
		kind, _ := obj["kind"].(string)
		s := j.Schema(v1alpha1.GroupVersion.String(), kind)
		eachObject(s, "", obj, func(path string, o map[string]any) {
			o["notThere"] = 1
			text := must.Get(json.Marshal(obj))(t)
			delete(o, "notThere")
			want := fmt.Sprintf("unknown field %q", strings.TrimPrefix(path+".notThere", "."))
			if _, err := j.Create(text); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %s: error %v, should say %s", f.Name, path, err, want)
			}
		})
	}
}

// eachObject visits the objects in a value that have properties of their own.
func eachObject(s *schema.Structural, path string, value any, visit func(string, map[string]any)) {
	switch value := value.(type) {
	case map[string]any:
		if s.AdditionalProperties == nil && path != ".metadata" {
			visit(path, value)
		}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if p, ok := s.Properties[key]; ok {
				eachObject(&p, path+"."+key, value[key], visit)
			} else if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
				eachObject(s.AdditionalProperties.Structural, path+"."+key, value[key], visit)
			}
		}
	case []any:
		for i, v := range value {
			eachObject(s.Items, fmt.Sprintf("%s[%d]", path, i), v, visit)
		}
	}
}

// What is decoded and written again says the same.
func TestTypesLoseNothing(t *testing.T) {
	j := judge(t)
	for _, f := range fixtures(t, "accepted") {
		stored := must.Get(j.Create(f.Documents[0]))(t)
		into := map[string]any{
			v1alpha1.KindWorkloadAutoscaler: &v1alpha1.WorkloadAutoscaler{},
			v1alpha1.KindVMPool:             &v1alpha1.VMPool{},
			v1alpha1.KindPriceBook:          &v1alpha1.PriceBook{},
			v1alpha1.KindScalingProposal:    &v1alpha1.ScalingProposal{},
		}[stored.GetKind()]
		text := must.Get(json.Marshal(stored.Object["spec"]))(t)
		whole := must.Get(stored.MarshalJSON())(t)
		d := json.NewDecoder(bytes.NewReader(whole))
		d.DisallowUnknownFields()
		if err := d.Decode(into); err != nil {
			t.Errorf("%s: %v", f.Name, err)
			continue
		}
		again := must.Get(json.Marshal(into))(t)
		var object struct{ Spec json.RawMessage }
		must.Do(t, json.Unmarshal(again, &object))
		if diff := cmp.Diff(plain(t, text), plain(t, object.Spec)); diff != "" {
			t.Errorf("%s: written again, it differs (-stored +again):\n%s", f.Name, diff)
		}
	}
}

// plain is JSON with every scalar as text, and without what is false, empty or absent.
func plain(t *testing.T, text []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	must.Do(t, d.Decode(&v))
	return plainly(v)
}

func plainly(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			if p := plainly(value); p != nil && p != "" && p != "false" {
				out[key] = p
			}
		}
		return out
	case []any:
		if len(v) == 0 {
			return nil
		}
		out := []any{}
		for _, value := range v {
			out = append(out, plainly(value))
		}
		return out
	}
	return fmt.Sprint(v)
}

func asJSON(t *testing.T, manifest []byte) []byte {
	t.Helper()
	return must.Get(yaml.YAMLToJSON(manifest))(t)
}
