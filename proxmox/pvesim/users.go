package pvesim

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

var accessEndpoints = []endpoint{
	{method: "GET", path: "/access", may: anybody, do: index("subdir", "users groups roles acl domains openid tfa ticket password")},
	{method: "GET", path: "/access/domains", open: true, do: userDo(listDomains)},
	{method: "GET", path: "/access/permissions", may: anybody, do: userDo(getPermissions),
		in: `path?:str userid?:/` + params.UserName + `@` + params.RealmName + `(?:!` + params.TokenName + `)?/`},

	{method: "GET", path: "/access/acl", may: anybody, do: userDo(listACL)},
	{method: "PUT", path: "/access/acl", may: modify, protected: true, do: userDo(changeACL),
		in: `path:str roles:roleid-list users?:userid-list groups?:groupid-list tokens?:tokenid-list propagate?:bool delete?:bool`},

	{method: "GET", path: "/access/roles", may: anybody, do: userDo(listRoles)},
	{method: "POST", path: "/access/roles", may: may("/access", "Sys.Modify"), protected: true, do: userDo(createRole),
		in: `roleid:roleid privs?:priv-list`},
	{method: "GET", path: "/access/roles/{roleid}", may: anybody, do: userDo(getRole)},
	{method: "PUT", path: "/access/roles/{roleid}", may: may("/access", "Sys.Modify"), protected: true, do: userDo(changeRole),
		in: `privs?:priv-list append?:bool&privs`},
	{method: "DELETE", path: "/access/roles/{roleid}", may: may("/access", "Sys.Modify"), protected: true, do: userDo(deleteRole)},

	{method: "GET", path: "/access/groups", may: anybody, do: userDo(listGroups)},
	{method: "POST", path: "/access/groups", may: may("/access/groups", "Group.Allocate"), protected: true, do: userDo(createGroup),
		in: `groupid:groupid comment?:str`},
	{method: "GET", path: "/access/groups/{groupid}", may: mayAny("/access/groups", "Sys.Audit", "Group.Allocate"), do: userDo(getGroup)},
	{method: "PUT", path: "/access/groups/{groupid}", may: may("/access/groups", "Group.Allocate"), protected: true, do: userDo(changeGroup),
		in: `comment?:str`},
	{method: "DELETE", path: "/access/groups/{groupid}", may: may("/access/groups", "Group.Allocate"), protected: true, do: userDo(deleteGroup)},

	{method: "GET", path: "/access/users", may: anybody, protected: true, do: userDo(listUsers), in: `enabled?:bool full?:bool`},
	{method: "POST", path: "/access/users", may: and(ofRealm, creator), protected: true, do: userDo(createUser),
		in: `userid:userid[..64] password?:str[8..64]` + aboutUser},
	{method: "GET", path: "/access/users/{userid}", may: overUser("User.Modify", "Sys.Audit"), do: userDo(getUser)},
	{method: "PUT", path: "/access/users/{userid}", may: regroup, protected: true, do: userDo(changeUser), in: `append?:bool&groups` + aboutUser},
	{method: "DELETE", path: "/access/users/{userid}", may: and(ofRealm, overUser("User.Modify")), protected: true, do: userDo(deleteUser)},

	{method: "GET", path: "/access/users/{userid}/token", may: ownOrOver, do: userDo(listTokens)},
	{method: "GET", path: "/access/users/{userid}/token/{tokenid}", may: ownOrOver, do: userDo(getToken)},
	{method: "POST", path: "/access/users/{userid}/token/{tokenid}", may: ownOrOver, protected: true, do: userDo(createToken), in: aboutToken},
	{method: "PUT", path: "/access/users/{userid}/token/{tokenid}", may: ownOrOver, protected: true, do: userDo(changeToken),
		in: aboutToken + ` delete?:configid-list regenerate?:bool`},
	{method: "DELETE", path: "/access/users/{userid}/token/{tokenid}", may: ownOrOver, protected: true, do: userDo(deleteToken)},
}

