package pve

import (
	"slices"

	"github.com/plimsoll/plimsoll/proxmox/pveapi"
)

// scarce are the reasons that more room would do away with.
var scarce = []string{CodeNoHost, CodeHostAtLimit, CodeStorageFull, CodeNoMemory, CodeNoCPU}

// noRoom reports whether what is wrong with the machine is a lack of room.
func (m *tracked) noRoom() bool {
	if m.Failed != nil {
		return m.cramped()
	}
	return slices.Contains(scarce, m.problem.Code)
}

// failedFor is the code of a machine that could not be made for an error, however often it was tried.
func failedFor(err error) string {
	switch pveapi.ClassOf(err) {
	case pveapi.StorageFull:
		return CodeStorageFull
	case pveapi.MemoryFull:
		return CodeNoMemory
	default:
		return CodeMachineFailed
	}
}
