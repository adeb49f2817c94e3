package operator

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
)

// recommendations are what is recommended in the API's words.
func recommendations(all []rightsize.Recommendation) []v1alpha1.ContainerRecommendation {
	var out []v1alpha1.ContainerRecommendation
	for i := range all {
		rec := &all[i]
		out = append(out, v1alpha1.ContainerRecommendation{
			Name: rec.Container, Target: amounts(rec, rec.Target), Lower: amounts(rec, rec.Lower), Upper: amounts(rec, rec.Upper),
			Uncapped: amounts(rec, rec.Uncapped), Reasons: sizeReasons(rec.Reasons),
		})
	}
	return out
}

// amounts are those of the resources that are recommended. What is no bound is left out.
func amounts(rec *rightsize.Recommendation, of pricing.Resources) (out v1alpha1.ContainerAmounts) {
	if rec.Has(rightsize.CPU) && !rightsize.CPU.Unbounded(of) {
		out.CPU = quantity(rightsize.CPU, of)
	}
	if rec.Has(rightsize.Memory) && !rightsize.Memory.Unbounded(of) {
		out.Memory = quantity(rightsize.Memory, of)
	}
	return out
}

// quantity is an amount as Kubernetes writes it.
func quantity(r rightsize.Resource, of pricing.Resources) string {
	if r == rightsize.CPU {
		return resource.NewMilliQuantity(int64(of.CPU), resource.DecimalSI).String()
	}
	return resource.NewQuantity(int64(of.Memory), resource.BinarySI).String()
}

func sizeReasons(all []rightsize.Reason) []v1alpha1.Reason {
	var out []v1alpha1.Reason
	for _, r := range all {
		out = append(out, v1alpha1.Reason{Code: r.Code, Text: r.Text})
	}
	return out
}

// sizingStatus states what the containers should request; nothing without the block.
func (w *workload) sizingStatus() *v1alpha1.RightsizeStatus {
	if w.sizing == nil {
		return nil
	}
	return w.sizing.status.DeepCopy()
}
