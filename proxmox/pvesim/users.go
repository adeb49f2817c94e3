package pvesim

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

var accessEndpoints = []endpoint{
	{method: "GET", path: "/access", may: anybody, do: index("subdir", "users groups roles acl domains openid tfa ticket password")},
	{method: "GET", path: "/access/ticket", open: true, do: func(*call) (any, error) { return nil, nil }},
	{method: "POST", path: "/access/ticket", open: true, notToken: true, protected: true, do: login,
		in: `username:str[..64] realm?:realm[..32] password:str otp?:str path?:str[..64]&privs privs?:priv-list[..64]&path
			new-format?:bool tfa-challenge?:str`},
	{method: "GET", path: "/access/domains", open: true, do: listDomains},
	{method: "GET", path: "/access/permissions", may: anybody, do: getPermissions,
		in: `path?:str userid?:/` + userName + `@` + realmName + `(?:!` + tokenName + `)?/`},

	{method: "GET", path: "/access/acl", may: anybody, do: listACL},
	{method: "PUT", path: "/access/acl", may: modify, protected: true, do: changeACL,
		in: `path:str roles:roleid-list users?:userid-list groups?:groupid-list tokens?:tokenid-list propagate?:bool delete?:bool`},

	{method: "GET", path: "/access/roles", may: anybody, do: listRoles},
	{method: "POST", path: "/access/roles", may: may("/access", "Sys.Modify"), protected: true, do: createRole,
		in: `roleid:roleid privs?:priv-list`},
	{method: "GET", path: "/access/roles/{roleid}", may: anybody, do: getRole},
	{method: "PUT", path: "/access/roles/{roleid}", may: may("/access", "Sys.Modify"), protected: true, do: changeRole,
		in: `privs?:priv-list append?:bool&privs`},
	{method: "DELETE", path: "/access/roles/{roleid}", may: may("/access", "Sys.Modify"), protected: true, do: deleteRole},

	{method: "GET", path: "/access/groups", may: anybody, do: listGroups},
	{method: "POST", path: "/access/groups", may: may("/access/groups", "Group.Allocate"), protected: true, do: createGroup,
		in: `groupid:groupid comment?:str`},
	{method: "GET", path: "/access/groups/{groupid}", may: mayAny("/access/groups", "Sys.Audit", "Group.Allocate"), do: getGroup},
	{method: "PUT", path: "/access/groups/{groupid}", may: may("/access/groups", "Group.Allocate"), protected: true, do: changeGroup,
		in: `comment?:str`},
	{method: "DELETE", path: "/access/groups/{groupid}", may: may("/access/groups", "Group.Allocate"), protected: true, do: deleteGroup},

	{method: "GET", path: "/access/users", may: anybody, protected: true, do: listUsers, in: `enabled?:bool full?:bool`},
	{method: "POST", path: "/access/users", may: and(ofRealm, creator), protected: true, do: createUser,
		in: `userid:userid[..64] password?:str[8..64]` + aboutUser},
	{method: "GET", path: "/access/users/{userid}", may: overUser("User.Modify", "Sys.Audit"), do: getUser},
	{method: "PUT", path: "/access/users/{userid}", may: regroup, protected: true, do: changeUser, in: `append?:bool&groups` + aboutUser},
	{method: "DELETE", path: "/access/users/{userid}", may: and(ofRealm, overUser("User.Modify")), protected: true, do: deleteUser},

	{method: "GET", path: "/access/users/{userid}/token", may: ownOrOver, do: listTokens},
	{method: "GET", path: "/access/users/{userid}/token/{tokenid}", may: ownOrOver, do: getToken},
	{method: "POST", path: "/access/users/{userid}/token/{tokenid}", may: ownOrOver, protected: true, do: createToken, in: aboutToken},
	{method: "PUT", path: "/access/users/{userid}/token/{tokenid}", may: ownOrOver, protected: true, do: changeToken,
		in: aboutToken + ` delete?:configid-list regenerate?:bool`},
	{method: "DELETE", path: "/access/users/{userid}/token/{tokenid}", may: ownOrOver, protected: true, do: deleteToken},
}

const (
	aboutUser = ` enable?:bool expire?:int[0..] firstname?:str[..1024] lastname?:str[..1024] email?:email-opt[..254]
		comment?:str[..2048] keys?:/[0-9a-zA-Z!=]*/[..4096] groups?:groupid-list`
	aboutToken = ` comment?:str expire?:int[0..] privsep?:bool`
)

