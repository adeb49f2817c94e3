package pve

import (
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
)

// noRoom reports whether what is wrong with the machine is a lack of room.
func (m *tracked) noRoom() bool {
	if m.Failed != nil {
		return m.cramped()
	}
	return placement.Scarce(m.problem.Code)
}

// failedFor is the code of a machine that could not be made for an error, however often it was tried.
func failedFor(err error) string {
	switch pveapi.ClassOf(err) {
	case pveapi.StorageFull:
		return placement.CodeStorageFull
	case pveapi.MemoryFull:
		return placement.CodeNoMemory
	default:
		return CodeMachineFailed
	}
}
