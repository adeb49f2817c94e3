package podscaler

import "fmt"

// The codes of reasons. They are stable: people alert and match on them. Where a Kubernetes
// HPA has a condition reason for the same thing, the code is that one.
const (
	// ReasonScalingDisabled: replicas are 0 and we did not set them to 0, so the workload is
	// paused by whoever did.
	ReasonScalingDisabled = "ScalingDisabled"
	// ReasonTooFewReplicas: fewer than the least allowed are wanted, or there.
	ReasonTooFewReplicas = "TooFewReplicas"
	// ReasonTooManyReplicas: more than the most allowed are wanted, or there.
	ReasonTooManyReplicas = "TooManyReplicas"
	// ReasonScaleUpLimit: the step limits of the way up allow less than is wanted.
	ReasonScaleUpLimit = "ScaleUpLimit"
	// ReasonScaleDownLimit: the step limits of the way down allow less than is wanted.
	ReasonScaleDownLimit = "ScaleDownLimit"
	// ReasonScaleUpStabilized: a lower recommendation in the window counts instead.
	ReasonScaleUpStabilized = "ScaleUpStabilized"
	// ReasonScaleDownStabilized: a higher recommendation in the window counts instead.
	ReasonScaleDownStabilized = "ScaleDownStabilized"
	// ReasonDesiredWithinRange: nothing limits what is wanted.
	ReasonDesiredWithinRange = "DesiredWithinRange"
	// ReasonCooldown: the time after a change in which no further one is made is not over.
	ReasonCooldown = "Cooldown"
	// ReasonSignalsRecovering: the signals have been measured for less than a full window since
	// they were last missing, which is too little to shrink by.
	ReasonSignalsRecovering = "SignalsRecovering"

	// ReasonStabilizationWindowTooShort warns that the cool-down is over before the next run,
	// so that it never holds anything back.
	ReasonStabilizationWindowTooShort = "StabilizationWindowTooShort"

	// ReasonValidMetricFound: a metric was read, and this many replicas follow from it.
	ReasonValidMetricFound = "ValidMetricFound"
	// ReasonFailedGetResourceMetric and its like: a metric is unknown, by its source.
	ReasonFailedGetResourceMetric = "FailedGetResourceMetric"
	ReasonFailedGetPodsMetric     = "FailedGetPodsMetric"
	ReasonFailedGetObjectMetric   = "FailedGetObjectMetric"
	ReasonFailedGetExternalMetric = "FailedGetExternalMetric"
	// ReasonMetricsIncomplete: the known metrics would shrink the workload, but the unknown
	// ones might not.
	ReasonMetricsIncomplete = "MetricsIncomplete"

	// ReasonSLOCostRatio: the multiplier of the SLO-and-cost policy, with its terms.
	ReasonSLOCostRatio = "SLOCostRatio"
	// ReasonCostRatioCapped: the cost is below its target, which counts as being on it.
	ReasonCostRatioCapped = "CostRatioCapped"
	// ReasonWithinTolerance: the proposal is too small a change to be made.
	ReasonWithinTolerance = "WithinTolerance"
	// ReasonWaiting: what was asked for before is not there yet.
	ReasonWaiting = "Waiting"
	// ReasonObjectiveMissing: the policy needs a target that the workload does not have.
	ReasonObjectiveMissing = "ObjectiveMissing"
	// ReasonLatencyUnknown: response times could not be measured.
	ReasonLatencyUnknown = "LatencyUnknown"
	// ReasonCostUnknown: the present cost is unknown, or 0 where it divides.
	ReasonCostUnknown = "CostUnknown"
)

// Because returns a reason with a formatted text.
func Because(code, format string, args ...any) Reason {
	return Reason{Code: code, Text: fmt.Sprintf(format, args...)}
}
