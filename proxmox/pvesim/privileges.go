package pvesim

import (
	"maps"
	"slices"
	"strings"
)

// privs is a set of privileges.
type privs uint64

// privilegeNames are all privileges, those that only older releases know last.
var privilegeNames = strings.Fields(`
	Datastore.Allocate Datastore.AllocateSpace Datastore.AllocateTemplate Datastore.Audit
	Group.Allocate Mapping.Audit Mapping.Modify Mapping.Use Permissions.Modify Pool.Allocate Pool.Audit
	Realm.Allocate Realm.AllocateUser SDN.Allocate SDN.Audit SDN.Use
	Sys.AccessNetwork Sys.Audit Sys.Console Sys.Incoming Sys.Modify Sys.PowerMgmt Sys.Syslog User.Modify
	VM.Allocate VM.Audit VM.Backup VM.Clone VM.Config.CDROM VM.Config.CPU VM.Config.Cloudinit VM.Config.Disk
	VM.Config.HWType VM.Config.Memory VM.Config.Network VM.Config.Options VM.Console VM.GuestAgent.Audit
	VM.GuestAgent.FileRead VM.GuestAgent.FileSystemMgmt VM.GuestAgent.FileWrite VM.GuestAgent.Unrestricted
	VM.Migrate VM.PowerMgmt VM.Replicate VM.Snapshot VM.Snapshot.Rollback
	VM.Monitor`)

var privilegeBits = func() map[string]privs {
	bits := map[string]privs{}
	for i, name := range privilegeNames {
		bits[name] = 1 << i
	}
	return bits
}()

// Release 9 gave the guest agent privileges of its own instead of VM.Monitor.
const (
	onlySince9 = `VM.GuestAgent.Audit VM.GuestAgent.FileRead VM.GuestAgent.FileSystemMgmt VM.GuestAgent.FileWrite
		VM.GuestAgent.Unrestricted VM.Replicate`
	onlyBefore9 = `VM.Monitor`
)

func isPrivilege(name string) bool { return privilegeBits[name] != 0 }

// privileges is the set of those that are named.
func privileges(names string) privs {
	var p privs
	for _, name := range strings.Fields(names) {
		p |= privilegeBits[name]
	}
	return p
}

