package pvesim

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/timing"
)

// report is what pvestatd of a host tells all hosts about itself, every ten seconds. It is saved as
// it is.
type report struct {
	At       time.Time              `json:"at"`
	Node     nodeReport             `json:"node"`
	Guests   map[int]guestReport    `json:"guests"`
	Storages map[string]spaceReport `json:"storages"`
}

type nodeReport struct {
	Uptime  int64   `json:"uptime"`
	CPU     float64 `json:"cpu"`
	MaxCPU  int     `json:"maxcpu"`
	Mem     int64   `json:"mem"`
	MaxMem  int64   `json:"maxmem"`
	Disk    int64   `json:"disk"` // of the root file system
	MaxDisk int64   `json:"maxdisk"`
}

type guestReport struct {
	At       time.Time `json:"at"`
	Name     string    `json:"name"`
	Status   string    `json:"status"`
	Template bool      `json:"template"`
	Uptime   int64     `json:"uptime"`
	CPU      float64   `json:"cpu"`
	MaxCPU   int       `json:"maxcpu"`
	Mem      int64     `json:"mem"`
	MaxMem   int64     `json:"maxmem"`
	MaxDisk  int64     `json:"maxdisk"`
}

type spaceReport struct {
	Used  int64 `json:"used"`
	Total int64 `json:"total"`
}

// reports is what hosts know of each other.
type reports struct{ c *Cluster }

// begin lets everybody have heard from everybody, for the cluster has been running for a day.
func (rs *reports) begin() {
	rs.c.agree()
	for _, h := range rs.c.hosts {
		phase := timing.Range{Min: broadcastEvery / 10, Max: broadcastEvery}.Draw(rs.c.rng("pvestatd " + h.Name))
		h.tells = rs.c.Clock.Add(phase)
		rs.broadcast(h)
	}
	for _, h := range rs.c.hosts {
		rs.goOn(h)
	}
}

// goOn starts what goes on on a host by itself: pvestatd, which says how it is doing.
func (rs *reports) goOn(h *host) {
	rs.c.Start(func(p *engine.Process) {
		for {
			p.Sleep(h.tells.Sub(rs.c.Clock))
			h.tells = rs.c.Clock.Add(broadcastEvery)
			if h.up && rs.c.faults.Active("freeze resources", "on", h.Name) == nil {
				rs.broadcast(h)
			}
		}
	})
}

// broadcast lets a host tell all that it reaches how it is doing.
func (rs *reports) broadcast(h *host) {
	r := rs.report(h)
	for _, other := range rs.c.hosts {
		if h.reaches(other) {
			other.heard[h] = r
		}
	}
}

// last is what a host was told last by another, unless that is too long ago to count.
func (rs *reports) last(h, by *host) *report {
	if r := h.heard[by]; r != nil && rs.c.Clock.Sub(r.At) <= broadcastExpires {
		return r
	}
	return nil
}

func (rs *reports) report(h *host) *report {
	r := &report{At: rs.c.Clock, Guests: rs.guestsOn(h), Storages: map[string]spaceReport{}}
	r.Node = rs.nodeNumbers(h, r.Guests)
	for name, s := range rs.c.storages {
		if s.on(h) && !s.disabled() {
			r.Storages[name] = spaceReport{s.used(h), s.Total}
		}
	}
	return r
}

// guestsOn are the numbers of a host's virtual machines.
func (rs *reports) guestsOn(h *host) map[int]guestReport {
	all := map[int]guestReport{}
	for id, m := range rs.c.vms {
		if m.host == h {
			all[id] = rs.guestNumbers(m)
		}
	}
	return all
}

// nodeNumbers are a host's own. What its virtual machines use counts as used.
func (rs *reports) nodeNumbers(h *host, guests map[int]guestReport) nodeReport {
	n := nodeReport{
		Uptime: seconds(rs.c.Clock.Sub(h.since)), CPU: idleCPU, MaxCPU: h.CPUs, Mem: hostMemory, MaxMem: h.Memory, Disk: rootUsed, MaxDisk: rs.rootSize(),
	}
	for _, id := range sorted(guests) { // for sums of fractions depend on their order
		g := guests[id]
		n.Mem += g.Mem
		n.CPU += g.CPU * float64(g.MaxCPU) / float64(h.CPUs)
	}
	n.CPU, n.Mem = min(n.CPU, 1), min(n.Mem, n.MaxMem)
	return n
}

// What a host has and uses besides its virtual machines.
const (
	hostMemory = 2 << 30
	rootUsed   = 8 << 30
	idleCPU    = 0.01
)

// rootSize is what a host's root file system has: the storage local, if there is one, is a folder
// of it.
func (rs *reports) rootSize() int64 {
	if s := rs.c.storages["local"]; s != nil {
		return s.Total
	}
	return 256 << 30
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }

// guestNumbers are a virtual machine's own.
func (rs *reports) guestNumbers(m *vm) guestReport {
	g := guestReport{
		At: rs.c.Clock, Name: m.name(), Status: "stopped", Template: m.Template(), MaxCPU: vmconf.CPUsOf(m.Conf), MaxMem: vmconf.MemoryOf(m.Conf) << 20,
		MaxDisk: vmconf.SizeOf(m.Conf[vmconf.BootDrive(m.Conf)]),
	}
	if m.running() {
		g.Status, g.Uptime = "running", seconds(rs.c.Clock.Sub(m.since))
		g.CPU, g.Mem = m.usage()
	}
	return g
}

