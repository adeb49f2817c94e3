package cli

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// kubectl reads YAML 1.1, in which more words are no text than in YAML 1.2.
func TestTextStaysTextForKubernetes(t *testing.T) {
	for _, text := range []string{
		"Off", "off", "OFF", "on", "On", "yes", "Yes", "no", "NO", "y", "Y", "n", "N", "true", "False", "null", "~", "",
		"22:00", "1:30:00.5", "0777", "0x1f", "0b11", "1_000", "1e3", ".5", ".inf", ".NaN", "2026-01-01", "<<", "=", "-", "*a", "&a", "!x", "a: b", "a #b", "web",
	} {
		was := map[string]any{"value": text, "list": []any{text}, "n": true, "keys": map[string]any{text: "x"}}
		var out bytes.Buffer
		must.Do(t, WriteYAML(&out, must.Get(json.Marshal(was))(t)))
		var is map[string]any
		if err := yaml.Unmarshal(out.Bytes(), &is); err != nil {
			t.Errorf("%q: %v\n%s", text, err, out.String())
		} else if diff := cmp.Diff(was, is); diff != "" {
			t.Errorf("%q becomes something else (-was +is)\n%s", text, diff)
		}
	}
	for text, want := range map[string]string{`{"mode":"Off"}`: "mode: \"Off\"\n", `{"at":"22:00"}`: "at: \"22:00\"\n", `{"on":true}`: "\"on\": true\n", `{"mode":"Active"}`: "mode: Active\n"} {
		var out bytes.Buffer
		if must.Do(t, WriteYAML(&out, []byte(text))); out.String() != want {
			t.Errorf("%s is written as %q, want %q", text, out.String(), want)
		}
	}
}
