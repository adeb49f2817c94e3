package pvesim

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/api"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// getResources lists what there is in the cluster, as the host that is asked knows it: which
// virtual machines there are and where, at once, and how they are doing, as their hosts have
// reported. What the caller may not see is omitted, without a word.
func getResources(k *api.Call) (any, error) {
	all := []any{}
	wanted := func(kind string) bool { return !k.In.Has("type") || k.In["type"] == kind }
	if !k.In.Has("type") {
		all = append(all, view{k}.poolEntries()...)
	}
	if wanted("vm") {
		all = append(all, view{k}.guestEntries()...)
	}
	if wanted("node") {
		for _, h := range k.World.Nodes {
			e := view{k}.nodeEntry(h)
			e["cgroup-mode"] = 2
			if k.World.Maintained(h) {
				e["hastate"] = "maintenance"
			}
			all = append(all, e)
		}
	}
	if wanted("storage") {
		all = append(all, view{k}.storageEntries()...)
	}
	if wanted("sdn") {
		all = append(all, view{k}.zoneEntries()...)
	}
	return all, nil
}

// view is what a caller is shown of the cluster by the host that is asked.
type view struct{ *api.Call }

func (k view) poolEntries() []any {
	var all []any
	for _, name := range world.Sorted(k.World.Access.Pools) {
		if k.World.Access.May(k.Who, "/pool/"+name, "Pool.Audit") {
			all = append(all, map[string]any{"id": "/pool/" + name, "pool": name, "type": "pool"})
		}
	}
	return all
}

func (k view) guestEntries() []any {
	pools := map[int]string{}
	for _, name := range world.Sorted(k.World.Access.Pools) {
		if k.World.Access.May(k.Who, "/pool/"+name, "Pool.Audit") {
			for id := range k.World.Access.Pools[name].Vms {
				pools[id] = name
			}
		}
	}
	var all []any
	guests := k.World.Guests(k.Entry)
	for _, id := range world.Sorted(guests) {
		if k.World.Access.May(k.Who, world.VMPath(id), "VM.Audit") {
			all = append(all, k.guestEntry(id, guests[id], pools[id]))
		}
	}
	return all
}

func (k view) guestEntry(id int, at world.GuestPlace, pool string) json.RawMessage {
	g, told := k.told(id, at.Host)
	var o object
	if told {
		o.fraction("cpu", g.CPU)
		o.whole("disk", 0)
		o.whole("diskread", 0)
		o.whole("diskwrite", 0)
	}
	o.unlessEmpty("hastate", k.World.HA.State(id))
	o.text("id", "qemu/"+strconv.Itoa(id))
	o.unlessEmpty("lock", at.Lock)
	if told {
		k.guestSizes(&o, &g)
		o.text("name", g.Name)
		o.whole("netin", 0)
		o.whole("netout", 0)
	}
	o.text("node", at.Host.Name)
	o.unlessEmpty("pool", pool)
	o.text("status", cmp.Or(g.Status, "unknown"))
	o.unlessEmpty("tags", at.Tags)
	if told {
		o.whole("template", int64(world.Number(g.Template)))
	}
	o.text("type", "qemu")
	if told {
		o.whole("uptime", g.Uptime)
	}
	o.whole("vmid", int64(id))
	return o.end()
}

func (k view) guestSizes(o *object, g *world.GuestReport) {
	o.whole("maxcpu", int64(g.MaxCPU))
	o.whole("maxdisk", g.MaxDisk)
	o.whole("maxmem", g.MaxMem)
	o.whole("mem", g.Mem)
	if k.World.Since("9.0") {
		o.whole("memhost", g.Mem)
	}
}

// told is what was last reported of a virtual machine, by any host: after a migration, the old one
// may have been the last to report it.
func (k view) told(id int, at *world.Node) (world.GuestReport, bool) {
	var g world.GuestReport
	var newest time.Time
	told := false
	for _, h := range append([]*world.Node{at}, k.World.Nodes...) {
		r := k.World.Last(k.Entry, h)
		if r == nil || !r.At.After(newest) {
			continue
		}
		if of, is := r.Guests[id]; is {
			g, newest, told = of, r.At, true
		}
	}
	return g, told
}

func (k view) storageEntries() []any {
	var all []any
	for _, name := range world.Sorted(k.World.Storages) {
		s := k.World.Storages[name]
		if !k.World.Access.May(k.Who, "/storage/"+name, "Datastore.Audit") {
			continue
		}
		for _, h := range k.World.Nodes {
			if !s.On(h) || s.Disabled() {
				continue
			}
			all = append(all, k.storageEntry(s, h))
		}
	}
	return all
}

func (k view) storageEntry(s *world.Store, h *world.Node) json.RawMessage {
	var space world.SpaceReport
	told := false
	if r := k.World.Last(k.Entry, h); r != nil {
		space, told = r.Storages[s.Name]
	}
	var o object
	o.text("content", strings.Join(s.Content, ","))
	if told {
		o.whole("disk", space.Used)
	}
	o.text("id", "storage/"+h.Name+"/"+s.Name)
	if told {
		o.whole("maxdisk", space.Total)
	}
	o.text("node", h.Name)
	o.text("plugintype", s.Type)
	o.whole("shared", int64(world.Number(s.Shared)))
	o.text("status", map[bool]string{false: "unknown", true: "available"}[told])
	o.text("storage", s.Name)
	o.text("type", "storage")
	return o.end()
}

// zoneEntries are the zones of the hosts' networks. Bridges are in one that every host has.
func (k view) zoneEntries() []any {
	var all []any
	for _, z := range append([]world.Zone{{Name: world.LocalNetwork}}, k.World.Config.Zones...) {
		if !k.World.Access.May(k.Who, world.ZonePath(z.Name), "SDN.Audit") {
			continue
		}
		for _, h := range k.World.Nodes {
			if z.On(h.Name) {
				all = append(all, k.zoneEntry(h, z.Name))
			}
		}
	}
	return all
}

func (k view) zoneEntry(h *world.Node, zone string) map[string]any {
	if !k.World.Since("9.0") {
		return map[string]any{"id": "sdn/" + h.Name + "/" + zone, "sdn": zone, "node": h.Name, "type": "sdn", "status": "ok"}
	}
	return map[string]any{
		"id": "network/" + h.Name + "/zone/" + zone, "network": zone, "network-type": "zone", "node": h.Name,
		"type": "network", "status": "ok",
	}
}
