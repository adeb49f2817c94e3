package nodescaler

// Codes of reasons. They are stable: events, dashboards and replays match on them. The text
// beside a code holds the numbers and may change.

// Why a node, or a machine that is still to come, does not take a pod.
const (
	NodeNotReady       = "NodeNotReady"       // the node is not ready, or not known to be
	NodeCordoned       = "NodeCordoned"       // the node takes no new pods
	TaintNotTolerated  = "TaintNotTolerated"  // the node has a taint that the pod does not tolerate
	SelectorMismatch   = "SelectorMismatch"   // the node lacks labels that the pod requires
	VolumeElsewhere    = "VolumeElsewhere"    // a volume or device of the pod is out of reach
	InsufficientCPU    = "InsufficientCPU"    // less CPU is free than the pod requests
	InsufficientMemory = "InsufficientMemory" // less memory is free than the pod requests
	// InsufficientResource: too little of another resource is free: a device, huge pages, ephemeral
	// storage.
	InsufficientResource = "InsufficientResource"
	RequirementUnmet     = "RequirementUnmet" // no machine meets a requirement of the pod
	NoPodSlot            = "NoPodSlot"        // the node holds as many pods as it may
	PodsApart            = "PodsApart"        // an anti-affinity or a host port keeps the pod off
)

// Why pods are looked at or passed over when machines are bought.
const (
	PodsPending      = "PodsPending"      // a machine is ordered for pods without a node
	PodsExpected     = "PodsExpected"     // a machine is ordered for expected replicas
	HeadroomWanted   = "HeadroomWanted"   // a machine is ordered for room that is kept free
	HeadroomShort    = "HeadroomShort"    // there is less free room than is to be kept
	PodsFitExisting  = "PodsFitExisting"  // nodes or machines in flight have room for the pods
	PodTooBig        = "PodTooBig"        // the pod is larger than any machine
	PodExpendable    = "PodExpendable"    // the pod's priority is too low for an order
	PodTooYoung      = "PodTooYoung"      // the pod has not waited long enough for an order
	CapacityInFlight = "CapacityInFlight" // machines in flight are expected to hold the pods
	NamespaceQuota   = "NamespaceQuota"   // the namespace is at its quota; the rest is held
	PodsNotHelped    = "PodsNotHelped"    // pods stayed unschedulable although a node had room
	NoDomain         = "NoDomain"         // no zone satisfies a spread or an anti-affinity
	BeyondAllPools   = "BeyondAllPools"   // more replicas are expected than all pools could hold
)

// UnplacedCodes are the codes that Plan.Unplaced has, sorted.
func UnplacedCodes() []string {
	return []string{
		ClusterUnhealthy, InsufficientCPU, InsufficientMemory, InsufficientResource, LimitReached, NamespaceQuota, NoDomain, NoHostRoom, NoPodSlot, PodExpendable, PodTooBig,
		PodsApart, PodsNotHelped, PoolAtMax, PoolBackingOff, PoolClosed, PoolUnknown, RefusedLately, RequirementUnmet, SelectorMismatch, TaintNotTolerated, VolumeElsewhere,
	}
}

// Why a machine is bought or not, and where.
const (
	CheapestOffer     = "CheapestOffer"     // this shape and host are part of the cheapest set
	LargestOfNeed     = "LargestOfNeed"     // the number of machines covers CPU and memory
	SpreadHost        = "SpreadHost"        // the host has none of the pool's machines yet
	PreferencesMet    = "PreferencesMet"    // among pools of equal price the pods prefer this one
	PreferenceGivenUp = "PreferenceGivenUp" // the pool that the pods prefer costs more
	RoomiestHost      = "RoomiestHost"      // the host has the most memory left
	PoolBelowMin      = "PoolBelowMin"      // the pool has fewer machines than its minimum
	PoolClosed        = "PoolClosed"        // the pool is paused, or its machines fail
	PoolAtMax         = "PoolAtMax"         // the pool has as many machines as it may
	RefusedLately     = "RefusedLately"     // an equal order was refused some minutes ago
	PoolBackingOff    = "PoolBackingOff"    // machines of the pool failed; it backs off
	PoolUnknown       = "PoolUnknown"       // no such pool or shape, or an ambiguous one
	ParallelLimit     = "ParallelLimit"     // the maximum of machines is in flight
	NoHostRoom        = "NoHostRoom"        // no host of the pool has room for the machine
	LimitReached      = "LimitReached"      // one more machine would exceed the cost limit
)

// Why machines are kept as spares, woken or let go.
const (
	SparesPay      = "SparesPay"      // how many spares pay for themselves
	SparesAdvised  = "SparesAdvised"  // spares would have paid for themselves, and none may be kept
	OrderCancelled = "OrderCancelled" // a machine that was ordered has not begun and is not needed
	SpareOrdered   = "SpareOrdered"   // a machine is ordered to become a spare
	SpareMade      = "SpareMade"      // a machine ordered as a spare has joined; it is stopped
	SpareStashed   = "SpareStashed"   // a machine that is not needed is kept as a spare
	SpareWoken     = "SpareWoken"     // a spare is started in place of an order
	SpareTaken     = "SpareTaken"     // pods came to a machine that was to become a spare
	SpareDrifted   = "SpareDrifted"   // the pool's settings have changed since it was made
	SpareUnneeded  = "SpareUnneeded"  // a spare costs more than it is worth
)

