// Package pvecode has the codes of what the machine port on Proxmox VE says of orders, machines and
// its cluster.
package pvecode

// They are stable: events, dashboards and alerts match on them.

// Why an order is refused. Why a host does not take a machine is in proxmox/placement.
const (
	NoInventory    = "NoInventory"    // the cluster has not been seen yet, or not for too long
	Frozen         = "Frozen"         // nothing is changed now, for a reason that is given with it
	Watching       = "Watching"       // nothing is changed here, only looked at
	BadOrder       = "BadOrder"       // the order makes no sense
	PoolUnknown    = "PoolUnknown"    // no such pool
	ShapeUnknown   = "ShapeUnknown"   // the pool has no such shape
	PoolAtMax      = "PoolAtMax"      // the pool has as many machines as it may
	PoolPaused     = "PoolPaused"     // too many of the pool's machines failed in a row
	PoolBackingOff = "PoolBackingOff" // one of the pool's machines failed a short while ago
	OtherCluster   = "OtherCluster"   // the machines in the pool's range are another cluster's
	VMIDsExhausted = "VMIDsExhausted" // every VMID of the pool is taken or cooling down
)

// Why nothing is changed for a while.
const (
	LookFailed        = "LookFailed"        // the cluster could not be read
	NoQuorum          = "NoQuorum"          // the hosts that answer are no majority
	PermissionsShrunk = "PermissionsShrunk" // the token may do or see less than it could
	InventoryEmpty    = "InventoryEmpty"    // all virtual machines vanished from the list at once
	Thawed            = "Thawed"            // changes are made again
)

// What happens to machines.
const (
	OrderAccepted  = "OrderAccepted"  // an order was taken
	VMIDTaken      = "VMIDTaken"      // a VMID was another owner's, and another is used
	CloneAsked     = "CloneAsked"     // a clone has begun
	Started        = "Started"        // a machine was started
	Joined         = "Joined"         // a machine became a node
	IDMismatch     = "IDMismatch"     // a node's provider ID is not the one that was planned
	DiscKept       = "DiscKept"       // a first-boot disc could not be removed yet
	Retry          = "Retry"          // a call failed and will be made again
	AnswerLost     = "AnswerLost"     // a call may have been done; it is looked up
	TaskWarnings   = "TaskWarnings"   // a task ended well, with warnings
	TaskFailed     = "TaskFailed"     // a task failed
	HostSilent     = "HostSilent"     // the host is online and does not answer
	TaskHangs      = "TaskHangs"      // a task takes longer than it may
	MachineFailed  = "MachineFailed"  // a machine will never join
	JoinTimeout    = "JoinTimeout"    // a machine did not become a node in time
	Returned       = "Returned"       // a machine was reclaimed
	Stashed        = "Stashed"        // a machine is stopped and kept as a spare
	Woken          = "Woken"          // a spare is started
	RebootBegun    = "RebootBegun"    // a machine whose node is unhealthy is stopped and started
	Rebooted       = "Rebooted"       // it runs again
	NotWoken       = "NotWoken"       // a spare could not be started, and is one still
	DestroyAsked   = "DestroyAsked"   // a machine is being destroyed
	Gone           = "Gone"           // a machine is proved to be no more
	Vanished       = "Vanished"       // a machine was removed by another client
	Stopped        = "Stopped"        // a machine that should run does not
	Hidden         = "Hidden"         // a machine exists and is not listed
	Quarantined    = "Quarantined"    // a machine is not touched any more until a person has looked
	Undrained      = "Undrained"      // a machine goes without a drain that emptied it
	Braked         = "Braked"         // too many would go undrained within an hour: none does
	Revoked        = "Revoked"        // a machine that was to go is a node again, and stays
	NodeHoldsPods  = "NodeHoldsPods"  // a machine that is to go has a ready node with pods
	StrangeDevice  = "StrangeDevice"  // a machine that is to go has a drive or device of others
	LastLookFailed = "LastLookFailed" // what the node of one that is to go holds cannot be read
	Locked         = "Locked"         // a machine that is to be deleted stays locked
	Protected      = "Protected"      // a machine that is to be deleted is protected
	HAManaged      = "HAManaged"      // a machine that is to be deleted is under high availability
	Moved          = "Moved"          // an administrator migrated a machine
	Adopted        = "Adopted"        // a machine was found with all proofs and without an intent
	Unmarked       = "Unmarked"       // a machine's notes do not name its cluster: it is kept
	NeverJoined    = "NeverJoined"    // an adopted machine runs and never was a node: it is kept
	Unfinished     = "Unfinished"     // an adopted machine was found stopped, with no intent
	PoolResumed    = "PoolResumed"    // a pool's failures were pardoned
	IntentNotKept  = "IntentNotKept"  // an intent could not be written: nothing is done without it
	NodesUnknown   = "NodesUnknown"   // whether machines have joined cannot be seen
	NodeNotRemoved = "NodeNotRemoved" // the node of a machine that is gone could not be removed
)
