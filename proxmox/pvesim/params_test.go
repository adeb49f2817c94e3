package pvesim

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

func TestVerificationSaysWhatTheServerSays(t *testing.T) {
	for _, test := range []struct {
		notation, form string
		want           map[string]string // nothing is all right
	}{
		{`a:str`, "", map[string]string{"a": "property is missing and it is not optional"}},
		{`a?:str`, "b=1", map[string]string{"b": "property is not defined in schema and the schema does not allow additional properties"}},
		{`a?:str ...`, "b=1", nil},
		{`a:str b:int c?:bool`, "b=x&c=yes&d=1", map[string]string{
			"a": "property is missing and it is not optional", "b": "type check ('integer') failed - got 'x'",
			"c": "type check ('boolean') failed - got 'yes'", "d": "property is not defined in schema and the schema does not allow additional properties"}},
		{`a:int[1..10]`, "a=0", map[string]string{"a": "value must have a minimum value of 1"}},
		{`a:int[1..10]`, "a=11", map[string]string{"a": "value must have a maximum value of 10"}},
		{`a:int[1..10]`, "a=2.5", map[string]string{"a": "type check ('integer') failed - got '2.5'"}},
		{`a:num[0..1]`, "a=1e-1", nil},
		{`a:num[0..1]`, "a=", map[string]string{"a": "type check ('number') failed - got ''"}},
		{`a:str[2..3]`, "a=x", map[string]string{"a": "value must be at least 2 characters long"}},
		{`a:str[2..3]`, "a=%C3%BCber", map[string]string{"a": "value may only be 3 characters long"}},
		{`a:enum(x,y)`, "a=z", map[string]string{"a": "value 'z' does not have a value in the enumeration 'x, y'"}},
		{`a:/[a-z]+\d/`, "a=ab", map[string]string{"a": "value does not match the regex pattern"}},
		{`a:/[a-z]+\d/`, "a=ab1", nil},
		{`a?:bool&b b?:str`, "a=1", map[string]string{"b": "missing property - 'a' requires this property"}},
		{`a:vmid`, "a=7", map[string]string{"a": "invalid format - value does not look like a valid VM ID\n"}},
		{`a:vmid-list`, "a=100,+101;102", nil},
		{`a:vmid-list`, "a=100,x", map[string]string{"a": "invalid format - value does not look like a valid VM ID\n"}},
		{`a:vmid-list`, "a=100&a=101", nil},
		{`a:vmid[]`, "a=100&a=x", map[string]string{"a[1]": "type check ('integer') failed - got 'x'"}},
		{`a:int`, "a=1&a=2", map[string]string{"a": "type check ('integer') failed - got ARRAY"}},
		{`a:storage-id`, "a=x", map[string]string{"a": "invalid format - storage ID 'x' contains illegal characters\n"}},
		{`a:email-opt`, "a=", nil},
		{`a:email-opt`, "a=x", map[string]string{"a": "invalid format - value does not look like a valid email address\n"}},
		{`n[0..31]?:qm-net`, "n0=virtio&n31=virtio", nil},
		{`n[0..31]?:qm-net`, "n32=virtio&n01=virtio&n=virtio", map[string]string{
			"n32": "property is not defined in schema and the schema does not allow additional properties",
			"n01": "property is not defined in schema and the schema does not allow additional properties",
			"n":   "property is not defined in schema and the schema does not allow additional properties"}},
		{`net0:qm-net`, "net0=virtio,bridge=nobr,foo=1", map[string]string{
			"net0": "invalid format - format error\nnet0.foo: property is not defined in schema and the schema does not allow additional properties\n"}},
		{`net0:qm-net`, "net0=virtio=BC:24:11:00:00:01,e1000=BC:24:11:00:00:02", map[string]string{
			"net0": "invalid format - key alias 'model' is already defined\n"}},
		{`net0:qm-net`, "net0=virtio=BC:24:11:00:00:01,firewall=on,tag=5000", map[string]string{
			"net0": "invalid format - format error\nnet0.tag: value must have a maximum value of 4094\n"}},
		{`a:{x?:int *y?:str}`, "a=1,2", map[string]string{"a": "invalid format - duplicate key in comma-separated list property: y\n"}},
		{`a:{x?:int}`, "a=1", map[string]string{"a": "invalid format - value without key, but schema does not define a default key\n"}},
		{`a:{x?:int}`, "a=x=", map[string]string{"a": "invalid format - missing key in comma-separated list property\n"}},
		{`a:qm-ipconfig`, "a=gw=10.0.0.1", map[string]string{"a": "invalid format - format error\na.ip: missing property - 'a.gw' requires this property\n"}},
		{`a:qm-ipconfig`, "a=ip=10.0.0.300/24", map[string]string{
			"a": "invalid format - format error\na.ip: invalid format - value does not look like a valid ipv4 network configuration\n\n"}},
		{`a:tag-list`, "a=ok;bad!tag", map[string]string{"a": "invalid format - invalid characters in tag\n"}},
		{`a:qm-bootdisk/(ide|scsi)\d+/`, "a=virtio0", map[string]string{"a": "value does not match the regex pattern"}},
		{`a:storage-content(iso,import)`, "a=snippets", map[string]string{"a": "value 'snippets' does not have a value in the enumeration 'iso, import'"}},
	} {
		_, err := params.Declare(test.notation).Verify(decodeForm(strings.ReplaceAll(test.form, ";", "%3B")))
		got := map[string]string(nil)
		if err != nil {
			got = failure.From(err).Errors
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s of %s: %s", test.form, test.notation, diff)
		}
	}
}

