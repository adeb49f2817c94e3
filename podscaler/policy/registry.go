package policy

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/podscaler"
)

// Description is what a policy is called, and what it does in a sentence or two that may follow
// its name: "HPA keeps a metric at a target."
type Description struct {
	Name    string // as the API writes it
	Summary string
}

type registered struct {
	Description
	build func(Spec) (podscaler.Policy, error)
}

// policies are all of them by lower-case name. Each policy's file adds its own from init, and
// nothing changes them after that.
var policies = map[string]registered{}

// register adds a policy under its name in the API, and the same in lower case.
func register(name, summary string, build func(Spec) (podscaler.Policy, error)) {
	key := strings.ToLower(name)
	if _, twice := policies[key]; twice {
		panic("policy " + name + " is registered twice")
	}
	policies[key] = registered{Description{Name: name, Summary: summary}, build}
}

// Names returns the names of all policies in lower case, sorted.
func Names() []string { return slices.Sorted(maps.Keys(policies)) }

// All describes all policies, sorted by name.
func All() []Description {
	all := make([]Description, 0, len(policies))
	for _, name := range Names() {
		all = append(all, policies[name].Description)
	}
	return all
}

// New returns the policy that s names, in lower case or as the API writes it, or every fault of
// its settings. A name that is not known is a fault: another policy in its place would scale
// by rules that the owner did not choose.
func New(s Spec) (podscaler.Policy, error) { return s.New() }

// New makes the policy that the spec names.
func (s Spec) New() (podscaler.Policy, error) {
	p, err := find(s.Policy)
	if err != nil {
		return nil, err
	}
	built, err := p.build(s)
	if strays := s.strays(p.Name); strays != nil {
		return nil, errors.Join(append(strays, err)...)
	}
	return built, err
}

// strays are the settings of other policies, which would count for nothing: whoever wrote them
// meant another policy, or wants of this one what it does not do.
func (s Spec) strays(name string) (f podscaler.Faults) {
	blocks := reflect.ValueOf(s)
	for i := range blocks.NumField() {
		block := blocks.Type().Field(i)
		if of := block.Name; of != name && block.Type.Kind() == reflect.Pointer && !blocks.Field(i).IsNil() {
			key, _, _ := strings.Cut(block.Tag.Get("json"), ",")
			f.Unless(false, key, "may be there only with policy "+of, name)
		}
	}
	return f
}

// Describe describes the policy of that name, in lower case or as the API writes it.
func Describe(name string) (Description, error) {
	p, err := find(name)
	return p.Description, err
}

func find(name string) (registered, error) {
	p, ok := policies[strings.ToLower(name)]
	if !ok {
		return registered{}, fmt.Errorf("policy: must be one of %s, was %q", strings.Join(Names(), ", "), name)
	}
	return p, nil
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

// Warnings returns what is allowed and most likely not meant: of w itself, and of what p makes of
// it.
func Warnings(w *podscaler.Workload, p podscaler.Policy) []podscaler.Reason {
	all := w.Warnings()
	if c, ok := p.(interface {
		warnings(*podscaler.Workload) []podscaler.Reason
	}); ok {
		all = append(all, c.warnings(w)...)
	}
	return all
}

// ceil rounds up to a number of replicas. The slack keeps 3.0000000000000004, which is what
// floats make of .6 × 5, from becoming 4.
func ceil(x float64) int {
	return int(min(max(math.Ceil(x-1e-9), 0), math.MaxInt32))
}

// floor rounds down to a number of replicas, with the same slack.
func floor(x float64) int {
	return int(min(max(math.Floor(x+1e-9), 0), math.MaxInt32))
}
