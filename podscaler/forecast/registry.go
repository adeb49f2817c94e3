package forecast

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Description is what a forecaster is called, and what it does in a sentence that may follow
// its name: "Last expects what there is."
type Description struct {
	Name    string // as people write it
	Summary string
}

// String prints the description as a sentence.
func (d Description) String() string { return d.Name + " " + d.Summary }

type registered struct {
	Description
	build func(Spec) (Model, error)
}

// forecasters are all of them by lower-case name. Each one's file adds its own from init, and
// nothing changes them after that.
var forecasters = map[string]registered{}

// register adds a forecaster under its name, and the same in lower case.
func register(name, summary string, build func(Spec) (Model, error)) {
	key := strings.ToLower(name)
	if _, twice := forecasters[key]; twice {
		panic("forecaster " + name + " is registered twice")
	}
	forecasters[key] = registered{Description{Name: name, Summary: summary}, build}
}

// Names returns the names of all forecasters in lower case, sorted.
func Names() []string { return slices.Sorted(maps.Keys(forecasters)) }

// All describes all forecasters, sorted by name.
func All() []Description {
	all := make([]Description, 0, len(forecasters))
	for _, name := range Names() {
		all = append(all, forecasters[name].Description)
	}
	return all
}

// New returns the forecaster that s names, in lower case or as people write it, or every fault
// of its settings. It knows nothing yet.
func New(s Spec) (Model, error) {
	f, ok := forecasters[strings.ToLower(s.Type)]
	if !ok {
		return nil, fmt.Errorf("forecaster: must be one of %s, was %q", strings.Join(Names(), ", "), s.Type)
	}
	return f.build(s)
}

// faults collects what is wrong with a forecaster's settings: all of it, not the first.
type faults []error

// unless records that the value of key breaks the rule, unless it keeps it.
func (f *faults) unless(kept bool, key, rule string, value any) {
	if !kept {
		*f = append(*f, fmt.Errorf("%s: %s, was %v", key, rule, value))
	}
}

// err returns the faults as one error, or nil.
func (f faults) err() error { return errors.Join(f...) }

// settings returns a block of settings, or the defaults of one that is missing.
func settings[T any](block *T) T {
	if block == nil {
		var defaults T
		return defaults
	}
	return *block
}

// maxPeriods bounds every setting that is a number of periods: a year of 15 s periods is more.
const maxPeriods = 1 << 20
