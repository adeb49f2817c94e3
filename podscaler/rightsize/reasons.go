package rightsize

import "github.com/plimsoll/plimsoll/podscaler"

// Reason is why an answer is what it is.
type Reason = podscaler.Reason

// The codes of reasons. They are stable: people alert and match on them.
const (
	// ReasonMeasured: what was measured, how often and for how long, and what followed from it.
	ReasonMeasured = "Measured"
	// ReasonNotMeasured: there is no sample, so nothing is recommended.
	ReasonNotMeasured = "NotMeasured"
	// ReasonNotControlled: the policy leaves the resource alone.
	ReasonNotControlled = "NotControlled"
	// ReasonLittleHistory: less than a day of samples is known, which moves the bounds apart.
	ReasonLittleHistory = "LittleHistory"
	// ReasonOutOfMemory: the container was killed for memory, and has been given more than it was
	// seen to use.
	ReasonOutOfMemory = "OutOfMemory"
	// ReasonFloor: less was measured than any container is given.
	ReasonFloor = "Floor"
	// ReasonMinAllowed and ReasonMaxAllowed: the policy's bound counts instead.
	ReasonMinAllowed = "MinAllowed"
	ReasonMaxAllowed = "MaxAllowed"

	// ReasonModeOff: recommendations are shown and not carried out.
	ReasonModeOff = "ModeOff"
	// ReasonModeInitial: pods that run are left as they are.
	ReasonModeInitial = "ModeInitial"
	// ReasonNotAdmitted: requests would be set as pods are created, which is not served.
	ReasonNotAdmitted = "NotAdmitted"
	// ReasonNoRecommendation: nothing is recommended for any container of the pod.
	ReasonNoRecommendation = "NoRecommendation"
	// ReasonCreated: the pod is about to be created, with what is recommended.
	ReasonCreated = "Created"
	// ReasonOutsideBounds: a request is outside the recommended bounds.
	ReasonOutsideBounds = "OutsideBounds"
	// ReasonWithinBounds: all requests are within the bounds, and no more is called for.
	ReasonWithinBounds = "WithinBounds"
	// ReasonDrifted: within bounds, but the pod has run for long and the difference is large.
	ReasonDrifted = "Drifted"
	// ReasonQuickOOM: a container was killed for memory soon after it started.
	ReasonQuickOOM = "QuickOOM"
	// ReasonUnchanged: the pod already has what is recommended.
	ReasonUnchanged = "Unchanged"
	// ReasonResizePending: the last resize is not done yet.
	ReasonResizePending = "ResizePending"
	// ReasonResizeInfeasible: the node cannot hold the last resize, and no less is asked for now.
	ReasonResizeInfeasible = "ResizeInfeasible"
	// ReasonResizeDeferred: the node has had no room for the last resize for minutes.
	ReasonResizeDeferred = "ResizeDeferred"
	// ReasonEvictionHeld: the pod would be evicted, which would leave too few, or is forbidden.
	ReasonEvictionHeld = "EvictionHeld"
	// ReasonEvictedBefore: the pod was made after others were evicted for the same recommendation.
	ReasonEvictedBefore = "EvictedBefore"
	// ReasonQoSFixed: a resize may not change the pod's class of service. It has no requests at
	// all, or its shares of its node are what it requests.
	ReasonQoSFixed = "QoSFixed"
	// ReasonRestarts: the container's own resize policy restarts it.
	ReasonRestarts = "Restarts"
	// ReasonLimitRange: the namespace's LimitRanges admit something else than is recommended.
	ReasonLimitRange = "LimitRange"
	// ReasonStarting: the pods have not been seen for long enough.
	ReasonStarting = "Starting"
	// ReasonOneByOne: the pod that was resized last is not ready yet.
	ReasonOneByOne = "OneByOne"
	// ReasonScaledByCPU: replicas follow CPU in proportion to its requests, which are kept.
	ReasonScaledByCPU = "ScaledByCPU"
	// ReasonScaledByMemory: replicas follow memory in proportion to its requests, which are kept.
	ReasonScaledByMemory = "ScaledByMemory"
	// ReasonResized: the pod was resized.
	ReasonResized = "Resized"
	// ReasonEvicted: the pod was evicted, to be made again where there is room.
	ReasonEvicted = "Evicted"
	// ReasonCheckpointRefused: what was learnt before cannot be read, and is learnt anew.
	ReasonCheckpointRefused = "CheckpointRefused"
	// ReasonFailedResize: the resize, or the eviction in its place, was refused.
	ReasonFailedResize = "FailedResize"

	// ReasonShare: how much of the node the pod is given, and by what.
	ReasonShare = "Share"
	// ReasonBelowRequest: the share is less than the request, and no limit can be set to it.
	ReasonBelowRequest = "BelowRequest"
	// ReasonBelowUse: a limit of memory would be less than is in use, or that is unknown.
	ReasonBelowUse = "BelowUse"
	// ReasonOverNode: a limit is raised once those of others on the node were lowered.
	ReasonOverNode = "OverNode"
)

func because(code, format string, args ...any) Reason {
	return podscaler.Because(code, format, args...)
}
