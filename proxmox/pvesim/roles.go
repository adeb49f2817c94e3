package pvesim

import (
	"fmt"
	"strconv"
	"strings"
)

// getPermissions tells what somebody may, on one path or wherever something is given.
func getPermissions(k *call) (any, error) {
	who := k.who
	if name := k.in["userid"]; name != "" && name != who.String() {
		u, t, isToken := strings.Cut(name, "!")
		who = &identity{user: u, token: t}
		own := isToken && u == k.who.String()
		if !own && !k.c.may(k.who, "/access", "Sys.Audit") {
			return nil, denied("/access, Sys.Audit")
		}
	}
	if path := k.in["path"]; path != "" {
		return map[string]any{path: k.c.held(who, path).answer()}, nil
	}
	answer := map[string]any{}
	for path := range k.c.pathsGiven() {
		if h := k.c.held(who, path); h.all != 0 {
			answer[path] = h.answer()
		}
	}
	return answer, nil
}

// pathsGiven are the paths on which something may be given: the upper ones, and those that access lists
// and pools name.
func (c *Cluster) pathsGiven() map[string]bool {
	paths := map[string]bool{}
	for _, path := range strings.Fields(`/ /access /access/groups /nodes /pool /sdn /storage /vms`) {
		paths[path] = true
	}
	for path := range c.access.acl {
		for at := range levels(path) {
			paths[at] = true
		}
	}
	for _, p := range c.pools {
		for id := range p.vms {
			paths["/vms/"+strconv.Itoa(id)] = true
		}
		for name := range p.storages {
			paths["/storage/"+name] = true
		}
	}
	return paths
}

func listACL(k *call) (any, error) {
	list := []map[string]any{}
	all := k.c.may(k.who, "/access", "Sys.Audit")
	for _, path := range sorted(k.c.access.acl) {
		if !all && !k.c.mayModify(k.who, path) {
			continue
		}
		for _, who := range sorted(k.c.access.acl[path]) {
			kind, id := "user", strings.TrimPrefix(who, "@")
			switch {
			case id != who:
				kind = "group"
			case strings.Contains(who, "!"):
				kind = "token"
			}
			for _, role := range sorted(k.c.access.acl[path][who]) {
				list = append(list, map[string]any{
					"path": path, "type": kind, "ugid": id, "roleid": role, "propagate": number(k.c.access.acl[path][who][role]),
				})
			}
		}
	}
	return list, nil
}

func changeACL(k *call) (any, error) {
	if k.in["users"]+k.in["groups"]+k.in["tokens"] == "" {
		text := "either 'users', 'groups' or 'tokens' is required."
		return nil, &Error{Status: 400, Reason: "Parameter verification failed.",
			Errors: map[string]string{"users": text, "groups": text, "tokens": text}}
	}
	path := normalized(k.in["path"])
	if path == "" || !k.in.is("delete") && !aclPath.MatchString(path) {
		return nil, badParameter("path", fmt.Sprintf("invalid ACL path '%s'", k.in["path"]))
	}
	return nil, k.writeUsers("ACL update failed", func() error {
		for _, role := range k.in.list("roles") {
			if err := k.changeRoleOn(path, role); err != nil {
				return err
			}
		}
		return nil
	})
}

// changeRoleOn gives one role on a path to those whom the call names, or takes it from them.
func (k *call) changeRoleOn(path, role string) error {
	a := &k.c.access
	below := k.in.or("propagate", "1") == "1"
	if _, is := a.roles[role]; !is {
		return fmt.Errorf("role '%s' does not exist", role)
	}
	if err := k.mayGive(path, role, below); err != nil {
		return err
	}
	var whom []string
	for _, g := range k.in.list("groups") {
		if a.groups[g] == nil {
			return fmt.Errorf("group '%s' does not exist", g)
		}
		whom = append(whom, "@"+g)
	}
	for _, name := range k.in.list("users") {
		if a.users[name] == nil {
			return fmt.Errorf("user '%s' does not exist", name)
		}
		whom = append(whom, name)
	}
	for _, full := range k.in.list("tokens") {
		name, id, _ := strings.Cut(full, "!")
		if _, err := a.findToken(name, id); err != nil {
			return err
		}
		whom = append(whom, full)
	}
	for _, who := range whom {
		if k.in.is("delete") {
			a.revoke(path, role, who)
		} else {
			a.grant(path, role, who, below)
		}
	}
	return nil
}

