package firstboot

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing that is wrong, with a profile or with a machine.
type Fault struct{ path, rule, was string }

// Path is the key at fault, as it is written in configuration. Those of a machine begin with
// "machine".
func (f *Fault) Path() string { return f.path }

// Error names key, rule and value. The value of a secret is omitted.
func (f *Fault) Error() string { return f.path + ": " + f.rule + ", was " + f.was }

// At is the fault under another key, for a caller that plans machines by keys of its own.
func (f *Fault) At(path string) *Fault { return &Fault{path, f.rule, f.was} }

// faults collects what is wrong: all of it.
type faults []error

// must notes a fault unless the rule is kept, and reports whether it is.
func (f *faults) must(kept bool, path, rule string, was any) bool {
	if !kept {
		*f = append(*f, &Fault{path, rule, show(was)})
	}
	return kept
}

// join returns the faults as one error, or nil.
func (f faults) join() error { return errors.Join(f...) }

// show prints a value as it is written in a file.
func show(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("%q", v)
	case []string:
		return fmt.Sprintf("%q", v)
	}
	return fmt.Sprint(v)
}

// words name a value that is more, or less, than one in a file.
type words string

const absent words = "absent"

// address is one that is shown unless a password may be in it.
func address(s string) any {
	if strings.Contains(s, "@") {
		return words("one with a user in it")
	}
	return s
}

// hidden is a text that may be a secret.
func hidden[T ~string](s T) words { return words(fmt.Sprintf("%d hidden bytes", len(s))) }

// oneOf wants one of the known values.
func oneOf[T ~string](f *faults, path string, v T, known ...T) bool {
	var names []string
	for _, k := range known {
		if k != "" { // which means being absent
			names = append(names, string(k))
		}
	}
	return f.must(slices.Contains(known, v), path, "must be one of "+strings.Join(names, ", "), string(v))
}

// under is the path of a name that the user chose, in quotes where it would be misread.
func under(path, name string) string {
	if name == "" || strings.ContainsAny(name, ".[]:/ \t\n\"") {
		return fmt.Sprintf("%s[%q]", path, name)
	}
	return path + "." + name
}

// at is the path of an item of a list.
func at(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }
