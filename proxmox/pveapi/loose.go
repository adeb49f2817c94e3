package pveapi

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
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
		if inner, plain := unquoted(raw); plain {
			return inner
		}
		if json.Unmarshal(raw, &text) == nil {
			return text
		}
	case '{', '[', 'n':
	default:
		return string(raw)
	}
	return ""
}

// unquoted returns the text between quotes, if it means what it is written as.
func unquoted(raw json.RawMessage) (string, bool) {
	last := len(raw) - 1
	if last < 1 || raw[last] != '"' {
		return "", false
	}
	for _, c := range raw[1:last] {
		if c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return "", false
		}
	}
	return string(raw[1:last]), true
}

// loose is a text, or a number or boolean as one; "" is all else.
type loose string

// UnmarshalJSON reads it.
func (l *loose) UnmarshalJSON(raw []byte) error {
	*l = loose(asText(raw))
	return nil
}

// number returns a number, or nil.
func (l loose) number() *float64 {
	if l == "" {
		return nil
	}
	n, err := strconv.ParseFloat(string(l), 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return nil
	}
	return &n
}

// whole returns a number without what is behind its point, or nil.
func (l loose) whole() *int64 {
	if l == "" {
		return nil
	}
	if n, err := strconv.ParseInt(string(l), 10, 64); err == nil {
		return &n
	}
	n := l.number()
	if n == nil || math.Abs(*n) >= 1<<62 {
		return nil
	}
	whole := int64(*n)
	return &whole
}

// count returns a number that fits an int, or 0.
func (l loose) count() int {
	if n := l.whole(); n != nil && *n >= math.MinInt32 && *n <= math.MaxInt32 {
		return int(*n)
	}
	return 0
}

// flag returns a boolean in any of its spellings, or nil.
func (l loose) flag() *bool {
	var is bool
	switch strings.ToLower(string(l)) {
	case "1", "true", "yes", "on":
		is = true
	case "0", "false", "no", "off":
	default:
		return nil
	}
	return &is
}

// is reports whether a flag is there and on.
func (l loose) is() bool {
	on := l.flag()
	return on != nil && *on
}

func (f fields) text(name string) string     { return asText(f[name]) }
func (f fields) number(name string) *float64 { return loose(f.text(name)).number() }
func (f fields) whole(name string) *int64    { return loose(f.text(name)).whole() }
func (f fields) count(name string) int       { return loose(f.text(name)).count() }
func (f fields) flag(name string) *bool      { return loose(f.text(name)).flag() }

// is reports whether a flag is there and on.
func (f fields) is(name string) bool { return loose(f.text(name)).is() }

// list returns the parts of a list, sorted: the server's lists come in any order and with any of
// its separators.
func (f fields) list(name string) []string { return splitList(f.text(name)) }

func splitList(text string) []string {
	parts := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(",; \t\n\x00", r) })
	slices.Sort(parts)
	return slices.Compact(parts)
}

// object returns an object inside, empty without one.
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
