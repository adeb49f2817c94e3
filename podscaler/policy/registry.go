package policy

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/podscaler"
)

// Spec names a policy and carries the settings of those that have any. Only the block of the
// named policy counts; a missing one means that policy's defaults.
type Spec struct {
	Policy  string   `json:"policy" yaml:"policy"`
	HPA     *HPA     `json:"hpa,omitempty" yaml:"hpa,omitempty"`
	SLOCost *SLOCost `json:"sloCost,omitempty" yaml:"sloCost,omitempty"`
}

// builders are the policies by lower-case name. Each policy's file adds its own from init, and
// nothing changes them after that.
var builders = map[string]func(Spec) (podscaler.Policy, error){}

// register adds a policy under its name in the API, and the same in lower case.
func register(name string, build func(Spec) (podscaler.Policy, error)) {
	if builders[strings.ToLower(name)] != nil {
		panic("policy " + name + " is registered twice")
	}
	builders[strings.ToLower(name)] = build
}

// Names returns the names of all policies in lower case, sorted.
func Names() []string { return slices.Sorted(maps.Keys(builders)) }

// New returns the policy that s names, in lower case or as the API writes it, or every fault of
// its settings. A name that is not known is a fault: another policy in its place would scale
// by rules that nobody chose.
func New(s Spec) (podscaler.Policy, error) {
	build, ok := builders[strings.ToLower(s.Policy)]
	if !ok {
		return nil, fmt.Errorf("policy: must be one of %s, was %q", strings.Join(Names(), ", "), s.Policy)
	}
	return build(s)
}

// Check returns everything that keeps p from working on w, or nil: the faults of w itself, and
// what the policy needs of it besides.
func Check(w *podscaler.Workload, p podscaler.Policy) error {
	err := w.Validate()
	if c, ok := p.(interface {
		check(*podscaler.Workload) error
	}); ok {
		err = errors.Join(err, c.check(w))
	}
	return err
}

// faults collects what is wrong with a policy's settings: all of it, not the first.
type faults []error

// unless records that the value of key breaks the rule, unless it keeps it.
func (f *faults) unless(kept bool, key, rule string, value any) {
	if !kept {
		*f = append(*f, fmt.Errorf("%s: %s, was %v", key, rule, value))
	}
}

// ceil rounds up to a number of replicas. The slack keeps 3.0000000000000004, which is what
// floats make of .6 × 5, from becoming 4.
func ceil(x float64) int {
	return int(min(max(math.Ceil(x-1e-9), 0), math.MaxInt32))
}
