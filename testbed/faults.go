package testbed

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/strict"
)

// Faults collects what is wrong with a file: all of it.
type Faults []error

// Must notes a fault unless the rule is kept. The rule is written as what must be so.
func (f *Faults) Must(kept bool, path, rule string, was any) {
	if !kept {
		*f = append(*f, pricing.NewFault(path, rule+", was "+show(was)))
	}
}

// Under notes the faults that a part has found in itself, below the part's path.
func (f *Faults) Under(path string, err error) {
	if err == nil {
		return
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			f.Under(path, one)
		}
		return
	}
	key, rule, keyed := strings.Cut(err.Error(), ": ")
	if !keyed {
		key, rule = "", key
	}
	*f = append(*f, pricing.NewFault(strings.TrimSuffix(path+"."+key, "."), rule))
}

// OneOf wants a value to be one of the known ones, and asks whether a near one was meant.
func (f *Faults) OneOf(path, value string, known []string) {
	f.Must(slices.Contains(known, value), path, "must be one of "+strings.Join(known, ", ")+meant(value, known), value)
}

// meant asks whether the nearest of the known names was meant, if one is near.
func meant(name string, known []string) string {
	if near, ok := strict.Nearest(name, known); ok {
		return " (did you mean " + near + "?)"
	}
	return ""
}

// words are written in place of a value that is more, or less, than one in a file.
type words string

// absent is the value of what is not there.
const absent words = "absent"

// show prints a value as it is written in a file.
func show(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("%q", v)
	case time.Duration:
		return pricing.Short(v)
	}
	return fmt.Sprint(v)
}
