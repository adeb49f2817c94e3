package resources

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/testbed/crd"
	"github.com/plimsoll/plimsoll/testbed/must"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

// faultForm is a fault with the field that it is in and the value that it has.
var faultForm = regexp.MustCompile(`^(spec|metadata\.name)\S*( .*)?: (must|no |needs).*`)

// Every object that the API server accepts can be decoded, for otherwise nothing of its kind could
// be watched any more; and it means something, or has faults that name their field.
func TestWhatTheCRDsAcceptIsDecodedAndMeansSomethingOrNamesItsFaults(t *testing.T) {
	j := judge(t)
	all := must.Get(crd.Fixtures(os.DirFS(testdata + "accepted")))(t)
	passed := 0
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SampledFrom(all).Draw(t, "manifest")
		var obj map[string]any
		must.Do(t, yaml.Unmarshal(f.Documents[0], &obj))
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			change(t, obj["spec"])
		}
		text := must.Get(json.Marshal(obj))(t)
		stored, err := j.Create(text)
		if err != nil {
			return
		}
		passed++
		text = must.Get(stored.MarshalJSON())(t)
		err = convert(stored.GetKind(), text)
		if _, ok := errors.AsType[*undecodable](err); ok {
			t.Fatalf("the rules let pass what cannot be decoded: %v\n%s", err, text)
		}
		for _, one := range unjoin(err) {
			if !faultForm.MatchString(one.Error()) {
				t.Fatalf("a fault without field or rule: %v\n%s", one, text)
			}
		}
	})
	if passed == 0 {
		t.Fatal("no change passed the rules: the law has said nothing")
	}
}

func unjoin(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return nil
}

// scalars are what people write, and what they write by mistake.
var scalars = []any{
	0, 1, -1, 2, 3, 99, 100, 1200, 65536, 1 << 30, 1 << 31, 1 << 40, 1 << 53, 0.5, 1.5, 1e300, true, false, nil, "",
	"0", "1", "00", "0.5", "1.0", "000000000001", "999999999999", "0.000001", "32", "31.999999999", "100", "-1", "1e3", "NaN",
	"0s", "1ms", "99999h99999h99999h99999h", "5m", "1h1h", "0B", "1B", "512Mi", "8Gi", "8GB", "999999TiB", "500m", "2000m", "0m", "999Ti", "9999999999m",
	"99th", "p100", "0.0001", "web", "A", "pve1", "a b", "é", "10.0.0.1", "10.0.0.1/8", "fd00::1/64", "1.2.3.4/33", "22:00", "24:00", "UTC", "Mars/Base", "../UTC",
	"Pending", "Unneeded", "rke2", "k3s", "talos", "custom", "full", "https://a:1", "x://{name}", "{", "\n", "\"", "\\", ": ", "#", "proxmox", "template",
}

// change changes one value somewhere in what is there, or takes it away.
func change(t *rapid.T, value any) {
	switch value := value.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(value))
		if len(keys) == 0 {
			return
		}
		key := rapid.SampledFrom(keys).Draw(t, "key")
		inner := value[key]
		switch {
		case isTree(inner) && rapid.IntRange(0, 9).Draw(t, "deeper") > 0:
			change(t, inner)
		case rapid.IntRange(0, 4).Draw(t, "remove") == 0:
			delete(value, key)
		default:
			value[key] = rapid.SampledFrom(scalars).Draw(t, "scalar")
		}
	case []any:
		if len(value) == 0 {
			return
		}
		i := rapid.IntRange(0, len(value)-1).Draw(t, "item")
		if isTree(value[i]) {
			change(t, value[i])
			return
		}
		value[i] = rapid.SampledFrom(scalars).Draw(t, "scalar")
	}
}

func isTree(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}
