package pvesim

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// Pools have two sets of calls: the newer take the pool's name as a parameter, because it may have
// slashes in it.
var poolEndpoints = []endpoint{
	{method: "GET", path: "/pools", may: anybody, do: listPools, in: `poolid?:poolid type?:enum(qemu,lxc,storage)&poolid`},
	{method: "POST", path: "/pools", may: allocatePool, protected: true, do: createPool, in: `poolid:poolid comment?:str`},
	{method: "PUT", path: "/pools", may: allocatePool, protected: true, do: changePool, in: `poolid:poolid` + aboutPool},
	{method: "DELETE", path: "/pools", may: allocatePool, protected: true, do: deletePool, in: `poolid:poolid`},
	{method: "GET", path: "/pools/{poolid}", may: may("/pool/{poolid}", "Pool.Audit"), do: getPool, in: `type?:enum(qemu,lxc,storage)`},
	{method: "PUT", path: "/pools/{poolid}", may: allocatePool, protected: true, do: changePool, in: aboutPool},
	{method: "DELETE", path: "/pools/{poolid}", may: allocatePool, protected: true, do: deletePool},
}

var allocatePool = may("/pool/{poolid}", "Pool.Allocate")

const aboutPool = ` comment?:str vms?:vmid-list storage?:storage-id-list delete?:bool allow-move?:bool`

func listPools(k *call) (any, error) {
	if k.in.Has("poolid") {
		if !k.World.Access.May(k.Who, "/pool/"+k.in["poolid"], "Pool.Audit") {
			return nil, failure.Denied("/pool/%s, Pool.Audit", k.in["poolid"])
		}
		p, err := getPool(k)
		if err != nil {
			return nil, err
		}
		return []any{p}, nil
	}
	list := []map[string]any{}
	for _, name := range world.Sorted(k.World.Access.Pools) {
		if k.World.Access.May(k.Who, "/pool/"+name, "Pool.Audit") {
			list = append(list, tellPool(k.World.Access.Pools[name]))
		}
	}
	return list, nil
}

func tellPool(p *access.Pool) map[string]any {
	answer := map[string]any{"poolid": p.Name}
	if p.Comment != "" {
		answer["comment"] = p.Comment
	}
	return answer
}

// getPool tells a pool and those of its members that are there.
func getPool(k *call) (any, error) {
	p, err := k.World.Access.PoolNamed(k.in["poolid"])
	if err != nil {
		return nil, err
	}
	answer, members := tellPool(p), []any{}
	if kind := k.in["type"]; kind == "" || kind == "qemu" {
		guests := k.World.Guests(k.entry)
		for _, id := range world.Sorted(p.Vms) {
			if at, is := guests[id]; is {
				members = append(members, view{k}.guestEntry(id, at, ""))
			}
		}
	}
	if kind := k.in["type"]; kind == "" || kind == "storage" {
		for _, name := range world.Sorted(p.Storages) {
			if s := k.World.Storages[name]; s != nil {
				members = append(members, view{k}.storageEntry(s, view{k}.homeOf(s)))
			}
		}
	}
	answer["members"] = members
	return answer, nil
}

// homeOf is the host for which a pool tells a storage: the one that is asked, if it has the
// storage.
func (k view) homeOf(s *world.Store) *world.Node {
	for _, h := range append([]*world.Node{k.entry}, k.World.Nodes...) {
		if s.On(h) {
			return h
		}
	}
	return k.entry
}

func createPool(k *call) (any, error) {
	return nil, k.writeUsers("create pool failed", func() error {
		name := k.in["poolid"]
		if k.World.Access.Pools[name] != nil {
			return fmt.Errorf("pool '%s' already exists", name)
		}
		if parent, _, nested := cutLast(name, "/"); nested && k.World.Access.Pools[parent] == nil {
			return fmt.Errorf("parent '%s' of pool '%s' does not exist", parent, name)
		}
		k.World.Access.Pools[name] = access.NewPool(name, k.in["comment"])
		return nil
	})
}

