package pvesim

import (
	"fmt"
	"strconv"
	"strings"
)

// Pools have two sets of calls: the newer take the pool's name as a parameter, because it may have slashes in it.
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

// poolNamed is a pool that must be there.
func (c *Cluster) poolNamed(name string) (*pool, error) {
	if p := c.pools[name]; p != nil {
		return p, nil
	}
	return nil, fail("pool '%s' does not exist", name)
}

func listPools(k *call) (any, error) {
	if k.in.has("poolid") {
		if !k.c.may(k.who, "/pool/"+k.in["poolid"], "Pool.Audit") {
			return nil, denied("/pool/%s, Pool.Audit", k.in["poolid"])
		}
		p, err := getPool(k)
		if err != nil {
			return nil, err
		}
		return []any{p}, nil
	}
	list := []map[string]any{}
	for _, name := range sorted(k.c.pools) {
		if k.c.may(k.who, "/pool/"+name, "Pool.Audit") {
			list = append(list, k.c.pools[name].tell())
		}
	}
	return list, nil
}

func (p *pool) tell() map[string]any {
	answer := map[string]any{"poolid": p.name}
	if p.comment != "" {
		answer["comment"] = p.comment
	}
	return answer
}

// getPool tells a pool and those of its members that are there.
func getPool(k *call) (any, error) {
	p, err := k.c.poolNamed(k.in["poolid"])
	if err != nil {
		return nil, err
	}
	answer, members := p.tell(), []any{}
	if kind := k.in["type"]; kind == "" || kind == "qemu" {
		guests := k.c.guests(k.entry)
		for _, id := range sorted(p.vms) {
			if at, is := guests[id]; is {
				members = append(members, k.guestEntry(id, at, ""))
			}
		}
	}
	if kind := k.in["type"]; kind == "" || kind == "storage" {
		for _, name := range sorted(p.storages) {
			if s := k.c.storages[name]; s != nil {
				members = append(members, k.storageEntry(s, k.homeOf(s)))
			}
		}
	}
	answer["members"] = members
	return answer, nil
}

// homeOf is the host for which a pool tells a storage: the one that is asked, if it has the storage.
func (k *call) homeOf(s *storage) *host {
	for _, h := range append([]*host{k.entry}, k.c.hosts...) {
		if s.on(h) {
			return h
		}
	}
	return k.entry
}

func createPool(k *call) (any, error) {
	return nil, k.writeUsers("create pool failed", func() error {
		name := k.in["poolid"]
		if k.c.pools[name] != nil {
			return fmt.Errorf("pool '%s' already exists", name)
		}
		if parent, _, nested := cutLast(name, "/"); nested && k.c.pools[parent] == nil {
			return fmt.Errorf("parent '%s' of pool '%s' does not exist", parent, name)
		}
		k.c.pools[name] = &pool{name: name, comment: k.in["comment"], vms: map[int]bool{}, storages: map[string]bool{}}
		return nil
	})
}

func deletePool(k *call) (any, error) {
	return nil, k.writeUsers("delete pool failed", func() error {
		p, err := k.c.poolNamed(k.in["poolid"])
		if err != nil {
			return err
		}
		for _, name := range sorted(k.c.pools) {
			if strings.HasPrefix(name, p.name+"/") {
				return fmt.Errorf("pool '%s' is not empty (contains pool '%s')", p.name, name)
			}
		}
		for _, id := range sorted(p.vms) {
			if k.c.vms[id] != nil {
				return fmt.Errorf("pool '%s' is not empty (contains VM %d)", p.name, id)
			}
		}
		for _, name := range sorted(p.storages) {
			if k.c.storages[name] != nil {
				return fmt.Errorf("pool '%s' is not empty (contains storage '%s')", p.name, name)
			}
		}
		delete(k.c.pools, p.name)
		delete(k.c.access.acl, "/pool/"+p.name)
		return nil
	})
}

// changePool changes all that a call asks for, or nothing.
func changePool(k *call) (any, error) {
	return nil, k.writeUsers("update pools failed", func() error {
		p, err := k.c.poolNamed(k.in["poolid"])
		if err != nil {
			return err
		}
		var changes []func()
		for _, text := range k.in.list("vms") {
			id, _ := strconv.Atoi(text)
			change, err := k.changeMember(p, id)
			if err != nil {
				return err
			}
			changes = append(changes, change)
		}
		for _, name := range k.in.list("storage") {
			change, err := k.changeStorage(p, name)
			if err != nil {
				return err
			}
			changes = append(changes, change)
		}
		p.comment = k.in.or("comment", p.comment)
		for _, change := range changes {
			change()
		}
		return nil
	})
}

// changeMember is how a virtual machine comes into a pool or leaves it; it need not be there.
func (k *call) changeMember(p *pool, id int) (func(), error) {
	path := fmt.Sprintf("/vms/%d", id)
	if !k.who.isRoot() && !k.c.mayModify(k.who, path) {
		return nil, denied("%s, %s", path, strings.Join(modifiers(path), "|"))
	}
	if k.in.is("delete") {
		if !p.vms[id] {
			return nil, fmt.Errorf("VM %d is not a pool member", id)
		}
		return func() { delete(p.vms, id) }, nil
	}
	if p.vms[id] {
		return nil, fmt.Errorf("VM %d is already a pool member", id)
	}
	before := k.c.poolOf(id)
	switch {
	case before == nil:
		return func() { p.vms[id] = true }, nil
	case !k.in.is("allow-move"):
		return nil, fmt.Errorf("VM %d belongs already to pool '%s' and 'allow-move' is not set", id, before.name)
	case !k.who.isRoot() && !k.c.may(k.who, "/pool/"+before.name, "Pool.Allocate"):
		return nil, denied("/pool/%s, Pool.Allocate", before.name)
	}
	return func() { delete(before.vms, id); p.vms[id] = true }, nil
}

// poolOf is the pool that a virtual machine is in.
func (c *Cluster) poolOf(id int) *pool {
	for _, p := range c.pools {
		if p.vms[id] {
			return p
		}
	}
	return nil
}

func (k *call) changeStorage(p *pool, name string) (func(), error) {
	path := "/storage/" + name
	if !k.who.isRoot() && !k.c.mayModify(k.who, path) {
		return nil, denied("%s, %s", path, strings.Join(modifiers(path), "|"))
	}
	switch {
	case k.in.is("delete") && !p.storages[name]:
		return nil, fail("Storage '%s' is not a pool member", name)
	case k.in.is("delete"):
		return func() { delete(p.storages, name) }, nil
	case p.storages[name]:
		return nil, fail("Storage '%s' is already a pool member", name)
	}
	return func() { p.storages[name] = true }, nil
}
