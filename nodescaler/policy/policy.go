// Package policy holds the node policies, one to a file: which machines to order for the pods
// that wait, and which to empty and give back.
//
//   - pending works as kproximate does: it waits for pods to be pending and divides what they
//     ask for by one machine shape.
//   - unneeded works as cluster-autoscaler does: it simulates where pods would go, and reclaims
//     nodes that were little used for long.
//   - joint orders for what pod policies expect, and holds machines for as long as that is
//     cheaper than buying them again.
//
// A policy is built from a Spec by its name, and is then asked with a snapshot at a time. All
// of them keep the rules that nodescaler.Check states, and give the same plan for the same
// snapshot in any order. They may be forgotten and started afresh at any time: a fresh one
// reclaims nothing at its first turn, so that it is never faster to do so than the one before it.
package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// Spec names a policy and holds its settings. Blocks of other policies than the named one are
// not looked at, so that a file may keep several to switch between.
type Spec struct {
	Policy   string    `json:"policy"`
	Pending  *Pending  `json:"pending,omitempty"`
	Unneeded *Unneeded `json:"unneeded,omitempty"`
	Joint    *Joint    `json:"joint,omitempty"`
}

// registry is the policies by name. Each policy's file adds its own from init, and nothing
// changes it after that.
var registry = map[string]func(Spec) (nodescaler.Policy, error){}

// register makes a policy known by its name. Each policy's file calls it, so that to remove a
// policy is to remove its file.
func register(name string, build func(Spec) (nodescaler.Policy, error)) {
	if registry[name] != nil {
		panic("policy " + name + " is registered twice")
	}
	registry[name] = build
}

// Names returns the names of the policies, sorted.
func Names() []string { return slices.Sorted(maps.Keys(registry)) }

// New builds the policy that the spec names, in lower case or as the API writes it, with the
// defaults of what the spec leaves out.
// An unknown name is an error: another policy in its place would give back other machines
// than its owner expects.
func New(s Spec) (nodescaler.Policy, error) {
	build, ok := registry[strings.ToLower(s.Policy)]
	if !ok {
		return nil, fmt.Errorf("policy: must be one of %s, was %q", strings.Join(Names(), ", "), s.Policy)
	}
	return build(s)
}
