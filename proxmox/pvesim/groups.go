package pvesim

import (
	"fmt"
	"strings"
)

func listGroups(k *call) (any, error) {
	list := []map[string]any{}
	for _, name := range sorted(k.c.access.groups) {
		if !k.c.mayAny(k.who, "/access/groups/"+name, "User.Modify", "Sys.Audit", "Group.Allocate") {
			continue
		}
		g := map[string]any{"groupid": name, "users": strings.Join(k.c.access.members(name), ",")}
		if comment := k.c.access.groups[name].comment; comment != "" {
			g["comment"] = comment
		}
		list = append(list, g)
	}
	return list, nil
}

// members are the users of a group.
func (a *access) members(group string) []string {
	names := []string{}
	for _, name := range sorted(a.users) {
		if a.users[name].groups[group] {
			names = append(names, name)
		}
	}
	return names
}

func (k *call) group() (*group, error) {
	g := k.c.access.groups[k.in["groupid"]]
	if g == nil {
		return nil, fmt.Errorf("group '%s' does not exist", k.in["groupid"])
	}
	return g, nil
}

func getGroup(k *call) (any, error) {
	g, err := k.group()
	if err != nil {
		return nil, err
	}
	answer := map[string]any{"members": k.c.access.members(k.in["groupid"])}
	if g.comment != "" {
		answer["comment"] = g.comment
	}
	return answer, nil
}

func createGroup(k *call) (any, error) {
	name := k.in["groupid"]
	return nil, k.writeUsers("create group failed", func() error {
		if k.c.access.groups[name] != nil {
			return fmt.Errorf("group '%s' already exists", name)
		}
		k.c.access.groups[name] = &group{comment: k.in["comment"]}
		return nil
	})
}

func changeGroup(k *call) (any, error) {
	return nil, k.writeUsers("update group failed", func() error {
		g, err := k.group()
		if err == nil {
			g.comment = k.in.or("comment", g.comment)
		}
		return err
	})
}

func deleteGroup(k *call) (any, error) {
	return nil, k.writeUsers("delete group failed", func() error {
		if _, err := k.group(); err != nil {
			return err
		}
		name := k.in["groupid"]
		delete(k.c.access.groups, name)
		for _, u := range k.c.access.users {
			delete(u.groups, name)
		}
		k.c.access.forget(func(who string) bool { return who == "@"+name })
		return nil
	})
}
