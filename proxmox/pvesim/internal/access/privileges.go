package access

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Privileges is a set of privileges.
type Privileges uint64

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

// PrivilegeBits are all privileges by name, each as a set.
var PrivilegeBits = func() map[string]Privileges {
	bits := map[string]Privileges{}
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

// IsPrivilege reports whether any release has a privilege of that name.
func IsPrivilege(name string) bool { return PrivilegeBits[name] != 0 }

// ByName is the set of those that are named.
func ByName(names string) Privileges {
	var p Privileges
	for _, name := range strings.Fields(names) {
		p |= PrivilegeBits[name]
	}
	return p
}

// Names are the privileges of a set, sorted.
func (p Privileges) Names() []string {
	var names []string
	for name, bit := range PrivilegeBits {
		if p&bit != 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// knownPrivileges are those of a release.
func knownPrivileges(before9 bool) Privileges {
	all := Privileges(1)<<len(privilegeNames) - 1
	if before9 {
		return all &^ ByName(onlySince9)
	}
	return all &^ ByName(onlyBefore9)
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

// BuiltinRoles are the roles that are always there and cannot be changed.
func (a *Access) BuiltinRoles() map[string]Privileges {
	known := a.Known
	roles := map[string]Privileges{"Administrator": known, NoAccess: 0}
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
		roles[name] = ByName(names) & known
	}
	return roles
}

// NoAccess is the role that takes everything away.
const NoAccess = "NoAccess"

// Held are privileges on a path, and those of them that hold on the paths below, too.
type Held struct{ All, Below Privileges }

func (h Held) both(other Held) Held { return Held{h.All & other.All, h.Below & other.Below} }

// Answer reports privileges as the API does: 1 for those that hold below.
func (h Held) Answer() map[string]int {
	told := map[string]int{}
	for name, bit := range PrivilegeBits {
		if h.All&bit != 0 {
			told[name] = 0
			if h.Below&bit != 0 {
				told[name] = 1
			}
		}
	}
	return told
}

// Held are the privileges that a caller has on a path. A token with privilege separation has those
// that both it and its user have.
func (a *Access) Held(who *Identity, path string) Held {
	h := a.granted(who, path)
	if a.Lost != nil {
		left := ^a.Lost(who, path)
		h = h.both(Held{left, left})
	}
	return h
}

// granted are the privileges that a caller has been given on a path.
func (a *Access) granted(who *Identity, path string) Held {
	if who.Token == "" {
		return a.heldBy(who.User, path)
	}
	t := a.Token(who.User, who.Token)
	switch {
	case t == nil:
		return Held{}
	case !t.Privsep:
		return a.heldBy(who.User, path)
	case who.User == RootUser:
		return a.heldBy(who.String(), path)
	}
	return a.heldBy(who.String(), path).both(a.heldBy(who.User, path))
}

// heldBy are the privileges that the access lists and pools give to a user or a token by itself.
func (a *Access) heldBy(name, path string) Held {
	if name == RootUser {
		all := a.Known
		return Held{all, all}
	}
	roles := a.rolesOn(name, path)
	if _, none := roles[NoAccess]; !none {
		roles = a.addRolesOfPools(roles, name, path)
	}
	var h Held
	for role, below := range roles {
		p := a.Roles[role]
		h.All |= p
		if below {
			h.Below |= p
		}
	}
	return h
}

// addRolesOfPools adds the roles on the pools that a virtual machine or a storage is in.
func (a *Access) addRolesOfPools(roles map[string]bool, name, path string) map[string]bool {
	for _, pool := range a.poolsOf(path) {
		for role := range a.rolesOn(name, "/pool/"+pool) {
			if role == NoAccess {
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
func (a *Access) poolsOf(path string) []string {
	id, isVM := strings.CutPrefix(path, "/vms/")
	store, isStore := strings.CutPrefix(path, "/storage/")
	if !isVM && !isStore {
		return nil
	}
	n, _ := strconv.Atoi(id)
	var in []string
	for name, p := range a.Pools {
		if isVM && p.Vms[n] || isStore && p.Storages[store] {
			in = append(in, name)
		}
	}
	return in
}

// rolesOn are the roles that the access lists give on a path, and whether they hold below. An
// entry on a path replaces those above it; one for a user replaces those of their groups.
func (a *Access) rolesOn(name, path string) map[string]bool {
	var roles map[string]bool
	for at := range levels(path) {
		entries := a.ACL[at]
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
	if below, none := roles[NoAccess]; none {
		return map[string]bool{NoAccess: below}
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

func (a *Access) groupsOf(name string) []string {
	u := a.Users[name]
	if u == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(u.Groups))
}

// May reports whether a caller has a privilege on a path.
func (a *Access) May(who *Identity, path, priv string) bool {
	if who.IsRoot() {
		return true
	}
	return a.Held(who, path).All&PrivilegeBits[priv] != 0
}

// MayAny reports whether a caller has one of some privileges on a path.
func (a *Access) MayAny(who *Identity, path string, privs ...string) bool {
	return slices.ContainsFunc(privs, func(p string) bool { return a.May(who, path, p) })
}

// MayModify reports whether a caller may give rights to a path away. It is asked of root's tokens,
// too.
func (a *Access) MayModify(who *Identity, path string) bool {
	return a.MayAny(who, path, Modifiers(path)...)
}

// Modifiers are the privileges of which one is needed to give rights to a path away.
func Modifiers(path string) []string {
	needed := []string{"Permissions.Modify"}
	for prefix, priv := range map[string]string{"/storage/": "Datastore.Allocate", "/vms/": "VM.Allocate", "/pool/": "Pool.Allocate"} {
		if strings.HasPrefix(path, prefix) {
			needed = append(needed, priv)
		}
	}
	return needed
}

// PathsGiven are the paths on which something may be given: the upper ones, and those that access
// lists and pools name.
func (a *Access) PathsGiven() map[string]bool {
	paths := map[string]bool{}
	for _, path := range strings.Fields(`/ /access /access/groups /nodes /pool /sdn /storage /vms`) {
		paths[path] = true
	}
	for path := range a.ACL {
		for at := range levels(path) {
			paths[at] = true
		}
	}
	for _, p := range a.Pools {
		for id := range p.Vms {
			paths["/vms/"+strconv.Itoa(id)] = true
		}
		for name := range p.Storages {
			paths["/storage/"+name] = true
		}
	}
	return paths
}

var (
	slashes  = regexp.MustCompile(`/+`)
	pathText = regexp.MustCompile(`^[A-Za-z0-9.\-_/]+$`)
)

// Normalized is a path of the access lists in its usual form, or empty if it is not one.
func Normalized(path string) string {
	if path == "" {
		return ""
	}
	path = strings.TrimSuffix(slashes.ReplaceAllString(path, "/"), "/")
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	if !pathText.MatchString(path) {
		return ""
	}
	return path
}
