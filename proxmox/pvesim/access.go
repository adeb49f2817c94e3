package pvesim

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// access is who there is, and who may what.
type access struct {
	key    []byte // of what the cluster signs
	users  map[string]*user
	groups map[string]*group
	roles  map[string]privs
	// acl is what was given, by path, to whom, and which role, and whether it holds below. To whom is a
	// user, a token with its user in front, or a group with an @ in front.
	acl map[string]map[string]map[string]bool
}

type user struct {
	name     string
	password string // empty lets nobody in
	disabled bool
	expire   int64             // in seconds since 1970; 0 is never
	about    map[string]string // comment, email and so on
	groups   map[string]bool
	tokens   map[string]*token
}

type token struct {
	secret  string
	privsep bool
	expire  int64
	comment string
}

type group struct{ comment string }

// identity is who makes a call.
type identity struct {
	user  string // with its realm
	token string // the token's id; empty for a ticket
}

// String is how access lists name somebody.
func (i *identity) String() string {
	if i.token == "" {
		return i.user
	}
	return i.user + "!" + i.token
}

// isRoot reports whether somebody may everything. Root's tokens may not.
func (i *identity) isRoot() bool { return i.user == rootUser && i.token == "" }

const rootUser = "root@pam"

func newAccess(c *Cluster) access {
	return access{
		key:    []byte("key of cluster " + strconv.FormatUint(c.cfg.Seed, 16)),
		users:  map[string]*user{rootUser: newUser(rootUser)},
		groups: map[string]*group{},
		roles:  c.builtinRoles(),
		acl:    map[string]map[string]map[string]bool{},
	}
}

func newUser(name string) *user {
	return &user{name: name, about: map[string]string{}, groups: map[string]bool{}, tokens: map[string]*token{}}
}

// token is a token by its user and id.
func (a *access) token(user, id string) *token {
	if u := a.users[user]; u != nil {
		return u.tokens[id]
	}
	return nil
}

// sign is a signature that only this cluster can make.
func (a *access) sign(text string) []byte {
	mac := hmac.New(sha256.New, a.key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// uuid is a UUID that looks drawn and is always the same for the same text.
func (a *access) uuid(text string) string {
	b := a.sign(text)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// grant gives a role on a path away.
func (a *access) grant(path, role, who string, below bool) {
	if a.acl[path] == nil {
		a.acl[path] = map[string]map[string]bool{}
	}
	if a.acl[path][who] == nil {
		a.acl[path][who] = map[string]bool{}
	}
	a.acl[path][who][role] = below
}

// revoke takes a role on a path away.
func (a *access) revoke(path, role, who string) {
	delete(a.acl[path][who], role)
	if len(a.acl[path][who]) == 0 {
		delete(a.acl[path], who)
	}
	if len(a.acl[path]) == 0 {
		delete(a.acl, path)
	}
}

// forget takes everything away from those who are gone.
func (a *access) forget(gone func(who string) bool) {
	for path, entries := range a.acl {
		for who, roles := range entries {
			if gone(who) {
				for role := range roles {
					a.revoke(path, role, who)
				}
			}
		}
	}
}

// usable says what keeps somebody from using an account.
func (a *access) usable(name string, now time.Time) error {
	u := a.users[name]
	switch {
	case u == nil:
		return fmt.Errorf("no such user ('%s')", name)
	case u.disabled:
		return fmt.Errorf("user '%s' is disabled", name)
	case u.expire > 0 && u.expire < now.Unix():
		return fmt.Errorf("user '%s' access expired", name)
	}
	return nil
}

// Token makes a token, and its user if there is none of that name, and returns what stands in requests
// after "PVEAPIToken=". A token with privilege separation may only what both it and its user were
// granted.
func (c *Cluster) Token(name, id string, privsep bool) string {
	t := &token{privsep: privsep}
	c.with(func() {
		if c.access.users[name] == nil {
			c.access.users[name] = newUser(name)
		}
		t.secret = c.access.uuid(name + "!" + id)
		c.access.users[name].tokens[id] = t
	})
	return name + "!" + id + "=" + t.secret
}

// SetPassword lets a user in with a password. Without one nobody is let in, not even root.
func (c *Cluster) SetPassword(name, password string) {
	c.with(func() {
		if c.access.users[name] == nil {
			c.access.users[name] = newUser(name)
		}
		c.access.users[name].password = password
	})
}

// AddRole makes a role, or replaces one, even with privileges of another release, as a role may have that
// was made before an upgrade. It panics if there is no such privilege in any.
func (c *Cluster) AddRole(name string, names ...string) {
	for _, priv := range names {
		if !isPrivilege(priv) {
			panic(fmt.Sprintf("pvesim: role %s: privilege must be one of Proxmox VE's, was %q", name, priv))
		}
	}
	c.with(func() { c.access.roles[name] = privileges(strings.Join(names, " ")) })
}

// Grant gives a role on a path, and on the paths below, to a user, a token such as "auto@pve!t1", or a
// group such as "@ops".
func (c *Cluster) Grant(path, role, who string) {
	c.with(func() { c.access.grant(path, role, who, true) })
}

// Revoke takes a role on a path away from whom Grant gave it to.
func (c *Cluster) Revoke(path, role, who string) {
	c.with(func() { c.access.revoke(path, role, who) })
}

// Expire lets a token's time be over.
func (c *Cluster) Expire(token string) {
	c.with(func() {
		id, _, _ := strings.Cut(token, "=")
		name, tokenID, _ := strings.Cut(id, "!")
		if t := c.access.token(name, tokenID); t != nil {
			t.expire = c.now.Unix() - 1
		}
	})
}
