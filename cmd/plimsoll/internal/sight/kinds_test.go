package sight

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/deploy"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// published is what an API server publishes of the kinds that were installed, as it does: each
// schema by group, version and kind. The function changes them first.
func published(t *testing.T, change func(kind string, schema map[string]any)) []byte {
	t.Helper()
	schemas := map[string]any{}
	for _, text := range strings.Split(string(must.Get(deploy.Kinds())(t)), "\n---\n") {
		var crd map[string]any
		must.Do(t, yaml.Unmarshal([]byte(text), &crd))
		if crd["spec"] == nil {
			continue
		}
		spec := crd["spec"].(map[string]any)
		kind := spec["names"].(map[string]any)["kind"].(string)
		schema := spec["versions"].([]any)[0].(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
		change(kind, schema)
		schemas["dev.plimsoll.v1alpha1."+kind] = schema
		schemas["dev.plimsoll.v1alpha1."+kind+"List"] = map[string]any{"type": "object"}
	}
	return must.Get(json.Marshal(map[string]any{"components": map[string]any{"schemas": schemas}}))(t)
}

func fieldsOf(schema map[string]any, path ...string) map[string]any {
	for _, name := range path {
		schema = schema["properties"].(map[string]any)[name].(map[string]any)
	}
	return schema["properties"].(map[string]any)
}

// Kinds that are as new as the program are not spoken of; of older ones it is said what they drop.
func TestOldKindsAreReported(t *testing.T) {
	for name, c := range map[string]struct {
		paths  string
		change func(kind string, schema map[string]any)
		want   []string
	}{
		"as new": {change: func(string, map[string]any) {}},
		"newer":  {change: func(_ string, s map[string]any) { fieldsOf(s)["more"] = map[string]any{"type": "string"} }},
		"older": {change: func(kind string, s map[string]any) {
			if kind == "VMPool" {
				delete(fieldsOf(s, "spec"), "scaledBy")
				delete(fieldsOf(s, "spec", "template"), "byHost")
			}
		}, want: []string{"kind=VMPool lacks=\"spec.scaledBy spec.template.byHost\""}},
		"much older": {change: func(kind string, s map[string]any) {
			if kind == "PriceBook" {
				clear(fieldsOf(s, "spec"))
			}
		}, want: []string{"kind=PriceBook", " more\""}},
		"none there": {paths: `{"paths":{}}`, change: func(string, map[string]any) {}},
		"no answer":  {paths: `x`, change: func(string, map[string]any) {}, want: []string{"is not known"}},
	} {
		schemas := published(t, c.change)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch {
			case r.URL.Path == "/openapi/v3" && c.paths != "":
				_, _ = io.WriteString(w, c.paths)
			case r.URL.Path == "/openapi/v3":
				_, _ = io.WriteString(w, `{"paths":{"apis/plimsoll.dev/v1alpha1":{"serverRelativeURL":"/openapi/v3/apis/plimsoll.dev/v1alpha1?hash=1"}}}`)
			default:
				_, _ = w.Write(schemas)
			}
		}))
		client := must.Get(discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL}))(t)
		var said bytes.Buffer
		WarnOldKinds(t.Context(), slog.New(slog.NewTextHandler(&said, nil)), client)
		server.Close()
		if len(c.want) == 0 && said.Len() > 0 {
			t.Errorf("%s: it says %s", name, &said)
		}
		for _, want := range c.want {
			if !strings.Contains(said.String(), want) {
				t.Errorf("%s: it does not say %q: %s", name, want, &said)
			}
		}
	}
}
