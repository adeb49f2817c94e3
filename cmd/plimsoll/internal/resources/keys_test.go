package resources

import (
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	openapi "k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/podscaler/signals"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// pair is what manifests say of something, and what it becomes.
type pair struct {
	name           string
	api, ours      reflect.Type
	apiOnly, other []string
}

// A key that is added on one side only would be refused, or have no effect.
func TestAPIAndSettingsHaveTheSameKeys(t *testing.T) {
	pairs := []pair{
		{"PriceBookSpec", reflect.TypeFor[v1alpha1.PriceBookSpec](), reflect.TypeFor[pricing.Book](), nil, nil},
		{"VMPoolSpec", reflect.TypeFor[v1alpha1.VMPoolSpec](), reflect.TypeFor[settings.Pool](), notOfThePool, []string{"name", "resumed"}},
		{"Signals", reflect.TypeFor[v1alpha1.Signals](), reflect.TypeFor[signals.Spec](), nil, nil},
	}
	for _, c := range append(pairs, policies(t)...) {
		if fault := c.fault(); fault != "" {
			t.Error(fault)
		}
	}
}

// policies are the pod policies that have settings.
func policies(t *testing.T) (all []pair) {
	t.Helper()
	api, ours := reflect.TypeFor[v1alpha1.PolicySpec](), reflect.TypeFor[policy.Spec]()
	for i := range ours.NumField() {
		block := ours.Field(i)
		if block.Type.Kind() != reflect.Pointer {
			continue
		}
		there, is := api.FieldByName(block.Name)
		if !is {
			t.Errorf("v1alpha1.PolicySpec has no settings of policy %s: run make gen", block.Name)
			continue
		}
		all = append(all, pair{name: block.Name, api: there.Type, ours: block.Type})
	}
	if len(all) < 6 {
		t.Errorf("only %d policies have settings", len(all))
	}
	return all
}

// fault says what differs, and what to do about it; empty if nothing does.
func (c *pair) fault() string {
	api, ours := keysOf(c.api), keysOf(c.ours)
	drop := func(keys map[string]bool, roots []string) {
		for key := range keys {
			for _, root := range roots {
				if key == root || strings.HasPrefix(key, root+".") {
					delete(keys, key)
				}
			}
		}
	}
	drop(api, c.apiOnly)
	drop(ours, c.other)
	diff := cmp.Diff(slices.Sorted(maps.Keys(api)), slices.Sorted(maps.Keys(ours)))
	if diff == "" {
		return ""
	}
	return fmt.Sprintf("%s: keys differ (-API +settings): write them into the type %[1]s in api/v1alpha1, unless it is generated, and run make gen:\n%s", c.name, diff)
}

func TestASettingThatTheAPILacksIsReportedWithWhatToRun(t *testing.T) {
	type settings struct {
		policy.SLOCost
		Toy int `json:"toy"`
	}
	c := pair{name: "SLOCost", api: reflect.TypeFor[v1alpha1.SLOCost](), ours: reflect.TypeFor[settings]()}
	for _, want := range []string{"SLOCost: keys differ", "api/v1alpha1", "make gen", `"toy"`} {
		if said := c.fault(); !strings.Contains(said, want) {
			t.Errorf("it must say %q, was %q", want, said)
		}
	}
}

// A field that the CRDs lack is pruned by the API server, and has no effect.
func TestCRDsHaveTheKeysOfTheTypes(t *testing.T) {
	for kind, of := range map[string]reflect.Type{
		v1alpha1.KindWorkloadAutoscaler: reflect.TypeFor[v1alpha1.WorkloadAutoscaler](),
		v1alpha1.KindVMPool:             reflect.TypeFor[v1alpha1.VMPool](),
		v1alpha1.KindPriceBook:          reflect.TypeFor[v1alpha1.PriceBook](),
	} {
		schema := must.Get(schemaOf(kind))(t)
		if fault := crdFault(kind, of, schema); fault != "" {
			t.Error(fault)
		}
	}
}

func TestAKeyThatACRDLacksIsReportedWithWhatToRun(t *testing.T) {
	schema := must.Get(schemaOf(v1alpha1.KindPriceBook))(t)
	delete(schema.Properties["spec"].Properties, "tariffs")
	said := crdFault(v1alpha1.KindPriceBook, reflect.TypeFor[v1alpha1.PriceBook](), schema)
	for _, want := range []string{"PriceBook", "make gen", `"spec.tariffs"`} {
		if !strings.Contains(said, want) {
			t.Errorf("it must say %q, was %q", want, said)
		}
	}
}

// crdFault says what of a kind its CRD lacks or has besides, and what to do; empty if there is
// nothing.
func crdFault(kind string, of reflect.Type, schema *openapi.Schema) string {
	types, crd := map[string]bool{}, map[string]bool{}
	for _, part := range []string{"Spec", "Status"} {
		field, _ := of.FieldByName(part)
		addKeys(types, field.Type, strings.ToLower(part))
		inner := schema.Properties[strings.ToLower(part)]
		addSchema(crd, &inner, strings.ToLower(part))
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(types)), slices.Sorted(maps.Keys(crd))); diff != "" {
		return fmt.Sprintf("%s: the CRD is not what the types in api/v1alpha1 say (-types +deploy/manifests/crds.yaml): run make gen:\n%s", kind, diff)
	}
	return ""
}

// addSchema adds the paths of all keys of a schema.
func addSchema(keys map[string]bool, s *openapi.Schema, path string) {
	for key := range s.Properties {
		inner := s.Properties[key]
		keys[path+"."+key] = true
		addSchema(keys, &inner, path+"."+key)
	}
	if s.Items != nil && s.Items.Schema != nil {
		addSchema(keys, s.Items.Schema, path)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		addSchema(keys, s.AdditionalProperties.Schema, path)
	}
}

// keysOf are the paths of all keys of a type.
func keysOf(t reflect.Type) map[string]bool {
	keys := map[string]bool{}
	addKeys(keys, t, "")
	return keys
}

var (
	textReader = reflect.TypeFor[encoding.TextUnmarshaler]()
	jsonReader = reflect.TypeFor[json.Unmarshaler]()
)

func addKeys(keys map[string]bool, t reflect.Type, path string) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		addKeys(keys, t.Elem(), path)
	case reflect.Struct:
		if p := reflect.PointerTo(t); path != "" && (p.Implements(textReader) || p.Implements(jsonReader)) {
			return // it is written as one text
		}
		for i := range t.NumField() {
			field := t.Field(i)
			key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			switch {
			case key == "-" || !field.IsExported():
			case key == "" && field.Anonymous:
				addKeys(keys, field.Type, path)
			default:
				at := strings.TrimPrefix(path+"."+key, ".")
				keys[at] = true
				addKeys(keys, field.Type, at)
			}
		}
	default: // it has no keys
	}
}
