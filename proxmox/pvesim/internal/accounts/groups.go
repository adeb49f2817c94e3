package accounts

import (
	"fmt"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

func listGroups(k *call) (any, error) {
	list := []map[string]any{}
	for _, name := range world.Sorted(k.World.Access.Groups) {
		if !k.World.Access.MayAny(k.Who, "/access/groups/"+name, "User.Modify", "Sys.Audit", "Group.Allocate") {
			continue
		}
		g := map[string]any{"groupid": name, "users": strings.Join(k.World.Access.Members(name), ",")}
		if comment := k.World.Access.Groups[name].Comment; comment != "" {
			g["comment"] = comment
		}
		list = append(list, g)
	}
	return list, nil
}

func (k *call) group() (*access.Group, error) {
	g := k.World.Access.Groups[k.In["groupid"]]
	if g == nil {
		return nil, fmt.Errorf("group '%s' does not exist", k.In["groupid"])
	}
	return g, nil
}

func getGroup(k *call) (any, error) {
	g, err := k.group()
	if err != nil {
		return nil, err
	}
	answer := map[string]any{"members": k.World.Access.Members(k.In["groupid"])}
	if g.Comment != "" {
		answer["comment"] = g.Comment
	}
	return answer, nil
}

func createGroup(k *call) (any, error) {
	name := k.In["groupid"]
	return nil, k.WriteUsers("create group failed", func() error {
		if k.World.Access.Groups[name] != nil {
			return fmt.Errorf("group '%s' already exists", name)
		}
		k.World.Access.Groups[name] = &access.Group{Comment: k.In["comment"]}
		return nil
	})
}

func changeGroup(k *call) (any, error) {
	return nil, k.WriteUsers("update group failed", func() error {
		g, err := k.group()
		if err == nil {
			g.Comment = k.In.Or("comment", g.Comment)
		}
		return err
	})
}

func deleteGroup(k *call) (any, error) {
	return nil, k.WriteUsers("delete group failed", func() error {
		if _, err := k.group(); err != nil {
			return err
		}
		name := k.In["groupid"]
		delete(k.World.Access.Groups, name)
		for _, u := range k.World.Access.Users {
			delete(u.Groups, name)
		}
		k.World.Access.Forget(func(who string) bool { return who == "@"+name })
		return nil
	})
}
