// Package strict decodes YAML strictly: unknown keys, wrong types and duplicate keys are errors
// that name path, rule and value.
//
// Keys are those of the json tags. Every fault of a document is reported, with its line, and a
// key that is nearly right is answered with the right one. Nothing is repaired: a number is no
// string, an empty value is no zero, and a key that is there twice is not overwritten.
//
// What has a Validate method is asked for its own faults too. Those that have a method Path get
// the line of the key it names, and leave out the path of the document's own root.
//
// Three rules on absent keys are written as tags, for once decoded, an absent key and a zero look
// the same:
//
//	strict:"required"      the key must be there, unless the whole has a method
//	                       Optional(path string) bool that says it need not be
//	strict:"nonzero"       the key must not be there with a zero, which would mean its default
//	strict:"oneof=memory"  of the keys with the same name after oneof=, exactly one must be there
package strict

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Unmarshal decodes one YAML document into what the pointer into points to. An empty document is an
// empty mapping, and absent keys leave what is there, so that defaults may be. Types that implement
// encoding.TextUnmarshaler read their own text, with errors that name rule and value; durations are
// read as Go writes them. A type that cannot be decoded into, such as a func or an interface, is a
// mistake in the program, and panics.
func Unmarshal(data []byte, into any) error {
	root, err := parse(data)
	if err != nil {
		return err
	}
	return decode(root, "", into)
}

// Block is a part of a document that is decoded later, when what is beside it has shown
// what it should be. As a field it takes any value; the zero Block is an empty mapping.
type Block struct {
	node *yaml.Node
	path string
}

// IsZero reports whether the block's key was absent.
func (b Block) IsZero() bool { return b.node == nil }

// Decode decodes the block. Faults carry the path and line they have in the whole document.
func (b Block) Decode(into any) error {
	if b.node == nil {
		return decode(&yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}, b.path, into)
	}
	return decode(b.node, b.path, into)
}

// Has reports whether the document is a mapping with the key, which may say what the rest of it is
// to be decoded into. A document that cannot be read has none.
func Has(data []byte, key string) bool {
	root, err := parse(data)
	if err != nil || root.Kind != yaml.MappingNode {
		return false
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == key {
			return true
		}
	}
	return false
}

// parse returns the root of the only document in data.
func parse(data []byte) (*yaml.Node, error) {
	documents := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	err := documents.Decode(&first)
	if err == nil {
		err = documents.Decode(&second)
	}
	switch {
	case err == nil:
		return nil, &fault{line: second.Line, rule: "must be one document, was more"}
	case !errors.Is(err, io.EOF):
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(first.Content) == 0 || isNull(first.Content[0]) {
		return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: 1}, nil
	}
	return first.Content[0], nil
}

func decode(n *yaml.Node, path string, into any) error {
	d := decoder{seen: make(map[string]*yaml.Node), optional: func(string) bool { return false }}
	if o, ok := into.(interface{ Optional(path string) bool }); ok {
		d.optional = o.Optional
	}
	d.value(n, path, reflect.ValueOf(into).Elem())
	if v, ok := into.(interface{ Validate() error }); ok {
		d.validate(n, path, v.Validate())
	}
	slices.SortStableFunc(d.faults, func(a, b *fault) int { return a.line - b.line })
	errs := make([]error, len(d.faults))
	for i, f := range d.faults {
		errs[i] = f
	}
	return errors.Join(errs...)
}

// fault is one thing that is wrong in a document.
type fault struct {
	line int
	path string
	rule string // with the value
}

func (f *fault) Error() string {
	var parts []string
	if f.line > 0 {
		parts = append(parts, fmt.Sprintf("line %d", f.line))
	}
	if f.path != "" {
		parts = append(parts, f.path)
	}
	return strings.Join(append(parts, f.rule), ": ")
}

// maxAliases is how many aliases a document may use. An alias within its own anchor, or
// anchors that double each other, would never end.
const maxAliases = 1000

type decoder struct {
	faults  []*fault
	seen    map[string]*yaml.Node // by path
	aliases int
	// optional says of a required key that it may be absent in this document.
	optional func(path string) bool
}

