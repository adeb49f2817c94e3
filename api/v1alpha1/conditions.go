package v1alpha1

// The types of conditions. Where a HorizontalPodAutoscaler has one for the same thing, its name is
// that one. Of those that only some kinds have, the kinds are named.
const (
	// ConditionReady is True while the object is understood and acted on, or recommended for, as
	// its mode says. Its reason is the most important of what keeps it from that.
	ConditionReady = "Ready"

	// ConditionScalingActive is True while the policy can say how many replicas there should be.
	ConditionScalingActive = "ScalingActive" // WorkloadAutoscaler
	// ConditionAbleToScale is True while the target's scale can be read and written.
	ConditionAbleToScale = "AbleToScale" // WorkloadAutoscaler
	// ConditionScalingLimited is True while bounds or behavior allow less than the policy proposes.
	ConditionScalingLimited = "ScalingLimited" // WorkloadAutoscaler
	// ConditionScaledToZero is True while replicas are 0 because Plimsoll set them so. Replicas of
	// 0 without it are a person's wish to pause the workload. Of a workload with idle they are that
	// where the reason is SwitchedOff, and stay; other zeros are woken. A 0 is not known to be a
	// person's within two minutes of Plimsoll's start, or of a 0 that it decided on.
	ConditionScaledToZero = "ScaledToZero" // WorkloadAutoscaler
	// ConditionMetricsHealthy is True while every signal that the policy asks for can be measured.
	ConditionMetricsHealthy = "MetricsHealthy" // WorkloadAutoscaler
	// ConditionConflicted is True while another client scales the same thing, unless the object
	// only recommends.
	ConditionConflicted = "Conflicted" // WorkloadAutoscaler, VMPool
	// ConditionPaused is True while the object is paused by its mode, an annotation or a schedule.
	ConditionPaused = "Paused" // WorkloadAutoscaler, VMPool
	// ConditionBraked says that no machine goes without a drain that emptied it, because too many
	// would have within an hour.
	ConditionBraked = "Braked" // VMPool
	// ConditionSLOAtRisk is True while response times are above the objective.
	ConditionSLOAtRisk = "SLOAtRisk" // WorkloadAutoscaler
	// ConditionErrorBudgetBurning is True while requests are late so much more often than the
	// objective lets them that its budget of 30 days would soon be spent.
	ConditionErrorBudgetBurning = "ErrorBudgetBurning" // WorkloadAutoscaler
	// ConditionBudgetExceeded is True while the machines cost more than the cost target.
	ConditionBudgetExceeded = "BudgetExceeded" // WorkloadAutoscaler
	// ConditionCapacityPending is True while replicas wait for machines that are on their way.
	ConditionCapacityPending = "CapacityPending" // WorkloadAutoscaler, VMPool
	// ConditionMachinesHeld is True while there are machines that nothing takes down: nodes
	// contradict one another or themselves about them, or something on their disks would be lost.
	// It names them, with what to do.
	ConditionMachinesHeld = "MachinesHeld" // VMPool
	// ConditionMachinesOutdated is True while machines are not what their pool would make now, or
	// older than it lets them become. It names them, and says whether they are replaced.
	ConditionMachinesOutdated = "MachinesOutdated" // VMPool
	// ConditionRolledOut is True while each machine is what its pool would make now. Its reason is
	// how far that is, and whether it failed. Pools that do not replace drifted machines have it
	// not.
	ConditionRolledOut = "RolledOut" // VMPool
	// ConditionRepairHalted is True while too many of the pool's nodes are unhealthy or not ready
	// for any of them to be replaced for that. Pools without repair have it not.
	ConditionRepairHalted = "RepairHalted" // VMPool
	// ConditionDisruptionHalted is True while no machine of the pool goes for some reason: several
	// times in a row what was to replace such machines failed, or their pods waited for another.
	// Pools without disruption have it only while it is True.
	ConditionDisruptionHalted = "DisruptionHalted" // VMPool
	// ConditionPodsUnplaced is True while pods wait that no machine of any pool would help. It says
	// of the first of them why, and what change would help.
	ConditionPodsUnplaced = "PodsUnplaced" // VMPool
	// ConditionSparesAdvised is True while spares would have paid for themselves within the last
	// day, and the configuration keeps none.
	ConditionSparesAdvised = "SparesAdvised" // VMPool
	// ConditionCapacityAhead is True once cluster-autoscaler, or whoever else orders machines in
	// Plimsoll's place, has been asked to keep room for expected replicas.
	ConditionCapacityAhead = "CapacityAhead" // WorkloadAutoscaler
	// ConditionCapacityHeld is True while no machine is ordered for some of the workload's pods or
	// replicas, since its namespace is at its quota, its pods cannot be created, or no machine
	// helped or would help them.
	ConditionCapacityHeld = "CapacityHeld" // WorkloadAutoscaler
	// ConditionFallback is True while the policy has had no answer for so long that the fallback
	// applies.
	ConditionFallback = "Fallback" // WorkloadAutoscaler
	// ConditionRegistrationMismatch is True while a service registry knows other instances than
	// those that are ready.
	ConditionRegistrationMismatch = "RegistrationMismatch" // WorkloadAutoscaler
	// ConditionCostSourceMismatch is True while OpenCost and the price book say different prices;
	// the price book's count.
	ConditionCostSourceMismatch = "CostSourceMismatch" // WorkloadAutoscaler
)