const (
	aboutUser = ` enable?:bool expire?:int[0..] firstname?:str[..1024] lastname?:str[..1024] email?:email-opt[..254]
		comment?:str[..2048] keys?:/[0-9a-zA-Z!=]*/[..4096] groups?:groupid-list`
	aboutToken = ` comment?:str expire?:int[0..] privsep?:bool`
)

var ownOrOver = or(self, overUser("User.Modify"))

func listDomains(*userCall) (any, error) {
	return []map[string]any{
		{"realm": "pam", "type": "pam", "comment": "Linux PAM standard authentication"},
		{"realm": "pve", "type": "pve", "comment": "Proxmox VE authentication server"},
	}, nil
}

// tellUser is what the API tells of a user.
func tellUser(u *access.User) map[string]any {
	answer := map[string]any{"enable": world.Number(!u.Disabled), "expire": u.Expire, "email": u.About["email"]}
	for key, value := range u.About {
		answer[key] = value
	}
	return answer
}

func listUsers(k *userCall) (any, error) {
	list := []map[string]any{}
	for _, name := range world.Sorted(k.World.Access.Users) {
		u := k.World.Access.Users[name]
		seen := name == k.Who.String() || k.Who.IsRoot() || k.isOver(u, []string{"User.Modify", "Sys.Audit"}) == nil
		if !seen || k.in.Has("enabled") && k.in.Is("enabled") == u.Disabled {
			continue
		}
		_, realm, _ := cutLast(name, "@")
		answer := tellUser(u)
		answer["userid"], answer["realm-type"] = name, realm
		if k.in.Is("full") {
			answer["groups"] = strings.Join(world.Sorted(u.Groups), ",")
			answer["tokens"] = tellTokens(u)
		}
		list = append(list, answer)
	}
	return list, nil
}

func getUser(k *userCall) (any, error) {
	u, err := k.World.Access.FindUser(k.in["userid"])
	if err != nil {
		return nil, err
	}
	answer, tokens := tellUser(u), map[string]any{}
	for id, t := range u.Tokens {
		tokens[id] = tellToken(t)
	}
	answer["groups"], answer["tokens"] = append([]string{}, world.Sorted(u.Groups)...), tokens
	return answer, nil
}

func createUser(k *userCall) (any, error) {
	return nil, k.writeUsers("create user failed", func() error {
		name := k.in["userid"]
		if k.World.Access.Users[name] != nil {
			return fmt.Errorf("user '%s' already exists", name)
		}
		u := access.NewUser(name)
		if k.in.Has("password") {
			if _, realm, _ := cutLast(name, "@"); realm != "pam" && realm != "pve" {
				return fmt.Errorf("auth domain '%s' does not exist", realm)
			}
			u.Password = k.in["password"]
		}
		if err := k.describe(u); err != nil {
			return err
		}
		k.World.Access.Users[name] = u
		return nil
	})
}

// describe sets what a call says of a user.
func (k *userCall) describe(u *access.User) error {
	u.Disabled = k.in.Or("enable", strconv.Itoa(world.Number(!u.Disabled))) == "0"
	u.Expire = int64(k.in.Int("expire", int(u.Expire)))
	if k.in.Has("groups") && !k.in.Is("append") {
		u.Groups = map[string]bool{}
	}
	for _, name := range k.in.List("groups") {
		if k.World.Access.Groups[name] == nil {
			return fmt.Errorf("no such group '%s'", name)
		}
		u.Groups[name] = true
	}
	for _, key := range []string{"firstname", "lastname", "email", "comment", "keys"} {
		if k.in.Has(key) {
			u.About[key] = k.in[key]
		}
	}
	return nil
}

func changeUser(k *userCall) (any, error) {
	return nil, k.writeUsers("update user failed", func() error {
		u, err := k.World.Access.FindUser(k.in["userid"])
		if err != nil {
			return err
		}
		return k.describe(u)
	})
}

func deleteUser(k *userCall) (any, error) {
	return nil, k.writeUsers("delete user failed", func() error {
		name := k.in["userid"]
		delete(k.World.Access.Users, name)
		k.World.Access.Forget(func(who string) bool { return who == name || strings.HasPrefix(who, name+"!") })
		return nil
	})
}

