// Package access is who there is in a Proxmox VE cluster, and who may what: users, tokens, groups,
// pools, roles and access lists, and what is signed for users. It is pure: it knows no clock.
package access

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Access is who there is, and who may what.
type Access struct {
	key    []byte     // of what the cluster signs
	Known  Privileges // that the release has
	Users  map[string]*User
	Groups map[string]*Group
	Pools  map[string]*Pool
	Roles  map[string]Privileges
	// Lost is what a caller may not for the time being, regardless of what they were given; nil is
	// nothing.
	Lost func(who *Identity, path string) Privileges
	// ACL is what was given: by path, receiver and role, whether it holds below. A receiver
	// is a user, a token with its user in front, or a group with an @ in front.
	ACL map[string]map[string]map[string]bool
}

// User is a user with their tokens.
type User struct {
	name     string
	Password string // empty refuses every login
	Disabled bool
	Expire   int64             // in seconds since 1970; 0 is never
	About    map[string]string // comment, email and so on
	Groups   map[string]bool
	Tokens   map[string]*Token
}

// Token is an API token of a user.
type Token struct {
	Secret  string
	Privsep bool
	Expire  int64
	Comment string
}

// Group is a group of users.
type Group struct{ Comment string }

// Identity is who makes a call.
type Identity struct {
	User  string // with its realm
	Token string // the token's id; empty for a ticket
}

// String is how access lists name a caller.
func (i *Identity) String() string {
	if i.Token == "" {
		return i.User
	}
	return i.User + "!" + i.Token
}

// IsRoot reports whether a caller may everything. Root's tokens may not.
func (i *Identity) IsRoot() bool { return i.User == RootUser && i.Token == "" }

// RootUser is the administrator.
const RootUser = "root@pam"

// New is that of a cluster in which no one but root may anything. The seed makes its secrets.
func New(seed uint64, before9 bool) *Access {
	a := &Access{
		key:    []byte("key of cluster " + strconv.FormatUint(seed, 16)),
		Known:  knownPrivileges(before9),
		Users:  map[string]*User{RootUser: NewUser(RootUser)},
		Groups: map[string]*Group{},
		Pools:  map[string]*Pool{},
		ACL:    map[string]map[string]map[string]bool{},
	}
	a.Roles = a.BuiltinRoles()
	return a
}

// NewUser is a user without a password.
func NewUser(name string) *User {
	return &User{name: name, About: map[string]string{}, Groups: map[string]bool{}, Tokens: map[string]*Token{}}
}

// Token is a token by its user and id.
func (a *Access) Token(user, id string) *Token {
	if u := a.Users[user]; u != nil {
		return u.Tokens[id]
	}
	return nil
}

// Sign is a signature that only this cluster can make.
func (a *Access) Sign(text string) []byte {
	mac := hmac.New(sha256.New, a.key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// UUID is a UUID that looks drawn and is always the same for the same text.
func (a *Access) UUID(text string) string {
	b := a.Sign(text)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// Grant gives a role on a path away.
func (a *Access) Grant(path, role, who string, below bool) {
	if a.ACL[path] == nil {
		a.ACL[path] = map[string]map[string]bool{}
	}
	if a.ACL[path][who] == nil {
		a.ACL[path][who] = map[string]bool{}
	}
	a.ACL[path][who][role] = below
}

// Revoke takes a role on a path away.
func (a *Access) Revoke(path, role, who string) {
	delete(a.ACL[path][who], role)
	if len(a.ACL[path][who]) == 0 {
		delete(a.ACL[path], who)
	}
	if len(a.ACL[path]) == 0 {
		delete(a.ACL, path)
	}
}

// Forget takes everything away from those who are gone.
func (a *Access) Forget(gone func(who string) bool) {
	for path, entries := range a.ACL {
		for who, roles := range entries {
			if gone(who) {
				for role := range roles {
					a.Revoke(path, role, who)
				}
			}
		}
	}
}

// Members are the users of a group.
func (a *Access) Members(group string) []string {
	names := []string{}
	for _, name := range slices.Sorted(maps.Keys(a.Users)) {
		if a.Users[name].Groups[group] {
			names = append(names, name)
		}
	}
	return names
}

// FindUser is a user who must be there.
func (a *Access) FindUser(name string) (*User, error) {
	u := a.Users[name]
	if u == nil {
		return nil, fmt.Errorf("no such user ('%s')", name)
	}
	return u, nil
}

// FindToken is a token that must be there.
func (a *Access) FindToken(name, id string) (*Token, error) {
	u, err := a.FindUser(name)
	if err != nil {
		return nil, err
	}
	if u.Tokens[id] == nil {
		return nil, fmt.Errorf("no such token '%s' for user '%s'", id, name)
	}
	return u.Tokens[id], nil
}

// Usable says what keeps a caller from using an account.
func (a *Access) Usable(name string, now time.Time) error {
	u := a.Users[name]
	switch {
	case u == nil:
		return fmt.Errorf("no such user ('%s')", name)
	case u.Disabled:
		return fmt.Errorf("user '%s' is disabled", name)
	case u.Expire > 0 && u.Expire < now.Unix():
		return fmt.Errorf("user '%s' access expired", name)
	}
	return nil
}

// Pool is a set of virtual machines and storages, on which rights can be given.
type Pool struct {
	Name, Comment string
	Vms           map[int]bool
	Storages      map[string]bool
}

// NewPool is a pool of nothing.
func NewPool(name, comment string) *Pool {
	return &Pool{Name: name, Comment: comment, Vms: map[int]bool{}, Storages: map[string]bool{}}
}

// PoolNamed is a pool that must be there.
func (a *Access) PoolNamed(name string) (*Pool, error) {
	if p := a.Pools[name]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("pool '%s' does not exist", name)
}

// PoolOf is the pool that a virtual machine is in.
func (a *Access) PoolOf(id int) *Pool {
	for _, p := range a.Pools {
		if p.Vms[id] {
			return p
		}
	}
	return nil
}

// PutInPool makes a virtual machine a member of a pool, and of no other.
func (a *Access) PutInPool(id int, name string) {
	if p := a.Pools[name]; p != nil {
		for _, other := range a.Pools {
			delete(other.Vms, id)
		}
		p.Vms[id] = true
	}
}

// ForgetVM takes a virtual machine that is gone out of its pool, and forgets who may what with it.
func (a *Access) ForgetVM(id int) {
	for _, p := range a.Pools {
		delete(p.Vms, id)
	}
	delete(a.ACL, "/vms/"+strconv.Itoa(id))
}
