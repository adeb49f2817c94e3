package resources

import (
	"fmt"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
)

// Rightsize returns how a WorkloadAutoscaler wants its containers sized, or nil without the block.
func Rightsize(a *v1alpha1.WorkloadAutoscaler) (*rightsize.Wants, error) {
	if a.Spec.Rightsize == nil {
		return nil, nil
	}
	var f faults
	wants := &rightsize.Wants{Mode: rightsize.Off, MinReplicas: int(a.Spec.Rightsize.MinReplicas)}
	switch m := a.Spec.Rightsize.Mode; m {
	case "", v1alpha1.RightsizeOff:
	case v1alpha1.RightsizeInitial:
		wants.Mode = rightsize.Initial
	case v1alpha1.RightsizeInPlace:
		wants.Mode = rightsize.InPlace
	case v1alpha1.RightsizeAuto:
		wants.Mode = rightsize.Auto
	default:
		f.note("", pricing.NewFault("spec.rightsize.mode", fmt.Sprintf("must be Off, Initial, InPlace or Auto, was %q", m)))
	}
	switch l := a.Spec.Rightsize.Limits; l {
	case "":
	case v1alpha1.LimitsDRF:
		wants.Limits = rightsize.DRF
	case v1alpha1.LimitsMLFDRS:
		wants.Limits = rightsize.MLFDRS
	case v1alpha1.LimitsFFMRA:
		wants.Limits = rightsize.FFMRA
	default:
		f.note("", pricing.NewFault("spec.rightsize.limits", fmt.Sprintf("must be DRF, MLFDRS or FFMRA, or be omitted to leave limits alone, was %q", l)))
	}
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
		wants.Policies = append(wants.Policies, p)
	}
	f.note("spec.rightsize", wants.Policies.Validate())
	return wants, f.err()
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
