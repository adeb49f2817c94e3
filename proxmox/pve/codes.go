package pve

import (
	"fmt"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// Codes of what the fleet has to say. They are stable: events, dashboards and alerts match on them.

// Why an order is refused. Why a host does not take a machine is in proxmox/placement.
const (
	CodeNoInventory    = "NoInventory"    // the cluster has not been seen yet, or not for too long
	CodeFrozen         = "Frozen"         // nothing is changed now, for a reason that is told with it
	CodeWatching       = "Watching"       // nothing is changed here, only looked at
	CodeBadOrder       = "BadOrder"       // the order makes no sense
	CodePoolUnknown    = "PoolUnknown"    // no such pool
	CodeShapeUnknown   = "ShapeUnknown"   // the pool has no such shape
	CodePoolAtMax      = "PoolAtMax"      // the pool has as many machines as it may
	CodePoolPaused     = "PoolPaused"     // too many of the pool's machines failed in a row
	CodePoolBackingOff = "PoolBackingOff" // one of the pool's machines failed a short while ago
	CodeOtherCluster   = "OtherCluster"   // the machines in the pool's range are another cluster's
	CodeVMIDsExhausted = "VMIDsExhausted" // every VMID of the pool is taken or cooling down
)

// Why nothing is changed for a while.
const (
	CodeLookFailed        = "LookFailed"        // the cluster could not be read
	CodeNoQuorum          = "NoQuorum"          // the hosts that answer are no majority
	CodePermissionsShrunk = "PermissionsShrunk" // the token may do or see less than it could
	CodeInventoryEmpty    = "InventoryEmpty"    // all virtual machines vanished from the list at once
	CodeThawed            = "Thawed"            // changes are made again
)

// What happens to machines.
const (
	CodeOrderAccepted  = "OrderAccepted"  // an order was taken
	CodeVMIDTaken      = "VMIDTaken"      // a VMID turned out to be another owner's, and another is used
	CodeCloneAsked     = "CloneAsked"     // a clone has begun
	CodeStarted        = "Started"        // a machine was started
	CodeJoined         = "Joined"         // a machine became a node
	CodeIDMismatch     = "IDMismatch"     // a node's provider ID is not the one that was planned
	CodeDiscKept       = "DiscKept"       // a first-boot disc could not be removed yet
	CodeRetry          = "Retry"          // a call failed and will be made again
	CodeAnswerLost     = "AnswerLost"     // a call may have been done; it is looked up
	CodeTaskWarnings   = "TaskWarnings"   // a task ended well, with warnings
	CodeTaskFailed     = "TaskFailed"     // a task failed
	CodeHostSilent     = "HostSilent"     // the host is online and does not answer
	CodeTaskHangs      = "TaskHangs"      // a task takes longer than it may
	CodeMachineFailed  = "MachineFailed"  // a machine will never join
	CodeJoinTimeout    = "JoinTimeout"    // a machine did not become a node in time
	CodeReturned       = "Returned"       // a machine was reclaimed
	CodeStashed        = "Stashed"        // a machine is stopped and kept as a spare
	CodeWoken          = "Woken"          // a spare is started
	CodeNotWoken       = "NotWoken"       // a spare could not be started, and is one still
	CodeDestroyAsked   = "DestroyAsked"   // a machine is being destroyed
	CodeGone           = "Gone"           // a machine is proved to be no more
	CodeVanished       = "Vanished"       // a machine was removed by another client
	CodeStopped        = "Stopped"        // a machine that should run does not
	CodeHidden         = "Hidden"         // a machine exists and is not listed
	CodeQuarantined    = "Quarantined"    // a machine is not touched any more until a person has looked
	CodeUndrained      = "Undrained"      // a machine goes without a drain that emptied it
	CodeBraked         = "Braked"         // too many machines of a pool would go undrained within an hour: none does
	CodeRevoked        = "Revoked"        // a machine that was to go is a node again, and stays
	CodeNodeHoldsPods  = "NodeHoldsPods"  // a machine that is to go has a ready node with pods
	CodeStrangeDevice  = "StrangeDevice"  // a machine that is to go has a drive or a device that its order did not make
	CodeLastLookFailed = "LastLookFailed" // what the node of a machine that is to go holds cannot be read
	CodeLocked         = "Locked"         // a machine that is to be deleted stays locked
	CodeProtected      = "Protected"      // a machine that is to be deleted is protected
	CodeHAManaged      = "HAManaged"      // a machine that is to be deleted is under high availability
	CodeMoved          = "Moved"          // somebody migrated a machine
	CodeAdopted        = "Adopted"        // a machine was found with all proofs and without an intent
	CodeUnmarked       = "Unmarked"       // a machine's notes do not name its cluster: it is kept as it is
	CodeNeverJoined    = "NeverJoined"    // an adopted machine runs and was never seen as a node: it is kept
	CodeUnfinished     = "Unfinished"     // an adopted machine was found stopped: what was meant with it is lost
	CodePoolResumed    = "PoolResumed"    // a pool's failures were pardoned
	CodeIntentNotKept  = "IntentNotKept"  // an intent could not be written: nothing is done without it
	CodeNodesUnknown   = "NodesUnknown"   // whether machines have joined cannot be seen
	CodeNodeNotRemoved = "NodeNotRemoved" // the node object of a machine that is gone could not be removed
)

// Event is something that happened and somebody may want to know.
type Event struct {
	At      time.Time `json:"at"`
	Code    string    `json:"code"`
	Text    string    `json:"text"`
	Machine string    `json:"machine,omitempty"`
	Pool    string    `json:"pool,omitempty"`
	Host    string    `json:"host,omitempty"`
	VMID    int       `json:"vmid,omitempty"`
	Advice  string    `json:"advice,omitempty"` // what a person can do about it
}

// String prints the event as a line.
func (e Event) String() string {
	s := e.At.UTC().Format("2006-01-02T15:04:05Z") + " " + e.Code
	if e.Machine != "" {
		s += " " + e.Machine
	}
	if e.VMID != 0 {
		s += fmt.Sprintf(" (%d on %s)", e.VMID, e.Host)
	}
	s += ": " + e.Text
	if e.Advice != "" {
		s += "; " + e.Advice
	}
	return s
}

func reason(code, format string, args ...any) nodescaler.Reason {
	return nodescaler.Reason{Code: code, Text: fmt.Sprintf(format, args...)}
}

func no(code, format string, args ...any) *nodescaler.Reason {
	r := reason(code, format, args...)
	return &r
}