// mayGive lets those who may not modify all permissions give away only what they have.
func (k *call) mayGive(path, role string, below bool) error {
	have := k.c.held(k.who, path)
	if k.who.isRoot() || have.all&privilegeBits["Permissions.Modify"] != 0 {
		return nil
	}
	verb := "add"
	if k.in.is("delete") {
		verb = "remove"
	}
	needed := k.c.access.roles[role]
	switch {
	case role == noAccess:
		return badParameter("role", fmt.Sprintf("Cannot %s role '%s' - requires 'Permissions.Modify'", verb, role))
	case needed&^have.all != 0:
		return badParameter("role", fmt.Sprintf("Cannot %s role '%s' - requires 'Permissions.Modify' or superset of privileges.", verb, role))
	case below && needed&^have.below != 0 && verb == "add":
		return badParameter("role", fmt.Sprintf(
			"Cannot %s role '%s' with propagation - requires 'Permissions.Modify' or propagated superset of privileges.", verb, role))
	}
	return nil
}

func (k *call) isBuiltin(role string) bool { _, is := k.c.builtinRoles()[role]; return is }

func listRoles(k *call) (any, error) {
	list := []map[string]any{}
	for _, name := range sorted(k.c.access.roles) {
		list = append(list, map[string]any{
			"roleid": name, "privs": strings.Join(k.c.access.roles[name].names(), ","), "special": number(k.isBuiltin(name)),
		})
	}
	return list, nil
}

func getRole(k *call) (any, error) {
	p, is := k.c.access.roles[k.in["roleid"]]
	if !is {
		return nil, fail("role '%s' does not exist", k.in["roleid"])
	}
	return held{p, p}.answer(), nil
}

// privs are those that a call names, if the cluster's release knows them.
func (k *call) privs() (privs, error) {
	var p privs
	for _, name := range k.in.list("privs") {
		if privilegeBits[name]&k.c.knownPrivileges() == 0 {
			return 0, badParameter("privs", fmt.Sprintf("invalid format - invalid privilege '%s'\n", name))
		}
		p |= privilegeBits[name]
	}
	return p, nil
}

func createRole(k *call) (any, error) {
	name := k.in["roleid"]
	p, err := k.privs()
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(strings.ToUpper(name), "PVE") && k.c.since("8") {
		return nil, badParameter("roleid", "cannot use role ID starting with the (case-insensitive) 'PVE' namespace")
	}
	return nil, k.writeUsers("create role failed", func() error {
		if _, is := k.c.access.roles[name]; is {
			return fmt.Errorf("role '%s' already exists", name)
		}
		k.c.access.roles[name] = p
		return nil
	})
}

func changeRole(k *call) (any, error) {
	name := k.in["roleid"]
	p, err := k.privs()
	if err != nil {
		return nil, err
	}
	if k.isBuiltin(name) {
		return nil, fail("auto-generated role '%s' cannot be modified", name)
	}
	return nil, k.writeUsers("update role failed", func() error {
		before, is := k.c.access.roles[name]
		if !is {
			return fmt.Errorf("role '%s' does not exist", name)
		}
		if k.in.is("append") {
			p |= before
		}
		k.c.access.roles[name] = p
		return nil
	})
}

func deleteRole(k *call) (any, error) {
	name := k.in["roleid"]
	if k.isBuiltin(name) {
		return nil, fail("auto-generated role '%s' cannot be deleted", name)
	}
	return nil, k.writeUsers("delete role failed", func() error {
		if _, is := k.c.access.roles[name]; !is {
			return fmt.Errorf("role '%s' does not exist", name)
		}
		delete(k.c.access.roles, name)
		return nil
	})
}
