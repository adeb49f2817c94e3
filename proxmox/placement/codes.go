package placement

import (
	"fmt"
	"slices"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// Why a host does not take a machine. The codes are stable: events, dashboards and alerts match on
// them.
const (
	CodeNoHost            = "NoHost"            // no host takes the machine
	CodeHostUnknown       = "HostUnknown"       // the cluster has no such host
	CodeHostOffline       = "HostOffline"       // the host is away
	CodeHostInMaintenance = "HostInMaintenance" // the host takes nothing new
	CodeHostNotInPool     = "HostNotInPool"     // the pool does not list the host
	// The host has as many of the pool's machines as it may.
	CodeHostAtLimit = "HostAtLimit"
	// The pool's last machines on the host failed, and another host takes the machine.
	CodeHostFailing = "HostFailing"
	// There is no template that could be cloned to the host.
	CodeTemplateMissing = "TemplateMissing"
	// The template has not been looked for yet, as is so of a pool that is new.
	CodeTemplateUnread = "TemplateUnread"
	CodeBridgeMissing  = "BridgeMissing"  // the host lacks the bridge
	CodeStorageMissing = "StorageMissing" // the host lacks the storage
	CodeStorageFull    = "StorageFull"    // the storage has no room
	CodeNoMemory       = "NoMemory"       // the host has promised its memory
	CodeNoCPU          = "NoCPU"          // the host has promised its processors
)

// scarce are the codes of reasons that more room would do away with.
var scarce = []string{CodeNoHost, CodeHostAtLimit, CodeStorageFull, CodeNoMemory, CodeNoCPU}

// Scarce reports whether more room would do away with the reason of that code.
func Scarce(code string) bool { return slices.Contains(scarce, code) }

func refuse(code, format string, args ...any) *nodescaler.Reason {
	return &nodescaler.Reason{Code: code, Text: fmt.Sprintf(format, args...)}
}
