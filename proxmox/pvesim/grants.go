package pvesim

import (
	"fmt"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
)

// Token makes a token, and its user if there is no user of that name, and returns what is in
// requests after "PVEAPIToken=". A token with privilege separation may only what both it and its
// user were granted.
func (c *Cluster) Token(name, id string, privsep bool) string {
	t := &access.Token{Privsep: privsep}
	c.With(func() {
		if c.Access.Users[name] == nil {
			c.Access.Users[name] = access.NewUser(name)
		}
		t.Secret = c.Access.UUID(name + "!" + id)
		c.Access.Users[name].Tokens[id] = t
	})
	return name + "!" + id + "=" + t.Secret
}

// SetPassword lets a user in with a password. Without a password even root is not let in.
func (c *Cluster) SetPassword(name, password string) {
	c.With(func() {
		if c.Access.Users[name] == nil {
			c.Access.Users[name] = access.NewUser(name)
		}
		c.Access.Users[name].Password = password
	})
}

// AddRole makes a role, or replaces one, even with privileges of another release, as a role may
// have that was made before an upgrade. It panics if there is no such privilege in any.
func (c *Cluster) AddRole(name string, names ...string) {
	for _, priv := range names {
		if !access.IsPrivilege(priv) {
			panic(fmt.Sprintf("pvesim: role %s: privilege must be one of Proxmox VE's, was %q", name, priv))
		}
	}
	c.With(func() { c.Access.Roles[name] = access.ByName(strings.Join(names, " ")) })
}

// Grant gives a role on a path, and on the paths below, to a user, a token such as "auto@pve!t1",
// or a group such as "@ops".
func (c *Cluster) Grant(path, role, who string) {
	c.With(func() { c.Access.Grant(path, role, who, true) })
}

// Revoke takes back what Grant gave.
func (c *Cluster) Revoke(path, role, who string) {
	c.With(func() { c.Access.Revoke(path, role, who) })
}

// Expire lets a token's time be over.
func (c *Cluster) Expire(token string) {
	c.With(func() {
		id, _, _ := strings.Cut(token, "=")
		name, tokenID, _ := strings.Cut(id, "!")
		if t := c.Access.Token(name, tokenID); t != nil {
			t.Expire = c.Clock.Unix() - 1
		}
	})
}
