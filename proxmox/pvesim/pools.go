package pvesim

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/api"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// Pools have two sets of calls: the newer take the pool's name as a parameter, because it may have
// slashes in it.
var poolEndpoints = []api.Endpoint{
	{Method: "GET", Path: "/pools", May: api.Anybody, Do: listPools, In: `poolid?:poolid type?:enum(qemu,lxc,storage)&poolid`},
	{Method: "POST", Path: "/pools", May: allocatePool, Protected: true, Do: createPool, In: `poolid:poolid comment?:str`},
	{Method: "PUT", Path: "/pools", May: allocatePool, Protected: true, Do: changePool, In: `poolid:poolid` + aboutPool},
	{Method: "DELETE", Path: "/pools", May: allocatePool, Protected: true, Do: deletePool, In: `poolid:poolid`},
	{Method: "GET", Path: "/pools/{poolid}", May: api.May("/pool/{poolid}", "Pool.Audit"), Do: getPool, In: `type?:enum(qemu,lxc,storage)`},
	{Method: "PUT", Path: "/pools/{poolid}", May: allocatePool, Protected: true, Do: changePool, In: aboutPool},
	{Method: "DELETE", Path: "/pools/{poolid}", May: allocatePool, Protected: true, Do: deletePool},
}

var allocatePool = api.May("/pool/{poolid}", "Pool.Allocate")

const aboutPool = ` comment?:str vms?:vmid-list storage?:storage-id-list delete?:bool allow-move?:bool`

func listPools(k *api.Call) (any, error) {
	if k.In.Has("poolid") {
		if !k.World.Access.May(k.Who, "/pool/"+k.In["poolid"], "Pool.Audit") {
			return nil, failure.Denied("/pool/%s, Pool.Audit", k.In["poolid"])
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

// getPool shows a pool and those of its members that are there.
func getPool(k *api.Call) (any, error) {
	p, err := k.World.Access.PoolNamed(k.In["poolid"])
	if err != nil {
		return nil, err
	}
	answer, members := tellPool(p), []any{}
	if kind := k.In["type"]; kind == "" || kind == "qemu" {
		guests := k.World.Guests(k.Entry)
		for _, id := range world.Sorted(p.Vms) {
			if at, is := guests[id]; is {
				members = append(members, view{k}.guestEntry(id, at, ""))
			}
		}
	}
	if kind := k.In["type"]; kind == "" || kind == "storage" {
		for _, name := range world.Sorted(p.Storages) {
			if s := k.World.Storages[name]; s != nil {
				members = append(members, view{k}.storageEntry(s, view{k}.homeOf(s)))
			}
		}
	}
	answer["members"] = members
	return answer, nil
}

// homeOf is the host for which a pool lists a storage: the one that is asked, if it has the
// storage.
func (k view) homeOf(s *world.Store) *world.Node {
	for _, h := range append([]*world.Node{k.Entry}, k.World.Nodes...) {
		if s.On(h) {
			return h
		}
	}
	return k.Entry
}

func createPool(k *api.Call) (any, error) {
	return nil, k.WriteUsers("create pool failed", func() error {
		name := k.In["poolid"]
		if k.World.Access.Pools[name] != nil {
			return fmt.Errorf("pool '%s' already exists", name)
		}
		if parent, _, nested := api.CutLast(name, "/"); nested && k.World.Access.Pools[parent] == nil {
			return fmt.Errorf("parent '%s' of pool '%s' does not exist", parent, name)
		}
		k.World.Access.Pools[name] = access.NewPool(name, k.In["comment"])
		return nil
	})
}

func deletePool(k *api.Call) (any, error) {
	return nil, k.WriteUsers("delete pool failed", func() error {
		p, err := k.World.Access.PoolNamed(k.In["poolid"])
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
func changePool(k *api.Call) (any, error) {
	return nil, k.WriteUsers("update pools failed", func() error {
		p, err := k.World.Access.PoolNamed(k.In["poolid"])
		if err != nil {
			return err
		}
		var changes []func()
		for _, text := range k.In.List("vms") {
			id, _ := strconv.Atoi(text)
			change, err := changeMember(k, p, id)
			if err != nil {
				return err
			}
			changes = append(changes, change)
		}
		for _, name := range k.In.List("storage") {
			change, err := changePoolStorage(k, p, name)
			if err != nil {
				return err
			}
			changes = append(changes, change)
		}
		p.Comment = k.In.Or("comment", p.Comment)
		for _, change := range changes {
			change()
		}
		return nil
	})
}

// changeMember is how a virtual machine comes into a pool or leaves it; it need not be there.
func changeMember(k *api.Call, p *access.Pool, id int) (func(), error) {
	path := fmt.Sprintf("/vms/%d", id)
	if !k.Who.IsRoot() && !k.World.Access.MayModify(k.Who, path) {
		return nil, failure.Denied("%s, %s", path, strings.Join(access.Modifiers(path), "|"))
	}
	if k.In.Is("delete") {
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
	case !k.In.Is("allow-move"):
		return nil, fmt.Errorf("VM %d belongs already to pool '%s' and 'allow-move' is not set", id, before.Name)
	case !k.Who.IsRoot() && !k.World.Access.May(k.Who, "/pool/"+before.Name, "Pool.Allocate"):
		return nil, failure.Denied("/pool/%s, Pool.Allocate", before.Name)
	}
	return func() { delete(before.Vms, id); p.Vms[id] = true }, nil
}

func changePoolStorage(k *api.Call, p *access.Pool, name string) (func(), error) {
	path := "/storage/" + name
	if !k.Who.IsRoot() && !k.World.Access.MayModify(k.Who, path) {
		return nil, failure.Denied("%s, %s", path, strings.Join(access.Modifiers(path), "|"))
	}
	switch {
	case k.In.Is("delete") && !p.Storages[name]:
		return nil, failure.New("Storage '%s' is not a pool member", name)
	case k.In.Is("delete"):
		return func() { delete(p.Storages, name) }, nil
	case p.Storages[name]:
		return nil, failure.New("Storage '%s' is already a pool member", name)
	}
	return func() { p.Storages[name] = true }, nil
}