// getResources lists what there is in the cluster, as the host that is asked knows it: which
// virtual machines there are and where, at once, and how they are doing, as their hosts have told.
// What somebody may not see is omitted, without a word.
func getResources(k *call) (any, error) {
	all := []any{}
	wanted := func(kind string) bool { return !k.in.Has("type") || k.in["type"] == kind }
	if !k.in.Has("type") {
		all = append(all, view{k}.poolEntries()...)
	}
	if wanted("vm") {
		all = append(all, view{k}.guestEntries()...)
	}
	if wanted("node") {
		for _, h := range k.c.hosts {
			e := view{k}.nodeEntry(h)
			e["cgroup-mode"] = 2
			if k.c.maintained(h) {
				e["hastate"] = "maintenance"
			}
			all = append(all, e)
		}
	}
	if wanted("storage") {
		all = append(all, view{k}.storageEntries()...)
	}
	if wanted("sdn") && k.c.access.May(k.who, "/sdn/zones/localnetwork", "SDN.Audit") {
		for _, h := range k.c.hosts {
			all = append(all, view{k}.zoneEntry(h))
		}
	}
	return all, nil
}

// view is what a caller is shown of the cluster by the host that is asked.
type view struct{ *call }

func (k view) poolEntries() []any {
	var all []any
	for _, name := range sorted(k.c.access.Pools) {
		if k.c.access.May(k.who, "/pool/"+name, "Pool.Audit") {
			all = append(all, map[string]any{"id": "/pool/" + name, "pool": name, "type": "pool"})
		}
	}
	return all
}

func (k view) guestEntries() []any {
	pools := map[int]string{}
	for _, name := range sorted(k.c.access.Pools) {
		if k.c.access.May(k.who, "/pool/"+name, "Pool.Audit") {
			for id := range k.c.access.Pools[name].Vms {
				pools[id] = name
			}
		}
	}
	var all []any
	guests := k.c.guests(k.entry)
	for _, id := range sorted(guests) {
		if k.c.access.May(k.who, vmPath(id), "VM.Audit") {
			all = append(all, k.guestEntry(id, guests[id], pools[id]))
		}
	}
	return all
}

func (k view) guestEntry(id int, at guestPlace, pool string) json.RawMessage {
	g, told := k.told(id, at.host)
	var o object
	if told {
		o.fraction("cpu", g.CPU)
		o.whole("disk", 0)
		o.whole("diskread", 0)
		o.whole("diskwrite", 0)
	}
	o.unlessEmpty("hastate", k.c.ha.state(id))
	o.text("id", "qemu/"+strconv.Itoa(id))
	o.unlessEmpty("lock", at.lock)
	if told {
		k.guestSizes(&o, &g)
		o.text("name", g.Name)
		o.whole("netin", 0)
		o.whole("netout", 0)
	}
	o.text("node", at.host.Name)
	o.unlessEmpty("pool", pool)
	o.text("status", cmp.Or(g.Status, "unknown"))
	o.unlessEmpty("tags", at.tags)
	if told {
		o.whole("template", int64(number(g.Template)))
	}
	o.text("type", "qemu")
	if told {
		o.whole("uptime", g.Uptime)
	}
	o.whole("vmid", int64(id))
	return o.end()
}

func (k view) guestSizes(o *object, g *guestReport) {
	o.whole("maxcpu", int64(g.MaxCPU))
	o.whole("maxdisk", g.MaxDisk)
	o.whole("maxmem", g.MaxMem)
	o.whole("mem", g.Mem)
	if k.c.since("9.0") {
		o.whole("memhost", g.Mem)
	}
}

// told is what was told last of a virtual machine, by whichever host: after a migration, the old
// one may have been the last to speak of it.
func (k view) told(id int, at *host) (guestReport, bool) {
	var g guestReport
	var newest time.Time
	told := false
	for _, h := range append([]*host{at}, k.c.hosts...) {
		r := k.c.last(k.entry, h)
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
	for _, name := range sorted(k.c.storages) {
		s := k.c.storages[name]
		if !k.c.access.May(k.who, "/storage/"+name, "Datastore.Audit") {
			continue
		}
		for _, h := range k.c.hosts {
			if !s.on(h) || s.disabled() {
				continue
			}
			all = append(all, k.storageEntry(s, h))
		}
	}
	return all
}

func (k view) storageEntry(s *storage, h *host) json.RawMessage {
	var space spaceReport
	told := false
	if r := k.c.last(k.entry, h); r != nil {
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
	o.whole("shared", int64(number(s.Shared)))
	o.text("status", map[bool]string{false: "unknown", true: "available"}[told])
	o.text("storage", s.Name)
	o.text("type", "storage")
	return o.end()
}

// zoneEntry is the network zone that every host has.
func (k view) zoneEntry(h *host) map[string]any {
	if !k.c.since("9.0") {
		return map[string]any{"id": "sdn/" + h.Name + "/localnetwork", "sdn": "localnetwork", "node": h.Name, "type": "sdn", "status": "ok"}
	}
	return map[string]any{
		"id": "network/" + h.Name + "/zone/localnetwork", "network": "localnetwork", "network-type": "zone", "node": h.Name,
		"type": "network", "status": "ok",
	}
}
