package testbed

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// The document's example is a whole experiment: it is read as one, and no key is missing in it.
func TestDocumentTellsEveryKey(t *testing.T) {
	data := must.Get(os.ReadFile("../docs/experiment-file.md"))(t)
	_, rest, _ := strings.Cut(string(data), "```yaml\n")
	example, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("the document has no example")
	}
	if _, err := Parse([]byte(example)); err != nil {
		t.Errorf("the example is not read: %v", err)
	}
	for _, key := range keys(reflect.TypeFor[Experiment](), map[reflect.Type]bool{}) {
		if !regexp.MustCompile(`\b` + key + `:`).MatchString(example) {
			t.Errorf("the document does not have the key %s", key)
		}
	}
}

// keys are the keys of this package's own types, at any depth.
func keys(t reflect.Type, seen map[reflect.Type]bool) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || seen[t] || !strings.HasSuffix(t.PkgPath(), "/testbed") {
		return nil
	}
	seen[t] = true
	var out []string
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" {
			out = append(out, name)
		}
		out = append(out, keys(t.Field(i).Type, seen)...)
	}
	return out
}