// The reasons of conditions. Besides these, a condition carries the code of the reason that a
// decision gives, such as ScaleUpLimit or LatencyUnknown, and the HPA's own, such as
// FailedUpdateScale and ValidMetricFound, where it has one for the same thing.
const (
	// ReasonActive: what is decided is done.
	ReasonActive = "Active"
	// ReasonRecommending: mode Recommend only says what would be done.
	ReasonRecommending = "Recommending"
	// ReasonPaused: mode Paused, or an annotation, keeps the object as it is.
	ReasonPaused = "Paused"
	// ReasonInvalidSpec: the rules of the CRD let something pass that means nothing.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonTargetNotFound: what scaleTargetRef names does not exist.
	ReasonTargetNotFound = "TargetNotFound"
	// ReasonTargetNotScalable: what scaleTargetRef names has no scale.
	ReasonTargetNotScalable = "TargetNotScalable"
	// ReasonForeignAutoscaler: an HPA, a ScaledObject or another WorkloadAutoscaler has the target.
	ReasonForeignAutoscaler = "ForeignAutoscaler"
	// ReasonForeignWrites: another client keeps changing the target's replicas.
	ReasonForeignWrites = "ForeignWrites"
	// ReasonManySeries: a query returned several series where one was expected.
	ReasonManySeries = "ManySeries"
	// ReasonScaledByClusterAutoscaler: upstream's cluster-autoscaler orders the pool's machines.
	ReasonScaledByClusterAutoscaler = "ScaledByClusterAutoscaler"
	// ReasonPoolsConflict: two pools would take one another's VMIDs, addresses or templates, or one
	// would take a server's address.
	ReasonPoolsConflict = "PoolsConflict"
	// ReasonPricesUnknown: the price book that is to be in force is not there or not understood.
	ReasonPricesUnknown = "PricesUnknown"
	// ReasonMachinesUnknown: Proxmox VE does not say which machines there are.
	ReasonMachinesUnknown = "MachinesUnknown"
	// ReasonPricesInForce: the book is the one that machines are priced by.
	ReasonPricesInForce = "PricesInForce"
	// ReasonNotChosen: another book is the one that machines are priced by.
	ReasonNotChosen = "NotChosen"
)

// Annotations that people may set on a WorkloadAutoscaler or a VMPool.
const (
	// AnnotationPaused, with the value true, pauses the object in any mode.
	AnnotationPaused = "plimsoll.dev/paused"
)
