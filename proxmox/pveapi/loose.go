package pveapi

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

// fields is an object of an answer, read loosely: the server sends some numbers as text and some
// text as numbers, leaves out what it does not know yet, and adds fields with every release. What
// is not there, or not of the kind wanted, is unknown.
type fields map[string]json.RawMessage

// asText returns a text, or a number or boolean as one; "" for all else.
func asText(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	var text string
	switch raw[0] {
	case '"':
		if json.Unmarshal(raw, &text) == nil {
			return text
		}
	case '{', '[', 'n':
	default:
		return string(raw)
	}
	return ""
}

func (f fields) text(name string) string { return asText(f[name]) }

// number returns a number, or nil.
func (f fields) number(name string) *float64 {
	n, err := strconv.ParseFloat(f.text(name), 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return nil
	}
	return &n
}

// whole returns a number without what is behind its point, or nil.
func (f fields) whole(name string) *int64 {
	if n, err := strconv.ParseInt(f.text(name), 10, 64); err == nil {
		return &n
	}
	n := f.number(name)
	if n == nil || math.Abs(*n) >= 1<<62 {
		return nil
	}
	whole := int64(*n)
	return &whole
}

// count returns a number that fits an int, or 0.
func (f fields) count(name string) int {
	if n := f.whole(name); n != nil && *n >= math.MinInt32 && *n <= math.MaxInt32 {
		return int(*n)
	}
	return 0
}

// flag returns a boolean in any of its spellings, or nil.
func (f fields) flag(name string) *bool {
	var is bool
	switch strings.ToLower(f.text(name)) {
	case "1", "true", "yes", "on":
		is = true
	case "0", "false", "no", "off":
	default:
		return nil
	}
	return &is
}

// is reports whether a flag is there and on.
func (f fields) is(name string) bool {
	on := f.flag(name)
	return on != nil && *on
}

// list returns the parts of a list, sorted: the server's lists come in any order and with any of
// its separators.
func (f fields) list(name string) []string { return splitList(f.text(name)) }

func splitList(text string) []string {
	parts := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(",; \t\n\x00", r) })
	slices.Sort(parts)
	return slices.Compact(parts)
}

// object returns an object inside, empty if there is none.
func (f fields) object(name string) fields {
	var inner fields
	if json.Unmarshal(f[name], &inner) != nil {
		return nil
	}
	return inner
}

// objects returns a list of objects inside, none if it is not there.
func (f fields) objects(name string) ([]fields, error) {
	if len(f[name]) == 0 {
		return nil, nil
	}
	var list []fields
	err := json.Unmarshal(f[name], &list)
	return list, err
}

// Properties reads a property string: local:100/disk.raw,size=1G has a first value without a name.
func Properties(text string) (first string, named map[string]string) {
	named = map[string]string{}
	for i, part := range strings.Split(text, ",") {
		name, value, found := strings.Cut(part, "=")
		if !found && i == 0 {
			first = part
			continue
		}
		named[name] = value
	}
	return first, named
}
