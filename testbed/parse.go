package testbed

import (
	"errors"

	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/testbed/strict"
)

// Parse reads an experiment's file. It reports every fault that it finds, with its line.
func Parse(data []byte) (*Experiment, error) {
	e := &Experiment{}
	errs := []error{strict.Unmarshal(data, e)}
	for i := range e.Policies {
		if n := e.Policies[i].Nodes; n != nil {
			errs = append(errs, n.decode())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return e, nil
}

// decode reads the policies' settings over their defaults. Their values are looked at later,
// by the policy itself.
func (n *NodePolicy) decode() error {
	type (
		pending  nodepolicy.Pending
		unneeded nodepolicy.Unneeded
		joint    nodepolicy.Joint
	)
	n.spec = nodepolicy.Spec{Policy: n.Policy}
	var errs []error
	if !n.Pending.IsZero() {
		c := pending(nodepolicy.DefaultPending())
		errs, n.spec.Pending = append(errs, n.Pending.Decode(&c)), (*nodepolicy.Pending)(&c)
	}
	if !n.Unneeded.IsZero() {
		c := unneeded(nodepolicy.DefaultUnneeded())
		errs, n.spec.Unneeded = append(errs, n.Unneeded.Decode(&c)), (*nodepolicy.Unneeded)(&c)
	}
	if !n.Joint.IsZero() {
		c := joint(nodepolicy.DefaultJoint())
		errs, n.spec.Joint = append(errs, n.Joint.Decode(&c)), (*nodepolicy.Joint)(&c)
	}
	return errors.Join(errs...)
}
