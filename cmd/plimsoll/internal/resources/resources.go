// Package resources puts what the API's objects say into the words that the rest of Plimsoll
// speaks.
//
// The API server has refused most of what means nothing by the rules of the CRDs. What these cannot
// say is refused here, every fault at once, with the field, the rule and the value.
package resources

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/strict"
)

// faults collects what is wrong with an object.
type faults []error

// note takes over an error, or all that were joined in it, under a path.
func (f *faults) note(under string, err error) {
	if err == nil {
		return
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			f.note(under, e)
		}
		return
	}
	path, rule, found := strings.Cut(strings.TrimPrefix(err.Error(), oneLine), ": ")
	if !found || strings.ContainsAny(path, " ,") {
		path, rule = "", strings.TrimPrefix(err.Error(), oneLine)
	}
	*f = append(*f, pricing.NewFault(join(under, path), rule))
}

// join appends a path to another.
func join(under, path string) string {
	if path == "" || under == "" || strings.HasPrefix(path, "[") {
		return under + path
	}
	return under + "." + path
}

// oneLine is what the faults of a document begin with that has but one line.
const oneLine = "line 1: "

// spec is the path of all that an object wants.
const spec = "spec"

// read decodes what an object says into our own type of the same keys, which says what is wrong
// with it.
func (f *faults) read(under string, from, into any) {
	f.readKeys(under, plain(reflect.ValueOf(from)), into)
}

func (f *faults) readKeys(under string, keys, into any) {
	text, err := json.Marshal(keys)
	if err == nil {
		err = strict.Unmarshal(text, into)
	}
	f.note(under, err)
}

// plain is what an object of the API says, with ratios as numbers: the API has no fractions but in
// texts, and our settings have no texts for fractions.
func plain(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return plain(v.Elem())
	case reflect.Struct:
		return plainStruct(v)
	case reflect.Map:
		out := map[string]any{}
		for key, value := range v.Seq2() {
			out[key.String()] = plain(value)
		}
		return out
	case reflect.Slice:
		out := []any{}
		for _, value := range v.Seq2() {
			out = append(out, plain(value))
		}
		return out
	default:
		return plainScalar(v.Interface())
	}
}

func plainScalar(v any) any {
	switch text := v.(type) {
	case v1alpha1.Ratio:
		return number(string(text))
	case v1alpha1.Number:
		return number(string(text))
	case v1alpha1.Overcommit:
		return number(string(text))
	}
	return v
}

func plainStruct(v reflect.Value) map[string]any {
	out := map[string]any{}
	for i := range v.NumField() {
		key, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if strings.Contains(options, "omitempty") && v.Field(i).IsZero() {
			continue
		}
		out[key] = plain(v.Field(i))
	}
	return out
}

// number is a text as a number, or the text, which is then refused by the rule of its field.
func number(text string) any {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return text
	}
	return n
}

// duration reads a duration; one that is omitted is 0.
func (f *faults) duration(path string, d v1alpha1.Duration) time.Duration {
	if d == "" {
		return 0
	}
	v, err := time.ParseDuration(string(d))
	if err != nil {
		f.note("", pricing.NewFault(path, fmt.Sprintf("must be a duration such as 30s or 5m, was %q", string(d))))
	}
	return v
}

// within reads a duration that has bounds; omitted, it has none.
func (f *faults) within(path string, d v1alpha1.Duration, low, high time.Duration) time.Duration {
	before := len(*f)
	v := f.duration(path, d)
	if d != "" && len(*f) == before && (v < low || v > high) {
		f.note("", pricing.NewFault(path, fmt.Sprintf("must be from %s to %s, was %q", pricing.Short(low), pricing.Short(high), string(d))))
	}
	return v
}

func (f faults) err() error { return errors.Join(f...) }