func tellToken(t *access.Token) map[string]any {
	answer := map[string]any{"expire": t.Expire, "privsep": world.Number(t.Privsep)}
	if t.Comment != "" {
		answer["comment"] = t.Comment
	}
	return answer
}

func tellTokens(u *access.User) []map[string]any {
	list := []map[string]any{}
	for _, id := range slices.Sorted(maps.Keys(u.Tokens)) {
		answer := tellToken(u.Tokens[id])
		answer["tokenid"] = id
		list = append(list, answer)
	}
	return list
}

func listTokens(k *userCall) (any, error) {
	u, err := k.World.Access.FindUser(k.in["userid"])
	if err != nil {
		return nil, err
	}
	return tellTokens(u), nil
}

func getToken(k *userCall) (any, error) {
	t, err := k.World.Access.FindToken(k.in["userid"], k.in["tokenid"])
	if err != nil {
		return nil, err
	}
	return tellToken(t), nil
}

func createToken(k *userCall) (any, error) {
	name, id := k.in["userid"], k.in["tokenid"]
	u, err := k.World.Access.FindUser(name)
	if err != nil {
		return nil, err
	}
	if u.Tokens[id] != nil {
		return nil, failure.OfParameter("tokenid", "Token already exists.")
	}
	t := &access.Token{Privsep: true}
	err = k.writeUsers("generating token failed", func() error {
		if u.Tokens[id] != nil {
			return failure.New("Token already exists.")
		}
		u.Tokens[id] = t
		k.describeToken(t)
		t.Secret = newSecret(k.World, name+"!"+id)
		return nil
	})
	if err != nil {
		return nil, err
	}
	info := map[string]any{"privsep": 1} // what was given comes back as text
	for _, key := range []string{"privsep", "expire", "comment"} {
		if k.in.Has(key) {
			info[key] = k.in[key]
		}
	}
	return map[string]any{"info": info, "value": t.Secret, "full-tokenid": name + "!" + id}, nil
}

// newSecret is a secret that was not given before.
func newSecret(c *world.World, of string) string {
	return c.Access.UUID(fmt.Sprintf("%s %x", of, c.RNG("tokens").Uint64()))
}

// describeToken sets what a call says of a token.
func (k *userCall) describeToken(t *access.Token) {
	t.Privsep = k.in.Or("privsep", strconv.Itoa(world.Number(t.Privsep))) == "1"
	t.Expire = int64(k.in.Int("expire", int(t.Expire)))
	t.Comment = k.in.Or("comment", t.Comment)
}

func changeToken(k *userCall) (any, error) {
	name, id := k.in["userid"], k.in["tokenid"]
	t, err := k.World.Access.FindToken(name, id)
	if err != nil {
		return nil, err
	}
	err = k.writeUsers("updating token info failed", func() error {
		k.describeToken(t)
		for _, key := range k.in.List("delete") {
			switch key {
			case "comment":
				t.Comment = ""
			case "expire":
				t.Expire = 0
			case "privsep":
				t.Privsep = true
			}
		}
		if k.in.Is("regenerate") {
			t.Secret = newSecret(k.World, name+"!"+id)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	answer := tellToken(t)
	if k.in.Is("regenerate") {
		answer["value"], answer["full-tokenid"] = t.Secret, name+"!"+id
	}
	return answer, nil
}

func deleteToken(k *userCall) (any, error) {
	name, id := k.in["userid"], k.in["tokenid"]
	if _, err := k.World.Access.FindToken(name, id); err != nil {
		return nil, err
	}
	return nil, k.writeUsers("deleting token failed", func() error {
		if _, err := k.World.Access.FindToken(name, id); err != nil {
			return err
		}
		delete(k.World.Access.Users[name].Tokens, id)
		k.World.Access.Forget(func(who string) bool { return who == name+"!"+id })
		return nil
	})
}

// userCall is a call about who there is and who may what.
type userCall struct{ *call }

func userDo(do func(k *userCall) (any, error)) func(*call) (any, error) {
	return func(k *call) (any, error) { return do(&userCall{k}) }
}
