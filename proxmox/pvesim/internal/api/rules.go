package api

import (
	"regexp"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// Rules that only calls about users and access lists have.
var (
	Self    = Rule{Op: "userid-param", Path: "self"}               // the user it is about
	OfRealm = Rule{Op: "userid-param", Path: "Realm.AllocateUser"} // may make users of its realm
	Modify  = Rule{Op: "perm-modify", Path: "{path}"}              // may give away its rights
	// Creator is who may make users in the groups that the call names, and regroup who may put a
	// user into them.
	Creator = Rule{Op: "creator"}
	Regroup = Rule{Op: "regroup"}
)

// OverUser is who has one of some privileges on a group of the user that the call is about.
func OverUser(privs ...string) Rule { return Rule{Op: "userid-group", Privs: privs} }

// Permit checks a rule before anything is known of the parameters but their text.
func (k *Call) Permit(r Rule, sent map[string]any) error {
	switch {
	case r.Op == "user" || r.Op == "self" || k.Who.IsRoot():
		return nil
	}
	return k.holds(r, sent, false)
}

// refused is what every rule says that cannot name a path and a privilege.
func refused() error { return &failure.Error{Status: 403, Reason: "Permission check failed"} }

// holds checks a rule. A rule that is one of several need only fail, and asks for no user to be
// there.
func (k *Call) holds(r Rule, sent map[string]any, oneOf bool) error {
	if r.When != "" && sent[r.When] == nil {
		return refused()
	}
	switch r.Op {
	case "and":
		for _, part := range r.Parts {
			if err := k.holds(part, sent, oneOf); err != nil {
				return err
			}
		}
		return nil
	case "or":
		for _, part := range r.Parts {
			if k.holds(part, sent, true) == nil {
				return nil
			}
		}
		return refused()
	case "perm":
		return k.needs(fillIn(r.Path, sent), asNamed(k.World, r.Privs), r.Any)
	case "perm-modify":
		path := fillIn(r.Path, sent)
		return k.needs(path, access.Modifiers(access.Normalized(path)), true)
	}
	return k.holdsOfUser(r, sent, oneOf)
}

// asNamed are privileges as the cluster's release names them: before 9, one of them allowed
// everything with guest agents.
func asNamed(c *world.World, names []string) []string {
	if c.Since("9") {
		return names
	}
	var all []string
	for _, name := range names {
		if strings.HasPrefix(name, "VM.GuestAgent.") {
			name = "VM.Monitor"
		}
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// needs checks privileges on a path; a path that is not valid gives nothing, even to root's tokens.
func (k *Call) needs(path string, needed []string, any bool) error {
	path = access.Normalized(path)
	var have access.Held
	if path != "" {
		have = k.World.Access.Held(k.Who, path)
	}
	for _, priv := range needed {
		has := have.All&access.PrivilegeBits[priv] != 0
		if has && any {
			return nil
		}
		if !has && !any {
			return failure.Denied("%s, %s", path, priv)
		}
	}
	if !any {
		return nil
	}
	return failure.Denied("%s, %s", path, strings.Join(needed, "|"))
}

// holdsOfUser checks the rules about the user that a call is about.
func (k *Call) holdsOfUser(r Rule, sent map[string]any, oneOf bool) error {
	name := fillIn("{userid}", sent)
	u := k.World.Access.Users[name]
	switch {
	case r.Path == OfRealm.Path:
		_, realm, _ := CutLast(name, "@")
		return k.needs("/access/realm/"+realm, []string{"Realm.AllocateUser"}, false)
	case r.Op == "creator":
		return k.mayPutInto(params.SplitList(fillIn("{groups}", sent)), true)
	case u == nil && oneOf:
		return refused()
	case u == nil:
		return failure.New("no such user ('%s')", name)
	case r.Path == Self.Path:
		if k.Who.String() == name {
			return nil
		}
		return refused()
	case r.Op == "regroup":
		if err := k.mayPutInto(params.SplitList(fillIn("{groups}", sent)), false); err != nil {
			return err
		}
		return k.IsOver(u, []string{"User.Modify"})
	}
	return k.IsOver(u, r.Privs)
}

// IsOver checks whether the caller has one of some privileges on all groups, or one of the user's.
func (k *Call) IsOver(u *access.User, needed []string) error {
	if k.World.Access.MayAny(k.Who, "/access/groups", needed...) {
		return nil
	}
	for group := range u.Groups {
		if k.World.Access.MayAny(k.Who, "/access/groups/"+group, needed...) {
			return nil
		}
	}
	return refused()
}

// mayPutInto checks whether the caller may put users into groups; when there must be some, none is
// not allowed.
func (k *Call) mayPutInto(groups []string, must bool) error {
	if k.World.Access.May(k.Who, "/access/groups", "User.Modify") {
		return nil
	}
	if len(groups) == 0 && must {
		return failure.Denied("/access/groups, User.Modify")
	}
	for _, group := range groups {
		if !k.World.Access.May(k.Who, "/access/groups/"+group, "User.Modify") {
			return failure.Denied("/access/groups/%s, User.Modify", group)
		}
	}
	return nil
}

// TemplateVariable is a parameter in the template of a path.
var TemplateVariable = regexp.MustCompile(`\{([\w-]+)\}`)

// fillIn puts parameters in the places of variables; those that were not given leave nothing.
func fillIn(template string, sent map[string]any) string {
	return TemplateVariable.ReplaceAllStringFunc(template, func(v string) string {
		text, _ := sent[v[1:len(v)-1]].(string)
		return text
	})
}

// CutLast cuts at the last separator.
func CutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
