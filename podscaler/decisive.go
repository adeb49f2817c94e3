package podscaler

import "slices"

// deciding are the codes of guards' reasons that each set the number anew, the later of a decision
// over the earlier. All others remark on it.
var deciding = []string{
	ReasonTooFewReplicas, ReasonTooManyReplicas, ReasonScaleUpLimit, ReasonScaleDownLimit, ReasonScaleUpStabilized, ReasonScaleDownStabilized,
	ReasonScheduleFloor, ReasonScheduleCeiling, ReasonFallback, ReasonPaused,
}

// Decisive is the one of a decision's reasons that says best why it came to its number: the last of
// a guard that set it, and otherwise the policy's first. Without reasons it is empty.
func Decisive(reasons []Reason) Reason {
	for _, r := range slices.Backward(reasons) {
		if r.Code == ReasonMarginalPrice { // the last of Joint's
			break
		}
		if slices.Contains(deciding, r.Code) {
			return r
		}
	}
	if len(reasons) > 0 {
		return reasons[0]
	}
	return Reason{}
}
