package nodescaler

// Codes of reasons. They are stable: events, dashboards and replays match on them. The text
// beside a code holds the numbers and may change.

// Why a node, or a machine that is still to come, does not take a pod.
const (
	NodeNotReady       = "NodeNotReady"       // the node is not ready, or not known to be
	NodeCordoned       = "NodeCordoned"       // the node takes no new pods
	TaintNotTolerated  = "TaintNotTolerated"  // the node has a taint that the pod does not tolerate
	SelectorMismatch   = "SelectorMismatch"   // the node has not the labels that the pod selects or requires
	VolumeElsewhere    = "VolumeElsewhere"    // a volume of the pod is not to be had on the node
	InsufficientCPU    = "InsufficientCPU"    // less CPU is free than the pod asks for
	InsufficientMemory = "InsufficientMemory" // less memory is free than the pod asks for
	// InsufficientResource: less is free than the pod asks for of a resource besides CPU and memory: a device, huge
	// pages, ephemeral storage.
	InsufficientResource = "InsufficientResource"
	RequirementUnmet     = "RequirementUnmet" // the pod asks something of its node that no machine is known to have
	NoPodSlot            = "NoPodSlot"        // the node holds as many pods as it may
	PodsApart            = "PodsApart"        // the node holds a pod that this one shares no node with: an anti-affinity, or a port
)

// Why pods are looked at or passed over when machines are bought.
const (
	PodsPending      = "PodsPending"      // pods that no node holds, which a machine is bought for
	PodsExpected     = "PodsExpected"     // replicas that are only expected, which a machine is bought for
	PodsFitExisting  = "PodsFitExisting"  // pods that wait have room on nodes that are there or on their way
	PodTooBig        = "PodTooBig"        // a pod is larger than any machine it could be given
	PodExpendable    = "PodExpendable"    // a pod's priority is too low to buy a machine for it
	PodTooYoung      = "PodTooYoung"      // a pod has not waited long enough to buy a machine for it
	CapacityInFlight = "CapacityInFlight" // machines on their way are expected to hold what waits
	NamespaceQuota   = "NamespaceQuota"   // a namespace wants more than its quota allows, and the rest is held
	PodsNotHelped    = "PodsNotHelped"    // pods that stayed unschedulable beside a node with room: no machine is ordered for them
	NoDomain         = "NoDomain"         // no zone may take a pod that is to be spread over zones, or kept apart by them
	BeyondAllPools   = "BeyondAllPools"   // more replicas are to come than all machines that may be could carry
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
	CheapestOffer     = "CheapestOffer"     // this shape on this host is part of the cheapest set found
	LargestOfNeed     = "LargestOfNeed"     // the number bought covers both the CPU and the memory asked for
	SpreadHost        = "SpreadHost"        // the host has none of the pool's machines yet
	PreferencesMet    = "PreferencesMet"    // of several pools at the same price the one that the pods prefer
	PreferenceGivenUp = "PreferenceGivenUp" // what the pods prefer costs more
	RoomiestHost      = "RoomiestHost"      // the host has the most memory left
	PoolBelowMin      = "PoolBelowMin"      // the pool has fewer machines than its minimum
	PoolClosed        = "PoolClosed"        // the pool makes no machines now: it is paused, or its machines fail
	PoolAtMax         = "PoolAtMax"         // the pool has as many machines as it may
	RefusedLately     = "RefusedLately"     // an order like it was refused, and is not made again for some minutes
	PoolBackingOff    = "PoolBackingOff"    // the pool's machines failed of late, and no more are ordered yet
	PoolUnknown       = "PoolUnknown"       // no such pool or shape, or several where one must be named
	ParallelLimit     = "ParallelLimit"     // as many machines are on their way as may be at once
	NoHostRoom        = "NoHostRoom"        // no host that may carry the machine has room for it
	LimitReached      = "LimitReached"      // one more machine would cost more than the hard limit allows
)

// Why machines are kept as spares, woken or let go.
const (
	SparesPay     = "SparesPay"     // how many spares pay for themselves, and why not one more
	SpareOrdered  = "SpareOrdered"  // a machine is ordered that is to become a spare
	SpareMade     = "SpareMade"     // a machine that was ordered as a spare has joined, and is stopped
	SpareStashed  = "SpareStashed"  // a machine that is not needed any more is kept as a spare
	SpareWoken    = "SpareWoken"    // a spare is started in place of an order
	SpareTaken    = "SpareTaken"    // pods came to a machine that was to become a spare
	SpareDrifted  = "SpareDrifted"  // a spare was made in another way than its pool makes machines now
	SpareUnneeded = "SpareUnneeded" // a spare costs more than it is worth
)

// Why a machine is given back or kept.
const (
	MachineFailed     = "MachineFailed"     // the machine will never join
	ProvisionTimedOut = "ProvisionTimedOut" // the machine did not become a node in time
	NodeEmpty         = "NodeEmpty"         // nothing on the node has to move
	NodeUnneeded      = "NodeUnneeded"      // the node is little used and its pods have room elsewhere
	NodeBusy          = "NodeBusy"          // the node is used too much to be given back
	NodeTakesPods     = "NodeTakesPods"     // the node is where other nodes' or waiting pods would go
	NodeDraining      = "NodeDraining"      // the node is being emptied
	LoadFitsFewer     = "LoadFitsFewer"     // one node fewer would hold the load, with its headroom
	LoadNeedsAll      = "LoadNeedsAll"      // one node fewer would not
	LeastLoaded       = "LeastLoaded"       // of the nodes that may go, this one holds least
	MachineHeld       = "MachineHeld"       // nothing takes the machine down, for a reason that follows
	DuplicateNode     = "DuplicateNode"     // two nodes claim the same machine
	NodeContradicts   = "NodeContradicts"   // a node's provider ID, system UUID and name disagree
	LocalVolume       = "LocalVolume"       // a claim's volume lies on the node's own disk
	PoolAtMin         = "PoolAtMin"         // the pool has no more machines than its minimum
	PodPinned         = "PodPinned"         // a pod on the node must not be evicted
	PodLeaving        = "PodLeaving"        // a pod has been told to go and is not gone yet
	BudgetExhausted   = "BudgetExhausted"   // a disruption budget allows no eviction now
	NoPlaceElsewhere  = "NoPlaceElsewhere"  // a pod on the node would fit nowhere else
	DrainCalledOff    = "DrainCalledOff"    // somebody else uncordoned the node while it was being emptied
	DrainTimedOut     = "DrainTimedOut"     // the node could not be emptied in time
	CoolingDown       = "CoolingDown"       // too little time since the last change or failure
	HostOffline       = "HostOffline"       // the machine's host is away, and so is the truth about it
	ClusterUnhealthy  = "ClusterUnhealthy"  // too many nodes of hosts that are there are not ready to trust the picture
	ActivityElsewhere = "ActivityElsewhere" // nothing is given back while pods wait or machines change
	JustStarted       = "JustStarted"       // the policy has only just begun to look
)