func deletePool(k *call) (any, error) {
	return nil, k.writeUsers("delete pool failed", func() error {
		p, err := k.World.Access.PoolNamed(k.in["poolid"])
		if err != nil {
			return err
		}
		for _, name := range world.Sorted(k.World.Access.Pools) {
			if strings.HasPrefix(name, p.Name+"/") {
				return fmt.Errorf("pool '%s' is not empty (contains pool '%s')", p.Name, name)
			}
		}
		for _, id := range world.Sorted(p.Vms) {
			if k.World.VMs[id] != nil {
				return fmt.Errorf("pool '%s' is not empty (contains VM %d)", p.Name, id)
			}
		}
		for _, name := range world.Sorted(p.Storages) {
			if k.World.Storages[name] != nil {
				return fmt.Errorf("pool '%s' is not empty (contains storage '%s')", p.Name, name)
			}
		}
		delete(k.World.Access.Pools, p.Name)
		delete(k.World.Access.ACL, "/pool/"+p.Name)
		return nil
	})
}

// changePool changes all that a call asks for, or nothing.
func changePool(k *call) (any, error) {
	return nil, k.writeUsers("update pools failed", func() error {
		p, err := k.World.Access.PoolNamed(k.in["poolid"])
		if err != nil {
			return err
		}
		var changes []func()
		for _, text := range k.in.List("vms") {
			id, _ := strconv.Atoi(text)
			change, err := k.changeMember(p, id)
			if err != nil {
				return err
			}
			changes = append(changes, change)
		}
		for _, name := range k.in.List("storage") {
			change, err := k.changeStorage(p, name)
			if err != nil {
				return err
			}
			changes = append(changes, change)
		}
		p.Comment = k.in.Or("comment", p.Comment)
		for _, change := range changes {
			change()
		}
		return nil
	})
}

// changeMember is how a virtual machine comes into a pool or leaves it; it need not be there.
func (k *call) changeMember(p *access.Pool, id int) (func(), error) {
	path := fmt.Sprintf("/vms/%d", id)
	if !k.Who.IsRoot() && !k.World.Access.MayModify(k.Who, path) {
		return nil, failure.Denied("%s, %s", path, strings.Join(access.Modifiers(path), "|"))
	}
	if k.in.Is("delete") {
		if !p.Vms[id] {
			return nil, fmt.Errorf("VM %d is not a pool member", id)
		}
		return func() { delete(p.Vms, id) }, nil
	}
	if p.Vms[id] {
		return nil, fmt.Errorf("VM %d is already a pool member", id)
	}
	before := k.World.Access.PoolOf(id)
	switch {
	case before == nil:
		return func() { p.Vms[id] = true }, nil
	case !k.in.Is("allow-move"):
		return nil, fmt.Errorf("VM %d belongs already to pool '%s' and 'allow-move' is not set", id, before.Name)
	case !k.Who.IsRoot() && !k.World.Access.May(k.Who, "/pool/"+before.Name, "Pool.Allocate"):
		return nil, failure.Denied("/pool/%s, Pool.Allocate", before.Name)
	}
	return func() { delete(before.Vms, id); p.Vms[id] = true }, nil
}

func (k *call) changeStorage(p *access.Pool, name string) (func(), error) {
	path := "/storage/" + name
	if !k.Who.IsRoot() && !k.World.Access.MayModify(k.Who, path) {
		return nil, failure.Denied("%s, %s", path, strings.Join(access.Modifiers(path), "|"))
	}
	switch {
	case k.in.Is("delete") && !p.Storages[name]:
		return nil, failure.New("Storage '%s' is not a pool member", name)
	case k.in.Is("delete"):
		return func() { delete(p.Storages, name) }, nil
	case p.Storages[name]:
		return nil, failure.New("Storage '%s' is already a pool member", name)
	}
	return func() { p.Storages[name] = true }, nil
}
