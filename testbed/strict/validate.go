package strict

import (
	"errors"
	"strings"

	"go.yaml.in/yaml/v3"
)

// validate adds the faults that a type found in itself. Where a document could not be decoded
// whole, only those of single values that were are sure: the others may come of what is missing.
func (d *decoder) validate(root *yaml.Node, path string, found error) {
	whole := len(d.faults) == 0
	bad := make(map[string]bool)
	for _, f := range d.faults {
		bad[f.path] = true
	}
	for _, err := range Split(found) {
		var f *fault
		if errors.As(err, &f) { // of a block that was decoded apart
			d.faults = append(d.faults, f)
			continue
		}
		at, rule := path, err.Error()
		var keyed interface{ Path() string }
		if errors.As(err, &keyed) {
			at, rule = under(path, keyed.Path()), strings.TrimPrefix(rule, keyed.Path()+": ")
		}
		n := d.seen[at]
		if whole || n != nil && n.Kind == yaml.ScalarNode && !bad[at] {
			d.add(d.closest(at, root), at, "%s", rule)
		}
	}
}

// Split returns the errors that were joined into one.
func Split(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// closest returns the node at a path, or else what it would are in.
func (d *decoder) closest(path string, root *yaml.Node) *yaml.Node {
	for ; path != ""; path = path[:max(strings.LastIndexAny(path, ".["), 0)] {
		if n, ok := d.seen[path]; ok {
			return n
		}
	}
	return root
}

// under appends a path to another.
func under(path, key string) string {
	if path == "" || key == "" || strings.HasPrefix(key, "[") {
		return path + key
	}
	return path + "." + key
}
