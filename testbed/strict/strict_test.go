package strict_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/strict"
)

// even is a type that reads its own text.
type even int

func (e *even) UnmarshalText(text []byte) error {
	if _, err := fmt.Sscanf(string(text), "%d", e); err != nil || *e%2 != 0 {
		return fmt.Errorf("must be an even number, was %q", text)
	}
	return nil
}

type limits struct {
	Min int   `json:"min" strict:"required"`
	Max *even `json:"max,omitempty"`
}

type experiment struct {
	Name    string            `json:"name" strict:"required"`
	Users   []uint8           `json:"users"`
	Trial   int8              `json:"trial"`
	Rate    float64           `json:"rate"`
	Dry     bool              `json:"dry"`
	Lasts   time.Duration     `json:"lasts" strict:"oneof=end"`
	Until   time.Time         `json:"until" strict:"oneof=end"`
	Pools   map[string]limits `json:"pools"`
	Odds    map[even]string   `json:"odds"`
	Steps   []step            `json:"steps"`
	Params  strict.Block      `json:"params"`
	Plain   string
	Hidden  string `json:"-"`
	private string //nolint:unused // must not be a key
	limits2
}

type limits2 struct {
	Low  *int `json:"low" strict:"oneof=edge"`
	High *int `json:"high" strict:"oneof=edge"`
	Both bool `json:"both" strict:"oneof=edge,oneof=end"`
}

type step struct {
	Do string `json:"do"`
}

func TestGoodDocumentsAreDecoded(t *testing.T) {
	document := `
# a comment
name: "5"
users: [10, 20, 255]
trial: -128
rate: 1e3
dry: true
lasts: 1h30m
pools:
  small: {min: 1, max: "4"}
  big.one: &big
    min: 2
  other: *big
odds: {2: two}
steps:
  - do: |
      this
  - do: that
Plain: x
low: 0
params:
  any: [thing]
`
	got := experiment{Hidden: "kept", limits2: limits2{}}
	must.Do(t, strict.Unmarshal([]byte(document), &got))
	if got.Params.IsZero() {
		t.Error("the block is absent")
	}
	var params struct {
		Any []string `json:"any"`
	}
	if err := got.Params.Decode(&params); err != nil || len(params.Any) != 1 || params.Any[0] != "thing" {
		t.Errorf("the block is %v, %v", params, err)
	}
	got.Params = strict.Block{}
	want := experiment{
		Name: "5", Users: []uint8{10, 20, 255}, Trial: -128, Rate: 1000, Dry: true, Lasts: 90 * time.Minute,
		Pools:  map[string]limits{"small": {Min: 1, Max: new(even(4))}, "big.one": {Min: 2}, "other": {Min: 2}},
		Odds:   map[even]string{2: "two"},
		Steps:  []step{{"this\n"}, {"that"}},
		Plain:  "x",
		Hidden: "kept",
		limits2: limits2{
			Low: new(0),
		},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(experiment{}), cmp.Comparer(func(a, b strict.Block) bool { return a.IsZero() == b.IsZero() })); diff != "" {
		t.Error(diff)
	}
}

