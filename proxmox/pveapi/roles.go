package pveapi

import "strings"

// The roles that the token has its rights by.
const (
	RoleAudit     = "PlimsollAudit"
	RoleMachines  = "PlimsollMachines"
	RoleDisks     = "PlimsollDisks"
	RoleFirstBoot = "PlimsollFirstBoot"
	RoleAgent     = "PlimsollGuestAgent"
	RoleTemplates = "PlimsollTemplates"
	RoleStorage   = "PlimsollStorage"
	RoleISO       = "PlimsollISO"
	RoleNetwork   = "PlimsollNetwork"
	RoleDevices   = "PlimsollDevices"
)

// roleOf are the roles of privileges that one role alone has.
var roleOf = map[string]string{
	"Sys.Audit": RoleAudit, "SDN.Use": RoleNetwork, "Mapping.Use": RoleDevices,
	"VM.Config.Disk": RoleDisks, "VM.Config.CDROM": RoleFirstBoot, "VM.Config.Cloudinit": RoleFirstBoot,
	"VM.Monitor": RoleAgent, "VM.GuestAgent.Audit": RoleAgent, "VM.Clone": RoleTemplates,
	"Datastore.AllocateSpace": RoleStorage, "Datastore.Audit": RoleStorage,
	"Datastore.AllocateTemplate": RoleISO, "Datastore.Allocate": RoleISO,
}

// RoleOf is the role that grants a privilege on a path, so that whoever follows advice makes no
// second set of roles. A template is seen by its own role, and machines by that of their pool.
func RoleOf(privilege, path string) string {
	role, one := roleOf[privilege]
	switch {
	case one:
		return role
	case privilege == "VM.Audit" && strings.HasPrefix(path, "/vms/"):
		return RoleTemplates
	}
	return RoleMachines
}
