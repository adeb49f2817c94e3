package pveapi

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pieces are what random answers are made of.
var pieces = struct{ keys, values []string }{
	keys: []string{`"id"`, `"type"`, `"vmid"`, `"maxcpu"`, `"VMID"`, `"cgroup-mode"`, `"na\u006de"`, `"naïve"`, `""`, `"name"`, `"uptime"`},
	values: []string{
		`1`, `-1.5e+3`, `"a"`, `"a\"}b"`, `"\\"`, `"é"`, `""`, `true`, `null`, `{}`, `[]`, `[1, "]", {"a":[2]}]`, `{"a": {"b": "}"}, "c": 1}`,
	},
}

func object(r *rand.Rand, value func() string) string {
	var members []string
	for range r.IntN(4) {
		members = append(members, pieces.keys[r.IntN(len(pieces.keys))]+space(r)+":"+space(r)+value())
	}
	return "{" + space(r) + strings.Join(members, space(r)+","+space(r)) + space(r) + "}"
}

func space(r *rand.Rand) string { return []string{"", "", "", " ", "\n\t"}[r.IntN(5)] }

func same[T any](t *testing.T, data string) {
	t.Helper()
	var got, want T
	failed, fails := decode([]byte(data), &got), json.Unmarshal([]byte(data), &want)
	if (failed == nil) != (fails == nil) || failed != nil && failed.Error() != fails.Error() {
		t.Errorf("%s as %T: error %v, want %v", data, got, failed, fails)
	}
	if diff := cmp.Diff(want, got); failed == nil && diff != "" {
		t.Errorf("%s as %T:\n%s", data, got, diff)
	}
}

// Every answer is read as encoding/json reads it.
func TestAnswersAreReadAsJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	scalar := func() string { return pieces.values[r.IntN(len(pieces.values))] }
	flat := func() string {
		if r.IntN(8) == 0 {
			return scalar()
		}
		return object(r, scalar)
	}
	for range 3000 {
		var list []string
		for range r.IntN(4) {
			list = append(list, flat())
		}
		for _, data := range []string{scalar(), flat(), object(r, flat), "[" + strings.Join(list, ",") + "]"} {
			data = space(r) + data + space(r)
			if !json.Valid([]byte(data)) {
				t.Fatalf("the test makes %s", data)
			}
			same[fields](t, data)
			same[[]fields](t, data)
			same[map[string]fields](t, data)
			same[[]resourceRead](t, data)
		}
	}
}