func (d *decoder) add(n *yaml.Node, path, format string, args ...any) {
	d.faults = append(d.faults, &fault{line: n.Line, path: path, rule: fmt.Sprintf(format, args...)})
}

var (
	blockType    = reflect.TypeFor[Block]()
	durationType = reflect.TypeFor[time.Duration]()
	timeType     = reflect.TypeFor[time.Time]()
)

// samples are what values of types look like whose own errors name neither rule nor value.
var samples = map[reflect.Type]string{
	timeType:                        "a time such as 2026-03-01T12:00:00Z",
	reflect.TypeFor[netip.Addr]():   "an address such as 10.0.0.1",
	reflect.TypeFor[netip.Prefix](): "an address with its prefix length, such as 10.0.0.50/24",
}

// value decodes a node into a value that can be set.
func (d *decoder) value(n *yaml.Node, path string, v reflect.Value) {
	n, ok := d.resolve(n, path)
	if !ok {
		return
	}
	d.seen[path] = n
	switch {
	case v.Type() == blockType:
		v.Set(reflect.ValueOf(Block{node: n, path: path}))
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, path, v.Elem())
	case readsText(v.Type()) && !(n.Kind == yaml.MappingNode && hasKeys(v.Type())):
		d.text(n, path, v)
	default:
		d.kind(n, path, v)
	}
}

// resolve follows aliases and refuses what has no value or a meaning that we do not know.
func (d *decoder) resolve(n *yaml.Node, path string) (*yaml.Node, bool) {
	if n.Kind == yaml.AliasNode {
		if d.aliases++; d.aliases > maxAliases {
			if d.aliases == maxAliases+1 {
				d.add(n, path, "must be one of at most %d aliases in a document, was *%s", maxAliases, n.Value)
			}
			return nil, false
		}
		n = n.Alias
	}
	if isNull(n) {
		d.add(n, path, "must have a value; omit the key if it has no value")
		return nil, false
	}
	if tag := n.ShortTag(); !slices.Contains(knownTags, tag) {
		d.add(n, path, "must have no tag of its own, was %s", tag)
		return nil, false
	}
	return n, true
}

var knownTags = []string{"!!str", "!!int", "!!float", "!!bool", "!!timestamp", "!!seq", "!!map"}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func readsText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// hasKeys reports whether a type may also be written as a block: the text is short for one.
func hasKeys(t reflect.Type) bool { return t.Kind() == reflect.Struct && len(fieldsOf(t)) > 0 }

// text hands a single value to a type that reads its own text.
func (d *decoder) text(n *yaml.Node, path string, v reflect.Value) {
	if n.Kind != yaml.ScalarNode {
		d.add(n, path, "must be a single value, was %s", describe(n))
		return
	}
	reader := v.Addr().Interface().(encoding.TextUnmarshaler)
	switch err := reader.UnmarshalText([]byte(n.Value)); {
	case err == nil:
	case samples[v.Type()] != "":
		d.add(n, path, "must be %s, was %q", samples[v.Type()], n.Value)
	default:
		d.add(n, path, "%s", err)
	}
}

// kind decodes by the kind of the value.
func (d *decoder) kind(n *yaml.Node, path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		d.object(n, path, v)
	case reflect.Map:
		d.table(n, path, v)
	case reflect.Slice:
		d.list(n, path, v)
	default:
		if rule := scalar(n, v); rule != "" {
			d.add(n, path, "%s, was %s", rule, describe(n))
		}
	}
}

func (d *decoder) list(n *yaml.Node, path string, v reflect.Value) {
	if n.Kind != yaml.SequenceNode {
		d.add(n, path, "must be a list, was %s", describe(n))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		d.value(item, fmt.Sprintf("%s[%d]", path, i), v.Index(i))
	}
}

