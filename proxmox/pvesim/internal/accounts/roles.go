package accounts

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// getPermissions says what a user may, on one path or wherever something is given.
func getPermissions(k *call) (any, error) {
	who := k.Who
	if name := k.In["userid"]; name != "" && name != who.String() {
		u, t, isToken := strings.Cut(name, "!")
		who = &access.Identity{User: u, Token: t}
		own := isToken && u == k.Who.String()
		if !own && !k.World.Access.May(k.Who, "/access", "Sys.Audit") {
			return nil, failure.Denied("/access, Sys.Audit")
		}
	}
	if path := k.In["path"]; path != "" {
		return map[string]any{path: k.World.Access.Held(who, path).Answer()}, nil
	}
	answer := map[string]any{}
	for path := range k.World.Access.PathsGiven() {
		if h := k.World.Access.Held(who, path); h.All != 0 {
			answer[path] = h.Answer()
		}
	}
	return answer, nil
}

func listACL(k *call) (any, error) {
	list := []map[string]any{}
	all := k.World.Access.May(k.Who, "/access", "Sys.Audit")
	for _, path := range world.Sorted(k.World.Access.ACL) {
		if !all && !k.World.Access.MayModify(k.Who, path) {
			continue
		}
		for _, who := range world.Sorted(k.World.Access.ACL[path]) {
			kind, id := "user", strings.TrimPrefix(who, "@")
			switch {
			case id != who:
				kind = "group"
			case strings.Contains(who, "!"):
				kind = "token"
			}
			for _, role := range world.Sorted(k.World.Access.ACL[path][who]) {
				list = append(list, map[string]any{
					"path": path, "type": kind, "ugid": id, "roleid": role, "propagate": world.Number(k.World.Access.ACL[path][who][role]),
				})
			}
		}
	}
	return list, nil
}

func changeACL(k *call) (any, error) {
	if k.In["users"]+k.In["groups"]+k.In["tokens"] == "" {
		text := "either 'users', 'groups' or 'tokens' is required."
		return nil, &failure.Error{Status: 400, Reason: "Parameter verification failed.",
			Errors: map[string]string{"users": text, "groups": text, "tokens": text}}
	}
	path := access.Normalized(k.In["path"])
	if path == "" || !k.In.Is("delete") && !aclPath.MatchString(path) {
		return nil, failure.OfParameter("path", fmt.Sprintf("invalid ACL path '%s'", k.In["path"]))
	}
	return nil, k.WriteUsers("ACL update failed", func() error {
		for _, role := range k.In.List("roles") {
			if err := k.changeRoleOn(path, role); err != nil {
				return err
			}
		}
		return nil
	})
}

// changeRoleOn gives one role on a path to the users that the call names, or takes it from them.
func (k *call) changeRoleOn(path, role string) error {
	a := k.World.Access
	below := k.In.Or("propagate", "1") == "1"
	if _, is := a.Roles[role]; !is {
		return fmt.Errorf("role '%s' does not exist", role)
	}
	if err := k.mayGive(path, role, below); err != nil {
		return err
	}
	var whom []string
	for _, g := range k.In.List("groups") {
		if a.Groups[g] == nil {
			return fmt.Errorf("group '%s' does not exist", g)
		}
		whom = append(whom, "@"+g)
	}
	for _, name := range k.In.List("users") {
		if a.Users[name] == nil {
			return fmt.Errorf("user '%s' does not exist", name)
		}
		whom = append(whom, name)
	}
	for _, full := range k.In.List("tokens") {
		name, id, _ := strings.Cut(full, "!")
		if _, err := a.FindToken(name, id); err != nil {
			return err
		}
		whom = append(whom, full)
	}
	for _, who := range whom {
		if k.In.Is("delete") {
			a.Revoke(path, role, who)
		} else {
			a.Grant(path, role, who, below)
		}
	}
	return nil
}

