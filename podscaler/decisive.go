package podscaler

import "slices"

// deciding are the codes of reasons that each set the number anew, the later of a decision over the
// earlier. All others remark on it, or on what comes of it.
var deciding = []string{
	ReasonTooFewReplicas, ReasonTooManyReplicas, ReasonScaleUpLimit, ReasonScaleDownLimit, ReasonScaleUpStabilized, ReasonScaleDownStabilized,
	ReasonScheduleFloor, ReasonScheduleCeiling, ReasonFallback, ReasonPaused,
	ReasonSizedForLoad, ReasonForecastLoad, ReasonReactiveFloor, ReasonReplicasLost, ReasonPaidPlacesFilled, ReasonPaidPlacesLeft, ReasonPlacesLimited,
}

// Decisive is the one of a decision's reasons that tells best why it came to its number: the last
// that set it, and the first of all where none is known to do so. Without reasons it is empty.
func Decisive(reasons []Reason) Reason {
	for _, r := range slices.Backward(reasons) {
		if slices.Contains(deciding, r.Code) {
			return r
		}
	}
	if len(reasons) > 0 {
		return reasons[0]
	}
	return Reason{}
}