func (d *decoder) table(n *yaml.Node, path string, v reflect.Value) {
	v.Set(reflect.MakeMap(v.Type()))
	d.pairs(n, path, func(key, item *yaml.Node) {
		at := join(path, key.Value)
		k, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		if readsText(k.Type()) {
			d.text(key, at, k)
		} else {
			k.SetString(key.Value)
		}
		d.value(item, at, value)
		v.SetMapIndex(k, value)
	})
}

func (d *decoder) object(n *yaml.Node, path string, v reflect.Value) {
	known := fieldsOf(v.Type())
	present := make(map[string]bool)
	mapping := d.pairs(n, path, func(key, item *yaml.Node) {
		i := slices.IndexFunc(known, func(f field) bool { return f.key == key.Value })
		if i < 0 {
			keys := keysOf(known)
			d.add(key, join(path, key.Value), "%s", Unknown(key.Value, keys))
			if near, ok := Nearest(key.Value, keys); ok {
				present[near] = true // that it is missing is the same fault
			}
			return
		}
		present[key.Value] = true
		into, before := v.FieldByIndex(known[i].index), len(d.faults)
		d.value(item, join(path, key.Value), into)
		if known[i].nonzero && len(d.faults) == before && into.IsZero() {
			d.add(item, join(path, key.Value), "must be above 0, or omitted for its default, was %s", describe(item))
		}
	})
	if mapping {
		d.absent(n, path, known, present)
	}
}

// pairs visits the keys of a mapping, and reports whether it is one.
func (d *decoder) pairs(n *yaml.Node, path string, visit func(key, item *yaml.Node)) bool {
	if n.Kind != yaml.MappingNode {
		d.add(n, path, "must be a mapping, was %s", describe(n))
		return false
	}
	lines := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, item := n.Content[i], n.Content[i+1]
		switch first, twice := lines[key.Value]; {
		case key.Kind != yaml.ScalarNode:
			d.add(key, path, "must have single values as keys, was %s", describe(key))
		case key.ShortTag() == "!!merge":
			d.add(key, path, "must have its keys written out, was a merge (<<)")
		case twice:
			d.add(key, join(path, key.Value), "must be there once, was on line %d before", first)
		default:
			lines[key.Value] = key.Line
			if item.Kind != yaml.ScalarNode {
				item.Line = key.Line // people look for a block where its name is
			}
			visit(key, item)
		}
	}
	return true
}

// absent checks the rules on which keys must be there.
func (d *decoder) absent(n *yaml.Node, path string, known []field, present map[string]bool) {
	var names []string
	groups := make(map[string][]string)
	for _, f := range known {
		if f.required && !present[f.key] && !d.optional(join(path, f.key)) {
			at := n
			if path == "" {
				at = &yaml.Node{} // the document's first line is not at fault
			}
			d.add(at, join(path, f.key), "must be set")
		}
		for _, g := range f.groups {
			if groups[g] == nil {
				names = append(names, g)
			}
			groups[g] = append(groups[g], f.key)
		}
	}
	for _, g := range names {
		var set []string
		for _, key := range groups[g] {
			if present[key] {
				set = append(set, key)
			}
		}
		switch len(set) {
		case 1:
		case 0:
			d.add(n, path, "must have exactly one of %s, was none of them", enumerate(groups[g]))
		default:
			d.add(n, path, "must have exactly one of %s, was %s", enumerate(groups[g]), enumerate(set))
		}
	}
}

func keysOf(fields []field) (keys []string) {
	for _, f := range fields {
		keys = append(keys, f.key)
	}
	return keys
}

// Unknown says of a key that it is not one of those that there are, and which was probably meant.
func Unknown(key string, keys []string) string {
	if near, ok := Nearest(key, keys); ok {
		return fmt.Sprintf("unknown key, did you mean %s?", near)
	}
	if len(keys) == 0 {
		return "unknown key, there are none here"
	}
	return "unknown key, there is " + enumerate(keys)
}

// enumerate lists words as in a sentence.
func enumerate(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// join appends a key to a path, in brackets if it would be misread.
func join(path, key string) string {
	if key == "" || strings.ContainsAny(key, ".[]: \t\n\"") {
		return fmt.Sprintf("%s[%q]", path, key)
	}
	return under(path, key)
}