func TestBodiesInJSONAreReadAsTheServerReadsThem(t *testing.T) {
	for _, test := range []struct{ body, want string }{
		{`{"a":1}`, `a=1`},
		{`{"a":"1"}`, `a=1`},
		{`{"b":true}`, `b=1`},
		{`{"b":"true"}`, `b: type check ('boolean') failed - got 'true'`},
		{`{"a":2.50}`, `a: type check ('integer') failed - got '2.5'`},
		{`{"a":null}`, ``},
		{`null`, ``},
		{`{"l":["a","b"]}`, `l=a,b`},
		{`{"a":{}}`, `a: type check ('integer') failed - got HASH`},
		{`[]`, `Not a HASH reference at /usr/share/perl5/PVE/APIServer/AnyEvent.pm line 978.`},
		{``, `malformed JSON string, neither tag, array, object, number, string or atom, at character offset 0 (before "(end of string)") at /usr/share/perl5/PVE/APIServer/AnyEvent.pm line 934.`},
		{`{"a":`, `malformed JSON string, neither tag, array, object, number, string or atom, at character offset 5 (before "(end of string)") at /usr/share/perl5/PVE/APIServer/AnyEvent.pm line 934.`},
		{`{} x`, `garbage after JSON object, at character offset 2 (before " x") at /usr/share/perl5/PVE/APIServer/AnyEvent.pm line 934.`},
	} {
		var got []string
		sent, err := decodeJSON([]byte(test.body))
		if err != nil {
			got = []string{failure.From(err).Reason}
		} else if in, err := params.Declare(`a?:int b?:bool l?:tag-list`).Verify(sent); err != nil {
			for _, key := range world.Sorted(failure.From(err).Errors) {
				got = append(got, key+": "+failure.From(err).Errors[key])
			}
		} else {
			for _, key := range world.Sorted(in) {
				got = append(got, key+"="+in[key])
			}
		}
		if text := strings.Join(got, " "); text != test.want {
			t.Errorf("%s: got %s, want %s", test.body, text, test.want)
		}
	}
}

// What passes once passes again: verified values are the values that were sent.
func TestVerifiedParametersPassAgain(t *testing.T) {
	s := params.Declare(params.QemuConfig)
	rapid.Check(t, func(t *rapid.T) {
		sent := map[string]any{}
		for range rapid.IntRange(0, 5).Draw(t, "n") {
			key := rapid.SampledFrom(s.Order).Draw(t, "key")
			sent[key+rapid.SampledFrom([]string{"", "0", "1"}).Draw(t, "number")] = rapid.OneOf(
				rapid.Just[any](true), rapid.Just[any](nil), rapid.Map(rapid.StringMatching(`[a-z0-9=,:;/.]{0,12}`), func(s string) any { return s }),
				rapid.Just[any]([]any{"a", "b"}),
			).Draw(t, "value")
		}
		in, err := s.Verify(sent)
		if err != nil {
			return
		}
		again := map[string]any{}
		for key, value := range in {
			again[key] = value
		}
		twice, err := s.Verify(again)
		if diff := cmp.Diff(in, twice); diff != "" || err != nil {
			t.Fatalf("%v: %v %s", sent, err, diff)
		}
	})
}
