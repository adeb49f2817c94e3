// Package accounts is what the API does with users, tokens, groups, roles and access lists.
package accounts

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/api"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// Endpoints are the calls on users, groups, roles and access lists.
var Endpoints = []api.Endpoint{
	{Method: "GET", Path: "/access", May: api.Anybody, Do: api.Index("subdir", "users groups roles acl domains openid tfa ticket password")},
	{Method: "GET", Path: "/access/domains", Open: true, Do: do(listDomains)},
	{Method: "GET", Path: "/access/permissions", May: api.Anybody, Do: do(getPermissions),
		In: `path?:str userid?:/` + params.UserName + `@` + params.RealmName + `(?:!` + params.TokenName + `)?/`},

	{Method: "GET", Path: "/access/acl", May: api.Anybody, Do: do(listACL)},
	{Method: "PUT", Path: "/access/acl", May: api.Modify, Protected: true, Do: do(changeACL),
		In: `path:str roles:roleid-list users?:userid-list groups?:groupid-list tokens?:tokenid-list propagate?:bool delete?:bool`},

	{Method: "GET", Path: "/access/roles", May: api.Anybody, Do: do(listRoles)},
	{Method: "POST", Path: "/access/roles", May: api.May("/access", "Sys.Modify"), Protected: true, Do: do(createRole),
		In: `roleid:roleid privs?:priv-list`},
	{Method: "GET", Path: "/access/roles/{roleid}", May: api.Anybody, Do: do(getRole)},
	{Method: "PUT", Path: "/access/roles/{roleid}", May: api.May("/access", "Sys.Modify"), Protected: true, Do: do(changeRole),
		In: `privs?:priv-list append?:bool&privs`},
	{Method: "DELETE", Path: "/access/roles/{roleid}", May: api.May("/access", "Sys.Modify"), Protected: true, Do: do(deleteRole)},

	{Method: "GET", Path: "/access/groups", May: api.Anybody, Do: do(listGroups)},
	{Method: "POST", Path: "/access/groups", May: api.May("/access/groups", "Group.Allocate"), Protected: true, Do: do(createGroup),
		In: `groupid:groupid comment?:str`},
	{Method: "GET", Path: "/access/groups/{groupid}", May: api.MayAny("/access/groups", "Sys.Audit", "Group.Allocate"), Do: do(getGroup)},
	{Method: "PUT", Path: "/access/groups/{groupid}", May: api.May("/access/groups", "Group.Allocate"), Protected: true, Do: do(changeGroup),
		In: `comment?:str`},
	{Method: "DELETE", Path: "/access/groups/{groupid}", May: api.May("/access/groups", "Group.Allocate"), Protected: true, Do: do(deleteGroup)},

	{Method: "GET", Path: "/access/users", May: api.Anybody, Protected: true, Do: do(listUsers), In: `enabled?:bool full?:bool`},
	{Method: "POST", Path: "/access/users", May: api.And(api.OfRealm, api.Creator), Protected: true, Do: do(createUser),
		In: `userid:userid[..64] password?:str[8..64]` + aboutUser},
	{Method: "GET", Path: "/access/users/{userid}", May: api.OverUser("User.Modify", "Sys.Audit"), Do: do(getUser)},
	{Method: "PUT", Path: "/access/users/{userid}", May: api.Regroup, Protected: true, Do: do(changeUser), In: `append?:bool&groups` + aboutUser},
	{Method: "DELETE", Path: "/access/users/{userid}", May: api.And(api.OfRealm, api.OverUser("User.Modify")), Protected: true, Do: do(deleteUser)},

	{Method: "GET", Path: "/access/users/{userid}/token", May: ownOrOver, Do: do(listTokens)},
	{Method: "GET", Path: "/access/users/{userid}/token/{tokenid}", May: ownOrOver, Do: do(getToken)},
	{Method: "POST", Path: "/access/users/{userid}/token/{tokenid}", May: ownOrOver, Protected: true, Do: do(createToken), In: aboutToken},
	{Method: "PUT", Path: "/access/users/{userid}/token/{tokenid}", May: ownOrOver, Protected: true, Do: do(changeToken),
		In: aboutToken + ` delete?:configid-list regenerate?:bool`},
	{Method: "DELETE", Path: "/access/users/{userid}/token/{tokenid}", May: ownOrOver, Protected: true, Do: do(deleteToken)},
}

const (
	aboutUser = ` enable?:bool expire?:int[0..] firstname?:str[..1024] lastname?:str[..1024] email?:email-opt[..254]
		comment?:str[..2048] keys?:/[0-9a-zA-Z!=]*/[..4096] groups?:groupid-list`
	aboutToken = ` comment?:str expire?:int[0..] privsep?:bool`
)

var ownOrOver = api.Or(api.Self, api.OverUser("User.Modify"))

func listDomains(*call) (any, error) {
	return []map[string]any{
		{"realm": "pam", "type": "pam", "comment": "Linux PAM standard authentication"},
		{"realm": "pve", "type": "pve", "comment": "Proxmox VE authentication server"},
	}, nil
}

// tellUser is what the API shows of a user.
func tellUser(u *access.User) map[string]any {
	answer := map[string]any{"enable": world.Number(!u.Disabled), "expire": u.Expire, "email": u.About["email"]}
	for key, value := range u.About {
		answer[key] = value
	}
	return answer
}

func listUsers(k *call) (any, error) {
	list := []map[string]any{}
	for _, name := range world.Sorted(k.World.Access.Users) {
		u := k.World.Access.Users[name]
		seen := name == k.Who.String() || k.Who.IsRoot() || k.IsOver(u, []string{"User.Modify", "Sys.Audit"}) == nil
		if !seen || k.In.Has("enabled") && k.In.Is("enabled") == u.Disabled {
			continue
		}
		_, realm, _ := api.CutLast(name, "@")
		answer := tellUser(u)
		answer["userid"], answer["realm-type"] = name, realm
		if k.In.Is("full") {
			answer["groups"] = strings.Join(world.Sorted(u.Groups), ",")
			answer["tokens"] = tellTokens(u)
		}
		list = append(list, answer)
	}
	return list, nil
}

func getUser(k *call) (any, error) {
	u, err := k.World.Access.FindUser(k.In["userid"])
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

func createUser(k *call) (any, error) {
	return nil, k.WriteUsers("create user failed", func() error {
		name := k.In["userid"]
		if k.World.Access.Users[name] != nil {
			return fmt.Errorf("user '%s' already exists", name)
		}
		u := access.NewUser(name)
		if k.In.Has("password") {
			if _, realm, _ := api.CutLast(name, "@"); realm != "pam" && realm != "pve" {
				return fmt.Errorf("auth domain '%s' does not exist", realm)
			}
			u.Password = k.In["password"]
		}
		if err := k.describe(u); err != nil {
			return err
		}
		k.World.Access.Users[name] = u
		return nil
	})
}

// describe sets what a call says of a user.
func (k *call) describe(u *access.User) error {
	u.Disabled = k.In.Or("enable", strconv.Itoa(world.Number(!u.Disabled))) == "0"
	u.Expire = int64(k.In.Int("expire", int(u.Expire)))
	if k.In.Has("groups") && !k.In.Is("append") {
		u.Groups = map[string]bool{}
	}
	for _, name := range k.In.List("groups") {
		if k.World.Access.Groups[name] == nil {
			return fmt.Errorf("no such group '%s'", name)
		}
		u.Groups[name] = true
	}
	for _, key := range []string{"firstname", "lastname", "email", "comment", "keys"} {
		if k.In.Has(key) {
			u.About[key] = k.In[key]
		}
	}
	return nil
}

func changeUser(k *call) (any, error) {
	return nil, k.WriteUsers("update user failed", func() error {
		u, err := k.World.Access.FindUser(k.In["userid"])
		if err != nil {
			return err
		}
		return k.describe(u)
	})
}

func deleteUser(k *call) (any, error) {
	return nil, k.WriteUsers("delete user failed", func() error {
		name := k.In["userid"]
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

func listTokens(k *call) (any, error) {
	u, err := k.World.Access.FindUser(k.In["userid"])
	if err != nil {
		return nil, err
	}
	return tellTokens(u), nil
}

func getToken(k *call) (any, error) {
	t, err := k.World.Access.FindToken(k.In["userid"], k.In["tokenid"])
	if err != nil {
		return nil, err
	}
	return tellToken(t), nil
}

func createToken(k *call) (any, error) {
	name, id := k.In["userid"], k.In["tokenid"]
	u, err := k.World.Access.FindUser(name)
	if err != nil {
		return nil, err
	}
	if u.Tokens[id] != nil {
		return nil, failure.OfParameter("tokenid", "Token already exists.")
	}
	t := &access.Token{Privsep: true}
	err = k.WriteUsers("generating token failed", func() error {
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
		if k.In.Has(key) {
			info[key] = k.In[key]
		}
	}
	return map[string]any{"info": info, "value": t.Secret, "full-tokenid": name + "!" + id}, nil
}

// newSecret is a secret that was not given before.
func newSecret(c *world.World, of string) string {
	return c.Access.UUID(fmt.Sprintf("%s %x", of, c.RNG("tokens").Uint64()))
}

// describeToken sets what a call says of a token.
func (k *call) describeToken(t *access.Token) {
	t.Privsep = k.In.Or("privsep", strconv.Itoa(world.Number(t.Privsep))) == "1"
	t.Expire = int64(k.In.Int("expire", int(t.Expire)))
	t.Comment = k.In.Or("comment", t.Comment)
}

func changeToken(k *call) (any, error) {
	name, id := k.In["userid"], k.In["tokenid"]
	t, err := k.World.Access.FindToken(name, id)
	if err != nil {
		return nil, err
	}
	err = k.WriteUsers("updating token info failed", func() error {
		k.describeToken(t)
		for _, key := range k.In.List("delete") {
			switch key {
			case "comment":
				t.Comment = ""
			case "expire":
				t.Expire = 0
			case "privsep":
				t.Privsep = true
			}
		}
		if k.In.Is("regenerate") {
			t.Secret = newSecret(k.World, name+"!"+id)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	answer := tellToken(t)
	if k.In.Is("regenerate") {
		answer["value"], answer["full-tokenid"] = t.Secret, name+"!"+id
	}
	return answer, nil
}

func deleteToken(k *call) (any, error) {
	name, id := k.In["userid"], k.In["tokenid"]
	if _, err := k.World.Access.FindToken(name, id); err != nil {
		return nil, err
	}
	return nil, k.WriteUsers("deleting token failed", func() error {
		if _, err := k.World.Access.FindToken(name, id); err != nil {
			return err
		}
		delete(k.World.Access.Users[name].Tokens, id)
		k.World.Access.Forget(func(who string) bool { return who == name+"!"+id })
		return nil
	})
}

// call is a call about who there is and who may what.
type call struct{ *api.Call }

func do(do func(k *call) (any, error)) func(*api.Call) (any, error) {
	return func(k *api.Call) (any, error) { return do(&call{k}) }
}