// mayGive lets those who may not modify all permissions give away only what they have.
func (k *call) mayGive(path, role string, below bool) error {
	have := k.World.Access.Held(k.Who, path)
	if k.Who.IsRoot() || have.All&access.PrivilegeBits["Permissions.Modify"] != 0 {
		return nil
	}
	verb := "add"
	if k.In.Is("delete") {
		verb = "remove"
	}
	needed := k.World.Access.Roles[role]
	switch {
	case role == access.NoAccess:
		return failure.OfParameter("role", fmt.Sprintf("Cannot %s role '%s' - requires 'Permissions.Modify'", verb, role))
	case needed&^have.All != 0:
		return failure.OfParameter("role", fmt.Sprintf("Cannot %s role '%s' - requires 'Permissions.Modify' or superset of privileges.", verb, role))
	case below && needed&^have.Below != 0 && verb == "add":
		return failure.OfParameter("role", fmt.Sprintf(
			"Cannot %s role '%s' with propagation - requires 'Permissions.Modify' or propagated superset of privileges.", verb, role))
	}
	return nil
}

func (k *call) isBuiltin(role string) bool {
	_, is := k.World.Access.BuiltinRoles()[role]
	return is
}

func listRoles(k *call) (any, error) {
	list := []map[string]any{}
	for _, name := range world.Sorted(k.World.Access.Roles) {
		list = append(list, map[string]any{
			"roleid": name, "privs": strings.Join(k.World.Access.Roles[name].Names(), ","), "special": world.Number(k.isBuiltin(name)),
		})
	}
	return list, nil
}

func getRole(k *call) (any, error) {
	p, is := k.World.Access.Roles[k.In["roleid"]]
	if !is {
		return nil, failure.New("role '%s' does not exist", k.In["roleid"])
	}
	return access.Held{All: p, Below: p}.Answer(), nil
}

// privs are those that a call names, if the cluster's release knows them.
func (k *call) privs() (access.Privileges, error) {
	var p access.Privileges
	for _, name := range k.In.List("privs") {
		if access.PrivilegeBits[name]&k.World.Access.Known == 0 {
			return 0, failure.OfParameter("privs", fmt.Sprintf("invalid format - invalid privilege '%s'\n", name))
		}
		p |= access.PrivilegeBits[name]
	}
	return p, nil
}

func createRole(k *call) (any, error) {
	name := k.In["roleid"]
	p, err := k.privs()
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(strings.ToUpper(name), "PVE") && k.World.Since("8") {
		return nil, failure.OfParameter("roleid", "cannot use role ID starting with the (case-insensitive) 'PVE' namespace")
	}
	return nil, k.WriteUsers("create role failed", func() error {
		if _, is := k.World.Access.Roles[name]; is {
			return fmt.Errorf("role '%s' already exists", name)
		}
		k.World.Access.Roles[name] = p
		return nil
	})
}

func changeRole(k *call) (any, error) {
	name := k.In["roleid"]
	p, err := k.privs()
	if err != nil {
		return nil, err
	}
	if k.isBuiltin(name) {
		return nil, failure.New("auto-generated role '%s' cannot be modified", name)
	}
	return nil, k.WriteUsers("update role failed", func() error {
		before, is := k.World.Access.Roles[name]
		if !is {
			return fmt.Errorf("role '%s' does not exist", name)
		}
		if k.In.Is("append") {
			p |= before
		}
		k.World.Access.Roles[name] = p
		return nil
	})
}

func deleteRole(k *call) (any, error) {
	name := k.In["roleid"]
	if k.isBuiltin(name) {
		return nil, failure.New("auto-generated role '%s' cannot be deleted", name)
	}
	return nil, k.WriteUsers("delete role failed", func() error {
		if _, is := k.World.Access.Roles[name]; !is {
			return fmt.Errorf("role '%s' does not exist", name)
		}
		delete(k.World.Access.Roles, name)
		return nil
	})
}

var (
	aclPath = regexp.MustCompile(`^(?:/|/access|/access/groups(?:/[\w.\-]+)?|/access/realm(?:/[\w.\-]+)?|/nodes(?:/[\w.\-]+)?` +
		`|/pool|/pool/` + params.PoolName + `|/sdn(?:/(?:zones|vnets|controllers|dns|ipams|fabrics|prefix-lists|route-maps)(?:/[\w.\-]+)?)?` +
		`|/sdn/zones/[\w.\-]+/[\w.\-]+(?:/[1-9][0-9]{0,3})?|/storage(?:/[\w.\-]+)?|/vms(?:/[1-9][0-9]{2,})?` +
		`|/mapping(?:/(?:dir|pci|usb)(?:/[\w.\-]+)?)?)$`)
)