var ownOrOver = or(self, overUser("User.Modify"))

// writeUsers changes who there is and who may what, which needs quorum. Whatever goes wrong meanwhile
// ends up in one text, with its status in it if it had one of its own.
func (k *call) writeUsers(what string, change func() error) error {
	err := k.c.lockFile(k.p, k.node, "user_cfg")
	if err == nil {
		err = change()
	}
	if err == nil {
		return nil
	}
	e := asError(err)
	if e.Status == 500 {
		return fail("%s: %s", what, e.Reason)
	}
	text := fmt.Sprintf("%s: %d %s", what, e.Status, e.Reason)
	for _, key := range sorted(e.Errors) {
		text += fmt.Sprintf("\n%s: %s", key, e.Errors[key])
	}
	return fail("%s", text)
}

func listDomains(*call) (any, error) {
	return []map[string]any{
		{"realm": "pam", "type": "pam", "comment": "Linux PAM standard authentication"},
		{"realm": "pve", "type": "pve", "comment": "Proxmox VE authentication server"},
	}, nil
}

// tell is what the API tells of a user.
func (u *user) tell() map[string]any {
	answer := map[string]any{"enable": number(!u.disabled), "expire": u.expire, "email": u.about["email"]}
	for key, value := range u.about {
		answer[key] = value
	}
	return answer
}

func listUsers(k *call) (any, error) {
	list := []map[string]any{}
	for _, name := range sorted(k.c.access.users) {
		u := k.c.access.users[name]
		seen := name == k.who.String() || k.who.isRoot() || k.isOver(u, []string{"User.Modify", "Sys.Audit"}) == nil
		if !seen || k.in.has("enabled") && k.in.is("enabled") == u.disabled {
			continue
		}
		_, realm, _ := cutLast(name, "@")
		answer := u.tell()
		answer["userid"], answer["realm-type"] = name, realm
		if k.in.is("full") {
			answer["groups"] = strings.Join(sorted(u.groups), ",")
			answer["tokens"] = u.tellTokens()
		}
		list = append(list, answer)
	}
	return list, nil
}

// findUser is a user who must be there.
func (a *access) findUser(name string) (*user, error) {
	u := a.users[name]
	if u == nil {
		return nil, fmt.Errorf("no such user ('%s')", name)
	}
	return u, nil
}

func getUser(k *call) (any, error) {
	u, err := k.c.access.findUser(k.in["userid"])
	if err != nil {
		return nil, err
	}
	answer, tokens := u.tell(), map[string]any{}
	for id, t := range u.tokens {
		tokens[id] = t.tell()
	}
	answer["groups"], answer["tokens"] = append([]string{}, sorted(u.groups)...), tokens
	return answer, nil
}

func createUser(k *call) (any, error) {
	return nil, k.writeUsers("create user failed", func() error {
		name := k.in["userid"]
		if k.c.access.users[name] != nil {
			return fmt.Errorf("user '%s' already exists", name)
		}
		u := newUser(name)
		if k.in.has("password") {
			if _, realm, _ := cutLast(name, "@"); realm != "pam" && realm != "pve" {
				return fmt.Errorf("auth domain '%s' does not exist", realm)
			}
			u.password = k.in["password"]
		}
		if err := k.describe(u); err != nil {
			return err
		}
		k.c.access.users[name] = u
		return nil
	})
}

// describe sets what a call says of a user.
func (k *call) describe(u *user) error {
	u.disabled = k.in.or("enable", strconv.Itoa(number(!u.disabled))) == "0"
	u.expire = int64(k.in.int("expire", int(u.expire)))
	if k.in.has("groups") && !k.in.is("append") {
		u.groups = map[string]bool{}
	}
	for _, name := range k.in.list("groups") {
		if k.c.access.groups[name] == nil {
			return fmt.Errorf("no such group '%s'", name)
		}
		u.groups[name] = true
	}
	for _, key := range []string{"firstname", "lastname", "email", "comment", "keys"} {
		if k.in.has(key) {
			u.about[key] = k.in[key]
		}
	}
	return nil
}

func changeUser(k *call) (any, error) {
	return nil, k.writeUsers("update user failed", func() error {
		u, err := k.c.access.findUser(k.in["userid"])
		if err != nil {
			return err
		}
		return k.describe(u)
	})
}

