package access

import (
	"maps"
	"slices"
	"strings"
)

// Saved is an Access as it is saved, without its pools.
type Saved struct {
	Key    []byte                                `json:"key"`
	Users  []SavedUser                           `json:"users"`
	Groups map[string]string                     `json:"groups"` // with their comments
	Roles  map[string][]string                   `json:"roles"`
	ACL    map[string]map[string]map[string]bool `json:"acl"`
}

// SavedUser is a user as it is saved.
type SavedUser struct {
	Name, Password string
	Disabled       bool
	Expire         int64
	About          map[string]string
	Groups         []string
	Tokens         map[string]SavedToken
}

// SavedToken is a token as it is saved.
type SavedToken struct {
	Secret  string
	PrivSep bool
	Expire  int64
	Comment string
}

// Saved is what to save.
func (a *Access) Saved() Saved {
	s := Saved{Key: a.key, Groups: map[string]string{}, Roles: map[string][]string{}, ACL: a.ACL}
	for _, name := range slices.Sorted(maps.Keys(a.Users)) {
		u := a.Users[name]
		of := SavedUser{
			Name: name, Password: u.Password, Disabled: u.Disabled, Expire: u.Expire, About: u.About, Groups: slices.Sorted(maps.Keys(u.Groups)),
			Tokens: map[string]SavedToken{},
		}
		for id, t := range u.Tokens {
			of.Tokens[id] = SavedToken{t.Secret, t.Privsep, t.Expire, t.Comment}
		}
		s.Users = append(s.Users, of)
	}
	for name, g := range a.Groups {
		s.Groups[name] = g.Comment
	}
	for name, held := range a.Roles {
		s.Roles[name] = held.Names()
	}
	return s
}

// Restore puts back what was saved.
func (s *Saved) Restore(a *Access) {
	a.key, a.ACL = s.Key, s.ACL
	if a.ACL == nil {
		a.ACL = map[string]map[string]map[string]bool{}
	}
	clear(a.Users)
	clear(a.Roles)
	for _, of := range s.Users {
		u := NewUser(of.Name)
		u.Password, u.Disabled, u.Expire = of.Password, of.Disabled, of.Expire
		maps.Copy(u.About, of.About)
		for _, name := range of.Groups {
			u.Groups[name] = true
		}
		for id, t := range of.Tokens {
			u.Tokens[id] = &Token{Secret: t.Secret, Privsep: t.PrivSep, Expire: t.Expire, Comment: t.Comment}
		}
		a.Users[of.Name] = u
	}
	for name, comment := range s.Groups {
		a.Groups[name] = &Group{Comment: comment}
	}
	for name, names := range s.Roles {
		a.Roles[name] = ByName(strings.Join(names, " "))
	}
}
