package resources

import (
	"encoding"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/podscaler/signals"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/pve"
)

// A key that is added on one side only would be refused, or have no effect.
func TestAPIAndSettingsHaveTheSameKeys(t *testing.T) {
	for _, c := range []struct {
		name           string
		api, ours      any
		apiOnly, other []string
	}{
		{"PriceBook", v1alpha1.PriceBookSpec{}, pricing.Book{}, nil, nil},
		{"VMPool", v1alpha1.VMPoolSpec{}, pve.Pool{}, notOfThePool, []string{"name", "resumed"}},
		{"FastSlow", v1alpha1.FastSlow{}, policy.FastSlow{}, nil, nil},
		{"HPA", v1alpha1.HPA{}, policy.HPA{}, nil, nil},
		{"Joint", v1alpha1.Joint{}, policy.Joint{}, nil, nil},
		{"Predictive", v1alpha1.Predictive{}, policy.Predictive{}, nil, nil},
		{"Signals", v1alpha1.Signals{}, signals.Spec{}, nil, nil},
		{"SLOCost", v1alpha1.SLOCost{}, policy.SLOCost{}, nil, nil},
		{"Watermark", v1alpha1.Watermark{}, policy.Watermark{}, nil, nil},
	} {
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
		if diff := cmp.Diff(slices.Sorted(maps.Keys(api)), slices.Sorted(maps.Keys(ours))); diff != "" {
			t.Errorf("%s: keys differ (-API +settings):\n%s", c.name, diff)
		}
	}
}

// keysOf are the paths of all keys of a type.
func keysOf(v any) map[string]bool {
	keys := map[string]bool{}
	addKeys(keys, reflect.TypeOf(v), "")
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