// Why a machine is returned or kept.
const (
	MachineFailed     = "MachineFailed"     // the machine will never join
	ProvisionTimedOut = "ProvisionTimedOut" // the machine did not become a node in time
	NodeEmpty         = "NodeEmpty"         // nothing on the node has to move
	NodeUnneeded      = "NodeUnneeded"      // the node is little used, and its pods fit elsewhere
	NodeBusy          = "NodeBusy"          // the node is used too much to be reclaimed
	NodeTakesPods     = "NodeTakesPods"     // pods of other nodes or pending pods would go there
	NodeDraining      = "NodeDraining"      // the node is being drained
	LoadFitsFewer     = "LoadFitsFewer"     // one node fewer would hold the load, with its headroom
	LoadNeedsAll      = "LoadNeedsAll"      // one node fewer would not hold the load
	LeastLoaded       = "LeastLoaded"       // among the nodes that may go, this one holds least
	MachineHeld       = "MachineHeld"       // the machine is held, for a reason that follows
	DuplicateNode     = "DuplicateNode"     // two nodes claim the same machine
	NodeContradicts   = "NodeContradicts"   // a node's provider ID, system UUID and name disagree
	LocalVolume       = "LocalVolume"       // a claim's volume lies on the node's own disk
	PoolAtMin         = "PoolAtMin"         // the pool has no more machines than its minimum
	PodPinned         = "PodPinned"         // a pod on the node must not be evicted
	PodLeaving        = "PodLeaving"        // a pod is terminating and not gone yet
	BudgetExhausted   = "BudgetExhausted"   // a disruption budget allows no eviction now
	NoPlaceElsewhere  = "NoPlaceElsewhere"  // a pod on the node would fit nowhere else
	DrainCalledOff    = "DrainCalledOff"    // another client uncordoned the node during the drain
	DrainEnds         = "DrainEnds"         // the pod is deleted: the time of the drain is over
	VolumesAttached   = "VolumesAttached"   // volumes of pods that left are still attached
	DrainTimedOut     = "DrainTimedOut"     // the node could not be emptied in time
	CoolingDown       = "CoolingDown"       // too little time since the last change or failure
	HostOffline       = "HostOffline"       // the machine's host is offline, its state unknown
	ClusterUnhealthy  = "ClusterUnhealthy"  // too many nodes on online hosts are not ready
	ActivityElsewhere = "ActivityElsewhere" // pods wait or machines change elsewhere
	JustStarted       = "JustStarted"       // the policy has just started
)

// Why a machine that works is replaced, or not yet.
const (
	MachineDrifted     = "MachineDrifted"     // the pool's settings changed since it was made
	MachineUnhealthy   = "MachineUnhealthy"   // a condition of the node says that it is broken
	RebootFirst        = "RebootFirst"        // the machine is rebooted before it is replaced
	RebootAwaited      = "RebootAwaited"      // it was, and its node may still become healthy
	RebootHelped       = "RebootHelped"       // its node is healthy again
	RepairHalted       = "RepairHalted"       // too many of the pool's nodes are broken
	MachineCostly      = "MachineCostly"      // the machine's pods would cost less elsewhere
	WhenEmptyOnly      = "WhenEmptyOnly"      // the pool's machines go only when they are empty
	DisruptionHalted   = "DisruptionHalted"   // what replaces machines failed, or their pods waited
	MachineExpired     = "MachineExpired"     // the machine is older than its pool lets it become
	ReplacementOrdered = "ReplacementOrdered" // a machine is ordered to replace another
	ReplacementAwaited = "ReplacementAwaited" // the machine stays until its replacement is ready
	ReplacementBlocked = "ReplacementBlocked" // no replacement can be made
	NodeBudgetSpent    = "NodeBudgetSpent"    // as many machines of the pool go as may
	NodePinned         = "NodePinned"         // an annotation of the node keeps it
)

// How far a rollout is, and why it lets no machine go.
const (
	RolloutComplete    = "RolloutComplete"    // each machine is what the pool would make now
	RolloutCanary      = "RolloutCanary"      // the first new machines are made, or watched
	RolloutProgressing = "RolloutProgressing" // machines are replaced
	RolloutPaused      = "RolloutPaused"      // a person paused it
	RolloutFailed      = "RolloutFailed"      // new machines failed, or objectives are missed
	RolloutRollingBack = "RolloutRollingBack" // machines are made as before, and new ones replaced
	RolloutRolledBack  = "RolloutRolledBack"  // all machines are as before
	RolloutHeld        = "RolloutHeld"        // the rollout lets no machine of the pool go now
	RolloutSurge       = "RolloutSurge"       // as many machines are beside others as may be
)
