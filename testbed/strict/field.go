package strict

import (
	"reflect"
	"strings"
)

// field is a key that a struct has.
type field struct {
	key      string
	index    []int
	required bool
	nonzero  bool     // a zero would be taken for a key that is not there
	groups   []string // of which exactly one key must be there
}

// fieldsOf lists a struct's keys in order; those of embedded structs are in their place.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			for _, inner := range fieldsOf(f.Type) {
				inner.index = append([]int{i}, inner.index...)
				fields = append(fields, inner)
			}
		case f.IsExported():
			fields = append(fields, newField(name, f))
		}
	}
	return fields
}

func newField(key string, f reflect.StructField) field {
	if key == "" {
		key = f.Name
	}
	made := field{key: key, index: f.Index}
	rules := f.Tag.Get("strict")
	for rule := range strings.SplitSeq(rules, ",") {
		group, isGroup := strings.CutPrefix(rule, "oneof=")
		switch {
		case rule == "":
		case rule == "required":
			made.required = true
		case rule == "nonzero":
			made.nonzero = true
		case isGroup && group != "":
			made.groups = append(made.groups, group)
		default:
			panic("strict: no such rule: " + rule + " at " + f.Name)
		}
	}
	return made
}
