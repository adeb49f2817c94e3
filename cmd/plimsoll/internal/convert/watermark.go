package convert

import "github.com/plimsoll/plimsoll/api/v1alpha1"

// fromWatermark says why not.
func fromWatermark(m tree, _ Options) *v1alpha1.WorkloadAutoscalerSpec {
	m.at("spec").lose("there is no policy Watermark yet, and no other keeps a metric between two marks")
	return nil
}