func TestEveryFaultIsReportedWithLinePathRuleAndValue(t *testing.T) {
	const good = "name: x\nboth: true\n"
	for _, c := range []struct{ name, document, want string }{
		{"unknown key, nearly right", good + "uesrs: [1]", `
line 3: uesrs: unknown key, did you mean users?`},
		{"unknown key in another case", good + "Users: [1]", `
line 3: Users: unknown key, did you mean users?`},
		{"a key nearly right is not missing as well", "namex: x\nbothx: true", `
line 1: namex: unknown key, did you mean name?
line 2: bothx: unknown key, did you mean both?`},
		{"unknown key, far off", good + "pools: {a: {min: 1, colour: red}}", `
line 3: pools.a.colour: unknown key, there is min and max`},
		{"hidden and private fields are no keys", good + "Hidden: x\nprivate: x", `
line 3: Hidden: unknown key, there is name, users, trial, rate, dry, lasts, until, pools, odds, steps, params, Plain, low, high and both
line 4: private: unknown key, there is name, users, trial, rate, dry, lasts, until, pools, odds, steps, params, Plain, low, high and both`},
		{"twice", good + "dry: true\nrate: 1\ndry: false", `
line 5: dry: must be there once, was on line 3 before`},
		{"wrong types", "name: 5\nboth: yes\nusers: 5\ntrial: 1.5\nrate: fast\nlasts: 5\npools: []\nsteps: [x, {do: [y]}]\nuntil: [1]", `
line 1: name: must be a string, in quotes, was 5
line 1: must have exactly one of lasts, until and both, was lasts, until and both
line 2: both: must be true or false, was "yes"
line 3: users: must be a list, was 5
line 4: trial: must be a whole number, was 1.5
line 5: rate: must be a number, was "fast"
line 6: lasts: must be a duration with its unit, such as 300ms, 30s or 1h30m, was 5
line 7: pools: must be a mapping, was a list
line 8: steps[0]: must be a mapping, was "x"
line 8: steps[1].do: must be a string, was a list
line 9: until: must be a single value, was a list`},
		{"a unit that is none here", "name: x\nlow: 1\nlasts: 1d", `
line 3: lasts: must be a duration in ms, s, m or h, such as 300ms, 30s or 1h30m, was "1d"`},
		{"numbers out of range", good + "users: [256, -1, 0x10, 1_0, 3.0]\ntrial: 128\nrate: .nan", `
line 3: users[0]: must be from 0 to 255, was 256
line 3: users[1]: must be from 0 to 255, was -1
line 3: users[2]: must be a whole number, was 0x10
line 3: users[3]: must be a whole number, was 1_0
line 3: users[4]: must be a whole number, was 3.0
line 4: trial: must be from -128 to 127, was 128
line 5: rate: must be a number, was .nan`},
		{"own types say what they want", "name: x\nlow: 1\nuntil: tomorrow\npools: {a: {min: 1, max: 3}}\nodds: {3: x}", `
line 3: until: must be a time such as 2026-03-01T12:00:00Z, was "tomorrow"
line 4: pools.a.max: must be an even number, was "3"
line 5: odds.3: must be an even number, was "3"`},
		{"no value", good + "pools:\nusers: [~]\nsteps: [{do: }]", `
line 3: pools: must have a value; omit the key if it has no value
line 4: users[0]: must have a value; omit the key if it has no value
line 5: steps[0].do: must have a value; omit the key if it has no value`},
		{"missing keys", "pools:\n  a: {max: 2}\n", `
name: must be set
line 1: must have exactly one of lasts, until and both, was none of them
line 1: must have exactly one of low, high and both, was none of them
line 2: pools.a.min: must be set`},
		{"empty", "", `
name: must be set
line 1: must have exactly one of lasts, until and both, was none of them
line 1: must have exactly one of low, high and both, was none of them`},
		{"not a mapping", "- name: x", `
line 1: must be a mapping, was a list`},
		{"odd keys", good + "pools: {a.b: {min: x}, '': {min: 1, ? [a] : b}}", `
line 3: pools["a.b"].min: must be a whole number, was "x"
line 3: pools[""]: must have single values as keys, was a list`},
		{"merge", "base: &b {name: x}\n<<: *b\nname: y\nboth: true", `
line 1: base: unknown key, there is name, users, trial, rate, dry, lasts, until, pools, odds, steps, params, Plain, low, high and both
line 2: must have its keys written out, was a merge (<<)`},
		{"tags", good + "rate: !km 5", `
line 3: rate: must have no tag of its own, was !km`},
		{"more than one document", good + "---\nname: y", `
line 3: must be one document, was more`},
		{"no YAML", "name: [x", `
line 1: did not find expected ',' or ']'`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := strict.Unmarshal([]byte(c.document), new(experiment))
			if err == nil {
				t.Fatal("it is accepted")
			}
			if diff := cmp.Diff(strings.TrimSpace(c.want), err.Error()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAliasesThatNeverEndAreRefused(t *testing.T) {
	type tree struct {
		Sub []tree `json:"sub"`
	}
	for name, document := range map[string]string{
		"an alias in its own anchor":  "sub: &a\n- sub: *a",
		"anchors doubling each other": bomb(40),
	} {
		err := strict.Unmarshal([]byte(document), new(tree))
		if err == nil || !strings.Contains(err.Error(), "must be one of at most 1000 aliases in a document") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// bomb is a document whose n-th level has the one below twice.
func bomb(n int) string {
	var b strings.Builder
	b.WriteString("sub:\n- &a0 {sub: []}\n")
	for i := range n {
		fmt.Fprintf(&b, "- &a%d {sub: [*a%d, *a%d]}\n", i+1, i, i)
	}
	return b.String()
}

func TestBlocksReportFaultsWhereTheyStand(t *testing.T) {
	var e struct {
		Policy string                  `json:"policy"`
		Params map[string]strict.Block `json:"params"`
		Absent strict.Block            `json:"absent"`
	}
	must.Do(t, strict.Unmarshal([]byte("policy: hpa\nparams:\n  hpa:\n    min: 1\n    max: 3\n"), &e))
	err := e.Params[e.Policy].Decode(new(limits))
	if want := `line 5: params.hpa.max: must be an even number, was "3"`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	err = e.Absent.Decode(new(limits))
	if want := "min: must be set"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// badKey is a fault that knows its key.
type badKey struct{ path, rule string }

func (b badKey) Path() string  { return b.path }
func (b badKey) Error() string { return b.path + ": " + b.rule }

type checked struct {
	Low   int             `json:"low"`
	High  int             `json:"high"`
	Parts map[string]part `json:"parts"`
}

type part struct {
	Size int `json:"size"`
}

func (c *checked) Validate() error {
	var errs []error
	if c.Low < 0 {
		errs = append(errs, badKey{"low", "must be ≥ 0"})
	}
	if c.Low > c.High {
		errs = append(errs, badKey{"", "low must not be more than high"}, errors.New("too low"))
	}
	for _, name := range []string{"a", "b.c"} {
		if p, ok := c.Parts[name]; ok && p.Size == 0 {
			errs = append(errs, badKey{"parts" + map[string]string{"a": ".a", "b.c": `["b.c"]`}[name] + ".size", "must be set"})
		}
	}
	return errors.Join(errs...)
}

func TestWhatATypeFindsWrongInItselfGetsItsLine(t *testing.T) {
	for _, c := range []struct{ name, document, want string }{
		{"whole", "high: -5\nparts:\n  a:\n    size: 0\n  b.c:\n    {}\nlow: -1", `
line 1: low must not be more than high
line 1: too low
line 4: parts.a.size: must be set
line 5: parts["b.c"].size: must be set
line 7: low: must be ≥ 0`},
		{"in part, only what is sure", "low: -1\nhigh: x\nparts: {a: {}}", `
line 1: low: must be ≥ 0
line 2: high: must be a whole number, was "x"`},
	} {
		err := strict.Unmarshal([]byte(c.document), new(checked))
		if err == nil {
			t.Fatalf("%s: accepted", c.name)
		}
		if diff := cmp.Diff(strings.TrimSpace(c.want), err.Error()); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
	var outer struct {
		Inner strict.Block `json:"inner"`
	}
	must.Do(t, strict.Unmarshal([]byte("inner:\n  parts:\n    b.c: {size: 0}\n  low: -1"), &outer))
	want := `line 3: inner.parts["b.c"].size: must be set
line 4: inner.low: must be ≥ 0`
	if err := outer.Inner.Decode(new(checked)); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestNearestIsWhatWasProbablyMeant(t *testing.T) {
	choices := []string{"price", "plan", "demo", "testbed", "pricePerVCPUHour"}
	for word, want := range map[string]string{
		"pirce": "price", "Price": "price", "pla": "plan", "plane": "plan", "testbde": "testbed",
		"pricePerCPUHour": "pricePerVCPUHour", "deploy": "", "x": "", "": "",
	} {
		if got, ok := strict.Nearest(word, choices); got != want || ok != (want != "") {
			t.Errorf("%q is taken for %q, want %q", word, got, want)
		}
	}
}

func FuzzUnmarshalNeverPanics(f *testing.F) {
	for _, s := range []string{"", "name: x", "a: &a [*a]", "<<: {}", "? [a] : b", "- - -", "name: !!int 5", "\x00", "a: *b", bomb(3), "!!str : x", "--- !!null", "pools: {? : 1}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		err := strict.Unmarshal([]byte(s), new(experiment))
		if err == nil {
			return
		}
		if err.Error() == "" || errors.Unwrap(err) != nil && errors.Unwrap(err).Error() == "" {
			t.Errorf("%q is refused without a word", s)
		}
	})
}

func TestAddressesSayWhatTheyAre(t *testing.T) {
	var into struct {
		Gateway netip.Addr   `json:"gateway"`
		Network netip.Prefix `json:"network"`
	}
	err := strict.Unmarshal([]byte("gateway: pve1\nnetwork: 10.0.0.5"), &into)
	want := `line 1: gateway: must be an address such as 10.0.0.1, was "pve1"
line 2: network: must be an address with its prefix length, such as 10.0.0.50/24, was "10.0.0.5"`
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
	if err := strict.Unmarshal([]byte("gateway: 10.0.0.1\nnetwork: 10.0.0.0/24"), &into); err != nil || !into.Network.Contains(into.Gateway) {
		t.Errorf("%v is not in %v: %v", into.Gateway, into.Network, err)
	}
}

func TestZerosAreNoDefaults(t *testing.T) {
	type lasting struct {
		Grace time.Duration `json:"grace" strict:"nonzero"`
		Keep  *int          `json:"keep" strict:"nonzero"`
		Ratio float64       `json:"ratio" strict:"nonzero"`
		VLAN  int           `json:"vlan"`
	}
	for text, want := range map[string]string{
		"{}":                          "",
		"{grace: 1s, ratio: 0.1}":     "",
		"{vlan: 0, keep: 0}":          "", // a pointer distinguishes a zero from nothing
		"{grace: 0s, ratio: 0.0}":     "line 1: grace: must be above 0, or omitted for its default, was \"0s\"\nline 1: ratio: must be above 0, or omitted for its default, was 0.0",
		"grace: 0":                    "line 1: grace: must be above 0, or omitted for its default, was 0",
		"{grace: &none 0m, ratio: 1}": "line 1: grace: must be above 0, or omitted for its default, was \"0m\"",
	} {
		got := ""
		if err := strict.Unmarshal([]byte(text), &lasting{}); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// partial is a document of which not all is always needed.
type partial struct {
	Name  string `json:"name" strict:"required"`
	Limit limits `json:"limit" strict:"required"`
}

func (partial) Optional(path string) bool { return path == "limit" || path == "limit.min" }

func TestRequiredKeysMayBeOptionalInADocument(t *testing.T) {
	for text, want := range map[string]string{
		"name: x":              "",
		"{name: x, limit: {}}": "",
		"limit: {min: 1}":      "name: must be set",
	} {
		var p partial
		got := ""
		if err := strict.Unmarshal([]byte(text), &p); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