func deleteUser(k *call) (any, error) {
	return nil, k.writeUsers("delete user failed", func() error {
		name := k.in["userid"]
		delete(k.c.access.users, name)
		k.c.access.forget(func(who string) bool { return who == name || strings.HasPrefix(who, name+"!") })
		return nil
	})
}

// findToken is a token that must be there.
func (a *access) findToken(name, id string) (*token, error) {
	u, err := a.findUser(name)
	if err != nil {
		return nil, err
	}
	if u.tokens[id] == nil {
		return nil, fmt.Errorf("no such token '%s' for user '%s'", id, name)
	}
	return u.tokens[id], nil
}

func (t *token) tell() map[string]any {
	answer := map[string]any{"expire": t.expire, "privsep": number(t.privsep)}
	if t.comment != "" {
		answer["comment"] = t.comment
	}
	return answer
}

func (u *user) tellTokens() []map[string]any {
	list := []map[string]any{}
	for _, id := range slices.Sorted(maps.Keys(u.tokens)) {
		answer := u.tokens[id].tell()
		answer["tokenid"] = id
		list = append(list, answer)
	}
	return list
}

func listTokens(k *call) (any, error) {
	u, err := k.c.access.findUser(k.in["userid"])
	if err != nil {
		return nil, err
	}
	return u.tellTokens(), nil
}

func getToken(k *call) (any, error) {
	t, err := k.c.access.findToken(k.in["userid"], k.in["tokenid"])
	if err != nil {
		return nil, err
	}
	return t.tell(), nil
}

func createToken(k *call) (any, error) {
	name, id := k.in["userid"], k.in["tokenid"]
	u, err := k.c.access.findUser(name)
	if err != nil {
		return nil, err
	}
	if u.tokens[id] != nil {
		return nil, badParameter("tokenid", "Token already exists.")
	}
	t := &token{privsep: true}
	err = k.writeUsers("generating token failed", func() error {
		if u.tokens[id] != nil {
			return fail("Token already exists.")
		}
		u.tokens[id] = t
		k.describeToken(t)
		t.secret = k.c.newSecret(name + "!" + id)
		return nil
	})
	if err != nil {
		return nil, err
	}
	info := map[string]any{"privsep": 1} // what was given comes back as text
	for _, key := range []string{"privsep", "expire", "comment"} {
		if k.in.has(key) {
			info[key] = k.in[key]
		}
	}
	return map[string]any{"info": info, "value": t.secret, "full-tokenid": name + "!" + id}, nil
}

// newSecret is a secret that was not given before.
func (c *Cluster) newSecret(of string) string {
	return c.access.uuid(fmt.Sprintf("%s %x", of, c.rng("tokens").Uint64()))
}

// describeToken sets what a call says of a token.
func (k *call) describeToken(t *token) {
	t.privsep = k.in.or("privsep", strconv.Itoa(number(t.privsep))) == "1"
	t.expire = int64(k.in.int("expire", int(t.expire)))
	t.comment = k.in.or("comment", t.comment)
}

func changeToken(k *call) (any, error) {
	name, id := k.in["userid"], k.in["tokenid"]
	t, err := k.c.access.findToken(name, id)
	if err != nil {
		return nil, err
	}
	err = k.writeUsers("updating token info failed", func() error {
		k.describeToken(t)
		for _, key := range k.in.list("delete") {
			switch key {
			case "comment":
				t.comment = ""
			case "expire":
				t.expire = 0
			case "privsep":
				t.privsep = true
			}
		}
		if k.in.is("regenerate") {
			t.secret = k.c.newSecret(name + "!" + id)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	answer := t.tell()
	if k.in.is("regenerate") {
		answer["value"], answer["full-tokenid"] = t.secret, name+"!"+id
	}
	return answer, nil
}

func deleteToken(k *call) (any, error) {
	name, id := k.in["userid"], k.in["tokenid"]
	if _, err := k.c.access.findToken(name, id); err != nil {
		return nil, err
	}
	return nil, k.writeUsers("deleting token failed", func() error {
		if _, err := k.c.access.findToken(name, id); err != nil {
			return err
		}
		delete(k.c.access.users[name].tokens, id)
		k.c.access.forget(func(who string) bool { return who == name+"!"+id })
		return nil
	})
}