// names are the privileges of a set, sorted.
func (p privs) names() []string {
	var names []string
	for name, bit := range privilegeBits {
		if p&bit != 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// knownPrivileges are those of the cluster's release.
func (c *Cluster) knownPrivileges() privs {
	all := privs(1)<<len(privilegeNames) - 1
	if c.since("9") {
		return all &^ privileges(onlyBefore9)
	}
	return all &^ privileges(onlySince9)
}

// What most of the roles that are always there may.
const (
	vmUser = `VM.Audit VM.Backup VM.Config.CDROM VM.Config.Cloudinit VM.Console VM.GuestAgent.Audit
		VM.GuestAgent.FileRead VM.GuestAgent.FileSystemMgmt VM.GuestAgent.FileWrite VM.PowerMgmt `
	vmAdmin = vmUser + `VM.Allocate VM.Clone VM.Config.CPU VM.Config.Disk VM.Config.HWType VM.Config.Memory
		VM.Config.Network VM.Config.Options VM.GuestAgent.Unrestricted VM.Migrate VM.Monitor VM.Replicate VM.Snapshot
		VM.Snapshot.Rollback `
	sysAdmin    = `Sys.Audit Sys.Console Sys.Syslog `
	storeUser   = `Datastore.AllocateSpace Datastore.Audit `
	storeAdmin  = storeUser + `Datastore.Allocate Datastore.AllocateTemplate `
	poolAdmin   = `Pool.Allocate Pool.Audit `
	sdnUser     = `SDN.Audit SDN.Use `
	sdnAdmin    = sdnUser + `SDN.Allocate `
	mappingUser = `Mapping.Audit Mapping.Use `
	userAdmin   = `Group.Allocate Realm.AllocateUser User.Modify `
)

// builtinRoles are the roles that are always there and cannot be changed.
func (c *Cluster) builtinRoles() map[string]privs {
	known := c.knownPrivileges()
	roles := map[string]privs{"Administrator": known, noAccess: 0}
	for name, names := range map[string]string{
		"PVEAdmin":          vmAdmin + sysAdmin + storeAdmin + poolAdmin + sdnAdmin + mappingUser + userAdmin,
		"PVEAuditor":        `Datastore.Audit Mapping.Audit Pool.Audit SDN.Audit Sys.Audit VM.Audit VM.GuestAgent.Audit`,
		"PVEDatastoreAdmin": storeAdmin,
		"PVEDatastoreUser":  storeUser,
		"PVEMappingAdmin":   mappingUser + `Mapping.Modify`,
		"PVEMappingUser":    mappingUser,
		"PVEPoolAdmin":      poolAdmin,
		"PVEPoolUser":       `Pool.Audit`,
		"PVESDNAdmin":       sdnAdmin,
		"PVESDNUser":        sdnUser,
		"PVESysAdmin":       sysAdmin,
		"PVETemplateUser":   `VM.Audit VM.Clone`,
		"PVEUserAdmin":      userAdmin,
		"PVEVMAdmin":        vmAdmin,
		"PVEVMUser":         vmUser,
	} {
		roles[name] = privileges(names) & known
	}
	return roles
}

// noAccess is the role that takes everything away.
const noAccess = "NoAccess"

// held are privileges on a path, and those of them that hold on the paths below, too.
type held struct{ all, below privs }

func (h held) both(other held) held { return held{h.all & other.all, h.below & other.below} }

// answer tells privileges as the API does: 1 for those that hold below.
func (h held) answer() map[string]int {
	told := map[string]int{}
	for name, bit := range privilegeBits {
		if h.all&bit != 0 {
			told[name] = 0
			if h.below&bit != 0 {
				told[name] = 1
			}
		}
	}
	return told
}

// held are the privileges that somebody has on a path. A token with privilege separation has those that
// both it and its user have.
func (c *Cluster) held(who *identity, path string) held {
	h := c.granted(who, path)
	if len(c.faults) > 0 {
		for name, bit := range privilegeBits {
			if h.all&bit != 0 && c.revoked(who, path, name) {
				h = h.both(held{^bit, ^bit})
			}
		}
	}
	return h
}

// granted are the privileges that somebody has been given on a path.
func (c *Cluster) granted(who *identity, path string) held {
	if who.token == "" {
		return c.heldBy(who.user, path)
	}
	t := c.access.token(who.user, who.token)
	switch {
	case t == nil:
		return held{}
	case !t.privsep:
		return c.heldBy(who.user, path)
	case who.user == rootUser:
		return c.heldBy(who.String(), path)
	}
	return c.heldBy(who.String(), path).both(c.heldBy(who.user, path))
}

// heldBy are the privileges that the access lists and pools give to a user or a token by itself.
func (c *Cluster) heldBy(name, path string) held {
	if name == rootUser {
		all := c.knownPrivileges()
		return held{all, all}
	}
	roles := c.access.rolesOn(name, path)
	if _, none := roles[noAccess]; !none {
		roles = c.addRolesOfPools(roles, name, path)
	}
	var h held
	for role, below := range roles {
		p := c.access.roles[role]
		h.all |= p
		if below {
			h.below |= p
		}
	}
	return h
}

// addRolesOfPools adds the roles on the pools that a virtual machine or a storage is in.
func (c *Cluster) addRolesOfPools(roles map[string]bool, name, path string) map[string]bool {
	for _, pool := range c.poolsOf(path) {
		for role := range c.access.rolesOn(name, "/pool/"+pool) {
			if role == noAccess {
				return nil
			}
			if _, has := roles[role]; !has {
				if roles == nil {
					roles = map[string]bool{}
				}
				roles[role] = false
			}
		}
	}
	return roles
}

// poolsOf are the pools that what a path names is in.
func (c *Cluster) poolsOf(path string) []string {
	id, isVM := strings.CutPrefix(path, "/vms/")
	store, isStore := strings.CutPrefix(path, "/storage/")
	if !isVM && !isStore {
		return nil
	}
	n := values{"id": id}.int("id", 0)
	var in []string
	for name, p := range c.pools {
		if isVM && p.vms[n] || isStore && p.storages[store] {
			in = append(in, name)
		}
	}
	return in
}

// rolesOn are the roles that the access lists give on a path, and whether they hold below. An entry on a
// path replaces those above it; one for a user replaces those of their groups.
func (a *access) rolesOn(name, path string) map[string]bool {
	var roles map[string]bool
	for at := range levels(path) {
		entries := a.acl[at]
		if entries == nil {
			continue
		}
		here := holding(entries[name], at == path)
		if here == nil {
			for _, g := range a.groupsOf(name) {
				for role, below := range holding(entries["@"+g], at == path) {
					if here == nil {
						here = map[string]bool{}
					}
					here[role] = below
				}
			}
		}
		if here != nil {
			roles = here
		}
	}
	if below, none := roles[noAccess]; none {
		return map[string]bool{noAccess: below}
	}
	return roles
}

// holding are the roles that hold at the end of the path, or below where they were given.
func holding(roles map[string]bool, final bool) map[string]bool {
	var here map[string]bool
	for role, below := range roles {
		if final || below {
			if here == nil {
				here = map[string]bool{}
			}
			here[role] = below
		}
	}
	return here
}

// levels are the paths from the root down to this one.
func levels(path string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		if !yield("/") || path == "/" {
			return
		}
		for i := 1; i < len(path); i++ {
			if path[i] == '/' && !yield(path[:i]) {
				return
			}
		}
		yield(path)
	}
}

func (a *access) groupsOf(name string) []string {
	u := a.users[name]
	if u == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(u.groups))
}

// may reports whether somebody has a privilege on a path.
func (c *Cluster) may(who *identity, path, priv string) bool {
	if who.isRoot() {
		return true
	}
	return c.held(who, path).all&privilegeBits[priv] != 0
}

// mayAny reports whether somebody has one of some privileges on a path.
func (c *Cluster) mayAny(who *identity, path string, privs ...string) bool {
	return slices.ContainsFunc(privs, func(p string) bool { return c.may(who, path, p) })
}

// mayModify reports whether somebody may give rights to a path away. It is asked of root's tokens, too.
func (c *Cluster) mayModify(who *identity, path string) bool {
	return c.mayAny(who, path, modifiers(path)...)
}

// modifiers are the privileges of which one is needed to give rights to a path away.
func modifiers(path string) []string {
	needed := []string{"Permissions.Modify"}
	for prefix, priv := range map[string]string{"/storage/": "Datastore.Allocate", "/vms/": "VM.Allocate", "/pool/": "Pool.Allocate"} {
		if strings.HasPrefix(path, prefix) {
			needed = append(needed, priv)
		}
	}
	return needed
}
