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
	// ReasonScheduleFloor: an open schedule asks for more than is wanted, or there.
	ReasonScheduleFloor = "ScheduleFloor"
	// ReasonScheduleCeiling: an open schedule allows less than is wanted, or there.
	ReasonScheduleCeiling = "ScheduleCeiling"
	// ReasonSchedulesClash warns that the floor of an open schedule is above the ceiling of
	// another; the floor counts.
	ReasonSchedulesClash = "SchedulesClash"
	// ReasonFallback: the policy had no answer for so long that the fallback counts.
	ReasonFallback = "Fallback"
	// ReasonIdle: nothing calls for the workload, which has as few replicas as it may then.
	ReasonIdle = "Idle"
	// ReasonActivated: something calls for a workload that was idle.
	ReasonActivated = "Activated"
	// ReasonTooFewAvailable: too few replicas are ready to decide anything by them.
	ReasonTooFewAvailable = "TooFewAvailable"
	// ReasonRollout: the pods are being replaced, during which nothing is shrunk.
	ReasonRollout = "Rollout"
	// ReasonUpstreamSuspect: those who call the workload seem to be out of order and may come back
	// at any time, or far more requests fail than before.
	ReasonUpstreamSuspect = "UpstreamSuspect"
	// ReasonPaused: a pause fixes the replicas, or keeps them from going that way.
	ReasonPaused = "Paused"

	// ReasonStabilizationWindowTooShort warns that the cool-down is over before the next run,
	// so that it never holds anything back.
	ReasonStabilizationWindowTooShort = "StabilizationWindowTooShort"

	// ReasonValidMetricFound: a metric was read, and this many replicas follow from it.
	ReasonValidMetricFound = "ValidMetricFound"
	// ReasonFailedGetResourceMetric and its like: a metric is unknown, by its source.
	ReasonFailedGetResourceMetric  = "FailedGetResourceMetric"
	ReasonFailedGetContainerMetric = "FailedGetContainerResourceMetric"
	ReasonFailedGetPodsMetric      = "FailedGetPodsMetric"
	ReasonFailedGetObjectMetric    = "FailedGetObjectMetric"
	ReasonFailedGetExternalMetric  = "FailedGetExternalMetric"
	// ReasonMetricsIncomplete: the known metrics would shrink the workload, but the unknown
	// ones might not.
	ReasonMetricsIncomplete = "MetricsIncomplete"

	// ReasonPredictedUse: what a metric will be with the proposed replicas, if the load stays.
	ReasonPredictedUse = "PredictedUse"

	// ReasonAboveHighWatermark: a load is above its high mark, and this many replicas follow.
	ReasonAboveHighWatermark = "AboveHighWatermark"
	// ReasonBelowLowWatermark: a load is below its low mark, and this many replicas follow.
	ReasonBelowLowWatermark = "BelowLowWatermark"
	// ReasonWithinWatermarks: a load is between its marks, or no further beyond one than the
	// tolerance, or than what could not be measured may be hiding.
	ReasonWithinWatermarks = "WithinWatermarks"
	// ReasonConvergeToWatermark: a load between its marks is brought nearer to one of them.
	ReasonConvergeToWatermark = "ConvergeToWatermark"
	// ReasonWatermarkDelay: a load has not been beyond its mark for long enough.
	ReasonWatermarkDelay = "WatermarkDelay"
	// ReasonAlreadyAskedFor: a load that is too high asks for fewer replicas than there are to
	// be, or one that is too low for more; neither turns the change round.
	ReasonAlreadyAskedFor = "AlreadyAskedFor"
	// ReasonWouldOscillate: with as few replicas the load would be above its high mark, and they
	// would be brought back at once.
	ReasonWouldOscillate = "WouldOscillate"
	// ReasonZeroNotTolerated: a load of 0 counts as one that was not measured.
	ReasonZeroNotTolerated = "ZeroNotTolerated"
	// ReasonNarrowBand warns that the marks are so near to each other that a shrink by one step
	// lands above the high one.
	ReasonNarrowBand = "NarrowBand"
	// ReasonRegistrationMismatch: a service registry sends requests to other instances than are
	// ready, or to those of several versions with no rollout under way.
	ReasonRegistrationMismatch = "RegistrationMismatch"
	// ReasonNothingRegistered: a service registry knows of no instance, so nothing carries the
	// load.
	ReasonNothingRegistered = "NothingRegistered"
	// ReasonRegistrationUnknown: a service registry could not be asked how many instances it
	// knows, so that nothing is shrunk.
	ReasonRegistrationUnknown = "RegistrationUnknown"

	// ReasonForecast: a load is expected, and this many replicas follow.
	ReasonForecast = "Forecast"
	// ReasonForecastUnknown: there is no forecast of the load, or none that is believed.
	ReasonForecastUnknown = "ForecastUnknown"
	// ReasonArrivalsUnknown: the requests that come could not be measured, so nothing is shrunk.
	ReasonArrivalsUnknown = "ArrivalsUnknown"
	// ReasonProfileUnknown: it has not been learned yet what a pod serves.
	ReasonProfileUnknown = "ProfileUnknown"
	// ReasonReactiveFloor: what is there now, requests or the CPU they use, needs more replicas
	// than what is foretold or modelled.
	ReasonReactiveFloor = "ReactiveFloor"
	// ReasonTooLittleHistory: too little has been seen since the start to shrink anything.
	ReasonTooLittleHistory = "TooLittleHistory"

	// ReasonSLOCostRatio: the multiplier of the SLO-and-cost policy, with its terms.
	ReasonSLOCostRatio = "SLOCostRatio"
	// ReasonCostRatioCapped: the cost is below its target, which counts as being on it.
	ReasonCostRatioCapped = "CostRatioCapped"
	// ReasonWithinTolerance: the proposal is too small a change to be made.
	ReasonWithinTolerance = "WithinTolerance"
	// ReasonWaiting: what was asked for before is not there yet.
	ReasonWaiting = "Waiting"
	// ReasonLatencyUnknown: response times could not be measured.
	ReasonLatencyUnknown = "LatencyUnknown"
	// ReasonCostUnknown: the present cost is unknown, or 0 where it divides.
	ReasonCostUnknown = "CostUnknown"

	// ReasonSizedForLoad: how many replicas the load that is offered needs, by what has been
	// learnt.
	ReasonSizedForLoad = "SizedForLoad"
	// ReasonQueueWorkedOff: a part of the load is requests that wait in a queue.
	ReasonQueueWorkedOff = "QueueWorkedOff"
	// ReasonForecastLoad: more are needed for the load that is expected by when a replica comes.
	ReasonForecastLoad = "ForecastLoad"
	// ReasonForecastAhead: more are expected to be needed by when a machine comes.
	ReasonForecastAhead = "ForecastAhead"
	// ReasonModelOff: response times are not what the model says, or the load is not of users who
	// pause, and pods are kept emptier for it.
	ReasonModelOff = "ModelOff"
	// ReasonObjectiveUnreachable: more pods would not bring response times near the objective, so
	// no more are asked for.
	ReasonObjectiveUnreachable = "ObjectiveUnreachable"
	// ReasonModelUncertain: too little has been seen yet to be sure of the model.
	ReasonModelUncertain = "ModelUncertain"
	// ReasonGuardLimited: the model needs many times what CPU shows to be needed.
	ReasonGuardLimited = "GuardLimited"
	// ReasonNeedUnconfirmed: not all of the last runs needed so many, so no machine is ordered for
	// them yet.
	ReasonNeedUnconfirmed = "NeedUnconfirmed"
	// ReasonCostAboveTarget: the machines cost more than their target, so that there is no
	// headroom.
	ReasonCostAboveTarget = "CostAboveTarget"
	// ReasonPaidPlacesFilled: more replicas than are needed, in room that is paid for anyway.
	ReasonPaidPlacesFilled = "PaidPlacesFilled"
	// ReasonPaidPlacesLeft: fewer replicas than there are, though room for them is paid for: the
	// machine can go.
	ReasonPaidPlacesLeft = "PaidPlacesLeft"
	// ReasonPlacesLimited: limits, hosts or the hard limit on the cost have no room for all.
	ReasonPlacesLimited = "PlacesLimited"
	// ReasonMarginalPrice: what a replica more would cost and one fewer save, and what comes of
	// doing nothing.
	ReasonMarginalPrice = "MarginalPrice"
	// ReasonReplicasLost: replicas answer no requests, as their hosts are away, so others are
	// asked for in their place.
	ReasonReplicasLost = "ReplicasLost"
	// ReasonLoadUnknown: the load could not be measured.
	ReasonLoadUnknown = "LoadUnknown"
)

// Because returns a reason with a formatted text.
func Because(code, format string, args ...any) Reason {
	return Reason{Code: code, Text: fmt.Sprintf(format, args...)}
}
