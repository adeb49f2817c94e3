package resources

import (
	"fmt"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
)

// Rightsize returns how a WorkloadAutoscaler wants its containers sized. Without the block nothing
// is recommended, which is the mode "".
func Rightsize(a *v1alpha1.WorkloadAutoscaler) (rightsize.Mode, rightsize.Policies, error) {
	if a.Spec.Rightsize == nil {
		return "", nil, nil
	}
	var f faults
	mode := rightsize.Off
	switch m := a.Spec.Rightsize.Mode; m {
	case "", v1alpha1.RightsizeOff:
	case v1alpha1.RightsizeInitial:
		mode = rightsize.Initial
	case v1alpha1.RightsizeInPlace:
		mode = rightsize.InPlace
	case v1alpha1.RightsizeAuto:
		mode = rightsize.Auto
	default:
		f.note("", pricing.NewFault("spec.rightsize.mode", fmt.Sprintf("must be Off, Initial, InPlace or Auto, was %q", m)))
	}
	var policies rightsize.Policies
	for i := range a.Spec.Rightsize.Containers {
		c := &a.Spec.Rightsize.Containers[i]
		path := fmt.Sprintf("spec.rightsize.containers[%d]", i)
		p := rightsize.Policy{
			Container: c.Name, Off: c.Disabled,
			Min: f.amounts(path+".minAllowed", c.MinAllowed), Max: f.amounts(path+".maxAllowed", c.MaxAllowed),
		}
		for _, r := range c.ControlledResources {
			p.Controls = append(p.Controls, rightsize.Resource(r))
		}
		policies = append(policies, p)
	}
	f.note("spec.rightsize", policies.Validate())
	return mode, policies, f.err()
}

// amounts reads bounds; what is omitted is 0.
func (f *faults) amounts(path string, from *v1alpha1.ContainerResources) (out pricing.Resources) {
	if from == nil {
		return out
	}
	var err error
	if from.CPU != nil {
		if out.CPU, err = pricing.ParseMilliCPU(string(*from.CPU)); err != nil {
			f.note("", pricing.NewFault(path+".cpu", err.Error()))
		}
	}
	if from.Memory != nil {
		if out.Memory, err = pricing.ParseBytes(string(*from.Memory)); err != nil {
			f.note("", pricing.NewFault(path+".memory", err.Error()))
		}
	}
	return out
}
